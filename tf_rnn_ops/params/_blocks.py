"""The params buffer by matrices that hold all gates, which is how other libraries keep weights."""

import dataclasses
import functools
import itertools
import math
import operator
from typing import Any

from tf_rnn_ops.params._arrays import Library
from tf_rnn_ops.params._layout import Layout


@dataclasses.dataclass(frozen=True)
class Block:
    """The regions of all gates of one kind of a pseudo-layer: adjacent in the buffer, they make one matrix or bias.

    Attributes:
      name: the pseudo-layer and the kind, such as "layer_0/forward/kernel".
      pseudo_layer: the pseudo-layer that it belongs to, such as "layer_0/forward".
      kind: that of its regions.
      shape: [num_gates * num_units, fan_in] of a matrix, [num_gates * num_units] of a bias, [num_proj, num_units] of a
        projection.
    """

    name: str
    pseudo_layer: str
    kind: str
    shape: tuple[int, ...]


@functools.lru_cache
def blocks(layout: Layout) -> tuple[Block, ...]:
    """Returns the blocks of a layout in the order of the buffer."""
    made = []
    for of_block, regions in itertools.groupby(layout.values(), operator.attrgetter("layer", "direction", "kind")):
        layer, direction, kind = of_block
        heights, *fan_in = zip(*(region.shape for region in regions), strict=True)
        pseudo_layer = f"layer_{layer}/{direction}"
        shape = (sum(heights), *(each[0] for each in fan_in))
        made.append(Block(f"{pseudo_layer}/{kind}", pseudo_layer, kind, shape))
    return tuple(made)


def split_into_blocks(library: Library, layout: Layout, params: Any) -> dict[str, Any]:
    """Returns the blocks that a params buffer holds by name, or refuses one of another shape."""
    params = library.checked("params", library.convert(params), (layout.size,))
    parts = library.split(params, [math.prod(block.shape) for block in blocks(layout)])
    return {block.name: library.reshape(part, block.shape) for block, part in zip(blocks(layout), parts, strict=True)}
