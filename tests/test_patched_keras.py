"""Tests of programs that patch Keras, or change a cell after it was made: acceleration leaves that to Keras."""

import functools
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from checks.keras_layers import BATCH, FEATURES, KERAS, KINDS, UNITS, data, randomize
from inputs.pairs import every_pair

from tf_rnn_ops import accelerate_keras, explain

X = data(BATCH, 2, FEATURES, dtype="float32")
CELLS = {kind: getattr(keras.layers, f"{kind}Cell") for kind in KINDS}
OPTIONS = {
    "op": {"dropout": 0.3},
    "an input mask for each gate": {"dropout": 0.3, "implementation": 1, "use_cudnn": False},
    "recurrent dropout": {"recurrent_dropout": 0.3},
}


def make_layer(kind, **options):
    layer = KERAS[kind](UNITS, seed=1, return_sequences=True, **options)
    layer.build(X.shape)
    randomize(layer)
    return layer


def results(layer):
    """Returns the outputs in inference and training, or the type and end of the error."""
    try:
        return [layer(X, training=training).numpy() for training in (False, True)]
    except Exception as error:
        return type(error), str(error)[-300:]


def check_equal(actual, expected):
    if isinstance(expected, tuple) or isinstance(actual, tuple):
        assert actual[0] is expected[0], (actual, expected)
        return
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def methods_that_run(layer):
    """Returns (class, name) of the methods and properties of Keras that a layer and its cell run."""
    names, run = {}, set()
    for cls in {*type(layer).__mro__, *type(layer.cell).__mro__}:
        for name, value in vars(cls).items() if cls.__module__.startswith("keras.") else ():
            function = value.fget if isinstance(value, property) else value
            while hasattr(function, "__wrapped__"):
                function = function.__wrapped__
            if hasattr(function, "__code__"):
                names[function.__code__] = cls, name

    def record(frame, event, _):
        if event == "call" and frame.f_code in names and frame.f_locals.get("self") in (layer, layer.cell):
            run.add(names[frame.f_code])

    sys.setprofile(record)
    try:
        results(layer)
    finally:
        sys.setprofile(None)
    return sorted(run, key=lambda each: (each[0].__name__, each[1]))


def changed(method):
    """Returns a method or property that changes floating-point tensors in the result of another."""
    if isinstance(method, property):
        return property(changed(method.fget), method.fset)

    @functools.wraps(method)
    def call(*arguments, **keyword_arguments):
        return keras.tree.map_structure(
            lambda each: each * 1.5 if isinstance(each, tf.Tensor) and each.dtype.is_floating else each,
            method(*arguments, **keyword_arguments),
        )

    return call


def reasons(layer):
    return " ".join(reason for row in explain(layer) for reason in row.reasons)


@pytest.mark.parametrize(
    ("kind", "options"), [("SimpleRNN", "op"), *((kind, options) for kind in ("LSTM", "GRU") for options in OPTIONS)]
)
def test_every_method_of_keras(kind, options, monkeypatch):
    replaced_later, options = options in ("op", "recurrent dropout"), OPTIONS[options]
    methods = methods_that_run(make_layer(kind, **options))
    assert (CELLS[kind], "call") in methods
    assert (keras.layers.RNN, "inner_loop") in methods
    for cls, name in methods:
        layers = [make_layer(kind, **options) for _ in range(3)]
        with monkeypatch.context() as patch:
            patch.setattr(cls, name, changed(vars(cls)[name]))
            expected = results(layers[0])
            with accelerate_keras():
                check_equal(results(layers[1]), expected)
        if replaced_later:  # than the acceleration began
            with accelerate_keras(), monkeypatch.context() as patch:
                patch.setattr(cls, name, changed(vars(cls)[name]))
                check_equal(results(layers[2]), expected)


REPLACED = [
    *((cls, "call") for cls in CELLS.values()),
    *((keras.layers.LSTMCell, name) for name in ("_compute_carry_and_output_fused", "get_dropout_mask")),
    (keras.layers.LSTM, "inner_loop"),
    (keras.layers.GRU, "inner_loop"),
    (keras.layers.RNN, "inner_loop"),
    (keras.layers.Layer, "__call__"),
    (keras.Operation, "__call__"),
]


@pytest.mark.parametrize(("cls", "name"), REPLACED)
def test_a_replaced_method_is_reported(cls, name, runs, monkeypatch):
    kind = next((each for each in KINDS if cls in (KERAS[each], CELLS[each])), "LSTM")
    layer = make_layer(kind)
    owner = next(each for each in cls.__mro__ if name in vars(each))
    monkeypatch.setattr(owner, name, changed(vars(owner)[name]))
    with accelerate_keras(strict=True):
        assert f"{name} is not Keras's own: remove what replaced it" in reasons(layer)
        with pytest.raises(RuntimeError, match="would fall back to Keras"):
            layer(X)
    assert runs.count == 0


@pytest.mark.parametrize("own", [False, True], ids=["function of a user", "another method of Keras"])
def test_a_method_that_only_looks_like_that_of_keras(own, monkeypatch):
    call = keras.layers.LSTMCell.call
    other = keras.layers.GRUCell.call if own else functools.wraps(call)(lambda cell, x, states: (states[0], states))
    monkeypatch.setattr(keras.layers.LSTMCell, "call", other)
    with accelerate_keras():
        assert "LSTMCell.call is not Keras's own" in reasons(make_layer("LSTM"))


def test_a_method_that_is_added_is_ignored(runs, monkeypatch):
    monkeypatch.setattr(keras.layers.LSTMCell, "helper", lambda cell: cell, raising=False)
    layer = make_layer("LSTM")
    with accelerate_keras(strict=True):
        assert runs.during(layer, X)[0] == 1


def of_cell(name):
    def change(layer):
        setattr(layer.cell, name, changed(getattr(layer.cell, name)))

    return change


def of_layer(layer):
    layer.inner_loop = changed(layer.inner_loop)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "change",
    [of_layer, *map(of_cell, ("call", "get_dropout_mask", "get_recurrent_dropout_mask", "_create_dropout_mask"))],
    ids=["inner_loop", "call", "get_dropout_mask", "get_recurrent_dropout_mask", "_create_dropout_mask"],
)
def test_a_method_of_an_instance(change, kind, runs):
    layers = [make_layer(kind, dropout=0.3) for _ in range(2)]
    for layer in layers:
        change(layer)
    expected = results(layers[0])
    with accelerate_keras():
        count, actual = runs.during(results, layers[1])
        assert "is not Keras's own" in reasons(layers[1])
    check_equal(actual, expected)
    assert count == 0 or change is of_layer  # whose cell runs its steps on the op


def set_in_cell(**attributes):
    def change(cell):
        for name, value in attributes.items():
            setattr(cell, name, value)

    return change


def set_weight(name, make):
    def change(cell):
        object.__setattr__(cell, name, make(getattr(cell, name)))

    return change


CHANGES = {
    "no bias": set_in_cell(use_bias=False),
    "bias None": set_weight("bias", lambda _: None),
    "no bias and bias None": lambda cell: [set_in_cell(use_bias=False)(cell), set_weight("bias", lambda _: None)(cell)],
    "units": set_in_cell(units=2),
    "state_size": set_in_cell(state_size=[UNITS + 1] * 2),
    "unit_forget_bias": set_in_cell(unit_forget_bias=False),
    "reset_after": set_in_cell(reset_after=False),
    "implementation": set_in_cell(implementation=1),
    "dropout_mask_count": set_in_cell(dropout_mask_count=4),
    "implementation and dropout_mask_count": set_in_cell(implementation=1, dropout_mask_count=5),
    "dropout": set_in_cell(dropout=0.6),
    "recurrent_dropout": set_in_cell(recurrent_dropout=0.6),
    "activation": set_in_cell(activation=keras.activations.relu),
    "activation of a user": set_in_cell(activation=lambda x: x / 3),
    "recurrent_activation": set_in_cell(recurrent_activation=keras.activations.hard_sigmoid),
    "dtype_policy": set_in_cell(dtype_policy=keras.DTypePolicy("float64")),
    "autocast": set_in_cell(autocast=False),
    **{
        f"{name}, {form}": set_weight(name, make)
        for name in ("kernel", "recurrent_kernel", "bias")
        for form, make in {
            "tensor": lambda weight: 2 * tf.convert_to_tensor(weight),
            "variable of TensorFlow": lambda weight: tf.Variable(2 * tf.convert_to_tensor(weight)),
            "tensor of another dtype": lambda weight: tf.cast(weight.value, "float64"),
            "variable of another dtype": lambda weight: keras.Variable(
                tf.cast(weight.value, "float64"), dtype="float64"
            ),
            "array": lambda weight: 2 * weight.numpy(),
            "transposed": lambda weight: tf.transpose(weight.value),
        }.items()
    },
}


@pytest.mark.parametrize(("kind", "dropout", "change"), every_pair(KINDS, [0.0, 0.3], list(CHANGES)))
def test_an_attribute_that_changes(kind, dropout, change):
    options = {"dropout": dropout}
    layers = [make_layer(kind, **options) for _ in range(3)]
    for layer in layers[:2]:
        CHANGES[change](layer.cell)
    expected = results(layers[0])
    with accelerate_keras():
        check_equal(results(layers[1]), expected)
        # The change is noticed although the layer has run on the op before.
        results(layers[2])
        CHANGES[change](layers[2].cell)
        layers[2].cell.seed_generator.state.assign(make_layer(kind, **options).cell.seed_generator.state)
        check_equal(results(layers[2]), expected)


def test_a_change_is_reported():
    with accelerate_keras():
        layer = make_layer("LSTM")
        layer.cell.use_bias = False
        assert "the weights do not fit units, use_bias or reset_after" in reasons(layer)
        layer.cell.use_bias = True
        assert not reasons(layer)
        object.__setattr__(layer.cell, "kernel", tf.cast(layer.cell.kernel, "float64"))
        assert "a weight is a EagerTensor: use a keras.Variable or a tensor of dtype float32" in reasons(layer)


@pytest.mark.parametrize("cls", [keras.layers.LSTM, keras.layers.RNN], ids=lambda cls: cls.__name__)
def test_restore_keeps_the_patch_of_another(cls, runs):
    layer, original = make_layer("LSTM"), cls.inner_loop
    expected = results(layer)[0]
    acceleration = accelerate_keras()
    ours = cls.inner_loop

    def of_user(layer, *arguments, **keyword_arguments):
        calls.append(layer)
        return ours(layer, *arguments, **keyword_arguments)

    calls, cls.inner_loop = [], of_user
    try:
        acceleration.restore()
        assert cls.inner_loop is of_user
        count, actual = runs.during(layer, X)
        assert (count, calls) == (0, [layer])
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
        cls.inner_loop = ours  # the patch ends after the acceleration
        assert runs.during(layer, X)[0] == 0
        with accelerate_keras():
            assert runs.during(layer, X)[0] == 1
        assert cls.inner_loop is original
    finally:
        cls.inner_loop = original
