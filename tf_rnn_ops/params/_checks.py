"""What the conversions refuse."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tf_rnn_ops.params._arrays import Library
from tf_rnn_ops.params._layout import Layout


def checked_params(library: Library, layout: Layout, params: Any) -> Any:
    """Returns a params buffer as an array of a library, or refuses one of another size than a layout's."""
    return library.checked("params", library.convert(params), (layout.size,))


def check_names(argument: str, wanted: Collection[str], given: Collection[str]) -> None:
    """Refuses an argument whose names, given, are not exactly those wanted."""
    missing = [name for name in wanted if name not in given]
    unknown = [name for name in given if name not in wanted]
    if missing or unknown:
        raise ValueError(
            f"{argument} must have the layout's {len(wanted)} names, but lacks {_shortened(missing)} and has "
            f"{_shortened(unknown)} that the layout lacks"
        )


def check_one_dtype(argument: str, arrays: Mapping[str, Any]) -> None:
    """Refuses arrays, by name, of an argument if they are of more than one dtype."""
    first = next(iter(arrays))
    for name, array in arrays.items():
        if array.dtype.name != arrays[first].dtype.name:  # in whatever order of bytes
            raise ValueError(
                f"{argument} must be of one dtype, but {first!r} is {arrays[first].dtype.name} and {name!r} "
                f"{array.dtype.name}"
            )


def check_floating(arrays: Mapping[str, Any]) -> None:
    """Refuses arrays, by name, that are not of a floating type."""
    for name, array in arrays.items():
        if not _is_floating(array.dtype):
            raise ValueError(f"{name} must be of a floating type, but is {array.dtype.name}")


def _is_floating(dtype: Any) -> bool:
    """Returns whether a type is one of TensorFlow's floating types."""
    try:
        return tf.as_dtype(dtype).is_floating
    except TypeError:
        return False


def check_zero_biases(library: Library, of_block: Mapping[str, Any], argument: str) -> None:
    """Refuses blocks, by name, with biases that are not zeros, because an argument says that there are to be none."""
    for name, block in of_block.items():
        if name.endswith("bias"):
            library.check_zeros(name, block, f"with {argument}=False")


def check_linear_input(layout: Layout, others: str) -> None:
    """Refuses a layout without an input matrix in layer 0, because others than cuDNN's networks always have one."""
    if layout.input_mode != "linear_input":
        raise ValueError(f"layout must have the input_mode 'linear_input', as {others} do, but has 'skip_input'")


def check_no_projection(layout: Layout, others: str) -> None:
    """Refuses a layout with a projection, because others than cuDNN's networks have none."""
    if layout.num_proj > 0:
        raise ValueError(f"layout must have num_proj 0, as {others} have no projection, but has {layout.num_proj}")


def mode_of_nonlinearity(nonlinearity: str) -> str:
    """Returns the rnn_mode of a network of one gate, or refuses what is no nonlinearity."""
    modes = {"tanh": "rnn_tanh", "relu": "rnn_relu"}
    if nonlinearity not in modes:
        raise ValueError(f"nonlinearity must be 'tanh' or 'relu', but is {nonlinearity!r}")
    return modes[nonlinearity]


def shape_of_matrix(argument: str, arrays: Mapping[str, Any], name: str) -> tuple[int, int]:
    """Returns the shape of a matrix among the arrays of an argument, or refuses them if it is none or not there."""
    if name not in arrays:
        raise ValueError(f"{argument} must have a matrix {name!r}, but has none of that name")
    shape = tuple(np.shape(arrays[name]))
    if len(shape) != 2:
        raise ValueError(f"{argument} must have a matrix {name!r}, but its shape is {list(shape)}")
    return shape


def _shortened(names):
    """Returns the first few of some names as text."""
    if not names:
        return "none"
    shown = ", ".join(map(repr, names[:4]))
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more"
