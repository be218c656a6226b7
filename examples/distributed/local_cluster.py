"""Starts one process on this machine for each task of a cluster.

On several machines, your cluster manager starts the program on each machine with the same TF_CONFIG.
"""

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import NamedTuple

LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1  # of prctl


class Task(NamedTuple):
    """A process of the cluster."""

    name: str
    job: str
    process: subprocess.Popen


def run(jobs: dict[str, int], awaited: str, timeout: float = 600) -> None:
    """Runs this program for each task of a cluster until all tasks of the awaited job have ended, then kills the rest.

    Prints the output of each task at the end, one task after the other.

    Args:
      jobs: the number of tasks of each job: "worker", "ps", "chief".
      awaited: the job whose tasks end by themselves. Tasks of other jobs, such as servers, are killed afterwards.
      timeout: the maximum wait in seconds.

    Raises:
      SystemExit: if a task fails or the awaited tasks exceed the timeout.
    """
    with contextlib.ExitStack() as stack:
        cluster = {job: [stack.enter_context(_reserved_address()) for _ in range(num)] for job, num in jobs.items()}
        tasks = [
            stack.enter_context(_started_task(cluster, job, index)) for job, num in jobs.items() for index in range(num)
        ]
        _wait(tasks, awaited, timeout)


@contextlib.contextmanager
def _reserved_address() -> Iterator[str]:
    """Reserves a port: Linux does not assign it to sockets that bind to any free port.

    TensorFlow can still listen on it, because both sockets set SO_REUSEADDR and only one of them listens.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("", 0))
        yield f"localhost:{holder.getsockname()[1]}"


@contextlib.contextmanager
def _started_task(cluster: dict[str, list[str]], job: str, index: int) -> Iterator[Task]:
    """Starts this program, with its arguments, as a task; on exit, kills it and prints its output."""
    config = json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [sys.executable, *sys.argv],
            env={**os.environ, "TF_CONFIG": config, "PYTHONUNBUFFERED": "1"},
            stdout=output,
            preexec_fn=_end_with_parent,
        )
        try:
            yield Task(f"{job} {index}", job, process)
        finally:
            process.kill()
            process.wait()
            output.seek(0)
            print(output.read(), end="", flush=True)


def _end_with_parent() -> None:
    """Requests that Linux kill this process when its parent ends for any reason."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _wait(tasks: list[Task], awaited: str, timeout: float) -> None:
    """Waits until all tasks of a job have ended; raises SystemExit if any task fails or on timeout."""
    deadline = time.monotonic() + timeout
    while True:
        # Check for the end before checking for failures, so that no failure is missed.
        are_over = all(task.process.poll() is not None for task in tasks if task.job == awaited)
        for task in tasks:
            if task.process.poll():
                sys.exit(f"{task.name} failed with exit status {task.process.returncode}")
        if are_over:
            return
        if time.monotonic() > deadline:
            sys.exit(f"the tasks of job {awaited!r} did not end within {timeout} seconds; all tasks were killed")
        time.sleep(0.1)
