"""Measures libraries in turns, each in its own process, so that other activity of the machine affects all alike.

Only one process works at a time. A library's threads may spin for a while after their work is done, so the next turn
starts only when the process is idle.
"""

import contextlib
import ctypes
import dataclasses
import gc
import importlib
import importlib.util
import math
import multiprocessing
import os
import pathlib
import random
import resource
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
from cases import FORWARD_BACKWARD, PENALTY, Case
from library import Library, Program

CALIBRATION_CALLS = 3
LONG_SAMPLES = 2.5  # calls that take longer than this many times a sample need no warm-up
WARM_UP_SECONDS = 0.01
SAMPLE_SECONDS = 0.2  # short calls are timed together, many in a row
MEMORY_STEPS = 3

# A process is idle if it used at most IDLE_SHARE of the CPU time for IDLE_SECONDS.
IDLE_SECONDS, IDLE_SHARE, IDLE_TIMEOUT = 0.01, 0.05, 1.0

DISTURBANCE = 0.2  # a sample is disturbed if other processes used more than this share of the CPU time
TRIES = 3  # attempts to get an undisturbed sample; the least disturbed one counts
QUANTILES = 2001  # kept of the times of single calls
SETTLING_SECONDS = 0.2  # lets the background calls start

# The largest allowed errors. They admit peers that accumulate in 16 bits, and in float32 PyTorch's gradient of a bias,
# a sequential sum over up to 15000 rows.
ALLOWED_ERRORS = {"float64": 1e-11, "float32": 3e-5, "float16": 2e-2, "bfloat16": 1e-1}


class Peer(NamedTuple):
    """A library that can be measured. None is imported here: each runs in its own process."""

    name: str  # in options and files
    label: str  # in tables
    library: str  # its `Library`, as "module.Class"
    packages: Sequence[str]  # the Python packages that it needs
    options: Mapping[str, Any] = {}  # attributes of the library
    allowed_error: float = 0.0  # of its results; 0: that of the case's dtype
    folder: str = ""  # from which its process imports first

    def missing_packages(self) -> list[str]:
        """Returns the required packages that are not installed."""
        return [package for package in self.packages if importlib.util.find_spec(package) is None]


@dataclasses.dataclass(frozen=True)
class Load:
    """The load while a case is measured.

    Attributes:
      seconds: the time for which each sample times calls one by one; 0: a sample is the mean of many calls.
      clients: the number of Python threads that call the case concurrently.
      pause: the seconds that a client waits between its calls.
      background: (case, task) pairs that other Python threads, one for each, repeat without a pause.
      busy_cpus: the number of CPUs that another process keeps busy.
    """

    seconds: float = 0.0
    clients: int = 1
    pause: float = 0.0
    background: Sequence[tuple[Case, str]] = ()
    busy_cpus: int = 0


QUIET = Load()


class Sample(NamedTuple):
    """The result of one turn."""

    seconds: float  # of one call
    others: float  # the share of the time of all CPUs that other processes used; its resolution is 10 ms
    waits: Sequence[float] = ()  # the seconds of each call, if calls were timed one by one


@dataclasses.dataclass(frozen=True)
class Measurement:
    """The times, or the memory, of a peer for a task of a case.

    Attributes:
      section: the name of the section.
      case: the case.
      peer: the peer's name.
      task: the task.
      samples: the seconds of one call in each round, or the bytes of each process.
      error: the largest difference from the float64 reference, relative to the largest magnitude of the tensor.
      others: the share of the CPU time that other processes used in each round.
      waits: the seconds of each call of all rounds, or `QUANTILES` quantiles of them, if calls were timed one by one.
    """

    section: str
    case: Case
    peer: str
    task: str
    samples: Sequence[float]
    error: float = 0.0
    others: Sequence[float] = ()
    waits: Sequence[float] = ()

    @property
    def median(self) -> float:
        """The median sample."""
        return float(np.median(self.samples))

    @property
    def gflops(self) -> float:
        """The median GFLOP/s."""
        return self.case.flops(self.task) / self.median / 1e9

    def wait(self, percent: float) -> float:
        """Returns a percentile of the seconds of single calls."""
        return float(np.percentile(self.waits, percent))


class Failure(NamedTuple):
    """Why a peer has no measurement of a case."""

    section: str
    case: str
    peer: str
    message: str


class PeerError(RuntimeError):
    """A library failed, or its results are wrong.

    Attributes:
      peer: the peer's name.

    Args:
      peer: the peer's name.
      message: the error message.
    """

    def __init__(self, peer: str, message: str):
        super().__init__(message)
        self.peer = peer


# ---------------------------------------------------------------- in the process of a library


class Session:
    """Handles the requests to a process.

    Args:
      library: the library to run.
    """

    def __init__(self, library: Library):
        self._library = library
        self.programs: dict[Case, Program] = {}
        self._calls: dict[tuple[Case, str], int] = {}
        self._is_long: dict[tuple[Case, str], bool] = {}

    def versions(self) -> dict[str, str]:
        """See `Library`."""
        return self._library.versions()

    def prepare(self, case: Case) -> Sequence[str]:
        """Prepares a case and returns the tasks that the library supports; none if it does not support the case."""
        self.programs[case] = self._library.program(case)
        return tuple(self.programs[case])

    def results(self, case: Case, task: str) -> dict[str, np.ndarray]:
        """Returns the results of a task of a prepared case as float64."""
        return {key: array.astype(np.float64) for key, array in self.programs[case][task].results().items()}

    def calibrate(self, case: Case, task: str) -> None:
        """Runs a task a few times and determines the number of calls in a sample.

        A task that takes its samples itself is left alone.
        """
        if self.programs[case][task].sample is not None:
            return
        times = [self._seconds_per_call(case, task, 1)]  # the first call may compile
        while len(times) < CALIBRATION_CALLS and (len(times) == 1 or times[-1] < SAMPLE_SECONDS):
            times.append(self._seconds_per_call(case, task, 1))
        fastest = min(times)
        self._calls[case, task] = max(1, math.ceil(SAMPLE_SECONDS / fastest))
        self._is_long[case, task] = fastest > LONG_SAMPLES * SAMPLE_SECONDS

    def sample(self, case: Case, task: str, load: Load) -> tuple[float, Sequence[float]]:
        """Returns the seconds per call, or bytes, and the seconds of each call if the load demands it."""
        take = self.programs[case][task].sample
        if take is not None:
            return take(load)
        if load.seconds:
            background = [self.programs[other][other_task].call for other, other_task in load.background]
            return time_requests(self.programs[case][task].call, background, load)
        if not self._is_long[case, task]:
            end = time.perf_counter() + WARM_UP_SECONDS
            self._seconds_per_call(case, task, 1)
            while time.perf_counter() < end:
                self._seconds_per_call(case, task, 1)
        return self._seconds_per_call(case, task, self._calls[case, task]), ()

    def _seconds_per_call(self, case: Case, task: str, calls: int) -> float:
        function = self.programs[case][task].call
        start = time.perf_counter()
        for _ in range(calls):
            function()
        self._library.synchronize()
        return (time.perf_counter() - start) / calls

    def forget(self, case: Case) -> None:
        """Frees the resources of a case, if it has been prepared."""
        self.programs.pop(case, None)

    def step_memory(self, case: Case) -> tuple[int, int]:
        """Returns the resident bytes before the first training steps of a network in this process, and their peak.

        A tiny network of the same kind runs first, so that the former include the library's code and threads. Memory
        that the library keeps for networks of this size counts for the steps. From now on, allocations of the process
        fail beyond half of the machine's memory.

        Raises:
          ValueError: if the library cannot train such a network.
        """
        half = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (half if most == resource.RLIM_INFINITY else min(half, most), most))
        self._train(dataclasses.replace(case, batch=2, time=2, input_size=8, units=8))()
        train = self._train(case)
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # returns free memory to the system
        before = _resident("VmRSS")
        pathlib.Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        train()
        return before, _resident("VmHWM")

    def _train(self, case: Case) -> Callable[[], None]:
        task = PENALTY if case.kind == "penalty" else FORWARD_BACKWARD
        program = self._library.program(case) if case.has_network else {}
        if task not in program:
            raise ValueError(f"{type(self._library).__name__} cannot train {case.name}")

        def train() -> None:
            for _ in range(MEMORY_STEPS):
                program[task].call()

        return train


def _resident(field: str) -> int:
    """Returns a field of /proc/self/status, converted from kilobytes to bytes."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{field}:"))
    return 1024 * int(line.split()[1])


def time_requests(call: Callable[[], Any], background: Sequence[Callable], load: Load) -> tuple[float, list[float]]:
    """Times calls while other threads repeat the `background` calls.

    Returns:
      The total seconds divided by the number of calls, and the seconds of each call.
    """

    def client(end: float) -> list[float]:
        waits: list[float] = []
        now = time.perf_counter()
        while not waits or now < end:
            call()
            waits.append(time.perf_counter() - now)
            if load.pause:  # sleep(0) takes 50 us
                time.sleep(load.pause)
            now = time.perf_counter()
        return waits

    with _repeating(background), ThreadPoolExecutor(load.clients) as clients:
        time.sleep(SETTLING_SECONDS if background else 0)
        start = time.perf_counter()
        waits = [wait for each in clients.map(client, [start + load.seconds] * load.clients) for wait in each]
        seconds = time.perf_counter() - start
    return seconds / len(waits), waits


@contextlib.contextmanager
def _repeating(calls: Sequence[Callable[[], Any]]) -> Iterator[None]:
    """Repeats each call on its own thread."""
    is_over = threading.Event()

    def repeat(call: Callable[[], Any]) -> None:
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


def _serve(connection: Connection, peer: Peer, threads: int, log: pathlib.Path) -> None:
    """Handles requests, (`Session` method name, arguments), until the other end closes the connection."""
    with log.open("ab") as file:
        os.dup2(file.fileno(), sys.stderr.fileno())
    if peer.folder:
        sys.path.insert(0, peer.folder)
    module, name = peer.library.split(".")
    session = Session(getattr(importlib.import_module(module), name)(threads, **peer.options))
    while True:
        try:
            method, arguments = connection.recv()
        except EOFError:
            return
        try:
            connection.send((getattr(session, method)(*arguments), None))
        except Exception:
            connection.send((None, traceback.format_exc()))


# ---------------------------------------------------------------- in the benchmark's process


class Worker:
    """A process that runs one library. A context manager that ends the process.

    Args:
      peer: the peer whose library to run.
      threads: the number of threads of the library.
      log: the file to append the library's messages to.
    """

    def __init__(self, peer: Peer, threads: int, log: pathlib.Path):
        self.peer = peer
        self._log = log
        spawn = multiprocessing.get_context("spawn")
        self._connection, other_end = spawn.Pipe()
        self._process = spawn.Process(target=_serve, args=(other_end, peer, threads, log), daemon=True)
        self._process.start()
        other_end.close()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *exception) -> None:
        self._connection.close()
        self._process.join()

    def request(self, method: str, *arguments) -> Any:
        """Calls a method of the process's `Session`, waits until the process is idle again, and returns the result.

        Raises:
          PeerError: if the request failed or the process ended.
        """
        try:
            self._connection.send((method, arguments))
            result, error = self._connection.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            code = self._process.exitcode
            message = f"the {self.peer.label} process ended with {code}; see {self._log}"
            raise PeerError(self.peer.name, message) from None
        if error:
            raise PeerError(self.peer.name, f"{self.peer.label} failed:\n{error}")
        end, used = time.monotonic() + IDLE_TIMEOUT, self._cpu_seconds()
        while time.monotonic() < end:
            time.sleep(IDLE_SECONDS)
            used_before, used = used, self._cpu_seconds()
            if used - used_before <= IDLE_SHARE * IDLE_SECONDS:
                break
        return result

    def _cpu_seconds(self) -> float:
        """Returns the CPU time of the process and of programs that it has run."""
        assert self._process.pid is not None
        # The id of another process's clock, as clock_getcpuclockid makes it.
        return time.clock_gettime((~self._process.pid << 3) | 2) + _seconds_of_programs(self._process.pid)

    def sample(self, case: Case, task: str, load: Load) -> Sample:
        """Takes a sample. Busy processes of the load do not count as others."""
        start, busy, own = time.monotonic(), _busy_seconds(), self._cpu_seconds()
        seconds, waits = self.request("sample", case, task, load)
        elapsed, cpus = time.monotonic() - start, os.cpu_count() or 1
        by_others = (_busy_seconds() - busy) - (self._cpu_seconds() - own) - load.busy_cpus * elapsed
        return Sample(seconds, min(1.0, max(0.0, by_others / (elapsed * cpus))), waits)


def _seconds_of_programs(process: int) -> float:
    """Returns the CPU time of the programs that a process has started and that have ended; its resolution is 10 ms."""
    _, _, fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")
    return sum(map(int, fields.split()[13:15])) / os.sysconf("SC_CLK_TCK")


def _busy_seconds() -> float:
    """Returns the total busy seconds of all CPUs, including time stolen by the hypervisor."""
    first, *fields = pathlib.Path("/proc/stat").read_text().partition("\n")[0].split()
    assert first == "cpu"
    idle = (3, 4)  # the columns of idle time, and of time waiting for I/O
    return sum(int(field) for index, field in enumerate(fields[:8]) if index not in idle) / os.sysconf("SC_CLK_TCK")


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


class Turn(NamedTuple):
    """A task of a case that a peer has prepared, and the error of its results."""

    peer: str
    task: str
    error: float


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
        self._start = lambda peer: Worker(peer, threads, log)
        self.workers = {peer.name: self._start(peer) for peer in peers}
        self._reference = self._start(reference)
        self.versions = {name: worker.request("versions") for name, worker in self.workers.items()}

    def __enter__(self) -> "Bench":
        return self

    def __exit__(self, *exception) -> None:
        for worker in (*self.workers.values(), self._reference):
            worker.__exit__()

    def _prepare(self, case: Case, peers: Collection[str], tasks: Container[object]) -> list[Turn]:
        """Prepares a case, checks the results and returns the tasks of all peers that support it."""
        keys = [
            (name, task)
            for name, worker in self.workers.items()
            if name in peers
            for task in worker.request("prepare", case)
            if task in tasks or (task, name) in tasks
        ]
        if not keys:
            return []
        self._reference.request("prepare", case)
        expected = {task: self._reference.request("results", case, task) for task in dict.fromkeys(t for _, t in keys)}
        self._reference.request("forget", case)
        turns = []
        for name, task in keys:
            turns.append(Turn(name, task, self._error(name, case, task, expected[task])))
            self.workers[name].request("calibrate", case, task)
        return turns

    def _error(self, peer: str, case: Case, task: str, expected: Mapping[str, np.ndarray]) -> float:
        """Returns the error of a peer's results, see `Measurement`."""
        what = f"{peer} gives wrong results for {task} of {case.name}"
        try:
            error = largest_error(self.workers[peer].request("results", case, task), expected)
        except ValueError as different:
            raise PeerError(peer, f"{what}: {different}") from different
        if not error <= (self.workers[peer].peer.allowed_error or self._allowed_errors[case.result_dtype]):
            raise PeerError(peer, f"{what}: the error is {error:.1e}")
        return error

    def measure(
        self,
        section: str,
        case: Case,
        peers: Collection[str],
        rounds: int,
        tasks: Container[object] = (),
        load: Load = QUIET,
    ) -> tuple[list[Measurement], list[Failure]]:
        """Checks and measures the peers in the tasks of a case that they support.

        Each round runs every task once, in a new random order. A peer that fails or gives wrong results has no
        measurements. It runs the next case in a new process, because a GPU error may persist in the old one.

        Args:
          section: the name of the section.
          case: the case.
          peers: the names of the peers.
          rounds: the number of samples of each task.
          tasks: the tasks to measure, or pairs of a task and a peer, if the case has them; all if empty.
          load: the load during the measurement.

        Returns:
          The measurements and the failures.

        Raises:
          PeerError: if the reference fails.
        """
        names, failures = [name for name in self.workers if name in peers], list[Failure]()
        while True:
            try:
                return self._measure(section, case, names, rounds, tasks or case.tasks, load), failures
            except PeerError as error:
                if error.peer not in names:
                    raise
                failures.append(Failure(section, case.name, error.peer, str(error)))
                names.remove(error.peer)
                self.workers[error.peer].__exit__()
                self.workers[error.peer] = self._start(self.workers[error.peer].peer)

    def _measure(self, section, case, names, rounds, tasks, load) -> list[Measurement]:
        for other, other_task in load.background:
            names = [name for name in names if other_task in self.workers[name].request("prepare", other)]
        turns = self._prepare(case, names, tasks)
        samples: dict[Turn, list[Sample]] = {turn: [] for turn in turns}
        shuffler = random.Random(case.name)
        with busy_processes(load.busy_cpus):
            for _ in range(rounds):
                for turn in shuffler.sample(turns, len(turns)):
                    samples[turn].append(self._sample(case, turn, load))
        for turn in turns:
            for each in {case, *(other for other, _ in load.background)}:
                self.workers[turn.peer].request("forget", each)
        return [
            Measurement(
                section,
                case,
                turn.peer,
                turn.task,
                [sample.seconds for sample in taken],
                turn.error,
                [sample.others for sample in taken],
                quantiles([wait for sample in taken for wait in sample.waits]),
            )
            for turn, taken in samples.items()
        ]

    def _sample(self, case: Case, turn: Turn, load: Load) -> Sample:
        """Returns the first undisturbed sample, or the least disturbed of `TRIES`."""
        taken: list[Sample] = []
        while len(taken) < TRIES and not (taken and taken[-1].others <= DISTURBANCE):
            taken.append(self.workers[turn.peer].sample(case, turn.task, load))
        return min(taken, key=lambda sample: sample.others)


def quantiles(waits: Sequence[float]) -> Sequence[float]:
    """Returns as many numbers as results.json should hold, with the same percentiles."""
    return waits if len(waits) <= QUANTILES else np.quantile(waits, np.linspace(0, 1, QUANTILES)).tolist()


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
    return max(errors, default=0.0) if np.isfinite(errors).all() else math.inf
