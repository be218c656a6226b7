"""Keeps the corpus of a fuzz target in one file: each line is an input, in hexadecimal.

    python tools/fuzz_corpus.py unpack FILE FOLDER              # a file for each input, as libFuzzer takes them
    python tools/fuzz_corpus.py choose CONTROL_FILE COUNT FILE  # those that together cover the most code

CONTROL_FILE is what libFuzzer's -set_cover_merge=1 -merge_control_file=CONTROL_FILE writes.
"""

import argparse
import pathlib


def unpack(file: pathlib.Path, folder: pathlib.Path) -> None:
    """Writes each input to a file of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    for index, line in enumerate(file.read_text().splitlines()):
        (folder / f"{index}").write_bytes(bytes.fromhex(line))


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


def pack(paths: list[str], file: pathlib.Path) -> None:
    """Writes the inputs of some files to one, in an order of their own."""
    lines = sorted(pathlib.Path(path).read_bytes().hex() for path in paths)
    file.write_text("".join(f"{line}\n" for line in lines))


def main() -> None:
    """Does what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    unpacking = commands.add_parser("unpack")
    unpacking.add_argument("file", type=pathlib.Path)
    unpacking.add_argument("folder", type=pathlib.Path)
    choosing = commands.add_parser("choose")
    choosing.add_argument("control_file", type=pathlib.Path)
    choosing.add_argument("count", type=int)
    choosing.add_argument("file", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.command == "unpack":
        unpack(arguments.file, arguments.folder)
    else:
        pack(choose(read_coverage(arguments.control_file), arguments.count), arguments.file)


if __name__ == "__main__":
    main()
