"""The summary of the report, made from the tables in the pages: what is faster, what is slower, and the chart."""

import itertools
import pathlib
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from cases import ACCELERATED, CALL_IN_PYTHON, FORWARD, FORWARD_BACKWARD, FROZEN, FUNCTION, TRAIN_ON_BATCH
from results import label
from sections import (
    EXPORTED_BATCHES,
    KERAS,
    KERAS_XLA,
    ONNX_RUNTIME,
    ONNX_RUNTIME_INT8,
    OURS,
    OURS_INT8,
    OURS_PACKED,
    PYTORCH,
)
from tables import CALLS_FROM_PYTHON, MEAN, PARTS, RANGE, TABLES, Table, grid, ratio

PART = "summary"
BEHIND = 0.95  # Slower by less is within the variation between runs.
COLORS = ("#c8102e", "#9aa5b1")  # of bars above and below 1
_OTHERS = tuple(map(label, (KERAS, PYTORCH, ONNX_RUNTIME)))


class Comparison(NamedTuple):
    """A comparison with something else, in each row of a table.

    Attributes:
      table: the table.
      than: what we are compared with.
      column: the head of the column of speedups, or of the other's figures.
      ours: the head of the column of our figures; empty if `column` has speedups.
    """

    table: Table
    than: str
    column: str
    ours: str = ""

    def speeds(self, found: Mapping[str, str]) -> list[tuple[float, str]]:
        """Returns our speed relative to the other's, and the name, of each row, given the text of each part."""
        rows = [(self._speed(cells), name) for name, cells in rows_of(self.table, found)]
        return [(speed, name) for speed, name in rows if speed]

    def _speed(self, cells: Mapping[str, str]) -> float:
        if not (cells.get(self.column) and (not self.ours or cells.get(self.ours))):
            return 0
        if not self.ours:
            return float(cells[self.column])
        more_is_faster = "per second" in self.table.title
        ours, other = float(cells[self.ours]), float(cells[self.column])
        return ours / other if more_is_faster else other / ours


def rows_of(table: Table, found: Mapping[str, str]) -> Iterable[tuple[str, dict[str, str]]]:
    """Yields the name and the cells of each row of a table, by the heads of the columns, without mean and range."""
    _, _, text = "".join(found.values()).partition(f"### {table.title}\n\n")
    lines = itertools.takewhile(lambda line: line.startswith("|"), text.splitlines())
    grid_of = [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]
    if not grid_of:
        return
    heads, _, *rows = grid_of
    if table.is_transposed:
        heads, *rows = map(list, zip(heads, *rows, strict=True))
    for row in rows:
        if row[0] not in (MEAN, RANGE):
            cells = dict(zip(heads, row, strict=True))
            name = next(filter(None, row[: len(table.names)]))
            yield f"{name}, {cells['clients']} clients" if "clients" in cells else name, cells


def _speedups(title: str) -> list[Comparison]:
    """Returns the comparisons of a table of speedups."""
    return [Comparison(TABLES[title], each.than, each.head) for each in TABLES[title].columns if each.than]


def _figures(title: str, ours: str, *others: str) -> list[Comparison]:
    """Returns the comparisons of our column with those of others in a table of figures."""
    return [
        Comparison(TABLES[title], re.sub(f"^{FORWARD}.*?: |: {CALL_IN_PYTHON}$", "", each), each, ours)
        for each in others
    ]


def _served(title: str, call: str = "", of_ours: str = "") -> dict[str, list[Comparison]]:
    """Returns the comparisons of served models by format of the weights, given endings of the heads of columns."""
    pairs = {"packed weights": (OURS_PACKED, ONNX_RUNTIME), "int8": (OURS_INT8, ONNX_RUNTIME_INT8)}
    return {
        words: _figures(title, f"{label(ours)}{of_ours}", f"{label(other)}{call}")
        for words, (ours, other) in pairs.items()
    }


_IN_C = _served("SavedModels in a C program: requests per second")
_IN_PYTHON = [
    _served(table.title, f": {CALL_IN_PYTHON}", f": {FROZEN}")
    for table in PARTS[CALLS_FROM_PYTHON]
    if "percentile" not in table.title
]
# What people do.
HEADLINES: dict[str, Sequence[Comparison]] = {
    "Predict with a Keras model": _speedups(f"Keras models: {FUNCTION}"),
    "Train a Keras model": _speedups(f"Keras models: {TRAIN_ON_BATCH}"),
    **{f"Serve in C, {words}": comparisons for words, comparisons in _IN_C.items()},
    **{f"Serve from Python, {words}": comparisons for words, comparisons in _IN_PYTHON[0].items()},
    "Call an old SavedModel from Python": [
        comparison
        for batch in EXPORTED_BATCHES
        for comparison in _speedups(f"SavedModels, called from Python: batch {batch}")
        if comparison.column == ACCELERATED
    ],
    "Call an old SavedModel in C": _speedups("The same files in a C program"),
}
# All comparisons, in the order of the tables: all speedups, and these of times and rates.
_OF_FIGURES = [
    *itertools.chain(*_IN_C.values(), *(each for formats in _IN_PYTHON for each in formats.values())),
    *_figures("Clients of the same network: calls per second", label(OURS), *_OTHERS),
    *(
        comparison
        for title in TABLES
        if title.startswith("Call overhead")
        for comparison in _figures(title, label(OURS), label(KERAS_XLA), *_OTHERS)
    ),
    *(
        comparison
        for title in ("Time by sequence length, ms", "Time by batch size, ms")
        for task in (FORWARD, FORWARD_BACKWARD)
        for comparison in _figures(title, f"{task}: {label(OURS)}", *(f"{task}: {other}" for other in _OTHERS))
    ),
]
COMPARISONS = [
    comparison
    for title in TABLES
    for comparison in (*_speedups(title), *(each for each in _OF_FIGURES if each.table.title == title))
]


class Bar(NamedTuple):
    """A bar of the chart: what is done, what we are compared with, and our speed relative to it in each row."""

    activity: str
    than: str
    speeds: Sequence[float]

    @property
    def mean(self) -> float:
        """The geometric mean."""
        return statistics.geometric_mean(self.speeds)


def bars(found: Mapping[str, str]) -> list[Bar]:
    """Returns the bars of the chart, given the text of each part."""
    speeds: dict[tuple[str, str], list[float]] = {}
    for activity, comparisons in HEADLINES.items():
        for each in comparisons:
            speeds.setdefault((activity, each.than), []).extend(speed for speed, _ in each.speeds(found))
    return [Bar(*names, values) for names, values in speeds.items() if values]


def conditions(found: Mapping[str, str]) -> str:
    """Returns the versions, the dates and the machines of the tables of what people do."""
    titles = [each.table.title for comparisons in HEADLINES.values() for each in comparisons]
    parts = [text for text in found.values() if any(f"### {title}\n" in text for title in titles)]
    matches = [re.search(r"(tf_rnn_ops .*? threads)\.", text) for text in parts]
    return "; ".join(dict.fromkeys(match[1] for match in matches if match)) or "unknown machine"


def front(found: Mapping[str, str]) -> str:
    """Returns the summary in README.md."""
    lines = []
    for activity, of_activity in itertools.groupby(bars(found), key=lambda bar: bar.activity):
        texts = [f"**{bar.mean:.2f}x** {bar.than}" for bar in of_activity]
        lines.append(f"- {activity}: {', '.join(texts)}\n")
    return (
        "The speed of tf_rnn_ops relative to that of others, geometric means over models\n"
        f"({conditions(found)}):\n\n"
        f"{''.join(lines)}\n![Speed relative to other libraries: mean and range over models](docs/images/speed.png)\n"
    )


def page(found: Mapping[str, str]) -> str:
    """Returns the summary in docs/performance.md."""
    rows = [
        [bar.activity, bar.than, ratio(bar.mean), ratio(min(bar.speeds)), ratio(max(bar.speeds)), str(len(bar.speeds))]
        for bar in bars(found)
    ]
    heads = ["", "relative to", MEAN, "least", "most", "rows"]
    behind = "".join(f"- {line}\n" for line in _behind(found)) or "In no row.\n"
    return f"{grid(heads, rows, 2)}\n### Where others are faster\n\n{behind}"


def _behind(found: Mapping[str, str]) -> list[str]:
    """Returns a line for each table in which another is faster: who, in how many rows, and in which one most."""
    lines = []
    for table, of_table in itertools.groupby(COMPARISONS, key=lambda each: each.table):
        texts = []
        comparisons = list(of_table)
        others = [each.than for each in comparisons]
        for each in comparisons:
            speeds = each.speeds(found)
            slower = [(speed, name) for speed, name in speeds if speed < BEHIND]
            if slower:
                least, name = min(slower)
                than = each.than if others.count(each.than) == 1 else each.column
                texts.append(f"{than} in {len(slower)} of {len(speeds)} rows, down to {least:.2f} ({name})")
        if texts:
            lines.append(f"{table.title}: {'; '.join(texts)}")
    return lines


def draw(found: Mapping[str, str], path: pathlib.Path) -> None:
    """Saves the chart: bars of means, and lines from the least to the most, on a logarithmic axis."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    drawn = bars(found)
    activities = list(dict.fromkeys(bar.activity for bar in drawn))
    places = [index + 1.2 * activities.index(bar.activity) for index, bar in enumerate(drawn)]
    figure, axes = plt.subplots(figsize=(8.3, 1.4 + 0.23 * (places[-1] if places else 0)), layout="constrained")
    for place, bar in zip(places, drawn, strict=True):
        color = COLORS[0] if bar.mean >= 1 else COLORS[1]
        axes.barh(place, bar.mean - 1, left=1, height=0.75, color=color)
        axes.plot([min(bar.speeds), max(bar.speeds)], [place, place], color="#333333", linewidth=1)
        axes.annotate(
            f"{bar.mean:.2f}x",
            (max(*bar.speeds, 1), place),
            (4, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
        )
    for activity in activities:
        first = min(place for place, bar in zip(places, drawn, strict=True) if bar.activity == activity)
        axes.text(-0.33, first - 0.85, activity, transform=axes.get_yaxis_transform(), fontweight="bold", fontsize=9.5)
    axes.axvline(1, color="#333333", linewidth=1)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}x")
    axes.set_yticks(places, [bar.than for bar in drawn], fontsize=9.5)
    axes.invert_yaxis()
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    figure.suptitle(f"Speed relative to others, mean and range over models\n({conditions(found)})", fontsize=10)
    figure.savefig(path, dpi=100)
    plt.close(figure)
