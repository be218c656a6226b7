"""Compares the speed of the ops on a GPU with TensorFlow's own ops and with PyTorch, which uses cuDNN.

Each library runs in its own process, and the libraries take turns, as in bench.py. The program measures networks in
inference (forward) and training without the update (forward + backward), and GRUBlockCell and its gradient. Calls are
enqueued without waiting for the GPU; the timer stops when the GPU has finished all of them. The program prints a line
for each measurement and writes gpu.json after each case. A library that fails or gives wrong results is skipped for
that case and listed under "failures" in gpu.json.
"""

import argparse
import dataclasses
import datetime
import json
import os
import sys
from collections.abc import Mapping, Sequence

from measure import ALLOWED_ERRORS, Bench, Failure, measure_case, merge
from options import QUICK_ROUNDS, add_common, cases
from peers import GPU_OTHERS, GPU_PEERS, OURS, REFERENCE, find_available
from report import LineTable, targets_to_text
from run import Run, to_json
from sections import GPU_SECTION
from targets import GPU_TARGETS, judge

ROUNDS = 20
RESULTS = "gpu.json"
# TF32 has as many significant bits as float16: 11.
TF32_ERRORS = {**ALLOWED_ERRORS, "float32": ALLOWED_ERRORS["float16"]}


def parse_arguments() -> argparse.Namespace:
    """Returns the command-line settings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--cases",
        type=cases,
        metavar="CASE,...",
        help="cases to measure instead of the default ones, such as lstm-32-100-128-256-float16 (cell, batch, time, "
        "input, units) or gru_block_cell-1-128-256",
    )
    add_common(parser, GPU_OTHERS, ROUNDS)
    parser.add_argument(
        "--no-tf32",
        action="store_true",
        help="compute float32 products without TF32; by default all libraries use TF32",
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


def run_benchmark(settings: argparse.Namespace, gpu: str) -> tuple[Run, list[Failure]]:
    """Measures the selected cases, prints the measurements, and writes the results after each case."""
    peers, left_out = find_available([GPU_PEERS[name] for name in (OURS, *settings.peers)])
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
            of_case, failed = measure_case(bench, GPU_SECTION.name, case, GPU_SECTION.peers, settings.rounds)
            table.print_case(of_case)
            for failure in failed:
                print(f"{case.title}  {GPU_PEERS[failure.peer].label} is skipped: {failure.message}", flush=True)
            failures += failed
            measurements = merge([*run.measurements, *of_case])
            run = dataclasses.replace(run, measurements=measurements, load_after=os.getloadavg())
            write(run, failures, gpu, settings)
    return run, failures


def _print_versions(versions: Mapping[str, Mapping[str, str]]) -> None:
    for name, of_peer in versions.items():
        versions_of_peer = "; ".join(f"{key} {version}" for key, version in of_peer.items() if name != OURS)
        print(f"{GPU_PEERS[name].label}: {versions_of_peer or of_peer['GPU library']}")


def write(run: Run, failures: Sequence[Failure], gpu: str, settings: argparse.Namespace) -> None:
    """Writes the results so far. The write is atomic: an interruption leaves the previous file."""
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
    """Measures, prints and writes the results. The exit status is 1 if tf_rnn_ops failed."""
    settings = parse_arguments()
    gpu = find_gpu()
    if gpu is None:
        sys.exit("TensorFlow sees no GPU. To measure on the CPU, use benchmarks/bench.py.")
    # Inherited by the libraries' processes.
    if settings.no_tf32:
        os.environ["NVIDIA_TF32_OVERRIDE"] = "0"
    os.environ["TF_RNN_OPS_GPU"] = "1"
    settings.output.mkdir(parents=True, exist_ok=True)
    print(f"{gpu}, float32 as {'float32' if settings.no_tf32 else 'TF32'}")
    run, failures = run_benchmark(settings, gpu)
    print(f"\n{targets_to_text(judge(run, GPU_TARGETS))}\n")
    print(f"wrote {(settings.output / RESULTS).resolve()}")
    if any(failure.peer == OURS for failure in failures):
        sys.exit(1)


if __name__ == "__main__":
    main()
