"""Converters of the ops for `tf.vectorized_map` and Jacobians. Importing this module registers them with TensorFlow.

TensorFlow's pfor calls the converter of an op once, in place of the iterations of a loop. An input of the op is either
the same in all iterations or stacked, [iterations, ...].

- KerasRNN, GRUBlockCell and its gradients, LSTMBlockCell, BlockLSTM, and CudnnRNN in inference make one call of a
  larger batch if all iterations share the weights.
- All other calls run in a loop. Gradients with respect to weights are sums over the batch, a reserve_space cannot be
  divided, and dropout draws a mask in each iteration, as TensorFlow's random ops do.
"""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from tf_rnn_ops import _library
from tf_rnn_ops._private_names import PFOR, create_pfor_op


def _attrs(call: Any, **changes: bool) -> dict[str, tf.compat.v1.AttrValue]:
    """Returns the attributes of the op, with changes."""
    return {**call.op.node_def.attr, **{name: tf.compat.v1.AttrValue(b=value) for name, value in changes.items()}}


def _run(call: Any, inputs: Sequence[tf.Tensor], **changes: bool) -> list[tf.Tensor]:
    """Runs the op once and returns its outputs."""
    return list(
        create_pfor_op(call.op_type, inputs, [each.dtype for each in call.outputs], _attrs(call, **changes)).outputs
    )


def _loop(call: Any) -> list[Any]:
    """Runs the op in a loop. Unlike pfor's own, it has a bound, without which XLA cannot compile its gradient."""
    static = tf.get_static_value(call.pfor.loop_len_vector)
    iterations = _iterations(call) if static is None else int(static[0])

    def body(i: tf.Tensor, *arrays: tf.TensorArray) -> tuple[Any, ...]:
        outputs = _run(call, [each.t[i] if each.is_stacked else each.t for each in call.inputs])
        return i + 1, *(array.write(i, each) for array, each in zip(arrays, outputs, strict=True))

    arrays = [tf.TensorArray(each.dtype, iterations) for each in call.outputs]
    _, *arrays = tf.while_loop(lambda i, *_: i < iterations, body, (0, *arrays), maximum_iterations=iterations)
    return [PFOR.wrap(each.stack(), True) for each in arrays]


def _is_any_stacked(call: Any, indices: Iterable[int] | None = None) -> bool:
    """Returns whether any input, or one of the given, differs between iterations."""
    return any(call.input(i).is_stacked for i in (range(call.num_inputs) if indices is None else indices))


def _swapped(tensor: tf.Tensor) -> tf.Tensor:
    """Exchanges the first two axes."""
    return tf.transpose(tensor, tf.concat([[1, 0], tf.range(2, tf.rank(tensor))], axis=0))


def _flat(tensor: tf.Tensor, axis: int = 0) -> tf.Tensor:
    """Merges the iterations into the batch: [iterations, ...] to [...], with the batch at `axis` of the result, 0 or 1.

    The rank may be unknown until the op runs.
    """
    tensor = _swapped(tensor) if axis else tensor
    shape = tf.shape(tensor)
    batch = shape[axis : axis + 1] * shape[axis + 1 : axis + 2]
    return tf.reshape(tensor, tf.concat([shape[:axis], batch, shape[axis + 2 :]], axis=0))


def _unflat(tensor: tf.Tensor, iterations: tf.Tensor, axis: int = 0) -> Any:
    """Reverses `_flat`, and wraps the result as stacked."""
    shape = tf.shape(tensor)
    # With no iterations, the size of the batch is unknown.
    batch = tf.math.floordiv(shape[axis : axis + 1], tf.maximum(iterations, 1))
    split = tf.concat([shape[:axis], iterations[tf.newaxis], batch, shape[axis + 1 :]], axis=0)
    result = tf.reshape(tensor, split)
    return PFOR.wrap(_swapped(result) if axis else result, True)


def _iterations(call: Any) -> tf.Tensor:
    return tf.cast(call.pfor.loop_len_vector[0], tf.int32)


def _row_by_row(call: Any) -> Any:
    """Converts an op that computes each element by itself."""
    return [PFOR.wrap(each, True) for each in _run(call, [call.stacked_input(0)])]


_GRU_WEIGHTS = range(2, 6)


def _gru_block_cell(call: Any) -> list[Any]:
    """Converts GRUBlockCell and its gradients, whose outputs all have a row for each sample."""
    if _is_any_stacked(call, _GRU_WEIGHTS):
        return _loop(call)
    call.stack_inputs([i for i in range(call.num_inputs) if i not in _GRU_WEIGHTS])
    inputs = [_flat(each.t) if each.is_stacked else each.t for each in call.inputs]
    return [_unflat(each, _iterations(call)) for each in _run(call, inputs)]


def _lstm(call: Any) -> list[Any]:
    """Converts LSTMBlockCell and BlockLSTM of any version, whose inputs are seq_len_max, x, cs_prev, h_prev, weights.

    LSTMBlockCell has no seq_len_max, and no time before batch.
    """
    x = axis = call.num_inputs - 8
    samples = [x, x + 1, x + 2]
    if _is_any_stacked(call, [i for i in range(call.num_inputs) if i not in samples]):
        return _loop(call)
    call.stack_inputs(samples)
    inputs = [each.t for each in call.inputs]
    inputs[x] = _flat(inputs[x], axis)
    inputs[x + 1 : x + 3] = map(_flat, inputs[x + 1 : x + 3])
    return [_unflat(each, _iterations(call), axis) for each in _run(call, inputs)]


# The inputs of KerasRNN: sequences, mask, initial_h, initial_c, kernel, recurrent_kernel, bias, and masks of gates.
_KERAS_WEIGHTS = range(4, 7)


def _flat_keras_inputs(call: Any, others: Sequence[int]) -> list[tf.Tensor]:
    """Returns the inputs of KerasRNN for one call, without masks of gates, and others with a row for each sample."""
    has_cell_state = tf.compat.as_str(call.get_attr("rnn_mode")) == "lstm"
    call.stack_inputs([0, 1, 2, *([3] if has_cell_state else []), *others])
    inputs = [call.input(i).t for i in range(7)]
    inputs[:3] = map(_flat, inputs[:3])
    # Ignored without a cell state, and of any shape.
    inputs[3] = _flat(inputs[3]) if has_cell_state else tf.zeros([0], inputs[3].dtype)
    return [*inputs, *(_flat(call.input(i).t) for i in others)]


def _cell_state(call: Any, flat: tf.Tensor) -> Any:
    """Returns the cell state, or its gradient, of the iterations. Without a cell state, zeros like initial_c."""
    if tf.compat.as_str(call.get_attr("rnn_mode")) == "lstm":
        return _unflat(flat, _iterations(call))
    initial_c = call.input(3)
    return PFOR.wrap(tf.zeros_like(initial_c.t), initial_c.is_stacked)


def _keras_rnn(call: Any) -> list[Any]:
    """Converts KerasRNN. TensorFlow removes the loop that computes reserve_space unless something reads it."""
    if _is_any_stacked(call, _KERAS_WEIGHTS):
        return _loop(call)
    original = list(call.inputs)
    masks = range(7, call.num_inputs)
    outputs, final_h, final_c, reserve_space = _run(call, _flat_keras_inputs(call, masks))
    states = [*(_unflat(each, _iterations(call)) for each in (outputs, final_h)), _cell_state(call, final_c)]
    if not call.get_attr("is_training"):
        return [*states, PFOR.wrap(reserve_space, False)]
    call.inputs[:] = original
    return [*states, _loop(call)[3]]


def _keras_rnn_backprop(call: Any) -> list[Any]:
    """Converts KerasRNNBackprop.

    One call computes the gradients with respect to the sequences and states, a loop those with respect to the weights.
    TensorFlow removes what nothing reads. If all iterations share the forward pass, as in a Jacobian, the loop computes
    all, because one call would need as many forward passes.
    """
    if _is_any_stacked(call, _KERAS_WEIGHTS) or not _is_any_stacked(call, range(4)):
        return _loop(call)
    original = list(call.inputs)
    is_lstm = tf.compat.as_str(call.get_attr("rnn_mode")) == "lstm"
    gradients, num_masks = [7, 8, *([9] if is_lstm else [])], call.num_inputs - 11
    inputs = _flat_keras_inputs(call, [*gradients, *range(11, call.num_inputs)])
    inputs, masks = inputs[: len(inputs) - num_masks], inputs[len(inputs) - num_masks :]
    if not is_lstm:
        inputs.append(tf.zeros([0], inputs[0].dtype))
    forward = {name: value for name, value in call.op.node_def.attr.items() if not name.startswith("_")}
    forward["is_training"] = tf.compat.v1.AttrValue(b=True)
    # TensorFlow merges this with the same call of `_keras_rnn`.
    name = call.op_type.removesuffix("Backprop")
    outputs = create_pfor_op(name, [*inputs[:7], *masks], [inputs[0].dtype] * 4, forward).outputs
    d_sequences, d_h, d_c, *_ = _run(call, [*inputs, outputs[3], *masks])
    states = [*(_unflat(each, _iterations(call)) for each in (d_sequences, d_h)), _cell_state(call, d_c)]
    call.inputs[:] = original
    return [*states, *_loop(call)[3:]]


def _cudnn_rnn(call: Any) -> list[Any]:
    """Converts CudnnRNN of any version: in inference, one call if all iterations share the weights."""
    if call.get_attr("is_training") or call.input(3).is_stacked:
        return _loop(call)
    if not _is_any_stacked(call):
        return _once(call)
    is_lstm = tf.compat.as_str(call.get_attr("rnn_mode")) == "lstm"
    time_major = "time_major" not in call.op.node_def.attr or call.get_attr("time_major")
    axis = 1 if time_major else 0
    has_lengths = call.num_inputs > 4
    call.stack_inputs([0, 1, *([2] if is_lstm else []), *([4] if has_lengths else [])])
    inputs = [each.t for each in call.inputs]
    inputs[:2] = (_flat(each, axis) for each in inputs[:2])
    inputs[2] = _flat(inputs[2], axis) if is_lstm else tf.zeros([0], inputs[2].dtype)
    if has_lengths:
        inputs[4] = _flat(inputs[4])
    output, output_h, output_c, *reserved = _run(call, inputs)
    iterations = _iterations(call)
    return [
        *(_unflat(each, iterations, axis) for each in (output, output_h)),
        _unflat(output_c, iterations, axis) if is_lstm else PFOR.wrap(output_c, False),
        *(PFOR.wrap(each, False) for each in reserved),
    ]


def _once(call: Any) -> list[Any]:
    """Runs the op once for all iterations."""
    return [PFOR.wrap(each, False) for each in _run(call, [each.t for each in call.inputs])]


def _deterministic(call: Any) -> list[Any]:
    """Converts an op that runs in a loop, unless its inputs and thus results are the same in all iterations."""
    return _loop(call) if _is_any_stacked(call) else _once(call)


# All other ops are `_deterministic`.
_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "AlignTensor": _row_by_row,
    **dict.fromkeys(("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3"), _cudnn_rnn),
    **dict.fromkeys(("GRUBlockCell", "GRUBlockCellGrad", "GRUBlockCellGradV2"), _gru_block_cell),
    **dict.fromkeys(("LSTMBlockCell", "BlockLSTM", "BlockLSTMV2"), _lstm),
    **dict.fromkeys(("KerasRNN", "MixedKerasRNN"), _keras_rnn),
    **dict.fromkeys(("KerasRNNBackprop", "MixedKerasRNNBackprop"), _keras_rnn_backprop),
}


def _register(ops: Iterable[str], prefix: str = "") -> None:
    """Registers the converters of ops that have none: if the package is imported again, they have one."""
    if PFOR is None:
        return
    for op in ops:
        with contextlib.suppress(AssertionError):
            PFOR.RegisterPFor(prefix + op)(_CONVERTERS.get(op, _deterministic))


def enable_builtin_kernels() -> None:
    """Registers the converters for TensorFlow's own ops."""
    _register(_library.builtin_ops())


_register(_library.op_names(), "TfRnnOps>")
