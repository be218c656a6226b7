"""Helpers shared by the layers."""

import functools
import inspect
import numbers
from collections.abc import Callable
from typing import Any, cast

import keras
import tensorflow as tf

from tf_rnn_ops import _xla, raw_ops
from tf_rnn_ops._keras.exports import mark_exported
from tf_rnn_ops._library import ops
from tf_rnn_ops._types import Function, Shape


def check_backend(name: str) -> None:
    """Raises a RuntimeError if the backend of Keras is not TensorFlow. `name` is the class or function in the error."""
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            f"{name} requires the Keras backend to be tensorflow, but it is {keras.backend.backend()}: "
            "set KERAS_BACKEND=tensorflow before you import keras."
        )


def with_signature_of(declared: Function, construct: Callable[..., None]) -> Function:
    """Returns the constructor `construct` with the signature of `declared`, whose body is empty."""
    functools.update_wrapper(construct, declared)
    construct.__signature__ = inspect.signature(declared)  # type: ignore[attr-defined]  # Keras ignores __wrapped__
    return cast(Function, construct)


def arguments_of(layer: keras.layers.Layer, constructor: Callable[..., None]) -> dict[str, Any]:
    """Returns the arguments that a constructor names, for `get_config`: the attributes of a layer with these names."""
    names = [name for name in inspect.signature(constructor).parameters if name not in ("self", "kwargs")]
    return {name: keras.saving.serialize_keras_object(getattr(layer, name)) for name in names}


def sees_gpu() -> bool:
    """Returns whether TensorFlow sees a GPU."""
    # Unlike `list_logical_devices`, this does not initialize the devices, so that they can still be configured.
    return bool(tf.config.get_visible_devices("GPU"))


def supports_jit() -> bool:
    """Returns whether Keras may compile the layers with XLA, for which only the CPU has kernels."""
    return _xla.why_not_loaded() is None and not sees_gpu()


def checked_units(units: Any) -> int:
    """Returns `units` as an int, or raises a ValueError."""
    if isinstance(units, bool) or not isinstance(units, numbers.Integral) or units <= 0:
        raise ValueError(f"units must be a positive integer, but is {units!r}")
    return int(units)


def draw(initializer: Any, shape: Shape, dtype: str) -> tf.Tensor:
    """Returns initial values. Draws 16-bit dtypes in float32, since not every initializer supports them."""
    wide = "float32" if dtype in ("float16", "bfloat16") else dtype
    return keras.ops.cast(initializer(shape, dtype=wide), dtype)


def no_cell_state(dtype: str) -> Any:
    """Returns `initial_c` of KerasRNN for a cell without a cell state; `final_c` has the same shape."""
    # For a scalar in bfloat16, `tf.debugging.enable_check_numerics` fails in eager mode.
    return [] if dtype == "bfloat16" else 0


def run_network(*network: tf.Tensor, seed: tf.Tensor | None = None, **attributes: Any) -> tuple[tf.Tensor, ...]:
    """Runs a network and returns output, output_h and output_c.

    Args:
      *network: the inputs, input_h, input_c, params and sequence lengths.
      seed: the two seeds of dropout, [2]. Required for dropout.
      **attributes: the attributes of the op.
    """
    names = ("input", "input_h", "input_c", "params", "sequence_lengths")
    inputs = dict(zip(names, network, strict=True))
    attributes = {"time_major": False, **attributes}
    if seed is None:
        outputs = raw_ops.CudnnRNNV3(**inputs, **attributes)
    else:
        outputs = ops.tf_rnn_ops_stateless_cudnn_rnn(**inputs, seed=seed, **attributes)
    return outputs.output, outputs.output_h, outputs.output_c


def infer_network(*inputs: tf.Tensor, **attributes: Any) -> tuple[tf.Tensor, ...]:
    """Runs a network in inference, keeping nothing for the gradient. A gradient runs it again."""

    @tf.custom_gradient
    def infer(*inputs: tf.Tensor) -> tuple[Any, Callable[..., Any]]:
        def gradient(*d_outputs: tf.Tensor) -> tuple[tf.Tensor | None, ...]:
            *differentiable, lengths = inputs
            with tf.GradientTape() as tape:
                tape.watch(differentiable)
                outputs = run_network(*differentiable, lengths, is_training=True, **attributes)
            return *tape.gradient(outputs, differentiable, output_gradients=d_outputs), None

        outputs = run_network(*inputs, is_training=False, **attributes)
        mark_exported(outputs[0], inputs[3])
        return outputs, gradient

    return infer(*inputs)
