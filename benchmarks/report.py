"""What is told of a run: lines while it runs, a file for programs and a table for people."""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from cases import TASKS, Case
from measure import Measurement
from peers import KERAS, OURS, PEERS

from tf_rnn_ops import __main__ as bug_report


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of the benchmark.

    Attributes:
      rounds: the number of samples of each measurement.
      load_before: the machine's load averages over 1, 5 and 15 minutes when the run began.
      load_after: those when it ended.
      product_gflops: 1e9 operations a second of the fastest product of two square float32 matrices, by size.
      measurements: all that was measured, case by case.
    """

    rounds: int
    load_before: Sequence[float]
    load_after: Sequence[float]
    product_gflops: Mapping[int, float]
    measurements: Sequence[Measurement]

    @property
    def limit(self) -> float:
        """1e9 operations a second of the fastest product of any size."""
        return max(self.product_gflops.values())

    @property
    def cases(self) -> list[Case]:
        """The cases, in the order in which they were measured."""
        return list(dict.fromkeys(each.case for each in self.measurements))

    @property
    def peers(self) -> list[str]:
        """The peers' names, in the order in which they were measured."""
        return list(dict.fromkeys(each.peer for each in self.measurements))

    def find(self, case: Case, peer: str, task: str) -> Measurement | None:
        """Returns a measurement, or None if that was not measured."""
        return find(self.measurements, case, peer, task)


def find(measurements: Sequence[Measurement], case: Case, peer: str, task: str) -> Measurement | None:
    """Returns the measurement of a peer in a task of a case, or None if there is none."""
    wanted = (case, peer, task)
    return next((each for each in measurements if (each.case, each.peer, each.task) == wanted), None)


def ratio_to_keras(measurement: Measurement, measurements: Sequence[Measurement]) -> float | None:
    """Returns how many times as fast as Keras a peer was, or None if Keras is not among the measurements."""
    keras = find(measurements, measurement.case, KERAS, measurement.task)
    return measurement.gflops[1] / keras.gflops[1] if keras else None


class LineTable:
    """Prints measurements as lines of a table, case by case.

    Args:
      cases: the cases that are to come, which decide how wide the table is.
    """

    _HEAD = ("batch, time, input, units", "task", "peer", "ms", "quartiles", "GFLOP/s", "x Keras", "error")

    def __init__(self, cases: Sequence[Case]):
        titles = [case.title for case in cases]
        labels = [peer.label for peer in PEERS.values()]
        columns = [titles, TASKS.values(), labels]
        widths = [max(map(len, [head, *column])) for head, column in zip(self._HEAD, columns, strict=False)]
        self._widths = [*widths, -9, -19, -7, -7, -7]  # negative: aligned to the right
        self._print_line(self._HEAD)

    def print_case(self, measurements: Sequence[Measurement]) -> None:
        """Prints all measurements of one case."""
        for each in measurements:
            lower, median, upper = (f"{1e3 * seconds:.2f}" for seconds in each.quartiles)
            ratio = ratio_to_keras(each, measurements)
            self._print_line(
                (
                    each.case.title,
                    TASKS[each.task],
                    PEERS[each.peer].label,
                    median,
                    f"{lower} - {upper}",
                    f"{each.gflops[1]:.1f}",
                    "-" if ratio is None else f"{ratio:.2f}",
                    f"{each.error:.0e}",
                )
            )

    def _print_line(self, cells: Sequence[str]) -> None:
        aligned = [
            cell.ljust(width) if width > 0 else cell.rjust(-width)
            for cell, width in zip(cells, self._widths, strict=True)
        ]
        print("  ".join(aligned), flush=True)


def to_json(run: Run) -> dict[str, Any]:
    """Returns all of a run, and what it ran on, in the types that JSON has."""
    return {
        "versions": dict(bug_report.versions()),
        "instruction_sets": bug_report.instruction_sets(),
        "threads": _threads(),
        "load_average": {"before": list(run.load_before), "after": list(run.load_after)},
        "rounds": run.rounds,
        "limit": {"gflops": run.limit, "gflops_by_size": {str(size): g for size, g in run.product_gflops.items()}},
        "results": [_measurement_to_json(each, run) for each in run.measurements],
    }


def _threads() -> dict[str, int]:
    return {
        "cores": len(os.sched_getaffinity(0)),
        # 0 stands for one for each core.
        "intra_op": tf.config.threading.get_intra_op_parallelism_threads(),
        "inter_op": tf.config.threading.get_inter_op_parallelism_threads(),
    }


def _measurement_to_json(measurement: Measurement, run: Run) -> dict[str, Any]:
    names = ("lower_quartile", "median", "upper_quartile")
    return {
        "case": {"name": measurement.case.name, **dataclasses.asdict(measurement.case)},
        "peer": measurement.peer,
        "task": measurement.task,
        "flops": measurement.case.flops(measurement.task),
        "seconds": {**dict(zip(names, measurement.quartiles, strict=True)), "samples": list(measurement.seconds)},
        "gflops": dict(zip(names, measurement.gflops, strict=True)),
        "ratio_to_keras": ratio_to_keras(measurement, run.measurements),
        "error": measurement.error,
    }


def to_markdown(run: Run) -> str:
    """Returns a table of GFLOP/s, forward / forward + backward, with a line of what it was measured on."""
    versions = dict(bug_report.versions())
    machine = f"{versions['CPU']}; TensorFlow {versions['TensorFlow']}, Keras {versions['Keras'].split(',')[0]}"
    tasks = " / ".join(TASKS.values())
    lines = [
        f"GFLOP/s, {tasks}; medians of {run.rounds} rounds. {machine}. The fastest float32 matrix product in the same "
        f"run: {run.limit:.0f}. Load average before {run.load_before[0]:.1f}, after {run.load_after[0]:.1f}.",
        "",
    ]
    has_ratio = KERAS in run.peers
    head = ["batch, time, input, units", *(PEERS[peer].label for peer in run.peers)]
    head += [f"{PEERS[OURS].label} : {PEERS[KERAS].label}"] if has_ratio else []
    rows = [head, ["---", *("---:" for _ in head[1:])]]
    for case in run.cases:
        row = [case.title, *(_cell(run, case, peer, _speed) for peer in run.peers)]
        row += [_cell(run, case, OURS, _ratio)] if has_ratio else []
        rows.append(row)
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(run: Run, case: Case, peer: str, to_text: Callable[[Measurement, Run], str]) -> str:
    """Returns the text of each task of a case, where it was measured."""
    measurements = [run.find(case, peer, task) for task in TASKS]
    return " / ".join(to_text(each, run) if each else "" for each in measurements)


def _speed(measurement: Measurement, run: Run) -> str:
    return f"{measurement.gflops[1]:.0f}"


def _ratio(measurement: Measurement, run: Run) -> str:
    return f"{ratio_to_keras(measurement, run.measurements):.1f}"
