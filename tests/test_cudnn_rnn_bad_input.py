"""Tests that invalid arguments raise errors that name them, eagerly and in graphs."""

import dataclasses
import functools
import inspect
import math

import numpy as np
import pytest
import tensorflow as tf
from checks.bad_input import (
    BATCH_MAJOR,
    CONFIG,
    ERRORS,
    PROJECTED,
    RUNS,
    assert_rejected,
    names_argument,
    network_arguments,
    run_eagerly,
    run_with_unknown_shapes,
    wrong_shapes,
)
from hypothesis import given
from hypothesis import strategies as st
from inputs import cudnn_rnn as cudnn_rnn_inputs
from inputs.cudnn_rnn import VERSIONS

import tf_rnn_ops

raw_ops = tf_rnn_ops.raw_ops
SKIPPING = dataclasses.replace(CONFIG, input_mode="skip_input", input_size=4)


def sequence_op(name, config=CONFIG):
    """Returns a forward or backprop op and valid arguments."""
    return getattr(raw_ops, name), network_arguments(name, config)


OPS = [name for name in raw_ops.__all__ if name.startswith("Cudnn")]
SEQUENCE_OPS = [f"CudnnRNN{kind}{version}" for kind in ("", "Backprop") for version in VERSIONS]
PARAMS_OPS = [name for name in OPS if "Params" in name]


def parameters(name):
    return inspect.signature(getattr(raw_ops, name)).parameters.values()


def test_every_op_is_tested():
    assert sorted(SEQUENCE_OPS + PARAMS_OPS) == OPS


@functools.cache
def params_op_arguments(config, version):
    """Returns valid arguments of the params ops of a version, by op name."""
    sizes = {name: np.array(getattr(config, name), np.int32) for name in ("num_layers", "num_units", "input_size")}
    names = ["rnn_mode", "input_mode", "direction"] + ["num_proj"] * (version == "V2")
    attributes = {name: getattr(config, name) for name in names}
    num_biases = 2 * config.num_gates * config.num_pseudo_layers
    num_weights = num_biases + (config.num_pseudo_layers if config.has_projection else 0)
    counts = {"num_params": num_biases}
    if version == "V2":
        counts = {"num_params_weights": num_weights, "num_params_biases": num_biases}
    split, join = "CudnnRNNParamsToCanonical" + version, "CudnnRNNCanonicalToParams" + version
    params = np.zeros(cudnn_rnn_inputs.shapes(config)["params"], "float32")
    canonical = getattr(raw_ops, split)(**sizes, params=params, **counts, **attributes)
    joined = {name: [each.numpy() for each in parts] for name, parts in canonical._asdict().items()}
    return {
        "CudnnRNNParamsSize": {**sizes, "T": tf.float32, "S": tf.int32, **attributes},
        split: {**sizes, "params": params, **counts, **attributes},
        join: {**sizes, **joined, **attributes},
    }


def params_op(name):
    """Returns a params op and valid arguments, with a projection if the op supports it."""
    version = "" if name in ("CudnnRNNParamsToCanonical", "CudnnRNNCanonicalToParams") else "V2"
    return getattr(raw_ops, name), params_op_arguments(PROJECTED if version else CONFIG, version)[name]


def right_arguments(name):
    return params_op(name) if name in PARAMS_OPS else sequence_op(name)


# ---------------------------------------------------------------- sequences: shapes


@pytest.mark.parametrize("run", RUNS)
def test_the_message_has_the_actual_and_the_expected_shape(run):
    op, right = sequence_op("CudnnRNNV3")
    for argument, shape, message in [
        ("input", (5, 2), r"input must have the shape \[time, batch, input_size\] = \[\?,\?,\?\], but has \[5,2\]"),
        (
            "input_h",
            (2, 3, 4),
            r"input_h must have the shape \[num_layers \* num_directions, batch, num_units\] = \[\?,2,\?\], "
            r"but has \[2,3,4\]",
        ),
        (
            "input_c",
            (2, 2, 5),
            r"input_c must have the shape \[num_layers \* num_directions, batch, num_units\] = \[2,2,4\], "
            r"but has \[2,2,5\]",
        ),
        ("params", (7,), r"params must have the shape \[params_size\] = \[288\], but has \[7\]"),
        ("sequence_lengths", (3,), r"sequence_lengths must have the shape \[batch\] = \[2\], but has \[3\]"),
    ]:
        wrong = {**right, argument: np.zeros(shape, right[argument].dtype)}
        assert_rejected(run, op, wrong, message)


def test_wrong_params_size_names_the_network():
    op, arguments = sequence_op("CudnnRNNV2", CONFIG)
    message = "rnn_mode lstm, bidirectional, num_layers 1, input_size 3, num_units 4, num_proj 0"
    assert_rejected(run_eagerly, op, {**arguments, "params": np.zeros(7, np.float32)}, message)


@pytest.mark.parametrize("run", RUNS)
def test_the_message_follows_the_layout_and_the_projection(run):
    op, right = sequence_op("CudnnRNNV3", dataclasses.replace(BATCH_MAJOR, num_proj=3))
    wrong = {**right, "input_h": np.zeros((3, 2, 4), "float32")}
    shape = r"\[batch, num_layers \* num_directions, num_proj\] = \[3,\?,3\]"
    message = rf"input_h must have the shape {shape}, but has \[3,2,4\]"
    assert_rejected(run, op, wrong, message)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("pseudo_layers", [0, 1, 3])
def test_states_must_be_of_whole_layers(pseudo_layers, run):
    op, right = sequence_op("CudnnRNN")
    state = np.zeros((pseudo_layers, 2, 4), "float32")
    message = "input_h must have a positive multiple of num_directions = 2 as dimension 0 .*, but has the shape "
    assert_rejected(run, op, {**right, "input_h": state, "input_c": state}, message)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("name", SEQUENCE_OPS)
def test_skipped_input_must_be_as_wide_as_the_units(name, run):
    op, right = sequence_op(name, SKIPPING)
    run(op, right)
    wrong = {**right, "input": right["input"][..., :3]}
    message = assert_rejected(run, op, wrong)
    assert "input_size must be num_units = 4 where input_mode is skip_input, but is 3" in message


shapes = st.lists(st.integers(0, 5), max_size=4).map(tuple)


def fits(config, shapes):
    """Whether shapes are valid for a network with the attributes of `config`."""
    states = [shapes["input_h"]] + [shapes["input_c"]] * (config.rnn_mode == "lstm")
    if any(len(shape) != 3 for shape in [shapes["input"], *states]):
        return False
    time, batch, input_size = cudnn_rnn_inputs.major(config, *shapes["input"])
    pseudo_layers = cudnn_rnn_inputs.major(config, *shapes["input_h"])[0]
    num_units = states[-1][2]
    num_layers, remainder = divmod(pseudo_layers, config.num_directions)
    if num_layers == 0 or remainder or config.num_proj > num_units:
        return False
    if config.input_mode == "skip_input" and input_size != num_units:
        return False
    sizes = {"num_layers": num_layers, "num_units": num_units, "input_size": input_size, "time": time, "batch": batch}
    expected = cudnn_rnn_inputs.shapes(dataclasses.replace(config, **sizes))
    if config.rnn_mode != "lstm":
        expected["input_c"] = shapes["input_c"]
    expected["sequence_lengths"] = (batch,)
    return all(shapes[name] == expected[name] for name in shapes)


@given(config=cudnn_rnn_inputs.configs(smallest=0, largest=3), data=st.data())
def test_any_shapes_are_accepted_or_rejected(config, data):
    """Compatible shapes give results, and others raise an error that names an argument."""
    right = {**cudnn_rnn_inputs.shapes(config), "sequence_lengths": (config.batch,)}
    right = {name: right[name] for name in (*cudnn_rnn_inputs.INPUTS, "sequence_lengths")}
    changed = data.draw(st.lists(st.sampled_from(sorted(right)), max_size=2, unique=True))
    given_shapes = {**right, **{name: data.draw(shapes) for name in changed}}
    arguments = {
        **{name: np.zeros(shape, "float32") for name, shape in given_shapes.items()},
        "sequence_lengths": np.zeros(given_shapes["sequence_lengths"], "int32"),
        **cudnn_rnn_inputs.attributes(config),
    }
    for run in RUNS:
        if fits(config, given_shapes):
            outputs = run(raw_ops.CudnnRNNV3, arguments)
            assert tuple(outputs.output_h.shape) == given_shapes["input_h"]
        else:
            message = assert_rejected(run, raw_ops.CudnnRNNV3, arguments)
            assert any(names_argument(message, name) for name in arguments), message


# ---------------------------------------------------------------- sequences: values, types and attributes


@pytest.mark.parametrize("run", [run_eagerly, run_with_unknown_shapes])
@pytest.mark.parametrize("name", SEQUENCE_OPS[2::3])
@pytest.mark.parametrize("wrong", [-1, 6, 2**31 - 1, -(2**31)])
def test_sequence_lengths_out_of_range_are_rejected_by_entry(name, run, wrong):
    op, right = sequence_op(name)
    lengths = np.array([5, wrong], np.int32)
    message = rf"sequence_lengths\[1\] must be between 0 and time = 5, but is {wrong}"
    assert_rejected(run, op, {**right, "sequence_lengths": lengths}, message)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("name", OPS)
def test_attributes_out_of_range_are_rejected(name, run):
    op, right = right_arguments(name)
    run(op, right)
    for dropout in (-0.1, 1.5, math.inf, math.nan):
        message = assert_rejected(run, op, {**right, "dropout": dropout})
        assert "dropout must be between 0 and 1, but is " in message
    for attribute in ("rnn_mode", "input_mode", "direction"):
        with pytest.raises(ERRORS, match=f"'{attribute}'"):
            run(op, {**right, attribute: "another"})
    if "num_proj" in right:
        for num_proj in (-1, -(2**63)):
            message = f"num_proj must not be negative, but is {num_proj}"
            assert_rejected(run, op, {**right, "num_proj": num_proj}, message)
        wrong = {**right, "rnn_mode": "gru", "num_proj": 3}
        message = "num_proj must be 0 unless rnn_mode is lstm, but is 3 where rnn_mode is gru"
        assert_rejected(run, op, wrong, message)


@pytest.mark.parametrize("dropout", [0, 1])
@pytest.mark.parametrize("name", OPS)
def test_dropout_of_0_and_1_is_valid(name, dropout):
    if "Backprop" not in name:  # whose reserve_space must match the rate
        op, right = right_arguments(name)
        op(**{**right, "dropout": dropout})


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("name", SEQUENCE_OPS[2::3])
def test_a_projection_to_more_than_the_units_is_rejected(name, run):
    """Even if all shapes match such a network."""
    op, right = sequence_op(name)
    wider = {
        **dict.fromkeys(["input_h", "output_h", "output_h_backprop"], np.zeros((2, 2, 5), "float32")),
        **dict.fromkeys(["output", "output_backprop"], np.zeros((5, 2, 10), "float32")),
    }
    wrong = {**right, **{argument: wider[argument] for argument in wider if argument in right}, "num_proj": 5}
    assert_rejected(run, op, wrong, "num_proj must be at most num_units = 4, but is 5")
    for num_proj in (2**40, 2**63 - 1):
        assert_rejected(run, op, {**right, "num_proj": num_proj}, "num_proj")


# ---------------------------------------------------------------- params


def run_with_constants(op, arguments):
    """Builds a graph with constant sizes, which the shape function checks."""
    with tf.Graph().as_default():
        return op(**arguments)


RUNS_OF_CONSTANTS = [run_eagerly, run_with_constants, run_with_unknown_shapes]


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("argument", ["num_layers", "num_units", "input_size"])
@pytest.mark.parametrize("name", PARAMS_OPS)
def test_sizes_that_are_not_scalars_are_rejected(name, argument, run):
    op, right = right_arguments(name)
    for shape in [(0,), (1,), (1, 1), (2,)]:
        wrong = {**right, argument: np.ones(shape, np.int32)}
        assert_rejected(run, op, wrong, rf"{argument} must be a scalar, but has the shape \[")


@pytest.mark.parametrize("argument", ["num_layers", "num_units", "input_size"])
@pytest.mark.parametrize("name", PARAMS_OPS)
def test_constants_that_are_not_scalars_are_rejected(name, argument):
    """TensorFlow evaluates them while it builds a graph, but does not check their shapes."""
    op, right = right_arguments(name)
    for shape in [(0,), (1,), (2,)]:
        with tf.Graph().as_default():
            wrong = tf.io.parse_tensor(tf.io.serialize_tensor(np.ones(shape, np.int32)), tf.int32)
            assert wrong.shape.rank is None
            assert_rejected(
                run_eagerly, op, {**right, argument: wrong}, rf"{argument} must be a scalar, but has the shape \["
            )


@pytest.mark.parametrize("run", RUNS_OF_CONSTANTS)
@pytest.mark.parametrize(
    ("argument", "wrong", "minimum"),
    [("num_layers", 0, 1), ("num_layers", -1, 1), ("num_units", -1, 0), ("input_size", -(2**31), 0)],
)
@pytest.mark.parametrize("name", PARAMS_OPS)
def test_sizes_that_are_too_small_are_rejected(name, argument, wrong, minimum, run):
    op, right = right_arguments(name)
    message = f"{argument} must be at least {minimum}, but is {wrong}"
    assert_rejected(run, op, {**right, argument: np.array(wrong, np.int32)}, message)


@pytest.mark.parametrize("run", RUNS_OF_CONSTANTS)
@pytest.mark.parametrize("name", PARAMS_OPS)
@pytest.mark.not_xla(
    "an eager op is in a function, so its shape function raises the error before the kernel",
    cases="CudnnRNNCanonicalToParams(V2)?-run_e",
)
def test_skipped_input_must_be_of_the_size_of_the_units(name, run):
    op, right = right_arguments(name)
    message = "input_size must be num_units = 4 where input_mode is skip_input, but is 3"
    if run is run_with_constants and "weights" in right:
        # This error takes precedence.
        message = r"weights\[0\] must have the shape \[.*,0\] or, flattened, \[0\], but has \[4,3\]"
    assert_rejected(run, op, {**right, "input_mode": "skip_input"}, message)


@pytest.mark.parametrize("run", RUNS_OF_CONSTANTS)
@pytest.mark.parametrize("num_proj", [5, 2**40, 2**63 - 1])
@pytest.mark.parametrize(
    "name", [name for name in PARAMS_OPS if "num_proj" in {each.name for each in parameters(name)}]
)
def test_params_of_a_projection_to_more_than_the_units_are_rejected(name, num_proj, run):
    op, right = params_op(name)
    # If shapes of weights are static, their error takes precedence.
    assert_rejected(run, op, {**right, "num_proj": num_proj}, r"num_proj|weights\[4\] must have the shape \[\?,\d+\]")


@pytest.mark.parametrize("run", RUNS_OF_CONSTANTS)
def test_params_whose_size_overflows_are_rejected(run):
    largest = np.array(2**31 - 1, np.int32)
    sizes = {"num_layers": largest, "num_units": largest, "input_size": np.array(1, np.int32)}
    arguments = {**params_op("CudnnRNNParamsSize")[1], **sizes, "num_proj": 0, "S": tf.int64}
    message = f"params must have a size that fits in int64, but num_layers is {largest}, num_units {largest}"
    assert_rejected(run, raw_ops.CudnnRNNParamsSize, arguments, message)


@pytest.mark.parametrize("run", [run_eagerly, run_with_unknown_shapes])
def test_params_whose_size_exceeds_int32_are_rejected(run):
    arguments = {**params_op("CudnnRNNParamsSize")[1], "num_units": np.array(2**15, np.int32), "num_proj": 0}
    message = r"S must be int64 for a params_size of \d{10,}, but is int32"
    assert_rejected(run, raw_ops.CudnnRNNParamsSize, arguments, message)


def wrong_numbers_of_biases(version):
    """Yields (op, arguments) with wrong numbers of biases, and of weights in the first version."""
    config = CONFIG if version == "" else PROJECTED
    arguments = params_op_arguments(config, version)
    split, join = (f"CudnnRNN{kind}{version}" for kind in ("ParamsToCanonical", "CanonicalToParams"))
    for count in (1, 8, 15, 17, 24):
        attribute = "num_params" if version == "" else "num_params_biases"
        yield split, count, {**arguments[split], attribute: count}
        lists = ("weights", "biases") if version == "" else ("biases",)
        yield join, count, {**arguments[join], **{name: arguments[join][name][:1] * count for name in lists}}


@pytest.mark.parametrize("run", RUNS_OF_CONSTANTS)
@pytest.mark.parametrize("version", ["", "V2"])
def test_a_wrong_number_of_biases_is_rejected_with_the_expected_number(version, run):
    for op, count, wrong in wrong_numbers_of_biases(version):
        message = (
            r"biases must be a list of num_layers \* num_directions \* 2 \* num_gates = [1?] \* 2 \* 2 \* 4 vectors, "
            rf"but has {count}$"
        )
        assert_rejected(run, getattr(raw_ops, op), wrong, message)


@pytest.mark.parametrize("run", RUNS_OF_CONSTANTS)
@pytest.mark.parametrize("config", [CONFIG, PROJECTED], ids=["whole", "projected"])
def test_a_wrong_number_of_weights_is_rejected_with_the_expected_number(config, run):
    arguments = params_op_arguments(config, "V2")
    split, join = "CudnnRNNParamsToCanonicalV2", "CudnnRNNCanonicalToParamsV2"
    per_pseudo_layer = r"\(2 \* num_gates \+ 1\)" if config.num_proj else r"2 \* num_gates"
    with_or_without_the_projection = 16 if config.num_proj else 18
    for count in (1, 15, 17, with_or_without_the_projection, 36):
        number = rf"num_layers \* num_directions \* {per_pseudo_layer}"
        message = rf"weights must be a list of {number} = .* matrices, but has {count}$"
        assert_rejected(run, getattr(raw_ops, split), {**arguments[split], "num_params_weights": count}, message)
        weights = arguments[join]["weights"][:1] * count
        assert_rejected(run, getattr(raw_ops, join), {**arguments[join], "weights": weights}, message)


@pytest.mark.parametrize("run", RUNS_OF_CONSTANTS)
@pytest.mark.parametrize("kind", ["weights", "biases"])
@pytest.mark.parametrize("version", ["", "V2"])
def test_weights_and_biases_of_wrong_shapes_are_rejected(version, kind, run):
    config = CONFIG if version == "" else PROJECTED
    name = "CudnnRNNCanonicalToParams" + version
    arguments = params_op_arguments(config, version)[name]
    # The first input matrix, recurrent matrix and (version 2) projection, and the last one.
    for i in (0, 4, 8, len(arguments[kind]) - 1):
        for shape in wrong_shapes(arguments[kind][i].shape):
            wrong = [*arguments[kind][:i], np.zeros(shape, "float32"), *arguments[kind][i + 1 :]]
            assert_rejected(
                run, getattr(raw_ops, name), {**arguments, kind: wrong}, rf"{kind}\[{i}\] must have .*, but has "
            )


@pytest.mark.parametrize("run", RUNS_OF_CONSTANTS)
@pytest.mark.parametrize("version", ["", "V2"])
def test_weights_are_checked_before_params_are_allocated(version, run):
    """A wrong num_units would require terabytes."""
    op, right = right_arguments("CudnnRNNCanonicalToParams" + version)
    wrong = {**right, "num_units": np.array(2**20, np.int32)}
    assert_rejected(run, op, wrong, r"weights\[0\] must have .*1048576,.*, but has \[\d,\d\]")


@pytest.mark.parametrize("run", RUNS_OF_CONSTANTS)
@pytest.mark.parametrize("name", [name for name in PARAMS_OPS if "ToCanonical" in name])
def test_params_of_wrong_shape_are_rejected(name, run):
    op, right = right_arguments(name)
    for shape in wrong_shapes(right["params"].shape):
        wrong = {**right, "params": np.zeros(shape, "float32")}
        assert_rejected(run, op, wrong, r"params must have the shape \[params_size\] = \[.*\], but has ")


@pytest.mark.parametrize("name", PARAMS_OPS)
def test_sizes_of_wrong_dtype_are_rejected(name):
    op, right = right_arguments(name)
    for argument in ("num_layers", "num_units", "input_size"):
        for dtype in ("int64", "float32"):
            with pytest.raises((*ERRORS, TypeError)):
                op(**{**right, argument: tf.cast(right[argument], dtype)})


# ---------------------------------------------------------------- huge sizes

HUGE = 2**62


def zeros(*shape):
    """Returns zeros of a shape that NumPy may not support; TensorFlow stores no data for empty tensors."""
    return tf.zeros(tf.constant(shape, tf.int64))


@pytest.mark.parametrize(
    ("input", "input_h"),
    [
        ((0, 0, 3), (1, 0, HUGE)),  # huge num_units
        ((0, 0, HUGE), (1, 0, 4)),  # huge input_size
        ((0, 0, 3), (HUGE, 0, 4)),  # huge num_layers
        ((2**31, 0, 3), (2**31, 0, 2**31)),
    ],
    ids=str,
)
@pytest.mark.not_xla("XLA crashes on empty tensors whose product of sizes overflows", crashes=True)
def test_sizes_whose_products_overflow_are_rejected(input, input_h):
    state = zeros(*input_h)
    with pytest.raises(tf.errors.InvalidArgumentError, match="must"):
        raw_ops.CudnnRNN(input=zeros(*input), input_h=state, input_c=state, params=zeros(0))


@pytest.mark.parametrize(
    ("input", "input_h", "num_params"),
    [
        ((0, HUGE // 2, 3), (2, HUGE // 2, 0), 0),
        ((HUGE, 1, 0), (2, 1, 0), 0),
        ((2**31, 2**31, 0), (2, 2**31, 0), 0),
        ((HUGE, 0, 3), (2, 0, 4), 304),
        ((0, 1, 2 * HUGE - 1), (2, 1, 0), 0),  # huge input_size without units
    ],
    ids=str,
)
@pytest.mark.parametrize("run", [raw_ops.CudnnRNN, tf.function(raw_ops.CudnnRNN)], ids=["eager", "graph"])
@pytest.mark.not_xla("XLA crashes on empty tensors whose product of sizes overflows", crashes=True)
def test_huge_sizes_of_empty_tensors_are_accepted(run, input, input_h, num_params):
    state = zeros(*input_h)
    inputs = {"input": zeros(*input), "input_h": state, "input_c": state, "params": zeros(num_params), "dropout": 0.5}
    outputs = run(**inputs)
    assert outputs.output.shape == (*input[:2], input_h[2])
    assert outputs.output_h.shape == input_h
    gradients = raw_ops.CudnnRNNBackprop(
        **inputs,
        **outputs._asdict(),
        output_backprop=outputs.output,
        output_h_backprop=outputs.output_h,
        output_c_backprop=outputs.output_c,
    )
    np.testing.assert_array_equal(gradients.params_backprop, np.zeros(num_params))
    assert gradients.input_backprop.shape == input


@pytest.mark.parametrize("time_major", [True, False])
def test_steps_that_take_time_but_no_memory_are_limited(time_major):
    state = tf.zeros([1, 1, 1])
    shape = (2**40, 1, 0) if time_major else (1, 2**40, 0)
    inputs = {
        "input": zeros(*shape),
        "input_h": state,
        "input_c": state,
        "params": tf.zeros([12]),
        "sequence_lengths": [1],
        "time_major": time_major,
    }
    gradients = dict.fromkeys(["output", "output_h", "output_c"], zeros(0))
    gradients |= {f"{name}_backprop": array for name, array in gradients.items()}
    message = r"input must have at most 134217728 steps if it has no features, but has the shape \[.*1099511627776.*\]"
    for run in [
        lambda: raw_ops.CudnnRNNV3(**inputs),
        lambda: raw_ops.CudnnRNNBackpropV3(
            **inputs, **gradients, reserve_space=[], host_reserved=tf.zeros([0], tf.int8)
        ),
    ]:
        with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=message):
            run()
