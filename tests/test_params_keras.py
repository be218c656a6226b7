"""Tests of the conversion of Keras weights from and to params, by comparing results with Keras layers."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from checks.cudnn_rnn import names_of, run_forward
from checks.params_conversions import configs, consecutive_numbers, network, networks, rejects
from hypothesis import given
from hypothesis import strategies as st
from inputs.cudnn_rnn import MODES, OUTPUTS, network_inputs, output_gradients, params_layout
from references import keras_networks

from tf_rnn_ops.params import from_keras, layout, to_keras


def run_op(config, x, params):
    """Like `keras_networks.run`, but for the op."""
    inputs = {name: np.zeros_like(value) for name, value in network_inputs(config).items()}
    results = run_forward(config, {**inputs, "input": x, "params": params})
    return [getattr(results, name) for name in names_of(config, OUTPUTS)]


def random_stack(config, seed=0, **arguments):
    """Returns the Keras layers of a network with random weights, including biases."""
    layers = keras_networks.stack(config, **arguments)
    rng = np.random.default_rng(seed)
    keras_networks.assign(layers, [rng.standard_normal(each.shape) / 2 for each in keras_networks.variables(layers)])
    return layers


@networks(time_major=False)
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
    weights = [each for layer in layers for each in layer.get_weights()]
    params = from_keras(params_layout(config), weights)
    assert isinstance(params, np.ndarray)
    for ours, theirs in zip(to_keras(params_layout(config), params, use_bias=use_bias), weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


DTYPES = st.sampled_from([tf.float32, tf.float64, tf.float16, tf.bfloat16])
libraries = pytest.mark.parametrize("convert", [np.asarray, tf.constant], ids=["numpy", "tensorflow"])


@libraries
@given(configs(), DTYPES)
def test_from_keras_is_bitwise_equal_to_the_reference(convert, config, dtype):
    weights = keras_networks.weights_from_params(config, consecutive_numbers(config, dtype.name))
    params = from_keras(params_layout(config), [convert(weight) for weight in weights])
    assert tf.is_tensor(params) == (convert is tf.constant)
    assert params.dtype == dtype
    np.testing.assert_array_equal(params, keras_networks.params_from_weights(config, weights))


@libraries
@given(configs(), DTYPES)
def test_to_keras_is_bitwise_equal_to_the_reference(convert, config, dtype):
    params = consecutive_numbers(config, dtype.name)
    actual = to_keras(params_layout(config), convert(params))
    for ours, theirs in zip(actual, keras_networks.weights_from_params(config, params), strict=True):
        assert tf.is_tensor(ours) == (convert is tf.constant)
        assert ours.dtype == dtype
        np.testing.assert_array_equal(ours, theirs)


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
    params = consecutive_numbers(config)
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
        tf.constant(w) for w in keras_networks.weights_from_params(config, consecutive_numbers(config, "float32"))
    ]
    convert = tf.function(lambda *weights: from_keras(params_layout(config), weights))
    ops = [op.type for op in convert.get_concrete_function(*weights).graph.get_operations()]
    assert ops.count("Transpose") == 8  # two matrices per pseudo-layer
    assert ops.count("ConcatV2") == 1
    assert not {"Split", "SplitV", "StridedSlice", "GatherV2", "EnsureShape"} & set(ops)


def test_mixed_arrays_and_variables_make_a_tensor():
    config = network(rnn_mode="gru")
    weights = keras_networks.weights_from_params(config, consecutive_numbers(config, "float32"))
    expected = keras_networks.params_from_weights(config, weights)
    for variable in (tf.Variable(weights[1]), keras.Variable(weights[1], dtype="float32")):
        params = from_keras(params_layout(config), [weights[0], variable, weights[2]])
        assert tf.is_tensor(params)
        np.testing.assert_array_equal(params, expected)


@libraries
def test_weights_of_a_gru_without_reset_after_are_rejected(convert):
    config = network(rnn_mode="gru", direction="bidirectional")
    weights = keras_networks.weights_from_params(config, consecutive_numbers(config))
    weights[5] = weights[5][0]
    name = "weights[5] (layer_0/backward/bias, of a GRU with reset_after=True)"
    with rejects(f"{name} must have the shape [2, 15], but has [15]"):
        from_keras(params_layout(config), list(map(convert, weights)))


def test_a_layer_is_rejected():
    with pytest.raises(TypeError, match=r"^weights must be arrays, but is a LSTM: pass layer\.get_weights\(\)$"):
        from_keras(layout("lstm", 4, 3), keras.layers.LSTM(4))
