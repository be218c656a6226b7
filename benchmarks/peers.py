"""The libraries that are measured. None is imported here: each runs in its own process.

To add a peer, write a `programs.Library` in a new module and add an entry to `PEERS`.
"""

import dataclasses
import importlib.util
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Peer:
    """A library that can be measured.

    Attributes:
      name: its name in options and files.
      label: its name in tables.
      library: its `programs.Library`, as "module.Class".
      packages: the Python packages that it needs.
      threads: its number of threads; 0 for the benchmark's.
    """

    name: str
    label: str
    library: str
    packages: Sequence[str]
    threads: int = 0

    def missing_packages(self) -> list[str]:
        """Returns the required packages that are not installed."""
        return [package for package in self.packages if importlib.util.find_spec(package) is None]


OURS = "tf_rnn_ops"
OURS_XLA = "tf_rnn_ops_xla"
KERAS = "keras"
KERAS_XLA = "keras_xla"
KERAS_UNROLLED = "keras_unrolled"
PYTORCH = "pytorch"
ONNX_RUNTIME = "onnxruntime"
RAW_OPS = "tf_raw_ops"

PEERS = {
    peer.name: peer
    for peer in (
        Peer(OURS, "tf_rnn_ops", "tensorflow_libraries.TfRnnOps", ["tensorflow", "tf_rnn_ops"]),
        Peer(OURS_XLA, "tf_rnn_ops XLA", "tensorflow_libraries.TfRnnOpsXla", ["tensorflow", "tf_rnn_ops"]),
        Peer(KERAS, "Keras", "tensorflow_libraries.Keras", ["tensorflow", "keras"]),
        Peer(KERAS_XLA, "Keras XLA", "tensorflow_libraries.KerasXla", ["tensorflow", "keras"]),
        Peer(KERAS_UNROLLED, "Keras unrolled", "tensorflow_libraries.KerasUnrolled", ["tensorflow", "keras"]),
        Peer(PYTORCH, "PyTorch", "pytorch_library.PyTorch", ["torch"]),
        Peer(ONNX_RUNTIME, "ONNX Runtime", "onnxruntime_library.OnnxRuntime", ["onnx", "onnxruntime"]),
        Peer(RAW_OPS, "tf.raw_ops", "tensorflow_libraries.RawOps", ["tensorflow"]),
    )
}
OTHERS = [name for name in PEERS if name != OURS]

# The peers that also run on a GPU, with their GPU libraries.
GPU_PEERS = {
    peer.name: peer
    for peer in (
        dataclasses.replace(PEERS[OURS], library="gpu_libraries.TfRnnOps"),
        dataclasses.replace(PEERS[RAW_OPS], library="gpu_libraries.RawOps"),
        dataclasses.replace(PEERS[PYTORCH], library="pytorch_library.PyTorchCuda"),
    )
}
GPU_OTHERS = [name for name in GPU_PEERS if name != OURS]

# The peers of the scaling benchmark, which needs no TensorFlow.
SCALING_PEERS = {
    OURS: dataclasses.replace(PEERS[OURS], library="engine_library.Engine", packages=[]),
    **{name: PEERS[name] for name in (PYTORCH, ONNX_RUNTIME)},
}
SCALING_OTHERS = [name for name in SCALING_PEERS if name != OURS]

# Computes the expected results.
REFERENCE = Peer("float64", "float64", "tensorflow_libraries.Float64Reference", ["tensorflow", "keras"])
# Computes those of networks without TensorFlow.
PYTORCH_REFERENCE = Peer("float64", "float64", "pytorch_library.Float64Reference", ["torch"])


def skipped(name: str, packages: Sequence[str]) -> str:
    """Returns a message that a peer is skipped because packages are missing."""
    return f"{PEERS[name].label} is skipped; not installed: {', '.join(packages)}"


def find_available(peers: Sequence[Peer]) -> tuple[list[Peer], dict[str, list[str]]]:
    """Returns the peers whose packages are installed, and the missing packages of the others; prints the latter."""
    missing = {peer.name: packages for peer in peers if (packages := peer.missing_packages())}
    for name, packages in missing.items():
        print(skipped(name, packages))
    return [peer for peer in peers if peer.name not in missing], missing
