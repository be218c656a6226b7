"""Prints which lines and branches of the code the tests ran, by folder; and each line that they did not.

tools/coverage.sh writes the counts, and runs this program.

Lines in tools/uncovered.json do not count: its entries have regular expressions of a file and of its lines, and the
reason. The exit status is 1 if a folder is below its goal, or if an entry fits no line.
"""

import argparse
import collections
import itertools
import json
import pathlib
import re
import sys
from collections.abc import Container, Iterable, Mapping
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


def read(folder: pathlib.Path) -> dict[str, Counts]:
    """Returns the counts of each file below the repository.

    Args:
      folder: where files in the format of LCOV are, and branches in JSON, from llvm-cov. Those of all instantiations of
        a template are one.
    """
    found: dict[str, Counts] = collections.defaultdict(lambda: Counts({}, {}))
    counts = found[""]

    def add_branch(key: tuple[str, ...], count: int) -> None:
        counts.branches[key] = max(counts.branches.get(key, 0), count)

    for record in itertools.chain.from_iterable(path.read_text().splitlines() for path in folder.glob("*.lcov")):
        kind, _, text = record.partition(":")
        fields = text.split(",")
        if kind == "SF":
            counts = found[in_repository(text)]
        elif kind == "DA":
            line = int(fields[0])
            counts.lines[line] = max(counts.lines.get(line, 0), int(fields[1]))
        elif kind == "BRDA":
            add_branch(tuple(fields[:3]), 0 if fields[3] == "-" else int(fields[3]))
    exported = (json.loads(path.read_text())["data"][0]["files"] for path in folder.glob("*.json"))
    for each in itertools.chain.from_iterable(exported):
        counts = found[in_repository(each["filename"])]
        for line, column, _, _, true, false, *_ in each["branches"]:
            add_branch((str(line), str(column), "true"), true)
            add_branch((str(line), str(column), "false"), false)
    del found[""]
    return found


def in_repository(file: str) -> str:
    """Returns a path relative to the repository; empty if it is elsewhere."""
    path = (ROOT / re.sub("^/proc/self/cwd/", "", file)).resolve()
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else ""


def lines_of(reason: Mapping[str, str], file: str) -> set[int]:
    """Returns the lines of a file to which a reason applies."""
    if not re.fullmatch(reason["file"], file):
        return set()
    code = (ROOT / file).read_text().splitlines()
    return {number for number, line in enumerate(code, 1) if re.search(reason["code"], line)}


def without(counts: Counts, left_out: Container[int]) -> Counts:
    """Returns counts without some lines."""
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
    parser.add_argument("folder", type=pathlib.Path, help="where the counts are, such as build/coverage")
    measured = read(parser.parse_args().folder)
    reasons = json.loads((ROOT / "tools/uncovered.json").read_text())
    left_out = {file: [lines_of(reason, file) for reason in reasons] for file in measured}
    files = {file: without(counts, set().union(*left_out[file])) for file, counts in sorted(measured.items())}
    for file, counts in files.items():
        missing = {line for line, count in counts.lines.items() if not count}
        partly = {int(key[0]) for key, count in counts.branches.items() if not count} - missing
        for words, numbers in (("not run", missing), ("not left in all ways", partly)):
            if numbers:
                print(f"{file}: {words}: {' '.join(map(str, sorted(numbers)))}")
    failures = []
    print("\n| folder | lines | branches |\n|---|---:|---:|")
    for folder, goals in GOALS.items():
        own = [counts for file, counts in files.items() if file.startswith(f"{folder}/")]
        lines, of_lines = share(count for each in own for count in each.lines.values())
        branches, of_branches = share(count for each in own for count in each.branches.values())
        print(f"| `{folder}` | {of_lines} | {of_branches} |")
        if not own or lines < goals[0] or branches < goals[1]:
            failures.append(f"{folder} is below its goal")
    for index, reason in enumerate(reasons):
        if not any(each[index] for each in left_out.values()):
            failures.append(f"no line fits {reason}")
    if failures:
        sys.exit("; ".join(failures))


if __name__ == "__main__":
    main()
