"""Formats a run: lines while it runs, Markdown tables afterwards; also writes them into docs/performance.md.

In docs/performance.md, or the page in `PAGES`, the tables of each part that a run measured replace the text between the
marks of that part.
The headline goes into README.md. The chart shows the first table of docs/performance.md.
"""

import argparse
import dataclasses
import itertools
import pathlib
import re
import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

from cases import (
    ACCELERATED,
    AS_IS,
    BACKWARD,
    CALL_IN_PYTHON,
    CONVERTED,
    COPIES,
    EXPORTED_MODELS,
    FIT,
    FORWARD,
    FORWARD_BACKWARD,
    FUNCTION,
    MEMORY,
    PENALTY,
    PREDICT,
    PRODUCT,
    SAVED_MODEL,
    SERVE_IN_C,
    TANH,
    TRAIN_ON_BATCH,
    WRITERS,
    Case,
)
from measure import DISTURBANCE, Measurement
from results import (
    Figure,
    Run,
    call_part,
    efficiency,
    gflops,
    join,
    label,
    median,
    over,
    penalty_memory,
    read,
    share,
    speedup,
    wait,
)
from sections import (
    BATCHES,
    BUSY_CPU,
    CALL_CLIENTS,
    CALLS,
    CLIENTS,
    EXPORTED_BATCHES,
    GRAPHS,
    KERAS,
    KERAS_CALLS,
    KERAS_OPTIONS,
    KERAS_UNROLLED,
    KERAS_XLA,
    LENGTHS,
    MAIN,
    MODEL_WORDS,
    MODELS,
    ONNX_RUNTIME,
    OPTION_WORDS,
    OURS,
    OURS_XLA,
    PEERS,
    PIPELINE,
    PRODUCTS,
    PYTORCH,
    RAW_OPS,
    SAVED_MODELS,
    SCALING_THREADS,
    SECOND_ORDER,
    SECTIONS,
    SERVERS,
    SERVING,
    SERVING_CLIENTS,
    SERVING_MEMORY,
    THREADS_PER_CPU,
    WAIT_ALONE,
    WAIT_WITH_PRODUCTS,
    WAIT_WITH_SEQUENCES,
    WAYS,
)

DOCS = pathlib.Path(__file__).parent.parent / "docs"
KERAS_MODELS = "Keras models"  # the part that README.md summarizes
CALLS_FROM_PYTHON = "calls from Python"
PAGES = {GRAPHS: "guides/will_it_help.md"}  # of the parts that are not in performance.md
_MEBI = 2**20


def short(number: float) -> str:
    """Returns a number with two significant digits, or all digits before the decimal point if there are more."""
    return f"{number:.0f}" if number >= 10 else f"{number:.2g}"


def ratio(number: float) -> str:
    """Returns a ratio as text."""
    return f"{number:.2f}"


def _percent(number: float) -> str:
    return f"{number:.0%}"


# ---------------------------------------------------------------- lines

_LINE = "{:<68}  {:<18}  {:<14}  {:>9}  {:>8}  {:>7}  {:>7}  {:>14}"
LINE_HEAD = _LINE.format("case", "task", "peer", "ms or MiB", "GFLOP/s", "speedup", "error", "p50; p99, ms")


def print_lines(measurements: Sequence[Measurement]) -> None:
    """Prints the measurements of a case."""
    ours = {each.task: each.median for each in measurements if each.peer == OURS}
    for each in measurements:
        of_ours = "-" if each.task not in ours or each.peer == OURS else ratio(each.median / ours[each.task])
        waits = "; ".join(short(1e3 * each.wait(percent)) for percent in (50, 99)) if each.waits else "-"
        figure = each.median / _MEBI if each.task in (MEMORY, *COPIES.values()) else 1e3 * each.median
        cells = [each.case.title, each.task, label(each.peer), short(figure), short(each.gflops), of_ours]
        print(_LINE.format(*cells, f"{each.error:.0e}", waits), flush=True)


# ---------------------------------------------------------------- tables


class Column(NamedTuple):
    """A column of a table: a figure, or several with semicolons in between. Ratios have means and ranges."""

    head: str
    figures: Sequence[Figure]
    texts: Sequence[Callable[[float], str]] = (short,)

    def cell(self, run: Run, section: str, case: Case) -> str:
        """Returns the cell of a row; empty if nothing was measured."""
        values = [figure(run, section, case) for figure in self.figures]
        if all(value is None for value in values):
            return ""
        pairs = zip(self.texts, values, strict=True)
        return "; ".join("-" if value is None else text(value) for text, value in pairs)


class Table(NamedTuple):
    """A table with a row for each case of some sections; transposed, with a column for each."""

    title: str
    sections: Sequence[str]
    columns: Sequence[Column]
    includes: Callable[[Case], bool] = lambda _: True
    names: Sequence[tuple[str, Callable[[str, Case], str]]] = (
        ("network: batch, time, input, units", lambda _, case: case.title),
    )
    is_transposed: bool = False

    def markdown(self, run: Run) -> str:
        """Returns the table with its title, without empty rows and columns; empty if nothing was measured."""
        cases = [(section, case) for section in self.sections for case in run.cases(section)]
        cases = [(section, case) for section, case in cases if self.includes(case)]
        found = [[column.cell(run, *row) for column in self.columns] for row in cases]
        kept = [index for index in range(len(self.columns)) if any(cells[index] for cells in found)]
        rows = [
            [*(name(*row) for _, name in self.names), *(cells[index] for index in kept)]
            for row, cells in zip(cases, found, strict=True)
            if any(cells)
        ]
        columns = [self.columns[index] for index in kept]
        ratios = [[each.figures[0](run, *row) for row in cases] if each.texts == (ratio,) else [] for each in columns]
        values = [[value for value in of_column if value is not None] for of_column in ratios]
        if any(len(each) > 1 for each in values):
            names = [""] * (len(self.names) - 1)
            rows.append(["geometric mean", *names, *(ratio(statistics.geometric_mean(v)) if v else "" for v in values)])
            rows.append(["range", *names, *(f"{min(v):.2f} to {max(v):.2f}" if v else "" for v in values)])
        heads = [*(head for head, _ in self.names), *(column.head for column in columns)]
        if self.is_transposed:
            heads, *rows = map(list, zip(heads, *rows, strict=True))
        return _section(self.title, _grid(heads, rows, len(self.names)))


def _grid(head: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """Returns a Markdown table whose first `words` columns are left-aligned; empty if there are no rows."""
    rule = ["---"] * words + ["---:"] * (len(head) - words)
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, rule, *rows)) if rows else ""


def _section(title: str, table: str) -> str:
    return f"### {title}\n\n{table}" if table else ""


def _ms(head: str, task: str, peer: str = OURS) -> Column:
    return Column(head, [median(task, peer, unit=1e3)])


def _speedups(task: str, *peers: str) -> list[Column]:
    return [Column(label(peer), [speedup(task, peer)], (ratio,)) for peer in peers]


def _group(task: str, *peers: str, head: str = "") -> list[Column]:
    """Returns our time of a task, and our speedups over peers."""
    return [_ms(head or f"{task}, ms", task), *_speedups(task, *peers)]


def _speeds(task: str, *peers: str) -> list[Column]:
    """Returns our speed in a task and its share of the limit, and our speedups over peers."""
    own = [Column(f"{task}, GFLOP/s", [gflops(task)]), Column("of fastest matmul", [share(task)], (_percent,))]
    return [*own, *_speedups(task, *peers)]


def _nth_task(index: int, peer: str) -> Figure:
    """Returns the µs of the first or second task of a case."""
    return lambda run, row, case: (
        median(case.tasks[index], peer, unit=1e6)(run, row, case) if index < len(case.tasks) else None
    )


def _memory(peer: str, task: str = MEMORY) -> Figure:
    return median(task, peer, unit=1 / _MEBI)


def _in(section: str, *columns: Column) -> list[Column]:
    """Returns columns with the figures of a section other than the row's."""

    def in_section(figure: Figure) -> Figure:
        return lambda run, _, case: figure(run, section, case)

    return [column._replace(figures=[in_section(figure) for figure in column.figures]) for column in columns]


def _with_batch(figure: Figure, batch: int) -> Figure:
    """Returns a figure of a case with another batch size."""
    return lambda run, row, case: figure(run, row, dataclasses.replace(case, batch=batch))


def _of_files(batch: int) -> list[Column]:
    """Returns the time of SavedModels as they are, and the speedups, with a batch size other than the row's."""
    speedups = {task: over(median(AS_IS), median(task)) for task in (ACCELERATED, CONVERTED)}
    return [
        Column(f"batch {batch}, ms", [_with_batch(median(AS_IS, unit=1e3), batch)]),
        *(Column(task, [_with_batch(figure, batch)], (ratio,)) for task, figure in speedups.items()),
    ]


def _of_keras(task: str, head: str, batch: int) -> list[Column]:
    """Returns the time of a task of Keras or without the op, and the speedup."""
    return [
        Column(f"{head}, ms", [_with_batch(median(task, KERAS, unit=1e3), batch)]),
        Column("speedup", [_with_batch(speedup(task, KERAS), batch)], (ratio,)),
    ]


def _by_threads(task: str, count: int) -> list[Column]:
    figures = [median(task, unit=1e3), gflops(task), efficiency(task, count), speedup(task, PYTORCH, ONNX_RUNTIME)]
    return _in(SCALING_THREADS[count], Column(str(count), figures, (short, short, ratio, ratio)))


def _efficiencies(run: Run) -> str:
    """Returns a table of the efficiency of each library, by threads."""
    cases, counts = run.cases(SCALING_THREADS[1]), run.num_threads()[1:]
    rows = []
    for task, peer in itertools.product((FORWARD, FORWARD_BACKWARD), PEERS):
        figures = [[efficiency(task, count, peer)(run, "", case) for case in cases] for count in counts]
        known = [[value for value in of_count if value is not None] for of_count in figures]
        if any(known):
            means = [ratio(statistics.geometric_mean(values)) if values else "" for values in known]
            rows.append([f"{label(peer)}, {task}", *means])
    title = "Efficiency by threads, geometric mean"
    return _section(title, _grid(["library, task", *map(str, counts)], rows))


_NETWORKS = (OURS_XLA, KERAS, KERAS_XLA, PYTORCH)
_CASE = Table._field_defaults["names"]
_PENALTY_COST = over(median(PENALTY), median(FORWARD_BACKWARD))
_PENALIZED = ((_CASE[0][0], lambda _, case: case.title.removesuffix(", penalty")),)
_MODEL = (
    ("model", lambda _, case: (MODEL_WORDS | OPTION_WORDS).get(case.name, "")),
    ("batch, time, input, units", lambda _, case: case.title),
)
_EXPORTED = (
    ("program", lambda _, case: EXPORTED_MODELS[case.kind].words),
    ("layers", lambda _, case: EXPORTED_MODELS[case.kind].layers),
    ("steps, inputs, units", lambda _, case: ", ".join(map(str, case.sizes[1:]))),
    ("written by", lambda _, case: WRITERS[case.writer]),
)
_OF_EXPORTED = {
    "SavedModels, called from Python": [column for batch in EXPORTED_BATCHES for column in _of_files(batch)],
    "The same files in a C program": [
        column for batch in EXPORTED_BATCHES for column in _of_keras(SERVE_IN_C, f"batch {batch}", batch)
    ],
    "Models of Keras with accelerate_keras": [
        *_of_keras(FUNCTION, f"inference, batch {EXPORTED_BATCHES[0]}", EXPORTED_BATCHES[0]),
        *_of_keras(TRAIN_ON_BATCH, f"training step, batch {EXPORTED_BATCHES[1]}", EXPORTED_BATCHES[1]),
    ],
}
_LOAD = (("load", lambda section, _: SECTIONS[section].title),)
_WAITING = [Column(label(peer), [wait(50, TANH, peer), wait(99, TANH, peer)], (short, short)) for peer in PEERS]


def _rate(task: str, peer: str) -> Figure:
    """Returns calls per second, of all clients."""
    return over(lambda *_: 1.0, median(task, peer))


def _requests(task: str, peer: str) -> Column:
    """Returns requests per second, and percentiles of their latencies."""
    return Column(label(peer), [_rate(task, peer), wait(50, task, peer), wait(99, task, peer)], (short,) * 3)


# Of calls from Python, with what tables call them: the time of a call; calls per second of all threads; rare times.
_MEDIAN = ("median of a call, µs", lambda task, peer: wait(50, task, peer, unit=1e6))
_RATE = ("calls per second", _rate)
_RARE = (
    "99.9th percentile of a call, µs, of 1000 calls or more",
    lambda task, peer: wait(99.9, task, peer, unit=1e6, least=1000),
)
_CLIENTS = [_requests(FORWARD, peer) for peer in PEERS]
_SERVED = (("model: batch, time, input, units", lambda _, case: case.title),)
_NUM_CLIENTS = (("clients", lambda section, _: section.rpartition("_")[2]),)
_CROWDED = [
    column
    for name in (BUSY_CPU, *THREADS_PER_CPU.values())
    for column in _in(name, *_group(FORWARD, PYTORCH, ONNX_RUNTIME), *_group(FORWARD_BACKWARD, PYTORCH))
]
_BY_SIZE = [
    _ms(f"{task}: {label(peer)}", task, peer)
    for task in (FORWARD, FORWARD_BACKWARD)
    for peer in (OURS, KERAS, PYTORCH, ONNX_RUNTIME)
]
_PARTS_OF_A_CALL = [Column(part, [call_part(part)]) for part in ("empty", "ops", "other")]

PARTS: dict[str, Sequence[Table]] = {
    KERAS_MODELS: [
        Table(
            "Inference in a tf.function and training with train_on_batch",
            [MODELS],
            [
                *_group(FUNCTION, OURS_XLA, KERAS, KERAS_XLA, PYTORCH, ONNX_RUNTIME, head="inference, ms"),
                *_group(TRAIN_ON_BATCH, OURS_XLA, KERAS, KERAS_XLA, PYTORCH, head="training, ms"),
            ],
            names=_MODEL,
        ),
        Table(
            "Inference from a SavedModel and with predict, and training with fit",
            [KERAS_CALLS],
            [column for task in (SAVED_MODEL, PREDICT, FIT) for column in _group(task, KERAS, KERAS_XLA)],
        ),
        Table(
            "Breakdown of a tf.function call, µs",
            [MODELS],
            [
                Column("call", [median(FUNCTION, unit=1e6)]),
                *_PARTS_OF_A_CALL,
                Column("PyTorch", [median(FUNCTION, PYTORCH, unit=1e6)]),
            ],
            lambda case: case.kind != "mixed",
        ),
    ],
    "options of layers": [
        Table(
            "Models with options of Keras's layers",
            [KERAS_OPTIONS],
            [
                *_group(FUNCTION, OURS_XLA, KERAS, KERAS_XLA, head="inference, ms"),
                *_group(TRAIN_ON_BATCH, OURS_XLA, KERAS, KERAS_XLA, head="training, ms"),
            ],
            names=_MODEL,
        ),
    ],
    "ops": [
        Table(
            "CudnnRNN",
            [MAIN],
            [*_speeds(FORWARD, *_NETWORKS, ONNX_RUNTIME), *_speeds(FORWARD_BACKWARD, *_NETWORKS)],
            lambda case: case.has_network,
        ),
        Table(
            "GRUBlockCell",
            [MAIN],
            [*_speeds(FORWARD, OURS_XLA, RAW_OPS), *_speeds(BACKWARD, OURS_XLA, RAW_OPS)],
            lambda case: case.kind == "gru_block_cell",
            (("cell: batch, input, units", lambda _, case: case.title),),
        ),
        Table(
            "BlockLSTM",
            [MAIN],
            [*_speeds(FORWARD, OURS_XLA, RAW_OPS), *_speeds(FORWARD_BACKWARD, OURS_XLA, RAW_OPS)],
            lambda case: case.kind == "block_lstm",
            (("batch, time, input, units", lambda _, case: case.title),),
        ),
        Table(
            "Call overhead (all sizes 1), µs: forward; backward or forward + backward",
            [CALLS],
            [Column(label(peer), [_nth_task(0, peer), _nth_task(1, peer)], (short, short)) for peer in PEERS],
        ),
        Table(
            "Matrix products, GFLOP/s",
            [PRODUCTS],
            [Column(label(peer), [gflops(PRODUCT, peer)]) for peer in (PYTORCH, ONNX_RUNTIME, RAW_OPS)],
            names=(("product", lambda _, case: case.title),),
        ),
    ],
    "sequence length and batch size": [
        Table("Time by sequence length, ms", [LENGTHS], _BY_SIZE),
        Table("Time by batch size, ms", [BATCHES], _BY_SIZE),
    ],
    "sharing a machine": [
        Table(
            "Latency of a small op, ms: median; 99th percentile",
            [WAIT_ALONE, WAIT_WITH_PRODUCTS, WAIT_WITH_SEQUENCES],
            _WAITING,
            names=_LOAD,
        ),
        Table(
            "Requests per second; median and 99th percentile latency, ms",
            [*CLIENTS.values()],
            _CLIENTS,
            names=(*_CASE, *_LOAD),
        ),
        Table("With another process on one of the CPUs; with 2, and with 4 threads per CPU", [BUSY_CPU], _CROWDED),
        Table("Training with a tf.data pipeline", [PIPELINE], _group(FORWARD_BACKWARD, KERAS)),
    ],
    SERVING: [
        Table(
            "SavedModels in a C program: requests per second; median and 99th percentile latency, ms",
            [*SERVING_CLIENTS.values()],
            [_requests(SERVE_IN_C if peer in SAVED_MODELS else CALL_IN_PYTHON, peer) for peer in SERVERS],
            names=(*_SERVED, *_NUM_CLIENTS),
        ),
        Table(
            "Memory of 1 and of 4 copies of a SavedModel in a C program, MiB",
            [SERVING_MEMORY],
            [
                Column(label(peer), [_memory(peer, copies) for copies in COPIES.values()], (short,) * 2)
                for peer in SAVED_MODELS
            ],
            names=_SERVED,
        ),
    ],
    CALLS_FROM_PYTHON: [
        Table(
            f"{count} {'thread' if count == 1 else 'threads'}: {words}",
            [section],
            [Column(f"{label(peer)}: {task}", [figure(task, peer)]) for task, peer in WAYS],
            names=(("", lambda _, case: case.title),),
            is_transposed=True,
        )
        for count, section in CALL_CLIENTS.items()
        for words, figure in ((_MEDIAN if count == 1 else _RATE), _RARE)
    ],
    GRAPHS: [
        Table(title, [GRAPHS], columns, lambda case: case.batch == EXPORTED_BATCHES[0], _EXPORTED)
        for title, columns in _OF_EXPORTED.items()
    ],
    "memory": [
        Table(
            "Memory of a training step, MiB",
            [MEMORY],
            [
                *(Column(label(peer), [_memory(peer)]) for peer in PEERS),
                Column("tf_rnn_ops / Keras", [over(_memory(OURS), _memory(KERAS))], (ratio,)),
            ],
            lambda case: case.kind == "network",
        ),
        Table(
            "Memory of a training step with a gradient penalty, MiB; the same divided by that without",
            [MEMORY],
            [Column(label(peer), [_memory(peer), penalty_memory(peer)], (short, ratio)) for peer in PEERS],
            lambda case: case.kind == "penalty",
            _PENALIZED,
        ),
    ],
    "gradients of penalties": [
        Table(
            "Training step with a gradient penalty",
            [SECOND_ORDER],
            [
                _ms("forward + backward, ms", FORWARD_BACKWARD),
                _ms("penalty gradient, ms", PENALTY),
                Column("penalty gradient / forward + backward", [_PENALTY_COST], (ratio,)),
                *_speedups(PENALTY, KERAS, KERAS_XLA, KERAS_UNROLLED, PYTORCH),
            ],
            names=_PENALIZED,
        ),
    ],
    "threads": [
        Table(
            f"{task}, by threads",
            [SCALING_THREADS[1]],
            [column for count in SCALING_THREADS for column in _by_threads(task, count)],
        )
        for task in (FORWARD, FORWARD_BACKWARD)
    ],
}


def _tables(run: Run, part: str) -> str:
    """Returns the tables of a part; empty if the run has no measurements for it."""
    tables = [table.markdown(run) for table in PARTS[part]]
    if part == "threads" and any(tables):
        tables.append(_efficiencies(run))
    return _join(*tables)


def to_markdown(run: Run) -> str:
    """Returns the conditions and all tables of a run."""
    return _join(_conditions(run), *(_tables(run, part) for part in PARTS))


def part_to_markdown(run: Run, part: str) -> str:
    """Returns the conditions and the tables of one of `PARTS`; empty if the run has no measurements for it."""
    tables = _tables(run, part)
    return tables and _join(_conditions(run, part), tables)


def _join(*parts: str) -> str:
    return "\n".join(filter(None, parts))


def _conditions(run: Run, part: str = "ops") -> str:
    """Returns the conditions under which a run measured a part."""
    versions = {name: value for of_peer in reversed(list(run.versions.values())) for name, value in of_peer.items()}
    sections = {section for table in PARTS[part] for section in table.sections}
    counts = [len(each.samples) for each in run.measurements if each.section in sections]
    limits = [f"{limit:.0f} in {dtype}" for dtype in ("float32", "bfloat16") if (limit := run.limit(dtype)) is not None]
    names = ("tf_rnn_ops", "TensorFlow", "Keras", "PyTorch", "ONNX Runtime")
    known = [f"{name} {versions[name].split(',')[0]}" for name in names if name in versions]
    lines = [
        f"Medians of {max(counts, default=0)} {'processes' if part == 'memory' else 'rounds'}, {run.date}. "
        f"{versions.get('CPU', 'Unknown CPU')}, {run.threads} threads, load average {run.load_before[0]:.1f} before, "
        f"{run.load_after[0]:.1f} after.",
        f"Samples with more than {DISTURBANCE:.0%} of the CPU time used by other processes: {run.disturbed():.0%}.",
        f"Instruction set of tf_rnn_ops: {versions.get('instruction set', 'unknown')}.",
        f"Versions: {', '.join(known)}.",
    ]
    if limits and part == "ops":
        lines.append(f"Fastest matrix product of any library, GFLOP/s: {', '.join(limits)}.")
    lines += [f"{skipped(name, packages)}." for name, packages in run.left_out.items()]
    lines += [f"{label(peer)} failed in {case}." for case, peer, _ in run.failures]
    return "\n".join(lines) + "\n"


def skipped(name: str, packages: Sequence[str]) -> str:
    """Returns a message that a peer is skipped because packages are missing."""
    return f"{label(name)} is skipped; not installed: {', '.join(packages)}"


# ---------------------------------------------------------------- pages


def marks(part: str) -> tuple[str, str]:
    """Returns the lines before and after the results of a part."""
    return f"<!-- Results of {part}: written by benchmarks/report.py -->", f"<!-- End of results of {part} -->"


def page_of(part: str) -> str:
    """Returns the page with the results of a part."""
    return PAGES.get(part, "performance.md")


class ModelRow(NamedTuple):
    """A row of the first table of docs/performance.md: a model, and our speedups over each library."""

    model: str
    inference: dict[str, float]
    training: dict[str, float]


def read_models(page: str) -> list[ModelRow]:
    """Returns the rows of the first table of docs/performance.md."""
    _, _, lines = page.partition(f"### {PARTS[KERAS_MODELS][0].title}\n\n")
    of_table = itertools.takewhile(lambda line: line.startswith("|"), lines.splitlines())
    head, _, *rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in of_table]
    ends = [index for index, name in enumerate(head) if name.endswith(", ms")] + [len(head)]

    def speedups(row: Sequence[str], half: int) -> dict[str, float]:
        columns = range(ends[half] + 1, ends[half + 1]) if half + 1 < len(ends) else ()
        return {head[column]: float(row[column]) for column in columns if row[column]}

    models = [row for row in rows if row[0] not in ("geometric mean", "range")]
    return [ModelRow(row[0], speedups(row, 0), speedups(row, 1)) for row in models]


def conditions_of_models(page: str) -> str:
    """Returns the machine and the date of the first table of docs/performance.md."""
    match = re.search(r"Medians of \d+ rounds, (\S+)\. (.*), load average", page[page.index(marks(KERAS_MODELS)[0]) :])
    return f"{match[2]}, {match[1]}" if match else "unknown machine"


def headline(run: Run) -> str:
    """Returns the speedups of accelerated Keras models over other libraries as a list."""
    lines, counts = [], []
    for name, peers in (
        ("the better of Keras and Keras XLA", [KERAS, KERAS_XLA]),
        ("PyTorch", [PYTORCH]),
        ("ONNX Runtime", [ONNX_RUNTIME]),
    ):
        parts: list[str] = []
        for task, kind in ((FUNCTION, "inference"), (TRAIN_ON_BATCH, "training")):
            figures = [speedup(task, *peers)(run, MODELS, case) for case in run.cases(MODELS)]
            values = [value for value in figures if value is not None]
            counts.append(len(values))
            if values:
                of_whom, per_model = ("", "") if parts else (f" the speed of {name}", " per model")
                mean, extent = statistics.geometric_mean(values), f"{min(values):.2f}x to {max(values):.2f}x"
                parts.append(f"**{mean:.2f}x**{of_whom} in {kind} ({extent}{per_model})")
        lines += [f"- {', '.join(parts)}\n"] if parts else []
    cpu = run.versions.get(OURS, {}).get("CPU", "unknown CPU")
    conditions = f"float32, {cpu}, {run.threads} threads, {run.date}"
    return (
        "Speed of accelerated Keras models relative to the same models in other libraries: geometric mean and range "
        f"over {counts[0]} models, {counts[1]} of them also trained ({conditions}).\n\n{''.join(lines)}"
    )


def publish(run: Run, docs: pathlib.Path) -> list[pathlib.Path]:
    """Writes the parts that a run measured into the pages in `docs` and the README.md next to `docs`.

    Returns:
      The changed pages.

    Raises:
      ValueError: if a page does not contain each mark exactly once.
    """
    blocks = {part: block for part in PARTS if (block := part_to_markdown(run, part))}
    pages = [_replace(docs / page_of(part), part, block) for part, block in blocks.items()]
    if KERAS_MODELS in blocks:
        chart = f"![Speed of Keras models relative to Keras]({docs.name}/images/models.png)\n"
        pages.append(_replace(docs.parent / "README.md", KERAS_MODELS, f"{headline(run)}\n{chart}"))
        draw_models(docs)
    return list(dict.fromkeys(pages))


def draw_models(docs: pathlib.Path) -> None:
    """Draws the chart of `docs`/performance.md's first table."""
    import picture

    page = (docs / "performance.md").read_text()
    (docs / "images").mkdir(exist_ok=True)
    picture.draw(read_models(page), conditions_of_models(page), docs / "images" / "models.png")


def _replace(page: pathlib.Path, part: str, block: str) -> pathlib.Path:
    """Replaces the text between the marks of a part."""
    text = page.read_text()
    begin, end = marks(part)
    if not (text.count(begin) == text.count(end) == 1):
        raise ValueError(f"{page} must contain {begin!r} and {end!r} exactly once each")
    before, rest = text.split(begin)
    _, after = rest.split(end)
    page.write_text(f"{before}{begin}\n\n{block}\n{end}{after}")
    return page


def main() -> None:
    """Publishes the results of earlier runs, or only redraws the chart."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "folders",
        type=pathlib.Path,
        nargs="*",
        metavar="folder",
        help="an output folder, such as build/bench; several if sections were measured separately; none to redraw the "
        "chart",
    )
    runs = [read(folder / "results.json") for folder in parser.parse_args().folders]
    for page in publish(join(runs), DOCS) if runs else ():
        print(f"updated {page}")
    draw_models(DOCS)


if __name__ == "__main__":
    main()
