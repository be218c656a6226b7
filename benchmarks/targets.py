"""Performance targets, and whether a run meets them."""

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
    BUSY_CPU,
    CLIENTS,
    KERAS_CALLS,
    MAIN,
    MODELS,
    SECOND_ORDER,
    THREADS_PER_CPU,
    WAIT_WITH_PRODUCTS,
    WAIT_WITH_SEQUENCES,
    scaling,
)

# Returns the figure of each case that a run measured.
Figures = Callable[[Run], Mapping[Case, float]]


@dataclasses.dataclass(frozen=True)
class Target:
    """A bound on a figure of several cases.

    Attributes:
      title: describes the figure.
      bound: the bound on the figure of each case, or on their geometric mean.
      figures: returns the figure of each case that a run measured.
      is_mean: whether the bound applies to the geometric mean.
      at_most: whether the bound is an upper bound.
    """

    title: str
    bound: float
    figures: Figures
    is_mean: bool = False
    at_most: bool = False

    @property
    def demand(self) -> str:
        """The bound as text, such as "≥ 1.5"."""
        return f"{'≤' if self.at_most else '≥'} {self.bound:g}{', geometric mean' if self.is_mean else ''}"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The result of a run for a target.

    Attributes:
      target: the target.
      measured: the figure of the worst case, or the mean; None if nothing was measured.
      where: the worst case, or the number of cases in the mean.
    """

    target: Target
    measured: float | None
    where: str

    @property
    def is_met(self) -> bool | None:
        """Whether the target is met; None if nothing was measured."""
        if self.measured is None:
            return None
        return self.measured <= self.target.bound if self.target.at_most else self.measured >= self.target.bound


def judge(run: Run, targets: Sequence[Target]) -> list[Verdict]:
    """Returns the result of a run for each target."""
    return [_judge(target, target.figures(run)) for target in targets]


def judge_measured(run: Run) -> list[Verdict]:
    """Returns the results for the groups of targets of which a run measured anything."""
    parts = [judge(run, targets) for targets in GROUPS]
    return [each for part in parts if any(each.measured is not None for each in part) for each in part]


def _judge(target: Target, figures: Mapping[Case, float]) -> Verdict:
    if not figures:
        return Verdict(target, None, "")
    if target.is_mean:
        mean = math.exp(sum(map(math.log, figures.values())) / len(figures))
        return Verdict(target, mean, f"{len(figures)} cases")
    worst = (max if target.at_most else min)(figures, key=lambda case: figures[case])
    return Verdict(target, figures[worst], worst.title)


def _each(cases: Callable[[Run], Iterable[Case]], figure: Callable[[Run, Case], float | None]) -> Figures:
    """Returns a function that maps the cases of a run to their figures, and leaves out unmeasured ones."""

    def figures(run: Run) -> dict[Case, float]:
        found = {case: figure(run, case) for case in cases(run)}
        return {case: value for case, value in found.items() if value is not None}

    return figures


def _ratios(
    is_included: Callable[[Case], bool], task: str, *peers: str, section: str = MAIN, own: str = OURS
) -> Figures:
    """Returns a function that gives the speedup of `own` over the fastest of the peers."""
    return _each(
        lambda run: filter(is_included, run.cases(section)),
        lambda run, case: run.ratio(case, task, peers, section, own),
    )


def _time_under_xla(run: Run, case: Case) -> float | None:
    """Returns the time of a training step with XLA over that without XLA; None if the latter is below 1 ms."""
    plain, compiled = (run.seconds(case, peer, FORWARD_BACKWARD) for peer in (OURS, OURS_XLA))
    return compiled / plain if plain is not None and compiled is not None and plain >= 1e-3 else None


def _if_amx(figures: Figures) -> Figures:
    """Returns a function that gives the figures of runs on CPUs with AMX only."""
    return lambda run: figures(run) if run.has_amx else {}


def _shares(task: str) -> Figures:
    """Returns a function that gives our share of the fastest matmul, for networks of at least 512 units."""
    return _each(
        lambda run: [case for case in run.cases() if _plain(case) and case.units >= 512],
        lambda run, case: run.share(case, OURS, task),
    )


def _small_op(percent: float) -> Figures:
    """Returns a function that gives the latency with our sequences over that with matrix products."""

    def figure(run: Run, case: Case) -> float | None:
        ours = run.find(case, OURS, TANH, WAIT_WITH_SEQUENCES)
        products = run.find(case, RAW_OPS, TANH, WAIT_WITH_PRODUCTS)
        return ours.wait(percent) / products.wait(percent) if ours and products else None

    return _each(lambda run: run.cases(WAIT_WITH_SEQUENCES), figure)


def _empty_function_is_slower(run: Run, case: Case) -> bool:
    """Returns whether an empty `tf.function` takes longer than PyTorch's whole call of a model."""
    empty = run.seconds(case, OURS, EMPTY_FUNCTION, MODELS)
    pytorch = run.seconds(case, PYTORCH, FUNCTION, MODELS)
    return empty is not None and pytorch is not None and empty > pytorch


def _by_empty_function(is_slower: bool, figure: Callable[[Run, Case], float | None]) -> Figures:
    """Returns a function that gives the figures of the models whose `_empty_function_is_slower` equals `is_slower`."""
    return _each(
        lambda run: [case for case in run.cases(MODELS) if _empty_function_is_slower(run, case) == is_slower], figure
    )


def _overhead(run: Run, case: Case) -> float | None:
    """Returns the microseconds that a call of a model takes beyond the ops and an empty function."""
    seconds = run.model_overhead(case)
    return None if seconds is None else 1e6 * seconds


def _clients_wait(section: str) -> Figures:
    """Returns a function that gives our 99th percentile latency over the lower one of PyTorch and ONNX Runtime."""

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
_LSTM_BATCH_1 = _ratios(lambda case: _plain(case, "lstm") and case.batch == 1, FORWARD, ONNX_RUNTIME)
_OTHERS = _ratios(lambda case: _plain(case, "gru", "tanh"), FORWARD, ONNX_RUNTIME)
_PYTORCH = _ratios(_plain, FORWARD_BACKWARD, PYTORCH)
_KERAS = _ratios(_plain, FORWARD_BACKWARD, KERAS, KERAS_XLA)
_CELL_GRAD = _ratios(_cell, BACKWARD, RAW_OPS)
_MEMORY = _each(
    lambda run: [case for case in run.memory_cases() if not isinstance(case, PenalizedNetwork)],
    lambda run, case: run.memory_ratio(case, KERAS),
)

TARGETS: Sequence[Target] = (
    Target("LSTM forward: speedup over ONNX Runtime", 1.0, _LSTM),
    Target("LSTM forward, batch 1: speedup over ONNX Runtime", 1.1, _LSTM_BATCH_1),
    Target("GRU and tanh RNN forward: speedup over ONNX Runtime", 1.3, _OTHERS),
    Target("forward + backward: speedup over PyTorch", 1.2, _PYTORCH),
    Target("forward + backward: speedup over PyTorch", 1.6, _PYTORCH, is_mean=True),
    Target("forward + backward: speedup over the better of Keras and Keras XLA", 1.3, _KERAS),
    Target("forward + backward: speedup over the better of Keras and Keras XLA", 2.5, _KERAS, is_mean=True),
    Target(
        "forward + backward, at least 1 ms: time with XLA / without",
        1.05,
        _each(lambda run: filter(_network, run.cases()), _time_under_xla),
        at_most=True,
    ),
    Target(
        "forward + backward with XLA: speedup over Keras XLA",
        2.0,
        _ratios(_network, FORWARD_BACKWARD, KERAS_XLA, own=OURS_XLA),
    ),
    Target("forward, units ≥ 512: share of the fastest matmul", 0.85, _shares(FORWARD)),
    Target("forward + backward, units ≥ 512: share of the fastest matmul", 0.75, _shares(FORWARD_BACKWARD)),
    Target("GRUBlockCell: speedup over tf.raw_ops", 1.3, _ratios(_cell, FORWARD, RAW_OPS)),
    Target("GRUBlockCellGrad: speedup over tf.raw_ops", 3.0, _CELL_GRAD),
    Target("GRUBlockCellGrad: speedup over tf.raw_ops", 5.0, _CELL_GRAD, is_mean=True),
    Target("bfloat16 forward with AMX: speedup over PyTorch", 1.1, _if_amx(_ratios(_bfloat16, FORWARD, PYTORCH))),
    Target(
        "bfloat16 forward + backward with AMX: speedup over PyTorch",
        1.1,
        _if_amx(_ratios(_bfloat16, FORWARD_BACKWARD, PYTORCH)),
    ),
)

BETTER_KERAS = (KERAS, KERAS_XLA)
_MODEL_INFERENCE = _ratios(_model, FUNCTION, *BETTER_KERAS, section=MODELS)
_MODEL_TRAINING = _ratios(_model, TRAIN_ON_BATCH, *BETTER_KERAS, section=MODELS)

MODEL_TARGETS: Sequence[Target] = (
    *(
        Target(f"{TASKS[task]}: speedup over the better of Keras and Keras XLA", 1.0, ratios)
        for task, ratios in (
            (FUNCTION, _MODEL_INFERENCE),
            (TRAIN_ON_BATCH, _MODEL_TRAINING),
            *(
                (task, _ratios(_model, task, *BETTER_KERAS, section=KERAS_CALLS))
                for task in (SAVED_MODEL, PREDICT, FIT)
            ),
        )
    ),
    *(
        Target(f"{TASKS[task]}: speedup over the better of Keras and Keras XLA", bound, ratios, is_mean=True)
        for task, bound, ratios in ((FUNCTION, 1.8, _MODEL_INFERENCE), (TRAIN_ON_BATCH, 3.0, _MODEL_TRAINING))
    ),
    *(
        Target(
            f"{TASKS[task]} with XLA: speedup over Keras XLA",
            1.0,
            _ratios(_model, task, KERAS_XLA, section=MODELS, own=OURS_XLA),
        )
        for task in (FUNCTION, TRAIN_ON_BATCH)
    ),
    Target(
        "inference, if PyTorch takes longer than an empty tf.function: speedup over PyTorch",
        1.0,
        _by_empty_function(False, lambda run, case: run.ratio(case, FUNCTION, [PYTORCH], MODELS)),
    ),
    Target(
        "inference, otherwise: µs beyond an empty tf.function and the ops",
        60,
        _by_empty_function(True, _overhead),
        at_most=True,
    ),
    Target("training: speedup over PyTorch", 1.0, _ratios(_model, TRAIN_ON_BATCH, PYTORCH, section=MODELS)),
)

_KERAS_PENALTIES = _ratios(_network, PENALTY, KERAS, KERAS_XLA, KERAS_UNROLLED, section=SECOND_ORDER)
_PENALTY_COSTS = _each(lambda run: run.cases(SECOND_ORDER), lambda run, case: run.penalty_cost(case, OURS))
_PENALTY_MEMORY = _each(Run.memory_cases, lambda run, case: run.penalty_memory(case, OURS))

SECOND_ORDER_TARGETS: Sequence[Target] = (
    Target("penalty gradient: time / forward + backward", 3.5, _PENALTY_COSTS, at_most=True),
    Target("penalty gradient: speedup over the best of Keras, Keras XLA and Keras unrolled", 2.0, _KERAS_PENALTIES),
    Target(
        "penalty gradient: speedup over the best of Keras, Keras XLA and Keras unrolled",
        3.0,
        _KERAS_PENALTIES,
        is_mean=True,
    ),
)

MEMORY_TARGETS: Sequence[Target] = (
    Target("memory of a training step / Keras", 0.6, _MEMORY, at_most=True),
    Target("memory of a training step with a gradient penalty / without", 3.0, _PENALTY_MEMORY, at_most=True),
)

_SERVERS = (PYTORCH, ONNX_RUNTIME)

SHARING_TARGETS: Sequence[Target] = (
    *(
        Target(f"small op, {name}: with sequences / with matrix products", 1.5, _small_op(percent), at_most=True)
        for name, percent in (("median latency", 50), ("99th percentile latency", 99))
    ),
    *(
        target
        for count, section in CLIENTS.items()
        if count > 1
        for target in (
            Target(
                f"{count} clients: requests per second / the better of PyTorch and ONNX Runtime",
                1.0,
                _ratios(_network, FORWARD, *_SERVERS, section=section),
            ),
            Target(
                f"{count} clients: 99th percentile latency / the better of PyTorch and ONNX Runtime",
                1.0,
                _clients_wait(section),
                at_most=True,
            ),
        )
    ),
    *(
        Target(f"{title}, {TASKS[task]}: speedup over the faster of PyTorch and ONNX Runtime", 1.0, ratios)
        for title, section in (
            ("one busy CPU", BUSY_CPU),
            *((f"{count} threads per CPU", name) for count, name in THREADS_PER_CPU.items()),
        )
        for task in (FORWARD, FORWARD_BACKWARD)
        for ratios in [_ratios(_network, task, *_SERVERS, section=section)]
    ),
)


def _worst(figure: Callable[[Run, Case, str, int], float | None], worst: Callable, least_threads: int = 1) -> Figures:
    """Returns a function that gives the worst figure over tasks and numbers of threads, of the scaling benchmark."""

    def figures(run: Run) -> dict[Case, float]:
        found: dict[Case, list[float]] = {}
        for threads in run.num_threads():
            for case in run.cases(scaling(threads)):
                values = [figure(run, case, task, threads) for task in case.tasks if threads >= least_threads]
                found.setdefault(case, []).extend(value for value in values if value is not None)
        return {case: worst(values) for case, values in found.items() if values}

    return figures


def _speedup(run: Run, case: Case, task: str, threads: int) -> float | None:
    return run.ratio(case, task, _SERVERS, scaling(threads))


def _efficiency(run: Run, case: Case, task: str, threads: int) -> float | None:
    """Returns the efficiency for networks that have enough work for all threads."""
    is_large = isinstance(case, Network) and case.batch >= 32 and case.units >= 512
    return run.efficiency(case, task, threads) if is_large else None


def _slowdown(run: Run, case: Case, task: str, threads: int) -> float | None:
    """Returns the time over the shortest one with fewer threads."""
    own = run.seconds(case, OURS, task, scaling(threads))
    fewer = [run.seconds(case, OURS, task, scaling(count)) for count in run.num_threads() if count < threads]
    known = [seconds for seconds in fewer if seconds is not None]
    return own / min(known) if own is not None and known else None


SCALING_TARGETS: Sequence[Target] = (
    Target(
        "at least 8 threads: speedup over the faster of PyTorch and ONNX Runtime",
        1.0,
        _worst(_speedup, min, least_threads=8),
    ),
    Target(
        "16 threads, batch ≥ 32, units ≥ 512: speedup over one thread / threads",
        0.7,
        _worst(_efficiency, min, least_threads=16),
    ),
    Target("time / time with fewer threads", 1.05, _worst(_slowdown, max), at_most=True),
)

GROUPS = (MODEL_TARGETS, TARGETS, SHARING_TARGETS, MEMORY_TARGETS, SECOND_ORDER_TARGETS)

GPU_TARGETS: Sequence[Target] = (
    Target("CudnnRNN forward: speedup over tf.raw_ops", 0.98, _ratios(_network, FORWARD, RAW_OPS)),
    Target("CudnnRNN forward + backward: speedup over tf.raw_ops", 0.98, _ratios(_network, FORWARD_BACKWARD, RAW_OPS)),
    Target("CudnnRNN forward: speedup over PyTorch", 0.98, _ratios(_network, FORWARD, PYTORCH)),
    Target("CudnnRNN forward + backward: speedup over PyTorch", 0.98, _ratios(_network, FORWARD_BACKWARD, PYTORCH)),
    Target("GRUBlockCell: speedup over tf.raw_ops", 1.5, _ratios(_cell, FORWARD, RAW_OPS)),
    Target("GRUBlockCellGrad: speedup over tf.raw_ops", 1.5, _ratios(_cell, BACKWARD, RAW_OPS)),
)
