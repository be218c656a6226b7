"""Tests of the conversion of ONNX weights from and to params, by comparing results with ONNX Runtime."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from checks.cudnn_rnn import names_of, run_forward
from checks.params_conversions import configs, consecutive_numbers, network, networks
from hypothesis import given, settings
from hypothesis import strategies as st
from inputs.cudnn_rnn import OUTPUTS, network_inputs, params_layout
from references import cudnn_rnn as reference

from tf_rnn_ops.params import from_onnx, to_onnx

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

OPERATORS = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "RNN", "rnn_relu": "RNN"}
# The index of each ONNX gate in cuDNN's order. ONNX: i, o, f, c and z, r, h.
GATES = {"lstm": [0, 3, 1, 2], "gru": [1, 0, 2], "rnn_tanh": [0], "rnn_relu": [0]}


def operator_attributes(config):
    """Returns the attributes of the operator of a layer."""
    attributes = {"hidden_size": config.num_units}
    if config.num_directions == 2:
        attributes["direction"] = "bidirectional"
    if config.rnn_mode == "gru":
        attributes["linear_before_reset"] = 1
    if config.rnn_mode == "rnn_relu":
        attributes["activations"] = ["Relu"] * config.num_directions
    return attributes


def run_operator(config, tensors, x, states):
    """Returns Y and the final states of a layer from ONNX Runtime.

    Args:
      config: the network of the layer.
      tensors: W, R and optionally B of the layer.
      x: the input, [time, batch, features].
      states: the initial states, each [num_directions, batch, num_units].
    """
    lengths = {} if config.sequence_lengths is None else {"lengths": np.array(config.sequence_lengths, np.int32)}
    feeds = {"X": x, **tensors, **lengths, **dict(zip(["h", "c"], states, strict=False))}
    names = [name if name in feeds else "" for name in ("X", "W", "R", "B", "lengths", "h", "c")]
    outputs = ["Y", "Y_h", "Y_c"][: 1 + len(states)]
    helper = onnx.helper
    node = helper.make_node(
        OPERATORS[config.rnn_mode], names[: 5 + len(states)], outputs, **operator_attributes(config)
    )
    of_feeds = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(feed.dtype), feed.shape)
        for name, feed in feeds.items()
    ]
    of_outputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph([node], "layer", of_feeds, of_outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def run_onnx(config, weights, inputs):
    """Returns the outputs of the op, computed by ONNX Runtime with one operator per layer."""
    x, final_states = inputs["input"], []
    states = [inputs[name] for name in names_of(config, ["input_h", "input_c"])]
    for layer, tensors in enumerate(weights):
        pseudo_layers = slice(layer * config.num_directions, (layer + 1) * config.num_directions)
        y, *of_layer = run_operator(config, tensors, x, [state[pseudo_layers] for state in states])
        x = y.transpose(0, 2, 1, 3).reshape(config.time, config.batch, config.num_directions * config.num_units)
        final_states.append(of_layer)
    return [x, *(np.concatenate(each) for each in zip(*final_states, strict=True))]


def check_op(config, params, expected):
    """Asserts that the outputs of the op for a params buffer are equal to the expected ones."""
    results = run_forward(config, {**network_inputs(config, "float32"), "params": params}, is_training=False)
    for name, each in zip(names_of(config, OUTPUTS), expected, strict=True):
        assert parity.difference(getattr(results, name), each) < 1e-5, name


def random_weights(config, has_bias):
    """Returns random tensors of the ONNX operators of a network."""
    rng = np.random.default_rng(0)
    directions, rows = config.num_directions, config.num_gates * config.num_units
    scale = 1 / np.sqrt(config.num_units)
    weights = []
    for layer in range(config.num_layers):
        shapes = {"W": (directions, rows, config.fan_in(layer)), "R": (directions, rows, config.num_units)}
        shapes |= {"B": (directions, 2 * rows)} if has_bias else {}
        weights.append({name: rng.uniform(-scale, scale, shape).astype("f4") for name, shape in shapes.items()})
    return weights


@pytest.mark.parametrize("has_bias", [True, False])
@networks(sequence_lengths=(4, 6, 1))
def test_from_onnx_equals_onnx_runtime(config, has_bias):
    weights = random_weights(config, has_bias)
    expected = run_onnx(config, weights, network_inputs(config, "float32"))
    check_op(config, from_onnx(params_layout(config), weights), expected)


@settings(max_examples=30)
@given(configs(smallest=1, time=st.integers(1, 7), batch=st.integers(1, 4)), st.floats(0, 1), st.booleans())
def test_from_onnx_equals_onnx_runtime_in_any_size(config, length, has_bias):
    lengths = [1 + round(length * (config.time - 1)), *[config.time] * (config.batch - 1)]
    config = dataclasses.replace(config, sequence_lengths=tuple(lengths) if length < 1 else None)
    weights = random_weights(config, has_bias)
    expected = run_onnx(config, weights, network_inputs(config, "float32"))
    check_op(config, from_onnx(params_layout(config), weights), expected)


DTYPES = st.sampled_from([tf.float32, tf.float64, tf.float16, tf.bfloat16])


def weights_from_params(config, params):
    """Reference implementation of `to_onnx`, gate by gate."""

    def tensor(*names):
        rows = [
            [getattr(place, name)[gate] for name in names for gate in GATES[config.rnn_mode]] for place in of_directions
        ]
        return np.stack([np.concatenate(each) for each in rows])

    places = reference.unpack(config, params)
    weights = []
    for layer in range(config.num_layers):
        of_directions = places[layer * config.num_directions : (layer + 1) * config.num_directions]
        weights.append({"W": tensor("W"), "R": tensor("R"), "B": tensor("W_bias", "R_bias")})
    return weights


@given(configs(), DTYPES)
def test_to_onnx_is_bitwise_equal_to_the_reference(config, dtype):
    params = consecutive_numbers(config, dtype.name)
    for convert in (np.asarray, tf.constant, tf.Variable):
        actual = to_onnx(params_layout(config), convert(params))
        for ours, theirs in zip(actual, weights_from_params(config, params), strict=True):
            assert list(ours) == ["W", "R", "B"]
            for name, tensor in ours.items():
                assert tensor.dtype == dtype
                np.testing.assert_array_equal(tensor, theirs[name])


@given(configs(smallest=1))
def test_weights_from_a_file_are_accepted(config):
    """From initializers, in each type that the ONNX operators support."""
    for dtype in (np.float32, np.float64, np.float16, tf.bfloat16.as_numpy_dtype):
        params = consecutive_numbers(config, dtype)
        written = [
            {name: onnx.numpy_helper.from_array(tensor, name).SerializeToString() for name, tensor in tensors.items()}
            for tensors in to_onnx(params_layout(config), params)
        ]
        read = [
            {name: onnx.numpy_helper.to_array(onnx.TensorProto.FromString(each)) for name, each in tensors.items()}
            for tensors in written
        ]
        again = from_onnx(params_layout(config), read)
        assert again.dtype == dtype
        np.testing.assert_array_equal(again, params)


def test_missing_biases_are_zero():
    config = network(num_layers=3, direction="bidirectional")
    weights = to_onnx(params_layout(config), consecutive_numbers(config))
    del weights[0]["B"]
    weights[2]["B"] = None
    again = to_onnx(params_layout(config), from_onnx(params_layout(config), weights))
    np.testing.assert_array_equal(again[0]["B"], np.zeros([2, 40]))
    np.testing.assert_array_equal(again[1]["B"], weights[1]["B"])
    np.testing.assert_array_equal(again[2]["B"], np.zeros([2, 40]))
    for one, other in zip(again, weights, strict=True):
        np.testing.assert_array_equal(one["W"], other["W"])
