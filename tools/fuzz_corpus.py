"""Packs and unpacks the corpus of a fuzz target: one file with one input per line, in hexadecimal.

    python tools/fuzz_corpus.py unpack FILE FOLDER              # write one file per input, for libFuzzer
    python tools/fuzz_corpus.py choose CONTROL_FILE COUNT FILE  # pack the inputs that cover the most code

CONTROL_FILE is written by libFuzzer with -set_cover_merge=1 -merge_control_file=CONTROL_FILE.
"""

import pathlib
import sys


def unpack(file: pathlib.Path, folder: pathlib.Path) -> None:
    """Writes each input to a separate file."""
    folder.mkdir(parents=True, exist_ok=True)
    for index, line in enumerate(file.read_text().splitlines()):
        (folder / f"{index}").write_bytes(bytes.fromhex(line))


def read_coverage(control_file: pathlib.Path) -> dict[str, set[int]]:
    """Returns the features that each file covers.

    The control file contains the number of files, the number of files in the first corpus, the paths, and a line
    "FT index feature feature ..." per file.
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
    """Returns at most `count` files, chosen greedily by added coverage."""
    chosen: list[str] = []
    covered: set[int] = set()
    while len(chosen) < count:
        best = max(coverage, key=lambda path: len(coverage[path] - covered))
        if coverage[best] <= covered:
            break
        chosen.append(best)
        covered |= coverage[best]
    return chosen


def pack(paths: list[str], file: pathlib.Path) -> None:
    """Writes the contents of several files to one file, sorted."""
    lines = sorted(pathlib.Path(path).read_bytes().hex() for path in paths)
    file.write_text("".join(f"{line}\n" for line in lines))


def main() -> None:
    """Runs the command line."""
    match sys.argv[1:]:
        case ["unpack", file, folder]:
            unpack(pathlib.Path(file), pathlib.Path(folder))
        case ["choose", control_file, count, file]:
            pack(choose(read_coverage(pathlib.Path(control_file)), int(count)), pathlib.Path(file))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
