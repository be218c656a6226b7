"""The GRU ops on a GPU, compared with the float64 reference, TensorFlow's own ops and our CPU kernels."""

import numpy as np
import pytest
import tensorflow as tf
from checks import gru_block_cell as gru_checks
from checks.parity import difference
from environment.devices import BUILTIN_OPS, CPU_OPS, DEVICE, LIBRARY, OPS
from hypothesis import given
from hypothesis import strategies as st
from inputs import gru_block_cell as gru_inputs
from inputs.gru_block_cell import DTYPES, LARGE, NO_CELLS, SIZES, cell_inputs, output_gradients

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [*SIZES, NO_CELLS, LARGE], ids=str)
def test_equals_the_reference(size, dtype):
    gru_checks.check_against_reference(size, dtype, raw_ops=OPS)
    gru_checks.check_grad_v2(size, dtype, raw_ops=OPS, library=LIBRARY)


@given(size=gru_inputs.sizes(max_batch=70), seed=st.integers(0, 2**32 - 1), dtype=st.sampled_from(DTYPES))
def test_equals_the_reference_at_any_size(size, seed, dtype):
    gru_checks.check_against_reference(size, dtype, seed, raw_ops=OPS)


@pytest.mark.parametrize("size", [each for each in [*SIZES, LARGE] if all(each)], ids=str)
def test_equals_tf_raw_ops(size):
    """In float32, its only type."""
    d_h = output_gradients(size, "float32")["d_h"]
    gru_checks.check_against_builtin(cell_inputs(size, "float32"), d_h, OPS, BUILTIN_OPS)


@pytest.mark.parametrize("dtype", DTYPES)
def test_results_are_bitwise_reproducible_and_inputs_are_unchanged(dtype):
    size = (33, 130, 200)
    inputs = cell_inputs(size, dtype)
    with tf.device(DEVICE):
        tensors = {name: tf.constant(value) for name, value in inputs.items()}
        d_h = tf.constant(output_gradients(size, dtype)["d_h"])
    first, second = (OPS.GRUBlockCell(**tensors) for _ in range(2))
    gates = {"r": first.r, "u": first.u, "c": first.c, "d_h": d_h}
    first_grad, second_grad = (OPS.GRUBlockCellGrad(**tensors, **gates) for _ in range(2))
    for a, b in zip([*first, *first_grad], [*second, *second_grad], strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    for name, value in inputs.items():
        np.testing.assert_array_equal(tensors[name].numpy(), value)


def test_many_steps_in_one_graph():
    """Each step starts from the state that the previous step left in device memory."""
    inputs = cell_inputs((5, 7, 13), "float64")

    def last_state(ops):
        h = inputs["h_prev"]
        for _ in range(50):
            h = ops.GRUBlockCell(**{**inputs, "h_prev": h}).h
        return h

    on_device = tf.function(last_state)(OPS)
    assert difference(on_device, last_state(CPU_OPS)) < 1e-12
