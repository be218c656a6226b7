"""Runs the ops for long: on many threads, in long trainings, on long sequences, and without memory.

Each part runs in a process of its own. A table says what was run and what came of it; the exit status is 1 if anything
failed. What each part does is said in the module of tests/ that it calls.
"""

import argparse
import concurrent.futures
import dataclasses
import multiprocessing
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import paths  # noqa: F401
import soak_sections
from soak_sections import Part


def parse_arguments() -> argparse.Namespace:
    """Returns the command line's settings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--sections",
        type=lambda text: text.split(","),
        default=list(soak_sections.SECTIONS),
        metavar="SECTION,...",
        help=f"parts of it: {', '.join(soak_sections.SECTIONS)} (default: all)",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=2,
        help="how long threads call the ops, for each size of the pools (default: %(default)s)",
    )
    parser.add_argument("--steps", type=int, default=20_000, help="of each training (default: %(default)s)")
    parser.add_argument("--time", type=int, default=100_000, help="steps of a long sequence (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of what the threads call (default: %(default)s)")
    settings = parser.parse_args()
    unknown = set(settings.sections) - set(soak_sections.SECTIONS)
    if unknown:
        parser.error(f"no such sections: {', '.join(sorted(unknown))}")
    return settings


@dataclasses.dataclass(frozen=True)
class Row:
    """A line of the table."""

    section: str
    part: str
    seconds: float
    failed: bool
    words: str

    def __str__(self) -> str:
        verdict = "FAILED" if self.failed else "passed"
        return f"{verdict}  {self.section}: {self.part} ({self.seconds:.0f} s): {self.words}"


def run(section: str, part: Part) -> Row:
    """Runs a part in a process of its own."""
    start = time.monotonic()
    os.environ.update(part.environment)
    try:
        context = multiprocessing.get_context("spawn")
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as executor:
            words, failed = executor.submit(part).result(), False
    except Exception as error:  # whatever went wrong there: the other parts are run all the same
        words, failed = f"{type(error).__name__}: {error}", True
    finally:
        for name in part.environment:
            del os.environ[name]
    return Row(section, part.name, time.monotonic() - start, failed, words)


def main() -> int:
    """Runs all parts, prints the table, and returns the exit status."""
    settings = parse_arguments()
    rows = []
    for section in settings.sections:
        for part in soak_sections.SECTIONS[section](settings):
            rows.append(run(section, part))
            print(rows[-1], flush=True)
    num_failed = sum(row.failed for row in rows)
    print(f"{len(rows)} parts, {num_failed} failed")
    return int(num_failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
