"""Type aliases for the annotations of the public API."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import keras
import tensorflow as tf

# A tensor or a value that TensorFlow converts to one.
TensorLike: TypeAlias = tf.types.experimental.TensorLike
# A static shape; None is an unknown size.
Shape: TypeAlias = Sequence[int | None]

# The arguments of Keras layers: an object, its name or its config.
Activation: TypeAlias = str | Callable[..., Any] | None
Initializer: TypeAlias = str | Mapping[str, Any] | Callable[..., Any] | keras.initializers.Initializer
Regularizer: TypeAlias = str | Mapping[str, Any] | Callable[..., Any] | keras.regularizers.Regularizer | None
Constraint: TypeAlias = str | Mapping[str, Any] | Callable[..., Any] | keras.constraints.Constraint | None

# A function with any arguments, for decorators that keep them.
Function = TypeVar("Function", bound=Callable[..., Any])
