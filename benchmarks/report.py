"""What is told of a run: lines while it runs, and tables for people."""

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
from peers import KERAS, ONNX_RUNTIME, OURS, PEERS, PYTORCH
from run import MemoryMeasurement, Run
from sections import (
    BATCHES,
    CALLS,
    CLIENTS,
    KERAS_CALLS,
    LENGTHS,
    MODELS,
    NEIGHBOUR,
    PIPELINE,
    SECOND_ORDER,
    SECTIONS,
    THREADS_PER_CPU,
    WAIT_ALONE,
    WAIT_BESIDE_PRODUCTS,
    WAIT_BESIDE_SEQUENCES,
)
from targets import (
    BETTER_KERAS,
    MODEL_TARGETS,
    SECOND_ORDER_TARGETS,
    SHARING_TARGETS,
    TARGETS,
    Verdict,
    judge,
)

_MEBI = 2**20
_MODEL_KINDS = {FUNCTION: "inference", TRAIN_ON_BATCH: "training"}


class LineTable:
    """Prints measurements as lines of a table, case by case.

    Args:
      cases: the cases that are to come, which decide how wide the table is.
    """

    _HEAD = ("case", "task", "peer", "ms", "quartiles", "GFLOP/s", "ours x", "error", "p50; p99")

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
    """Prints how much memory a training step took."""
    memory, label = measurement.memory, PEERS[measurement.peer].label
    of_process = f"{memory.baseline / _MEBI:.0f} MiB before, {memory.peak / _MEBI:.0f} MiB at most"
    print(f"{measurement.case.title}  {label}  {memory.step / _MEBI:.1f} MiB ({of_process})", flush=True)


def to_markdown(run: Run) -> str:
    """Returns all that was measured as tables, with a line of what it was measured on."""
    return _join(_conditions(run), _models(run), _first_order(run), _second_order(run), _sharing(run))


def models_to_markdown(run: Run) -> str:
    """Returns what `to_markdown` does of Keras models."""
    return _join(_conditions(run, [MODELS]), _models(run))


def headline(run: Run) -> str:
    """Returns how many times as fast as others whole models are, in inference and in training, as a list."""
    others = (
        ("the better of Keras and Keras XLA", BETTER_KERAS),
        ("PyTorch", [PYTORCH]),
        ("ONNX Runtime", [ONNX_RUNTIME]),
    )
    lines = [
        f"- {label}: {', '.join(parts)}\n"
        for label, peers in others
        if (parts := [part for task in _MODEL_KINDS if (part := _headline_part(run, task, peers))])
    ]
    inferred, trained = (
        sum(run.find(case, OURS, task, MODELS) is not None for case in run.cases(MODELS)) for task in _MODEL_KINDS
    )
    cpu = run.versions.get(OURS, {}).get("CPU", "unknown CPU")
    conditions = f"float32, {cpu}, {run.threads} threads, {run.date}"
    return (
        f"Accelerated Keras models beside the same models in other libraries: geometric mean and range of {inferred} "
        f"models, {trained} of which are trained ({conditions}).\n\n{''.join(lines)}"
    )


def _headline_part(run: Run, task: str, peers: Sequence[str]) -> str:
    ratios = [run.ratio(case, task, peers, MODELS) for case in run.cases(MODELS)]
    mean = _mean(ratios)
    return mean and f"**{mean} times as fast in {_MODEL_KINDS[task]}** ({_range(ratios)})"


def first_order_to_markdown(run: Run) -> str:
    """Returns what `to_markdown` does of networks and cells without penalties."""
    return _join(_conditions(run), _first_order(run))


def second_order_to_markdown(run: Run) -> str:
    """Returns what `to_markdown` does of the gradients of penalties."""
    return _join(_conditions(run, [SECOND_ORDER]), _second_order(run))


def sharing_to_markdown(run: Run) -> str:
    """Returns what `to_markdown` does of the machine that is shared."""
    return _join(_conditions(run, CLIENTS.values()), _sharing(run))


def _join(*parts: str) -> str:
    return "\n".join(filter(None, parts))


def _models(run: Run) -> str:
    title = "Models of batch, time, input, units"
    return _join(
        _section("Targets of Keras models", _targets(judge(run, MODEL_TARGETS))),
        _section(f"{title}, inference in a tf.function, ms", _compared(run, MODELS, [FUNCTION])),
        _section(f"{title}, training by train_on_batch, ms", _compared(run, MODELS, [TRAIN_ON_BATCH])),
        _section(f"{title}, inference in Keras's own ways, ms", _compared(run, KERAS_CALLS, [SAVED_MODEL, PREDICT])),
        _section(f"{title}, training in Keras's own ways, ms", _compared(run, KERAS_CALLS, [FIT])),
        _section("What a call of a tf.function consists of, µs", _call_parts(run)),
        _section("Characters a second that decoders write", _decoded(run)),
    )


def _first_order(run: Run) -> str:
    networks, cells = ([case for case in run.cases() if isinstance(case, kind)] for kind in (Network, CellSteps))
    speeds = [
        ("Networks of batch, time, input, units", networks, FORWARD),
        ("Networks of batch, time, input, units", networks, FORWARD_BACKWARD),
        ("Cells of batch, input, units", cells, FORWARD),
        ("Cells of batch, input, units", cells, BACKWARD),
    ]
    return _join(
        _section("Targets", _targets(judge(run, TARGETS))),
        *(_section(f"{title}, {TASKS[task]}, GFLOP/s", _speeds(run, cases, task)) for title, cases, task in speeds),
        _section("Memory of a training step, MiB", _memory(run)),
        _section("Time against the length of the sequences, ms", _times(run, LENGTHS, 1e3)),
        _section("Time against the number of sequences, ms", _times(run, BATCHES, 1e3)),
        _section("A call at the smallest sizes, µs", _times(run, CALLS, 1e6)),
        _section("Products of square matrices, GFLOP/s", _products(run)),
    )


def _second_order(run: Run) -> str:
    return _join(
        _section("Targets of gradients of penalties", _targets(judge(run, SECOND_ORDER_TARGETS))),
        _section("Networks of batch, time, input, units, with a penalty, ms", _penalties(run)),
        _section("Memory of a training step with a penalty, MiB", _penalty_memory(run)),
    )


def _sharing(run: Run) -> str:
    crowded = [NEIGHBOUR, *THREADS_PER_CPU.values(), PIPELINE]
    return _join(
        _section("Targets of sharing", _targets(judge(run, SHARING_TARGETS))),
        _section("Wait for a small op, ms: median; 99th percentile", _small_op(run)),
        _section("Requests a second; median and 99th percentile of their waits, ms", _clients(run)),
        *(_section(f"{_of_section(name)}, ms a call", _crowded(run, name)) for name in crowded),
    )


def _of_section(name: str) -> str:
    title = SECTIONS[name].title
    return title[0].upper() + title[1:]


def targets_to_text(verdicts: Sequence[Verdict]) -> str:
    """Returns a table of targets for a terminal."""
    rows = _target_rows(verdicts)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def _conditions(run: Run, sections: Iterable[str] = ()) -> str:
    """Returns what a run, or these sections of it, was measured on and how often."""
    rounds = max((len(each.seconds) for name in sections for each in run.of_section(name)), default=run.rounds)
    versions = {name: value for of_peer in reversed(list(run.versions.values())) for name, value in of_peer.items()}
    limits = [f"{limit:.0f} in {dtype}" for dtype in ("float32", "bfloat16") if (limit := run.limit(dtype)) is not None]
    lines = [
        f"Medians of {rounds} rounds, {run.date}. {versions.get('CPU', 'Unknown CPU')}, {run.threads} threads, "
        f"load average before {run.load_before[0]:.1f}, after {run.load_after[0]:.1f}.",
        f"Samples in which other processes took more than {DISTURBANCE:.0%} of the CPUs' time: {run.disturbed():.0%}.",
        f"Instruction set of tf_rnn_ops: {versions.get('instruction set', 'unknown')}.",
        "Libraries: "
        + ", ".join(
            f"{name} {versions[name].split(',')[0]}"
            for name in ("tf_rnn_ops", "TensorFlow", "Keras", "PyTorch", "ONNX Runtime")
            if name in versions
        )
        + ".",
    ]
    if limits:
        lines.append(f"The best matrix product of any of them, GFLOP/s: {', '.join(limits)}.")
    for name, packages in run.left_out.items():
        lines.append(f"{PEERS[name].label} is left out: {', '.join(packages)} not installed.")
    return "\n".join(lines) + "\n"


def _section(title: str, table: str) -> str:
    return f"### {title}\n\n{table}" if table else ""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """Returns a table whose first columns, of words, are aligned to the left; nothing without rows."""
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
    rows: list[Sequence[str]] = [("target", "", "measured", "met?", "where")]
    for verdict in verdicts:
        measured = "-" if verdict.measured is None else f"{verdict.measured:.2f}"
        met = {True: "yes", False: "no", None: "not measured"}[verdict.is_met]
        rows.append((verdict.target.title, verdict.target.demand, measured, met, verdict.where))
    return rows


def _labels(peers: Iterable[str], of_others: str = "") -> list[str]:
    return [PEERS[peer].label + ("" if peer == OURS else of_others) for peer in peers]


def _with_ratio(text: str, ratio: float | None, digits: int = 2) -> str:
    return text if ratio is None else f"{text} ({ratio:.{digits}f})"


def _speeds(run: Run, cases: Sequence[Case], task: str) -> str:
    """Returns a table of a task: our speed and its share of the limit; others' speeds and how ours compares."""
    peers = [peer for peer in run.peers() if any(run.find(case, peer, task) for case in cases)]
    others = [peer for peer in peers if peer != OURS]
    head = ["", PEERS[OURS].label, "of the best product", *_labels(others, " (ours is x)")]
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
    """Returns a table of what tasks of a section take; of others, how many times as long as ours, and the mean."""
    timed = [(case, task) for case in run.cases(section) for task in tasks if run.find(case, OURS, task, section)]
    others = [
        peer
        for peer in run.peers(section)
        if peer != OURS and any(run.find(case, peer, task, section) for case, task in timed)
    ]
    columns = [[run.ratio(case, task, [peer], section) for case, task in timed] for peer in others]
    rows = [
        [
            case.title,
            TASKS[task],
            _time(run, case, OURS, task, section),
            *(
                _with_ratio(_time(run, case, peer, task, section), ratio)
                for peer, ratio in zip(others, ratios, strict=True)
            ),
        ]
        for (case, task), *ratios in zip(timed, *columns, strict=True)
    ]
    if rows and others:
        rows.append(["geometric mean", "", "", *(f"({_mean(column)})" for column in columns)])
        rows.append(["range", "", "", *(f"({_range(column)})" for column in columns)])
    return _table(["", "", PEERS[OURS].label, *_labels(others, " (ours is x)")], rows, words=2)


def _call_parts(run: Run) -> str:
    """Returns a table of what our calls of models consist of, beside PyTorch's."""
    rows = []
    for case in run.cases(MODELS):
        call, empty = (run.seconds(case, OURS, task, MODELS) for task in (FUNCTION, EMPTY_FUNCTION))
        parts = [call, empty, run.ops_seconds(case), run.model_overhead(case)]
        if None not in parts:
            parts.append(run.seconds(case, PYTORCH, FUNCTION, MODELS))
            rows.append([case.title, *("" if part is None else f"{1e6 * part:.0f}" for part in parts)])
    return _table(["", PEERS[OURS].label, TASKS[EMPTY_FUNCTION], "the ops", "the rest", PEERS[PYTORCH].label], rows)


def _decoded(run: Run) -> str:
    decoders = [case for case in run.cases(MODELS) if isinstance(case, Decoder)]
    peers = run.peers(MODELS)
    seconds = {case: [run.seconds(case, peer, FUNCTION, MODELS) for peer in peers] for case in decoders}
    rows = [
        [case.title, *("" if each is None else f"{case.network.batch / each:.0f}" for each in of_case)]
        for case, of_case in seconds.items()
    ]
    return _table(["", *_labels(peers)], rows)


def _memory(run: Run) -> str:
    peers = _memory_peers(run)
    rows = []
    for case in run.memory_cases():
        if not isinstance(case, PenalizedNetwork):
            ratio = run.memory_ratio(case, KERAS)
            sizes = [_size(run, case, peer) for peer in peers]
            rows.append([case.title, *sizes, "" if ratio is None else f"{ratio:.2f}"])
    return _table(["", *_labels(peers), "ours / Keras's"], rows)


def _penalty_memory(run: Run) -> str:
    """Returns a table of what training steps with a penalty take, and how many times as much as without."""
    peers = _memory_peers(run)
    rows = []
    for case in run.memory_cases():
        if isinstance(case, PenalizedNetwork):
            cells = [_with_ratio(_size(run, case, peer), run.penalty_memory(case, peer)) for peer in peers]
            rows.append([case.plain.title, *cells])
    return _table(["", *(f"{label} (x without)" for label in _labels(peers))], rows)


def _memory_peers(run: Run) -> list[str]:
    measured = {each.peer for each in run.memory}
    return [peer for peer in PEERS if peer in measured]


def _size(run: Run, case: Case, peer: str) -> str:
    size = run.step_bytes(case, peer)
    return "" if size is None else f"{size / _MEBI:.0f}"


def _penalties(run: Run) -> str:
    """Returns a table of what penalties' gradients take; of others, how many times as long as ours."""
    others = [peer for peer in run.peers(SECOND_ORDER) if peer != OURS]
    of_ours = [TASKS[FORWARD_BACKWARD], TASKS[PENALTY], "their ratio"]
    head = ["", *(f"{PEERS[OURS].label}: {name}" for name in of_ours), *_labels(others, " (ours x)")]
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


def _by_task(run: Run, section: str, cell: Callable[[Case, str, str], str], of_others: str = "") -> str:
    """Returns a table of a section, with a line for each task of a case and a cell for each peer."""
    peers = run.peers(section)
    rows = [
        [case.title, TASKS[task], *cells]
        for case in run.cases(section)
        for task in case.tasks
        if any(cells := [cell(case, peer, task) for peer in peers])
    ]
    return _table(["", "task", *_labels(peers, of_others)], rows, words=2)


def _times(run: Run, section: str, unit: float) -> str:
    """Returns a table of the medians of a section, in so many parts of a second."""
    return _by_task(run, section, lambda case, peer, task: _time(run, case, peer, task, section, unit))


def _crowded(run: Run, section: str) -> str:
    def cell(case: Case, peer: str, task: str) -> str:
        ratio = None if peer == OURS else run.ratio(case, task, [peer], section)
        return _with_ratio(_time(run, case, peer, task, section), ratio)

    return _by_task(run, section, cell, " (ours x)")


def _waits(measurement: Measurement) -> str:
    return "; ".join(_milliseconds(measurement.wait(percent)) for percent in (50, 99))


def _small_op(run: Run) -> str:
    names = (WAIT_ALONE, WAIT_BESIDE_PRODUCTS, WAIT_BESIDE_SEQUENCES)
    found = {name: {each.peer: _waits(each) for each in run.of_section(name)} for name in names}
    peers = [peer for peer in PEERS if any(peer in of_section for of_section in found.values())]
    rows = [[SECTIONS[name].title, *(each.get(peer, "") for peer in peers)] for name, each in found.items() if each]
    return _table(["", *_labels(peers)], rows)


def _clients(run: Run) -> str:
    peers = run.peers(CLIENTS[1])
    rows = []
    for case in run.cases(CLIENTS[1]):
        for count, name in CLIENTS.items():
            found = [run.find(case, peer, FORWARD, name) for peer in peers]
            cells = [f"{1 / each.quartiles[1]:.0f}; {_waits(each)}" if each else "" for each in found]
            rows.append([case.title, str(count), *cells])
    return _table(["", "clients", *_labels(peers)], rows, words=2)


def _milliseconds(seconds: float) -> str:
    return _figure(1e3 * seconds)


def _figure(number: float) -> str:
    """Returns a number with two digits that count, or as many as there are before the point."""
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
    return _table(["", "by", "median", "best round"], rows, words=2)
