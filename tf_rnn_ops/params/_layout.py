"""The layout of a params buffer: the position of each matrix and bias."""

import dataclasses
import functools
import math
import numbers
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

# None: the mode has one gate, without a name.
_GATES: dict[str, tuple[str | None, ...]] = {
    "rnn_relu": (None,),
    "rnn_tanh": (None,),
    "lstm": ("i", "f", "g", "o"),
    "gru": ("r", "u", "n"),
}
_DIRECTIONS = {"unidirectional": ("forward",), "bidirectional": ("forward", "backward")}
# The start of a name. More digits would be too many for an int, and no layout has so many layers.
_LAYER = re.compile(r"layer_(\d{1,99})/")
_INPUT_MODES = ("linear_input", "skip_input", "auto_select")


@dataclasses.dataclass(frozen=True)
class Region:
    """A matrix or a bias in the params buffer.

    Attributes:
      name: its unique name, made of the next four attributes, such as "layer_0/forward/kernel/i".
      kind: "kernel", "recurrent_kernel", "projection", "input_bias" or "recurrent_bias".
      layer: its layer, from 0.
      direction: "forward" or "backward".
      gate: its gate; None for a projection, and in modes with one gate.
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
        """The number of its elements."""
        return math.prod(self.shape)


@dataclasses.dataclass(frozen=True)
class Layout(Mapping[str, Region]):
    """The layout of a params buffer: a mapping from names to regions, in the order of the buffer.

    Create one with `layout`. It prints as a table of its regions.

    Attributes:
      rnn_mode: "rnn_relu", "rnn_tanh", "lstm" or "gru".
      num_units: the size of a cell.
      input_size: the size of the network's input at one time step.
      num_layers: the number of layers.
      direction: "unidirectional" or "bidirectional".
      input_mode: "linear_input" or "skip_input".
      num_proj: the size that the hidden state is projected to, or 0 without a projection.
    """

    rnn_mode: str
    num_units: int
    input_size: int
    num_layers: int
    direction: str
    input_mode: str
    num_proj: int

    def __getitem__(self, name: str) -> Region:
        match = _LAYER.match(name) if isinstance(name, str) else None
        if match and int(match[1]) < self.num_layers:
            for regions in self._of_layer(int(match[1])):
                if name in regions:
                    return regions[name]
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        for number in range(len(_PARTS)):
            for layer in range(self.num_layers):
                yield from self._of_layer(layer)[number]

    def __len__(self) -> int:
        return sum(_total(self, parts, self.num_layers, lambda shape: 1) for parts in _PARTS)

    @property
    def size(self) -> int:
        """The number of elements of the params buffer."""
        return sum(_total(self, parts, self.num_layers, math.prod) for parts in _PARTS)

    def __str__(self) -> str:
        rows = [("name", "offset", "size", "shape")]
        rows += [(each.name, str(each.offset), str(each.size), str(list(each.shape))) for each in self.values()]
        name, offset, size, _ = (max(map(len, column)) for column in zip(*rows, strict=True))
        lines = [f"{row[0]:<{name}}  {row[1]:>{offset}}  {row[2]:>{size}}  {row[3]}" for row in rows]
        return "\n".join([f"{self!r}, size {self.size}", *lines])

    def _of_layer(self, layer: int) -> tuple[dict[str, Region], ...]:
        """Returns the matrices and the biases of a layer by name, made when they are first needed."""
        if layer not in self._made:
            self._made[layer] = _regions(self, layer)
        return self._made[layer]

    @functools.cached_property
    def _made(self) -> dict[int, tuple[dict[str, Region], ...]]:
        return {}


def layout(
    rnn_mode: str,
    num_units: int,
    input_size: int,
    num_layers: int = 1,
    direction: str = "unidirectional",
    input_mode: str = "linear_input",
    num_proj: int = 0,
) -> Layout:
    """Returns the layout of the params buffer of a network.

    Args:
      rnn_mode: "rnn_relu", "rnn_tanh", "lstm" or "gru".
      num_units: the size of a cell.
      input_size: the size of the network's input at one time step.
      num_layers: the number of layers, at least 1.
      direction: "unidirectional" or "bidirectional".
      input_mode: "linear_input"; "skip_input", where layer 0 has no input matrix and input_size must be num_units; or
        "auto_select", which is "skip_input" if these are equal and "linear_input" otherwise.
      num_proj: the size that the hidden state of an LSTM is projected to, at most num_units. 0 or num_units means no
        projection.

    Returns:
      A `Layout`, a mapping from names to regions in the order of the buffer.

    Raises:
      ValueError: if an argument has an invalid value or does not match the others.

    Examples:
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
        raise ValueError(f"num_proj must be 0 unless rnn_mode is lstm, but is {num_proj} where rnn_mode is {rnn_mode}")
    if num_proj > num_units:
        raise ValueError(f"num_proj must be at most num_units = {num_units}, but is {num_proj}")
    if input_mode == "skip_input" and input_size != num_units:
        raise ValueError(
            f"input_size must equal num_units ({num_units}) with input_mode 'skip_input', but is {input_size}"
        )
    if input_mode == "auto_select":
        input_mode = "skip_input" if input_size == num_units else "linear_input"
    if num_proj == num_units:
        num_proj = 0
    return Layout(rnn_mode, num_units, input_size, num_layers, direction, input_mode, num_proj)


def _regions(layout: Layout, layer: int) -> tuple[dict[str, Region], ...]:
    """Returns the matrices and the biases of a layer by name, each in the order of the buffer."""
    regions: tuple[dict[str, Region], ...] = ({}, {})
    start = 0
    for made, parts in zip(regions, _PARTS, strict=True):
        offset = start + _total(layout, parts, layer, math.prod)
        for direction in _DIRECTIONS[layout.direction]:
            for kind, gate, shape in parts(layout, layer):
                name = "/".join([f"layer_{layer}", direction, kind, *([gate] if gate else [])])
                made[name] = Region(name, kind, layer, direction, gate, offset, shape)
                offset += made[name].size
        start = _total(layout, parts, layout.num_layers, math.prod)
    return regions


def num_pseudo_layers(layout: Layout) -> int:
    """Returns the number of pseudo-layers of a layout."""
    return layout.num_layers * len(_DIRECTIONS[layout.direction])


def _total(
    layout: Layout, parts: Callable[..., Iterator[Any]], num_layers: int, measure: Callable[[tuple[int, ...]], int]
) -> int:
    """Returns the sum of a measure of the shapes of all matrices, or all biases, in the first layers."""
    if num_layers == 0:
        return 0
    # All layers after the first are equal: the time does not depend on their number.
    first, other = (sum(measure(shape) for _, _, shape in parts(layout, layer)) for layer in (0, 1))
    return len(_DIRECTIONS[layout.direction]) * (first + (num_layers - 1) * other)


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
    """Yields (kind, gate, shape) of the biases of one direction of a layer."""
    for kind in ("input_bias", "recurrent_bias"):
        yield from ((kind, gate, (layout.num_units,)) for gate in _GATES[layout.rnn_mode])


_PARTS = (_matrices, _biases)  # in the order of the buffer


def _check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    """Raises a ValueError if a value is not one of the choices."""
    if value not in tuple(choices):
        raise ValueError(f"{name} must be {' or '.join(map(repr, choices))}, but is {value!r}")


def _checked_integer(name: str, value: Any, at_least: int) -> int:
    """Returns a value as an int, or raises a ValueError if it is not an integer or too small."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < at_least:
        raise ValueError(f"{name} must be an integer of at least {at_least}, but is {value!r}")
    return int(value)
