"""What holds for all layers at this point of the program."""

from collections.abc import Iterator

import keras
import tensorflow as tf

from tf_rnn_ops import _private_names, _xla
from tf_rnn_ops._keras import private_names


def check_backend(name: str) -> None:
    """Raises a RuntimeError if the backend of Keras is not TensorFlow. `name` is the class or function in the error."""
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            f"{name} requires the Keras backend to be tensorflow, but it is {keras.backend.backend()}: "
            "set KERAS_BACKEND=tensorflow before you import keras."
        )


def version_and_backend() -> str:
    """Returns the version and the backend of Keras, for people."""
    return f"{keras.__version__}, {keras.backend.backend()} backend"


def sees_gpu() -> bool:
    """Returns whether TensorFlow sees a GPU."""
    # Unlike `list_logical_devices`, this does not initialize the devices, so that they can still be configured.
    return bool(tf.config.get_visible_devices("GPU"))


def supports_jit() -> bool:
    """Returns whether Keras may compile the layers with XLA, for which only the CPU has kernels."""
    return _xla.why_not_loaded() is None and not sees_gpu()


def is_compiled_by_xla() -> bool:
    """Returns whether XLA compiles the function being traced, as far as that is known."""
    if tf.executing_eagerly():
        return False
    context = _private_names.XLA_CONTEXT
    return context is None or context.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())


def may_be_recorded() -> bool:
    """Returns whether a gradient tape may record."""
    return _private_names.TAPES is None or _private_names.TAPES.could_possibly_record()


def reasons_against_the_op(is_compiled: bool | None = None) -> Iterator[str]:
    """Yields why no layer can run on the op, and what to change.

    Args:
      is_compiled: whether XLA compiles the layers. By default, whether it compiles the function being traced.
    """
    if keras.backend.backend() != "tensorflow":
        yield f"the Keras backend is {keras.backend.backend()}: set KERAS_BACKEND=tensorflow before you import keras"
    if not hasattr(keras.layers.RNN, private_names.INNER_LOOP):
        yield f"this version of Keras has no RNN.{private_names.INNER_LOOP}: install a supported version"
    if sees_gpu():
        yield "TensorFlow sees a GPU, where Keras uses cuDNN: set CUDA_VISIBLE_DEVICES=-1 to run on the CPU"
    why_not = _xla.why_not_loaded()
    if why_not and (is_compiled_by_xla() if is_compiled is None else is_compiled):
        yield f"XLA compiles the layer but cannot compile the op ({why_not}): set jit_compile=False"
