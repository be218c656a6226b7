"""Processes that do numbered pieces of work any of which may end or block them.

Each process is given numbers ahead of its answers and takes them in order, so that the one to blame for an end, or for
a silence, is the first that it has not answered. What came after is given to the process that takes its place.
"""

import collections
import dataclasses
import multiprocessing
import os
import pathlib
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

AHEAD = 36  # numbers that a process may have, so that it need not wait for the next
START_UP_SECONDS = 300.0  # which a process may take to prepare itself
LAST_WORDS = 3000  # characters of what a process printed last


@dataclasses.dataclass(frozen=True)
class Answer:
    """What came of a number.

    Attributes:
      number: the number.
      result: what the work returned; None if it did not.
      failure: "", "abort" where the process ended and "hang" where it was silent for too long.
      words: what the process had printed last, where it failed.
    """

    number: int
    result: Any = None
    failure: str = ""
    words: str = ""


def _serve(connection: Connection, log: pathlib.Path, prepare: Callable[[], Callable[[int], Any]]) -> None:
    """Answers numbers until the other end is closed."""
    with log.open("wb") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    work = prepare()
    connection.send(None)
    while True:
        try:
            number = connection.recv()
        except EOFError:
            return
        connection.send(work(number))


class _Worker:
    """A process and the numbers that it has not answered."""

    def __init__(self, context, prepare, log: pathlib.Path):
        self.numbers: collections.deque[int] = collections.deque()
        self.log = log
        self.is_ready = False
        self.heard = time.monotonic()
        self.connection, other_end = context.Pipe()
        self.process = context.Process(target=_serve, args=(other_end, log, prepare), daemon=True)
        self.process.start()
        other_end.close()

    def give(self, numbers: Iterator[int]) -> None:
        """Gives the process more numbers if it has few, neighbours to one process."""
        if len(self.numbers) > AHEAD // 2:
            return
        while len(self.numbers) < AHEAD and (number := next(numbers, None)) is not None:
            if not self.numbers:
                self.heard = time.monotonic()
            self.numbers.append(number)
            self.connection.send(number)

    def end(self) -> None:
        """Ends the process."""
        self.connection.close()
        if self.process.is_alive():
            self.process.kill()
        self.process.join()

    def failure(self) -> str:
        """Says how the process ended."""
        code = self.process.exitcode
        return signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"

    def last_words(self) -> str:
        """Returns what the process printed last."""
        return self.log.read_text(errors="replace")[-LAST_WORDS:]


class Workers:
    """Processes that do numbered work. A context manager, which ends them.

    Args:
      prepare: returns in each process what does the work of a number; can be pickled.
      count: the number of processes.
      folder: where each process prints to a file of its own.
      patience: for how many seconds a number may be worked at.
      preload: modules that the processes are to have imported from their start.
    """

    def __init__(
        self,
        prepare: Callable[[], Callable[[int], Any]],
        count: int,
        folder: pathlib.Path,
        patience: float = 60.0,
        preload: Iterable[str] = (),
    ):
        self._prepare = prepare
        self._patience = patience
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(list(preload))
        folder.mkdir(parents=True, exist_ok=True)
        self._logs = [folder / f"worker-{index}.log" for index in range(count)]
        self._workers = [self._start(log) for log in self._logs]

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *exception) -> None:
        for worker in self._workers:
            worker.end()

    def _start(self, log: pathlib.Path) -> _Worker:
        return _Worker(self._context, self._prepare, log)

    def answers(self, numbers: Iterable[int]) -> Iterator[Answer]:
        """Does the work of numbers and yields an answer for each, in the order in which they are ready.

        Raises:
          RuntimeError: if a process cannot even prepare itself.
        """
        remaining = iter(numbers)
        while True:
            for worker in self._workers:
                worker.give(remaining)
            busy = [worker for worker in self._workers if worker.numbers]
            if not busy:
                return
            ready = wait([worker.connection for worker in busy], timeout=1.0)
            for worker in busy:
                answer = self._hear(worker) if worker.connection in ready else self._watch(worker)
                if answer is None:
                    continue
                if answer.failure:
                    remaining = self._replace(worker, remaining)
                yield answer

    def _hear(self, worker: _Worker) -> Answer | None:
        """Takes what a process has to say."""
        try:
            result = worker.connection.recv()
        except (EOFError, ConnectionError):
            return self._failed(worker, "abort")
        worker.heard = time.monotonic()
        if worker.is_ready:
            return Answer(worker.numbers.popleft(), result)
        worker.is_ready = True
        return None

    def _watch(self, worker: _Worker) -> Answer | None:
        """Ends a process that has been silent for too long."""
        patience = self._patience if worker.is_ready else START_UP_SECONDS
        if time.monotonic() - worker.heard < patience:
            return None
        return self._failed(worker, "hang")

    def _failed(self, worker: _Worker, failure: str) -> Answer:
        worker.end()
        words = f"{worker.failure()}\n{worker.last_words()}"
        if not worker.is_ready:
            raise RuntimeError(f"a process could not be prepared: {words}")
        return Answer(worker.numbers.popleft(), failure=failure, words=words)

    def _replace(self, worker: _Worker, remaining: Iterator[int]) -> Iterator[int]:
        """Puts another process in a worker's place and returns its numbers before those that remain."""
        index = self._workers.index(worker)
        self._workers[index] = self._start(worker.log)
        return _joined(list(worker.numbers), remaining)


def _joined(first: list[int], rest: Iterator[int]) -> Iterator[int]:
    yield from first
    yield from rest
