"""Runs a layer of Keras over all steps on one op for each cell.

Keras runs a cell step by step. For the cells of its LSTM, GRU and SimpleRNN, the op KerasRNN computes the same. If
there is a reason against it, Keras's loop runs: a reason of the environment, of the layer (`decision`) or of the
arguments of a call.
"""

import collections
import itertools
import logging
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_rnn_ops import raw_ops
from tf_rnn_ops._keras import decision, description, environment, keras_3, private_names, tracing
from tf_rnn_ops._keras.description import Cell, Layer, Unknown
from tf_rnn_ops._keras.exports import POLICY

_logger = logging.getLogger("tf_rnn_ops")
_lock = threading.Lock()  # guards what is known of layers, and the counts
# How many layers ran on each path, "op" or "Keras". A layer may run on both.
PATHS: collections.Counter[str] = collections.Counter()


def run(
    layer: Any,
    keras_loop: Callable[..., Any],
    sequences: Any,
    initial_state: Any,
    mask: Any,
    training: bool,
    strict: bool = False,
) -> Any:
    """Runs a layer over all steps on the op. Falls back to Keras if the op does not support it.

    Args:
      layer: a recurrent layer.
      keras_loop: Keras's loop, bound to the layer. It takes the next four arguments.
      sequences: see `inner_loop` of `keras.layers.RNN`.
      initial_state: see `inner_loop`.
      mask: see `inner_loop`.
      training: see `inner_loop`. A tensor of a graph counts as training, except to draw dropout masks.
      strict: whether to raise an error instead of falling back. Exports do not count as a fallback.

    Returns:
      The result of `inner_loop`, or that of `keras_loop` if it ran.
    """
    arguments = sequences, initial_state, mask, training
    if POLICY.is_portable_export():
        if getattr(layer, "use_cudnn", None) is True and not environment.sees_gpu():
            # The loop of LSTM and GRU would raise an error, although the layer runs on the op.
            plain_loop = getattr(keras.layers.RNN, private_names.INNER_LOOP)
            return plain_loop(layer, sequences, initial_state, _flat(mask)[0], training)
        return keras_loop(*arguments)
    if isinstance(sequences, (tf.Variable, keras.Variable)) or keras_3.is_variable(sequences):
        arguments = tf.convert_to_tensor(sequences), *arguments[1:]
    described = description.describe_layer(layer)
    environment_reason = next(environment.reasons_against_the_op(), None)
    reason = environment_reason or next(iter(decision.against_layer(described, _may_train(training))), "")
    if not reason and not isinstance(described, Unknown):
        reason = next(_reasons_of_call(described, *arguments[:3]), "")
        if not reason:
            _count(layer, "op")
            return _run_in_row(described, *arguments)
    if not (isinstance(described, Unknown) and described.is_out_of_reach):
        is_expected = environment_reason or (
            isinstance(described, Unknown) and description.is_expected(described) and not described.surprises
        )
        _report(layer, reason, logging.INFO if is_expected else logging.WARNING, strict)
        _count(layer, "Keras")
    return keras_loop(*arguments)


def _run_in_row(
    layers: Sequence[Layer], sequences: tf.Tensor, initial_state: Any, mask: Any, training: Any
) -> tuple[tf.Tensor, tf.Tensor, Any]:
    """Runs the cells of a layer one after another, each over all steps, on the op.

    Args:
      layers: what the layer is: see `describe_layer`.
      sequences: the inputs, [batch, time, features].
      initial_state: the initial states, each [batch, units], nested as Keras nests them.
      mask: [batch, time], [batch, time, 1], a list that starts with one of these, or None. False masks a step. Surplus
        steps, after those of the inputs or, with `go_backwards`, before them, are ignored.
      training: whether to apply dropout.

    Returns:
      A tuple of the last output, [batch, units]; all outputs, [batch, time, units], or only the last one,
      [batch, 1, units], unless the layer returns sequences; and the final states, nested like the initial ones.
    """
    initial, final = iter(_flat(initial_state)), []
    mask = _checked_mask(mask, sequences, layers[0].go_backwards)
    last = outputs = sequences
    for each in layers:
        states = list(itertools.islice(initial, each.cell.kind.states))
        last, outputs, states = _run_op(each, outputs, states, mask, training)
        final += states
        if each.go_backwards and mask is not None and each is not layers[-1]:
            mask = tf.reverse(mask, [1])  # the outputs are in processing order
    return last, outputs, final if len(layers) == 1 else keras.tree.pack_sequence_as(initial_state, final)


def _run_op(
    described: Layer, sequences: tf.Tensor, initial_state: Sequence[Any], mask: tf.Tensor | None, training: Any
) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
    """Runs a layer's cell over all steps on the op, which must support the arguments.

    Args:
      described: what the layer is.
      sequences: the inputs, [batch, time, features].
      initial_state: the initial states, each [batch, units].
      mask: [batch, time], or None.
      training: whether to apply dropout.

    Returns:
      See `_run_in_row`. The final states are a list.
    """
    cell, is_training = described.cell, _may_train(training)
    sequences, input_masks = _dropped(cell, sequences, training)
    # Elsewhere, a caller may ask for the gradient of its own zeros.
    may_be_absent = (
        not is_training and tracing.purpose() in ("export", "freezing") and not environment.may_be_recorded()
    )
    states = [
        tf.zeros([0, cell.units], cell.dtype)  # absent
        if may_be_absent and _is_filled_with_zeros(each)
        else _of_batch(_cast(each, cell), sequences)
        for each in initial_state
    ]
    drops_states = cell.drops_states and is_training
    outputs, *final_states = run_op(
        cell,
        op_weights(cell),
        states,
        sequences=sequences,
        mask=[] if mask is None else mask,
        input_masks=input_masks,
        state_masks=cell.state_masks(states[0], tf.shape(sequences)[1], training) if drops_states else (),
        go_backwards=described.go_backwards,
        return_sequences=described.returns_sequences,
        zero_output_for_mask=described.zeroes_masked_steps,
        is_training=is_training,
    )
    if described.returns_sequences:
        # If there are no steps, the last output is zeros, as in the op.
        last = outputs[:, -1] if outputs.shape[1] else tf.reduce_sum(outputs[:, -1:], axis=1)
        return last, outputs, final_states
    return outputs, tf.expand_dims(outputs, 1), final_states


def op_weights(cell: Cell) -> list[Any]:
    """Returns the kernel, recurrent kernel and bias with which the op computes a cell. An empty bias is none."""
    weights = [each for each in cell.weights() if each is not None]
    if cell.gate_scale != 1:
        # The third gate of an LSTM or GRU has the other activation.
        of_gates = [1 if gate == 2 else cell.gate_scale for gate in range(cell.kind.gates)]
        scales = tf.repeat(tf.constant(of_gates, weights[0].dtype), cell.units)
        weights = [each * scales for each in weights]
    return weights if len(weights) == 3 else [*weights, []]


def _may_train(training: Any) -> bool:
    """Returns whether a value of `training`, which may be a tensor, stands for training."""
    return tf.is_symbolic_tensor(training) or bool(training)


def _cast(state: Any, cell: Cell) -> tf.Tensor:
    return tf.cast(tf.convert_to_tensor(state), cell.dtype)


def run_op(
    cell: Cell, weights: Sequence[Any], states: Sequence[tf.Tensor], *, is_training: bool, **arguments: Any
) -> list[tf.Tensor]:
    """Runs the op for a cell that it supports.

    Args:
      cell: the cell.
      weights: kernel, recurrent kernel and bias: see `op_weights`.
      states: the initial states, each [batch, units].
      is_training: whether the op keeps what its gradient needs.
      **arguments: the other arguments and attributes of the op.

    Returns:
      The output and the final states.
    """
    kernel, recurrent_kernel, bias = weights
    # Without a cell state, `initial_c` and `final_c` have any shape. For a scalar in bfloat16,
    # `tf.debugging.enable_check_numerics` fails in eager mode.
    no_cell_state: Any = [] if cell.dtype == "bfloat16" else 0
    output, *final_states, _ = raw_ops.KerasRNN(
        initial_h=states[0],
        initial_c=states[1] if len(states) == 2 else no_cell_state,
        kernel=kernel,
        recurrent_kernel=recurrent_kernel,
        bias=bias,
        **decision.op_attributes(cell),
        **arguments,
        is_training=is_training,
    )
    if not is_training:
        POLICY.mark(output, kernel)
    return [output, *final_states[: len(states)]]


def _reasons_of_call(layers: Sequence[Layer], sequences: Any, initial_state: Any, mask: Any) -> Iterator[str]:
    """Yields why the arguments of a call fall back to Keras."""
    if not isinstance(sequences, tf.Tensor):
        yield f"the input is a {type(sequences).__name__}: pass a dense tensor"
        return
    if sequences.shape.rank != 3:
        yield f"the input has rank {sequences.shape.rank}: pass a tensor of shape [batch, time, features]"
        return
    features = layers[0].cell.features
    if sequences.shape[2] not in (None, features):
        yield f"the input has {sequences.shape[2]} features, but the layer was built with {features}: pass {features}"
    if any(other.cell.features != one.cell.units for one, other in itertools.pairwise(layers)):
        yield "a cell was not built for the units of the cell before: pass all cells to the constructor"
    if not sequences.dtype.is_floating:
        yield f"the input has dtype {sequences.dtype.name}: pass a floating-point dtype"
    states = _flat(initial_state)
    wanted = [(sequences.shape[0], each.cell.units) for each in layers for _ in range(each.cell.kind.states)]
    if len(states) != len(wanted) or not all(map(_is_state, states, wanted)):
        shapes, number = " and ".join(str(each.shape) for each in states), len(wanted)
        pairs = " and ".join(map(str, dict.fromkeys(wanted)))
        yield f"initial_state has the shape {shapes}: pass {number} of shape [batch, units] = {pairs}"
    if not _is_mask(mask, sequences, _may_have_surplus_steps(layers)):
        shape = tf.TensorShape(_flat(mask)[0].shape)
        yield f"the mask has the shape {shape}: pass one of shape [batch, time] = {sequences.shape[:2]}"
    if _flat(mask)[0] is not None and _zeroes_other_steps(layers):
        yield "a mask with unroll, go_backwards and zero_output_for_mask together: set unroll=False"


def _report(layer: Any, reason: str, level: int, strict: bool) -> None:
    """Logs why a layer falls back to Keras, once for each reason and any sizes, or raises an error if `strict`."""
    name = f"layer {layer.name!r} ({type(layer).__name__})"
    if strict:
        if hasattr(layer, private_names.RESET_MASKS):  # which Keras does only when the call returns
            getattr(layer, private_names.RESET_MASKS)(layer.cell)
        raise RuntimeError(f"accelerate_keras(strict=True): {name} would fall back to Keras. {reason}.")
    if _is_new(layer, re.sub(r"\d+|None", "", reason)):
        _logger.log(level, "%s falls back to Keras. %s.", name, reason)


def _count(layer: Any, path: str) -> None:
    if _is_new(layer, path):
        with _lock:
            PATHS[path] += 1


def _is_new(layer: Any, what: str) -> bool:
    """Returns whether this is the first call with this layer and `what`."""
    known = vars(layer).get("_tf_rnn_ops_known", ())
    if what in known:  # without the lock, since each call of a layer asks
        return False
    with _lock:
        known = vars(layer).setdefault("_tf_rnn_ops_known", set())
        is_new = what not in known
        known.add(what)
        return is_new


def _zeroes_other_steps(layers: Sequence[Layer]) -> bool:
    """Returns whether Keras zeroes the outputs of the wrong steps, because it does not reverse the mask."""
    return layers[0].is_unrolled and layers[0].go_backwards and layers[-1].zeroes_masked_steps


def _flat(nested: Any) -> list[Any]:
    return keras.tree.flatten(nested)


def _is_state(state: tf.Tensor, shape: tuple[int | None, int]) -> bool:
    """Returns whether an initial state has the rank and shape of those of the op. It may not lack the batch."""
    return state.shape.rank == 2 and state.shape[1] is not None and state.shape.is_compatible_with(shape)


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
    if environment.is_compiled_by_xla():
        # In XLA, tf.broadcast_to would repeat a batch of 2 to one of 4.
        return tf.reshape(state * tf.ones([shape[0], 1], state.dtype), shape)
    return tf.broadcast_to(state, shape)


def _may_have_surplus_steps(layers: Sequence[Layer]) -> bool:
    """Returns whether Keras ignores the steps of a mask that the inputs lack. Otherwise, it raises an error."""
    return not layers[-1].zeroes_masked_steps if layers[0].is_unrolled else not tf.executing_eagerly()


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


def _checked_mask(mask: Any, sequences: tf.Tensor, go_backwards: bool) -> tf.Tensor | None:
    """Returns a mask as booleans, [batch, time], or None. Adds a run-time check if its shape is not known."""
    mask = _flat(mask)[0]
    if mask is None:
        return None
    mask = tf.cast(mask, tf.bool)
    if mask.shape.rank == 3:
        mask = tf.squeeze(mask, 2)
    if mask.shape.is_fully_defined() and mask.shape == sequences.shape[:2]:
        return mask
    shape = tf.shape(sequences)[:2]
    mask = _without_surplus_steps(mask, sequences.shape[1], shape[1], go_backwards)
    # A batch of 1 is broadcast.
    if environment.is_compiled_by_xla():  # see `_of_batch`
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


def _dropped(cell: Cell, sequences: tf.Tensor, training: Any) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Applies the dropout of the inputs of a cell, if all gates have the same mask.

    Returns:
      The inputs, [batch, time, features], and other masks, one for each gate: see the op.
    """
    masks = cell.input_masks(sequences, training) if cell.drops_inputs and _may_train(training) else []
    if len(masks) == 1:
        (mask,) = masks
        sequences, masks = sequences * (mask if mask.shape.rank == 3 else tf.expand_dims(mask, 1)), []
    return tf.cast(sequences, cell.dtype), [tf.cast(mask, cell.dtype) for mask in masks]
