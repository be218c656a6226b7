"""CPU kernels and gradients for TensorFlow's own ops, so that graphs with these ops run and train on the CPU."""

import threading
import warnings

import tensorflow as tf

from tf_rnn_ops import _flops, _gradients, _library, _pfor, _private_names, _xla

# TensorFlow's own ops that have gradients. Those of the first two are replaced on request, because the one of
# BlockLSTMV2 is wrong: it takes the gates in the order of BlockLSTM.
_REPLACED_GRADIENTS = ("BlockLSTM", "BlockLSTMV2")
_HAVE_GRADIENTS = (*_REPLACED_GRADIENTS, "CudnnRNN", "CudnnRNNV2", "CudnnRNNV3")
# TensorFlow's own ops with CPU kernels that ours replace.
REPLACED_KERNELS = tuple(op for op in _library.builtin_ops() if "CPU" in _library.facts_of(op).builtin_devices)

_lock = threading.Lock()
_is_enabled = False
_is_replaced = False


def enable_builtin_kernels(replace: bool = False) -> None:
    """Lets TensorFlow's own recurrent ops run, and be trained, on the CPU; with `replace`, faster and safely.

    TensorFlow has only GPU kernels for `CudnnRNN`, `CudnnRNNV2`, `CudnnRNNV3`, their gradient ops and the ops that
    convert their params. This function registers CPU kernels for them: those of `tf_rnn_ops.raw_ops`, for the same
    types, with or without XLA. A GraphDef, SavedModel or frozen graph with these ops then runs unchanged, and trains if
    it is trainable on a GPU. The function also registers gradients where TensorFlow has none: for its own
    `GRUBlockCell` and `LSTMBlockCell`, for the conversions between weights and params, and for the gradient ops of all
    these and of `BlockLSTM`. And it lets XLA compile all these ops.

    TensorFlow has CPU kernels for `GRUBlockCell`, `LSTMBlockCell`, `BlockLSTM`, `BlockLSTMV2` and their gradient ops,
    which keep them unless `replace` is true. Ours are faster, and reject wrong shapes that abort TensorFlow's.

    Call it before these ops first run, in a graph or eagerly: TensorFlow keeps the kernels of ops and functions that
    have run, and so does each TensorFlow 1 session. `keras.utils.clear_session()` or `tf.random.set_seed` makes it
    forget them, except in sessions. Ops on a GPU still run on the GPU, because TensorFlow prefers a GPU kernel. A
    second call does nothing more. The registration cannot be undone in the process.

    If an op already has a CPU kernel or a gradient, for example from a later version of TensorFlow, the op keeps it and
    a warning is issued.

    In C++ or C, load the library with `TF_LoadLibrary`; `python -m tf_rnn_ops` prints its path. To replace kernels,
    call its function `TfRnnOps_ReplaceBuiltinKernels`, which takes no arguments and returns nothing. See
    docs/guides/gpu_graph.md and docs/guides/block_lstm.md for guides.

    Args:
      replace: whether to run TensorFlow's own ops on our CPU kernels even if TensorFlow has CPU kernels for them, and
        to replace the gradients of `BlockLSTM` and `BlockLSTMV2`, of which TensorFlow's second is wrong. If TensorFlow
        sees a GPU, a warning is issued and nothing is replaced: TensorFlow would move the ops from the GPU to the CPU.

    Raises:
      ImportError: if the library with the kernels is missing or cannot be loaded.

    Examples:
      >>> enable_builtin_kernels()
      >>> size = tf.raw_ops.CudnnRNNParamsSize(num_layers=1, num_units=4, input_size=3, T=tf.float32, S=tf.int32)
      >>> size.numpy().tolist()
      [144]
    """
    global _is_enabled, _is_replaced
    with _lock:
        if not _is_enabled:
            _enable()
            _is_enabled = True
        if replace and not _is_replaced:
            _is_replaced = _replace()


def _enable() -> None:
    """Registers kernels and gradients for the ops that have none."""
    _library.load(_library.BUILTIN_KERNELS_PATH)
    _xla.enable_builtin_kernels()
    for op in _library.builtin_ops():
        if op in _gradients.GRADIENTS and op not in _HAVE_GRADIENTS:
            _register_gradient(op)
    _flops.enable_builtin_kernels()
    _pfor.enable_builtin_kernels()


def _replace() -> bool:
    """Replaces kernels and gradients. Warns and returns False if TensorFlow sees a GPU."""
    if tf.config.get_visible_devices("GPU"):
        warnings.warn(
            "enable_builtin_kernels(replace=True) replaces nothing, because TensorFlow sees a GPU: it would move "
            f"{', '.join(REPLACED_KERNELS)} from the GPU to the CPU.",
            RuntimeWarning,
            stacklevel=3,
        )
        return False
    _library.call_c(_library.BUILTIN_KERNELS_PATH, "TfRnnOps_ReplaceBuiltinKernels")
    for op in _REPLACED_GRADIENTS:
        if not _private_names.replace_gradient(op, _gradients.GRADIENTS[op]):
            _register_gradient(op)
    return True


def _register_gradient(op: str) -> None:
    """Registers our gradient for an op of TensorFlow. Warns if the op already has one."""
    try:
        tf.RegisterGradient(op)(_gradients.GRADIENTS[op])
    except KeyError:
        warnings.warn(
            f"TensorFlow already has a gradient for {op}, so that of tf_rnn_ops is not registered.",
            RuntimeWarning,
            stacklevel=4,
        )
