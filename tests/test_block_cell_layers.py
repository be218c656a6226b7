"""Tests of the Keras cells: training, arguments, dtype policies, serialization."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from references import block_lstm, gru_block_cell

from tf_rnn_ops.layers import GRUBlockCell, LSTMBlockCell

DATA = np.random.default_rng(0)
FEATURES, UNITS = 3, 4

# By name: a class, options, and the shapes of the weights for FEATURES and UNITS.
KINDS = {
    "gru": (GRUBlockCell, {}, {"w_ru": (7, 8), "w_c": (7, 4), "b_ru": (8,), "b_c": (4,)}),
    "lstm": (LSTMBlockCell, {}, {"w": (7, 16), "b": (16,)}),
    "lstm with options": (
        LSTMBlockCell,
        {"use_peephole": True, "forget_bias": 0.25, "cell_clip": 1.0},
        {"w": (7, 16), "b": (16,), "wci": (4,), "wcf": (4,), "wco": (4,)},
    ),
}
kinds = pytest.mark.parametrize("kind", KINDS)
classes = pytest.mark.parametrize("make", [GRUBlockCell, LSTMBlockCell])


def cell_of(kind, units=UNITS, **arguments):
    """Returns a cell of a kind."""
    make, options, _ = KINDS[kind]
    return make(units, **options, **arguments)


def named_weights(cell):
    """Returns the weights of a cell by name."""
    return dict(zip([weight.name for weight in cell.weights], cell.get_weights(), strict=True))


def weights_of(cell):
    """Returns the matrices, the biases and the peepholes of a cell, as lists."""
    weights = cell.get_weights()
    matrices = [weight for weight in weights if weight.ndim == 2]
    biases, peepholes = weights[len(matrices) : 2 * len(matrices)], weights[2 * len(matrices) :]
    return matrices, biases, peepholes


def reference_step(cell, x, states):
    """Returns the states of a cell after a step, h first, by the reference."""
    x, *states = map(parity.to_float64, (x, *states))
    weights = {name: parity.to_float64(weight) for name, weight in named_weights(cell).items()}
    if isinstance(cell, GRUBlockCell):
        return [gru_block_cell.gru_block_cell(x, *states, **weights).h]
    options = {"forget_bias": cell.forget_bias, "cell_clip": cell.cell_clip or 0, "use_peephole": cell.use_peephole}
    peepholes = dict.fromkeys(("wci", "wcf", "wco"), np.zeros(cell.units))
    step = block_lstm.step(x, h_prev=states[0], cs_prev=states[1], **{**peepholes, **weights}, **options)
    return [step.h, step.cs]


def sequence_model(cell, features=FEATURES, **rnn_arguments):
    inputs = keras.Input([None, features])
    outputs = keras.layers.Dense(1)(keras.layers.RNN(cell, **rnn_arguments)(inputs))
    return keras.Model(inputs, outputs)


def running_sums(num, time=12, features=FEATURES):
    """Returns sequences and the sums of their first feature, which a recurrent network can learn."""
    x = DATA.standard_normal([num, time, features]).astype("float32")
    return x, x[:, :, 0].mean(axis=1, keepdims=True)


@pytest.mark.parametrize(("run_eagerly", "jit_compile"), [(False, "auto"), (True, "auto"), (False, True)])
@kinds
def test_fit_learns(kind, run_eagerly, jit_compile):
    model = sequence_model(cell_of(kind, 16))
    model.compile("adam", "mse", run_eagerly=run_eagerly, jit_compile=jit_compile)
    model.optimizer.learning_rate = 0.01
    x, y = running_sums(128 if run_eagerly else 512)
    before = model.evaluate(x, y, verbose=0)
    model.fit(x, y, batch_size=32, epochs=3 if run_eagerly else 10, verbose=0)
    assert model.evaluate(x, y, verbose=0) < before / 3


@pytest.mark.parametrize("unroll", [False, True])
@kinds
def test_a_sequence_equals_the_reference(kind, unroll):
    bias_initializer = keras.initializers.RandomNormal(2.0, seed=1)  # so large that cell states are clipped
    cell = cell_of(kind, 5, bias_initializer=bias_initializer, dtype="float64")
    layer = keras.layers.RNN(cell, return_sequences=True, return_state=True, unroll=unroll, dtype="float64")
    x = DATA.standard_normal([2, 7, 3])
    outputs, *final_states = layer(x)
    states = cell.get_initial_state(2)
    for step in range(x.shape[1]):
        states = reference_step(cell, x[:, step], states)
        assert parity.difference(outputs[:, step], states[0]) < 1e-12
    for actual, expected in zip(final_states, states, strict=True):
        assert parity.difference(actual, expected) < 1e-12
    if "cell_clip" in KINDS[kind][1]:
        assert (states[1] == cell.cell_clip).any()


@pytest.mark.parametrize("cell_clip", [None, 0, -1.0])
def test_a_cell_without_clipping(cell_clip):
    cell, x = LSTMBlockCell(UNITS, cell_clip=cell_clip), np.ones([1, FEATURES], "float32")
    states = [np.zeros([1, UNITS], "float32"), np.full([1, UNITS], 1e4, "float32")]
    assert (cell(x, states)[1][1] > 1000).numpy().all()


def test_gru_equals_keras_without_reset_after():
    """Keras computes the same cell with its gates in another order: update, reset, candidate."""
    ours = GRUBlockCell(UNITS)
    theirs = keras.layers.GRUCell(UNITS, reset_after=False)
    x, h = DATA.standard_normal([2, FEATURES]), DATA.standard_normal([2, UNITS])
    ours(x, [h])
    theirs(x, [h])
    kernel, recurrent, bias = theirs.get_weights()
    both = np.concatenate([kernel, recurrent])
    update, reset, candidate = np.split(both, 3, axis=1)
    b_update, b_reset, b_candidate = np.split(bias, 3)
    ours.set_weights([np.hstack([reset, update]), candidate, np.hstack([b_reset, b_update]), b_candidate])
    assert parity.difference(ours(x, [h])[0], theirs(x, [h])[0]) < 1e-5


def test_lstm_equals_keras():
    """Keras has the gates in the order i, f, ci, o, and adds no constant to f."""
    ours, theirs = (
        keras.layers.RNN(LSTMBlockCell(UNITS, forget_bias=0), return_state=True),
        keras.layers.LSTM(UNITS, return_state=True, bias_initializer="random_normal"),
    )
    x = DATA.standard_normal([2, 5, FEATURES]).astype("float32")
    ours(x)
    theirs(x)
    kernel, recurrent, bias = theirs.get_weights()
    reordered = (np.split(each, 4, axis=-1) for each in (np.concatenate([kernel, recurrent]), bias))
    ours.set_weights([np.concatenate([i, ci, f, o], axis=-1) for i, f, ci, o in reordered])
    for actual, expected in zip(ours(x), theirs(x), strict=True):
        assert parity.difference(actual, expected) < 1e-5


@kinds
def test_masking_skips_masked_steps(kind):
    layer = keras.layers.RNN(cell_of(kind))
    x = DATA.standard_normal([2, 6, 3]).astype("float32")
    mask = np.array([[1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1]], dtype=bool)
    outputs = layer(x, mask=mask)
    assert parity.difference(outputs[:1], layer(x[:1, :3])) < 1e-6
    assert parity.difference(outputs[1:], layer(x[1:])) < 1e-6


def test_stacked_and_bidirectional():
    stack = keras.layers.RNN([GRUBlockCell(4), LSTMBlockCell(5)], return_sequences=True)
    both = keras.layers.Bidirectional(keras.layers.RNN(LSTMBlockCell(6)))
    assert both(stack(np.ones([2, 7, 3], "float32"))).shape == (2, 12)


@kinds
def test_initial_state_is_used(kind):
    cell = cell_of(kind)
    layer = keras.layers.RNN(cell)
    x = np.ones([2, 1, 3], "float32")
    states = [DATA.standard_normal([2, UNITS]).astype("float32") for _ in cell.get_initial_state(2)]
    assert parity.difference(layer(x, initial_state=states), reference_step(cell, x[:, 0], states)[0]) < 1e-6


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
@kinds
def test_dtype_policies(kind, policy, variables, outputs):
    layer = keras.layers.RNN(cell_of(kind, dtype=policy), dtype=policy)
    x = DATA.standard_normal([2, 5, 3]).astype("float32")
    with tf.GradientTape() as tape:
        y = layer(x)
        loss = tf.reduce_sum(tf.cast(y, tf.float32))
    assert y.dtype == outputs
    assert {weight.dtype for weight in layer.weights} == {variables}
    for gradient, weight in zip(tape.gradient(loss, layer.trainable_variables), layer.weights, strict=True):
        assert gradient.dtype == weight.dtype
        assert np.isfinite(parity.to_float64(gradient)).all()


@kinds
def test_initializers_get_the_shapes_of_the_matrices(kind):
    seen = []

    def record(name):
        def initializer(shape, dtype=None):
            seen.append((name, tuple(shape)))
            return keras.ops.full(shape, {"kernel": 1.0, "recurrent": 2.0, "bias": 3.0}[name], dtype=dtype)

        return initializer

    cell = cell_of(
        kind,
        kernel_initializer=record("kernel"),
        recurrent_initializer=record("recurrent"),
        bias_initializer=record("bias"),
    )
    cell.build([None, FEATURES])
    assert {name: weight.shape for name, weight in named_weights(cell).items()} == KINDS[kind][2]
    matrices, biases, peepholes = weights_of(cell)
    columns = sum(map(len, biases))
    drawn = [("kernel", (FEATURES, columns)), ("recurrent", (UNITS, columns)), ("bias", (columns,))]
    assert seen == [*drawn, ("recurrent", (3, UNITS))][: 4 if peepholes else 3]
    for matrix in matrices:
        np.testing.assert_array_equal(matrix[:FEATURES], 1)
        np.testing.assert_array_equal(matrix[FEATURES:], 2)
    for vectors, value in ((biases, 3), (peepholes, 2)):
        for vector in vectors:
            np.testing.assert_array_equal(vector, value)


@pytest.mark.parametrize("seed", [None, 1, keras.random.SeedGenerator(1)], ids=["none", "int", "generator"])
@kinds
def test_recurrent_weights_are_orthogonal(kind, seed):
    """A seed generator returns new numbers at each call, so the layer must draw the matrix once."""
    cell = cell_of(kind, recurrent_initializer=keras.initializers.Orthogonal(seed=seed))
    cell.build([None, FEATURES])
    matrices, _, peepholes = weights_of(cell)
    drawn = [np.hstack([matrix[FEATURES:] for matrix in matrices]), *([np.stack(peepholes)] if peepholes else [])]
    for each in drawn:  # [units, gates * units], [3, units]
        np.testing.assert_allclose(each @ each.T, np.eye(len(each)), atol=1e-5)


@kinds
def test_regularizers_add_to_the_loss(kind):
    cell = cell_of(
        kind, kernel_regularizer=keras.regularizers.L2(1.0), recurrent_regularizer=keras.regularizers.L1(1.0),
        bias_regularizer=keras.regularizers.L2(1.0), bias_initializer="ones",
    )  # fmt: skip
    layer = keras.layers.RNN(cell)
    layer(np.ones([1, 2, 3], "float32"))
    matrices, biases, _ = weights_of(cell)  # the peepholes are vectors, which not every regularizer accepts
    expected = sum(np.sum(m[:3] ** 2) + np.sum(np.abs(m[3:])) for m in matrices) + sum(map(len, biases))
    np.testing.assert_allclose(float(sum(layer.losses)), expected, rtol=1e-5)


@kinds
def test_constraints_hold_after_training(kind):
    cell = cell_of(
        kind, kernel_constraint=keras.constraints.MaxNorm(0.1, axis=0), recurrent_constraint=keras.constraints.NonNeg(),
        bias_constraint=keras.constraints.NonNeg(),
    )  # fmt: skip
    model = sequence_model(cell)
    model.compile("adam", "mse")
    x, y = running_sums(32)
    model.fit(x, y, epochs=2, verbose=0)
    matrices, biases, _ = weights_of(cell)
    for matrix in matrices:
        assert (np.linalg.norm(matrix[:3], axis=0) <= 0.1 + 1e-6).all()
        assert (matrix[3:] >= 0).all()
    for vector in biases:
        assert (vector >= 0).all()


@kinds
def test_config_round_trips(kind):
    cell = cell_of(
        kind,
        units=7,
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
    assert {**config, **KINDS[kind][1]} == config
    assert type(cell).from_config(config).get_config() == config
    restored = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(cell))
    assert type(restored) is type(cell)
    assert restored.get_config() == config


@kinds
def test_a_saved_model_computes_the_same(kind, tmp_path):
    model = sequence_model(cell_of(kind))
    model.save(tmp_path / "model.keras")
    x, _ = running_sums(2)
    np.testing.assert_array_equal(keras.saving.load_model(tmp_path / "model.keras")(x), model(x))


@pytest.mark.parametrize("units", [0, -1, 2.5, "4", None, True])
@classes
def test_invalid_units_are_rejected(make, units):
    with pytest.raises(ValueError, match="units must be a positive integer, but is"):
        make(units)


def test_numpy_arguments_are_python_numbers():
    config = LSTMBlockCell(np.int64(3), forget_bias=np.float32(2), cell_clip=np.int64(5)).get_config()
    assert [(type(config[name]), config[name]) for name in ("units", "forget_bias", "cell_clip")] == [
        (int, 3),
        (float, 2),
        (float, 5),
    ]


@classes
def test_an_unknown_number_of_features_is_rejected(make):
    with pytest.raises(ValueError, match=f"the last dimension of the input of {make.__name__} must be known"):
        make(4).build([None, None])
