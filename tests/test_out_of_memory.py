"""Tests that ops raise ResourceExhaustedError when out of memory, and that later calls are correct."""

import numpy as np
import pytest
import tensorflow as tf
from environment import processes
from robustness import memory_limits

import tf_rnn_ops

CHECK = """
import sys
from robustness import memory_limits
print(*memory_limits.to_text(memory_limits.check(sys.argv[1], sys.argv[2:])), sep="\\n")
"""

MASKED = ["KerasRNN of a long masked sample", "KerasRNNBackprop with a mask"]


@pytest.mark.parametrize("name", MASKED)
def test_masked_layers_under_increasing_memory_limits(name):
    processes.run_code(CHECK, "eager", name, **memory_limits.ENVIRONMENT, **processes.WITH_TESTING)


@pytest.mark.slow
def test_every_op_under_increasing_memory_limits():
    processes.run_code(CHECK, "eager", **memory_limits.ENVIRONMENT, **processes.WITH_TESTING)


@pytest.mark.parametrize("entry_point", ["graph", pytest.param("dataset", marks=pytest.mark.slow)])
def test_graphs_and_datasets_continue_after_an_error(entry_point):
    names = ["CudnnRNNV3", "CudnnRNNBackpropV3", "CudnnRNNBackpropGrad", "GRUBlockCell", *MASKED]
    processes.run_code(CHECK, entry_point, *names, **memory_limits.ENVIRONMENT, **processes.WITH_TESTING)


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
