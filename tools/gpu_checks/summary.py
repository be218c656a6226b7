"""The summary of a run: text for the terminal, and Markdown for docs/design/gpu.md."""

import collections
import itertools
import re
import statistics
from collections.abc import Iterable, Sequence

from gpu_checks import results
from gpu_checks.results import CaseResult, FamilyResult, Report

# Number of kinds of failures to list per family.
NAMED = 8
PROBLEM_LENGTH = 200
PEERS = ("float64", "torch.nn")
DTYPES = ("float64", "float32", "float16", "bfloat16")
TASKS = ("forward", "forward + backward")
# Prefix of the cases that time the backward pass and its gradient.
BACKWARD = "backward"
# Set in `measured` if PyTorch's layers do not run cuDNN.
PEER_RUNS = "torch.nn runs"

Row = Sequence[str]
_FAMILY_COLUMNS = ("family", "passed", "failed", "near", "skipped", "end", "seconds")
_DIFFERENCE_COLUMNS = ("largest difference", *(f"{dtype}, {peer}" for peer in PEERS for dtype in DTYPES))
_SPEED_COLUMNS = ("speed relative to PyTorch", "geometric mean", "range", "networks")
_TIMING_COLUMNS = (
    "median ms",
    "algorithm",
    *(f"{task}{by}" for task in ("fwd", "fwd+bwd") for by in ("", ", PyTorch")),
    "bwd in place",
    "bwd, copy",
    "bwd gradient",
)


def family_rows(report: Report, families: Iterable[str]) -> list[Row]:
    """Returns a row of _FAMILY_COLUMNS for each family."""
    rows: list[Row] = []
    for family in (report.families[name] for name in families):
        failed = family.with_status(results.FAILED, results.STARTED)
        counts = (
            len(family.with_status(results.PASSED)),
            len(failed),
            sum(case.is_near for case in failed),
            len(family.with_status(results.SKIPPED)),
        )
        rows.append((family.name, *map(str, counts), family.end, f"{family.seconds:.0f}"))
    return rows


def difference_rows(report: Report) -> list[Row]:
    """Returns a row of _DIFFERENCE_COLUMNS for each family that compares with a peer."""
    rows: list[Row] = []
    for family in report.families.values():
        cells = [_largest(family, dtype, peer) for peer, dtype in itertools.product(PEERS, DTYPES)]
        if any(cells):
            rows.append((family.name, *cells))
    return rows


def _largest(family: FamilyResult, dtype: str, peer: str) -> str:
    found = [
        case.measured[peer]
        for name, case in family.cases.items()
        if name.endswith(f"-{dtype}") and peer in case.measured
    ]
    return f"{max(found):.0e}" if found else ""


def timing_rows(report: Report) -> list[Row]:
    """Returns a row of _TIMING_COLUMNS for each network that was timed."""
    timing = report.families.get("timing", FamilyResult("timing")).cases
    rows: list[Row] = []
    for name, case in timing.items():
        if "forward ms" not in case.measured:
            continue
        backward = timing.get(f"{BACKWARD}-{name}")
        measured = {**case.measured, **(backward.measured if backward else {})}
        times = [f"{prefix}{task} ms" for task in TASKS for prefix in ("", "torch.nn ")]
        cells = [measured.get(key) for key in (*times, "in place ms", "copy ms", "gradient ms")]
        label = f"{name} (PyTorch: {case.measured[PEER_RUNS]})" if PEER_RUNS in case.measured else name
        rows.append(
            (label, str(case.measured["algorithm"]), *("" if each is None else f"{each:.3g}" for each in cells))
        )
    return rows


def speed_rows(report: Report) -> list[Row]:
    """Returns a row of _SPEED_COLUMNS for each task that was timed."""
    cases = report.families.get("timing", FamilyResult("timing")).cases.values()
    rows: list[Row] = []
    for task in TASKS:
        ours, theirs = f"{task} ms", f"torch.nn {task} ms"
        speeds = [
            case.measured[theirs] / case.measured[ours] for case in cases if {ours, theirs} <= case.measured.keys()
        ]
        if speeds:
            mean = statistics.geometric_mean(speeds)
            rows.append((task, f"{mean:.2f}", f"{min(speeds):.2f} to {max(speeds):.2f}", str(len(speeds))))
    return rows


def failures(family: FamilyResult) -> list[str]:
    """Returns a line for each of the first kinds of failures, and one with the number of other failed cases."""
    by_kind: dict[tuple[str, str], list[CaseResult]] = {}
    for case in family.with_status(results.FAILED, results.STARTED):
        by_kind.setdefault(_kind_of_failure(case), []).append(case)
    lines = []
    kinds = _by_turns(by_kind)
    for first, *others in (by_kind[kind] for kind in kinds[:NAMED]):
        line = f"{first.name}: {'; '.join(first.problems) or 'did not end'}"[:PROBLEM_LENGTH]
        lines.append(f"{line} [and {len(others)} similar]" if others else line)
    num_left = sum(len(by_kind[kind]) for kind in kinds[NAMED:])
    return [*lines, f"... and {num_left} more of {len(kinds) - NAMED} other kinds"] if num_left else lines


def _kind_of_failure(case: CaseResult) -> tuple[str, str]:
    """Returns a key for similar failures: the dtype, and the first problem without its numbers."""
    dtype = case.name.rpartition("-")[2]
    return dtype if dtype in DTYPES else "", re.sub(r"\b\d[\w.+-]*", "#", "".join(case.problems[:1]))


def _by_turns(kinds: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Sorts kinds of failures round-robin by dtype."""
    seen: collections.Counter[str] = collections.Counter()
    turns = {}
    for kind in kinds:
        turns[kind] = seen[kind[0]]
        seen[kind[0]] += 1
    return sorted(turns, key=turns.__getitem__)


def verdict(report: Report) -> str:
    """Returns the result of a run as a sentence."""
    environment = report.environment
    where = f"on {environment.get('device', 'an unknown device')}, commit {environment.get('commit', 'unknown')}"
    if report.passed:
        return f"All checks passed {where}."
    names = [family.name for family in report.families.values() if not family.passed]
    return f"Not all checks passed {where}: {', '.join(names) or 'no family ran'}."


def to_text(report: Report, families: Sequence[str] | None = None) -> str:
    """Formats a run, or some of its families, as text."""
    names = list(report.families if families is None else families)
    rows = family_rows(report, names)
    lines = _aligned([_FAMILY_COLUMNS, *rows] if families is None else rows)
    for name in names:
        lines += [f"  {name}/{line}" for line in failures(report.families[name])]
    if families is None:
        lines = [verdict(report), *(f"{name}: {value}" for name, value in report.environment.items()), "", *lines]
        for title, rows in _tables(report):
            lines += ["", *_aligned([title, *rows])]
    return "\n".join(lines) + "\n"


def to_markdown(report: Report) -> str:
    """Formats a run as Markdown."""
    facts: list[Row] = [(name, str(value)) for name, value in report.environment.items()]
    families: tuple[Row, list[Row]] = (_FAMILY_COLUMNS, family_rows(report, report.families))
    tables: list[tuple[Row, list[Row]]] = [(("fact", "value"), facts), families, *_tables(report)]
    blocks = [verdict(report), *("\n".join(_markdown_rows([title, *rows])) for title, rows in tables)]
    failed = [f"- `{family.name}`: {line}" for family in report.families.values() for line in failures(family)]
    return "\n\n".join([*blocks, *(["\n".join(failed)] if failed else [])]) + "\n"


def _tables(report: Report) -> list[tuple[Row, list[Row]]]:
    """Returns the titles and rows of the nonempty tables of measurements."""
    tables: list[tuple[Row, list[Row]]] = [
        (_DIFFERENCE_COLUMNS, difference_rows(report)),
        (_SPEED_COLUMNS, speed_rows(report)),
        (_TIMING_COLUMNS, timing_rows(report)),
    ]
    return [(title, rows) for title, rows in tables if rows]


def _aligned(rows: list[Row]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _markdown_rows(rows: list[Row]) -> list[str]:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return [lines[0], "|---" * len(rows[0]) + "|", *lines[1:]]
