"""Who is measured. None of the libraries is imported here: each runs in a process of its own.

A new peer is a `programs.Library` in a module of its own, and an entry in `PEERS`.
"""

import dataclasses
import importlib.util
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Peer:
    """A library that can be measured.

    Attributes:
      name: what options and files call it.
      label: what tables call it.
      library: its `programs.Library`, as "module.Class".
      packages: the Python packages that it needs.
    """

    name: str
    label: str
    library: str
    packages: Sequence[str]

    def missing_packages(self) -> list[str]:
        """Returns the packages that it needs and that are not installed."""
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

# Those of them that run on a GPU too, with the libraries that do.
GPU_PEERS = {
    peer.name: peer
    for peer in (
        dataclasses.replace(PEERS[OURS], library="gpu_libraries.TfRnnOps"),
        dataclasses.replace(PEERS[RAW_OPS], library="gpu_libraries.RawOps"),
        dataclasses.replace(PEERS[PYTORCH], library="pytorch_library.PyTorchCuda"),
    )
}
GPU_OTHERS = [name for name in GPU_PEERS if name != OURS]

# What all of them have to compute.
REFERENCE = Peer("float64", "float64", "tensorflow_libraries.Float64Reference", ["tensorflow", "keras"])


def without_missing(peers: Sequence[Peer]) -> tuple[list[Peer], dict[str, list[str]]]:
    """Returns those whose packages are installed, and the missing packages of the others, of which it prints a line."""
    left_out = {peer.name: missing for peer in peers if (missing := peer.missing_packages())}
    for name, packages in left_out.items():
        print(f"{PEERS[name].label} is left out: {', '.join(packages)} not installed")
    return [peer for peer in peers if peer.name not in left_out], left_out
