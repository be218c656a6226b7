"""The features of the package that need names of TensorFlow and Keras that are not public.

Without these names, a feature may be missing, but its calls work or raise the documented error, and results are right.
"""

import contextlib
import warnings

import keras
import numpy as np
import tensorflow as tf

import tf_rnn_ops
from checks.keras_layers import check_equal, randomize
from checks.op_definitions import ops_when_called
from tf_rnn_ops import _device_check, layers

X = tf.constant(np.random.default_rng(0).standard_normal([2, 5, 3]), tf.float32)
# By kind, arguments of layers that run on the op KerasRNN.
LAYERS = {"LSTM": {}, "GRU": {"reset_after": False}, "SimpleRNN": {}}


def make(kind, seed=0, **options):
    """Returns a layer with weights that depend only on their shapes."""
    layer = kind(4, seed=seed, **options)
    layer.build(X.shape)
    randomize(layer)
    return layer


def gradients(layer, training=False):
    """Returns the output of a layer and the gradients of its weights."""
    with tf.GradientTape() as tape:
        y = layer(X, training=training)
    return [y, *tape.gradient(y, [each.value for each in layer.trainable_variables])]


def check_layers(module):
    """Compares the layers of a module with Keras's loop over the steps, and their dropout with Keras's."""
    for kind, options in LAYERS.items():
        cell = make(getattr(keras.layers, f"{kind}Cell"), **options)
        ours = make(getattr(module, kind), **options)
        h = [tf.zeros([2, 4])] * (2 if kind == "LSTM" else 1)
        for x in tf.unstack(X, axis=1):
            y, h = cell(x, h)
        check_equal([ours(X)], [y], kind)
        gradients(ours)


def check_dropout():
    for options in ({"dropout": 0.5}, {"recurrent_dropout": 0.5}):
        tf_rnn_ops.restore_keras()
        expected = gradients(make(keras.layers.LSTM, **options), training=True)
        check_equal(gradients(make(layers.LSTM, **options), training=True), expected, "dropout")


def check_ops():
    layer = make(layers.LSTM)
    check_equal([tf.vectorized_map(layer, tf.stack([X, X]))], [tf.stack([layer(X)] * 2)], "tf.vectorized_map")
    graph = tf.function(lambda: gradients(layer), autograph=False).get_concrete_function()
    check_equal(graph(), gradients(layer), "gradients in a graph")
    _device_check.why_not_possible("GPU:0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tf_rnn_ops.enable_builtin_kernels(replace=True)


def check_cudnn_layer(folder):
    layer, mask = layers.CudnnLSTM(4, num_layers=2, dropout=0.5), tf.sequence_mask([5, 2], 5)
    masked = keras.layers.Masking()(X * tf.cast(mask, tf.float32)[:, :, tf.newaxis])
    layer(masked, initial_state=[tf.zeros([2, 2, 4])] * 2, mask=mask)
    tf.train.Checkpoint(layer=layer).write(f"{folder}/checkpoint")


def check_exports(folder):
    """Saves functions that are already traced, and freezes them."""
    module = tf.Module()
    module.layer = layer = make(layers.LSTM)
    module.serve = tf.function(layer, input_signature=[tf.TensorSpec([2, 5, 3])])
    expected = module.serve(X)
    for scope in (contextlib.nullcontext, tf_rnn_ops.portable):
        # Without names of TensorFlow, a model cannot be saved in a `portable` scope.
        with scope(), contextlib.suppress(ValueError):
            tf.saved_model.save(module, folder)
            loaded = tf.saved_model.load(folder)
            check_equal([loaded.serve(X)], [expected], "saved")
    with tf_rnn_ops.portable():
        ops_when_called(lambda x: layer(x), X)
    model = keras.Sequential([keras.Input([5, 3]), layer])
    model.export(folder, verbose=False)
    loaded = tf.saved_model.load(folder)
    check_equal([loaded.serve(X)], [expected], "exported")
    for freeze in (lambda: tf_rnn_ops.freeze(module.serve.get_concrete_function()), lambda: tf_rnn_ops.freeze(model)):
        with contextlib.suppress(RuntimeError):
            check_equal([freeze()(X)], [expected], "frozen")


def check_explanations():
    tf_rnn_ops.explain(keras.layers.Bidirectional(keras.layers.LSTM(4)))
    tf_rnn_ops.explain(make(layers.LSTM, dtype="mixed_float16"))


def check_acceleration():
    """Returns whether Keras can be accelerated."""
    model, y = keras.Sequential([make(keras.layers.LSTM), keras.layers.Dense(1)]), tf.zeros([2, 1])
    model.compile(loss="mse", metrics=["mae"])
    expected = tf.constant(model.evaluate(X, y, verbose=0))
    cell, states = make(keras.layers.LSTMCell), [tf.zeros([1, 4])] * 2
    of_cell = tf.function(cell)(X[:1, 0], states)[0]
    # Without the name that tells which graphs XLA compiles, all that it cannot compile fall back.
    strict = tf_rnn_ops._xla.why_not_loaded() is None
    try:
        acceleration = tf_rnn_ops.accelerate_keras(strict=strict)
    except RuntimeError:
        return False
    with acceleration:
        check_equal([tf.constant(model.evaluate(X, y, verbose=0))], [expected], "evaluate")
        check_equal([tf.function(cell)(X[:1, 0], states)[0]], [of_cell], "cell")
        rejected = make(keras.layers.LSTM, dropout=0.5, activation="softmax")
        with contextlib.suppress(RuntimeError):
            rejected(X, training=True)
            assert not strict, "not rejected"
    return True


def check(folder):
    """Runs all features and compares their results. Returns whether Keras can be accelerated."""
    check_layers(layers)
    check_layers(keras.layers)  # accelerated, if that is possible
    tf_rnn_ops.restore_keras()
    check_dropout()
    check_ops()
    check_cudnn_layer(folder)
    check_exports(folder)
    check_explanations()
    return check_acceleration()
