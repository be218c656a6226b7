"""The kernels for GPUs: a library of its own that is loaded where TensorFlow sees a GPU, or by request.

The environment variable TF_RNN_OPS_GPU decides when the package is imported:

- not set, or `auto`: the library is loaded if TensorFlow sees a GPU. To answer that, TensorFlow initializes CUDA, which
  does not survive a `fork`: who imports the package, forks, and uses the GPU in the child, sets `1`.
- `1`: it is loaded without that question, be there a GPU or not.
- `0`: it is not loaded, nor is TensorFlow asked. The ops then run on the CPU wherever they are.
"""

import os
import warnings

import tensorflow as tf

from tf_rnn_ops import _library

VARIABLE = "TF_RNN_OPS_GPU"
_AUTO, _ALWAYS, _NEVER = "auto", "1", "0"

# None once the library is loaded.
_why_not_loaded: str | None = "the import of tf_rnn_ops has not come to it"


def load_if_wanted() -> None:
    """Loads the library, unless the environment variable says otherwise or TensorFlow sees no GPU.

    If it cannot be loaded, a warning says so: the kernels for the CPU work without it. Once it is loaded, another call
    does nothing.

    Raises:
      ValueError: if the environment variable is none of its values.
    """
    global _why_not_loaded
    if _why_not_loaded is None:
        return
    _why_not_loaded = _why_not_wanted() or _load()


def why_not_loaded() -> str | None:
    """Returns why the library is not loaded, or None if it is."""
    return _why_not_loaded


def opened_libraries() -> list[str]:
    """Returns a line for each library of NVIDIA's that the loaded library opens: its version and path, or why not."""
    return _library.c_string(_library.GPU_KERNELS_PATH, "TfRnnOps_GpuLibraries").splitlines()


def _setting() -> str:
    """Returns what the environment variable says."""
    value = os.environ.get(VARIABLE) or _AUTO
    if value in (_AUTO, _ALWAYS, _NEVER):
        return value
    raise ValueError(
        f"the environment variable {VARIABLE} must be {_NEVER} (tf_rnn_ops runs on the CPU alone), {_ALWAYS} (its GPU "
        f"library is loaded), or {_AUTO} or not set (it is loaded if TensorFlow sees a GPU), but is {value!r}."
    )


def _why_not_wanted() -> str | None:
    """Returns why the library is not to be loaded, or None if it is."""
    setting = _setting()
    if setting == _ALWAYS:
        return None
    if setting == _NEVER:
        return f"the environment variable {VARIABLE} is {_NEVER}"
    if not tf.test.is_built_with_cuda():
        return "this TensorFlow is built without CUDA"
    return None if tf.config.list_physical_devices("GPU") else "TensorFlow sees no GPU"


def _load() -> str | None:
    """Loads the library. Returns why it cannot be loaded, which a warning has said, or None."""
    path = _library.GPU_KERNELS_PATH
    try:
        if not os.path.lexists(path):
            raise ImportError(f"this build of tf_rnn_ops has no GPU library, which would be {path}.")
        _library.load(path)
    except ImportError as error:
        # As if from the import of the package.
        warnings.warn(f"tf_rnn_ops runs on the CPU alone: {error}", RuntimeWarning, stacklevel=4)
        return str(error)
    return None
