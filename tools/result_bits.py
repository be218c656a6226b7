"""Checks that a change does not affect the results of the ops, bit by bit.

    .venv/bin/python tools/result_bits.py record before.json    # with the old wheel installed
    .venv/bin/python tools/result_bits.py compare before.json   # with the new wheel, on the same machine

Runs valid calls of the fuzzer for every op, floating-point type and instruction set that the CPU supports.
"""

import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import tensorflow as tf

import tf_rnn_ops

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "testing"))
from checks import dropout as dropout_checks
from inputs import calls, valid_calls

# (sizes to draw from, number of calls per op and type). The sizes are around thresholds of the engine: vectors and
# tiles; chunks and tasks; cache sizes.
SIZES = {
    "small": (tuple(range(1, 10)), 24),
    "medium": ((1, 2, 12, 13, 31, 33, 64, 100, 130), 24),
    "large": ((1, 5, 9, 20, 260), 12),
}


def results(op: str, dtype: str, sizes: tuple[int, ...], seed: int) -> list[tf.Tensor]:
    """Returns the results of a valid call of an op.

    Args:
      op: name of the op.
      dtype: type of its floating-point inputs.
      sizes: values to draw the dimensions of the inputs from.
      seed: random seed.
    """
    arguments = valid_calls.finite_arguments(op, dtype, sizes, seed)
    if "seed2" in arguments:
        arguments["seed2"] += 1  # both zero means a fresh seed
    dropout_checks.fresh_kernels()
    tensors = {name: calls.map_tensors(calls.tensor_of, value) for name, value in arguments.items()}
    return tf.nest.flatten(getattr(tf_rnn_ops._library.ops, f"TfRnnOps_{op}")(**tensors))


def digest(tensors: list[tf.Tensor]) -> str:
    """Returns a hash of the shapes and bits of tensors."""
    sha = hashlib.sha256()
    for tensor in tensors:
        sha.update(f"{tensor.dtype.name}{tensor.shape}".encode())
        sha.update(np.ascontiguousarray(tensor.numpy()).tobytes())
    return sha.hexdigest()[:16]


def digests() -> dict[str, str]:
    """Returns hashes of the results of all calls with the current instruction set."""
    found = {}
    for op in calls.OPS:
        for dtype in ("float32", "float64", "float16", "bfloat16"):
            for name, (sizes, count) in SIZES.items():
                for seed in range(count):
                    found[f"{op} {dtype} {name} {seed}"] = digest(results(op, dtype, sizes, seed))
    return found


def digests_of_all_sets() -> dict[str, dict[str, str]]:
    """Returns `digests` for each instruction set, computed in separate processes."""
    found = {}
    for instruction_set in tf_rnn_ops._library.supported_instruction_sets():
        print(f"running every op with {instruction_set} ...", file=sys.stderr)
        found[instruction_set] = json.loads(
            subprocess.run(
                [sys.executable, __file__, "one"],
                env={**os.environ, "TF_RNN_OPS_ISA": instruction_set, "TF_CPP_MIN_LOG_LEVEL": "3"},
                stdout=subprocess.PIPE,
                check=True,
            ).stdout
        )
    return found


def compare(before: dict[str, dict[str, str]], after: dict[str, dict[str, str]]) -> int:
    """Prints the calls whose results differ, and returns their number."""
    if before.keys() != after.keys():
        sys.exit(f"recorded with {', '.join(before)}; this CPU and build support {', '.join(after)}")
    differences = [
        f"{instruction_set}: {call}"
        for instruction_set in before
        for call in before[instruction_set].keys() | after[instruction_set].keys()
        if before[instruction_set].get(call) != after[instruction_set].get(call)
    ]
    for difference in sorted(differences):
        print("differs:", difference)
    print(f"{sum(map(len, after.values()))} calls compared, {len(differences)} differ")
    return len(differences)


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("record", "compare", "one"), help="`one` is internal")
    parser.add_argument("file", type=pathlib.Path, nargs="?", help="file with the recorded hashes")
    arguments = parser.parse_args()
    if arguments.action == "one":
        print(json.dumps(digests()))
        return
    if arguments.file is None:
        parser.error("FILE is required")
    recorded = digests_of_all_sets()
    if arguments.action == "record":
        arguments.file.write_text(json.dumps(recorded))
    elif compare(json.loads(arguments.file.read_text()), recorded):
        sys.exit(1)


if __name__ == "__main__":
    main()
