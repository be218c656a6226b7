"""What a check of one case finds, and comparisons."""

import dataclasses
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import cudnn_rnn_reference as reference
import golden_cases
import numpy as np
import parity
import torch

from gpu_checks.arrays import to_numpy
from gpu_checks.engine import Engine
from gpu_checks.results import NEAR, NEAR_FACTOR

# Parts of fewer elements may consist of sums that all but cancel: their rounding is large beside what is left.
FEW = 8


@dataclasses.dataclass
class Outcome:
    """What the check of a case finds.

    Attributes:
      measured: differences and times by name, and other facts.
      problems: what is wrong, in words. None: the case passes.
      skipped: why there is nothing to check, or nothing.
    """

    measured: dict[str, float | str] = dataclasses.field(default_factory=dict)
    problems: list[str] = dataclasses.field(default_factory=list)
    skipped: str = ""

    def compare(self, peer: str, actual, expected, precision: str, regions=None, is_rounded: bool = False) -> None:
        """Measures the largest difference of results from a peer's, and notes what exceeds rounding.

        Args:
          peer: whose `expected` is.
          actual: float64 arrays by name.
          expected: the same.
          precision: the dtype whose rounding is allowed.
          regions: by name, slices that are compared by themselves, too.
          is_rounded: whether the peer rounds, too, so that both errors count.
        """
        allowed = parity.TOLERANCES[precision] * (2 if is_rounded else 1)
        for name in expected:
            difference = float(parity.difference(actual[name], expected[name], (regions or {}).get(name, ())))
            self.measured[peer] = max(difference, float(self.measured.get(peer, 0.0)))
            if not difference <= allowed:
                near = NEAR if difference < NEAR_FACTOR * allowed else ""
                self.problems.append(f"{name} differs from {peer} by {difference:.1e}, allowed are {allowed:.0e}{near}")

    def expect_same_bits(self, what: str, actual, expected) -> None:
        """Notes which of some tensors have other bits than they should have.

        Args:
          what: what the tensors in `actual` are from.
          actual: tensors by name.
          expected: the same.
        """
        for name in expected:
            if not golden_cases.same_bits(to_numpy(actual[name]), to_numpy(expected[name])):
                self.problems.append(f"{what}: {name} has other bits")

    def expect(self, is_right: bool, otherwise: str) -> None:
        """Notes a problem unless all is right."""
        if not is_right:
            self.problems.append(otherwise)


class Context(NamedTuple):
    """What the checks of a family are given.

    Attributes:
      engine: the engine and its device.
      archive: where golden data go.
      quick: whether to take small sizes where large ones are only to be timed.
    """

    engine: Engine
    archive: pathlib.Path
    quick: bool = False


Cases = Iterator[tuple[str, Callable[[], Outcome]]]


def float64(results: Mapping[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """Returns tensors as float64 arrays, but for a reserve_space."""
    return {name: tensor.cpu().double().numpy() for name, tensor in results.items() if name != "reserve_space"}


def regions(config: reference.Config, name: str = "params_backprop") -> dict[str, list[slice]]:
    """Returns the matrices and biases in a result like params: a wrong small one would hide behind a large one.

    Args:
      config: the network.
      name: the result's.
    """
    if config.has_projection and config.num_proj < FEW:
        return {}
    parts = []
    for weights in reference.unpack(config, np.arange(reference.params_size(config))):
        by_gate = [each for each in (weights.W, weights.R, weights.W_bias, weights.R_bias) if each is not None]
        parts += [gate for each in by_gate for gate in each]
        parts += [] if weights.P is None else [weights.P]
    return {name: [slice(part.min(), part.max() + 1) for part in parts if part.size >= FEW]}
