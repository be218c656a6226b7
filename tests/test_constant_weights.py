"""Tests of weights that are packed once for all calls: frozen functions, exports, and the three formats."""

import functools
import gc
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from checks.keras_layers import FEATURES, KERAS, KINDS, TIME, data, needs_xla, randomize
from environment import forked
from hypothesis import given
from hypothesis import strategies as st
from inputs import cudnn_rnn, keras_rnn

from tf_rnn_ops import _constant_weights, accelerate_keras, freeze, layers, packed_weights_bytes, params, raw_ops

pytestmark = pytest.mark.not_xla("XLA packs weights in each call, and ignores their format", sure=False)

UNITS = 80  # more than a panel of every instruction set
FORMATS = ("float32", "bfloat16", "int8")
# Relative to the largest element of a result.
TOLERANCES = {"float32": 1e-5, "bfloat16": 0.02, "int8": 0.05}
X = data(3, TIME, FEATURES, dtype="float32")


@pytest.fixture(autouse=True)
def no_packed_weights_are_left():
    yield
    gc.collect()
    assert packed_weights_bytes() == 0


def make_model(kind="LSTM", units=UNITS):
    """Returns a model of two layers, of which one has two directions."""
    layer = KERAS[kind]
    bidirectional = keras.layers.Bidirectional(layer(units, return_sequences=True))
    model = keras.Sequential([keras.Input([None, FEATURES]), bidirectional, layer(units)])
    randomize(model)
    model.set_weights([each / units**0.5 for each in model.get_weights()])
    return model


def check(actual, expected, weights="float32"):
    assert parity.difference(actual, expected) < TOLERANCES[weights]


@pytest.mark.parametrize("weights", FORMATS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_frozen_model_equals_the_model(kind, weights):
    model = make_model(kind)
    expected = model(X)
    serve = freeze(model, weight_format=weights)
    check(serve(tf.constant(X)), expected, weights)
    assert packed_weights_bytes() > 0
    # Frozen: later weights have no effect.
    model.set_weights([each * 0 for each in model.get_weights()])
    check(serve(tf.constant(X[:1])), expected[:1], weights)


def test_a_frozen_function_can_be_saved_and_frozen_again(tmp_path):
    model = make_model()
    serve = freeze(model, weight_format="int8")
    tf.saved_model.save(tf.Module(), tmp_path, signatures=serve.concrete_function)
    loaded = tf.saved_model.load(tmp_path)
    (actual,) = loaded.signatures["serving_default"](tf.constant(X)).values()
    assert np.array_equal(actual, serve(tf.constant(X)))
    (actual,) = freeze(loaded.signatures["serving_default"])(tf.constant(X)).values()
    check(actual, model(X))


def test_functions_of_a_graph_get_new_names():
    """TensorFlow would take functions of a graph that was frozen before, if they had the same names."""
    graph = tf.compat.v1.GraphDef()
    for name in ("forward", "backward"):
        graph.library.function.add().signature.name = name
    graph.library.gradient.add(function_name="forward", gradient_func="backward")
    graph.node.add(name="by_op", op="forward")
    graph.node.add(name="by_attribute", op="PartitionedCall").attr["f"].func.name = "forward"
    graph.library.function[1].node_def.add(name="again", op="forward")
    _constant_weights._rename_functions(graph)
    forward, backward = (each.signature.name for each in graph.library.function)
    assert forward.startswith("forward_")
    assert backward.startswith("backward_")
    (gradient,) = graph.library.gradient
    assert (gradient.function_name, gradient.gradient_func) == (forward, backward)
    by_op, by_attribute = graph.node
    assert (by_op.op, by_attribute.op, by_attribute.attr["f"].func.name) == (forward, "PartitionedCall", forward)
    assert graph.library.function[1].node_def[0].op == forward


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_other_types_keep_their_format(dtype):
    infer, x = network("V3", dtype)
    serve = freeze(infer.get_concrete_function(x), weight_format="int8")
    assert parity.difference(serve(x), infer(x)) <= parity.TOLERANCES[dtype]


def test_eight_bits_take_little_memory():
    model, x = make_model(units=256), tf.constant(X)
    used = {}
    for weights in FORMATS:
        serve = freeze(model, weight_format=weights)
        serve(x)
        used[weights] = packed_weights_bytes()
        del serve
        gc.collect()
    # Kernels of [features, 4 * units] and recurrent kernels of [units, 4 * units], in each direction of the first layer
    # and in the second layer, whose features are the units of both directions. Biases and scales add a little.
    units = 256
    kernels, recurrent_kernels = (2 * FEATURES + 2 * units) * 4 * units, (2 * units + units) * 4 * units
    assert 1 < used["float32"] / (4 * (kernels + recurrent_kernels)) < 1.05
    assert 1 < used["int8"] / (2 * kernels + recurrent_kernels) < 1.05
    assert used["bfloat16"] <= used["float32"]


def test_equal_weights_are_shared(tmp_path):
    model = make_model()
    functions = [freeze(model), freeze(model)]
    with accelerate_keras(exports="float32"):
        model.export(tmp_path, verbose=False)
    loaded = [tf.saved_model.load(tmp_path) for _ in range(2)]
    used = []
    for serve in (*functions, *(each.serve for each in loaded)):
        serve(X)
        used.append(packed_weights_bytes())
    assert used[0] > 0
    assert used == used[:1] * 4


def test_nested_inputs():
    inputs = {"x": keras.Input([None, FEATURES]), "h": keras.Input([UNITS])}
    h = keras.layers.GRU(UNITS)(inputs["x"], initial_state=inputs["h"])
    model = keras.Model(inputs, {"h": h, "sum": keras.ops.sum(h, 1)})
    x = {"x": tf.constant(X), "h": tf.constant(data(len(X), UNITS, dtype="float32"))}
    actual, expected = freeze(model)(x), model(x)
    assert actual.keys() == expected.keys()
    for name, each in expected.items():
        check(actual[name], each)


def test_a_lookup_table_and_strings():
    lookup = keras.layers.StringLookup(vocabulary=["a", "b"])
    embedding, lstm = keras.layers.Embedding(3, FEATURES), layers.LSTM(UNITS)
    words = tf.constant([["a", "c", "b"]])

    def infer(words):
        return {"h": lstm(embedding(lookup(words))), "words": words}

    expected = infer(words)
    serve = freeze(tf.function(infer).get_concrete_function(tf.TensorSpec([None, None], tf.string)))
    check(serve(words)["h"], expected["h"])
    assert serve(words=words)["words"].numpy().tolist() == words.numpy().tolist()


@pytest.mark.parametrize("weights", FORMATS)
@pytest.mark.parametrize("way", ["model.export", "saved_model.save"])
def test_an_export_packs_its_weights_once(tmp_path, way, weights):
    model = make_model()
    with accelerate_keras(exports=weights):
        model.export(tmp_path, verbose=False) if way == "model.export" else tf.saved_model.save(model, tmp_path)
    loaded = tf.saved_model.load(tmp_path)
    serve = loaded.signatures["serving_default"]
    (actual,) = serve(tf.constant(X)).values()
    check(actual, model(X), weights)
    assert packed_weights_bytes() > 0
    # If weights are assigned, they are packed again.
    for variable in (each for each in serve.variables if each.dtype.is_floating):
        variable.assign(0.7 * variable)
    model.set_weights([0.7 * each for each in model.get_weights()])
    (actual,) = serve(tf.constant(X)).values()
    check(actual, model(X), weights)


@pytest.mark.parametrize("weights", ["float32", "int8"])
def test_a_loaded_export_trains_as_one_that_is_portable(weights, tmp_path):
    """The gradient runs the op again, on the variables."""
    model = make_model()
    with accelerate_keras(exports=weights):
        model.export(tmp_path / "packed", verbose=False)
    model.export(tmp_path / "portable", verbose=False)
    gradients = []
    for name in ("packed", "portable"):
        loaded = tf.saved_model.load(tmp_path / name)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(loaded.serve(X))
        gradients.append(tape.gradient(loss, loaded.variables))
    for actual, expected in zip(*gradients, strict=True):
        if expected is not None:  # of the state of a seed generator
            check(actual, expected, weights)


def test_training_functions_are_not_marked(tmp_path):
    model = make_model()
    archive = keras.export.ExportArchive()
    archive.track(model)
    with accelerate_keras(exports="int8"):
        archive.add_endpoint("train", lambda x: model(x, training=True), [tf.TensorSpec([None, None, FEATURES])])
        archive.write_out(tmp_path, verbose=False)
    assert b"_tf_rnn_ops_constant_weights" not in (tmp_path / "saved_model.pb").read_bytes()
    loaded = tf.saved_model.load(tmp_path)
    check(loaded.train(X), model(X))


def test_the_last_format_of_accelerations_counts(tmp_path):
    model = make_model()
    with accelerate_keras(exports="int8"), accelerate_keras(exports="float32"), accelerate_keras(exports="op"):
        model.export(tmp_path, verbose=False)
    loaded = tf.saved_model.load(tmp_path)
    check(loaded.serve(X), model(X))
    assert packed_weights_bytes() > 0


def test_cudnn_layers_are_exported_with_packed_weights(tmp_path):
    layer = layers.CudnnLSTM(UNITS, num_layers=2)
    layer.build([None, None, FEATURES])
    randomize(layer)
    layer.set_weights([each / UNITS**0.5 for each in layer.get_weights()])
    model = keras.Sequential([keras.Input([None, FEATURES]), layer])
    with accelerate_keras(exports="int8"):
        model.export(tmp_path, verbose=False)
    loaded = tf.saved_model.load(tmp_path)
    check(loaded.serve(X), model(X), "int8")
    assert packed_weights_bytes() > 0


def test_a_cell_called_step_by_step_is_exported_with_packed_weights(tmp_path):
    cell = keras.layers.LSTMCell(UNITS)
    cell.build([1, FEATURES])
    module = tf.Module()
    module.cell = cell
    with accelerate_keras(exports="float32"):
        module.step = tf.function(cell, input_signature=[tf.TensorSpec([1, FEATURES]), [tf.TensorSpec([1, UNITS])] * 2])
        tf.saved_model.save(module, tmp_path)
    x, states = tf.constant(X[:1, 0]), [tf.zeros([1, UNITS])] * 2
    loaded = tf.saved_model.load(tmp_path)
    check(loaded.step(x, states)[0], cell(x, states)[0])
    assert packed_weights_bytes() > 0


# ---------------------------------------------------------------- functions with the ops


def network(version, dtype="float32", **options):
    """Returns a function of a network's input with an op and variables, and the input."""
    config = cudnn_rnn.sized((TIME, 3, FEATURES, UNITS), num_layers=2, **options)
    arguments = cudnn_rnn.forward_arguments(config, cudnn_rnn.network_inputs(config), version)
    arguments = {name: tf.cast(each, dtype) if name in cudnn_rnn.INPUTS else each for name, each in arguments.items()}
    arguments["params"] = tf.Variable(arguments["params"])
    x = tf.constant(arguments.pop("input"))
    op = getattr(raw_ops, f"CudnnRNN{version}")

    @tf.function(reduce_retracing=True)
    def infer(x):
        return op(input=x, **{**arguments, "is_training": False}).output

    return infer, x


@pytest.mark.parametrize("weights", FORMATS)
@pytest.mark.parametrize("version", cudnn_rnn.VERSIONS)
@pytest.mark.parametrize("rnn_mode", cudnn_rnn.MODES)
def test_functions_with_the_cudnn_ops(rnn_mode, version, weights):
    infer, x = network(version, rnn_mode=rnn_mode, direction="bidirectional")
    serve = freeze(infer.get_concrete_function(x), weight_format=weights)
    check(serve(x), infer(x), weights)
    assert packed_weights_bytes() > 0


def test_the_own_ops_of_tensorflow():
    forked.run_code(
        """
        import tensorflow as tf
        import tf_rnn_ops
        tf_rnn_ops.enable_builtin_kernels()
        params, state = tf.Variable(tf.random.normal([4 * 20 * 24 + 160]) / 5), tf.zeros([1, 2, 20])
        @tf.function
        def infer(x):
            states = {"input_h": state, "input_c": state}
            return tf.raw_ops.CudnnRNN(input=x, params=params.read_value(), **states, is_training=False).output
        x = tf.random.normal([7, 2, 4])
        serve = tf_rnn_ops.freeze(infer.get_concrete_function(x), weight_format="int8")
        assert abs(serve(x) - infer(x)).numpy().max() < 0.05
        assert tf_rnn_ops.packed_weights_bytes() > 0
        """
    )


def test_a_loop_with_the_op():
    """The weights of the op are those of the graph around the loop."""
    infer, x = network("V2")

    @tf.function
    def loop(x, steps):
        total = tf.zeros_like(x[0, 0, 0])
        for _ in tf.range(steps):
            total += tf.reduce_sum(infer(x))
        return total

    serve = freeze(loop.get_concrete_function(x, tf.TensorSpec([], tf.int32)))
    check(serve(x, tf.constant(3)), loop(x, tf.constant(3)))
    assert packed_weights_bytes() > 0


def test_python_arguments():
    layer = layers.GRU(UNITS)

    @tf.function
    def infer(x, training=False, mask=None):
        return {"h": layer(x, training=training, mask=mask), "nothing": None}

    expected = infer(X)
    serve = freeze(infer.get_concrete_function(tf.TensorSpec(X.shape)))
    check(serve(tf.constant(X))["h"], expected["h"])


def test_weights_that_are_arguments():
    """They are not constant: the op packs them in each call, in float32."""
    arguments = keras_rnn.arguments("lstm", "float32", units=UNITS, features=FEATURES)
    kernel = arguments.pop("kernel")

    @tf.function
    def infer(kernel):
        return raw_ops.KerasRNN(**arguments, kernel=kernel, is_training=False).outputs

    serve = freeze(infer.get_concrete_function(kernel), weight_format="int8")
    for factor in (1.0, 0.5, 0.0, 1.0):
        check(serve(factor * kernel), infer(factor * kernel))
    assert packed_weights_bytes() == 0


@pytest.mark.parametrize("where", ["graph", "loop", "one of two"])
def test_constants_of_any_graph(where):
    """Without `freeze`, the op library finds them."""
    arguments = keras_rnn.arguments("lstm", "float32", units=UNITS, features=FEATURES)
    values = {name: each.numpy() for name, each in arguments.items()}
    sequences, kernel = values.pop("sequences"), values.pop("kernel")

    def infer(sequences, kernel):
        return raw_ops.KerasRNN(**values, sequences=sequences, kernel=kernel, is_training=False).outputs

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float32, sequences.shape)
        choice = tf.compat.v1.placeholder(tf.bool, [])
        if where == "graph":
            outputs = infer(x, tf.constant(kernel))
        elif where == "loop":
            start = [0, tf.zeros([len(sequences), UNITS])]
            outputs = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y + infer(x, kernel)), start)[1]
        else:
            outputs = infer(x, tf.cond(choice, lambda: tf.constant(kernel), lambda: tf.constant(-kernel)))
        actual = [session.run(outputs, {x: sequences, choice: each}) for each in (True, False)]
        assert (packed_weights_bytes() > 0) == (where != "one of two")
    sign = -1 if where == "one of two" else 1
    for each, factor in zip(actual, (1, sign), strict=True):
        check(each, (3 if where == "loop" else 1) * infer(sequences, factor * kernel))


def squeezed(rows):
    return [tf.squeeze(each, [0]) for each in rows]


# Biases of a GRU that are stacked again, of rows of a matrix of two rows.
STACKED = {
    "both rows": lambda b: tf.stack(tf.unstack(b)),
    "both rows of a split": lambda b: tf.identity(tf.stack(squeezed(tf.split(b, 2)))),
    "both rows, the second first": lambda b: tf.stack(tf.unstack(b)[::-1]),
    "the first row twice": lambda b: tf.stack([tf.unstack(b)[0]] * 2),
    "a row and a computed one": lambda b: tf.stack([tf.unstack(b)[0], tf.reduce_sum(b, 0)]),
    "rows of two matrices": lambda b: tf.stack([tf.unstack(b)[0], tf.unstack(tf.tanh(b))[1]]),
    "rows of two outputs": lambda b: tf.stack(
        [tf.unstack(each)[i] for i, each in enumerate(tf.split(tf.concat([b, -b], 1), 2, 1))]
    ),
    "two of three rows": lambda b: tf.stack(tf.unstack(tf.concat([b, b[:1]], 0))[1:]),
    "two of three rows of a split": lambda b: tf.stack(squeezed(tf.split(tf.concat([b, b[:1]], 0), 3))[:2]),
    "columns": lambda b: tf.stack(tf.unstack(tf.transpose(b), axis=1)),
    "columns of a split": lambda b: tf.stack(squeezed(tf.split(tf.reshape(b, [1, -1]), 2, axis=1))),
    "rows without an axis": lambda b: tf.stack(squeezed(tf.unstack(b[:, tf.newaxis]))),
}


@pytest.mark.parametrize("name", STACKED)
def test_a_bias_that_is_stacked_again(name):
    """Only if it is the matrix, the op may take the matrix in its place."""
    arguments = keras_rnn.arguments("gru", "float32")
    bias = arguments.pop("bias")

    def infer(bias):
        return raw_ops.KerasRNN(**arguments, bias=STACKED[name](bias), rnn_mode="gru", is_training=False).outputs

    check(tf.function(infer, autograph=False)(bias), infer(bias))


# ---------------------------------------------------------------- the formats


def quantized(x, axis):
    """Returns the nearest multiples of a 16319th of the largest magnitude along an axis, and their last 7 bits."""
    scale = np.abs(x).max(axis, keepdims=True).astype(np.float64) / 16319
    integers = np.rint(x / np.where(scale == 0, 1, scale))
    return integers * scale, ((integers + 64) % 128 - 64) * scale


@given(
    units=st.integers(1, 70),
    features=st.integers(1, 70),
    batch=st.integers(1, 9),
    seed=st.integers(0, 1000),
    orders=st.integers(0, 30),
    zero=st.sampled_from([None, "row", "feature"]),
)
def test_the_bits_of_the_input_are_those_of_the_largest_contribution(units, features, batch, seed, orders, zero):
    """One step of a network from a state of zeros, against the formula.

    Args:
      units: the network's units.
      features: the network's features.
      batch: the number of sequences.
      seed: of the random numbers.
      orders: orders of magnitude between the smallest and the largest feature.
      zero: what is zero: a row of the input, or the weights of a feature.
    """
    x, kernel = data(batch, 1, features, dtype="float32", seed=seed), data(features, units, dtype="float32", seed=seed)
    x *= 10 ** np.linspace(-orders / 2, orders / 2, features, dtype="float32")
    if zero == "row":
        x[0] = 0
    if zero == "feature":
        kernel[0] = 0

    @tf.function
    def infer(x):
        return raw_ops.KerasRNN(
            **{"sequences": x, "mask": [], "initial_h": tf.zeros([batch, units]), "initial_c": 0.0, "kernel": kernel},
            **{"recurrent_kernel": tf.eye(units), "bias": [], "rnn_mode": "rnn_relu", "is_training": False},
        ).outputs

    actual = freeze(infer.get_concrete_function(tf.constant(x)), weight_format="int8")(tf.constant(x))
    with np.errstate(divide="ignore"):
        factors = 2 ** np.rint(np.log2(np.abs(kernel).max(1)))  # 0 for a row of zeros
    inputs = x[:, 0] * factors
    weights = kernel / np.where(factors == 0, 1, factors)[:, np.newaxis]
    (whole, last), (whole_weights, last_weights) = quantized(inputs, 1), quantized(weights, 0)
    expected = np.maximum(whole @ whole_weights - last @ last_weights, 0)
    # An element between two integers may round to either.
    steps = np.abs(inputs).max(1, keepdims=True) * np.abs(weights).max(0) / 16319
    difference = np.abs(actual.numpy().reshape(expected.shape) - expected)
    assert np.quantile(difference - 1e-3 * steps, 0.5) <= 1e-6 * expected.max()
    assert (difference <= 3 * steps + 1e-6 * expected.max()).all()


def a_large_feature(x, kernel, bias):
    """A price beside features of ordinary size, with weights as training makes them."""
    x[..., 0] = 1000 + 10 * x[..., 0]
    kernel[0] /= 1000


def a_mean_that_the_bias_cancels(x, kernel, bias):
    """A feature whose changes matter, not its mean."""
    x[..., 0] = 1000 + 10 * x[..., 0]
    bias.reshape(-1, bias.shape[-1])[0] -= 1000 * kernel[0]


def six_orders_of_magnitude(x, kernel, bias):
    """Features in different units."""
    magnitudes = np.logspace(-3, 3, FEATURES)
    x *= magnitudes
    kernel /= magnitudes[:, np.newaxis]


@pytest.mark.parametrize("op", ["KerasRNN", "CudnnRNN"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", [a_large_feature, a_mean_that_the_bias_cancels, six_orders_of_magnitude])
def test_eight_bits_with_features_of_different_size(change, kind, op):
    units, x = 64, data(64, 30, FEATURES)
    keras.utils.set_random_seed(0)
    layer, wide = (
        keras.layers.Bidirectional(KERAS[kind](units, return_sequences=True, dtype=dtype), dtype=dtype)
        for dtype in ("float32", "float64")
    )
    for each in (layer, wide):
        each.build([None, None, FEATURES])
    weights = layer.get_weights()
    change(x, weights[0], weights[2])
    change(x.copy(), weights[3], weights[5])
    x = x.astype("float32")
    layer.set_weights(weights)
    wide.set_weights(weights)
    if op == "CudnnRNN":
        mode = {"LSTM": "lstm", "GRU": "gru", "SimpleRNN": "rnn_tanh"}[kind]
        of_layer = params.layout(mode, units, FEATURES, direction="bidirectional")
        layer = layers.CudnnRNN.from_params(of_layer, params.from_keras(of_layer, weights), return_sequences=True)
    serve = freeze(keras.Sequential([keras.Input([None, FEATURES]), layer]), weight_format="int8")
    check(serve(tf.constant(x)), wide(x.astype("float64")), "int8")

    # A step from a state of zeros multiplies nothing in 8 bits.
    x = x[:, :1]
    expected = wide(x.astype("float64")).numpy()
    contributions = np.abs(x).max((0, 1)) * np.abs(np.concatenate([weights[0], weights[3]], 1)).max(1)
    assert np.abs(serve(tf.constant(x)) - expected).max() < 1e-4 * contributions.max()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["kernel", "sequences"])
def test_eight_bits_of_what_is_not_finite(where, value):
    """Results that depend on it are not finite either, or, if it is an infinite input, huge. Others do not change."""
    arguments = keras_rnn.arguments("rnn_relu", "float32", batch=2, time=1, units=3, features=2)
    arguments |= {"initial_h": tf.zeros([2, 3]), "rnn_mode": "rnn_relu"}
    expected = raw_ops.KerasRNN(**arguments, is_training=False).outputs.numpy()
    arguments[where] = arguments[where].numpy()
    arguments[where][(0, 0) if where == "kernel" else (0, 0, 0)] = value
    serve = freeze(
        tf.function(lambda: raw_ops.KerasRNN(**arguments, is_training=False).outputs).get_concrete_function(),
        weight_format="int8",
    )
    actual = serve().numpy().reshape(2, 3)
    reached = (slice(None), 0) if where == "kernel" else (0, slice(None))
    if where == "kernel" or np.isnan(value):
        assert not np.isfinite(actual[reached]).any()
    else:
        is_positive = value * np.array(arguments["kernel"])[0] > 0
        assert 0 < sum(is_positive) < 3
        assert np.isfinite(actual[reached]).all()
        assert ((actual[reached] > 1e29) == is_positive).all()
        assert (actual[reached][~is_positive] == 0).all()
    is_reached = np.zeros([2, 3], bool)
    is_reached[reached] = True
    check(actual[~is_reached], expected.reshape(2, 3)[~is_reached], "int8")


@pytest.mark.parametrize("kind", KINDS)
def test_gates_saturate_at_infinite_inputs(kind):
    """As in float32. Later steps are right."""
    model = make_model(kind)
    x = np.array(X)
    x[0, 1, 0], x[1, 2, 1], x[2, 0, 2] = np.inf, -np.inf, 3e38
    expected = model(x)
    assert np.isfinite(expected).all()
    serve = freeze(model, weight_format="int8")
    check(serve(tf.constant(x)), expected, "int8")
    # float32 has the difference of two infinities here.
    x[0, 1] = np.inf
    actual = serve(tf.constant(x))
    assert np.isfinite(actual).all()
    check(actual[1:], expected[1:], "int8")


@pytest.mark.parametrize(("features", "computed"), [(66_000, "int8"), (67_000, "float32"), (140_000, "float32")])
def test_more_terms_than_the_sums_of_eight_bits_hold(features, computed):
    """All products have the same sign. A layer with more than 66 052 features keeps float32."""
    layer = layers.SimpleRNN(2, kernel_initializer="ones")
    x = tf.fill([1, 1, features], 1 / features)
    expected = layer(x)
    serve = freeze(tf.function(lambda x: layer(x)).get_concrete_function(x), weight_format="int8")
    check(serve(x), expected, computed)


@needs_xla
def test_xla_ignores_the_format():
    model = make_model()
    serve = freeze(model, weight_format="int8")
    check(tf.function(serve, jit_compile=True)(tf.constant(X)), model(X))


# ---------------------------------------------------------------- memory of weights


def aligned(value):
    """Returns a copy of an array in memory that TensorFlow takes without a copy."""
    size = value.size * value.itemsize
    memory = np.zeros(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    array = memory[start : start + size].view(value.dtype).reshape(value.shape)
    array[...] = value
    return array


def from_torch(array):
    torch = pytest.importorskip("torch")
    return tf.experimental.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(torch.from_numpy(array)))


def from_checkpoint(variable, array, folder):
    path = tf.train.Checkpoint(v=tf.Variable(array)).write(str(folder / "checkpoint"))
    tf.train.Checkpoint(v=variable).read(path).assert_consumed()


def from_function(function):
    """Returns a way to assign what a Python function returns in a graph."""

    def assign(variable, array, _):
        @tf.function
        def update():
            variable.assign(tf.ensure_shape(function(lambda: array, [], tf.float32), array.shape))

        update()

    return assign


def from_another_variable(variable, array, _):
    other = tf.Variable(array)
    variable.assign(other)
    other.assign_add(array)


# How a program assigns to a variable, and whether its weights are then packed once: not if they are in memory that
# another program, or whoever passed them to TensorFlow, can write to.
ASSIGNMENTS = {
    "difference": (lambda v, array, _: v.assign_add(array - v), True),
    "elements": (lambda v, array, _: v[:].assign(array), True),
    "rows": (lambda v, array, _: v.scatter_update(tf.IndexedSlices(array, tf.range(len(array)))), True),
    "step of an optimizer": (
        lambda v, array, _: tf.raw_ops.ResourceApplyGradientDescent(var=v.handle, alpha=1.0, delta=v - array),
        True,
    ),
    "checkpoint": (from_checkpoint, True),
    "slice": (lambda v, array, _: v.assign(tf.stack([array, array])[1]), True),
    "another shape": (lambda v, array, _: v.assign(tf.reshape(tf.reshape(array * 1, [-1]), array.shape)), False),
    "another variable": (from_another_variable, False),
    "array": (lambda v, array, _: v.assign(array), False),
    "constant": (lambda v, array, _: v.assign(tf.constant(array)), False),
    "DLPack": (lambda v, array, _: v.assign(tf.experimental.dlpack.from_dlpack(array.__dlpack__())), False),
    "PyTorch": (lambda v, array, _: v.assign(from_torch(array)), False),
    "numpy_function": (from_function(tf.numpy_function), False),
    "py_function": (from_function(tf.py_function), False),
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Returns a layer, and the folder with its export with packed weights."""
    model = keras.Sequential([keras.Input([None, FEATURES]), keras.layers.LSTM(UNITS)])
    randomize(model)
    folder = tmp_path_factory.mktemp("exported")
    with accelerate_keras(exports="float32"):
        model.export(folder, verbose=False)
    return model, folder


def weights_in_the_same_memory(model):
    """Returns arrays like the weights of a model, and pairs: a function that fills them, and the expected results."""
    weights = model.get_weights()
    arrays = [aligned(each) for each in weights]

    def fill(factor):
        for array, each in zip(arrays, weights, strict=True):
            array[...] = np.float32(factor / UNITS**0.5) * each

    pairs = []
    for factor in (1, 0.5, -1):
        fill(factor)
        model.set_weights(arrays)
        pairs.append((functools.partial(fill, factor), model(X).numpy()))
    model.set_weights(weights)
    return arrays, pairs


@pytest.mark.parametrize("way", ASSIGNMENTS)
def test_results_are_those_of_the_assigned_weights(way, exported, tmp_path):
    """Also if an assignment leaves weights at the same address."""
    assign, are_packed = ASSIGNMENTS[way]
    model, folder = exported
    loaded = tf.saved_model.load(folder)
    arrays, pairs = weights_in_the_same_memory(model)
    for fill, expected in pairs:
        fill()
        for array in arrays:
            assign(next(each for each in loaded.variables if each.shape == array.shape), array, tmp_path)
        for _ in range(2):
            check(loaded.serve(X), expected)
        assert (packed_weights_bytes() > 0) == are_packed


def test_results_are_those_of_weights_assigned_in_a_session(exported):
    """A session takes the memory of an array that is fed for an assignment."""
    model, folder = exported
    arrays, pairs = weights_in_the_same_memory(model)
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, v1.Session() as session:
        signature = v1.saved_model.load(session, ["serve"], str(folder)).signature_def["serving_default"]
        (x,), (y,) = signature.inputs.values(), signature.outputs.values()
        handles = [each.outputs[0] for each in graph.get_operations() if each.type == "VarHandleOp"]
        feeds = {v1.placeholder(tf.float32, each.shape): each for each in arrays}
        assignments = [
            tf.raw_ops.AssignVariableOp(resource=handle, value=value)
            for value in feeds
            for handle in handles
            if tf.TensorShape(handle.op.get_attr("shape")) == value.shape
        ]
        for fill, expected in pairs:
            fill()
            session.run(assignments, feeds)
            check(session.run(y.name, {x.name: X}), expected)
            assert packed_weights_bytes() == 0


KINDS_OF_WEIGHTS = ["constant", "variable", "marked variable", "reference variable", "partitioned variable"]


@pytest.mark.parametrize("kind", KINDS_OF_WEIGHTS)
@pytest.mark.parametrize("op", ["KerasRNN", "CudnnRNNV3"])
def test_weights_that_some_runs_feed(op, kind):
    """A session keeps the kernel of a stateful op, also for runs that feed its weights."""
    if op == "KerasRNN":
        arguments = keras_rnn.arguments("lstm", "float32", units=UNITS, features=FEATURES)
        arguments, name, sequences = {each: arguments[each].numpy() for each in arguments}, "kernel", "sequences"
    else:
        config = cudnn_rnn.sized((TIME, 3, FEATURES, UNITS))
        inputs = cudnn_rnn.network_inputs(config, "float32")
        arguments, name, sequences = cudnn_rnn.forward_arguments(config, inputs, "V3"), "params", "input"
    weights, x = np.array(arguments.pop(name)), arguments.pop(sequences)
    run = functools.partial(getattr(raw_ops, op), **{**arguments, "is_training": False})
    expected = {factor: run(**{sequences: x, name: weights * np.float32(factor)})[0] for factor in (1, 0.5, -1)}
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        if kind == "constant":
            value = tf.constant(weights)
        else:
            partitioner = v1.fixed_size_partitioner(2) if kind == "partitioned variable" else None
            with v1.variable_scope("weights", use_resource=kind != "reference variable", partitioner=partitioner):
                initial = v1.random_normal_initializer() if partitioner else v1.constant_initializer(weights)
                value = tf.convert_to_tensor(v1.get_variable("v", weights.shape, tf.float32, initial))
        given = v1.placeholder(tf.float32, x.shape)
        output = run(**{sequences: given, name: value})[0]
        if kind == "marked variable":  # as in an export
            _constant_weights.mark(output.op, "float32")
        session.run(v1.global_variables_initializer())
        if kind == "partitioned variable":
            parts = np.array_split(weights, 2)
            session.run([each.assign(part) for each, part in zip(v1.global_variables(), parts, strict=True)])
        array = aligned(weights)
        for factor in (None, 0.5, -1, None, 1, None, 0.5):
            if factor is not None:
                array[...] = weights * np.float32(factor)
            feeds = {} if factor is None else {value: array}
            check(session.run(output, {given: x, **feeds}), expected[factor or 1])
        assert (packed_weights_bytes() > 0) == (kind in ("constant", "marked variable"))
        if kind == "reference variable":  # an assignment writes to the same memory
            (variable,) = v1.global_variables()
            session.run(variable.assign(-weights))
            check(session.run(output, {given: x}), expected[-1])


# ---------------------------------------------------------------- threads


def test_threads_that_pack_run_and_assign(tmp_path):
    """Each result is that of one of the two sets of weights."""
    model = make_model("GRU")
    with accelerate_keras(exports="float32"):
        model.export(tmp_path, verbose=False)
    loaded = tf.saved_model.load(tmp_path)
    kernel = next(each for each in loaded.variables if each.shape == [2 * UNITS, 3 * UNITS])
    sets, expected = [kernel.numpy(), 0.3 * kernel.numpy()], []
    for weights in sets:
        kernel.assign(weights)
        expected.append(loaded.serve(X).numpy())
    results, ends = [], threading.Event()

    def serve():
        while not ends.is_set():
            results.append(loaded.serve(X).numpy())

    threads = [threading.Thread(target=serve) for _ in range(4)]
    for each in threads:
        each.start()
    for i in range(200):
        kernel.assign(sets[i % 2])
    ends.set()
    for each in threads:
        each.join()
    assert np.array_equal(loaded.serve(X), expected[1])  # the last assignment
    assert results
    assert all(any(np.array_equal(each, wanted) for wanted in expected) for each in results)


# ---------------------------------------------------------------- bad input


def test_arguments_of_freeze():
    model = make_model()
    with pytest.raises(ValueError, match='weight_format must be "float32", "bfloat16" or "int8", but is \'int4\''):
        freeze(model, weight_format="int4")
    with pytest.raises(TypeError, match=r"function must be a Keras model or a concrete function.*, but is a function"):
        freeze(lambda x: x)
    with pytest.raises(ValueError, match="model with known inputs, but 'unbuilt' has none"):
        freeze(keras.Sequential([keras.layers.LSTM(4)], name="unbuilt"))
    with pytest.raises(ValueError, match=r"function must contain one of CudnnRNN, .* with is_training=False"):
        freeze(keras.Sequential([keras.Input([3]), keras.layers.Dense(2)]))
    layer = layers.LSTM(4)
    layer.build(X.shape)
    trains = tf.function(lambda x: layer(x, training=True))
    with pytest.raises(ValueError, match="with is_training=False, but does not"):
        freeze(trains.get_concrete_function(tf.constant(X)))


def test_arguments_of_accelerate_keras():
    message = 'exports must be "portable", "op", "float32", "bfloat16" or "int8", but is 8'
    with pytest.raises(ValueError, match=message):
        accelerate_keras(exports=8)


def test_the_attribute_of_an_op():
    """A graph from elsewhere may have any value. TensorFlow runs the op's code also to infer shapes."""
    with tf.Graph().as_default() as graph:
        raw_ops.KerasRNN(**keras_rnn.arguments("lstm", "float32"), is_training=False, name="rnn")
        definition = graph.as_graph_def()
    next(node for node in definition.node if node.name == "rnn").attr["_tf_rnn_ops_constant_weights"].s = b"int3"
    message = 'must be "float32", "bfloat16" or "int8", but is "int3"'
    with tf.Graph().as_default(), pytest.raises(ValueError, match=message):
        tf.graph_util.import_graph_def(definition, return_elements=["rnn:0"])


@pytest.mark.parametrize("cell", [keras.layers.LSTMCell, keras.layers.GRUCell])
def test_freezing_a_cell_in_a_loop_needs_a_batch_of_one(cell):
    class Loop(keras.Model):
        def __init__(self):
            super().__init__()
            self.cell = cell(UNITS)

        def call(self, x):
            h, states = (
                None,
                self.cell.get_initial_state(batch_size=tf.shape(x)[0] if x.shape[0] is None else x.shape[0]),
            )
            for step in tf.unstack(x, TIME, axis=1):
                h, states = self.cell(step, states)
            return h

    for batch in (None, 1):
        inputs = keras.Input(batch_shape=[batch, TIME, FEATURES])
        model = keras.Model(inputs, Loop()(inputs))
        if batch is None:
            with pytest.raises(ValueError, match=r"(?s)with is_training=False, but does not:.*cell.*static batch of 1"):
                freeze(model)
        else:
            check(freeze(model)(tf.constant(X[:1])), model(X[:1]))


def test_freezing_a_model_without_the_op_explains_its_layers():
    model = keras.Sequential([keras.Input([TIME, FEATURES]), keras.layers.LSTM(4, activation="softmax", name="a")])
    with pytest.raises(ValueError, match=r"(?s)but does not:\n.*a +LSTM +Keras +Keras +1\n1\. activation='softmax': "):
        freeze(model)


def test_freezing_a_model_of_keras_2():
    tf_keras = pytest.importorskip("tf_keras")
    first, second = tf_keras.Input([TIME, FEATURES]), tf_keras.Input([TIME, FEATURES])
    model = tf_keras.Model({"a": first, "b": second}, tf_keras.layers.LSTM(4)(first + second))
    inputs = {"a": tf.constant(X), "b": tf.constant(X)}
    check(freeze(model)(inputs), model(inputs))


def test_freezing_does_not_warn_of_tables(caplog):
    """Keras adds None to a collection of the graph. It stays there for the process."""
    keras.layers.StringLookup(vocabulary=["a"])
    assert tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.TABLE_INITIALIZERS)
    freeze(make_model())
    assert not caplog.records


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("kind", ["LSTM", "CudnnLSTM"])
def test_an_export_with_mixed_precision_packs_weights_or_logs_that_it_does_not(tmp_path, caplog, kind, policy):
    """The cast of a CudnnRNN layer makes other memory in each call. `freeze` computes it once."""

    def make(dtype):
        kinds = (layers.CudnnLSTM,) if kind == "CudnnLSTM" else (keras.layers.LSTM, keras.layers.GRU)
        of_kinds = [each(UNITS, return_sequences=True, dtype=dtype) for each in kinds]
        return keras.Sequential([keras.Input([None, FEATURES]), *of_kinds])

    model, float32 = make(policy), make("float32")
    float32.set_weights(model.get_weights())
    is_cast = kind == "CudnnLSTM"
    for name, each, num_logged in (("mixed", model, 1), ("float32", float32, 1), ("again", model, 2)):
        with accelerate_keras(exports="int8"):
            each.export(tmp_path / name, verbose=False)
        loaded = tf.saved_model.load(tmp_path / name)
        check(loaded.serve(X), model(X), "int8")
        assert (packed_weights_bytes() > 0) == (name == "float32" or not is_cast)
        del loaded
        gc.collect()
        logged = [record.getMessage() for record in caplog.records if record.name == "tf_rnn_ops"]
        assert len(logged) == num_logged * is_cast
    assert all(each.startswith("exports='int8' has no effect on CudnnRNN layers with mixed") for each in logged)
    serve = freeze(model)
    serve(tf.constant(X))
    assert packed_weights_bytes() > 0


@pytest.mark.parametrize("implementation", [1, 2])
def test_freezing_layers_with_dropout(implementation):
    """Keras draws seeds in inference too."""
    make = functools.partial(keras.layers.LSTM, UNITS, dropout=0.5, implementation=implementation)
    model = keras.Sequential([keras.Input([None, FEATURES]), make(return_sequences=True), make(recurrent_dropout=0.5)])
    expected, serve = model(X), freeze(model)
    del model
    gc.collect()
    check(serve(tf.constant(X)), expected)
    assert packed_weights_bytes() > 0


def test_freezing_keeps_variables_that_a_loop_assigns():
    model = keras.Sequential([keras.Input(batch_shape=X.shape), keras.layers.GRU(UNITS, stateful=True)])
    count, scale = tf.Variable(0), tf.Variable(2.0)

    @tf.function
    def step():
        count.assign_add(1)

    @tf.function
    def infer(x):
        for _ in tf.range(3):
            step()
        return scale * model(x), count + 0

    with accelerate_keras():
        function = infer.get_concrete_function(tf.constant(X))
    serve = freeze(function)
    scale.assign(0)
    expected = [2 * model(X), 2 * model(X)]
    model.reset_states() if hasattr(model, "reset_states") else model.layers[0].reset_states()
    for i, each in enumerate(expected):
        actual, counted = serve(tf.constant(X))
        check(actual, each)
        assert counted == 3 * (i + 1)
