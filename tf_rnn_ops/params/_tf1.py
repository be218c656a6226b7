"""The weights that TensorFlow 1's contrib wrote to checkpoints."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tf_rnn_ops.params._arrays import NUMPY
from tf_rnn_ops.params._blocks import blocks_of_pseudo_layers
from tf_rnn_ops.params._checks import (
    check_floating,
    check_linear_input,
    check_names,
    check_no_projection,
    check_one_dtype,
    mode_of_nonlinearity,
    shape_of_matrix,
)
from tf_rnn_ops.params._layout import Layout, layout
from tf_rnn_ops.params._packing import pack, unpack

_LSTM, _GRU, _BASIC = "cudnn_compatible_lstm_cell", "cudnn_compatible_gru_cell", "basic_rnn_cell"
_CELLS = {"lstm": _LSTM, "gru": _GRU, "rnn_tanh": _BASIC, "rnn_relu": _BASIC}
# The gates that one kernel holds, in the order of its columns. None: the one of a mode whose gate has no name.
_GATES: dict[str, tuple[str | None, ...]] = {
    "lstm": ("i", "g", "f", "o"),
    "gru": ("r", "u"),
    "rnn_tanh": (None,),
    "rnn_relu": (None,),
}
# The candidate of a GRU is made of a projection of the input and one of the state, each with a bias.
_CANDIDATE = (
    ("kernel", "input_bias", "input_projection"),
    ("recurrent_kernel", "recurrent_bias", "hidden_projection"),
)
_SCOPES = {
    ("unidirectional", "forward"): "rnn/multi_rnn_cell/cell_{}",
    ("bidirectional", "forward"): "stack_bidirectional_rnn/cell_{}/bidirectional_rnn/fw",
    ("bidirectional", "backward"): "stack_bidirectional_rnn/cell_{}/bidirectional_rnn/bw",
}
_VARIABLE = re.compile(
    r"(?P<prefix>.+/)?(?:rnn/multi_rnn_cell|(?P<is_bidirectional>stack_bidirectional_rnn))/cell_(?P<layer>\d+)/"
    rf"(?:bidirectional_rnn/[fb]w/)?(?P<cell>{_LSTM}|{_GRU}|{_BASIC})/"
    r"(?:gates/|candidate/input_projection/|candidate/hidden_projection/)?(?:kernel|bias)"
)


class _Network(NamedTuple):
    """What the names of one network's variables have in common.

    Attributes:
      prefix: what precedes them, with the slash at its end, if any.
      direction: that of the network's layout.
      cell: what its cells are called.
    """

    prefix: str
    direction: str
    cell: str

    def scope(self, layer: int, direction: str) -> str:
        """Returns what precedes the names of the variables of a direction of a layer."""
        return f"{self.prefix}{_SCOPES[self.direction, direction].format(layer)}/{self.cell}"


class _Cell(NamedTuple):
    """A cell of a network: the pseudo-layer that it is, the scope of its variables, and their shapes by name."""

    pseudo_layer: str
    scope: str
    shapes: dict[str, tuple[int, ...]]


class _Checkpoint(Mapping[str, np.ndarray]):
    """The variables of a checkpoint, each read when it is asked for."""

    def __init__(self, reader):
        self._reader = reader
        self._names = reader.get_variable_to_shape_map()

    def __getitem__(self, name: str) -> np.ndarray:
        return self._reader.get_tensor(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def layout_from_tf1(variables: Any, prefix: str | None = None, nonlinearity: str = "tanh") -> Layout:
    """Returns the layout of the params buffer for a layer of TensorFlow 1's contrib, as its variables show it.

    Args:
      variables: the variables, as for `from_tf1`.
      prefix: what precedes their names, as for `from_tf1`.
      nonlinearity: "tanh" or "relu": that of a `CudnnRNNTanh` or `CudnnRNNRelu`, which the variables do not show.

    Returns:
      A `Layout`.

    Raises:
      ValueError: if the variables are not those of one such layer, or nonlinearity is none of these.

    Example:
      >>> cell = "rnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cell"
      >>> variables = {f"{cell}/kernel": np.ones([3 + 4, 16]), f"{cell}/bias": np.ones([16])}
      >>> layout_from_tf1(variables) == layout("lstm", num_units=4, input_size=3)
      True
    """
    rnn_mode_of = {_LSTM: "lstm", _GRU: "gru", _BASIC: mode_of_nonlinearity(nonlinearity)}
    variables = _opened(variables)
    networks = _networks(variables, prefix)
    if len(networks) != 1:
        raise _not_one(networks, variables, prefix)
    ((network, layers),) = networks.items()
    rnn_mode, scope = rnn_mode_of[network.cell], network.scope(0, "forward")
    if rnn_mode == "gru":
        input_size, num_units = shape_of_matrix("variables", variables, f"{scope}/candidate/input_projection/kernel")
    else:
        num_rows, num_columns = shape_of_matrix("variables", variables, f"{scope}/kernel")
        num_units, remainder = divmod(num_columns, len(_GATES[rnn_mode]))
        if remainder > 0:
            raise ValueError(f"{scope}/kernel must have 4 columns for each unit, but has {num_columns} in all")
        input_size = num_rows - num_units
    return layout(rnn_mode, num_units, input_size, 1 + max(layers.values()), network.direction)


def from_tf1(layout: Layout, variables: Any, prefix: str | None = None) -> np.ndarray:
    """Returns the params buffer that holds the weights of a layer of TensorFlow 1's `tf.contrib.cudnn_rnn`.

    `CudnnLSTM`, `CudnnGRU`, `CudnnRNNTanh` and `CudnnRNNRelu` saved their weights in a form that does not depend on the
    GPU: as the variables of the cells that compute the same, `CudnnCompatibleLSTMCell`, `CudnnCompatibleGRUCell` and
    `BasicRNNCell`, in a `MultiRNNCell` or in `stack_bidirectional_dynamic_rnn`. A network made of these cells has the
    same checkpoint. What else there is in one is ignored, such as `opaque_kernel`, a copy whose layout is the GPU's.

    The kernel of a cell holds the input's weights above those of the state, the gates of an LSTM in the order i, g, f,
    o; to the forget gate nothing is added. Where a cell has one bias and cuDNN two, which are added, each is half of
    it, as when contrib restored it.

    Args:
      layout: the layout of the buffer, as `layout_from_tf1` makes it. Contrib saved nothing of a layer that skips the
        input matrix, and knew no projection.
      variables: a mapping of names such as "rnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cell/kernel" to arrays, all
        of one floating dtype; a reader, as `tf.train.load_checkpoint` returns it; or the path of a checkpoint that
        `tf.compat.v1.train.Saver` wrote.
      prefix: what precedes these names, the scope that the layer was made in, such as "encoder"; "" for nothing. By
        default whatever precedes them, if there is one network.

    Returns:
      A new NumPy array, [layout.size].

    Raises:
      ValueError: if contrib saved no layer of such a layout, or the variables are not those of the layout, are those of
        several networks, or have another shape or dtype.

    Source: `CudnnOpaqueParamsSaveable` and `CudnnParamsFormatConverter` with their subclasses in TensorFlow 1.15's
    tensorflow/contrib/cudnn_rnn/python/ops/cudnn_rnn_ops.py.

    Example:
      >>> cell = "rnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cell"
      >>> variables = {f"{cell}/kernel": np.ones([3 + 4, 16]), f"{cell}/bias": np.ones([16])}
      >>> from_tf1(layout_from_tf1(variables), variables).shape  # [layout.size]
      (144,)
    """
    _check_known_to_contrib(layout)
    variables = _opened(variables)
    alike = _network(layout, "")[1:]
    networks = {each: names for each, names in _networks(variables, prefix).items() if each[1:] == alike}
    if len(networks) > 1:
        raise _not_one(networks, variables, prefix)
    network, given = next(iter(networks.items()), (_network(layout, prefix or ""), {}))
    cells = _cells(layout, network)
    shapes = {f"{cell.scope}/{name}": shape for cell in cells for name, shape in cell.shapes.items()}
    check_names("variables", shapes, given)
    arrays = {name: NUMPY.checked(name, np.asarray(variables[name]), shape) for name, shape in shapes.items()}
    check_one_dtype("variables", arrays)
    check_floating(arrays)
    regions: dict[str, np.ndarray] = {}
    for cell in cells:
        of_cell = {name: arrays[f"{cell.scope}/{name}"] for name in cell.shapes}
        regions |= {f"{cell.pseudo_layer}/{name}": array for name, array in _regions(layout.rnn_mode, of_cell)}
    return pack(layout, regions)


def to_tf1(layout: Layout, params: Any, prefix: str = "") -> dict[str, np.ndarray]:
    """Returns the variables that a layer of TensorFlow 1's contrib, or its cells, would restore for a params buffer.

    Args:
      layout: the layout of the buffer, with an input matrix in every layer and without a projection.
      params: the buffer, [layout.size].
      prefix: what is to precede the names, the scope that the layer is made in, such as "encoder"; "" for nothing.

    Returns:
      New NumPy arrays by name. `tf.compat.v1.train.Saver` makes a checkpoint of variables of these names. Where cuDNN
      has two biases and a cell one, it is their sum.

    Raises:
      ValueError: if contrib saved no layer of such a layout, or params has another shape.

    Source: as for `from_tf1`.

    Example:
      >>> rnn = layout("rnn_tanh", num_units=4, input_size=3)
      >>> list(to_tf1(rnn, np.zeros(rnn.size)))
      ['rnn/multi_rnn_cell/cell_0/basic_rnn_cell/kernel', 'rnn/multi_rnn_cell/cell_0/basic_rnn_cell/bias']
    """
    _check_known_to_contrib(layout)
    regions = unpack(layout, np.asarray(params))
    variables: dict[str, np.ndarray] = {}
    for cell in _cells(layout, _network(layout, prefix)):
        start = f"{cell.pseudo_layer}/"
        of_one = {name.removeprefix(start): array for name, array in regions.items() if name.startswith(start)}
        variables |= {f"{cell.scope}/{name}": array for name, array in _variables(layout.rnn_mode, of_one)}
    return variables


def _check_known_to_contrib(layout: Layout) -> None:
    """Refuses a layout of which contrib saved no layers."""
    check_linear_input(layout, "the layers that contrib saved")
    check_no_projection(layout, "the layers that contrib saved")


def _opened(variables: Any) -> Mapping[str, Any]:
    """Returns the variables that a mapping, a reader or a path is of."""
    if isinstance(variables, str | os.PathLike):
        variables = tf.train.load_checkpoint(os.fspath(variables))
    return _Checkpoint(variables) if hasattr(variables, "get_variable_to_shape_map") else variables


def _network(layout: Layout, prefix: str) -> _Network:
    """Returns the network that a layout is of, in the scope of that prefix."""
    return _Network(_with_slash(prefix), layout.direction, _CELLS[layout.rnn_mode])


def _with_slash(prefix: str) -> str:
    """Returns a prefix as it precedes a name."""
    return f"{prefix.rstrip('/')}/" if prefix else ""


def _networks(names: Iterable[str], prefix: str | None) -> dict[_Network, dict[str, int]]:
    """Returns the layer of each variable by its name, by networks, with a prefix or, where it is None, with any."""
    networks: dict[_Network, dict[str, int]] = {}
    for name in names:
        match = _VARIABLE.fullmatch(name)
        if match and prefix in (None, match["prefix"] or "", (match["prefix"] or "").rstrip("/")):
            direction = "bidirectional" if match["is_bidirectional"] else "unidirectional"
            network = _Network(match["prefix"] or "", direction, match["cell"])
            networks.setdefault(network, {})[name] = int(match["layer"])
    return networks


def _not_one(networks: Iterable[_Network], variables: Iterable[str], prefix: str | None) -> ValueError:
    """Returns the error where there is no network of that prefix among the variables, or more than one."""
    found = _first_cells(networks)
    if not found:
        elsewhere = _first_cells(_networks(variables, None))
        found = "none" if prefix is None else f"none under {prefix!r}"
        found += f", where there are {elsewhere}" if elsewhere else f": no name has {_LSTM}, {_GRU} or {_BASIC}"
    return ValueError(
        f"variables must be those of one network, of which prefix may say the scope, but the first cells are {found}"
    )


def _first_cells(networks: Iterable[_Network]) -> str:
    """Returns the scopes of the first cells of some networks as text."""
    return " and ".join(repr(network.scope(0, "forward")) for network in networks)


def _cells(layout: Layout, network: _Network) -> list[_Cell]:
    """Returns the cells of a network by pseudo-layer."""
    cells = []
    for pseudo_layer, of_one in blocks_of_pseudo_layers(layout).items():
        num_units, (_, fan_in) = layout.num_units, of_one["kernel"].shape
        width = len(_GATES[layout.rnn_mode]) * num_units
        stacked = {"kernel": (fan_in + num_units, width), "bias": (width,)}
        if layout.rnn_mode == "gru":
            shapes = {f"gates/{name}": shape for name, shape in stacked.items()}
            for name, height in (("input_projection", fan_in), ("hidden_projection", num_units)):
                shapes |= {f"candidate/{name}/kernel": (height, num_units), f"candidate/{name}/bias": (num_units,)}
        else:
            shapes = stacked
        scope = network.scope(of_one["kernel"].layer, of_one["kernel"].direction)
        cells.append(_Cell(pseudo_layer, scope, shapes))
    return cells


def _regions(rnn_mode: str, variables: Mapping[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the regions of a pseudo-layer that the variables of a cell become, with their names in it."""
    within = "gates/" if rnn_mode == "gru" else ""
    gates = _GATES[rnn_mode]
    num_units = len(variables[f"{within}bias"]) // len(gates)
    kernels = np.split(variables[f"{within}kernel"].T, len(gates))  # each [num_units, fan_in + num_units]
    biases = np.split(variables[f"{within}bias"], len(gates))
    for gate, kernel, bias in zip(gates, kernels, biases, strict=True):
        fan_in = kernel.shape[1] - num_units
        yield _region("kernel", gate), kernel[:, :fan_in]
        yield _region("recurrent_kernel", gate), kernel[:, fan_in:]
        yield _region("input_bias", gate), bias / 2
        yield _region("recurrent_bias", gate), bias / 2
    if rnn_mode == "gru":
        for kind, kind_of_bias, name in _CANDIDATE:
            yield f"{kind}/n", variables[f"candidate/{name}/kernel"].T
            yield f"{kind_of_bias}/n", variables[f"candidate/{name}/bias"]


def _variables(rnn_mode: str, regions: Mapping[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the variables of the cell that the regions of a pseudo-layer become: the reverse of `_regions`."""
    within = "gates/" if rnn_mode == "gru" else ""
    kernels, biases = [], []
    for gate in _GATES[rnn_mode]:
        kernels.append(np.hstack([regions[_region("kernel", gate)], regions[_region("recurrent_kernel", gate)]]))
        biases.append(regions[_region("input_bias", gate)] + regions[_region("recurrent_bias", gate)])
    yield f"{within}kernel", NUMPY.transpose(np.concatenate(kernels))
    yield f"{within}bias", np.concatenate(biases)
    if rnn_mode == "gru":
        for kind, kind_of_bias, name in _CANDIDATE:
            yield f"candidate/{name}/kernel", NUMPY.transpose(regions[f"{kind}/n"])
            yield f"candidate/{name}/bias", regions[f"{kind_of_bias}/n"].copy()


def _region(kind: str, gate: str | None) -> str:
    """Returns the name of a region within its pseudo-layer."""
    return f"{kind}/{gate}" if gate else kind
