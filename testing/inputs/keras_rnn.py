"""Inputs of the op KerasRNN."""

import math

import tensorflow as tf
from checks.keras_layers import data
from references import cudnn_rnn

import tf_rnn_ops  # noqa: F401  # registers the op definitions
from inputs.calls import definition

# That the op supports, by its definition.
ACTIVATIONS = tuple(
    name.decode()
    for attribute in definition("KerasRNN").attr
    if attribute.name == "activation"
    for name in attribute.allowed_values.list.s
)
NUM_GATES = {**cudnn_rnn.NUM_GATES, "gru_reset_before": 3, "rnn": 1}
# The Keras layer of each mode.
KINDS = {"lstm": "LSTM", "gru": "GRU", "gru_reset_before": "GRU"} | dict.fromkeys(
    ("rnn_tanh", "rnn_relu", "rnn"), "SimpleRNN"
)
WEIGHTS = ("kernel", "recurrent_kernel", "bias")
GATED = ("lstm", "gru", "gru_reset_before")


def chosen_activations(mode):
    """Returns the attributes that choose an activation."""
    if mode in GATED:
        return ("activation", "recurrent_activation")
    return ("activation",) if mode == "rnn" else ()


def has_cell_state(mode):
    """Returns whether the layer has two states."""
    return mode == "lstm"


def shapes(mode, batch, time, features, units, use_bias=True) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the floating inputs of the op."""
    cols = NUM_GATES[mode] * units
    return {
        "sequences": (batch, time, features),
        "initial_h": (batch, units),
        "initial_c": (batch, units) if has_cell_state(mode) else (),
        "kernel": (features, cols),
        "recurrent_kernel": (units, cols),
        "bias": ((2, cols) if mode == "gru" else (cols,)) if use_bias else (0,),
    }


def gate_masks(mode, dtype="float64", batch=4, time=6, size=5, has_steps=False, count=None):
    """Returns `count` dropout masks, by default one for each gate: for each step, or the same for all.

    Args:
      mode: the mode of the op.
      dtype: the type of the masks.
      batch: the number of sequences.
      time: the number of steps.
      size: the number of features, for masks of the inputs, or of units, for masks of the state.
      has_steps: whether each step has masks of its own.
      count: the number of masks.
    """
    shape = (batch, time, size) if has_steps else (batch, size)
    return [tf.cast(1.25 * (data(*shape, seed=20 + i) > -0.8), dtype) for i in range(count or NUM_GATES[mode])]


def arguments(
    mode, dtype="float64", batch=4, time=6, features=3, units=5, use_bias=True, mask=None, weights_dtype=None
):
    """Returns the inputs of the op, as tensors. With another `weights_dtype`, these are of MixedKerasRNN."""
    scale = 1 / math.sqrt(1 + units)
    inputs = {
        name: tf.cast(
            data(*shape, seed=number) * (1 if number < 3 else scale),
            weights_dtype if weights_dtype and name in WEIGHTS else dtype,
        )
        for number, (name, shape) in enumerate(shapes(mode, batch, time, features, units, use_bias).items())
    }
    return {**inputs, "mask": tf.constant([] if mask is None else mask, tf.bool)}
