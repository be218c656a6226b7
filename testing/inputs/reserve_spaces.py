"""Arrays in place of a reserve_space that are not from the forward pass of a call, and networks that differ in it."""

from collections.abc import Callable

import numpy as np

from inputs.cudnn_rnn import Config
from inputs.valid_calls import valid_arguments

BASE = Config(num_units=10, input_size=10, num_layers=2, time=4, batch=4, sequence_lengths=(4, 2, 3, 4), dropout=0.5)
# Changes of BASE and the error messages of the CPU kernels. There, only the header distinguishes these:
SAME_SIZE: list[tuple[dict, str]] = [
    ({"sequence_lengths": (4, 3, 2, 4)}, "sequence_lengths differ"),
    ({"sequence_lengths": None}, "sequence_lengths differ"),
    ({"dropout": 0.25}, "dropout was 0.25.*, but is 0.5"),
    ({"dropout": 0.0}, "dropout was 0.0.*, but is 0.5"),
    ({"time_major": False}, "time_major was false, but is true"),
    ({"input_mode": "skip_input"}, "skip_input was true, but is false"),
    ({"input_size": 11}, "input_size was 11, but is 10"),
    ({"time": 8, "batch": 2, "sequence_lengths": (4, 2)}, "time was 8, but is 4; batch was 2, but is 4"),
    (
        {"direction": "bidirectional", "num_layers": 1, "num_units": 11},
        "the number of directions was 2, but is 1; num_layers was 1, but is 2; num_units was 11, but is 10",
    ),
]
OTHER_SIZE: list[tuple[dict, str]] = [
    ({"rnn_mode": "gru"}, "rnn_mode was gru, but is lstm"),
    ({"num_units": 11}, "num_units was 11, but is 10"),
    ({"num_layers": 1}, "num_layers was 1, but is 2"),
    ({"direction": "bidirectional"}, "the number of directions was 2, but is 1"),
    ({"num_proj": 5}, "num_proj was 5, but is 0"),
    ({"time": 5}, "time was 5, but is 4"),
    ({"batch": 3, "sequence_lengths": (4, 2, 3)}, "batch was 3, but is 4"),
]


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
