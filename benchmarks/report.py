"""Formats a run: lines while it runs, Markdown tables afterwards."""

import collections
import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence

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
    TASKS,
    TRAIN_ON_BATCH,
    Case,
    CellSteps,
    Decoder,
    Network,
    PenalizedNetwork,
)
from measure import DISTURBANCE, Measurement
from peers import KERAS, ONNX_RUNTIME, OURS, PEERS, PYTORCH, skipped
from run import MemoryMeasurement, Run
from sections import (
    BATCHES,
    BUSY_CPU,
    CALLS,
    CLIENTS,
    KERAS_CALLS,
    LENGTHS,
    MAIN,
    MEMORY,
    MODELS,
    PIPELINE,
    SECOND_ORDER,
    SECTIONS,
    THREADS_PER_CPU,
    WAIT_ALONE,
    WAIT_WITH_PRODUCTS,
    WAIT_WITH_SEQUENCES,
    scaling,
)
from targets import (
    BETTER_KERAS,
    MEMORY_TARGETS,
    MODEL_TARGETS,
    SCALING_TARGETS,
    SECOND_ORDER_TARGETS,
    SHARING_TARGETS,
    TARGETS,
    Verdict,
    judge,
)

_MEBI = 2**20
_NETWORK_COLUMN = "network: batch, time, input, units"
_MODEL_COLUMN = "model: batch, time, input, units"
_CELL_COLUMN = "cell: batch, input, units"
_MODEL_KINDS = {FUNCTION: "inference", TRAIN_ON_BATCH: "training"}


class LineTable:
    """Prints measurements as lines of a table, case by case.

    Args:
      cases: all cases of the table, which determine the column widths.
    """

    _HEAD = ("case", "task", "peer", "ms", "quartiles", "GFLOP/s", "speedup", "error", "p50; p99")

    def __init__(self, cases: Iterable[Case]):
        columns = [[case.title for case in cases], TASKS.values(), [peer.label for peer in PEERS.values()]]
        widths = [max(map(len, [head, *column])) for head, column in zip(self._HEAD, columns, strict=False)]
        self._widths = [*widths, -9, -19, -8, -7, -7, -14]  # negative: aligned to the right
        self._print_line(self._HEAD)

    def print_case(self, measurements: Sequence[Measurement]) -> None:
        """Prints all measurements of one case."""
        ours = {each.task: each for each in measurements if each.peer == OURS}
        for each in measurements:
            lower, median, upper = (_milliseconds(seconds) for seconds in each.quartiles)
            ratio = each.quartiles[1] / ours[each.task].quartiles[1] if each.task in ours else None
            self._print_line(
                (
                    each.case.title,
                    TASKS[each.task],
                    PEERS[each.peer].label,
                    median,
                    f"{lower} - {upper}",
                    _figure(each.gflops[1]),
                    "-" if ratio is None or each.peer == OURS else f"{ratio:.2f}",
                    f"{each.error:.0e}",
                    _waits(each) if each.waits else "-",
                )
            )

    def _print_line(self, cells: Sequence[str]) -> None:
        aligned = [
            cell.ljust(width) if width > 0 else cell.rjust(-width)
            for cell, width in zip(cells, self._widths, strict=True)
        ]
        print("  ".join(aligned), flush=True)


def print_memory(measurement: MemoryMeasurement) -> None:
    """Prints the memory of a training step."""
    memory, label = measurement.memory, PEERS[measurement.peer].label
    of_process = f"process: {memory.baseline / _MEBI:.0f} MiB before, {memory.peak / _MEBI:.0f} MiB peak"
    print(f"{measurement.case.title}  {label}  {memory.step / _MEBI:.1f} MiB ({of_process})", flush=True)


@dataclasses.dataclass(frozen=True)
class Part:
    """A group of tables.

    Attributes:
      sections: the sections of the benchmark that it shows.
      tables: returns the tables of a run; empty if the run has no measurements for them.
    """

    sections: Sequence[str]
    tables: Callable[[Run], str]


def to_markdown(run: Run) -> str:
    """Returns the conditions and all tables of a run."""
    return _join(_conditions(run), *(part.tables(run) for part in PARTS.values()))


def part_to_markdown(run: Run, name: str) -> str:
    """Returns the conditions and the tables of one of `PARTS`; empty if the run has no measurements for it."""
    part = PARTS[name]
    tables = part.tables(run)
    return tables and _join(_conditions(run, part.sections), tables)


def headline(run: Run) -> str:
    """Returns the speedups of accelerated Keras models over other libraries as a list."""
    others = (
        ("the better of Keras and Keras XLA", BETTER_KERAS),
        ("PyTorch", [PYTORCH]),
        ("ONNX Runtime", [ONNX_RUNTIME]),
    )
    lines = [_headline_line(run, label, peers) for label, peers in others]
    inferred, trained = (
        sum(run.find(case, OURS, task, MODELS) is not None for case in run.cases(MODELS)) for task in _MODEL_KINDS
    )
    cpu = run.versions.get(OURS, {}).get("CPU", "unknown CPU")
    conditions = f"float32, {cpu}, {run.threads} threads, {run.date}"
    return (
        f"Speed of accelerated Keras models relative to the same models in other libraries: geometric mean and range "
        f"over {inferred} models, {trained} of them also trained ({conditions}).\n\n{''.join(lines)}"
    )


def _headline_line(run: Run, label: str, peers: Sequence[str]) -> str:
    parts: list[str] = []
    for task, kind in _MODEL_KINDS.items():
        ratios = [ratio for case in run.cases(MODELS) if (ratio := run.ratio(case, task, peers, MODELS)) is not None]
        if ratios:
            of_whom, per_model = ("", "") if parts else (f" the speed of {label}", " per model")
            parts.append(
                f"**{_mean(ratios)}x**{of_whom} in {kind} ({min(ratios):.2f}x to {max(ratios):.2f}x{per_model})"
            )
    return f"- {', '.join(parts)}\n" if parts else ""


def _join(*parts: str) -> str:
    return "\n".join(filter(None, parts))


def _model_tables(run: Run) -> str:
    return _join(
        _section("Inference in a tf.function, ms", _compared(run, MODELS, [FUNCTION])),
        _section("Training with train_on_batch, ms", _compared(run, MODELS, [TRAIN_ON_BATCH])),
        _section(
            "Inference from a SavedModel and with predict, ms", _compared(run, KERAS_CALLS, [SAVED_MODEL, PREDICT])
        ),
        _section("Training with fit, ms", _compared(run, KERAS_CALLS, [FIT])),
        _section("Breakdown of a tf.function call, µs", _call_parts(run)),
        _section("Decoder throughput, characters per second", _decoded(run)),
        _section("Targets: Keras models", _targets(judge(run, MODEL_TARGETS))),
    )


def _op_tables(run: Run) -> str:
    networks, cells = ([case for case in run.cases() if isinstance(case, kind)] for kind in (Network, CellSteps))
    speeds = [
        ("CudnnRNN", _NETWORK_COLUMN, networks, FORWARD),
        ("CudnnRNN", _NETWORK_COLUMN, networks, FORWARD_BACKWARD),
        ("GRUBlockCell", _CELL_COLUMN, cells, FORWARD),
        ("GRUBlockCell", _CELL_COLUMN, cells, BACKWARD),
    ]
    return _join(
        *(
            _section(f"{op} {TASKS[task]}, GFLOP/s", _speeds(run, column, cases, task))
            for op, column, cases, task in speeds
        ),
        _section("Call overhead (all sizes 1), µs", _times(run, CALLS, 1e6)),
        _section("Matrix products, GFLOP/s", _products(run)),
        _section("Targets: ops", _targets(judge(run, TARGETS))),
    )


def _curve_tables(run: Run) -> str:
    return _join(
        _section("Time by sequence length, ms", _times(run, LENGTHS, 1e3)),
        _section("Time by batch size, ms", _times(run, BATCHES, 1e3)),
    )


def _sharing_tables(run: Run) -> str:
    crowded = [BUSY_CPU, *THREADS_PER_CPU.values(), PIPELINE]
    return _join(
        _section("Latency of a small op, ms: median; 99th percentile", _small_op(run)),
        _section("Requests per second; median and 99th percentile latency, ms", _clients(run)),
        *(_section(f"{_of_section(name)}, ms per call", _crowded(run, name)) for name in crowded),
        _section("Targets: sharing a machine", _targets(judge(run, SHARING_TARGETS))),
    )


def _memory_tables(run: Run) -> str:
    return _join(
        _section("Memory of a training step, MiB", _memory(run)),
        _section("Memory of a training step with a gradient penalty, MiB", _penalty_memory(run)),
        _section("Targets: memory", _targets(judge(run, MEMORY_TARGETS))),
    )


def _scaling_tables(run: Run) -> str:
    return _join(
        *(_section(f"{TASKS[task]}, by threads", _scaling(run, task)) for task in (FORWARD, FORWARD_BACKWARD)),
        _section("Efficiency by threads, geometric mean", _efficiencies(run)),
        _section("Targets: threads", _targets(judge(run, SCALING_TARGETS))),
    )


def _penalty_tables(run: Run) -> str:
    return _join(
        _section("Training step with a gradient penalty, ms", _penalties(run)),
        _section("Targets: gradients of penalties", _targets(judge(run, SECOND_ORDER_TARGETS))),
    )


PARTS = {
    "Keras models": Part([MODELS], _model_tables),
    "ops": Part([MAIN, CALLS], _op_tables),
    "sequence length and batch size": Part([LENGTHS, BATCHES], _curve_tables),
    "sharing a machine": Part(
        [
            WAIT_ALONE,
            WAIT_WITH_PRODUCTS,
            WAIT_WITH_SEQUENCES,
            *CLIENTS.values(),
            BUSY_CPU,
            *THREADS_PER_CPU.values(),
            PIPELINE,
        ],
        _sharing_tables,
    ),
    "memory": Part([MEMORY], _memory_tables),
    "gradients of penalties": Part([SECOND_ORDER], _penalty_tables),
    "threads": Part([scaling(1)], _scaling_tables),
}


def _of_section(name: str) -> str:
    title = SECTIONS[name].title
    return title[0].upper() + title[1:]


def targets_to_text(verdicts: Sequence[Verdict]) -> str:
    """Returns a table of targets for a terminal."""
    rows = _target_rows(verdicts)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def _conditions(run: Run, sections: Sequence[str] = (MAIN,)) -> str:
    """Returns the conditions under which a run measured some sections."""
    versions = {name: value for of_peer in reversed(list(run.versions.values())) for name, value in of_peer.items()}
    limits = [f"{limit:.0f} in {dtype}" for dtype in ("float32", "bfloat16") if (limit := run.limit(dtype)) is not None]
    lines = [
        f"Medians of {_samples(run, sections)}, {run.date}. {versions.get('CPU', 'Unknown CPU')}, {run.threads} "
        f"threads, load average {run.load_before[0]:.1f} before, {run.load_after[0]:.1f} after.",
        f"Samples with more than {DISTURBANCE:.0%} of the CPU time used by other processes: {run.disturbed():.0%}.",
        f"Instruction set of tf_rnn_ops: {versions.get('instruction set', 'unknown')}.",
        "Versions: "
        + ", ".join(
            f"{name} {versions[name].split(',')[0]}"
            for name in ("tf_rnn_ops", "TensorFlow", "Keras", "PyTorch", "ONNX Runtime")
            if name in versions
        )
        + ".",
    ]
    if limits and MAIN in sections:
        lines.append(f"Fastest matrix product of any library, GFLOP/s: {', '.join(limits)}.")
    lines += [f"{skipped(name, packages)}." for name, packages in run.left_out.items()]
    return "\n".join(lines) + "\n"


def _samples(run: Run, sections: Sequence[str]) -> str:
    if MEMORY in sections:
        counts = collections.Counter((each.case, each.peer) for each in run.memory)
        return f"{max(counts.values(), default=0)} processes"
    rounds = max((len(each.seconds) for name in sections for each in run.of_section(name)), default=run.rounds)
    return f"{rounds} rounds"


def _section(title: str, table: str) -> str:
    return f"### {title}\n\n{table}" if table else ""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """Returns a table whose first `words` columns are left-aligned; empty if there are no rows."""
    if not rows:
        return ""
    rule = ["---"] * words + ["---:"] * (len(head) - words)
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, rule, *rows))


def _targets(verdicts: Sequence[Verdict]) -> str:
    if all(verdict.measured is None for verdict in verdicts):
        return ""
    head, *rows = _target_rows(verdicts)
    return _table(head, rows, words=len(head))


def _target_rows(verdicts: Sequence[Verdict]) -> list[Sequence[str]]:
    rows: list[Sequence[str]] = [("target", "bound", "measured", "met", "worst case")]
    for verdict in verdicts:
        measured = "-" if verdict.measured is None else f"{verdict.measured:.2f}"
        met = {True: "yes", False: "no", None: "not measured"}[verdict.is_met]
        rows.append((verdict.target.title, verdict.target.demand, measured, met, verdict.where))
    return rows


def _labels(peers: Iterable[str], suffix: str = "") -> list[str]:
    """Returns the peers' labels; all but ours end with the suffix."""
    return [PEERS[peer].label + ("" if peer == OURS else suffix) for peer in peers]


def _with_ratio(text: str, ratio: float | None, digits: int = 2) -> str:
    return text if ratio is None else f"{text} ({ratio:.{digits}f})"


def _speeds(run: Run, column: str, cases: Sequence[Case], task: str) -> str:
    """Returns a table of a task: our speed and its share of the limit; the others' speeds and our speedups."""
    peers = [peer for peer in run.peers() if any(run.find(case, peer, task) for case in cases)]
    others = [peer for peer in peers if peer != OURS]
    head = [column, PEERS[OURS].label, "share of fastest matmul", *_labels(others, " (speedup)")]
    rows = []
    for case in cases:
        share = run.share(case, OURS, task)
        row = [case.title, _speed(run, case, OURS, task), "" if share is None else f"{100 * share:.0f}%"]
        cells = [_with_ratio(_speed(run, case, peer, task), run.ratio(case, task, [peer])) for peer in others]
        rows.append([*row, *cells])
    means = [_mean([run.ratio(case, task, [peer]) for case in cases]) for peer in others]
    if any(means):
        rows.append(["geometric mean", "", "", *(mean and f"({mean})" for mean in means)])
    return _table(head, rows)


def _speed(run: Run, case: Case, peer: str, task: str) -> str:
    measurement = run.find(case, peer, task)
    return _figure(measurement.gflops[1]) if measurement else ""


def _mean(ratios: Sequence[float | None]) -> str:
    logs = [math.log(ratio) for ratio in ratios if ratio is not None]
    return f"{math.exp(sum(logs) / len(logs)):.2f}" if logs else ""


def _range(ratios: Sequence[float | None]) -> str:
    found = [ratio for ratio in ratios if ratio is not None]
    return f"{min(found):.2f} to {max(found):.2f}" if found else ""


def _compared(run: Run, section: str, tasks: Sequence[str]) -> str:
    """Returns a table of the times of tasks of a section, and of our speedups over the others."""
    timed = [(case, task) for case in run.cases(section) for task in tasks if run.find(case, OURS, task, section)]
    others = [
        peer
        for peer in run.peers(section)
        if peer != OURS and any(run.find(case, peer, task, section) for case, task in timed)
    ]
    columns = [[run.ratio(case, task, [peer], section) for case, task in timed] for peer in others]
    names_tasks = len(tasks) > 1
    rows = [
        [
            case.title,
            *([TASKS[task]] if names_tasks else []),
            _time(run, case, OURS, task, section),
            *(
                _with_ratio(_time(run, case, peer, task, section), ratio)
                for peer, ratio in zip(others, ratios, strict=True)
            ),
        ]
        for (case, task), *ratios in zip(timed, *columns, strict=True)
    ]
    head = [_MODEL_COLUMN, *(["task"] if names_tasks else [])]
    if rows and others:
        empty = [""] * len(head)
        rows.append(["geometric mean", *empty, *(f"({_mean(column)})" for column in columns)])
        rows.append(["range", *empty, *(f"({_range(column)})" for column in columns)])
    return _table([*head, PEERS[OURS].label, *_labels(others, " (speedup)")], rows, words=len(head))


def _call_parts(run: Run) -> str:
    """Returns a table of the parts of our calls of models, and of PyTorch's calls."""
    rows = []
    for case in run.cases(MODELS):
        call, empty = (run.seconds(case, OURS, task, MODELS) for task in (FUNCTION, EMPTY_FUNCTION))
        parts = [call, empty, run.ops_seconds(case), run.model_overhead(case)]
        if None not in parts:
            parts.append(run.seconds(case, PYTORCH, FUNCTION, MODELS))
            rows.append([case.title, *("" if part is None else f"{1e6 * part:.0f}" for part in parts)])
    head = [_MODEL_COLUMN, PEERS[OURS].label, TASKS[EMPTY_FUNCTION], "ops", "other", PEERS[PYTORCH].label]
    return _table(head, rows)


def _decoded(run: Run) -> str:
    decoders = [case for case in run.cases(MODELS) if isinstance(case, Decoder)]
    peers = run.peers(MODELS)
    seconds = {case: [run.seconds(case, peer, FUNCTION, MODELS) for peer in peers] for case in decoders}
    rows = [
        [case.title, *("" if each is None else f"{case.network.batch / each:.0f}" for each in of_case)]
        for case, of_case in seconds.items()
    ]
    return _table([_MODEL_COLUMN, *_labels(peers)], rows)


def _scaling(run: Run, task: str) -> str:
    """Returns a table of the engine by threads: ms, GFLOP/s, efficiency and speedup over the faster peer."""
    rows = []
    for case in run.cases(scaling(1)):
        cells = []
        for threads in run.num_threads():
            found = run.find(case, OURS, task, scaling(threads))
            efficiency = run.efficiency(case, task, threads)
            speedup = run.ratio(case, task, [PYTORCH, ONNX_RUNTIME], scaling(threads))
            figures = [] if found is None else [_milliseconds(found.quartiles[1]), _figure(found.gflops[1])]
            figures += ["-" if each is None else f"{each:.2f}" for each in (efficiency, speedup)]
            cells.append("; ".join(figures))
        rows.append([case.title, *cells])
    return _table([_NETWORK_COLUMN, *map(str, run.num_threads())], rows)


def _efficiencies(run: Run) -> str:
    """Returns a table of the efficiency of each library, by threads."""
    cases, several = run.cases(scaling(1)), run.num_threads()[1:]
    rows = [
        [
            f"{PEERS[peer].label}, {TASKS[task]}",
            *(_mean([run.efficiency(case, task, count, peer) for case in cases]) for count in several),
        ]
        for task in (FORWARD, FORWARD_BACKWARD)
        for peer in run.peers(scaling(1))
        if any(run.find(case, peer, task, scaling(1)) for case in cases)
    ]
    return _table(["library, task", *map(str, several)], rows)


def _memory(run: Run) -> str:
    peers = _memory_peers(run)
    rows = []
    for case in run.memory_cases():
        if not isinstance(case, PenalizedNetwork):
            ratio = run.memory_ratio(case, KERAS)
            sizes = [_size(run, case, peer) for peer in peers]
            rows.append([case.title, *sizes, "" if ratio is None else f"{ratio:.2f}"])
    return _table([_NETWORK_COLUMN, *_labels(peers), "tf_rnn_ops / Keras"], rows)


def _penalty_memory(run: Run) -> str:
    """Returns a table of the memory of training steps with a penalty, and its ratio to that without."""
    peers = _memory_peers(run)
    rows = []
    for case in run.memory_cases():
        if isinstance(case, PenalizedNetwork):
            cells = [_with_ratio(_size(run, case, peer), run.penalty_memory(case, peer)) for peer in peers]
            rows.append([case.plain.title, *cells])
    return _table([_NETWORK_COLUMN, *(f"{label} (/ without)" for label in _labels(peers))], rows)


def _memory_peers(run: Run) -> list[str]:
    measured = {each.peer for each in run.memory}
    return [peer for peer in PEERS if peer in measured]


def _size(run: Run, case: Case, peer: str) -> str:
    size = run.step_bytes(case, peer)
    return "" if size is None else f"{size / _MEBI:.0f}"


def _penalties(run: Run) -> str:
    """Returns a table of the times of penalty gradients, and of our speedups over the others."""
    others = [peer for peer in run.peers(SECOND_ORDER) if peer != OURS]
    of_ours = [TASKS[FORWARD_BACKWARD], TASKS[PENALTY], "ratio"]
    head = [
        _NETWORK_COLUMN,
        *(f"{PEERS[OURS].label}: {name}" for name in of_ours),
        *_labels(others, " (speedup)"),
    ]
    rows = []
    for case in run.cases(SECOND_ORDER):
        if isinstance(case, PenalizedNetwork):
            cost = run.penalty_cost(case, OURS)
            row = [_time(run, case, OURS, task, SECOND_ORDER) for task in (FORWARD_BACKWARD, PENALTY)]
            cells = [
                _with_ratio(
                    _time(run, case, peer, PENALTY, SECOND_ORDER), run.ratio(case, PENALTY, [peer], SECOND_ORDER), 1
                )
                for peer in others
            ]
            rows.append([case.plain.title, *row, "" if cost is None else f"{cost:.2f}", *cells])
    return _table(head, rows)


def _time(run: Run, case: Case, peer: str, task: str, section: str, unit: float = 1e3) -> str:
    measurement = run.find(case, peer, task, section)
    return _figure(unit * measurement.quartiles[1]) if measurement else ""


def _by_task(run: Run, section: str, cell: Callable[[Case, str, str], str], suffix: str = "") -> str:
    """Returns a table of a section, with a row for each task of a case and a cell for each peer."""
    peers = run.peers(section)
    rows = [
        [case.title, TASKS[task], *cells]
        for case in run.cases(section)
        for task in case.tasks
        if any(cells := [cell(case, peer, task) for peer in peers])
    ]
    return _table([_NETWORK_COLUMN, "task", *_labels(peers, suffix)], rows, words=2)


def _times(run: Run, section: str, unit: float) -> str:
    """Returns a table of the medians of a section; there are `unit` units in a second."""
    return _by_task(run, section, lambda case, peer, task: _time(run, case, peer, task, section, unit))


def _crowded(run: Run, section: str) -> str:
    def cell(case: Case, peer: str, task: str) -> str:
        ratio = None if peer == OURS else run.ratio(case, task, [peer], section)
        return _with_ratio(_time(run, case, peer, task, section), ratio)

    return _by_task(run, section, cell, " (speedup)")


def _waits(measurement: Measurement) -> str:
    return "; ".join(_milliseconds(measurement.wait(percent)) for percent in (50, 99))


def _small_op(run: Run) -> str:
    names = (WAIT_ALONE, WAIT_WITH_PRODUCTS, WAIT_WITH_SEQUENCES)
    found = {name: {each.peer: _waits(each) for each in run.of_section(name)} for name in names}
    peers = [peer for peer in PEERS if any(peer in of_section for of_section in found.values())]
    rows = [[SECTIONS[name].title, *(each.get(peer, "") for peer in peers)] for name, each in found.items() if each]
    return _table(["load", *_labels(peers)], rows)


def _clients(run: Run) -> str:
    peers = run.peers(CLIENTS[1])
    rows = []
    for case in run.cases(CLIENTS[1]):
        for count, name in CLIENTS.items():
            found = [run.find(case, peer, FORWARD, name) for peer in peers]
            cells = [f"{1 / each.quartiles[1]:.0f}; {_waits(each)}" if each else "" for each in found]
            rows.append([case.title, str(count), *cells])
    return _table([_NETWORK_COLUMN, "clients", *_labels(peers)], rows, words=2)


def _milliseconds(seconds: float) -> str:
    return _figure(1e3 * seconds)


def _figure(number: float) -> str:
    """Returns a number with two significant digits, or all digits before the decimal point if there are more."""
    return f"{number:.0f}" if number >= 10 else f"{number:.2g}"


def _products(run: Run) -> str:
    products = sorted(
        [*run.products("float32"), *run.products("bfloat16")],
        key=lambda each: (each.case.name.split("-")[-1] != "float32", each.case.flops(each.task)),
    )
    rows = [
        [each.case.title, PEERS[each.peer].label, _figure(each.gflops[1]), _figure(each.best_gflops)]
        for each in products
    ]
    return _table(["product", "library", "median", "fastest round"], rows, words=2)
