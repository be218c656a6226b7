"""Helpers for tests of programs that draw plots."""

import importlib.util
import pathlib

HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None


def assert_is_png(path: pathlib.Path) -> None:
    """Asserts that a file has the signature of a PNG image."""
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
