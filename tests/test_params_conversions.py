"""Tests of what all conversions of weights of other libraries from and to params have in common."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from checks.params_conversions import DIRECTIONS, configs, consecutive_numbers, rejects
from hypothesis import given
from hypothesis import strategies as st
from inputs.cudnn_rnn import MODES, params_layout

from tf_rnn_ops import params
from tf_rnn_ops.params import layout

LSTM = layout("lstm", 4, 3)


class Conversion(NamedTuple):
    """The conversions of one library. In messages, the layers, and the first of the weights, have the given names."""

    convert_to: Callable[..., Any]
    convert_from: Callable[..., Any]
    layers: str
    first: str


CONVERSIONS = {
    "keras": Conversion(params.to_keras, params.from_keras, "Keras layers", "weights[0] (layer_0/forward/kernel)"),
    "onnx": Conversion(params.to_onnx, params.from_onnx, "ONNX operators", 'weights[0]["W"]'),
    "pytorch": Conversion(params.to_pytorch, params.from_pytorch, "PyTorch modules", "weight_ih_l0"),
    "tf1": Conversion(
        params.to_tf1,
        params.from_tf1,
        "layers of tf.contrib",
        "rnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cell/kernel",
    ),
}
every_conversion = pytest.mark.parametrize("conversion", CONVERSIONS.values(), ids=CONVERSIONS)


@every_conversion
@given(configs(), st.sampled_from(["float16", "float32", "float64"]))
def test_weights_round_trip_in_their_dtype_and_share_no_memory(conversion, config, dtype):
    each, buffer = params_layout(config), consecutive_numbers(config, dtype)
    weights = conversion.convert_to(each, buffer)
    converted = conversion.convert_from(each, weights)
    assert converted.dtype == dtype
    again = conversion.convert_to(each, converted)
    tf.nest.assert_same_structure(again, weights)
    for one, other in zip(tf.nest.flatten(weights), tf.nest.flatten(again), strict=True):
        assert one.dtype == dtype
        np.testing.assert_array_equal(other, one)
        assert not np.shares_memory(one, buffer)
        assert not np.shares_memory(one, converted)


@every_conversion
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_other_byte_order(conversion, mode, direction):
    """Arrays from a file of another machine. Some are converted to the native order by a sum."""
    of_mode = layout(mode, num_units=4, input_size=3, direction=direction)
    buffer = np.random.default_rng(0).standard_normal(of_mode.size).astype(">f4")
    weights = conversion.convert_to(of_mode, buffer)
    again = conversion.convert_to(of_mode, conversion.convert_from(of_mode, weights))
    for one, other in zip(tf.nest.flatten(weights), tf.nest.flatten(again), strict=True):
        np.testing.assert_array_equal(one, other)


@every_conversion
@pytest.mark.parametrize("dtype", [np.int32, np.longdouble])
def test_types_that_are_not_floating_in_tensorflow_are_rejected(conversion, dtype):
    weights = conversion.convert_to(LSTM, np.zeros(LSTM.size))
    weights = tf.nest.map_structure(lambda each: each.astype(dtype), weights)
    with rejects(f"{conversion.first} must have a floating-point dtype, but has {np.dtype(dtype).name}"):
        conversion.convert_from(LSTM, weights)


@every_conversion
@pytest.mark.parametrize("convert", [np.asarray, tf.constant], ids=["numpy", "tensorflow"])
def test_params_of_wrong_shape_are_rejected(conversion, convert):
    with rejects(f"params must have the shape [{LSTM.size}], but has [99]"):
        conversion.convert_to(LSTM, convert(np.zeros(99)))


@every_conversion
@pytest.mark.parametrize(
    ("each", "message"),
    [
        (layout("lstm", 4, 3, num_proj=2), "the num_proj of layout must be 0 to convert {}, but is 2"),
        (
            layout("gru", 4, 4, input_mode="skip_input"),
            "the input_mode of layout must be 'linear_input' to convert {}, but is 'skip_input'",
        ),
    ],
    ids=["projection", "skip_input"],
)
def test_layouts_without_an_equivalent_are_rejected(conversion, each, message):
    if conversion is CONVERSIONS["pytorch"] and each.num_proj:
        pytest.skip("PyTorch has projections")
    with rejects(message.format(conversion.layers)):
        conversion.convert_from(each, [])
    with rejects(message.format(conversion.layers)):
        conversion.convert_to(each, np.zeros(each.size))


@pytest.mark.parametrize(
    ("name", "convert", "error"),
    [
        ("keras", np.asarray, ValueError),
        ("keras", tf.constant, tf.errors.InvalidArgumentError),
        ("pytorch", np.asarray, ValueError),
    ],
)
def test_nonzero_biases_are_not_dropped(name, convert, error):
    buffer = np.zeros(LSTM.size)
    buffer[LSTM["layer_0/forward/recurrent_bias/o"].offset] = 1
    with pytest.raises(error, match="layer_0/forward/recurrent_bias must be zeros with use_bias=False, but is not"):
        CONVERSIONS[name].convert_to(LSTM, convert(buffer), use_bias=False)
