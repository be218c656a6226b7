"""Tests of LSTMCell, GRUCell and SimpleRNNCell in a custom loop: which calls run on the op, and equal results."""

import contextlib
import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from checks.keras_layers import (
    BATCH,
    FEATURES,
    KINDS,
    TIME,
    UNITS,
    check_accelerated,
    check_equal,
    data,
    outputs_and_gradients,
    randomize,
)
from checks.op_definitions import ops_of
from checks.saved_models import contains_op, serve

from tf_rnn_ops import accelerate_keras

CELLS = {kind: getattr(keras.layers, f"{kind}Cell") for kind in KINDS}


class CallsKeras(keras.layers.LSTMCell):
    """A subclass that modifies the result of the Keras cell."""

    def call(self, inputs, states, training=False):
        output, states = super().call(inputs, states, training)
        return -output, states


class Wrapper(keras.layers.Layer):
    """A cell that adds its inputs to the output of another cell."""

    def __init__(self):
        super().__init__(dtype="float64")
        self.cell = keras.layers.GRUCell(FEATURES, dtype="float64")
        self.state_size = FEATURES

    def call(self, inputs, states):
        output, states = self.cell(inputs, states)
        return output + inputs, states


def make_cell(cls, **arguments):
    # The default initializer, orthogonal, does not support bfloat16.
    cell = cls(UNITS, **{"dtype": "float64", "recurrent_initializer": "zeros", **arguments})
    cell.build([None, FEATURES])
    randomize(cell)
    return cell


def arguments_of(cell, batch=BATCH):
    """Returns inputs, [batch, features], and states, [batch, units], for a cell."""
    states = cell.get_initial_state(batch)
    x = tf.constant(data(batch, FEATURES, dtype=states[0].dtype.as_numpy_dtype))
    return x, [tf.constant(data(*each.shape, dtype=each.dtype.as_numpy_dtype, seed=3)) for each in states]


def steps(cell, sequences, states, **arguments):
    """Runs a cell over sequences in a Python loop. Returns the outputs, [batch, time, units], and the states."""
    outputs = []
    for x in tf.unstack(sequences, axis=1):
        output, states = cell(x, states, **arguments)
        outputs.append(output)
    return tf.stack(outputs, axis=1), states


def while_loop(cell, sequences, states):
    """Runs a cell over sequences in `tf.while_loop` and returns the final states."""

    def step(time, states):
        return time + 1, cell(sequences[:, time], states)[1]

    return tf.while_loop(lambda time, _: time < TIME, step, (0, states))[1]


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *((kind, options) for kind in KINDS for options in ({}, {"use_bias": False}, {"dropout": 0.5})),
        ("LSTM", {"activation": "relu", "recurrent_activation": "hard_sigmoid"}),
        ("GRU", {"activation": "linear", "recurrent_dropout": 0.5}),
        ("GRU", {"reset_after": False}),
        ("SimpleRNN", {"activation": "relu"}),
    ],
)
def test_equals_keras_in_eager_mode(kind, options, runs):
    cell = make_cell(CELLS[kind], **options)
    check_accelerated(runs, steps, cell, data(BATCH, TIME, FEATURES), arguments_of(cell)[1], count=TIME)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("kind", KINDS)
def test_dtypes(kind, dtype, runs):
    cell = make_cell(CELLS[kind], dtype=dtype)
    check_accelerated(runs, cell, *arguments_of(cell))


FORMS = {
    "list": lambda cell, x, states: cell(x, states),
    "tuple": lambda cell, x, states: cell(x, tuple(states)),
    "keyword": lambda cell, x, states: cell(x, states=states, training=False),
    "NumPy": lambda cell, x, states: cell(x.numpy(), [each.numpy() for each in states]),
    "call": lambda cell, x, states: cell.call(x, states, False),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_forms_of_a_call(kind, form, runs):
    cell = make_cell(CELLS[kind])
    check_accelerated(runs, FORMS[form], cell, *arguments_of(cell))


@pytest.mark.parametrize(("kind", "name"), [("GRU", "inputs"), ("SimpleRNN", "sequence")])
def test_a_single_state_by_itself_and_inputs_by_name(kind, name, runs):
    cell = make_cell(CELLS[kind])
    x, (state,) = arguments_of(cell)
    check_accelerated(runs, lambda: cell(**{name: x}, states=state))


@pytest.mark.parametrize("loop", [steps, while_loop])
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_one_sequence_in_a_graph(kind, loop, runs):
    cell = make_cell(CELLS[kind])
    x, states = tf.constant(data(1, TIME, FEATURES)), arguments_of(cell, batch=1)[1]
    variables = [x, *states, *(each.value for each in cell.trainable_variables)]

    def derivatives(function):
        """Returns the outputs, their gradients, and second-order gradients."""
        with tf.GradientTape() as tape:
            tape.watch([x, *states])
            outputs, gradients = outputs_and_gradients(lambda: function(x, states), variables)
            penalty = tf.add_n([tf.reduce_sum(each**2) for each in gradients])
        return [*outputs, *gradients, *tape.gradient(penalty, variables)]

    expected = derivatives(functools.partial(loop, cell))
    function = tf.function(functools.partial(loop, cell), autograph=False)
    with accelerate_keras():
        # Trace it without an active tape.
        count, concrete = runs.during(function.get_concrete_function, x, states)
        assert count == (TIME if loop is steps else 1)
        assert ops_of(concrete.graph.as_graph_def()).count("TfRnnOps>KerasRNN") == count
        actual = derivatives(function)
    check_equal(actual, expected, f"{kind}Cell")


def under_tape(cell, x, states):
    return outputs_and_gradients(lambda: cell(x, states), [x, *states, *(each.value for each in cell.weights)])


def under_accumulator(cell, x, states):
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
        output = cell(x, states)[0]
    return output, accumulator.jvp(output)


def in_graph(cell, x, states, batch=BATCH, **arguments):
    specs = [tf.TensorSpec([batch, each.shape[1]], each.dtype) for each in (x, *states)]
    return tf.function(lambda x, *states: cell(x, list(states)), input_signature=specs, **arguments)(x, *states)


def in_graph_with_tape(cell, x, states):
    return tf.function(functools.partial(under_tape, cell))(x[:1], [each[:1] for each in states])


def one_in_graph(cell, x, states, **arguments):
    return in_graph(cell, x[:1], [each[:1] for each in states], batch=1, **arguments)


LSTM, GRU, RNN = CELLS.values()
KEPT = {
    "training": (LSTM, {}, functools.partial(LSTM.__call__, training=True)),
    "dropout": (GRU, {"dropout": 0.5, "seed": 1}, functools.partial(GRU.__call__, training=True)),
    "tape": (LSTM, {}, under_tape),
    "accumulator": (GRU, {}, under_accumulator),
    "tape in a graph": (LSTM, {}, in_graph_with_tape),
    "sequences in a graph": (LSTM, {}, in_graph),
    "any number of sequences in a graph": (GRU, {}, functools.partial(in_graph, batch=None)),
    "SimpleRNNCell in a graph": (RNN, {}, one_in_graph),
    "XLA": (LSTM, {}, functools.partial(one_in_graph, jit_compile=True)),
    "subclass": (CallsKeras, {}, CallsKeras.__call__),
    "activation": (LSTM, {"activation": "softmax"}, LSTM.__call__),
    "autocast": (LSTM, {"autocast": False}, LSTM.__call__),
    "state for all sequences": (GRU, {}, lambda cell, x, states: cell(x, [states[0][:1]])),
    "more states": (GRU, {}, lambda cell, x, states: cell(x, [*states, *states])),
    "other inputs": (RNN, {}, lambda cell, x, states: cell.call(tf.ones([3, BATCH, FEATURES], tf.float64), states)),
    "weights without autocast": (RNN, {"dtype": "mixed_float16"}, RNN.call),
    "integers": (LSTM, {"dtype": "float32"}, lambda cell, x, states: cell(tf.cast(x, tf.int32), states)),
}


@pytest.mark.parametrize("case", KEPT)
def test_falls_back_to_keras(case, runs):
    cls, options, call = KEPT[case]
    results = []
    # A strict acceleration applies only to layers.
    for context in (contextlib.nullcontext, functools.partial(accelerate_keras, strict=True)):
        keras.utils.set_random_seed(0)
        cell = make_cell(cls, **options)
        with context():
            count, result = runs.during(call, cell, *arguments_of(cell))
        assert count == 0
        results.append(tf.nest.flatten(result))
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("make", [tf.constant, tf.Variable])
def test_weights_that_are_not_keras_variables_fall_back_to_keras(make, runs):
    """For example, a kernel that is computed from other weights."""
    cell = make_cell(LSTM)
    x, states = arguments_of(cell)
    expected = cell(x, states)[0]
    object.__setattr__(cell, "kernel", make(cell.kernel.value))
    with accelerate_keras():
        count, (actual, _) = runs.during(cell, x, states)
    np.testing.assert_array_equal(actual, expected)
    assert count == 0


def test_errors_equal_those_of_keras():
    cell = make_cell(GRU)
    x, states = arguments_of(cell)
    for bad in (tf.ones([BATCH, FEATURES + 1], tf.float64), states), (x, [tf.ones([BATCH, UNITS + 1], tf.float64)]):
        with pytest.raises(Exception) as expected:  # noqa: PT011
            cell(*bad)
        with accelerate_keras(), pytest.raises(type(expected.value)) as actual:
            cell(*bad)
        assert str(actual.value) == str(expected.value)


@pytest.mark.parametrize("kind", KINDS)
def test_draws_the_same_dropout_masks(kind):
    results = []
    for context in (contextlib.nullcontext, accelerate_keras):
        cell = make_cell(CELLS[kind], dropout=0.5, recurrent_dropout=0.3, seed=1)
        x, states = arguments_of(cell)
        with context():
            # Inference draws the masks that the next training step uses.
            results.append([cell(x, states), cell(x, states, training=True)])
    check_equal(*results, f"{kind}Cell")


def test_cells_within_other_cells(runs):
    stack = keras.layers.StackedRNNCells([make_cell(LSTM), GRU(UNITS, dtype="float64")], dtype="float64")
    for cell, cells, falls_back in (stack, 2, False), (Wrapper(), 1, True):
        sequences = tf.constant(data(BATCH, TIME, FEATURES))
        layer = keras.layers.RNN(cell, dtype="float64")
        states = tf.nest.map_structure(lambda size: tf.zeros([BATCH, size], tf.float64), cell.state_size)
        states = states if isinstance(states, list) else [states]
        expected, of_layer = steps(cell, sequences, states), layer(sequences)
        with accelerate_keras():
            count, actual = runs.during(steps, cell, sequences, states)
            within_layer, output = runs.during(layer, sequences)
        assert count == cells * TIME
        # Keras's loop calls the cell at each step. Keras may call those of a stack once more, for its dropout.
        assert within_layer >= TIME if falls_back else cells <= within_layer <= 2 * cells
        check_equal(actual, expected, "cells within a cell")
        check_equal([output], [of_layer], "cells within a cell")
        error = pytest.raises(RuntimeError, match="would fall back to Keras")
        with accelerate_keras(strict=True), error if falls_back else contextlib.nullcontext():
            layer(sequences)


class Decoder(keras.Model):
    """A model that calls a cell in a loop."""

    def __init__(self):
        super().__init__()
        self.cell = keras.layers.LSTMCell(UNITS)

    def call(self, sequences):
        return steps(self.cell, sequences, self.cell.get_initial_state(1))[0]


def decoder():
    inputs = keras.Input(batch_shape=[1, TIME, FEATURES])
    return keras.Model(inputs, Decoder()(inputs))


X = data(1, TIME, FEATURES, dtype="float32")


def test_a_model_follows_the_acceleration(runs):
    model = decoder()
    model.compile(jit_compile=False)
    predict = functools.partial(model.predict, X, batch_size=1, verbose=0)
    expected = predict()
    check_accelerated(runs, predict, count=TIME)
    np.testing.assert_array_equal(predict(), expected)


def test_a_method_of_before_runs_keras_after_the_acceleration(runs):
    cell = make_cell(LSTM)
    x, states = arguments_of(cell)
    expected = cell(x, states)
    with accelerate_keras():
        call = cell.call
    count, actual = runs.during(call, x, states)
    assert count == 0
    tf.nest.map_structure(np.testing.assert_array_equal, actual, expected)


@pytest.mark.parametrize("portable", [False, True])
def test_an_exported_model_contains_the_op_unless_portable(portable, tmp_path):
    with accelerate_keras(portable_exports=portable):
        model = decoder()
        expected = model(X)
        archive = keras.export.ExportArchive()
        archive.track(model)
        archive.add_endpoint("serve", model, [tf.TensorSpec(X.shape)])
        archive.write_out(tmp_path, verbose=False)
    assert contains_op(tmp_path) == (not portable)
    assert parity.difference(serve(tmp_path, X), expected) < 1e-5
