"""Tables as text."""

from collections.abc import Iterable, Sequence


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns the rows of a table as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def numbered(texts: Iterable[str]) -> list[str]:
    """Returns texts as a numbered list."""
    return [f"{number}. {text}" for number, text in enumerate(texts, start=1)]
