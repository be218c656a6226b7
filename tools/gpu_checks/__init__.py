"""Families of checks of the GPU engine, run by tools/gpu_check.py."""

import pathlib
import sys

# For the reference implementations and the golden cases in tests/.
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent.parent / "tests"))
