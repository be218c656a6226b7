"""The kernels for GPUs: a library of its own, which is loaded by request until it has been run on a GPU.

The environment variable TF_RNN_OPS_GPU decides when the package is imported:

- `1`: the library is loaded, be there a GPU or not.
- `auto`: it is loaded if TensorFlow sees a GPU. To answer that, TensorFlow initializes CUDA, which does not survive a
  `fork`: who imports the package, forks, and uses the GPU in the child, sets `1`.
- `0`: it is not loaded, nor is TensorFlow asked. The ops then run on the CPU wherever they are.
- not set: as `0`. Where there is a GPU, one line of the log says how to turn the library on.
"""

import glob
import logging
import os
import warnings

import tensorflow as tf

from tf_rnn_ops import _library

VARIABLE = "TF_RNN_OPS_GPU"
_AUTO, _ALWAYS, _NEVER = "auto", "1", "0"
# What the variable counts as if it is not set. It becomes _AUTO once tests/golden/gpu_check.jsonl is in the repository:
# the record of a run of tools/gpu_check.py on a GPU.
_DEFAULT = _NEVER

# What NVIDIA's driver has for each GPU, and where there is one in Windows's subsystem for Linux.
_DRIVER_FILES = ("/dev/nvidia[0-9]*", "/usr/lib/wsl/lib/libcuda.so*")

_logger = logging.getLogger("tf_rnn_ops")

_OFF_BY_DEFAULT = (
    f"the GPU library has not yet run on a GPU; {VARIABLE}={_ALWAYS} or {_AUTO} turns it on, "
    "`python -m tf_rnn_ops --check-gpu` compares it with the CPU"
)

_HAS_NO_LIBRARY = f"this build of tf_rnn_ops has no GPU library, which would be {_library.GPU_KERNELS_PATH}"

# None once the library is loaded.
_why_not_loaded: str | None = "the import of tf_rnn_ops has not come to it"


def load_if_wanted() -> None:
    """Loads the library if the environment variable says so.

    If it cannot be loaded, a warning says so: the kernels for the CPU work without it. If nobody has decided and there
    is a GPU, the log says how to turn it on. Once it is loaded, another call does nothing.

    Raises:
      ValueError: if the environment variable is none of its values.
    """
    global _why_not_loaded
    if _why_not_loaded is None:
        return
    _why_not_loaded = _why_not_wanted() or _load()
    if _why_not_loaded == _OFF_BY_DEFAULT and _has_gpu():
        # The lowest level that is shown by default.
        _logger.warning("tf_rnn_ops runs on the CPU alone: %s", _OFF_BY_DEFAULT)


def why_not_loaded() -> str | None:
    """Returns why the library is not loaded, or None if it is."""
    return _why_not_loaded


def opened_libraries() -> list[str]:
    """Returns a line for each library of NVIDIA's that the loaded library opens: its version and path, or why not."""
    return _library.c_string(_library.GPU_KERNELS_PATH, "TfRnnOps_GpuLibraries").splitlines()


def _setting() -> str:
    """Returns what the environment variable says."""
    value = os.environ.get(VARIABLE) or _DEFAULT
    if value in (_AUTO, _ALWAYS, _NEVER):
        return value
    raise ValueError(
        f"the environment variable {VARIABLE} must be {_NEVER} (tf_rnn_ops runs on the CPU alone), {_ALWAYS} (its GPU "
        f"library is loaded), {_AUTO} (it is loaded if TensorFlow sees a GPU), or not set (as {_DEFAULT}), but is "
        f"{value!r}."
    )


def _why_not_wanted() -> str | None:
    """Returns why the library is not to be loaded, or None if it is."""
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
    """Returns whether there is a GPU that TensorFlow could use.

    TensorFlow itself is not asked: it would initialize CUDA, which does not survive a fork.
    """
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    return not hidden and tf.test.is_built_with_cuda() and any(map(glob.glob, _DRIVER_FILES))


def _load() -> str | None:
    """Loads the library. Returns why it cannot be loaded, which a warning has said, or None."""
    try:
        if not os.path.lexists(_library.GPU_KERNELS_PATH):
            raise ImportError(f"{_HAS_NO_LIBRARY}.")
        _library.load(_library.GPU_KERNELS_PATH)
    except ImportError as error:
        # As if from the import of the package.
        warnings.warn(f"tf_rnn_ops runs on the CPU alone: {error}", RuntimeWarning, stacklevel=4)
        return str(error)
    return None
