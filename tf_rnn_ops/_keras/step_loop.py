"""Keras's loop over the steps, with faster steps than those of Keras's cells.

It runs configurations that the op KerasRNN does not support: a GRU whose reset gate is applied before the matrix
product, and an LSTM or GRU with recurrent dropout, which uses one mask per gate. Work that is the same at all steps is
done once, before the loop: splitting the kernels by gate and multiplying the inputs by them. For a SimpleRNN with
recurrent dropout, this saves no time.
"""

import types
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from tf_rnn_ops import raw_ops
from tf_rnn_ops._keras import own_code, private_names
from tf_rnn_ops._keras.description import Cell

# Takes the input and states of a step, and returns its output and states.
_Step: TypeAlias = Callable[[tf.Tensor, Sequence[tf.Tensor]], tuple[tf.Tensor, list[tf.Tensor]]]
# Takes h, [batch, units], and the number of a gate, and returns the recurrent part of the gate, [batch, units].
_Product: TypeAlias = Callable[[tf.Tensor, int], tf.Tensor]


def inner_loop(
    layer: Any,
    described: Cell,
    inputs: Sequence[tf.Tensor],
    initial_state: Sequence[tf.Tensor],
    mask: tf.Tensor | None,
    training: bool,
    may_call_op: bool,
) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
    """Runs a layer's cell over all steps.

    Args:
      layer: a `keras.layers.RNN`.
      described: its cell, of a kind that runs in this loop.
      inputs: the inputs, [batch, time, features]: one tensor for all gates, or one for each gate.
      initial_state: the initial states, each [batch, units].
      mask: [batch, time], or None. False masks a step.
      training: whether to apply recurrent dropout.
      may_call_op: whether the step of a GRU may be the op GRUBlockCell, whose activations are tanh and sigmoid.

    Returns:
      The result of `keras.layers.RNN.inner_loop`.
    """
    cell, drops_states = layer.cell, training and described.drops_states
    if may_call_op and len(inputs) == 1 and not drops_states:
        x, step = inputs[0], _block_cell_step(cell)
    else:
        product = _recurrent_product(cell, initial_state[0], drops_states)
        make_step = _lstm_step if described.kind.name == "lstm" else _gru_step
        x, step = _input_products(cell, inputs), make_step(cell, product)
    # The attributes of the layer, with another cell.
    loop = types.SimpleNamespace(**{**vars(layer), "cell": step})
    keras_loop = own_code.unwrapped(getattr(keras.layers.RNN, private_names.INNER_LOOP))
    return keras_loop(loop, x, initial_state, mask)


def _weight(cell: Any, name: str) -> tf.Tensor:
    """Returns a weight of a cell in its compute dtype."""
    return keras.ops.cast(getattr(cell, name), cell.compute_dtype)


def _biases(cell: Any) -> Sequence[tf.Tensor | None]:
    """Returns the biases of the inputs' product, [gates * units], and of the state's product. None is no bias."""
    if cell.bias is None:
        return None, None
    bias = _weight(cell, "bias")
    return tf.unstack(bias) if bias.shape.rank == 2 else (bias, None)


def _block_cell_step(cell: Any) -> _Step:
    """Returns the step of a GRU on the op GRUBlockCell. It takes the inputs, [batch, features]."""
    weights = tf.concat([_weight(cell, "kernel"), _weight(cell, "recurrent_kernel")], axis=0)
    bias, _ = _biases(cell)
    bias = tf.zeros([3 * cell.units], weights.dtype) if bias is None else bias
    (w_u, w_r, w_c), (b_u, b_r, b_c) = tf.split(weights, 3, axis=1), tf.split(bias, 3)
    inputs = {"w_ru": tf.concat([w_r, w_u], axis=1), "w_c": w_c, "b_ru": tf.concat([b_r, b_u], axis=0), "b_c": b_c}

    def step(x: tf.Tensor, states: Sequence[tf.Tensor]) -> tuple[tf.Tensor, list[tf.Tensor]]:
        h = raw_ops.GRUBlockCell(x=x, h_prev=states[0], **inputs).h
        return h, [h]

    return step


def _input_products(cell: Any, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns x W + b of all steps, [batch, time, gates * units]."""
    kernels = tf.split(_weight(cell, "kernel"), len(inputs), axis=1)
    products = tf.concat([tf.tensordot(x, kernel, 1) for x, kernel in zip(inputs, kernels, strict=True)], axis=2)
    bias, _ = _biases(cell)
    return products if bias is None else products + bias


def _recurrent_product(cell: Any, state: tf.Tensor, drops_states: bool) -> _Product:
    """Returns the function that computes the recurrent part of a gate, with dropout and bias."""
    kernel, (_, bias) = _weight(cell, "recurrent_kernel"), _biases(cell)
    gates = kernel.shape[1] // cell.units
    kernels = tf.split(kernel, gates, axis=1)
    biases = None if bias is None else tf.split(bias, gates)
    masks = getattr(cell, private_names.RECURRENT_DROPOUT_MASK)(state) if drops_states else None

    def product(h: tf.Tensor, gate: int) -> tf.Tensor:
        h = h if masks is None else h * masks[gate]
        y = tf.matmul(h, kernels[gate])
        return y if biases is None else y + biases[gate]

    return product


def _lstm_step(cell: Any, product: _Product) -> _Step:
    """Returns the step of an LSTM. It takes x W + b, [batch, 4 * units]."""

    def step(z: tf.Tensor, states: Sequence[tf.Tensor]) -> tuple[tf.Tensor, list[tf.Tensor]]:
        h, c = states
        i, f, g, o = (z + product(h, gate) for gate, z in enumerate(tf.split(z, 4, axis=1)))
        c = cell.recurrent_activation(f) * c + cell.recurrent_activation(i) * cell.activation(g)
        h = cell.recurrent_activation(o) * cell.activation(c)
        return h, [h, c]

    return step


def _gru_step(cell: Any, product: _Product) -> _Step:
    """Returns the step of a GRU. It takes x W + b, [batch, 3 * units]."""

    def step(z: tf.Tensor, states: Sequence[tf.Tensor]) -> tuple[tf.Tensor, list[tf.Tensor]]:
        (h,) = states
        u, r, c = tf.split(z, 3, axis=1)
        u = cell.recurrent_activation(u + product(h, 0))
        r = cell.recurrent_activation(r + product(h, 1))
        c = cell.activation(c + (r * product(h, 2) if cell.reset_after else product(r * h, 2)))
        h = u * h + (1 - u) * c
        return h, [h]

    return step
