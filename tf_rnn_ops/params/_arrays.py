"""The functions of NumPy and TensorFlow that the conversions use, under the same names."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tf_rnn_ops._alignment import aligned
from tf_rnn_ops._types import Shape


class Library(NamedTuple):
    """The functions of an array library.

    Attributes:
      convert: converts a value to an array.
      checked: (name, array, shape): returns the array, or raises a ValueError if it has another shape.
      concat: concatenates arrays along their first dimension.
      split: (array, sizes): splits an array along its first dimension into parts of these sizes.
      reshape: (array, shape).
      flatten: flattens an array to a vector.
      transpose: transposes a matrix, into a new array.
      stack: stacks arrays along a new first dimension.
      zeros: (shape, dtype).
      check_zeros: (name, array, when): raises a ValueError if an array is not zeros; `when` says why it must be.
    """

    convert: Callable[..., Any]
    checked: Callable[..., Any]
    concat: Callable[..., Any]
    split: Callable[..., Any]
    reshape: Callable[..., Any]
    flatten: Callable[..., Any]
    transpose: Callable[..., Any]
    stack: Callable[..., Any]
    zeros: Callable[..., Any]
    check_zeros: Callable[..., None]


def library_of(arrays: Iterable[Any]) -> Library:
    """Returns TensorFlow if any of the arrays is a tensor or variable, otherwise NumPy."""
    return TENSORFLOW if any(map(tf.is_tensor, arrays)) else NUMPY


def _checked_array(name: str, array: np.ndarray, shape: Shape) -> np.ndarray:
    """Returns a NumPy array, or raises a ValueError if it has another shape."""
    if array.shape != shape:
        raise _wrong_shape(name, array.shape, shape)
    return array


def _converted(tensor: Any) -> tf.Tensor:
    """Converts a value to a tensor, in aligned memory if executed eagerly.

    In a graph, Keras layers convert their variables, which are aligned, and XLA has no kernel for AlignTensor.
    """
    tensor = tf.convert_to_tensor(tensor)
    return aligned(tensor) if tf.executing_eagerly() else tensor


def _checked_tensor(name: str, tensor: tf.Tensor, shape: Shape) -> tf.Tensor:
    """Returns a tensor, or raises a ValueError if it has another shape. Checks an unknown shape at run time."""
    if not tensor.shape.is_compatible_with(shape):
        raise _wrong_shape(name, tensor.shape, shape)
    return tensor if tensor.shape.is_fully_defined() else tf.ensure_shape(tensor, shape)


def _wrong_shape(name: str, shape: Any, wanted: Shape) -> ValueError:
    return ValueError(f"{name} must have the shape {list(wanted)}, but has {list(shape)}")


def _check_array_zeros(name: str, array: np.ndarray, when: str) -> None:
    """Raises a ValueError if a NumPy array is not zeros."""
    if np.any(array):
        raise ValueError(_not_zeros(name, when))


def _check_tensor_zeros(name: str, tensor: tf.Tensor, when: str) -> None:
    """Raises an InvalidArgumentError at run time if a tensor is not zeros."""
    tf.debugging.assert_equal(tensor, tf.zeros_like(tensor), message=_not_zeros(name, when))


def _not_zeros(name: str, when: str) -> str:
    return f"{name} must be zeros {when}, but is not"


# NumPy arrays, because eager ops convert them faster than lists.
_VECTOR = np.array([-1], np.int32)
_SWAPPED = np.array([1, 0], np.int32)

NUMPY = Library(
    convert=np.asarray,
    checked=_checked_array,
    concat=np.concatenate,
    split=lambda array, sizes: np.split(array, np.cumsum(sizes)[:-1]),
    reshape=np.reshape,
    flatten=np.ravel,
    transpose=lambda matrix: np.array(matrix.T, order="C"),
    stack=np.stack,
    zeros=np.zeros,
    check_zeros=_check_array_zeros,
)
TENSORFLOW = Library(
    convert=_converted,
    checked=_checked_tensor,
    concat=lambda tensors: tf.concat(tensors, axis=0),
    split=tf.split,
    reshape=tf.reshape,
    flatten=lambda tensor: tf.reshape(tensor, _VECTOR),
    transpose=lambda matrix: tf.transpose(matrix, _SWAPPED),
    stack=tf.stack,
    zeros=tf.zeros,
    check_zeros=_check_tensor_zeros,
)
