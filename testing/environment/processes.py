"""Runs Python programs in separate processes."""

import os
import pathlib
import subprocess
import sys
import textwrap

# Seconds. Long enough for a busy machine.
TIMEOUT = 1200


def importing(*folders):
    """Returns the environment of a process that imports the packages in testing/, and the modules in the folders."""
    testing = pathlib.Path(__file__).parent.parent
    return {"PYTHONPATH": os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), *map(str, [testing, *folders])]))}


WITH_TESTING = importing()


def environment(**changes):
    """Returns the environment of this process, with changes."""
    return {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **changes}


def run_python(*arguments, cwd="/", timeout=TIMEOUT, **changes):
    """Runs this interpreter, with changes of the environment. Returns the finished process."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environment(**changes),
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )


def run_program(*arguments, **options):
    """Like `run_python`, but asserts success and returns the output."""
    process = run_python(*arguments, **options)
    assert process.returncode == 0, process.stdout[-2000:] + process.stderr[-2000:]
    return process.stdout


def run_code(code, *arguments, **options):
    """Runs Python code, asserts success and returns the output."""
    return run_program("-c", textwrap.dedent(code), *arguments, **options)
