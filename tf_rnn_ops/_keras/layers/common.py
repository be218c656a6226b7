"""Helpers shared by the layers."""

import functools
import inspect
import numbers
from collections.abc import Callable
from typing import Any, cast

import keras
import tensorflow as tf

from tf_rnn_ops._types import Function, Shape


def with_signature_of(declared: Function, construct: Callable[..., None]) -> Function:
    """Returns the constructor `construct` with the signature of `declared`, whose body is empty."""
    functools.update_wrapper(construct, declared)
    construct.__signature__ = inspect.signature(declared)  # type: ignore[attr-defined]  # Keras ignores __wrapped__
    return cast(Function, construct)


def arguments_of(layer: keras.layers.Layer, constructor: Callable[..., None]) -> dict[str, Any]:
    """Returns the arguments that a constructor names, for `get_config`: the attributes of a layer with these names."""
    names = [name for name in inspect.signature(constructor).parameters if name not in ("self", "kwargs")]
    return {name: keras.saving.serialize_keras_object(getattr(layer, name)) for name in names}


def checked_units(units: Any) -> int:
    """Returns `units` as an int, or raises a ValueError."""
    if isinstance(units, bool) or not isinstance(units, numbers.Integral) or units <= 0:
        raise ValueError(f"units must be a positive integer, but is {units!r}")
    return int(units)


def draw(initializer: Any, shape: Shape, dtype: str) -> tf.Tensor:
    """Returns initial values. Draws 16-bit dtypes in float32, since not every initializer supports them."""
    wide = "float32" if dtype in ("float16", "bfloat16") else dtype
    return keras.ops.cast(initializer(shape, dtype=wide), dtype)
