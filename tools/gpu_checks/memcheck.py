"""A selection of networks under compute-sanitizer, which sees accesses outside of allocated memory."""

import functools
import glob
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from gpu_checks import results
from gpu_checks.families import SELECTION
from gpu_checks.outcome import Cases, Context, Outcome

PROGRAM = "compute-sanitizer"
# Where CUDA's toolkit and its Python packages have it.
PLACES = ("/usr/local/cuda*/bin", *(f"{folder}/nvidia/*/bin" for folder in sys.path if folder))
# What it is told to exit with.
ERRORS_FOUND = 9


def find_program() -> str | None:
    """Returns the path of compute-sanitizer, or None if this machine has none."""
    folders = [folder for place in PLACES for folder in glob.glob(place)]
    return shutil.which(PROGRAM, path=os.pathsep.join([os.environ.get("PATH", ""), *folders]))


def cases(context: Context) -> Cases:
    """Yields a check for each family of the selection."""
    for name in SELECTION:
        yield name, functools.partial(check, context, name)


def check(context: Context, name: str) -> Outcome:
    """Runs a family in a process under memcheck. The driver allocates every tensor by itself."""
    program = find_program()
    if program is None:
        return Outcome(skipped=f"this machine has no {PROGRAM}")
    family = SELECTION[name]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / results.RESULTS
        process = subprocess.run(
            [
                *(program, "--tool", "memcheck", "--report-api-errors", "no", "--error-exitcode", str(ERRORS_FOUND)),
                *(sys.executable, sys.argv[0], "family", name, family.function, *family.arguments),
                *("--results", str(path), *context.options),
            ],
            env={**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        report = results.read(path)
    print(process.stdout, flush=True)
    return _judge(process, report.families.get(name, results.FamilyResult(name)))


def _judge(process, family: results.FamilyResult) -> Outcome:
    outcome = Outcome(measured={"cases": str(len(family.cases))})
    outcome.expect(process.returncode != ERRORS_FOUND, f"{PROGRAM} found errors: the log has them")
    outcome.expect(
        process.returncode in (0, ERRORS_FOUND), f"{PROGRAM} exited with status {process.returncode}: the log says why"
    )
    outcome.expect(bool(family.cases), "no case was run")
    for case in family.with_status(results.FAILED, results.STARTED):
        outcome.problems.append(f"{case.name}: {'; '.join(case.problems) or 'did not end'}")
    return outcome
