"""What the conversions need of NumPy and of TensorFlow, under the same names."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tf_rnn_ops._alignment import aligned


class Library(NamedTuple):
    """The functions of a library of arrays.

    Attributes:
      convert: makes an array of what can be made one.
      checked: (name, array, shape): returns the array, or refuses it by name if it has another shape.
      concat: joins arrays along their first dimension.
      split: (array, sizes): cuts an array along its first dimension into parts of these sizes.
      reshape: (array, shape).
      flatten: makes a vector of an array.
      transpose: exchanges the dimensions of a matrix, in a new array.
      stack: joins arrays along a new first dimension.
      zeros: (shape, dtype).
      check_zeros: (name, array, when): refuses an array by name if it is not zeros, which it must be `when`.
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
    """Returns TensorFlow if any of some arrays is a tensor or variable, otherwise NumPy."""
    return TENSORFLOW if any(map(tf.is_tensor, arrays)) else NUMPY


def _checked_array(name, array, shape):
    """Returns a NumPy array, or refuses it if it has another shape."""
    if array.shape != shape:
        raise _wrong_shape(name, array.shape, shape)
    return array


def _converted(tensor):
    """Returns what can be made a tensor as one, in aligned memory.

    In a graph it is left where it is: Keras's layers convert their variables there, and XLA has no kernel that aligns.
    """
    tensor = tf.convert_to_tensor(tensor)
    return aligned(tensor) if tf.executing_eagerly() else tensor


def _checked_tensor(name, tensor, shape):
    """Returns a tensor, or refuses it if it has another shape: now if that is known, otherwise when it is run."""
    if not tensor.shape.is_compatible_with(shape):
        raise _wrong_shape(name, tensor.shape, shape)
    return tensor if tensor.shape.is_fully_defined() else tf.ensure_shape(tensor, shape)


def _wrong_shape(name, shape, wanted):
    return ValueError(f"{name} must have the shape {list(wanted)}, but has {list(shape)}")


def _check_array_zeros(name, array, when):
    """Refuses a NumPy array that is not zeros."""
    if np.any(array):
        raise ValueError(_not_zeros(name, when))


def _check_tensor_zeros(name, tensor, when):
    """Refuses a tensor that is not zeros, when it is run."""
    tf.debugging.assert_equal(tensor, tf.zeros_like(tensor), message=_not_zeros(name, when))


def _not_zeros(name, when):
    return f"{name} must be zeros {when}, but is not"


# Eager calls take less time to make tensors of these than of lists.
_VECTOR = np.array([-1], np.int32)
_EXCHANGED = np.array([1, 0], np.int32)

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
    transpose=lambda matrix: tf.transpose(matrix, _EXCHANGED),
    stack=tf.stack,
    zeros=tf.zeros,
    check_zeros=_check_tensor_zeros,
)
