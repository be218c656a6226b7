"""Runs each test file in a pytest of its own: on a GPU, an error may stay with the process that it occurred in.

    python tools/run_test_files.py tests/gpu tests/test_golden.py

Every file runs, whatever became of those before it, with the options of pytest in PYTEST_ADDOPTS. The exit status is
the worst of all: 0 if all passed, pytest's, or 128 and the number of the signal that ended a process, as in a shell.
"""

import argparse
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator

import pytest


def test_files(paths: Iterable[pathlib.Path]) -> Iterator[pathlib.Path]:
    """Yields the test files among paths, in folders too.

    Raises:
      FileNotFoundError: if there is no such file, or no test file in a folder.
    """
    for path in paths:
        found = sorted(path.rglob("test_*.py")) if path.is_dir() else [path] if path.is_file() else []
        if not found:
            raise FileNotFoundError(f"{path} is no file and no folder with test files.")
        yield from found


def run(file: pathlib.Path, seconds: float) -> int:
    """Runs a test file. Returns its exit status.

    Args:
      file: the file.
      seconds: after which it is ended.
    """
    # By its path: with -m, the source in this folder would be imported in place of the installed package.
    program = pathlib.Path(pytest.__file__).with_name("__main__.py")
    with subprocess.Popen([sys.executable, program, file]) as process:
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            print(f"==> {file} takes more than {seconds:g} seconds and is ended", flush=True)
            process.kill()
            status = process.wait()
    return status if status >= 0 else 128 - status


def describe(status: int) -> str:
    """Returns what an exit status means."""
    return signal.Signals(status - 128).name if status > 128 else f"exit status {status}"


def main() -> None:
    """Runs the files of the command line and names those that failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=pathlib.Path, metavar="PATH", help="a test file, or a folder of them")
    parser.add_argument("--seconds", type=float, default=1200, help="what a file may take (default: %(default)s)")
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
