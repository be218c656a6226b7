"""A pool of processes for numbered tasks that may crash or hang; a process that does is replaced."""

import dataclasses
import itertools
import multiprocessing
import os
import pathlib
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from typing import Any

BATCH = 36  # numbers that a process gets at once: consecutive ones share what they draw
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
    """A process. Its answers come one at a time.

    Raises:
      RuntimeError: if the preparation of the process fails.
    """

    def __init__(self, context, prepare, log: pathlib.Path):
        self._log = log
        self._connection, other_end = context.Pipe()
        self._process = context.Process(target=_serve, args=(other_end, log, prepare), daemon=True)
        self._process.start()
        other_end.close()
        started = self._receive(-1, START_UP_SECONDS)
        if started.failure:
            raise RuntimeError(f"preparation of a process failed: {started.output}")

    def ask(self, number: int, timeout: float) -> Answer:
        """Returns the answer to a number. The process has ended if it is a failure."""
        self._connection.send(number)
        return self._receive(number, timeout)

    def _receive(self, number: int, timeout: float) -> Answer:
        failure = "hang"
        try:
            if self._connection.poll(timeout):
                return Answer(number, self._connection.recv())
        except (EOFError, ConnectionError):
            failure = "abort"
        self.end()
        code = self._process.exitcode
        cause = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
        return Answer(number, None, failure, f"{cause}\n{self._log.read_text(errors='replace')[-LOG_TAIL:]}")

    def end(self) -> None:
        """Ends the process."""
        self._connection.close()
        if self._process.is_alive():
            self._process.kill()
        self._process.join()


def answers(
    numbers: Iterable[int],
    prepare: Callable[[], Callable[[int], Any]],
    count: int,
    folder: pathlib.Path,
    timeout: float = 60.0,
    preload: Iterable[str] = (),
) -> Iterator[Answer]:
    """Yields the answers to numbers in the order of completion.

    Args:
      numbers: the numbers, which are taken from the iterable when a process is free.
      prepare: called in each process; returns the function that handles a number. Must support pickling.
      count: the number of processes.
      folder: existing folder for the logs, one per process.
      timeout: seconds allowed per number.
      preload: modules that the fork server imports before it starts processes.

    Raises:
      RuntimeError: if the preparation of a process fails.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preload))
    remaining, lock = iter(numbers), threading.Lock()
    done: queue.SimpleQueue[Answer | Exception | None] = queue.SimpleQueue()
    is_over = threading.Event()

    def batches() -> Iterator[int]:
        while not is_over.is_set():
            with lock:
                batch = list(itertools.islice(remaining, BATCH))
            if not batch:
                return
            yield from itertools.takewhile(lambda _: not is_over.is_set(), batch)

    def handle(index: int) -> None:
        """Runs one process after the other, each until it fails."""
        worker = None
        try:
            for number in batches():
                worker = worker or _Worker(context, prepare, folder / f"worker-{index}.log")
                answer = worker.ask(number, timeout)
                done.put(answer)
                if answer.failure:
                    worker = None
        except Exception as error:  # raised in the caller's thread
            done.put(error)
        finally:
            if worker is not None:
                worker.end()
            done.put(None)

    threads = [threading.Thread(target=handle, args=(index,), daemon=True) for index in range(count)]
    for thread in threads:
        thread.start()
    try:
        for _ in threads:
            while (answer := done.get()) is not None:
                if isinstance(answer, Exception):
                    raise answer
                yield answer
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
