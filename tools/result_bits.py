"""Checks that two wheels give the same results, bit by bit: `make same-bits BEFORE=WHEEL`.

    python tools/result_bits.py BEFORE AFTER

Runs valid calls of the fuzzer for every op, floating-point type and instruction set that the CPU supports.
"""

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

# Sizes to draw from, and the number of calls per op and type: around the engine's thresholds for vectors and tiles, for
# chunks and tasks, and for caches.
SIZES = ((range(1, 10), 24), ((1, 2, 12, 13, 31, 33, 64, 100, 130), 12), ((1, 5, 9, 20, 260), 2))
PRINT_ISAS = "import tf_rnn_ops; print(*tf_rnn_ops._library.supported_instruction_sets())"


def print_digests() -> None:
    """Prints a hash of the results of each call with the package on the import path."""
    sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "testing"))
    import tensorflow as tf
    from checks import dropout
    from inputs import calls, valid_calls

    import tf_rnn_ops

    digests = {}
    for op, dtype in ((op, dtype) for op in calls.OPS for dtype in ("float32", "float64", "float16", "bfloat16")):
        for sizes, seed in ((sizes, seed) for sizes, count in SIZES for seed in range(count)):
            arguments = valid_calls.finite_arguments(op, dtype, tuple(sizes), seed)
            if "seed2" in arguments:
                arguments["seed2"] += 1  # both zero means a fresh seed
            dropout.fresh_kernels()
            tensors = {name: calls.map_tensors(calls.tensor_of, value) for name, value in arguments.items()}
            results = tf.nest.flatten(getattr(tf_rnn_ops._library.ops, f"TfRnnOps_{op}")(**tensors))
            bits = [(each.dtype.name, each.shape.as_list(), each.numpy().tobytes()) for each in results]
            digests[f"{op} {dtype} {max(sizes)} {seed}"] = hashlib.sha256(repr(bits).encode()).hexdigest()
    print(json.dumps(digests))


def main() -> None:
    """Prints the calls whose results differ. The exit status is 1 if there are any."""
    with tempfile.TemporaryDirectory() as folder:

        def run(wheel: str, *arguments: str, **variables: str) -> bytes:
            environment = {**os.environ, "PYTHONPATH": f"{folder}/{wheel}", "TF_CPP_MIN_LOG_LEVEL": "3", **variables}
            command = [sys.executable, *arguments]
            return subprocess.run(command, env=environment, cwd=folder, stdout=subprocess.PIPE, check=True).stdout

        for wheel, path in zip(("before", "after"), sys.argv[1:], strict=True):
            zipfile.ZipFile(path).extractall(f"{folder}/{wheel}")
        found = []
        for isa in run("after", "-c", PRINT_ISAS).decode().split():
            before, after = (json.loads(run(each, __file__, TF_RNN_OPS_ISA=isa)) for each in ("before", "after"))
            found += [f"{isa}: {call}" for call in before | after if before.get(call) != after.get(call)]
            print(f"{isa}: compared {len(after)} calls", flush=True)
    print(*found, f"{len(found)} calls differ", sep="\n")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    print_digests() if len(sys.argv) == 1 else main()
