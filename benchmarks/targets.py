"""Where the engine has to arrive, and whether a run shows that it has."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeGuard

from cases import (
    BACKWARD,
    EMPTY_FUNCTION,
    FIT,
    FORWARD,
    FORWARD_BACKWARD,
    FUNCTION,
    PENALTY,
    PREDICT,
    SAVED_MODEL,
    TANH,
    TASKS,
    TRAIN_ON_BATCH,
    Case,
    CellSteps,
    Model,
    Network,
    PenalizedNetwork,
)
from peers import KERAS, KERAS_UNROLLED, KERAS_XLA, ONNX_RUNTIME, OURS, OURS_XLA, PYTORCH, RAW_OPS
from run import Run
from sections import (
    CLIENTS,
    KERAS_CALLS,
    MAIN,
    MODELS,
    NEIGHBOUR,
    SECOND_ORDER,
    THREADS_PER_CPU,
    WAIT_BESIDE_PRODUCTS,
    WAIT_BESIDE_SEQUENCES,
)

# The figure of each case that was measured, of a run.
Figures = Callable[[Run], Mapping[Case, float]]


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
    figures: Figures
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


def judge(run: Run, targets: Sequence[Target]) -> list[Verdict]:
    """Returns what a run says of each target."""
    return [_judge(target, target.figures(run)) for target in targets]


def judge_what_was_measured(run: Run) -> list[Verdict]:
    """Returns what a run says of the targets of those parts of the benchmark of which it has anything."""
    parts = [judge(run, targets) for targets in (MODEL_TARGETS, TARGETS, SECOND_ORDER_TARGETS, SHARING_TARGETS)]
    return [each for part in parts if any(each.measured is not None for each in part) for each in part]


def _judge(target: Target, figures: Mapping[Case, float]) -> Verdict:
    if not figures:
        return Verdict(target, None, "")
    if target.is_mean:
        mean = math.exp(sum(map(math.log, figures.values())) / len(figures))
        return Verdict(target, mean, f"number of cases: {len(figures)}")
    worst = (max if target.at_most else min)(figures, key=lambda case: figures[case])
    return Verdict(target, figures[worst], worst.title)


def _each(cases: Callable[[Run], Iterable[Case]], figure: Callable[[Run, Case], float | None]) -> Figures:
    """Returns a function of a run that gives a figure of each of some cases, as far as it was measured."""

    def figures(run: Run) -> dict[Case, float]:
        found = {case: figure(run, case) for case in cases(run)}
        return {case: value for case, value in found.items() if value is not None}

    return figures


def _ratios(is_meant: Callable[[Case], bool], task: str, *peers: str, section: str = MAIN, own: str = OURS) -> Figures:
    """Returns a function of a run that gives how many times as fast as the fastest of these peers `own` is."""
    return _each(
        lambda run: filter(is_meant, run.cases(section)), lambda run, case: run.ratio(case, task, peers, section, own)
    )


def _time_under_xla(run: Run, case: Case) -> float | None:
    """Returns what a step of training under XLA takes, that without being 1; None of less than a millisecond."""
    plain, compiled = (run.seconds(case, peer, FORWARD_BACKWARD) for peer in (OURS, OURS_XLA))
    return compiled / plain if plain is not None and compiled is not None and plain >= 1e-3 else None


def _where_amx(figures: Figures) -> Figures:
    """Returns a function that gives the figures of a run on a CPU with AMX, and none of another."""
    return lambda run: figures(run) if run.has_amx else {}


def _shares(task: str) -> Figures:
    """Returns a function of a run that gives our share of the best product, of networks of 512 units and more."""
    return _each(
        lambda run: [case for case in run.cases() if _plain(case) and case.units >= 512],
        lambda run, case: run.share(case, OURS, task),
    )


def _wait_for_small_op(percent: float) -> Figures:
    """Returns a function of a run that gives the wait beside our sequences, that beside matrix products being 1."""

    def figure(run: Run, case: Case) -> float | None:
        ours = run.find(case, OURS, TANH, WAIT_BESIDE_SEQUENCES)
        products = run.find(case, RAW_OPS, TANH, WAIT_BESIDE_PRODUCTS)
        return ours.wait(percent) / products.wait(percent) if ours and products else None

    return _each(lambda run: run.cases(WAIT_BESIDE_SEQUENCES), figure)


def _empty_function_is_slower(run: Run, case: Case) -> bool:
    """Returns whether an empty `tf.function` takes longer than PyTorch's whole call of a model."""
    empty = run.seconds(case, OURS, EMPTY_FUNCTION, MODELS)
    theirs = run.seconds(case, PYTORCH, FUNCTION, MODELS)
    return empty is not None and theirs is not None and empty > theirs


def _where_empty_function(is_slower: bool, figure: Callable[[Run, Case], float | None]) -> Figures:
    """Returns a function of a run that gives the figures of the models of which `_empty_function_is_slower` says so."""
    return _each(
        lambda run: [case for case in run.cases(MODELS) if _empty_function_is_slower(run, case) == is_slower], figure
    )


def _overhead(run: Run, case: Case) -> float | None:
    """Returns the microseconds of a call of a model beyond the ops and an empty function."""
    seconds = run.model_overhead(case)
    return None if seconds is None else 1e6 * seconds


def _clients_wait(section: str) -> Figures:
    """Returns a function of a run that gives our 99th percentiles, the better library's being 1."""

    def figure(run: Run, case: Case) -> float | None:
        ours = run.find(case, OURS, FORWARD, section)
        theirs = [found for peer in _SERVERS if (found := run.find(case, peer, FORWARD, section))]
        return ours.wait(99) / min(each.wait(99) for each in theirs) if ours and theirs else None

    return _each(lambda run: run.cases(section), figure)


def _plain(case: Case, *cells: str) -> TypeGuard[Network]:
    return isinstance(case, Network) and case.is_plain and (not cells or case.cell in cells)


def _cell(case: Case) -> bool:
    return isinstance(case, CellSteps)


def _bfloat16(case: Case) -> bool:
    return isinstance(case, Network) and case.dtype == "bfloat16"


def _network(case: Case) -> bool:
    return isinstance(case, Network)


def _model(case: Case) -> bool:
    return isinstance(case, Model)


_LSTM = _ratios(lambda case: _plain(case, "lstm"), FORWARD, ONNX_RUNTIME)
_LSTM_OF_ONE = _ratios(lambda case: _plain(case, "lstm") and case.batch == 1, FORWARD, ONNX_RUNTIME)
_OTHERS = _ratios(lambda case: _plain(case, "gru", "tanh"), FORWARD, ONNX_RUNTIME)
_PYTORCH = _ratios(_plain, FORWARD_BACKWARD, PYTORCH)
_KERAS = _ratios(_plain, FORWARD_BACKWARD, KERAS, KERAS_XLA)
_CELL_GRAD = _ratios(_cell, BACKWARD, RAW_OPS)
# Keras's being 1.
_MEMORY = _each(
    lambda run: [case for case in run.memory_cases() if not isinstance(case, PenalizedNetwork)],
    lambda run, case: run.memory_ratio(case, KERAS),
)

TARGETS: Sequence[Target] = (
    Target("LSTM forward / ONNX Runtime", 1.0, _LSTM),
    Target(
        "LSTM forward / ONNX Runtime, batch 1",
        1.1,
        _LSTM_OF_ONE,
    ),
    Target(
        "GRU, tanh forward / ONNX Runtime",
        1.3,
        _OTHERS,
    ),
    Target("forward + backward / PyTorch", 1.2, _PYTORCH),
    Target("forward + backward / PyTorch", 1.6, _PYTORCH, is_mean=True),
    Target("forward + backward / the better of Keras and Keras XLA", 1.3, _KERAS),
    Target("forward + backward / the better of Keras and Keras XLA", 2.5, _KERAS, is_mean=True),
    Target(
        "forward + backward under XLA / without, from 1 ms on",
        1.05,
        _each(lambda run: filter(_network, run.cases()), _time_under_xla),
        at_most=True,
    ),
    Target(
        "forward + backward under XLA / Keras XLA", 2.0, _ratios(_network, FORWARD_BACKWARD, KERAS_XLA, own=OURS_XLA)
    ),
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
    Target("memory of a training step / Keras", 0.6, _MEMORY, at_most=True),
)

BETTER_KERAS = (KERAS, KERAS_XLA)
_MODEL_INFERENCE = _ratios(_model, FUNCTION, *BETTER_KERAS, section=MODELS)
_MODEL_TRAINING = _ratios(_model, TRAIN_ON_BATCH, *BETTER_KERAS, section=MODELS)

MODEL_TARGETS: Sequence[Target] = (
    *(
        Target(f"{TASKS[task]} / the better of Keras and Keras XLA", 1.0, ratios)
        for task, ratios in (
            (FUNCTION, _MODEL_INFERENCE),
            (TRAIN_ON_BATCH, _MODEL_TRAINING),
            *(
                (task, _ratios(_model, task, *BETTER_KERAS, section=KERAS_CALLS))
                for task in (SAVED_MODEL, PREDICT, FIT)
            ),
        )
    ),
    Target(f"{TASKS[FUNCTION]} / the better of Keras and Keras XLA", 1.8, _MODEL_INFERENCE, is_mean=True),
    Target(f"{TASKS[TRAIN_ON_BATCH]} / the better of Keras and Keras XLA", 3.0, _MODEL_TRAINING, is_mean=True),
    *(
        Target(
            f"{TASKS[task]}, accelerated under XLA / Keras XLA",
            1.0,
            _ratios(_model, task, KERAS_XLA, section=MODELS, own=OURS_XLA),
        )
        for task in (FUNCTION, TRAIN_ON_BATCH)
    ),
    Target(
        "inference / PyTorch, where that takes longer than an empty tf.function",
        1.0,
        _where_empty_function(False, lambda run, case: run.ratio(case, FUNCTION, [PYTORCH], MODELS)),
    ),
    Target(
        "inference elsewhere, µs beyond an empty tf.function and the ops",
        60,
        _where_empty_function(True, _overhead),
        at_most=True,
    ),
    Target("training / PyTorch", 1.0, _ratios(_model, TRAIN_ON_BATCH, PYTORCH, section=MODELS)),
)

_KERAS_PENALTIES = _ratios(_network, PENALTY, KERAS, KERAS_XLA, KERAS_UNROLLED, section=SECOND_ORDER)
# Those of plain training steps being 1.
_PENALTY_COSTS = _each(lambda run: run.cases(SECOND_ORDER), lambda run, case: run.penalty_cost(case, OURS))
_PENALTY_MEMORY = _each(Run.memory_cases, lambda run, case: run.penalty_memory(case, OURS))

SECOND_ORDER_TARGETS: Sequence[Target] = (
    Target("penalty's gradient / forward + backward", 3.5, _PENALTY_COSTS, at_most=True),
    Target("penalty's gradient / the best of Keras, Keras XLA and Keras unrolled", 2.0, _KERAS_PENALTIES),
    Target("penalty's gradient / the best of Keras, Keras XLA and Keras unrolled", 3.0, _KERAS_PENALTIES, is_mean=True),
    Target("memory of a training step with a penalty / without", 3.0, _PENALTY_MEMORY, at_most=True),
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
