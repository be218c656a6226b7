"""Prints which lines and branches of the code the tests ran, by folder; and each line that they did not.

Lines in tools/uncovered.json, which gives the reasons, do not count. The exit status is 1 if a folder is below its
goal.
"""

import argparse
import collections
import json
import pathlib
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parent.parent
# Least shares of lines and branches, by folder.
GOALS = {
    "tf_rnn_ops": (0.97, 0.9),
    **dict.fromkeys(("cc/rnn", "cc/ops", "cc/tensorflow", "cc/ffi"), (0.95, 0.9)),
}


class Counts(NamedTuple):
    """How often the lines and the branches of a file ran: by line; by line, block and branch."""

    lines: dict[int, int]
    branches: dict[tuple[str, ...], int]


def read(path: pathlib.Path) -> dict[str, Counts]:
    """Returns the counts of each file below the repository from a file in the format of LCOV."""
    found: dict[str, Counts] = collections.defaultdict(lambda: Counts({}, {}))
    counts = Counts({}, {})
    for record in path.read_text().splitlines():
        kind, _, text = record.partition(":")
        fields = text.split(",")
        if kind == "SF":
            file = (ROOT / text).resolve()
            counts = found[str(file.relative_to(ROOT))] if file.is_relative_to(ROOT) else Counts({}, {})
        elif kind == "DA":
            line = int(fields[0])
            counts.lines[line] = max(counts.lines.get(line, 0), int(fields[1]))
        elif kind == "BRDA":
            taken = 0 if fields[3] == "-" else int(fields[3])
            key = tuple(fields[:3])
            counts.branches[key] = max(counts.branches.get(key, 0), taken)
    return dict(found)


def without(file: str, counts: Counts, reasons: Sequence[Mapping[str, str]]) -> Counts:
    """Returns counts without the lines to which a reason applies."""
    patterns = [each["code"] for each in reasons if re.fullmatch(each["file"], file)]
    if not patterns:
        return counts
    code = (ROOT / file).read_text().splitlines()
    left_out = {n for n, line in enumerate(code, 1) if any(re.search(pattern, line) for pattern in patterns)}
    return Counts(
        {line: count for line, count in counts.lines.items() if line not in left_out},
        {key: count for key, count in counts.branches.items() if int(key[0]) not in left_out},
    )


def share(counts: Iterable[int]) -> tuple[float, str]:
    """Returns the share of counts above zero, and the text of it."""
    ran = [count > 0 for count in counts]
    part = sum(ran) / len(ran) if ran else 1.0
    return part, f"{100 * part:.1f}% of {len(ran)}"


def main() -> None:
    """Prints the table and the lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lcov", type=pathlib.Path, help="what was measured, in the format of LCOV")
    measured = read(parser.parse_args().lcov)
    reasons = json.loads((ROOT / "tools/uncovered.json").read_text())
    files = {file: without(file, counts, reasons) for file, counts in sorted(measured.items())}
    for file, counts in files.items():
        missing = [str(line) for line, count in sorted(counts.lines.items()) if not count]
        if missing:
            print(f"{file}: {' '.join(missing)}")
    below = []
    print("\n| folder | lines | branches |\n|---|---:|---:|")
    for folder, goals in GOALS.items():
        own = [counts for file, counts in files.items() if file.startswith(f"{folder}/")]
        if not own:
            continue
        lines, of_lines = share(count for each in own for count in each.lines.values())
        branches, of_branches = share(count for each in own for count in each.branches.values())
        print(f"| `{folder}` | {of_lines} | {of_branches} |")
        below += [folder] if lines < goals[0] or branches < goals[1] else []
    if below:
        sys.exit(f"below the goal: {', '.join(below)}")


if __name__ == "__main__":
    main()
