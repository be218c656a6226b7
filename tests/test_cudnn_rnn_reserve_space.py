"""Tests of the reserve_space of the CudnnRNN ops: its size, and errors for one from another call."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from checks.cudnn_rnn import run_backprop, run_forward
from hypothesis import given, settings
from hypothesis import strategies as st
from inputs import cudnn_rnn as cudnn_rnn_inputs
from inputs.calls import OPS, input_names, is_tensor, tensor_of
from inputs.cudnn_rnn import DTYPES, MODES, VERSIONS, Config
from inputs.reserve_spaces import BASE, OTHER_SIZE, RESERVE_SPACES, SAME_SIZE
from inputs.valid_calls import function_of, valid_arguments

HEADER_BYTES = 256
# Activations that a cell stores per step, in multiples of num_units.
KEPT = {"rnn_relu": 0, "rnn_tanh": 0, "lstm": 5, "gru": 4}


def expected_bytes(config: Config, dtype: str) -> int:
    """Returns the size of a header, the activations of the cells, and the outputs of all layers except the last.

    Except in LSTMs, gradients depend on differences of outputs. In types in which rounding makes these inexact, the
    output of the last layer is included. All are in the type of the computation.
    """
    keeps_the_last = config.rnn_mode != "lstm" and dtype in ("float16", "bfloat16")
    kept_outputs = config.num_layers if keeps_the_last else config.num_layers - 1
    cells = KEPT[config.rnn_mode] * config.num_units * config.num_pseudo_layers
    outputs = kept_outputs * config.num_directions * config.output_size
    return HEADER_BYTES + (cells + outputs) * config.time * config.batch * (8 if dtype == "float64" else 4)


def backprop(config, dtype="float32", version="V3", **changes):
    """Runs a network forward and backward, with changes of the arguments of the backward pass."""
    inputs, gradients = cudnn_rnn_inputs.inputs_and_gradients(config, dtype)
    return run_backprop(config, inputs, run_forward(config, inputs, version), gradients, version, **changes)


def right_reserve_space(config, dtype):
    return run_forward(config, cudnn_rnn_inputs.network_inputs(config, dtype)).reserve_space.numpy()


@settings(max_examples=200)
@given(config=cudnn_rnn_inputs.configs(), dtype=st.sampled_from(DTYPES))
def test_holds_a_header_and_the_activations_that_the_backward_pass_needs(config, dtype):
    outputs = run_forward(config, cudnn_rnn_inputs.network_inputs(config, dtype))
    assert outputs.reserve_space.dtype.name == dtype
    num_elements, remainder = divmod(expected_bytes(config, dtype), outputs.reserve_space.dtype.size)
    assert remainder == 0
    assert outputs.reserve_space.shape == (num_elements,)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("mode", MODES)
def test_is_empty_without_training(mode, version, dtype):
    config = Config(rnn_mode=mode, num_layers=2, dropout=0.5)
    outputs = run_forward(config, cudnn_rnn_inputs.network_inputs(config, dtype), version, is_training=False)
    assert outputs.reserve_space.shape == (0,)
    assert outputs.reserve_space.dtype.name == dtype


def test_host_reserved_equals_tf_raw_ops():
    """V2 returns the algorithm of cuDNN; -1 is the default."""
    config = Config()
    inputs = cudnn_rnn_inputs.network_inputs(config, "float32")
    expected = {("V2", True): [-1, 0], ("V2", False): 0, ("V3", True): 0, ("V3", False): 0}
    for (version, is_training), value in expected.items():
        host_reserved = run_forward(config, inputs, version, is_training=is_training).host_reserved
        assert host_reserved.dtype == tf.int8
        assert host_reserved.numpy().tolist() == value
    assert not hasattr(run_forward(config, inputs, ""), "host_reserved")


@pytest.mark.parametrize("host_reserved", [[], 5, [1, 2, 3], [[7]]], ids=str)
@pytest.mark.parametrize("version", ["V2", "V3"])
def test_backprop_ignores_host_reserved(version, host_reserved):
    config = Config()
    expected = backprop(config, version=version)
    actual = backprop(config, version=version, host_reserved=tf.constant(host_reserved, tf.int8))
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("changes", "message", "same_size"),
    [*((*case, True) for case in SAME_SIZE), *((*case, False) for case in OTHER_SIZE)],
    ids=str,
)
def test_reserve_space_of_another_configuration_is_rejected(changes, message, same_size, dtype):
    other = dataclasses.replace(BASE, **changes)
    assert (expected_bytes(other, dtype) == expected_bytes(BASE, dtype)) == same_size
    backprop(BASE, dtype)
    backprop(other, dtype)
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"reserve_space must be .*: {message}"):
        backprop(BASE, dtype, reserve_space=right_reserve_space(other, dtype))


@pytest.mark.parametrize(("mode", "other_mode"), [("rnn_relu", "rnn_tanh"), ("rnn_tanh", "rnn_relu")])
def test_reserve_space_of_another_mode_of_the_same_size_is_rejected(mode, other_mode):
    config, other = (Config(rnn_mode=each) for each in (mode, other_mode))
    message = f"reserve_space must be .*: rnn_mode was {other_mode}, but is {mode}"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        backprop(config, reserve_space=right_reserve_space(other, "float32"))


def test_auto_select_equals_the_selected_mode():
    """The configurations are equivalent."""
    for input_mode, input_size in (("skip_input", 8), ("linear_input", 9)):
        named = Config(num_units=8, input_size=input_size, input_mode=input_mode)
        selected = dataclasses.replace(named, input_mode="auto_select")
        expected = backprop(named)
        actual = backprop(selected, reserve_space=right_reserve_space(named, "float32"))
        for a, b in zip(actual, expected, strict=True):
            np.testing.assert_array_equal(a, b)


def garbage(size, dtype):
    """Returns random bytes as an array."""
    bytes_per_element = tf.as_dtype(dtype).size
    random = np.random.default_rng(0).integers(0, 256, size * bytes_per_element, np.uint8)
    return random.view(tf.as_dtype(dtype).as_numpy_dtype)


WRONG = {
    "empty": lambda right, dtype: right[:0],
    "shorter": lambda right, dtype: right[:-1],
    "longer": lambda right, dtype: np.concatenate([right, right[:1]]),
    "header alone": lambda right, dtype: right[: HEADER_BYTES // tf.as_dtype(dtype).size],
    "half a header": lambda right, dtype: right[: HEADER_BYTES // tf.as_dtype(dtype).size // 2],
    "one number": lambda right, dtype: right[:1],
    "zeros": lambda right, dtype: np.zeros_like(right),
    "ones": lambda right, dtype: np.ones_like(right),
    "garbage": lambda right, dtype: garbage(right.size, dtype),
    "moved by one": lambda right, dtype: np.roll(right, 1),
    "matrix": lambda right, dtype: right[np.newaxis],
    "scalar": lambda right, dtype: right[0],
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("make", WRONG.values(), ids=WRONG.keys())
@pytest.mark.parametrize("mode", MODES)
def test_an_invalid_reserve_space_is_rejected(mode, make, dtype):
    config = Config(rnn_mode=mode, num_layers=2, dropout=0.5)
    wrong = make(right_reserve_space(config, dtype), dtype)
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match="reserve_space"):
        backprop(config, dtype, reserve_space=wrong)


def test_an_invalid_reserve_space_is_rejected_in_a_graph_of_unknown_shapes():
    config = Config(num_layers=2)
    right = right_reserve_space(config, "float32")

    @tf.function(input_signature=[tf.TensorSpec(None, tf.float32)])
    def params_backprop(reserve_space):
        return backprop(config, reserve_space=reserve_space).params_backprop

    np.testing.assert_array_equal(params_backprop(right), backprop(config).params_backprop)
    for make in WRONG.values():
        with pytest.raises(tf.errors.InvalidArgumentError, match="reserve_space"):
            params_backprop(make(right, "float32"))


def test_reserve_space_of_inference_is_rejected():
    config = Config()
    inputs = cudnn_rnn_inputs.network_inputs(config, "float32")
    reserve_space = run_forward(config, inputs, is_training=False).reserve_space
    with pytest.raises(tf.errors.InvalidArgumentError, match="reserve_space"):
        backprop(config, reserve_space=reserve_space)


def test_reserve_space_of_another_dtype_is_rejected():
    """Even if its size in bytes is correct."""
    config = Config()
    right, other = (right_reserve_space(config, dtype) for dtype in ("float64", "float32"))
    with pytest.raises(tf.errors.InvalidArgumentError):
        backprop(config, "float64", reserve_space=other)
    same_bytes = np.frombuffer(other.tobytes().ljust(right.nbytes, b"\0"), right.dtype)
    assert same_bytes.shape == right.shape
    with pytest.raises(tf.errors.InvalidArgumentError, match="reserve_space"):
        backprop(config, "float64", reserve_space=same_bytes)


@pytest.mark.parametrize("version", VERSIONS)
def test_versions_share_the_reserve_space(version):
    """The three versions of the op share one kernel."""
    config = Config(num_layers=2)
    expected = backprop(config, version=version)
    for other in VERSIONS:
        reserve_space = run_forward(config, cudnn_rnn_inputs.network_inputs(config, "float32"), other).reserve_space
        actual = backprop(config, version=version, reserve_space=reserve_space)
        for a, b in zip(actual, expected, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("kind", RESERVE_SPACES)
@pytest.mark.parametrize("op", [op for op in OPS if "reserve_space" in input_names(op)])
def test_any_reserve_space_is_rejected_or_accepted(op, kind):
    """The process goes on, and an error names the argument. A changed activation is not noticed."""
    rng = np.random.default_rng(0)
    num_calls = 0
    while num_calls < 20:
        arguments = valid_arguments(rng, op)
        value = arguments["reserve_space"]
        if not isinstance(value, np.ndarray) or value.size == 0:
            continue
        num_calls += 1
        arguments["reserve_space"] = RESERVE_SPACES[kind](rng, op, value)
        message = ""
        try:
            results = function_of(op)(**{name: to_tensor(each) for name, each in arguments.items()})
            tf.nest.map_structure(lambda each: each.numpy(), results)
        except tf.errors.InvalidArgumentError as error:
            message = error.message
        assert not message or "reserve_space" in message or "dropout" in message


def to_tensor(argument):
    return tensor_of(argument) if is_tensor(argument) else argument
