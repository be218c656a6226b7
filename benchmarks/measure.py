"""Measures peers in turns, so that other activity of the machine affects all alike."""

import contextlib
import dataclasses
import math
import pathlib
import random
from collections.abc import Collection, Container, Iterable, Mapping, Sequence

import numpy as np
from cases import TASKS, Case
from loads import QUIET, Load, busy_processes
from peers import Peer
from workers import SAMPLE_SECONDS, Sample, Worker, WorkerError

# A sample is disturbed if other processes used more than this share of the CPU time.
DISTURBANCE = 0.2
TRIES = 3  # attempts to get an undisturbed sample; the least disturbed one counts

# The largest allowed errors. They admit peers that accumulate in 16 bits, and in float32 PyTorch's gradient of a bias,
# a sequential sum over up to 15000 rows.
ALLOWED_ERRORS = {"float64": 1e-11, "float32": 3e-5, "float16": 2e-2, "bfloat16": 1e-1}


@dataclasses.dataclass(frozen=True)
class Measurement:
    """The times of a peer for a task of a case.

    Attributes:
      section: the name of the section.
      case: the case.
      peer: the peer's name in `PEERS`.
      task: the name in `TASKS`.
      seconds: the time of one call in each round.
      error: the largest difference from the float64 reference, relative to the largest magnitude of the tensor.
      others: the share of the CPU time that other processes used in each round.
      waits: the seconds of each call of all rounds, if calls were timed one by one.
    """

    section: str
    case: Case
    peer: str
    task: str
    seconds: Sequence[float]
    error: float
    others: Sequence[float]
    waits: Sequence[float] = ()

    def wait(self, percent: float) -> float:
        """Returns a percentile of the seconds of single calls."""
        return float(np.percentile(self.waits, percent))

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """Lower quartile, median and upper quartile of the seconds."""
        lower, median, upper = np.percentile(self.seconds, [25, 50, 75])
        return float(lower), float(median), float(upper)

    @property
    def gflops(self) -> tuple[float, float, float]:
        """Lower quartile, median and upper quartile of the GFLOP/s."""
        lower, median, upper = (self._gflops(seconds) for seconds in reversed(self.quartiles))
        return lower, median, upper

    @property
    def best_gflops(self) -> float:
        """GFLOP/s of the fastest round."""
        return self._gflops(min(self.seconds))

    def _gflops(self, seconds: float) -> float:
        return self.case.flops(self.task) / seconds / 1e9


@dataclasses.dataclass(frozen=True)
class Turn:
    """A task that a peer has prepared.

    Attributes:
      case: the case.
      peer: the peer's name.
      task: the name in `TASKS`.
      error: see `Measurement`.
    """

    case: Case
    peer: str
    task: str
    error: float


class WrongResultError(ValueError):
    """A peer's results differ from the reference.

    Attributes:
      peer: the peer's name.

    Args:
      peer: the peer's name.
      message: the error message.
    """

    def __init__(self, peer: str, message: str):
        super().__init__(message)
        self.peer = peer


class Bench:
    """The processes of the peers and of the reference. A context manager that ends them.

    Attributes:
      versions: the versions that each peer reports, by peer name.

    Args:
      peers: the peers to measure.
      reference: computes the expected results.
      threads: the number of threads of each peer.
      log: the log file of all processes.
      allowed_errors: the largest allowed error by dtype.
      sample_seconds: the time of a sample; short calls are repeated for so long.
    """

    def __init__(
        self,
        peers: Sequence[Peer],
        reference: Peer,
        threads: int,
        log: pathlib.Path,
        allowed_errors: Mapping[str, float] = ALLOWED_ERRORS,
        sample_seconds: float = SAMPLE_SECONDS,
    ):
        self._allowed_errors = allowed_errors
        self._sample_seconds = sample_seconds
        self._threads, self._log = threads, log
        with contextlib.ExitStack() as stack:
            self._reference = stack.enter_context(Worker(reference, threads, log))
            self._workers = {peer.name: stack.enter_context(Worker(peer, threads, log)) for peer in peers}
            # Returns when the process has started and is idle.
            self._reference.versions()
            self.versions = {name: worker.versions() for name, worker in self._workers.items()}
            self._stack = stack.pop_all()

    def __enter__(self) -> "Bench":
        return self

    def __exit__(self, *exception) -> None:
        self._stack.close()

    def restart(self, peer: str) -> None:
        """Replaces the process of a peer that has failed."""
        old = self._workers[peer]
        old.__exit__(None, None, None)
        self._workers[peer] = self._stack.enter_context(Worker(old.peer, self._threads, self._log))

    def prepare(self, case: Case, peers: Collection[str], tasks: Container[str] = TASKS) -> list[Turn]:
        """Prepares the tasks of a case that each peer supports, and checks their results.

        Raises:
          WrongResultError: if a peer's results are wrong.
          WorkerError: if a peer fails or crashes.
        """
        workers = {name: worker for name, worker in self._workers.items() if name in peers}
        keys = [(name, task) for name, worker in workers.items() for task in worker.prepare(case) if task in tasks]
        self._reference.prepare(case)
        expected = {task: self._reference.results(case, task) for task in dict.fromkeys(task for _, task in keys)}
        self._reference.forget(case)
        turns = []
        for name, task in keys:
            error = self._error(name, case, task, expected[task])
            workers[name].calibrate(case, task, self._sample_seconds)
            turns.append(Turn(case, name, task, error))
        return turns

    def _error(self, peer: str, case: Case, task: str, expected: Mapping[str, np.ndarray]) -> float:
        """Returns the error of a peer's results, see `Measurement`; raises an exception if it is too large."""
        what = f"{peer} gives wrong results for {TASKS[task]} of {case.name}"
        try:
            error = largest_error(self._workers[peer].results(case, task), expected)
        except ValueError as different:
            raise WrongResultError(peer, f"{what}: {different}") from different
        if not error <= self._allowed_errors[case.dtype]:
            raise WrongResultError(peer, f"{what}: the error is {error:.1e}")
        return error

    def measure(
        self,
        section: str,
        case: Case,
        peers: Collection[str],
        rounds: int,
        products: Sequence[Turn] = (),
        tasks: Container[str] = TASKS,
        load: Load = QUIET,
    ) -> list[Measurement]:
        """Checks and measures the peers in the tasks of a case that they support.

        Each round runs every task once, in a new random order.

        Args:
          section: the name of the section.
          case: the case.
          peers: the names of the peers.
          rounds: the number of samples of each task.
          products: prepared products; in each round each peer runs one of its own.
          tasks: the tasks to measure, if the case has them.
          load: the load during the measurement.

        Returns:
          The measurements of the case, and of the products that ran.

        Raises:
          WrongResultError: if a peer's results are wrong.
          WorkerError: if a peer fails or crashes.
        """
        turns = self.prepare(case, self._loaded(peers, load), tasks)
        samples: dict[Turn, list[Sample]] = {turn: [] for turn in [*turns, *products]}
        shuffler = random.Random(case.name)
        with busy_processes(load.busy_cpus):
            for _ in range(rounds):
                order = [*turns, *_one_of_each_peer(products, shuffler)]
                shuffler.shuffle(order)
                for turn in order:
                    samples[turn].append(self._sample(turn, load))
        for turn in set(turns) - set(products):
            for each in {case, *(other for other, _ in load.background)}:
                self._workers[turn.peer].forget(each)
        return [
            Measurement(
                section,
                turn.case,
                turn.peer,
                turn.task,
                [sample.seconds for sample in taken],
                turn.error,
                [sample.others for sample in taken],
                [wait for sample in taken for wait in sample.waits],
            )
            for turn, taken in samples.items()
            if taken
        ]

    def _loaded(self, peers: Collection[str], load: Load) -> list[str]:
        """Prepares the background calls of a load, and returns the peers that support all of them."""
        able = [name for name in self._workers if name in peers]
        for other, task in load.background:
            able = [name for name in able if task in self._workers[name].prepare(other)]
        return able

    def _sample(self, turn: Turn, load: Load) -> Sample:
        """Returns the first undisturbed sample, or the least disturbed of `TRIES`."""
        taken = []
        for _ in range(TRIES):
            taken.append(self._workers[turn.peer].sample(turn.case, turn.task, load))
            if taken[-1].others <= DISTURBANCE:
                break
        return min(taken, key=lambda sample: sample.others)


@dataclasses.dataclass(frozen=True)
class Failure:
    """Why a peer has no measurement of a case.

    Attributes:
      case: the case's name.
      peer: the peer's name.
      message: the error message.
    """

    case: str
    peer: str
    message: str


def measure_case(
    bench: Bench, section: str, case: Case, peers: Iterable[str], rounds: int
) -> tuple[list[Measurement], list[Failure]]:
    """Measures a case as `Bench.measure` does, without the peers that fail.

    A peer that fails runs the next case in a new process, because a GPU error may persist in the old one.

    Returns:
      The measurements and the failures.
    """
    peers = list(peers)
    failures: list[Failure] = []
    while True:
        try:
            return bench.measure(section, case, peers, rounds), failures
        except (WorkerError, WrongResultError) as error:
            if error.peer not in peers:
                raise
            failures.append(Failure(case.name, error.peer, str(error)))
            peers.remove(error.peer)
            bench.restart(error.peer)


def _one_of_each_peer(turns: Sequence[Turn], chooser: random.Random) -> list[Turn]:
    by_peer: dict[str, list[Turn]] = {}
    for turn in turns:
        by_peer.setdefault(turn.peer, []).append(turn)
    return [chooser.choice(own) for own in by_peer.values()]


def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
    """Joins the samples of measurements of the same section, case, peer and task."""
    merged: dict[tuple, Measurement] = {}
    for each in measurements:
        key = (each.section, each.case, each.peer, each.task)
        if key in merged:
            parts = (merged[key], each)
            merged[key] = dataclasses.replace(
                each,
                seconds=[value for part in parts for value in part.seconds],
                others=[value for part in parts for value in part.others],
                waits=[value for part in parts for value in part.waits],
            )
        else:
            merged[key] = each
    return list(merged.values())


def largest_error(actual: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> float:
    """Returns the largest difference between arrays, relative to the largest magnitude of the expected array.

    The result is infinite if any difference is not finite.
    """
    if actual.keys() != expected.keys():
        raise ValueError(f"expected the results {', '.join(expected)}, got {', '.join(actual)}")
    errors = []
    for name in expected:
        if actual[name].shape != expected[name].shape:
            raise ValueError(f"{name} must have shape {expected[name].shape}, but has shape {actual[name].shape}")
        # An expected array may be all zeros, such as the recurrent weights' gradient after a single step.
        magnitude = np.max(np.abs(expected[name])) or 1.0
        errors.append(float(np.max(np.abs(actual[name] - expected[name])) / magnitude))
    return max(errors) if np.isfinite(errors).all() else math.inf
