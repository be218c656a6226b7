"""Making a params buffer of named matrices and biases, and taking it apart."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tf_rnn_ops.params._layout import Layout


def pack(layout: Layout, arrays: Mapping[str, Any]) -> Any:
    """Returns the params buffer that holds the given matrices and biases.

    Args:
      layout: where they go.
      arrays: for each name in the layout an array of its shape, all of one dtype.

    Returns:
      A vector, [layout.size]: a tensor, and differentiable, if any of the arrays is a tensor or variable; otherwise a
      new NumPy array.

    Raises:
      ValueError: if a name is missing or unknown, an array has another shape, or the dtypes differ.
      tf.errors.InvalidArgumentError: the same, of a tensor whose shape is known only when it is run.

    Example:
      >>> lstm = layout("lstm", num_units=4, input_size=3)
      >>> params = pack(lstm, {name: np.zeros(region.shape, "float32") for name, region in lstm.items()})
      >>> params.shape  # [layout.size]
      (144,)
    """
    _check_names(layout, arrays)
    in_tensorflow = any(map(tf.is_tensor, arrays.values()))
    convert, checked = (tf.convert_to_tensor, _checked_tensor) if in_tensorflow else (np.asarray, _checked_array)
    parts = {name: checked(name, convert(arrays[name]), region.shape) for name, region in layout.items()}
    _check_one_dtype(parts)
    if in_tensorflow:
        return tf.concat([tf.reshape(part, [-1]) for part in parts.values()], axis=0)
    return np.concatenate([np.ravel(part) for part in parts.values()])


def unpack(layout: Layout, params: Any) -> dict[str, Any]:
    """Returns the matrices and biases that a params buffer holds.

    Args:
      layout: where they lie.
      params: the buffer, [layout.size].

    Returns:
      For each name in the layout an array of its shape. Of a NumPy array they are views: writing to them writes to
      `params`. Of a tensor or variable they are tensors, differentiable with respect to it.

    Raises:
      ValueError: if params has another shape.
      tf.errors.InvalidArgumentError: the same, of a tensor whose shape is known only when it is run.

    Example:
      >>> lstm = layout("lstm", num_units=4, input_size=3)
      >>> params = np.zeros(lstm.size, "float32")
      >>> unpack(lstm, params)["layer_0/forward/input_bias/f"][:] = 1  # the forget gate's
      >>> float(params.sum())
      4.0
    """
    sizes = [region.size for region in layout.values()]
    if tf.is_tensor(params):
        params = _checked_tensor("params", tf.convert_to_tensor(params), (layout.size,))
        parts, reshape = tf.split(params, sizes), tf.reshape
    else:
        params = _checked_array("params", np.asarray(params), (layout.size,))
        parts, reshape = np.split(params, np.cumsum(sizes)[:-1]), np.reshape
    return {name: reshape(part, region.shape) for (name, region), part in zip(layout.items(), parts, strict=True)}


def _check_names(layout, arrays):
    """Refuses arrays that do not have exactly the names of a layout."""
    missing = [name for name in layout if name not in arrays]
    unknown = [name for name in arrays if name not in layout]
    if missing or unknown:
        raise ValueError(
            f"arrays must have the layout's {len(layout)} names, but lacks {_shortened(missing)} and has "
            f"{_shortened(unknown)} that the layout lacks"
        )


def _shortened(names):
    """Returns the first few of some names as text."""
    if not names:
        return "none"
    shown = ", ".join(map(repr, names[:4]))
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more"


def _check_one_dtype(arrays):
    """Refuses arrays of more than one dtype."""
    first = next(iter(arrays))
    for name, array in arrays.items():
        if array.dtype != arrays[first].dtype:
            raise ValueError(
                f"arrays must be of one dtype, but {first!r} is {arrays[first].dtype.name} and {name!r} "
                f"{array.dtype.name}"
            )


def _checked_array(name, array, shape):
    """Returns a NumPy array, or refuses it if it has another shape."""
    if array.shape != shape:
        raise _wrong_shape(name, array.shape, shape)
    return array


def _checked_tensor(name, tensor, shape):
    """Returns a tensor, or refuses it if it has another shape: now if that is known, otherwise when it is run."""
    if not tensor.shape.is_compatible_with(shape):
        raise _wrong_shape(name, tensor.shape, shape)
    return tf.ensure_shape(tensor, shape)


def _wrong_shape(name, shape, wanted):
    return ValueError(f"{name} must have the shape {list(wanted)}, but has {list(shape)}")
