"""Very long sequences, forward and backward: right by the float64 reference, and what they take."""

import dataclasses
import time

import cudnn_rnn_inputs
import process_resources
from cudnn_rnn_checks import check_against_reference, run_backprop, run_forward, tensors
from cudnn_rnn_inputs import Config, sized

MODES_AND_DTYPES = [("lstm", "float32"), ("gru", "float32"), ("lstm", "bfloat16"), ("gru", "bfloat16")]
ROUNDS = 3
# The time of a step, and its memory, on the longest sequence beside those on one of a quarter. Where the memory of the
# longer one is no longer in a cache, a step takes more time.
MOST_RATIO = 2.0


def network(mode: str, num_steps: int) -> Config:
    """Returns a small network, whose steps all have something to do."""
    return sized((num_steps, 2, 16, 24), rnn_mode=mode)


@dataclasses.dataclass(frozen=True)
class Cost:
    """What a training step takes: seconds, and bytes at the most, beside its arguments."""

    seconds: float
    memory: int


def cost(config: Config, dtype: str) -> Cost:
    """Measures a training step, the best of some."""
    inputs, gradients = map(tensors, cudnn_rnn_inputs.inputs_and_gradients(config, dtype))
    seconds = []
    before = process_resources.memory()
    process_resources.reset_peak()
    for _ in range(ROUNDS):
        start = time.process_time()
        run_backprop(config, inputs, run_forward(config, inputs), gradients)
        seconds.append(time.process_time() - start)
    return Cost(min(seconds), process_resources.peak() - before)


def check_memory(mode: str, dtype: str, num_steps: int) -> tuple[Cost, Cost]:
    """Returns what a training step takes on a sequence of a quarter of the length, and of the whole.

    For a process with ENVIRONMENT.

    Raises:
      AssertionError: if a longer sequence takes more memory than its length explains.
    """
    cost(network(mode, num_steps // 4), dtype)  # code, threads
    part, whole = (cost(network(mode, steps), dtype) for steps in (num_steps // 4, num_steps))
    assert whole.memory <= 4 * MOST_RATIO * part.memory, f"{mode}, {dtype}: {part} {whole}"
    return part, whole


def check_right(mode: str, dtype: str, num_steps: int) -> None:
    """Compares a sequence, forward and backward, with the reference."""
    check_against_reference(network(mode, num_steps), dtype)


# Freed memory goes back to the system, so that what is taken shows.
ENVIRONMENT = {"TF_ENABLE_ONEDNN_OPTS": "0"}
