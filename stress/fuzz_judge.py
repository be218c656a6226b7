"""Judges what came of a call."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import parity
import tensorflow as tf
from fuzz_calls import Call, Empty, attribute_types, flat_tensors, input_names
from fuzz_expected import ANY, Expected, MisfitError, expect
from fuzz_run import Outcome, Results, can_be_fed, run

ERRORS = (
    tf.errors.InvalidArgumentError,
    tf.errors.ResourceExhaustedError,
    tf.errors.UnimplementedError,
    TypeError,
    ValueError,
    OverflowError,  # Python's, of an int that is no int64
)
# What TensorFlow says of arguments before an op is asked, and in place of the argument's name.
TENSORFLOWS_WORDS = (
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
# What is said where an op has no kernel for the device.
NO_KERNEL = ("No OpKernel was registered", "Could not find device for node")
LARGE = 1e3  # from here on float32 may overflow where float64 does not


class Verdict:
    """What is to be said of a call.

    Attributes:
      kind: "compared", "accepted", the class of the error of a refusal, or the kind of a finding.
      is_finding: whether the op is at fault.
      text: more, in words.
    """

    def __init__(self, kind: str, is_finding: bool = False, text: str = ""):
        self.kind = kind
        self.is_finding = is_finding
        self.text = text


def finding(kind: str, text: str) -> Verdict:
    """Returns a verdict that the op is at fault."""
    return Verdict(kind, True, text[:2000])


def judge(call: Call, function: Callable, is_strict: bool = True) -> Verdict:
    """Makes a call and judges what came of it.

    Args:
      call: the call.
      function: the op's.
      is_strict: whether the op promises, as ours do, to take whatever is valid and to name what is at fault.
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
    """Returns the contents of an argument."""
    return tensor.tobytes() if isinstance(tensor, np.ndarray) and tensor.dtype != object else b""


def judge_outcome(call: Call, outcome: Outcome, is_strict: bool) -> Verdict:
    """Judges what came of a call in one way."""
    if outcome.error is not None:
        return judge_refusal(call, outcome.error, is_strict)
    assert outcome.results is not None
    mismatch = inferred_mismatch(outcome.inferred, outcome.results)
    if mismatch:
        return finding("wrong shape inferred", mismatch)
    return judge_results(call, outcome.results)


def compare_ways(outcome: Outcome, eager: Outcome) -> Verdict | None:
    """Returns a finding where a graph refuses what is accepted eagerly, or the other way round."""
    if (outcome.error is None) == (eager.error is None):
        return None
    return finding("refused in one way only", f"in a graph: {outcome.error}\neagerly: {eager.error}")


# ---------------------------------------------------------------- refusals


def judge_refusal(call: Call, error: Exception, is_strict: bool) -> Verdict:
    """Judges an error."""
    message = str(error)
    if any(words in message for words in NO_KERNEL):
        return Verdict("no kernel")
    kind = next((each.__name__ for each in ERRORS if isinstance(error, each)), None)
    if kind is None:
        return finding(f"error {type(error).__name__}", message)
    if is_strict and not names_argument(call, message):
        return finding("no argument named", f"{kind}: {message}")
    if isinstance(error, tf.errors.ResourceExhaustedError):
        return Verdict(kind)
    if is_strict and call.follows and not call.is_huge() and fits(call):
        return finding("refused though valid", f"{kind}: {message}")
    return Verdict(kind, text=message)


def names_argument(call: Call, message: str) -> bool:
    """Whether a message says which argument is at fault."""
    names = {*input_names(call.op), *attribute_types(call.op)}
    return any(re.search(rf"\b{name}\b", own_words(message)) for name in names) or any(
        re.search(words, message) for words in TENSORFLOWS_WORDS
    )


def own_words(message: str) -> str:
    """Returns a message without what TensorFlow says of the node."""
    return re.sub(r"^\{\{.*?\}\} ", "", message).split(" for '{{node")[0].split(" [Op:")[0]


def fits(call: Call) -> bool:
    """Whether nothing speaks against a call."""
    try:
        expect(call, {"reserve_space": call.arguments.get("reserve_space")})
    except MisfitError:
        return False
    return True


# ---------------------------------------------------------------- results


def inferred_mismatch(inferred: dict[str, Any], results: Results) -> str:
    """Returns in words which inferred shape a result contradicts, if one does."""
    for name, shapes in inferred.items():
        for shape, result in zip(as_list(shapes), as_list(results[name]), strict=True):
            if not shape.is_compatible_with(np.shape(result) if np.isscalar(result) else result.shape):
                return f"{name}: {shape} was inferred, but it is {result.shape}"
    return ""


def as_list(value) -> list:
    """Returns a list, or a list of what is none."""
    return value if isinstance(value, list) else [value]


def judge_results(call: Call, results: Results) -> Verdict:
    """Judges what an op returned."""
    try:
        expected = expect(call, results)
    except MisfitError as misfit:
        return finding("accepted though invalid", str(misfit))
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
    """Returns in words what is wrong with a result, if anything is."""
    if len(expected.shape) != len(actual.shape) or any(
        should not in (ANY, size) for should, size in zip(expected.shape, actual.shape, strict=True)
    ):
        return f"is of shape {actual.shape}, should be {expected.shape}"
    if actual.dtype != expected.dtype:
        return f"is of dtype {actual.dtype}, should be {expected.dtype}"
    if expected.values is None or isinstance(actual, Empty):
        return ""
    if expected.is_exact:
        return "" if actual.tobytes() == expected.values.tobytes() else "has other bits"
    with np.errstate(invalid="ignore"):  # of casts of NaNs that signal
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
    """Returns in words how a result differs from its values by more than rounding, if it does.

    Rounding is measured by the largest number of the tensor, or of a region of it, or 1, which is of the order of what
    was computed with: a small tensor may consist of sums that all but cancel.
    """
    should, is_ = expected.values, parity.to_float64(actual)
    assert should is not None
    largest = largest_argument(call)
    if largest > LARGE:
        return ""
    more, less = (np.argwhere(np.isnan(a) & ~np.isnan(b)).tolist() for a, b in ((is_, should), (should, is_)))
    if more or (less and not expected.has_zero_factors):
        return f"NaN in {len(more)} places where there should be none, {more[:5]}; not in {len(less)}, {less[:5]}"
    tolerance = parity.TOLERANCES[tf.as_dtype(actual.dtype).name]
    regions: list[Any] = [..., *expected.regions]
    for region in regions:
        finite = np.isfinite(should[region])
        scale = max(1.0, np.max(np.abs(should[region][finite]), initial=0.0))
        error = np.abs(is_[region][finite] - should[region][finite]).max(initial=0.0)
        if error > tolerance * scale:
            return f"differs by {error:.3g}, of {scale:.3g}"
    return ""
