"""Compiling the ops with XLA for the CPU, as `tf.function(jit_compile=True)` does.

Importing the package loads two libraries for that, in a millisecond: handlers of the ops for XLA's foreign function
interface, which need no TensorFlow, and how TensorFlow compiles the ops to calls of the handlers. For a TensorFlow
without XLA's headers there is no such library; the ops are then refused in what is compiled, and run elsewhere.
"""

import ctypes
import warnings

from tf_rnn_ops import _library

# None once the libraries are loaded.
_why_not_loaded: str | None = "the import of tf_rnn_ops has not come to it"


def load() -> None:
    """Loads the libraries, if this build has them.

    If they cannot be loaded, a warning says so: what is not compiled works without them.
    """
    global _why_not_loaded
    if _why_not_loaded is not None:
        _why_not_loaded = _load()


def why_not_loaded() -> str | None:
    """Returns why the libraries are not loaded, or None if they are."""
    return _why_not_loaded


def enable_builtin_kernels() -> None:
    """Lets TensorFlow's own CudnnRNN ops be compiled, but for those that it compiles itself."""
    if _why_not_loaded is None:
        ctypes.CDLL(str(_library.XLA_PATH)).TfRnnOps_RegisterXlaBuiltinKernels()


def _load() -> str | None:
    """Loads the libraries. Returns why they cannot be loaded, or None."""
    if not _library.XLA_PATH.exists():
        return f"this build of tf_rnn_ops has no {_library.XLA_PATH.name}"
    try:
        _library.load(_library.XLA_PATH)
    except ImportError as error:
        # As if from the import of the package.
        warnings.warn(f"XLA cannot compile the ops of tf_rnn_ops: {error}", RuntimeWarning, stacklevel=4)
        return str(error)
    return None
