"""Compares the speed of the ops on a GPU with TensorFlow's own ops and with PyTorch, which uses cuDNN.

Each library runs in its own process, and the libraries take turns, as in bench.py. The program measures networks in
inference (forward) and training without the update (forward + backward), and GRUBlockCell and its gradient. Calls are
enqueued without waiting for the GPU; the timer stops when the GPU has finished all of them. The program prints a line
for each measurement and writes gpu.json after each case. A library that fails or gives wrong results is skipped for
that case and listed under "failures" in gpu.json.
"""

import argparse
import os
import sys

import program
from measure import ALLOWED_ERRORS, Bench
from results import Run
from sections import GPU_PEERS, GPU_SECTION, OURS, REFERENCE

OTHERS = [name for name in GPU_PEERS if name != OURS]
ROUNDS = 20
RESULTS = "gpu.json"
# TF32 has as many significant bits as float16: 11.
TF32_ERRORS = {**ALLOWED_ERRORS, "float32": ALLOWED_ERRORS["float16"]}


def parse_arguments() -> argparse.Namespace:
    """Returns the command-line settings."""
    parser = program.parser(__doc__, OTHERS, ROUNDS, "build/bench")
    parser.add_argument(
        "--no-tf32",
        action="store_true",
        help="compute float32 products without TF32; by default all libraries use TF32",
    )
    return program.parse(parser, ROUNDS, GPU_SECTION)


def find_gpu() -> str | None:
    """Returns the name of the first GPU that TensorFlow sees, or None if it sees none."""
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    return tf.config.experimental.get_device_details(gpus[0]).get("device_name", gpus[0].name) if gpus else None


def run_benchmark(settings: argparse.Namespace, gpu: str) -> Run:
    """Measures the selected cases, prints the measurements, and writes the results after each case."""
    threads, path = len(os.sched_getaffinity(0)), settings.output / RESULTS
    chosen = [GPU_PEERS[name] for name in (OURS, *settings.peers)]
    peers, run = program.begin(chosen, threads=threads, gpu=gpu, tf32=not settings.no_tf32)
    allowed_errors = ALLOWED_ERRORS if settings.no_tf32 else TF32_ERRORS
    with Bench(peers, REFERENCE, threads, settings.output / "gpu.log", allowed_errors) as bench:
        for name, of_peer in bench.versions.items():
            versions = "; ".join(f"{key} {version}" for key, version in of_peer.items() if name != OURS)
            print(f"{GPU_PEERS[name].label}: {versions or of_peer['GPU library']}")
        run = run.replace(versions=bench.versions)
        return program.measure_section(bench, run, path, GPU_SECTION, settings.cases, settings.rounds)


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
    run = run_benchmark(settings, gpu)
    print(f"\nwrote {(settings.output / RESULTS).resolve()}")
    program.exit_if_ours_failed(run)


if __name__ == "__main__":
    main()
