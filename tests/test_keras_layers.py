"""Tests of the LSTM, GRU and SimpleRNN layers on the op: equality with Keras, fallbacks, configs, files."""

import concurrent.futures
import contextlib
import gc
import importlib
import inspect
import itertools
import json
import threading
import weakref

import keras
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from checks.keras_layers import (
    BATCH,
    CONFIGURATIONS,
    FEATURES,
    KERAS,
    KINDS,
    MASKS,
    OURS,
    TF_KERAS,
    TIME,
    UNITS,
    calls_in_xla,
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
from environment import forked
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from inputs.pairs import every_pair
from tensorflow.python.framework import config  # disabling determinism is not public

import tf_rnn_ops

# Without shrinking: examples are small and take half a second.
PHASES = [Phase.explicit, Phase.reuse, Phase.generate]


CASES = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["float64", "float32"]),
        "go_backwards": st.booleans(),
        "return_sequences": st.booleans(),
        "return_state": st.booleans(),
        "zero_output_for_mask": st.booleans(),
        "use_bias": st.booleans(),
        "unroll": st.booleans(),
        "dropout": st.sampled_from([0.0, 0.4]),
    }
)
MASK = st.none() | st.sampled_from(list(MASKS.values())) | arrays(bool, (BATCH, TIME))


def with_unknown_sizes(run, arguments, jit_compile=False):
    """Returns a function of a dict of tensors in a graph with dynamic batch and time."""
    unknown = {"x": [None, None, FEATURES], "mask": [None, None], "states": [None, UNITS]}
    shapes = {
        name: tf.nest.map_structure(lambda _, shape=unknown[name]: tf.TensorShape(shape), value)
        for name, value in arguments.items()
    }
    specs = tf.nest.map_structure(lambda each, shape: tf.TensorSpec(shape, each.dtype), arguments, shapes)
    return tf.function(run, input_signature=[specs], autograph=False, jit_compile=jit_compile)


LAYERS = {**{kind: (kind, {}) for kind in KINDS}, **CONFIGURATIONS}


@pytest.mark.parametrize("configuration", LAYERS)
@settings(max_examples=3, phases=PHASES)
@given(
    case=CASES,
    mask=MASK,
    with_states=st.booleans(),
    training=st.booleans(),
    call=st.sampled_from(["eager", "graph"]),
    accelerated=st.booleans(),
)
def test_equals_keras(configuration, case, mask, with_states, training, call, accelerated):
    """Compares our layer, or the accelerated Keras layer."""
    kind, fixed = LAYERS[configuration]
    dtype = case["dtype"]
    ours, keras_layer = pair(kind, **case, **fixed, seed=3)
    if accelerated:
        ours = pair(kind, **case, **fixed, seed=3)[1]
    arguments = {"x": tf.constant(data(BATCH, TIME, FEATURES, dtype=dtype))}
    if mask is not None:
        arguments["mask"] = tf.constant(mask)
    if with_states:
        arguments["states"] = [tf.constant(data(BATCH, UNITS, dtype=dtype, seed=7)) for _ in ours.state_size]

    def results(layer):
        def run(arguments):
            x, states, mask = (arguments.get(name) for name in ("x", "states", "mask"))
            if case["unroll"]:
                x = tf.ensure_shape(x, [None, TIME, FEATURES])
                mask = None if mask is None else tf.ensure_shape(mask, [None, TIME])
            return layer(x, initial_state=states, mask=mask, training=training)

        called = run if call == "eager" else with_unknown_sizes(run, arguments)
        watched = [arguments["x"], *arguments.get("states", []), *variables_of(layer)]
        return outputs_and_gradients(lambda: called(arguments), watched)

    expected = results(keras_layer)
    with tf_rnn_ops.accelerate_keras() if accelerated else contextlib.nullcontext():
        actual = results(ours)
    check_equal(actual, expected, f"layers.{kind}")


# Each part of these configurations is also in one that is not slow.
SLOW_UNDER_XLA = (
    "reset before, recurrent dropout",
    "reset before, implementation=1",
    "GRU recurrent dropout",
    "LSTM recurrent dropout, other activations",
    "GRU implementation=1",
)


@needs_xla
@pytest.mark.parametrize(
    "configuration",
    [pytest.param(each, marks=[pytest.mark.slow] if each in SLOW_UNDER_XLA else []) for each in LAYERS],
)
def test_equals_keras_under_xla(configuration):
    """Both layers run under XLA, because its random numbers for dropout differ from those of TensorFlow."""
    kind, fixed = LAYERS[configuration]
    ours, keras_layer = pair(kind, return_sequences=True, return_state=True, dropout=0.4, **fixed, seed=3)
    x, mask = tf.constant(data(BATCH, TIME, FEATURES)), tf.constant(MASKS["gaps"])

    def results(layer):
        @tf.function(jit_compile=True, autograph=False)
        def run(x):
            return outputs_and_gradients(lambda: layer(x, mask=mask, training=True), [x, *variables_of(layer)])

        return run(x)

    check_equal(results(ours), results(keras_layer), f"layers.{kind}")


# Layers of Keras 2: how to make each, and how often it runs on the op in inference and in training.
KERAS_2 = {
    "LSTM": (lambda k, **arguments: k.layers.LSTM(UNITS, **arguments), 1, 1),
    "GRU": (lambda k, **arguments: k.layers.GRU(UNITS, **arguments), 1, 1),
    "SimpleRNN": (lambda k, **arguments: k.layers.SimpleRNN(UNITS, activation="relu", **arguments), 1, 1),
    "RNN": (lambda k, **arguments: k.layers.RNN(k.layers.LSTMCell(UNITS, dtype="float64"), **arguments), 1, 1),
    "LSTM of TensorFlow 1": (lambda k, **arguments: of_tensorflow_1("LSTMV1", arguments), 1, 1),
    "GRU of TensorFlow 1": (lambda k, **arguments: of_tensorflow_1("GRUV1", arguments), 1, 1),
    "GRU of TensorFlow 1, reset after": (
        lambda k, **arguments: of_tensorflow_1("GRUV1", arguments, reset_after=True),
        *(1, 1),
    ),
    "other gates": (
        lambda k, **arguments: k.layers.LSTM(UNITS, recurrent_activation="hard_sigmoid", **arguments),
        1,
        1,
    ),
    "other gates of a GRU": (
        lambda k, **arguments: k.layers.GRU(UNITS, "linear", recurrent_activation="hard_sigmoid", **arguments),
        *(1, 1),
    ),
    "other activation": (lambda k, **arguments: k.layers.LSTM(UNITS, "hard_sigmoid", **arguments), 0, 0),
    "implementation=1": (
        lambda k, **arguments: k.layers.GRU(UNITS, use_bias=False, implementation=1, **arguments),
        *(1, 1),
    ),
    "recurrent dropout": (lambda k, **arguments: k.layers.LSTM(UNITS, recurrent_dropout=0.3, **arguments), 1, 1),
    "recurrent dropout, SimpleRNN": (
        lambda k, **arguments: k.layers.SimpleRNN(UNITS, recurrent_dropout=0.3, **arguments),
        *(1, 1),
    ),
    "reset before": (lambda k, **arguments: k.layers.GRU(UNITS, reset_after=False, **arguments), 1, 1),
    "stacked cells": (
        lambda k, **arguments: k.layers.RNN(
            k.layers.StackedRNNCells(
                [k.layers.GRUCell(UNITS, dtype="float64"), k.layers.LSTMCell(2, dtype="float64")], dtype="float64"
            ),
            **arguments,
        ),
        *(2, 2),
    ),
}


def of_tensorflow_1(name, arguments, **others):
    """Returns a layer of TensorFlow 1."""
    return getattr(importlib.import_module("tf_keras.src.layers"), name)(UNITS, **others, **arguments)


OF_KERAS_2 = st.fixed_dictionaries(
    {
        "go_backwards": st.booleans(),
        "return_sequences": st.booleans(),
        "return_state": st.booleans(),
        "zero_output_for_mask": st.booleans(),
        "unroll": st.booleans(),
        "time_major": st.booleans(),
    }
)


@needs_keras_2
@pytest.mark.parametrize("configuration", KERAS_2)
@settings(max_examples=6, phases=PHASES, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    case=OF_KERAS_2,
    steps=st.sampled_from(["all", "masked", "ragged"]),
    dropout=st.sampled_from([0.0, 0.4]),
    with_states=st.booleans(),
    training=st.sampled_from([None, False, True]),
    call=st.sampled_from(["eager", "graph"]),
)
@pytest.mark.not_xla("the loop of Keras 2 passes lists of tensors, which XLA does not", sure=False)
def test_keras_2(configuration, case, steps, dropout, with_states, training, call, runs):
    """Compares a layer of Keras 2 with itself, accelerated."""
    make, *counts = KERAS_2[configuration]
    is_ragged = steps == "ragged" and not (case["unroll"] or case["time_major"])
    if steps == "masked" and case["unroll"] and case["zero_output_for_mask"] and not case["return_sequences"]:
        return  # Keras rejects this
    has_dropout = dropout and configuration not in ("RNN", "stacked cells")
    layer = make(TF_KERAS, **case, dtype="float64", **({"dropout": dropout} if has_dropout else {}))
    x, mask = data(BATCH, TIME, FEATURES), MASKS["gaps"]
    if case["time_major"]:
        x, mask = x.swapaxes(0, 1), mask.T
    layer.build(x.shape)
    randomize(layer)
    x = tf.RaggedTensor.from_tensor(x, [6, 3, 1, 2]) if is_ragged else tf.constant(x)
    states = None
    if with_states:
        states = [tf.constant(data(BATCH, size, seed=7)) for size in tf.nest.flatten(layer.cell.state_size)]
        states = tf.nest.pack_sequence_as(layer.cell.state_size, states) if "stacked" in configuration else states
    flat = [x.flat_values if is_ragged else x, *tf.nest.flatten(states or [])]

    def results():
        # Otherwise, the seed of a mask in a graph depends on the number of operations before it.
        for each in (layer, layer.cell):
            if hasattr(each, "_random_generator"):
                each._random_generator._seed = 3
        tf.random.set_seed(0)
        options = {"mask": tf.constant(mask)} if steps == "masked" else {}
        called = lambda x: layer(x, initial_state=states, training=training, **options)  # noqa: E731
        called = called if call == "eager" else tf.function(called)
        outputs, gradients = outputs_and_gradients(
            lambda: [
                each.to_tensor() if is_ragged and i == 0 and case["return_sequences"] else each
                for i, each in enumerate(in_list(called(x)))
            ],
            [*flat, *layer.trainable_variables],
        )
        return [*outputs, *(None if each is None else tf.convert_to_tensor(each) for each in gradients)]

    expected = results()
    with tf_rnn_ops.accelerate_keras():
        count, actual = runs.during(results)
    assert count == counts[bool(training)] or not_on_op(case, steps)
    # The loop of a graph draws other masks at each step, in any order.
    draws_in_loop = call == "graph" and not (case["unroll"] or layer_is_fused(layer))
    if not (training and (has_dropout or "recurrent dropout" in configuration) and draws_in_loop):
        check_equal(actual, expected, f"Keras 2: {configuration}")


def layer_is_fused(layer):
    return getattr(layer, "_could_use_gpu_kernel", False)


@needs_keras_2
@pytest.mark.parametrize("call", [tf.function, lambda function: function], ids=["graph", "eager"])
def test_keras_2_drops_inputs_of_each_step_in_a_graph(call):
    """In eager mode, and in Keras 3, it drops the same at all steps."""
    layer = TF_KERAS.layers.SimpleRNN(
        *(50, "relu"), kernel_initializer="identity", recurrent_initializer="zeros", dropout=0.5, return_sequences=True
    )
    x = tf.ones([1, 4, 50])
    for context in (contextlib.nullcontext(), tf_rnn_ops.accelerate_keras(strict=True)):
        with context:
            outputs = call(lambda x: layer(x, training=True))(x)[0]
        assert set(np.unique(outputs)) == {0, 2}
        assert np.any(outputs[1:] != outputs[:-1]) == (call is tf.function)


def in_list(outputs):
    return outputs if isinstance(outputs, list) else [outputs]


def not_on_op(case, steps):
    """Returns whether Keras zeroes the outputs of other steps, so that its own code runs."""
    return steps == "masked" and case["unroll"] and case["go_backwards"] and case["zero_output_for_mask"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_number_of_features_raises_the_keras_error(kind):
    for layer in pair(kind):
        with pytest.raises((ValueError, tf.errors.InvalidArgumentError)) as error:
            layer(data(BATCH, TIME, FEATURES + 1))
        assert "params" not in str(error.value)


@pytest.mark.parametrize("kind", ["GRU", "SimpleRNN"])
def test_extra_states_are_handled_like_in_keras(kind):
    """For example, states of an LSTM encoder: Keras's GRU uses the first, and its SimpleRNN rejects them."""
    x, states = data(BATCH, TIME, FEATURES), [data(BATCH, UNITS, seed=each) for each in (1, 2)]
    ours, keras_layer = pair(kind)
    try:
        expected = keras_layer(x, initial_state=states)
    except ValueError:
        with pytest.raises(ValueError):  # noqa: PT011  # a message of Keras
            ours(x, initial_state=states)
    else:
        assert parity.difference(ours(x, initial_state=states), expected) < 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_of_batch_size_1_is_broadcast(kind):
    """The batch size is known only when the graph runs."""
    layers = pair(kind)
    arguments = {"x": tf.constant(data(BATCH, TIME, FEATURES)), "states": [tf.constant(data(1, UNITS))]}
    arguments["states"] *= len(layers[0].state_size)
    actual, expected = (
        with_unknown_sizes(lambda each, layer=layer: layer(each["x"], initial_state=each["states"]), arguments)(
            arguments
        )
        for layer in layers
    )
    assert parity.difference(actual, expected) < 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_unrolled_backwards_with_zeros_for_masked_steps(kind):
    """Keras outputs zeros at other steps."""
    layers = pair(kind, unroll=True, go_backwards=True, zero_output_for_mask=True, return_sequences=True)
    x, mask = tf.constant(data(BATCH, TIME, FEATURES)), tf.constant(MASKS["gaps"])
    ours, keras_layer = (
        outputs_and_gradients(lambda layer=layer: layer(x, mask=mask), [x, *variables_of(layer)]) for layer in layers
    )
    for actual, expected in zip(ours, keras_layer, strict=True):
        check_equal(actual, expected, f"layers.{kind}")


@pytest.mark.parametrize(("kind", "mask", "training"), every_pair(KINDS, [None, *MASKS], [False, True]))
def test_runs_only_on_the_op(kind, mask, training, runs):
    layer = OURS[kind](UNITS, go_backwards=True, dropout=0.1)
    with tf_rnn_ops.accelerate_keras(strict=True):  # a fallback is an error
        count, _ = runs.during(lambda: layer(data(BATCH, TIME, FEATURES), mask=MASKS.get(mask), training=training))
    assert count == 1


@pytest.mark.parametrize("policy", ["float16", "bfloat16", "mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("mask", [None, "gaps"])
@pytest.mark.parametrize("kind", KINDS)
def test_16_bit_types_equal_float64_on_rounded_values(kind, mask, policy):
    dtype = policy.removeprefix("mixed_")
    rounded = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float16
    # The orthogonal initializer of Keras does not support bfloat16.
    ours, _ = pair(kind, dtype=policy, recurrent_initializer="zeros", return_sequences=True, return_state=True)
    keras_layer = KERAS[kind](UNITS, dtype="float64", return_sequences=True, return_state=True)
    keras_layer.build([None, None, FEATURES])
    keras_layer.set_weights([weight.astype(rounded).astype("float64") for weight in ours.get_weights()])
    x = data(BATCH, TIME, FEATURES).astype(rounded)

    def results(layer, x):
        run = lambda: layer(x, mask=MASKS.get(mask), training=True)  # noqa: E731
        return outputs_and_gradients(run, [x, *variables_of(layer)])

    outputs, (d_x, *d_weights) = results(ours, tf.constant(x))
    expected, expected_gradients = results(keras_layer, tf.constant(x.astype("float64")))
    assert all(each.dtype == dtype for each in (*outputs, d_x))
    assert all(each.dtype == ours.variable_dtype for each in d_weights)
    for actual, each in zip([*outputs, d_x, *d_weights], [*expected, *expected_gradients], strict=True):
        assert parity.difference(actual, each) <= parity.TOLERANCES[dtype]


class OtherLSTMCell(keras.layers.LSTMCell):
    """A cell that computes something else."""

    def call(self, inputs, states, training=False):
        h, states = super().call(inputs, states, training=training)
        return 2 * h, states


ONE_OF = "set it to one that docs/guides/keras.md lists, such as tanh"
OF_UNITS = {"mask": data(BATCH, TIME, UNITS) > 0}
NOT_OF_UNITS = "the mask has the shape (4, 6, 5): pass one of shape [batch, time] = (4, 6)"
OF_ONE = {"initial_state": [data(1, UNITS), data(1, UNITS, seed=1)]}
NOT_OF_ONE = "initial_state has the shape (1, 5) and (1, 5): pass 2 of shape [batch, units] = (4, 5)"
TOGETHER = {"unroll": True, "go_backwards": True, "zero_output_for_mask": True}
NOT_TOGETHER = "a mask with unroll, go_backwards and zero_output_for_mask together: set unroll=False"
# Kind, arguments of the layer and of its call, and the logged reason.
FALLBACKS = [
    ("LSTM", {"activation": "softmax"}, {}, f"activation='softmax': {ONE_OF}"),
    ("GRU", {"recurrent_activation": "softmax"}, {}, f"recurrent_activation='softmax': {ONE_OF}"),
    (
        "SimpleRNN",
        {"activation": "softmax"},
        {},
        "activation='softmax': set it to one that docs/guides/keras.md lists, such as tanh",
    ),
    ("GRU", {"reset_after": False}, OF_UNITS, NOT_OF_UNITS),
    ("GRU", {}, OF_UNITS, NOT_OF_UNITS),
    ("LSTM", {}, OF_ONE, NOT_OF_ONE),
    ("LSTM", TOGETHER, {"mask": MASKS["gaps"]}, NOT_TOGETHER),
]


@pytest.mark.parametrize(("kind", "arguments", "call", "reason"), FALLBACKS, ids=lambda each: str(each)[:30])
def test_unsupported_configurations_fall_back_to_keras(kind, arguments, call, reason, runs, caplog):
    ours, keras_layer = pair(kind, seed=5, return_sequences=True, **arguments)
    x = data(BATCH, TIME, FEATURES)
    count, actual = runs.during(lambda: ours(x, **call))
    assert count == 0
    np.testing.assert_array_equal(actual, keras_layer(x, **call))
    ours(x, **call)
    (record,) = caplog.records  # of two calls
    assert (record.name, record.levelname) == ("tf_rnn_ops", "WARNING")
    assert record.getMessage() == f"layer {ours.name!r} ({kind}) falls back to Keras. {reason}."


def test_a_layer_logs_each_reason_once(caplog):
    layer = OURS["GRU"](UNITS)
    for training in (True, False, True):
        for batch, time in ((BATCH, TIME), (2, 3)):
            x = data(batch, time, FEATURES)
            layer(x, mask=data(batch, time, UNITS) > 0, training=training)
            layer(x, initial_state=[data(1, UNITS)], training=training)
    assert [record.getMessage().split(". ", 1)[1] for record in caplog.records] == [
        "the mask has the shape (4, 6, 5): pass one of shape [batch, time] = (4, 6).",
        "initial_state has the shape (1, 5): pass 1 of shape [batch, units] = (4, 5).",
    ]


def test_threads_log_a_reason_once(caplog):
    layer = OURS["SimpleRNN"](UNITS, activation="softmax")
    layer.build([None, None, FEATURES])
    start = threading.Barrier(4)

    def work(_):
        start.wait()
        layer(data(BATCH, TIME, FEATURES))

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert len(caplog.records) == 1


def test_logging_does_not_keep_layers_alive():
    layer = OURS["SimpleRNN"](UNITS, activation="softmax")
    layer(data(BATCH, TIME, FEATURES))
    reference = weakref.ref(layer)
    del layer
    gc.collect()
    assert reference() is None


def test_a_custom_cell_falls_back_to_keras(runs):
    x = data(BATCH, TIME, FEATURES)
    ours, keras_layer = OURS["LSTM"](UNITS), KERAS["LSTM"](UNITS)
    for layer in (ours, keras_layer):
        layer.cell = OtherLSTMCell.from_config(layer.cell.get_config())
        layer.build(x.shape)
    randomize(ours)
    keras_layer.set_weights(ours.get_weights())
    count, actual = runs.during(lambda: ours(x))
    assert count == 0
    np.testing.assert_array_equal(actual, keras_layer(x))


@pytest.mark.parametrize("kind", KINDS)
def test_recurrent_dropout_runs_on_the_op_in_inference(kind, runs):
    check_on_op(runs, *pair(kind, recurrent_dropout=0.3, dropout=0.2), data(BATCH, TIME, FEATURES))


@pytest.mark.parametrize("kind", KINDS)
def test_a_dropout_of_one(kind):
    """In Keras, SimpleRNN drops everything, and the other layers nothing."""
    ours, keras_layer = pair(kind, dropout=1.0)
    x = data(BATCH, TIME, FEATURES)
    try:
        expected = keras_layer(x, training=True)
    except ValueError:
        pytest.skip("this Keras version rejects it")
    assert parity.difference(ours(x, training=True), expected) < 1e-12


@pytest.mark.parametrize(
    "activation",
    ["relu", keras.ops.relu, tf.nn.relu, keras.ops.tanh, tf.tanh, None, "silu", keras.ops.gelu, keras.ops.hard_swish],
)
def test_simple_rnn_activations_in_any_form(activation, runs):
    check_on_op(runs, *pair("SimpleRNN", activation=activation), data(BATCH, TIME, FEATURES))


@pytest.mark.parametrize(
    ("kind", "activation", "recurrent_activation"),
    every_pair(
        ["LSTM", "GRU"],
        ["relu", tf.nn.relu, None, "linear", "hard_sigmoid", keras.ops.sigmoid],
        ["sigmoid", "hard_sigmoid", keras.ops.hard_sigmoid, "tanh"],
    ),
)
def test_gate_activations_in_any_form(kind, activation, recurrent_activation, runs):
    layers = pair(kind, activation=activation, recurrent_activation=recurrent_activation)
    check_on_op(runs, *layers, data(BATCH, TIME, FEATURES))


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_use_cudnn_is_ignored(kind, runs):
    for use_cudnn in (True, False, "auto"):
        layer = OURS[kind](UNITS, use_cudnn=use_cudnn)
        assert runs.during(layer, data(BATCH, TIME, FEATURES))[0] == 1


def see_a_gpu(kind=None):
    return ["a GPU"] if kind == "GPU" else []


@pytest.mark.parametrize(
    ("owner", "name", "value"),
    [(tf.config, "get_visible_devices", see_a_gpu), (keras.backend, "backend", lambda: "jax")],
)
def test_a_gpu_or_another_backend_falls_back_to_keras(owner, name, value, runs, monkeypatch):
    layer = OURS["SimpleRNN"](UNITS)
    monkeypatch.setattr(owner, name, value)
    assert runs.during(lambda: layer(data(BATCH, TIME, FEATURES)))[0] == 0


MASK_FORMS = {
    "numbers": lambda mask: mask.astype("float32"),
    "with a last dimension": lambda mask: mask[..., np.newaxis],
    "nested": lambda mask: [tf.constant(mask), None, None],
}


@pytest.mark.parametrize("form", MASK_FORMS)
def test_forms_of_a_mask(form, runs):
    layers = pair("LSTM", return_sequences=True)
    check_on_op(runs, *layers, data(BATCH, TIME, FEATURES), mask=MASK_FORMS[form](MASKS["gaps"]))


@pytest.mark.parametrize("call", ["eager", "graph"])
def test_a_mask_of_batch_size_1_is_broadcast(call):
    ours, keras_layer = pair("GRU", return_sequences=True)
    arguments = {"x": tf.constant(data(BATCH, TIME, FEATURES)), "mask": tf.constant(MASKS["gaps"][:1])}

    def result(layer):
        run = lambda arguments: layer(arguments["x"], mask=arguments["mask"])  # noqa: E731
        return (run if call == "eager" else with_unknown_sizes(run, arguments))(arguments)

    assert parity.difference(result(ours), result(keras_layer)) < 1e-12


class Crop(keras.layers.Layer):
    """A layer that drops the last steps and passes the mask of all on."""

    supports_masking = True

    def call(self, x):
        return x[:, :-2]


@pytest.mark.parametrize("layer", [keras.layers.LSTM(UNITS), keras.layers.GRU(UNITS, reset_after=False)])
def test_a_model_that_crops_its_inputs_but_not_its_mask(layer, runs):
    model = keras.Sequential([keras.layers.Masking(), Crop(), layer])
    x = [np.where(np.arange(steps)[:, np.newaxis] % 3, data(BATCH, steps, FEATURES), 0) for steps in (5, 7, 9)]
    expected = [model.predict(each, verbose=0) for each in x]
    with tf_rnn_ops.accelerate_keras(strict=True):
        for each, output in zip(x, expected, strict=True):
            np.testing.assert_allclose(model.predict(each, verbose=0), output, rtol=1e-5, atol=1e-6)


FLAGS = list(itertools.product([False, True], repeat=3))
SURPLUS = [
    *itertools.product(["LSTM", "SimpleRNN", "reset before"], ["eager"], FLAGS),
    *itertools.product(["LSTM", "SimpleRNN", "reset before"], ["static", "dynamic"], every_pair(*[[False, True]] * 3)),
    *(pytest.param("LSTM", "XLA", flags, marks=needs_xla) for flags in FLAGS),
    *(
        pytest.param(kind, "XLA", flags, marks=[needs_xla, pytest.mark.slow])
        for kind in ("SimpleRNN", "reset before")
        for flags in FLAGS
    ),
]


@pytest.mark.parametrize(("configuration", "call", "flags"), SURPLUS)
def test_a_mask_with_surplus_steps(configuration, call, flags):
    """Keras ignores them, except in some configurations, which it rejects."""
    go_backwards, unroll, zeros = flags
    kind, options = LAYERS[configuration]
    options = {"go_backwards": go_backwards, "unroll": unroll, "zero_output_for_mask": zeros, **options}
    layers = pair(kind, return_sequences=True, **options)
    mask = np.random.default_rng(0).random([BATCH, TIME + 2]) < 0.5
    arguments = {"x": tf.constant(data(BATCH, TIME, FEATURES)), "mask": tf.constant(mask)}

    def result(layer):
        run = lambda arguments: layer(arguments["x"], mask=arguments["mask"])  # noqa: E731
        if call == "dynamic" and not unroll:
            run = with_unknown_sizes(run, arguments)
        elif call != "eager":
            run = tf.function(run, autograph=False, jit_compile=call == "XLA")
        try:
            return run(arguments)
        except (ValueError, tf.errors.InvalidArgumentError) as error:
            return type(error)

    actual, expected = map(result, layers)
    if isinstance(expected, type):
        assert actual is expected
    else:
        assert parity.difference(actual, expected) < 1e-12


@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=needs_xla)])
@pytest.mark.parametrize("shape", [(BATCH, TIME - 1), (BATCH, 0), (BATCH, 1), (2, TIME)])
def test_a_mask_of_wrong_shape_is_rejected(shape, jit_compile):
    layer = OURS["LSTM"](UNITS, return_sequences=True)
    arguments = {"x": tf.constant(data(BATCH, TIME, FEATURES, dtype="float32")), "mask": tf.ones(shape, tf.bool)}
    run = with_unknown_sizes(lambda arguments: layer(arguments["x"], mask=arguments["mask"]), arguments, jit_compile)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"mask must|Incompatible shapes|reshape"):
        run(arguments)


@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=needs_xla)])
@pytest.mark.parametrize("reset_after", [True, False])
@pytest.mark.parametrize(("batch", "of_state"), [(BATCH, 2), (1, BATCH)])
def test_a_state_of_wrong_batch_size_is_rejected(batch, of_state, reset_after, jit_compile):
    layer = OURS["GRU"](UNITS, reset_after=reset_after)
    x = tf.constant(data(batch, TIME, FEATURES, dtype="float32"))
    arguments = {"x": x, "states": [tf.ones([of_state, UNITS])]}
    run = with_unknown_sizes(
        lambda arguments: layer(arguments["x"], initial_state=arguments["states"]), arguments, jit_compile
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Incompatible shapes|reshape|broadcast"):
        run(arguments)


@pytest.mark.parametrize("kind", KINDS)
def test_values_at_masked_steps_are_ignored(kind):
    layer = OURS[kind](UNITS, return_sequences=True, dtype="float64")
    x, mask = data(BATCH, TIME, FEATURES), MASKS["gaps"]
    x_with_nan = np.where(mask[..., np.newaxis], x, np.nan)
    layer.build(x.shape)

    def results(x):
        x = tf.constant(x)
        return outputs_and_gradients(lambda: layer(x, mask=mask, training=True), [x, *variables_of(layer)])

    for actual, expected in zip(results(x_with_nan), results(x), strict=True):
        for one, other in zip(actual, expected, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("batch", [0, BATCH])
def test_sizes_of_zero(batch):
    layer = OURS["LSTM"](UNITS, return_sequences=True, return_state=True)
    layer.build([None, None, FEATURES])
    arguments = {"x": tf.zeros([batch, 0, FEATURES]), "mask": tf.zeros([batch, 0], tf.bool)}
    run = with_unknown_sizes(lambda arguments: layer(arguments["x"], mask=arguments["mask"]), arguments)
    output, h, c = run(arguments)
    assert output.shape == [batch, 0, UNITS]
    assert not np.any(h)
    assert c.shape == [batch, UNITS]


@pytest.mark.parametrize(
    ("kind", "return_sequences", "call"),
    every_pair(KINDS, [True, False], ["eager", "graph", "graph of unknown sizes"]),
)
def test_the_last_output_without_steps_is_zero(kind, return_sequences, call):
    """Keras itself rejects sequences without steps."""
    layer = OURS[kind](UNITS, return_sequences=return_sequences)
    layer.build([None, None, FEATURES])
    arguments = {"x": tf.ones([BATCH, 0, FEATURES]), "states": [tf.ones([BATCH, UNITS]) for _ in layer.state_size]}

    def run(arguments):
        return layer.inner_loop(arguments["x"], arguments["states"], mask=None)

    in_graph = {"eager": run, "graph": tf.function(run), "graph of unknown sizes": with_unknown_sizes(run, arguments)}
    last, outputs, states = in_graph[call](arguments)
    np.testing.assert_array_equal(last, np.zeros([BATCH, UNITS]))
    assert outputs.shape == [BATCH, 0 if return_sequences else 1, UNITS]
    for state, initial in zip(states, arguments["states"], strict=True):
        np.testing.assert_array_equal(state, initial)


@pytest.mark.parametrize(
    ("kind", "merge_mode"),
    [*(("LSTM", mode) for mode in ("sum", "mul", "concat", "ave", None)), ("GRU", "concat"), ("SimpleRNN", None)],
)
def test_bidirectional(kind, merge_mode, runs):
    x, mask = data(BATCH, TIME, FEATURES), MASKS["gaps"]
    for return_sequences in (False, True):
        arguments = {"return_sequences": return_sequences, "return_state": True, "dtype": "float64"}
        ours, keras_layer = (
            keras.layers.Bidirectional(each[kind](UNITS, **arguments), merge_mode=merge_mode, dtype="float64")
            for each in (OURS, KERAS)
        )
        ours.build(x.shape)
        keras_layer.build(x.shape)
        randomize(ours)
        keras_layer.set_weights(ours.get_weights())
        check_on_op(runs, ours, keras_layer, x, mask=mask, count=2)
        assert type(ours.backward_layer) is OURS[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_time_distributed(kind, runs):
    layers = [keras.layers.TimeDistributed(each, dtype="float64") for each in pair(kind)]
    check_on_op(runs, *layers, data(BATCH, 2, TIME, FEATURES), count=2)


@pytest.mark.parametrize("configuration", LAYERS)
def test_stateful(configuration):
    kind, fixed = LAYERS[configuration]
    layers = pair(kind, **fixed, batch=BATCH, stateful=True, seed=2)
    for number in range(3):
        x = data(BATCH, TIME, FEATURES, seed=number)
        actual, expected = (layer(x, training=True) for layer in layers)
        assert parity.difference(actual, expected) < 1e-12
        for state, other in zip(layers[0].states, layers[1].states, strict=True):
            assert parity.difference(state, other) < 1e-12
        if number == 1:
            for layer in layers:
                layer.reset_state()


def test_trains_to_the_same_losses(runs):
    expected = losses_of_training(KERAS)
    with tf_rnn_ops.accelerate_keras():
        accelerated = runs.during(losses_of_training, KERAS)
    for count, actual in (runs.during(losses_of_training, OURS), accelerated):
        assert count > 0
        np.testing.assert_allclose(actual, expected, rtol=1e-4)


def losses_of_training(layers):
    """Returns the losses of a few training steps of a model with a masking embedding, dropout and the three layers."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.layers.Embedding(20, 6, mask_zero=True),
            keras.layers.Bidirectional(layers["LSTM"](8, dropout=0.2, return_sequences=True)),
            layers["GRU"](8, dropout=0.1, return_sequences=True),
            layers["SimpleRNN"](8),
            keras.layers.Dense(1),
        ]
    )
    model.compile(keras.optimizers.Adam(0.01), "mse")
    numbers = np.random.default_rng(0).integers(0, 20, [32, 7])
    history = model.fit(numbers, numbers.mean(axis=1) / 20, batch_size=8, epochs=2, verbose=0, shuffle=False)
    return [*history.history["loss"], *model.predict(numbers, verbose=0).ravel()]


@needs_xla
@pytest.mark.parametrize("kind", KINDS)
def test_xla_compiles_the_op(kind):
    layer, _ = pair(kind)
    x = tf.constant(data(BATCH, TIME, FEATURES))
    compiled = tf.function(layer, jit_compile=True, autograph=False)
    assert calls_in_xla(compiled, x, "KerasRNN") == 1
    np.testing.assert_array_equal(compiled(x), layer(x))


@needs_xla
def test_fit_under_xla(runs):
    """The losses are equal within rounding, because XLA compiles the computation between the ops."""
    x, y = data(8, TIME, FEATURES, dtype="float32"), data(8, UNITS, dtype="float32")

    def losses(jit_compile):
        keras.utils.set_random_seed(1)
        first = keras.layers.Bidirectional(OURS["LSTM"](UNITS, return_sequences=True))
        others = [OURS["GRU"](UNITS, return_sequences=True), OURS["SimpleRNN"](UNITS, go_backwards=True)]
        model = keras.Sequential([keras.layers.Masking(), first, *others])
        model.compile("adam", "mse", jit_compile=jit_compile)
        assert model.jit_compile == jit_compile
        history = model.fit(x, y, batch_size=4, epochs=2, verbose=0, shuffle=False)
        return [*history.history["loss"], model.evaluate(x, y, verbose=0), *model.predict(x, verbose=0).ravel()]

    count, actual = runs.during(losses, jit_compile=True)
    assert count > 0
    np.testing.assert_allclose(actual, losses(jit_compile=False), rtol=1e-4, atol=1e-6)


def test_a_build_without_xla_falls_back_to_keras(runs, caplog, monkeypatch):
    monkeypatch.setattr(tf_rnn_ops._xla, "_why_not_loaded", "no library")
    ours, keras_layer = pair("LSTM", features=2, units=2)
    x = data(BATCH, 2, 2)
    compiled = tf.function(ours, jit_compile=True, autograph=False)
    with caplog.at_level("INFO", "tf_rnn_ops"):
        count, actual = runs.during(lambda: compiled(x))
    assert count == 0
    (record,) = caplog.records
    assert record.levelname == "INFO"
    assert "XLA compiles the layer but cannot compile the op (no library): set jit_compile=False" in record.message
    assert parity.difference(actual, keras_layer(x)) < 1e-12
    assert runs.during(lambda: ours(x))[0] == 1


@pytest.mark.parametrize("kind", KINDS)
def test_configs_and_weights_are_compatible_with_keras(kind):
    arguments = {
        "activation": "relu" if kind == "SimpleRNN" else "tanh",
        "use_bias": False,
        "kernel_initializer": keras.initializers.RandomNormal(stddev=0.5, seed=1),
        "recurrent_regularizer": "l2",
        "bias_constraint": "non_neg",
        "dropout": 0.1,
        "recurrent_dropout": 0.2,
        "seed": 3,
        "return_sequences": True,
        "return_state": True,
        "go_backwards": True,
        "stateful": True,
        "unroll": True,
        "zero_output_for_mask": True,
        "name": "layer",
        "dtype": "mixed_bfloat16",
    }
    ours = OURS[kind](UNITS, **arguments)
    assert ours.get_config() == KERAS[kind](UNITS, **arguments).get_config()
    for cls in (KERAS[kind], OURS[kind]):
        restored = cls.from_config(ours.get_config())
        assert type(restored) is cls
        assert restored.get_config() == ours.get_config()
    restored = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(ours))
    assert type(restored) is OURS[kind]
    assert restored.get_config() == ours.get_config()


@pytest.mark.parametrize("kind", KINDS)
def test_arguments_and_defaults_equal_those_of_the_installed_keras(kind):
    # For a class, Python 3.10 shows the arguments of Keras's __new__, which accepts any.
    ours, theirs = (inspect.signature(layers[kind].__init__).parameters.values() for layers in (OURS, KERAS))
    assert [(each.name, each.default, each.kind) for each in ours] == [
        (each.name, each.default, each.kind) for each in theirs
    ]


@pytest.mark.parametrize("training", [False, True])
def test_op_determinism(training):
    ours, _ = pair("LSTM", units=32, return_sequences=True)
    x, mask = data(64, 50, FEATURES), data(64, 50, seed=1) > 0

    def results():
        return outputs_and_gradients(lambda: ours(x, mask=mask, training=training), variables_of(ours))

    tf.config.experimental.enable_op_determinism()
    try:
        first, second = results(), results()
    finally:
        config.disable_op_determinism()
    for one, other in zip(tf.nest.flatten(first), tf.nest.flatten(second), strict=True):
        np.testing.assert_array_equal(one, other)


def saved_model():
    """Returns a model of the three layers, with a mask."""
    keras.utils.set_random_seed(2)
    return keras.Sequential(
        [
            keras.layers.Embedding(9, 4, mask_zero=True),
            keras.layers.Bidirectional(OURS["LSTM"](UNITS, return_sequences=True)),
            OURS["GRU"](UNITS, return_sequences=True),
            OURS["SimpleRNN"](UNITS),
        ]
    )


LOAD = """
import json, sys
import keras, numpy as np, tensorflow as tf
import tf_rnn_ops

folder = sys.argv[1]
numbers = np.array(json.loads(sys.argv[2]))
model = keras.models.load_model(f"{folder}/model.keras")
assert type(model.layers[2]) is tf_rnn_ops.layers.GRU
results = [model.predict(numbers, verbose=0)]
fresh = keras.models.clone_model(model)
fresh(numbers)
fresh.load_weights(f"{folder}/model.weights.h5")
results.append(fresh(numbers).numpy())
exported = tf.saved_model.load(f"{folder}/exported")
results.append(exported.serve(numbers.astype("float32")).numpy())
for name in ("saved", "saved with the op"):
    saved = tf.saved_model.load(f"{folder}/{name}")
    with tf.GradientTape() as tape:
        output = saved(tf.constant(numbers))
    assert all(np.any(each) for each in tape.gradient(output, saved.variables_of_model[1:3]))
    results.append(output.numpy())
print(json.dumps([each.tolist() for each in results]))
"""


def module_of(model):
    """Returns a module that calls a model with integer inputs."""
    module = tf.Module()
    module.model = model
    module.variables_of_model = [variable.value for variable in model.variables]
    module.__call__ = tf.function(model, input_signature=[tf.TensorSpec([None, None], tf.int64)], autograph=False)
    return module


@pytest.mark.not_xla("XLA cannot pass the tensor list of a loop to a restored function")
def test_saved_files_load_in_a_fresh_process(tmp_path):
    model, numbers = saved_model(), np.array([[1, 2, 3, 0], [4, 0, 0, 0], [5, 6, 0, 7]])
    expected = model(numbers)
    model.save(tmp_path / "model.keras")
    model.save_weights(tmp_path / "model.weights.h5")
    model.export(tmp_path / "exported")
    tf.saved_model.save(module_of(model), tmp_path / "saved")
    with tf_rnn_ops.accelerate_keras(portable_exports=False):
        tf.saved_model.save(module_of(model), tmp_path / "saved with the op")
    printed = forked.run_code(LOAD, str(tmp_path), json.dumps(numbers.tolist()))
    for actual in json.loads(printed.splitlines()[-1]):
        assert parity.difference(np.array(actual), expected) < 1e-5
