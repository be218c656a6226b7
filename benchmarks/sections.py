"""What is measured: the libraries, and the sections with their cases."""

import dataclasses
from collections.abc import Container, Sequence

from cases import (
    EMPTY_FUNCTION,
    FIT,
    FORWARD,
    FORWARD_BACKWARD,
    FUNCTION,
    MAPPED,
    MEMORY,
    OPS_ALONE,
    PREDICT,
    PRODUCT,
    SAVED_MODEL,
    TANH,
    TRAIN_ON_BATCH,
    Case,
    parse_case,
    parse_cases,
)
from measure import QUIET, Load, Peer

OURS = "tf_rnn_ops"
OURS_XLA = "tf_rnn_ops_xla"
KERAS = "keras"
KERAS_XLA = "keras_xla"
KERAS_UNROLLED = "keras_unrolled"
PYTORCH = "pytorch"
ONNX_RUNTIME = "onnxruntime"
RAW_OPS = "tf_raw_ops"

_TF, _OURS, _KERAS, _ONNX = (
    ["tensorflow"],
    ["tensorflow", "tf_rnn_ops"],
    ["tensorflow", "keras"],
    ["onnx", "onnxruntime"],
)
_ALL_PEERS = (
    Peer(OURS, "tf_rnn_ops", "tensorflow_library.TfRnnOps", _OURS),
    Peer(OURS_XLA, "tf_rnn_ops XLA", "tensorflow_library.TfRnnOpsXla", _OURS),
    Peer(KERAS, "Keras", "tensorflow_library.Keras", _KERAS),
    Peer(KERAS_XLA, "Keras XLA", "tensorflow_library.KerasXla", _KERAS),
    Peer(KERAS_UNROLLED, "Keras unrolled", "tensorflow_library.KerasUnrolled", _KERAS),
    Peer(PYTORCH, "PyTorch", "pytorch_library.PyTorch", ["torch"]),
    Peer(ONNX_RUNTIME, "ONNX Runtime", "onnxruntime_library.OnnxRuntime", _ONNX),
    Peer(RAW_OPS, "tf.raw_ops", "tensorflow_library.RawOps", _TF),
)
PEERS = {peer.name: peer for peer in _ALL_PEERS}
GPU_PEERS = {
    OURS: PEERS[OURS]._replace(library="tensorflow_library.TfRnnOpsOnGpu"),
    RAW_OPS: PEERS[RAW_OPS]._replace(library="tensorflow_library.RawOpsOnGpu"),
    PYTORCH: PEERS[PYTORCH]._replace(library="pytorch_library.PyTorchOnGpu"),
}
# The scaling benchmark needs no TensorFlow.
SCALING_PEERS = {
    OURS: PEERS[OURS]._replace(library="engine_library.Engine", packages=[]),
    **{name: PEERS[name] for name in (PYTORCH, ONNX_RUNTIME)},
}
# These compute the expected results.
REFERENCE = Peer("float64", "float64", "tensorflow_library.Float64Reference", _KERAS)
PYTORCH_REFERENCE = Peer("float64", "float64", "pytorch_library.Float64Reference", ["torch"])


@dataclasses.dataclass(frozen=True)
class Section:
    """A section of the benchmark.

    Attributes:
      name: its name in files; the part before a slash is that on the command line.
      title: describes it.
      cases: the cases.
      quick_cases: tiny cases for --quick.
      peers: the names of the peers.
      rounds_divisor: the rounds of the main section divided by those of this one.
      tasks: the measured tasks; all if empty.
      load: the load during the measurement.
      quick_load: a short load for --quick.
    """

    name: str
    title: str
    cases: Sequence[Case]
    quick_cases: Sequence[Case]
    peers: Sequence[str] = tuple(name for name in PEERS if name != KERAS_UNROLLED)
    rounds_divisor: int = 1
    tasks: Container[str] = ()
    load: Load = QUIET
    quick_load: Load = QUIET

    @property
    def option(self) -> str:
        """The name on the command line."""
        return self.name.partition("/")[0]


def _combine(cells: str, sizes: str, options: str = "") -> list[Case]:
    """Returns the cases of all cells, sizes and options, cells first."""
    endings = [f"-{option}" for option in options.split()] or [""]
    return [
        parse_case(f"{cell}-{size}{ending}") for ending in endings for cell in cells.split() for size in sizes.split()
    ]


MAIN = "main"
LENGTHS = "lengths"
BATCHES = "batches"
CALLS = "calls"
SECOND_ORDER = "second_order"
MODELS = "keras"  # calls that all libraries have
KERAS_CALLS = "keras/calls"  # calls that only Keras has
WAIT_ALONE = "sharing/wait_alone"
WAIT_WITH_PRODUCTS = "sharing/wait_with_products"
WAIT_WITH_SEQUENCES = "sharing/wait_with_sequences"
CLIENTS = {count: f"sharing/clients_{count}" for count in (1, 4, 16)}
BUSY_CPU = "sharing/busy_cpu"
THREADS_PER_CPU = {count: f"sharing/threads_per_cpu_{count}" for count in (2, 4)}
PIPELINE = "sharing/pipeline"


def scaling(threads: int | str) -> str:
    """Returns the section of the scaling benchmark's measurements with a number of threads."""
    return f"scaling/{threads}"


_SIZES = "1-100-128-256 32-100-128-256 64-50-512-512 128-25-1024-1024"
_CELL_SIZES = "1-128-256 32-128-256 64-512-512 128-1024-1024"
_TABLE = [
    *_combine("lstm gru tanh", _SIZES),
    *_combine("lstm gru", "32-100-128-256", "2layers-bidirectional varying"),
    *_combine("lstm gru", "32-100-128-256 64-50-512-512", "bfloat16"),
    *_combine("gru_block_cell", _CELL_SIZES),
]
_FLOAT32 = [case for case in _TABLE if case.has_network and case.dtype == "float32"]
# Every kind of case, in tiny sizes.
_QUICK_TABLE = parse_cases(
    "lstm-2-3-8-16 gru-2-3-8-16 tanh-2-3-8-16 lstm-2-3-8-16-2layers-bidirectional gru-3-4-8-16-varying "
    "lstm-2-3-8-16-bfloat16 gru_block_cell-2-8-16"
)
_QUICK = _QUICK_TABLE[:1]
# The models, with what the performance page and the chart call them.
MODEL_WORDS = {
    "model-lstm-32-80-64-128-bidirectional-varying": "text classifier, bidirectional LSTM",
    "model-gru-48-60-40-256-2layers": "GRU, 2 layers of 256 units",
    "model-lstm-64-40-128-320-2layers": "LSTM, 2 layers of 320 units",
    "model-lstm-16-200-24-64": "small LSTM, 200 steps",
    "model-lstm-8-1000-16-64": "small LSTM, 1000 steps",
    "model-lstm-1-1-64-256": "LSTM, one step of one sequence",
    # The same model with several batch sizes.
    "model-lstm-1-60-32-96": "small LSTM, one sequence",
    "model-lstm-8-60-32-96": "small LSTM, 8 sequences",
    "model-lstm-256-60-32-96": "small LSTM, 256 sequences",
    # As in TensorFlow's text generation tutorial, and the decoder of a sequence-to-sequence model.
    "decoder-gru-1-1-256-1024": "text generator, GRU",
    "decoder-lstm-8-1-256-256-2layers": "8 text generators, 2-layer LSTM",
    "mixed-lstm-32-80-64-128-2layers": "LSTM with attention",
}
_QUICK_MODELS = parse_cases(
    "model-lstm-2-3-4-5-bidirectional-varying model-gru-2-3-4-5-2layers decoder-lstm-2-1-4-5-2layers "
    "mixed-lstm-2-3-4-8-2layers"
)
# One model dominated by call overhead, one with a mask, and one dominated by matrix products.
_CALLED_MODELS = parse_cases(
    "model-lstm-1-60-32-96 model-lstm-32-80-64-128-bidirectional-varying model-gru-48-60-40-256-2layers"
)
_MEMORY = (
    "lstm-32-100-128-256 lstm-64-50-512-512 lstm-128-25-1024-1024 lstm-32-1000-128-256 gru-64-50-512-512 "
    "penalty-lstm-32-100-128-256 penalty-lstm-64-50-512-512 penalty-lstm-128-25-1024-1024 "
    "penalty-lstm-32-1000-128-256 penalty-gru-64-50-512-512"
)
_PENALIZED = [
    *_combine("penalty-lstm penalty-gru penalty-tanh", _SIZES),
    *parse_cases("penalty-lstm-32-100-128-256-2layers-bidirectional penalty-lstm-64-50-512-512-bfloat16"),
]
_CALLS = "lstm-1-1-1-1 gru-1-1-1-1 tanh-1-1-1-1 gru_block_cell-1-1-1-1steps product-1"
_FOUR = (OURS, KERAS, PYTORCH, ONNX_RUNTIME)
_PENALTY_PEERS = (OURS, KERAS, KERAS_XLA, KERAS_UNROLLED, PYTORCH)


def _repeated(case: str, task: str, threads: int = 2) -> Sequence[tuple[Case, str]]:
    return [(parse_case(case), task)] * threads


def _wait(name: str, title: str, peers: Sequence[str], background=(), quick=()) -> Section:
    """Returns a section: the latency of an occasional small op while two threads repeat a background case."""
    op, tiny = parse_cases("elementwise-1000000"), parse_cases("elementwise-100")
    load = Load(seconds=2.0, pause=0.005, background=background)
    return Section(name, title, op, tiny, peers, 2, [TANH], load, Load(seconds=0.02, background=quick))


def _clients(count: int, name: str) -> Section:
    title, both = f"{count} clients of the same network", parse_cases("lstm-1-30-256-384 lstm-8-30-256-384")
    loads = (Load(seconds=seconds, clients=count) for seconds in (1.5, 0.02))
    return Section(name, title, both, _QUICK, _FOUR, 2, [FORWARD], *loads)


def _crowded(name: str, title: str, load: Load) -> Section:
    """Returns a section: the float32 networks of the main section on CPUs with more threads than CPUs."""
    return Section(name, title, _FLOAT32, _QUICK, (OURS, PYTORCH, ONNX_RUNTIME), 2, (), load, load)


_PIPELINE_LOADS = (
    Load(seconds=2.0, background=_repeated("elementwise-1000000", MAPPED, 1)),
    Load(seconds=0.02, background=_repeated("elementwise-100", MAPPED, 1)),
)
_ALL_SECTIONS = (
    Section(MAIN, "networks and cells of several sizes", _TABLE, _QUICK_TABLE),
    Section(
        MEMORY,
        "peak memory of a training step",
        parse_cases(_MEMORY),
        parse_cases("lstm-2-3-8-16 penalty-lstm-2-3-8-16"),
        (OURS, KERAS, PYTORCH),
    ),
    Section(
        LENGTHS,
        "time by sequence length",
        [parse_case(f"lstm-4-{time}-128-256") for time in (1, 10, 100, 300, 1000, 3000, 10000)],
        parse_cases("lstm-2-1-8-16 lstm-2-10-8-16"),
        _FOUR,
        4,
    ),
    Section(
        BATCHES,
        "time by batch size",
        [parse_case(f"lstm-{2**power}-50-128-256") for power in range(10)],
        parse_cases("lstm-1-2-8-16 lstm-2-2-8-16"),
        _FOUR,
        4,
    ),
    # The product shows the overhead of the simplest call of each library.
    Section(
        CALLS,
        "call overhead (all sizes 1)",
        parse_cases(_CALLS),
        parse_cases("lstm-1-1-1-1 gru_block_cell-1-1-1-1steps product-1"),
    ),
    Section(
        SECOND_ORDER, "gradients of penalties", _PENALIZED, parse_cases("penalty-lstm-2-3-8-16"), _PENALTY_PEERS, 2
    ),
    Section(
        MODELS,
        "Keras models",
        [parse_case(name) for name in MODEL_WORDS],
        _QUICK_MODELS,
        (OURS, OURS_XLA, KERAS, KERAS_XLA, PYTORCH, ONNX_RUNTIME),
        tasks=[FUNCTION, TRAIN_ON_BATCH, EMPTY_FUNCTION, OPS_ALONE],
    ),
    Section(
        KERAS_CALLS,
        "Keras models: SavedModel, predict and fit",
        _CALLED_MODELS,
        _QUICK_MODELS[:1],
        (OURS, KERAS, KERAS_XLA),
        2,
        [SAVED_MODEL, PREDICT, FIT],
    ),
    _wait(WAIT_ALONE, "small op alone", (RAW_OPS, PYTORCH, ONNX_RUNTIME)),
    _wait(
        WAIT_WITH_PRODUCTS,
        "small op with two threads of matrix products",
        (RAW_OPS, PYTORCH, ONNX_RUNTIME),
        _repeated("product-1024", PRODUCT),
        _repeated("product-8", PRODUCT),
    ),
    _wait(
        WAIT_WITH_SEQUENCES,
        "small op with two threads of long sequences",
        _FOUR,
        _repeated("lstm-32-400-256-512", FORWARD),
        _repeated("lstm-2-3-8-16", FORWARD),
    ),
    *(_clients(count, name) for count, name in CLIENTS.items()),
    _crowded(BUSY_CPU, "with another process on one of the CPUs", Load(busy_cpus=1)),
    *(_crowded(name, f"with {n} threads per CPU", Load(threads_per_cpu=n)) for n, name in THREADS_PER_CPU.items()),
    Section(
        PIPELINE,
        "training with a tf.data pipeline",
        parse_cases("lstm-32-100-128-256 lstm-64-50-512-512"),
        _QUICK,
        (OURS, KERAS),
        2,
        [FORWARD_BACKWARD],
        *_PIPELINE_LOADS,
    ),
)
SECTIONS = {section.name: section for section in _ALL_SECTIONS}

# The only section of the GPU benchmark.
_GPU_SIZES = f"{_SIZES} 256-100-512-1024"
_GPU_CASES = [
    *_combine("lstm gru tanh", _GPU_SIZES),
    *_combine("lstm gru", _GPU_SIZES, "float16"),
    *_combine("lstm", _GPU_SIZES, "bfloat16"),
    *_combine("lstm gru", "32-100-128-256", "2layers-bidirectional varying 2layers-bidirectional-varying-float16"),
    *_combine("gru_block_cell", _CELL_SIZES),
    *_combine("gru_block_cell", _CELL_SIZES, "float16"),
]
_QUICK_GPU = [*_QUICK_TABLE, *parse_cases("gru-2-3-8-16-float16")]
GPU_SECTION = Section(MAIN, "networks and cells on a GPU", _GPU_CASES, _QUICK_GPU, tuple(GPU_PEERS))

# The section of the scaling benchmark. The products of batch and time are small, so that one thread is done soon.
SCALING_SECTION = Section(
    scaling(""),
    "networks with several numbers of threads",
    [
        parse_case(f"{cell}-{sizes}-{units}-{units}")
        for units in (512, 1024, 256)
        for sizes in ("32-16", "128-8", "1-32")
        for cell in ("lstm", "gru")
    ],
    parse_cases("lstm-2-3-8-8 gru-2-3-8-8"),
    tuple(SCALING_PEERS),
)

PRODUCT_SIZES = (512, 1024, 1536, 2048)
QUICK_PRODUCT_SIZES = (64,)
PRODUCT_DTYPES = ("float32", "bfloat16")
