"""Recurrent networks for TensorFlow: the ops CudnnRNN, GRUBlockCell and BlockLSTM for the CPU, and faster Keras layers.

- `tf_rnn_ops.accelerate_keras` runs Keras's own layers on the ops until `tf_rnn_ops.restore_keras`;
  `tf_rnn_ops.explain` shows which layers of a model run on them.
- `tf_rnn_ops.accelerate_graphs` runs the recurrent layers of graphs, such as SavedModels, on the op.
- `tf_rnn_ops.convert` writes such files again, with the op.
- `tf_rnn_ops.portable` makes what is traced in its scope convertible, without the ops.
- `tf_rnn_ops.layers` contains Keras layers that run on the ops.
- `tf_rnn_ops.raw_ops` contains the ops, with the names and arguments of `tf.raw_ops`.
- `tf_rnn_ops.params` converts weights to and from the params buffer of the CudnnRNN ops.
- `tf_rnn_ops.freeze` makes a function for inference whose weights are packed once, on request as 8-bit integers.
- `tf_rnn_ops.enable_builtin_kernels` lets graphs with TensorFlow's own recurrent ops run, and be trained, on the CPU.

Importing the package registers the gradients, and loads the op library, the XLA libraries and, if the machine has an
NVIDIA GPU and TF_RNN_OPS_GPU is not 0, the GPU library.
"""

from tf_rnn_ops._version import __version__

# First, because it raises a clear error if the package cannot be used.
from tf_rnn_ops import _library  # noqa: F401  # isort: skip
from tf_rnn_ops import (
    _flops,  # noqa: F401  # registers the flops for TensorFlow's profiler
    _gpu_kernels,
    _gradients,  # noqa: F401  # registers the gradients
    _pfor,  # noqa: F401  # registers the converters for tf.vectorized_map
    _xla,
    layers,
    params,
    raw_ops,
)
from tf_rnn_ops._builtin_kernels import enable_builtin_kernels
from tf_rnn_ops._constant_weights import packed_weights_bytes
from tf_rnn_ops._conversion import Conversion, LoopConversion, convert
from tf_rnn_ops._frozen_function import FrozenFunction
from tf_rnn_ops._graphs import accelerate_graphs
from tf_rnn_ops._keras.acceleration import Acceleration, accelerate_if_wanted, accelerate_keras, restore_keras
from tf_rnn_ops._keras.explanation import Explanation, LayerExplanation, explain
from tf_rnn_ops._keras.freezing import freeze
from tf_rnn_ops._keras.tracing import portable

_gpu_kernels.load_if_wanted()
_xla.load()
accelerate_if_wanted()

__all__ = [
    "Acceleration",
    "Conversion",
    "Explanation",
    "FrozenFunction",
    "LayerExplanation",
    "LoopConversion",
    "__version__",
    "accelerate_graphs",
    "accelerate_keras",
    "convert",
    "enable_builtin_kernels",
    "explain",
    "freeze",
    "layers",
    "packed_weights_bytes",
    "params",
    "portable",
    "raw_ops",
    "restore_keras",
]
