"""Measures the ops on a GPU beside TensorFlow's own and PyTorch's cuDNN, in one run.

Each library runs in a process of its own, and they take turns, as in bench.py. Of networks it measures inference
(forward) and a step of training without the update (forward + backward); of GRUBlockCell the op and its gradient. Calls
follow one another without waiting for the GPU, and the clock stops when it has done all of them. It prints a line for
each measurement and, after each case, writes gpu.json with all so far. A library that fails in a case or computes
something else is left out there, which gpu.json says under "failures".
"""

import argparse
import dataclasses
import datetime
import json
import os
import sys
from collections.abc import Mapping, Sequence

from cases import Case
from measure import ALLOWED_ERRORS, Bench, Measurement, WrongResultError, merge
from options import QUICK_ROUNDS, add_common, cases
from peers import GPU_OTHERS, GPU_PEERS, OURS, REFERENCE, without_missing
from report import LineTable, targets_to_text
from run import Run, to_json
from sections import GPU_SECTION
from targets import GPU_TARGETS, judge
from workers import WorkerError

ROUNDS = 20
RESULTS = "gpu.json"
# TF32 has the 11 bits of float16's mantissa.
TF32_ERRORS = {**ALLOWED_ERRORS, "float32": ALLOWED_ERRORS["float16"]}


def parse_arguments() -> argparse.Namespace:
    """Returns the command line's settings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--cases",
        type=cases,
        metavar="CASE,...",
        help="what to compute in place of the usual cases, such as lstm-32-100-128-256-float16 (cell, batch, time, "
        "input, units) or gru_block_cell-1-128-256",
    )
    add_common(parser, GPU_OTHERS, ROUNDS)
    parser.add_argument(
        "--no-tf32",
        action="store_true",
        help="multiply float32 as float32, not as TF32, which all of the libraries do unless they are told otherwise",
    )
    settings = parser.parse_args()
    settings.cases = settings.cases or (GPU_SECTION.quick_cases if settings.quick else GPU_SECTION.cases)
    settings.rounds = settings.rounds or (QUICK_ROUNDS if settings.quick else ROUNDS)
    return settings


def find_gpu() -> str | None:
    """Returns the name of the first GPU that TensorFlow sees, or None if it sees none."""
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    return tf.config.experimental.get_device_details(gpus[0]).get("device_name", gpus[0].name) if gpus else None


@dataclasses.dataclass(frozen=True)
class Failure:
    """Why a peer has no measurement of a case.

    Attributes:
      case: the case's name.
      peer: the peer's name.
      message: what went wrong.
    """

    case: str
    peer: str
    message: str


def measure_case(bench: Bench, case: Case, rounds: int) -> tuple[list[Measurement], list[Failure]]:
    """Measures a case with every peer that computes it, and returns why the others do not.

    One that fails goes on with the next case in a new process: an error of a GPU may stay with the old one.
    """
    peers = list(GPU_SECTION.peers)
    failures: list[Failure] = []
    while True:
        try:
            return bench.measure(GPU_SECTION.name, case, peers, rounds), failures
        except (WorkerError, WrongResultError) as error:
            if error.peer not in peers:
                raise
            failures.append(Failure(case.name, error.peer, str(error)))
            peers.remove(error.peer)
            bench.restart(error.peer)


def run_benchmark(settings: argparse.Namespace, gpu: str) -> tuple[Run, list[Failure]]:
    """Measures what the settings ask for, prints it, and writes what there is after each case."""
    peers, left_out = without_missing([GPU_PEERS[name] for name in (OURS, *settings.peers)])
    threads = len(os.sched_getaffinity(0))
    allowed_errors = ALLOWED_ERRORS if settings.no_tf32 else TF32_ERRORS
    failures: list[Failure] = []
    with Bench(peers, REFERENCE, threads, settings.output / "gpu.log", allowed_errors) as bench:
        _print_versions(bench.versions)
        run = Run(
            date=datetime.date.today().isoformat(),
            rounds=settings.rounds,
            threads=threads,
            has_amx=False,
            load_before=os.getloadavg(),
            load_after=os.getloadavg(),
            versions=bench.versions,
            left_out=left_out,
            measurements=[],
            memory=[],
        )
        table = LineTable(settings.cases)
        for case in settings.cases:
            of_case, failed = measure_case(bench, case, settings.rounds)
            table.print_case(of_case)
            for failure in failed:
                print(f"{case.title}  {GPU_PEERS[failure.peer].label} is left out: {failure.message}", flush=True)
            failures += failed
            measurements = merge([*run.measurements, *of_case])
            run = dataclasses.replace(run, measurements=measurements, load_after=os.getloadavg())
            write(run, failures, gpu, settings)
    return run, failures


def _print_versions(versions: Mapping[str, Mapping[str, str]]) -> None:
    for name, of_peer in versions.items():
        what = "; ".join(f"{what} {version}" for what, version in of_peer.items() if name != OURS)
        print(f"{GPU_PEERS[name].label}: {what or of_peer['GPU library']}")


def write(run: Run, failures: Sequence[Failure], gpu: str, settings: argparse.Namespace) -> None:
    """Writes the results so far, with what they were measured on: all of them or none, if the program is ended."""
    results = {
        "gpu": gpu,
        "tf32": not settings.no_tf32,
        "failures": [dataclasses.asdict(failure) for failure in failures],
        **to_json(run),
    }
    unfinished = settings.output / "gpu.json.unfinished"
    unfinished.write_text(json.dumps(results, indent=1) + "\n")
    unfinished.replace(settings.output / RESULTS)


def main() -> None:
    """Measures, prints and writes. The exit status is 1 if ours is among those that failed."""
    settings = parse_arguments()
    gpu = find_gpu()
    if gpu is None:
        sys.exit("TensorFlow sees no GPU to measure on: benchmarks/bench.py measures on the CPU.")
    # What the libraries' processes inherit.
    if settings.no_tf32:
        os.environ["NVIDIA_TF32_OVERRIDE"] = "0"
    os.environ["TF_RNN_OPS_GPU"] = "1"
    settings.output.mkdir(parents=True, exist_ok=True)
    print(f"{gpu}, float32 as {'float32' if settings.no_tf32 else 'TF32'}")
    run, failures = run_benchmark(settings, gpu)
    print(f"\n{targets_to_text(judge(run, GPU_TARGETS))}\n")
    print(f"{(settings.output / RESULTS).resolve()} has all of it")
    if any(failure.peer == OURS for failure in failures):
        sys.exit(1)


if __name__ == "__main__":
    main()
