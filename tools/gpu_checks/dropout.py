"""Dropout between layers: the masks are those of the CPU's engine for the same random numbers."""

import dataclasses
import functools
import itertools

import golden_cases

from gpu_checks import networks
from gpu_checks.engine import TYPES
from gpu_checks.outcome import Cases, Context
from gpu_checks.philox import RandomStream, dropout_masks

RATES = (0.1, 1.0)
# From the beginning, and where the lower half of the counter overflows within the masks.
STREAMS = {
    "first": RandomStream(0, 0),
    "overflow": RandomStream(0x0123456789ABCDEF, (0xFEDCBA9876543210 << 64) + 2**64 - 7),
}


def cases(context: Context) -> Cases:
    """Yields each mode, type, layout and kind of lengths in 2 and 3 layers at a rate of 0.5; other rates; streams."""
    stacks = (
        {"direction": "unidirectional", "num_layers": 3},
        {"direction": "bidirectional", "num_layers": 2},
    )
    for mode, dtype, lengths in itertools.product(golden_cases.MODES, TYPES, networks.LENGTHS):
        for stack, layout in zip(stacks, golden_cases.LAYOUTS, strict=True):
            yield _check(context, mode, dtype, lengths, layout, rate=0.5, stream="overflow", **stack)
    for rate, stream, layout in itertools.product(RATES, STREAMS, golden_cases.LAYOUTS):
        for options in ({}, {"num_proj": 9}):
            yield _check(context, "lstm", "float32", "differing", layout, rate, stream, **stacks[1], **options)


def _check(context, mode, dtype, lengths, layout, rate, stream, **options):
    """Returns the name of a check and the check."""
    label = f"dropout_{rate}-{stream}"
    case = networks.make_case(mode, dtype, lengths, layout, label, **options)
    case = dataclasses.replace(case, config=dataclasses.replace(case.config, dropout=rate))
    masks = dropout_masks(case.config, STREAMS[stream])
    return case.name, functools.partial(networks.check, context, case, masks, stream=STREAMS[stream])
