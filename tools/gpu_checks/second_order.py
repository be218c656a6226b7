"""The gradient of the backward pass: compared with the float64 reference, and checked for identical bits."""

import dataclasses
import functools
import itertools
from collections.abc import Collection
from typing import Any

import cudnn_rnn_reference as reference
import golden_cases
import numpy as np
import second_order_reference
from golden_cases import Case

from gpu_checks import dropout, networks
from gpu_checks.engine import DIRECTIONS, Network
from gpu_checks.outcome import Cases, Context, Outcome, float64, regions

# A type that the engine computes in directly, and one that it widens.
_FLOAT32_AND_WIDENED = ("float32", "bfloat16")


def case_directions(case: Case) -> list[str]:
    """Returns the DIRECTIONS that a case has."""
    return [name for name in DIRECTIONS if case.has_cell_state or name != "dot_input_c"]


def make_directions(case: Case) -> dict[str, np.ndarray]:
    """Returns random DIRECTIONS for a case, in the storage format of golden_cases."""
    given = networks.make_given(dataclasses.replace(case, seed=case.seed + 1))
    return {name: given[name.removeprefix("dot_")] for name in case_directions(case)}


def reference_results(case: Case, given, directions, masks=None) -> dict[str, np.ndarray]:
    """Computes the GRADS of a case with the reference, in float64.

    Args:
      case: the case.
      given: the arrays of golden_cases.GIVEN, as stored.
      directions: the nonzero DIRECTIONS, as stored.
      masks: dropout masks.
    """
    wide = golden_cases.all_to_float64(networks.floating(given), case.dtype)
    scalar = np.zeros([])  # if there is no cell state
    inputs = {name: wide.get(name, scalar) for name in ("input", "input_h", "input_c", "params")}
    output_gradients = {f"{name}_backprop": wide.get(f"{name}_backprop", scalar) for name in golden_cases.OUTPUTS}
    zeros = {f"dot_{name}": np.zeros_like(array) for name, array in inputs.items()}
    v = {**zeros, **golden_cases.all_to_float64(directions, case.dtype)}
    grads = second_order_reference.backward_grad(
        case.config,
        reference.forward(case.config, **inputs, masks=masks),
        input_c=inputs["input_c"],
        params=inputs["params"],
        **output_gradients,
        v=reference.Backward(*(v[name] for name in DIRECTIONS)),
        masks=masks,
    )
    return {f"{name}_grad": value for name, value in grads._asdict().items() if name in wide}


def check(
    context: Context,
    case: Case,
    masks=None,
    precision: str | None = None,
    directions: Collection[str] = DIRECTIONS,
    **options,
) -> Outcome:
    """Runs the gradient of a backward pass twice, and compares with the reference.

    Results are initialized with NaN, and the padding of inputs is NaN.

    Args:
      context: the engine.
      case: the case.
      masks: dropout masks for the reference.
      precision: dtype of the allowed rounding, if not that of the case.
      directions: the DIRECTIONS that are not null.
      **options: options of Network.
    """
    outcome = Outcome()
    given = networks.make_given(case)
    v = {name: array for name, array in make_directions(case).items() if name in directions}
    with Network(context.engine, case, **options) as network:
        tensors = _upload(context, case, {**given, **v})
        results = network.backward_grad(tensors)
        outcome.expect_same_bits("again", network.backward_grad(tensors), results)
        actual = float64(results)
    expected = reference_results(case, given, v, masks)
    outcome.compare("float64", actual, expected, precision or case.dtype, regions(case.config, "params_grad"))
    return outcome


def _upload(context: Context, case: Case, arrays):
    return context.engine.device.upload_all(networks.with_nan_padding(case, arrays), case.dtype)


def check_null_results(context: Context, case: Case) -> Outcome:
    """Computes each result alone, all results except one, and none: bits must not change."""
    outcome = Outcome()
    with Network(context.engine, case) as network:
        tensors = _upload(context, case, {**networks.make_given(case), **make_directions(case)})
        results = network.backward_grad(tensors)
        alone = [{name} for name in results]
        for wanted in (*alone, *(set(results) - each for each in alone), set()):
            some = network.backward_grad(tensors, wanted)
            expected = {name: results[name] for name in wanted}
            outcome.expect_same_bits(f"of {', '.join(sorted(wanted))}", some, expected)
    return outcome


def cases(context: Context) -> Cases:
    """Yields every kind of network and dropout, empty networks, null directions and results, and TF32."""
    for mode in golden_cases.MODES:
        for case in networks.every_kind(mode):
            yield case.name, functools.partial(check, context, case)
        yield from _empty(context, mode)
        yield from _with_tf32(context, mode)
    for case, options in dropout.every_kind():
        yield case.name, functools.partial(check, context, case, **options)
    for mode, dtype in itertools.product(golden_cases.MODES, _FLOAT32_AND_WIDENED):
        yield from _null_directions(context, mode, dtype)
        for layout, num_proj in itertools.product(golden_cases.LAYOUTS, (0, 9) if mode == "lstm" else (0,)):
            case = _stack(mode, dtype, layout, "null_results", num_proj=num_proj)
            yield case.name, functools.partial(check_null_results, context, case)


def few_cases(context: Context) -> Cases:
    """Yields a selection: each mode and type once, a projection, and dropout."""
    for case in networks.every_mode_and_type():
        yield case.name, functools.partial(check, context, case)
    case = _stack("lstm", "float32", golden_cases.SEQUENCE_MAJOR, num_proj=9)
    yield case.name, functools.partial(check, context, case)
    case, options = next(dropout.every_kind())
    yield case.name, functools.partial(check, context, case, **options)


def _stack(mode: str, dtype: str, layout: str, label: str = "", **options) -> Case:
    return networks.make_case(mode, dtype, "with_0", layout, label, direction="bidirectional", num_layers=2, **options)


def _empty(context: Context, mode: str) -> Cases:
    for layout, size in itertools.product(golden_cases.LAYOUTS, ("time", "batch", "num_units")):
        sizes: dict[str, Any] = {"num_layers": 2, size: 0}
        case = networks.make_case(mode, "float32", "no_lengths", layout, f"no_{size}", **sizes)
        yield case.name, functools.partial(check, context, case)


def _with_tf32(context: Context, mode: str) -> Cases:
    """Yields a network with TF32 allowed."""
    case = _stack(mode, "float32", golden_cases.SEQUENCE_MAJOR, "tf32", precision=networks.TF32)
    yield case.name, functools.partial(check, context, case, precision=networks.TF32, allow_tf32=True)


def _null_directions(context: Context, mode: str, dtype: str) -> Cases:
    """Yields a network with each nonempty set of null directions."""
    names = case_directions(_stack(mode, dtype, golden_cases.BATCH_MAJOR))
    for count in range(len(names)):
        for directions in itertools.combinations(names, count):
            case = _stack(mode, dtype, golden_cases.BATCH_MAJOR, "-".join(("only", *directions)))
            yield case.name, functools.partial(check, context, case, directions=directions)
