"""Keras's loop over the steps, with steps that cost less than those of Keras's cells.

It runs what the op KerasRNN does not compute: a GRU that resets the state before the recurrent product, and recurrent
dropout, which has another mask for each gate. What is the same at all steps is made once, before the loop: the weights
are split, and the inputs are multiplied by the kernel.
"""

import inspect
import types

import keras
import tensorflow as tf

from tf_rnn_ops import raw_ops

# Keras's own, also where accelerate_keras() has put another function in its place.
_keras_loop = inspect.unwrap(keras.layers.RNN.inner_loop)


def is_needed(cell, training):
    """Returns whether a cell of Keras's LSTM, GRU or SimpleRNN takes this loop, in training or elsewhere."""
    return _resets_before(cell) or _drops_out_states(cell, training)


def inner_loop(layer, x, kernel, initial_state, mask, training):
    """Runs a layer's cell over all steps.

    Args:
      layer: a `keras.layers.RNN` whose cell takes this loop.
      x: the inputs, [batch, time, features], in the cell's compute dtype.
      kernel: what they are multiplied by, [features, gates * units].
      initial_state: see `keras.layers.RNN.inner_loop`.
      mask: likewise.
      training: whether to drop out states.

    Returns:
      What `keras.layers.RNN.inner_loop` does.
    """
    cell = layer.cell
    if _is_block_cell(cell, kernel, training):
        step = _block_cell_step(cell)
    else:
        x = tf.matmul(x, kernel) + _input_bias(cell)  # [batch, time, gates * units]
        step = _STEPS[type(cell)](cell, keras.tree.flatten(initial_state)[0], training)
    loop = types.SimpleNamespace(
        cell=step,
        unroll=layer.unroll,
        go_backwards=layer.go_backwards,
        return_sequences=layer.return_sequences,
        zero_output_for_mask=layer.zero_output_for_mask,
    )
    return _keras_loop(loop, x, initial_state, mask)


def _resets_before(cell):
    return type(cell) is keras.layers.GRUCell and not cell.reset_after


def _drops_out_states(cell, training):
    # LSTM and GRU take a dropout of 1 for none.
    takes_one = type(cell) is keras.layers.SimpleRNNCell
    return bool(training) and cell.recurrent_dropout > 0 and (cell.recurrent_dropout < 1 or takes_one)


def _weight(cell, name):
    """Returns a weight of a cell in its compute dtype."""
    return keras.ops.cast(getattr(cell, name), cell.compute_dtype)


def _input_bias(cell):
    """Returns what is added to x W, [gates * units], or 0."""
    if cell.bias is None:
        return 0
    bias = _weight(cell, "bias")
    return bias[0] if bias.shape.rank == 2 else bias


# ---------------------------------------------------------------- the op GRUBlockCell


def _is_block_cell(cell, kernel, training):
    """Returns whether a GRU's step is the op GRUBlockCell."""
    return (
        _resets_before(cell)
        and not _drops_out_states(cell, training)
        and cell.activation is keras.activations.tanh
        and cell.recurrent_activation is keras.activations.sigmoid
        and kernel.shape[0] == cell.kernel.shape[0]
    )


def _block_cell_step(cell):
    """Returns a GRU's step of the inputs, [batch, features]."""
    weights = tf.concat([_weight(cell, "kernel"), _weight(cell, "recurrent_kernel")], axis=0)
    bias = tf.zeros([3 * cell.units], weights.dtype) if cell.bias is None else _weight(cell, "bias")
    (w_u, w_r, w_c), (b_u, b_r, b_c) = tf.split(weights, 3, axis=1), tf.split(bias, 3)
    inputs = {"w_ru": tf.concat([w_r, w_u], axis=1), "w_c": w_c, "b_ru": tf.concat([b_r, b_u], axis=0), "b_c": b_c}

    def step(x, states):
        h = raw_ops.GRUBlockCell(x=x, h_prev=states[0], **inputs).h
        return h, [h]

    return step


# ---------------------------------------------------------------- steps of x W + b, [batch, gates * units]


def _recurrent_products(cell, state, training, gates=slice(None)):
    """Returns a function of h, [batch, units], that returns what it adds to some gates' x W + b, [batch, units] each.

    Args:
      cell: the cell.
      state: a hidden state.
      training: whether to drop out states.
      gates: which gates.
    """
    kernel = _weight(cell, "recurrent_kernel")
    kernels = tf.stack(tf.split(kernel, kernel.shape[1] // cell.units, axis=1)[gates])  # [gates, units, units]
    masks = None
    if _drops_out_states(cell, training):
        masks = tf.stack(keras.tree.flatten(cell.get_recurrent_dropout_mask(state))[gates])  # [gates, batch, units]
    biases = None
    if cell.bias is not None and cell.bias.shape.rank == 2:  # of a GRU that resets the state after the product
        biases = tf.reshape(_weight(cell, "bias")[1], [-1, 1, cell.units])[gates]

    def products(h):
        h = tf.expand_dims(h, 0)
        sums = tf.matmul(h if masks is None else h * masks, kernels)
        return tf.unstack(sums if biases is None else sums + biases, kernels.shape[0])

    return products


def _lstm_step(cell, state, training):
    products = _recurrent_products(cell, state, training)
    gate, activation = cell.recurrent_activation, cell.activation

    def step(z, states):
        h, c = states
        i, f, g, o = (x + y for x, y in zip(tf.split(z, 4, axis=1), products(h), strict=True))
        c = gate(f) * c + gate(i) * activation(g)
        h = gate(o) * activation(c)
        return h, [h, c]

    return step


def _gru_step(cell, state, training):
    products = _recurrent_products(cell, state, training, slice(2))
    candidate = _recurrent_products(cell, state, training, slice(2, 3))
    gate, activation = cell.recurrent_activation, cell.activation

    def step(z, states):
        h = states[0]
        (x_u, x_r, x_c), (u, r) = tf.split(z, 3, axis=1), products(h)
        u, r = gate(x_u + u), gate(x_r + r)
        c = r * candidate(h)[0] if cell.reset_after else candidate(r * h)[0]
        h = u * h + (1 - u) * activation(x_c + c)
        return h, [h]

    return step


def _simple_rnn_step(cell, state, training):
    products = _recurrent_products(cell, state, training)

    def step(z, states):
        h = cell.activation(z + products(states[0])[0])
        return h, [h]

    return step


_STEPS = {
    keras.layers.LSTMCell: _lstm_step,
    keras.layers.GRUCell: _gru_step,
    keras.layers.SimpleRNNCell: _simple_rnn_step,
}
