"""Recurrent networks for TensorFlow: ops that run and train where its own do not.

`tf_rnn_ops.raw_ops` holds the ops under the names of their twins in `tf.raw_ops`, `tf_rnn_ops.layers` the Keras layers
made of them, and `tf_rnn_ops.params` the layout of a network's params buffer, with conversions of weights from
elsewhere. `tf_rnn_ops.accelerate_keras` lets Keras's own layers run on the ops until `tf_rnn_ops.restore_keras`,
`tf_rnn_ops.explain` shows which layers of a model do, and `tf_rnn_ops.enable_builtin_kernels` lets graphs of
TensorFlow's own run on them. Importing the package loads the op library, those with which XLA compiles
the ops (see `tf_rnn_ops.xla`) and, if TF_RNN_OPS_GPU says so, that of the GPU's kernels (see `tf_rnn_ops.gpu_kernels`),
and registers the gradients.
"""

from tf_rnn_ops._version import __version__

# Before all else: it says in one sentence why the package cannot be used, if it cannot.
from tf_rnn_ops import _library  # noqa: F401  # isort: skip
from tf_rnn_ops import (
    gpu_kernels,
    gradients,  # noqa: F401  # registers them
    layers,
    params,
    raw_ops,
    xla,
)
from tf_rnn_ops.acceleration import accelerate_if_wanted, accelerate_keras, restore_keras
from tf_rnn_ops.builtin_kernels import enable_builtin_kernels
from tf_rnn_ops.explanation import explain

gpu_kernels.load_if_wanted()
xla.load()
accelerate_if_wanted()

__all__ = [
    "__version__",
    "accelerate_keras",
    "enable_builtin_kernels",
    "explain",
    "layers",
    "params",
    "raw_ops",
    "restore_keras",
]
