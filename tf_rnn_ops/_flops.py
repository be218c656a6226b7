"""The number of floating-point operations of the ops, for TensorFlow's profiler. Importing this module registers them.

The numbers are those that TensorFlow counts for the same network written with its own operations: a matrix product
[m, k] x [k, n] has 2 m k n, an addition or multiplication one for each element, an activation function none. A gradient
op has twice the operations of the forward op, the gradient of a gradient six times. Masked steps and steps after the
end of a sequence count, dropout does not. As for TensorFlow's ops, all sizes must be known: a ValueError tells the
profiler that they are not.
"""

import contextlib
import math
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from tf_rnn_ops import _library
from tf_rnn_ops._private_names import STATISTICS

# The number of gates, and the number of element-wise operations in a step for each unit, without biases: sums of the
# two matrix products, and the cell.
_GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
_POINTWISE = {"lstm": 4 + 4, "gru": 2 + 6, "gru_reset_before": 3 + 5, "rnn_tanh": 1, "rnn_relu": 1, "rnn": 1}


def _shape(op: tf.Operation, index: int) -> list[int]:
    """Returns the shape of an input of an op. Raises a ValueError unless it is known."""
    shape = op.inputs[index].shape
    shape.assert_is_fully_defined()
    return shape.as_list()


def _mode(op: tf.Operation) -> str:
    return tf.compat.as_str(op.get_attr("rnn_mode"))


def _keras_rnn(op: tf.Operation) -> int:
    """Returns the operations of KerasRNN."""
    batch, time, features = _shape(op, 0)
    units, columns = _shape(op, 5)
    biases = op.inputs[6].shape.num_elements()
    if biases is None:
        raise ValueError("The shape of bias is not fully known.")
    return batch * time * (2 * (features + units) * columns + _POINTWISE[_mode(op)] * units + biases)


def _keras_rnn_backprop(op: tf.Operation) -> int:
    """Returns the operations of KerasRNNBackprop, without those of an unwanted gradient of the sequences."""
    flops = 2 * _keras_rnn(op)
    if "_unwanted_outputs" in op.node_def.attr:
        batch, time, features = _shape(op, 0)
        flops -= 2 * batch * time * features * _shape(op, 4)[1]
    return flops


def _cudnn_rnn(op: tf.Operation) -> int:
    """Returns the operations of CudnnRNN of any version."""
    input_shape, state_shape, attrs = _shape(op, 0), _shape(op, 1), op.node_def.attr
    time_major = "time_major" not in attrs or op.get_attr("time_major")
    pseudo_layers = state_shape[0 if time_major else 1]
    input_size, output_size = input_shape[2], state_shape[2]
    has_projection = "num_proj" in attrs and op.get_attr("num_proj") > 0
    units = _shape(op, 2)[2] if has_projection else output_size
    directions = 2 if tf.compat.as_str(op.get_attr("direction")) == "bidirectional" else 1
    mode = _mode(op)
    gates = _GATES[mode]

    input_mode = tf.compat.as_str(op.get_attr("input_mode"))
    skips_input = input_mode == "skip_input" or (input_mode == "auto_select" and input_size == units)
    fan_ins = directions * (0 if skips_input else input_size) + (pseudo_layers - directions) * directions * output_size
    products = 2 * (fan_ins + pseudo_layers * output_size) * gates * units
    if has_projection:
        products += 2 * pseudo_layers * units * output_size
    # Each gate has two biases.
    pointwise = pseudo_layers * units * (_POINTWISE[mode] + 2 * gates)
    return input_shape[0] * input_shape[1] * (products + pointwise)


def _gru_block_cell(op: tf.Operation) -> int:
    """Returns the operations of GRUBlockCell: its products, 3 biases and 5 operations for each unit."""
    (batch, input_size), (_, cell_size) = _shape(op, 0), _shape(op, 1)
    return batch * cell_size * (6 * (input_size + cell_size) + 8)


def _gru_block_cell_grad(op: tf.Operation) -> int:
    """Returns the operations of GRUBlockCellGrad, which has no gradients of weights, and of V2."""
    (batch, input_size), (_, cell_size) = _shape(op, 0), _shape(op, 1)
    pointwise = 18 if len(op.inputs) == 10 else 21
    return batch * (cell_size * (6 * (input_size + cell_size) + pointwise) + input_size)


def _lstm(op: tf.Operation) -> int:
    """Returns the operations of LSTMBlockCell and BlockLSTM: those of products, biases, the cell and its peepholes."""
    x = 0 if "LSTMBlockCell" in op.type else 1  # after seq_len_max
    *steps, input_size = _shape(op, x)
    _, cell_size = _shape(op, x + 1)
    pointwise = 4 + 4 + (6 if op.get_attr("use_peephole") else 0)
    return math.prod(steps) * cell_size * (8 * (input_size + cell_size) + pointwise)


def _lstm_block_cell_grad(op: tf.Operation) -> int:
    """Returns the operations of LSTMBlockCellGrad, which has no matrix products."""
    batch, cell_size = _shape(op, 1)
    return batch * cell_size * (34 if op.get_attr("use_peephole") else 22)


def _times(factor: int, count: Callable[[tf.Operation], int]) -> Callable[[tf.Operation], int]:
    return lambda op: factor * count(op)


_COUNTS = {
    **dict.fromkeys(("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3", "StatelessCudnnRNN"), _cudnn_rnn),
    **dict.fromkeys(("CudnnRNNBackprop", "CudnnRNNBackpropV2", "CudnnRNNBackpropV3"), _times(2, _cudnn_rnn)),
    "CudnnRNNBackpropGrad": _times(6, _cudnn_rnn),
    "GRUBlockCell": _gru_block_cell,
    **dict.fromkeys(("GRUBlockCellGrad", "GRUBlockCellGradV2"), _gru_block_cell_grad),
    "LSTMBlockCell": _lstm,
    "LSTMBlockCellGrad": _lstm_block_cell_grad,
    **{f"BlockLSTM{version}": _lstm for version in ("", "V2")},
    **{f"BlockLSTMGrad{version}": _times(2, _lstm) for version in ("", "V2", "V3")},
    **dict.fromkeys(("KerasRNN", "MixedKerasRNN"), _keras_rnn),
    **dict.fromkeys(("KerasRNNBackprop", "MixedKerasRNNBackprop"), _keras_rnn_backprop),
    **dict.fromkeys(("KerasRNNBackpropGrad", "MixedKerasRNNBackpropGrad"), _times(6, _keras_rnn)),
}


def _register(ops: Iterable[str], prefix: str = "") -> None:
    """Registers the statistics of ops that have none: if the package is imported again, they have them."""
    if STATISTICS is None:
        return
    for op in _COUNTS.keys() & ops:

        def statistic(graph: tf.Graph, node: Any, count: Callable[[tf.Operation], int] = _COUNTS[op]) -> Any:
            return STATISTICS.OpStats("flops", count(graph.get_operation_by_name(node.name)))

        with contextlib.suppress(KeyError):
            STATISTICS.RegisterStatistics(prefix + op, "flops")(statistic)


def enable_builtin_kernels() -> None:
    """Registers the statistics of TensorFlow's own ops."""
    _register(_library.builtin_ops())


_register(_COUNTS, "TfRnnOps>")
