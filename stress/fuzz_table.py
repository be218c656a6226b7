"""Formats counts of reports by op and kind as a table."""

import collections

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


def markdown(counts: collections.Counter[tuple[str, str]]) -> str:
    """Returns a table in Markdown of counts by op and kind, with a column for each kind that occurred."""
    found = {kind for _, kind in counts}
    kinds = [kind for kind in HEADS if kind in found] + sorted(found - set(HEADS))
    ops = [op for op in OPS if any(counts[op, kind] for kind in kinds)]

    def row(title: str, ops: list[str]) -> list[str]:
        of_kinds = [sum(counts[op, kind] for op in ops) for kind in kinds]
        return [title, *(f"{count:,}".replace(",", " ") for count in (sum(of_kinds), *of_kinds))]

    rows = [
        ["op", "calls", *(HEADS.get(kind, f"**{kind}**") for kind in kinds)],
        ["---", *["---:"] * (len(kinds) + 1)],
        *(row(f"`{op}`", [op]) for op in ops),
        row("all", ops),
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
