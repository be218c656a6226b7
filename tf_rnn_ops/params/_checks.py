"""Checks of the arguments of the conversions. They raise a ValueError, or a TypeError for an object of another type."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_rnn_ops.params._arrays import Library
from tf_rnn_ops.params._layout import Layout


def checked_params(library: Library, layout: Layout, params: Any) -> Any:
    """Returns a params buffer as an array of a library, after checking its shape."""
    check_layout(layout)
    return library.checked("params", library.convert(params), (layout.size,))


def check_layout(layout: Any) -> None:
    """Raises a TypeError if a layout is not a `Layout`."""
    if not isinstance(layout, Layout):
        raise TypeError(
            f"layout must be a Layout, as returned by tf_rnn_ops.params.layout, but is a {type(layout).__name__}"
        )


def check_enough(argument: str, layout: Layout, given: Collection[str]) -> None:
    """Checks that there are at least as many names as layers, before the names of all layers are made."""
    if len(given) < layout.num_layers:
        raise ValueError(
            f"{argument} must have weights for each of the {layout.num_layers} layers of layout, but has only "
            f"{len(given)}"
        )


def check_names(requirement: str, wanted: Collection[str], given: Collection[str]) -> None:
    """Checks that the names given are exactly those wanted. The error starts with `requirement`."""
    missing = [name for name in wanted if name not in given]
    unknown = [name for name in given if name not in wanted]
    if missing or unknown:
        raise ValueError(f"{requirement}. Missing: {_shortened(missing)}. Unknown: {_shortened(unknown)}.")


def check_one_dtype(argument: str, arrays: Mapping[str, Any]) -> None:
    """Checks that the arrays of an argument, by name, have the same dtype."""
    first = next(iter(arrays))
    for name, array in arrays.items():
        if array.dtype.name != arrays[first].dtype.name:  # compares without the byte order
            raise ValueError(
                f"the dtypes in {argument} must be equal, but {first!r} is {arrays[first].dtype.name} and {name!r} is "
                f"{array.dtype.name}"
            )


def check_one_floating_dtype(argument: str, arrays: Mapping[str, Any]) -> None:
    """Checks that the arrays of an argument, by name, have the same floating-point dtype."""
    check_one_dtype(argument, arrays)
    for name, array in arrays.items():
        if not _is_floating(array.dtype):
            raise ValueError(f"{name} must have a floating-point dtype, but has {array.dtype.name}")


def _is_floating(dtype: Any) -> bool:
    """Returns whether TensorFlow has the dtype and it is floating-point."""
    try:
        return tf.as_dtype(dtype).is_floating
    except TypeError:
        return False


def check_zero_biases(library: Library, of_block: Mapping[str, Any]) -> None:
    """Checks that the biases among blocks, by name, are zeros, because `use_bias` is False."""
    for name, block in of_block.items():
        if name.endswith("bias"):
            library.check_zeros(name, block, "with use_bias=False")


def check_supported(layout: Layout, others: str, *, with_projection: bool = False) -> None:
    """Checks that `others` support a layout: they have an input matrix in layer 0, and maybe a projection."""
    check_layout(layout)
    if layout.input_mode != "linear_input":
        raise ValueError(f"the input_mode of layout must be 'linear_input' to convert {others}, but is 'skip_input'")
    if layout.num_proj > 0 and not with_projection:
        raise ValueError(f"the num_proj of layout must be 0 to convert {others}, but is {layout.num_proj}")


def mode_of_nonlinearity(nonlinearity: str) -> str:
    """Returns the rnn_mode of a network with one gate."""
    modes = {"tanh": "rnn_tanh", "relu": "rnn_relu"}
    if nonlinearity not in modes:
        raise ValueError(f"nonlinearity must be 'tanh' or 'relu', but is {nonlinearity!r}")
    return modes[nonlinearity]


def shape_of_matrix(argument: str, arrays: Mapping[str, Any], name: str) -> tuple[int, int]:
    """Returns the shape of a matrix among the arrays of an argument, after checking that it is a matrix."""
    if name not in arrays:
        raise ValueError(f"{argument} must have a matrix {name!r}, but has no such name")
    shape = tuple(np.shape(arrays[name]))
    if len(shape) != 2:
        raise ValueError(f"{name!r} in {argument} must be a matrix, but has the shape {list(shape)}")
    return shape


def _shortened(names: Sequence[str]) -> str:
    """Returns the first names as text."""
    if not names:
        return "none"
    shown = ", ".join(map(repr, names[:4]))
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more"
