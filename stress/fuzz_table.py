"""Counts reports by op and kind, and formats them as a table."""

import collections

from fuzz_session import Report
from inputs.calls import OPS

# Column heads by kind of report. Other kinds follow under their own names.
HEADS = {
    "compared": "equals the reference",
    "accepted": "answered",
    "InvalidArgumentError": "InvalidArgument",
    "ResourceExhaustedError": "ResourceExhausted",
    "UnimplementedError": "Unimplemented",
    "ValueError": "ValueError",
    "TypeError": "TypeError",
    "OverflowError": "OverflowError",
    "no kernel": "no kernel",
    "no such op": "no such op",
}


class Table:
    """Reports counted by op and kind."""

    def __init__(self) -> None:
        self._counts: collections.Counter[tuple[str, str]] = collections.Counter()
        self.num_findings = 0

    def add(self, report: Report) -> None:
        """Counts a report."""
        self._counts[report.op, report.kind] += 1
        self.num_findings += report.is_finding

    def num_calls(self) -> int:
        """Returns the number of reports."""
        return self._counts.total()

    def markdown(self) -> str:
        """Returns the table in Markdown, with a column for each kind that occurred."""
        found = {kind for _, kind in self._counts}
        kinds = [kind for kind in HEADS if kind in found] + sorted(found - set(HEADS))
        ops = [op for op in OPS if any(self._counts[op, kind] for kind in kinds)]
        rows = [["op", "calls", *(HEADS.get(kind, f"**{kind}**") for kind in kinds)]]
        rows.append(["---", *["---:"] * (len(kinds) + 1)])
        rows += [self._row(f"`{op}`", [op], kinds) for op in ops]
        rows.append(self._row("all", ops, kinds))
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)

    def _row(self, title: str, ops: list[str], kinds: list[str]) -> list[str]:
        counts = [sum(self._counts[op, kind] for op in ops) for kind in kinds]
        return [title, *(f"{count:,}".replace(",", " ") for count in (sum(counts), *counts))]
