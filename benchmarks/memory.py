"""Measures the resident memory of a training step."""

import ctypes
import dataclasses
import gc
import pathlib
from collections.abc import Callable
from typing import Any

from cases import Case, Network
from programs import Library

STEPS = 3
_STATUS = pathlib.Path("/proc/self/status")
_CLEAR_REFS = pathlib.Path("/proc/self/clear_refs")
_RESET_PEAK = "5"


@dataclasses.dataclass(frozen=True)
class StepMemory:
    """The resident memory of a process, in bytes.

    Attributes:
      baseline: memory before the training steps: the library, the tensors and the weights.
      peak: peak memory during the training steps.
    """

    baseline: int
    peak: int

    @property
    def step(self) -> int:
        """The memory that the steps add: kept activations, workspace and gradients."""
        return self.peak - self.baseline


def step_memory(library: Library, case: Case) -> StepMemory:
    """Returns the memory of the first training steps of a network in a new process.

    A tiny network of the same kind runs first, so that the baseline includes the library's code and threads. Memory
    that the library keeps for networks of this size counts for the steps.

    Raises:
      ValueError: if the library cannot train such a network.
    """
    if not isinstance(case, Network):
        raise ValueError(f"memory is measured for networks only, not for {case.name}")
    tiny = _training_step(library, dataclasses.replace(case, batch=2, time=2, input_size=8, units=8))
    _train(tiny)
    step = _training_step(library, case)
    _give_back_free_memory()
    baseline = _resident("VmRSS")
    _CLEAR_REFS.write_text(_RESET_PEAK)
    _train(step)
    return StepMemory(baseline, _resident("VmHWM"))


def _training_step(library: Library, case: Network) -> Callable[[], Any]:
    program = library.network(case)
    if program is None or case.training_task not in program.calls:
        raise ValueError(f"{type(library).__name__} cannot train {case.name}")
    return program.calls[case.training_task]


def _train(step: Callable[[], Any]) -> None:
    for _ in range(STEPS):
        step()


def _give_back_free_memory() -> None:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def _resident(field: str) -> int:
    """Returns a field of /proc/self/status, converted from kilobytes to bytes."""
    (line,) = (line for line in _STATUS.read_text().splitlines() if line.startswith(f"{field}:"))
    return 1024 * int(line.split()[1])
