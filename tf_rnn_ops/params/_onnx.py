"""Conversions of ONNX weights."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tf_rnn_ops.params._arrays import NUMPY
from tf_rnn_ops.params._blocks import Block, blocks, blocks_of_pseudo_layers, split_into_blocks
from tf_rnn_ops.params._checks import check_names, check_one_floating_dtype, check_supported
from tf_rnn_ops.params._layout import Layout

# The kinds of the blocks that form one direction of a tensor, in the order of its rows.
_KINDS = {"W": ("kernel",), "R": ("recurrent_kernel",), "B": ("input_bias", "recurrent_bias")}
# The index in cuDNN of each gate in ONNX: i, o, f, c of an LSTM; z, r, h of a GRU.
_GATES = {"rnn_relu": (0,), "rnn_tanh": (0,), "lstm": (0, 3, 1, 2), "gru": (1, 0, 2)}


class _Tensor(NamedTuple):
    """An input of the operator of a layer: its name, and the blocks of each direction, in the order of the rows."""

    layer: int
    name: str
    directions: tuple[tuple[Block, ...], ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """[num_directions, rows, columns] for W and R, [num_directions, rows] for B."""
        first, *_ = self.directions
        return (len(self.directions), sum(block.shape[0] for block in first), *first[0].shape[1:])


def to_onnx(layout: Layout, params: Any) -> list[dict[str, np.ndarray]]:
    """Converts a params buffer to the weights of ONNX operators that compute the same.

    Each layer is one operator, in one or two directions, with these attributes and defaults for all others:

        rnn_mode    operator  attributes
        "lstm"      LSTM      hidden_size=num_units
        "gru"       GRU       hidden_size=num_units, linear_before_reset=1
        "rnn_tanh"  RNN       hidden_size=num_units
        "rnn_relu"  RNN       hidden_size=num_units, activations=["Relu"] * num_directions

    and direction="bidirectional" for two directions. To feed its output Y, [time, num_directions, batch, num_units], to
    the next layer, add a Transpose to [time, batch, num_directions, num_units] and a Reshape.

    Args:
      layout: the layout of the buffer, with an input matrix in every layer and without a projection.
      params: the buffer, [layout.size].

    Returns:
      For each layer, new NumPy arrays by the names of the operator's inputs, which are "W", the input weights,
      [num_directions, num_gates * num_units, fan_in]; "R", the recurrent weights,
      [num_directions, num_gates * num_units, num_units]; and "B", the input and recurrent biases,
      [num_directions, 2 * num_gates * num_units].

    Raises:
      TypeError: if `layout` is not a `Layout`.
      ValueError: if ONNX does not support the layout, or `params` has the wrong shape.

    Source: the formulas of ONNX's operators LSTM, GRU and RNN, and of `tf_rnn_ops.raw_ops.CudnnRNN`.

    Examples:
      >>> gru = layout("gru", num_units=4, input_size=3, num_layers=2)
      >>> [tensors["W"].shape for tensors in to_onnx(gru, np.zeros(gru.size, "float32"))]
      [(1, 12, 3), (1, 12, 4)]
    """
    check_supported(layout, "ONNX operators")
    gates = _GATES[layout.rnn_mode]
    parts = split_into_blocks(NUMPY, layout, params)
    of_block = {name: _with_gates(part, gates) for name, part in parts.items()}
    weights: list[dict[str, np.ndarray]] = [{} for _ in range(layout.num_layers)]
    for each in _tensors(layout):
        rows = [np.concatenate([of_block[block.name] for block in direction]) for direction in each.directions]
        weights[each.layer][each.name] = np.stack(rows)
    return weights


def from_onnx(layout: Layout, weights: Iterable[Mapping[str, Any]]) -> np.ndarray:
    """Converts the weights of ONNX's operators LSTM, GRU or RNN to a params buffer.

    The operators must have the attributes listed in `to_onnx`. Not supported are an LSTM with peepholes (input P) or
    input_forget, a GRU with linear_before_reset=0, other activations, and clip. For an operator with
    direction="reverse", use a unidirectional layout and reverse the input in time.

    Args:
      layout: the layout of the buffer, with an input matrix in every layer and without a projection.
      weights: for each layer a mapping from "W", "R" and, if the operator has biases, "B" to arrays of the shapes that
        `to_onnx` returns. All have the same floating-point dtype. Convert the initializers of a model to arrays with
        `onnx.numpy_helper.to_array`.

    Returns:
      A new NumPy array, [layout.size]. The biases of an operator without biases are zeros.

    Raises:
      TypeError: if `layout` is not a `Layout`.
      ValueError: if ONNX does not support the layout, or the number, names, shapes or dtypes of the arrays are wrong.

    Source: as for `to_onnx`.

    Examples:
      >>> weights = {"W": np.ones([1, 16, 3]), "R": np.ones([1, 16, 4])}
      >>> from_onnx(layout("lstm", num_units=4, input_size=3), [weights]).shape  # [layout.size]
      (144,)
    """
    check_supported(layout, "ONNX operators")
    arrays = _checked(layout, weights)
    gates = np.argsort(_GATES[layout.rnn_mode]).tolist()  # the index in ONNX of each gate in cuDNN
    dtype = next(iter(arrays.values())).dtype
    of_block = {block: np.zeros(block.shape, dtype) for block in blocks(layout)}
    for tensor, array in arrays.items():
        for direction, rows in zip(tensor.directions, array, strict=True):
            for block, part in zip(direction, np.split(rows, len(direction)), strict=True):
                of_block[block] = _with_gates(part, gates)
    return np.concatenate([np.ravel(part) for part in of_block.values()])


def _with_gates(block: np.ndarray, gates: Sequence[int]) -> np.ndarray:
    """Returns a matrix or bias with its gates reordered."""
    of_gate = np.split(block, len(gates))
    return np.concatenate([of_gate[gate] for gate in gates])


@functools.lru_cache
def _tensors(layout: Layout) -> tuple[_Tensor, ...]:
    """Returns the tensors of a layout."""
    directions = list(blocks_of_pseudo_layers(layout).values())
    num_directions = len(directions) // layout.num_layers
    tensors = []
    for layer in range(layout.num_layers):
        of_layer = directions[layer * num_directions : (layer + 1) * num_directions]
        for name, kinds in _KINDS.items():
            tensors.append(_Tensor(layer, name, tuple(tuple(each[kind] for kind in kinds) for each in of_layer)))
    return tuple(tensors)


def _checked(layout: Layout, weights: Iterable[Mapping[str, Any]]) -> dict[_Tensor, np.ndarray]:
    """Returns the arrays of the tensors, after checking them. Missing biases are omitted."""
    weights = list(weights)
    if len(weights) != layout.num_layers:
        raise ValueError(
            f"weights must have one mapping for each of the {layout.num_layers} layers of the layout, but has "
            f"{len(weights)} items"
        )
    for layer, of_layer in enumerate(weights):
        _check_names(f"weights[{layer}]", of_layer)
    arrays = {}
    for each in _tensors(layout):
        array = weights[each.layer].get(each.name)
        if array is not None:
            arrays[each] = NUMPY.checked(_described(each), np.asarray(array), each.shape)
    check_one_floating_dtype("weights", {_described(each): array for each, array in arrays.items()})
    return arrays


def _check_names(argument: str, of_layer: Mapping[str, Any]) -> None:
    """Checks the names of the tensors of a layer. B may be missing or None."""
    if not isinstance(of_layer, Mapping):
        raise ValueError(
            f"{argument} must be a mapping from 'W', 'R' and 'B' to arrays, but is a {type(of_layer).__name__}"
        )
    given = [name for name, array in of_layer.items() if array is not None]
    requirement = f"{argument} must have the names 'W', 'R' and optionally 'B'"
    check_names(requirement, [name for name in _KINDS if name != "B" or name in given], given)


def _described(tensor: _Tensor) -> str:
    """Returns the name of a tensor for error messages."""
    return f'weights[{tensor.layer}]["{tensor.name}"]'
