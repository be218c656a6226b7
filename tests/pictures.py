"""Whether programs can draw, and what they drew."""

import importlib.util
import pathlib

HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None


def assert_is_png(path: pathlib.Path) -> None:
    """Asserts that a file has the signature of a PNG picture."""
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
