"""Very long sequences, forward and backward: comparison with the float64 reference, time and memory."""

import dataclasses
import time

from checks.cudnn_rnn import check_against_reference, run_backprop, run_forward, tensors
from environment import process_resources
from inputs import cudnn_rnn as cudnn_rnn_inputs
from inputs.cudnn_rnn import Config, sized

MODES_AND_DTYPES = [("lstm", "float32"), ("gru", "float32"), ("lstm", "bfloat16"), ("gru", "bfloat16")]
ROUNDS = 3
# Largest ratio of the time and memory per step of a sequence to those of a sequence of a quarter of its length. Steps
# of longer sequences take more time when their memory exceeds a cache.
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


def check_memory(mode: str, dtype: str, num_steps: int) -> tuple[Cost, Cost]:
    """Returns the costs of a training step on a sequence of a quarter of the length and on the whole sequence.

    Use it in a process with ENVIRONMENT.

    Raises:
      AssertionError: if the memory grows faster than the length.
    """
    cost(network(mode, num_steps // 4), dtype)  # warm-up
    part, whole = (cost(network(mode, steps), dtype) for steps in (num_steps // 4, num_steps))
    assert whole.memory <= 4 * MOST_RATIO * part.memory, f"{mode}, {dtype}: {part} {whole}"
    return part, whole


def check_results(mode: str, dtype: str, num_steps: int) -> None:
    """Compares a sequence, forward and backward, with the reference."""
    check_against_reference(network(mode, num_steps), dtype)


# Freed memory returns to the system, so that memory use is measurable.
ENVIRONMENT = {"TF_ENABLE_ONEDNN_OPTS": "0"}
