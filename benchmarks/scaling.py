"""Measures how the CPU engine scales with the number of threads, next to PyTorch and ONNX Runtime.

TensorFlow is not required: the engine runs on a plain pool of threads. Each library has a process for each number of
threads, and the processes take turns. Their results are compared with PyTorch in float64 before they are timed. The
program prints a line for each measurement and updates results.json after each case; publish.py writes it into
docs/performance.md.
"""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import sys
import time

# For the libraries' processes, which must not use a GPU.
os.environ["CUDA_VISIBLE_DEVICES"] = ""

from measure import Bench, Failure, Measurement, measure_case
from options import QUICK_ROUNDS, add_common, cases, positive
from peers import OURS, PYTORCH_REFERENCE, SCALING_OTHERS, SCALING_PEERS, Peer, find_available
from report import LineTable, targets_to_text
from run import Run, to_json
from sections import SCALING_SECTION, scaling
from targets import SCALING_TARGETS, judge

ROUNDS = 3
SAMPLE_SECONDS = 0.02
OUTPUT = pathlib.Path("build/bench/scaling")


def powers_of_two(most: int) -> list[int]:
    """Returns 1, 2, 4, ... up to a number."""
    return [2**power for power in range(most.bit_length())]


def parse_arguments() -> argparse.Namespace:
    """Returns the command-line settings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--cases", type=cases, metavar="CASE,...", help="networks to measure, such as lstm-32-16-512-512"
    )
    add_common(parser, SCALING_OTHERS, ROUNDS)
    num_cpus = len(os.sched_getaffinity(0))
    parser.add_argument(
        "--threads",
        type=lambda text: [positive(each) for each in text.split(",")],
        default=powers_of_two(num_cpus),
        metavar="N,...",
        help="numbers of threads (default: powers of two up to the number of CPUs, %(default)s)",
    )
    parser.add_argument(
        "--seconds",
        type=positive,
        default=600,
        metavar="N",
        help="start no case after this time (default: %(default)s)",
    )
    parser.set_defaults(output=OUTPUT)
    settings = parser.parse_args()
    settings.cases = settings.cases or (SCALING_SECTION.quick_cases if settings.quick else SCALING_SECTION.cases)
    settings.rounds = settings.rounds or (QUICK_ROUNDS if settings.quick else ROUNDS)
    return settings


def with_threads(peer: Peer, threads: int) -> Peer:
    """Returns a peer with a number of threads, which its name ends with."""
    return dataclasses.replace(peer, name=f"{peer.name}/{threads}", threads=threads)


def by_section(measurement: Measurement) -> Measurement:
    """Moves the number of threads from the name of the peer to that of the section."""
    peer, _, threads = measurement.peer.partition("/")
    return dataclasses.replace(measurement, peer=peer, section=scaling(int(threads)))


def run_benchmark(settings: argparse.Namespace) -> tuple[Run, list[Failure]]:
    """Measures the cases until the time is over, writes the results after each, and returns them."""
    failures: list[Failure] = []
    end = time.monotonic() + settings.seconds
    available, left_out = find_available([SCALING_PEERS[name] for name in (OURS, *settings.peers)])
    peers = [with_threads(peer, threads) for threads in settings.threads for peer in available]
    run = Run(
        date=datetime.date.today().isoformat(),
        rounds=settings.rounds,
        threads=max(settings.threads),
        has_amx=False,
        load_before=os.getloadavg(),
        load_after=os.getloadavg(),
        versions={},
        left_out=left_out,
        measurements=(),
        memory=(),
    )
    names = [peer.name for peer in peers]
    log = settings.output / "libraries.log"
    with Bench(peers, PYTORCH_REFERENCE, max(settings.threads), log, sample_seconds=SAMPLE_SECONDS) as bench:
        run = dataclasses.replace(run, versions={name.partition("/")[0]: each for name, each in bench.versions.items()})
        table = LineTable(settings.cases)
        for case in settings.cases:
            if time.monotonic() > end:
                print(f"{case.title}: no time was left")
                continue
            of_peers, failed = measure_case(bench, SCALING_SECTION.name, case, names, settings.rounds)
            failures += failed
            measured = [by_section(each) for each in of_peers]
            for threads in settings.threads:
                print(f"{threads} thread{'s'[: threads > 1]}")
                table.print_case([each for each in measured if each.section == scaling(threads)])
            for failure in failed:
                print(f"{case.title}  {failure.peer} is skipped: {failure.message}", flush=True)
            run = dataclasses.replace(run, measurements=[*run.measurements, *measured], load_after=os.getloadavg())
            (settings.output / "results.json").write_text(json.dumps(to_json(run)) + "\n")
    return run, failures


def main() -> None:
    """Measures, prints and writes the results. The exit status is 1 if the engine failed."""
    settings = parse_arguments()
    settings.output.mkdir(parents=True, exist_ok=True)
    run, failures = run_benchmark(settings)
    print(f"\n{targets_to_text(judge(run, SCALING_TARGETS))}\n")
    print(f"{run.disturbed():.0%} of the samples were disturbed by other processes")
    if any(failure.peer.startswith(OURS) for failure in failures):
        sys.exit(1)


if __name__ == "__main__":
    main()
