"""The results of a run: a JSON Lines file, written case by case, so that an aborted run keeps its results."""

import dataclasses
import json
import os
import pathlib
from typing import Any

RESULTS = "gpu_check.jsonl"
ARCHIVE = "cudnn.zip"
SUMMARY = "summary.txt"
LOG = "log.txt"

ENDED = "ended"
# Exit status of a family's process if the GPU cannot run further work in it. A new process can continue.
DEVICE_LOST = 3
# Exit status if a case takes too long: that of faulthandler.
CASE_ENDED = 1
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
STARTED = "started"  # but not ended
# Suffix of a problem that may be due to rounding: less than NEAR_FACTOR times the tolerance.
NEAR = " (near)"
NEAR_FACTOR = 3
ENVIRONMENT = "environment"  # name of the family and of its only case, which measures the environment


@dataclasses.dataclass
class CaseResult:
    """The latest result of a case.

    Attributes:
      name: name, unique within its family.
      status: PASSED, FAILED, SKIPPED or STARTED.
      seconds: duration.
      measured: see Outcome.
      problems: see Outcome.
      skipped: see Outcome.
    """

    name: str
    status: str
    seconds: float = 0.0
    measured: dict[str, Any] = dataclasses.field(default_factory=dict)
    problems: list[str] = dataclasses.field(default_factory=list)
    skipped: str = ""

    @property
    def is_near(self) -> bool:
        """Whether it failed, possibly due to rounding only."""
        return bool(self.problems) and all(problem.endswith(NEAR) for problem in self.problems)


@dataclasses.dataclass
class FamilyResult:
    """The results of a family: its cases by name, and how it ended (ENDED if normally)."""

    name: str
    end: str = "did not end"
    seconds: float = 0.0
    cases: dict[str, CaseResult] = dataclasses.field(default_factory=dict)

    def with_status(self, *statuses: str) -> list[CaseResult]:
        """Returns the cases with one of the statuses."""
        return [case for case in self.cases.values() if case.status in statuses]

    @property
    def passed(self) -> bool:
        """Whether it ended normally, and no case failed."""
        return self.end == ENDED and bool(self.cases) and not self.with_status(FAILED, STARTED)


@dataclasses.dataclass
class Report:
    """The results of a run, by family, in the order in which the families began."""

    families: dict[str, FamilyResult]

    @property
    def environment(self) -> dict[str, Any]:
        """The environment of the run; empty if unknown."""
        family = self.families.get(ENVIRONMENT)
        return family.cases[ENVIRONMENT].measured if family and ENVIRONMENT in family.cases else {}

    @property
    def passed(self) -> bool:
        """Whether all families passed."""
        return bool(self.families) and all(family.passed for family in self.families.values())


def _append(path: pathlib.Path, line: dict[str, Any]) -> None:
    """Appends a line atomically."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, (json.dumps(line) + "\n").encode())
    finally:
        os.close(file)


def add_case(path: pathlib.Path, family: str, case: CaseResult) -> None:
    """Adds a result of a case, which replaces earlier ones."""
    _append(path, {"family": family, "case": dataclasses.asdict(case)})


def add_end(path: pathlib.Path, family: str, end: str, seconds: float) -> None:
    """Adds how a family ended."""
    _append(path, {"family": family, "end": end, "seconds": seconds})


def read(path: pathlib.Path) -> Report:
    """Reads a file of results. A missing file is empty.

    Raises:
      ValueError: if the file has any other content.
    """
    families: dict[str, FamilyResult] = {}
    text = path.read_text() if path.exists() else ""
    complete = text[: text.rfind("\n") + 1]  # another process may be writing the last line
    for number, line in enumerate(complete.splitlines(), start=1):
        try:
            entry = json.loads(line)
            family = families.setdefault(entry["family"], FamilyResult(entry["family"]))
            if "case" in entry:
                case = CaseResult(**entry["case"])
                family.cases[case.name] = case
            else:
                family.end, family.seconds = entry["end"], entry["seconds"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}, line {number} is not a result of tools/gpu_check.py: {error}") from error
    return Report(families)


def write_condensed(report: Report, path: pathlib.Path) -> None:
    """Writes a report for `read`, with one line per case and one for the end of each family."""
    path.unlink(missing_ok=True)
    for family in report.families.values():
        for case in family.cases.values():
            add_case(path, family.name, case)
        add_end(path, family.name, family.end, family.seconds)
