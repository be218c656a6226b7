"""Where in a params buffer each matrix and bias lies."""

import dataclasses
import functools
import math
import numbers
from collections.abc import Iterator, Mapping

# None: of one gate that has no name.
_GATES: dict[str, tuple[str | None, ...]] = {
    "rnn_relu": (None,),
    "rnn_tanh": (None,),
    "lstm": ("i", "f", "g", "o"),
    "gru": ("r", "u", "n"),
}
_DIRECTIONS = {"unidirectional": ("forward",), "bidirectional": ("forward", "backward")}
_INPUT_MODES = ("linear_input", "skip_input", "auto_select")


@dataclasses.dataclass(frozen=True)
class Region:
    """A matrix or a bias in the params buffer.

    Attributes:
      name: the other attributes that tell it from the rest, such as "layer_0/forward/kernel/i".
      kind: "kernel", "recurrent_kernel", "projection", "input_bias" or "recurrent_bias".
      layer: the layer that it belongs to, from 0.
      direction: "forward" or "backward".
      gate: the gate that it belongs to; None for a projection and in the modes of one gate.
      offset: the index of its first element in the buffer.
      shape: [num_units, fan_in] of a kernel; [num_units, num_units] of a recurrent kernel, or [num_units, num_proj]
        with a projection; [num_proj, num_units] of a projection; [num_units] of a bias.
    """

    name: str
    kind: str
    layer: int
    direction: str
    gate: str | None
    offset: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of its elements, which are adjacent."""
        return math.prod(self.shape)


@dataclasses.dataclass(frozen=True)
class Layout(Mapping[str, Region]):
    """The regions of a params buffer by name, in the order in which they lie in it. `layout` makes one.

    Printed, it is a table of them.

    Attributes:
      rnn_mode: "rnn_relu", "rnn_tanh", "lstm" or "gru".
      num_units: the size of a cell.
      input_size: the size of the network's input at one time step.
      num_layers: the number of layers.
      direction: "unidirectional" or "bidirectional".
      input_mode: "linear_input" or "skip_input".
      num_proj: the size that the hidden state is projected to, or 0 for no projection.
    """

    rnn_mode: str
    num_units: int
    input_size: int
    num_layers: int
    direction: str
    input_mode: str
    num_proj: int

    def __getitem__(self, name: str) -> Region:
        return self._regions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._regions)

    def __len__(self) -> int:
        return len(self._regions)

    @property
    def size(self) -> int:
        """The number of elements of the params buffer."""
        return sum(region.size for region in self.values())

    def __str__(self) -> str:
        rows = [("name", "offset", "size", "shape")]
        rows += [(each.name, str(each.offset), str(each.size), str(list(each.shape))) for each in self.values()]
        name, offset, size, _ = (max(map(len, column)) for column in zip(*rows, strict=True))
        lines = [f"{row[0]:<{name}}  {row[1]:>{offset}}  {row[2]:>{size}}  {row[3]}" for row in rows]
        return "\n".join([f"{self!r}, size {self.size}", *lines])

    @functools.cached_property
    def _regions(self) -> dict[str, Region]:
        return {region.name: region for region in _regions(self)}


def layout(
    rnn_mode: str,
    num_units: int,
    input_size: int,
    num_layers: int = 1,
    direction: str = "unidirectional",
    input_mode: str = "linear_input",
    num_proj: int = 0,
) -> Layout:
    """Returns where a network's matrices and biases lie in its params buffer.

    Args:
      rnn_mode: "rnn_relu", "rnn_tanh", "lstm" or "gru".
      num_units: the size of a cell.
      input_size: the size of the network's input at one time step.
      num_layers: the number of layers, at least 1.
      direction: "unidirectional" or "bidirectional".
      input_mode: "linear_input"; "skip_input", which leaves layer 0 without an input matrix and needs an input_size of
        num_units; or "auto_select", which is skip_input if that holds and linear_input otherwise.
      num_proj: the size that an LSTM's hidden state is projected to, at most num_units; 0 or num_units for no
        projection.

    Returns:
      A `Layout`, a mapping from names to regions in the order of the buffer.

    Raises:
      ValueError: if an argument is none of these or does not fit the others.

    Example:
      >>> print(layout("gru", num_units=8, input_size=3))
      Layout(rnn_mode='gru', num_units=8, input_size=3, num_layers=1, direction='unidirectional',
             input_mode='linear_input', num_proj=0), size 312
      name                                offset  size  shape
      layer_0/forward/kernel/r                 0    24  [8, 3]
      layer_0/forward/kernel/u                24    24  [8, 3]
      layer_0/forward/kernel/n                48    24  [8, 3]
      layer_0/forward/recurrent_kernel/r      72    64  [8, 8]
      layer_0/forward/recurrent_kernel/u     136    64  [8, 8]
      layer_0/forward/recurrent_kernel/n     200    64  [8, 8]
      layer_0/forward/input_bias/r           264     8  [8]
      layer_0/forward/input_bias/u           272     8  [8]
      layer_0/forward/input_bias/n           280     8  [8]
      layer_0/forward/recurrent_bias/r       288     8  [8]
      layer_0/forward/recurrent_bias/u       296     8  [8]
      layer_0/forward/recurrent_bias/n       304     8  [8]
    """
    _check_choice("rnn_mode", rnn_mode, _GATES)
    _check_choice("direction", direction, _DIRECTIONS)
    _check_choice("input_mode", input_mode, _INPUT_MODES)
    num_units = _checked_integer("num_units", num_units, at_least=0)
    input_size = _checked_integer("input_size", input_size, at_least=0)
    num_layers = _checked_integer("num_layers", num_layers, at_least=1)
    num_proj = _checked_integer("num_proj", num_proj, at_least=0)
    if num_proj > 0 and rnn_mode != "lstm":
        raise ValueError(f"num_proj must be 0 where rnn_mode is {rnn_mode!r} and not 'lstm', but is {num_proj}")
    if num_proj > num_units:
        raise ValueError(f"num_proj must be at most num_units, {num_units}, but is {num_proj}")
    if input_mode == "skip_input" and input_size != num_units:
        raise ValueError(f"input_size must be num_units, {num_units}, with skip_input, but is {input_size}")
    if input_mode == "auto_select":
        input_mode = "skip_input" if input_size == num_units else "linear_input"
    if num_proj == num_units:
        num_proj = 0
    return Layout(rnn_mode, num_units, input_size, num_layers, direction, input_mode, num_proj)


def _regions(layout: Layout) -> Iterator[Region]:
    """Yields the regions of a layout in the order of the buffer."""
    pseudo_layers = [(layer, way) for layer in range(layout.num_layers) for way in _DIRECTIONS[layout.direction]]
    offset = 0
    for parts in (_matrices, _biases):
        for layer, direction in pseudo_layers:
            for kind, gate, shape in parts(layout, layer):
                name = "/".join([f"layer_{layer}", direction, kind, *([gate] if gate else [])])
                region = Region(name, kind, layer, direction, gate, offset, shape)
                offset += region.size
                yield region


def _matrices(layout: Layout, layer: int) -> Iterator[tuple[str, str | None, tuple[int, ...]]]:
    """Yields (kind, gate, shape) of the matrices of one direction of a layer."""
    gates = _GATES[layout.rnn_mode]
    output_size = layout.num_proj or layout.num_units
    fan_in = layout.input_size if layer == 0 else output_size * len(_DIRECTIONS[layout.direction])
    if layer > 0 or layout.input_mode != "skip_input":
        yield from (("kernel", gate, (layout.num_units, fan_in)) for gate in gates)
    yield from (("recurrent_kernel", gate, (layout.num_units, output_size)) for gate in gates)
    if layout.num_proj > 0:
        yield "projection", None, (layout.num_proj, layout.num_units)


def _biases(layout: Layout, layer: int) -> Iterator[tuple[str, str | None, tuple[int, ...]]]:
    """Yields (kind, gate, shape) of the biases of one direction of a layer: the same in all."""
    for kind in ("input_bias", "recurrent_bias"):
        yield from ((kind, gate, (layout.num_units,)) for gate in _GATES[layout.rnn_mode])


def _check_choice(name, value, choices):
    """Refuses a value that is none of the choices."""
    if value not in tuple(choices):
        raise ValueError(f"{name} must be {' or '.join(map(repr, choices))}, but is {value!r}")


def _checked_integer(name, value, at_least):
    """Returns an int, or refuses what is none or too small."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < at_least:
        raise ValueError(f"{name} must be an integer of at least {at_least}, but is {value!r}")
    return int(value)
