"""The parts of the soak test. Each part runs in a separate process and returns a summary."""

import argparse
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from checks import parity
from inputs.cudnn_rnn import Config
from robustness import concurrent_calls, long_sequences, long_training, memory_limits, packed_weights

POOLS = [(1, 1), (2, 1), (8, 0)]  # intra-op and inter-op threads; 0: one per CPU
TRAINED = {mode: Config(mode, num_units=32, input_size=8, time=12, batch=16) for mode in ("lstm", "gru")}
NUM_CHECKPOINTS = 40
# The ops that also run in graphs and datasets. The other ops use the same code there.
IN_GRAPHS = ("CudnnRNNV3", "CudnnRNNBackpropV3", "CudnnRNNBackpropGrad", "GRUBlockCell")


@dataclasses.dataclass(frozen=True)
class Part:
    """A function to call in a separate process.

    Attributes:
      name: a short description.
      function: runs the part and returns a summary; raises an exception on failure.
      arguments: the arguments of the function.
      environment: environment variables of the process.
    """

    name: str
    function: Callable[..., str]
    arguments: tuple[Any, ...]
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __call__(self) -> str:
        """Runs the part in this process."""
        return self.function(*self.arguments)


def run_threads(intra_op: int, inter_op: int, seed: int, seconds: float) -> str:
    """Calls the ops concurrently, with thread pools of the given sizes."""
    concurrent_calls.set_pools(intra_op, inter_op)
    outcome = concurrent_calls.check(seed, seconds)
    growth = (outcome.late.memory - outcome.early.memory) / 2**20
    return (
        f"{outcome.num_calls} calls in {outcome.seconds:.0f} s, all bitwise equal to sequential calls; "
        f"memory {growth:+.1f} MiB in the last two thirds, "
        f"{outcome.late.threads} threads ({outcome.early.threads} before)"
    )


def threads(settings: argparse.Namespace) -> Iterator[Part]:
    """Concurrent calls, for each size of the thread pools."""
    for intra_op, inter_op in POOLS:
        name = f"{concurrent_calls.NUM_THREADS} threads, pools of {intra_op} and {inter_op or os.cpu_count()}"
        yield Part(name, run_threads, (intra_op, inter_op, settings.seed, 60 * settings.minutes))


def run_training(mode: str, num_steps: int) -> str:
    """Trains in float32 and in float64."""
    points = long_training.check(TRAINED[mode], num_steps, NUM_CHECKPOINTS)
    last = points[-1]
    return (
        f"loss {points[0].loss:.4f} to {last.loss:.7f} (float64: {last.wide_loss:.7f}); largest gradient "
        f"difference {max(point.gradient_error for point in points):.1e}, tolerance "
        f"{parity.TOLERANCES['float32']:.0e}; largest weight difference "
        f"{max(point.distance for point in points):.1e}, bound {last.bound:.1e}; memory "
        f"{(last.memory - points[0].memory) / 2**20:+.1f} MiB"
    )


def training(settings: argparse.Namespace) -> Iterator[Part]:
    """Long training runs in float32, compared with float64."""
    for mode in TRAINED:
        yield Part(f"{settings.steps} training steps, {mode}", run_training, (mode, settings.steps))


def run_long_sequence(mode: str, dtype: str, num_steps: int) -> str:
    """Runs a sequence forward and backward."""
    part, whole = long_sequences.check_memory(mode, dtype, num_steps)
    assert whole.seconds < 4 * long_sequences.MOST_RATIO * part.seconds, f"{part} {whole}"
    long_sequences.check_results(mode, dtype, num_steps)
    worst = max(float(row.split()[-2]) for row in parity.table()[1:])
    return (
        f"largest difference {worst:.1e}, tolerance {parity.TOLERANCES[dtype]:.0e}; {whole.seconds:.2f} s of CPU "
        f"and {whole.memory / 2**20:.0f} MiB; "
        f"a quarter of the steps: {part.seconds:.2f} s and {part.memory / 2**20:.0f} MiB"
    )


def long_sequence(settings: argparse.Namespace) -> Iterator[Part]:
    """Very long sequences, compared with the float64 reference."""
    for mode, dtype in long_sequences.MODES_AND_DTYPES:
        name = f"a sequence of {settings.time} steps, {mode}, {dtype}"
        yield Part(name, run_long_sequence, (mode, dtype, settings.time), long_sequences.ENVIRONMENT)


def run_out_of_memory(entry_point: str, names: tuple[str, ...]) -> str:
    """Repeats calls with increasing memory limits until they succeed."""
    outcomes = memory_limits.check(entry_point, names)
    for name, outcome in outcomes.items():
        assert outcome.seconds < outcome.seconds_of_a_call / 4, f"{name} failed late: {outcome}"
    failures = sum(outcome.num_failures for outcome in outcomes.values())
    return f"{failures} failures in {len(outcomes)} kinds of calls, all before the computation; later calls are correct"


def out_of_memory(_: argparse.Namespace) -> Iterator[Part]:
    """Calls under memory limits that are too low."""
    for entry_point, names in [("eager", ()), ("graph", IN_GRAPHS), ("dataset", IN_GRAPHS)]:
        yield Part(f"memory limits, {entry_point}", run_out_of_memory, (entry_point, names), memory_limits.ENVIRONMENT)


def packed(settings: argparse.Namespace) -> Iterator[Part]:
    """Exports and cancelled calls with packed weights."""
    for name in packed_weights.CHECKS:
        number = settings.events if name.startswith("exports") else settings.events // 5
        yield Part(name, packed_weights.check, (name, number))


SECTIONS: Mapping[str, Callable[[argparse.Namespace], Iterator[Part]]] = {
    "threads": threads,
    "training": training,
    "long_sequence": long_sequence,
    "out_of_memory": out_of_memory,
    "packed_weights": packed,
}
