"""What is measured: the libraries, and the sections with their cases."""

import dataclasses
import itertools
from collections.abc import Container, Sequence
from typing import Any

from cases import (
    CALL_IN_PYTHON,
    CONCRETE_FUNCTION,
    COPIES,
    EMPTY_FUNCTION,
    FIT,
    FORWARD,
    FORWARD_BACKWARD,
    FROZEN,
    FROZEN_WITH_ARRAYS,
    FUNCTION,
    MAKE_CALLABLE,
    MAPPED,
    MEMORY,
    MODEL_CALL,
    OPS_ALONE,
    PREDICT,
    PREDICT_ON_BATCH,
    PRODUCT,
    SAVED_MODEL,
    SERVE_IN_C,
    SIGNATURE,
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
# Of served models only.
OURS_PACKED = "tf_rnn_ops_packed"
OURS_BFLOAT16 = "tf_rnn_ops_bfloat16"
OURS_INT8 = "tf_rnn_ops_int8"
ONNX_RUNTIME_INT8 = "onnxruntime_int8"

# The largest allowed errors of results with rounded weights.
_BFLOAT16_ERROR, _INT8_ERROR = 0.02, 0.05

_TF, _OURS, _KERAS = ["tensorflow"], ["tensorflow", "tf_rnn_ops"], ["tensorflow", "keras"]
_ONNX = ["onnx", "onnxruntime"]


def _packed(name: str, label: str, weights: str, allowed_error: float = 0.0) -> Peer:
    """Returns our ops in SavedModels with packed weights."""
    options = {"exports": weights}
    return Peer(name, f"tf_rnn_ops {label}", "tensorflow_library.TfRnnOps", _OURS, options, allowed_error)


_ALL_PEERS = (
    Peer(OURS, "tf_rnn_ops", "tensorflow_library.TfRnnOps", _OURS),
    Peer(OURS_XLA, "tf_rnn_ops XLA", "tensorflow_library.TfRnnOps", _OURS, {"jit_compile": True}),
    Peer(KERAS, "Keras", "tensorflow_library.Keras", _KERAS),
    Peer(KERAS_XLA, "Keras XLA", "tensorflow_library.Keras", _KERAS, {"jit_compile": True}),
    Peer(KERAS_UNROLLED, "Keras unrolled", "tensorflow_library.Keras", _KERAS, {"unroll": True}),
    Peer(PYTORCH, "PyTorch", "pytorch_library.PyTorch", ["torch"]),
    Peer(ONNX_RUNTIME, "ONNX Runtime", "onnxruntime_library.OnnxRuntime", _ONNX),
    Peer(RAW_OPS, "tf.raw_ops", "tensorflow_library.RawOps", _TF),
    _packed(OURS_PACKED, "packed", "float32"),
    _packed(OURS_BFLOAT16, "bfloat16", "bfloat16", _BFLOAT16_ERROR),
    _packed(OURS_INT8, "int8", "int8", _INT8_ERROR),
    Peer(
        ONNX_RUNTIME_INT8,
        "ONNX Runtime int8",
        "onnxruntime_library.OnnxRuntime",
        _ONNX,
        {"is_quantized": True},
        _INT8_ERROR,
    ),
)
PEERS = {peer.name: peer for peer in _ALL_PEERS}
GPU_PEERS = {
    OURS: PEERS[OURS]._replace(library="tensorflow_library.TfRnnOpsOnGpu"),
    RAW_OPS: PEERS[RAW_OPS]._replace(library="tensorflow_library.RawOpsOnGpu"),
    PYTORCH: PEERS[PYTORCH]._replace(library="pytorch_library.PyTorchOnGpu"),
}
_SERVED_ONLY = (OURS_PACKED, OURS_BFLOAT16, OURS_INT8, ONNX_RUNTIME_INT8)
_MOST = tuple(name for name in PEERS if name not in (KERAS_UNROLLED, *_SERVED_ONLY))
# Computes the expected results.
REFERENCE = Peer("float64", "float64", "tensorflow_library.Float64Reference", _KERAS)


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
      tasks: the measured tasks, or pairs of a task and a peer; all if empty.
      load: the load during the measurement.
      quick_load: a short load for --quick.
      threads_per_cpu: the threads of each library divided by those of other sections.
      num_threads: the threads of each library; 0: --threads, times `threads_per_cpu`.
    """

    name: str
    title: str
    cases: Sequence[Case]
    quick_cases: Sequence[Case]
    peers: Sequence[str]
    rounds_divisor: int = 1
    tasks: Container[object] = ()
    load: Load = QUIET
    quick_load: Load = QUIET
    threads_per_cpu: int = 1
    num_threads: int = 0

    @property
    def option(self) -> str:
        """The name on the command line."""
        return self.name.partition("/")[0]


def _section(
    name: str, title: str, cases: str, quick_cases: str, peers: Sequence[str] = _MOST, *options: Any, **named: Any
) -> Section:
    return Section(name, title, parse_cases(cases), parse_cases(quick_cases), peers, *options, **named)


def _combine(cells: str, sizes: str, options: str = "") -> str:
    """Returns the names of the cases of all cells, sizes and options."""
    endings = [f"-{option}" for option in options.split()] or [""]
    every = itertools.product(endings, cells.split(), sizes.split())
    return " ".join(f"{cell}-{size}{ending}" for ending, cell, size in every)


MAIN = "main"
PRODUCTS = "main/products"
LENGTHS = "lengths"
BATCHES = "batches"
CALLS = "main/calls"
CALL_CLIENTS = {count: f"calls/clients_{count}" for count in (1, 4, 8)}
SECOND_ORDER = "second_order"
MODELS = "keras"  # calls that all libraries have
KERAS_CALLS = "keras/calls"  # calls that only Keras has
KERAS_OPTIONS = "options"  # of layers, which only Keras has
WAIT_ALONE = "sharing/wait_alone"
WAIT_WITH_PRODUCTS = "sharing/wait_with_products"
WAIT_WITH_SEQUENCES = "sharing/wait_with_sequences"
CLIENTS = {count: f"sharing/clients_{count}" for count in (1, 4, 16)}
BUSY_CPU = "sharing/busy_cpu"
THREADS_PER_CPU = {count: f"sharing/threads_per_cpu_{count}" for count in (2, 4)}
PIPELINE = "sharing/pipeline"
SERVING = "serving"
SERVING_CLIENTS = {count: f"{SERVING}/clients_{count}" for count in (1, 4, 16)}
SERVING_MEMORY = f"{SERVING}/memory"
GRAPHS = "graphs"
SCALING = "scaling"
SCALING_THREADS = {count: f"{SCALING}/{count}" for count in (1, 2, 4, 8, 16, 32, 64, 128)}


_SIZES = "1-100-128-256 32-100-128-256 64-50-512-512 128-25-1024-1024"
_CELL_SIZES = "1-128-256 32-128-256 64-512-512 128-1024-1024"
_FLOAT32 = " ".join(
    [
        _combine("lstm gru tanh", _SIZES),
        _combine("lstm gru", "32-100-128-256", "2layers-bidirectional varying"),
    ]
)
_BFLOAT16 = _combine("lstm gru", "32-100-128-256 64-50-512-512", "bfloat16")
_CELLS = _combine("gru_block_cell", _CELL_SIZES)
_LSTMS = _combine("block_lstm", "1-100-128-256 32-100-128-256 64-50-512-512 64-25-1024-1024")
_QUICK = "lstm-2-3-8-16"
# Every kind of case, in tiny sizes.
_QUICK_TABLE = (
    "lstm-2-3-8-16 gru-2-3-8-16 tanh-2-3-8-16 lstm-2-3-8-16-2layers-bidirectional gru-3-4-8-16-varying "
    "lstm-2-3-8-16-bfloat16 gru_block_cell-2-8-16 block_lstm-2-3-8-16"
)
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
# Models with options of their layers.
OPTION_WORDS = {
    "model-lstm-32-80-64-128-bidirectional-varying-dropout": "text classifier, dropout of inputs and states",
    "model-gru-48-60-40-256-2layers-reset_before": "GRU, 2 layers, reset_after=False",
    "model-lstm-64-40-128-320-2layers-mixed_bfloat16": "LSTM, 2 layers, mixed precision",
}
_QUICK_MODEL = "model-lstm-2-3-4-5-bidirectional-varying"
_QUICK_MODELS = f"{_QUICK_MODEL} model-gru-2-3-4-5-2layers decoder-lstm-2-1-4-5-2layers mixed-lstm-2-3-4-8-2layers"
# One model dominated by call overhead, one with a mask, and one dominated by matrix products.
_CALLED_MODELS = "model-lstm-1-60-32-96 model-lstm-32-80-64-128-bidirectional-varying model-gru-48-60-40-256-2layers"
_MODEL_TASKS = [FUNCTION, TRAIN_ON_BATCH, EMPTY_FUNCTION, OPS_ALONE]
_MEMORY_CASES = (
    _combine("lstm penalty-lstm", "32-100-128-256 64-50-512-512 128-25-1024-1024 32-1000-128-256")
    + " gru-64-50-512-512 penalty-gru-64-50-512-512"
)
_PENALIZED = (
    _combine("penalty-lstm penalty-gru penalty-tanh", _SIZES)
    + " penalty-lstm-32-100-128-256-2layers-bidirectional penalty-lstm-64-50-512-512-bfloat16"
)
_LENGTHS = " ".join(f"lstm-4-{time}-128-256" for time in (1, 10, 100, 300, 1000, 3000, 10000))
_BATCHES = " ".join(f"lstm-{2**power}-50-128-256" for power in range(10))
# The product shows the overhead of the simplest call of each library.
_CALLS = "lstm-1-1-1-1 gru-1-1-1-1 tanh-1-1-1-1 gru_block_cell-1-1-1-1steps product-1"
_PRODUCT_SIZES = _combine("product", "512 1024 1536 2048")
_QUICK_CALLS = "lstm-1-1-1-1 gru_block_cell-1-1-1-1steps product-1"
_MODEL_PEERS = (OURS, OURS_XLA, KERAS, KERAS_XLA, PYTORCH, ONNX_RUNTIME)
_PENALTY_PEERS = (OURS, KERAS, KERAS_XLA, KERAS_UNROLLED, PYTORCH)
_FOUR = (OURS, KERAS, PYTORCH, ONNX_RUNTIME)
_THREE = (OURS, PYTORCH, ONNX_RUNTIME)
_SMALL_OPS = (RAW_OPS, PYTORCH, ONNX_RUNTIME)
SAVED_MODELS = (KERAS, OURS, OURS_PACKED, OURS_BFLOAT16, OURS_INT8)
SERVERS = (*SAVED_MODELS, ONNX_RUNTIME, ONNX_RUNTIME_INT8)
# The served models by the number of clients: batches of 1, 8 and 32 sequences, and decoders.
_SERVED = {
    1: "lstm-1-10-96-96 lstm-1-50-128-256 lstm-1-100-128-192 lstm-1-50-512-512 lstm-1-50-1024-1024 lstm-8-30-256-384 "
    "lstm-32-30-256-384 gru-1-60-96-384 gru-1-30-160-300 gru-8-100-128-256 lstm-1-1-512-512 lstm-8-1-256-384",
    4: "lstm-1-50-128-256 lstm-1-50-512-512 lstm-8-30-256-384",
    16: "lstm-1-50-128-256",
}
# The served models that are called from Python, by the number of clients.
_CALLED = {
    1: _combine("lstm", " ".join(f"1-{time}-64-{units}" for time in (1, 10, 50) for units in (96, 256, 512)))
    + " lstm-8-1-64-256 lstm-8-10-64-256 lstm-8-50-64-256",
    4: "lstm-1-1-64-96 lstm-1-10-64-256 lstm-1-50-64-512 lstm-8-10-64-256",
}
_CALLED[8] = _CALLED[4]
# The ways to call them.
WAYS = (
    (MODEL_CALL, KERAS),
    (PREDICT_ON_BATCH, KERAS),
    (FUNCTION, KERAS),
    (SIGNATURE, KERAS),
    (MODEL_CALL, OURS),
    (PREDICT_ON_BATCH, OURS),
    (FUNCTION, OURS),
    (SIGNATURE, OURS),
    (SIGNATURE, OURS_PACKED),
    (MAKE_CALLABLE, OURS_PACKED),
    (CONCRETE_FUNCTION, OURS_PACKED),
    (FROZEN_WITH_ARRAYS, OURS_PACKED),
    (FROZEN, OURS_PACKED),
    (FROZEN, OURS_INT8),
    (CALL_IN_PYTHON, PYTORCH),
    (CALL_IN_PYTHON, ONNX_RUNTIME),
    (CALL_IN_PYTHON, ONNX_RUNTIME_INT8),
)
EXPORTED_BATCHES = (1, 32)
# Each of Keras 3 with one and 32 sequences; some of Keras 2, which takes half a minute to write a model.
_EXPORTED = (
    "text_classifier-{}-100-64-64-varying tagger-{}-40-100-128-varying line_reader-{}-100-64-128 "
    "autoencoder-{}-60-8-64 keyword_spotter-{}-49-40-128 speech_encoder-{}-100-80-256 "
    "recommender-{}-50-64-100-varying policy-{}-8-16-64 "
    "text_classifier-{}-100-64-64-varying-keras_2 line_reader-{}-100-64-128-keras_2 "
    "keyword_spotter-{}-49-40-128-keras_2 line_reader-{}-100-64-128-tensorflow_1"
)
_QUICK_EXPORTED = "text_classifier-{}-3-4-5-varying keyword_spotter-{}-3-4-5-keras_2 line_reader-{}-3-4-5-tensorflow_1"
_LOADED = "served-lstm-1-50-512-512 served-gru-8-100-128-256"
_QUICK_SERVED = "served-lstm-2-3-4-5 served-gru-2-1-4-5"


def _with_batches(names: str) -> str:
    """Returns names with one and with 32 sequences; each model's names follow each other."""
    return " ".join(name.format(batch) for name in names.split() for batch in EXPORTED_BATCHES)


def _repeated(case: str, task: str, threads: int = 2) -> Sequence[tuple[Case, str]]:
    return [(parse_case(case), task)] * threads


def _wait(name: str, title: str, peers: Sequence[str], background=(), quick=()) -> Section:
    """Returns a section: the latency of an occasional small op while two threads repeat a background case."""
    loads = Load(seconds=2.0, pause=0.005, background=background), Load(seconds=0.02, background=quick)
    return _section(name, title, "elementwise-1000000", "elementwise-100", peers, 2, [TANH], *loads)


def _clients(name: str, count: int) -> Section:
    title, loads = f"{count} clients of the same network", (Load(seconds, count) for seconds in (1.5, 0.02))
    return _section(name, title, "lstm-1-30-256-384 lstm-8-30-256-384", _QUICK, _FOUR, 2, [FORWARD], *loads)


def _serving(name: str, count: int) -> Section:
    title, loads = f"{count} clients of a SavedModel", (Load(seconds, count) for seconds in (0.4, 0.02))
    cases = _combine("served", _SERVED[count])
    return _section(name, title, cases, _QUICK_SERVED, SERVERS, 4, [SERVE_IN_C, CALL_IN_PYTHON], *loads)


def _calls(name: str, count: int) -> Section:
    title, loads = f"{count} threads of Python that call a model", (Load(seconds, count) for seconds in (0.3, 0.02))
    peers = [*dict.fromkeys(peer for _, peer in WAYS)]
    return _section(name, title, _combine("served", _CALLED[count]), _QUICK_SERVED, peers, 3, WAYS, *loads)


def _crowded(name: str, title: str, load: Load = QUIET, threads_per_cpu: int = 1) -> Section:
    """Returns a section: LSTM and GRU on CPUs with more threads than CPUs."""
    return _section(name, title, _combine("lstm gru", _SIZES), _QUICK, _THREE, 2, (), load, load, threads_per_cpu)


def _scaling(name: str, count: int) -> Section:
    """Returns a section: networks with a number of threads, with few steps, so that one thread takes little time."""
    sizes = (f"{size}-{units}-{units}" for units in (512, 1024, 256) for size in ("32-16", "128-8", "1-32"))
    cases = _combine("lstm gru", " ".join(sizes))
    title, quick = f"networks with {count} threads", "lstm-2-3-8-8 gru-2-3-8-8"
    return _section(name, title, cases, quick, _THREE, 4, num_threads=count)


def _pipeline(name: str, title: str) -> Section:
    """Returns a section: training while a `tf.data` pipeline computes an elementwise function."""
    cases = "lstm-32-100-128-256 lstm-64-50-512-512"
    loads = [
        Load(seconds, background=_repeated(case, MAPPED, 1))
        for seconds, case in ((2.0, "elementwise-1000000"), (0.02, "elementwise-100"))
    ]
    return _section(name, title, cases, _QUICK, (OURS, KERAS), 2, [FORWARD_BACKWARD], *loads)


_SEQUENCES = [_repeated(case, FORWARD) for case in ("lstm-32-400-256-512", _QUICK)]
_PRODUCTS = [_repeated(case, PRODUCT) for case in ("product-1024", "product-8")]
_ALL_SECTIONS = (
    _section(MAIN, "networks and cells of several sizes", f"{_FLOAT32} {_BFLOAT16} {_CELLS} {_LSTMS}", _QUICK_TABLE),
    _section(
        PRODUCTS,
        "matrix products",
        f"{_PRODUCT_SIZES} {_combine(_PRODUCT_SIZES, 'bfloat16')}",
        "product-64 product-64-bfloat16",
        (PYTORCH, ONNX_RUNTIME, RAW_OPS),
    ),
    _section(MEMORY, "peak memory of a training step", _MEMORY_CASES, f"{_QUICK} penalty-{_QUICK}", _FOUR[:3]),
    _section(LENGTHS, "time by sequence length", _LENGTHS, "lstm-2-1-8-16 lstm-2-10-8-16", _FOUR, 4),
    _section(BATCHES, "time by batch size", _BATCHES, "lstm-1-2-8-16 lstm-2-2-8-16", _FOUR, 4),
    _section(CALLS, "call overhead (all sizes 1)", _CALLS, _QUICK_CALLS),
    *(_calls(name, count) for count, name in CALL_CLIENTS.items()),
    _section(SECOND_ORDER, "gradients of penalties", _PENALIZED, f"penalty-{_QUICK}", _PENALTY_PEERS, 2),
    _section(MODELS, "Keras models", " ".join(MODEL_WORDS), _QUICK_MODELS, _MODEL_PEERS, tasks=_MODEL_TASKS),
    _section(
        KERAS_OPTIONS,
        "Keras models with options of layers",
        " ".join(OPTION_WORDS),
        "model-lstm-2-3-4-5-dropout",
        (OURS, OURS_XLA, KERAS, KERAS_XLA),
        tasks=[FUNCTION, TRAIN_ON_BATCH],
    ),
    _section(
        KERAS_CALLS,
        "Keras models: SavedModel, predict and fit",
        _CALLED_MODELS,
        _QUICK_MODEL,
        (OURS, KERAS, KERAS_XLA),
        2,
        [SAVED_MODEL, PREDICT, FIT],
    ),
    _wait(WAIT_ALONE, "small op alone", _SMALL_OPS),
    _wait(WAIT_WITH_PRODUCTS, "small op with two threads of matrix products", _SMALL_OPS, *_PRODUCTS),
    _wait(WAIT_WITH_SEQUENCES, "small op with two threads of long sequences", _FOUR, *_SEQUENCES),
    *(_clients(name, count) for count, name in CLIENTS.items()),
    _crowded(BUSY_CPU, "with another process on one of the CPUs", Load(busy_cpus=1)),
    *(_crowded(name, f"with {n} threads per CPU", threads_per_cpu=n) for n, name in THREADS_PER_CPU.items()),
    _pipeline(PIPELINE, "training with a tf.data pipeline"),
    *(_serving(name, count) for count, name in SERVING_CLIENTS.items()),
    _section(
        SERVING_MEMORY,
        "memory of SavedModels in the C program",
        _LOADED,
        "served-lstm-2-3-4-5",
        SAVED_MODELS,
        4,
        [*COPIES.values()],
    ),
    _section(
        GRAPHS,
        "SavedModels as they are, with accelerate_graphs(), and converted; the models of Keras that wrote them",
        _with_batches(_EXPORTED),
        _with_batches(_QUICK_EXPORTED),
        (OURS, KERAS),
        2,
    ),
    *(_scaling(name, count) for count, name in SCALING_THREADS.items()),
)
SECTIONS = {section.name: section for section in _ALL_SECTIONS}

# The only section of the GPU benchmark.
_GPU_SIZES = f"{_SIZES} 256-100-512-1024"
_GPU_CASES = [
    _combine("lstm gru tanh", _GPU_SIZES),
    _combine("lstm gru", _GPU_SIZES, "float16"),
    _combine("lstm", _GPU_SIZES, "bfloat16"),
    _combine("lstm gru", "32-100-128-256", "2layers-bidirectional varying 2layers-bidirectional-varying-float16"),
    _CELLS,
    _combine("gru_block_cell", _CELL_SIZES, "float16"),
]
_QUICK_GPU = f"{_QUICK_TABLE} gru-2-3-8-16-float16"
GPU_SECTION = _section(MAIN, "networks and cells on a GPU", " ".join(_GPU_CASES), _QUICK_GPU, tuple(GPU_PEERS))
