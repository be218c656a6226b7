"""Counts what the engine and the package cost, and compares the counts with tools/costs.json.

    python tools/costs.py PROGRAM [--accept]

PROGRAM is bazel-bin/cc/rnn/instruction_counts. Counts are instructions of passes of the engine, by function, with AVX2
on one thread, under valgrind; what the ways in from Python need: calls of Python functions, graphs that 100 calls make,
and nodes of graphs; modules that the package imports; and bytes of its libraries. The exit status is 1 if a count
differs by more than 2%. --accept writes the new counts. `make costs` runs this program.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping

COUNTS = pathlib.Path(__file__).with_suffix(".json")
WAYS_IN = pathlib.Path(__file__).with_name("ways_in.py")
TOLERANCE = 0.02
SHARE = 0.02  # smaller functions are counted together

# A count by its parts. The sum is compared.
Parts = Mapping[str, int]


def instructions(program: str, name: str) -> Parts:
    """Returns the instructions of a pass of the engine, by function."""
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder, "callgrind.out")
        valgrind = ["valgrind", "--quiet", "--tool=callgrind", "--collect-atstart=no", "--toggle-collect=*Measured*"]
        subprocess.run(
            [*valgrind, f"--callgrind-out-file={output}", program, name],
            check=True,
            env=os.environ | {"TF_RNN_OPS_ISA": "avx2"},
        )
        return _large(_by_function(output.read_text()))


def _by_function(profile: str) -> Parts:
    """Returns the instructions of each function in callgrind's format, without those of functions that it calls."""
    names: dict[str, str] = {}
    counts: collections.Counter[str] = collections.Counter()
    function, is_call = "", False
    for line in profile.splitlines():
        if match := re.fullmatch(r"(c?)fn=\((\d+)\)(?: (.*))?", line):
            name = names.setdefault(match[2], _short(match[3] or ""))
            function = function if match[1] else name
        elif line.startswith("calls="):
            is_call = True  # the next line has the instructions of the called function
        elif match := re.fullmatch(r"[+*-]?\d* ?(\d+)", line):
            if not is_call:
                counts[function] += int(match[1])
            is_call = False
    return counts


def _short(name: str) -> str:
    """Returns a C++ name without namespaces, arguments and their types, or the beginning of a mangled name."""
    while name != (shorter := re.sub(r"<[^<>]*>|\([^()]*\)", "", name)):
        name = shorter
    name = re.sub(r"\{lambda[^}]*\}::operator", "lambda", name)
    (*_, last) = re.sub(r" const|'\d+| \[clone[^]]*\]", "", name).split() or [""]
    return "::".join(last.split("::")[-2:])[:60]


def _large(counts: Parts) -> Parts:
    """Returns the counts with the small ones together."""
    total = sum(counts.values())
    large = {name: count for name, count in sorted(counts.items()) if count >= SHARE * total}
    return {**large, "other": total - sum(large.values())}


def counts(program: str) -> dict[str, Parts]:
    """Returns all counts by name."""
    names = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        engine = dict(zip(names, threads.map(lambda name: instructions(program, name), names), strict=True))
    # In another folder, where Python imports the installed package.
    command = [sys.executable, str(WAYS_IN)]
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=tempfile.gettempdir())
    return {**{f"instructions: {name}": parts for name, parts in engine.items()}, **json.loads(result.stdout)}


def differences(old: Mapping[str, Parts], new: Mapping[str, Parts]) -> Iterator[str]:
    """Yields a line for each count that differs, followed by lines of its parts."""
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name, {}), new.get(name, {})
        sums = sum(before.values()), sum(after.values())
        if abs(sums[1] - sums[0]) <= TOLERANCE * sums[0]:
            continue
        yield _line(name, *sums)
        for part in sorted(before.keys() | after.keys()):
            if before.get(part) != after.get(part):
                yield f"  {_line(part, before.get(part, 0), after.get(part, 0))}"


def _line(name: str, before: int, after: int) -> str:
    change = f" ({after / before - 1:+.1%})" if before else ""
    return f"{name}: {before:,} before, {after:,} now{change}"


def main() -> None:
    """Compares or writes the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--accept", action="store_true", help="write the new counts")
    settings = parser.parse_args()
    old = json.loads(COUNTS.read_text()) if COUNTS.exists() else {}
    new = counts(settings.program)
    found = list(differences(old, new))
    print("\n".join(found or [f"{len(new)} counts differ by at most {TOLERANCE:.0%}"]))
    if settings.accept:
        COUNTS.write_text(json.dumps(new, indent=1) + "\n")
    elif found:
        sys.exit("If the new counts are right, run `make costs OPTIONS=--accept`, and say why in the commit message.")


if __name__ == "__main__":
    main()
