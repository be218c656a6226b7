"""One step of GRUBlockCell and its gradients, compared with the float64 reference."""

import functools
import itertools
from ctypes import byref

import golden_cases
import numpy as np
import reference

from gpu_checks.engine import TYPES, GruCellBackwardStruct, GruCellForwardStruct, Scratch, fill
from gpu_checks.outcome import Cases, Context, Outcome, float64

# (batch, input_size, cell_size): zero, one, odd, and around the widths of tiles and blocks.
SIZES = [
    (2, 3, 9),
    (7, 16, 64),
    (3, 17, 33),
    (1, 128, 256),
    (32, 31, 65),
    (129, 5, 8),
    (64, 256, 512),
    (3, 0, 8),
    (0, 3, 8),
    (3, 4, 0),
]


def cases(context: Context) -> Cases:
    """Yields each type and size, with the gradients of h only and of all outputs."""
    for size, dtype, of_all in itertools.product(SIZES, TYPES, (False, True)):
        name = f"{'x'.join(map(str, size))}-{'all' if of_all else 'h'}-{dtype}"
        yield name, functools.partial(check, context, size, dtype, of_all)


def make_given(size, dtype: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Returns the inputs of a step and the gradients of its outputs, in the storage format of golden_cases."""
    batch, input_size, cell_size = size
    rng = np.random.default_rng([*size, 1])
    fan_in = input_size + cell_size
    scale = 1 / np.sqrt(max(fan_in, 1))
    inputs = {
        "x": rng.standard_normal((batch, input_size)),
        "h_prev": rng.standard_normal((batch, cell_size)),
        "w_ru": rng.standard_normal((fan_in, 2 * cell_size)) * scale,
        "w_c": rng.standard_normal((fan_in, cell_size)) * scale,
        "b_ru": rng.standard_normal(2 * cell_size),
        "b_c": rng.standard_normal(cell_size),
    }
    gradients = {f"d_{name}": rng.standard_normal((batch, cell_size)) for name in "ruch"}
    as_stored = [
        {name: golden_cases.from_float64(array, dtype) for name, array in arrays.items()}
        for arrays in (inputs, gradients)
    ]
    return as_stored[0], as_stored[1]


def check(context: Context, size, dtype: str, of_all: bool) -> Outcome:
    """Runs a step forward and backward, twice.

    Args:
      context: the engine.
      size: batch, input_size and cell_size.
      dtype: dtype of all arrays.
      of_all: whether to pass gradients of r, u and c, too.
    """
    outcome = Outcome()
    engine, device = context.engine, context.engine.device
    inputs, gradients = make_given(size, dtype)
    given = gradients if of_all else {"d_h": gradients["d_h"]}
    tensors = device.upload_all({**inputs, **given}, dtype)
    step = forward(engine, size, dtype, tensors)
    outcome.expect_same_bits("forward again", forward(engine, size, dtype, tensors), step)
    grads = backward(engine, size, dtype, {**tensors, **step})
    outcome.expect_same_bits("backward again", backward(engine, size, dtype, {**tensors, **step}), grads)
    device.synchronize()

    wide = golden_cases.all_to_float64(inputs, dtype)
    actual_step = float64(step)
    outcome.compare("float64", actual_step, reference.gru_block_cell(**wide)._asdict(), dtype)
    gates = {name: actual_step[name] for name in "ruc"}
    expected = reference.gru_block_cell_grad(**wide, **gates, **golden_cases.all_to_float64(given, dtype))
    outcome.compare("float64", float64(grads), expected._asdict(), dtype)
    return outcome


def forward(engine, size, dtype: str, tensors):
    """Returns r, u, c and h."""
    batch, _, cell_size = size
    results = {name: engine.device.poisoned((batch, cell_size), dtype) for name in "ruch"}
    _call(engine, "RunGruCellForward", GruCellForwardStruct(*size), dtype, {**tensors, **results})
    return results


def backward(engine, size, dtype: str, tensors):
    """Returns the gradients with respect to the inputs of a step."""
    batch, input_size, cell_size = size
    widths = {"d_x": input_size, "d_h_prev": cell_size, "d_c_bar": cell_size, "d_r_bar_u_bar": 2 * cell_size}
    results = {name: engine.device.poisoned((batch, width), dtype) for name, width in widths.items()}
    _call(engine, "RunGruCellBackward", GruCellBackwardStruct(*size), dtype, {**tensors, **results})
    return results


def _call(engine, name, struct, dtype, tensors):
    fill(struct, tensors)
    call = Scratch(engine.device)
    engine.call(name, TYPES[dtype], byref(call.struct), byref(struct))
