"""Tests that ops raise ResourceExhaustedError when out of memory, and that later calls are correct."""

import numpy as np
import pytest
import tensorflow as tf

import tf_rnn_ops


def test_an_output_larger_than_any_memory():
    """An output of 32 TiB from inputs of 72 MiB, because there are no features."""
    steps = sequences = 1 << 20
    states = tf.zeros([1, sequences, 8])
    arguments = {
        "input": tf.zeros([steps, sequences, 0]),
        "input_h": states,
        "input_c": states,
        "params": tf.zeros([4 * 8 * 10]),
        "sequence_lengths": tf.fill([sequences], steps),
    }
    op = tf.function(tf_rnn_ops.raw_ops.CudnnRNNV3)
    with pytest.raises(
        tf.errors.ResourceExhaustedError, match=r"OOM when allocating tensor with shape\[1048576,1048576,8\]"
    ):
        op(**arguments)
    small = {**arguments, "input": tf.zeros([1, sequences, 0]), "sequence_lengths": tf.ones([sequences], tf.int32)}
    np.testing.assert_array_equal(op(**small).output, np.zeros([1, sequences, 8]))
