"""The outcome of a check of one case, and comparisons."""

import dataclasses
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import cudnn_rnn_reference as reference
import golden_cases
import numpy as np
import parity
import torch

from gpu_checks.arrays import to_numpy
from gpu_checks.engine import Engine
from gpu_checks.results import NEAR, NEAR_FACTOR

# Smaller parts are not compared separately: all of their sums may nearly cancel, with a large relative error.
FEW = 8


@dataclasses.dataclass
class Outcome:
    """The outcome of the check of a case.

    Attributes:
      measured: differences and times by name, and other facts.
      problems: error messages; empty if the case passes.
      skipped: reason if the case was skipped, else empty.
    """

    measured: dict[str, float | str] = dataclasses.field(default_factory=dict)
    problems: list[str] = dataclasses.field(default_factory=list)
    skipped: str = ""

    def compare(self, peer: str, actual, expected, precision: str, regions=None, is_rounded: bool = False) -> None:
        """Measures the largest difference from the results of a peer, and reports differences larger than rounding.

        Args:
          peer: name of the source of `expected`.
          actual: float64 arrays by name.
          expected: float64 arrays by name.
          precision: dtype of the allowed rounding.
          regions: slices to compare separately, too, by name.
          is_rounded: whether the peer rounds, too; doubles the tolerance.
        """
        tolerance = parity.TOLERANCES[precision] * (2 if is_rounded else 1)
        # cuDNN rounds sums over time to 16 bits, which is visible in small regions.
        in_regions = tolerance * (2 if precision in ("float16", "bfloat16") else 1)
        for name in expected:
            checks: list[tuple[str, float, Sequence[slice]]] = [("", tolerance, ())]
            if regions and name in regions:
                checks.append((" in a region", in_regions, regions[name]))
            for where, allowed, parts in checks:
                difference = float(parity.difference(actual[name], expected[name], parts))
                self.measured[f"{peer}{where}"] = max(difference, float(self.measured.get(f"{peer}{where}", 0.0)))
                if not difference <= allowed:
                    near = NEAR if difference < NEAR_FACTOR * allowed else ""
                    self.problems.append(
                        f"{name} differs from {peer}{where} by {difference:.1e}, tolerance {allowed:.0e}{near}"
                    )

    def expect_same_bits(self, what: str, actual, expected) -> None:
        """Checks that tensors have the expected bits.

        Args:
          what: description of `actual`.
          actual: tensors by name.
          expected: tensors by name.
        """
        for name in expected:
            if not golden_cases.same_bits(to_numpy(actual[name]), to_numpy(expected[name])):
                self.problems.append(f"{what}: {name} differs in bits")

    def expect(self, condition: bool, problem: str) -> None:
        """Reports a problem unless a condition holds."""
        if not condition:
            self.problems.append(problem)


class Context(NamedTuple):
    """The context of the checks of a family.

    Attributes:
      engine: the engine and its device.
      archive: file for golden data.
      quick: whether to time small sizes instead of large ones.
    """

    engine: Engine
    archive: pathlib.Path
    quick: bool = False


Cases = Iterator[tuple[str, Callable[[], Outcome]]]


def float64(results: Mapping[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """Converts tensors to float64 arrays, except reserve_space."""
    return {name: tensor.cpu().double().numpy() for name, tensor in results.items() if name != "reserve_space"}


def regions(config: reference.Config, name: str = "params_backprop") -> dict[str, list[slice]]:
    """Returns slices of the matrices and biases in params. Compared separately, errors in small ones are visible.

    Args:
      config: the network.
      name: name of the result with the layout of params.
    """
    if config.has_projection and config.num_proj < FEW:
        return {}
    parts = []
    for weights in reference.unpack(config, np.arange(reference.params_size(config))):
        by_gate = [each for each in (weights.W, weights.R, weights.W_bias, weights.R_bias) if each is not None]
        parts += [gate for each in by_gate for gate in each]
        parts += [] if weights.P is None else [weights.P]
    return {name: [slice(part.min(), part.max() + 1) for part in parts if part.size >= FEW]}
