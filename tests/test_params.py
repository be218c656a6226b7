"""Tests of the layout of the params buffer, of pack and unpack, and of their agreement with the ops."""

import functools
import re

import numpy as np
import pytest
import tensorflow as tf
from checks import cudnn_rnn_params as params_checks
from hypothesis import assume, given
from hypothesis import strategies as st
from inputs import cudnn_rnn as cudnn_rnn_inputs
from inputs.cudnn_rnn import params_layout
from references.cudnn_rnn import params_size

import tf_rnn_ops
from tf_rnn_ops import params
from tf_rnn_ops.params import Region, layout, pack, unpack

networks = cudnn_rnn_inputs.configs(smallest=0, largest=9)


layouts = networks.map(params_layout)
DTYPES = [tf.float32, tf.float64, tf.float16, tf.bfloat16]


def consecutive_numbers(size, dtype=np.float64):
    return np.arange(size).astype(dtype)


def test_a_small_layout_written_by_hand():
    """Two layers of two directions, each of one gate, with 2 units and an input of 3."""
    expected = {
        "layer_0/forward/kernel": (0, (2, 3)),
        "layer_0/forward/recurrent_kernel": (6, (2, 2)),
        "layer_0/backward/kernel": (10, (2, 3)),
        "layer_0/backward/recurrent_kernel": (16, (2, 2)),
        "layer_1/forward/kernel": (20, (2, 4)),
        "layer_1/forward/recurrent_kernel": (28, (2, 2)),
        "layer_1/backward/kernel": (32, (2, 4)),
        "layer_1/backward/recurrent_kernel": (40, (2, 2)),
        "layer_0/forward/input_bias": (44, (2,)),
        "layer_0/forward/recurrent_bias": (46, (2,)),
        "layer_0/backward/input_bias": (48, (2,)),
        "layer_0/backward/recurrent_bias": (50, (2,)),
        "layer_1/forward/input_bias": (52, (2,)),
        "layer_1/forward/recurrent_bias": (54, (2,)),
        "layer_1/backward/input_bias": (56, (2,)),
        "layer_1/backward/recurrent_bias": (58, (2,)),
    }
    actual = layout("rnn_tanh", num_units=2, input_size=3, num_layers=2, direction="bidirectional")
    assert {name: (region.offset, region.shape) for name, region in actual.items()} == expected
    assert list(actual) == list(expected)
    assert actual.size == 60


def test_gates_and_projection_written_by_hand():
    """One LSTM layer of 3 units, projected to 2, that skips the input matrix."""
    expected = {
        "layer_0/forward/recurrent_kernel/i": (0, (3, 2)),
        "layer_0/forward/recurrent_kernel/f": (6, (3, 2)),
        "layer_0/forward/recurrent_kernel/g": (12, (3, 2)),
        "layer_0/forward/recurrent_kernel/o": (18, (3, 2)),
        "layer_0/forward/projection": (24, (2, 3)),
        "layer_0/forward/input_bias/i": (30, (3,)),
        "layer_0/forward/input_bias/f": (33, (3,)),
        "layer_0/forward/input_bias/g": (36, (3,)),
        "layer_0/forward/input_bias/o": (39, (3,)),
        "layer_0/forward/recurrent_bias/i": (42, (3,)),
        "layer_0/forward/recurrent_bias/f": (45, (3,)),
        "layer_0/forward/recurrent_bias/g": (48, (3,)),
        "layer_0/forward/recurrent_bias/o": (51, (3,)),
    }
    actual = layout("lstm", num_units=3, input_size=3, input_mode="skip_input", num_proj=2)
    assert {name: (region.offset, region.shape) for name, region in actual.items()} == expected
    assert actual.size == 54


@given(networks)
def test_sizes_and_regions_equal_those_of_the_ops(network):
    each = params_layout(network)
    size = tf_rnn_ops.raw_ops.CudnnRNNParamsSize(
        **params_checks.sizes(network), T=tf.float64, S=tf.int64, **params_checks.attributes(network, "V2")
    )
    assert size.numpy().tolist() == [each.size] == [params_size(network)]
    params = consecutive_numbers(each.size)
    weights, biases = params_checks.to_canonical(network, params)
    assume(network.num_units > 0)
    # With skip_input, the canonical form has empty matrices.
    of_op = [array for array in (*weights, *biases) if not (network.skips_input and 0 in array.shape)]
    arrays = unpack(each, params)
    for array, expected in zip(arrays.values(), of_op, strict=True):
        np.testing.assert_array_equal(array, expected)
    np.testing.assert_array_equal(pack(each, arrays), params_checks.to_params(network, weights, biases))


@given(layouts)
def test_regions_are_contiguous_and_have_the_right_names(each):
    offset = 0
    for name, region in each.items():
        assert region.name == name
        parts = (f"layer_{region.layer}", region.direction, region.kind, region.gate)
        assert name == "/".join(part for part in parts if part)
        assert region.offset == offset
        assert region.size == np.prod(region.shape)
        offset += region.size
    assert offset == each.size


def test_auto_select_skips_the_input_if_the_sizes_match():
    assert layout("gru", 5, 5, input_mode="auto_select") == layout("gru", 5, 5, input_mode="skip_input")
    assert layout("gru", 5, 4, input_mode="auto_select") == layout("gru", 5, 4)


def test_a_projection_to_num_units_is_no_projection():
    assert layout("lstm", 5, 4, num_proj=5) == layout("lstm", 5, 4)


def test_str_is_an_aligned_table():
    each = layout("lstm", num_units=128, input_size=64, num_layers=2, num_proj=32)
    title, head, *rows = str(each).splitlines()
    assert title == f"{each!r}, size {each.size}"
    assert "num_proj=32" in title
    assert head.split() == ["name", "offset", "size", "shape"]
    for row, region in zip(rows, each.values(), strict=True):
        name, offset, size, shape = row.split(maxsplit=3)
        assert (name, int(offset), int(size), shape) == (
            region.name,
            region.offset,
            region.size,
            str(list(region.shape)),
        )
        assert row.index("[") == head.index("shape")
        assert row.index(f"{offset} ") + len(offset) == head.index("offset") + len("offset")


@given(layouts, st.sampled_from(DTYPES))
def test_unpack_then_pack_gives_the_same_bits(each, dtype):
    params = consecutive_numbers(each.size, dtype.as_numpy_dtype)
    arrays = unpack(each, params)
    assert {name: array.shape for name, array in arrays.items()} == {name: r.shape for name, r in each.items()}
    packed = pack(each, arrays)
    assert isinstance(packed, np.ndarray)
    assert packed.dtype == params.dtype
    np.testing.assert_array_equal(packed, params)


@given(layouts, st.sampled_from(DTYPES))
def test_packing_tensors_equals_packing_arrays(each, dtype):
    params = consecutive_numbers(each.size, dtype.as_numpy_dtype)
    arrays, tensors = unpack(each, params), unpack(each, tf.constant(params))
    for name in each:
        assert tf.is_tensor(tensors[name])
        np.testing.assert_array_equal(tensors[name].numpy(), arrays[name])
    packed = pack(each, tensors)
    assert packed.dtype == dtype
    np.testing.assert_array_equal(packed.numpy(), params)


def test_unpacked_arrays_are_views():
    each = layout("gru", 3, 4)
    every_second = np.zeros(2 * each.size)[::2]
    for buffer in (np.zeros(each.size), every_second):
        for name, array in unpack(each, buffer).items():
            array[...] = each[name].offset
        for region in each.values():
            assert (buffer[region.offset : region.offset + region.size] == region.offset).all()


def test_one_tensor_makes_the_result_a_tensor():
    each = layout("gru", 3, 4)
    arrays = unpack(each, consecutive_numbers(each.size))
    arrays["layer_0/forward/kernel/u"] = tf.Variable(arrays["layer_0/forward/kernel/u"])
    packed = pack(each, arrays)
    assert tf.is_tensor(packed)
    np.testing.assert_array_equal(packed.numpy(), consecutive_numbers(each.size))


@pytest.mark.parametrize("shape", [None, [None]], ids=str)
def test_round_trip_in_a_graph_of_unknown_shape(shape):
    each = layout("lstm", 3, 4, num_proj=2)

    @tf.function(input_signature=[tf.TensorSpec(shape, tf.float64)])
    def round_trip(params):
        arrays = unpack(each, params)
        assert {name: tuple(array.shape) for name, array in arrays.items()} == {
            name: r.shape for name, r in each.items()
        }
        return pack(each, arrays)

    params = consecutive_numbers(each.size)
    np.testing.assert_array_equal(round_trip(params).numpy(), params)
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"\[5\].*\[{each.size}\]"):
        round_trip(params[:5])


@pytest.mark.parametrize("in_graph", [False, True])
def test_gradients_pass_through_unpack_and_pack(in_graph):
    """The gradients of the sum of weight * element are the weights."""
    each = layout("lstm", 3, 4, num_layers=2, direction="bidirectional", num_proj=2)
    weights = consecutive_numbers(each.size)
    weighted = unpack(each, weights)

    def gradient_of_unpack(params):
        with tf.GradientTape() as tape:
            tape.watch(params)
            arrays = unpack(each, params)
            total = tf.add_n([tf.reduce_sum(weighted[name] * arrays[name]) for name in each])
        return tape.gradient(total, params)

    def gradient_of_pack(arrays):
        with tf.GradientTape() as tape:
            tape.watch(arrays)
            total = tf.reduce_sum(weights * pack(each, arrays))
        return tape.gradient(total, arrays)

    if in_graph:
        gradient_of_unpack, gradient_of_pack = tf.function(gradient_of_unpack), tf.function(gradient_of_pack)
    np.testing.assert_array_equal(gradient_of_unpack(tf.zeros([each.size], tf.float64)), weights)
    zeros = {name: tf.zeros(region.shape, tf.float64) for name, region in each.items()}
    for name, gradient in gradient_of_pack(zeros).items():
        np.testing.assert_array_equal(gradient, weighted[name])


def test_the_gradient_of_one_array_is_zero_elsewhere():
    each = layout("gru", 3, 4)
    params = tf.Variable(consecutive_numbers(each.size))
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(unpack(each, params)["layer_0/forward/input_bias/u"])
    region = each["layer_0/forward/input_bias/u"]
    expected = np.zeros(each.size)
    expected[region.offset : region.offset + region.size] = 1
    np.testing.assert_array_equal(tape.gradient(total, params), expected)


GOOD = {"rnn_mode": "lstm", "num_units": 4, "input_size": 3}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rnn_mode": "LSTM"}, "rnn_mode must be 'rnn_relu' or 'rnn_tanh' or 'lstm' or 'gru', but is 'LSTM'"),
        ({"direction": "forward"}, "direction must be 'unidirectional' or 'bidirectional', but is 'forward'"),
        (
            {"input_mode": None},
            "input_mode must be 'linear_input' or 'skip_input' or 'auto_select', but is None",
        ),
        ({"num_units": -1}, "num_units must be an integer of at least 0, but is -1"),
        ({"num_units": 4.0}, "num_units must be an integer of at least 0, but is 4.0"),
        ({"input_size": "3"}, "input_size must be an integer of at least 0, but is '3'"),
        ({"input_size": None}, "input_size must be an integer of at least 0, but is None"),
        ({"num_layers": 0}, "num_layers must be an integer of at least 1, but is 0"),
        ({"num_layers": True}, "num_layers must be an integer of at least 1, but is True"),
        ({"num_proj": -2}, "num_proj must be an integer of at least 0, but is -2"),
        ({"num_proj": 5}, "num_proj must be at most num_units = 4, but is 5"),
        (
            {"rnn_mode": "gru", "num_proj": 2},
            "num_proj must be 0 unless rnn_mode is lstm, but is 2 where rnn_mode is gru",
        ),
        ({"input_mode": "skip_input"}, "input_size must equal num_units (4) with input_mode 'skip_input', but is 3"),
    ],
)
def test_invalid_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        layout(**{**GOOD, **arguments})


def test_numpy_integers_are_integers():
    assert layout("lstm", np.int32(4), np.int64(3)) == layout(**GOOD)


@pytest.mark.parametrize("convert", [np.asarray, tf.constant])
@pytest.mark.parametrize("shape", [(), (143,), (145,), (144, 1)], ids=str)
def test_params_of_wrong_shape_are_rejected(convert, shape):
    with pytest.raises(
        ValueError, match=rf"^params must have the shape \[144\], but has {re.escape(str(list(shape)))}$"
    ):
        unpack(layout(**GOOD), convert(np.zeros(shape)))


@pytest.mark.parametrize("convert", [np.asarray, tf.constant])
def test_arrays_of_wrong_shape_are_rejected(convert):
    each = layout(**GOOD)
    arrays = unpack(each, convert(np.zeros(each.size)))
    arrays["layer_0/forward/kernel/f"] = convert(np.zeros([3, 4]))
    message = r"^layer_0/forward/kernel/f must have the shape \[4, 3\], but has \[3, 4\]$"
    with pytest.raises(ValueError, match=message):
        pack(each, arrays)


@pytest.mark.parametrize("convert", [np.asarray, tf.constant])
def test_arrays_of_different_dtypes_are_rejected(convert):
    each = layout(**GOOD)
    arrays = unpack(each, convert(np.zeros(each.size)))
    arrays["layer_0/forward/kernel/f"] = np.zeros([4, 3], "float32")
    message = r"^the dtypes in arrays must be equal, but '.*/kernel/i' is float64 and '.*/kernel/f' is float32$"
    with pytest.raises(ValueError, match=message):
        pack(each, arrays)


def test_missing_and_unknown_names_are_listed():
    each = layout(**GOOD)
    arrays = unpack(each, np.zeros(each.size))
    del arrays["layer_0/forward/kernel/f"]
    with pytest.raises(ValueError, match=r"Missing: 'layer_0/forward/kernel/f'\. Unknown: none\.$"):
        pack(each, arrays)
    arrays["kernel"] = np.zeros([4, 3])
    with pytest.raises(ValueError, match=r"Missing: 'layer_0/forward/kernel/f'\. Unknown: 'kernel'\.$"):
        pack(each, arrays)
    with pytest.raises(ValueError, match=r"Missing: 'layer_0/forward/kernel/i', .* and 11 more\. Unknown: none"):
        pack(each, {"layer_0/forward/recurrent_bias/o": np.zeros(4)})


@pytest.fixture
def few_regions(monkeypatch):
    """Lets the test make 100 regions at most."""
    made = []

    def region(*arguments):
        made.append(arguments)
        assert len(made) <= 100, "the test makes very many regions"
        return Region(*arguments)

    monkeypatch.setattr("tf_rnn_ops.params._layout.Region", region)


VERY_DEEP = layout("lstm", num_units=4, input_size=3, num_layers=10**6, direction="bidirectional")


@pytest.mark.usefixtures("few_regions")
def test_the_size_of_a_layout_costs_no_time():
    each = VERY_DEEP
    assert each.size == 2 * (16 * (3 + 4 + 2) + (10**6 - 1) * 16 * (8 + 4 + 2))
    assert len(each) == 2 * 16 * 10**6
    assert next(iter(each)) == "layer_0/forward/kernel/i"
    last = each["layer_999999/backward/recurrent_bias/o"]
    assert last.offset + last.size == each.size
    for name in (f"layer_{10**6}/forward/kernel/i", "layer_01/forward/kernel/i", f"layer_{'9' * 5000}/", "kernel", 3):
        assert name not in each
        with pytest.raises(KeyError):
            each[name]


WEIGHTS = {"weight_ih_l0": np.zeros([16, 3]), "weight_hh_l0": np.zeros([16, 4])}
CELL = {"rnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cell/kernel": 0}
ITEMS = "weights must have {} items, or {} without biases, for a layout with {} pseudo-layers, but has 0 items"
SHAPE = "params must have the shape [{size}], but has [9]"
TOO_FEW = " must have weights for each of the {} layers of layout, but has only "
# Calls with a layout, and the message for a layout of very many layers.
CALLS = {
    "pack": (lambda each: pack(each, {}), f"arrays{TOO_FEW}0"),
    "unpack": (lambda each: unpack(each, np.zeros(9)), SHAPE),
    "from_keras": (lambda each: params.from_keras(each, []), ITEMS),
    "to_keras": (lambda each: params.to_keras(each, np.zeros(9)), SHAPE),
    "from_onnx": (lambda each: params.from_onnx(each, []), "weights must have one mapping for each of the {} layers"),
    "to_onnx": (lambda each: params.to_onnx(each, np.zeros(9)), SHAPE),
    "from_pytorch": (lambda each: params.from_pytorch(each, WEIGHTS), f"state_dict{TOO_FEW}2"),
    "to_pytorch": (lambda each: params.to_pytorch(each, np.zeros(9)), SHAPE),
    "from_tf1": (lambda each: params.from_tf1(each, CELL), f"variables{TOO_FEW}1"),
    "to_tf1": (lambda each: params.to_tf1(each, np.zeros(9)), SHAPE),
    "from_params": (lambda each: tf_rnn_ops.layers.CudnnRNN.from_params(each, np.zeros(9)), SHAPE),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("wrong", [{}, "lstm", np.zeros(3)], ids=["dict", "str", "ndarray"])
def test_an_object_that_is_not_a_layout_is_rejected(wrong, name):
    with pytest.raises(TypeError, match=f"^layout must be a Layout, .*, but is a {type(wrong).__name__}$"):
        CALLS[name][0](wrong)


@pytest.mark.usefixtures("few_regions")
@pytest.mark.parametrize(("call", "message"), CALLS.values(), ids=CALLS)
def test_a_layout_of_very_many_layers_is_rejected_at_once(call, message):
    """The layouts that `layout_from_pytorch` and `layout_from_tf1` return for a single stray name are as deep."""
    each = layout("lstm", num_units=4, input_size=3, num_layers=10**6)
    message = re.escape(message.replace("{size}", str(each.size))).replace(re.escape("{}"), r"\d+")
    with pytest.raises(ValueError, match=f"^{message}"):
        call(each)


@pytest.mark.parametrize(
    ("convert_to", "convert_from", "layout_of", "separator"),
    [
        (params.to_pytorch, params.from_pytorch, params.layout_from_pytorch, "."),
        (params.to_tf1, params.from_tf1, params.layout_from_tf1, "/"),
    ],
    ids=["pytorch", "tf1"],
)
def test_a_prefix_has_one_form_in_all_conversions(convert_to, convert_from, layout_of, separator):
    """With or without its separator, by keyword or position, or omitted."""
    each = layout("gru", num_units=4, input_size=3)
    first = np.arange(each.size, dtype="float64")
    scope = f"model{separator}encoder"
    of_one = convert_to(each, first, scope)
    assert all(name.startswith(f"{scope}{separator}") for name in of_one)
    assert list(convert_to(each, first, prefix=f"{scope}{separator}")) == list(of_one)
    expected = convert_from(each, convert_to(each, first))
    both = {**of_one, **convert_to(each, -first)}
    for weights, prefix in ((of_one, None), (of_one, scope), (both, scope), (both, f"{scope}{separator}")):
        assert layout_of(weights, prefix) == layout_of(weights, prefix=prefix) == each
        np.testing.assert_array_equal(convert_from(each, weights, prefix), expected)
    np.testing.assert_array_equal(convert_from(each, both, prefix=""), -expected)
    message = re.escape(f"pass its prefix to select one. Found several: '{scope}'")
    for read in (layout_of, functools.partial(convert_from, each)):
        with pytest.raises(ValueError, match=message):
            read(both)
    message = rf"Found no \w+ with prefix 'other'; \w+s with other prefixes: '{re.escape(scope)}'"
    for read in (layout_of, functools.partial(convert_from, each)):
        with pytest.raises(ValueError, match=message):
            read(of_one, "other")
