"""Types of command-line options for argparse, and the options that all benchmarks have."""

import argparse
import pathlib
from collections.abc import Callable, Collection, Sequence

from cases import Case, parse_case

QUICK_ROUNDS = 2


def cases(text: str) -> list[Case]:
    """Returns the cases of comma-separated names, without duplicates."""
    try:
        return list(dict.fromkeys(parse_case(name) for name in text.split(",")))
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


def add_common(parser: argparse.ArgumentParser, peers: Sequence[str], rounds: int) -> None:
    """Adds --peers, --rounds, --output and --quick.

    Args:
      parser: the parser to add them to.
      peers: the names of the peers that the benchmark supports.
      rounds: the default number of samples of each figure.
    """
    parser.add_argument(
        "--peers",
        type=names_of(peers),
        default=peers,
        metavar="PEER,...",
        help=f"libraries to compare with (default: {','.join(peers)})",
    )
    parser.add_argument("--rounds", type=positive, metavar="N", help=f"samples of each figure (default: {rounds})")
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        default=pathlib.Path("build/bench"),
        metavar="DIR",
        help="folder for the results (default: %(default)s)",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"tiny networks and {QUICK_ROUNDS} rounds (unless --rounds is given), to check that everything works",
    )
