"""Tests of accelerate_keras: which layers run on the op, for how long, and that results do not change."""

import concurrent.futures
import contextlib
import functools
import importlib
import re
import sys
import types

import keras
import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from checks.keras_layers import (
    BATCH,
    FEATURES,
    HAS_MASKS_OF_GATES,
    KERAS,
    KERASES,
    KINDS,
    MASKS,
    OURS,
    TF_KERAS,
    TIME,
    UNITS,
    calls_in_xla,
    check_accelerated,
    check_equal,
    check_on_op,
    data,
    needs_keras_2,
    needs_xla,
    outputs_and_gradients,
    pair,
    randomize,
    variables_of,
)
from environment import forked, processes
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import tf_rnn_ops
from tf_rnn_ops import _xla, accelerate_keras, explain, freeze, restore_keras
from tf_rnn_ops._keras import kerases
from tf_rnn_ops._keras.table import ACTIVATIONS

X = data(BATCH, TIME, FEATURES, dtype="float32")
Y = data(BATCH, 1, dtype="float32")


@pytest.fixture(autouse=True)
def is_restored():
    """Asserts that every test restores Keras."""
    names = ("call", "inner_loop", "make_train_function", "make_test_function", "make_predict_function")
    owners = [(loop[:2]) for each in kerases.in_use() for loop in each.loops]
    for each in kerases.in_use():
        owners += [(cls, name) for cls in (*each.cells, *each.model.__mro__) for name in names]

    def attributes():
        return [vars(owner).get(name) for owner, name in owners], list(sys.meta_path)

    before = attributes()
    yield
    assert attributes() == before


def sequential(keras=keras):
    return keras.Sequential([keras.Input([None, FEATURES]), keras.layers.LSTM(UNITS), keras.layers.Dense(1)])


def functional(keras=keras):
    inputs = keras.Input([None, FEATURES])
    outputs, *states = keras.layers.GRU(UNITS, return_sequences=True, return_state=True)(inputs)
    outputs = keras.layers.GRU(UNITS)(outputs, initial_state=states)
    return keras.Model(inputs, keras.layers.Dense(1)(outputs))


def subclassed(keras=keras):
    class Subclassed(keras.Model):
        def __init__(self):
            super().__init__()
            self.recurrent = keras.layers.Bidirectional(keras.layers.SimpleRNN(UNITS))
            self.dense = keras.layers.Dense(1)

        def call(self, x, training=False):
            return self.dense(self.recurrent(x, training=training))

    return Subclassed


MODELS = {
    "sequential": (sequential, 1),
    "functional": (functional, 2),
    "subclassed": (lambda keras=keras: subclassed(keras)(), 2),
}
both_kerases = pytest.mark.parametrize("module", KERASES, ids=["Keras 3", "Keras 2"])


def compiled_model(make=sequential, **arguments):
    model = make()
    model.compile("sgd", "mse", **arguments)
    return model


def predict(model):
    return model.predict(X, verbose=0)


@both_kerases
@pytest.mark.parametrize("make", MODELS)
def test_a_model_follows_the_acceleration(make, module, runs):
    make, num_layers = MODELS[make]
    model = compiled_model(lambda: make(module))
    model(X)
    for call in (predict, lambda model: model(X)):
        assert runs.during(call, model)[0] == 0
        check_accelerated(runs, call, model, count=num_layers)
        assert runs.during(call, model)[0] == 0
    with accelerate_keras():
        assert runs.during(predict, model)[0] == num_layers
        assert runs.during(predict, model)[0] == 0  # traced already


def penalty_gradients(model, x):
    """Returns gradients of a penalty on the gradient of the outputs with respect to the input."""
    with tf.GradientTape() as tape:
        with tf.GradientTape() as inner:
            inner.watch(x)
            score = tf.reduce_sum(tf.sin(model(x, training=True)))
        norms = tf.norm(inner.gradient(score, x), axis=[1, 2])
        penalty = tf.reduce_mean((norms - 1) ** 2)
    return tape.gradient(penalty, variables_of(model))


@both_kerases
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "tf.function"])
@pytest.mark.parametrize("make", MODELS)
def test_gradients_of_gradients(make, compiled, module, runs):
    make, num_layers = MODELS[make]
    model, x = make(module), tf.constant(X)
    model(x)

    def accelerated():
        with accelerate_keras():
            return (tf.function(penalty_gradients) if compiled else penalty_gradients)(model, x)

    check_on_op(runs, accelerated, lambda: penalty_gradients(model, x), count=num_layers)


@needs_xla
def test_a_model_that_is_saved_and_loaded(runs, tmp_path):
    model = compiled_model(functional, jit_compile=True)
    expected = model(X)
    model.save(tmp_path / "model.keras")
    before = keras.models.load_model(tmp_path / "model.keras")
    with accelerate_keras():
        after = keras.models.load_model(tmp_path / "model.keras")
        for loaded in (before, after):
            count, actual = runs.during(predict, loaded)
            assert count == 2
            np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
        after.save(tmp_path / "again.keras")
    assert keras.models.load_model(tmp_path / "again.keras").jit_compile


class Lazy(keras.Model):
    """A model that creates its layers in build()."""

    def build(self, shape):
        self.recurrent = keras.layers.LSTM(UNITS)
        self.recurrent.build(shape)
        self.built = True

    def call(self, x):
        return self.recurrent(x)


class Equal(subclassed()):  # type: ignore[misc]
    """A model that compares equal to all others of its class."""

    def __eq__(self, other):
        return type(other) is type(self)

    def __hash__(self):
        return 1


@pytest.mark.parametrize("make", [Lazy, Equal])
def test_unusual_models(make, runs):
    models = [compiled_model(make) for _ in range(2)]
    functions = []
    with accelerate_keras():
        for model in models:
            assert runs.during(predict, model)[0] > 0
            functions.append(model.predict_function)
    for model, function in zip(models, functions, strict=True):
        predict(model)
        assert model.predict_function is not function


# How a model is trained: the arguments of `compile`, and the policy and the strategy that it is made with.
WAYS_TO_TRAIN = {
    "graph": {},
    "eager": {"run_eagerly": True},
    "several steps": {"steps_per_execution": 2},
    "XLA": {"jit_compile": True},
    "mixed_float16": {"policy": "mixed_float16"},
    "mixed_bfloat16": {"policy": "mixed_bfloat16"},
    "strategy": {"strategy": tf.distribute.OneDeviceStrategy},
}


@both_kerases
@pytest.mark.parametrize(
    "way", [pytest.param(each, marks=[needs_xla] if each == "XLA" else []) for each in WAYS_TO_TRAIN]
)
def test_models_are_trained_in_all_ways(way, module, runs):
    options = dict(WAYS_TO_TRAIN[way])
    policy, strategy = options.pop("policy", "float32"), options.pop("strategy", None)
    set_policy = module.config.set_dtype_policy if module is keras else module.mixed_precision.set_global_policy

    def trained():
        with strategy("/cpu:0").scope() if strategy else contextlib.nullcontext():
            module.utils.set_random_seed(0)
            model = functional(module)
            model.compile(module.optimizers.SGD(0.05), "mse", **options)
        losses = model.fit(X, Y, batch_size=1, epochs=2, shuffle=False, verbose=0).history["loss"]
        losses.append(model.evaluate(X, Y, batch_size=1, verbose=0))
        if way != "several steps":  # Keras 3 reads several batches from one.
            losses.append(model.train_on_batch(X, Y))
        return [*losses, model.predict(X, batch_size=1, verbose=0), *model.get_weights()]

    set_policy(policy)
    try:
        expected = trained()
        with accelerate_keras(strict=True):
            count, actual = runs.during(trained)
    finally:
        set_policy("float32")
    assert count > 0
    # Keras rounds to 16 bits after each operation of a step.
    tolerance = parity.TOLERANCES[policy.removeprefix("mixed_")] * (1 if policy == "float32" else 5)
    for one, other in zip(actual, expected, strict=True):
        assert parity.difference(np.float64(one), np.float64(other)) <= tolerance


@both_kerases
def test_restore_within_fit(module, runs):
    model = compiled_model(lambda: sequential(module))
    acceleration = accelerate_keras()
    restore = module.callbacks.LambdaCallback(on_epoch_end=lambda *_: acceleration.restore())
    count, history = runs.during(lambda: model.fit(X, Y, epochs=3, verbose=0, callbacks=[restore]))
    # Keras 2 makes the variables of its optimizer in the first trace, so that TensorFlow traces again.
    assert count == (1 if module is keras else 2)
    losses = history.history["loss"]
    assert losses == sorted(losses, reverse=True)


def test_a_model_that_overrides_make_predict_function(runs):
    class Own(keras.Sequential):
        def make_predict_function(self):
            self.predict_function = self.predict_function or (lambda batches: self(keras.tree.flatten(batches)[0]))

    model = compiled_model(lambda: Own([keras.layers.GRU(1)]))
    expected = predict(model)
    model.fit(X, Y, verbose=0)
    with accelerate_keras():
        assert runs.during(lambda: model.fit(X, Y, verbose=0))[0] == 1
        assert predict(model).shape == expected.shape


def functions_of_a_user(model):
    """Returns functions that a program may set as the compiled functions of a model, by attribute."""
    predict_function, train_function = model.predict_function, model.train_function

    @functools.wraps(train_function)
    def train(iterator):
        return train_function(iterator)

    return {
        "predict_function": tf.function(lambda batches: predict_function(batches)),
        "train_function": train,
        "test_function": lambda iterator: {"loss": 0.0},
    }


def test_functions_that_a_program_set_are_kept():
    model = compiled_model()
    model.fit(X, Y, verbose=0)
    predict(model)
    functions = functions_of_a_user(model)
    for name, function in functions.items():
        setattr(model, name, function)
    with accelerate_keras():
        for call in (predict, lambda model: model.fit(X, Y, verbose=0), lambda model: model.evaluate(X, Y, verbose=0)):
            call(model)
    assert {name: getattr(model, name) for name in functions} == functions


@both_kerases
@pytest.mark.parametrize("run_eagerly", [False, True])
def test_functions_that_keras_made_are_made_again(run_eagerly, module, runs):
    model = compiled_model(lambda: sequential(module), run_eagerly=run_eagerly)

    def functions(count):
        assert runs.during(model.fit, X, Y, verbose=0)[0] == count
        assert runs.during(predict, model)[0] == count
        assert runs.during(model.evaluate, X, Y, verbose=0)[0] == count
        return {model.train_function, model.test_function, model.predict_function}

    before = functions(count=0)
    with accelerate_keras():
        during = functions(count=1)
    assert len(before | during | functions(count=0)) == 9


def in_a_lambda(keras):
    layer = keras.layers.LSTM(UNITS)
    layer.build((None, None, FEATURES))  # Keras 2 allows no new variables in a Lambda
    return keras.Sequential([keras.Input([None, FEATURES]), keras.layers.Lambda(lambda x: layer(x))])


def holding(keras, base):
    """Returns a class of models or layers that reach a layer through an object that Keras does not track."""

    class Holding(base):
        def __init__(self):
            super().__init__()
            self.holder = types.SimpleNamespace(layer=keras.layers.LSTM(UNITS))

        def call(self, x):
            return self.holder.layer(x)

    return Holding


def in_a_layer(keras):
    return keras.Sequential([keras.Input([None, FEATURES]), holding(keras, keras.layers.Layer)()])


def in_the_loss(keras):
    encoder = keras.layers.LSTM(UNITS)
    model = keras.Sequential([keras.Input([None, FEATURES]), keras.layers.Dense(FEATURES)])
    model.compile("sgd", loss=lambda y, p: tf.reduce_mean(tf.square(encoder(y) - encoder(p)), axis=1))
    return model


@pytest.mark.parametrize(
    ("make", "call"),
    [
        (in_a_lambda, predict),
        (in_a_layer, predict),
        (lambda keras: holding(keras, keras.Model)(), predict),
        (in_the_loss, lambda model: model.evaluate(X, X, verbose=0)),
    ],
    ids=["Lambda", "custom layer", "object", "loss"],
)
@both_kerases
def test_layers_that_keras_does_not_track(make, call, module, runs):
    model = make(module)
    assert runs.during(call, model)[0] == 0
    for _ in range(2):
        with accelerate_keras():
            assert runs.during(call, model)[0] > 0
            assert runs.during(call, model)[0] == 0  # traced already
        assert runs.during(call, model)[0] == 0


def test_a_model_without_cells_is_searched_once_and_keeps_its_functions(monkeypatch):
    model = compiled_model(lambda: keras.Sequential([keras.layers.Dense(1), keras.layers.Activation("relu")]))
    predict(model)
    function, flatten = model.predict_function, keras.Model._flatten_layers
    searched = []

    def count(model, *arguments, **keyword_arguments):
        searched.append(model)
        return flatten(model, *arguments, **keyword_arguments)

    with accelerate_keras(), monkeypatch.context() as patch:
        patch.setattr(keras.layers.Layer, "_flatten_layers", count)
        for _ in range(3):
            model.predict_on_batch(X)
        assert len([each for each in searched if each is model]) == 1
    predict(model)
    assert model.predict_function is function


@pytest.mark.parametrize("make", [tf.Variable, keras.Variable])
@pytest.mark.parametrize("layer", [keras.layers.LSTM, OURS["GRU"], keras.layers.SimpleRNN])
def test_a_variable_as_input(layer, make, runs):
    layer, x = layer(UNITS), make(X)
    expected = layer(X)
    with accelerate_keras(strict=True):
        for call in (layer, tf.function(lambda: layer(x))):
            count, actual = runs.during(call, *([x] if call is layer else []))
            assert count == 1
            np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(x) ** 2)
        assert tape.gradient(loss, x if make is tf.Variable else x.value) is not None


def is_accelerated(runs):
    return runs.during(lambda: keras.layers.GRU(2)(X))[0] == 1


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0, 1)])
def test_restore_in_any_order(order, runs):
    accelerations = [accelerate_keras() for _ in range(3)]
    for number, index in enumerate(order):
        assert is_accelerated(runs) == (len(set(order[:number])) < 3)
        accelerations[index].restore()
    assert not is_accelerated(runs)
    accelerations[0].restore()
    assert not is_accelerated(runs)


def test_nested_and_repeated_blocks(runs):
    acceleration = accelerate_keras()
    for _ in range(2):
        with acceleration:
            with acceleration, accelerate_keras() as inner:
                inner.restore()
                assert is_accelerated(runs)
            assert is_accelerated(runs)
            with pytest.raises(ZeroDivisionError), acceleration:
                1 / 0  # noqa: B018
            assert is_accelerated(runs)
        assert not is_accelerated(runs)
    with pytest.raises(ZeroDivisionError), acceleration:
        1 / 0  # noqa: B018
    assert not is_accelerated(runs)
    with acceleration:
        acceleration.restore()
        assert not is_accelerated(runs)


def test_threads(runs):
    layer = keras.layers.LSTM(UNITS)
    expected = layer(X)

    def work(_):
        for _ in range(20):
            with accelerate_keras():
                np.testing.assert_allclose(layer(X), expected, rtol=1e-5, atol=1e-6)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert not is_accelerated(runs)


def test_restore_keras_ends_all_accelerations(runs):
    restore_keras()
    model = compiled_model()
    acceleration = accelerate_keras()
    with accelerate_keras(strict=True, exports="op"):
        assert runs.during(predict, model)[0] == 1
        restore_keras()
        assert not is_accelerated(runs)
        assert runs.during(predict, model)[0] == 0
    acceleration.restore()
    assert not is_accelerated(runs)
    with accelerate_keras():  # not strict either
        keras.layers.LSTM(2, activation="softmax")(X)


def model_that_falls_back(keras=keras):
    return compiled_model(lambda: keras.Sequential([keras.layers.SimpleRNN(UNITS, activation="softmax", name="first")]))


def expected_fallback_error():
    """Returns a context that expects an error with the layer, the reason and the remedy."""
    message = (
        r"accelerate_keras\(strict=True\): layer 'first' \(SimpleRNN\) would fall back to Keras\. "
        r"activation='softmax': set it to one that docs/guides/keras.md lists, such as tanh\."
    )
    return pytest.raises(RuntimeError, match=message)


@both_kerases
def test_strict_rejects_a_fallback(module):
    model = model_that_falls_back(module)
    predict(model)  # otherwise Keras cannot train it after an error in its first call
    with accelerate_keras(strict=True):
        with expected_fallback_error():
            predict(model)
        with expected_fallback_error():
            model.fit(X, data(BATCH, UNITS), verbose=0)
        with expected_fallback_error():
            model(X, training=True)
    model.fit(X, data(BATCH, UNITS), verbose=0)


@pytest.mark.parametrize("strict", [(False, True), (True, False), (True, True)])
def test_strict_applies_while_any_acceleration_is_strict(strict):
    model = model_that_falls_back()
    for outer in (False, True):
        with accelerate_keras(strict=strict[0]), accelerate_keras(strict=strict[1]), expected_fallback_error():
            model(X, training=True)
        with accelerate_keras(strict=outer):
            accelerate_keras(strict=not outer).restore()
            if outer:
                with expected_fallback_error():
                    model(X, training=True)
            else:
                model(X, training=True)


@pytest.mark.parametrize("before", ["plain", "accelerated"])
def test_strict_rejects_a_fallback_traced_before(before):
    model = compiled_model(lambda: keras.Sequential([keras.layers.LSTM(UNITS, activation="softmax")]))
    outer = [accelerate_keras()] if before == "accelerated" else []
    predict(model)
    with accelerate_keras(strict=True), pytest.raises(RuntimeError, match="activation='softmax'"):
        predict(model)
    predict(model)
    for each in outer:
        each.restore()


class Halving(keras.layers.Layer):
    """A custom cell."""

    state_size = output_size = FEATURES

    def call(self, inputs, states):
        return inputs / 2, states


OF_A_CELL = {
    "own cell": (lambda: keras.layers.RNN(Halving()), "the cell is a Halving: use keras.layers.LSTMCell"),
    "stack": (lambda: keras.layers.RNN([keras.layers.LSTMCell(2), Halving()]), "the cell is a Halving"),
    "list of one cell": (lambda: keras.layers.RNN([keras.layers.LSTMCell(2)]), "the layer has a list of one cell"),
}


@pytest.mark.parametrize("case", OF_A_CELL)
def test_strict_rejects_other_cells(case):
    make, message = OF_A_CELL[case]
    with accelerate_keras(strict=True), pytest.raises(RuntimeError, match=message):
        make()(X)


def test_strict_rejects_a_layer_of_ours_that_fell_back_before():
    layer = OURS["SimpleRNN"](UNITS, activation="softmax", name="first")
    layer(X, training=True)
    with accelerate_keras(strict=True), expected_fallback_error():
        layer(X, training=True)


def test_strict_leaves_convolutional_layers_to_keras(caplog):
    with accelerate_keras(strict=True):
        keras.layers.ConvLSTM1D(2, 3)(data(2, 3, 6, 2))
    assert not caplog.records


def test_strict_rejects_a_build_without_xla_and_a_gpu(monkeypatch):
    layer = keras.layers.GRU(UNITS)
    with accelerate_keras(strict=True):
        monkeypatch.setattr(_xla, "_why_not_loaded", "no library")
        with pytest.raises(RuntimeError, match=r"would fall back to Keras\. XLA compiles the layer"):
            tf.function(layer, jit_compile=True, autograph=False)(X)
        monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind=None: ["a GPU"] if kind == "GPU" else [])
        with pytest.raises(RuntimeError, match=r"would fall back to Keras\. TensorFlow sees a GPU"):
            layer(X)


def test_fallbacks_are_logged_once(caplog):
    model = model_that_falls_back()
    with accelerate_keras():
        for _ in range(2):
            model.fit(X, data(BATCH, UNITS), epochs=2, verbose=0)
            predict(model)
            model(X, training=True)
    (record,) = [each for each in caplog.records if each.name == "tf_rnn_ops"]
    assert record.levelname == "WARNING"
    assert record.getMessage() == (
        "layer 'first' (SimpleRNN) falls back to Keras. activation='softmax': set it to one that "
        "docs/guides/keras.md lists, such as tanh."
    )


@pytest.mark.parametrize("name", ["strict", "portable_exports"])
def test_options_that_are_not_booleans_are_rejected(name):
    with pytest.raises(TypeError, match=f"^{name} must be True or False, but is 'no'$"):
        accelerate_keras(**{name: "no"})
    with pytest.raises(TypeError, match="positional"):
        accelerate_keras(True)


def word_model(*layers):
    """Returns a model of words, and its input: zeros at the end, and a sample of zeros."""
    words = np.random.default_rng(0).integers(1, 9, [BATCH, TIME])
    words[1, 2:], words[2] = 0, 0
    return keras.Sequential([keras.layers.Embedding(9, FEATURES, mask_zero=True), *layers]), tf.constant(words)


def masking_model(*layers):
    """Returns a model whose first layer is Masking, and its input: zeros at some steps."""
    x = X.copy()
    x[0, 1], x[2] = 0, 0
    return keras.Sequential([keras.layers.Masking(), *layers]), tf.constant(x)


# What follows the layer that makes the mask. Keras's recurrent layers pass it on before 3.16.
AFTER_MASK = {
    "one layer": lambda: [keras.layers.LSTM(UNITS)],
    "sequences": lambda: [keras.layers.GRU(UNITS, return_sequences=True)],
    "stacked": lambda: [
        keras.layers.LSTM(UNITS, return_sequences=True),
        keras.layers.GRU(UNITS, return_sequences=True),
        keras.layers.GlobalAveragePooling1D(),
    ],
    "stacked cells": lambda: [
        keras.layers.RNN(keras.layers.GRUCell(UNITS), return_sequences=True),
        keras.layers.RNN([keras.layers.LSTMCell(UNITS), keras.layers.SimpleRNNCell(UNITS)]),
    ],
    "bidirectional": lambda: [
        keras.layers.Bidirectional(keras.layers.LSTM(UNITS, return_sequences=True)),
        keras.layers.Bidirectional(keras.layers.SimpleRNN(UNITS, return_sequences=True), merge_mode="sum"),
    ],
    "backwards": lambda: [keras.layers.SimpleRNN(UNITS, go_backwards=True, return_sequences=True)],
    "zeros at masked steps": lambda: [keras.layers.LSTM(UNITS, return_sequences=True, zero_output_for_mask=True)],
}


@pytest.mark.parametrize("after", AFTER_MASK)
@pytest.mark.parametrize("make", [word_model, masking_model])
@pytest.mark.filterwarnings("ignore:.*destroy the mask information")
def test_masks_within_a_model_equal_keras(make, after, runs):
    model, x = make(*AFTER_MASK[after]())
    model(x)
    randomize(model)

    def results():
        outputs, gradients = outputs_and_gradients(lambda: model(x), [each.value for each in model.trainable_weights])
        return [*outputs, *map(tf.convert_to_tensor, gradients)], getattr(outputs[0], "_keras_mask", None)

    expected, expected_mask = results()
    with accelerate_keras():
        count, (actual, mask) = runs.during(results)
    assert count > 0
    check_equal(actual, expected, "masks within a model")
    assert (mask is None) == (expected_mask is None)
    if mask is not None:
        np.testing.assert_array_equal(mask, expected_mask)


def test_rnn_of_a_cell(runs):
    layer = keras.layers.RNN(keras.layers.LSTMCell(UNITS), return_sequences=True, go_backwards=True)
    layer.build(X.shape)
    randomize(layer)
    check_accelerated(runs, layer, X)


# Lists of cells, and how many of them run on the op in inference and in training.
LISTS_OF_CELLS = {
    "LSTM, GRU": (lambda k: [k.LSTMCell(UNITS), k.GRUCell(UNITS + 1)], 2, 2),
    "three": (
        lambda k: [k.SimpleRNNCell(7, "relu"), k.GRUCell(UNITS, reset_after=False), k.LSTMCell(2, use_bias=False)],
        *(3, 3),
    ),
    "dropout": (
        lambda k: [k.GRUCell(UNITS, dropout=0.4, seed=1), k.LSTMCell(UNITS, dropout=0.3, seed=2, implementation=1)],
        *(2, 2),
    ),
    "recurrent dropout": (lambda k: [k.LSTMCell(UNITS, recurrent_dropout=0.3, seed=3), k.SimpleRNNCell(UNITS)], 2, 2),
    "recurrent dropout, GRU": (
        lambda k: [k.SimpleRNNCell(UNITS), k.GRUCell(UNITS, recurrent_dropout=0.3, seed=3)],
        *(2, 2 if HAS_MASKS_OF_GATES else 0),
    ),
    "other cell": (lambda k: [k.LSTMCell(UNITS), k.GRUCell(UNITS, activation="softmax")], 0, 0),
}


def options_of_lists(**chosen):
    names = "go_backwards", "return_sequences", "return_state", "zero_output_for_mask", "unroll"
    return {name: chosen.get(name, False) for name in names}


@pytest.mark.parametrize("cells", LISTS_OF_CELLS)
@settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    options=st.fixed_dictionaries(dict.fromkeys(options_of_lists(), st.booleans())),
    mask=st.sampled_from([None, *MASKS]),
    with_states=st.booleans(),
    training=st.booleans(),
    in_graph=st.booleans(),
    is_given_a_list=st.booleans(),
)
@example(
    options=options_of_lists(return_state=True),
    mask=None,
    with_states=False,
    training=True,
    in_graph=True,
    is_given_a_list=True,
)
@example(
    options=options_of_lists(go_backwards=True, return_sequences=True, zero_output_for_mask=True),
    mask="gaps",
    with_states=True,
    training=True,
    in_graph=False,
    is_given_a_list=False,
)
@pytest.mark.not_xla("XLA cannot pass the tensor lists of Keras's loop to its gradient")
def test_lists_of_cells(cells, options, mask, with_states, training, in_graph, is_given_a_list, runs):
    make, *counts = LISTS_OF_CELLS[cells]
    cells = make(keras.layers)
    of_gates = [each for each in cells if hasattr(each, "seed_generator")]
    layer = keras.layers.RNN(cells if is_given_a_list else keras.layers.StackedRNNCells(cells), **options)
    layer.build(X.shape)
    randomize(layer)
    states = None
    if with_states:
        of_sizes = lambda size: tf.constant(data(BATCH, size, dtype="float32"))  # noqa: E731
        states = keras.tree.map_structure(of_sizes, layer.cell.state_size)

    def results():
        for each in of_gates:
            each.seed_generator.state.assign([7, 0])
        call = lambda x: layer(x, initial_state=states, training=training, mask=MASKS.get(mask))  # noqa: E731
        call = tf.function(call, autograph=False) if in_graph else call
        outputs, gradients = outputs_and_gradients(lambda: call(tf.constant(X)), variables_of(layer))
        return [*outputs, *map(tf.convert_to_tensor, gradients)]

    expected = results()
    with accelerate_keras():
        count, actual = runs.during(results)
        (row, *others) = explain(layer)
    assert [row.inference != "Keras", row.training != "Keras"] == list(map(bool, counts))
    assert bool(counts[False]) == (not others)
    is_on_op = bool(counts[training])
    zeroes_other_steps = options["unroll"] and options["go_backwards"] and options["zero_output_for_mask"] and mask
    if zeroes_other_steps or not is_on_op:
        assert count <= 4  # Keras calls cells once for their dropout
    else:
        assert count >= counts[training]
    check_equal(actual, expected, "RNN of a list of cells")


def with_other_dtype(layer):
    layer.cell = keras.layers.StackedRNNCells(layer.cell.cells, dtype="float64")


def with_other_call(layer):
    layer.cell.call = functools.partial(layer.cell.call)


def with_a_cell_of_ours(layer):
    layer.cell.cells[1] = tf_rnn_ops.layers.GRUBlockCell(3)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (with_other_dtype, "but its list of cells float64: pass keras.layers.StackedRNNCells"),
        (with_other_call, "cell.call is not Keras's own"),
        (with_a_cell_of_ours, "the list has cells of tf_rnn_ops: use one layer per cell"),
    ],
)
def test_changed_lists_of_cells_fall_back(change, reason):
    layer = keras.layers.RNN([keras.layers.LSTMCell(2), keras.layers.GRUCell(3)])
    change(layer)
    with accelerate_keras():
        assert any(reason in each for each in explain(layer)[0].reasons)


def with_other_activation(layer):
    layer.cell.activation = tf.nn.relu


def with_other_implementation(layer):
    layer.cell.implementation = layer.cell._implementation = 2


def with_other_cell(layer):
    layer.cell.cells[0] = TF_KERAS.layers.LSTMCell(UNITS + 1)
    layer.cell.cells[0].build((None, FEATURES))


def list_of_cells(package, **options):
    layers = package.layers
    return layers.RNN(layers.StackedRNNCells([layers.LSTMCell(UNITS), layers.GRUCell(UNITS)], **options))


def lstm(package, **options):
    return package.layers.LSTM(UNITS, **options)


COMPLEX = {"dtype": "complex64", "kernel_initializer": "ones", "recurrent_initializer": "ones"}


# How a layer is made, changed and called, and why it then falls back to Keras.
FALLBACKS = {
    "an array": ((lstm,), None, lambda layer: layer.call(X), "the input is a ndarray: pass a dense tensor"),
    "rank 4": ((lstm,), None, lambda layer: layer.call(X[..., tf.newaxis] + tf.zeros(2)), "the input has rank 4: pass"),
    "integers": ((lstm,), None, lambda layer: layer.call(tf.ones(X.shape, "int32")), "the input has dtype int32: pass"),
    "complex": ((lstm, COMPLEX), None, None, "dtype complex64: use one of bfloat16, float16, "),
}
FALLBACKS_OF_KERAS_2 = {
    **{name: FALLBACKS[name] for name in ("an array", "rank 4", "integers")},
    "activation": ((lstm,), with_other_activation, None, "the cell was changed after the layer was made: pass"),
    "implementation": (
        (lstm, {"recurrent_dropout": 0.5, "implementation": 1}),
        with_other_implementation,
        lambda layer: layer(X, training=True),
        "implementation was set after the cell was made: pass",
    ),
    "sizes": ((list_of_cells,), with_other_cell, None, "a cell was not built for the units of the cell before: pass"),
    "order": ((list_of_cells, {"reverse_state_order": True}), None, None, "reverse_state_order=True: set it to False"),
}


@pytest.mark.parametrize(
    ("package", "case"),
    [(keras, name) for name in FALLBACKS]
    + [pytest.param(TF_KERAS, name, marks=needs_keras_2) for name in FALLBACKS_OF_KERAS_2],
)
def test_calls_that_fall_back_to_keras(package, case):
    (make, *options), change, call, reason = (FALLBACKS if package is keras else FALLBACKS_OF_KERAS_2)[case]
    call = call or (lambda layer: layer(X))
    layer = make(package, **dict(*options))
    layer(X)
    if change is not None:
        change(layer)

    def result():
        package.utils.set_random_seed(0)
        try:
            return np.asarray(call(layer))
        except (tf.errors.InvalidArgumentError, ValueError) as error:
            return str(error)

    expected = result()
    with accelerate_keras():
        actual = result()
    if isinstance(expected, str):
        assert actual == expected
    else:
        assert parity.difference(actual, expected) < 1e-6  # cells may run on the op
    with accelerate_keras(strict=True), pytest.raises(RuntimeError, match=re.escape(reason)):
        call(layer)


def test_a_stateful_list_of_cells():
    layer = keras.layers.RNN([keras.layers.LSTMCell(UNITS), keras.layers.GRUCell(2)], stateful=True, return_state=True)
    layer.build(X.shape)
    randomize(layer)

    def two_calls():
        for each in keras.tree.flatten(layer.states):
            each.assign(tf.zeros_like(each))
        return [layer(X), layer(X)]

    expected = two_calls()
    with accelerate_keras(strict=True):
        actual = two_calls()
    tf.nest.assert_same_structure(actual, expected)
    check_equal(actual, expected, "a stateful list of cells")


@pytest.mark.parametrize("package", KERASES)
def test_activations_of_the_op(package, runs):
    names = {name for name in ACTIVATIONS if hasattr(package.activations, name)} - {"hard_sigmoid"}
    assert len(names) > 8
    functions = [getattr(package.activations, name) for name in names | {"swish"}]
    functions += [tf.nn.leaky_relu, tf.nn.relu6, tf.exp, tf.nn.gelu, tf.nn.silu]
    for i, activation in enumerate([*names, "swish", *functions]):
        for layer in (
            package.layers.GRU(UNITS, activation=activation, reset_after=bool(i % 2)),
            package.layers.SimpleRNN(UNITS, activation=activation),
        ):
            layer.build(X.shape)
            randomize(layer)
            check_accelerated(runs, layer, X)


def test_other_layers_are_unchanged(runs):
    cells = [keras.layers.LSTMCell(UNITS), keras.layers.GRUCell(UNITS, activation="softmax")]
    layers = [
        keras.layers.RNN(cells),
        keras.layers.LSTM(UNITS, activation="softmax"),
        keras.layers.GRU(UNITS, activation="softmax"),
        keras.layers.RNN(keras.layers.GRUCell(UNITS, dtype="float64")),
    ]
    expected = [tf.function(layer)(X) for layer in layers]
    with accelerate_keras():
        for layer, output in zip(layers, expected, strict=True):
            count, actual = runs.during(tf.function(layer), X)
            assert count == 0
            np.testing.assert_array_equal(actual, output)
        convolutional = keras.layers.ConvLSTM1D(2, 3)
        assert runs.during(lambda: convolutional(data(2, 3, 6, 2)))[0] == 0


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_use_cudnn_works_without_a_gpu(kind, runs):
    layer = KERAS[kind](UNITS, use_cudnn=True)
    with accelerate_keras():
        assert runs.during(lambda: layer(X))[0] == 1
    with pytest.raises(ValueError, match="use_cudnn=True was specified"):
        layer(X)


@needs_xla
@pytest.mark.parametrize("name", MODELS)
def test_xla(name, runs):
    make, layers = MODELS[name]
    model = compiled_model(make, jit_compile=True)
    expected = predict(model)
    with accelerate_keras():
        assert model.jit_compile
        compiled = tf.function(lambda x: model(x), jit_compile=True, autograph=False)
        for call in lambda: predict(model), lambda: compiled(X):
            count, actual = runs.during(call)
            assert count == layers
            np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
        assert calls_in_xla(compiled, tf.constant(X), "KerasRNN") == layers


@needs_xla
def test_a_function_that_was_traced_outside_xla(runs):
    layer = keras.layers.GRU(UNITS)
    inner = tf.function(layer, autograph=False)
    with accelerate_keras():
        expected = inner(X)
        actual = tf.function(lambda x: 2 * inner(x), jit_compile=True, autograph=False)(X)
    np.testing.assert_array_equal(actual, 2 * expected)


@pytest.mark.parametrize("has_mask", [False, True], ids=["all steps", "masked"])
@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("kind", KINDS)
def test_dynamic_sizes(kind, training, has_mask, runs):
    layer = pair(kind, return_sequences=True, return_state=True)[1]

    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            mask = tf.reduce_all(tf.abs(x) < 1.5, axis=2) if has_mask else None
            outputs = tf.nest.flatten(layer(x, training=training, mask=mask))
            loss = tf.add_n([tf.reduce_sum(tf.sin(each)) for each in outputs])
        return outputs, tape.gradient(loss, [x, *(each.value for each in layer.trainable_variables)])

    compiled = tf.function(run, input_signature=[tf.TensorSpec([None, None, FEATURES], tf.float64)])
    with accelerate_keras():
        assert runs.during(compiled.get_concrete_function)[0] == 1
    for batch, steps in [(1, 1), (1, 16), (4, 3)]:
        x = tf.constant(data(batch, steps, FEATURES))
        check_equal(compiled(x), run(x), f"accelerated {kind}")


def test_the_graph_of_a_layer_has_only_the_op_and_its_variables():
    layer = KERAS["LSTM"](UNITS, return_sequences=True)
    state = tf.zeros([2, UNITS])
    with accelerate_keras():
        call = tf.function(lambda x: layer(x, initial_state=[state, state]))
        graph = call.get_concrete_function(tf.TensorSpec([2, None, FEATURES])).graph
    ops = [op.type for op in graph.get_operations() if op.type not in ("Const", "Placeholder", "NoOp")]
    assert ops.count("TfRnnOps>KerasRNN") == 1
    assert ops.count("ReadVariableOp") == 3
    used = set(reachable(graph.outputs[0].op))
    small = [op.type for op in used if op.type not in ("Const", "Placeholder", "ReadVariableOp", "TfRnnOps>KerasRNN")]
    assert len(small) <= 3, small


def reachable(op):
    """Returns a graph operation and its dependencies."""
    return [op, *(each for tensor in op.inputs for each in reachable(tensor.op))]


@pytest.mark.parametrize(("batch", "steps"), [(1, 3), (4, 6)], ids=["short", "long"])
def test_gradients_of_gradients_with_dynamic_sizes(batch, steps):
    model, x = functional(), tf.constant(data(batch, steps, FEATURES, dtype="float32"))
    expected = penalty_gradients(model, x)
    with accelerate_keras():
        call = tf.function(
            lambda x: penalty_gradients(model, x), input_signature=[tf.TensorSpec([None, None, FEATURES])]
        )
        actual = call(x)
    check_equal(actual, expected, "gradients of gradients")


@pytest.mark.parametrize("portable", [False, True])
def test_an_exported_model_accepts_sequences_of_any_length(portable, tmp_path):
    model = functional()
    inputs = [data(batch, steps, FEATURES, dtype="float32") for batch, steps in [(1, 3), (4, 3), (4, 16)]]
    expected = [model(x) for x in inputs]
    with accelerate_keras(portable_exports=portable):
        model.export(tmp_path, verbose=False)
    loaded = tf.saved_model.load(tmp_path)
    for x, y in zip(inputs, expected, strict=True):
        np.testing.assert_allclose(loaded.serve(x), y, rtol=1e-5, atol=1e-6)


UNSUPPORTED = {
    "old": (keras, "__version__", "3.4.1", "with Keras 3.5 to 3.16, but Keras 3.4.1 is installed, which is older"),
    "methods of a layer": (keras.layers.GRU, "inner_loop", lambda self, x: x, "whose layers have other methods"),
    "methods of a cell": (keras.layers.GRUCell, "call", lambda self, x: x, "whose layers have other methods"),
    "backend": (
        keras.backend,
        "backend",
        lambda: "jax",
        "accelerate_keras requires the Keras backend to be tensorflow",
    ),
}


@pytest.mark.parametrize("case", UNSUPPORTED)
def test_an_unsupported_keras_is_rejected(case, monkeypatch):
    owner, name, value, message = UNSUPPORTED[case]
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, value)
        with pytest.raises(RuntimeError, match=re.escape(message)):
            accelerate_keras()


def test_a_newer_keras_with_the_same_methods_runs_and_is_logged(runs, monkeypatch, caplog):
    monkeypatch.setattr(keras, "__version__", "3.17.0.dev2027010203")
    layer = keras.layers.LSTM(UNITS)
    with accelerate_keras():
        assert runs.during(layer, X)[0] == 1
    assert [each.getMessage() for each in caplog.records] == [
        "accelerate_keras was tested with Keras 3.5 to 3.16, and now runs with Keras 3.17.0.dev2027010203."
    ]


KERAS_2 = """
import sys
import numpy as np
{imports}
model = {module}.Sequential([{module}.layers.LSTM(2)])
x = np.ones([2, 4, 3], "float32")
model.predict(x, verbose=0)
print(explain(model)[0].inference)
tf_rnn_ops.restore_keras()
print(explain(model)[0].inference, {module}.layers.LSTM.__module__)
"""
START = "import tf_rnn_ops; from tf_rnn_ops import explain; tf_rnn_ops.accelerate_keras(strict=True); "
IMPORTS = {
    "before": ("import tf_keras; " + START, "tf_keras", "0"),
    "after": (START + "assert 'tf_keras' not in sys.modules; import tf_keras", "tf_keras", "0"),
    "tf.keras": (START + "import tensorflow as tf", "tf.keras", "1"),
    "variable": ("import tf_keras; from tf_rnn_ops import explain; import tf_rnn_ops", "tf_keras", "0"),
}


@needs_keras_2
@pytest.mark.parametrize("when", IMPORTS)
def test_when_keras_2_is_imported(when, tmp_path):
    imports, module, is_legacy = IMPORTS[when]
    (tmp_path / "program.py").write_text(KERAS_2.format(imports=imports, module=module))
    variables = {"TF_USE_LEGACY_KERAS": is_legacy, "TF_RNN_OPS_ACCELERATE_KERAS": str(int(when == "variable"))}
    printed = processes.run_program(str(tmp_path / "program.py"), **variables)
    lines = [line for line in printed.splitlines() if not line.startswith(("layer", "lstm", "1. "))]
    assert lines == ["op", "Keras tf_keras.src.layers.rnn.lstm"]


@needs_keras_2
def test_a_program_of_keras_2_runs_accelerated_without_a_change(tmp_path):
    (tmp_path / "program.py").write_text(
        RUN_PROGRAM.replace("import keras", "import tf_keras as keras")
        .replace("import helper", "helper = sys")
        .replace("helper.VALUE", "7")
    )
    ended = processes.run_python(*("-m", "tf_rnn_ops", "run", str(tmp_path / "program.py")))
    *_, counts = ended.stdout.splitlines()
    assert counts == "of the recurrent layers that ran, 1 ran on the op and 1 in Keras's own code"


@needs_keras_2
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("options", [{}, {"go_backwards": True}, {"time_major": True}, {"stateful": True}])
def test_layers_of_cudnn_run_without_a_gpu(kind, options, runs):
    """Without acceleration, they run on GPUs only."""
    private = importlib.import_module("tf_keras.src.layers")
    options = {**options, "return_sequences": True, "return_state": True, "dtype": "float64"}
    layer = getattr(private, f"CuDNN{kind}")(UNITS, **options)
    if kind == "GRU":
        options["reset_after"] = True
    expected = getattr(TF_KERAS.layers, kind)(UNITS, **options)
    x = data(BATCH, BATCH, FEATURES)  # CuDNNLSTM reverses the second dimension, also if the first are the steps
    for each in (layer, expected):
        each.build(x.shape)
    randomize(layer)
    kernel, recurrent_kernel, bias = layer.get_weights()[:3]
    bias = bias.reshape(2, -1) if kind == "GRU" else bias.reshape(2, -1).sum(axis=0)
    expected.set_weights([kernel, recurrent_kernel, bias, *expected.get_weights()[3:]])
    if options.get("go_backwards") and options.get("time_major"):
        pytest.skip("differs in Keras")
    for _ in range(2):
        with accelerate_keras(strict=True):
            count, actual = runs.during(
                outputs_and_gradients, lambda: layer(x, training=True), layer.trainable_variables
            )
        assert count == 1
        outputs, gradients = outputs_and_gradients(lambda: expected(x, training=True), expected.trainable_variables)
        check_equal(actual[0], outputs, "CuDNN")
        check_equal(actual[1][:2], gradients[:2], "CuDNN")
    with accelerate_keras():
        assert explain(layer)[0].training == "op"


@needs_keras_2
def test_an_old_loop_in_a_session(runs):
    """A graph of TensorFlow 1, whose learning phase is a placeholder."""
    results = []
    for context in (contextlib.nullcontext, accelerate_keras):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session, context():
            x = tf.compat.v1.placeholder(tf.float32, [None, None, FEATURES])
            layer = importlib.import_module("tf_keras.src.layers").LSTMV1(UNITS, dropout=0.5)
            count, y = runs.during(layer, x)
            train = tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(y**2))
            randomize_in_session(layer, session)
            learning_phase = TF_KERAS.backend.learning_phase()
            steps = []
            for _ in range(3):
                steps.append(session.run(y, {x: X, learning_phase: 0}))
                session.run(train, {x: X, learning_phase: 0})
            results.append(steps)
    assert count == 1
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5, atol=1e-6)


def randomize_in_session(layer, session):
    """Sets random weights in a graph of TensorFlow 1."""
    for number, weight in enumerate(layer.trainable_weights):
        weight.load(data(*weight.shape, seed=number, dtype="float32") / 2, session)


@needs_keras_2
@pytest.mark.parametrize("save_format", ["tf", "keras", "h5", "export"])
@pytest.mark.parametrize("exports", ["portable", "op"])
def test_files_of_keras_2(save_format, exports, runs, tmp_path):
    model = functional(TF_KERAS)
    expected = model.predict(X, verbose=0)
    path = str(tmp_path / f"model{'' if save_format in ('tf', 'export') else '.' + save_format}")
    with accelerate_keras(strict=True, exports=exports):
        model.export(path) if save_format == "export" else model.save(path, save_format=save_format)
    if save_format in ("tf", "export"):
        loaded = tf.saved_model.load(path)
        serve = next(iter(loaded.signatures.values()))
        assert ("TfRnnOps>KerasRNN" in str(serve.graph.as_graph_def())) == (exports == "op")
        np.testing.assert_allclose(next(iter(serve(tf.constant(X)).values())), expected, rtol=1e-5, atol=1e-6)
    with accelerate_keras(strict=True):
        # A save leaves attributes on the layers.
        models = [model] if save_format == "export" else [model, TF_KERAS.models.load_model(path)]
        for each in models:
            count, actual = runs.during(lambda each=each: tf.function(lambda x: each(x))(X))
            assert count == 2
            np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(freeze(model)(tf.constant(X)), expected, rtol=1e-5, atol=1e-6)


@needs_keras_2
def test_a_model_of_keras_2_that_was_saved(runs, tmp_path):
    """Keras leaves methods of before the acceleration in its layers."""
    model = sequential(TF_KERAS)
    model.save(tmp_path / "model", save_format="tf")
    check_accelerated(runs, model, X)


@needs_keras_2
def test_a_cell_of_keras_2_step_by_step(runs):
    for kind in KINDS:
        cell = getattr(TF_KERAS.layers, f"{kind}Cell")(UNITS)
        states = [tf.ones([BATCH, UNITS])] * (2 if kind == "LSTM" else 1)
        check_accelerated(runs, cell, tf.constant(X[:, 0]), states)
        with accelerate_keras():
            cell.dropout = 0.5  # Keras finds out whether to apply it
            assert runs.during(cell, tf.constant(X[:, 0]), states)[0] == 0


@needs_keras_2
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_subclasses_of_cudnn_fall_back(kind):
    base = getattr(importlib.import_module("tf_keras.src.layers"), f"CuDNN{kind}")
    layer = type("Subclass", (base,), {})(UNITS)
    layer.build((None, TIME, FEATURES))
    with accelerate_keras():
        assert explain(layer)[0].reasons == ("the layer is a Subclass: use CuDNNLSTM or CuDNNGRU",)


@needs_keras_2
def test_keras_2_whose_import_starts_before_acceleration_ends():
    code = """
    import importlib.util, sys
    import tf_rnn_ops
    with tf_rnn_ops.accelerate_keras():
        spec = importlib.util.find_spec("tf_keras")
        path, sys.path = sys.path, []
        assert importlib.util.find_spec("tf_keras") is None
        sys.path = path
    sys.modules["tf_keras"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["tf_keras"])
    print(sys.modules["tf_keras"].layers.LSTM.call.__module__)
    """
    assert processes.run_code(code) == "tf_keras.src.layers.rnn.lstm\n"


@needs_keras_2
def test_keras_2_with_other_methods_is_not_accelerated():
    code = """
    import logging, sys
    logging.basicConfig(stream=sys.stdout, format="%(message)s")
    import tf_rnn_ops
    from tf_rnn_ops._keras import acceleration
    tf_rnn_ops.accelerate_keras()
    acceleration._parameters = lambda owner, name: []
    import tf_keras
    print(tf_keras.layers.LSTM.call.__module__)
    """
    logged, printed = processes.run_code(code).splitlines()
    assert logged.startswith("Keras 2 (tf_keras) is not accelerated: accelerate_keras was tested with Keras 2.")
    assert "whose layers have other methods: install one of the tested versions" in logged
    assert printed == "tf_keras.src.layers.rnn.lstm"


@needs_keras_2
def test_recurrent_dropout_of_keras_2_draws_other_masks_at_each_step_of_a_graph(runs):
    """A mask for all steps would keep half of the numbers."""
    layer = TF_KERAS.layers.SimpleRNN(
        1000,
        activation=None,
        kernel_initializer="zeros",
        recurrent_initializer="identity",
        recurrent_dropout=0.5,
    )
    ones = tf.ones([BATCH, 1000])
    for context, count in ((contextlib.nullcontext, 0), (accelerate_keras, 1)):
        with context():
            layer(X)  # builds it
            call = tf.function(lambda: layer(X, training=True, initial_state=ones), autograph=False)
            ran, result = runs.during(call)
            assert ran == count
            assert abs(np.mean(result.numpy() != 0) - 0.5**TIME) < 0.02


def test_keras_2_that_is_missing():
    """`tf.keras` then raises an ImportError at its first access, and a RecursionError at the second."""
    code = """
    import sys
    sys.modules["tf_keras"] = None
    import tensorflow as tf
    import tf_rnn_ops
    tf_rnn_ops.accelerate_keras()
    try:
        tf.keras.layers
    except ImportError as error:
        print(error)
    """
    assert (
        processes.run_code(code, TF_USE_LEGACY_KERAS="1") == "Keras cannot be imported. Check that it is installed.\n"
    )


WORKER = """
import keras, tensorflow as tf, tf_rnn_ops

def runs_on_op(model):
    graph = tf.function(model).get_concrete_function(tf.TensorSpec([2, 4, 3])).graph
    return "TfRnnOps>KerasRNN" in {op.type for op in graph.get_operations()}
"""
PROGRAM = """
import concurrent.futures, multiprocessing, os, sys
os.environ["TF_RNN_OPS_ACCELERATE_KERAS"] = "{variable}"
sys.path.insert(0, "{folder}")
import keras, tf_rnn_ops, worker

model = keras.Sequential([keras.Input([None, 3]), keras.layers.LSTM(2)])
if {spawn}:
    spawn = multiprocessing.get_context("spawn")
    initializer = None if "{variable}" else tf_rnn_ops.accelerate_keras
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn, initializer=initializer) as pool:
        assert pool.submit(worker.runs_on_op, model).result()
print("accelerated:", worker.runs_on_op(model))
tf_rnn_ops.restore_keras()
assert not worker.runs_on_op(model)
"""


def test_other_processes(tmp_path):
    """A spawned process is accelerated by the environment variable or an initializer."""
    (tmp_path / "worker.py").write_text(WORKER)
    program = functools.partial(PROGRAM.format, folder=tmp_path)
    set_variable = "import os; os.environ['TF_RNN_OPS_ACCELERATE_KERAS'] = '{}'\n"
    old_keras = "import keras; keras.__version__ = '3.4.1'\n"
    codes = {
        "plain": program(variable="", spawn=False),
        "0": program(variable="0", spawn=False),
        "1": program(variable="1", spawn=True),
        "initializer": program(variable="", spawn=True),
        "yes": set_variable.format("yes") + "import tf_rnn_ops",
        "old": set_variable.format("1") + old_keras + "import tf_rnn_ops",
    }
    ended = forked.run_codes(codes, TF_USE_LEGACY_KERAS="0")
    for name, is_accelerated in (("plain", False), ("0", False), ("1", True), ("initializer", False)):
        assert ended[name].status == 0, ended[name].output
        assert ended[name].last_line == f"accelerated: {is_accelerated}", name
    assert ended["yes"].status == 1
    assert "the environment variable TF_RNN_OPS_ACCELERATE_KERAS must be 1" in ended["yes"].output
    assert "but is 'yes'" in ended["yes"].output
    assert ended["old"].status == 0
    message = "RuntimeWarning: TF_RNN_OPS_ACCELERATE_KERAS=1 has no effect: accelerate_keras was tested with Keras"
    assert message in ended["old"].output


RUN_PROGRAM = """
import logging, sys
import keras
import numpy as np

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
    inputs = keras.Input([None, 3])
    x = keras.layers.GRU(4, activation="softmax")(keras.layers.LSTM(4, return_sequences=True)(inputs))
    model = keras.Model(inputs, x)
    for _ in range(2):
        model.predict(np.ones([2, 5, 3], "float32"), verbose=0)
    import helper
    print(sys.argv, helper.VALUE)
    sys.exit(3)
"""


@pytest.mark.parametrize("module", [False, True])
def test_a_program_runs_accelerated_without_a_change(module, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(RUN_PROGRAM)
    (tmp_path / "helper.py").write_text("VALUE = 7")
    what = ["-m", "program"] if module else [str(program)]
    ended = forked.run(forked.COMMAND, "run", *what, "-m", "--option", PYTHONPATH=str(tmp_path) if module else "")
    assert ended.status == 3, ended.output
    *_, printed, counts = ended.printed.splitlines()
    assert printed == f"{[str(program), '-m', '--option']} 7"
    assert counts == "of the recurrent layers that ran, 1 ran on the op and 1 in Keras's own code"
    assert "layer 'gru' (GRU) falls back to Keras. activation='softmax'" in ended.printed


def test_a_program_to_run_must_exist():
    ended = forked.run(forked.COMMAND, "run", "/no/program.py")
    assert ended.status == 2
    assert "program must be the path of a Python program, but '/no/program.py' does not exist" in ended.errors
