"""Packs named matrices and biases into a params buffer, and unpacks it."""

from collections.abc import Mapping
from typing import Any

from tf_rnn_ops.params._arrays import library_of
from tf_rnn_ops.params._checks import check_enough, check_layout, check_names, check_one_dtype, checked_params
from tf_rnn_ops.params._layout import Layout


def pack(layout: Layout, arrays: Mapping[str, Any]) -> Any:
    """Packs matrices and biases into a params buffer.

    Args:
      layout: the layout of the buffer.
      arrays: an array for each name in the layout, with the shape of its region. All have the same dtype.

    Returns:
      The params buffer, [layout.size]. It is a tensor, differentiable with respect to the arrays, if any of them is a
      tensor or variable; otherwise a new NumPy array.

    Raises:
      TypeError: if `layout` is not a `Layout`.
      ValueError: if a name is missing or unknown, an array has the wrong shape, or the dtypes differ.
      tf.errors.InvalidArgumentError: if a tensor has the wrong shape, which is known only at run time.

    Examples:
      >>> lstm = layout("lstm", num_units=4, input_size=3)
      >>> params = pack(lstm, {name: np.zeros(region.shape, "float32") for name, region in lstm.items()})
      >>> params.shape  # [layout.size]
      (144,)
    """
    check_layout(layout)
    check_enough("arrays", layout, arrays)
    check_names(f"arrays must have exactly the {len(layout)} names of the layout", layout, arrays)
    library = library_of(arrays.values())
    parts = {name: library.checked(name, library.convert(arrays[name]), each.shape) for name, each in layout.items()}
    check_one_dtype("arrays", parts)
    return library.concat([library.flatten(part) for part in parts.values()])


def unpack(layout: Layout, params: Any) -> dict[str, Any]:
    """Returns the matrices and biases in a params buffer.

    Args:
      layout: the layout of the buffer.
      params: the buffer, [layout.size].

    Returns:
      An array for each name in the layout, with the shape of its region. If `params` is a NumPy array, they are views,
      and writing to them writes to `params`. If it is a tensor or variable, they are tensors, differentiable with
      respect to it.

    Raises:
      TypeError: if `layout` is not a `Layout`.
      ValueError: if `params` has the wrong shape.
      tf.errors.InvalidArgumentError: if a tensor has the wrong shape, which is known only at run time.

    Examples:
      >>> lstm = layout("lstm", num_units=4, input_size=3)
      >>> params = np.zeros(lstm.size, "float32")
      >>> unpack(lstm, params)["layer_0/forward/input_bias/f"][:] = 1  # the forget gate
      >>> float(params.sum())
      4.0
    """
    library = library_of([params])
    parts = library.split(checked_params(library, layout, params), [region.size for region in layout.values()])
    return {name: library.reshape(part, each.shape) for (name, each), part in zip(layout.items(), parts, strict=True)}
