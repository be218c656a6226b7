"""Keras's loop over the steps, with steps that cost less than those of Keras's cells.

It runs what the op KerasRNN does not compute: a GRU that resets the state before the recurrent product, and an LSTM or
GRU with recurrent dropout, which has another mask for each gate. What is the same at all steps is computed once, before
the loop: the kernels of the gates are separated, and the inputs are multiplied by theirs. The step of a SimpleRNN with
recurrent dropout has so few parts that this saves no time.
"""

import types

import keras
import tensorflow as tf

from tf_rnn_ops import raw_ops

_keras_loop = keras.layers.RNN.inner_loop  # accelerate_keras() replaces the attribute


def is_needed(cell, training):
    """Returns whether a cell takes this loop, in training or elsewhere."""
    return _resets_before(cell) or drops_states(cell, training)


def inner_loop(layer, inputs, initial_state, mask, training, may_call_op):
    """Runs a layer's cell over all steps.

    Args:
      layer: a `keras.layers.RNN` whose cell takes this loop.
      inputs: what the kernel multiplies, [batch, time, features]: a tensor for all gates, or one for each gate.
      initial_state: the states before the first step, each [batch, units].
      mask: the steps to take, [batch, time], or None.
      training: whether to drop out states.
      may_call_op: whether the step of a GRU may be the op GRUBlockCell, whose activations are tanh and sigmoid.

    Returns:
      What `keras.layers.RNN.inner_loop` does.
    """
    cell = layer.cell
    if may_call_op and len(inputs) == 1 and not drops_states(cell, training):
        x, step = inputs[0], _block_cell_step(cell)
    else:
        product = _recurrent_product(cell, initial_state[0], training)
        make_step = _lstm_step if type(cell) is keras.layers.LSTMCell else _gru_step
        x, step = _input_products(cell, inputs), make_step(cell, product)
    # Whatever Keras's loop reads of a layer, but for the cell.
    loop = types.SimpleNamespace(**{**vars(layer), "cell": step})
    return _keras_loop(loop, x, initial_state, mask)


def _resets_before(cell):
    return type(cell) is keras.layers.GRUCell and not cell.reset_after


def drops_states(cell, training):
    """Returns whether a cell drops states by a mask for each gate. In Keras up to 3.7, one mask serves all gates."""
    # LSTM and GRU take a dropout of 1 for none, and drop states with implementation=1 alone.
    return (
        type(cell) in (keras.layers.LSTMCell, keras.layers.GRUCell)
        and getattr(cell, "dropout_mask_count", None)
        and training
        and 0 < cell.recurrent_dropout < 1
    )


def _weight(cell, name):
    """Returns a weight of a cell in its compute dtype."""
    return keras.ops.cast(getattr(cell, name), cell.compute_dtype)


def _biases(cell):
    """Returns what is added to the inputs' product, [gates * units], and to the state's: None is nothing."""
    if cell.bias is None:
        return None, None
    bias = _weight(cell, "bias")
    return tf.unstack(bias) if bias.shape.rank == 2 else (bias, None)


def _block_cell_step(cell):
    """Returns a GRU's step of the inputs, [batch, features], on the op GRUBlockCell."""
    weights = tf.concat([_weight(cell, "kernel"), _weight(cell, "recurrent_kernel")], axis=0)
    bias, _ = _biases(cell)
    bias = tf.zeros([3 * cell.units], weights.dtype) if bias is None else bias
    (w_u, w_r, w_c), (b_u, b_r, b_c) = tf.split(weights, 3, axis=1), tf.split(bias, 3)
    inputs = {"w_ru": tf.concat([w_r, w_u], axis=1), "w_c": w_c, "b_ru": tf.concat([b_r, b_u], axis=0), "b_c": b_c}

    def step(x, states):
        h = raw_ops.GRUBlockCell(x=x, h_prev=states[0], **inputs).h
        return h, [h]

    return step


def _input_products(cell, inputs):
    """Returns x W + b of all steps, [batch, time, gates * units]."""
    kernels = tf.split(_weight(cell, "kernel"), len(inputs), axis=1)
    products = tf.concat([tf.tensordot(x, kernel, 1) for x, kernel in zip(inputs, kernels, strict=True)], axis=2)
    bias, _ = _biases(cell)
    return products if bias is None else products + bias


def _recurrent_product(cell, state, training):
    """Returns a function of h, [batch, units], and of a gate's number: what h adds to the gate, [batch, units]."""
    kernel, (_, bias) = _weight(cell, "recurrent_kernel"), _biases(cell)
    gates = kernel.shape[1] // cell.units
    kernels = tf.split(kernel, gates, axis=1)
    biases = None if bias is None else tf.split(bias, gates)
    masks = cell.get_recurrent_dropout_mask(state) if drops_states(cell, training) else None

    def product(h, gate):
        h = h if masks is None else h * masks[gate]
        y = tf.matmul(h, kernels[gate])
        return y if biases is None else y + biases[gate]

    return product


def _lstm_step(cell, product):
    """Returns an LSTM's step of x W + b, [batch, 4 * units]."""

    def step(z, states):
        h, c = states
        i, f, g, o = (z + product(h, gate) for gate, z in enumerate(tf.split(z, 4, axis=1)))
        c = cell.recurrent_activation(f) * c + cell.recurrent_activation(i) * cell.activation(g)
        h = cell.recurrent_activation(o) * cell.activation(c)
        return h, [h, c]

    return step


def _gru_step(cell, product):
    """Returns a GRU's step of x W + b, [batch, 3 * units]."""

    def step(z, states):
        (h,) = states
        u, r, c = tf.split(z, 3, axis=1)
        u = cell.recurrent_activation(u + product(h, 0))
        r = cell.recurrent_activation(r + product(h, 1))
        c = cell.activation(c + (r * product(h, 2) if cell.reset_after else product(r * h, 2)))
        h = u * h + (1 - u) * c
        return h, [h]

    return step
