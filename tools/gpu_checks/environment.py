"""Versions of the hardware and software that the checks run on."""

import functools
import os
import pathlib
import platform
import re

import numpy as np
import torch

from gpu_checks.cudnn_library import Cudnn
from gpu_checks.outcome import Cases, Context, Outcome
from gpu_checks.results import ENVIRONMENT

DRIVER = pathlib.Path("/proc/driver/nvidia/version")
# The bundle records its commit here.
COMMIT = pathlib.Path(__file__).parent.parent.parent / "commit"


def cases(context: Context) -> Cases:
    """Yields a single case."""
    yield ENVIRONMENT, functools.partial(collect, context)


def collect(context: Context) -> Outcome:
    """Collects the versions, and opens the libraries that the engine uses."""
    device = context.engine.device
    libraries = context.engine.libraries()
    outcome = Outcome()
    outcome.measured = {
        "device": device.name,
        "library": device.cudnn_library,
        **device.versions(),
        "pytorch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "driver": _driver(),
        "cpus": str(len(os.sched_getaffinity(0))),
        "commit": COMMIT.read_text().strip() if COMMIT.exists() else "unknown",
        **{f"library {number}": line for number, line in enumerate(libraries)},
    }
    outcome.expect(len(libraries) == 3, f"the engine lists {len(libraries)} libraries, expected 3")
    cudnn = Cudnn().version
    pytorch_cudnn = outcome.measured.get("pytorch_cudnn", cudnn)
    outcome.expect(cudnn == pytorch_cudnn, f"libcudnn.so.9 has version {cudnn}, but PyTorch uses {pytorch_cudnn}")
    return outcome


def _driver() -> str:
    """Returns the version of NVIDIA's kernel module."""
    text = DRIVER.read_text() if DRIVER.exists() else ""
    found = re.search(r"\b\d{3}\.\d+(\.\d+)?\b", text)
    return found.group() if found else "unknown"
