"""Adds tests/ to the import path, for the references and inputs of the tests."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parent.parent / "tests"))
