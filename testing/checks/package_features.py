"""What the package can do with this TensorFlow and Keras. Its results must be right anyway."""

import contextlib
import pathlib
import warnings

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.framework import ops as tf_ops

import tf_rnn_ops
from checks.keras_layers import check_equal, randomize
from checks.op_definitions import ops_when_called
from tf_rnn_ops import _device_check, _library, layers

X = tf.constant(np.random.default_rng(0).standard_normal([2, 5, 3]), tf.float32)
# By kind, arguments of layers that run on the op KerasRNN, and on GRUBlockCell.
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
    """Compares the layers of a module with Keras's loop over the steps."""
    for kind, options in LAYERS.items():
        cell = make(getattr(keras.layers, f"{kind}Cell"), **options)
        ours = make(getattr(module, kind), **options)
        h = [tf.zeros([2, 4])] * (2 if kind == "LSTM" else 1)
        for x in tf.unstack(X, axis=1):
            y, h = cell(x, h)
        check_equal([ours(X)], [y], kind)
        gradients(ours)


def kernels(folder):
    is_known = bool(_library.kernel_dtypes("CPU"))
    # A check of no kernels must not pass.
    assert is_known == ("does not list its kernels" not in str(_device_check.why_not_possible("GPU:0")))
    return is_known


def vectorized_map(folder):
    layer, stacked = make(layers.LSTM), tf.stack([X, X])
    check_equal([tf.vectorized_map(layer, stacked)], [tf.stack([layer(X)] * 2)], "tf.vectorized_map")
    try:
        tf.vectorized_map(layer, stacked, fallback_to_while_loop=False)
    except ValueError:
        return False
    return True


def replaced_gradients(folder):
    """Whether TensorFlow's own BlockLSTMV2 gets our gradient."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tf_rnn_ops.enable_builtin_kernels(replace=True)
    return tf_ops.gradient_registry.lookup("BlockLSTMV2").__module__ == "tf_rnn_ops._gradients"


def flops(folder):
    with contextlib.suppress(LookupError):
        return tf_ops._stats_registry.lookup("TfRnnOps>KerasRNN,flops") is not None
    return False


def checkpoint(folder):
    layer = layers.CudnnLSTM(4, num_layers=2, dropout=0.5)
    layer.build(X.shape)
    path = tf.train.Checkpoint(layer=layer).write(f"{folder}/checkpoint")
    return any("seed_generator" in name for name, _ in tf.train.list_variables(path))


def unwanted_gradients(folder):
    layer = make(layers.LSTM)
    graph = tf.function(lambda: gradients(layer), autograph=False).get_concrete_function().graph
    return "_unwanted_outputs" in str(graph.as_graph_def())


def mask_of_inputs(folder):
    layer, states = layers.CudnnLSTM(4), [tf.zeros([2, 1, 4])] * 2
    mask = tf.sequence_mask([5, 2], 5)
    masked = keras.layers.Masking()(X * tf.cast(mask, tf.float32)[:, :, tf.newaxis])
    right = layer(masked, initial_state=states, mask=mask)
    return bool(np.allclose(layer(masked, initial_state=states), right))


def has_op(folder):
    return b"TfRnnOps>KerasRNN" in pathlib.Path(folder, "saved_model.pb").read_bytes()


def make_module():
    """Returns a module with a layer on the op, in a function that is already traced."""
    module = tf.Module()
    module.layer = make(layers.LSTM)
    module.serve = tf.function(module.layer, input_signature=[tf.TensorSpec([2, 5, 3])])
    module.serve(X)
    return module


def saved_without_op(folder):
    tf.saved_model.save(make_module(), folder)
    return not has_op(folder)


def exported_without_op(folder):
    keras.Sequential([keras.Input([5, 3]), make(layers.LSTM)]).export(folder, verbose=False)
    return not has_op(folder)


def packed_exports(folder):
    """Returns whether the op in an exported model packs its weights once."""
    model = keras.Sequential([keras.Input([5, 3]), make(keras.layers.LSTM)])
    with tf_rnn_ops.accelerate_keras(exports="int8"):
        model.export(folder, verbose=False)
    return b"_tf_rnn_ops_constant_weights" in pathlib.Path(folder, "saved_model.pb").read_bytes()


def freezing(folder):
    layer = make(layers.LSTM)
    try:
        serve = tf_rnn_ops.freeze(tf.function(layer).get_concrete_function(X))
    except RuntimeError:
        return False
    check_equal([serve(X)], [layer(X)], "frozen")
    return True


def nested_inputs_of_frozen_models(folder):
    inputs = {"x": keras.Input([5, 3], name="x")}
    model = keras.Model(inputs, make(layers.LSTM)(inputs["x"]))
    (arguments, _) = tf_rnn_ops.freeze(model).structured_input_signature
    return isinstance(arguments[0], dict)


def exported_if_strict(folder):
    """Returns whether a layer that would fall back is exported."""
    model = keras.Sequential([keras.Input([5, 3]), make(keras.layers.LSTM, activation="elu")])
    with tf_rnn_ops.accelerate_keras(strict=True):
        try:
            model.export(folder, verbose=False)
        except RuntimeError:
            return False
    return True


def saved_in_portable_scope(folder):
    module = make_module()
    with tf_rnn_ops.portable():
        assert not any("TfRnnOps>" in each for each in ops_when_called(lambda x: module.layer(x), X))
        try:
            tf.saved_model.save(module, folder)
        except ValueError:
            return False
    return True


def _is_dropped_by(kind, **options):
    """Returns whether a layer in training does not fall back to Keras, whose masks it must use in any case."""
    layer = make(layers.LSTM, **options)
    check_equal(gradients(layer, True), gradients(make(keras.layers.LSTM, **options), True), "dropout")
    return tf_rnn_ops.explain(layer)[0].training == kind


def dropout(folder):
    return _is_dropped_by("op", dropout=0.5)


def recurrent_dropout(folder):
    return _is_dropped_by("loop", recurrent_dropout=0.5)


def explanation_of_wrappers(folder):
    return len(tf_rnn_ops.explain(keras.layers.Bidirectional(keras.layers.LSTM(4)))) == 2


def explanation_of_mixed_precision(folder):
    layer = layers.LSTM(4, dtype="mixed_float16")
    layer.build(X.shape)
    return tf_rnn_ops.explain(layer)[0].inference == "op"


def acceleration(folder):
    try:
        with tf_rnn_ops.accelerate_keras():
            return "TfRnnOps>KerasRNN" in ops_when_called(make(keras.layers.LSTM), X)
    except RuntimeError:
        return False


def cell_in_a_graph(folder):
    cell, states = make(keras.layers.LSTMCell), [tf.zeros([1, 4])] * 2
    with tf_rnn_ops.accelerate_keras():
        return "TfRnnOps>KerasRNN" in ops_when_called(cell, X[:1, 0], states)


def steps_of_gru(folder):
    with tf_rnn_ops.accelerate_keras():
        return "TfRnnOps>GRUBlockCell" in ops_when_called(make(keras.layers.GRU, reset_after=False), X)


def kept_functions(folder):
    """Returns whether an acceleration keeps the functions of a model without cells."""
    model, inputs = keras.Sequential([keras.layers.Dense(1)]), tf.zeros([2, 1])
    model.compile(loss="mse", metrics=["mae"])
    model.evaluate(inputs, inputs, verbose=0)
    function = model.test_function
    with tf_rnn_ops.accelerate_keras():
        model.evaluate(inputs, inputs, verbose=0)
        return model.test_function is function


def forgotten_masks(folder):
    """Returns whether a call that is rejected keeps no masks."""
    rejected = make(keras.layers.LSTM, dropout=0.5, activation="elu")
    with tf_rnn_ops.accelerate_keras(strict=True):
        try:
            rejected(X, training=True)
        except RuntimeError:
            return rejected.cell._dropout_mask is None
    return False


def missing(folder, features):
    """Returns which features do not work, after a check of what must work anyway."""
    check_layers(layers)
    check_layers(keras.layers)
    tf_rnn_ops.restore_keras()
    return [each for each in features if not globals()[each](folder)]
