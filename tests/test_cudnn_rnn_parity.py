"""Compares the CudnnRNN ops with the float64 reference."""

import dataclasses
import itertools
import pathlib

import numpy as np
import pytest
from checks.cudnn_rnn import (
    all_results,
    assert_all_same_bits,
    check_against_reference,
    check_network,
    run_backprop,
    run_forward,
)
from environment import processes
from hypothesis import given, settings
from hypothesis import strategies as st
from inputs import cudnn_rnn as cudnn_rnn_inputs
from inputs.cudnn_rnn import DTYPES, INPUTS, MODES, OUTPUTS, VERSIONS, Config, sized
from inputs.gru_block_cell import cast, float64
from inputs.pairs import every_pair
from references import cudnn_rnn as reference

import tf_rnn_ops

seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=400)
@given(config=cudnn_rnn_inputs.configs(), dtype=st.sampled_from(DTYPES), seed=seeds)
def test_v3_equals_reference_with_any_options(config, dtype, seed):
    check_against_reference(config, dtype, seed)


@settings(max_examples=200)
@given(config=cudnn_rnn_inputs.configs(smallest=0, largest=7), seed=seeds)
def test_small_networks_equal_reference_with_any_options(config, seed):
    """Only in float64, whose rounding errors are small even for sums that nearly cancel."""
    check_against_reference(config, "float64", seed)


@pytest.mark.parametrize("version", ["", "V2"])
@given(data=st.data(), dtype=st.sampled_from(DTYPES), seed=seeds)
def test_v1_and_v2_equal_reference_with_any_options(version, data, dtype, seed):
    check_against_reference(data.draw(cudnn_rnn_inputs.configs(version)), dtype, seed, version)


# time, batch, input_size, num_units: 0 of each, 1 of all, small sizes, and sizes near the widths of vectors and tiles.
SIZES = [
    (0, 2, 3, 4),
    (2, 0, 3, 4),
    (2, 3, 0, 4),
    (2, 3, 4, 0),
    (0, 0, 0, 0),
    (1, 1, 1, 1),
    (3, 2, 1, 2),
    (2, 3, 5, 4),
    (5, 7, 16, 64),
    (4, 3, 17, 33),
    (6, 1, 31, 65),
    (3, 33, 64, 48),
    (2, 5, 130, 200),
]


@pytest.mark.parametrize(("size", "mode", "dtype"), every_pair(SIZES, MODES, DTYPES), ids=str)
def test_equals_reference(size, mode, dtype):
    for version in VERSIONS:
        check_against_reference(sized(size, rnn_mode=mode), dtype, version=version)
    check_against_reference(sized(size, rnn_mode=mode, num_layers=2, direction="bidirectional"), dtype)


OTHER_INSTRUCTION_SETS = [
    each
    for each in tf_rnn_ops._library.supported_instruction_sets()
    if each != tf_rnn_ops._library.active_instruction_set()
]


def check_every_mode_and_dtype():
    for mode, dtype, size in itertools.product(MODES, DTYPES, SIZES[-5:]):
        check_against_reference(sized(size, rnn_mode=mode, num_layers=2, direction="bidirectional"), dtype)


@pytest.mark.parametrize("instruction_set", OTHER_INSTRUCTION_SETS)
def test_equals_reference_with_every_instruction_set(instruction_set):
    processes.run_code(
        """
        import sys
        import tf_rnn_ops
        assert tf_rnn_ops._library.active_instruction_set() == sys.argv[1]
        import test_cudnn_rnn_parity
        test_cudnn_rnn_parity.check_every_mode_and_dtype()
        """,
        instruction_set,
        TF_RNN_OPS_ISA=instruction_set,
        **processes.importing(pathlib.Path(__file__).parent),
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("num_proj", [0, 1, 7, 8, 31, 32, 33], ids=str)
def test_equals_reference_with_a_projection(num_proj, dtype):
    """A projection to num_units is no projection."""
    config = Config(num_units=33, input_size=9, num_proj=num_proj, num_layers=2, sequence_lengths=(5, 0, 2))
    check_against_reference(config, dtype)
    check_against_reference(dataclasses.replace(config, direction="bidirectional", time_major=False), dtype)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (1, 3, 8), (2, 0, 3, 4)], ids=str)
@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "lstm"])
def test_cell_states_of_any_shape_are_ignored_in_modes_without_them(mode, shape):
    config = Config(rnn_mode=mode)
    inputs, gradients = cudnn_rnn_inputs.inputs_and_gradients(config, "float32")
    expected = run_forward(config, inputs)
    expected_backprop = run_backprop(config, inputs, expected, gradients)

    strange = np.full(shape, np.nan, "float32")
    inputs["input_c"] = gradients["output_c_backprop"] = strange
    for version in VERSIONS:
        outputs = run_forward(config, inputs, version)
        np.testing.assert_array_equal(outputs.output, expected.output)
        assert outputs.output_c.shape == ()
        assert outputs.output_c == 0
        backprop = run_backprop(config, inputs, outputs, gradients, version, output_c=strange)
        np.testing.assert_array_equal(backprop.params_backprop, expected_backprop.params_backprop)
        np.testing.assert_array_equal(backprop.input_c_backprop, np.zeros(shape))


LENGTHS = {
    "none": (0, 0, 0, 0),
    "one each": (1, 1, 1, 1),
    "full": (6, 6, 6, 6),
    "none is full": (3, 5, 4, 1),
    "ascending": (0, 2, 4, 6),
    "descending": (6, 4, 2, 0),
}


@pytest.mark.parametrize("direction", ["unidirectional", "bidirectional"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS.keys())
def test_equals_reference_with_sequence_lengths(lengths, mode, direction):
    config = sized((6, 4, 9, 12), rnn_mode=mode, direction=direction, num_layers=2, sequence_lengths=lengths)
    for time_major in (True, False):
        for dtype in DTYPES:
            check_against_reference(dataclasses.replace(config, time_major=time_major), dtype)


@pytest.mark.parametrize("mode", MODES)
def test_padding_has_no_effect(mode):
    config = sized((6, 4, 9, 12), rnn_mode=mode, direction="bidirectional", num_layers=2, sequence_lengths=(0, 2, 4, 6))
    results = []
    for filling in (0.0, 3.0, -1e4):
        inputs, gradients = cudnn_rnn_inputs.inputs_and_gradients(config, "float32")
        for sample, length in enumerate(config.lengths):
            inputs["input"][length:, sample] = filling
            gradients["output_backprop"][length:, sample] = filling
        outputs = run_forward(config, inputs)
        results.append(all_results(outputs, run_backprop(config, inputs, outputs, gradients)))
    for other in results[1:]:
        assert_all_same_bits(other, results[0])


@pytest.mark.parametrize("mode", MODES)
def test_full_sequence_lengths_equal_no_lengths(mode):
    """Bitwise equal to V2, which has no sequence lengths."""
    config = sized((5, 7, 16, 40), rnn_mode=mode, direction="bidirectional", num_layers=2)
    inputs, gradients = cudnn_rnn_inputs.inputs_and_gradients(config, "float32")
    results = []
    for version in ("V2", "V3"):
        outputs = run_forward(config, inputs, version)
        results.append(all_results(outputs, run_backprop(config, inputs, outputs, gradients, version)))
    assert_all_same_bits(*results)


SPECIAL = {"minus zero": -0.0, "inf": np.inf, "-inf": -np.inf, "nan": np.nan, "denormal": 1e-40, "huge": 1e30}


@pytest.mark.parametrize("value", SPECIAL.values(), ids=SPECIAL.keys())
@pytest.mark.parametrize("argument", [*INPUTS, *(f"{name}_backprop" for name in OUTPUTS)])
@pytest.mark.parametrize("mode", MODES)
def test_special_values_equal_the_reference(mode, argument, value):
    """One special value in an otherwise normal argument."""
    config = Config(rnn_mode=mode, num_layers=2, num_units=20, direction="bidirectional")
    inputs, gradients = cudnn_rnn_inputs.inputs_and_gradients(config, "float32")
    array = {**inputs, **gradients}[argument]
    array.flat[min(5, array.size - 1)] = value
    with np.errstate(all="ignore"):
        expected = reference.forward(config, **float64(inputs))
        check_network(config, "float32", "V3", inputs, expected, gradients)


@pytest.mark.parametrize("bias", [2, 4])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_tanh"])
def test_saturated_units_keep_their_gradients(mode, dtype, bias):
    """Gradients of saturated states depend on differences of nearly equal numbers, such as 1 and h."""
    config = Config(rnn_mode=mode, num_units=16, time=60, batch=4)
    inputs, gradients = cudnn_rnn_inputs.inputs_and_gradients(config, "float64")
    for weights in reference.unpack(config, inputs["params"]):
        for matrix in (weights.W, weights.R):
            matrix *= 0.3
        signs = np.sign(weights.W_bias[0])
        weights.W_bias[...] = bias * signs
        weights.R_bias[...] = 0
        inputs["input_h"][...] = signs
    inputs, gradients = cast(inputs, dtype), cast(gradients, dtype)
    check_network(config, dtype, "V3", inputs, reference.forward(config, **float64(inputs)), gradients)


# The sizes of the benchmark: batch, time, input_size, num_units.
BENCHMARKS = [
    ("lstm", (1, 100, 128, 256)),
    pytest.param("lstm", (32, 100, 128, 256), marks=pytest.mark.slow),
    pytest.param("lstm", (64, 50, 512, 512), marks=pytest.mark.slow),
    pytest.param("lstm", (128, 25, 1024, 1024), marks=pytest.mark.slow),
    ("gru", (32, 100, 128, 256)),
    pytest.param("gru", (64, 50, 512, 512), marks=pytest.mark.slow),
    ("rnn_tanh", (32, 100, 128, 256)),
]


@pytest.mark.parametrize(("mode", "size"), BENCHMARKS, ids=str)
def test_equals_reference_at_the_sizes_of_the_benchmark(mode, size):
    batch, time, input_size, num_units = size
    config = sized((time, batch, input_size, num_units), rnn_mode=mode)
    check_against_reference(config, "float32")
