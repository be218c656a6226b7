"""Draws charts of a run."""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from cases import BACKWARD, FORWARD, FORWARD_BACKWARD, FUNCTION, TASKS, TRAIN_ON_BATCH, Case, CellSteps, Network
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from peers import KERAS, KERAS_XLA, ONNX_RUNTIME, OURS, OURS_XLA, PEERS, PYTORCH, RAW_OPS
from run import Run
from sections import MAIN, MODELS

# tf_rnn_ops stands out.
_STYLES: dict[str, dict[str, Any]] = {
    OURS: {"color": "#c8102e", "marker": "o", "markersize": 8, "zorder": 5},
    OURS_XLA: {"color": "#e8919f", "marker": "o", "markersize": 5.5},
    KERAS: {"color": "#7c8aa5", "marker": "s", "markersize": 5.5},
    KERAS_XLA: {"color": "#b9a13c", "marker": "v", "markersize": 6.5},
    PYTORCH: {"color": "#e07b39", "marker": "D", "markersize": 5.5},
    ONNX_RUNTIME: {"color": "#2a7f9e", "marker": "^", "markersize": 6.5},
    RAW_OPS: {"color": "#4f9a5b", "marker": "P", "markersize": 6.5},
}
_LIMIT = "fastest matmul"
_GRAY = "#666666"
_BAND = "#f3f3f3"
_RATIO_TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10)
_WIDE_RATIO_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
_WIDE = 12  # use _WIDE_RATIO_TICKS if highest / lowest ratio is at least this


@dataclasses.dataclass(frozen=True)
class _Group:
    """Cases that share axes.

    Attributes:
      title: the title.
      cases: the cases, from top to bottom.
      tasks: the tasks of the left and the right half of the chart.
      dtype: the dtype of the speed limit.
      section: the section of the benchmark.
    """

    title: str
    cases: Sequence[Case]
    tasks: Sequence[str]
    dtype: str
    section: str = MAIN


def draw(run: Run, path: pathlib.Path) -> bool:
    """Saves a chart of the ops' GFLOP/s and speedups: a row of axes for each group, half a row for each task.

    Returns:
      False if the run has no such measurements.
    """
    groups = _groups(run)
    if not groups:
        return False
    heights = [len(group.cases) + 1.4 for group in groups]
    figure, grid = plt.subplots(
        len(groups),
        4,
        figsize=(17, 2.2 + 0.33 * sum(heights)),
        height_ratios=heights,
        width_ratios=[1.15, 1, 1.15, 1],
        squeeze=False,
        layout="constrained",
    )
    for row, group in zip(grid, groups, strict=True):
        for half, task in enumerate(group.tasks):
            _draw_speeds(row[2 * half], run, group, task)
            _draw_ratios(row[2 * half + 1], run, group, task)
        _label_cases(row, group)
    figure.suptitle(_caption(run), x=0.01, ha="left", fontsize=12)
    figure.legend(*_legend(grid), loc="outside lower center", ncols=8, frameon=False, fontsize=11)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return True


def draw_models(run: Run, path: pathlib.Path) -> bool:
    """Saves a chart of the speedups of Keras models in inference and training.

    Returns:
      False if the run has no such measurements.
    """
    group = _Group("", run.cases(MODELS), (FUNCTION, TRAIN_ON_BATCH), "float32", MODELS)
    if not group.cases:
        return False
    size = (13, 2.2 + 0.33 * len(group.cases))
    figure, grid = plt.subplots(1, 2, figsize=size, squeeze=False, layout="constrained")
    for axes, task, title in zip(grid[0], group.tasks, ("inference", "training"), strict=True):
        _draw_ratios(axes, run, group, task)
        axes.set_title(f"{title}: speedup of tf_rnn_ops over each library", fontsize=10.5, loc="left")
    _label_cases(grid[0], group)
    cpu = run.versions.get(OURS, {}).get("CPU", "")
    caption = f"Keras models (batch, time, input, units) on {cpu}, {run.threads} threads, {run.date}"
    figure.suptitle(caption, x=0.01, ha="left", fontsize=11)
    figure.legend(*_legend(grid), loc="outside lower center", ncols=8, frameon=False, fontsize=11)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return True


def _groups(run: Run) -> list[_Group]:
    """Returns the groups for which the run has cases."""
    both, of_cell = (FORWARD, FORWARD_BACKWARD), (FORWARD, BACKWARD)

    def networks(dtype):
        return [case for case in run.cases() if isinstance(case, Network) and case.dtype == dtype]

    groups = [
        _Group("float32", networks("float32"), both, "float32"),
        _Group("bfloat16", networks("bfloat16"), both, "bfloat16"),
        _Group("", [case for case in run.cases() if isinstance(case, CellSteps)], of_cell, "float32"),
    ]
    return [group for group in groups if group.cases]


def _caption(run: Run) -> str:
    cpu = run.versions.get(OURS, {}).get("CPU", "")
    return (
        f"Networks (batch, time, input, units) on {cpu}, {run.threads} threads, {run.date}\n"
        f"Markers: medians of {run.rounds} rounds. Horizontal bars: quartiles. "
        "Dashed line: fastest matrix product of any library."
    )


def _draw_speeds(axes: Axes, run: Run, group: _Group, task: str) -> None:
    """Draws the GFLOP/s of all peers, and the limit."""
    for peer in run.peers():
        points = [(place, run.find(case, peer, task)) for place, case in enumerate(group.cases)]
        found = [(place, each) for place, each in points if each]
        if found:
            places = [place for place, _ in found]
            lower, median, upper = zip(*(each.gflops for _, each in found), strict=True)
            errors = [
                [m - low for m, low in zip(median, lower, strict=True)],
                [h - m for h, m in zip(upper, median, strict=True)],
            ]
            style = {"linestyle": "none", "elinewidth": 1.2, "label": PEERS[peer].label, **_STYLES[peer]}
            axes.errorbar(median, places, xerr=errors, **style)
    limit = run.limit(group.dtype)
    if limit is not None:
        axes.axvline(limit, color=_GRAY, linestyle="--", linewidth=1.2, label=_LIMIT)
    axes.set_xlim(left=0)
    axes.set_title(f"{_title(group, task)}, GFLOP/s", fontsize=10.5, loc="left")
    _dress(axes, group)


def _draw_ratios(axes: Axes, run: Run, group: _Group, task: str) -> None:
    """Draws our speedup over each peer; the area below 1 is shaded."""
    axes.set_xscale("log")
    highest, lowest = 1.6, 0.8
    for peer in (name for name in run.peers(group.section) if name != OURS):
        ratios = [(place, run.ratio(case, task, [peer], group.section)) for place, case in enumerate(group.cases)]
        found = [(place, ratio) for place, ratio in ratios if ratio is not None]
        if found:
            style = {"linestyle": "none", "label": PEERS[peer].label, **_STYLES[peer]}
            axes.plot([ratio for _, ratio in found], [place for place, _ in found], **style)
            highest = max([highest, *(ratio for _, ratio in found)])
            lowest = min([lowest, *(ratio for _, ratio in found)])
    axes.set_xlim(lowest / 1.12, highest * 1.12)
    axes.axvspan(lowest / 2, 1, color="#fbe3e0", zorder=0, linewidth=0)
    axes.axvline(1, color=_STYLES[OURS]["color"], linewidth=1.4, zorder=1)
    axes.xaxis.set_major_locator(FixedLocator(_RATIO_TICKS if highest / lowest < _WIDE else _WIDE_RATIO_TICKS))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
    axes.set_title("speedup over each library", fontsize=10.5, loc="left")
    _dress(axes, group)


def _title(group: _Group, task: str) -> str:
    return ", ".join(filter(None, [TASKS[task], group.title]))


def _dress(axes: Axes, group: _Group) -> None:
    """Shades every second case, and hides spines and tick marks."""
    for place in range(0, len(group.cases), 2):
        axes.axhspan(place - 0.5, place + 0.5, color=_BAND, zorder=-1, linewidth=0)
    axes.set_ylim(len(group.cases) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)


def _label_cases(row: Sequence[Axes], group: _Group) -> None:
    """Labels the cases to the left of the row."""
    for index, axes in enumerate(row):
        titles = [case.title.removesuffix(f", {group.dtype}") if index == 0 else "" for case in group.cases]
        axes.set_yticks(range(len(group.cases)), titles, fontsize=10)


def _legend(grid) -> tuple[list, list[str]]:
    """Returns handles and labels without duplicates."""
    handles: dict[str, Any] = {}
    for axes in grid.flat:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    order = [label for label in [*(peer.label for peer in PEERS.values()), _LIMIT] if label in handles]
    return [handles[label] for label in order], order
