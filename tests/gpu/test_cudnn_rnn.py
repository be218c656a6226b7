"""The CudnnRNN ops on a GPU, compared with the float64 reference, TensorFlow's own ops and our CPU kernels."""

import dataclasses
import functools

import pytest
import tensorflow as tf
from checks import parity
from checks.cudnn_rnn import (
    check_against_peer,
    check_against_reference,
    inputs_and_outputs,
    names_of,
    reference_gradients,
    run_all,
    run_forward,
    tape_gradients,
    tensors,
)
from environment.devices import BUILTIN_OPS, CPU_OPS, DEVICE, IS_GPU, OPS, assert_on
from hypothesis import given, settings
from hypothesis import strategies as st
from inputs import cudnn_rnn as cudnn_rnn_inputs
from inputs.cudnn_rnn import DTYPES, INPUTS, MODES, VERSIONS, Config, sized

pytestmark = pytest.mark.gpu

DIRECTIONS = ("unidirectional", "bidirectional")
TIME, BATCH, INPUT_SIZE, NUM_UNITS = 6, 4, 12, 20
LENGTHS = (6, 1, 3, 5)

# Networks that all versions of the op support, and networks for version 3 only.
OF_ALL_VERSIONS: dict[str, dict] = {
    "plain": {},
    "skip_input": {"input_mode": "skip_input", "input_size": NUM_UNITS},
    "auto_select_unequal": {"input_mode": "auto_select"},
    "auto_select_equal": {"input_mode": "auto_select", "input_size": NUM_UNITS},
}
OF_V3: dict[str, dict] = {
    "batch_major": {"time_major": False},
    "lengths": {"sequence_lengths": LENGTHS},
    "batch_major-lengths": {"time_major": False, "sequence_lengths": LENGTHS},
    "projection": {"num_proj": 8},
    "projection-lengths": {"num_proj": 8, "sequence_lengths": LENGTHS},
}


def network(**options) -> Config:
    return dataclasses.replace(sized((TIME, BATCH, INPUT_SIZE, NUM_UNITS)), **options)


NETWORKS = {
    f"{mode}-{num_layers}-{direction}-{name}": network(
        rnn_mode=mode, direction=direction, num_layers=num_layers, **options
    )
    for mode in MODES
    for direction in DIRECTIONS
    for num_layers in (1, 3)
    for name, options in {**OF_ALL_VERSIONS, **OF_V3}.items()
    if mode == "lstm" or "projection" not in name
}
every_network = pytest.mark.parametrize("name", NETWORKS)


def versions(name: str):
    """Returns the versions of the op that support a network."""
    return ("V3",) if name.partition("ectional-")[2] in OF_V3 else VERSIONS


check = functools.partial(check_against_reference, raw_ops=OPS, rounds_states=True)


@pytest.mark.parametrize("dtype", DTYPES)
@every_network
def test_equals_the_reference(name, dtype):
    for version in versions(name):
        check(NETWORKS[name], dtype, version=version)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [name for name, config in NETWORKS.items() if config.time_major])
def test_equals_tf_raw_ops(name, dtype):
    """Except where TensorFlow's op does not work with cuDNN 9: the first two versions, which have no sequence lengths;
    batch-major, where it does not transpose the states; and on a GPU, projections, which it rejects; backprop in
    bfloat16, which reads an uninitialized reserve_space; and float64 with sequence lengths, where some results are
    wrong."""
    if IS_GPU and ("projection" in name or (dtype == "float64" and "lengths" in name)):
        pytest.skip("TensorFlow's own op does not work here")
    require_builtin_op(dtype)
    check_against_peer(
        NETWORKS[name], dtype, "V3", "tf.raw_ops", BUILTIN_OPS, OPS, backward=not (IS_GPU and dtype == "bfloat16")
    )


@functools.cache
def why_not_builtin_op(dtype: str) -> str | None:
    """Returns the error of TensorFlow's own op if this cuDNN or GPU does not support a type, else None."""
    config = Config()
    try:
        run_forward(config, cudnn_rnn_inputs.network_inputs(config, dtype), raw_ops=BUILTIN_OPS)
    except tf.errors.OpError as error:
        return f"TensorFlow's own op has no {dtype} here: {error.message}"
    return None


def require_builtin_op(dtype: str) -> None:
    """Skips a test if TensorFlow's own op does not support bfloat16, which requires cuDNN 9.13."""
    why_not = why_not_builtin_op(dtype) if dtype == "bfloat16" else None
    if why_not:
        pytest.skip(why_not)


@settings(max_examples=200)
@given(config=cudnn_rnn_inputs.configs(), dtype=st.sampled_from(DTYPES), seed=st.integers(0, 2**32 - 1))
def test_equals_the_reference_with_any_options(config, dtype, seed):
    check(config, dtype, seed)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "tf.function"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("mode", MODES)
def test_gradients_by_a_tape(mode, version, dtype, compiled):
    config = network(rnn_mode=mode, direction="bidirectional", num_layers=2)
    inputs, run = inputs_and_outputs(config, dtype, seed=0, rounds_states=True)
    weights = cudnn_rnn_inputs.output_gradients(config, dtype)
    gradients = functools.partial(tape_gradients, config, version=version, raw_ops=OPS)
    with tf.device(DEVICE):
        actual = (tf.function(gradients) if compiled else gradients)(tensors(inputs), tensors(weights))
    assert_on(DEVICE, actual)
    expected = reference_gradients(config, run, inputs, weights)
    for name in names_of(config, INPUTS):
        wanted = getattr(expected, f"{name}_backprop")
        assert parity.difference(actual[name], wanted) < parity.TOLERANCES[dtype], name


# ---------------------------------------------------------------- networks that cuDNN does not support


# time, batch, input_size, num_units
@pytest.mark.parametrize("size", [(0, 2, 3, 4), (2, 0, 3, 4), (2, 3, 0, 4), (0, 0, 0, 4), (1, 1, 1, 1)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", MODES)
def test_sizes_of_zero_and_one(mode, dtype, size):
    for version in VERSIONS:
        check(sized(size, rnn_mode=mode), dtype, version=version)
    stack = sized(size, rnn_mode=mode, num_layers=2, direction="bidirectional", time_major=False)
    check(stack, dtype)


@pytest.mark.parametrize("lengths", [(0, 0, 0, 0), (0, 2, 4, 6), (6, 4, 2, 0), (3, 0, 0, 1)], ids=str)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("mode", MODES)
def test_empty_sequences(mode, direction, lengths):
    for dtype in DTYPES:
        for time_major in (True, False):
            config = network(
                rnn_mode=mode, direction=direction, num_layers=2, sequence_lengths=lengths, time_major=time_major
            )
            check(config, dtype)


# ---------------------------------------------------------------- benchmark sizes


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [(100, 1, 128, 256), (100, 32, 128, 256), (25, 128, 1024, 1024)], ids=str)
@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_tanh"])
def test_equals_the_cpu_kernels_when_large(mode, size, dtype):
    config = sized(size, rnn_mode=mode)
    actual, expected = (run_all(config, dtype, ops) for ops in (OPS, CPU_OPS))
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        assert parity.difference(actual[name], value) < {"float32": 2e-5, "float64": 1e-11}[dtype], name
