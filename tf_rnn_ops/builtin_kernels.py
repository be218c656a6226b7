"""CPU kernels and gradients for TensorFlow's own ops, so that graphs made for GPUs run without one."""

import threading
import warnings

import tensorflow as tf

from tf_rnn_ops import _library, gradients, xla

# TensorFlow's own ops that have no gradient of TensorFlow's, and ours.
_GRADIENTS = {
    "GRUBlockCell": gradients.gru_block_cell_grad,
    "GRUBlockCellGrad": gradients.gru_block_cell_grad_grad,
    "CudnnRNNBackprop": gradients.cudnn_rnn_backprop_grad,
    "CudnnRNNBackpropV2": gradients.cudnn_rnn_backprop_grad,
    "CudnnRNNBackpropV3": gradients.cudnn_rnn_backprop_v3_grad,
    "CudnnRNNCanonicalToParams": gradients.canonical_to_params_v1_grad,
    "CudnnRNNCanonicalToParamsV2": gradients.canonical_to_params_v2_grad,
    "CudnnRNNParamsToCanonical": gradients.params_to_canonical_v1_grad,
    "CudnnRNNParamsToCanonicalV2": gradients.params_to_canonical_v2_grad,
}

_lock = threading.Lock()
_is_enabled = False


def enable_builtin_kernels() -> None:
    """Lets TensorFlow's own CudnnRNN ops run on the CPU, and its own GRUBlockCell be trained.

    TensorFlow has kernels for `CudnnRNN`, `CudnnRNNV2`, `CudnnRNNV3`, their backprops and the ops about their params
    for GPUs alone, so that a graph that holds one cannot be run elsewhere. This registers kernels for the CPU: those of
    `tf_rnn_ops.raw_ops`, for the same types, compiled by XLA or not. A GraphDef, SavedModel or frozen graph with these
    ops then runs as it is, and trains if it did. Gradients are registered too, for TensorFlow's own `GRUBlockCell`, for
    the conversions between weights and params, and for the gradients of both ops.

    Call it before a graph with these ops is run for the first time. What runs on a GPU goes on to do so: TensorFlow
    prefers a GPU's kernel where there is one. A second call does nothing. It cannot be undone within the process.

    An op that has a kernel for the CPU already, or a gradient, keeps it, and a warning says so: later versions of
    TensorFlow may have some.

    From C++ or C the same kernels are had by loading the library of that name beside the package's, whose path
    `python -m tf_rnn_ops` prints, with `TF_LoadLibrary`.

    Raises:
      ImportError: if the library of the kernels is missing or cannot be loaded.

    Example:
      >>> enable_builtin_kernels()
      >>> size = tf.raw_ops.CudnnRNNParamsSize(num_layers=1, num_units=4, input_size=3, T=tf.float32, S=tf.int32)
      >>> size.numpy().tolist()
      [144]
    """
    global _is_enabled
    with _lock:
        if _is_enabled:
            return
        _library.load(_library.BUILTIN_KERNELS_PATH)
        xla.enable_builtin_kernels()
        for op, gradient in _GRADIENTS.items():
            _register_gradient(op, gradient)
        _is_enabled = True


def _register_gradient(op, gradient):
    """Registers an op's gradient, unless it has one."""
    try:
        tf.RegisterGradient(op)(gradient)
    except KeyError:
        warnings.warn(
            f"{op} has a gradient already, which is kept; that of tf_rnn_ops is not registered.",
            RuntimeWarning,
            stacklevel=3,
        )
