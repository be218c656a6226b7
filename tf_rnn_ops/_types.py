"""Type aliases for the annotations of the public API."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import tensorflow as tf

# A tensor or a value that TensorFlow converts to one.
TensorLike: TypeAlias = tf.types.experimental.TensorLike
# A static shape; None is an unknown size.
Shape: TypeAlias = Sequence[int | None]

# A function with any arguments, for decorators that keep them.
Function = TypeVar("Function", bound=Callable[..., Any])
