"""Tests of the Keras cell: training, arguments, dtype policies, serialization."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from references import gru_block_cell as reference

import tf_rnn_ops

GRUBlockCell = tf_rnn_ops.layers.GRUBlockCell
DATA = np.random.default_rng(0)


def sequence_model(cell, features=3, **rnn_arguments):
    inputs = keras.Input([None, features])
    outputs = keras.layers.Dense(1)(keras.layers.RNN(cell, **rnn_arguments)(inputs))
    return keras.Model(inputs, outputs)


def running_sums(num, time=12, features=3):
    """Returns sequences and the sums of their first feature, which a recurrent network can learn."""
    x = DATA.standard_normal([num, time, features]).astype("float32")
    return x, x[:, :, 0].mean(axis=1, keepdims=True)


@pytest.mark.parametrize(("run_eagerly", "jit_compile"), [(False, "auto"), (True, "auto"), (False, True)])
def test_fit_learns(run_eagerly, jit_compile):
    model = sequence_model(GRUBlockCell(16))
    model.compile("adam", "mse", run_eagerly=run_eagerly, jit_compile=jit_compile)
    model.optimizer.learning_rate = 0.01
    x, y = running_sums(128 if run_eagerly else 512)
    before = model.evaluate(x, y, verbose=0)
    model.fit(x, y, batch_size=32, epochs=3 if run_eagerly else 10, verbose=0)
    assert model.evaluate(x, y, verbose=0) < before / 3


@pytest.mark.parametrize("unroll", [False, True])
def test_a_sequence_equals_the_reference(unroll):
    cell = GRUBlockCell(5, bias_initializer="random_normal", dtype="float64")
    layer = keras.layers.RNN(cell, return_sequences=True, return_state=True, unroll=unroll, dtype="float64")
    x = DATA.standard_normal([2, 7, 3])
    outputs, state = layer(x)
    h = np.zeros([2, 5])
    for step in range(x.shape[1]):
        h = reference.gru_block_cell(x[:, step], h, *cell.get_weights()).h
        assert parity.difference(outputs[:, step], h) < 1e-12
    assert parity.difference(state, h) < 1e-12


def test_equals_keras_without_reset_after():
    """Keras computes the same cell with its gates in another order: update, reset, candidate."""
    features, units = 3, 4
    ours = GRUBlockCell(units)
    theirs = keras.layers.GRUCell(units, reset_after=False)
    x, h = DATA.standard_normal([2, features]), DATA.standard_normal([2, units])
    ours(x, [h])
    theirs(x, [h])
    kernel, recurrent, bias = theirs.get_weights()
    both = np.concatenate([kernel, recurrent])
    update, reset, candidate = np.split(both, 3, axis=1)
    b_update, b_reset, b_candidate = np.split(bias, 3)
    ours.set_weights([np.hstack([reset, update]), candidate, np.hstack([b_reset, b_update]), b_candidate])
    assert parity.difference(ours(x, [h])[0], theirs(x, [h])[0]) < 1e-5


def test_masking_skips_masked_steps():
    cell = GRUBlockCell(4)
    layer = keras.layers.RNN(cell)
    x = DATA.standard_normal([2, 6, 3]).astype("float32")
    mask = np.array([[1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1]], dtype=bool)
    outputs = layer(x, mask=mask)
    assert parity.difference(outputs[:1], layer(x[:1, :3])) < 1e-6
    assert parity.difference(outputs[1:], layer(x[1:])) < 1e-6


def test_stacked_and_bidirectional():
    stack = keras.layers.RNN([GRUBlockCell(4), GRUBlockCell(5)], return_sequences=True)
    both = keras.layers.Bidirectional(keras.layers.RNN(GRUBlockCell(6)))
    assert both(stack(np.ones([2, 7, 3], "float32"))).shape == (2, 12)


def test_initial_state_is_used():
    layer = keras.layers.RNN(GRUBlockCell(4))
    x = np.ones([2, 1, 3], "float32")
    state = DATA.standard_normal([2, 4]).astype("float32")
    outputs = layer(x, initial_state=[state])
    expected = reference.gru_block_cell(x[:, 0], state, *layer.get_weights()).h
    assert parity.difference(outputs, expected) < 1e-6


@pytest.mark.parametrize(
    ("policy", "variables", "outputs"),
    [
        ("float32", "float32", "float32"),
        ("float64", "float64", "float64"),
        ("float16", "float16", "float16"),
        ("bfloat16", "bfloat16", "bfloat16"),
        ("mixed_float16", "float32", "float16"),
        ("mixed_bfloat16", "float32", "bfloat16"),
    ],
)
def test_dtype_policies(policy, variables, outputs):
    layer = keras.layers.RNN(GRUBlockCell(8, dtype=policy), dtype=policy)
    x = DATA.standard_normal([2, 5, 3]).astype("float32")
    with tf.GradientTape() as tape:
        y = layer(x)
        loss = tf.reduce_sum(tf.cast(y, tf.float32))
    assert y.dtype == outputs
    assert {weight.dtype for weight in layer.weights} == {variables}
    for gradient, weight in zip(tape.gradient(loss, layer.trainable_variables), layer.weights, strict=True):
        assert gradient.dtype == weight.dtype
        assert np.isfinite(parity.to_float64(gradient)).all()


def test_initializers_get_the_shapes_of_the_matrices():
    seen = []

    def record(name):
        def initializer(shape, dtype=None):
            seen.append((name, tuple(shape)))
            return keras.ops.full(shape, {"kernel": 1.0, "recurrent": 2.0, "bias": 3.0}[name], dtype=dtype)

        return initializer

    cell = GRUBlockCell(
        4,
        kernel_initializer=record("kernel"),
        recurrent_initializer=record("recurrent"),
        bias_initializer=record("bias"),
    )
    cell.build([None, 3])
    assert seen == [("kernel", (3, 12)), ("recurrent", (4, 12)), ("bias", (12,))]
    assert [weight.shape for weight in cell.weights] == [(7, 8), (7, 4), (8,), (4,)]
    for matrix in cell.get_weights()[:2]:
        np.testing.assert_array_equal(matrix[:3], 1)
        np.testing.assert_array_equal(matrix[3:], 2)
    for bias in cell.get_weights()[2:]:
        np.testing.assert_array_equal(bias, 3)


@pytest.mark.parametrize("seed", [None, 1, keras.random.SeedGenerator(1)], ids=["none", "int", "generator"])
def test_recurrent_weights_are_orthogonal(seed):
    """A seed generator returns new numbers at each call, so the layer must draw the matrix once."""
    cell = GRUBlockCell(4, recurrent_initializer=keras.initializers.Orthogonal(seed=seed))
    cell.build([None, 3])
    recurrent = np.hstack([matrix[3:] for matrix in cell.get_weights()[:2]])  # [units, 3 * units]
    np.testing.assert_allclose(recurrent @ recurrent.T, np.eye(4), atol=1e-5)


def test_regularizers_add_to_the_loss():
    cell = GRUBlockCell(
        4, kernel_regularizer=keras.regularizers.L2(1.0), recurrent_regularizer=keras.regularizers.L1(1.0),
        bias_regularizer=keras.regularizers.L2(1.0), bias_initializer="ones",
    )  # fmt: skip
    layer = keras.layers.RNN(cell)
    layer(np.ones([1, 2, 3], "float32"))
    matrices = cell.get_weights()[:2]
    expected = sum(np.sum(m[:3] ** 2) + np.sum(np.abs(m[3:])) for m in matrices) + 12
    np.testing.assert_allclose(float(sum(layer.losses)), expected, rtol=1e-5)


def test_constraints_hold_after_training():
    cell = GRUBlockCell(
        4, kernel_constraint=keras.constraints.MaxNorm(0.1, axis=0), recurrent_constraint=keras.constraints.NonNeg(),
        bias_constraint=keras.constraints.NonNeg(),
    )  # fmt: skip
    model = sequence_model(cell)
    model.compile("adam", "mse")
    x, y = running_sums(32)
    model.fit(x, y, epochs=2, verbose=0)
    w_ru, w_c, b_ru, b_c = cell.get_weights()
    for matrix in (w_ru, w_c):
        assert (np.linalg.norm(matrix[:3], axis=0) <= 0.1 + 1e-6).all()
        assert (matrix[3:] >= 0).all()
    for bias in (b_ru, b_c):
        assert (bias >= 0).all()


def test_config_round_trips():
    cell = GRUBlockCell(
        7,
        kernel_initializer=keras.initializers.RandomNormal(stddev=0.5, seed=1),
        recurrent_initializer="identity",
        bias_initializer="ones",
        kernel_regularizer=keras.regularizers.L2(0.1),
        recurrent_regularizer="l1",
        bias_regularizer="l2",
        kernel_constraint="max_norm",
        recurrent_constraint=keras.constraints.UnitNorm(axis=1),
        bias_constraint="non_neg",
        dtype="mixed_bfloat16",
        name="cell",
        trainable=False,
    )
    config = cell.get_config()
    assert GRUBlockCell.from_config(config).get_config() == config
    restored = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(cell))
    assert isinstance(restored, GRUBlockCell)
    assert restored.get_config() == config


@pytest.mark.parametrize("units", [0, -1, 2.5, "4", None, True])
def test_invalid_units_are_rejected(units):
    with pytest.raises(ValueError, match="units must be a positive integer, but is"):
        GRUBlockCell(units)


def test_numpy_units_are_integers():
    assert GRUBlockCell(np.int64(3)).get_config()["units"] == 3


def test_an_unknown_number_of_features_is_rejected():
    with pytest.raises(ValueError, match="last dimension"):
        GRUBlockCell(4).build([None, None])
