"""Tests of the definitions and shape functions of the CudnnRNN ops."""

import dataclasses

import pytest
import tensorflow as tf
from hypothesis import given
from inputs import cudnn_rnn as cudnn_rnn_inputs
from inputs.cudnn_rnn import MODES, VERSIONS
from references.cudnn_rnn import Config
from tensorflow.python.framework import op_def_registry

import tf_rnn_ops

raw_ops = tf_rnn_ops.raw_ops
OPS = [name for name in raw_ops.__all__ if name.startswith("Cudnn")]
CONFIG = Config("lstm", direction="bidirectional", num_layers=2, num_units=4, input_size=3, time=5, batch=2)
PROJECTED = dataclasses.replace(CONFIG, num_proj=2)
BATCH_MAJOR = dataclasses.replace(CONFIG, time_major=False)


@pytest.mark.parametrize("op", OPS)
def test_definitions_equal_tf_raw_ops(op):
    """Inputs, outputs, attributes, defaults and statefulness; not the documentation."""

    def definition(name):
        original = op_def_registry.get(name)
        copy = type(original).FromString(original.SerializeToString())
        for each in (copy, *copy.input_arg, *copy.output_arg, *copy.attr):
            each.ClearField("description")
        copy.ClearField("summary")
        copy.ClearField("name")
        return copy

    assert definition("TfRnnOps>" + op) == definition(op)


# ---------------------------------------------------------------- sequences


def forward_shapes(config, version="V3", shapes=None, is_training=True):
    """Returns the static shapes of the outputs of a forward op.

    Args:
      config: the network.
      version: the suffix of the op name.
      shapes: the static shapes of the inputs by name. Other inputs have unknown rank.
      is_training: the attribute is_training.
    """
    with tf.Graph().as_default():
        inputs = placeholders([*cudnn_rnn_inputs.INPUTS, *(["sequence_lengths"] if version == "V3" else [])], shapes)
        op = getattr(raw_ops, "CudnnRNN" + version)
        outputs = op(**inputs, **cudnn_rnn_inputs.attributes(config, version), is_training=is_training)
        return {name: output.shape for name, output in outputs._asdict().items()}


def backprop_shapes(config, version="V3", shapes=None):
    """Returns the static shapes of the outputs of a backprop op."""
    names = [*cudnn_rnn_inputs.INPUTS, *cudnn_rnn_inputs.OUTPUTS]
    names += [f"{name}_backprop" for name in cudnn_rnn_inputs.OUTPUTS] + ["reserve_space"]
    names += {"": [], "V2": ["host_reserved"], "V3": ["host_reserved", "sequence_lengths"]}[version]
    with tf.Graph().as_default():
        op = getattr(raw_ops, "CudnnRNNBackprop" + version)
        outputs = op(**placeholders(names, shapes), **cudnn_rnn_inputs.attributes(config, version))
        return {name: output.shape for name, output in outputs._asdict().items()}


def placeholders(names, shapes):
    dtypes = {"sequence_lengths": tf.int32, "host_reserved": tf.int8}
    return {
        name: tf.compat.v1.placeholder(dtypes.get(name, tf.float32), (shapes or {}).get(name), name) for name in names
    }


def input_shapes(config, *names):
    shapes = {**cudnn_rnn_inputs.shapes(config), "sequence_lengths": (config.batch,)}
    return {name: shapes[name] for name in names or (*cudnn_rnn_inputs.INPUTS, "sequence_lengths")}


def as_lists(shapes):
    return {name: shape.as_list() if shape.rank is not None else None for name, shape in shapes.items()}


@given(cudnn_rnn_inputs.configs())
def test_known_inputs_make_known_outputs(config):
    known = cudnn_rnn_inputs.shapes(config)
    versions = VERSIONS if config.time_major and not config.num_proj and config.sequence_lengths is None else ["V3"]
    for version in versions:
        outputs = forward_shapes(config, version, input_shapes(config))
        for name in cudnn_rnn_inputs.OUTPUTS:
            assert outputs[name] == known[name], name
        gradients = backprop_shapes(config, version, input_shapes(config))
        for name in cudnn_rnn_inputs.INPUTS:
            assert gradients[f"{name}_backprop"] == known[name], name


@given(cudnn_rnn_inputs.configs())
def test_the_size_of_params_follows_from_the_other_shapes(config):
    """The shape function and the kernel use the same formula."""
    inputs = input_shapes(config, "input", "input_h", "input_c")
    if config.rnn_mode != "lstm":
        del inputs["input_c"]
    sizes = {"num_layers": config.num_layers, "num_units": config.num_units, "input_size": config.input_size}
    attributes = cudnn_rnn_inputs.attributes(config)
    del attributes["time_major"]
    size = raw_ops.CudnnRNNParamsSize(**sizes, T=tf.float32, S=tf.int32, **attributes)
    assert backprop_shapes(config, "V3", inputs)["params_backprop"] == size


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("version", VERSIONS)
def test_no_shapes_known(version, mode):
    has_cell_state = mode == "lstm"
    state = [None] * 3
    expected = {
        "output": state,
        "output_h": state,
        "output_c": state if has_cell_state else [],
        "reserve_space": [None],
    }
    if version == "V2":
        expected["host_reserved"] = [2]
    if version == "V3":
        expected["host_reserved"] = []
    config = Config(mode)
    assert as_lists(forward_shapes(config, version)) == expected
    assert as_lists(forward_shapes(config, version, is_training=False)) == {
        **expected,
        "reserve_space": [0],
        **({"host_reserved": []} if version != "" else {}),
    }
    assert as_lists(backprop_shapes(config, version)) == {
        "input_backprop": state,
        "input_h_backprop": state,
        "input_c_backprop": state if has_cell_state else None,
        "params_backprop": [None],
    }


@pytest.mark.parametrize(
    ("config", "shapes", "output", "output_h", "output_c"),
    [
        (CONFIG, {"input": (5, 2, None)}, [5, 2, None], [None, 2, None], [None, 2, None]),
        (CONFIG, {"input_h": (4, 2, 4)}, [None, 2, 8], [4, 2, 4], [4, 2, 4]),
        (CONFIG, {"input_c": (4, None, 4)}, [None, None, 8], [4, None, 4], [4, None, 4]),
        (CONFIG, {"sequence_lengths": (2,)}, [None, 2, None], [None, 2, None], [None, 2, None]),
        (CONFIG, {"input": (5, None, 3), "input_h": (None, 2, None)}, [5, 2, None], [None, 2, None], [None, 2, None]),
        (BATCH_MAJOR, {"input": (2, 5, None)}, [2, 5, None], [2, None, None], [2, None, None]),
        (BATCH_MAJOR, {"input_h": (None, 4, 4)}, [None, None, 8], [None, 4, 4], [None, 4, 4]),
        (PROJECTED, {}, [None, None, 4], [None, None, 2], [None, None, None]),
        (PROJECTED, {"input_c": (4, 2, 4)}, [None, 2, 4], [4, 2, 2], [4, 2, 4]),
        (Config("gru"), {"input_h": (1, None, 6)}, [None, None, 6], [1, None, 6], []),
        (Config("gru"), {"input_c": (1, 2, 3, 4)}, [None] * 3, [None] * 3, []),
    ],
    ids=str,
)
def test_shapes_from_partial_inputs(config, shapes, output, output_h, output_c):
    outputs = as_lists(forward_shapes(config, "V3", shapes))
    assert [outputs[name] for name in cudnn_rnn_inputs.OUTPUTS] == [output, output_h, output_c]


@pytest.mark.parametrize(
    ("config", "shapes", "expected"),
    [
        (CONFIG, {"output": (5, 2, 8)}, {"input": [5, 2, None], "input_h": [None, 2, 4], "input_c": [None, 2, 4]}),
        (CONFIG, {"output_backprop": (5, 2, 8)}, {"input": [5, 2, None], "input_h": [None, 2, 4]}),
        (CONFIG, {"output_h": (4, 2, 4)}, {"input_h": [4, 2, 4], "input_c": [4, 2, 4]}),
        (CONFIG, {"output_h_backprop": (4, 2, 4)}, {"input_h": [4, 2, 4], "input_c": [4, 2, 4]}),
        (CONFIG, {"output_c": (4, 2, 4)}, {"input_h": [4, 2, 4], "input_c": [4, 2, 4]}),
        (CONFIG, {"output_c_backprop": (4, 2, 4)}, {"input_h": [4, 2, 4], "input_c": [4, 2, 4]}),
        (PROJECTED, {"output_c": (4, 2, 4)}, {"input_h": [4, 2, 2], "input_c": [4, 2, 4]}),
        (BATCH_MAJOR, {"output": (2, 5, 8)}, {"input": [2, 5, None], "input_h": [2, None, 4]}),
        (CONFIG, {"params": (7,)}, {"params": [7]}),
        (Config("gru"), {"input_c": (1, 2, 3, 4)}, {"input_c": [1, 2, 3, 4]}),
        (Config("gru", input_mode="skip_input"), {"output": (5, 2, 6)}, {"input": [5, 2, 6]}),
        (Config("gru", input_mode="skip_input"), {"input": (5, 2, 6)}, {"input_h": [None, 2, 6]}),
        (Config("gru", input_mode="auto_select"), {"output": (5, 2, 6)}, {"input": [5, 2, None], "params": [None]}),
    ],
    ids=str,
)
def test_shapes_from_partial_gradient_inputs(config, shapes, expected):
    gradients = as_lists(backprop_shapes(config, "V3", shapes))
    assert {name: gradients[f"{name}_backprop"] for name in expected} == expected


@pytest.mark.parametrize(
    ("config", "shapes", "message"),
    [
        (CONFIG, {"input": (None, 2, None), "input_h": (None, 3, None)}, "input_h must have"),
        (CONFIG, {"input_h": (None, 2, None), "input_c": (None, 3, None)}, "input_c must have"),
        (CONFIG, {"input_h": (4, None, None), "input_c": (2, None, None)}, "input_c must have"),
        (CONFIG, {"input_h": (None, None, 4), "input_c": (None, None, 5)}, "input_c must have"),
        (CONFIG, {"input": (None, 2, None), "sequence_lengths": (3,)}, "sequence_lengths must have"),
        (CONFIG, {"input_h": (3, None, None)}, "input_h must have a positive multiple of num_directions = 2"),
        (CONFIG, {"input_c": (3, None, None)}, "input_c must have a positive multiple of num_directions = 2"),
        (CONFIG, {"input_h": (0, None, None)}, "input_h must have a positive multiple of num_directions = 2"),
        (Config("gru"), {"input_h": (0, None, None)}, "input_h must have a positive multiple of num_directions = 1"),
        (
            CONFIG,
            input_shapes(CONFIG) | {"params": (999,)},
            r"params must have the shape \[params_size\] = \[\d+\], but has \[999\]",
        ),
        (CONFIG, {"params": (9, 9)}, "params must have"),
        (PROJECTED, {"input_h": (None, None, 4)}, "input_h must have .*num_proj"),
        (PROJECTED, {"input_c": (None, None, 1)}, "num_proj must be at most num_units = 1, but is 2"),
        (BATCH_MAJOR, {"input": (2, None, None), "input_h": (3, None, None)}, r"input_h must have the shape \[batch, "),
        (
            Config("lstm", "skip_input"),
            {"input": (None, None, 3), "input_h": (None, None, 4)},
            "input_size must be num_units = 4 where input_mode is skip_input, but is 3",
        ),
        (CONFIG, {"input_h": (4, 0, 2**40)}, "params must have a size that fits in int64"),
        (CONFIG, {"input_h": (None, 0, 2**62)}, "params must have a size that fits in int64"),
    ],
    ids=str,
)
def test_contradictory_shapes_are_rejected(config, shapes, message):
    with pytest.raises(ValueError, match=message):
        forward_shapes(config, "V3", shapes)
    with pytest.raises(ValueError, match=message):
        backprop_shapes(config, "V3", shapes)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"input": (5, None, None), "output": (6, None, None)}, "output must have"),
        ({"input": (5, None, None), "output_backprop": (6, None, None)}, "output_backprop must have"),
        ({"output": (None, None, 7)}, "output must have a multiple of num_directions = 2 as dimension 2"),
        ({"input_h": (None, None, 4), "output": (None, None, 10)}, "output must have"),
        ({"input_h": (None, 2, None), "output_h": (None, 3, None)}, "output_h must have"),
        ({"input_c": (None, 2, None), "output_c": (None, 3, None)}, "output_c must have"),
        ({"input_h": (None, 2, None), "output_h_backprop": (None, 3, None)}, "output_h_backprop must have"),
        ({"input_c": (None, 2, None), "output_c_backprop": (None, 3, None)}, "output_c_backprop must have"),
        ({"reserve_space": (2, 2)}, "reserve_space must have"),
    ],
    ids=str,
)
def test_contradictory_gradient_shapes_are_rejected(shapes, message):
    with pytest.raises(ValueError, match=message):
        backprop_shapes(CONFIG, "V3", shapes)


# ---------------------------------------------------------------- params

SIZES = ("num_layers", "num_units", "input_size")


def params_op_shapes(op, config, unknown=(), **arguments):
    """Returns the static shapes of the outputs of a params op. Its sizes are constants except those in `unknown`."""
    attributes = {name: getattr(config, name) for name in ("rnn_mode", "input_mode", "direction", "num_proj")}
    with tf.Graph().as_default():
        sizes = {
            name: tf.compat.v1.placeholder(tf.int32, []) if name in unknown else getattr(config, name) for name in SIZES
        }
        arguments = {name: value() if callable(value) else value for name, value in arguments.items()}
        outputs = getattr(raw_ops, op)(**sizes, **arguments, **attributes)
        return tf.nest.map_structure(lambda output: as_lists({"": output.shape})[""], outputs)


def counts(config):
    """Returns the numbers of weights and biases of a network."""
    biases = config.num_pseudo_layers * 2 * config.num_gates
    weights = biases + (config.num_pseudo_layers if config.has_projection else 0)
    return {"num_params_weights": weights, "num_params_biases": biases}


def split_shapes(config, unknown=(), params=None):
    """Returns the static shapes of the weights and of the biases."""
    return params_op_shapes(
        "CudnnRNNParamsToCanonicalV2",
        config,
        unknown,
        params=lambda: tf.compat.v1.placeholder(tf.float32, params),
        **counts(config),
    )


def joined_shape(config, unknown=(), weights=None, biases=None):
    """Returns the static shape of the params."""

    def make(count, shapes):
        return lambda: [tf.compat.v1.placeholder(tf.float32, (shapes or {}).get(i)) for i in range(count)]

    number = counts(config)
    return params_op_shapes(
        "CudnnRNNCanonicalToParamsV2",
        config,
        unknown,
        weights=make(number["num_params_weights"], weights),
        biases=make(number["num_params_biases"], biases),
    )


def test_the_size_is_a_vector_of_one():
    for unknown in ((), SIZES):
        assert params_op_shapes("CudnnRNNParamsSize", CONFIG, unknown, T=tf.float32, S=tf.int64) == [1]


@given(cudnn_rnn_inputs.configs())
def test_known_sizes_make_known_shapes(config):
    attributes = {name: getattr(config, name) for name in ("rnn_mode", "input_mode", "direction", "num_proj")}
    sizes = {name: getattr(config, name) for name in SIZES}
    size = raw_ops.CudnnRNNParamsSize(**sizes, T=tf.float32, S=tf.int32, **attributes).numpy().tolist()
    canonical = raw_ops.CudnnRNNParamsToCanonicalV2(**sizes, params=tf.zeros(size), **counts(config), **attributes)
    assert joined_shape(config) == size
    assert split_shapes(config) == tf.nest.map_structure(lambda each: each.shape.as_list(), canonical)


@pytest.mark.parametrize(
    ("unknown", "expected"),
    [
        (["num_layers"], [[4, 3], [4, 2], [2, 4], [4, 4], [4]]),
        (["input_size"], [[4, None], [4, 2], [2, 4], [4, 4], [4]]),
        (["num_units"], [[None, 3], [None, 2], [2, None], [None, 4], [None]]),
        (SIZES, [[None, None], [None, 2], [2, None], [None, 4], [None]]),
    ],
    ids=str,
)
def test_shapes_from_partial_sizes(unknown, expected):
    """The first input matrix, recurrent matrix and projection, the input matrix of layer 1, and a bias."""
    weights, biases = split_shapes(PROJECTED, unknown)
    assert [weights[0], weights[4], weights[8], weights[18], biases[-1]] == expected
    assert joined_shape(PROJECTED, unknown) == [None]


def test_skipped_inputs_have_no_columns():
    skipping = dataclasses.replace(CONFIG, input_mode="skip_input", input_size=4)
    assert split_shapes(skipping, ["input_size"]).weights[0] == [4, 0]
    selecting = dataclasses.replace(skipping, input_mode="auto_select")
    assert split_shapes(selecting).weights[0] == [4, 0]
    assert split_shapes(selecting, ["input_size"]).weights[0] == [4, None]


@pytest.mark.parametrize(
    ("weights", "biases"),
    [({0: (4, 3), 1: (12,), 2: (4, None), 3: (None,)}, {0: (4,), 1: (None,)}), ({4: (8,), 8: (8,)}, {})],
    ids=str,
)
def test_weights_may_be_flattened(weights, biases):
    assert joined_shape(PROJECTED, (), weights, biases) == joined_shape(PROJECTED)


@pytest.mark.parametrize(
    ("weights", "biases", "unknown", "message"),
    [
        ({0: (3, 4)}, {}, (), r"weights\[0\] must have the shape \[4,3\] or, flattened, \[12\], but has \[3,4\]"),
        ({1: (13,)}, {}, (), r"weights\[1\] must have"),
        ({4: (4, 2, 1)}, {}, (), r"weights\[4\] must have"),
        ({8: ()}, {}, (), r"weights\[8\] must have the shape \[2,.*\] or, flattened, \[.*\], but has \[\]"),
        ({18: (4, 3)}, {}, (), r"weights\[18\] must have the shape \[.*,4\] or, flattened,"),
        ({8: (3, 4)}, {}, SIZES, r"weights\[8\] must have the shape \[2,\?\]"),
        ({}, {7: (3,)}, (), r"biases\[7\] must have the shape \[num_units\] = \[4\], but has \[3\]"),
        ({}, {31: (4, 1)}, SIZES, r"biases\[31\] must have the shape \[num_units\] = \[\?\], but has \[4,1\]"),
    ],
    ids=str,
)
def test_weights_and_biases_of_wrong_shapes_are_rejected(weights, biases, unknown, message):
    with pytest.raises(ValueError, match=message):
        joined_shape(PROJECTED, unknown, weights, biases)


@pytest.mark.parametrize(("params", "unknown"), [((7,), ()), ((), ()), ((2, 2), SIZES)], ids=str)
def test_params_of_wrong_shape_are_rejected(params, unknown):
    with pytest.raises(ValueError, match=r"params must have the shape \[params_size\] = "):
        split_shapes(PROJECTED, unknown, params)
