"""Tests of what all conversions of weights of other libraries from and to params have in common."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from checks.params_conversions import DIRECTIONS, configs, consecutive_numbers, network, rejects
from hypothesis import given
from hypothesis import strategies as st
from inputs.cudnn_rnn import MODES, params_layout

from tf_rnn_ops import params
from tf_rnn_ops.params import layout

FIRST, SECOND, THIRD = (f"rnn/multi_rnn_cell/cell_{layer}/cudnn_compatible_lstm_cell/" for layer in range(3))
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
        f"{FIRST}kernel",
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


ITEMS = "weights must have 6 items, or 4 without biases, for a layout with 2 pseudo-layers, but has {} items".format
MAPPINGS = "weights must have one mapping for each of the 2 layers of the layout, but has {} items".format
SHAPE = "{} must have the shape {}, but has {}".format
DTYPES = "the dtypes in {} must be equal, but '{}' is float64 and '{}' is float32".format
OF_ONNX = "weights[{}] must have the names 'W', 'R' and optionally 'B'. Missing: {}. Unknown: {}.".format
OF_PYTORCH = (
    "state_dict must have exactly the 8 weights of a torch.nn.LSTM with this layout. Missing: {}. Unknown: {}.".format
)
OF_TF1 = "variables must have exactly the 4 variables of a network with this layout. Missing: {}. Unknown: {}.".format
EMPTY = "state_dict must contain one module; pass its prefix to select one. Found no module (no weight_ih_l0)"


def zeros(*shape):
    """Returns a function that replaces a weight by zeros."""
    return lambda _: np.zeros(shape)


def to_float32(weight):
    return weight.astype("float32")


def removed(name):
    return lambda weights: {other: weight for other, weight in weights.items() if other != name}


def changed(weights, index, change):
    """Returns weights that are changed at an index, which may have several levels."""
    if not index:
        return change(weights)
    at, *further = index
    weights = {at: None, **weights} if isinstance(weights, dict) else list(weights)
    weights[at] = changed(weights[at], further, change)
    return weights


# Changes of weights of two LSTM layers: the library, the index of what changes, the change, and the message.
INCOMPATIBLE = [
    ("keras", (), lambda weights: weights[:-1], ITEMS(5)),
    ("keras", (), lambda weights: [], ITEMS(0)),
    ("keras", (3,), np.transpose, SHAPE("weights[3] (layer_1/forward/kernel)", [5, 20], [20, 5])),
    ("keras", (1,), lambda each: each[:4], SHAPE("weights[1] (layer_0/forward/recurrent_kernel)", [5, 20], [4, 20])),
    (
        "keras",
        (2,),
        to_float32,
        DTYPES("weights", "weights[0] (layer_0/forward/kernel)", "weights[2] (layer_0/forward/bias)"),
    ),
    ("onnx", (), lambda weights: weights[:1], MAPPINGS(1)),
    ("onnx", (), lambda weights: weights[0], MAPPINGS(3)),
    (
        "onnx",
        (0,),
        lambda tensors: tuple(tensors.values()),
        "weights[0] must be a mapping from 'W', 'R' and 'B' to arrays, but is a tuple",
    ),
    ("onnx", (1, "R"), lambda _: None, OF_ONNX(1, "'R'", "none")),
    ("onnx", (0, "P"), zeros(1, 15), OF_ONNX(0, "none", "'P'")),
    ("onnx", (1, "W"), np.squeeze, SHAPE('weights[1]["W"]', [1, 20, 5], [20, 5])),
    ("onnx", (0, "W"), lambda each: each.swapaxes(1, 2), SHAPE('weights[0]["W"]', [1, 20, 3], [1, 3, 20])),
    ("onnx", (0, "B"), lambda each: each[:, :20], SHAPE('weights[0]["B"]', [1, 40], [1, 20])),
    ("onnx", (1, "B"), to_float32, DTYPES("weights", 'weights[0]["W"]', 'weights[1]["B"]')),
    ("pytorch", (), lambda weights: {}, EMPTY),
    ("pytorch", (), removed("weight_hh_l1"), OF_PYTORCH("'weight_hh_l1'", "none")),
    ("pytorch", (), removed("bias_hh_l1"), OF_PYTORCH("'bias_hh_l1'", "none")),
    ("pytorch", ("weight_ih_l2",), zeros(20, 5), OF_PYTORCH("none", "'weight_ih_l2'")),
    ("pytorch", ("weight_ih_l0_reverse",), zeros(20, 3), OF_PYTORCH("none", "'weight_ih_l0_reverse'")),
    ("pytorch", ("weight_hr_l0",), zeros(2, 5), OF_PYTORCH("none", "'weight_hr_l0'")),
    ("pytorch", ("weight_ih_l1",), np.transpose, SHAPE("weight_ih_l1", [20, 5], [5, 20])),
    ("pytorch", ("bias_hh_l0",), to_float32, DTYPES("state_dict", "weight_ih_l0", "bias_hh_l0")),
    ("tf1", (), removed(f"{SECOND}bias"), OF_TF1(f"'{SECOND}bias'", "none")),
    ("tf1", (f"{THIRD}kernel",), zeros(10, 20), OF_TF1("none", f"'{THIRD}kernel'")),
    ("tf1", (f"{FIRST}kernel",), zeros(7, 20), SHAPE(f"{FIRST}kernel", [8, 20], [7, 20])),
    ("tf1", (f"{FIRST}bias",), to_float32, DTYPES("variables", f"{FIRST}kernel", f"{FIRST}bias")),
]


@pytest.mark.parametrize(("name", "index", "change", "message"), INCOMPATIBLE)
def test_incompatible_weights_are_rejected(name, index, change, message):
    conversion, each = CONVERSIONS[name], params_layout(network(num_layers=2))
    weights = changed(conversion.convert_to(each, np.zeros(each.size)), index, change)
    with rejects(message):
        conversion.convert_from(each, weights)
    if name == "keras":
        with rejects(message):
            conversion.convert_from(each, [tf.constant(weight) for weight in weights])


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
