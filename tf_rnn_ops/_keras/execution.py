"""Runs Keras's `RNN.inner_loop` on one op or in a faster loop.

Keras runs a cell step by step. For the cells of its LSTM, GRU and SimpleRNN, the op KerasRNN or the loop in
`step_loop` computes the same. If there is a reason against it, Keras's loop runs. The functions `reasons_of_...` and
`_reasons_of_...` yield all reasons. Their texts appear in logs, errors and `tf_rnn_ops.explain`.
"""

import logging
import operator
import re
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from tf_rnn_ops import _private_names, _xla, raw_ops
from tf_rnn_ops._keras import exports, own_code, step_loop
from tf_rnn_ops._keras.layers.common import no_cell_state, sees_gpu
from tf_rnn_ops._keras.layers.gru_block_cell import GRUBlockCell
from tf_rnn_ops._keras.layers.lstm_block_cell import LSTMBlockCell

_logger = logging.getLogger("tf_rnn_ops")
_lock = threading.Lock()  # guards the logged reasons of layers
# By cell, its weights and the attributes that belong to them when the op last supported them.
_supported: weakref.WeakKeyDictionary[Any, tuple[Any, ...]] = weakref.WeakKeyDictionary()

CELLS = (keras.layers.LSTMCell, keras.layers.GRUCell, keras.layers.SimpleRNNCell)
CONVOLUTIONAL = (keras.layers.ConvLSTM1D, keras.layers.ConvLSTM2D, keras.layers.ConvLSTM3D)
_OF_BLOCK_CELLS = {
    cell: f"the cell is a {cell.__name__}: the loop of Keras runs, and each step is the op {cell.__name__}"
    for cell in (GRUBlockCell, LSTMBlockCell)
}
_DTYPES = ("bfloat16", "float16", "float32", "float64")
_GATES = {keras.layers.LSTMCell: 4, keras.layers.GRUCell: 3, keras.layers.SimpleRNNCell: 1}
# Keras up to 3.7 draws one dropout mask for all gates.
_HAS_MASKS_OF_GATES = _private_names.DROPOUT_MASK_COUNT in keras.layers.LSTMCell.__init__.__code__.co_names

# The activations that the op supports, by their names in the op.
_ACTIVATIONS = {
    "tanh": (keras.activations.tanh, keras.ops.tanh, tf.tanh, tf.nn.tanh),
    "sigmoid": (keras.activations.sigmoid, keras.ops.sigmoid, tf.sigmoid, tf.nn.sigmoid),
    "relu": (keras.activations.relu, keras.ops.relu, tf.nn.relu),
    "linear": (keras.activations.linear,),
    "hard_sigmoid": (keras.activations.hard_sigmoid, keras.ops.hard_sigmoid),
}


def run(
    layer: Any,
    keras_loop: Callable[..., Any],
    sequences: Any,
    initial_state: Any,
    mask: Any,
    training: bool,
    strict: bool = False,
) -> Any:
    """Runs a layer's `inner_loop` on the op or in the step loop. Falls back to Keras if neither supports it.

    Args:
      layer: a `keras.layers.RNN`.
      keras_loop: Keras's `inner_loop`, bound to the layer. It takes the next four arguments.
      sequences: see `inner_loop`.
      initial_state: see `inner_loop`.
      mask: see `inner_loop`.
      training: see `inner_loop`.
      strict: whether to raise an error instead of falling back. Exports do not count as a fallback.
    """
    arguments = sequences, initial_state, mask, training
    if exports.is_portable_export():
        if getattr(layer, "use_cudnn", None) is True and not sees_gpu():
            # The loop of LSTM and GRU would raise an error, although the layer runs on the op.
            plain_loop = getattr(keras.layers.RNN, _private_names.INNER_LOOP)
            return plain_loop(layer, sequences, initial_state, _flat(mask)[0], training)
        return keras_loop(*arguments)
    if isinstance(sequences, (tf.Variable, keras.Variable)):
        arguments = tf.convert_to_tensor(sequences), *arguments[1:]
    environment_reason = next(reasons_of_environment(), None)
    reason = environment_reason or next(_reasons_of_layer_and_call(layer, *arguments), None)
    if reason is None:
        return inner_loop(layer, *arguments)
    if is_recurrent(layer):
        is_expected = environment_reason or reason in _OF_BLOCK_CELLS.values()
        _report(layer, reason, logging.INFO if is_expected else logging.WARNING, strict)
    return keras_loop(*arguments)


def is_recurrent(layer: Any) -> bool:
    """Returns whether a layer is an `RNN` with any cell, but not a `ConvLSTM`."""
    return isinstance(layer, keras.layers.RNN) and not isinstance(layer, CONVOLUTIONAL)


def is_compiled_by_xla() -> bool:
    """Returns whether XLA compiles the function being traced, as far as that is known."""
    if tf.executing_eagerly():
        return False
    context = _private_names.XLA_CONTEXT
    return context is None or context.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())


def may_be_recorded() -> bool:
    """Returns whether a gradient tape may record."""
    return _private_names.TAPES is None or _private_names.TAPES.could_possibly_record()


def path(cell: Any, training: bool) -> str:
    """Returns what runs a cell in training or inference: "op", "loop" (that of `step_loop`) or "Keras"."""
    if next(reasons_of_cell(cell, training), None) is not None:
        return "Keras"
    return "loop" if step_loop.is_needed(cell, training) else "op"


def reasons_of_environment(is_compiled: bool | None = None) -> Iterator[str]:
    """Yields why no layer can run on the op in this process, and what to change.

    Args:
      is_compiled: whether XLA compiles the layers. By default, whether it compiles the function being traced.
    """
    if keras.backend.backend() != "tensorflow":
        yield f"the Keras backend is {keras.backend.backend()}: set KERAS_BACKEND=tensorflow before you import keras"
    if not hasattr(keras.layers.RNN, _private_names.INNER_LOOP):
        yield f"this version of Keras has no RNN.{_private_names.INNER_LOOP}: install a supported version"
    if sees_gpu():
        yield "TensorFlow sees a GPU, where Keras uses cuDNN: set CUDA_VISIBLE_DEVICES=-1 to run on the CPU"
    why_not = _xla.why_not_loaded()
    if why_not and (is_compiled_by_xla() if is_compiled is None else is_compiled):
        yield f"XLA compiles the layer but cannot compile the op ({why_not}): set jit_compile=False"


def reasons_of_layer(layer: Any, training: bool) -> Iterator[str]:
    """Yields why a layer falls back to Keras, regardless of its inputs, and what to change."""
    for method in own_code.replaced_in_loop(layer):
        yield _of_replaced(method)
    yield from reasons_of_cell(layer.cell, training)
    dtype = getattr(layer.cell, "compute_dtype", None)  # a cell need not be a Keras layer
    if dtype not in (None, layer.compute_dtype):
        yield f"the layer has dtype {layer.compute_dtype}, but its cell {dtype}: use the same dtype for both"


def reasons_of_cell(cell: Any, training: bool) -> Iterator[str]:
    """Yields why a cell falls back to Keras, and what to change."""
    if type(cell) is keras.layers.StackedRNNCells:
        if len(cell.cells) == 1:
            yield "the layer has a list of one cell: pass the cell itself"
        else:
            yield "the layer stacks several cells: use one layer per cell"
        return
    if type(cell) in _OF_BLOCK_CELLS:
        yield _OF_BLOCK_CELLS[type(cell)]
        return
    if type(cell) not in CELLS:  # a subclass may compute something else
        yield f"the cell is a {type(cell).__name__}: use keras.layers.LSTMCell, GRUCell or SimpleRNNCell"
        return
    if not step_loop.is_needed(cell, training):
        yield from _reasons_of_activations(cell)
    if training and _drops(cell, cell.recurrent_dropout) and not step_loop.drops_states(cell, training):
        yield f"recurrent_dropout={cell.recurrent_dropout} in training: set recurrent_dropout=0"
    if cell.compute_dtype not in _DTYPES:
        yield f"dtype {cell.compute_dtype}: use one of {', '.join(_DTYPES)}"
    if not cell.autocast:
        yield "autocast=False: set autocast=True"
    if cell.activity_regularizer is not None:
        yield "the cell has an activity_regularizer: pass it to the layer"
    for method in own_code.replaced_in_step(cell):
        yield _of_replaced(method)
    yield from _reasons_of_changes(cell, training)


def rnn_mode(cell: Any) -> str:
    """Returns the rnn_mode of the op for a cell that the op supports."""
    if type(cell) is keras.layers.SimpleRNNCell:
        return f"rnn_{_name_in_op(cell.activation)}"
    return "lstm" if type(cell) is keras.layers.LSTMCell else "gru"


def op_attributes(cell: Any) -> dict[str, Any]:
    """Returns the mode and activations of the op for a cell that the op supports."""
    return {"rnn_mode": rnn_mode(cell), **_activations(cell)}


def inner_loop(
    layer: Any, sequences: tf.Tensor, initial_state: Any, mask: Any, training: bool
) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
    """Runs a layer's cell over all steps on the op or in the step loop, which must support the arguments.

    Args:
      layer: a `keras.layers.RNN`.
      sequences: the inputs, [batch, time, features].
      initial_state: the initial states, each [batch, units].
      mask: [batch, time], [batch, time, 1], a list that starts with one of these, or None. False masks a step. Surplus
        steps, after those of the inputs or, with `go_backwards`, before them, are ignored.
      training: whether to apply dropout.

    Returns:
      A tuple of the last output, [batch, units]; all outputs, [batch, time, units], or only the last one,
      [batch, 1, units], unless the layer returns sequences; and the final states.
    """
    cell = layer.cell
    dtype = cell.compute_dtype
    inputs = [keras.ops.cast(each, dtype) for each in _inputs(cell, sequences, training)]
    is_loop = step_loop.is_needed(cell, training)
    # Elsewhere, a caller may ask for the gradient of its own zeros.
    may_be_absent = not (is_loop or training) and exports.is_export() and not may_be_recorded()
    states = [
        tf.zeros([0, cell.units], dtype)  # absent
        if may_be_absent and _is_filled_with_zeros(each)
        else _of_batch(keras.ops.cast(each, dtype), inputs[0])
        for each in _flat(initial_state)
    ]
    mask = _flat(mask)[0]
    mask = None if mask is None else _checked_mask(mask, inputs[0], layer.go_backwards)
    if is_loop:
        # With XLA, the ops of TensorFlow are faster than a call of GRUBlockCell per step.
        may_call_op = list(_activations(cell).values()) == ["tanh", "sigmoid"] and not is_compiled_by_xla()
        return step_loop.inner_loop(layer, inputs, states, mask, training, may_call_op)
    kernel = _kernel(cell, len(inputs))
    outputs, *final_states, _ = raw_ops.KerasRNN(
        sequences=tf.concat(inputs, axis=2),
        mask=[] if mask is None else mask,
        initial_h=states[0],
        initial_c=states[1] if len(states) == 2 else no_cell_state(dtype),
        kernel=kernel,
        recurrent_kernel=keras.ops.cast(cell.recurrent_kernel, dtype),
        bias=[] if cell.bias is None else keras.ops.cast(cell.bias, dtype),
        **op_attributes(cell),
        go_backwards=layer.go_backwards,
        return_sequences=layer.return_sequences,
        zero_output_for_mask=layer.zero_output_for_mask,
        is_training=bool(training),
    )
    if not training:
        exports.mark_exported(outputs, kernel)
    final_states = final_states[: len(states)]
    if layer.return_sequences:
        # If there are no steps, the last output is zeros, as in the op.
        last = outputs[:, -1] if outputs.shape[1] else tf.reduce_sum(outputs[:, -1:], axis=1)
        return last, outputs, final_states
    return outputs, tf.expand_dims(outputs, 1), final_states


def _reasons_of_layer_and_call(
    layer: Any, sequences: Any, initial_state: Any, mask: Any, training: bool
) -> Iterator[str]:
    """Yields why a layer's `inner_loop` falls back to Keras for these arguments."""
    yield from reasons_of_layer(layer, training)
    yield from _reasons_of_call(layer, sequences, initial_state, mask)


def _of_replaced(method: str) -> str:
    return f"{method} is not Keras's own: remove what replaced it"


def _reasons_of_changes(cell: Any, training: bool) -> Iterator[str]:
    """Yields which attributes of a cell a program changed so that the step of Keras computes something else."""
    gates = _GATES[type(cell)]
    if training and (_drops(cell, cell.dropout) or _drops(cell, cell.recurrent_dropout)):
        for draw in (_private_names.DROPOUT_MASK, _private_names.RECURRENT_DROPOUT_MASK):
            if not hasattr(cell, draw):
                yield f"this version of Keras has no {draw}: set dropout=0 and recurrent_dropout=0"
        implementation = getattr(cell, _private_names.IMPLEMENTATION, None)
        has_masks_of_gates = gates > 1 and implementation == 1 and _HAS_MASKS_OF_GATES
        if getattr(cell, _private_names.DROPOUT_MASK_COUNT, None) != (gates if has_masks_of_gates else None):
            yield "implementation was set after the cell was made: pass it to the constructor"
    if cell.built:
        yield from _reasons_of_weights(cell, gates)


def _reasons_of_weights(cell: Any, gates: int) -> Iterator[str]:
    """Yields why the step of Keras does not use the weights of a cell as the op does."""
    dtype, use_bias, reset_after = cell.compute_dtype, cell.use_bias, getattr(cell, "reset_after", None)
    state = cell.kernel, cell.recurrent_kernel, cell.bias, cell.units, use_bias, reset_after, dtype
    known = _supported.get(cell)
    if known is not None and all(map(operator.is_, state, known)):
        return
    weights = state[:2] if cell.bias is None else state[:3]
    for weight in weights:
        if not _is_weight(weight, cell, dtype):
            yield f"a weight is a {type(weight).__name__}: use a keras.Variable or a tensor of dtype {dtype}"
            return
    width = gates * cell.units
    has_bias = cell.bias is not None if gates == 1 else use_bias
    of_bias = [] if not has_bias else [(2, width) if reset_after else (width,)]
    features, *shapes = (tuple(weight.shape) for weight in weights)
    if [*features[1:], *shapes] != [width, (cell.units, width), *of_bias]:
        yield "the weights do not fit units, use_bias or reset_after: pass these to the constructor"
    elif all(map(_is_variable_of_keras, weights)):  # a tensor would keep its graph alive
        _supported[cell] = state


def _is_variable_of_keras(weight: Any) -> bool:
    """Returns whether a weight is a variable of Keras's own class. Up to Keras 3.6, that is not `keras.Variable`."""
    return type(weight).__module__.startswith("keras.") and type(weight).__name__ == "Variable"


def _is_weight(weight: Any, cell: Any, dtype: str) -> bool:
    """Returns whether the step of Keras uses a weight in the dtype in which the cell computes."""
    if _is_variable_of_keras(weight):
        is_cast = getattr(weight, _private_names.AUTOCAST, False)
        return weight.dtype == dtype or (is_cast and dtype != cell.variable_dtype)
    return isinstance(weight, (tf.Tensor, tf.Variable)) and weight.dtype == dtype


def _reasons_of_activations(cell: Any) -> Iterator[str]:
    """Yields which activations of a cell the op does not support."""
    if type(cell) is keras.layers.SimpleRNNCell:
        if _name_in_op(cell.activation) not in ("tanh", "relu"):
            yield f"activation={_name(cell.activation)}: set activation='tanh' or 'relu'"
        return
    for argument, name in _activations(cell).items():
        if name is None:
            yield f"{argument}={_name(getattr(cell, argument))}: set it to one of {', '.join(_ACTIVATIONS)}"


def _activations(cell: Any) -> dict[str, str | None]:
    """Returns the activation attributes of the op for an LSTM or GRU cell; None if the op does not support one."""
    if type(cell) is keras.layers.SimpleRNNCell:
        return {}
    return {name: _name_in_op(getattr(cell, name)) for name in ("activation", "recurrent_activation")}


def _name_in_op(activation: Any) -> str | None:
    """Returns the name of an activation in the op, or None if the op does not support it."""
    return next((name for name, functions in _ACTIVATIONS.items() if activation in functions), None)


def _name(activation: Any) -> str:
    """Returns the name of an activation in quotes."""
    return repr(getattr(activation, "__name__", type(activation).__name__))


def _reasons_of_call(layer: Any, sequences: Any, initial_state: Any, mask: Any) -> Iterator[str]:
    """Yields why the arguments of a call fall back to Keras."""
    if not isinstance(sequences, tf.Tensor):
        yield f"the input is a {type(sequences).__name__}: pass a dense tensor"
        return
    if sequences.shape.rank != 3:
        yield f"the input has rank {sequences.shape.rank}: pass a tensor of shape [batch, time, features]"
        return
    features = layer.cell.kernel.shape[0]
    if sequences.shape[2] not in (None, features):
        yield f"the input has {sequences.shape[2]} features, but the layer was built with {features}: pass {features}"
    if not sequences.dtype.is_floating:
        yield f"the input has dtype {sequences.dtype.name}: pass a floating-point dtype"
    if not _are_states(initial_state, layer.cell, sequences):
        shapes = " and ".join(str(each.shape) for each in _flat(initial_state))
        number, wanted = len(_flat(layer.cell.state_size)), (sequences.shape[0], layer.cell.units)
        yield f"initial_state has the shape {shapes}: pass {number} of shape [batch, units] = {wanted}"
    if not _is_mask(mask, sequences, _may_have_surplus_steps(layer)):
        shape = tf.TensorShape(_flat(mask)[0].shape)
        yield f"the mask has the shape {shape}: pass one of shape [batch, time] = {sequences.shape[:2]}"
    if _flat(mask)[0] is not None and _zeroes_other_steps(layer):
        yield "a mask with unroll, go_backwards and zero_output_for_mask together: set unroll=False"


def _report(layer: Any, reason: str, level: int, strict: bool) -> None:
    """Logs why a layer falls back to Keras, once for each reason and any sizes, or raises an error if `strict`."""
    name = f"layer {layer.name!r} ({type(layer).__name__})"
    if strict:
        if hasattr(layer, _private_names.RESET_MASKS):  # which Keras does only when the call returns
            getattr(layer, _private_names.RESET_MASKS)(layer.cell)
        raise RuntimeError(f"accelerate_keras(strict=True): {name} would fall back to Keras. {reason}.")
    without_sizes = re.sub(r"\d+|None", "", reason)
    with _lock:
        logged = vars(layer).setdefault("_tf_rnn_ops_logged", set())
        if without_sizes in logged:
            return
        logged.add(without_sizes)
    _logger.log(level, "%s falls back to Keras. %s.", name, reason)


def _zeroes_other_steps(layer: Any) -> bool:
    """Returns whether Keras zeroes the outputs of the wrong steps, because it does not reverse the mask."""
    return layer.unroll and layer.go_backwards and layer.zero_output_for_mask


def _flat(nested: Any) -> list[Any]:
    return keras.tree.flatten(nested)


def _are_states(initial_state: Any, cell: Any, sequences: tf.Tensor) -> bool:
    """Returns whether the number and shapes of initial states are those of the op. A state may not lack the batch."""
    states, wanted = _flat(initial_state), (sequences.shape[0], cell.units)
    return len(states) == (2 if rnn_mode(cell) == "lstm" else 1) and all(
        each.shape.rank == 2 and each.shape[1] is not None and each.shape.is_compatible_with(wanted) for each in states
    )


def _is_filled_with_zeros(state: tf.Tensor) -> bool:
    """Returns whether a tensor of a graph is one of zeros that is made in each call, as Keras's initial states are."""
    if not tf.is_symbolic_tensor(state) or state.op.type != "Fill":
        return False
    return tf.get_static_value(state.op.inputs[1]) == 0


def _of_batch(state: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """Returns a state, [batch, units], broadcast from a batch of 1 as in Keras, possibly at run time."""
    if state.shape[0] is not None and state.shape[0] == x.shape[0]:
        return state
    shape = [tf.shape(x)[0], state.shape[1]]
    if is_compiled_by_xla():
        # In XLA, tf.broadcast_to would repeat a batch of 2 to one of 4.
        return tf.reshape(state * tf.ones([shape[0], 1], state.dtype), shape)
    return tf.broadcast_to(state, shape)


def _may_have_surplus_steps(layer: Any) -> bool:
    """Returns whether Keras ignores the steps of a mask that the inputs lack. Otherwise, it raises an error."""
    return not layer.zero_output_for_mask if layer.unroll else not tf.executing_eagerly()


def _is_mask(mask: Any, sequences: tf.Tensor, may_be_longer: bool) -> bool:
    """Returns whether a mask is None or has one value per step (not, for example, one per unit)."""
    mask = _flat(mask)[0]
    if mask is None:
        return True
    shape = tf.TensorShape(mask.shape)
    batch, time = sequences.shape[:2]
    is_of_steps = shape.rank == 2 or (shape.rank == 3 and shape[2] == 1)
    if not is_of_steps or not (batch is None or shape[0] in (None, 1, batch)):
        return False
    return time is None or shape[1] in (None, time) or (may_be_longer and shape[1] > time)


def _checked_mask(mask: tf.Tensor, sequences: tf.Tensor, go_backwards: bool) -> tf.Tensor:
    """Returns a mask as booleans, [batch, time]. Adds a run-time check if its shape is not known."""
    mask = tf.cast(mask, tf.bool)
    if mask.shape.rank == 3:
        mask = tf.squeeze(mask, 2)
    if mask.shape.is_fully_defined() and mask.shape == sequences.shape[:2]:
        return mask
    shape = tf.shape(sequences)[:2]
    mask = _without_surplus_steps(mask, sequences.shape[1], shape[1], go_backwards)
    # A batch of 1 is broadcast.
    if is_compiled_by_xla():  # see `_of_batch`
        mask = tf.reshape(tf.logical_and(mask, tf.ones([shape[0], 1], tf.bool)), shape)
    else:
        mask = tf.broadcast_to(mask, shape)
    return tf.ensure_shape(mask, sequences.shape[:2])


def _without_surplus_steps(mask: tf.Tensor, static_time: int | None, time: tf.Tensor, go_backwards: bool) -> tf.Tensor:
    """Returns a mask without the steps that the inputs lack. Keras reverses the mask before it ignores these."""
    if static_time is not None and mask.shape[1] == static_time:
        return mask
    steps = tf.shape(mask)[1]
    check = tf.debugging.assert_less_equal(time, steps, message="mask must have at least as many steps as the input")
    with tf.control_dependencies([check]):  # XLA removes the check; its shapes are known
        first = tf.identity(steps - time if go_backwards else 0)
    return mask[:, first : first + time]


def _inputs(cell: Any, sequences: tf.Tensor, training: bool) -> list[tf.Tensor]:
    """Applies the input dropout masks of a cell, which are the same in all steps.

    Returns:
      A list of tensors [batch, time, features]: one for all gates or, with implementation=1, one for each gate.
    """
    if not (training and _drops(cell, cell.dropout)):
        return [sequences]
    draw = getattr(cell, _private_names.DROPOUT_MASK)
    return [sequences * tf.expand_dims(mask, 1) for mask in _flat(draw(sequences[:, 0, :]))]


def _drops(cell: Any, rate: float) -> bool:
    """Returns whether a cell applies dropout at a rate. LSTM and GRU ignore a rate of 1."""
    return 0 < rate < 1 or (rate == 1 and type(cell) is keras.layers.SimpleRNNCell)


def _kernel(cell: Any, num_inputs: int) -> tf.Tensor:
    """Returns a block-diagonal kernel for concatenated inputs, each multiplied only by the columns of its gates."""
    kernel = keras.ops.cast(cell.kernel, cell.compute_dtype)
    if num_inputs == 1:
        return kernel
    width = kernel.shape[1] // num_inputs
    columns = [(gate * width, (num_inputs - 1 - gate) * width) for gate in range(num_inputs)]  # zeros on both sides
    blocks = zip(tf.split(kernel, num_inputs, axis=1), columns, strict=True)
    return tf.concat([tf.pad(block, [(0, 0), zeros]) for block, zeros in blocks], axis=0)
