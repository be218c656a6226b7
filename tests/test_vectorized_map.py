"""Tests of the ops in `tf.vectorized_map` and Jacobians, without the fallback to a loop of TensorFlow."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from inputs import block_lstm as lstm_inputs
from inputs import calls, valid_calls
from inputs import gru_block_cell as gru_inputs
from inputs.pairs import every_pair

import tf_rnn_ops
from tf_rnn_ops import raw_ops

tf_rnn_ops.enable_builtin_kernels()

LAYERS = (keras.layers.LSTM, keras.layers.GRU, keras.layers.SimpleRNN)
MASK = np.array([[True, False, True, True, False]] * 2)


def mapped(function, elements):
    return tf.vectorized_map(function, elements, fallback_to_while_loop=False)


def in_turn(function, elements):
    """Returns the stacked results of one call for each element."""
    count = len(tf.nest.flatten(elements)[0])
    results = [function(tf.nest.map_structure(lambda each, i=i: each[i], elements)) for i in range(count)]
    return tf.nest.map_structure(lambda *each: tf.stack(each), *results)


def check(actual, expected):
    tf.nest.assert_same_structure(actual, expected)
    for one, other in zip(tf.nest.flatten(actual), tf.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)


def normal(*shape):
    return tf.random.normal(shape, dtype=tf.float64)


@pytest.fixture(autouse=True)
def accelerated():
    with tf_rnn_ops.accelerate_keras(strict=True):
        yield


def name_of(value):
    """Returns the name of a layer or a module, and None for other values: pytest's id."""
    return getattr(value, "__name__", None)


@pytest.mark.parametrize(
    ("make", "mask", "training", "compiled"),
    every_pair(LAYERS, [None, MASK], [False, True], [False, True]),
    ids=name_of,
)
def test_gradients_of_each_example_equal_single_calls(make, mask, training, compiled):
    layer = make(3, dtype="float64", return_sequences=True)
    layer.build((2, 5, 4))

    def gradients(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = layer(x, mask=mask, training=training)
            loss = tf.reduce_sum(outputs**2)
        return [outputs, *tape.gradient(loss, [x, *(each.value for each in layer.trainable_variables)])]

    x = normal(6, 2, 5, 4)
    function = tf.function(lambda x: mapped(gradients, x), jit_compile=compiled)
    check(function(x), in_turn(gradients, x))


@pytest.mark.parametrize("make", LAYERS, ids=lambda each: each.__name__)
def test_jacobians_equal_plain_keras(make):
    model = keras.Sequential(
        [
            make(3, dtype="float64", return_sequences=True),
            make(2, dtype="float64"),
            keras.layers.Dense(2, dtype="float64"),
        ]
    )
    x = normal(3, 5, 4)
    model(x)

    def jacobians():
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            outputs = model(x, training=True)
        weights = [each.value for each in model.trainable_variables]
        return [tape.batch_jacobian(outputs, x), *tape.jacobian(outputs, [x, *weights])]

    actual = jacobians()
    tf_rnn_ops.restore_keras()
    check(actual, jacobians())


@pytest.mark.parametrize(
    "stacked", ["initial_h", "kernel", "mask", "recurrent_kernel", "sequences", "input_masks", "state_masks"]
)
@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_tanh"])
def test_any_input_of_keras_rnn_may_differ(mode, stacked):
    gates = {"lstm": 4, "gru": 3, "rnn_tanh": 1}[mode]
    inputs = {
        "sequences": normal(2, 5, 4),
        "mask": tf.constant(MASK),
        "initial_h": normal(2, 3),
        "initial_c": normal(2, 3) if mode == "lstm" else normal(),
        "kernel": normal(4, gates * 3),
        "recurrent_kernel": normal(3, gates * 3),
        "bias": normal(0),
        "input_masks": normal(gates, 2, 4),
        "state_masks": normal(gates, 2, 3),
    }

    def run(one):
        arguments = {**inputs, stacked: one}
        masks = {name: tf.unstack(arguments.pop(name)) for name in ("input_masks", "state_masks")}
        with tf.GradientTape() as tape:
            tape.watch([arguments["sequences"], arguments["kernel"]])
            results = raw_ops.KerasRNN(**arguments, **masks, rnn_mode=mode, return_sequences=True)
            loss = tf.reduce_sum(results.outputs**2) + tf.reduce_sum(results.final_h)
        grads = tape.gradient(loss, [arguments["sequences"], arguments["kernel"]])
        return [results.outputs, results.final_h, results.final_c, *grads]

    value = inputs[stacked]
    elements = tf.stack([value, value, ~value if stacked == "mask" else 2 * value])
    check(mapped(run, elements), in_turn(run, elements))


@pytest.mark.parametrize(
    ("ops", "mode", "version", "training"),
    every_pair([raw_ops, tf.raw_ops], ["lstm", "gru"], ["", "V2", "V3", "V3 batch-major"], [False, True]),
    ids=name_of,
)
def test_cudnn_rnn(ops, mode, version, training):
    version, _, batch_major = version.partition(" ")
    size = ops.CudnnRNNParamsSize(num_layers=1, num_units=3, input_size=4, T=tf.float64, S=tf.int32, rnn_mode=mode)
    params = normal(int(size[0]))
    shape = (2, 1, 3) if batch_major else (1, 2, 3)
    options = {"sequence_lengths": [5, 3], "time_major": not batch_major} if version == "V3" else {}

    def run(x):
        state = normal(*shape) * 0 + 0.5
        with tf.GradientTape() as tape:
            tape.watch([x, params])
            run_op = getattr(ops, f"CudnnRNN{version}")
            results = run_op(
                input=x, input_h=state, input_c=state, params=params, rnn_mode=mode, is_training=training, **options
            )
            loss = tf.reduce_sum(results.output**2)
        grads = tape.gradient(loss, [x, params]) if training else []
        return [results.output, results.output_h, results.output_c, *grads]

    x = normal(4, 2, 5, 4) if batch_major else normal(4, 5, 2, 4)
    check(mapped(run, x), in_turn(run, x))


def test_a_call_that_does_not_depend_on_the_iteration_runs_once():
    state, x = tf.zeros([1, 2, 8]), tf.random.normal([5, 2, 4])
    params = tf.random.normal([tf_rnn_ops.params.layout("lstm", 8, 4).size])

    def output():
        return raw_ops.CudnnRNN(input=x, input_h=state, input_c=state, params=params, is_training=False).output

    graph = tf.function(lambda factors: mapped(lambda factor: factor * output(), factors), autograph=False)
    calls = [each for each in graph.get_concrete_function(tf.ones(3)).graph.get_operations() if "CudnnRNN" in each.type]
    assert {tuple(each.outputs[0].shape) for each in calls} == {(5, 2, 8)}
    check(graph(tf.constant([1.0, 2.0, 3.0])), tf.stack([output(), 2 * output(), 3 * output()]))


def test_dropout_draws_a_mask_for_each_iteration():
    state = tf.zeros([2, 5, 8])
    params = tf.random.normal([tf_rnn_ops.params.layout("lstm", 8, 4, num_layers=2).size])

    def run(x):
        return raw_ops.CudnnRNN(input=x, input_h=state, input_c=state, params=params, dropout=0.5).output

    first, second, third = mapped(run, tf.repeat(tf.random.normal([1, 2, 5, 4]), 3, axis=0))
    assert not np.allclose(first, second)
    assert not np.allclose(second, third)


@pytest.mark.parametrize("ours", [True, False], ids=["CudnnLSTM", "keras.layers.Dropout"])
def test_layers_draw_a_mask_for_all_iterations(ours):
    """TensorFlow runs what does not depend on the iteration once: the draw of a seed from Keras's `SeedGenerator`."""
    layer = tf_rnn_ops.layers.CudnnLSTM(8, num_layers=2, dropout=0.5) if ours else keras.layers.Dropout(0.5)
    x = tf.repeat(tf.random.normal([1, 2, 5, 4]), 3, axis=0)
    layer.build(x.shape[1:])
    (first, second, _), (other, *_) = (mapped(lambda one: layer(one, training=True), x) for _ in range(2))
    np.testing.assert_allclose(first, second, rtol=1e-6)
    assert not np.allclose(first, other)


@pytest.mark.parametrize(
    ("op", "stacked"),
    [
        *(("GRUBlockCell", name) for name in ("x", "w_ru")),
        *((op, name) for op in lstm_inputs.GRAD_OPS for name in ("x", "h_prev", "w")),
        ("BlockLSTM", "seq_len_max"),
    ],
)
@pytest.mark.parametrize("ops", [raw_ops, tf.raw_ops], ids=["ours", "builtin"])
def test_cells(ops, op, stacked):
    if op == "GRUBlockCell":
        inputs = gru_inputs.cell_inputs((2, 4, 3), "float32")
    else:
        inputs = {**lstm_inputs.steps(op, 3), **lstm_inputs.inputs(op, (5, 2, 4, 3), "float32")}

    def run(one):
        arguments = {**inputs, stacked: one}
        arguments = {name: tf.convert_to_tensor(each) for name, each in arguments.items()}
        sources = [each for each in arguments.values() if each.dtype.is_floating]
        with tf.GradientTape() as tape:
            tape.watch(sources)
            outputs = getattr(ops, op)(**arguments)
            loss = tf.reduce_sum(outputs.h**2)
        return [outputs.h, *tape.gradient(loss, sources, unconnected_gradients="zero")]

    shape = inputs[stacked].shape
    elements = tf.random.normal((3, *shape)) if shape else tf.constant([0, 5, 2], tf.int64)
    for actual, expected in zip(mapped(run, elements), in_turn(run, elements), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("stacks_all", [False, True], ids=["first_input", "all_inputs"])
@pytest.mark.parametrize("op", calls.OPS)
@pytest.mark.not_xla(
    "XLA needs the sizes of params before it compiles, and these differ between iterations",
    cases="Cudnn(RNNParamsSize|RNNCanonicalToParams|RNNParamsToCanonical(V2)?-all_inputs)",
)
def test_ranks_may_be_unknown(op, stacks_all):
    draws = (valid_calls.finite_arguments(op, "float32", (2, 3, 4), seed) for seed in itertools.count())
    arguments = next(each for each in draws if not each.get("dropout"))  # with dropout, each call draws other masks
    if "is_training" in arguments:
        arguments["is_training"] = stacks_all
    tensors = {name: arguments.pop(name) for name in calls.input_names(op)}
    floating = [name for name, each in tensors.items() if isinstance(each, np.ndarray) and each.dtype == np.float32]

    def iterations(name, value):
        # A reserve_space belongs to the inputs of its forward pass.
        is_free = name.endswith("_backprop") if "reserve_space" in tensors else name in floating
        factors = [1, 0.5, -1] if is_free else [1, 1, 1]
        return calls.map_tensors(lambda each: np.stack([each * factor for factor in factors]).astype(each.dtype), value)

    def run(one):
        return getattr(tf_rnn_ops._library.ops, f"TfRnnOps_{op}")(**{**tensors, **one}, **arguments)

    stacked = tensors if stacks_all else [*floating, *tensors][:1]
    elements = {name: calls.map_tensors(tf.constant, iterations(name, tensors[name])) for name in stacked}
    signature = tf.nest.map_structure(lambda each: tf.TensorSpec(None, each.dtype), elements)
    function = tf.function(lambda elements: mapped(run, elements), input_signature=[signature])
    for actual, expected in zip(*map(tf.nest.flatten, (function(elements), in_turn(run, elements))), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)
