"""The parts of the benchmark: which cases they have, who takes part and how often."""

import dataclasses
from collections.abc import Sequence

from cases import Case, parse_case
from peers import GPU_PEERS, KERAS, KERAS_UNROLLED, KERAS_XLA, ONNX_RUNTIME, OURS, PEERS, PYTORCH

MAIN = "main"
MEMORY = "memory"
LENGTHS = "lengths"
BATCHES = "batches"
CALLS = "calls"
SECOND_ORDER = "second_order"


def _cases(*names: str) -> tuple[Case, ...]:
    return tuple(map(parse_case, names))


_SIZES = ("1-100-128-256", "32-100-128-256", "64-50-512-512", "128-25-1024-1024")
_TABLE = _cases(
    *(f"{cell}-{sizes}" for cell in ("lstm", "gru", "tanh") for sizes in _SIZES),
    *(f"{cell}-32-100-128-256-{option}" for option in ("2layers-bidirectional", "varying") for cell in ("lstm", "gru")),
    *(f"{cell}-{sizes}-bfloat16" for cell in ("lstm", "gru") for sizes in ("32-100-128-256", "64-50-512-512")),
    *(f"gru_block_cell-{sizes}" for sizes in ("1-128-256", "32-128-256", "64-512-512", "128-1024-1024")),
)
_PENALIZED = _cases(
    *(f"penalty-{cell}-{sizes}" for cell in ("lstm", "gru", "tanh") for sizes in _SIZES),
    "penalty-lstm-32-100-128-256-2layers-bidirectional",
    "penalty-lstm-64-50-512-512-bfloat16",
)
# Every kind of case, as small as can be.
_QUICK_TABLE = _cases(
    "lstm-2-3-8-16",
    "gru-2-3-8-16",
    "tanh-2-3-8-16",
    "lstm-2-3-8-16-2layers-bidirectional",
    "gru-3-4-8-16-varying",
    "lstm-2-3-8-16-bfloat16",
    "gru_block_cell-2-8-16",
)


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of the benchmark.

    Attributes:
      name: what options and files call it.
      title: what it shows.
      cases: what is computed.
      quick_cases: the same, so small that it takes no time.
      peers: who takes part.
      rounds_divisor: how many times fewer rounds than the main section it has.
    """

    name: str
    title: str
    cases: Sequence[Case]
    quick_cases: Sequence[Case]
    peers: Sequence[str] = tuple(name for name in PEERS if name != KERAS_UNROLLED)
    rounds_divisor: int = 1


_CURVE_PEERS = (OURS, KERAS, PYTORCH, ONNX_RUNTIME)

SECTIONS = {
    section.name: section
    for section in (
        Section(MAIN, "networks and cells of several sizes", _TABLE, _QUICK_TABLE),
        Section(
            MEMORY,
            "peak memory of a training step",
            _cases(
                "lstm-32-100-128-256",
                "lstm-64-50-512-512",
                "lstm-128-25-1024-1024",
                "lstm-32-1000-128-256",
                "gru-64-50-512-512",
                "penalty-lstm-32-100-128-256",
                "penalty-lstm-64-50-512-512",
                "penalty-lstm-128-25-1024-1024",
                "penalty-lstm-32-1000-128-256",
                "penalty-gru-64-50-512-512",
            ),
            _cases("lstm-2-3-8-16", "penalty-lstm-2-3-8-16"),
            peers=(OURS, KERAS, PYTORCH),
        ),
        Section(
            LENGTHS,
            "time against the length of the sequences",
            _cases(*(f"lstm-4-{time}-128-256" for time in (1, 10, 100, 300, 1000, 3000, 10000))),
            _cases("lstm-2-1-8-16", "lstm-2-10-8-16"),
            _CURVE_PEERS,
            rounds_divisor=4,
        ),
        Section(
            BATCHES,
            "time against the number of sequences",
            _cases(*(f"lstm-{2**power}-50-128-256" for power in range(10))),
            _cases("lstm-1-2-8-16", "lstm-2-2-8-16"),
            _CURVE_PEERS,
            rounds_divisor=4,
        ),
        Section(
            CALLS,
            "a call at the smallest sizes",
            # The product shows what the library's simplest call costs.
            _cases("lstm-1-1-1-1", "gru-1-1-1-1", "tanh-1-1-1-1", "gru_block_cell-1-1-1-1steps", "product-1"),
            _cases("lstm-1-1-1-1", "gru_block_cell-1-1-1-1steps", "product-1"),
        ),
        Section(
            SECOND_ORDER,
            "the gradient of a penalty on a gradient",
            _PENALIZED,
            _cases("penalty-lstm-2-3-8-16"),
            (OURS, KERAS, KERAS_XLA, KERAS_UNROLLED, PYTORCH),
            rounds_divisor=2,
        ),
    )
}

# The benchmark on a GPU has this part alone.
_GPU_SIZES = (*_SIZES, "256-100-512-1024")
GPU_SECTION = Section(
    MAIN,
    "networks and cells of several sizes, on a GPU",
    _cases(
        *(f"{cell}-{sizes}" for cell in ("lstm", "gru", "tanh") for sizes in _GPU_SIZES),
        *(f"{cell}-{sizes}-float16" for cell in ("lstm", "gru") for sizes in _GPU_SIZES),
        *(f"lstm-{sizes}-bfloat16" for sizes in _GPU_SIZES),
        *(
            f"{cell}-32-100-128-256-{option}"
            for option in ("2layers-bidirectional", "varying", "2layers-bidirectional-varying-float16")
            for cell in ("lstm", "gru")
        ),
        *(
            f"gru_block_cell-{sizes}{dtype}"
            for dtype in ("", "-float16")
            for sizes in ("1-128-256", "32-128-256", "64-512-512", "128-1024-1024")
        ),
    ),
    (*_QUICK_TABLE, *_cases("gru-2-3-8-16-float16")),
    tuple(GPU_PEERS),
)

PRODUCT_SIZES = (512, 1024, 1536, 2048)
QUICK_PRODUCT_SIZES = (64,)
PRODUCT_DTYPES = ("float32", "bfloat16")
