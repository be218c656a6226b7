"""Loads the GPU kernels, which are in a library of their own and off by default.

The environment variable TF_RNN_OPS_GPU is read when the package is imported:

- `1`: load the library, even without a GPU.
- `auto`: load it if TensorFlow sees a GPU. To check this, TensorFlow initializes CUDA, which does not survive a `fork`.
  If your program forks after the import and uses the GPU in the child process, set `1` instead.
- `0`: do not load it, and do not initialize CUDA. The ops run on the CPU.
- unset: same as `0`. If the machine has a GPU, a log line says how to turn the library on.

docs/guides/gpu.md is a guide to the GPU kernels.
"""

import glob
import logging
import os
import warnings

import tensorflow as tf

from tf_rnn_ops import _library

VARIABLE = "TF_RNN_OPS_GPU"
_AUTO, _ALWAYS, _NEVER = "auto", "1", "0"
# The value if the variable is not set. To be changed to _AUTO once docs/guides/gpu.md lists no known problems.
_DEFAULT = _NEVER

# Files of NVIDIA's driver: one per GPU, and those in Windows Subsystem for Linux.
_DRIVER_FILES = ("/dev/nvidia[0-9]*", "/usr/lib/wsl/lib/libcuda.so*")

_logger = logging.getLogger("tf_rnn_ops")

_OFF_BY_DEFAULT = (
    "the GPU library is off by default, because gradients in float16 failed a check on a GPU: set "
    f"{VARIABLE}={_ALWAYS} or {_AUTO} to turn it on, and run "
    "`python -m tf_rnn_ops --check-gpu` to compare it with the CPU"
)

_HAS_NO_LIBRARY = f"this build of tf_rnn_ops has no GPU library ({_library.GPU_KERNELS_PATH} does not exist)"

# None once the library is loaded.
_why_not_loaded: str | None = "the import of tf_rnn_ops is not complete"


def load_if_wanted() -> None:
    """Loads the library if the environment variable requests it.

    If the library cannot be loaded, a warning is issued; the CPU kernels work without it. If the variable is unset and
    the machine has a GPU, a log line says how to turn the library on. Once the library is loaded, further calls do
    nothing.

    Raises:
      ValueError: if the environment variable has an unknown value.
    """
    global _why_not_loaded
    if _why_not_loaded is None:
        return
    _why_not_loaded = _why_not_wanted() or _load()
    if _why_not_loaded == _OFF_BY_DEFAULT and _has_gpu():
        # Python shows no lower level than this by default.
        _logger.warning("tf_rnn_ops runs on the CPU only: %s", _OFF_BY_DEFAULT)


def why_not_loaded() -> str | None:
    """Returns why the library is not loaded, or None if it is."""
    return _why_not_loaded


def opened_libraries() -> list[str]:
    """Returns a line for each NVIDIA library that the GPU library opens: its version and path, or the error."""
    return _library.c_string(_library.GPU_KERNELS_PATH, "TfRnnOps_GpuLibraries").splitlines()


def _setting() -> str:
    """Returns the value of the environment variable."""
    value = os.environ.get(VARIABLE) or _DEFAULT
    if value in (_AUTO, _ALWAYS, _NEVER):
        return value
    raise ValueError(
        f"the environment variable {VARIABLE} must be {_NEVER} (run on the CPU only), {_ALWAYS} (load the GPU "
        f"library), {_AUTO} (load it if TensorFlow sees a GPU) or unset (same as {_DEFAULT}), but is {value!r}."
    )


def _why_not_wanted() -> str | None:
    """Returns why the library should not be loaded, or None if it should."""
    setting = _setting()
    if setting == _ALWAYS:
        return None
    if setting == _NEVER and os.environ.get(VARIABLE):
        return f"the environment variable {VARIABLE} is {_NEVER}"
    if setting == _NEVER:
        return _OFF_BY_DEFAULT if os.path.lexists(_library.GPU_KERNELS_PATH) else _HAS_NO_LIBRARY
    if not tf.test.is_built_with_cuda():
        return "this TensorFlow is built without CUDA"
    return None if tf.config.list_physical_devices("GPU") else "TensorFlow sees no GPU"


def _has_gpu() -> bool:
    """Returns whether the machine has a GPU that TensorFlow could use.

    Does not ask TensorFlow, which would initialize CUDA, because CUDA does not survive a fork.
    """
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    return not hidden and tf.test.is_built_with_cuda() and any(map(glob.glob, _DRIVER_FILES))


def _load() -> str | None:
    """Loads the library. Warns and returns the reason if it cannot be loaded, otherwise returns None."""
    try:
        if not os.path.lexists(_library.GPU_KERNELS_PATH):
            raise ImportError(f"{_HAS_NO_LIBRARY}.")
        _library.load(_library.GPU_KERNELS_PATH)
    except ImportError as error:
        # `stacklevel` attributes the warning to the import of the package.
        warnings.warn(f"tf_rnn_ops runs on the CPU only: {error}", RuntimeWarning, stacklevel=4)
        return str(error)
    return None
