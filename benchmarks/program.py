"""What the programs of the benchmark share: options, and the loop over cases."""

import argparse
import datetime
import itertools
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence

from cases import Case, parse_cases
from measure import QUIET, Bench, Failure, Load, Measurement, Peer
from report import LINE_HEAD, print_lines, skipped
from results import Run, merge
from sections import OURS, Section

QUICK_ROUNDS = 2
ROOT = pathlib.Path(__file__).parent.parent
SOURCES = ("cc", "tf_rnn_ops", "third_party", "BUILD", "WORKSPACE", ".bazelrc", ".bazelversion", "libtf_rnn_ops.lds")


def parsed_cases(text: str) -> list[Case]:
    """Returns the cases of an option."""
    try:
        return parse_cases(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def names_of(known: Collection[str]) -> Callable[[str], list[str]]:
    """Returns an option type that accepts comma-separated names from `known`."""

    def names(text: str) -> list[str]:
        chosen = list(dict.fromkeys(text.split(",")))
        for name in chosen:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(known)}")
        return chosen

    return names


def positive(text: str) -> int:
    """Returns a positive integer."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)


def parser(description: str, peers: Collection[str], rounds: int, output: str) -> argparse.ArgumentParser:
    """Returns a parser of the options that all programs have.

    Args:
      description: describes the program.
      peers: the names of the peers that it supports.
      rounds: the default number of samples of each figure.
      output: the default folder for the results.
    """
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument(
        "--cases",
        type=parsed_cases,
        metavar="CASE,...",
        help="cases to measure instead of the default ones, "
        "such as lstm-32-100-128-256 (cell, batch, time, input, units), gru-8-20-64-64-2layers-bidirectional-varying-"
        "bfloat16, gru_block_cell-1-128-256 or model-lstm-16-200-24-64",
    )
    made.add_argument(
        "--peers",
        type=names_of(peers),
        default=list(peers),
        metavar="PEER,...",
        help="libraries to compare with (default: %(default)s)",
    )
    made.add_argument("--rounds", type=positive, metavar="N", help=f"samples of each figure (default: {rounds})")
    made.add_argument(
        "--output",
        type=pathlib.Path,
        default=pathlib.Path(output),
        metavar="DIR",
        help="folder for the results (default: %(default)s)",
    )
    made.add_argument(
        "--quick",
        action="store_true",
        help=f"tiny networks and {QUICK_ROUNDS} rounds (unless --rounds is given), to check that everything works",
    )
    return made


def parse(made: argparse.ArgumentParser, rounds: int, section: Section | None = None) -> argparse.Namespace:
    """Returns the settings, with the default number of rounds and, given a section, its cases."""
    settings = made.parse_args()
    settings.rounds = settings.rounds or (QUICK_ROUNDS if settings.quick else rounds)
    if section and not settings.cases:
        settings.cases = section.quick_cases if settings.quick else section.cases
    return settings


def use_cpus() -> None:
    """Hides GPUs from the libraries' processes, and selects Keras's backend for them."""
    os.environ |= {"CUDA_VISIBLE_DEVICES": "", "KERAS_BACKEND": "tensorflow"}


def begin(peers: Sequence[Peer], **fields) -> tuple[list[Peer], Run]:
    """Returns the peers whose packages are installed, and a run without measurements; prints what is missing."""
    missing = {peer.name: packages for peer in peers if (packages := peer.missing_packages())}
    for name, packages in missing.items():
        print(skipped(name, packages))
    run = Run(datetime.date.today().isoformat(), **fields, load_before=os.getloadavg(), left_out=missing)
    return [peer for peer in peers if peer.name not in missing], run.replace(commit=commit())


def commit() -> str:
    """Returns the commit that last changed the op library or the package; "unknown" outside a repository."""

    def git(*arguments: str) -> str:
        command = ["git", *arguments, "--", *SOURCES]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("log", "-1", "--format=%h") + (" and changes" if git("status", "--porcelain") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def add(run: Run, measurements: Sequence[Measurement], failures: Sequence[Failure], path: pathlib.Path) -> Run:
    """Returns a run with further results, which are printed and written."""
    for _, own in itertools.groupby(measurements, key=lambda each: each.section):
        print_lines(list(own))
    for failure in failures:
        print(f"{failure.case}: {failure.peer} is skipped: {failure.message}", flush=True)
    again = {(each.section, each.case.name, each.peer) for each in measurements}
    again |= {each[:3] for each in failures}
    run = run.replace(
        measurements=merge([*run.measurements, *measurements]),
        failures=[*(each for each in run.failures if each[:3] not in again), *failures],
        load_after=os.getloadavg(),
    )
    run.write(path)
    return run


def measure_section(
    bench: Bench,
    run: Run,
    path: pathlib.Path,
    section: Section,
    cases: Sequence[Case],
    rounds: int,
    load: Load = QUIET,
) -> Run:
    """Measures the cases of a section, and adds the results to a run after each case."""
    print(f"\n{section.title}\n{LINE_HEAD}")
    for case in cases:
        measured, failures = bench.measure(section.name, case, section.peers, rounds, section.tasks, load)
        run = add(run, measured, failures, path)
    return run


def exit_if_ours_failed(run: Run) -> None:
    """Ends the program with the exit status 1 if tf_rnn_ops failed."""
    if any(failure.peer.startswith(OURS) for failure in run.failures):
        sys.exit(1)
