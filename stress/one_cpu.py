"""Runs every op forward and backward on this CPU and compares the results with the float64 reference.

    python stress/one_cpu.py [--instruction-set NAME]

Use it on emulated CPUs, where an unsupported instruction ends the process. `make emulate` runs it on a CPU with AVX and
on one with AVX2. The full tests would take hours there.
"""

import argparse
import itertools
from typing import Any

import paths  # noqa: F401
import numpy as np
import tensorflow as tf
from checks import cudnn_rnn as cudnn_rnn_checks
from checks import gru_block_cell as gru_checks
from checks.cudnn_rnn_params import to_canonical, to_params
from inputs.cudnn_rnn import DTYPES, MODES, VERSIONS, network_inputs
from references.cudnn_rnn import Config

import tf_rnn_ops
from tf_rnn_ops import _library

# Larger than the vectors and tiles of every instruction set, with remainders.
SIZE: dict[str, Any] = {"num_units": 37, "input_size": 19, "time": 3, "batch": 5}


def check_gru_block_cell() -> int:
    """Compares GRUBlockCell and its gradient ops. Returns the number of comparisons."""
    for dtype in DTYPES:
        gru_checks.check_against_reference((5, 19, 37), dtype)
        gru_checks.check_grad_v2((5, 19, 37), dtype)
    return 2 * len(DTYPES)


def check_cudnn_rnn(raw_ops) -> int:
    """Compares every version of CudnnRNN and its backprop op. Returns the number of comparisons."""
    cases = list(itertools.product(MODES, VERSIONS, DTYPES))
    for mode, version, dtype in cases:
        config = Config(rnn_mode=mode, direction="bidirectional", num_layers=2, **SIZE)
        cudnn_rnn_checks.check_against_reference(config, dtype, version=version, raw_ops=raw_ops)
    return len(cases)


def check_params_ops(raw_ops) -> int:
    """Converts params to canonical weights and back. Returns the number of comparisons."""
    cases = list(itertools.product(MODES, ("", "V2"), DTYPES))
    for mode, version, dtype in cases:
        config = Config(rnn_mode=mode, **SIZE)
        params = network_inputs(config, dtype)["params"]
        weights, biases = to_canonical(config, params, version, raw_ops)
        again = to_params(config, weights, biases, version, raw_ops)
        np.testing.assert_array_equal(again, params)
    return len(cases)


def check_second_order() -> int:
    """Runs a second-order gradient in each mode. Returns the number of runs."""
    for mode in MODES:
        config = Config(rnn_mode=mode, **SIZE)
        inputs = {name: tf.constant(value) for name, value in network_inputs(config, "float32").items()}
        with tf.GradientTape() as outer:
            outer.watch(inputs)
            with tf.GradientTape() as inner:
                inner.watch(inputs)
                output = cudnn_rnn_checks.run_forward(config, inputs).output
            penalty = tf.reduce_sum(inner.gradient(output, inputs["params"]) ** 2)
        assert np.isfinite(outer.gradient(penalty, inputs["params"])).all()
    return len(MODES)


def main() -> None:
    """Runs all checks and prints the instruction set and the number of comparisons."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instruction-set", help="fail unless the kernels use this instruction set")
    expected = parser.parse_args().instruction_set
    active = _library.active_instruction_set()
    if expected and active != expected:
        raise SystemExit(f"the kernels use {active}, not {expected}")
    tf_rnn_ops.enable_builtin_kernels()
    count = check_gru_block_cell() + check_second_order()
    for raw_ops in (tf_rnn_ops.raw_ops, tf.raw_ops):
        count += check_cudnn_rnn(raw_ops) + check_params_ops(raw_ops)
    print(f"{active}: {count} comparisons with the reference passed")


if __name__ == "__main__":
    main()
