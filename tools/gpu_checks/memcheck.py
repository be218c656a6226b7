"""compute-sanitizer's memcheck, which sees accesses outside of allocated memory of a process that it runs.

This needs nothing but Python, as its user `supervisor` does.
"""

import glob
import os
import shutil
import sys

PROGRAM = "compute-sanitizer"
# Where CUDA's toolkit and its Python packages have it.
PLACES = ("/usr/local/cuda*/bin", *(f"{folder}/nvidia/*/bin" for folder in sys.path if folder))
# What it is told to exit with.
ERRORS_FOUND = 9
OPTIONS = ("--tool", "memcheck", "--report-api-errors", "no", "--error-exitcode", str(ERRORS_FOUND))
# The driver is to allocate every tensor by itself.
ENVIRONMENT = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}


def find_program() -> str | None:
    """Returns the path of compute-sanitizer, or None if this machine has none."""
    folders = [folder for place in PLACES for folder in glob.glob(place)]
    return shutil.which(PROGRAM, path=os.pathsep.join([os.environ.get("PATH", ""), *folders]))
