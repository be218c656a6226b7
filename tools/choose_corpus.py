"""Chooses the files of a fuzz target's corpus that together cover the most code.

    python tools/choose_corpus.py CONTROL_FILE COUNT

CONTROL_FILE is what libFuzzer's -set_cover_merge=1 -merge_control_file=CONTROL_FILE writes. Prints their paths.
"""

import argparse
import pathlib


def read_coverage(control_file: pathlib.Path) -> dict[str, set[int]]:
    """Returns what each file covers.

    The control file has the number of files, that of those of the first corpus, their paths, and for each a line
    "FT index feature feature ...".
    """
    lines = control_file.read_text().splitlines()
    paths = lines[2 : 2 + int(lines[0])]
    coverage = {}
    for line in lines:
        kind, *numbers = line.split()
        if kind == "FT":
            index, *features = map(int, numbers)
            coverage[paths[index]] = set(features)
    return coverage


def choose(coverage: dict[str, set[int]], count: int) -> list[str]:
    """Returns at most `count` files: each the one that adds the most to those before it."""
    chosen: list[str] = []
    covered: set[int] = set()
    while len(chosen) < count:
        best = max(coverage, key=lambda path: len(coverage[path] - covered))
        if coverage[best] <= covered:
            break
        chosen.append(best)
        covered |= coverage[best]
    return chosen


def main() -> None:
    """Prints the chosen paths, one a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("control_file", type=pathlib.Path)
    parser.add_argument("count", type=int)
    arguments = parser.parse_args()
    print(*choose(read_coverage(arguments.control_file), arguments.count), sep="\n")


if __name__ == "__main__":
    main()
