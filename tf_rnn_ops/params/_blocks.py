"""The params buffer as blocks of all gates, which is how other libraries store weights."""

import dataclasses
import functools
import itertools
import math
import operator
from typing import Any

from tf_rnn_ops.params._arrays import Library
from tf_rnn_ops.params._checks import checked_params
from tf_rnn_ops.params._layout import Layout


@dataclasses.dataclass(frozen=True)
class Block:
    """The regions of all gates of one kind in a pseudo-layer. Adjacent in the buffer, they form one matrix or bias.

    Attributes:
      kind: the kind of its regions.
      layer: its layer, from 0.
      direction: "forward" or "backward".
      shape: [num_gates * num_units, fan_in] of a matrix, [num_gates * num_units] of a bias, [num_proj, num_units] of a
        projection.
    """

    kind: str
    layer: int
    direction: str
    shape: tuple[int, ...]

    @property
    def pseudo_layer(self) -> str:
        """Its pseudo-layer, such as "layer_0/forward"."""
        return f"layer_{self.layer}/{self.direction}"

    @property
    def name(self) -> str:
        """Its pseudo-layer and kind, such as "layer_0/forward/kernel"."""
        return f"{self.pseudo_layer}/{self.kind}"


@functools.lru_cache
def blocks(layout: Layout) -> tuple[Block, ...]:
    """Returns the blocks of a layout in the order of the buffer."""
    made = []
    for of_block, gates in itertools.groupby(layout.values(), operator.attrgetter("kind", "layer", "direction")):
        heights, *fan_in = zip(*(region.shape for region in gates), strict=True)
        made.append(Block(*of_block, shape=(sum(heights), *(each[0] for each in fan_in))))
    return tuple(made)


def blocks_of_pseudo_layers(layout: Layout) -> dict[str, dict[str, Block]]:
    """Returns the blocks of each pseudo-layer by kind."""
    of_pseudo_layers: dict[str, dict[str, Block]] = {}
    for block in blocks(layout):
        of_pseudo_layers.setdefault(block.pseudo_layer, {})[block.kind] = block
    return of_pseudo_layers


def split_into_blocks(library: Library, layout: Layout, params: Any) -> dict[str, Any]:
    """Returns the blocks of a params buffer by name, or raises a ValueError if its shape is wrong."""
    parts = library.split(checked_params(library, layout, params), [math.prod(block.shape) for block in blocks(layout)])
    return {block.name: library.reshape(part, block.shape) for block, part in zip(blocks(layout), parts, strict=True)}
