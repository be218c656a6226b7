"""compute-sanitizer's memcheck, which detects out-of-bounds memory accesses.

Imports only the standard library, like `supervisor`.
"""

import glob
import os
import shutil
import sys

PROGRAM = "compute-sanitizer"
# Folders of the CUDA toolkit and of NVIDIA's Python packages.
PLACES = ("/usr/local/cuda*/bin", *(f"{folder}/nvidia/*/bin" for folder in sys.path if folder))
# The exit status if it finds errors.
ERRORS_FOUND = 9
OPTIONS = ("--tool", "memcheck", "--report-api-errors", "no", "--error-exitcode", str(ERRORS_FOUND))
# Allocate every tensor separately, and allow for slow cases.
ENVIRONMENT = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "GPU_CHECK_CASE_SECONDS": "110"}


def find_program() -> str | None:
    """Returns the path of compute-sanitizer, or None if it is not installed."""
    folders = [folder for place in PLACES for folder in glob.glob(place)]
    return shutil.which(PROGRAM, path=os.pathsep.join([os.environ.get("PATH", ""), *folders]))
