"""Making a params buffer of named matrices and biases, and taking it apart."""

from collections.abc import Mapping
from typing import Any

from tf_rnn_ops.params._arrays import library_of
from tf_rnn_ops.params._checks import check_names, check_one_dtype, checked_params
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
    check_names("arrays", layout, arrays)
    library = library_of(arrays.values())
    parts = {name: library.checked(name, library.convert(arrays[name]), each.shape) for name, each in layout.items()}
    check_one_dtype("arrays", parts)
    return library.concat([library.flatten(part) for part in parts.values()])


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
    library = library_of([params])
    parts = library.split(checked_params(library, layout, params), [region.size for region in layout.values()])
    return {name: library.reshape(part, each.shape) for (name, each), part in zip(layout.items(), parts, strict=True)}
