"""Decides whether the outcome of a call is correct."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from checks import parity
from fuzz_expected import ANY, Expected, InvalidCallError, expect
from fuzz_run import Outcome, Results, can_be_fed, run
from inputs.calls import Call, Empty, attribute_types, flat_tensors, input_names

ERRORS = (
    tf.errors.InvalidArgumentError,
    tf.errors.ResourceExhaustedError,
    tf.errors.UnimplementedError,
    TypeError,
    ValueError,
    OverflowError,  # raised by Python for an int beyond int64
)
# Errors that TensorFlow raises before it runs the op. They do not name the argument.
TENSORFLOW_MESSAGES = (
    r"input #\d+",
    r"[Aa]ttr '?\w+'?",
    r"Attempt to convert a value",
    r"missing \d+ required keyword-only",
    r"Missing required positional argument",
    r"None values not supported",
    r"Tensor conversion requested",
    r"Attributes suggest",
    r"does not match type",
    r"codec can't decode",
    r"int too big to convert",
    r"Value out of range",
    r"Number of outputs is too big",
    r"OOM when allocating",
)
# Errors for an op that has no kernel for the device.
NO_KERNEL = ("No OpKernel was registered", "Could not find device for node")
LARGE = 1e3  # arguments above this may overflow float32, but not float64


class Verdict(NamedTuple):
    """The verdict on a call.

    Attributes:
      kind: "compared", "accepted", the class of a valid error, or the kind of a finding.
      is_finding: whether the op has a bug.
      text: details.
    """

    kind: str
    is_finding: bool = False
    text: str = ""


def finding(kind: str, text: str) -> Verdict:
    """Returns a verdict that the op has a bug."""
    return Verdict(kind, True, text[:2000])


def judge(call: Call, function: Callable, is_strict: bool = True) -> Verdict:
    """Runs a call and returns the verdict.

    Args:
      call: the call.
      function: the Python function of the op.
      is_strict: whether the op must accept all valid calls and name the invalid argument, as ours must.
    """
    before = [bytes_of(each) for each in flat_tensors(call.arguments)]
    way = "function" if call.way == "graph" and not can_be_fed(call) else call.way
    outcome = run(call, function, way)
    verdict = judge_outcome(call, outcome, is_strict)
    if is_strict and not verdict.is_finding and way != "eager":
        eager = run(call, function, "eager")
        verdict = compare_ways(outcome, eager) or verdict
    if not verdict.is_finding and before != [bytes_of(each) for each in flat_tensors(call.arguments)]:
        return finding("writes to its inputs", "")
    return verdict


def bytes_of(tensor) -> bytes:
    """Returns the bytes of an argument."""
    return tensor.tobytes() if isinstance(tensor, np.ndarray) and tensor.dtype != object else b""


def judge_outcome(call: Call, outcome: Outcome, is_strict: bool) -> Verdict:
    """Returns the verdict on one execution of a call."""
    if outcome.error is not None:
        return judge_error(call, outcome.error, is_strict)
    assert outcome.results is not None
    mismatch = inferred_mismatch(outcome.inferred, outcome.results)
    if mismatch:
        return finding("wrong shape inferred", mismatch)
    return judge_results(call, outcome.results)


def compare_ways(outcome: Outcome, eager: Outcome) -> Verdict | None:
    """Returns a finding if only one of graph and eager execution rejects a call."""
    if (outcome.error is None) == (eager.error is None):
        return None
    return finding("rejected in one mode only", f"in a graph: {outcome.error}\neagerly: {eager.error}")


# ---------------------------------------------------------------- errors


def judge_error(call: Call, error: Exception, is_strict: bool) -> Verdict:
    """Returns the verdict on an error."""
    message = str(error)
    if any(text in message for text in NO_KERNEL):
        return Verdict("no kernel")
    kind = next((each.__name__ for each in ERRORS if isinstance(error, each)), None)
    if kind is None:
        return finding(f"error {type(error).__name__}", message)
    if is_strict and not names_argument(call, message):
        return finding("no argument named", f"{kind}: {message}")
    if isinstance(error, tf.errors.ResourceExhaustedError):
        return Verdict(kind)
    if is_strict and call.is_consistent and not call.is_huge() and fits(call):
        return finding("rejected though valid", f"{kind}: {message}")
    return Verdict(kind, text=message)


def names_argument(call: Call, message: str) -> bool:
    """Whether a message names an argument: one that was made invalid, if no others were mutated."""
    invalid = [name for name, is_invalid in call.mutated.items() if is_invalid]
    are_alone = invalid and len(invalid) == len(call.mutated)
    names = invalid if are_alone else [*input_names(call.op), *attribute_types(call.op)]
    return any(re.search(rf"\b{name}\b", without_node(message)) for name in names) or any(
        re.search(pattern, message) for pattern in TENSORFLOW_MESSAGES
    )


def without_node(message: str) -> str:
    """Returns an error message without TensorFlow's description of the node."""
    return re.sub(r"^\{\{.*?\}\} ", "", message).split(" for '{{node")[0].split(" [Op:")[0]


def fits(call: Call) -> bool:
    """Whether a call is valid."""
    try:
        expect(call, {"reserve_space": call.arguments.get("reserve_space")})
    except InvalidCallError:
        return False
    return True


# ---------------------------------------------------------------- results


def inferred_mismatch(inferred: dict[str, Any], results: Results) -> str:
    """Describes a result that contradicts its inferred shape, if any."""
    for name, shapes in inferred.items():
        for shape, result in zip(as_list(shapes), as_list(results[name]), strict=True):
            if not shape.is_compatible_with(np.shape(result) if np.isscalar(result) else result.shape):
                return f"{name}: inferred shape {shape}, actual shape {result.shape}"
    return ""


def as_list(value) -> list:
    """Wraps a value in a list unless it is one."""
    return value if isinstance(value, list) else [value]


def judge_results(call: Call, results: Results) -> Verdict:
    """Returns the verdict on the results of an op."""
    try:
        expected = expect(call, results)
    except InvalidCallError as error:
        return finding("accepted though invalid", str(error))
    if list(expected) != list(results):
        return finding("wrong result", f"results are {list(results)}")
    is_compared = False
    for name, of_name in expected.items():
        pairs = list(zip(as_list(of_name), as_list(results[name]), strict=False))
        if len(as_list(of_name)) != len(as_list(results[name])):
            return finding("wrong result", f"{name} has {len(as_list(results[name]))} parts")
        for index, (should, is_) in enumerate(pairs):
            difference = describe_difference(call, should, is_)
            if difference:
                return finding("wrong result", f"{name}[{index}]: {difference}")
            is_compared = is_compared or should.values is not None
    return Verdict("compared" if is_compared else "accepted")


def describe_difference(call: Call, expected: Expected, actual) -> str:
    """Describes what is wrong with a result, if anything."""
    if len(expected.shape) != len(actual.shape) or any(
        should not in (ANY, size) for should, size in zip(expected.shape, actual.shape, strict=True)
    ):
        return f"has shape {actual.shape}, should be {expected.shape}"
    if actual.dtype != expected.dtype:
        return f"has dtype {actual.dtype}, should be {expected.dtype}"
    if expected.values is None or isinstance(actual, Empty):
        return ""
    if expected.is_exact:
        return "" if actual.tobytes() == expected.values.tobytes() else "has different bits"
    with np.errstate(invalid="ignore"):  # casts of signaling NaNs
        return describe_distance(call, expected, actual)


def largest_argument(call: Call) -> float:
    """Returns the largest magnitude among the floating arguments."""
    floats = [
        np.fmax.reduce(np.abs(parity.to_float64(each)), axis=None, initial=0)
        for each in flat_tensors(call.arguments)
        if isinstance(each, np.ndarray) and tf.as_dtype(each.dtype).is_floating
    ]
    return float(np.max(floats, initial=0))


def describe_distance(call: Call, expected: Expected, actual) -> str:
    """Describes how a result differs from its expected values by more than rounding, if it does.

    The tolerance is relative to the largest magnitude in the tensor or region, but at least to 1: a tensor with small
    values may consist of sums of larger terms that nearly cancel.
    """
    should, is_ = expected.values, parity.to_float64(actual)
    assert should is not None
    largest = largest_argument(call)
    if largest > LARGE:
        return ""
    more, less = (np.argwhere(np.isnan(a) & ~np.isnan(b)).tolist() for a, b in ((is_, should), (should, is_)))
    if more or (less and not expected.has_zero_factors):
        return f"unexpected NaN in {len(more)} places, {more[:5]}; missing NaN in {len(less)} places, {less[:5]}"
    tolerance = parity.TOLERANCES[tf.as_dtype(actual.dtype).name]
    regions: list[Any] = [..., *expected.regions]
    for region in regions:
        finite = np.isfinite(should[region])
        scale = max(1.0, np.max(np.abs(should[region][finite]), initial=0.0))
        error = np.abs(is_[region][finite] - should[region][finite]).max(initial=0.0)
        if error > tolerance * scale:
            return f"differs by {error:.3g}, scale {scale:.3g}"
    return ""
