"""Conversions of the weights in checkpoints of TensorFlow 1's contrib."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tf_rnn_ops.params._arrays import NUMPY
from tf_rnn_ops.params._blocks import blocks_of_pseudo_layers
from tf_rnn_ops.params._checks import (
    check_enough,
    check_layout,
    check_names,
    check_one_floating_dtype,
    check_supported,
    mode_of_nonlinearity,
    shape_of_matrix,
)
from tf_rnn_ops.params._layout import Layout, layout
from tf_rnn_ops.params._packing import pack, unpack

_LSTM, _GRU, _BASIC = "cudnn_compatible_lstm_cell", "cudnn_compatible_gru_cell", "basic_rnn_cell"
# By mode, the names of cells. The layers of tf.contrib.cudnn_rnn save the first of each mode.
_CELLS: dict[str, tuple[str, ...]] = {
    "lstm": (_LSTM, "lstm_cell", "basic_lstm_cell", "lstm_fused_cell"),
    "gru": (_GRU, "gru_cell"),
    "rnn_tanh": (_BASIC,),
    "rnn_relu": (_BASIC,),
}
_OF_LAYERS = {names[0] for names in _CELLS.values()}
_NAMES = tuple(dict.fromkeys(name for names in _CELLS.values() for name in names))
# What from_tf1 does not convert, by the ends of the variables' names, with what to use instead.
_UNSUPPORTED = {
    r"recurrent_(kernel|bias)": "a weight of a Keras layer: use tf_rnn_ops.params.from_keras",
    r"w_[ifo]_diag": (
        "a peephole, which CudnnRNN does not have: use tf_rnn_ops.layers.LSTMBlockCell or "
        "tf_rnn_ops.raw_ops.BlockLSTM with use_peephole=True"
    ),
    r"projection/kernel": "a projection, which from_tf1 does not convert",
    r"gru_cell(_\d+)?/((gates|candidate)/)?\w+": (
        "a weight of a GRU that applies the reset gate before the matrix product, unlike CudnnRNN: use "
        "keras.layers.GRU with reset_after=False or tf_rnn_ops.layers.GRUBlockCell"
    ),
}
# The gates of a kernel, in the order of its columns. None: the mode has one gate, without a name.
_GATES: dict[str, tuple[str | None, ...]] = {
    "lstm": ("i", "g", "f", "o"),
    "gru": ("r", "u"),
    "rnn_tanh": (None,),
    "rnn_relu": (None,),
}
# The candidate of a GRU has a projection of the input and one of the state, each with a bias.
_CANDIDATE = (
    ("kernel", "input_bias", "input_projection"),
    ("recurrent_kernel", "recurrent_bias", "hidden_projection"),
)
# The scopes of the cells that contrib saves.
_SCOPES = {
    "unidirectional": "rnn/multi_rnn_cell/cell_{layer}/",
    "bidirectional": "stack_bidirectional_rnn/cell_{layer}/bidirectional_rnn/{way}/",
}
_WAYS = {"forward": "fw", "backward": "bw"}
_AVERAGE = "/ExponentialMovingAverage"
# Programs can rename the outer scope of TensorFlow's functions, and a network of one layer needs no MultiRNNCell.
_VARIABLE = re.compile(
    r"(?P<prefix>(?:.+?/)??)"
    r"(?P<scope>(?:rnn/)?(?:multi_rnn_cell/cell_(?P<layer>\d+)/)?"
    r"|(?:stack_bidirectional_rnn/)?(?:cell_(?P<stacked>\d+)/)?(?:bidirectional_rnn/)?(?P<way>[fb]w)/)"
    rf"(?P<cell>(?:{'|'.join(_NAMES)})(?:_\d+)?)/"
    r"(?:(?:gates/|candidate/(?:input_projection/|hidden_projection/)?|projection/)?(?:kernel|bias)"
    r"|recurrent_(?:kernel|bias)|w_[ifo]_diag|[wb]_(?:ru|c))"
    rf"(?P<average>{_AVERAGE})?"
)


class _Network(NamedTuple):
    """The common parts of the names of a network's variables.

    Attributes:
      prefix: their prefix, with the slash at its end, if any.
      scopes: the scopes of its cells within the prefix, with the fields {layer} and {way}, if any.
      cell: the name of its cells.
      suffix: the suffix of averaged variables, or "".
    """

    prefix: str
    scopes: str
    cell: str
    suffix: str

    @property
    def kind(self) -> str:
        """The name of its cells without a number, which TensorFlow appends to make names unique."""
        return re.sub(r"_\d+$", "", self.cell)

    @property
    def direction(self) -> str:
        """The direction of the network's layout."""
        return "bidirectional" if "{way}" in self.scopes else "unidirectional"

    def scope(self, layer: int, direction: str) -> str:
        """Returns the scope of the variables of one direction of a layer."""
        return f"{self.prefix}{self.scopes.format(layer=layer, way=_WAYS[direction])}{self.cell}"


class _Cell(NamedTuple):
    """A cell of a network: its pseudo-layer, the scope of its variables, and their shapes by name."""

    pseudo_layer: str
    scope: str
    shapes: dict[str, tuple[int, ...]]


class _Checkpoint(Mapping[str, np.ndarray]):
    """The variables of a checkpoint, read on access."""

    def __init__(self, reader: Any) -> None:
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
    """Returns the layout of the params buffer for a layer of TensorFlow 1's contrib, from its variables.

    Args:
      variables: the variables, as in `from_tf1`.
      prefix: the prefix of their names, as in `from_tf1`.
      nonlinearity: "tanh" or "relu", for a `CudnnRNNTanh` or `CudnnRNNRelu`, which the variables do not show.

    Returns:
      A `Layout`.

    Raises:
      ValueError: if the variables are not the cells of exactly one such layer, or `nonlinearity` is invalid. An
        `opaque_kernel` without cells does not show its layout: pass `from_tf1` the one that `layout` returns.

    Examples:
      >>> cell = "rnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cell"
      >>> variables = {f"{cell}/kernel": np.ones([3 + 4, 16]), f"{cell}/bias": np.ones([16])}
      >>> layout_from_tf1(variables) == layout("lstm", num_units=4, input_size=3)
      True
    """
    modes = ("lstm", "gru", mode_of_nonlinearity(nonlinearity))
    variables = _opened(variables)
    networks = _networks(variables, prefix)
    if len(networks) != 1:
        raise _not_one(networks, variables, prefix)
    ((network, layers),) = networks.items()
    _check_expressible(layers)
    (rnn_mode,) = (mode for mode in modes if network.kind in _CELLS[mode])
    scope = network.scope(0, "forward")
    if rnn_mode == "gru":
        kernel = f"{scope}/candidate/input_projection/kernel{network.suffix}"
        input_size, num_units = shape_of_matrix("variables", variables, kernel)
    else:
        kernel = f"{scope}/kernel{network.suffix}"
        num_rows, num_columns = shape_of_matrix("variables", variables, kernel)
        num_units, remainder = divmod(num_columns, len(_GATES[rnn_mode]))
        if remainder > 0:
            raise ValueError(f"{kernel} must have 4 columns per unit, but has {num_columns} columns")
        input_size = num_rows - num_units
    return layout(rnn_mode, num_units, input_size, 1 + max(layers.values()), network.direction)


def from_tf1(layout: Layout, variables: Any, prefix: str | None = None, forget_bias: float = 1.0) -> np.ndarray:
    """Converts the variables of a layer of TensorFlow 1's `tf.contrib.cudnn_rnn`, or of its cells, to a params buffer.

    `CudnnLSTM`, `CudnnGRU`, `CudnnRNNTanh` and `CudnnRNNRelu` save their weights in a format that does not depend on
    the GPU: as the variables of the equivalent cells `CudnnCompatibleLSTMCell`, `CudnnCompatibleGRUCell` and
    `BasicRNNCell`, in a `MultiRNNCell` or in `stack_bidirectional_dynamic_rnn`. Checkpoints of networks of these cells
    have the same format; single cells in `dynamic_rnn` or `bidirectional_dynamic_rnn` are also converted. If the
    checkpoint has only the averages of the variables, named ".../ExponentialMovingAverage", these are converted.

    Networks of `LSTMCell`, `BasicLSTMCell`, `LSTMBlockCell` and `LSTMBlockFusedCell` are converted likewise, unless
    there are also variables of the layers above. These cells add `forget_bias` to the forget gate, which checkpoints do
    not contain. Peepholes, projections and the GRU of `GRUCell` and `GRUBlockCell` are rejected;
    `tf_rnn_ops.layers.LSTMBlockCell` and `GRUBlockCell` take the weights of peepholes and of this GRU.

    `opaque_kernel`, the params buffer of the GPU, is ignored if there are cells. Without cells, or if `prefix` is its
    name, it is returned as it is, which assumes that it has the order of `layout`. Other variables are ignored.

    The kernel of a cell contains the rows for the input above those for the state. The gates of an LSTM are in the
    order i, g, f, o. cuDNN adds two biases. If a cell has one, each of the two is half of it, as when contrib restores
    a checkpoint.

    Args:
      layout: the layout of the buffer, as returned by `layout_from_tf1`, or by `layout` to return an `opaque_kernel`.
        Contrib does not save layers with "skip_input" as cells, and has no projection.
      variables: a mapping from names such as "rnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cell/kernel" to arrays,
        all with the same floating-point dtype; a reader from `tf.train.load_checkpoint`; or the path of a checkpoint
        written by `tf.compat.v1.train.Saver`.
      prefix: the prefix of these names, which is the scope of the layer, such as "encoder", with or without a slash at
        its end; "" for no prefix; or the scope of a single cell or the name of an `opaque_kernel`. By default any
        prefix, if the variables are those of one network.
      forget_bias: the constant that a cell added to its forget gate. Ignored for `CudnnCompatibleLSTMCell` and
        `opaque_kernel`, which have none.

    Returns:
      A new NumPy array, [layout.size].

    Raises:
      TypeError: if `layout` is not a `Layout`.
      ValueError: if contrib does not support the layout, the variables are those of several networks or of one that
        CudnnRNN cannot compute, or their names, shapes or dtypes do not match the layout.

    Source: `CudnnOpaqueParamsSaveable` and `CudnnParamsFormatConverter` with their subclasses in TensorFlow 1.15's
    tensorflow/contrib/cudnn_rnn/python/ops/cudnn_rnn_ops.py.

    Examples:
      >>> cell = "rnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cell"
      >>> variables = {f"{cell}/kernel": np.ones([3 + 4, 16]), f"{cell}/bias": np.ones([16])}
      >>> from_tf1(layout_from_tf1(variables), variables).shape  # [layout.size]
      (144,)
    """
    check_layout(layout)
    variables = _opened(variables)
    found = _networks(variables, prefix)
    buffers = [] if found else _buffers(variables, prefix)
    if len(buffers) == 1:
        return _copy_of_buffer(layout, variables, buffers[0])
    check_supported(layout, "layers of tf.contrib")
    default = _network(layout, prefix or "")
    networks = {
        each: names
        for each, names in found.items()
        if each.direction == layout.direction and each.kind in _CELLS[layout.rnn_mode]
    }
    if len(networks) > 1 or (not found and (_networks(variables, None) or _buffers(variables, None))):
        raise _not_one(networks, variables, prefix)
    network, given = next(iter(networks.items()), (default, {}))
    if layout.num_layers > 1 and "{layer}" not in network.scopes:
        raise ValueError(
            f"the num_layers of layout must be 1, because {network.scope(0, 'forward')} is a single cell, "
            f"but is {layout.num_layers}"
        )
    _check_expressible(given)
    check_enough("variables", layout, given)
    cells, forget_bias = _cells(layout, network), 0.0 if network.kind == _LSTM else float(forget_bias)
    shapes = {f"{cell.scope}/{name}{network.suffix}": shape for cell in cells for name, shape in cell.shapes.items()}
    check_names(f"variables must have exactly the {len(shapes)} variables of a network with this layout", shapes, given)
    arrays = {name: NUMPY.checked(name, np.asarray(variables[name]), shape) for name, shape in shapes.items()}
    check_one_floating_dtype("variables", arrays)
    regions: dict[str, np.ndarray] = {}
    for cell in cells:
        of_cell = {name: arrays[f"{cell.scope}/{name}{network.suffix}"] for name in cell.shapes}
        regions |= {
            f"{cell.pseudo_layer}/{name}": array for name, array in _regions(layout.rnn_mode, of_cell, forget_bias)
        }
    return pack(layout, regions)


def to_tf1(layout: Layout, params: Any, prefix: str = "") -> dict[str, np.ndarray]:
    """Converts a params buffer to the variables of a layer of TensorFlow 1's contrib, or of the equivalent cells.

    Args:
      layout: the layout of the buffer, with an input matrix in every layer and without a projection.
      params: the buffer, [layout.size].
      prefix: a prefix for the names, which is the scope of the layer, such as "encoder", with or without a slash at
        its end; "" for no prefix.

    Returns:
      New NumPy arrays by name. To write a checkpoint, pass variables of these names to `tf.compat.v1.train.Saver`. The
      bias of a cell with one bias is the sum of the two biases of cuDNN.

    Raises:
      TypeError: if `layout` is not a `Layout`.
      ValueError: if contrib does not support the layout, or `params` has the wrong shape.

    Source: as for `from_tf1`.

    Examples:
      >>> rnn = layout("rnn_tanh", num_units=4, input_size=3)
      >>> list(to_tf1(rnn, np.zeros(rnn.size)))
      ['rnn/multi_rnn_cell/cell_0/basic_rnn_cell/kernel', 'rnn/multi_rnn_cell/cell_0/basic_rnn_cell/bias']
    """
    check_supported(layout, "layers of tf.contrib")
    regions = unpack(layout, np.asarray(params))
    variables: dict[str, np.ndarray] = {}
    for cell in _cells(layout, _network(layout, prefix)):
        start = f"{cell.pseudo_layer}/"
        of_one = {name.removeprefix(start): array for name, array in regions.items() if name.startswith(start)}
        variables |= {f"{cell.scope}/{name}": array for name, array in _variables(layout.rnn_mode, of_one)}
    return variables


def _opened(variables: Any) -> Mapping[str, Any]:
    """Returns the variables in a mapping, a reader or a file."""
    if isinstance(variables, str | os.PathLike):
        variables = tf.train.load_checkpoint(os.fspath(variables))
    return _Checkpoint(variables) if hasattr(variables, "get_variable_to_shape_map") else variables


def _network(layout: Layout, prefix: str) -> _Network:
    """Returns the network of a layout, with a prefix."""
    return _Network(_with_slash(prefix), _SCOPES[layout.direction], _CELLS[layout.rnn_mode][0], suffix="")


def _with_slash(prefix: str) -> str:
    """Returns a prefix with a slash at its end."""
    return f"{prefix.rstrip('/')}/" if prefix else ""


def _networks(names: Iterable[str], prefix: str | None) -> dict[_Network, dict[str, int]]:
    """Returns the layers of variables, by network and name, with averages only of networks that have nothing else.

    A prefix of None matches any prefix. If there are layers of tf.contrib.cudnn_rnn, other cells are ignored.
    """
    networks: dict[_Network, dict[str, int]] = {}
    for name in names:
        match = _VARIABLE.fullmatch(name)
        scope = match and f"{match['prefix']}{match['scope']}{match['cell']}"
        if match and (prefix is None or prefix.rstrip("/") in (match["prefix"].rstrip("/"), scope)):
            scopes = re.sub(r"\d+", "{layer}", match["scope"])
            if match["way"]:
                scopes = f"{scopes.removesuffix(match['way'] + '/')}{{way}}/"
            network = _Network(match["prefix"], scopes, match["cell"], match["average"] or "")
            networks.setdefault(network, {})[name] = int(match["layer"] or match["stacked"] or 0)
    of_layers = {each: layers for each, layers in networks.items() if each.kind in _OF_LAYERS}
    networks = of_layers if of_layers or _buffers(names, prefix) else networks
    return {
        each: layers for each, layers in networks.items() if not each.suffix or each._replace(suffix="") not in networks
    }


def _buffers(names: Iterable[str], prefix: str | None) -> list[str]:
    """Returns the names of params buffers, with averages only of those that have nothing else.

    The prefix is a name, the scope of the variable, or the scope around it, where contrib puts the cells. None matches
    any.
    """
    found = []
    for name in names:
        scope, _, variable = name.removesuffix(_AVERAGE).rpartition("/")
        scopes = (None, name, scope, scope.rpartition("/")[0])
        if variable == "opaque_kernel" and (prefix if prefix is None else prefix.rstrip("/")) in scopes:
            found.append(name)
    return [name for name in found if not name.endswith(_AVERAGE) or name.removesuffix(_AVERAGE) not in found]


def _copy_of_buffer(layout: Layout, variables: Mapping[str, Any], name: str) -> np.ndarray:
    """Returns a copy of a params buffer among the variables, after checking its size."""
    params = NUMPY.checked(name, np.array(variables[name]), (layout.size,))
    check_one_floating_dtype("variables", {name: params})
    return params


def _not_one(networks: Iterable[_Network], variables: Mapping[str, Any], prefix: str | None) -> ValueError:
    """Returns the error for no network, or more than one, with a prefix among the variables."""
    found = _listed(networks)
    if found:
        found = f"several: {found}"
    else:
        elsewhere, buffers = _listed(_networks(variables, None)), _buffers(variables, None)
        found = "no network" if prefix is None else f"no network with prefix {prefix!r}"
        found += f"; networks with other prefixes: {elsewhere}" if elsewhere else f" (no {' or '.join(_NAMES)})"
        if buffers:
            listed = " and ".join(f"{name!r} with the shape {list(np.shape(variables[name]))}" for name in buffers)
            found += (
                f", but {listed}: a params buffer does not show its layout. To load one, call from_tf1(layout, "
                f"variables, prefix={buffers[0]!r}) with layout = tf_rnn_ops.params.layout(rnn_mode, num_units, "
                "input_size, num_layers, direction), of the same size"
            )
    return ValueError(f"variables must contain one network; pass its prefix to select one. Found {found}")


def _check_expressible(names: Iterable[str]) -> None:
    """Checks that none of the variables of a network shows that CudnnRNN cannot compute it."""
    for pattern, reason in _UNSUPPORTED.items():
        for name in names:
            if re.search(rf"/{pattern}$", f"/{name.removesuffix(_AVERAGE)}"):
                raise ValueError(f"{name} in variables is {reason}")


def _listed(networks: Iterable[_Network]) -> str:
    """Returns the prefixes, cells and directions of networks as text."""
    return " and ".join(f"{each.prefix.rstrip('/')!r} ({each.cell}, {each.direction})" for each in networks)


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


def _regions(
    rnn_mode: str, variables: Mapping[str, np.ndarray], forget_bias: float
) -> Iterator[tuple[str, np.ndarray]]:
    """Converts the variables of a cell to the regions of a pseudo-layer. Yields (name in the pseudo-layer, array)."""
    within = "gates/" if rnn_mode == "gru" else ""
    gates = _GATES[rnn_mode]
    num_units = len(variables[f"{within}bias"]) // len(gates)
    kernels = np.split(variables[f"{within}kernel"].T, len(gates))  # each [num_units, fan_in + num_units]
    biases = np.split(variables[f"{within}bias"], len(gates))
    for gate, kernel, bias in zip(gates, kernels, biases, strict=True):
        fan_in = kernel.shape[1] - num_units
        bias = bias + bias.dtype.type(forget_bias) if gate == "f" else bias
        yield _region("kernel", gate), kernel[:, :fan_in]
        yield _region("recurrent_kernel", gate), kernel[:, fan_in:]
        yield _region("input_bias", gate), bias / 2
        yield _region("recurrent_bias", gate), bias / 2
    if rnn_mode == "gru":
        for kind, kind_of_bias, name in _CANDIDATE:
            yield f"{kind}/n", variables[f"candidate/{name}/kernel"].T
            yield f"{kind_of_bias}/n", variables[f"candidate/{name}/bias"]


def _variables(rnn_mode: str, regions: Mapping[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """Converts the regions of a pseudo-layer to the variables of a cell: the inverse of `_regions`."""
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
