"""Inputs of the GRU ops for the tests."""

import numpy as np
import tensorflow as tf
from checks import parity
from hypothesis import strategies as st

DTYPES = ("float32", "float64", "float16", "bfloat16")

# (batch, input_size, cell_size): 0, 1, odd sizes, and sizes near the widths of vectors and tiles.
SIZES = [
    (1, 1, 1),
    (2, 3, 5),
    (7, 16, 64),
    (3, 17, 33),
    (1, 128, 256),
    (32, 31, 65),
    (5, 130, 200),
    (129, 5, 8),
    (0, 3, 4),
    (3, 0, 4),
    (3, 0, 0),
    (0, 0, 0),
]
# The built-in gradient op leaves d_x uninitialized for this size, so compare only with the reference.
NO_CELLS = (3, 4, 0)
LARGE = (128, 1024, 1024)


def sizes(max_batch):
    """A strategy for (batch, input_size, cell_size) with any remainder modulo the vector width.

    With at least 8 cells: tensors with few elements may consist of sums that nearly cancel, with large relative
    rounding errors.
    """
    return st.tuples(st.integers(0, max_batch), st.integers(0, 70), st.integers(8, 70))


def random_array(rng, *shape, scale=1.0):
    return rng.standard_normal(shape) * scale


def shapes(batch: int, input_size: int, cell_size: int) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the six inputs of a forward step."""
    fan_in = input_size + cell_size
    return {
        "x": (batch, input_size),
        "h_prev": (batch, cell_size),
        "w_ru": (fan_in, 2 * cell_size),
        "w_c": (fan_in, cell_size),
        "b_ru": (2 * cell_size,),
        "b_c": (cell_size,),
    }


def cell_inputs(size, dtype="float64", seed=0) -> dict[str, np.ndarray]:
    """Returns the six inputs of a forward step, as arrays of `dtype`."""
    rng = np.random.default_rng(seed)
    scales = dict.fromkeys(("w_ru", "w_c"), 1 / np.sqrt(max(size[1] + size[2], 1)))
    inputs = {name: random_array(rng, *shape, scale=scales.get(name, 1.0)) for name, shape in shapes(*size).items()}
    return cast(inputs, dtype)


def output_gradients(size, dtype="float64", seed=1) -> dict[str, np.ndarray]:
    """Returns gradients with respect to r, u, c and h, as arrays of `dtype`."""
    batch, _, cell_size = size
    rng = np.random.default_rng(seed)
    return cast({f"d_{name}": random_array(rng, batch, cell_size) for name in "ruch"}, dtype)


def grad_inputs(inputs, step, **gradients):
    """Returns the inputs of a gradient op: the inputs and gates of a forward step, and gradients of the outputs."""
    return {**inputs, **{name: getattr(step, name).numpy() for name in "ruc"}, **gradients}


def cast(arrays, dtype):
    """Casts the arrays of a dict to a dtype, which may be bfloat16."""
    return {name: value.astype(tf.as_dtype(dtype).as_numpy_dtype) for name, value in arrays.items()}


def float64(arrays):
    """Converts the arrays or tensors of a dict to float64 arrays."""
    return {name: parity.to_float64(value) for name, value in arrays.items()}
