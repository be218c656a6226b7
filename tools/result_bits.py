"""Compares the bits of all ops' results before and after a change that must not touch them.

    .venv/bin/python tools/result_bits.py record before.json    # with the old wheel installed
    .venv/bin/python tools/result_bits.py compare before.json   # with the new one, on the same machine

Each op runs on the fuzzer's valid calls, in every floating type and under every instruction set that the CPU has.
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

sys.path += [str(pathlib.Path(__file__).resolve().parent.parent / folder) for folder in ("stress", "tests")]
import dropout_checks
import fuzz_calls
import fuzz_valid

# What sizes are drawn from, and how many calls of each op and type: on both sides of where the engine cuts and chooses,
# which are vectors and tiles; chunks and tasks; and what the caches hold.
SIZES = {
    "small": (tuple(range(1, 10)), 24),
    "medium": ((1, 2, 12, 13, 31, 33, 64, 100, 130), 24),
    "large": ((1, 5, 9, 20, 260), 12),
}


def results(op: str, dtype: str, sizes: tuple[int, ...], seed: int) -> list[tf.Tensor]:
    """Returns the results of a valid call of an op.

    Args:
      op: the op's name.
      dtype: the type of its floating inputs.
      sizes: what each size of its inputs is drawn from.
      seed: of what is drawn.
    """
    arguments = fuzz_valid.tame_arguments(op, dtype, sizes, seed)
    if "seed2" in arguments:
        arguments["seed2"] += 1  # both zero means a fresh seed
    dropout_checks.fresh_kernels()
    tensors = {name: fuzz_calls.map_tensors(fuzz_calls.tensor_of, value) for name, value in arguments.items()}
    return tf.nest.flatten(getattr(tf_rnn_ops._library.ops, f"TfRnnOps_{op}")(**tensors))


def digest(tensors: list[tf.Tensor]) -> str:
    """Returns a hash of the shapes and bits of tensors."""
    sha = hashlib.sha256()
    for tensor in tensors:
        sha.update(f"{tensor.dtype.name}{tensor.shape}".encode())
        sha.update(np.ascontiguousarray(tensor.numpy()).tobytes())
    return sha.hexdigest()[:16]


def digests() -> dict[str, str]:
    """Returns the hash of each call's results under the instruction set in use, by what was called."""
    found = {}
    for op in fuzz_valid.VALID:
        for dtype in ("float32", "float64", "float16", "bfloat16"):
            for name, (sizes, count) in SIZES.items():
                for seed in range(count):
                    found[f"{op} {dtype} {name} {seed}"] = digest(results(op, dtype, sizes, seed))
    return found


def digests_of_all_sets() -> dict[str, dict[str, str]]:
    """Returns `digests` by instruction set, each from a process of its own."""
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
    """Prints where two recordings differ, and returns in how many calls they do."""
    if before.keys() != after.keys():
        sys.exit(f"recorded under {', '.join(before)}; this CPU and build have {', '.join(after)}")
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
    """Does what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("record", "compare", "one"), help="`one`: print those of one set, as JSON")
    parser.add_argument("file", type=pathlib.Path, nargs="?", help="the recording")
    arguments = parser.parse_args()
    if arguments.action == "one":
        print(json.dumps(digests()))
        return
    if arguments.file is None:
        parser.error("name the file of the recording")
    recorded = digests_of_all_sets()
    if arguments.action == "record":
        arguments.file.write_text(json.dumps(recorded))
    elif compare(json.loads(arguments.file.read_text()), recorded):
        sys.exit(1)


if __name__ == "__main__":
    main()
