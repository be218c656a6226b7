"""What Keras's `RNN.inner_loop` computes, on one op or in a faster loop.

Keras runs a cell step by step. For the cells of its LSTM, GRU and SimpleRNN the op KerasRNN computes the same, or the
loop of `_step_loop`, unless there is a reason why not; then Keras's own loop runs. The functions `reasons_of_...` and
`_reasons_of_...` have all reasons: they decide, and their words are what a log, an error and `tf_rnn_ops.explain` say.
"""

import logging
import threading

import keras
import tensorflow as tf

from tf_rnn_ops import raw_ops, xla
from tf_rnn_ops.layers import _exports, _step_loop

try:  # not public, and all that tells whether XLA is to compile what is being traced
    from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext
except ImportError:
    GraphOrParentsInXlaContext = None

_logger = logging.getLogger("tf_rnn_ops")
_lock = threading.Lock()  # of what has been logged

CELLS = (keras.layers.LSTMCell, keras.layers.GRUCell, keras.layers.SimpleRNNCell)
_CONVOLUTIONAL = (keras.layers.ConvLSTM1D, keras.layers.ConvLSTM2D, keras.layers.ConvLSTM3D)
_DTYPES = ("bfloat16", "float16", "float32", "float64")

# The activations that the op has, by their names there.
_ACTIVATIONS = {
    "tanh": (keras.activations.tanh, keras.ops.tanh, tf.tanh, tf.nn.tanh),
    "sigmoid": (keras.activations.sigmoid, keras.ops.sigmoid, tf.sigmoid, tf.nn.sigmoid),
    "relu": (keras.activations.relu, keras.ops.relu, tf.nn.relu),
    "linear": (keras.activations.linear,),
    "hard_sigmoid": (keras.activations.hard_sigmoid, keras.ops.hard_sigmoid),
}


def run(layer, keras_loop, sequences, initial_state, mask, training, strict=False):
    """Runs a layer's `inner_loop` on the op or in the step loop or, if neither can, falls back to Keras.

    Args:
      layer: a `keras.layers.RNN`.
      keras_loop: Keras's own `inner_loop`, bound to the layer. It takes the next four arguments.
      sequences: see `inner_loop`.
      initial_state: see `inner_loop`.
      mask: see `inner_loop`.
      training: see `inner_loop`.
      strict: whether to raise an error instead of falling back. Exports are no fallback.
    """
    arguments = sequences, initial_state, mask, training
    if _exports.take_keras_path():
        return keras_loop(*arguments)
    environment_reason = next(reasons_of_environment(), None)
    reason = environment_reason or next(_reasons_of_layer_and_call(layer, *arguments), None)
    if reason is None:
        return inner_loop(layer, *arguments)
    if is_recurrent(layer):
        _report(layer, reason, logging.INFO if environment_reason else logging.WARNING, strict)
    return keras_loop(*arguments)


def is_recurrent(layer):
    """Returns whether a layer is one that the op is meant for: an `RNN` of any cell, but no `ConvLSTM`."""
    return isinstance(layer, keras.layers.RNN) and not isinstance(layer, _CONVOLUTIONAL)


def sees_gpu():
    """Returns whether TensorFlow sees a GPU, where Keras has cuDNN."""
    return bool(tf.config.list_logical_devices("GPU"))


def is_compiled_by_xla():
    """Returns whether XLA is to compile what is being traced."""
    if GraphOrParentsInXlaContext is None or tf.executing_eagerly():
        return False
    return GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())


def path(cell, training):
    """Returns what runs a cell in training or elsewhere: "op", "loop" (that of `_step_loop`) or "Keras"."""
    if next(_reasons_of_cell(cell, training), None) is not None:
        return "Keras"
    return "loop" if _step_loop.is_needed(cell, training) else "op"


def reasons_of_environment(is_compiled=None):
    """Yields why no layer runs on the op here, and what to change.

    Args:
      is_compiled: whether XLA compiles the layers. By default, whether it compiles what is being traced.
    """
    if keras.backend.backend() != "tensorflow":
        yield f"Keras runs on {keras.backend.backend()}: set KERAS_BACKEND=tensorflow before Keras is imported"
    if sees_gpu():
        yield "TensorFlow sees a GPU, for which Keras has cuDNN: set CUDA_VISIBLE_DEVICES=-1 to run on the CPU"
    why_not = xla.why_not_loaded()
    if why_not and (is_compiled_by_xla() if is_compiled is None else is_compiled):
        yield f"XLA compiles the layer, but cannot compile the op ({why_not}): set jit_compile=False"


def reasons_of_layer(layer, training):
    """Yields why a layer falls back to Keras, whatever its inputs are, and what to change."""
    yield from _reasons_of_cell(layer.cell, training)
    dtype = getattr(layer.cell, "compute_dtype", None)  # a cell need not be a Keras layer
    if dtype not in (None, layer.compute_dtype):
        yield f"the layer's dtype is {layer.compute_dtype}, its cell's {dtype}: give both the same dtype"


def rnn_mode(cell):
    """Returns the rnn_mode of the op that computes what a cell does, given that there is one."""
    if type(cell) is keras.layers.SimpleRNNCell:
        return f"rnn_{_name_in_op(cell.activation)}"
    return "lstm" if type(cell) is keras.layers.LSTMCell else "gru"


def op_attributes(cell):
    """Returns the attributes of the op that say what a cell computes, given that the op does."""
    return {"rnn_mode": rnn_mode(cell), **_activations(cell)}


def inner_loop(layer, sequences, initial_state, mask, training):
    """Runs a layer's cell over all steps on the op or in the step loop, where there is no reason not to.

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
    inputs = [keras.ops.cast(each, dtype) for each in _inputs(cell, sequences, training)]
    states = [_of_batch(keras.ops.cast(each, dtype), inputs[0]) for each in _flat(initial_state)]
    mask = _flat(mask)[0]
    mask = None if mask is None else _checked_mask(mask, inputs[0])
    if _step_loop.is_needed(cell, training):
        # What XLA makes of TensorFlow's ops is faster than a call of GRUBlockCell at each step.
        may_call_op = list(_activations(cell).values()) == ["tanh", "sigmoid"] and not is_compiled_by_xla()
        return _step_loop.inner_loop(layer, inputs, states, mask, training, may_call_op)
    outputs, *final_states, _ = raw_ops.KerasRNN(
        sequences=tf.concat(inputs, axis=2),
        mask=[] if mask is None else mask,
        initial_h=states[0],
        initial_c=states[1] if len(states) == 2 else 0,
        kernel=_kernel(cell, len(inputs)),
        recurrent_kernel=keras.ops.cast(cell.recurrent_kernel, dtype),
        bias=[] if cell.bias is None else keras.ops.cast(cell.bias, dtype),
        **op_attributes(cell),
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


def _reasons_of_layer_and_call(layer, sequences, initial_state, mask, training):
    """Yields why a layer's `inner_loop` falls back to Keras for these arguments."""
    yield from reasons_of_layer(layer, training)
    yield from _reasons_of_call(layer, sequences, initial_state, mask)


def _reasons_of_cell(cell, training):
    """Yields why a cell falls back to Keras, and what to change."""
    if type(cell) is keras.layers.StackedRNNCells:
        yield "the layer has several cells: give each a layer of its own"
        return
    if type(cell) not in CELLS:  # a subclass may compute something else
        yield f"the cell is a {type(cell).__name__}: use LSTMCell, GRUCell or SimpleRNNCell of keras.layers"
        return
    if not _step_loop.is_needed(cell, training):
        yield from _reasons_of_activations(cell)
    if training and _drops(cell, cell.recurrent_dropout) and not _step_loop.drops_states(cell, training):
        yield f"recurrent_dropout={cell.recurrent_dropout} in training: set recurrent_dropout=0"
    if cell.compute_dtype not in _DTYPES:
        yield f"dtype {cell.compute_dtype}: use one of {', '.join(_DTYPES)}"
    if not cell.autocast:
        yield "autocast=False: set autocast=True"
    if cell.activity_regularizer is not None:
        yield "the cell has an activity_regularizer: give it to the layer"


def _reasons_of_activations(cell):
    """Yields which activations of a cell the op does not have."""
    if type(cell) is keras.layers.SimpleRNNCell:
        if _name_in_op(cell.activation) not in ("tanh", "relu"):
            yield f"activation={_name(cell.activation)}: set activation='tanh' or 'relu'"
        return
    for argument, name in _activations(cell).items():
        if name is None:
            yield f"{argument}={_name(getattr(cell, argument))}: set it to one of {', '.join(_ACTIVATIONS)}"


def _activations(cell):
    """Returns the activations of an LSTM's or a GRU's cell, by the op's attributes: None where the op has none."""
    if type(cell) is keras.layers.SimpleRNNCell:
        return {}
    return {name: _name_in_op(getattr(cell, name)) for name in ("activation", "recurrent_activation")}


def _name_in_op(activation):
    """Returns the name that the op has for an activation, or None."""
    return next((name for name, functions in _ACTIVATIONS.items() if activation in functions), None)


def _name(activation):
    """Returns the name of an activation in quotes."""
    return repr(getattr(activation, "__name__", type(activation).__name__))


def _reasons_of_call(layer, sequences, initial_state, mask):
    """Yields why the arguments of a call fall back to Keras. No reason names a size: each is logged once."""
    if not isinstance(sequences, tf.Tensor):
        yield f"the sequences are a {type(sequences).__name__}: pass a dense tensor"
        return
    if sequences.shape.rank != 3:
        yield f"the sequences have rank {sequences.shape.rank}: pass [batch, time, features]"
        return
    if sequences.shape[2] not in (None, layer.cell.kernel.shape[0]):
        yield "the sequences have another number of features than those the layer was built for"
    if not sequences.dtype.is_floating:
        yield f"the sequences are {sequences.dtype.name}: pass numbers of a floating dtype"
    if not _are_states(initial_state, layer.cell, sequences):
        yield "initial_state is not one tensor [batch, units] for each state of the layer: pass such tensors"
    if not _is_mask(mask, sequences):
        yield "the mask does not have one value for each step: pass [batch, time]"
    if _flat(mask)[0] is not None and _zeroes_other_steps(layer):
        yield "a mask with unroll, go_backwards and zero_output_for_mask together: set unroll=False"


def _report(layer, reason, level, strict):
    """Logs why a layer falls back to Keras, once for each reason, or raises an error if `strict`."""
    name = f"layer {layer.name!r} ({type(layer).__name__})"
    if strict:
        layer._maybe_reset_dropout_masks(layer.cell)  # Keras keeps them until the layer's call returns
        raise RuntimeError(f"accelerate_keras(strict=True): {name} would fall back to Keras. {reason}.")
    with _lock:
        logged = vars(layer).setdefault("_tf_rnn_ops_logged", set())
        if reason in logged:
            return
        logged.add(reason)
    _logger.log(level, "%s falls back to Keras. %s.", name, reason)


def _zeroes_other_steps(layer):
    """Returns whether Keras zeroes the outputs of other steps than the masked ones: it reverses all but the mask."""
    return layer.unroll and layer.go_backwards and layer.zero_output_for_mask


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
    shape = [tf.shape(x)[0], state.shape[1]]
    if is_compiled_by_xla():
        # XLA's tf.broadcast_to would repeat a batch of 2 up to one of 4.
        return tf.reshape(state * tf.ones([shape[0], 1], state.dtype), shape)
    return tf.broadcast_to(state, shape)


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
    # One of a batch of 1 is that of all.
    if is_compiled_by_xla():  # which leaves out the check; see `_of_batch`
        mask = tf.reshape(tf.logical_and(mask, tf.ones([shape[0], 1], tf.bool)), shape)
    else:
        with tf.control_dependencies(checks):
            mask = tf.broadcast_to(mask, shape)
    return tf.ensure_shape(mask, sequences.shape[:2])


def _inputs(cell, sequences, training):
    """Returns the sequences with the same inputs dropped in all steps, by the masks that the cell drew.

    Returns:
      A list of tensors [batch, time, features]: one for all gates or, with implementation=1, one for each gate.
    """
    if not (training and _drops(cell, cell.dropout)):
        return [sequences]
    return [sequences * tf.expand_dims(mask, 1) for mask in _flat(cell.get_dropout_mask(sequences[:, 0, :]))]


def _drops(cell, rate):
    """Returns whether a cell drops anything at a rate. LSTM and GRU take 1 for none."""
    return 0 < rate < 1 or (rate == 1 and type(cell) is keras.layers.SimpleRNNCell)


def _kernel(cell, num_inputs):
    """Returns the kernel of several inputs side by side, each of which is multiplied by its gates' columns alone."""
    kernel = keras.ops.cast(cell.kernel, cell.compute_dtype)
    if num_inputs == 1:
        return kernel
    width = kernel.shape[1] // num_inputs
    columns = [(gate * width, (num_inputs - 1 - gate) * width) for gate in range(num_inputs)]  # zeros on both sides
    blocks = zip(tf.split(kernel, num_inputs, axis=1), columns, strict=True)
    return tf.concat([tf.pad(block, [(0, 0), zeros]) for block, zeros in blocks], axis=0)
