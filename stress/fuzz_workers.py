"""Numbered pieces of work, any of which may end or block its process.

Each process is the only one of its pool and takes its numbers in order, so the first that it has not answered is to
blame for its end. Another process takes its place, and what came after.
"""

import dataclasses
import itertools
import multiprocessing
import os
import pathlib
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

AHEAD = 36  # numbers that a process is given at once, neighbours of each other
START_UP_SECONDS = 300.0  # which a process may take to prepare itself
LAST_WORDS = 3000  # characters of what a process printed last

_work: Callable[[int], Any]  # in a process that is prepared


@dataclasses.dataclass(frozen=True)
class Answer:
    """What came of a number.

    Attributes:
      number: the number.
      result: what the work returned; None if it did not.
      failure: "", "abort" where the process ended and "hang" where it took too long.
      words: what the process had printed last, where it failed.
    """

    number: int
    result: Any = None
    failure: str = ""
    words: str = ""


def _prepare(log: pathlib.Path, prepare: Callable[[], Callable[[int], Any]]) -> None:
    """Prepares a process, which prints to a file."""
    global _work
    with log.open("wb") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    signal.setitimer(signal.ITIMER_REAL, START_UP_SECONDS)
    _work = prepare()


def _do(number: int, patience: float) -> Any:
    """Does the work of a number in a prepared process, which ends if that fails or takes too long."""
    signal.setitimer(signal.ITIMER_REAL, patience)
    try:
        return _work(number)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class _Process:
    """A process, the only one of its pool, that has been prepared."""

    def __init__(self, log: pathlib.Path, prepare: Callable[[], Callable[[int], Any]]):
        self.log = log
        context = multiprocessing.get_context("forkserver")
        self.pool = ProcessPoolExecutor(1, context, _prepare, (log, prepare))
        try:
            pid = self.pool.submit(os.getpid).result()
        except BrokenProcessPool:
            raise RuntimeError(f"a process could not be prepared: {self._last_words()}") from None
        (self._process,) = (each for each in multiprocessing.active_children() if each.pid == pid)

    def failure(self, number: int) -> Answer:
        """Returns the answer of the number at which the process has ended."""
        self.pool.shutdown()
        code = self._process.exitcode or 0
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        failure = "hang" if code == -signal.SIGALRM else "abort"
        return Answer(number, failure=failure, words=f"{how}\n{self._last_words()}")

    def _last_words(self) -> str:
        return self.log.read_text(errors="replace")[-LAST_WORDS:]


def answers(
    prepare: Callable[[], Callable[[int], Any]],
    numbers: Iterable[int],
    count: int,
    folder: pathlib.Path,
    patience: float = 60.0,
    preload: Iterable[str] = (),
) -> Iterator[Answer]:
    """Does the work of numbers and yields an answer for each, in the order in which they are ready.

    Args:
      prepare: returns in each process what does the work of a number; can be pickled.
      numbers: the numbers.
      count: the number of processes.
      folder: where each process prints to a file of its own.
      patience: for how many seconds a number may be worked at.
      preload: modules that the processes are to have imported from their start.

    Raises:
      RuntimeError: if a process cannot even prepare itself.
    """
    multiprocessing.get_context("forkserver").set_forkserver_preload(list(preload))
    processes = [_Process(folder / f"worker-{index}.log", prepare) for index in range(count)]
    remaining = iter(numbers)
    asked: dict[Future, tuple[int, int]] = {}  # the process's index and the number
    try:
        while True:
            for index in set(range(count)) - {index for index, _ in asked.values()}:
                for number in itertools.islice(remaining, AHEAD):
                    asked[processes[index].pool.submit(_do, number, patience)] = index, number
            if not asked:
                return
            for future in sorted(wait(asked, return_when=FIRST_COMPLETED).done, key=lambda each: asked[each]):
                if future not in asked:
                    continue  # of a process that has ended at an earlier number
                index, number = asked.pop(future)
                if future.exception() is None:
                    yield Answer(number, future.result())
                    continue
                yield processes[index].failure(number)
                processes[index] = _Process(processes[index].log, prepare)
                later = [each for each, (of, _) in asked.items() if of == index]
                remaining = itertools.chain([asked.pop(each)[1] for each in later], remaining)
    finally:
        for process in processes:
            process.pool.shutdown(cancel_futures=True)
