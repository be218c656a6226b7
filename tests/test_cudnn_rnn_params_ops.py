"""Tests of the ops that size, split and join a params buffer."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from checks.cudnn_rnn_params import (
    NETWORKS,
    NO_UNITS,
    PROJECTED,
    assert_same_bits,
    attributes,
    canonical_shapes,
    network_id,
    random_bits,
    sizes,
    split,
    to_canonical,
    to_params,
    versions,
)
from environment.devices import BUILTIN_OPS, OPS
from inputs.cudnn_rnn import DTYPES
from inputs.pairs import every_pair
from references.cudnn_rnn import Config, params_size
from tensorflow.python.framework import ops as gradient_registry

import tf_rnn_ops

raw_ops = tf_rnn_ops.raw_ops

SHALLOW = [each for each in NETWORKS if each.num_layers == 1 and each.direction == "bidirectional"]
every_network = pytest.mark.parametrize("config", NETWORKS + NO_UNITS, ids=network_id)


# ---------------------------------------------------------------- the size


@every_network
@pytest.mark.parametrize("dtype", [tf.int32, tf.int64], ids=lambda dtype: dtype.name)
def test_size_equals_the_formula(config, dtype):
    size = raw_ops.CudnnRNNParamsSize(**sizes(config), T=tf.float32, S=dtype, **attributes(config, "V2"))
    assert size.dtype == dtype
    np.testing.assert_array_equal(size, [params_size(config)])


@pytest.mark.parametrize("dtype", DTYPES)
def test_size_depends_on_neither_dtype_nor_dropout(dtype):
    size = raw_ops.CudnnRNNParamsSize(
        num_layers=1, num_units=4, input_size=3, T=tf.as_dtype(dtype), S=tf.int32, dropout=0.5, seed=3, seed2=4
    )
    np.testing.assert_array_equal(size, [4 * 4 * (3 + 4 + 2)])


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [each for each in DTYPES if each != "bfloat16"])
@pytest.mark.parametrize("config", [each for each in NETWORKS if each.input_size], ids=network_id)
def test_size_equals_tf_raw_ops(config, dtype):
    """TensorFlow's op ends the process in bfloat16, and its conversions do in every type: they add an address on the
    stack to all offsets in the buffer."""
    arguments = {**sizes(config), "T": tf.as_dtype(dtype), "S": tf.int32, **attributes(config, "V2")}
    actual, expected = (ops.CudnnRNNParamsSize(**arguments) for ops in (OPS, BUILTIN_OPS))
    np.testing.assert_array_equal(actual, expected)


def test_sizes_beyond_int32_are_counted_in_int64():
    arguments = {"num_layers": 3, "num_units": 40000, "input_size": 1, "T": tf.float32}
    size = raw_ops.CudnnRNNParamsSize(**arguments, S=tf.int64)
    np.testing.assert_array_equal(size, [4 * 40000 * ((1 + 40002) + 2 * (40000 + 40002))])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"S must be int64 .* is int32"):
        raw_ops.CudnnRNNParamsSize(**arguments, S=tf.int32)


# ---------------------------------------------------------------- conversions


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("flattened", [False, True])
def test_splitting_and_joining_move_bits(dtype, flattened):
    """The canonical form lists weights and biases in the order of the buffer, which test_params.py compares."""
    for config in NETWORKS + NO_UNITS:
        params = random_bits([params_size(config)], dtype)
        parts, num_weights = split(config, params), len(canonical_shapes(config)[0])
        weights, biases = parts[:num_weights], parts[num_weights:]
        given = [weight.ravel() for weight in weights] if flattened else weights
        for version in versions(config):
            canonical = to_canonical(config, params, version)
            for actual, expected in zip(canonical.weights + canonical.biases, parts, strict=True):
                assert_same_bits(actual, expected)
            assert_same_bits(to_params(config, given, biases, version), params)


def test_in_a_graph_with_dynamic_sizes():
    """One graph for networks of any size: only the numbers of weights and biases are static."""
    attrs = {"direction": "bidirectional", "num_proj": 2}

    @tf.function(input_signature=[tf.TensorSpec(None, tf.int32)] * 3 + [tf.TensorSpec(None, tf.float32)])
    def there_and_back(num_layers, num_units, input_size, params):
        sizes = {"num_layers": num_layers, "num_units": num_units, "input_size": input_size}
        canonical = raw_ops.CudnnRNNParamsToCanonicalV2(
            **sizes, params=params, num_params_weights=36, num_params_biases=32, **attrs
        )
        size = raw_ops.CudnnRNNParamsSize(**sizes, T=tf.float32, S=tf.int32, **attrs)
        params = raw_ops.CudnnRNNCanonicalToParamsV2(**sizes, **canonical._asdict(), **attrs)
        return size, canonical.weights[20], params

    for num_units, input_size in [(3, 4), (7, 1), (5, 5)]:
        config = Config("lstm", num_layers=2, num_units=num_units, input_size=input_size, **attrs)
        params = random_bits([params_size(config)], "float32")
        size, weight, joined = there_and_back(2, num_units, input_size, params)
        np.testing.assert_array_equal(size, [params.size])
        assert weight.shape == (num_units, 4)
        assert_same_bits(joined, params)


def test_results_have_the_names_of_tf_raw_ops():
    canonical = to_canonical(PROJECTED, np.zeros(params_size(PROJECTED)))
    assert canonical._fields == ("weights", "biases")
    assert isinstance(canonical.weights, list)


# ---------------------------------------------------------------- gradients


@pytest.mark.parametrize(
    ("config", "compiled", "flattened"),
    every_pair([*SHALLOW, PROJECTED], [False, True], [False, True]),
    ids=lambda each: network_id(each) if isinstance(each, Config) else None,
)
def test_gradients_are_the_inverse_permutation(config, compiled, flattened):
    """The ops only move values, so the gradients are exact."""
    d_params = np.random.default_rng(1).standard_normal(params_size(config))
    d_canonical = split(config, d_params)
    params = tf.zeros_like(d_params)
    num_weights = len(canonical_shapes(config)[0])
    canonical = [tf.constant(each.ravel() if flattened else each) for each in d_canonical]

    def gradients(params, canonical, version):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([params, canonical])
            joined = to_params(config, canonical[:num_weights], canonical[num_weights:], version)
            parts = list(itertools.chain(*to_canonical(config, params, version)))
        return tape.gradient(joined, canonical, d_params), tape.gradient(parts, params, d_canonical)

    for version in versions(config):
        run = tf.function(gradients) if compiled else gradients
        of_canonical, of_params = run(params, canonical, version)
        assert_same_bits(of_params, d_params)
        for actual, expected, given in zip(of_canonical, d_canonical, canonical, strict=True):
            assert_same_bits(actual, expected.reshape(given.shape))


@pytest.mark.parametrize("version", ["", "V2"])
def test_unused_outputs_have_zero_gradients(version):
    config = Config("lstm", num_units=2, input_size=3)
    params = tf.range(params_size(config), dtype=tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(params)
        loss = tf.reduce_sum(to_canonical(config, params, version).weights[1])
    expected = np.zeros(params_size(config))
    expected[6:12] = 1
    np.testing.assert_array_equal(tape.gradient(loss, params), expected)


@pytest.mark.parametrize("version", ["", "V2"])
@pytest.mark.not_xla("in a graph that is not compiled, each op is in a separate function")
def test_none_counts_as_zero(version):
    """A gradient function may get None instead of zeros."""
    config = Config("rnn_relu", num_units=2, input_size=3)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        canonical = to_canonical(config, tf.zeros([params_size(config)]), version)
        op = canonical.weights[0].op
        gradient = gradient_registry.get_gradient_function(op)
        *none, d_params = gradient(op, None, tf.ones([2, 2]), None, None)
        assert none == [None] * 3
        expected = [0] * 6 + [1] * 4 + [0] * 4
        np.testing.assert_array_equal(session.run(d_params), expected)

        op = to_params(config, *canonical, version).op
        d_inputs = gradient_registry.get_gradient_function(op)(op, None)
        assert d_inputs[:3] == [None] * 3
        for actual, shape in zip(d_inputs[3:], itertools.chain(*canonical_shapes(config)), strict=True):
            np.testing.assert_array_equal(session.run(actual), np.zeros(shape))


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_are_of_the_dtype_of_the_params(dtype):
    config = PROJECTED
    params = tf.cast(tf.range(params_size(config)), dtype)
    with tf.GradientTape() as tape:
        tape.watch(params)
        joined = to_params(config, *to_canonical(config, params))
    assert_same_bits(tape.gradient(joined, params, output_gradients=params), params)
