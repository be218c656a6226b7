"""Tests of the conversion of tf.contrib checkpoints from and to params, by comparing results with TF 1 cells."""

import re

import numpy as np
import parity
import pytest
import tensorflow as tf
import tf1_networks
from cudnn_rnn_inputs import MODES, OUTPUTS, forward_arguments, network_inputs, output_gradients, params_layout
from cudnn_rnn_reference import Config

import tf_rnn_ops
from tf_rnn_ops.params import from_tf1, layout, layout_from_tf1, to_tf1

v1 = tf.compat.v1
LENGTHS = (4, 6, 1)
SCOPE = "model/encoder"


def loss_of(config, outputs):
    """Returns the scaled sum of outputs."""
    scales = output_gradients(config)
    return tf.add_n([tf.reduce_sum(each * scales[f"{name}_backprop"]) for name, each in outputs.items()])


def run_op(config, inputs, params):
    """Returns the outputs of the op by name, and the gradient of their loss with respect to params."""
    params = tf.constant(params)
    with tf.GradientTape() as tape:
        tape.watch(params)
        results = tf_rnn_ops.raw_ops.CudnnRNNV3(**forward_arguments(config, {**inputs, "params": params}))
        names = OUTPUTS if config.rnn_mode == "lstm" else OUTPUTS[:2]
        outputs = {name: getattr(results, name) for name in names}
        loss = loss_of(config, outputs)
    return outputs, tape.gradient(loss, params)


def network(**options) -> Config:
    return Config(**{"num_units": 5, "input_size": 3, "time": 6, "sequence_lengths": LENGTHS, **options})


def nonlinearity_of(config):
    return "relu" if config.rnn_mode == "rnn_relu" else "tanh"


networks = pytest.mark.parametrize(
    "config",
    [
        pytest.param(network(rnn_mode=mode, direction=direction, num_layers=layers), id=f"{mode}-{direction}-{layers}")
        for mode in MODES
        for direction, layers in (("unidirectional", 1), ("unidirectional", 3), ("bidirectional", 2))
    ],
)


@networks
def test_from_tf1_equals_the_cells(config, tmp_path):
    inputs = network_inputs(config)
    with tf.Graph().as_default(), v1.Session() as session:
        initializer = v1.random_uniform_initializer(-1, 1, seed=1)
        with v1.variable_scope(SCOPE, initializer=initializer):
            outputs = tf1_networks.outputs(config, inputs)
        variables = v1.trainable_variables()
        gradients = tf.gradients(loss_of(config, outputs), variables)
        session.run(v1.global_variables_initializer())
        # The cells initialize biases with zeros.
        rng = np.random.default_rng(0)
        session.run([variable.assign(rng.uniform(-1, 1, variable.shape)) for variable in variables])
        path = v1.train.Saver().save(session, str(tmp_path / "model"))
        outputs, gradients = session.run([outputs, gradients])
        names = [variable.op.name for variable in variables]

    assert layout_from_tf1(path, nonlinearity=nonlinearity_of(config)) == params_layout(config)
    params = from_tf1(params_layout(config), path)
    actual, d_params = run_op(config, inputs, params)
    for name, expected in outputs.items():
        assert parity.difference(actual[name], expected) < 1e-12, name
    d_variables = to_tf1(params_layout(config), d_params, SCOPE)
    assert set(d_variables) == set(names)
    for name, expected in zip(names, gradients, strict=True):
        # Each of our two biases is half of the bias of the cell, except for the candidate of a GRU.
        is_half = name.endswith("bias") and "candidate" not in name
        assert parity.difference(d_variables[name] / (2 if is_half else 1), expected) < 1e-12, name


@networks
def test_the_cells_restore_a_checkpoint_of_to_tf1(config, tmp_path):
    inputs = network_inputs(config)
    path = tf1_networks.save(to_tf1(params_layout(config), inputs["params"], SCOPE), tmp_path / "model")
    with tf.Graph().as_default(), v1.Session() as session:
        with v1.variable_scope(SCOPE):
            outputs = tf1_networks.outputs(config, inputs)
        v1.train.Saver().restore(session, path)
        outputs = session.run(outputs)
    actual, _ = run_op(config, inputs, inputs["params"])
    for name, expected in outputs.items():
        assert parity.difference(actual[name], expected) < 1e-12, name


LSTM = "rnn/multi_rnn_cell/cell_{}/cudnn_compatible_lstm_cell"
GRU = "stack_bidirectional_rnn/cell_{}/bidirectional_rnn/{}/cudnn_compatible_gru_cell"
RNN = "rnn/multi_rnn_cell/cell_{}/basic_rnn_cell"
OF_GRU = [
    f"{part}/{name}"
    for part in ("gates", "candidate/input_projection", "candidate/hidden_projection")
    for name in ("kernel", "bias")
]


@pytest.mark.parametrize(
    ("config", "names"),
    [
        (
            network(num_layers=2),
            [f"{LSTM.format(layer)}/{name}" for layer in (0, 1) for name in ("kernel", "bias")],
        ),
        (
            network(rnn_mode="gru", direction="bidirectional"),
            [f"{GRU.format(0, way)}/{name}" for way in ("fw", "bw") for name in OF_GRU],
        ),
        (network(rnn_mode="rnn_tanh"), [f"{RNN.format(0)}/kernel", f"{RNN.format(0)}/bias"]),
        (network(rnn_mode="rnn_relu"), [f"{RNN.format(0)}/kernel", f"{RNN.format(0)}/bias"]),
    ],
    ids=["lstm", "gru", "rnn_tanh", "rnn_relu"],
)
def test_the_names_equal_those_of_contrib(config, names):
    each = params_layout(config)
    assert sorted(to_tf1(each, np.zeros(each.size))) == sorted(names)


def test_gates_and_rows_written_by_hand():
    """An LSTM of one unit and two inputs: the columns of its kernel are i, g, f, o, the rows x0, x1, h."""
    kernel = np.array([[11.0, 12, 13, 14], [21, 22, 23, 24], [31, 32, 33, 34]])
    bias = np.array([2.0, 4, 6, 8])
    name = LSTM.format(0)
    params = from_tf1(layout("lstm", 1, 2), {f"{name}/kernel": kernel, f"{name}/bias": bias})
    # i, f, g, o: input matrix, recurrent matrix, and both biases.
    expected = [11, 21, 13, 23, 12, 22, 14, 24, 31, 33, 32, 34, 1, 3, 2, 4, 1, 3, 2, 4]
    np.testing.assert_array_equal(params, expected)


def random_params(config):
    return np.random.default_rng(0).standard_normal(params_layout(config).size)


@networks
def test_variables_round_trip(config):
    variables = to_tf1(params_layout(config), random_params(config))
    again = to_tf1(params_layout(config), from_tf1(params_layout(config), variables))
    assert list(again) == list(variables)
    for name, variable in variables.items():
        np.testing.assert_array_equal(again[name], variable)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_dtypes_are_kept_and_no_memory_is_shared(dtype):
    config = network(rnn_mode="gru")
    params = random_params(config).astype(dtype)
    variables = to_tf1(params_layout(config), params)
    again = from_tf1(params_layout(config), variables)
    assert again.dtype == dtype
    for variable in variables.values():
        assert variable.dtype == dtype
        assert not np.shares_memory(variable, params)
        assert not np.shares_memory(variable, again)


def test_paths_readers_and_mappings_with_other_variables_are_accepted(tmp_path):
    """Other variables, such as the opaque GPU copy, optimizer slots and other layers, are ignored."""
    config = network()
    each = params_layout(config)
    variables = to_tf1(each, random_params(config), "encoder")
    kernel = f"encoder/{LSTM.format(0)}/kernel"
    others = {
        "encoder/cudnn_lstm/opaque_kernel": np.zeros(200),
        f"{kernel}/Adam": np.zeros_like(variables[kernel]),
        f"{kernel.replace('/kernel', '/w_i_diag')}": np.zeros(5),
        "encoder/rnn/multi_rnn_cell/cell_1/lstm_cell/kernel": np.zeros([10, 20]),
        "global_step": np.array(3),
    }
    path = tf1_networks.save({**variables, **others}, tmp_path / "model")
    expected = from_tf1(each, variables)
    for source in (path, tmp_path / "model", tf.train.load_checkpoint(path), {**variables, **others}):
        assert layout_from_tf1(source) == each
        np.testing.assert_array_equal(from_tf1(each, source), expected)


def two_networks():
    """Returns the variables of two networks of one layout in two scopes, and their params buffers."""
    config = network()
    each = params_layout(config)
    first, second = random_params(config), -random_params(config)
    return each, {**to_tf1(each, first, "encoder"), **to_tf1(each, second, "model/decoder")}, first, second


def test_a_prefix_selects_a_network():
    each, variables, first, second = two_networks()
    for prefix, params in (("encoder", first), ("encoder/", first), ("model/decoder", second)):
        assert layout_from_tf1(variables, prefix) == each
        actual = to_tf1(each, from_tf1(each, variables, prefix))
        for name, variable in to_tf1(each, params).items():
            np.testing.assert_array_equal(actual[name], variable)


def test_a_layout_selects_a_network_of_a_scope():
    variables = {}
    for config in (network(), network(direction="bidirectional"), network(rnn_mode="gru")):
        variables |= to_tf1(params_layout(config), random_params(config))
    for config in (network(), network(direction="bidirectional"), network(rnn_mode="gru")):
        actual = to_tf1(params_layout(config), from_tf1(params_layout(config), variables))
        for name, variable in actual.items():
            np.testing.assert_array_equal(variable, variables[name])
    with pytest.raises(
        ValueError,
        match=r"^variables must contain one network; .* Found several: '' .cudnn_compatible_lstm_cell, unidirectional.",
    ):
        layout_from_tf1(variables)


@pytest.mark.parametrize("read", [lambda each, variables: from_tf1(each, variables), lambda _, v: layout_from_tf1(v)])
def test_ambiguous_networks_are_rejected(read):
    each, variables, *_ = two_networks()
    message = (
        "variables must contain one network; pass its prefix to select one. Found several: "
        "'encoder' (cudnn_compatible_lstm_cell, unidirectional) and "
        "'model/decoder' (cudnn_compatible_lstm_cell, unidirectional)"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        read(each, variables)


def test_an_unknown_prefix_is_named():
    each, variables, *_ = two_networks()
    message = r"no network with prefix 'other'; networks with other prefixes: 'encoder' .* and 'model/decoder' "
    with pytest.raises(ValueError, match=message):
        from_tf1(each, variables, "other")
    with pytest.raises(ValueError, match=message):
        layout_from_tf1(variables, "other")


def test_no_prefix_is_a_prefix():
    config = network()
    each = params_layout(config)
    at_the_root, params = to_tf1(each, random_params(config)), from_tf1(each, to_tf1(each, random_params(config)))
    variables = {**to_tf1(each, -random_params(config), "encoder"), **at_the_root}
    np.testing.assert_array_equal(from_tf1(each, variables, ""), params)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            lambda variables: dict(list(variables.items())[:-1]),
            "variables must have exactly the 4 variables of a network with this layout. "
            f"Missing: '{LSTM.format(1)}/bias'. Unknown: none.",
            id="one less",
        ),
        pytest.param(
            lambda variables: {**variables, f"{LSTM.format(2)}/kernel": np.zeros([10, 20])},
            f"variables must have exactly the 4 variables of a network with this layout. Missing: none. "
            f"Unknown: '{LSTM.format(2)}/kernel'.",
            id="a third layer",
        ),
        pytest.param(
            lambda variables: {**variables, f"{LSTM.format(0)}/kernel": np.zeros([7, 20])},
            f"{LSTM.format(0)}/kernel must have the shape [8, 20], but has [7, 20]",
            id="features",
        ),
        pytest.param(
            lambda variables: {**variables, f"{LSTM.format(0)}/bias": np.zeros([20], "float32")},
            f"the dtypes in variables must be equal, but '{LSTM.format(0)}/kernel' is float64 and "
            f"'{LSTM.format(0)}/bias' is float32",
            id="dtypes",
        ),
        pytest.param(
            lambda variables: {name: variable.astype("int32") for name, variable in variables.items()},
            f"{LSTM.format(0)}/kernel must have a floating-point dtype, but has int32",
            id="integers",
        ),
    ],
)
def test_incompatible_variables_are_rejected(change, message):
    config = network(num_layers=2)
    variables = to_tf1(params_layout(config), random_params(config))
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        from_tf1(params_layout(config), change(variables))


@pytest.mark.parametrize(
    ("each", "message"),
    [
        (layout("lstm", 4, 3, num_proj=2), "the num_proj of layout must be 0 to convert layers of tf.contrib"),
        (
            layout("gru", 4, 4, input_mode="skip_input"),
            "the input_mode of layout must be 'linear_input' to convert layers of tf.contrib, ",
        ),
    ],
    ids=["projection", "skip_input"],
)
def test_layouts_without_a_contrib_equivalent_are_rejected(each, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        from_tf1(each, {})
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        to_tf1(each, np.zeros(each.size))


@pytest.mark.parametrize(
    ("variables", "arguments", "message"),
    [
        ({f"{LSTM.format(1)}/kernel": 0}, {}, f"variables must have a matrix '{LSTM.format(0)}/kernel', but has"),
        ({f"{LSTM.format(0)}/kernel": 0}, {}, f"'{LSTM.format(0)}/kernel' in variables must be a matrix, but has"),
        ({}, {"nonlinearity": "sigmoid"}, "nonlinearity must be 'tanh' or 'relu', but is 'sigmoid'"),
    ],
    ids=["layer 0", "scalar", "sigmoid"],
)
def test_variables_without_a_layout_are_rejected(variables, arguments, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        layout_from_tf1(variables, **arguments)


def test_a_checkpoint_without_cells_is_rejected():
    with pytest.raises(ValueError, match=r"Found no network \(no cudnn_compatible_lstm_cell, .* or basic"):
        layout_from_tf1({"cudnn_lstm/opaque_kernel": np.ones(100)})


def test_a_kernel_with_a_fraction_of_a_unit_is_rejected():
    scope = LSTM.format(0)
    with pytest.raises(ValueError, match=f"{scope}/kernel must have 4 columns per unit, but has 23 columns"):
        layout_from_tf1({f"{scope}/kernel": np.ones([10, 23]), f"{scope}/bias": np.ones(23)})
