"""Arrays in place of a reserve_space that are not from the forward pass of a call."""

from collections.abc import Callable

import numpy as np

from inputs.valid_calls import valid_arguments


def flip_bits(rng, value: np.ndarray, num_bytes: int) -> np.ndarray:
    """Returns a copy with some bits of the first bytes flipped."""
    data = bytearray(value.tobytes())
    for _ in range(int(rng.integers(1, 5))):
        data[int(rng.integers(min(num_bytes, len(data))))] ^= 1 << int(rng.integers(8))
    return np.frombuffer(bytes(data), value.dtype)


def of_another_call(rng, op: str, value: np.ndarray) -> np.ndarray:
    """Returns the reserve_space of another valid call, in the dtype of this call."""
    other = valid_arguments(rng, op)["reserve_space"]
    data = other.tobytes() if isinstance(other, np.ndarray) else b""
    return np.frombuffer(data[: len(data) // value.itemsize * value.itemsize], value.dtype)


RESERVE_SPACES: dict[str, Callable[[np.random.Generator, str, np.ndarray], np.ndarray]] = {
    "truncated": lambda rng, op, value: value[: int(rng.integers(value.size))].copy(),
    "nothing": lambda rng, op, value: value[:0].copy(),
    "longer": lambda rng, op, value: np.concatenate([value, value[: int(rng.integers(1, value.size + 1))]]),
    "header's bits": lambda rng, op, value: flip_bits(rng, value, 256),
    "any bits": lambda rng, op, value: flip_bits(rng, value, value.nbytes),
    "random bytes": lambda rng, op, value: np.frombuffer(rng.bytes(value.nbytes), value.dtype),
    "header, then random bytes": lambda rng, op, value: np.frombuffer(
        value.tobytes()[:256] + rng.bytes(max(value.nbytes - 256, 0)), value.dtype
    ),
    "of another call": of_another_call,
}
