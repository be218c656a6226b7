"""Runs a program as every task of a cluster, each a process on this machine.

On several machines something else starts the program on each of them, with the same TF_CONFIG that it is given here.
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


def run(jobs: dict[str, int], awaited: str, timeout: float = 120) -> None:
    """Runs this program once more for each task of a cluster, and ends them all once those that matter have ended.

    What the tasks print is printed then, one task after the other.

    Args:
      jobs: how many tasks there are of each job: "worker", "ps", "chief".
      awaited: the job whose tasks end by themselves; others, such as servers, are killed then.
      timeout: how many seconds to wait for them.

    Raises:
      SystemExit: if a task fails, or the awaited ones take longer.
    """
    with contextlib.ExitStack() as stack:
        cluster = {job: [stack.enter_context(_reserved_address()) for _ in range(num)] for job, num in jobs.items()}
        tasks = [
            stack.enter_context(_started_task(cluster, job, index)) for job, num in jobs.items() for index in range(num)
        ]
        _wait(tasks, awaited, timeout)


@contextlib.contextmanager
def _reserved_address() -> Iterator[str]:
    """Keeps a port of this machine from being given to anyone who does not ask for it by its number.

    Linux lets TensorFlow listen there meanwhile, because both ask for SO_REUSEADDR and only one listens.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("", 0))
        yield f"localhost:{holder.getsockname()[1]}"


@contextlib.contextmanager
def _started_task(cluster: dict[str, list[str]], job: str, index: int) -> Iterator[Task]:
    """Starts this program, with its arguments, as a task, and at the end kills it and prints what it has printed."""
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
    """Has Linux kill this process when its parent ends, however that comes about."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _wait(tasks: list[Task], awaited: str, timeout: float) -> None:
    """Waits until the tasks of a job have ended, or raises SystemExit if one of any job fails or time is up."""
    deadline = time.monotonic() + timeout
    while True:
        # What has ended is seen before what has failed: no failure is missed.
        are_over = all(task.process.poll() is not None for task in tasks if task.job == awaited)
        for task in tasks:
            if task.process.poll():
                sys.exit(f"{task.name} failed with exit status {task.process.returncode}")
        if are_over:
            return
        if time.monotonic() > deadline:
            sys.exit(f"the tasks of job {awaited!r} have not ended after {timeout} seconds: all are killed")
        time.sleep(0.1)
