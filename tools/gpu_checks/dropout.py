"""Dropout between layers: the masks must equal those of the CPU engine for the same random numbers."""

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import golden_cases
from golden_cases import Case

from gpu_checks import networks
from gpu_checks.engine import TYPES
from gpu_checks.outcome import Cases, Context
from gpu_checks.philox import RandomStream, dropout_masks

RATES = (0.1, 1.0)
# The beginning of a stream, and a place where the lower half of the counter overflows within the masks.
STREAMS = {
    "first": RandomStream(0, 0),
    "overflow": RandomStream(0x0123456789ABCDEF, (0xFEDCBA9876543210 << 64) + 2**64 - 7),
}
_STACKS: tuple[dict[str, Any], ...] = (
    {"direction": "unidirectional", "num_layers": 3},
    {"direction": "bidirectional", "num_layers": 2},
)


def cases(context: Context) -> Cases:
    """Yields a case for each network with dropout."""
    for case, options in every_kind():
        yield case.name, functools.partial(networks.check, context, case, **options)


def every_kind() -> Iterator[tuple[Case, dict[str, Any]]]:
    """Yields networks with dropout, with the `masks` and `stream` options of `networks.check`.

    Each mode, type, layout and kind of lengths with 2 and 3 layers at a rate of 0.5; other rates; other streams.
    """
    for mode, dtype, lengths in itertools.product(golden_cases.MODES, TYPES, networks.LENGTHS):
        for stack, layout in zip(_STACKS, golden_cases.LAYOUTS, strict=True):
            yield _make(mode, dtype, lengths, layout, rate=0.5, stream="overflow", **stack)
    for mode, dtype in itertools.product(golden_cases.MODES, TYPES):
        yield _make(mode, dtype, "with_0", golden_cases.SEQUENCE_MAJOR, rate=1.0, stream="first", **_STACKS[0])
    for rate, stream, layout in itertools.product(RATES, STREAMS, golden_cases.LAYOUTS):
        for options in ({}, {"num_proj": 9}):
            yield _make("lstm", "float32", "differing", layout, rate, stream, **_STACKS[1], **options)


def _make(mode, dtype, lengths, layout, rate, stream, **options) -> tuple[Case, dict[str, Any]]:
    label = f"dropout_{rate}-{stream}"
    case = networks.make_case(mode, dtype, lengths, layout, label, STREAMS[stream], dropout=rate, **options)
    return case, {"masks": dropout_masks(case.config, STREAMS[stream]), "stream": STREAMS[stream]}
