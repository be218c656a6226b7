"""Load during a measurement: concurrent calls in the same process, and other processes."""

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

SETTLING_SECONDS = 0.2  # lets the background calls start


@dataclasses.dataclass(frozen=True)
class Load:
    """The load while a case is measured.

    Attributes:
      seconds: the time for which each sample times calls one by one; 0: a sample is the mean of many calls.
      clients: the number of Python threads that call the case concurrently.
      pause: the seconds that a client waits between its calls.
      background: (case, task) pairs that other Python threads, one for each, repeat without a pause.
      busy_cpus: the number of CPUs that another process keeps busy.
      threads_per_cpu: the number of threads of each library divided by the number of CPUs.
    """

    seconds: float = 0.0
    clients: int = 1
    pause: float = 0.0
    background: Sequence[tuple[Case, str]] = ()
    busy_cpus: int = 0
    threads_per_cpu: int = 1


QUIET = Load()


@dataclasses.dataclass(frozen=True)
class Requests:
    """Calls that were timed one by one.

    Attributes:
      seconds: the total time divided by the number of calls.
      waits: the seconds that each call took.
    """

    seconds: float
    waits: Sequence[float]


def time_requests(call: Call, background: Sequence[Call], load: Load) -> Requests:
    """Times calls while other threads repeat the `background` calls."""
    with _repeating(background), ThreadPoolExecutor(load.clients) as clients:
        time.sleep(SETTLING_SECONDS if background else 0)
        start = time.perf_counter()
        of_clients = list(clients.map(lambda _: _waits(call, start + load.seconds, load.pause), range(load.clients)))
        seconds = time.perf_counter() - start
    waits = [wait for of_client in of_clients for wait in of_client]
    return Requests(seconds / len(waits), waits)


def _waits(call: Call, end: float, pause: float) -> list[float]:
    """Returns the seconds that each call of one client took; the last call starts before `end`."""
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
    """Repeats each call on its own thread."""
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
def busy_processes(count: int) -> Iterator[Sequence[subprocess.Popen]]:
    """Keeps the last `count` of this process's CPUs busy with one process each; yields these processes."""
    cpus = sorted(os.sched_getaffinity(0))[-count:] if count else []
    with contextlib.ExitStack() as stack:
        processes = []
        for cpu in cpus:
            program = f"import os; os.sched_setaffinity(0, [{cpu}])\nwhile True: pass"
            processes.append(stack.enter_context(subprocess.Popen([sys.executable, "-c", program])))
            stack.callback(processes[-1].kill)
        yield processes
