"""Helpers for tests of the Keras layers on the op."""

import importlib.util
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_rnn_ops
from checks import parity
from tf_rnn_ops import accelerate_keras

OURS = {"LSTM": tf_rnn_ops.layers.LSTM, "GRU": tf_rnn_ops.layers.GRU, "SimpleRNN": tf_rnn_ops.layers.SimpleRNN}
KERAS = {"LSTM": keras.layers.LSTM, "GRU": keras.layers.GRU, "SimpleRNN": keras.layers.SimpleRNN}
KINDS = tuple(OURS)
# Both Kerases, by package. Keras 2 is optional.
TF_KERAS = importlib.import_module("tf_keras") if importlib.util.find_spec("tf_keras") else None
needs_keras_2 = pytest.mark.skipif(TF_KERAS is None, reason="needs tf_keras")
KERASES = [keras, pytest.param(TF_KERAS, marks=needs_keras_2)]

# Before, a cell takes one dropout mask for all gates, and that of the state of a GRU also applies to the interpolation.
HAS_MASKS_OF_GATES = tuple(map(int, keras.__version__.split(".")[:2])) >= (3, 8)

BATCH, TIME, FEATURES, UNITS = 4, 6, 3, 5

needs_xla = pytest.mark.skipif(
    tf_rnn_ops._xla.why_not_loaded() is not None, reason=str(tf_rnn_ops._xla.why_not_loaded())
)

# Configurations of Keras layers that run on the op, also with a separate input mask for each gate, which Keras rejects
# with use_cudnn: kind and arguments.
CONFIGURATIONS = {
    "reset before": ("GRU", {"reset_after": False}),
    "reset before, relu": ("GRU", {"reset_after": False, "activation": "relu"}),
    "LSTM implementation=1": ("LSTM", {"implementation": 1, "use_cudnn": False}),
    "GRU implementation=1": ("GRU", {"implementation": 1, "use_cudnn": False}),
    "reset before, implementation=1": ("GRU", {"reset_after": False, "implementation": 1, "use_cudnn": False}),
    "LSTM recurrent dropout": ("LSTM", {"recurrent_dropout": 0.3}),
    "LSTM recurrent dropout, other activations": (
        "LSTM",
        {"recurrent_dropout": 0.3, "activation": "elu", "recurrent_activation": "hard_sigmoid"},
    ),
    "GRU recurrent dropout": ("GRU", {"recurrent_dropout": 0.3}),
    "reset before, recurrent dropout": ("GRU", {"reset_after": False, "recurrent_dropout": 0.3}),
    "SimpleRNN recurrent dropout": ("SimpleRNN", {"recurrent_dropout": 0.3}),
}

MASKS = {
    "right-padded": np.arange(TIME) < np.array([6, 3, 0, 1])[:, np.newaxis],
    "left-padded": np.arange(TIME) >= np.array([0, 3, 6, 5])[:, np.newaxis],
    "gaps": np.array([[1, 0, 1, 1, 0, 1], [0, 1, 0, 0, 1, 0], [1] * 6, [0, 0, 1, 1, 0, 0]], bool),
    "nothing": np.zeros([BATCH, TIME], bool),
    "all": np.ones([BATCH, TIME], bool),
}


class Tensor(NamedTuple):
    """Wraps a single tensor for `parity.check`."""

    tensor: tf.Tensor


def data(*shape, dtype="float64", seed=0):
    """Returns random numbers."""
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def pair(kind, units=UNITS, features=FEATURES, batch=None, **arguments):
    """Returns our layer and the Keras layer with equal random weights, including biases."""
    arguments = {"dtype": "float64", **arguments}
    layers = OURS[kind](units, **arguments), KERAS[kind](units, **arguments)
    for layer in layers:
        layer.build([batch, None, features])
    randomize(layers[1])
    layers[0].set_weights(layers[1].get_weights())
    return layers


def randomize(layer):
    """Sets random weights, including biases."""
    layer.set_weights([data(*weight.shape, seed=number) / 2 for number, weight in enumerate(layer.get_weights())])


def outputs_and_gradients(run, variables):
    """Returns the outputs of a function as a list, and the gradients of a loss that depends on all elements.

    Args:
      run: the function.
      variables: the tensors and variables to differentiate with respect to.
    """
    with tf.GradientTape() as tape:
        tape.watch(variables)
        outputs = tf.nest.flatten(run())
        weights = [data(*output.shape, seed=1) for output in outputs]
        losses = [tf.reduce_sum(tf.cast(y, tf.float64) * w) for y, w in zip(outputs, weights, strict=True)]
        loss = tf.add_n(losses)
    return outputs, tape.gradient(loss, variables)


def calls_in_xla(compiled, x, op):
    """Returns how often the XLA program of a `tf.function` calls an op."""
    return compiled.experimental_get_compiler_ir(x)(stage="hlo").count(f'custom_call_target="TfRnnOps_{op}"')


def check_equal(actual, expected, name):
    """Compares two structures of tensors and None with `parity.check`."""
    for one, other in zip(tf.nest.flatten(actual), tf.nest.flatten(expected), strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert one.dtype == other.dtype
            parity.check(name, "Keras", Tensor(one), Tensor(other))


def check_on_op(runs, ours, theirs, *arguments, count=1, **keyword_arguments):
    """Asserts that a call runs on the op a number of times, and equals another, of a Keras layer.

    Args:
      runs: the fixture that counts the runs of the op.
      ours: a layer, or another function, that runs on the op.
      theirs: its equivalent in Keras.
      *arguments: arguments of both.
      count: the number of runs.
      **keyword_arguments: arguments of both.
    """
    number, actual = runs.during(ours, *arguments, **keyword_arguments)
    assert number == count
    expected = theirs(*arguments, **keyword_arguments)
    tf.nest.assert_same_structure(actual, expected)
    check_equal(actual, expected, f"layer {type(theirs).__name__}")


def check_accelerated(runs, call, *arguments, count=1, **keyword_arguments):
    """Asserts that a call within `accelerate_keras` runs on the op a number of times, and has the results of Keras."""

    def accelerated(*arguments, **keyword_arguments):
        with accelerate_keras():
            return call(*arguments, **keyword_arguments)

    check_on_op(runs, accelerated, call, *arguments, count=count, **keyword_arguments)


def variables_of(layer):
    """Returns the trainable weights as tensors or variables of TensorFlow."""
    return [each if isinstance(each, tf.Variable) else each.value for each in layer.trainable_weights]
