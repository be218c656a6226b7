"""Runs each test file in a separate pytest process. A GPU error can make all later calls of the process fail.

    python tools/run_test_files.py tests/gpu tests/test_golden.py

Runs all files, even if some fail, with the pytest options in PYTEST_ADDOPTS. The exit status is the largest of all
files: 0 if all passed, the exit status of pytest, or 128 plus the number of the signal that ended a process.
"""

import argparse
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator

import pytest


def test_files(paths: Iterable[pathlib.Path]) -> Iterator[pathlib.Path]:
    """Yields the test files in paths, recursively.

    Raises:
      FileNotFoundError: if a file does not exist, or a folder has no test files.
    """
    for path in paths:
        found = sorted(path.rglob("test_*.py")) if path.is_dir() else [path] if path.is_file() else []
        if not found:
            raise FileNotFoundError(f"{path} is not a file or a folder with test files.")
        yield from found


def run(file: pathlib.Path, seconds: float) -> int:
    """Runs a test file. Returns its exit status.

    Args:
      file: the file.
      seconds: time limit.
    """
    # By path: `-m pytest` would import the source in the current folder instead of the installed package.
    program = pathlib.Path(pytest.__file__).with_name("__main__.py")
    with subprocess.Popen([sys.executable, program, file]) as process:
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            print(f"==> {file} killed after {seconds:g} seconds", flush=True)
            process.kill()
            status = process.wait()
    return status if status >= 0 else 128 - status


def describe(status: int) -> str:
    """Describes an exit status."""
    return signal.Signals(status - 128).name if status > 128 else f"exit status {status}"


def main() -> None:
    """Runs the files on the command line and prints the failed ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=pathlib.Path, metavar="PATH", help="test file or folder")
    parser.add_argument("--seconds", type=float, default=1200, help="time limit per file (default: %(default)s)")
    settings = parser.parse_args()
    try:
        files = list(test_files(settings.paths))
    except FileNotFoundError as error:
        parser.error(str(error))
    statuses = {}
    for file in files:
        print(f"==> {file}", flush=True)
        statuses[file] = run(file, settings.seconds)
    failed = {file: status for file, status in statuses.items() if status}
    print(f"==> {len(files) - len(failed)} of {len(files)} test files passed")
    for file, status in failed.items():
        print(f"    {file}: {describe(status)}")
    sys.exit(max(statuses.values()))


if __name__ == "__main__":
    main()
