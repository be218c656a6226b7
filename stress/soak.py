"""Soak test: many threads, long training runs, long sequences, out-of-memory conditions, and packed weights.

Each part runs in a separate process and prints one line of results. The exit status is 1 if any part fails. The modules
of tests/ that the parts call describe them.
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
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--sections",
        type=lambda text: text.split(","),
        default=list(soak_sections.SECTIONS),
        metavar="SECTION,...",
        help=f"sections to run: {', '.join(soak_sections.SECTIONS)} (default: all)",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=2,
        help="minutes of concurrent calls per thread pool size (default: %(default)s)",
    )
    parser.add_argument("--steps", type=int, default=20_000, help="training steps of each run (default: %(default)s)")
    parser.add_argument(
        "--time", type=int, default=100_000, help="time steps of a long sequence (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="random seed of the concurrent calls (default: %(default)s)"
    )
    parser.add_argument(
        "--events",
        type=int,
        default=1000,
        help="exports with packed weights to load; a fifth as many cancelled calls (default: %(default)s)",
    )
    settings = parser.parse_args()
    unknown = set(settings.sections) - set(soak_sections.SECTIONS)
    if unknown:
        parser.error(f"no such sections: {', '.join(sorted(unknown))}")
    return settings


@dataclasses.dataclass(frozen=True)
class Row:
    """The result of a part."""

    section: str
    part: str
    seconds: float
    failed: bool
    summary: str

    def __str__(self) -> str:
        verdict = "FAILED" if self.failed else "passed"
        return f"{verdict}  {self.section}: {self.part} ({self.seconds:.0f} s): {self.summary}"


def run(section: str, part: Part) -> Row:
    """Runs a part in a separate process."""
    start = time.monotonic()
    os.environ.update(part.environment)
    try:
        context = multiprocessing.get_context("spawn")
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as executor:
            summary, failed = executor.submit(part).result(), False
    except Exception as error:  # run the other parts after any failure
        summary, failed = f"{type(error).__name__}: {error}", True
    finally:
        for name in part.environment:
            del os.environ[name]
    return Row(section, part.name, time.monotonic() - start, failed, summary)


def main() -> int:
    """Runs all parts, prints their results and returns the exit status."""
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
