"""Worker processes that run one library each, and the requests to them.

Only one process works at a time. A library's threads may spin for a while after their work is done, so the next turn
starts only when the process is idle.
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
LONG_SAMPLES = 2.5  # calls that take longer than this many times a sample need no warm-up
WARM_UP_SECONDS = 0.01
SAMPLE_SECONDS = 0.2  # short calls are timed together, many in a row

# A process is idle if it used at most IDLE_SHARE of the CPU time for IDLE_SECONDS.
IDLE_SECONDS = 0.01
IDLE_SHARE = 0.05
IDLE_TIMEOUT = 1.0

_STAT = pathlib.Path("/proc/stat")
# Columns of /proc/stat: idle time, and time waiting for I/O.
_IDLE_FIELDS = (3, 4)


@dataclasses.dataclass(frozen=True)
class Sample:
    """The result of one turn.

    Attributes:
      seconds: the time of one call.
      others: the share of the time of all CPUs that other processes used during the turn. Its resolution is 10 ms.
      waits: the seconds of each call, if calls were timed one by one.
    """

    seconds: float
    others: float
    waits: Sequence[float] = ()


class Session:
    """Handles the requests to a worker process.

    Args:
      library: the library to run.
    """

    def __init__(self, library: Library):
        self._library = library
        self._programs: dict[str, Program] = {}
        self._calls: dict[tuple[str, str], int] = {}
        self._is_long: dict[tuple[str, str], bool] = {}

    def versions(self) -> dict[str, str]:
        """See `Library`."""
        return self._library.versions()

    def prepare(self, name: str) -> Sequence[str]:
        """Prepares a case and returns the tasks that the library supports; none if it does not support the case."""
        program = self._library.program(parse_case(name))
        if program is None:
            return ()
        self._programs[name] = program
        return tuple(program.calls)

    def results(self, name: str, task: str) -> dict[str, np.ndarray]:
        """Returns the results of a task of a prepared case as float64."""
        return {key: array.astype(np.float64) for key, array in self._programs[name].results(task).items()}

    def calibrate(self, name: str, task: str, seconds: float) -> None:
        """Runs a task a few times and determines the number of calls in a sample of so many seconds."""
        times = [self._seconds_per_call(name, task, 1)]  # the first call may compile
        while len(times) < CALIBRATION_CALLS and (len(times) == 1 or times[-1] < seconds):
            times.append(self._seconds_per_call(name, task, 1))
        fastest = min(times)
        self._calls[name, task] = max(1, math.ceil(seconds / fastest))
        self._is_long[name, task] = fastest > LONG_SAMPLES * seconds

    def sample(self, name: str, task: str) -> float:
        """Warms up the caches and returns the seconds per call."""
        if not self._is_long[name, task]:
            self._warm_up(name, task)
        return self._seconds_per_call(name, task, self._calls[name, task])

    def serve(self, name: str, task: str, load: Load) -> Requests:
        """Times calls under a load, whose background calls must be prepared."""
        background = [self._programs[other.name].calls[other_task] for other, other_task in load.background]
        return time_requests(self._programs[name].calls[task], background, load)

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
        """Frees the resources of a case, if it has been prepared."""
        self._programs.pop(name, None)

    def step_memory(self, name: str) -> memory.StepMemory:
        """See `memory.step_memory`."""
        return memory.step_memory(self._library, parse_case(name))


def _serve(connection: Connection, library: str, threads: int, log: pathlib.Path) -> None:
    """Handles requests, (`Session` method name, arguments), until the other end closes the connection."""
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
    """Returns the total busy seconds of all CPUs, including time stolen by the hypervisor."""
    first, *fields = _STAT.read_text().partition("\n")[0].split()
    assert first == "cpu"
    busy = [int(field) for index, field in enumerate(fields[:8]) if index not in _IDLE_FIELDS]
    return sum(busy) / os.sysconf("SC_CLK_TCK")


class WorkerError(RuntimeError):
    """A worker process failed.

    Attributes:
      peer: the peer's name.

    Args:
      peer: the peer's name.
      message: the error message.
    """

    def __init__(self, peer: str, message: str):
        super().__init__(message)
        self.peer = peer


class Worker:
    """A process that runs one library. A context manager that ends the process.

    Args:
      peer: the peer whose library to run.
      threads: the number of threads of the library, unless the peer has its own.
      log: the file to append the library's messages to.
    """

    def __init__(self, peer: Peer, threads: int, log: pathlib.Path):
        self.peer = peer
        self._log = log
        spawn = multiprocessing.get_context("spawn")
        self._connection, other_end = spawn.Pipe()
        self._process = spawn.Process(
            target=_serve, args=(other_end, peer.library, peer.threads or threads, log), daemon=True
        )
        self._process.start()
        other_end.close()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *exception) -> None:
        self._connection.close()
        self._process.join()

    def _request(self, method: str, *arguments) -> Any:
        """Sends a request, waits until the process is idle again, and returns the result.

        Raises:
          WorkerError: if the request failed or the process ended.
        """
        try:
            self._connection.send((method, arguments))
            result, error = self._connection.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            code = self._process.exitcode
            message = f"the {self.peer.label} process ended with {code}; see {self._log}"
            raise WorkerError(self.peer.name, message) from None
        if error:
            raise WorkerError(self.peer.name, f"{self.peer.label} failed:\n{error}")
        self._wait_until_idle()
        return result

    def _wait_until_idle(self) -> None:
        end = time.monotonic() + IDLE_TIMEOUT
        used = self._cpu_seconds()
        while time.monotonic() < end:
            time.sleep(IDLE_SECONDS)
            used_before, used = used, self._cpu_seconds()
            if used - used_before <= IDLE_SHARE * IDLE_SECONDS:
                return

    def _cpu_seconds(self) -> float:
        """Returns the CPU time of the process."""
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

    def calibrate(self, case: Case, task: str, seconds: float) -> None:
        """See `Session`."""
        self._request("calibrate", case.name, task, seconds)

    def sample(self, case: Case, task: str, load: Load) -> Sample:
        """Returns the seconds per call and the CPU time that other processes used.

        The latter excludes the busy processes of the load.
        """
        start, busy, own = time.monotonic(), _busy_seconds(), self._cpu_seconds()
        if load.seconds:
            requests = self._request("serve", case.name, task, load)
        else:
            requests = Requests(self._request("sample", case.name, task), ())
        elapsed, cpus = time.monotonic() - start, os.cpu_count() or 1
        by_others = (_busy_seconds() - busy) - (self._cpu_seconds() - own) - load.busy_cpus * elapsed
        others = min(1.0, max(0.0, by_others / (elapsed * cpus)))
        return Sample(requests.seconds, others, requests.waits)

    def forget(self, case: Case) -> None:
        """See `Session`."""
        self._request("forget", case.name)

    def step_memory(self, case: Case) -> memory.StepMemory:
        """See `Session`."""
        return self._request("step_memory", case.name)
