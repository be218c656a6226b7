"""Runs every op on this CPU and compares the results with the float64 references.

    python stress/one_cpu.py [--instruction-set NAME]

Use it on emulated CPUs, where an unsupported instruction ends the process. `make emulate` runs it on a CPU with AVX and
on one with AVX2. The full tests would take hours there.
"""

import argparse
import collections
import itertools

import paths  # noqa: F401
import fuzz_judge
import fuzz_run
from inputs.calls import OPS, Call
from inputs.cudnn_rnn import DTYPES
from inputs.valid_calls import finite_arguments

import tf_rnn_ops
from tf_rnn_ops import _library

# Some larger than the vectors and tiles of every instruction set, with remainders.
SIZES = (3, 5, 19, 37)
CALLS = 4  # of each op and type


def main() -> None:
    """Runs all calls and prints the instruction set and the number of calls by verdict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instruction-set", help="fail unless the kernels use this instruction set")
    expected = parser.parse_args().instruction_set
    active = _library.active_instruction_set()
    if expected and active != expected:
        raise SystemExit(f"the kernels use {active}, not {expected}")
    tf_rnn_ops.enable_builtin_kernels(replace=True)
    counts: collections.Counter[str] = collections.Counter()
    for library, op, dtype, seed in itertools.product(fuzz_run.LIBRARIES[:2], OPS, DTYPES, range(CALLS)):
        function = fuzz_run.function_of(library, op)
        if function is None:
            continue
        call = Call(op, "eager", finite_arguments(op, dtype, SIZES, seed), seed)
        verdict = fuzz_judge.judge(call, function, is_strict=library == fuzz_run.LIBRARIES[0])
        if verdict.is_finding:
            raise SystemExit(f"{library}, {op}, {dtype}, seed {seed}: {verdict.kind}: {verdict.text}")
        counts[verdict.kind] += 1
    print(f"{active}: {', '.join(f'{count} {kind}' for kind, count in counts.items())}")


if __name__ == "__main__":
    main()
