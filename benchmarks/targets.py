"""Performance targets, and whether a run meets them."""

import dataclasses
import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

from cases import (
    BACKWARD,
    EMPTY_FUNCTION,
    FIT,
    FORWARD,
    FORWARD_BACKWARD,
    FUNCTION,
    MEMORY,
    PENALTY,
    PREDICT,
    SAVED_MODEL,
    SERVE_IN_C,
    SERVE_IN_PYTHON,
    TANH,
    TRAIN_ON_BATCH,
    Case,
)
from results import Figure, Run, call_part, efficiency, least, median, over, share, speedup, wait
from sections import (
    BUSY_CPU,
    CLIENTS,
    KERAS,
    KERAS_CALLS,
    KERAS_UNROLLED,
    KERAS_XLA,
    MAIN,
    MODELS,
    ONNX_RUNTIME,
    ONNX_RUNTIME_INT8,
    OURS,
    OURS_INT8,
    OURS_PACKED,
    OURS_XLA,
    PYTORCH,
    RAW_OPS,
    SECOND_ORDER,
    SERVING,
    SERVING_CLIENTS,
    THREADS_PER_CPU,
    WAIT_WITH_PRODUCTS,
    WAIT_WITH_SEQUENCES,
    scaling,
)


class Target(NamedTuple):
    """A bound on a figure of several cases.

    Attributes:
      section: the section; if it ends with a slash, all whose names begin so.
      title: describes the figure.
      bound: the bound on the figure of each case, or on their geometric mean, such as "≥ 1.6, geometric mean".
      figures: the figures, of which the worst of a case counts. They are None for cases that do not count.
    """

    section: str
    title: str
    bound: str
    figures: Sequence[Figure]


class Verdict(NamedTuple):
    """The result of a run for a target."""

    target: Target
    measured: float | None  # the figure of the worst case, or the mean; None if nothing was measured
    where: str = ""  # the worst case, or the number of cases in the mean

    @property
    def is_met(self) -> bool | None:
        """Whether the target is met; None if nothing was measured."""
        if self.measured is None:
            return None
        sign, bound = self.target.bound.removesuffix(", geometric mean").split()
        return self.measured <= float(bound) if sign == "≤" else self.measured >= float(bound)


def judge(run: Run, targets: Sequence[Target]) -> list[Verdict]:
    """Returns the result of a run for each target."""
    return [_judge(run, target) for target in targets]


def judge_measured(run: Run) -> list[Verdict]:
    """Returns the results for the groups of targets of which a run measured anything."""
    groups = [judge(run, targets) for targets in GROUPS.values()]
    return [each for group in groups if any(each.measured is not None for each in group) for each in group]


def _judge(run: Run, target: Target) -> Verdict:
    worst = max if target.bound.startswith("≤") else min
    measured = dict.fromkeys(each.section for each in run.measurements)
    all_of = target.section if target.section.endswith("/") else "no section"
    figures: dict[Case, list[float]] = {}
    for section in (name for name in measured if name == target.section or name.startswith(all_of)):
        for case in run.cases(section):
            values = [figure(run, section, case) for figure in target.figures]
            figures.setdefault(case, []).extend(value for value in values if value is not None)
    of_cases = {case: worst(values) for case, values in figures.items() if values}
    if not of_cases:
        return Verdict(target, None)
    if "mean" in target.bound:
        return Verdict(target, statistics.geometric_mean(of_cases.values()), f"{len(of_cases)} cases")
    case = worst(of_cases, key=lambda case: of_cases[case])
    return Verdict(target, of_cases[case], case.title)


# ---------------------------------------------------------------- figures of some cases


def _if(condition: Callable[[Run, str, Case], bool | None], *figures: Figure) -> list[Figure]:
    """Returns figures that are None unless a condition holds."""

    def conditional(figure: Figure) -> Figure:
        return lambda run, row, case: figure(run, row, case) if condition(run, row, case) else None

    return [conditional(figure) for figure in figures]


def _of(condition: Callable[[Case], bool], *figures: Figure) -> list[Figure]:
    """Returns figures that are None unless a case fulfills a condition."""
    return _if(lambda _, __, case: condition(case), *figures)


def _plain(*figures: Figure, cells: Sequence[str] = ("lstm", "gru", "tanh"), units: int = 0, batch: int = 0):
    """Returns figures of plain networks of some cells, with at least so many units, of one batch size if given."""
    return _of(
        lambda case: (
            case.is_plain and case.cell in cells and case.units >= units and case.batch == (batch or case.batch)
        ),
        *figures,
    )


def _networks(*figures: Figure, dtype: str = "") -> list[Figure]:
    return _of(lambda case: case.has_network and case.dtype == (dtype or case.dtype), *figures)


def _cells(*figures: Figure) -> list[Figure]:
    return _of(lambda case: case.kind == "gru_block_cell", *figures)


def _amx(*figures: Figure) -> list[Figure]:
    return _if(lambda run, _, __: run.has_amx, *_networks(*figures, dtype="bfloat16"))


def _takes_a_millisecond(run: Run, row: str, case: Case) -> bool:
    return (median(FORWARD_BACKWARD)(run, row, case) or 0) >= 1e-3


def _empty_function_is_slower(run: Run, row: str, case: Case) -> bool | None:
    """Returns whether an empty `tf.function` takes longer than PyTorch's whole call of a model."""
    ratio = over(median(EMPTY_FUNCTION), median(FUNCTION, PYTORCH))(run, row, case)
    return None if ratio is None else ratio > 1


def _empty_function_is_faster(run: Run, row: str, case: Case) -> bool:
    return _empty_function_is_slower(run, row, case) is False


def penalty_memory(peer: str = OURS) -> Figure:
    """Returns the memory of a step with a penalty over that of the same step without."""

    def without(run: Run, row: str, case: Case) -> float | None:
        return median(MEMORY, peer)(run, row, dataclasses.replace(case, kind="network"))

    return _of(lambda case: case.kind == "penalty", over(median(MEMORY, peer), without))[0]


def _threads(row: str) -> int:
    return int(row.removeprefix(scaling("")))


def _slowdown(task: str) -> Figure:
    """Returns the time over the shortest one with fewer threads."""

    def fewer(run: Run, row: str, case: Case) -> float | None:
        counts = [count for count in run.num_threads() if count < _threads(row)]
        return least([median(task, section=scaling(count)) for count in counts])(run, row, case)

    return over(median(task), fewer)


def _efficient(task: str) -> Figure:
    return lambda run, row, case: efficiency(task, _threads(row))(run, row, case)


def _has_work_for_16_threads(run: Run, row: str, case: Case) -> bool:
    return _threads(row) >= 16 and case.batch >= 32 and case.units >= 512


def _has_8_threads(run: Run, row: str, case: Case) -> bool:
    return _threads(row) >= 8


def _in_c(own: str, peer: str) -> Figure:
    """Returns the requests per second of one of our SavedModels in the C program over those of ONNX Runtime."""
    return over(median(SERVE_IN_PYTHON, peer), median(SERVE_IN_C, own))


def _extra_wait(run: Run, row: str, case: Case) -> float | None:
    """Returns the median µs of a request to packed weights in the C program minus those of ONNX Runtime."""
    ours = wait(50, SERVE_IN_C, OURS_PACKED)(run, row, case)
    onnx = wait(50, SERVE_IN_PYTHON, ONNX_RUNTIME)(run, row, case)
    return None if ours is None or onnx is None else 1e3 * (ours - onnx)


def _has_one_client(run: Run, row: str, case: Case) -> bool:
    return row == SERVING_CLIENTS[1]


def _sequences(*figures: Figure) -> list[Figure]:
    return _of(lambda case: case.time >= 10, *figures)


def _large_and_few(*figures: Figure) -> list[Figure]:
    return _of(lambda case: case.batch <= 8 and case.units >= 384, *figures)


PENALTY_COST = over(median(PENALTY), median(FORWARD_BACKWARD))
MEMORY_OVER_KERAS = _of(lambda case: case.kind == "network", over(median(MEMORY), median(MEMORY, KERAS)))[0]
_BOTH = (FORWARD, FORWARD_BACKWARD)
_SERVERS = (PYTORCH, ONNX_RUNTIME)
_ONNX, _TORCH = speedup(FORWARD, ONNX_RUNTIME), speedup(FORWARD_BACKWARD, PYTORCH)
_KERAS = {task: speedup(task, KERAS, KERAS_XLA) for task in (FORWARD_BACKWARD, FUNCTION, TRAIN_ON_BATCH)}
_XLA = {task: speedup(task, KERAS_XLA, own=OURS_XLA) for task in (FORWARD_BACKWARD, FUNCTION, TRAIN_ON_BATCH)}
_BLOCK = {task: speedup(task, RAW_OPS) for task in (FORWARD, BACKWARD)}
_PENALTY = speedup(PENALTY, KERAS, KERAS_XLA, KERAS_UNROLLED)
_SMALL_OP = {p: over(wait(p, TANH), wait(p, TANH, RAW_OPS, WAIT_WITH_PRODUCTS)) for p in (50, 99)}
_CLIENTS_WAIT = over(wait(99, FORWARD), least([wait(99, FORWARD, peer) for peer in _SERVERS]))
_PACKED, _INT8 = _in_c(OURS_PACKED, ONNX_RUNTIME), _in_c(OURS_INT8, ONNX_RUNTIME_INT8)
_ONE_STEP = _if(_has_one_client, *_of(lambda case: case.time == 1, _extra_wait))

# ---------------------------------------------------------------- the targets

_BETTER_KERAS = "speedup over the better of Keras and Keras XLA"
_BEST_KERAS = "penalty gradient: speedup over the best of Keras, Keras XLA and Keras unrolled"
_FASTER = "speedup over the faster of PyTorch and ONNX Runtime"
_BETTER = "the better of PyTorch and ONNX Runtime"
_SEQUENCES = "with sequences / with matrix products"


def _targets(section: str, *rows: tuple[str, str, Sequence[Figure]]) -> list[Target]:
    return [Target(section, *row) for row in rows]


# By the parts of the report.
GROUPS = {
    "Keras models": [
        *_targets(
            MODELS,
            (f"tf.function: {_BETTER_KERAS}", "≥ 1", [_KERAS[FUNCTION]]),
            (f"train_on_batch: {_BETTER_KERAS}", "≥ 1", [_KERAS[TRAIN_ON_BATCH]]),
        ),
        *_targets(
            KERAS_CALLS,
            *(
                (f"{task}: {_BETTER_KERAS}", "≥ 1", [speedup(task, KERAS, KERAS_XLA)])
                for task in (SAVED_MODEL, PREDICT, FIT)
            ),
        ),
        *_targets(
            MODELS,
            (f"tf.function: {_BETTER_KERAS}", "≥ 1.8, geometric mean", [_KERAS[FUNCTION]]),
            (f"train_on_batch: {_BETTER_KERAS}", "≥ 3, geometric mean", [_KERAS[TRAIN_ON_BATCH]]),
            ("tf.function with XLA: speedup over Keras XLA", "≥ 1", [_XLA[FUNCTION]]),
            ("train_on_batch with XLA: speedup over Keras XLA", "≥ 1", [_XLA[TRAIN_ON_BATCH]]),
            (
                "inference, if PyTorch takes longer than an empty tf.function: speedup over PyTorch",
                "≥ 1",
                _if(_empty_function_is_faster, speedup(FUNCTION, PYTORCH)),
            ),
            (
                "inference, otherwise: µs beyond an empty tf.function and the ops",
                "≤ 60",
                _if(_empty_function_is_slower, call_part("other")),
            ),
            ("training: speedup over PyTorch", "≥ 1", [speedup(TRAIN_ON_BATCH, PYTORCH)]),
        ),
    ],
    "ops": _targets(
        MAIN,
        ("LSTM forward: speedup over ONNX Runtime", "≥ 1", _plain(_ONNX, cells=["lstm"])),
        ("LSTM forward, batch 1: speedup over ONNX Runtime", "≥ 1.1", _plain(_ONNX, cells=["lstm"], batch=1)),
        ("GRU and tanh RNN forward: speedup over ONNX Runtime", "≥ 1.3", _plain(_ONNX, cells=["gru", "tanh"])),
        ("forward + backward: speedup over PyTorch", "≥ 1.2", _plain(_TORCH)),
        ("forward + backward: speedup over PyTorch", "≥ 1.6, geometric mean", _plain(_TORCH)),
        (f"forward + backward: {_BETTER_KERAS}", "≥ 1.3", _plain(_KERAS[FORWARD_BACKWARD])),
        (f"forward + backward: {_BETTER_KERAS}", "≥ 2.5, geometric mean", _plain(_KERAS[FORWARD_BACKWARD])),
        (
            "forward + backward, at least 1 ms: time with XLA / without",
            "≤ 1.05",
            _if(_takes_a_millisecond, *_networks(speedup(FORWARD_BACKWARD, OURS_XLA))),
        ),
        ("forward + backward with XLA: speedup over Keras XLA", "≥ 2", _networks(_XLA[FORWARD_BACKWARD])),
        ("forward, units ≥ 512: share of the fastest matmul", "≥ 0.85", _plain(share(FORWARD), units=512)),
        (
            "forward + backward, units ≥ 512: share of the fastest matmul",
            "≥ 0.75",
            _plain(share(FORWARD_BACKWARD), units=512),
        ),
        ("GRUBlockCell: speedup over tf.raw_ops", "≥ 1.3", _cells(_BLOCK[FORWARD])),
        ("GRUBlockCellGrad: speedup over tf.raw_ops", "≥ 3", _cells(_BLOCK[BACKWARD])),
        ("GRUBlockCellGrad: speedup over tf.raw_ops", "≥ 5, geometric mean", _cells(_BLOCK[BACKWARD])),
        ("bfloat16 forward with AMX: speedup over PyTorch", "≥ 1.1", _amx(speedup(FORWARD, PYTORCH))),
        ("bfloat16 forward + backward with AMX: speedup over PyTorch", "≥ 1.1", _amx(_TORCH)),
    ),
    "sharing a machine": [
        *_targets(
            WAIT_WITH_SEQUENCES,
            (f"small op, median latency: {_SEQUENCES}", "≤ 1.5", [_SMALL_OP[50]]),
            (f"small op, 99th percentile latency: {_SEQUENCES}", "≤ 1.5", [_SMALL_OP[99]]),
        ),
        *(
            target
            for count in (4, 16)
            for target in _targets(
                CLIENTS[count],
                (f"{count} clients: requests per second / {_BETTER}", "≥ 1", [speedup(FORWARD, *_SERVERS)]),
                (f"{count} clients: 99th percentile latency / {_BETTER}", "≤ 1", [_CLIENTS_WAIT]),
            )
        ),
        *(
            Target(section, f"{title}, {task}: {_FASTER}", "≥ 1", [speedup(task, *_SERVERS)])
            for title, section in (
                ("one busy CPU", BUSY_CPU),
                *((f"{count} threads per CPU", name) for count, name in THREADS_PER_CPU.items()),
            )
            for task in _BOTH
        ),
    ],
    SERVING: _targets(
        f"{SERVING}/",
        *(
            ("packed in C, at least 10 steps: requests per second / ONNX Runtime", bound, _sequences(_PACKED))
            for bound in ("≥ 1", "≥ 1.2, geometric mean")
        ),
        ("packed in C, one step and one client: median µs beyond ONNX Runtime", "≤ 40", _ONE_STEP),
        (
            "int8 in C, batch ≤ 8, units ≥ 384: requests per second / packed",
            "≥ 1.6",
            _large_and_few(speedup(SERVE_IN_C, OURS_PACKED, own=OURS_INT8)),
        ),
        ("int8 in C, at least 10 steps: requests per second / ONNX Runtime int8", "≥ 1", _sequences(_INT8)),
    ),
    "memory": _targets(
        MEMORY,
        ("memory of a training step / Keras", "≤ 0.6", [MEMORY_OVER_KERAS]),
        ("memory of a training step with a gradient penalty / without", "≤ 3", [penalty_memory()]),
    ),
    "gradients of penalties": _targets(
        SECOND_ORDER,
        ("penalty gradient: time / forward + backward", "≤ 3.5", [PENALTY_COST]),
        (_BEST_KERAS, "≥ 2", [_PENALTY]),
        (_BEST_KERAS, "≥ 3, geometric mean", [_PENALTY]),
    ),
    "threads": _targets(
        scaling(""),
        (f"at least 8 threads: {_FASTER}", "≥ 1", _if(_has_8_threads, *(speedup(each, *_SERVERS) for each in _BOTH))),
        (
            "16 threads, batch ≥ 32, units ≥ 512: speedup over one thread / threads",
            "≥ 0.7",
            _if(_has_work_for_16_threads, *map(_efficient, _BOTH)),
        ),
        ("time / time with fewer threads", "≤ 1.05", [*map(_slowdown, _BOTH)]),
    ),
}

GPU_TARGETS = [
    *(
        Target(MAIN, f"CudnnRNN {task}: speedup over {name}", "≥ 0.98", _networks(speedup(task, peer)))
        for name, peer in (("tf.raw_ops", RAW_OPS), ("PyTorch", PYTORCH))
        for task in _BOTH
    ),
    Target(MAIN, "GRUBlockCell: speedup over tf.raw_ops", "≥ 1.5", _cells(_BLOCK[FORWARD])),
    Target(MAIN, "GRUBlockCellGrad: speedup over tf.raw_ops", "≥ 1.5", _cells(_BLOCK[BACKWARD])),
]
