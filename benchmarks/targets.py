"""Where the engine has to arrive, and whether a run shows that it has."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeGuard

from cases import BACKWARD, FORWARD, FORWARD_BACKWARD, PENALTY, TANH, TASKS, Case, CellSteps, Network, PenalizedNetwork
from peers import KERAS, KERAS_UNROLLED, KERAS_XLA, ONNX_RUNTIME, OURS, PYTORCH, RAW_OPS
from run import Run
from sections import (
    CLIENTS,
    MAIN,
    NEIGHBOUR,
    SECOND_ORDER,
    THREADS_PER_CPU,
    WAIT_BESIDE_PRODUCTS,
    WAIT_BESIDE_SEQUENCES,
)


@dataclasses.dataclass(frozen=True)
class Target:
    """A bound on figures of several cases.

    Attributes:
      title: what the figures are.
      bound: what each has to reach, or the geometric mean of them.
      figures: the figure of each case that was measured, of a run.
      is_mean: whether the bound is on the geometric mean.
      at_most: whether a figure has to be the bound at most, and not at least.
    """

    title: str
    bound: float
    figures: Callable[[Run], Mapping[Case, float]]
    is_mean: bool = False
    at_most: bool = False

    @property
    def demand(self) -> str:
        """What has to be reached, in words."""
        return f"{'≤' if self.at_most else '≥'} {self.bound:g}{', geometric mean' if self.is_mean else ''}"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What a run says of a target.

    Attributes:
      target: the target.
      measured: the figure that counts; None if nothing was measured.
      where: the case that it belongs to, or how many cases the mean is of.
    """

    target: Target
    measured: float | None
    where: str

    @property
    def is_met(self) -> bool | None:
        """Whether the target has been reached; None if nothing was measured."""
        if self.measured is None:
            return None
        return self.measured <= self.target.bound if self.target.at_most else self.measured >= self.target.bound


def judge(run: Run, targets: Sequence[Target] | None = None) -> list[Verdict]:
    """Returns what a run says of each target: `TARGETS` unless others are given."""
    return [_judge(target, target.figures(run)) for target in (TARGETS if targets is None else targets)]


def judge_what_was_measured(run: Run) -> list[Verdict]:
    """Returns what a run says of the targets of those parts of the benchmark of which it has anything."""
    parts = [judge(run, targets) for targets in (TARGETS, SECOND_ORDER_TARGETS, SHARING_TARGETS)]
    return [each for part in parts if any(each.measured is not None for each in part) for each in part]


def _judge(target: Target, figures: Mapping[Case, float]) -> Verdict:
    if not figures:
        return Verdict(target, None, "")
    if target.is_mean:
        mean = math.exp(sum(map(math.log, figures.values())) / len(figures))
        return Verdict(target, mean, f"number of cases: {len(figures)}")
    worst = (max if target.at_most else min)(figures, key=lambda case: figures[case])
    return Verdict(target, figures[worst], worst.title)


def _ratios(
    is_meant: Callable[[Case], bool], task: str, *peers: str, section: str = MAIN
) -> Callable[[Run], Mapping[Case, float]]:
    """Returns a function of a run that gives how many times as fast as the fastest of these peers we are."""

    def figures(run: Run) -> dict[Case, float]:
        ratios = {case: run.ratio(case, task, peers, section) for case in run.cases(section) if is_meant(case)}
        return {case: ratio for case, ratio in ratios.items() if ratio is not None}

    return figures


def _where_amx(figures: Callable[[Run], Mapping[Case, float]]) -> Callable[[Run], Mapping[Case, float]]:
    """Returns a function that gives the figures of a run on a CPU with AMX, and none of another."""
    return lambda run: figures(run) if run.has_amx else {}


def _shares(task: str) -> Callable[[Run], Mapping[Case, float]]:
    """Returns a function of a run that gives our share of the best product, of networks of 512 units and more."""

    def figures(run: Run) -> dict[Case, float]:
        shares = {case: run.share(case, OURS, task) for case in run.cases() if _plain(case) and case.units >= 512}
        return {case: share for case, share in shares.items() if share is not None}

    return figures


def _memory(run: Run) -> dict[Case, float]:
    """Returns the memory of our training steps, that of Keras being 1."""
    cases = [case for case in run.memory_cases() if not isinstance(case, PenalizedNetwork)]
    ratios = {case: run.memory_ratio(case, KERAS) for case in cases}
    return {case: ratio for case, ratio in ratios.items() if ratio is not None}


def _penalized(run: Run) -> list[PenalizedNetwork]:
    return [case for case in run.cases(SECOND_ORDER) if isinstance(case, PenalizedNetwork)]


def _penalty_costs(run: Run) -> dict[Case, float]:
    """Returns the times of our penalties' gradients, those of plain training steps being 1."""
    costs = {case: run.penalty_cost(case, OURS) for case in _penalized(run)}
    return {case: cost for case, cost in costs.items() if cost is not None}


def _penalty_ratios(*peers: str) -> Callable[[Run], Mapping[Case, float]]:
    """Returns a function of a run that gives how many times as fast as the fastest of these peers penalties are."""

    def figures(run: Run) -> dict[Case, float]:
        ratios = {case: run.ratio(case, PENALTY, peers, SECOND_ORDER) for case in _penalized(run)}
        return {case: ratio for case, ratio in ratios.items() if ratio is not None}

    return figures


def _penalty_memory(run: Run) -> dict[Case, float]:
    """Returns the memory of our training steps with a penalty, that of those without being 1."""
    cases = [case for case in run.memory_cases() if isinstance(case, PenalizedNetwork)]
    ratios = {case: run.penalty_memory(case, OURS) for case in cases}
    return {case: ratio for case, ratio in ratios.items() if ratio is not None}


def _wait_for_small_op(percent: float) -> Callable[[Run], Mapping[Case, float]]:
    """Returns a function of a run that gives the wait beside our sequences, that beside matrix products being 1."""

    def figures(run: Run) -> dict[Case, float]:
        cases = run.cases(WAIT_BESIDE_SEQUENCES)
        pairs = {
            case: (
                run.find(case, OURS, TANH, WAIT_BESIDE_SEQUENCES),
                run.find(case, RAW_OPS, TANH, WAIT_BESIDE_PRODUCTS),
            )
            for case in cases
        }
        return {
            case: ours.wait(percent) / products.wait(percent)
            for case, (ours, products) in pairs.items()
            if ours and products
        }

    return figures


def _clients_wait(section: str) -> Callable[[Run], Mapping[Case, float]]:
    """Returns a function of a run that gives our 99th percentiles, the better library's being 1."""

    def figures(run: Run) -> dict[Case, float]:
        waits = {}
        for case in run.cases(section):
            ours = run.find(case, OURS, FORWARD, section)
            theirs = [found for peer in _SERVERS if (found := run.find(case, peer, FORWARD, section))]
            if ours and theirs:
                waits[case] = ours.wait(99) / min(each.wait(99) for each in theirs)
        return waits

    return figures


def _plain(case: Case, *cells: str) -> TypeGuard[Network]:
    return isinstance(case, Network) and case.is_plain and (not cells or case.cell in cells)


def _lstm(case: Case) -> TypeGuard[Network]:
    return _plain(case, "lstm")


def _lstm_of_one(case: Case) -> bool:
    return _lstm(case) and case.batch == 1


def _others(case: Case) -> bool:
    return _plain(case, "gru", "tanh")


def _cell(case: Case) -> bool:
    return isinstance(case, CellSteps)


def _bfloat16(case: Case) -> bool:
    return isinstance(case, Network) and case.dtype == "bfloat16"


def _network(case: Case) -> bool:
    return isinstance(case, Network)


_PYTORCH = _ratios(_plain, FORWARD_BACKWARD, PYTORCH)
_KERAS = _ratios(_plain, FORWARD_BACKWARD, KERAS, KERAS_XLA)
_CELL_GRAD = _ratios(_cell, BACKWARD, RAW_OPS)

TARGETS: Sequence[Target] = (
    Target("LSTM forward / ONNX Runtime", 1.0, _ratios(_lstm, FORWARD, ONNX_RUNTIME)),
    Target("LSTM forward / ONNX Runtime, batch 1", 1.1, _ratios(_lstm_of_one, FORWARD, ONNX_RUNTIME)),
    Target("GRU, tanh forward / ONNX Runtime", 1.3, _ratios(_others, FORWARD, ONNX_RUNTIME)),
    Target("forward + backward / PyTorch", 1.2, _PYTORCH),
    Target("forward + backward / PyTorch", 1.6, _PYTORCH, is_mean=True),
    Target("forward + backward / the better of Keras and Keras XLA", 1.3, _KERAS),
    Target("forward + backward / the better of Keras and Keras XLA", 2.5, _KERAS, is_mean=True),
    Target("share of the best product, units ≥ 512, forward", 0.85, _shares(FORWARD)),
    Target("share of the best product, units ≥ 512, forward + backward", 0.75, _shares(FORWARD_BACKWARD)),
    Target("GRUBlockCell / tf.raw_ops", 1.3, _ratios(_cell, FORWARD, RAW_OPS)),
    Target("GRUBlockCellGrad / tf.raw_ops", 3.0, _CELL_GRAD),
    Target("GRUBlockCellGrad / tf.raw_ops", 5.0, _CELL_GRAD, is_mean=True),
    Target("bfloat16 forward / PyTorch, with AMX", 1.1, _where_amx(_ratios(_bfloat16, FORWARD, PYTORCH))),
    Target(
        "bfloat16 forward + backward / PyTorch, with AMX",
        1.1,
        _where_amx(_ratios(_bfloat16, FORWARD_BACKWARD, PYTORCH)),
    ),
    Target("memory of a training step / Keras", 0.6, _memory, at_most=True),
)

_KERAS_PENALTIES = _penalty_ratios(KERAS, KERAS_XLA, KERAS_UNROLLED)

SECOND_ORDER_TARGETS: Sequence[Target] = (
    Target("penalty's gradient / forward + backward", 3.5, _penalty_costs, at_most=True),
    Target("penalty's gradient / the best of Keras, Keras XLA and Keras unrolled", 2.0, _KERAS_PENALTIES),
    Target("penalty's gradient / the best of Keras, Keras XLA and Keras unrolled", 3.0, _KERAS_PENALTIES, is_mean=True),
    Target("memory of a training step with a penalty / without", 3.0, _penalty_memory, at_most=True),
)

_SERVERS = (PYTORCH, ONNX_RUNTIME)

SHARING_TARGETS: Sequence[Target] = (
    Target("a small op's wait, median / beside matrix products", 1.5, _wait_for_small_op(50), at_most=True),
    Target("a small op's wait, 99th percentile / beside matrix products", 1.5, _wait_for_small_op(99), at_most=True),
    *(
        target
        for count, section in CLIENTS.items()
        if count > 1
        for target in (
            Target(
                f"{count} clients: requests a second / the better of PyTorch and ONNX Runtime",
                1.0,
                _ratios(_network, FORWARD, *_SERVERS, section=section),
            ),
            Target(
                f"{count} clients: 99th percentile / the better of PyTorch and ONNX Runtime",
                1.0,
                _clients_wait(section),
                at_most=True,
            ),
        )
    ),
    *(
        Target(f"{title}, {TASKS[task]} / the faster of PyTorch and ONNX Runtime", 1.0, ratios)
        for title, section in (
            ("one CPU is busy", NEIGHBOUR),
            *((f"{count} threads for each CPU", name) for count, name in THREADS_PER_CPU.items()),
        )
        for task in (FORWARD, FORWARD_BACKWARD)
        for ratios in [_ratios(_network, task, *_SERVERS, section=section)]
    ),
)

GPU_TARGETS: Sequence[Target] = (
    Target("CudnnRNN forward / tf.raw_ops", 0.98, _ratios(_network, FORWARD, RAW_OPS)),
    Target("CudnnRNN forward + backward / tf.raw_ops", 0.98, _ratios(_network, FORWARD_BACKWARD, RAW_OPS)),
    Target("CudnnRNN forward / PyTorch", 0.98, _ratios(_network, FORWARD, PYTORCH)),
    Target("CudnnRNN forward + backward / PyTorch", 0.98, _ratios(_network, FORWARD_BACKWARD, PYTORCH)),
    Target("GRUBlockCell / tf.raw_ops", 1.5, _ratios(_cell, FORWARD, RAW_OPS)),
    Target("GRUBlockCellGrad / tf.raw_ops", 1.5, _ratios(_cell, BACKWARD, RAW_OPS)),
)
