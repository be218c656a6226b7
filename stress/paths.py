"""Adds testing/ to the import path, for the references, inputs and checks that the tests use, too."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parent.parent / "testing"))
