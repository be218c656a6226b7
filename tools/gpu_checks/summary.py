"""A run on one page: as text for the terminal, as Markdown for docs/gpu.md."""

import itertools
from collections.abc import Iterable, Sequence

from gpu_checks import results
from gpu_checks.results import FamilyResult, Report

# Of each family, how many failed cases are named.
NAMED = 5
PROBLEM_LENGTH = 200
PEERS = ("float64", "torch.nn", "inference")
DTYPES = ("float64", "float32", "float16", "bfloat16")
_TIMED = ("forward", "forward + backward")

_FAMILY_COLUMNS = ("family", "passed", "failed", "skipped", "end", "seconds")


def family_rows(report: Report, families: Iterable[str]) -> list[Sequence[str]]:
    """Returns a row of _FAMILY_COLUMNS for each family."""
    rows = []
    for family in (report.families[name] for name in families):
        counts = [
            str(len(family.with_status(*statuses)))
            for statuses in ((results.PASSED,), (results.FAILED, results.STARTED), (results.SKIPPED,))
        ]
        rows.append((family.name, *counts, family.end, f"{family.seconds:.0f}"))
    return rows


def difference_rows(report: Report) -> list[Sequence[str]]:
    """Returns, for each family and dtype, the largest relative difference from each peer."""
    rows = []
    for family, dtype in itertools.product(report.families.values(), DTYPES):
        cells = [_largest(family, dtype, peer) for peer in PEERS]
        if any(cells):
            rows.append((family.name, dtype, *cells))
    return rows


def _largest(family: FamilyResult, dtype: str, peer: str) -> str:
    found = [
        case.measured[peer] for name, case in family.cases.items() if name.endswith(f"-{dtype}") and peer in case.measured
    ]
    return f"{max(found):.1e}" if found else ""


def timing_rows(report: Report) -> list[Sequence[str]]:
    """Returns, for each network that was timed, milliseconds by us, PyTorch and TensorFlow, and the algorithm."""
    timing, tensorflow = (report.families.get(name, FamilyResult(name)) for name in ("timing", "tensorflow"))
    rows = []
    for case, task in itertools.product(timing.cases.values(), _TIMED):
        if f"{task} ms" not in case.measured:
            continue
        of_tensorflow = tensorflow.cases.get(case.name)
        times = [case.measured.get(f"{prefix}{task} ms") for prefix in ("", "torch.nn ")]
        times.append(of_tensorflow.measured.get(f"TensorFlow {task} ms") if of_tensorflow else None)
        cells = ["" if each is None else f"{each:.3f}" for each in times]
        rows.append((case.name, task, *cells, str(case.measured.get("algorithm", ""))))
    return rows


def copy_rows(report: Report) -> list[Sequence[str]]:
    """Returns, for each network that was timed, what a backward pass takes in place and on a copy."""
    columns = ("reserve_space MB", "in place ms", "copy ms")
    cases = report.families.get("timing", FamilyResult("timing")).cases.values()
    measured = [case for case in cases if all(name in case.measured for name in columns)]
    return [(case.name, *(f"{case.measured[name]:.3f}" for name in columns)) for case in measured]


def failures(family: FamilyResult) -> list[str]:
    """Returns a line for each of the first cases that failed, and one that counts the others."""
    failed = family.with_status(results.FAILED, results.STARTED)
    lines = [f"{case.name}: {'; '.join(case.problems) or 'did not end'}"[:PROBLEM_LENGTH] for case in failed[:NAMED]]
    return [*lines, f"... and {len(failed) - NAMED} more"] if len(failed) > NAMED else lines


def verdict(report: Report) -> str:
    """Returns what came of a run, in a sentence."""
    environment = report.environment
    where = f"on {environment.get('device', 'an unknown device')}, commit {environment.get('commit', 'unknown')}"
    if report.passed:
        return f"All checks passed {where}."
    names = [family.name for family in report.families.values() if not family.passed]
    return f"Not all checks passed {where}: {', '.join(names) or 'none was run'}."


def to_text(report: Report, families: Sequence[str] | None = None) -> str:
    """Returns a run as text: all of it, or the lines of some families."""
    names = list(report.families if families is None else families)
    lines = _aligned([*([] if families else [_FAMILY_COLUMNS]), *family_rows(report, names)])
    for name in names:
        lines += [f"  {name}/{line}" for line in failures(report.families[name])]
    if families is None:
        lines = [verdict(report), *(f"{name}: {value}" for name, value in report.environment.items()), "", *lines]
        for title, rows in _tables(report):
            lines += ["", *_aligned([title, *rows])]
    return "\n".join(lines) + "\n"


def to_markdown(report: Report) -> str:
    """Returns a run as Markdown."""
    facts = [(name, str(value)) for name, value in report.environment.items()]
    tables = [(("", ""), facts), (_FAMILY_COLUMNS, family_rows(report, report.families)), *_tables(report)]
    blocks = [verdict(report), *("\n".join(_markdown_rows([title, *rows])) for title, rows in tables)]
    failed = [f"- `{family.name}`: {line}" for family in report.families.values() for line in failures(family)]
    return "\n\n".join([*blocks, *(["\n".join(failed)] if failed else [])]) + "\n"


def _tables(report: Report) -> list[tuple[Sequence[str], list[Sequence[str]]]]:
    """Returns the titles and rows of what was measured, of what there is."""
    tables = [
        (("largest difference from", "dtype", *PEERS), difference_rows(report)),
        (("median ms", "task", "tf_rnn_ops", "PyTorch", "TensorFlow", "algorithm"), timing_rows(report)),
        (("backward alone", "reserve_space MB", "in place ms", "copy ms"), copy_rows(report)),
    ]
    return [(title, rows) for title, rows in tables if rows]


def _aligned(rows: list[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _markdown_rows(rows: list[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return [lines[0], "|---" * len(rows[0]) + "|", *lines[1:]]
