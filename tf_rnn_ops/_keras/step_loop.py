"""Keras's loop over the steps, with faster steps than those of Keras's cells.

It runs configurations that the op KerasRNN does not support: an LSTM or GRU with recurrent dropout, which uses one mask
per gate, and a GRU with `reset_after=False` and other activations. Work that is the same at all steps is done once,
before the loop: splitting the kernels by gate and multiplying the inputs by them. For a SimpleRNN with recurrent
dropout, this saves no time.
"""

import types
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from tf_rnn_ops._keras import own_code, private_names
from tf_rnn_ops._keras.description import Cell, Layer

# Takes the input and states of a step, and returns its output and states.
_Step: TypeAlias = Callable[[tf.Tensor, Sequence[tf.Tensor]], tuple[tf.Tensor, list[tf.Tensor]]]
# Takes h, [batch, units], and the number of a gate, and returns the recurrent part of the gate, [batch, units].
_Product: TypeAlias = Callable[[tf.Tensor, int], tf.Tensor]


def inner_loop(
    layer: Layer,
    inputs: Sequence[tf.Tensor],
    initial_state: Sequence[tf.Tensor],
    mask: tf.Tensor | None,
    draw_masks: Callable[[tf.Tensor], Sequence[tf.Tensor]] | None,
) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
    """Runs a layer's cell over all steps.

    Args:
      layer: what the layer is. Its cell is of a kind that runs in this loop.
      inputs: the inputs, [batch, time, features]: one tensor for all gates, or one for each gate.
      initial_state: the initial states, each [batch, units].
      mask: [batch, time], or None. False masks a step.
      draw_masks: draws the masks of recurrent dropout at a step: takes h, [batch, units], and returns one of its shape
        for each gate. None for no dropout.

    Returns:
      The result of `keras.layers.RNN.inner_loop`.
    """
    cell, (kernel, recurrent_kernel, bias) = layer.cell, layer.cell.weights()
    of_inputs, of_states = tf.unstack(bias) if bias is not None and bias.shape.rank == 2 else (bias, None)
    product = _recurrent_product(recurrent_kernel, of_states, cell.kind.gates, draw_masks)
    make_step = _lstm_step if cell.kind.name == "lstm" else _gru_step
    loop = types.SimpleNamespace(
        cell=make_step(cell, product),
        go_backwards=layer.go_backwards,
        return_sequences=layer.returns_sequences,
        unroll=layer.is_unrolled,
        zero_output_for_mask=layer.zeroes_masked_steps,
    )
    keras_loop = own_code.unwrapped(getattr(keras.layers.RNN, private_names.INNER_LOOP))
    return keras_loop(loop, _input_products(inputs, kernel, of_inputs), initial_state, mask)


def _input_products(inputs: Sequence[tf.Tensor], kernel: tf.Tensor, bias: tf.Tensor | None) -> tf.Tensor:
    """Returns x W + b of all steps, [batch, time, gates * units]."""
    kernels = tf.split(kernel, len(inputs), axis=1)
    products = tf.concat([tf.tensordot(x, kernel, 1) for x, kernel in zip(inputs, kernels, strict=True)], axis=2)
    return products if bias is None else products + bias


def _recurrent_product(
    kernel: tf.Tensor,
    bias: tf.Tensor | None,
    gates: int,
    draw_masks: Callable[[tf.Tensor], Sequence[tf.Tensor]] | None,
) -> _Product:
    """Returns the function that computes the recurrent part of a gate, with dropout and bias."""
    kernels = tf.split(kernel, gates, axis=1)
    biases = None if bias is None else tf.split(bias, gates)

    # Keras draws masks once where they are the same: for all gates of a step, or for all steps.
    def product(h: tf.Tensor, gate: int) -> tf.Tensor:
        h = h if draw_masks is None else h * draw_masks(h)[gate]
        y = tf.matmul(h, kernels[gate])
        return y if biases is None else y + biases[gate]

    return product


def _lstm_step(cell: Cell, product: _Product) -> _Step:
    """Returns the step of an LSTM. It takes x W + b, [batch, 4 * units]."""
    activation, of_gates = _activations(cell)

    def step(z: tf.Tensor, states: Sequence[tf.Tensor]) -> tuple[tf.Tensor, list[tf.Tensor]]:
        h, c = states
        i, f, g, o = (z + product(h, gate) for gate, z in enumerate(tf.split(z, 4, axis=1)))
        c = of_gates(f) * c + of_gates(i) * activation(g)
        h = of_gates(o) * activation(c)
        return h, [h, c]

    return step


def _gru_step(cell: Cell, product: _Product) -> _Step:
    """Returns the step of a GRU. It takes x W + b, [batch, 3 * units]."""
    activation, of_gates = _activations(cell)

    def step(z: tf.Tensor, states: Sequence[tf.Tensor]) -> tuple[tf.Tensor, list[tf.Tensor]]:
        (h,) = states
        u, r, c = tf.split(z, 3, axis=1)
        u = of_gates(u + product(h, 0))
        r = of_gates(r + product(h, 1))
        c = activation(c + (product(r * h, 2) if cell.resets_before else r * product(h, 2)))
        h = u * h + (1 - u) * c
        return h, [h]

    return step


def _activations(cell: Cell) -> tuple[Any, Any]:
    """Returns the activation of the candidate and the state, and that of the gates."""
    return cell.activations["activation"], cell.activations["recurrent_activation"]
