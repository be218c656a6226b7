"""What else happens while something is measured: other calls in its process, and other processes."""

import contextlib
import dataclasses
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from cases import Case

Call = Callable[[], Any]

SETTLING_SECONDS = 0.2  # until what begins at the same time has found its pace


@dataclasses.dataclass(frozen=True)
class Load:
    """What else happens while a case is measured.

    Attributes:
      seconds: for how long each sample's calls are timed one by one; 0: a sample is the mean of many calls.
      clients: how many Python threads call the case at the same time.
      pause: the seconds that a client waits between its calls.
      beside: (case, task) that another Python thread each repeats without a pause.
      neighbours: the processes of others that are always busy, each on one CPU.
      threads_per_cpu: how many threads each library may use, the number of CPUs being 1.
    """

    seconds: float = 0.0
    clients: int = 1
    pause: float = 0.0
    beside: Sequence[tuple[Case, str]] = ()
    neighbours: int = 0
    threads_per_cpu: int = 1


QUIET = Load()


@dataclasses.dataclass(frozen=True)
class Requests:
    """Calls that were timed one by one.

    Attributes:
      seconds: the time in which all were answered, divided by their number.
      waits: the seconds that each took.
    """

    seconds: float
    waits: Sequence[float]


def time_requests(call: Call, beside: Sequence[Call], load: Load) -> Requests:
    """Returns how long calls take while other threads repeat those of `beside`."""
    with _repeating(beside), ThreadPoolExecutor(load.clients) as clients:
        time.sleep(SETTLING_SECONDS if beside else 0)
        start = time.perf_counter()
        of_clients = list(clients.map(lambda _: _waits(call, start + load.seconds, load.pause), range(load.clients)))
        seconds = time.perf_counter() - start
    waits = [wait for of_client in of_clients for wait in of_client]
    return Requests(seconds / len(waits), waits)


def _waits(call: Call, end: float, pause: float) -> list[float]:
    """Returns how long each call took of one client, whose last one begins before `end`."""
    waits: list[float] = []
    now = time.perf_counter()
    while not waits or now < end:
        call()
        waits.append(time.perf_counter() - now)
        time.sleep(pause)
        now = time.perf_counter()
    return waits


@contextlib.contextmanager
def _repeating(calls: Sequence[Call]) -> Iterator[None]:
    """Repeats each call on a thread of its own."""
    is_over = threading.Event()

    def repeat(call: Call) -> None:
        while not is_over.is_set():
            call()

    with ThreadPoolExecutor(max(1, len(calls))) as threads:
        repeated = [threads.submit(repeat, call) for call in calls]
        try:
            yield
        finally:
            is_over.set()
    for each in repeated:
        each.result()


@contextlib.contextmanager
def neighbours(count: int) -> Iterator[Sequence[subprocess.Popen]]:
    """Keeps the last CPUs that this process may use busy, with one process for each, which it yields."""
    cpus = sorted(os.sched_getaffinity(0))[-count:] if count else []
    with contextlib.ExitStack() as stack:
        processes = []
        for cpu in cpus:
            program = f"import os; os.sched_setaffinity(0, [{cpu}])\nwhile True: pass"
            processes.append(stack.enter_context(subprocess.Popen([sys.executable, "-c", program])))
            stack.callback(processes[-1].kill)
        yield processes
