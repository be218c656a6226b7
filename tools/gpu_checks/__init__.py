"""The families of checks of the GPU engine that tools/gpu_check.py runs, and what they need."""

import pathlib
import sys

# The references and the list of golden cases are the tests'.
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent.parent / "tests"))
