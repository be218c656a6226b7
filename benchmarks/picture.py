"""The picture of a run."""

import pathlib

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from cases import TASKS, Case
from measure import Measurement
from peers import KERAS, OURS, PEERS
from report import Run, ratio_to_keras

# The first, which is ours, stands out; those that it is compared with are quiet.
_COLORS = ("#d1495b", "#5b7b9a", "#a9bccd", "#8a8f6a", "#c9b458", "#7a6a8a")


def draw(run: Run, path: pathlib.Path) -> None:
    """Saves bars of GFLOP/s: a row for each task, a column for each dtype, which has an axis of its own."""
    cases_by_dtype: dict[str, list[Case]] = {}
    for case in run.cases:
        cases_by_dtype.setdefault(case.dtype, []).append(case)
    figure, grid = plt.subplots(
        len(TASKS),
        len(cases_by_dtype),
        figsize=(max(9, 2 + 1.4 * len(run.cases)), 7.5),
        width_ratios=[len(cases) for cases in cases_by_dtype.values()],
        sharey="col",
        squeeze=False,
        layout="constrained",
    )
    for axes, dtype in zip(grid[0], cases_by_dtype, strict=True):
        axes.set_title(dtype, fontsize=10)
    for row, (task, title) in zip(grid, TASKS.items(), strict=True):
        row[0].set_ylabel(f"GFLOP/s, {title}")
        for axes, cases in zip(row, cases_by_dtype.values(), strict=True):
            _draw_cases(axes, run, cases, task)
    figure.suptitle(_caption(run), x=0.01, ha="left", fontsize=11)
    figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _caption(run: Run) -> str:
    lines = ["Networks of batch, time, input, units on the CPU"]
    lines.append(f"Bars: medians of {run.rounds} rounds. Lines: quartiles.")
    if KERAS in run.peers:
        lines[-1] += f" Numbers: how many times as fast as {PEERS[KERAS].label}."
    return "\n".join(lines)


def _draw_cases(axes, run: Run, cases: list[Case], task: str) -> None:
    """Draws a group of bars for each case, and the limit where the cases are of its dtype."""
    places = np.arange(len(cases))
    width = 0.84 / len(run.peers)
    for index, peer in enumerate(run.peers):
        offset = (index - (len(run.peers) - 1) / 2) * width
        measurements = [run.find(case, peer, task) for case in cases]
        _draw_bars(axes, places + offset, width, measurements, _COLORS[index % len(_COLORS)], PEERS[peer].label)
        if peer == OURS:
            _draw_ratios(axes, run, places + offset, measurements)
    if cases[0].dtype == "float32":
        axes.axhline(run.limit, color="gray", linestyle="--", linewidth=1)
        place = {"xy": (0, run.limit), "xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        axes.annotate("fastest matrix product", xytext=(4, 3), color="gray", fontsize=9, **place)
    axes.set_xticks(places, [_tick(case) for case in cases], fontsize=8.5)
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.55, len(cases) - 0.45)
    axes.margins(y=0.1)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_bars(axes, places, width: float, measurements: list[Measurement | None], color: str, label: str) -> None:
    """Draws one peer's bars, with the quartiles; a case that the peer cannot do has none."""
    lower, median, upper = np.array([each.gflops if each else (np.nan,) * 3 for each in measurements]).T
    axes.bar(places, median, 0.94 * width, color=color, label=label)
    axes.errorbar(places, median, [median - lower, upper - median], fmt="none", ecolor="black", elinewidth=0.8)


def _draw_ratios(axes, run: Run, places, measurements: list[Measurement | None]) -> None:
    """Writes above our bars how many times as fast as Keras they are."""
    for place, measurement in zip(places, measurements, strict=True):
        ratio = ratio_to_keras(measurement, run.measurements) if measurement else None
        if measurement and ratio:
            top = (place, measurement.gflops[2])
            style = {"ha": "center", "va": "bottom", "fontsize": 9, "color": _COLORS[0]}
            axes.annotate(f"{ratio:.1f}", top, (0, 3), textcoords="offset points", **style)


def _tick(case: Case) -> str:
    """Returns what stands below a case's bars."""
    return f"{case.network}\n{case.batch}, {case.time}, {case.input_size}, {case.units}"
