"""The sections of the benchmark: their cases, peers and rounds."""

import dataclasses
from collections.abc import Container, Sequence

from cases import (
    EMPTY_FUNCTION,
    FIT,
    FORWARD,
    FORWARD_BACKWARD,
    FUNCTION,
    MAPPED,
    OPS_ALONE,
    PREDICT,
    PRODUCT,
    SAVED_MODEL,
    TANH,
    TASKS,
    TRAIN_ON_BATCH,
    Case,
    Network,
    parse_case,
)
from loads import QUIET, Load
from peers import (
    GPU_PEERS,
    KERAS,
    KERAS_UNROLLED,
    KERAS_XLA,
    ONNX_RUNTIME,
    OURS,
    OURS_XLA,
    PEERS,
    PYTORCH,
    RAW_OPS,
    SCALING_PEERS,
)

MAIN = "main"
MEMORY = "memory"
LENGTHS = "lengths"
BATCHES = "batches"
CALLS = "calls"
SECOND_ORDER = "second_order"
# The parts of "keras": all models with calls that all libraries have, and some models with calls of Keras only.
MODELS = "keras"
KERAS_CALLS = f"{MODELS}/calls"
SHARING = "sharing"


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
_MODELS = _cases(
    "model-lstm-32-80-64-128-bidirectional-varying",
    "model-gru-48-60-40-256-2layers",
    "model-lstm-64-40-128-320-2layers",
    "model-lstm-16-200-24-64",
    "model-lstm-8-1000-16-64",
    "model-lstm-1-1-64-256",
    # The same model with several batch sizes.
    *(f"model-lstm-{batch}-60-32-96" for batch in (1, 8, 256)),
    # As in TensorFlow's text generation tutorial, and the decoder of a sequence-to-sequence model.
    "decoder-gru-1-1-256-1024",
    "decoder-lstm-8-1-256-256-2layers",
    "mixed-lstm-32-80-64-128-2layers",
)
_QUICK_MODELS = _cases("model-lstm-2-3-4-5-bidirectional-varying", "model-gru-2-3-4-5-2layers")
_QUICK_OTHERS = _cases("decoder-lstm-2-1-4-5-2layers", "mixed-lstm-2-3-4-8-2layers")
# Every kind of case, in tiny sizes.
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
    """A section of the benchmark.

    Attributes:
      name: its name in files.
      title: describes it.
      cases: the cases.
      quick_cases: tiny cases for --quick.
      peers: the names of the peers.
      rounds_divisor: the rounds of the main section divided by those of this one.
      tasks: the measured tasks.
      load: the load during the measurement.
      quick_load: a short load for --quick.
    """

    name: str
    title: str
    cases: Sequence[Case]
    quick_cases: Sequence[Case]
    peers: Sequence[str] = tuple(name for name in PEERS if name != KERAS_UNROLLED)
    rounds_divisor: int = 1
    tasks: Container[str] = tuple(TASKS)
    load: Load = QUIET
    quick_load: Load = QUIET

    @property
    def option(self) -> str:
        """The name on the command line: the part of `name` before a slash."""
        return self.name.partition("/")[0]


_CURVE_PEERS = (OURS, KERAS, PYTORCH, ONNX_RUNTIME)

# The parts of "sharing".
WAIT_ALONE = f"{SHARING}/wait_alone"
WAIT_WITH_PRODUCTS = f"{SHARING}/wait_with_products"
WAIT_WITH_SEQUENCES = f"{SHARING}/wait_with_sequences"
CLIENTS = {count: f"{SHARING}/clients_{count}" for count in (1, 4, 16)}
BUSY_CPU = f"{SHARING}/busy_cpu"
THREADS_PER_CPU = {count: f"{SHARING}/threads_per_cpu_{count}" for count in (2, 4)}
PIPELINE = f"{SHARING}/pipeline"


def _background(case: str, task: str, threads: int) -> Sequence[tuple[Case, str]]:
    return [(parse_case(case), task)] * threads


def _wait(
    name: str, title: str, peers: Sequence[str], background: str = "", quick: str = "", task: str = ""
) -> Section:
    """Returns a section: the latency of an occasional small op while two threads repeat a background case."""
    return Section(
        name,
        title,
        _cases("elementwise-1000000"),
        _cases("elementwise-100"),
        peers,
        rounds_divisor=2,
        tasks=[TANH],
        load=Load(seconds=2.0, pause=0.005, background=_background(background, task, 2) if background else []),
        quick_load=Load(seconds=0.02, background=_background(quick, task, 2) if quick else []),
    )


def _clients(count: int) -> Section:
    return Section(
        CLIENTS[count],
        f"{count} clients of the same network",
        _cases("lstm-1-30-256-384", "lstm-8-30-256-384"),
        _cases("lstm-2-3-8-16"),
        _CURVE_PEERS,
        rounds_divisor=2,
        tasks=[FORWARD],
        load=Load(seconds=1.5, clients=count),
        quick_load=Load(seconds=0.02, clients=count),
    )


def _crowded(name: str, title: str, load: Load) -> Section:
    """Returns a section: the float32 networks of the main section on CPUs with more threads than CPUs."""
    crowded = [case for case in _TABLE if isinstance(case, Network) and case.dtype == "float32"]
    quick = _cases("lstm-2-3-8-16")
    peers = (OURS, PYTORCH, ONNX_RUNTIME)
    return Section(name, title, crowded, quick, peers, rounds_divisor=2, load=load, quick_load=load)


_SHARING = (
    _wait(WAIT_ALONE, "small op alone", (RAW_OPS, PYTORCH, ONNX_RUNTIME)),
    _wait(
        WAIT_WITH_PRODUCTS,
        "small op with two threads of matrix products",
        (RAW_OPS, PYTORCH, ONNX_RUNTIME),
        "product-1024",
        "product-8",
        PRODUCT,
    ),
    _wait(
        WAIT_WITH_SEQUENCES,
        "small op with two threads of long sequences",
        _CURVE_PEERS,
        "lstm-32-400-256-512",
        "lstm-2-3-8-16",
        FORWARD,
    ),
    *map(_clients, CLIENTS),
    _crowded(BUSY_CPU, "with another process on one of the CPUs", Load(busy_cpus=1)),
    *(
        _crowded(name, f"with {count} threads per CPU", Load(threads_per_cpu=count))
        for count, name in THREADS_PER_CPU.items()
    ),
    Section(
        PIPELINE,
        "training with a tf.data pipeline",
        _cases("lstm-32-100-128-256", "lstm-64-50-512-512"),
        _cases("lstm-2-3-8-16"),
        (OURS, KERAS),
        rounds_divisor=2,
        tasks=[FORWARD_BACKWARD],
        load=Load(seconds=2.0, background=_background("elementwise-1000000", MAPPED, 1)),
        quick_load=Load(seconds=0.02, background=_background("elementwise-100", MAPPED, 1)),
    ),
)

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
            "time by sequence length",
            _cases(*(f"lstm-4-{time}-128-256" for time in (1, 10, 100, 300, 1000, 3000, 10000))),
            _cases("lstm-2-1-8-16", "lstm-2-10-8-16"),
            _CURVE_PEERS,
            rounds_divisor=4,
        ),
        Section(
            BATCHES,
            "time by batch size",
            _cases(*(f"lstm-{2**power}-50-128-256" for power in range(10))),
            _cases("lstm-1-2-8-16", "lstm-2-2-8-16"),
            _CURVE_PEERS,
            rounds_divisor=4,
        ),
        Section(
            CALLS,
            "call overhead (all sizes 1)",
            # The product shows the overhead of the simplest call of each library.
            _cases("lstm-1-1-1-1", "gru-1-1-1-1", "tanh-1-1-1-1", "gru_block_cell-1-1-1-1steps", "product-1"),
            _cases("lstm-1-1-1-1", "gru_block_cell-1-1-1-1steps", "product-1"),
        ),
        Section(
            SECOND_ORDER,
            "gradients of penalties",
            _PENALIZED,
            _cases("penalty-lstm-2-3-8-16"),
            (OURS, KERAS, KERAS_XLA, KERAS_UNROLLED, PYTORCH),
            rounds_divisor=2,
        ),
        Section(
            MODELS,
            "Keras models",
            _MODELS,
            (*_QUICK_MODELS, *_QUICK_OTHERS),
            (OURS, OURS_XLA, KERAS, KERAS_XLA, PYTORCH, ONNX_RUNTIME),
            tasks=[FUNCTION, TRAIN_ON_BATCH, EMPTY_FUNCTION, OPS_ALONE],
        ),
        Section(
            KERAS_CALLS,
            "Keras models: SavedModel, predict and fit",
            # One model dominated by call overhead, one with a mask, and one dominated by matrix products.
            _cases(
                "model-lstm-1-60-32-96",
                "model-lstm-32-80-64-128-bidirectional-varying",
                "model-gru-48-60-40-256-2layers",
            ),
            _QUICK_MODELS[:1],
            (OURS, KERAS, KERAS_XLA),
            rounds_divisor=2,
            tasks=[SAVED_MODEL, PREDICT, FIT],
        ),
        *_SHARING,
    )
}

# The only section of the GPU benchmark.
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

# The section of the scaling benchmark. The products of batch and time are small, so that one thread is done soon.
SCALING_SECTION = Section(
    "scaling",
    "networks with several numbers of threads",
    _cases(
        *(
            f"{cell}-{batch}-{time}-{units}-{units}"
            for units in (512, 1024, 256)
            for batch, time in ((32, 16), (128, 8), (1, 32))
            for cell in ("lstm", "gru")
        )
    ),
    _cases("lstm-2-3-8-8", "gru-2-3-8-8"),
    tuple(SCALING_PEERS),
)


def scaling(threads: int | str) -> str:
    """Returns the section of the scaling benchmark's measurements with a number of threads."""
    return f"{SCALING_SECTION.name}/{threads}"


PRODUCT_SIZES = (512, 1024, 1536, 2048)
QUICK_PRODUCT_SIZES = (64,)
PRODUCT_DTYPES = ("float32", "bfloat16")
