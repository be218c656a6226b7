"""Measures the CudnnRNN ops beside other implementations of the same networks, on the CPU and in one run.

Of networks of one layer it measures inference (forward) and a step of training without the update (forward +
backward). It prints a line for each measurement and writes results.json, results.md and results.png.
docs/benchmarks.md says what the figures mean.
"""

import argparse
import importlib.util
import json
import os
import pathlib
from collections.abc import Sequence

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf
from cases import QUICK_TABLE, TABLE, Case
from measure import Measurement, measure_case
from peers import KERAS, OURS, PEERS
from report import LineTable, Run, to_json, to_markdown

ROUNDS = 30
QUICK_ROUNDS = 2


def parse_arguments() -> argparse.Namespace:
    """Returns the command line's settings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--cases",
        type=_cases,
        metavar="CASE,...",
        help="networks, each named by cell (lstm, gru, tanh), batch, time, input, units and, if not float32, dtype "
        f"(default: {','.join(case.name for case in TABLE)})",
    )
    parser.add_argument(
        "--peers",
        type=_peers,
        default=[KERAS],
        metavar="PEER,...",
        help=f"whom to compare with: {', '.join(_other_peers())} (default: {KERAS})",
    )
    parser.add_argument("--repeats", type=_positive, metavar="N", help=f"rounds (default: {ROUNDS})")
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        default=pathlib.Path("build/benchmark"),
        metavar="DIR",
        help="folder for the results (default: %(default)s)",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"tiny networks and {QUICK_ROUNDS} rounds unless told otherwise: says whether all works, not how fast",
    )
    settings = parser.parse_args()
    settings.cases = settings.cases or (QUICK_TABLE if settings.quick else TABLE)
    settings.repeats = settings.repeats or (QUICK_ROUNDS if settings.quick else ROUNDS)
    return settings


def _cases(text: str) -> list[Case]:
    try:
        return list(dict.fromkeys(Case.parse(name) for name in text.split(",")))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _peers(text: str) -> list[str]:
    names = list(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in _other_peers():
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(_other_peers())}")
    return names


def _other_peers() -> list[str]:
    return [name for name in PEERS if name != OURS]


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)


def run_benchmark(cases: Sequence[Case], peers: Sequence[str], rounds: int) -> Run:
    """Measures all cases, prints them, and returns the run."""
    load_before = os.getloadavg()
    table = LineTable(cases)
    measurements: list[Measurement] = []
    products: list[dict[int, float]] = []
    for case in cases:
        of_case, of_products = measure_case(case, [OURS, *peers], rounds)
        table.print_case(of_case)
        measurements += of_case
        products.append(of_products)
    fastest = {size: max(each[size] for each in products) for size in products[0]}
    return Run(rounds, load_before, os.getloadavg(), fastest, measurements)


def write(run: Run, folder: pathlib.Path) -> None:
    """Writes the results in every form and says where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(to_json(run), indent=2) + "\n")
    (folder / "results.md").write_text(to_markdown(run))
    written = ["results.json", "results.md"]
    if importlib.util.find_spec("matplotlib"):
        import picture

        picture.draw(run, folder / "results.png")
        written.append("results.png")
    else:
        print("no results.png, because matplotlib is not installed")
    print(f"{', '.join(written)} are in {folder.resolve()}")


def main() -> None:
    """Measures, prints and writes."""
    settings = parse_arguments()
    # Keras, too, is to run on the CPU.
    tf.config.set_visible_devices([], "GPU")
    run = run_benchmark(settings.cases, settings.peers, settings.repeats)
    by_size = ", ".join(f"{gflops:.0f} of size {size}" for size, gflops in run.product_gflops.items())
    print(f"\nfastest float32 matrix product: {run.limit:.0f} GFLOP/s ({by_size})")
    print(f"load average before {run.load_before[0]:.2f}, after {run.load_after[0]:.2f}")
    write(run, settings.output)


if __name__ == "__main__":
    main()
