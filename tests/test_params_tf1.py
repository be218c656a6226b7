"""Tests of the conversion of tf.contrib checkpoints from and to params, by comparing results with TF 1 cells."""

import re
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from checks.params_conversions import DIRECTIONS, network, networks, outputs_and_gradients, rejects
from inputs.cudnn_rnn import MODES, network_inputs, output_gradients, params_layout
from inputs.pairs import every_pair
from references import block_lstm, tf1_networks
from tensorflow.python.keras.layers.legacy_rnn import rnn_cell_impl

from tf_rnn_ops.layers import GRUBlockCell, LSTMBlockCell
from tf_rnn_ops.params import from_tf1, layout, layout_from_tf1, to_tf1

v1 = tf.compat.v1
LENGTHS = (4, 6, 1)
SCOPE = "model/encoder"


def nonlinearity_of(config):
    return "relu" if config.rnn_mode == "rnn_relu" else "tanh"


def tf1_results(config, inputs, folder, network_outputs):
    """Saves a TensorFlow 1 network; returns the path, the outputs, and the gradients by name of the variable."""
    with tf.Graph().as_default(), v1.Session() as session:
        initializer = v1.random_uniform_initializer(-1, 1, seed=1)
        with v1.variable_scope(SCOPE, initializer=initializer):
            outputs = network_outputs(config, inputs)
        variables = v1.trainable_variables()
        scales = output_gradients(config)
        loss = tf.add_n([tf.reduce_sum(each * scales[f"{name}_backprop"]) for name, each in outputs.items()])
        gradients = tf.gradients(loss, variables)
        session.run(v1.global_variables_initializer())
        # The cells initialize biases with zeros.
        rng = np.random.default_rng(0)
        session.run([variable.assign(rng.uniform(-1, 1, variable.shape)) for variable in variables])
        path = v1.train.Saver().save(session, str(folder / "model"))
        outputs, gradients = session.run([outputs, gradients])
        return path, outputs, dict(zip([variable.op.name for variable in variables], gradients, strict=True))


@networks(sequence_lengths=LENGTHS)
def test_from_tf1_equals_the_cells(config, tmp_path):
    inputs = network_inputs(config)
    path, outputs, gradients = tf1_results(config, inputs, tmp_path, tf1_networks.outputs)
    assert layout_from_tf1(path, nonlinearity=nonlinearity_of(config)) == params_layout(config)
    params = from_tf1(params_layout(config), path)
    actual, gradients_of_op = outputs_and_gradients(config, {**inputs, "params": params})
    for ours, expected in zip(actual, outputs.values(), strict=True):
        assert parity.difference(ours, expected) < 1e-12
    checkpoint = tf.train.load_checkpoint(path)
    for name, variable in to_tf1(params_layout(config), params, SCOPE).items():
        np.testing.assert_array_equal(variable, checkpoint.get_tensor(name))
    d_variables = to_tf1(params_layout(config), gradients_of_op["params"], SCOPE)
    assert set(d_variables) == set(gradients)
    for name, expected in gradients.items():
        # Each of our two biases is half of the bias of the cell, except for the candidate of a GRU.
        is_half = name.endswith("bias") and "candidate" not in name
        assert parity.difference(d_variables[name] / (2 if is_half else 1), expected) < 1e-12, name


@networks()
def test_the_cells_restore_a_checkpoint_of_to_tf1(config, tmp_path):
    """Made from params whose two biases differ."""
    inputs = network_inputs(config)
    path = tf1_networks.save(to_tf1(params_layout(config), inputs["params"], SCOPE), tmp_path / "model")
    with tf.Graph().as_default(), v1.Session() as session:
        with v1.variable_scope(SCOPE):
            outputs = tf1_networks.outputs(config, inputs)
        v1.train.Saver().restore(session, path)
        outputs = session.run(outputs)
    actual, _ = outputs_and_gradients(config, inputs)
    for ours, expected in zip(actual, outputs.values(), strict=True):
        assert parity.difference(ours, expected) < 1e-12


@pytest.mark.parametrize(("mode", "direction", "scope"), every_pair(MODES, DIRECTIONS, [None, "my_scope"]))
def test_single_cells_equal_the_op(mode, direction, scope, tmp_path):
    """Networks of one layer without MultiRNNCell and stack_bidirectional_dynamic_rnn."""
    config = network(rnn_mode=mode, direction=direction, sequence_lengths=LENGTHS)
    inputs = network_inputs(config)
    path, outputs, _ = tf1_results(
        config, inputs, tmp_path, lambda *arguments: tf1_networks.outputs_of_single_cells(*arguments, scope)
    )
    prefix = f"{SCOPE}/{scope}" if scope else SCOPE
    assert layout_from_tf1(path, prefix, nonlinearity_of(config)) == params_layout(config)
    for selected in (None, prefix):
        params = from_tf1(params_layout(config), path, selected)
        actual, _ = outputs_and_gradients(config, {**inputs, "params": params})
        for ours, expected in zip(actual, outputs.values(), strict=True):
            assert parity.difference(ours, expected) < 1e-12


LSTM = "rnn/multi_rnn_cell/cell_{}/cudnn_compatible_lstm_cell"
GRU = "stack_bidirectional_rnn/cell_{}/bidirectional_rnn/{}/cudnn_compatible_gru_cell"
RNN = "rnn/multi_rnn_cell/cell_{}/basic_rnn_cell"
OF_GRU = [
    f"{part}/{name}"
    for part in ("gates", "candidate/input_projection", "candidate/hidden_projection")
    for name in ("kernel", "bias")
]


NAMES = {
    "lstm": (
        network(num_layers=2),
        [f"{LSTM.format(layer)}/{name}" for layer in (0, 1) for name in ("kernel", "bias")],
    ),
    "gru": (
        network(rnn_mode="gru", direction="bidirectional"),
        [f"{GRU.format(0, way)}/{name}" for way in ("fw", "bw") for name in OF_GRU],
    ),
    "rnn_tanh": (network(rnn_mode="rnn_tanh"), [f"{RNN.format(0)}/kernel", f"{RNN.format(0)}/bias"]),
    "rnn_relu": (network(rnn_mode="rnn_relu"), [f"{RNN.format(0)}/kernel", f"{RNN.format(0)}/bias"]),
}


@pytest.mark.parametrize(("config", "names"), NAMES.values(), ids=NAMES)
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


def test_paths_readers_and_mappings_with_other_variables_are_accepted(tmp_path):
    """Other variables, such as the opaque GPU copy, optimizer slots and other layers, are ignored."""
    config = network()
    each = params_layout(config)
    variables = to_tf1(each, random_params(config), "encoder")
    kernel = f"encoder/{LSTM.format(0)}/kernel"
    others = {
        "encoder/cudnn_lstm/opaque_kernel": np.zeros(200),
        f"{kernel}/Adam": np.zeros_like(variables[kernel]),
        "encoder/rnn/multi_rnn_cell/cell_1/lstm_cell/kernel": np.zeros([10, 20]),
        "global_step": np.array(3),
    }
    path = tf1_networks.save({**variables, **others}, tmp_path / "model")
    expected = from_tf1(each, variables)
    for source in (path, tmp_path / "model", tf.train.load_checkpoint(path), {**variables, **others}):
        assert layout_from_tf1(source) == each
        np.testing.assert_array_equal(from_tf1(each, source), expected)


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
    each = params_layout(network())
    variables = {**to_tf1(each, np.zeros(each.size), "encoder"), **to_tf1(each, np.zeros(each.size), "model/decoder")}
    message = (
        "variables must contain one network; pass its prefix to select one. Found several: "
        "'encoder' (cudnn_compatible_lstm_cell, unidirectional) and "
        "'model/decoder' (cudnn_compatible_lstm_cell, unidirectional)"
    )
    with rejects(message):
        read(each, variables)


WITHOUT_LAYOUT = {
    "layer 0": (
        {f"{LSTM.format(1)}/kernel": 0},
        {},
        f"variables must have a matrix '{LSTM.format(0)}/kernel', but has",
    ),
    "scalar": (
        {f"{LSTM.format(0)}/kernel": 0},
        {},
        f"'{LSTM.format(0)}/kernel' in variables must be a matrix, but has",
    ),
    "sigmoid": ({}, {"nonlinearity": "sigmoid"}, "nonlinearity must be 'tanh' or 'relu', but is 'sigmoid'"),
}


@pytest.mark.parametrize(("variables", "arguments", "message"), WITHOUT_LAYOUT.values(), ids=WITHOUT_LAYOUT)
def test_variables_without_a_layout_are_rejected(variables, arguments, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        layout_from_tf1(variables, **arguments)


def test_a_layout_of_more_layers_than_a_single_cell_is_rejected():
    """All layers of this layout would have the shapes of the one cell."""
    variables = {
        f"encoder/rnn/basic_rnn_cell/{name}": np.ones(shape) for name, shape in (("kernel", (6, 3)), ("bias", 3))
    }
    message = "the num_layers of layout must be 1, because encoder/rnn/basic_rnn_cell is a single cell"
    with pytest.raises(ValueError, match=f"^{message}, but is 2$"):
        from_tf1(layout("rnn_tanh", 3, 3, num_layers=2), variables)


def test_stacks_of_each_direction_are_two_networks():
    """A bidirectional_dynamic_rnn of two MultiRNNCells joins the directions after the last layer, unlike cuDNN."""
    each = params_layout(network(num_layers=2))
    forward, backward = random_params(network(num_layers=2)), -random_params(network(num_layers=2))
    variables = {}
    for way, params in (("fw", forward), ("bw", backward)):
        for name, variable in to_tf1(each, params).items():
            variables[name.replace("rnn/", f"bidirectional_rnn/{way}/", 1)] = variable
    with pytest.raises(ValueError, match=r"Found several: 'bidirectional_rnn/fw' .* and 'bidirectional_rnn/bw' "):
        layout_from_tf1(variables)
    for way, params in (("fw", forward), ("bw", backward)):
        assert layout_from_tf1(variables, f"bidirectional_rnn/{way}") == each
        actual = to_tf1(each, from_tf1(each, variables, f"bidirectional_rnn/{way}"))
        for name, variable in to_tf1(each, params).items():
            np.testing.assert_array_equal(actual[name], variable)


AVERAGE = "/ExponentialMovingAverage"


def test_averages_saved_by_tensorflow_are_converted(tmp_path):
    config = network(num_layers=2)
    each = params_layout(config)
    with tf.Graph().as_default(), v1.Session() as session:
        variables = [
            v1.get_variable(name, initializer=value) for name, value in to_tf1(each, random_params(config)).items()
        ]
        average = tf.train.ExponentialMovingAverage(0.5)
        update = average.apply(variables)
        averages = [average.average(variable) for variable in variables]
        session.run(v1.global_variables_initializer())
        session.run([variable.assign(-variable) for variable in variables])
        session.run(update)
        path = v1.train.Saver(averages).save(session, str(tmp_path / "averages"))
        expected = dict(zip([variable.op.name for variable in variables], session.run(averages), strict=True))
    assert set(dict(tf.train.list_variables(path))) == {name + AVERAGE for name in expected}
    assert layout_from_tf1(path) == each
    np.testing.assert_array_equal(from_tf1(each, path), from_tf1(each, expected))


@pytest.mark.parametrize("rnn_mode", MODES)
def test_averages_are_ignored_beside_the_variables(rnn_mode):
    config = network(rnn_mode=rnn_mode)
    each = params_layout(config)
    variables = to_tf1(each, random_params(config), "encoder")
    averages = {name + AVERAGE: -variable for name, variable in variables.items()}
    np.testing.assert_array_equal(from_tf1(each, {**averages, **variables}), from_tf1(each, variables))
    np.testing.assert_array_equal(from_tf1(each, averages, "encoder"), -from_tf1(each, variables))
    assert layout_from_tf1({**averages, **variables}, nonlinearity=nonlinearity_of(config)) == each
    assert layout_from_tf1(averages, nonlinearity=nonlinearity_of(config)) == each


def test_a_missing_average_is_named():
    config = network()
    averages = {name + AVERAGE: each for name, each in to_tf1(params_layout(config), random_params(config)).items()}
    del averages[f"{LSTM.format(0)}/bias{AVERAGE}"]
    with pytest.raises(ValueError, match=f"Missing: '{LSTM.format(0)}/bias{AVERAGE}'. Unknown: none."):
        from_tf1(params_layout(config), averages)


BUFFER = "fp32_storage/cudnn_lstm/opaque_kernel"


@pytest.mark.parametrize("name", [BUFFER, "cudnn_lstm/opaque_kernel", "opaque_kernel", BUFFER + AVERAGE])
def test_a_buffer_without_cells_is_returned(name, tmp_path):
    config = network(num_layers=2, direction="bidirectional")
    each, params = params_layout(config), random_params(config)
    scope = name.removesuffix(AVERAGE).rpartition("/")[0]
    path = tf1_networks.save({name: params, f"{name}/Adam": -params, "global_step": np.array(3)}, tmp_path / "model")
    for prefix in (None, name, scope, f"{scope}/" if scope else "", scope.rpartition("/")[0]):
        np.testing.assert_array_equal(from_tf1(each, path, prefix), params)
        actual = from_tf1(each, {name: params}, prefix)
        assert not np.shares_memory(actual, params)
        np.testing.assert_array_equal(actual, params)


def test_the_layout_of_a_buffer_can_have_skip_input():
    """Contrib does not save such a layer as cells."""
    each = layout("gru", 4, 4, input_mode="skip_input")
    np.testing.assert_array_equal(from_tf1(each, {BUFFER: np.arange(each.size) / 2}), np.arange(each.size) / 2)


def test_a_prefix_selects_a_buffer():
    config = network()
    each, params = params_layout(config), random_params(config)
    cells = to_tf1(each, params, "fp32_storage")
    variables = {**cells, BUFFER: params + 1, BUFFER + AVERAGE: params + 2, "other/opaque_kernel": params + 3}
    for prefix, expected in (
        ("fp32_storage", from_tf1(each, cells)),
        ("fp32_storage/cudnn_lstm", params + 1),
        (BUFFER, params + 1),
        (BUFFER + AVERAGE, params + 2),
        ("other", params + 3),
    ):
        np.testing.assert_array_equal(from_tf1(each, variables, prefix), expected)


BUFFERS = {
    "size": (np.ones(100), rf"{BUFFER} must have the shape \[200\], but has \[100\]"),
    "integers": (np.ones(200, "int32"), f"{BUFFER} must have a floating-point dtype, but has int32"),
}


@pytest.mark.parametrize(("buffer", "message"), BUFFERS.values(), ids=BUFFERS)
def test_incompatible_buffers_are_rejected(buffer, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        from_tf1(params_layout(network()), {BUFFER: buffer})


# Scopes of TensorFlow 1's LSTMs that add a constant to the forget gate.
OF_LSTMS = ["lstm_cell", "rnn/basic_lstm_cell", "lstm_fused_cell_1", "decoder/multi_rnn_cell/cell_0/lstm_cell"]


@pytest.mark.parametrize("scope", OF_LSTMS)
@pytest.mark.parametrize("arguments", [{}, {"forget_bias": 0.3}], ids=str)
def test_lstms_with_a_forget_bias_equal_the_reference(scope, arguments):
    config = network(batch=2)
    inputs = network_inputs(config)
    rng = np.random.default_rng(0)
    kernel, bias = rng.uniform(-1, 1, [3 + 5, 20]), rng.uniform(-1, 1, 20)
    variables = {f"{scope}/kernel": kernel, f"{scope}/bias": bias}
    states = inputs["input_c"][0], inputs["input_h"][0]
    peepholes = [np.zeros(5)] * 3
    options = {"forget_bias": 1.0, "cell_clip": 0, **arguments}
    expected = block_lstm.sequence(6, inputs["input"], *states, kernel, *peepholes, bias, **options)
    for prefix in (None, scope):
        params = from_tf1(layout_from_tf1(variables, prefix), variables, prefix, **arguments)
        outputs, _ = outputs_and_gradients(config, {**inputs, "params": params})
        assert parity.difference(outputs[0], expected.h) < 1e-12


@pytest.mark.parametrize("kind", ["lstm_cell", "basic_lstm_cell"])
@networks({"lstm": {"rnn_mode": "lstm"}})
def test_networks_of_other_lstms(config, kind):
    """In the scopes of all networks, with the values of contrib's cells."""
    each = params_layout(config)
    variables = to_tf1(each, random_params(config), SCOPE)
    renamed = {name.replace("cudnn_compatible_lstm_cell", kind): value for name, value in variables.items()}
    assert layout_from_tf1(renamed) == each
    np.testing.assert_array_equal(from_tf1(each, renamed, forget_bias=0), from_tf1(each, variables, forget_bias=7))


@pytest.mark.parametrize("make", [rnn_cell_impl.LSTMCell, rnn_cell_impl.BasicLSTMCell])
def test_tensorflow_has_the_names_of_lstms(make):
    with tf.Graph().as_default(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cells are deprecated
        v1.nn.dynamic_rnn(make(5), tf.zeros([2, 6, 3]), dtype=tf.float32)
        variables = {variable.op.name: np.zeros(variable.shape) for variable in v1.global_variables()}
    assert layout_from_tf1(variables) == layout("lstm", 5, 3)


@pytest.mark.parametrize("other", ["cudnn_compatible_lstm_cell/kernel", "cudnn_lstm/opaque_kernel"])
def test_other_cells_beside_layers_of_contrib_need_their_prefix(other):
    each = params_layout(network())
    variables = to_tf1(each, random_params(network()))
    if other.endswith("opaque_kernel"):
        variables = {other: from_tf1(each, variables)}
    cell = {"decoder/lstm_cell/kernel": np.ones([8, 20]), "decoder/lstm_cell/bias": np.ones(20)}
    both = {**cell, **variables}
    np.testing.assert_array_equal(from_tf1(each, both), from_tf1(each, variables))
    np.testing.assert_array_equal(from_tf1(each, both, "decoder"), from_tf1(each, cell))


NOT_CONVERTED = {
    "peephole": (
        {"rnn/lstm_cell/kernel": (8, 20), "rnn/lstm_cell/bias": (20,), "rnn/lstm_cell/w_f_diag": (5,)},
        "rnn/lstm_cell/w_f_diag in variables is a peephole, which CudnnRNN does not have: use "
        "tf_rnn_ops.layers.LSTMBlockCell or tf_rnn_ops.raw_ops.BlockLSTM with use_peephole=True",
    ),
    "projection": (
        {"lstm_cell/projection/kernel": (5, 2), "lstm_cell/kernel": (5, 20), "lstm_cell/bias": (20,)},
        "lstm_cell/projection/kernel in variables is a projection, which from_tf1 does not convert",
    ),
    **{
        f"Keras {cell}": (
            {f"{cell}/kernel": (10, 16), f"{cell}/recurrent_kernel": (4, 16), f"{cell}/bias": (16,)},
            f"{cell}/recurrent_kernel in variables is a weight of a Keras layer: use tf_rnn_ops.params.from_keras",
        )
        for cell in ("lstm/lstm_cell", "gru/gru_cell")
    },
    **{
        name: (
            {f"rnn/gru_cell/{name}": (8, 10)},
            f"rnn/gru_cell/{name} in variables is a weight of a GRU that applies the reset gate before the matrix "
            "product, unlike CudnnRNN: use keras.layers.GRU with reset_after=False or tf_rnn_ops.layers.GRUBlockCell",
        )
        for name in ("gates/kernel", "candidate/bias", "w_ru")
    },
}


@pytest.mark.parametrize(("shapes", "message"), NOT_CONVERTED.values(), ids=NOT_CONVERTED)
def test_cells_that_cudnn_rnn_cannot_compute_are_rejected(shapes, message):
    variables = {name: np.ones(shape) for name, shape in shapes.items()}
    with rejects(message):
        layout_from_tf1(variables)
    with rejects(message):
        from_tf1(layout("gru" if "gru" in message else "lstm", 5, 3), variables)


@pytest.mark.parametrize("cell", ["lstm_cell", "cudnn_compatible_lstm_cell"])
def test_bfloat16_stays_bfloat16(cell):
    dtype = tf.bfloat16.as_numpy_dtype
    variables = {f"{cell}/kernel": np.ones((7, 16), dtype), f"{cell}/bias": np.ones(16, dtype)}
    assert from_tf1(layout("lstm", 4, 3), variables).dtype == dtype


BLOCK_CELLS = {
    "GRU": (
        lambda: rnn_cell_impl.GRUCell(5),
        [f"rnn/gru_cell/{name}" for name in ("gates/kernel", "candidate/kernel", "gates/bias", "candidate/bias")],
        lambda: GRUBlockCell(5),
    ),
    "LSTM": (
        lambda: rnn_cell_impl.LSTMCell(5, use_peepholes=True, cell_clip=0.4),
        [f"rnn/lstm_cell/{name}" for name in ("kernel", "bias", "w_i_diag", "w_f_diag", "w_o_diag")],
        lambda: LSTMBlockCell(5, use_peephole=True, cell_clip=0.4),
    ),
}


@pytest.mark.parametrize(("theirs", "names", "ours"), BLOCK_CELLS.values(), ids=BLOCK_CELLS)
def test_block_cells_take_the_weights_of_tensorflow_1(theirs, names, ours):
    x = np.ones([2, 6, 3], "float32")
    initializer = v1.random_uniform_initializer(-1, 1, seed=1)
    with tf.Graph().as_default(), v1.Session() as session, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cells are deprecated
        with v1.variable_scope("", initializer=initializer):
            output, _ = v1.nn.dynamic_rnn(theirs(), tf.constant(x), dtype=tf.float32)
        session.run(v1.global_variables_initializer())
        variables = {variable.op.name: session.run(variable) for variable in v1.global_variables()}
        output = session.run(output)
    cell = ours()
    layer = keras.layers.RNN(cell, return_sequences=True)
    layer(x)
    cell.set_weights([variables[name] for name in names])
    assert parity.difference(layer(x), output) < 1e-5


READERS = {
    "layout_from_tf1": (lambda variables: layout_from_tf1(variables), [BUFFER], f"'{BUFFER}' with the shape [100]"),
    "several": (
        lambda variables: from_tf1(layout("lstm", 4, 3), variables),
        [BUFFER, "other/opaque_kernel"],
        f"'{BUFFER}' with the shape [100] and 'other/opaque_kernel' with the shape [100]",
    ),
    "another prefix": (
        lambda variables: from_tf1(layout("lstm", 4, 3), variables, "decoder"),
        [BUFFER],
        f"'{BUFFER}' with the shape [100]",
    ),
}


@pytest.mark.parametrize(("read", "names", "buffers"), READERS.values(), ids=READERS)
def test_the_error_for_buffers_says_how_to_load_one(read, names, buffers):
    message = (
        f", but {buffers}: a params buffer does not show its layout. To load one, call from_tf1(layout, variables, "
        f"prefix='{BUFFER}') with layout = tf_rnn_ops.params.layout(rnn_mode, num_units, input_size, num_layers, "
        "direction), of the same size"
    )
    with pytest.raises(ValueError, match=rf"^variables must contain one network; .*{re.escape(message)}$"):
        read(dict.fromkeys(names, np.ones(100)))


def test_a_checkpoint_without_cells_is_rejected():
    message = r"Found no network \(no cudnn_compatible_lstm_cell or .* or basic_rnn_cell\)$"
    with pytest.raises(ValueError, match=message):
        layout_from_tf1({"ugrnn_cell/kernel": np.ones([7, 16])})


def test_a_kernel_with_a_fraction_of_a_unit_is_rejected():
    scope = LSTM.format(0)
    with pytest.raises(ValueError, match=f"{scope}/kernel must have 4 columns per unit, but has 23 columns"):
        layout_from_tf1({f"{scope}/kernel": np.ones([10, 23]), f"{scope}/bias": np.ones(23)})
