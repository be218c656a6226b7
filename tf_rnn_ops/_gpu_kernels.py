"""Loads the GPU kernels, which are in a library of their own.

The environment variable TF_RNN_OPS_GPU is read when the package is imported:

- `auto` or unset: load the library if there is a device file of an NVIDIA GPU, unless CUDA_VISIBLE_DEVICES hides all
  GPUs or TensorFlow is built without CUDA. This does not initialize CUDA, which would not survive a `fork`.
- `1`: load it in any case.
- `0`: do not load it. The ops run on the CPU.

docs/guides/gpu.md is a guide to the GPU kernels.
"""

import glob
import os
import warnings

import tensorflow as tf

from tf_rnn_ops import _library

VARIABLE = "TF_RNN_OPS_GPU"
_AUTO, _ALWAYS, _NEVER = "auto", "1", "0"

# Files of NVIDIA's driver: one per GPU, and those in Windows Subsystem for Linux.
_DRIVER_FILES = ("/dev/nvidia[0-9]*", "/usr/lib/wsl/lib/libcuda.so*", "/usr/lib/wsl/drivers/*/libcuda.so*")

_HAS_NO_LIBRARY = _library.why_left_out("GPU", _library.GPU_KERNELS_PATH)

# None once the library is loaded.
_why_not_loaded: str | None = "the import of tf_rnn_ops is not complete"


def load_if_wanted() -> None:
    """Loads the library if the environment variable requests it.

    If the library cannot be loaded, a warning is issued; the CPU kernels work without it. Once the library is loaded,
    further calls do nothing.

    Raises:
      ValueError: if the environment variable has an unknown value.
    """
    global _why_not_loaded
    if _why_not_loaded is None:
        return
    _why_not_loaded = _why_not_wanted() or _load()


def why_not_loaded() -> str | None:
    """Returns why the library is not loaded, or None if it is."""
    return _why_not_loaded


def opened_libraries() -> list[str]:
    """Returns a line for each NVIDIA library that the GPU library opens: its version and path, or the error."""
    return _library.c_string(_library.GPU_KERNELS_PATH, "TfRnnOps_GpuLibraries").splitlines()


def _why_not_wanted() -> str | None:
    """Returns why the library should not be loaded, or None if it should."""
    setting = os.environ.get(VARIABLE) or _AUTO
    if setting not in (_AUTO, _ALWAYS, _NEVER):
        raise ValueError(
            f"the environment variable {VARIABLE} must be {_NEVER} (run on the CPU only), {_ALWAYS} (load the GPU "
            f"library), {_AUTO} or unset (load it if the machine has an NVIDIA GPU), but is {setting!r}."
        )
    if setting == _ALWAYS:
        return None
    if setting == _NEVER:
        return f"the environment variable {VARIABLE} is {_NEVER}"
    if not os.path.lexists(_library.GPU_KERNELS_PATH):
        return _HAS_NO_LIBRARY
    if not tf.test.is_built_with_cuda():
        return "this TensorFlow is built without CUDA"
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return "CUDA_VISIBLE_DEVICES hides all GPUs"
    if any(map(glob.glob, _DRIVER_FILES)):
        return None
    return f"no NVIDIA GPU was found: no file {' or '.join(_DRIVER_FILES)}"


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
