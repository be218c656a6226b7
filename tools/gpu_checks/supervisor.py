"""Runs families, each in a separate process, which may crash or hang. Several run at the same time on many cores."""

import concurrent.futures
import contextlib
import itertools
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence

from gpu_checks import memcheck, results
from gpu_checks.families import Family
from gpu_checks.results import DEVICE_LOST
from gpu_checks.summary import to_text

PROGRAM = pathlib.Path(__file__).parent.parent / "gpu_check.py"
# Importing PyTorch takes this long. A family is not started with less time left.
MIN_SECONDS = 10
# Maximum number of restarts of a family: if most cases crash, the other families are more useful.
MAX_RESTARTS = 3
# Number of families at the same time. Their processes share the GPU by turns.
CONCURRENT = max(1, len(os.sched_getaffinity(0)) // 4)
# NumPy and PyTorch compute small matrices on the CPU. cuDNN logs its errors.
VARIABLES = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "CUDNN_LOGLEVEL_DBG": "1",
    "CUDNN_LOGDEST_DBG": "stderr",
}

_lock = threading.Lock()
_processes: set[subprocess.Popen] = set()  # the running ones
_stopped = threading.Event()


def run(
    families: Mapping[str, Family],
    folder: pathlib.Path,
    options: Sequence[str],
    environment: Mapping[str, str],
    seconds: float,
) -> results.Report:
    """Runs families. After each one, updates the results and the summary in a folder.

    Args:
      families: families by name.
      folder: output folder. It is created if necessary, and must not contain results of another run.
      options: command-line options for every family.
      environment: environment variables for their processes.
      seconds: time limit of the run.

    Returns:
      The results.

    Raises:
      FileExistsError: if the folder contains results.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / results.RESULTS
    for name in (results.RESULTS, results.ARCHIVE):
        if (folder / name).exists():
            raise FileExistsError(f"{folder / name} is from another run; choose another folder, or delete it")
    deadline = time.monotonic() + seconds
    reserved = sum(family.reserved for family in families.values())

    def run_one(name):
        _run_family(name, families[name], path, options, {**VARIABLES, **environment}, deadline - reserved)
        with _lock:
            report = results.read(path)
            (folder / results.SUMMARY).write_text(to_text(report))
            print(to_text(report, families=[name]), end="", flush=True)

    _stopped.clear()
    for stage in _stages(families):
        reserved -= sum(families[name].reserved for name in stage)
        with concurrent.futures.ThreadPoolExecutor(CONCURRENT) as pool:
            try:
                for future in [pool.submit(run_one, name) for name in stage]:
                    future.result()
            except BaseException:  # SystemExit, too: kill the processes
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                _stop()
                pool.shutdown(cancel_futures=True)
                raise
    return results.read(path)


def _stages(families: Mapping[str, Family]) -> list[list[str]]:
    """Returns names of families that may run at the same time."""
    numbers = itertools.count()

    def kind(name):
        family = families[name]
        return next(numbers) if family.runs_alone else -1 - family.under_memcheck

    return [list(stage) for _, stage in itertools.groupby(families, kind)]


def _stop() -> None:
    """Kills all processes, and prevents new ones."""
    _stopped.set()
    with _lock:
        for process in _processes:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.killpg(process.pid, signal.SIGKILL)


def _run_family(name, family, path, options, environment, deadline):
    """Runs a family, under memcheck if required. Skips it if memcheck is not installed."""
    if not family.under_memcheck:
        _run_processes(name, family, path, [], options, environment, deadline)
        return
    program = memcheck.find_program()
    if program is None:
        case = results.CaseResult(name, results.SKIPPED, skipped=f"{memcheck.PROGRAM} is not installed")
        results.add_case(path, name, case)
        results.add_end(path, name, results.ENDED, 0.0)
        return
    wrapper = [program, *memcheck.OPTIONS]
    _run_processes(name, family, path, wrapper, options, {**environment, **memcheck.ENVIRONMENT}, deadline)


def _run_processes(name, family, path, wrapper, options, environment, deadline):
    """Runs a family. If its process dies in a case, starts another one with the next case."""
    begin = time.monotonic()
    limit = min(begin + family.seconds, deadline)
    after: list[str] = []
    for _ in range(1 + MAX_RESTARTS):
        if _stopped.is_set() or limit - time.monotonic() < min(MIN_SECONDS, family.seconds):
            end = "no time was left"
            break
        command = [*wrapper, sys.executable, str(PROGRAM), "family", name, family.function, *family.arguments]
        status = _run_process([*command, "--results", str(path), *after, *options], environment, path, limit)
        if _stopped.is_set():
            return
        end = _describe(status, family.under_memcheck)
        last = _last_case(name, path)
        died_in_case = last is not None and last.status == results.STARTED
        if died_in_case:
            why = "it took too long: see its stack in the log" if status == results.CASE_ENDED else f"the process {end}"
            last.status, last.problems = results.FAILED, [why]
            results.add_case(path, name, last)
        if status is None or not (died_in_case or status == DEVICE_LOST):
            break
        after = ["--after", last.name]
    results.add_end(path, name, end, time.monotonic() - begin)


def _last_case(name, path) -> results.CaseResult | None:
    family = results.read(path).families.get(name)
    return list(family.cases.values())[-1] if family and family.cases else None


def _run_process(command, environment, path, limit) -> int | None:
    """Returns the exit status of a process, or None if it was killed at the time limit. Logs its output."""
    with path.with_name(results.LOG).open("a") as log:
        with _lock:
            process = subprocess.Popen(
                command, env={**os.environ, **environment}, stdout=log, stderr=log, start_new_session=True
            )
            _processes.add(process)
        try:
            return process.wait(timeout=max(limit - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            return None
        finally:
            with _lock:
                _processes.remove(process)
                if process.poll() is None:  # it hangs, or this process is ending
                    os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _describe(status: int | None, under_memcheck: bool) -> str:
    """Describes how a process ended."""
    if status is None:
        return "ran out of time"
    if status < 0:
        return f"died of {signal.Signals(-status).name}"
    if under_memcheck and status == memcheck.ERRORS_FOUND:
        return f"{memcheck.PROGRAM} found errors"
    return results.ENDED if status == 0 else f"exited with status {status}"
