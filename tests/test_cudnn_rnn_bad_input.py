"""Arguments that fit no network are refused by name, eagerly and in graphs, and nothing worse happens."""

import dataclasses
import functools
import inspect
import math
import re

import cudnn_rnn_inputs
import numpy as np
import pytest
import tensorflow as tf
from cudnn_rnn_inputs import VERSIONS
from cudnn_rnn_reference import Config
from hypothesis import given
from hypothesis import strategies as st

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
    """A forward or backprop op, and right arguments for it."""
    version = name[-2:] if name[-2:] in VERSIONS else ""
    make = backprop_arguments if "Backprop" in name else forward_arguments
    return getattr(raw_ops, name), make(config, version, dtype)


OPS = [name for name in raw_ops.__all__ if name.startswith("Cudnn")]
SEQUENCE_OPS = [f"CudnnRNN{kind}{version}" for kind in ("", "Backprop") for version in VERSIONS]
PARAMS_OPS = [name for name in OPS if "Params" in name]


def parameters(name):
    return inspect.signature(getattr(raw_ops, name)).parameters.values()


def input_names(name):
    """The names of the tensors that a forward or backprop op takes: what has no default."""
    return [each.name for each in parameters(name) if each.default is inspect.Parameter.empty]


def test_every_op_is_tested():
    assert sorted(SEQUENCE_OPS + PARAMS_OPS) == OPS


@functools.cache
def params_op_arguments(config, version):
    """Right arguments of the params ops of a version, by their names."""
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
    """A params op, and right arguments for it: with a projection, where it knows of them."""
    version = "" if name in ("CudnnRNNParamsToCanonical", "CudnnRNNCanonicalToParams") else "V2"
    return getattr(raw_ops, name), params_op_arguments(PROJECTED if version else CONFIG, version)[name]


def right_arguments(name):
    return params_op(name) if name in PARAMS_OPS else sequence_op(name)


def split_inputs(arguments):
    """The tensors among an op's arguments, and the attributes."""
    tensors = {name: value for name, value in arguments.items() if isinstance(value, (np.ndarray, list))}
    return tensors, {name: value for name, value in arguments.items() if name not in tensors}


def placeholders(tensors, shaped):
    """A placeholder for each array, or list of arrays."""

    def make(array):
        return tf.compat.v1.placeholder(array.dtype, array.shape if shaped else None)

    return tf.nest.map_structure(make, tensors)


def run_eagerly(op, arguments):
    return op(**arguments)


def run_with_known_shapes(op, arguments):
    """Builds a graph whose shapes are known: the shape function judges."""
    tensors, attributes = split_inputs(arguments)
    with tf.Graph().as_default():
        return op(**placeholders(tensors, shaped=True), **attributes)


def run_with_unknown_shapes(op, arguments):
    """Runs a graph whose shapes are not known when it is built: the kernel judges."""
    tensors, attributes = split_inputs(arguments)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        inputs = placeholders(tensors, shaped=False)
        feed = dict(zip(tf.nest.flatten(inputs), tf.nest.flatten(tensors), strict=True))
        return session.run(op(**inputs, **attributes), feed)


RUNS = [run_eagerly, run_with_known_shapes, run_with_unknown_shapes]


def wrong_shapes(shape):
    """Shapes near a right one: another rank, each dimension one more, one less, none and twice."""
    yield ()
    yield (*shape, 1)
    yield (1, *shape)
    yield shape[:-1]
    for axis, size in enumerate(shape):
        for wrong in (size - 1, size + 1, 0, 2 * size):
            yield (*shape[:axis], wrong, *shape[axis + 1 :])


def names_argument(message, argument):
    return re.search(rf"\b{argument}\b", message) is not None


def words(error):
    """What an op said of its arguments, without what TensorFlow says of the op."""
    line = next(line for line in str(error).splitlines() if " must " in line)
    return re.sub(r"^\{\{.*?\}\} ", "", line).split(" for '{{node")[0].split(" [Op:")[0]


def assert_refused(run, op, arguments, match=" must .* but "):
    with pytest.raises(ERRORS, match=" must ") as error:
        run(op, arguments)
    message = words(error.value)
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
    if argument != "host_reserved"  # any will do
]


def case_id(value):
    if isinstance(value, Config):
        return "projected" if value.num_proj else "time_major" if value.time_major else "batch_major"
    return getattr(value, "__name__", str(value))


def fits_all_the_same(name, config, argument, right, wrong):
    """Whether nothing else says how many steps there are: then any number will do."""
    time_axis = 0 if config.time_major else 1
    return (
        argument == "input"
        and "Backprop" not in name
        and len(wrong) == 3
        and wrong == (*right[:time_axis], wrong[time_axis], *right[time_axis + 1 :])
    )


@pytest.mark.parametrize("run", RUNS, ids=case_id)
@pytest.mark.parametrize(("name", "config", "argument"), CASES, ids=case_id)
def test_wrong_shape_is_refused_by_name(name, config, argument, run):
    op, right = sequence_op(name, config)
    run(op, right)
    shape = right[argument].shape
    for wrong_shape in wrong_shapes(shape):
        if fits_all_the_same(name, config, argument, shape, wrong_shape):
            continue
        if argument == "reserve_space" and run is run_with_known_shapes and len(wrong_shape) == 1:
            continue  # its size is the kernel's affair
        wrong = {**right, argument: np.zeros(wrong_shape, right[argument].dtype)}
        message = assert_refused(run, op, wrong)
        # A wrong size of a sequence or a state may show only in what must fit it.
        may_show_elsewhere = argument in ("input", "input_h", "input_c") and len(wrong_shape) == len(shape)
        candidates = right if may_show_elsewhere else [argument]
        assert any(names_argument(message, each) for each in candidates), (wrong_shape, message)


@pytest.mark.parametrize("run", RUNS)
def test_the_message_says_what_came_and_what_should_have_come(run):
    op, right = sequence_op("CudnnRNNV3")
    for argument, shape, message in [
        ("input", (5, 2), r"input must be \[time, batch, input_size\] = \[\?,\?,\?\], but is \[5,2\]"),
        (
            "input_h",
            (2, 3, 4),
            r"input_h must be \[num_layers \* num_directions, batch, num_units\] = \[\?,2,\?\], but is \[2,3,4\]",
        ),
        (
            "input_c",
            (2, 2, 5),
            r"input_c must be \[num_layers \* num_directions, batch, num_units\] = \[2,2,4\], but is \[2,2,5\]",
        ),
        ("params", (7,), r"params must be \[params_size\] = \[288\], but is \[7\]"),
        ("sequence_lengths", (3,), r"sequence_lengths must be \[batch\] = \[2\], but is \[3\]"),
    ]:
        wrong = {**right, argument: np.zeros(shape, right[argument].dtype)}
        assert_refused(run, op, wrong, message)


@pytest.mark.parametrize("run", RUNS)
def test_the_message_follows_the_layout_and_the_projection(run):
    op, right = sequence_op("CudnnRNNV3", dataclasses.replace(BATCH_MAJOR, num_proj=3))
    wrong = {**right, "input_h": np.zeros((3, 2, 4), "float32")}
    message = r"input_h must be \[batch, num_layers \* num_directions, num_proj\] = \[3,\?,3\], but is \[3,2,4\]"
    assert_refused(run, op, wrong, message)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("pseudo_layers", [0, 1, 3])
def test_states_must_be_of_whole_layers(pseudo_layers, run):
    op, right = sequence_op("CudnnRNN")
    state = np.zeros((pseudo_layers, 2, 4), "float32")
    message = "input_h must be of num_layers .* a positive multiple of 2, pseudo-layers, but is "
    assert_refused(run, op, {**right, "input_h": state, "input_c": state}, message)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("name", SEQUENCE_OPS)
def test_skipped_input_must_be_as_wide_as_the_units(name, run):
    op, right = sequence_op(name, SKIPPING)
    run(op, right)
    wrong = {**right, "input": right["input"][..., :3]}
    message = assert_refused(run, op, wrong)
    assert "input_size must be num_units = 4 where input_mode is skip_input, but is 3" in message


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("name", SEQUENCE_OPS)
def test_cell_states_of_any_shape_will_do_where_there_are_none(name, run):
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
    """Whether shapes are those of the inputs of a network with the attributes of `config`."""
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
def test_any_shapes_are_answered_or_refused(config, data):
    """Whatever the shapes: a result where they fit one another, an error that names an argument elsewhere."""
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
            message = assert_refused(run, raw_ops.CudnnRNNV3, arguments)
            assert any(names_argument(message, name) for name in arguments), message


# ---------------------------------------------------------------- sequences: values, types and attributes


@pytest.mark.parametrize("run", [run_eagerly, run_with_unknown_shapes])
@pytest.mark.parametrize("name", SEQUENCE_OPS[2::3])
@pytest.mark.parametrize("wrong", [-1, 6, 2**31 - 1, -(2**31)])
def test_sequence_lengths_out_of_range_are_refused_by_entry(name, run, wrong):
    op, right = sequence_op(name)
    lengths = np.array([5, wrong], np.int32)
    message = rf"sequence_lengths\[1\] must be between 0 and time = 5, but is {wrong}"
    assert_refused(run, op, {**right, "sequence_lengths": lengths}, message)


@pytest.mark.parametrize(("name", "argument"), sorted({(name, argument) for name, _, argument in CASES}))
def test_wrong_dtype_is_refused(name, argument):
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
def test_unsupported_dtype_everywhere_is_refused(name, dtype):
    op, right = sequence_op(name)
    others = ("sequence_lengths", "host_reserved")
    tensors, attributes = split_inputs(right)
    wrong = {n: value if n in others else tf.cast(value, dtype) for n, value in tensors.items()}
    with pytest.raises((*ERRORS, TypeError, tf.errors.NotFoundError), match=r"[Tt]"):
        op(**wrong, **attributes)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("name", OPS)
def test_attributes_out_of_range_are_refused(name, run):
    op, right = right_arguments(name)
    run(op, right)
    for dropout in (-0.1, 1.5, math.inf, math.nan):
        message = assert_refused(run, op, {**right, "dropout": dropout})
        assert "dropout must be between 0 and 1, but is " in message
    for attribute in ("rnn_mode", "input_mode", "direction"):
        with pytest.raises(ERRORS, match=f"'{attribute}'"):
            run(op, {**right, attribute: "another"})
    if "num_proj" in right:
        for num_proj in (-1, -(2**63)):
            message = f"num_proj must not be negative, but is {num_proj}"
            assert_refused(run, op, {**right, "num_proj": num_proj}, message)
        wrong = {**right, "rnn_mode": "gru", "num_proj": 3}
        message = "num_proj must be 0 unless rnn_mode is lstm, but is 3 where rnn_mode is gru"
        assert_refused(run, op, wrong, message)


@pytest.mark.parametrize("dropout", [0, 1])
@pytest.mark.parametrize("name", OPS)
def test_all_or_nothing_may_be_dropped(name, dropout):
    if "Backprop" not in name:  # whose reserve_space must know of it
        op, right = right_arguments(name)
        op(**{**right, "dropout": dropout})


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("name", SEQUENCE_OPS[2::3])
def test_a_projection_to_more_than_the_units_is_refused(name, run):
    """Even if all shapes are those of such a network."""
    op, right = sequence_op(name)
    wider = {
        **dict.fromkeys(["input_h", "output_h", "output_h_backprop"], np.zeros((2, 2, 5), "float32")),
        **dict.fromkeys(["output", "output_backprop"], np.zeros((5, 2, 10), "float32")),
    }
    wrong = {**right, **{argument: wider[argument] for argument in wider if argument in right}, "num_proj": 5}
    assert_refused(run, op, wrong, "num_proj must be at most num_units = 4, but is 5")
    for num_proj in (2**40, 2**63 - 1):
        assert_refused(run, op, {**right, "num_proj": num_proj}, "num_proj")


@pytest.mark.parametrize("name", OPS)
def test_positional_arguments_are_refused_as_by_the_twin(name):
    op, right = right_arguments(name)
    with pytest.raises(TypeError):
        op(*right.values())
    with pytest.raises(TypeError):
        getattr(tf.raw_ops, name)(*right.values())


# ---------------------------------------------------------------- params


def run_with_constants(op, arguments):
    """Builds a graph whose sizes are constants: the shape function judges them."""
    with tf.Graph().as_default():
        return op(**arguments)


RUNS_OF_CONSTANTS = [run_eagerly, run_with_constants, run_with_unknown_shapes]


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("argument", ["num_layers", "num_units", "input_size"])
@pytest.mark.parametrize("name", PARAMS_OPS)
def test_sizes_that_are_no_scalars_are_refused(name, argument, run):
    op, right = right_arguments(name)
    for shape in [(0,), (1,), (1, 1), (2,)]:
        wrong = {**right, argument: np.ones(shape, np.int32)}
        assert_refused(run, op, wrong, rf"{argument} must be a scalar = \[\], but is \[")


@pytest.mark.parametrize("argument", ["num_layers", "num_units", "input_size"])
@pytest.mark.parametrize("name", PARAMS_OPS)
def test_constants_that_are_no_scalars_are_refused(name, argument):
    """TensorFlow finds their values while it builds a graph, but not their shapes."""
    op, right = right_arguments(name)
    for shape in [(0,), (1,), (2,)]:
        with tf.Graph().as_default():
            wrong = tf.io.parse_tensor(tf.io.serialize_tensor(np.ones(shape, np.int32)), tf.int32)
            assert wrong.shape.rank is None
            assert_refused(
                run_eagerly, op, {**right, argument: wrong}, rf"{argument} must be a scalar = \[\], but is \["
            )


@pytest.mark.parametrize("run", RUNS_OF_CONSTANTS)
@pytest.mark.parametrize(
    ("argument", "wrong", "minimum"),
    [("num_layers", 0, 1), ("num_layers", -1, 1), ("num_units", -1, 0), ("input_size", -(2**31), 0)],
)
@pytest.mark.parametrize("name", PARAMS_OPS)
def test_sizes_that_are_too_small_are_refused(name, argument, wrong, minimum, run):
    op, right = right_arguments(name)
    message = f"{argument} must be at least {minimum}, but is {wrong}"
    assert_refused(run, op, {**right, argument: np.array(wrong, np.int32)}, message)


@pytest.mark.parametrize("run", RUNS_OF_CONSTANTS)
@pytest.mark.parametrize("name", PARAMS_OPS)
def test_skipped_input_must_be_of_the_size_of_the_units(name, run):
    op, right = right_arguments(name)
    message = "input_size must be num_units = 4 where input_mode is skip_input, but is 3"
    if run is run_with_constants and "weights" in right:
        message = r"weights\[0\] must be \[.*,0\] or flattened \[0\], but is \[4,3\]"  # seen before the sizes are
    assert_refused(run, op, {**right, "input_mode": "skip_input"}, message)


@pytest.mark.parametrize("run", RUNS_OF_CONSTANTS)
@pytest.mark.parametrize("num_proj", [5, 2**40, 2**63 - 1])
@pytest.mark.parametrize(
    "name", [name for name in PARAMS_OPS if "num_proj" in {each.name for each in parameters(name)}]
)
def test_params_of_a_projection_to_more_than_the_units_are_refused(name, num_proj, run):
    op, right = params_op(name)
    # Where weights have known shapes, these are seen to be wrong before the sizes are.
    assert_refused(run, op, {**right, "num_proj": num_proj}, r"num_proj|weights\[4\] must be \[\?,\d+\]")


@pytest.mark.parametrize("run", RUNS_OF_CONSTANTS)
def test_params_that_cannot_be_counted_are_refused(run):
    largest = np.array(2**31 - 1, np.int32)
    sizes = {"num_layers": largest, "num_units": largest, "input_size": np.array(1, np.int32)}
    arguments = {**params_op("CudnnRNNParamsSize")[1], **sizes, "num_proj": 0, "S": tf.int64}
    message = f"params must have no more elements than can be counted, but num_layers is {largest}, num_units {largest}"
    assert_refused(run, raw_ops.CudnnRNNParamsSize, arguments, message)


@pytest.mark.parametrize("run", [run_eagerly, run_with_unknown_shapes])
def test_params_that_int32_cannot_count_are_refused(run):
    arguments = {**params_op("CudnnRNNParamsSize")[1], "num_units": np.array(2**15, np.int32), "num_proj": 0}
    message = r"S must be int64 for a params_size of \d{10,}, but is int32"
    assert_refused(run, raw_ops.CudnnRNNParamsSize, arguments, message)


def wrong_numbers_of_biases(version):
    """(op, arguments) with more and fewer biases, and in the first version as many weights."""
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
def test_another_number_of_biases_is_refused_by_what_it_should_be(version, run):
    for op, count, wrong in wrong_numbers_of_biases(version):
        message = (
            r"biases must be num_layers \* num_directions \* 2 \* num_gates = [1?] \* 2 \* 2 \* 4 vectors, "
            rf"but are {count}$"
        )
        assert_refused(run, getattr(raw_ops, op), wrong, message)


@pytest.mark.parametrize("run", RUNS_OF_CONSTANTS)
@pytest.mark.parametrize("config", [CONFIG, PROJECTED], ids=case_id)
def test_another_number_of_weights_is_refused_by_what_it_should_be(config, run):
    arguments = params_op_arguments(config, "V2")
    split, join = "CudnnRNNParamsToCanonicalV2", "CudnnRNNCanonicalToParamsV2"
    per_pseudo_layer = r"\(2 \* num_gates \+ 1\)" if config.num_proj else r"2 \* num_gates"
    with_or_without_the_projection = 16 if config.num_proj else 18
    for count in (1, 15, 17, with_or_without_the_projection, 36):
        message = rf"weights must be num_layers \* num_directions \* {per_pseudo_layer} = .* matrices, but are {count}$"
        assert_refused(run, getattr(raw_ops, split), {**arguments[split], "num_params_weights": count}, message)
        weights = arguments[join]["weights"][:1] * count
        assert_refused(run, getattr(raw_ops, join), {**arguments[join], "weights": weights}, message)


@pytest.mark.parametrize("run", RUNS_OF_CONSTANTS)
@pytest.mark.parametrize("kind", ["weights", "biases"])
@pytest.mark.parametrize("version", ["", "V2"])
def test_weights_and_biases_of_another_shape_are_refused(version, kind, run):
    config = CONFIG if version == "" else PROJECTED
    name = "CudnnRNNCanonicalToParams" + version
    arguments = params_op_arguments(config, version)[name]
    # Of the first gates' input matrices, recurrent matrices and, in the second version, projection; and the last.
    for i in (0, 4, 8, len(arguments[kind]) - 1):
        for shape in wrong_shapes(arguments[kind][i].shape):
            wrong = [*arguments[kind][:i], np.zeros(shape, "float32"), *arguments[kind][i + 1 :]]
            assert_refused(
                run, getattr(raw_ops, name), {**arguments, kind: wrong}, rf"{kind}\[{i}\] must be .*, but is "
            )


@pytest.mark.parametrize("run", RUNS_OF_CONSTANTS)
@pytest.mark.parametrize("version", ["", "V2"])
def test_weights_are_refused_before_room_is_made_for_params(version, run):
    """Of the terabytes that a wrong num_units asks for."""
    op, right = right_arguments("CudnnRNNCanonicalToParams" + version)
    wrong = {**right, "num_units": np.array(2**20, np.int32)}
    assert_refused(run, op, wrong, r"weights\[0\] must be .*1048576,.*, but is \[\d,\d\]")


@pytest.mark.parametrize("run", RUNS_OF_CONSTANTS)
@pytest.mark.parametrize("name", [name for name in PARAMS_OPS if "ToCanonical" in name])
def test_params_of_another_shape_are_refused(name, run):
    op, right = right_arguments(name)
    for shape in wrong_shapes(right["params"].shape):
        wrong = {**right, "params": np.zeros(shape, "float32")}
        assert_refused(run, op, wrong, r"params must be \[params_size\] = \[.*\], but is ")


@pytest.mark.parametrize("name", PARAMS_OPS)
def test_sizes_of_another_dtype_are_refused(name):
    op, right = right_arguments(name)
    for argument in ("num_layers", "num_units", "input_size"):
        for dtype in ("int64", "float32"):
            with pytest.raises((*ERRORS, TypeError)):
                op(**{**right, argument: tf.cast(right[argument], dtype)})


# ---------------------------------------------------------------- sizes beyond all bounds

HUGE = 2**62


def zeros(*shape):
    """Zeros of a shape that NumPy may not have; TensorFlow stores nothing for those without elements."""
    return tf.zeros(tf.constant(shape, tf.int64))


@pytest.mark.parametrize(
    ("input", "input_h"),
    [
        ((0, 0, 3), (1, 0, HUGE)),  # so many units
        ((0, 0, HUGE), (1, 0, 4)),  # so many inputs for some units
        ((0, 0, 3), (HUGE, 0, 4)),  # so many layers
        ((2**31, 0, 3), (2**31, 0, 2**31)),
    ],
    ids=str,
)
def test_sizes_whose_products_overflow_are_refused(input, input_h):
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
        ((0, 1, 2 * HUGE - 1), (2, 1, 0), 0),  # inputs of no units
    ],
    ids=str,
)
@pytest.mark.parametrize("run", [raw_ops.CudnnRNN, tf.function(raw_ops.CudnnRNN)], ids=["eager", "graph"])
def test_huge_sizes_are_answered_where_there_is_nothing_to_compute(run, input, input_h, num_params):
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
