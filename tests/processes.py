"""Runs Python programs in processes of their own."""

import os
import pathlib
import subprocess
import sys
import textwrap

# Seconds after which a process is taken for hanging, however busy the machine is.
FOREVER = 1200
# The environment of a process that imports modules of the tests.
WITH_TESTS = {
    "PYTHONPATH": os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(pathlib.Path(__file__).parent)]))
}


def run_python(*arguments, cwd="/", prefix=(), **environment):
    """Runs this interpreter, by way of the program `prefix` if there is one. Returns the finished process, with its
    output as text."""
    return subprocess.run(
        [*prefix, sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=FOREVER,
    )


def run_program(*arguments, **options):
    """Does what `run_python` does with what must succeed, and returns what was printed."""
    process = run_python(*arguments, **options)
    assert process.returncode == 0, process.stdout[-2000:] + process.stderr[-2000:]
    return process.stdout


def run_code(code, *arguments, **options):
    """Runs Python code that must succeed, and returns what it printed."""
    return run_program("-c", textwrap.dedent(code), *arguments, **options)
