"""Draws the chart of README.md: the speed of some Keras models, relative to Keras."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

# From docs/performance.md: large and small models, long and short sequences, many sequences and one.
MODELS = (
    "text classifier, bidirectional LSTM",
    "LSTM, 2 layers of 320 units",
    "small LSTM, 1000 steps",
    "small LSTM, one sequence",
    "text generator, GRU",
)
OURS = "tf_rnn_ops"
COLORS = {OURS: "#c8102e", "Keras XLA": "#c3c7cf", "PyTorch": "#f0b27a", "ONNX Runtime": "#7fa8b8"}
_BAR = 0.8 / len(COLORS)


def speeds(speedups: Mapping[str, float]) -> dict[str, float]:
    """Returns the speed of each library relative to Keras, given the speedups of tf_rnn_ops over the libraries."""
    ours = {OURS: 1.0, **speedups}
    return {name: speedups["Keras"] / ours[name] for name in COLORS if name in ours} if speedups else {}


def draw(rows: Sequence[Any], conditions: str, path: pathlib.Path) -> None:
    """Saves the chart of those of some `report.ModelRow`s that are in `MODELS`, of all if none is."""
    rows = [row for row in rows if row.model in MODELS] or rows
    rows = sorted(rows, key=lambda row: MODELS.index(row.model) if row.model in MODELS else 0)
    size = (8.3, 1.2 + 0.6 * len(rows))
    figure, panels = plt.subplots(1, 2, figsize=size, sharex=True, sharey=True, layout="constrained")
    for axes, kind in zip(panels, ("inference", "training"), strict=True):
        for place, row in enumerate(rows):
            of_row = speeds(getattr(row, kind))
            if not of_row:
                axes.text(1, place, "  not trained", va="center", color="#888888", fontsize=9.5)
            for index, (name, speed) in enumerate(of_row.items()):
                y = place + (index - (len(of_row) - 1) / 2) * _BAR
                axes.barh(y, speed, _BAR, color=COLORS[name], edgecolor="white")
                if name == OURS:
                    style = {"color": COLORS[name], "fontweight": "bold", "fontsize": 10}
                    axes.text(speed, y, f" {speed:.1f}x", va="center", **style)
        axes.axvline(1, color="#333333", linewidth=1)
        axes.set_title(kind.capitalize(), loc="left", fontsize=12, fontweight="bold")
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        ticks = range(4, int(axes.get_xlim()[1]) + 1, 4)
        axes.set_xticks([1, *ticks], ["Keras", *(f"{tick}x" for tick in ticks)])
    panels[0].set_yticks(range(len(rows)), [row.model for row in rows], fontsize=10.5)
    panels[0].invert_yaxis()
    handles = [plt.Rectangle((0, 0), 1, 1, color=color) for color in COLORS.values()]
    figure.legend(handles, COLORS, loc="outside lower center", ncols=len(COLORS), frameon=False, fontsize=10.5)
    title = f"Speed of Keras models, relative to Keras: longer is faster ({conditions})"
    figure.suptitle(title, x=0.01, ha="left", fontsize=10)
    figure.savefig(path, dpi=100)
    plt.close(figure)
