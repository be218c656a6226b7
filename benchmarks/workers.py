"""Processes that run one library each, and how they are spoken with.

Only one of them works at a time. Libraries' threads may spin for a while after they have run out of work, so the next
one's turn begins only when a process has come to rest.
"""

import dataclasses
import importlib
import math
import multiprocessing
import os
import pathlib
import sys
import time
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

import memory
import numpy as np
from cases import Case, parse_case
from loads import Load, Requests, time_requests
from peers import Peer
from programs import Library, Program

CALIBRATION_CALLS = 3
LONG_SECONDS = 0.5  # a call that takes longer shows nothing of what was before it
WARM_UP_SECONDS = 0.01
SAMPLE_SECONDS = 0.2  # short calls are timed many at once, as in the loop of a training or a server

REST_SECONDS = 0.01  # a process rests when it has used none of the CPU's time for so long,
REST_SHARE = 0.05  # or no more than this share of it
LONGEST_UNREST = 1.0

_STAT = pathlib.Path("/proc/stat")
# Where /proc/stat has the time that a CPU was idle, and that it waited for a disk.
_IDLE_FIELDS = (3, 4)


@dataclasses.dataclass(frozen=True)
class Sample:
    """What a turn gave.

    Attributes:
      seconds: the time of one call.
      others: the share of the time of all CPUs that other processes of the machine took meanwhile. Linux counts it in
        hundredths of a second, so that of a short turn it is a rough figure.
      waits: the seconds that each call took, where they were timed one by one.
    """

    seconds: float
    others: float
    waits: Sequence[float] = ()


class Session:
    """What a process does for the one that measures.

    Args:
      library: the library that it runs.
    """

    def __init__(self, library: Library):
        self._library = library
        self._programs: dict[str, Program] = {}
        self._calls: dict[tuple[str, str], int] = {}
        self._is_long: dict[tuple[str, str], bool] = {}

    def versions(self) -> dict[str, str]:
        """Returns what is to be known of what is measured, by what it is."""
        return self._library.versions()

    def prepare(self, name: str) -> Sequence[str]:
        """Makes a case ready to run and returns the tasks that it can be timed in; none if it cannot be done."""
        program = self._library.program(parse_case(name))
        if program is None:
            return ()
        self._programs[name] = program
        return tuple(program.calls)

    def results(self, name: str, task: str) -> dict[str, np.ndarray]:
        """Returns the results of a task of a case that has been prepared, as float64."""
        return {key: array.astype(np.float64) for key, array in self._programs[name].results(task).items()}

    def calibrate(self, name: str, task: str) -> None:
        """Runs a task for the first times, and finds out how many calls make a sample that is long enough."""
        fastest = min(self._seconds_per_call(name, task, 1) for _ in range(CALIBRATION_CALLS))
        self._calls[name, task] = max(1, math.ceil(SAMPLE_SECONDS / fastest))
        self._is_long[name, task] = fastest > LONG_SECONDS

    def sample(self, name: str, task: str) -> float:
        """Warms up, because the turns of others have cooled the caches, and returns how many seconds a call took."""
        if not self._is_long[name, task]:
            self._warm_up(name, task)
        return self._seconds_per_call(name, task, self._calls[name, task])

    def serve(self, name: str, task: str, load: Load) -> Requests:
        """Returns how long calls take under a load, whose own calls have been prepared too."""
        beside = [self._programs[other.name].calls[other_task] for other, other_task in load.beside]
        return time_requests(self._programs[name].calls[task], beside, load)

    def _warm_up(self, name: str, task: str) -> None:
        end = time.perf_counter() + WARM_UP_SECONDS
        self._seconds_per_call(name, task, 1)
        while time.perf_counter() < end:
            self._seconds_per_call(name, task, 1)

    def _seconds_per_call(self, name: str, task: str, calls: int) -> float:
        function = self._programs[name].calls[task]
        start = time.perf_counter()
        for _ in range(calls):
            function()
        self._library.synchronize()
        return (time.perf_counter() - start) / calls

    def forget(self, name: str) -> None:
        """Frees what a case holds, if it has been prepared."""
        self._programs.pop(name, None)

    def step_memory(self, name: str) -> memory.StepMemory:
        """Returns what a training step takes; see `memory.step_memory`."""
        return memory.step_memory(self._library, parse_case(name))


def _serve(connection: Connection, library: str, threads: int, log: pathlib.Path) -> None:
    """Answers requests, which are names of `Session`'s methods with arguments, until the other end is closed."""
    with log.open("ab") as file:
        os.dup2(file.fileno(), sys.stderr.fileno())
    module, name = library.split(".")
    session = Session(getattr(importlib.import_module(module), name)(threads))
    while True:
        try:
            method, arguments = connection.recv()
        except EOFError:
            return
        try:
            connection.send((getattr(session, method)(*arguments), None))
        except Exception:
            connection.send((None, traceback.format_exc()))


def _busy_seconds() -> float:
    """Returns for how long the CPUs, together, have been doing something or were taken away by the host."""
    first, *fields = _STAT.read_text().partition("\n")[0].split()
    assert first == "cpu"
    busy = [int(field) for index, field in enumerate(fields[:8]) if index not in _IDLE_FIELDS]
    return sum(busy) / os.sysconf("SC_CLK_TCK")


class WorkerError(RuntimeError):
    """What went wrong in a process.

    Attributes:
      peer: the name of the peer whose process it is.

    Args:
      peer: likewise.
      message: what went wrong.
    """

    def __init__(self, peer: str, message: str):
        super().__init__(message)
        self.peer = peer


class Worker:
    """A process that runs one library. A context manager, which ends the process.

    Args:
      peer: whose library it is to run.
      threads: the number of threads that the library may use.
      log: the file to which the library's own messages are added.
    """

    def __init__(self, peer: Peer, threads: int, log: pathlib.Path):
        self.peer = peer
        self._log = log
        spawn = multiprocessing.get_context("spawn")
        self._connection, other_end = spawn.Pipe()
        self._process = spawn.Process(target=_serve, args=(other_end, peer.library, threads, log), daemon=True)
        self._process.start()
        other_end.close()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *exception) -> None:
        self._connection.close()
        self._process.join()

    def _request(self, method: str, *arguments) -> Any:
        """Lets the session do something, waits until the process rests again, and returns the result.

        Raises:
          WorkerError: if it failed or the process ended.
        """
        try:
            self._connection.send((method, arguments))
            result, error = self._connection.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            code = self._process.exitcode
            message = f"the process of {self.peer.label} ended with {code}; see {self._log}"
            raise WorkerError(self.peer.name, message) from None
        if error:
            raise WorkerError(self.peer.name, f"{self.peer.label} failed:\n{error}")
        self._wait_for_rest()
        return result

    def _wait_for_rest(self) -> None:
        end = time.monotonic() + LONGEST_UNREST
        used = self._cpu_seconds()
        while time.monotonic() < end:
            time.sleep(REST_SECONDS)
            used_before, used = used, self._cpu_seconds()
            if used - used_before <= REST_SHARE * REST_SECONDS:
                return

    def _cpu_seconds(self) -> float:
        """Returns how much of the CPUs' time the process has used."""
        assert self._process.pid is not None
        # The id of another process's clock, as clock_getcpuclockid makes it.
        return time.clock_gettime((~self._process.pid << 3) | 2)

    def versions(self) -> dict[str, str]:
        """See `Session`."""
        return self._request("versions")

    def prepare(self, case: Case) -> Sequence[str]:
        """See `Session`."""
        return self._request("prepare", case.name)

    def results(self, case: Case, task: str) -> dict[str, np.ndarray]:
        """See `Session`."""
        return self._request("results", case.name, task)

    def calibrate(self, case: Case, task: str) -> None:
        """See `Session`."""
        self._request("calibrate", case.name, task)

    def sample(self, case: Case, task: str, load: Load) -> Sample:
        """Returns how many seconds a call took, see `Session`, and how much the rest of the machine did meanwhile.

        What the load's neighbours did is not counted.
        """
        start, busy, own = time.monotonic(), _busy_seconds(), self._cpu_seconds()
        if load.seconds:
            requests = self._request("serve", case.name, task, load)
        else:
            requests = Requests(self._request("sample", case.name, task), ())
        elapsed, cpus = time.monotonic() - start, os.cpu_count() or 1
        by_others = (_busy_seconds() - busy) - (self._cpu_seconds() - own) - load.neighbours * elapsed
        others = min(1.0, max(0.0, by_others / (elapsed * cpus)))
        return Sample(requests.seconds, others, requests.waits)

    def forget(self, case: Case) -> None:
        """See `Session`."""
        self._request("forget", case.name)

    def step_memory(self, case: Case) -> memory.StepMemory:
        """See `Session`."""
        return self._request("step_memory", case.name)
