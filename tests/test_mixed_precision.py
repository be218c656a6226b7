"""Tests of mixed precision: weights and their gradients in float32, all else in 16 bits, as in Keras."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from checks.keras_layers import BATCH, FEATURES, KERASES, KINDS, TIME, UNITS, data, variables_of
from checks.op_definitions import ops_of
from inputs.keras_rnn import KINDS as MODES
from inputs.keras_rnn import WEIGHTS, arguments, gate_masks

from tf_rnn_ops import accelerate_keras, freeze, raw_ops
from tf_rnn_ops._library import ops

DTYPES = ("float16", "bfloat16")
both_kerases = pytest.mark.parametrize("module", KERASES, ids=["Keras 3", "Keras 2"])
# Without rnn_relu: rounding can change the sign of the input of a ReLU, and thereby the slope.
CASES = [case for case in itertools.product(MODES, DTYPES) if case[0] != "rnn_relu"]


# ---------------------------------------------------------------- the op


def results_and_derivatives(mode, inputs, **options):
    """Returns the results of the op, and first and second derivatives with respect to all inputs, by name."""
    is_lstm = mode == "lstm"
    names = [name for name in inputs if name != "mask" and (name != "initial_c" or is_lstm)]
    sources = [inputs[name] for name in names]
    with tf.GradientTape() as outer:
        outer.watch(sources)
        with tf.GradientTape() as tape:
            tape.watch(sources)
            outputs = raw_ops.KerasRNN(**inputs, rnn_mode=mode, **options)[: 2 + is_lstm]
            loss = tf.add_n([tf.reduce_sum(tf.sin(tf.cast(each, tf.float64))) for each in outputs])
        first = tape.gradient(loss, sources)
        loss = tf.add_n([tf.reduce_sum(tf.sin(tf.cast(each, tf.float64))) for each in first])
    second = outer.gradient(loss, sources)
    derivatives = zip(itertools.product(("first", "second"), names), [*first, *second], strict=True)
    return {**{str(i): each for i, each in enumerate(outputs)}, **{" ".join(key): each for key, each in derivatives}}


@pytest.mark.parametrize("has_masks", [False, True], ids=["plain", "dropout"])
@pytest.mark.parametrize(("mode", "dtype"), CASES)
def test_the_op_equals_float64_on_weights_that_are_not_rounded(mode, dtype, has_masks):
    inputs = arguments(mode, dtype, time=3, weights_dtype="float32")
    masks = {"state_masks": gate_masks(mode, dtype)} if has_masks else {}
    actual = results_and_derivatives(mode, inputs, **masks)
    wide = {name: each if name == "mask" else tf.cast(each, tf.float64) for name, each in inputs.items()}
    wide_masks = {name: [tf.cast(each, tf.float64) for each in of_gates] for name, of_gates in masks.items()}
    expected = results_and_derivatives(mode, wide, **wide_masks)
    for name, each in actual.items():
        assert each.dtype == ("float32" if name.endswith(WEIGHTS) else dtype), name
        tolerance = parity.TOLERANCES[dtype] * (2 if name.startswith("second") else 1)
        assert parity.difference(each, expected[name]) <= tolerance, name


@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_weights_keep_the_precision_of_float32(mode):
    """The sums of 1 000 equal sequences, which 16 bits cannot hold."""
    inputs = arguments(mode, "float16", batch=1, weights_dtype="float32")
    many = {
        name: tf.repeat(each, 1000, axis=0) if name not in (*WEIGHTS, "mask") and each.shape.rank else each
        for name, each in inputs.items()
    }

    def gradients(inputs):
        outputs, _, _, reserve_space = raw_ops.KerasRNN(**inputs, rnn_mode=mode)
        final = {"final_h_backprop": tf.zeros_like(outputs), "final_c_backprop": tf.zeros_like(inputs["initial_c"])}
        incoming = {"outputs_backprop": tf.fill(outputs.shape, tf.constant(200, tf.float16)), **final}
        of_inputs = raw_ops.KerasRNNBackprop(**inputs, **incoming, reserve_space=reserve_space, rnn_mode=mode)
        return of_inputs[3:]

    for one, sum_of_many in zip(gradients(inputs), gradients(many), strict=True):
        np.testing.assert_allclose(sum_of_many, 1000 * one, rtol=1e-4, atol=1e-3 * np.abs(1000 * one).max())


def test_other_types_of_weights_are_rejected():
    inputs = arguments("lstm", "float32", weights_dtype="float16")
    with pytest.raises((tf.errors.InvalidArgumentError, TypeError)):
        raw_ops.KerasRNN(**inputs)
    with pytest.raises((tf.errors.InvalidArgumentError, TypeError)):
        ops.tf_rnn_ops_mixed_keras_rnn(**inputs, input_masks=[], state_masks=[])


# ---------------------------------------------------------------- layers


def make_layers(module, kind, policy):
    """Returns two layers."""
    layers = [getattr(module.layers, kind)(UNITS, return_sequences=True, dtype=policy) for _ in range(2)]
    for number, layer in enumerate(layers):
        layer.build((None, None, UNITS if number else FEATURES))
    return layers


def weight_gradients(layers):
    """Returns a function of a seed and a loss scale, which returns the gradients of random weights of layers."""
    variables = [each for layer in layers for each in variables_of(layer)]
    dtype = layers[0].compute_dtype

    @tf.function
    def gradients(x, mask, scale):
        with tf.GradientTape() as tape:
            for layer in layers:
                x = layer(x, mask=mask, training=True)
            loss = tf.reduce_sum(tf.cast(x, variables[0].dtype) ** 2) * scale
        return tape.gradient(loss, variables)

    def run(seed, scale=1.0):
        for layer in layers:
            layer.set_weights([data(*each.shape, seed=10 * seed + i) / 2 for i, each in enumerate(layer.get_weights())])
        x, mask = 4 * data(BATCH, TIME, FEATURES, seed=seed), data(BATCH, TIME, seed=seed) > -0.5
        grads = gradients(tf.constant(x, dtype), tf.constant(mask), tf.constant(scale, variables[0].dtype))
        return [each.numpy() for each in grads]

    return run


def error(gradients, expected):
    """Returns the distance of gradients from those in float64, relative to their size."""
    difference = sum(np.sum((one - other) ** 2) for one, other in zip(gradients, expected, strict=True))
    return np.sqrt(difference / sum(np.sum(each**2) for each in expected))


@both_kerases
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_as_near_to_float64_as_those_of_keras(kind, dtype, module):
    seeds = range(4)
    of_float64, of_keras = (weight_gradients(make_layers(module, kind, each)) for each in ("float64", f"mixed_{dtype}"))
    expected = [of_float64(seed) for seed in seeds]
    errors = [error(of_keras(seed), each) for seed, each in zip(seeds, expected, strict=True)]
    with accelerate_keras(strict=True):
        of_op = weight_gradients(make_layers(module, kind, f"mixed_{dtype}"))
        gradients = [of_op(seed) for seed in seeds]
    assert all(each.dtype == np.float32 for each in gradients[0])
    ours = [error(*each) for each in zip(gradients, expected, strict=True)]
    assert np.mean(ours) <= np.mean(errors), (ours, errors)


@both_kerases
@pytest.mark.parametrize("kind", KINDS)
def test_no_gradient_overflows_that_does_not_in_keras(kind, module):
    calls = list(itertools.product(range(4), (2.0**9, 2.0**12, 2.0**15, 2.0**20)))

    def overflows():
        of = weight_gradients(make_layers(module, kind, "mixed_float16"))
        return [not all(np.isfinite(each).all() for each in of(*call)) for call in calls]

    of_keras = overflows()
    with accelerate_keras(strict=True):
        of_op = overflows()
    assert 0 < sum(of_keras) < len(calls)  # so that the test tells something
    assert all(one <= other for one, other in zip(of_op, of_keras, strict=True))


@both_kerases
@pytest.mark.parametrize("kind", KINDS)
def test_training_skips_no_step_that_keras_does_not(kind, module):
    """An optimizer that scales the loss skips steps with gradients that are not finite, and halves the scale."""
    x, y = data(24, 8, 5, dtype="float32"), data(24, 1, dtype="float32")
    make_optimizer = getattr(module.optimizers, "LossScaleOptimizer", None) or module.mixed_precision.LossScaleOptimizer

    def last_scale():
        module.utils.set_random_seed(1)
        model = module.Sequential(
            [
                module.layers.Masking(input_shape=(8, 5)),
                getattr(module.layers, kind)(3, return_sequences=True, dtype="mixed_float16"),
                getattr(module.layers, kind)(3, dtype="mixed_float16"),
                module.layers.Dense(1),
            ]
        )
        optimizer = make_optimizer(module.optimizers.SGD(1e-3), initial_scale=2.0**20)
        model.compile(optimizer, "mse")
        model.fit(x, y, batch_size=6, epochs=6, verbose=0)
        scale = optimizer.dynamic_scale if module is keras else optimizer.loss_scale
        return float(scale), model.get_weights()

    expected, _ = last_scale()
    with accelerate_keras(strict=True):
        scale, weights = last_scale()
    assert scale >= expected
    assert all(np.isfinite(each).all() for each in weights)


@both_kerases
@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_not_cast(kind, module):
    """Neither in training nor in a frozen function."""
    layers = make_layers(module, kind, "mixed_bfloat16")
    model = module.Sequential([module.layers.Input([TIME, FEATURES]), *layers])
    x, shapes = data(2, TIME, FEATURES, dtype="float32"), [weight.shape for weight in model.get_weights()]
    with accelerate_keras(strict=True):
        trained = tf.function(lambda x: model(x, training=True)).get_concrete_function(x)
    serve = freeze(model)
    assert parity.difference(serve(tf.constant(x)), model(x)) <= parity.TOLERANCES["bfloat16"]
    for graph in (trained.graph, serve.concrete_function.graph):
        assert ops_of(graph.as_graph_def()).count("TfRnnOps>MixedKerasRNN") == 2
        casts = [op for op in graph.get_operations() if op.type == "Cast" and op.outputs[0].consumers()]
        assert not any(op.inputs[0].shape in shapes for op in casts)
