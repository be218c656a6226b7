"""How it is measured: peers take turns, so that whatever else the machine does hits all alike."""

import contextlib
import dataclasses
import math
import pathlib
import random
from collections.abc import Collection, Container, Iterable, Mapping, Sequence

import numpy as np
from cases import TASKS, Case
from loads import QUIET, Load, neighbours
from peers import Peer
from workers import Sample, Worker

# A sample is disturbed when other processes took more than this share of the CPUs' time.
DISTURBANCE = 0.2
TRIES = 3  # how often it is taken at most; the least disturbed one counts

# The largest error that a peer may have, be it one that adds numbers up in 16 bits. What computes something else has no
# place in a comparison. In float32, PyTorch adds up the gradient of a bias row by row, 15000 in the largest model.
ALLOWED_ERRORS = {"float64": 1e-11, "float32": 3e-5, "float16": 2e-2, "bfloat16": 1e-1}


@dataclasses.dataclass(frozen=True)
class Measurement:
    """How long a peer took for a task of a case.

    Attributes:
      section: the part of the benchmark that it belongs to.
      case: what was computed.
      peer: the peer's name in `PEERS`.
      task: the name in `TASKS`.
      seconds: the time of one call in each round.
      error: the largest difference of a result from the float64 one, relative to the largest magnitude of its tensor.
      others: the share of the CPUs' time that other processes took in each round.
      waits: the seconds that each call of all rounds took, where they were timed one by one.
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
        """Returns the seconds that so many of a hundred calls did not exceed."""
        return float(np.percentile(self.waits, percent))

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """The lower quartile, the median and the upper quartile of the seconds."""
        lower, median, upper = np.percentile(self.seconds, [25, 50, 75])
        return float(lower), float(median), float(upper)

    @property
    def gflops(self) -> tuple[float, float, float]:
        """The lower quartile, the median and the upper quartile of 1e9 operations a second."""
        lower, median, upper = (self._gflops(seconds) for seconds in reversed(self.quartiles))
        return lower, median, upper

    @property
    def best_gflops(self) -> float:
        """1e9 operations a second of the fastest round."""
        return self._gflops(min(self.seconds))

    def _gflops(self, seconds: float) -> float:
        return self.case.flops(self.task) / seconds / 1e9


@dataclasses.dataclass(frozen=True)
class Turn:
    """A task that a peer is ready to do when it is its turn.

    Attributes:
      case: what is computed.
      peer: the peer's name.
      task: the name in `TASKS`.
      error: see `Measurement`.
    """

    case: Case
    peer: str
    task: str
    error: float


class WrongResultError(ValueError):
    """What a peer computes is not what it should.

    Attributes:
      peer: the peer's name.

    Args:
      peer: likewise.
      message: what is wrong.
    """

    def __init__(self, peer: str, message: str):
        super().__init__(message)
        self.peer = peer


class Bench:
    """The processes of peers and of the reference. A context manager, which ends them.

    Attributes:
      versions: what each peer says of itself, by its name.

    Args:
      peers: whom to measure.
      reference: whose results are right.
      threads: the number of threads that each may use.
      log: the file for the messages of all.
      allowed_errors: the largest error that a peer may have, by dtype.
    """

    def __init__(
        self,
        peers: Sequence[Peer],
        reference: Peer,
        threads: int,
        log: pathlib.Path,
        allowed_errors: Mapping[str, float] = ALLOWED_ERRORS,
    ):
        self._allowed_errors = allowed_errors
        self._threads, self._log = threads, log
        with contextlib.ExitStack() as stack:
            self._reference = stack.enter_context(Worker(reference, threads, log))
            self._workers = {peer.name: stack.enter_context(Worker(peer, threads, log)) for peer in peers}
            # The answer says that the process is ready and leaves the CPU to the others.
            self._reference.versions()
            self.versions = {name: worker.versions() for name, worker in self._workers.items()}
            self._stack = stack.pop_all()

    def __enter__(self) -> "Bench":
        return self

    def __exit__(self, *exception) -> None:
        self._stack.close()

    def restart(self, peer: str) -> None:
        """Ends the process of a peer that has failed, and starts another."""
        old = self._workers[peer]
        old.__exit__(None, None, None)
        self._workers[peer] = self._stack.enter_context(Worker(old.peer, self._threads, self._log))

    def prepare(self, case: Case, peers: Collection[str], tasks: Container[str] = TASKS) -> list[Turn]:
        """Returns those of some tasks of a case that each of the peers can do, their results checked.

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
            workers[name].calibrate(case, task)
            turns.append(Turn(case, name, task, error))
        return turns

    def _error(self, peer: str, case: Case, task: str, expected: Mapping[str, np.ndarray]) -> float:
        """Returns the error of a peer's results, see `Measurement`, if they are not wrong."""
        what = f"{peer} computes a wrong {TASKS[task]} of {case.name}"
        try:
            error = largest_error(self._workers[peer].results(case, task), expected)
        except ValueError as different:
            raise WrongResultError(peer, f"{what}: {different}") from different
        if not error <= self._allowed_errors[case.dtype]:
            raise WrongResultError(peer, f"{what}: its error is {error:.1e}")
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
        """Checks the results of peers and measures them in all that they can do of a case.

        In every round each task has one turn, in an order that changes from round to round, so that none always comes
        after the same other one.

        Args:
          section: what the measurements are made for.
          case: what to compute.
          peers: the names of those that take part.
          rounds: how many samples to take of each task.
          products: products, prepared; in each round each peer takes one turn at one of its own.
          tasks: what to measure, as far as the case has it.
          load: what else happens meanwhile.

        Returns:
          The measurements of the case and of those products that had a turn.

        Raises:
          WrongResultError: if a peer's results are wrong.
          WorkerError: if a peer fails or crashes.
        """
        turns = self.prepare(case, self._loaded(peers, load), tasks)
        samples: dict[Turn, list[Sample]] = {turn: [] for turn in [*turns, *products]}
        shuffler = random.Random(case.name)
        with neighbours(load.neighbours):
            for _ in range(rounds):
                order = [*turns, *_one_of_each_peer(products, shuffler)]
                shuffler.shuffle(order)
                for turn in order:
                    samples[turn].append(self._sample(turn, load))
        for turn in set(turns) - set(products):
            for each in {case, *(other for other, _ in load.beside)}:
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
        """Makes the calls of a load ready, and returns the peers that have all of them."""
        able = [name for name in self._workers if name in peers]
        for other, task in load.beside:
            able = [name for name in able if task in self._workers[name].prepare(other)]
        return able

    def _sample(self, turn: Turn, load: Load) -> Sample:
        """Returns the first sample that is not disturbed, or the least disturbed of several."""
        taken = []
        for _ in range(TRIES):
            taken.append(self._workers[turn.peer].sample(turn.case, turn.task, load))
            if taken[-1].others <= DISTURBANCE:
                break
        return min(taken, key=lambda sample: sample.others)


def _one_of_each_peer(turns: Sequence[Turn], chooser: random.Random) -> list[Turn]:
    by_peer: dict[str, list[Turn]] = {}
    for turn in turns:
        by_peer.setdefault(turn.peer, []).append(turn)
    return [chooser.choice(own) for own in by_peer.values()]


def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
    """Returns measurements in which the samples of those that differ in nothing else are together."""
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
    """Returns the largest difference of two sets of arrays, relative to the largest magnitude of the expected array.

    Infinite if a number is not finite.
    """
    if actual.keys() != expected.keys():
        raise ValueError(f"results must be {', '.join(expected)}, but are {', '.join(actual)}")
    errors = []
    for name in expected:
        if actual[name].shape != expected[name].shape:
            raise ValueError(f"{name} must have shape {expected[name].shape}, but has {actual[name].shape}")
        # Zeros, such as the gradient of the state's weights after a single step, have no magnitude to compare with.
        magnitude = np.max(np.abs(expected[name])) or 1.0
        errors.append(float(np.max(np.abs(actual[name] - expected[name])) / magnitude))
    return max(errors) if np.isfinite(errors).all() else math.inf
