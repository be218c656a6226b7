"""Very long sequences, forward and backward: comparison with the float64 reference, time and memory."""

import dataclasses
import time

from checks import parity
from checks.cudnn_rnn import check_against_reference, run_backprop, run_forward, tensors
from environment import process_resources
from inputs import cudnn_rnn as cudnn_rnn_inputs
from inputs.cudnn_rnn import Config, sized

ROUNDS = 3
# Largest ratio of the memory per step of a sequence to that of a sequence of a quarter of its length.
MOST_RATIO = 2.0


def network(mode: str, num_steps: int) -> Config:
    """Returns a small network with full-length sequences."""
    return sized((num_steps, 2, 16, 24), rnn_mode=mode)


@dataclasses.dataclass(frozen=True)
class Cost:
    """The cost of a training step: seconds, and peak bytes without its arguments."""

    seconds: float
    memory: int


def cost(config: Config, dtype: str) -> Cost:
    """Measures the best of some training steps."""
    inputs, gradients = map(tensors, cudnn_rnn_inputs.inputs_and_gradients(config, dtype))
    seconds = []
    before = process_resources.memory()
    process_resources.reset_peak()
    for _ in range(ROUNDS):
        start = time.process_time()
        run_backprop(config, inputs, run_forward(config, inputs), gradients)
        seconds.append(time.process_time() - start)
    return Cost(min(seconds), process_resources.peak() - before)


def check(mode: str, dtype: str, num_steps: int) -> str:
    """Runs a sequence and a quarter of it, forward and backward, and returns a summary.

    Use it in a process whose freed memory returns to the system.

    Raises:
      AssertionError: if the memory grows faster than the length, or if a result differs from the reference.
    """
    cost(network(mode, num_steps // 4), dtype)  # warm-up
    part, whole = (cost(network(mode, steps), dtype) for steps in (num_steps // 4, num_steps))
    assert whole.memory <= 4 * MOST_RATIO * part.memory, f"{mode}, {dtype}: {part} {whole}"
    check_against_reference(network(mode, num_steps), dtype)
    worst = max(float(row.split()[-2]) for row in parity.table()[1:])
    return (
        f"{num_steps} steps: largest difference {worst:.1e}, tolerance {parity.TOLERANCES[dtype]:.0e}; "
        f"{whole.seconds:.2f} s of CPU and {whole.memory / 2**20:.0f} MiB; "
        f"a quarter of the steps: {part.seconds:.2f} s and {part.memory / 2**20:.0f} MiB"
    )
