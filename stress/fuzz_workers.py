"""A pool of processes for numbered tasks that may crash or hang.

Each process has a queue of numbers and handles them in order. After a crash or a timeout, the first unanswered number
is the cause; a replacement process gets the numbers after it.
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

QUEUE_LENGTH = 36  # maximum length of the queue of a process
START_UP_SECONDS = 300.0  # timeout for the preparation of a process
LOG_TAIL = 3000  # characters


@dataclasses.dataclass(frozen=True)
class Answer:
    """The answer to a number.

    Attributes:
      number: the number.
      result: the return value, or None after a failure.
      failure: "", "abort" if the process ended, or "hang" if it exceeded the timeout.
      output: how the process ended and its last output, after a failure.
    """

    number: int
    result: Any = None
    failure: str = ""
    output: str = ""


def _serve(connection: Connection, log: pathlib.Path, prepare: Callable[[], Callable[[int], Any]]) -> None:
    """Answers numbers until the connection is closed."""
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
    """A process and its queue of unanswered numbers."""

    def __init__(self, context, prepare, log: pathlib.Path):
        self.numbers: collections.deque[int] = collections.deque()
        self.log = log
        self.is_ready = False
        self.last_reply = time.monotonic()
        self.connection, other_end = context.Pipe()
        self.process = context.Process(target=_serve, args=(other_end, log, prepare), daemon=True)
        self.process.start()
        other_end.close()

    def give(self, numbers: Iterator[int]) -> None:
        """Refills the queue with consecutive numbers when it is half empty."""
        if len(self.numbers) > QUEUE_LENGTH // 2:
            return
        while len(self.numbers) < QUEUE_LENGTH and (number := next(numbers, None)) is not None:
            if not self.numbers:
                self.last_reply = time.monotonic()
            self.numbers.append(number)
            self.connection.send(number)

    def end(self) -> None:
        """Ends the process."""
        self.connection.close()
        if self.process.is_alive():
            self.process.kill()
        self.process.join()

    def failure(self) -> str:
        """Returns how the process ended: a signal or an exit code."""
        code = self.process.exitcode
        return signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"

    def log_tail(self) -> str:
        """Returns the last output of the process."""
        return self.log.read_text(errors="replace")[-LOG_TAIL:]


class Workers:
    """A pool of processes for numbered tasks. A context manager that ends the processes on exit.

    Args:
      prepare: called in each process; returns the function that handles a number. Must support pickling.
      count: the number of processes.
      folder: folder for the logs, one per process.
      timeout: seconds allowed per number.
      preload: modules that the fork server imports before it starts processes.
    """

    def __init__(
        self,
        prepare: Callable[[], Callable[[int], Any]],
        count: int,
        folder: pathlib.Path,
        timeout: float = 60.0,
        preload: Iterable[str] = (),
    ):
        self._prepare = prepare
        self._timeout = timeout
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
        """Yields the answers to numbers in the order of completion.

        Raises:
          RuntimeError: if the preparation of a process fails.
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
                answer = self._receive(worker) if worker.connection in ready else self._check_timeout(worker)
                if answer is None:
                    continue
                if answer.failure:
                    remaining = self._replace(worker, remaining)
                yield answer

    def _receive(self, worker: _Worker) -> Answer | None:
        """Receives a message of a process."""
        try:
            result = worker.connection.recv()
        except (EOFError, ConnectionError):
            return self._failed(worker, "abort")
        worker.last_reply = time.monotonic()
        if worker.is_ready:
            return Answer(worker.numbers.popleft(), result)
        worker.is_ready = True
        return None

    def _check_timeout(self, worker: _Worker) -> Answer | None:
        """Ends a process that exceeds its timeout."""
        timeout = self._timeout if worker.is_ready else START_UP_SECONDS
        if time.monotonic() - worker.last_reply < timeout:
            return None
        return self._failed(worker, "hang")

    def _failed(self, worker: _Worker, failure: str) -> Answer:
        worker.end()
        output = f"{worker.failure()}\n{worker.log_tail()}"
        if not worker.is_ready:
            raise RuntimeError(f"preparation of a process failed: {output}")
        return Answer(worker.numbers.popleft(), failure=failure, output=output)

    def _replace(self, worker: _Worker, remaining: Iterator[int]) -> Iterator[int]:
        """Replaces a worker and returns its unanswered numbers followed by the remaining ones."""
        index = self._workers.index(worker)
        self._workers[index] = self._start(worker.log)
        return _joined(list(worker.numbers), remaining)


def _joined(first: list[int], rest: Iterator[int]) -> Iterator[int]:
    yield from first
    yield from rest
