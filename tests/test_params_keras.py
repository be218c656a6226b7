"""Tests of the conversion of Keras weights from and to params, by comparing results with Keras layers."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from hypothesis import given
from hypothesis import strategies as st
from inputs.cudnn_rnn import MODES, forward_arguments, network_inputs, output_gradients, params_layout
from references import keras_networks
from references.cudnn_rnn import Config

import tf_rnn_ops
from tf_rnn_ops.params import from_keras, layout, to_keras

DIRECTIONS = ("unidirectional", "bidirectional")


def network(**options) -> Config:
    return Config(**{"num_units": 5, "input_size": 3, "time": 6, "time_major": False, **options})


def run_op(config, x, params):
    """Like `keras_networks.run`, but for the op."""
    inputs = {name: np.zeros_like(value) for name, value in network_inputs(config).items()}
    results = tf_rnn_ops.raw_ops.CudnnRNNV3(**forward_arguments(config, {**inputs, "input": x, "params": params}))
    return list(results[: 3 if config.rnn_mode == "lstm" else 2])


def random_stack(config, seed=0, **arguments):
    """Returns the Keras layers of a network with random weights, including biases."""
    layers = keras_networks.stack(config, **arguments)
    rng = np.random.default_rng(seed)
    keras_networks.assign(layers, [rng.standard_normal(each.shape) / 2 for each in keras_networks.variables(layers)])
    return layers


networks = pytest.mark.parametrize(
    "config",
    [
        network(rnn_mode=mode, direction=direction, num_layers=num_layers)
        for mode in MODES
        for direction in DIRECTIONS
        for num_layers in (1, 3)
    ],
    ids=lambda config: f"{config.rnn_mode}-{config.direction}-{config.num_layers}",
)


@networks
@pytest.mark.parametrize("use_bias", [True, False])
def test_from_keras_equals_keras(config, use_bias):
    layers = random_stack(config, use_bias=use_bias)
    variables = keras_networks.variables(layers)
    x = tf.constant(network_inputs(config)["input"])
    scales = list(output_gradients(config).values())[: 3 if config.rnn_mode == "lstm" else 2]

    def outputs_and_gradients(run):
        with tf.GradientTape() as tape:
            outputs = run()
            loss = tf.add_n([tf.reduce_sum(output * scale) for output, scale in zip(outputs, scales, strict=True)])
        return outputs, tape.gradient(loss, [variable.value for variable in variables])

    expected = outputs_and_gradients(lambda: keras_networks.run(config, layers, x))
    actual = outputs_and_gradients(lambda: run_op(config, x, from_keras(params_layout(config), variables)))
    for ours, theirs in zip(tf.nest.flatten(actual), tf.nest.flatten(expected), strict=True):
        assert parity.difference(ours, theirs) < 1e-12


@networks
@pytest.mark.parametrize("use_bias", [True, False])
def test_to_keras_equals_the_op(config, use_bias):
    inputs = network_inputs(config)
    params = inputs["params"]
    if not use_bias:
        params[-2 * config.num_pseudo_layers * config.num_gates * config.num_units :] = 0
    layers = keras_networks.stack(config, use_bias=use_bias)
    keras_networks.assign(layers, to_keras(params_layout(config), params, use_bias=use_bias))
    expected = keras_networks.run(config, layers, inputs["input"])
    for ours, theirs in zip(run_op(config, inputs["input"], params), expected, strict=True):
        assert parity.difference(ours, theirs) < 1e-12


def test_the_result_of_get_weights_is_accepted():
    config = network(rnn_mode="gru", direction="bidirectional")
    (layer,) = random_stack(config)
    params = from_keras(params_layout(config), layer.get_weights())
    assert isinstance(params, np.ndarray)
    np.testing.assert_array_equal(params, keras_networks.params_from_weights(config, layer.get_weights()))
    layer.set_weights(to_keras(params_layout(config), params))
    np.testing.assert_array_equal(from_keras(params_layout(config), layer.weights), params)


@st.composite
def configs(draw) -> Config:
    """A strategy for networks that Keras supports, of any size."""
    sizes = st.integers(0, 6)
    return Config(
        rnn_mode=draw(st.sampled_from(MODES)),
        direction=draw(st.sampled_from(DIRECTIONS)),
        num_layers=draw(st.integers(1, 3)),
        num_units=draw(sizes),
        input_size=draw(sizes),
    )


DTYPES = st.sampled_from([tf.float32, tf.float64, tf.float16, tf.bfloat16])
libraries = pytest.mark.parametrize("convert", [np.asarray, tf.constant], ids=["numpy", "tensorflow"])


def consecutive_numbers(config, dtype):
    """Returns a params buffer of integers modulo 128, which all types can represent."""
    return (np.arange(params_layout(config).size) % 128).astype(dtype.as_numpy_dtype)


@libraries
@given(configs(), DTYPES)
def test_from_keras_is_bitwise_equal_to_the_reference(convert, config, dtype):
    weights = keras_networks.weights_from_params(config, consecutive_numbers(config, dtype))
    params = from_keras(params_layout(config), [convert(weight) for weight in weights])
    assert tf.is_tensor(params) == (convert is tf.constant)
    assert params.dtype == dtype
    np.testing.assert_array_equal(params, keras_networks.params_from_weights(config, weights))


@libraries
@given(configs(), DTYPES)
def test_to_keras_is_bitwise_equal_to_the_reference(convert, config, dtype):
    params = consecutive_numbers(config, dtype)
    actual = to_keras(params_layout(config), convert(params))
    for ours, theirs in zip(actual, keras_networks.weights_from_params(config, params), strict=True):
        assert tf.is_tensor(ours) == (convert is tf.constant)
        assert ours.dtype == dtype
        np.testing.assert_array_equal(ours, theirs)


@libraries
@given(configs(), st.booleans())
def test_weights_round_trip(convert, config, use_bias):
    weights = keras_networks.weights_from_params(config, consecutive_numbers(config, tf.float64), use_bias)
    params = from_keras(params_layout(config), [convert(weight) for weight in weights])
    for ours, theirs in zip(to_keras(params_layout(config), params, use_bias=use_bias), weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_numpy_results_share_no_memory():
    config = network(direction="bidirectional")
    params = consecutive_numbers(config, tf.float32)
    for weight in to_keras(params_layout(config), params):
        assert not np.shares_memory(weight, params)


@pytest.mark.parametrize("mode", MODES)
def test_gradients_pass_through_to_keras(mode):
    """Compares the gradients of the sum of scale * weight, which is linear in params, with the reference."""
    config = network(rnn_mode=mode, num_units=2, num_layers=2)
    each = params_layout(config)
    params = tf.zeros([each.size], tf.float64)
    shapes = [weight.shape for weight in to_keras(each, params)]
    scales = [np.random.default_rng(0).standard_normal(shape) for shape in shapes]
    with tf.GradientTape() as tape:
        tape.watch(params)
        total = tf.add_n([tf.reduce_sum(s * weight) for s, weight in zip(scales, to_keras(each, params), strict=True)])
    gradient = tape.gradient(total, params)
    for index, unit in enumerate(np.eye(each.size)):
        weights = keras_networks.weights_from_params(config, unit)
        expected = sum(np.sum(s * weight) for s, weight in zip(scales, weights, strict=True))
        assert gradient[index].numpy() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("shape_is_known", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_in_a_graph(mode, shape_is_known):
    config = network(rnn_mode=mode, direction="bidirectional")
    params = consecutive_numbers(config, tf.float64)
    weights = keras_networks.weights_from_params(config, params)
    specs = [tf.TensorSpec(weight.shape if shape_is_known else None, tf.float64) for weight in weights]

    @tf.function(input_signature=specs)
    def round_trip(*weights):
        params = from_keras(params_layout(config), weights)
        assert params.shape == params_layout(config).size
        return to_keras(params_layout(config), params)

    for ours, theirs in zip(round_trip(*weights), weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    if not shape_is_known:
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"expected shape \[3,\d+\]"):
            round_trip(weights[1], *weights[1:])


def test_an_lstm_is_converted_by_whole_matrices():
    """The conversion runs in every training step, so it must not split a matrix into gates."""
    config = network(num_layers=2, direction="bidirectional")
    weights = [
        tf.constant(w) for w in keras_networks.weights_from_params(config, consecutive_numbers(config, tf.float32))
    ]
    convert = tf.function(lambda *weights: from_keras(params_layout(config), weights))
    ops = [op.type for op in convert.get_concrete_function(*weights).graph.get_operations()]
    assert ops.count("Transpose") == 8  # two matrices per pseudo-layer
    assert ops.count("ConcatV2") == 1
    assert not {"Split", "SplitV", "StridedSlice", "GatherV2", "EnsureShape"} & set(ops)


def test_mixed_arrays_and_variables_make_a_tensor():
    config = network(rnn_mode="gru")
    weights = keras_networks.weights_from_params(config, consecutive_numbers(config, tf.float32))
    expected = keras_networks.params_from_weights(config, weights)
    for variable in (tf.Variable(weights[1]), keras.Variable(weights[1], dtype="float32")):
        params = from_keras(params_layout(config), [weights[0], variable, weights[2]])
        assert tf.is_tensor(params)
        np.testing.assert_array_equal(params, expected)


LSTM = network(num_layers=2)
GRU = network(rnn_mode="gru", direction="bidirectional")


def with_item(number, make):
    """Returns a function that changes one of the weights."""
    return lambda weights: [make(w) if index == number else w for index, w in enumerate(weights)]


@libraries
@pytest.mark.parametrize(
    ("config", "change", "message"),
    [
        (
            LSTM,
            lambda weights: weights[:-1],
            "weights must have 6 items, or 4 without biases, for a layout with 2 pseudo-layers, but has 5 items",
        ),
        (
            LSTM,
            lambda weights: [],
            "weights must have 6 items, or 4 without biases, for a layout with 2 pseudo-layers, but has 0 items",
        ),
        (
            LSTM,
            with_item(3, lambda weight: weight.T),
            "weights[3] (layer_1/forward/kernel) must have the shape [5, 20], but has [20, 5]",
        ),
        (
            LSTM,
            with_item(1, lambda weight: weight[:4]),
            "weights[1] (layer_0/forward/recurrent_kernel) must have the shape [5, 20], but has [4, 20]",
        ),
        (
            GRU,
            with_item(5, lambda weight: weight[0]),
            "weights[5] (layer_0/backward/bias, of a GRU with reset_after=True) must have the shape [2, 15], "
            "but has [15]",
        ),
        (
            LSTM,
            with_item(2, lambda weight: weight.astype("float32")),
            "the dtypes in weights must be equal, but 'weights[0] (layer_0/forward/kernel)' is float64 and "
            "'weights[2] (layer_0/forward/bias)' is float32",
        ),
        (
            LSTM,
            lambda weights: [weight.astype("int32") for weight in weights],
            "weights[0] (layer_0/forward/kernel) must have a floating-point dtype, but has int32",
        ),
    ],
    ids=["one less", "none", "transposed", "rows", "no reset_after", "dtypes", "integers"],
)
def test_incompatible_weights_are_rejected(convert, config, change, message):
    weights = keras_networks.weights_from_params(config, consecutive_numbers(config, tf.float64))
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        from_keras(params_layout(config), [convert(weight) for weight in change(weights)])


def test_a_layer_is_rejected():
    with pytest.raises(TypeError, match=r"^weights must be arrays, but is a LSTM: pass layer\.get_weights\(\)$"):
        from_keras(layout("lstm", 4, 3), keras.layers.LSTM(4))


@pytest.mark.parametrize(
    ("each", "message"),
    [
        (
            layout("lstm", 4, 3, num_proj=2),
            "the num_proj of layout must be 0 to convert Keras layers, but is 2",
        ),
        (
            layout("gru", 4, 4, input_mode="skip_input"),
            "the input_mode of layout must be 'linear_input' to convert Keras layers, but is 'skip_input'",
        ),
    ],
    ids=["projection", "skip_input"],
)
def test_layouts_without_a_keras_equivalent_are_rejected(each, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        from_keras(each, [])
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        to_keras(each, np.zeros(each.size))


@libraries
def test_params_of_wrong_shape_are_rejected(convert):
    message = r"^params must have the shape \[440\], but has \[399\]$"
    with pytest.raises(ValueError, match=message):
        to_keras(params_layout(LSTM), convert(np.zeros(399)))


@pytest.mark.parametrize(
    ("convert", "error"), [(np.asarray, ValueError), (tf.constant, tf.errors.InvalidArgumentError)], ids=["numpy", "tf"]
)
def test_nonzero_biases_are_not_dropped(convert, error):
    each = layout("lstm", 4, 3)
    params = np.zeros(each.size)
    params[each["layer_0/forward/recurrent_bias/o"].offset] = 1
    with pytest.raises(error, match="layer_0/forward/recurrent_bias must be zeros with use_bias=False, but is not"):
        to_keras(each, convert(params), use_bias=False)


@pytest.mark.parametrize("mode", MODES)
def test_other_byte_order(mode):
    """Arrays from a file of another machine. Some are converted to the native order by a sum."""
    of_mode = layout(mode, num_units=4, input_size=3)
    params = np.random.default_rng(0).standard_normal(of_mode.size).astype(">f4")
    weights = to_keras(of_mode, params)
    again = to_keras(of_mode, from_keras(of_mode, weights))
    for one, other in zip(weights, again, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_type_that_tensorflow_lacks_is_rejected():
    of_lstm = layout("lstm", num_units=4, input_size=3)
    weights = [each.astype(np.longdouble) for each in to_keras(of_lstm, np.zeros(of_lstm.size))]
    with pytest.raises(ValueError, match=r"weights\[0\] .* must have a floating-point dtype, but has "):
        from_keras(of_lstm, weights)
