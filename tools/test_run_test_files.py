"""Tests of the runner of test files, which runs each file in a separate process."""

import pytest
import run_test_files
from environment import processes

FILES = {
    "test_a_crash.py": "import os, signal\ndef test_it():\n    os.kill(os.getpid(), signal.SIGSEGV)\n",
    "test_b_failure.py": "def test_it():\n    assert False\n",
    "test_c_nothing.py": "",
    "test_d_success.py": "def test_it():\n    print('ran to its end')\n",
    "helper.py": "raise RuntimeError\n",
}


@pytest.fixture
def folder(tmp_path):
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    return tmp_path


def run(*arguments, **environment):
    return processes.run_python(run_test_files.__file__, *map(str, arguments), **environment)


def test_every_file_runs_and_the_status_is_the_worst(folder):
    process = run(folder, PYTEST_ADDOPTS="-s")
    assert process.returncode == 128 + 11
    assert "ran to its end" in process.stdout
    tail = process.stdout[process.stdout.index("==> 1 of 4") :]
    assert tail.splitlines() == [
        "==> 1 of 4 test files passed",
        f"    {folder}/test_a_crash.py: SIGSEGV",
        f"    {folder}/test_b_failure.py: exit status 1",
        f"    {folder}/test_c_nothing.py: exit status 5",
    ]


def test_the_status_is_0_if_all_pass(folder):
    process = run(folder / "test_d_success.py", folder / "test_d_success.py")
    assert process.returncode == 0
    assert process.stdout.endswith("==> 2 of 2 test files passed\n")


def test_the_working_folder_is_not_on_the_import_path(folder):
    """The root of the repository contains the package source, which has no libraries."""
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "test_import.py").write_text(
        "import importlib.util\n\ndef test_it():\n    assert importlib.util.find_spec('helper') is None\n"
    )
    assert run(elsewhere, cwd=folder, PYTHONSAFEPATH="").returncode == 0


def test_the_status_of_a_failure_is_that_of_pytest(folder):
    assert run(folder / "test_b_failure.py", folder / "test_d_success.py").returncode == 1


def test_a_file_that_hangs_is_killed(folder):
    (folder / "test_a_hang.py").write_text("import time\ndef test_it():\n    time.sleep(3600)\n")
    process = run(folder / "test_a_hang.py", folder / "test_d_success.py", "--seconds=20")
    assert process.returncode == 128 + 9
    assert "test_a_hang.py killed after 20 seconds" in process.stdout
    assert process.stdout.endswith(f"==> 1 of 2 test files passed\n    {folder}/test_a_hang.py: SIGKILL\n")


@pytest.mark.parametrize("name", ["test_none.py", "empty"])
def test_missing_files_are_rejected_before_any_test_runs(folder, name):
    (folder / "empty").mkdir()
    process = run(folder / "test_d_success.py", folder / name)
    assert process.returncode == 2
    assert process.stdout == ""
    assert f"{folder / name} is not a file or a folder with test files." in process.stderr
