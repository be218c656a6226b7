"""Tests that invalid arguments raise errors that name them, eagerly and in graphs."""

import dataclasses
import functools
import inspect
import math
import re

import numpy as np
import pytest
import tensorflow as tf
from checks.bad_input import names_argument, wrong_shapes
from hypothesis import given
from hypothesis import strategies as st
from inputs import cudnn_rnn as cudnn_rnn_inputs
from inputs.cudnn_rnn import VERSIONS
from references.cudnn_rnn import Config

import tf_rnn_ops

raw_ops = tf_rnn_ops.raw_ops
ERRORS = (tf.errors.InvalidArgumentError, ValueError)

CONFIG = Config("lstm", direction="bidirectional", num_layers=1, num_units=4, input_size=3, time=5, batch=2)
PROJECTED = dataclasses.replace(CONFIG, num_proj=3)
BATCH_MAJOR = dataclasses.replace(CONFIG, time_major=False, batch=3)
SKIPPING = dataclasses.replace(CONFIG, input_mode="skip_input", input_size=4)
GRU = dataclasses.replace(CONFIG, rnn_mode="gru")


def forward_arguments(config, version, dtype):
    return cudnn_rnn_inputs.forward_arguments(config, cudnn_rnn_inputs.network_inputs(config, dtype), version)


def backprop_arguments(config, version, dtype):
    inputs = cudnn_rnn_inputs.network_inputs(config, dtype)
    forward = getattr(raw_ops, "CudnnRNN" + version)
    outputs = forward(**cudnn_rnn_inputs.forward_arguments(config, inputs, version))
    gradients = cudnn_rnn_inputs.output_gradients(config, dtype)
    arguments = cudnn_rnn_inputs.backprop_arguments(config, inputs, outputs, gradients, version)
    return {name: value.numpy() if tf.is_tensor(value) else value for name, value in arguments.items()}


def sequence_op(name, config=CONFIG, dtype="float32"):
    """Returns a forward or backprop op and valid arguments."""
    version = name[-2:] if name[-2:] in VERSIONS else ""
    make = backprop_arguments if "Backprop" in name else forward_arguments
    return getattr(raw_ops, name), make(config, version, dtype)


OPS = [name for name in raw_ops.__all__ if name.startswith("Cudnn")]
SEQUENCE_OPS = [f"CudnnRNN{kind}{version}" for kind in ("", "Backprop") for version in VERSIONS]
PARAMS_OPS = [name for name in OPS if "Params" in name]


def parameters(name):
    return inspect.signature(getattr(raw_ops, name)).parameters.values()


def input_names(name):
    """Returns the names of the input tensors of a forward or backprop op: parameters without defaults."""
    return [each.name for each in parameters(name) if each.default is inspect.Parameter.empty]


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


def split_inputs(arguments):
    """Splits arguments of an op into tensors and attributes."""
    tensors = {name: value for name, value in arguments.items() if isinstance(value, (np.ndarray, list))}
    return tensors, {name: value for name, value in arguments.items() if name not in tensors}


def placeholders(tensors, shaped):
    """Returns a placeholder for each array or list of arrays."""

    def make(array):
        return tf.compat.v1.placeholder(array.dtype, array.shape if shaped else None)

    return tf.nest.map_structure(make, tensors)


def run_eagerly(op, arguments):
    return op(**arguments)


def run_with_known_shapes(op, arguments):
    """Builds a graph with static shapes, which the shape function checks."""
    tensors, attributes = split_inputs(arguments)
    with tf.Graph().as_default():
        return op(**placeholders(tensors, shaped=True), **attributes)


def run_with_unknown_shapes(op, arguments):
    """Runs a graph with unknown shapes, which the kernel checks."""
    tensors, attributes = split_inputs(arguments)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        inputs = placeholders(tensors, shaped=False)
        feed = dict(zip(tf.nest.flatten(inputs), tf.nest.flatten(tensors), strict=True))
        return session.run(op(**inputs, **attributes), feed)


RUNS = [run_eagerly, run_with_known_shapes, run_with_unknown_shapes]


def op_message(error):
    """Returns an error message without TensorFlow's description of the op."""
    line = next(line for line in str(error).splitlines() if " must " in line)
    return re.sub(r"^\{\{.*?\}\} ", "", line).split(" for '{{node")[0].split(" [Op:")[0]


def assert_rejected(run, op, arguments, match=" must .* but "):
    with pytest.raises(ERRORS, match=" must ") as error:
        run(op, arguments)
    message = op_message(error.value)
    assert re.search(match, message), message
    return message


# ---------------------------------------------------------------- sequences: shapes

CASES = [
    (name, config, argument)
    for name, config in [
        *((name, CONFIG) for name in SEQUENCE_OPS),
        *((name, config) for name in SEQUENCE_OPS[2::3] for config in (PROJECTED, BATCH_MAJOR)),
    ]
    for argument in input_names(name)
    if argument != "host_reserved"  # any shape is valid
]


def case_id(value):
    if isinstance(value, Config):
        return "projected" if value.num_proj else "time_major" if value.time_major else "batch_major"
    return getattr(value, "__name__", str(value))


def is_also_valid(name, config, argument, right, wrong):
    """Whether only the number of steps differs and no other argument determines it."""
    time_axis = 0 if config.time_major else 1
    return (
        argument == "input"
        and "Backprop" not in name
        and len(wrong) == 3
        and wrong == (*right[:time_axis], wrong[time_axis], *right[time_axis + 1 :])
    )


@pytest.mark.parametrize("run", RUNS, ids=case_id)
@pytest.mark.parametrize(("name", "config", "argument"), CASES, ids=case_id)
def test_wrong_shape_is_rejected_by_name(name, config, argument, run):
    op, right = sequence_op(name, config)
    run(op, right)
    shape = right[argument].shape
    for wrong_shape in wrong_shapes(shape):
        if is_also_valid(name, config, argument, shape, wrong_shape):
            continue
        if argument == "reserve_space" and run is run_with_known_shapes and len(wrong_shape) == 1:
            continue  # only the kernel checks its size
        wrong = {**right, argument: np.zeros(wrong_shape, right[argument].dtype)}
        message = assert_rejected(run, op, wrong)
        # An error about a size of a sequence or a state may name another argument with the same size.
        may_show_elsewhere = argument in ("input", "input_h", "input_c") and len(wrong_shape) == len(shape)
        candidates = right if may_show_elsewhere else [argument]
        assert any(names_argument(message, each) for each in candidates), (wrong_shape, message)


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


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("name", SEQUENCE_OPS)
def test_cell_states_of_any_shape_are_ignored_in_modes_without_them(name, run):
    op, right = sequence_op(name, GRU)
    for argument in ("input_c", "output_c", "output_c_backprop"):
        for shape in [(), (0,), (7,), (1, 2, 3, 4)]:
            if argument in right:
                run(op, {**right, argument: np.ones(shape, "float32")})


@pytest.mark.parametrize("shape", [(), (7,), (1, 2, 0, 4)])
def test_the_gradient_of_an_ignored_cell_state_is_zero(shape):
    for name in SEQUENCE_OPS[3:]:
        op, right = sequence_op(name, GRU)
        gradient = op(**{**right, "input_c": np.ones(shape, "float32")}).input_c_backprop
        np.testing.assert_array_equal(gradient, np.zeros(shape, "float32"))


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


@pytest.mark.parametrize(("name", "argument"), sorted({(name, argument) for name, _, argument in CASES}))
def test_wrong_dtype_is_rejected(name, argument):
    op, right = sequence_op(name)
    for dtype in ("float64", "int64", "complex64", "bool"):
        wrong = {**right, argument: tf.cast(tf.constant(right[argument]), dtype)}
        for other in split_inputs(right)[0]:
            if other != argument:
                wrong[other] = tf.constant(right[other])
        with pytest.raises((*ERRORS, TypeError)):
            op(**wrong)


@pytest.mark.parametrize("dtype", ["int32", "complex64"])
@pytest.mark.parametrize("name", SEQUENCE_OPS)
def test_unsupported_dtype_everywhere_is_rejected(name, dtype):
    op, right = sequence_op(name)
    others = ("sequence_lengths", "host_reserved")
    tensors, attributes = split_inputs(right)
    wrong = {n: value if n in others else tf.cast(value, dtype) for n, value in tensors.items()}
    with pytest.raises((*ERRORS, TypeError, tf.errors.NotFoundError), match=r"[Tt]"):
        op(**wrong, **attributes)


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


@pytest.mark.parametrize("name", OPS)
def test_positional_arguments_are_rejected_like_in_tf_raw_ops(name):
    op, right = right_arguments(name)
    with pytest.raises(TypeError):
        op(*right.values())
    with pytest.raises(TypeError):
        getattr(tf.raw_ops, name)(*right.values())


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
@pytest.mark.parametrize("config", [CONFIG, PROJECTED], ids=case_id)
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
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            run()
