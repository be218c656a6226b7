"""Measures how the CPU engine scales with the number of threads, next to PyTorch and ONNX Runtime.

TensorFlow is not required: the engine runs on a plain pool of threads. Each library has a process for each number of
threads, and the processes take turns. Their results are compared with PyTorch in float64 before they are timed. The
program prints a line for each measurement and updates results.json after each case; report.py writes it into
docs/performance.md.
"""

import argparse
import dataclasses
import os
import time

# For the libraries' processes, which must not use a GPU.
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import program
import report
from measure import QUIET, Bench, Measurement, Peer
from results import Run
from sections import OURS, PYTORCH_REFERENCE, SCALING_PEERS, SCALING_SECTION, scaling
from targets import GROUPS, judge

OTHERS = [name for name in SCALING_PEERS if name != OURS]
ROUNDS = 3
SAMPLE_SECONDS = 0.02


def powers_of_two(most: int) -> list[int]:
    """Returns 1, 2, 4, ... up to a number."""
    return [2**power for power in range(most.bit_length())]


def parse_arguments() -> argparse.Namespace:
    """Returns the command-line settings."""
    parser = program.parser(__doc__, OTHERS, ROUNDS, "build/bench/scaling")
    parser.add_argument(
        "--threads",
        type=lambda text: [program.positive(each) for each in text.split(",")],
        default=powers_of_two(len(os.sched_getaffinity(0))),
        metavar="N,...",
        help="numbers of threads (default: powers of two up to the number of CPUs, %(default)s)",
    )
    parser.add_argument(
        "--seconds",
        type=program.positive,
        default=600,
        metavar="N",
        help="start no case after this time (default: %(default)s)",
    )
    return program.parse(parser, ROUNDS, SCALING_SECTION)


def with_threads(peer: Peer, threads: int) -> Peer:
    """Returns a peer with a number of threads, which its name ends with."""
    return peer._replace(name=f"{peer.name}/{threads}", threads=threads)


def by_section(measurement: Measurement) -> Measurement:
    """Moves the number of threads from the name of the peer to that of the section."""
    peer, _, threads = measurement.peer.partition("/")
    return dataclasses.replace(measurement, peer=peer, section=scaling(int(threads)))


def run_benchmark(settings: argparse.Namespace) -> Run:
    """Measures the cases until the time is over, writes the results after each, and returns them."""
    end, most, path = time.monotonic() + settings.seconds, max(settings.threads), settings.output / "results.json"
    available, run = program.begin([SCALING_PEERS[name] for name in (OURS, *settings.peers)], threads=most)
    peers = [with_threads(peer, threads) for threads in settings.threads for peer in available]
    log = settings.output / "libraries.log"
    with Bench(peers, PYTORCH_REFERENCE, most, log, sample_seconds=SAMPLE_SECONDS) as bench:
        run = run.replace(versions={name.partition("/")[0]: each for name, each in bench.versions.items()})
        return program.measure_section(
            bench, run, path, SCALING_SECTION, settings.cases, settings.rounds, QUIET, end=end, rename=by_section
        )


def main() -> None:
    """Measures, prints and writes the results. The exit status is 1 if the engine failed."""
    settings = parse_arguments()
    settings.output.mkdir(parents=True, exist_ok=True)
    run = run_benchmark(settings)
    print(f"\n{report.targets_to_text(judge(run, GROUPS['threads']))}\n")
    print(f"{run.disturbed():.0%} of the samples were disturbed by other processes")
    program.exit_if_ours_failed(run)


if __name__ == "__main__":
    main()
