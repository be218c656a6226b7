"""Runs calls of every op on this CPU and judges the results as the fuzzer does.

    python stress/one_cpu.py [--instruction-set NAME]

Use it on emulated CPUs, where an unsupported instruction ends the process. `make emulate` runs it on a CPU with AVX and
on one with AVX2. The full tests would take hours there.
"""

import argparse
import itertools
from collections.abc import Iterable

import paths  # noqa: F401
from fuzz_judge import judge
from fuzz_run import function_of
from inputs.calls import OPS, Call
from inputs.cudnn_rnn import DTYPES
from inputs.valid_calls import finite_arguments

import tf_rnn_ops
from tf_rnn_ops import _library

# The last one is larger than the vectors and tiles of every instruction set, with remainders.
SIZES = (3, 5, 37)
CALLS = 6  # of each op and type


def check(library: str, ops: Iterable[str]) -> int:
    """Calls ops of one of fuzz_run.LIBRARIES. Returns the number of calls that equal a reference."""
    num_compared = 0
    for op, dtype, seed in itertools.product(ops, DTYPES, range(CALLS)):
        function = function_of(library, op)
        assert function is not None
        verdict = judge(Call(op, "eager", finite_arguments(op, dtype, SIZES, seed)), function)
        if verdict.is_finding:
            raise SystemExit(f"{library}, {op}, {dtype}, seed {seed}: {verdict.kind}: {verdict.text}")
        num_compared += verdict.kind == "compared"
    return num_compared


def main() -> None:
    """Runs all calls and prints the instruction set and the number of comparisons."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instruction-set", help="fail unless the kernels use this instruction set")
    expected = parser.parse_args().instruction_set
    active = _library.active_instruction_set()
    if expected and active != expected:
        raise SystemExit(f"the kernels use {active}, not {expected}")
    tf_rnn_ops.enable_builtin_kernels()
    of_tensorflow = [op for op in OPS if op.startswith("CudnnRNN") and function_of("builtin-kernels", op)]
    count = check("tf_rnn_ops", OPS) + check("builtin-kernels", of_tensorflow)
    print(f"{active}: {count} comparisons with the reference passed")


if __name__ == "__main__":
    main()
