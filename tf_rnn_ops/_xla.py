"""Support for compiling the ops with XLA for the CPU, for example with `tf.function(jit_compile=True)`.

Importing the package loads two libraries: handlers of the ops for XLA's foreign function interface, which do not
depend on TensorFlow, and the code with which TensorFlow compiles the ops to calls of the handlers. This takes a
millisecond. A build for a TensorFlow without XLA's headers lacks the second library: XLA then rejects the ops, which
still run without XLA. docs/guides/xla.md is a guide.
"""

import warnings

from tf_rnn_ops import _library

# None once the libraries are loaded.
_why_not_loaded: str | None = "the import of tf_rnn_ops is not complete"


def load() -> None:
    """Loads the libraries if this build has them.

    If they cannot be loaded, a warning is issued; the ops still run without XLA.
    """
    global _why_not_loaded
    if _why_not_loaded is not None:
        _why_not_loaded = _load()


def why_not_loaded() -> str | None:
    """Returns why the libraries are not loaded, or None if they are."""
    return _why_not_loaded


def enable_builtin_kernels() -> None:
    """Lets XLA compile TensorFlow's own recurrent ops, except those that TensorFlow can compile itself."""
    if _why_not_loaded is None:
        _library.call_c(_library.XLA_PATH, "TfRnnOps_RegisterXlaBuiltinKernels")


def _load() -> str | None:
    """Loads the libraries. Warns and returns the reason if they cannot be loaded, otherwise returns None."""
    if not _library.XLA_PATH.exists():
        return _library.why_left_out("XLA", _library.XLA_PATH)
    try:
        _library.load(_library.XLA_PATH)
    except ImportError as error:
        # `stacklevel` attributes the warning to the import of the package.
        warnings.warn(f"XLA cannot compile the ops of tf_rnn_ops: {error}", RuntimeWarning, stacklevel=4)
        return str(error)
    return None
