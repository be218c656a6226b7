"""The ops that size, split and join a params buffer on a GPU: exact, and of the size of TensorFlow's own op."""

import pytest
import tensorflow as tf
from checks.cudnn_rnn_params import (
    NETWORKS,
    assert_same_bits,
    attributes,
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
from references.cudnn_rnn import params_size

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", DTYPES)
def test_splitting_and_joining(dtype):
    for config in NETWORKS:
        params = random_bits([params_size(config)], dtype)
        for version in versions(config):
            weights, biases = to_canonical(config, params, version, OPS)
            for actual, expected in zip(weights + biases, split(config, params), strict=True):
                assert_same_bits(actual, expected)
            assert_same_bits(to_params(config, weights, biases, version, OPS), params)


@pytest.mark.parametrize("size_type", [tf.int32, tf.int64], ids=lambda each: each.name)
def test_size(size_type):
    for config in NETWORKS:
        size = OPS.CudnnRNNParamsSize(**sizes(config), T=tf.float32, S=size_type, **attributes(config, "V2"))
        assert size.dtype == size_type
        assert size.numpy().tolist() == [params_size(config)]


@pytest.mark.parametrize("dtype", [each for each in DTYPES if each != "bfloat16"])
@pytest.mark.parametrize("config", [each for each in NETWORKS if each.input_size], ids=network_id)
def test_size_equals_tf_raw_ops(config, dtype):
    """TensorFlow's op ends the process in bfloat16, and its conversions do in every type: they add an address on the
    stack to all offsets in the buffer."""
    size = BUILTIN_OPS.CudnnRNNParamsSize(**sizes(config), T=tf.as_dtype(dtype), S=tf.int32, **attributes(config, "V2"))
    assert size.numpy().tolist() == [params_size(config)]
