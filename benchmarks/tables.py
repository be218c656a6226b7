"""The tables of the report: their rows, and the figure in each column. `report` writes them into the pages."""

import dataclasses
import itertools
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
from results import (
    Figure,
    Run,
    call_part,
    efficiency,
    gflops,
    label,
    median,
    over,
    penalty_memory,
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

MEBI = 2**20
CALLS_FROM_PYTHON = "calls from Python"
THREADS = "threads"
BEFORE = "the same file before"  # a SavedModel without tf_rnn_ops


def short(number: float) -> str:
    """Returns a number with three significant digits, or all digits before the decimal point if there are more."""
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def ratio(number: float) -> str:
    """Returns a ratio as text."""
    return f"{number:.2f}"


def _percent(number: float) -> str:
    return f"{number:.0%}"


# Returns a word of a row's name, from its section and its case.
Name = Callable[[str, Case], str]


class Column(NamedTuple):
    """A column of a table. Columns of ratios have a mean and a range. Speedups name what they are `than`."""

    head: str
    figure: Figure
    text: Callable[[float], str] = short
    than: str = ""

    def cell(self, run: Run, section: str, case: Case) -> str:
        """Returns the cell of a row; empty if it was not measured."""
        value = self.figure(run, section, case)
        return "" if value is None else self.text(value)


class Table(NamedTuple):
    """A table with a row for each case of some sections; transposed, with a column for each."""

    title: str
    sections: Sequence[str]
    columns: Sequence[Column]
    includes: Callable[[Case], bool] = lambda _: True
    names: Sequence[tuple[str, Name]] = (("network: batch, time, input, units", lambda _, case: case.title),)
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
        ratios = [[each.figure(run, *row) for row in cases] if each.text == ratio else [] for each in columns]
        # Rounded as in the rows, from which a reader can tell the mean.
        values = [[float(ratio(value)) or value for value in of_column if value is not None] for of_column in ratios]
        if any(len(each) > 1 for each in values):
            names = [""] * (len(self.names) - 1)
            rows.append([MEAN, *names, *(ratio(statistics.geometric_mean(v)) if v else "" for v in values)])
            rows.append([RANGE, *names, *(f"{min(v):.2f} to {max(v):.2f}" if v else "" for v in values)])
        heads = [*(head for head, _ in self.names), *(column.head for column in columns)]
        if self.is_transposed:
            heads, *rows = map(list, zip(heads, *rows, strict=True))
        return titled(self.title, grid(heads, rows, len(self.names)))


# The last rows.
MEAN, RANGE = "geometric mean", "range"


def grid(head: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """Returns a Markdown table whose first `words` columns are left-aligned; empty if there are no rows."""
    rule = ["---"] * words + ["---:"] * (len(head) - words)
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, rule, *rows)) if rows else ""


def titled(title: str, table: str) -> str:
    """Returns a table below its title; empty without a table."""
    return f"### {title}\n\n{table}" if table else ""


# ---------------------------------------------------------------- columns


def _speedups(task: str, *peers: str, prefix: str = "") -> list[Column]:
    names = {peer: label(peer) for peer in peers}
    than = {**names, OURS_XLA: ""}  # not another library
    return [Column(f"{prefix}{name}", speedup(task, peer), ratio, than[peer]) for peer, name in names.items()]


def _group(task: str, *peers: str, words: str = "") -> list[Column]:
    """Returns our time of a task, and our speedups over peers; `words` are for tables of several tasks."""
    prefix = f"{words}: " if words else ""
    return [
        Column(f"{words}, ms" if words else "ms", median(task, unit=1e3)),
        *_speedups(task, *peers, prefix=prefix),
    ]


def _speeds(task: str, *peers: str) -> list[Column]:
    """Returns our speed in a task and its share of the limit, and our speedups over peers."""
    own = [Column("GFLOP/s", gflops(task)), Column("of fastest matmul", share(task), _percent)]
    return [*own, *_speedups(task, *peers)]


def _nth_task(index: int, peer: str) -> Figure:
    """Returns the µs of the first or second task of a case."""
    return lambda run, row, case: (
        median(case.tasks[index], peer, unit=1e6)(run, row, case) if index < len(case.tasks) else None
    )


def _memory(peer: str, task: str = MEMORY) -> Figure:
    return median(task, peer, unit=1 / MEBI)


def _in(section: str, figure: Figure) -> Figure:
    """Returns a figure of a section other than the row's."""
    return lambda run, _, case: figure(run, section, case)


def _with_batch(figure: Figure, batch: int) -> Figure:
    """Returns a figure of a case with another batch size."""
    return lambda run, row, case: figure(run, row, dataclasses.replace(case, batch=batch))


def _of_files(batch: int) -> list[Column]:
    """Returns the time of SavedModels as they are, and the speedups, with a batch size."""
    speedups = {task: over(median(AS_IS), median(task)) for task in (ACCELERATED, CONVERTED)}
    return [
        Column("ms", _with_batch(median(AS_IS, unit=1e3), batch)),
        *(Column(task, _with_batch(figure, batch), ratio, BEFORE) for task, figure in speedups.items()),
    ]


def _of_keras(task: str, words: str, batch: int, than: str) -> list[Column]:
    """Returns the time of a task of Keras or without the op, and the speedup."""
    return [
        Column(f"{words}, ms", _with_batch(median(task, KERAS, unit=1e3), batch)),
        Column(f"{words}: speedup", _with_batch(speedup(task, KERAS), batch), ratio, than),
    ]


def _rate(task: str, peer: str) -> Figure:
    """Returns calls per second, of all clients."""
    return over(lambda *_: 1.0, median(task, peer))


def _request_of(peer: str) -> str:
    """Returns the task of a request to a served model: in the C program if it is a SavedModel."""
    return SERVE_IN_C if peer in SAVED_MODELS else CALL_IN_PYTHON


def efficiencies(run: Run) -> str:
    """Returns a table of the efficiency of each library, by threads; empty without such measurements."""
    cases, counts = run.cases(SCALING_THREADS[1]), run.num_threads()[1:]
    rows = []
    for task, peer in itertools.product((FORWARD, FORWARD_BACKWARD), PEERS):
        figures = [[efficiency(task, count, peer)(run, "", case) for case in cases] for count in counts]
        known = [[value for value in of_count if value is not None] for of_count in figures]
        if any(known):
            means = [ratio(statistics.geometric_mean(values)) if values else "" for values in known]
            rows.append([f"{label(peer)}, {task}", *means])
    title = "Efficiency by threads, geometric mean"
    return titled(title, grid(["library, task", *map(str, counts)], rows))


# ---------------------------------------------------------------- rows

_CASE = Table._field_defaults["names"]
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
_LOAD = (("load", lambda section, _: SECTIONS[section].title),)
_SERVED = (("model: batch, time, input, units", lambda _, case: case.title),)
_NUM_CLIENTS = (("clients", lambda section, _: section.rpartition("_")[2]),)


# ---------------------------------------------------------------- the tables

_NETWORKS = (OURS_XLA, KERAS, KERAS_XLA, PYTORCH)
_MODEL_PEERS = {FUNCTION: (*_NETWORKS, ONNX_RUNTIME), TRAIN_ON_BATCH: _NETWORKS}
_FASTEST_OTHER = (PYTORCH, ONNX_RUNTIME)


def _of_ops(name: str, case_words: str, includes: Callable[[Case], bool], peers: dict[str, Sequence[str]]):
    """Returns the tables of an op: one for each task, given the other libraries."""
    names = ((case_words, lambda _, case: case.title),)
    return [Table(f"{name}: {task}", [MAIN], _speeds(task, *peers[task]), includes, names) for task in peers]


def _by_load(
    title: str, sections: Sequence[str], figures: dict[str, Callable[[str], Figure]], names, peers: Sequence[str]
):
    """Returns tables with a column for each peer: one for each figure, given the figure of a peer by its words."""
    return [
        Table(f"{title}{words}", sections, [Column(label(peer), figure(peer)) for peer in peers], names=names)
        for words, figure in figures.items()
    ]


PARTS: dict[str, Sequence[Table]] = {
    "Keras models": [
        *(
            Table(f"Keras models: {task}", [MODELS], _group(task, *peers), names=_MODEL)
            for task, peers in _MODEL_PEERS.items()
        ),
        Table(
            "Keras models: a loaded SavedModel, predict and fit",
            [KERAS_CALLS],
            [column for task in (SAVED_MODEL, PREDICT, FIT) for column in _group(task, KERAS, KERAS_XLA, words=task)],
        ),
        Table(
            "Breakdown of a tf.function call, µs",
            [MODELS],
            [
                Column("call", median(FUNCTION, unit=1e6)),
                *(Column(part, call_part(part)) for part in ("empty", "ops", "other")),
                Column("PyTorch", median(FUNCTION, PYTORCH, unit=1e6)),
            ],
            lambda case: case.kind != "mixed",
        ),
    ],
    "options of layers": [
        Table(f"Options of Keras's layers: {task}", [KERAS_OPTIONS], _group(task, *_NETWORKS[:3]), names=_MODEL)
        for task in _MODEL_PEERS
    ],
    "ops": [
        *_of_ops(
            "CudnnRNN",
            "network: batch, time, input, units",
            lambda case: case.has_network,
            {FORWARD: (*_NETWORKS, ONNX_RUNTIME), FORWARD_BACKWARD: _NETWORKS},
        ),
        *_of_ops(
            "GRUBlockCell",
            "cell: batch, input, units",
            lambda case: case.kind == "gru_block_cell",
            {FORWARD: (OURS_XLA, RAW_OPS), BACKWARD: (OURS_XLA, RAW_OPS)},
        ),
        *_of_ops(
            "BlockLSTM",
            "batch, time, input, units",
            lambda case: case.kind == "block_lstm",
            {FORWARD: (OURS_XLA, RAW_OPS), FORWARD_BACKWARD: (OURS_XLA, RAW_OPS)},
        ),
        *(
            Table(
                f"Call overhead (all sizes 1), µs: {words}",
                [CALLS],
                [Column(label(peer), _nth_task(index, peer)) for peer in PEERS],
            )
            for index, words in enumerate(("forward", "forward + backward, or backward of the cell"))
        ),
        Table(
            "Matrix products, GFLOP/s",
            [PRODUCTS],
            [Column(label(peer), gflops(PRODUCT, peer)) for peer in (PYTORCH, ONNX_RUNTIME, RAW_OPS)],
            names=(("product", lambda _, case: case.title),),
        ),
    ],
    "sequence length and batch size": [
        Table(
            title,
            [section],
            [
                Column(f"{task}: {label(peer)}", median(task, peer, unit=1e3))
                for task in (FORWARD, FORWARD_BACKWARD)
                for peer in (OURS, KERAS, PYTORCH, ONNX_RUNTIME)
            ],
        )
        for title, section in (("Time by sequence length, ms", LENGTHS), ("Time by batch size, ms", BATCHES))
    ],
    "sharing a machine": [
        *_by_load(
            "A small op, ms: ",
            [WAIT_ALONE, WAIT_WITH_PRODUCTS, WAIT_WITH_SEQUENCES],
            {
                "median": lambda peer: wait(50, TANH, peer),
                "99th percentile": lambda peer: wait(99, TANH, peer),
            },
            _LOAD,
            [*PEERS],
        ),
        *_by_load(
            "Clients of the same network: ",
            [*CLIENTS.values()],
            {
                "calls per second": lambda peer: _rate(FORWARD, peer),
                "99th percentile of a call, ms": lambda peer: wait(99, FORWARD, peer),
            },
            (*_CASE, *_NUM_CLIENTS),
            [*PEERS],
        ),
        *(
            Table(
                f"Networks {SECTIONS[section].title}",
                [section],
                [
                    *_group(FORWARD, PYTORCH, ONNX_RUNTIME, words=FORWARD),
                    *_group(FORWARD_BACKWARD, PYTORCH, words=FORWARD_BACKWARD),
                ],
            )
            for section in (BUSY_CPU, *THREADS_PER_CPU.values())
        ),
        Table("Training with a tf.data pipeline", [PIPELINE], _group(FORWARD_BACKWARD, KERAS)),
    ],
    SERVING: [
        *_by_load(
            "SavedModels in a C program: ",
            [*SERVING_CLIENTS.values()],
            {
                "requests per second": lambda peer: _rate(_request_of(peer), peer),
                "99th percentile of a request, ms": lambda peer: wait(99, _request_of(peer), peer),
            },
            (*_SERVED, *_NUM_CLIENTS),
            SERVERS,
        ),
        Table(
            "Memory of SavedModels in a C program, MiB",
            [SERVING_MEMORY],
            [
                Column(f"{label(peer)}: {copies}", _memory(peer, copies))
                for peer in SAVED_MODELS
                for copies in COPIES.values()
            ],
            names=_SERVED,
            is_transposed=True,
        ),
    ],
    CALLS_FROM_PYTHON: [
        Table(
            f"{count} {'thread' if count == 1 else 'threads'}: {words}",
            [section],
            [Column(f"{label(peer)}: {task}", figure(task, peer)) for task, peer in WAYS],
            names=(("", lambda _, case: case.title),),
            is_transposed=True,
        )
        for count, section in CALL_CLIENTS.items()
        for words, figure in (
            ("median of a call, µs", lambda task, peer: wait(50, task, peer, unit=1e6))
            if count == 1
            else ("calls per second", _rate),
            (
                "99.9th percentile of a call, µs, of 1000 calls or more",
                lambda task, peer: wait(99.9, task, peer, unit=1e6, least=1000),
            ),
        )
    ],
    GRAPHS: [
        Table(title, [GRAPHS], columns, lambda case: case.batch == EXPORTED_BATCHES[0], _EXPORTED)
        for title, columns in (
            *((f"SavedModels, called from Python: batch {batch}", _of_files(batch)) for batch in EXPORTED_BATCHES),
            (
                "The same files in a C program",
                [each for batch in EXPORTED_BATCHES for each in _of_keras(SERVE_IN_C, f"batch {batch}", batch, BEFORE)],
            ),
            (
                "Models of Keras with accelerate_keras",
                [
                    *_of_keras(FUNCTION, f"inference, batch {EXPORTED_BATCHES[0]}", EXPORTED_BATCHES[0], "Keras"),
                    *_of_keras(
                        TRAIN_ON_BATCH, f"training step, batch {EXPORTED_BATCHES[1]}", EXPORTED_BATCHES[1], "Keras"
                    ),
                ],
            ),
        )
    ],
    "memory": [
        Table(
            "Memory of a training step, MiB",
            [MEMORY],
            [
                *(Column(label(peer), _memory(peer)) for peer in PEERS),
                Column("tf_rnn_ops / Keras", over(_memory(OURS), _memory(KERAS)), ratio),
            ],
            lambda case: case.kind == "network",
        ),
        Table(
            "Memory of a training step with a gradient penalty, MiB",
            [MEMORY],
            [
                column
                for peer in PEERS
                for column in (
                    Column(label(peer), _memory(peer)),
                    Column(f"{label(peer)} / without penalty", penalty_memory(peer), ratio),
                )
            ],
            lambda case: case.kind == "penalty",
            _PENALIZED,
        ),
    ],
    "gradients of penalties": [
        Table(
            "Training step with a gradient penalty",
            [SECOND_ORDER],
            [
                Column("forward + backward, ms", median(FORWARD_BACKWARD, unit=1e3)),
                Column("penalty gradient, ms", median(PENALTY, unit=1e3)),
                Column("penalty gradient / forward + backward", over(median(PENALTY), median(FORWARD_BACKWARD)), ratio),
                *_speedups(PENALTY, KERAS, KERAS_XLA, KERAS_UNROLLED, PYTORCH),
            ],
            names=_PENALIZED,
        ),
    ],
    THREADS: [
        Table(
            f"{task}, by threads: {words}",
            [SCALING_THREADS[1]],
            [
                Column(str(count), _in(section, figure(task)), text, than.format(count))
                for count, section in SCALING_THREADS.items()
            ],
        )
        for task in (FORWARD, FORWARD_BACKWARD)
        for words, figure, text, than in (
            ("ms", lambda task: median(task, unit=1e3), short, ""),
            (
                f"speedup over the faster of {' and '.join(map(label, _FASTEST_OTHER))}",
                lambda task: speedup(task, *_FASTEST_OTHER),
                ratio,
                "{} threads",
            ),
        )
    ],
}
TABLES = {table.title: table for tables in PARTS.values() for table in tables}
