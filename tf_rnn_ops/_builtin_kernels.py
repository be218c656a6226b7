"""CPU kernels and gradients for TensorFlow's own ops, so that graphs made for a GPU run on the CPU."""

import threading
import warnings
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tf_rnn_ops import _flops, _gradients, _library, _pfor, _xla

# Our gradients for TensorFlow's own ops that have none.
_GRADIENTS: dict[str, Callable[..., Any]] = {
    "GRUBlockCell": _gradients.gru_block_cell_grad,
    "GRUBlockCellGrad": _gradients.gru_block_cell_grad_grad,
    "CudnnRNNBackprop": _gradients.cudnn_rnn_backprop_grad,
    "CudnnRNNBackpropV2": _gradients.cudnn_rnn_backprop_grad,
    "CudnnRNNBackpropV3": _gradients.cudnn_rnn_backprop_v3_grad,
    "CudnnRNNCanonicalToParams": _gradients.canonical_to_params_v1_grad,
    "CudnnRNNCanonicalToParamsV2": _gradients.canonical_to_params_v2_grad,
    "CudnnRNNParamsToCanonical": _gradients.params_to_canonical_v1_grad,
    "CudnnRNNParamsToCanonicalV2": _gradients.params_to_canonical_v2_grad,
}

_lock = threading.Lock()
_is_enabled = False


def enable_builtin_kernels() -> None:
    """Lets TensorFlow's own CudnnRNN ops run on the CPU, and its own GRUBlockCell be trained.

    TensorFlow has only GPU kernels for `CudnnRNN`, `CudnnRNNV2`, `CudnnRNNV3`, their gradient ops and the ops that
    convert their params. This function registers CPU kernels for them: those of `tf_rnn_ops.raw_ops`, for the same
    types, with or without XLA. A GraphDef, SavedModel or frozen graph with these ops then runs unchanged, and trains if
    it is trainable on a GPU. The function also registers gradients for TensorFlow's own `GRUBlockCell`, for the
    conversions between weights and params, and for the gradient ops of both.

    Call it before you run a graph with these ops for the first time. Ops on a GPU still run on the GPU, because
    TensorFlow prefers a GPU kernel. A second call does nothing. The registration cannot be undone in the process.

    If an op already has a CPU kernel or a gradient, for example from a later version of TensorFlow, the op keeps it and
    a warning is issued.

    In C++ or C, load the library with `TF_LoadLibrary`; `python -m tf_rnn_ops` prints its path. See
    docs/guides/gpu_graph.md for a guide.

    Raises:
      ImportError: if the library with the kernels is missing or cannot be loaded.

    Examples:
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
        _xla.enable_builtin_kernels()
        for op, gradient in _GRADIENTS.items():
            _register_gradient(op, gradient)
        _flops.enable_builtin_kernels()
        _pfor.enable_builtin_kernels()
        _is_enabled = True


def _register_gradient(op: str, gradient: Callable[..., Any]) -> None:
    """Registers the gradient of an op. Warns if the op already has one."""
    try:
        tf.RegisterGradient(op)(gradient)
    except KeyError:
        warnings.warn(
            f"TensorFlow already has a gradient for {op}, so that of tf_rnn_ops is not registered.",
            RuntimeWarning,
            stacklevel=3,
        )
