"""Fuzzes every op with valid and nearly valid arguments in worker processes and checks each result.

python stress/fuzz.py --calls 200000 --seed 1
python stress/fuzz.py --seed 1 --call 4711
python stress/fuzz.py --library tensorflow --calls 20000
"""

import argparse
import collections
import dataclasses
import functools
import json
import math
import os
import pathlib
import sys
import time
from collections.abc import Iterator
from typing import TextIO

# The results are compared with those of the CPU.
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import paths  # noqa: F401
import fuzz_draw
import fuzz_session
from fuzz_run import LIBRARIES
from fuzz_table import markdown
from fuzz_workers import Answer, answers

FOLDER = pathlib.Path(__file__).parent.parent / "build" / "fuzz"
SECONDS_BETWEEN_LINES = 30


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=200_000, help="number of calls")
    parser.add_argument("--first", type=int, default=0, help="number of the first call")
    parser.add_argument("--seed", type=int, default=1, help="random seed; the seed and the number determine a call")
    parser.add_argument("--seconds", type=float, default=math.inf, help="time limit in seconds")
    parser.add_argument("--call", type=int, help="run only the call with this number, in this process")
    parser.add_argument("--library", choices=LIBRARIES, default=LIBRARIES[0], help="library whose ops are called")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="number of worker processes")
    parser.add_argument("--timeout", type=float, default=60, help="seconds after which a call counts as a hang")
    parser.add_argument(
        "--folder", type=pathlib.Path, default=FOLDER, help="folder for the findings and the worker logs"
    )
    return parser.parse_args(arguments)


def repeat(options: argparse.Namespace) -> int:
    """Runs one call in this process and prints its arguments and verdict."""
    make = fuzz_session.prepare(options.library, options.seed)
    call = fuzz_draw.draw(options.seed, options.call)
    description = {"op": call.op, "way": call.way, "mutations": call.mutations, "arguments": call.describe()}
    print(json.dumps(description, indent=2), flush=True)
    report = make(options.call)
    print(f"{'finding: ' if report.is_finding else ''}{report.kind}\n{report.text}")
    return int(report.is_finding)


def report_of(answer: Answer, seed: int) -> fuzz_session.Report:
    """Returns the report of an answer. If the process crashed or hung, use `--call` for details."""
    if not answer.failure:
        return answer.result
    op = fuzz_draw.op_of(seed, answer.number)
    return fuzz_session.Report(op, "unknown", answer.failure, is_finding=True, text=answer.output)


def numbers_of(options: argparse.Namespace) -> Iterator[int]:
    """Yields the numbers of the calls until the time limit."""
    end = time.monotonic() + options.seconds
    for number in range(options.first, options.first + options.calls):
        if time.monotonic() > end:
            return
        yield number


def write_finding(file: TextIO, number: int, report: fuzz_session.Report) -> None:
    """Writes a finding as one line of JSON."""
    file.write(json.dumps({"number": number, **dataclasses.asdict(report)}) + "\n")
    file.flush()


def fuzz(options: argparse.Namespace) -> int:
    """Runs all calls and prints the table of results."""
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    num_findings, start, last_line = 0, time.monotonic(), 0.0
    prepare = functools.partial(fuzz_session.prepare, options.library, options.seed)
    path = options.folder / f"findings-{options.library}-{options.seed}.jsonl"
    options.folder.mkdir(parents=True, exist_ok=True)
    numbers, pool = numbers_of(options), (prepare, options.workers, options.folder, options.timeout)
    with path.open("w") as file:
        for answer in answers(numbers, *pool, preload=["fuzz_session"]):
            report = report_of(answer, options.seed)
            counts[report.op, report.kind] += 1
            num_findings += report.is_finding
            if report.is_finding:
                write_finding(file, answer.number, report)
            seconds = time.monotonic() - start
            if seconds - last_line > SECONDS_BETWEEN_LINES:
                last_line = seconds
                print(f"{seconds:.0f} s: {counts.total()} calls, {num_findings} findings", flush=True)
    print(f"\n{markdown(counts)}\n")
    print(f"{counts.total()} calls of {options.library}, seed {options.seed}, in {time.monotonic() - start:.0f} s")
    print(f"{num_findings} findings{f', in {path}' if num_findings else ''}")
    return int(num_findings > 0)


def main(arguments: list[str] | None = None) -> int:
    """Runs the command."""
    options = parse_arguments(arguments)
    # Read by the fork server that starts the workers.
    folders = str(pathlib.Path(__file__).parent), os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, folders))  # an empty one would be the current folder
    return fuzz(options) if options.call is None else repeat(options)


if __name__ == "__main__":
    sys.exit(main())
