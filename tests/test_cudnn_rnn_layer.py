"""Tests of the CudnnRNN layers: equality with Keras layers, masks, states, dropout, gradients, serialization."""

import functools
import re
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from checks.keras_layers import calls_in_xla, needs_xla
from inputs.pairs import every_pair
from references import keras_networks
from references.cudnn_rnn import NUM_GATES, Config

import tf_rnn_ops
from tf_rnn_ops.params import unpack

CudnnRNN = tf_rnn_ops.layers.CudnnRNN
SUBCLASSES = {
    "lstm": tf_rnn_ops.layers.CudnnLSTM,
    "gru": tf_rnn_ops.layers.CudnnGRU,
    "rnn_tanh": tf_rnn_ops.layers.CudnnRNNTanh,
    "rnn_relu": tf_rnn_ops.layers.CudnnRNNRelu,
}
MODES = tuple(SUBCLASSES)
DIRECTIONS = ("unidirectional", "bidirectional")

BATCH, TIME, FEATURES, UNITS = 4, 7, 3, 5
LENGTHS = [7, 3, 0, 5]
MASK = np.arange(TIME) < np.array(LENGTHS)[:, np.newaxis]
NOT_RIGHT_PADDED = np.array([[1, 1, 1, 0, 0, 0, 0], [0, 1, 1, 1, 1, 1, 1], [1] * 7, [1] * 7], dtype=bool)
DATA = np.random.default_rng(0)
compiles_for_the_cpu = pytest.mark.skipif(
    bool(tf.config.list_physical_devices("GPU")), reason="the ops have no XLA kernels for GPUs"
)


@pytest.fixture(autouse=True)
def fresh_data(monkeypatch):
    """Seeds the data of every test, independent of other tests."""
    monkeypatch.setattr(sys.modules[__name__], "DATA", np.random.default_rng(0))


def sequences(dtype="float64"):
    return DATA.standard_normal([BATCH, TIME, FEATURES]).astype(dtype)


def random_weights(layer):
    """Sets random weights, including biases."""
    layer.set_weights([DATA.standard_normal(weight.shape) / 2 for weight in layer.weights])


def random_layer(*arguments, features=FEATURES, **keyword_arguments):
    layer = CudnnRNN(*arguments, **{"dtype": "float64", **keyword_arguments})
    layer.build([None, None, features])
    random_weights(layer)
    return layer


def network(mode, direction, num_layers) -> Config:
    """Returns the configuration of a layer with UNITS units."""
    return Config(mode, "linear_input", direction, num_layers, UNITS, FEATURES)


def with_weights_of(stack, config, **arguments):
    """Returns a layer with the weights of Keras layers, set to random values."""
    for layer in stack:
        random_weights(layer)
    layer = CudnnRNN(UNITS, config.rnn_mode, len(stack), config.direction, dtype="float64", **arguments)
    layer.build([None, None, FEATURES])
    weights = [variable.numpy() for variable in keras_networks.variables(stack)]
    layer.set_weights([keras_networks.params_from_weights(config, weights)])
    return layer


@pytest.mark.parametrize(("mode", "direction", "num_layers"), every_pair(MODES, DIRECTIONS, [1, 2, 3]))
def test_equals_keras(mode, direction, num_layers):
    x = tf.constant(sequences())
    config = network(mode, direction, num_layers)
    stack = keras_networks.stack(config)
    layer = with_weights_of(stack, config, return_sequences=True, return_state=True)
    weights = DATA.standard_normal([BATCH, TIME, 1])

    def outputs_and_gradients(run, variables):
        with tf.GradientTape() as tape:
            tape.watch(x)
            output, *states = run(x)
            loss = tf.reduce_sum(output * weights) + tf.add_n([tf.reduce_sum(state**2) for state in states])
        return [output, *states], *tape.gradient(loss, [x, [variable.value for variable in variables]])

    run_keras = functools.partial(keras_networks.run, config, stack)
    outputs, d_x, d_weights = outputs_and_gradients(run_keras, keras_networks.variables(stack))
    run = functools.partial(layer, training=True)
    actual, actual_d_x, (actual_d_params,) = outputs_and_gradients(run, layer.weights)
    for ours, theirs in zip([*actual, actual_d_x], [*outputs, d_x], strict=True):
        assert parity.difference(ours, theirs) < 1e-12
    # If Keras has one bias, the gradients of both of our biases equal its gradient.
    d_params = unpack(layer.layout, keras_networks.params_from_weights(config, d_weights))
    actual_d_params = unpack(layer.layout, actual_d_params.numpy())
    for name, gradient in actual_d_params.items():
        expected = d_params[name if mode == "gru" else name.replace("recurrent_bias", "input_bias")]
        assert parity.difference(gradient, expected) < 1e-12, name


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("mode", MODES)
def test_equals_keras_with_a_mask(mode, direction):
    x = sequences()
    config = network(mode, direction, 2)
    stack = keras_networks.stack(config)
    layer = with_weights_of(stack, config, return_sequences=True, return_state=True)
    output, *states = keras_networks.run(config, stack, x, mask=tf.constant(MASK))
    actual, *actual_states = layer(x, mask=tf.constant(MASK))
    assert parity.difference(actual, np.where(MASK[..., np.newaxis], output, 0)) < 1e-12
    for state, expected in zip(actual_states, states, strict=True):
        assert parity.difference(state, expected) < 1e-12


@pytest.mark.parametrize("mask", [None, MASK], ids=["whole", "masked"])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_without_sequences_each_direction_returns_its_last_step(direction, mask):
    x = sequences()
    layer = random_layer(UNITS, "gru", 2, direction)
    sequence_layer = random_layer(UNITS, "gru", 2, direction, return_sequences=True)
    sequence_layer.set_weights(layer.get_weights())
    output = sequence_layer(x, mask=mask).numpy()
    lengths = LENGTHS if mask is not None else [TIME] * BATCH
    forward_part = np.stack([row[max(length - 1, 0), :UNITS] for row, length in zip(output, lengths, strict=True)])
    np.testing.assert_array_equal(layer(x, mask=mask), np.hstack([forward_part, output[:, 0, UNITS:]]))


def test_the_mask_of_an_embedding_reaches_the_layer_and_the_layers_above():
    numbers = np.where(MASK, DATA.integers(1, 9, MASK.shape), 0)
    embedding = keras.layers.Embedding(9, FEATURES, mask_zero=True, dtype="float64")
    lower = random_layer(UNITS, return_sequences=True)
    upper = random_layer(UNITS, "gru", features=UNITS)
    model = keras.Sequential([keras.Input([None], dtype="int32"), embedding, lower, upper])
    expected = upper(lower(embedding.embeddings.value.numpy()[numbers], mask=MASK), mask=MASK)
    np.testing.assert_array_equal(model(numbers), expected)
    np.testing.assert_array_equal(model.predict(numbers, verbose=0), expected)


def test_the_mask_of_an_embedding_reaches_a_layer_with_initial_states():
    numbers = np.where(MASK, DATA.integers(1, 9, MASK.shape), 0)
    embedding = keras.layers.Embedding(9, FEATURES, mask_zero=True, dtype="float64")
    layer = random_layer(UNITS, "gru", return_sequences=True)
    h = tf.constant(DATA.standard_normal([BATCH, 1, UNITS]))
    inputs = [keras.Input([None], dtype="int32"), keras.Input([1, UNITS], dtype="float64")]
    model = keras.Model(inputs, layer(embedding(inputs[0]), initial_state=inputs[1]))
    expected = layer(embedding.embeddings.value.numpy()[numbers], initial_state=h, mask=MASK)
    np.testing.assert_array_equal(layer(embedding(numbers), initial_state=h), expected)
    np.testing.assert_array_equal(model([tf.constant(numbers), h]), expected)
    # Keras converts NumPy float64 arrays to float32.
    np.testing.assert_allclose(model.predict([numbers, h.numpy()], verbose=0), expected, rtol=1e-5)


@pytest.mark.parametrize("shape", [(BATCH, 3), (BATCH, TIME + 2), (1, TIME), (BATCH, TIME, 1), (TIME,)], ids=str)
@pytest.mark.parametrize("in_graph", [False, True])
def test_a_mask_of_wrong_shape_is_rejected(shape, in_graph):
    layer = random_layer(UNITS)
    run = tf.function(layer) if in_graph else layer
    with pytest.raises(ValueError, match=r"mask must have the shape \[batch, time\] = \(4, 7\), but has"):
        run(sequences(), mask=np.ones(shape, bool))


@pytest.mark.parametrize("shape", [(BATCH, 3), (1, TIME)], ids=str)
@pytest.mark.not_xla("XLA removes assertions, so the op raises its own error")
def test_a_mask_of_wrong_shape_is_rejected_at_run_time(shape):
    layer = random_layer(UNITS)
    signature = [tf.TensorSpec([None, None, FEATURES], tf.float64), tf.TensorSpec([None, None], tf.bool)]
    run = tf.function(lambda x, mask: layer(x, mask=mask), input_signature=signature)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"mask must have the shape \[batch, time\]"):
        run(tf.constant(sequences()), tf.ones(shape, tf.bool))


@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=compiles_for_the_cpu)])
@pytest.mark.parametrize("steps", [0, 3, TIME + 2])
def test_a_mask_with_a_wrong_number_of_steps_is_rejected(steps, jit_compile):
    layer = random_layer(UNITS)
    signature = [tf.TensorSpec([None, None, FEATURES], tf.float64), tf.TensorSpec([None, None], tf.bool)]
    run = tf.function(lambda x, mask: layer(x, mask=mask), input_signature=signature, jit_compile=jit_compile)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"mask must have the shape|sequence_lengths\[0\]"):
        run(tf.constant(sequences()), tf.sequence_mask([min(steps, TIME)] * BATCH, steps))


@pytest.mark.parametrize("run", ["eager", "graph", "predict"])
@pytest.mark.not_xla("XLA removes assertions, so the op raises its own error", cases="graph")
def test_a_mask_that_is_not_right_padded_is_rejected(run):
    layer = random_layer(UNITS)
    inputs = [keras.Input([None, FEATURES]), keras.Input([None], dtype="bool")]
    model = keras.Model(inputs, layer(inputs[0], mask=inputs[1]))
    x = sequences()
    runs = {
        "eager": lambda: layer(x, mask=NOT_RIGHT_PADDED),
        "graph": lambda: tf.function(layer)(x, mask=NOT_RIGHT_PADDED),
        "predict": lambda: model.predict([x, NOT_RIGHT_PADDED], verbose=0),
    }
    with pytest.raises(tf.errors.InvalidArgumentError, match="mask must be right-padded"):
        runs[run]()


@pytest.mark.parametrize("mode", MODES)
def test_a_sequence_continues_from_returned_states(mode):
    x = sequences()
    layer = random_layer(UNITS, mode, 3, return_sequences=True, return_state=True)
    whole = layer(x)
    first, *states = layer(x[:, :3])
    second, *final_states = layer(x[:, 3:], initial_state=states)
    np.testing.assert_allclose(tf.concat([first, second], axis=1), whole[0], rtol=1e-12, atol=1e-12)
    assert len(final_states) == len(whole) - 1
    for state, expected in zip(final_states, whole[1:], strict=True):
        np.testing.assert_allclose(state, expected, rtol=1e-12, atol=1e-12)


def test_the_default_initial_state_is_zero():
    x = sequences()
    layer = random_layer(UNITS, num_layers=2, direction="bidirectional")
    states = layer.get_initial_state(BATCH)
    for state in states:
        np.testing.assert_array_equal(state, np.zeros([BATCH, 4, UNITS]))
    np.testing.assert_array_equal(layer(x, initial_state=states), layer(x))


def test_a_single_state_without_a_list():
    x, h = sequences(), DATA.standard_normal([BATCH, 1, UNITS])
    layer = random_layer(UNITS, "gru")
    np.testing.assert_array_equal(layer(x, initial_state=h), layer(x, initial_state=[h]))
    assert not np.array_equal(layer(x, initial_state=h), layer(x))


def test_encoder_states_initialize_a_decoder():
    encoder = random_layer(UNITS, num_layers=2, return_state=True, dtype="float32")
    decoder = random_layer(UNITS, num_layers=2, dtype="float32")
    inputs = [keras.Input([None, FEATURES]), keras.Input([None, FEATURES])]
    _, *states = encoder(inputs[0])
    model = keras.Model(inputs, decoder(inputs[1], initial_state=states))
    x, y = sequences("float32"), sequences("float32")
    expected = decoder(y, initial_state=list(encoder(x)[1:]))
    np.testing.assert_array_equal(model.predict([x, y], verbose=0), expected)


@pytest.mark.parametrize("mode", MODES)
def test_dropout_applies_only_in_training(mode):
    x = sequences()
    layer = random_layer(UNITS, mode, 2, dropout=0.5)
    without = random_layer(UNITS, mode, 2)
    without.set_weights(layer.get_weights())
    for training in ({}, {"training": False}, {"training": None}):
        np.testing.assert_array_equal(layer(x, **training), without(x))
    assert not np.array_equal(layer(x, training=True), without(x))
    np.testing.assert_allclose(without(x, training=True), without(x), rtol=1e-12)


def test_dropout_is_between_layers():
    x = sequences()
    layer = random_layer(UNITS, dropout=0.9)
    np.testing.assert_allclose(layer(x, training=True), layer(x), rtol=1e-12)


@pytest.mark.parametrize("seed", [0, 7, -(2**40)])
def test_a_seed_determines_the_masks_of_a_layer(seed):
    x = sequences()

    def run():
        layer = CudnnRNN(UNITS, num_layers=2, dropout=0.5, seed=seed, dtype="float64")
        layer.build(x.shape)
        layer.set_weights([np.full(layer.params.shape, 0.5)])
        call = functools.partial(layer, training=True)
        return [each(x).numpy() for each in (call, call, tf.function(call), tf.function(call))]

    first, second = run(), run()
    np.testing.assert_array_equal(first, second)
    assert len({output.tobytes() for output in first}) == len(first)


@pytest.mark.parametrize("options", [{"dropout": 0.0}, {"num_layers": 1}, {"dropout": 1.0}], ids=str)
def test_a_layer_without_masks_has_no_seed_generator(options):
    layer = CudnnRNN(UNITS, **{"num_layers": 2, "dropout": 0.5, **options})
    layer(sequences(), training=True)
    assert not hasattr(layer, "seed_generator")


@pytest.mark.usefixtures("determinism")
def test_deterministic_training_needs_no_seed():
    keras.utils.set_random_seed(3)
    layer = random_layer(UNITS, num_layers=2, dropout=0.5)
    assert not np.array_equal(*(layer(sequences(), training=True) for _ in range(2)))


def model_with_dropout(dropout=0.5):
    return keras.Sequential([keras.Input([TIME, FEATURES]), CudnnRNN(UNITS, num_layers=3, dropout=dropout)])


def save_file(model, path):
    model.save(path / "model.keras")
    return lambda: keras.saving.load_model(path / "model.keras")


def save_weights(model, path):
    model.save_weights(path / "model.weights.h5")

    def load():
        other = model_with_dropout()
        other.load_weights(path / "model.weights.h5")
        return other

    return load


def save_checkpoint(model, path):
    written = tf.train.Checkpoint(model=model).write(str(path / "model"))

    def load():
        other = model_with_dropout()
        tf.train.Checkpoint(model=other).read(written).assert_existing_objects_matched().expect_partial()
        return other

    return load


@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=[needs_xla, compiles_for_the_cpu])])
@pytest.mark.parametrize("save", [save_file, save_weights, save_checkpoint])
def test_training_continues_with_the_same_masks_after_loading(save, jit_compile, tmp_path):
    x, y = sequences("float32"), np.ones([BATCH, UNITS], "float32")

    def train(model):
        model.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=jit_compile)
        model.fit(x, y, batch_size=2, epochs=2, verbose=0)
        return model.get_weights()[0]

    model = model_with_dropout()
    train(model)
    load = save(model, tmp_path)
    expected = train(model)
    np.testing.assert_array_equal(train(load()), expected)


@pytest.mark.parametrize("dropout", [0.5, 0.0])
def test_files_load_with_and_without_dropout(dropout, tmp_path):
    """Files of version 0.2 are like those of a layer without dropout."""
    model, other = model_with_dropout(dropout), model_with_dropout(0.5 - dropout)
    save_weights(model, tmp_path)
    other.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(other.get_weights(), model.get_weights())


@pytest.mark.parametrize("in_graph", [False, True])
def test_the_keras_seed_determines_the_masks(in_graph):
    """For layers without a seed. Layers, calls and graphs draw different masks."""
    x = sequences()

    def four_runs():
        keras.utils.set_random_seed(3)
        outputs = []
        for _ in range(2):
            layer = CudnnRNN(UNITS, num_layers=2, dropout=0.5, dtype="float64")
            layer.build(x.shape)
            layer.set_weights([np.full(layer.params.shape, 0.5)])
            run = functools.partial(layer, training=True)
            runs = [tf.function(run), tf.function(run)] if in_graph else [run, run]
            outputs += [run(x).numpy() for run in runs]
        return outputs

    first, second = four_runs(), four_runs()
    np.testing.assert_array_equal(first, second)
    assert len({output.tobytes() for output in first}) == len(first)


def test_a_layer_that_is_called_twice_in_a_graph_draws_two_masks():
    x = sequences()
    layer = random_layer(UNITS, num_layers=2, dropout=0.5)
    first, second = tf.function(lambda: [layer(x, training=True) for _ in range(2)])()
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("in_graph", [False, True])
def test_replicas_draw_different_masks(in_graph, seed):
    """Even if the replicas run the same program with the same Keras seed, as on several machines."""
    x = sequences()
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")

    def run_as(replica):
        keras.utils.set_random_seed(3)
        layer = CudnnRNN(UNITS, num_layers=2, dropout=0.5, seed=seed, dtype="float64")
        layer.build(x.shape)
        layer.set_weights([np.full(layer.params.shape, 0.5)])
        run = functools.partial(layer, training=True)
        with strategy.scope(), tf.distribute.ReplicaContext(strategy, replica_id_in_sync_group=replica):
            return (tf.function(run) if in_graph else run)(x).numpy()

    first, second = ([run_as(replica) for replica in range(3)] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert len({output.tobytes() for output in first}) == len(first)


def gradients_of(layer, x, states, training, mask):
    """Returns the gradients of all outputs of a layer with respect to all inputs and weights."""
    watched = [x, *states, layer.params.value]
    with tf.GradientTape() as tape:
        tape.watch(watched)
        outputs = layer(x, initial_state=states, training=training, mask=mask)
        loss = tf.add_n([(number + 1.0) * tf.reduce_sum(output**2) for number, output in enumerate(outputs)])
    return tape.gradient(loss, watched)


@pytest.mark.parametrize("mask", [None, MASK], ids=["whole", "masked"])
@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.not_xla(
    "TensorFlow builds the gradient of a function when it calls it, even if it is not used",
    cases="(rnn_relu|rnn_tanh|lstm|gru)-False",
)
def test_gradients_of_inference_equal_those_of_training_without_dropout(mode, in_graph, mask):
    arguments = {"num_layers": 2, "direction": "bidirectional", "return_sequences": True, "return_state": True}
    layer = random_layer(UNITS, mode, dropout=0.5, **arguments)
    without = random_layer(UNITS, mode, **arguments)
    without.set_weights(layer.get_weights())
    x = tf.constant(sequences())
    states = [tf.constant(DATA.standard_normal([BATCH, 4, UNITS])) for _ in range(2 if mode == "lstm" else 1)]
    gradients = tf.function(gradients_of) if in_graph else gradients_of
    actual = gradients(layer, x, states, training=False, mask=mask)
    expected = gradients(without, x, states, training=True, mask=mask)
    for gradient, wanted in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(gradient, wanted)
        assert np.any(gradient)


def test_gradients_pass_through_a_frozen_layer():
    layer = random_layer(UNITS, dtype="float32", trainable=False)
    inputs = keras.Input([None, FEATURES])
    model = keras.Model(inputs, layer(keras.layers.Dense(FEATURES, kernel_initializer="ones")(inputs)))
    model.compile(keras.optimizers.SGD(0.1), "mse")
    params = layer.get_weights()[0]
    kernel = model.layers[1].get_weights()[0]
    model.train_on_batch(sequences("float32"), np.ones([BATCH, UNITS]))
    np.testing.assert_array_equal(layer.get_weights()[0], params)
    assert not np.array_equal(model.layers[1].get_weights()[0], kernel)


@pytest.mark.parametrize("training", [False, True])
def test_inference_stores_no_activations(training):
    layer = random_layer(UNITS, num_layers=2)
    run = tf.function(functools.partial(layer, training=training))
    graph = run.get_concrete_function(tf.TensorSpec([None, None, FEATURES], tf.float64)).graph
    (op,) = [op for op in graph.get_operations() if op.type.endswith("CudnnRNN" if training else "CudnnRNNV3")]
    assert op.get_attr("is_training") is training


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("run_eagerly", "jit_compile"), [(False, "auto"), (True, "auto"), (False, True)])
def test_fit_learns(mode, run_eagerly, jit_compile):
    layer = CudnnRNN(8, mode, num_layers=2, direction="bidirectional", dropout=0.05)
    model = keras.Sequential([keras.Input([None, FEATURES]), layer, keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.01), "mse", run_eagerly=run_eagerly, jit_compile=jit_compile)
    x = DATA.standard_normal([256, 8, FEATURES])
    y = x[:, :, 0].mean(axis=1, keepdims=True)
    before = model.evaluate(x, y, verbose=0)
    model.fit(x, y, batch_size=32, epochs=6, verbose=0)
    assert model.evaluate(x, y, verbose=0) < before / 2


@needs_xla
@compiles_for_the_cpu
def test_a_mask_that_is_not_right_padded_is_rejected_under_xla():
    layer = CudnnRNN(UNITS, "gru")
    compiled = tf.function(layer, jit_compile=True, autograph=False)
    x = sequences("float32")
    with pytest.raises(tf.errors.InvalidArgumentError, match="sequence_lengths"):
        compiled(x, mask=NOT_RIGHT_PADDED)
    for lengths in LENGTHS[::-1], LENGTHS:
        call = functools.partial(compiled, x, mask=MASK, sequence_lengths=tf.constant(lengths))
        if lengths == LENGTHS:
            np.testing.assert_array_equal(call(), layer(x, mask=MASK))
        else:
            with pytest.raises(tf.errors.InvalidArgumentError, match="sequence_lengths"):
                call()


@needs_xla
@compiles_for_the_cpu
@pytest.mark.parametrize("training", [False, True])
def test_xla_compiles_the_op(training):
    layer = CudnnRNN(UNITS, "lstm", num_layers=2, dropout=0.5, seed=1)
    x = tf.constant(DATA.standard_normal([2, 7, FEATURES]).astype("float32"))
    layer(x)
    compiled, expected = (
        tf.function(functools.partial(layer, training=training), jit_compile=jit_compile, autograph=False)
        for jit_compile in (True, False)
    )
    assert calls_in_xla(compiled, x, "StatelessCudnnRNN" if training else "CudnnRNNV3") == 1
    results = []
    for run in (compiled, expected):
        layer.seed_generator.state.assign([1, 0])
        results.append(run(x))
    np.testing.assert_array_equal(*results)


CELLS = (tf_rnn_ops.layers.GRUBlockCell, tf_rnn_ops.layers.LSTMBlockCell)


@pytest.mark.parametrize("make", [lambda units: CudnnRNN(units, "gru"), *CELLS])
@pytest.mark.parametrize("what", ["GPU", "build without XLA"])
def test_keras_does_not_compile_without_xla_support(make, what, monkeypatch):
    if what == "GPU":
        monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind=None: ["a GPU"])
    else:
        monkeypatch.setattr(tf_rnn_ops._xla, "_why_not_loaded", "no library")
    assert not make(UNITS).supports_jit


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("mode", MODES)
def test_initial_weights_equal_those_of_keras(mode, direction):
    """With seeds, bitwise. All matrices of one shape are then equal, in Keras too."""
    initializers = {
        "kernel_initializer": keras.initializers.GlorotUniform(seed=1),
        "recurrent_initializer": keras.initializers.Orthogonal(seed=2),
    }
    config = network(mode, direction, 2)
    stack = keras_networks.stack(config, **initializers)
    layer = CudnnRNN(UNITS, mode, 2, direction, dtype="float64", **initializers)
    layer.build([None, None, FEATURES])
    weights = [variable.numpy() for variable in keras_networks.variables(stack)]
    expected = keras_networks.params_from_weights(config, weights)
    np.testing.assert_array_equal(layer.get_weights()[0], expected)


def test_initial_matrices_differ_without_a_seed():
    layer = CudnnRNN(UNITS, "lstm", 2, "bidirectional", bias_initializer="random_normal", unit_forget_bias=False)
    layer.build([None, None, 2 * UNITS])
    arrays = unpack(layer.layout, layer.get_weights()[0])
    drawn = [array.tobytes() for name, array in arrays.items() if "recurrent_bias" not in name]
    assert len(set(drawn)) == len(drawn)


@pytest.mark.parametrize("mode", MODES)
def test_initializers_get_the_shapes_of_the_matrices(mode):
    def constant(value, seen):
        def initializer(shape, dtype=None):
            seen.append(tuple(shape))
            return keras.ops.full(shape, value, dtype=dtype)

        return initializer

    kernels, recurrents, biases = [], [], []
    layer = CudnnRNN(
        UNITS,
        mode,
        2,
        "bidirectional",
        kernel_initializer=constant(1.0, kernels),
        recurrent_initializer=constant(2.0, recurrents),
        bias_initializer=constant(3.0, biases),
        unit_forget_bias=False,
    )
    layer.build([None, None, FEATURES])
    width = NUM_GATES[mode] * UNITS
    assert kernels == [(FEATURES, width)] * 2 + [(2 * UNITS, width)] * 2
    assert recurrents == [(UNITS, width)] * 4
    # If Keras has one bias, our other bias starts with zeros.
    assert biases == [(width,)] * (8 if mode == "gru" else 4)
    values = {"kernel": 1, "recurrent_kernel": 2, "input_bias": 3, "recurrent_bias": 3 if mode == "gru" else 0}
    for name, array in unpack(layer.layout, layer.get_weights()[0]).items():
        np.testing.assert_array_equal(array, values[layer.layout[name].kind])


@pytest.mark.parametrize("unit_forget_bias", [False, True])
def test_unit_forget_bias_sets_the_sum_of_the_forget_biases_to_1(unit_forget_bias):
    layer = CudnnRNN(UNITS, "lstm", 2, unit_forget_bias=unit_forget_bias)
    layer.build([None, None, FEATURES])
    arrays = unpack(layer.layout, layer.get_weights()[0])
    for number in range(2):
        for gate in "ifgo":
            biases = [arrays[f"layer_{number}/forward/{kind}_bias/{gate}"] for kind in ("input", "recurrent")]
            np.testing.assert_array_equal(sum(biases), float(unit_forget_bias and gate == "f"))


@pytest.mark.parametrize("input_mode", ["skip_input", "auto_select"])
def test_the_input_matrix_can_be_skipped(input_mode):
    layer = CudnnRNN(FEATURES, "rnn_tanh", input_mode=input_mode, recurrent_initializer="zeros", return_sequences=True)
    x = sequences("float32")
    np.testing.assert_allclose(layer(x), np.tanh(x), rtol=1e-5)
    assert layer.params.shape == (FEATURES * FEATURES + 2 * FEATURES,)


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
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.not_xla(
    "TensorFlow builds the gradient of a function when it calls it, even if it is not used",
    cases="(rnn_relu|rnn_tanh|lstm|gru)-False",
)
def test_dtype_policies(mode, training, policy, variables, outputs):
    layer = CudnnRNN(UNITS, mode, 2, dropout=0.25, return_state=True, dtype=policy)
    with tf.GradientTape() as tape:
        results = layer(sequences("float32"), training=training)
        loss = tf.add_n([tf.reduce_sum(tf.cast(result, tf.float32)) for result in results])
    assert {result.dtype.name for result in results} == {outputs}
    assert [weight.dtype for weight in layer.weights] == [variables]
    (gradient,) = tape.gradient(loss, [weight.value for weight in layer.trainable_variables])
    assert gradient.dtype == variables
    assert np.isfinite(parity.to_float64(gradient)).all()
    assert np.any(gradient)


@pytest.mark.parametrize("return_state", [False, True])
@pytest.mark.parametrize("return_sequences", [False, True])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("mode", MODES)
def test_symbolic_output_shapes(mode, direction, return_sequences, return_state):
    layer = CudnnRNN(UNITS, mode, 2, direction, return_sequences=return_sequences, return_state=return_state)
    results = keras.tree.map_structure(lambda output: output.shape, layer(sequences("float32")))
    assert layer.compute_output_shape((BATCH, TIME, FEATURES)) == results
    symbolic = layer(keras.Input([TIME, FEATURES], batch_size=BATCH))
    assert keras.tree.map_structure(lambda output: output.shape, symbolic) == results
    graph_outputs = tf.function(layer).get_concrete_function(tf.TensorSpec([None, None, FEATURES], tf.float32)).outputs
    assert [output.shape[-1] for output in graph_outputs] == [shape[-1] for shape in keras.tree.flatten(results)]


@pytest.mark.parametrize("sizes", [(0, TIME), (BATCH, 0)], ids=["no sequences", "no steps"])
def test_sizes_of_zero(sizes):
    layer = random_layer(UNITS, num_layers=2, return_sequences=True, return_state=True)
    output, *states = layer(np.zeros([*sizes, FEATURES]))
    assert output.shape == (*sizes, UNITS)
    for state in states:
        np.testing.assert_array_equal(state, np.zeros([sizes[0], 2, UNITS]))


def every_argument_but_mode(mode):
    """Returns arguments with non-default values, except num_proj in modes without projections."""
    return {
        "units": 7,
        "num_layers": 3,
        "direction": "bidirectional",
        "input_mode": "auto_select",
        "dropout": 0.5,
        "seed": 6,
        "return_sequences": True,
        "return_state": True,
        "kernel_initializer": keras.initializers.RandomNormal(stddev=0.5, seed=1),
        "recurrent_initializer": "identity",
        "bias_initializer": "ones",
        "unit_forget_bias": False,
        "num_proj": 3 if mode == "lstm" else 0,
        "projection_initializer": "zeros",
        "time_major": True,
        "dtype": "mixed_bfloat16",
        "name": "network",
        "trainable": False,
    }


def check_config(layer, arguments):
    """Asserts that the config of a layer has all arguments and reproduces the layer."""
    config = layer.get_config()
    assert set(config) == set(arguments)
    assert type(layer).from_config(config).get_config() == config
    restored = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert type(restored) is type(layer)
    assert restored.get_config() == config
    return restored


@pytest.mark.parametrize("mode", MODES)
def test_config_round_trips(mode):
    arguments = {**every_argument_but_mode(mode), "rnn_mode": mode}
    config = CudnnRNN(**arguments).get_config()
    default = CudnnRNN(4, "rnn_relu" if mode == "lstm" else "lstm").get_config()
    for name in arguments:
        assert config[name] != default[name] or (name, config[name]) == ("num_proj", 0), name
    check_config(CudnnRNN(**arguments), arguments)


@pytest.mark.parametrize("mode", MODES)
def test_subclasses_are_the_layer_of_one_mode(mode):
    arguments = every_argument_but_mode(mode)
    restored = check_config(SUBCLASSES[mode](**arguments), arguments)
    assert restored.rnn_mode == mode
    x = sequences("float32")
    subclass, layer = SUBCLASSES[mode](UNITS, num_layers=2), CudnnRNN(UNITS, mode, num_layers=2)
    for each in (subclass, layer):
        each.build(x.shape)
    layer.set_weights(subclass.get_weights())
    np.testing.assert_array_equal(subclass(x), layer(x))


def test_a_subclass_has_no_rnn_mode_argument():
    with pytest.raises(TypeError, match="rnn_mode"):
        tf_rnn_ops.layers.CudnnLSTM(4, rnn_mode="gru")


def small_model():
    inputs = keras.Input([None, FEATURES])
    masked = keras.layers.Masking()(inputs)
    lower = tf_rnn_ops.layers.CudnnGRU(UNITS, num_layers=2, direction="bidirectional", return_sequences=True)(masked)
    return keras.Model(inputs, CudnnRNN(UNITS, dropout=0.5)(lower))


def test_a_saved_model_is_loaded(tmp_path):
    model = small_model()
    model.save(tmp_path / "model.keras")
    x = np.where(MASK[..., np.newaxis], sequences("float32"), 0)
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(x, verbose=0), model.predict(x, verbose=0))


@pytest.mark.not_xla("TensorFlow builds the gradient of a function when it calls it, even if it is not used")
def test_an_exported_model_runs_and_has_gradients(tmp_path):
    model = small_model()
    model.export(tmp_path / "exported", verbose=False)
    exported = tf.saved_model.load(tmp_path / "exported")
    x = tf.constant(np.where(MASK[..., np.newaxis], sequences("float32"), 0))
    np.testing.assert_array_equal(exported.serve(x), model(x))
    gradients = []
    for run in (exported.serve, model):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = run(x)
        gradients.append(tape.gradient(y, x))
    np.testing.assert_array_equal(*gradients)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"units": 0}, "units must be a positive integer, but is 0"),
        ({"units": 2.5}, "units must be a positive integer, but is 2.5"),
        ({"units": True}, "units must be a positive integer, but is True"),
        ({"rnn_mode": "LSTM"}, "rnn_mode must be .*'lstm'.* but is 'LSTM'"),
        ({"num_layers": 0}, "num_layers must be an integer of at least 1, but is 0"),
        ({"direction": "backward"}, "direction must be 'unidirectional' or 'bidirectional', but is 'backward'"),
        ({"input_mode": "linear"}, "input_mode must be .*'linear_input'.* but is 'linear'"),
        ({"num_proj": 5}, "num_proj must be at most num_units = 4, but is 5"),
        ({"num_proj": 2.0}, "num_proj must be an integer of at least 0, but is 2.0"),
        ({"num_proj": 2, "rnn_mode": "gru"}, "num_proj must be 0 unless rnn_mode is lstm, but is 2"),
        ({"dropout": 1.5}, "dropout must be a number from 0 to 1, but is 1.5"),
        ({"dropout": float("nan")}, "dropout must be a number from 0 to 1, but is nan"),
        ({"dropout": "0.5"}, "dropout must be a number from 0 to 1, but is '0.5'"),
        ({"seed": 0.5}, "seed must be None or a 64-bit integer, but is 0.5"),
        ({"seed": 2**63}, "seed must be None or a 64-bit integer, but is 9223372036854775808"),
    ],
    ids=str,
)
def test_invalid_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        CudnnRNN(**{"units": 4, **arguments})


def test_numpy_numbers_are_accepted():
    config = CudnnRNN(np.int64(3), num_layers=np.int32(2), dropout=np.float32(0.5), seed=np.int64(1)).get_config()
    for name, value in {"units": 3, "num_layers": 2, "dropout": 0.5, "seed": 1}.items():
        assert config[name] == value
        assert type(config[name]) is type(value)


def test_an_unknown_number_of_features_is_rejected():
    with pytest.raises(ValueError, match="the last dimension of the input of CudnnRNN must be known"):
        CudnnRNN(4).build([None, None, None])


def test_incompatible_inputs_are_rejected():
    layer = random_layer(UNITS)
    for shape in ([BATCH, FEATURES], [BATCH, TIME, FEATURES, 1], [BATCH, TIME, FEATURES + 1]):
        with pytest.raises(ValueError, match="incompatible with the layer"):
            layer(np.zeros(shape))
    unbuilt = CudnnRNN(UNITS)
    with pytest.raises(ValueError, match="incompatible with the layer"):
        unbuilt(np.zeros([BATCH, FEATURES]))
    assert not unbuilt.built
    with pytest.raises(ValueError, match=r"input_size must equal num_units \(5\) with input_mode 'skip"):
        CudnnRNN(UNITS, input_mode="skip_input").build([None, None, FEATURES])


@pytest.mark.parametrize(
    "shapes",
    [
        [(BATCH, 2, UNITS)],
        [(BATCH, 2, UNITS)] * 3,
        [(BATCH, 2, UNITS), (BATCH, 1, UNITS)],
        [(BATCH, 2, UNITS + 1), (BATCH, 2, UNITS)],
        [(BATCH, UNITS)] * 2,
        [(BATCH + 1, 2, UNITS)] * 2,
    ],
    ids=str,
)
def test_incompatible_states_are_rejected(shapes):
    layer = random_layer(UNITS, num_layers=2)
    message = re.escape(
        "initial_state must be [h, c], each [batch, num_layers * num_directions, units] = (4, 2, 5), but has the "
    )
    with pytest.raises(ValueError, match=message):
        layer(sequences(), initial_state=[np.zeros(shape) for shape in shapes])


def test_a_missing_state_is_rejected():
    layer = random_layer(UNITS)
    with pytest.raises(ValueError, match=r"initial_state must be None or a list of 2 tensors, but item 1 is None"):
        layer(sequences(), initial_state=[np.zeros([BATCH, 1, UNITS]), None])


def test_other_backends_are_rejected(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(RuntimeError, match="CudnnLSTM requires the Keras backend to be tensorflow, but it is jax"):
        tf_rnn_ops.layers.CudnnLSTM(4)
