"""How it is measured: peers take turns, so that whatever else the machine does hits all alike."""

import dataclasses
import functools
import math
import random
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import tensorflow as tf
from cases import TASKS, Case, Problem, random_problem
from peers import PEERS, Keras

WARM_UP_CALLS = 3
SAMPLE_SECONDS = 0.05  # short calls are timed many at once
PRODUCT_SIZES = (1024, 1536, 2048)

# The largest error that a peer may have, be it one that adds numbers up in 16 bits. What computes something else has no
# place in a comparison.
ALLOWED_ERRORS = {"float64": 1e-11, "float32": 1e-5, "float16": 2e-2, "bfloat16": 1e-1}

Key = TypeVar("Key", bound=Hashable)


@dataclasses.dataclass(frozen=True)
class Measurement:
    """How long a peer took for a task of a case.

    Attributes:
      case: the network.
      peer: the peer's name in `PEERS`.
      task: the name in `TASKS`.
      seconds: the time of one call in each round.
      error: the largest difference of a result from the float64 one, relative to the largest magnitude of its tensor.
    """

    case: Case
    peer: str
    task: str
    seconds: Sequence[float]
    error: float

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """The lower quartile, the median and the upper quartile of the seconds."""
        lower, median, upper = np.percentile(self.seconds, [25, 50, 75])
        return float(lower), float(median), float(upper)

    @property
    def gflops(self) -> tuple[float, float, float]:
        """The lower quartile, the median and the upper quartile of 1e9 operations a second."""
        lower, median, upper = (self.case.flops(self.task) / seconds / 1e9 for seconds in reversed(self.quartiles))
        return lower, median, upper


def measure_case(case: Case, names: Sequence[str], rounds: int) -> tuple[list[Measurement], dict[int, float]]:
    """Checks the results of the peers of these names and measures each in all of its tasks.

    Returns:
      The measurements, and what a matrix product reached in between: by size, 1e9 operations a second of the fastest
      float32 product of two square matrices.

    Raises:
      ValueError: if a peer's results are wrong.
    """
    problem = random_problem(case)
    peers = {name: PEERS[name](case, problem) for name in names}
    keys = [(name, task) for task in TASKS for name, peer in peers.items() if task in peer.tasks]
    expected = _float64_results(case, problem)
    errors = {(name, task): largest_error(peers[name].results(task), expected[task]) for name, task in keys}
    for (name, task), error in errors.items():
        if not error <= ALLOWED_ERRORS[case.dtype]:
            raise ValueError(f"{name} computes a wrong {TASKS[task]} of {case.name}: its error is {error:.1e}")

    functions: dict[Hashable, Callable[[], object]] = {}
    functions |= {(name, task): functools.partial(peers[name].run, task) for name, task in keys}
    functions |= {size: _matrix_product(size) for size in PRODUCT_SIZES}
    seconds = time_in_turns(functions, rounds)
    measurements = [Measurement(case, *key, seconds[key], errors[key]) for key in keys]
    return measurements, {size: 2 * size**3 / min(seconds[size]) / 1e9 for size in PRODUCT_SIZES}


def _float64_results(case: Case, problem: Problem) -> dict[str, dict[str, np.ndarray]]:
    """Returns the results of every task, computed by Keras in float64 on the numbers that the peers are given."""
    reference = Keras(dataclasses.replace(case, dtype="float64"), problem.astype("float64"))
    return {task: reference.results(task) for task in TASKS}


def _matrix_product(size: int) -> Callable[[], None]:
    """Returns a function that multiplies two [size, size] matrices."""
    factor = tf.random.stateless_normal([size, size], seed=[0, 0])

    def multiply():
        tf.matmul(factor, factor)
        tf.test.experimental.sync_devices()

    return multiply


def largest_error(actual: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> float:
    """Returns the largest difference of two sets of arrays, relative to the largest magnitude of the expected array.

    Infinite if a number is not finite.
    """
    if actual.keys() != expected.keys():
        raise ValueError(f"results must be {', '.join(expected)}, but are {', '.join(actual)}")
    errors = []
    for name in expected:
        if actual[name].shape != expected[name].shape:
            raise ValueError(f"{name} must have shape {expected[name].shape}, but has {actual[name].shape}")
        difference = np.abs(actual[name].astype(np.float64) - expected[name])
        errors.append(float(np.max(difference) / np.max(np.abs(expected[name]))))
    return max(errors) if np.isfinite(errors).all() else math.inf


def time_in_turns(functions: Mapping[Key, Callable[[], object]], rounds: int) -> dict[Key, list[float]]:
    """Returns how many seconds one call of each function took in each round.

    In every round each function has one turn, in an order that changes from round to round, so that none always comes
    after the same other one. What came before the first round is not timed.
    """
    calls = {key: _calls_per_turn(function) for key, function in functions.items()}
    seconds: dict[Key, list[float]] = {key: [] for key in functions}
    order = list(functions)
    shuffler = random.Random(0)
    for _ in range(rounds):
        shuffler.shuffle(order)
        for key in order:
            seconds[key].append(_seconds_per_call(functions[key], calls[key]))
    return seconds


def _calls_per_turn(function: Callable[[], object]) -> int:
    """Warms a function up and returns how many calls of it make a sample that is long enough."""
    fastest = min(_seconds_per_call(function, 1) for _ in range(WARM_UP_CALLS))
    return max(1, math.ceil(SAMPLE_SECONDS / fastest))


def _seconds_per_call(function: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - start) / calls
