"""Tests of dropout of the inputs and states of Keras layers, whose masks Keras draws.

`test_keras_layers.test_equals_keras` compares outputs, states and gradients of all arguments.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from checks.keras_layers import (
    BATCH,
    CONFIGURATIONS,
    FEATURES,
    KERAS,
    MASKS,
    OURS,
    TIME,
    UNITS,
    check_equal,
    data,
    outputs_and_gradients,
    pair,
    randomize,
    variables_of,
)
from checks.op_definitions import ops_when_called

from tf_rnn_ops import accelerate_keras, explain

X = data(BATCH, TIME, FEATURES)
WITH_DROPOUT = [name for name in CONFIGURATIONS if "recurrent dropout" in name]


@pytest.fixture
def no_fallback():
    """Makes every fallback to Keras an error."""
    with accelerate_keras(strict=True):
        yield


@pytest.mark.usefixtures("no_fallback")
@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_runs_on_the_op_in_training(configuration, runs):
    kind, arguments = CONFIGURATIONS[configuration]
    layer = OURS[kind](UNITS, dropout=0.2, **arguments)
    assert runs.during(layer, X, training=True)[0] == 1
    (row,) = explain(layer)
    assert row.training == "op"


@pytest.mark.usefixtures("no_fallback")
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_an_input_mask_for_each_gate_runs_on_the_op(kind, runs):
    layer = OURS[kind](UNITS, dropout=0.3, implementation=1)
    assert runs.during(layer, X, training=True)[0] == 1


@pytest.mark.usefixtures("no_fallback")
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_a_recurrent_dropout_of_one_drops_nothing(kind, runs):
    layer = OURS[kind](UNITS, dtype="float64")
    of_one = OURS[kind](UNITS, dtype="float64")
    for each in (layer, of_one):
        each.build(X.shape)
    of_one.set_weights(layer.get_weights())
    of_one.cell.recurrent_dropout = 1.0
    of_one.cell._recurrent_dropout_mask = []  # not drawn, because this Keras version may reject it
    count, actual = runs.during(of_one, X, training=True)
    assert count == 1
    np.testing.assert_array_equal(actual, layer(X))


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "tf.function"])
@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_dropout_masks_equal_those_of_keras(configuration, compiled):
    """In consecutive calls, with the same number of random draws."""
    kind, arguments = CONFIGURATIONS[configuration]
    layers = pair(kind, **arguments, dropout=0.4, seed=6)
    ours, keras_layer = (
        tf.function(lambda x, layer=layer: layer(x, training=True), autograph=False)
        if compiled
        else lambda x, layer=layer: layer(x, training=True)
        for layer in layers
    )
    outputs = [ours(X) for _ in range(3)]
    for output in outputs:
        assert parity.difference(output, keras_layer(X)) < 1e-12
    assert np.any(outputs[0] != outputs[1])
    seeds = [layer.cell.seed_generator.state.numpy() for layer in layers]
    np.testing.assert_array_equal(*seeds)


# Eager and compiled calls in turns.
@pytest.mark.parametrize(("configuration", "compiled"), [(each, i % 2) for i, each in enumerate(CONFIGURATIONS)])
@pytest.mark.not_xla("XLA gives a gradient of zeros where TensorFlow gives None", cases=r".*-1\]")
def test_gradients_of_gradients(configuration, compiled):
    kind, arguments = CONFIGURATIONS[configuration]
    layers = pair(kind, **arguments, dropout=0.2, seed=2, return_sequences=True)

    def gradients(layer, x):
        variables = [x, *variables_of(layer)]
        with tf.GradientTape() as tape:
            tape.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                score = tf.reduce_sum(tf.sin(layer(x, mask=MASKS["gaps"], training=True)))
            penalty = tf.reduce_sum(tf.square(inner.gradient(score, x)) * data(*x.shape, seed=1))
        return tape.gradient(penalty, variables)

    ours, keras_layer = layers
    call = tf.function(gradients, autograph=False) if compiled else gradients
    for actual, expected in zip(call(ours, tf.constant(X)), gradients(keras_layer, tf.constant(X)), strict=True):
        assert (actual is None) == (expected is None)
        assert actual is None or parity.difference(actual, expected) < 1e-12


# Each configuration with both types, one of them mixed with float32.
POLICIES = [("float16", "mixed_bfloat16"), ("bfloat16", "mixed_float16")]


@pytest.mark.parametrize(
    ("configuration", "policy"),
    [(each, policy) for i, each in enumerate(CONFIGURATIONS) for policy in POLICIES[i % 2]],
)
def test_16_bit_types(configuration, policy):
    """Keras computes in the same type, so both results have its rounding errors."""
    kind, arguments = CONFIGURATIONS[configuration]
    layers = pair(
        kind, **arguments, dropout=0.2, seed=2, dtype=policy, recurrent_initializer="zeros", return_sequences=True
    )
    dtype = policy.removeprefix("mixed_")
    x = tf.cast(X, dtype)
    (ours, our_gradients), (keras_layer, their_gradients) = (
        outputs_and_gradients(
            lambda layer=layer: layer(x, mask=MASKS["gaps"], training=True), [x, *variables_of(layer)]
        )
        for layer in layers
    )
    for actual, expected in zip([*ours, *our_gradients], [*keras_layer, *their_gradients], strict=True):
        assert actual.dtype == expected.dtype
        assert parity.difference(actual, expected) <= 2 * parity.TOLERANCES[dtype]


@pytest.mark.parametrize("configuration", WITH_DROPOUT)
def test_bidirectional_under_acceleration(configuration):
    kind, arguments = CONFIGURATIONS[configuration]
    layers = []
    for _ in range(2):
        layer = KERAS[kind](UNITS, **arguments, dropout=0.2, seed=2, return_sequences=True, dtype="float64")
        layers.append(keras.layers.Bidirectional(layer, dtype="float64"))
        layers[-1].build(X.shape)
        randomize(layers[-1])
        for each in (layers[-1].forward_layer, layers[-1].backward_layer):
            each.cell.seed_generator.state.assign([2, 0])  # the config of a SimpleRNN lacks the seed

    def results(layer):
        run = lambda: layer(X, mask=MASKS["left-padded"], training=True)  # noqa: E731
        return outputs_and_gradients(run, variables_of(layer))

    expected = results(layers[0])
    with accelerate_keras(strict=True):
        actual = results(layers[1])
    check_equal(actual, expected, f"Bidirectional({kind})")


def test_rnn_of_a_cell_and_time_distributed():
    layers = []
    for _ in range(2):
        cell = keras.layers.GRUCell(UNITS, recurrent_dropout=0.3, seed=2, reset_after=False, dtype="float64")
        layer = keras.layers.RNN(cell, dtype="float64")
        layer.build(X.shape)
        randomize(layer)
        layers.append(keras.layers.TimeDistributed(layer, dtype="float64"))
    x = data(BATCH, 2, TIME, FEATURES)
    expected = layers[0](x, training=True)
    with accelerate_keras(strict=True):
        assert parity.difference(layers[1](x, training=True), expected) < 1e-12


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_recurrent_dropout_that_keras_ignores_falls_back(kind, runs):
    """Keras chooses how to apply recurrent dropout when it creates the cell."""
    ours, keras_layer = pair(kind, seed=4)
    for layer in (ours, keras_layer):
        layer.cell.recurrent_dropout = 0.5
    count, actual = runs.during(lambda: ours(X, training=True))
    assert parity.difference(actual, keras_layer(X, training=True)) < 1e-12
    assert count == 0


@pytest.mark.parametrize("portable", [True, False])
@pytest.mark.parametrize("configuration", ["reset before", "GRU recurrent dropout"])
def test_exports(configuration, portable, tmp_path):
    kind, arguments = CONFIGURATIONS[configuration]
    model = keras.Sequential([keras.Input([None, FEATURES]), OURS[kind](UNITS, **arguments)])
    x = X.astype("float32")
    expected = model(x)
    with accelerate_keras(portable_exports=portable):
        model.export(tmp_path, verbose=False)
    loaded = tf.saved_model.load(tmp_path)
    assert parity.difference(loaded.serve(x), expected) < 1e-5
    ops = ops_when_called(loaded.serve, tf.TensorSpec([None, None, FEATURES]))
    assert any(op.startswith("TfRnnOps>") for op in ops) == (not portable)
