"""Comparison with trusted results, and a record of the largest differences."""

import numpy as np

# Relative to the largest magnitude of the tensor.
TOLERANCES = {"float64": 1e-12, "float32": 1e-5, "float16": 3e-3, "bfloat16": 2e-2}

# The largest difference and the number of comparisons, by op, peer, dtype and output.
_seen: dict[tuple[str, str, str, str], tuple[float, int]] = {}


def _add(key: tuple[str, str, str, str], difference: float, count: int) -> None:
    largest, counted = _seen.get(key, (0.0, 0))
    _seen[key] = max(largest, difference), counted + count


def to_float64(tensor) -> np.ndarray:
    """Returns a tensor or array of any floating type as a float64 array."""
    # NumPy cannot make an array of a bfloat16 scalar in a tensor.
    value = tensor.numpy() if hasattr(tensor, "numpy") else tensor
    return np.asarray(value).astype(np.float64)


def _magnitude(array: np.ndarray) -> float:
    """Returns the largest finite magnitude of an array, or 0 if there is none."""
    return np.max(np.abs(array[np.isfinite(array)]), initial=0.0)


def difference(actual, expected, regions=(), scale=None) -> float:
    """Returns the largest difference of two arrays, relative to the largest magnitude of `expected`.

    If `actual` differs from `expected` where `expected` is not finite, the difference is infinite.

    Args:
      actual: an array.
      expected: an array of the same shape.
      regions: slices of the arrays that are also compared separately, relative to their own largest magnitudes.
      scale: the magnitude that differences of the whole arrays are relative to instead.
    """
    actual, expected = to_float64(actual), to_float64(expected)
    assert actual.shape == expected.shape, f"shape {actual.shape}, should be {expected.shape}"
    finite = np.isfinite(expected)
    if not np.array_equal(actual[~finite], expected[~finite], equal_nan=True) or not np.isfinite(actual[finite]).all():
        return np.inf
    largest = _magnitude(expected) if scale is None else scale
    error = np.max(np.abs(actual[finite] - expected[finite]), initial=0.0)
    relative = error / largest if largest > 0 else np.inf if error > 0 else 0.0
    return max([relative, *(difference(actual[region], expected[region]) for region in regions)])


def check(op: str, peer: str, actual, expected, fields=None, regions=None) -> None:
    """Asserts that the outputs of an op equal those of a peer within rounding, and records the differences.

    The difference of an output of one element is relative to the largest magnitude of all outputs: a single sum may
    cancel by chance, so that rounding is large beside it.

    Args:
      op: the op name.
      peer: the source of the expected outputs.
      actual: the outputs of the op, a named tuple.
      expected: the outputs of the peer, a named tuple or a dict with the same fields.
      fields: the outputs to compare; all by default.
      regions: slices that are also compared separately, by output.
    """
    expected = expected if isinstance(expected, dict) else expected._asdict()
    fields = fields or actual._fields
    wanted = {field: to_float64(expected[field]) for field in fields}
    largest = max(map(_magnitude, wanted.values()), default=0.0)
    for field in fields:
        output = getattr(actual, field)
        dtype = output.dtype.name
        scale = largest if wanted[field].size == 1 else None
        error = difference(output, wanted[field], (regions or {}).get(field, ()), scale)
        _add((op, peer, dtype, field), float(error), 1)
        assert error <= TOLERANCES[dtype], f"{op}.{field}, {dtype}, compared with {peer}: differs by {error:.2g}"


def record() -> list[tuple]:
    """Returns the record as plain values for `merge` in another process."""
    return list(_seen.items())


def merge(rows: list[tuple]) -> None:
    """Adds the record of another process."""
    for key, (largest, count) in rows:
        _add(key, largest, count)


def table() -> list[str]:
    """Returns the record as lines of text."""
    if not _seen:
        return []
    rows = [("op", "output", "dtype", "peer", "cases", "difference", "tolerance")]
    for (op, peer, dtype, field), (largest, count) in sorted(_seen.items()):
        rows.append((op, field, dtype, peer, str(count), f"{largest:.1e}", f"{TOLERANCES[dtype]:.0e}"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
