"""What Keras's `RNN.inner_loop` computes, on one op.

Keras runs a cell step by step. For the cells of its LSTM, GRU and SimpleRNN the op KerasRNN computes the same, where
`can_run` says so; elsewhere Keras's own loop has to.
"""

import keras
import tensorflow as tf

from tf_rnn_ops import raw_ops

try:  # not public, and all that tells whether XLA is to compile what is being traced
    from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext
except ImportError:
    GraphOrParentsInXlaContext = None

_DTYPES = ("bfloat16", "float16", "float32", "float64")

_SIGMOID = (keras.activations.sigmoid, keras.ops.sigmoid, tf.sigmoid, tf.nn.sigmoid)
_TANH = (keras.activations.tanh, keras.ops.tanh, tf.tanh, tf.nn.tanh)
_RELU = (keras.activations.relu, keras.ops.relu, tf.nn.relu)


def rnn_mode(cell):
    """Returns the rnn_mode of the op that computes what a cell does, or None where there is none.

    A subclass of Keras's cells may compute something else, and has none.
    """
    if type(cell) is keras.layers.LSTMCell and cell.activation in _TANH and cell.recurrent_activation in _SIGMOID:
        return "lstm"
    if type(cell) is keras.layers.GRUCell and cell.activation in _TANH and cell.recurrent_activation in _SIGMOID:
        return "gru" if cell.reset_after else None
    if type(cell) is keras.layers.SimpleRNNCell:
        return "rnn_tanh" if cell.activation in _TANH else "rnn_relu" if cell.activation in _RELU else None
    return None


def can_run_cell(cell, training):
    """Returns whether the op computes what a cell does, in training or elsewhere."""
    return (
        rnn_mode(cell) is not None
        and cell.compute_dtype in _DTYPES
        and cell.autocast
        and cell.activity_regularizer is None
        and not (training and (cell.recurrent_dropout > 0 or _drops_out_by_gate(cell)))
    )


def sees_gpu():
    """Returns whether TensorFlow sees a GPU, where Keras has cuDNN."""
    return bool(tf.config.list_logical_devices("GPU"))


def can_run(layer, sequences, initial_state, mask, training):
    """Returns whether the op computes what a layer's `inner_loop` would return for these arguments."""
    return (
        keras.backend.backend() == "tensorflow"
        and not sees_gpu()
        and not _is_compiled_by_xla()
        and can_run_cell(layer.cell, training)
        and layer.compute_dtype == layer.cell.compute_dtype
        and isinstance(sequences, tf.Tensor)
        and sequences.shape.rank == 3
        and sequences.shape[2] in (None, layer.cell.kernel.shape[0])
        and sequences.dtype.is_floating
        and _are_states(initial_state, layer.cell, sequences)
        and _is_mask(mask, sequences)
        and not (_flat(mask)[0] is not None and _zeroes_other_steps(layer))
    )


def inner_loop(layer, sequences, initial_state, mask, training):
    """Runs a layer's cell over all steps, where `can_run` says that the op can.

    Args:
      layer: a `keras.layers.RNN`.
      sequences: the inputs, [batch, time, features].
      initial_state: the states before the first step, each [batch, units].
      mask: the steps to take, [batch, time], [batch, time, 1], a list that starts with one of these, or None.
      training: whether to apply dropout.

    Returns:
      What `inner_loop` is to return: the last output, [batch, units]; all outputs, [batch, time, units], or, unless the
      layer returns sequences, the last one, [batch, 1, units]; and the states after the last step.
    """
    cell = layer.cell
    dtype = cell.compute_dtype
    x = keras.ops.cast(_dropped_out(cell, sequences, training), dtype)
    states = [_of_batch(keras.ops.cast(each, dtype), x) for each in _flat(initial_state)]
    mask = _flat(mask)[0]
    outputs, *final_states, _ = raw_ops.KerasRNN(
        sequences=x,
        mask=[] if mask is None else _checked_mask(mask, x),
        initial_h=states[0],
        initial_c=states[1] if len(states) == 2 else 0,
        kernel=keras.ops.cast(cell.kernel, dtype),
        recurrent_kernel=keras.ops.cast(cell.recurrent_kernel, dtype),
        bias=[] if cell.bias is None else keras.ops.cast(cell.bias, dtype),
        rnn_mode=rnn_mode(cell),
        go_backwards=layer.go_backwards,
        return_sequences=layer.return_sequences,
        zero_output_for_mask=layer.zero_output_for_mask,
        is_training=bool(training),
    )
    final_states = final_states[: len(states)]
    if layer.return_sequences:
        # Without steps the last output is zeros, as in the op.
        last = outputs[:, -1] if outputs.shape[1] else tf.reduce_sum(outputs[:, -1:], axis=1)
        return last, outputs, final_states
    return outputs, tf.expand_dims(outputs, 1), final_states


def _drops_out_by_gate(cell):
    """Returns whether a cell drops other inputs for each of its gates in training."""
    return cell.dropout > 0 and getattr(cell, "implementation", 2) == 1


def _zeroes_other_steps(layer):
    """Returns whether Keras zeroes the outputs of other steps than the masked ones: it reverses all but the mask."""
    return layer.unroll and layer.go_backwards and layer.zero_output_for_mask


def _is_compiled_by_xla():
    """Returns whether XLA is to compile what is being traced: the op has no XLA kernel."""
    return GraphOrParentsInXlaContext is not None and GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())


def _flat(nested):
    return keras.tree.flatten(nested)


def _are_states(initial_state, cell, sequences):
    """Returns whether initial states are as many as the op takes, and as large: not, say, one for the whole batch."""
    states, wanted = _flat(initial_state), (sequences.shape[0], cell.units)
    return len(states) == (2 if rnn_mode(cell) == "lstm" else 1) and all(
        each.shape.rank == 2 and each.shape[1] is not None and each.shape.is_compatible_with(wanted) for each in states
    )


def _of_batch(state, x):
    """Returns a state, [batch, units]. As in Keras, one of a batch of 1 is that of all, which only a run may show."""
    if state.shape[0] is not None and state.shape[0] == x.shape[0]:
        return state
    return tf.broadcast_to(state, [tf.shape(x)[0], state.shape[1]])


def _is_mask(mask, sequences):
    """Returns whether a mask is None or says for each step whether to take it: not, say, for each unit."""
    mask = _flat(mask)[0]
    if mask is None:
        return True
    shape = tf.TensorShape(mask.shape)
    batch, time = sequences.shape[:2]
    of_each_step = shape.rank == 2 or (shape.rank == 3 and shape[2] == 1)
    return (
        of_each_step and (batch is None or shape[0] in (None, 1, batch)) and (time is None or shape[1] in (None, time))
    )


def _checked_mask(mask, sequences):
    """Returns a mask as booleans, [batch, time], or refuses it where its shape is known only when it is run."""
    mask = tf.cast(mask, tf.bool)
    if mask.shape.rank == 3:
        mask = tf.squeeze(mask, 2)
    if mask.shape.is_fully_defined() and mask.shape == sequences.shape[:2]:
        return mask
    shape = tf.shape(sequences)[:2]
    checks = [
        tf.debugging.assert_equal(tf.shape(mask)[1], shape[1], message="mask must have as many steps as the sequences"),
    ]
    with tf.control_dependencies(checks):
        mask = tf.broadcast_to(mask, shape)  # one of a batch of 1 is that of all
    return tf.ensure_shape(mask, sequences.shape[:2])


def _dropped_out(cell, sequences, training):
    """Returns sequences with the same inputs dropped in all steps, by the mask that the cell drew."""
    # LSTM and GRU take a dropout of 1 for none.
    drops = 0 < cell.dropout < 1 or (cell.dropout == 1 and rnn_mode(cell) not in ("lstm", "gru"))
    if not (training and drops):
        return sequences
    return sequences * tf.expand_dims(cell.get_dropout_mask(sequences[:, 0, :]), 1)
