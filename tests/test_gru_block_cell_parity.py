"""Compares the GRU ops with the built-in ops and with the float64 reference."""

import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from checks.gru_block_cell import check_against_builtin, check_against_reference
from hypothesis import given
from hypothesis import strategies as st
from inputs import gru_block_cell as gru_inputs

import tf_rnn_ops

sizes = gru_inputs.sizes(max_batch=9)


@pytest.mark.parametrize("size", [*gru_inputs.SIZES, gru_inputs.LARGE], ids=str)
def test_equals_builtin(size):
    check_against_builtin(gru_inputs.cell_inputs(size, "float32"), gru_inputs.output_gradients(size, "float32")["d_h"])


@given(size=sizes, seed=st.integers(0, 2**32 - 1))
def test_equals_builtin_at_any_size(size, seed):
    inputs = gru_inputs.cell_inputs(size, "float32", seed)
    check_against_builtin(inputs, gru_inputs.output_gradients(size, "float32", seed)["d_h"])


@pytest.mark.parametrize("dtype", gru_inputs.DTYPES)
@pytest.mark.parametrize("size", [*gru_inputs.SIZES, gru_inputs.NO_CELLS, gru_inputs.LARGE], ids=str)
def test_equals_reference(size, dtype):
    check_against_reference(size, dtype)


@given(size=sizes, seed=st.integers(0, 2**32 - 1), dtype=st.sampled_from(gru_inputs.DTYPES))
def test_equals_reference_at_any_size(size, seed, dtype):
    check_against_reference(size, dtype, seed)


SPECIAL = {
    "zero": 0.0,
    "minus zero": -0.0,
    "inf": np.inf,
    "-inf": -np.inf,
    "nan": np.nan,
    "denormal": 1e-40,
    "huge": 3e38,
}


@pytest.mark.parametrize("value", SPECIAL.values(), ids=SPECIAL.keys())
@pytest.mark.parametrize("argument", ["x", "h_prev", "w_ru", "w_c", "b_ru", "b_c", "d_h", "r", "u", "c"])
def test_special_values_equal_the_builtin(argument, value):
    """One special value in an otherwise normal argument."""
    size = (3, 17, 40)
    inputs = gru_inputs.cell_inputs(size, "float32")
    if argument in inputs:
        inputs[argument].flat[5] = value
        outputs = tf_rnn_ops.raw_ops.GRUBlockCell(**inputs)
        parity.check("GRUBlockCell", "tf.raw_ops, special", outputs, tf.raw_ops.GRUBlockCell(**inputs))
    forward = tf.raw_ops.GRUBlockCell(**inputs)
    d_h = gru_inputs.output_gradients(size, "float32")["d_h"]
    grad_inputs = gru_inputs.grad_inputs(inputs, forward, d_h=d_h)
    if argument in ("r", "u", "c", "d_h"):
        grad_inputs[argument].flat[5] = value
    outputs = tf_rnn_ops.raw_ops.GRUBlockCellGrad(**grad_inputs)
    parity.check("GRUBlockCellGrad", "tf.raw_ops, special", outputs, tf.raw_ops.GRUBlockCellGrad(**grad_inputs))


@pytest.mark.parametrize("value", [1e-40, -1e-39])
def test_denormals_are_flushed_like_in_the_builtin(value):
    inputs = {name: np.full_like(each, value) for name, each in gru_inputs.cell_inputs((2, 3, 20), "float32").items()}
    expected = tf.raw_ops.GRUBlockCell(**inputs)
    parity.check("GRUBlockCell", "tf.raw_ops, special", tf_rnn_ops.raw_ops.GRUBlockCell(**inputs), expected)


@pytest.mark.parametrize("dtype", gru_inputs.DTYPES)
def test_inputs_are_unchanged_and_results_repeat(dtype):
    size = (5, 33, 70)
    inputs = gru_inputs.cell_inputs(size, dtype)
    before = {name: value.copy() for name, value in inputs.items()}
    tensors = {name: tf.constant(value) for name, value in inputs.items()}
    step = tf_rnn_ops.raw_ops.GRUBlockCell(**tensors)
    d_h = tf.constant(gru_inputs.output_gradients(size, dtype)["d_h"])
    grad_inputs = {**tensors, "r": step.r, "u": step.u, "c": step.c, "d_h": d_h}  # the same memory both times
    first = tf_rnn_ops.raw_ops.GRUBlockCellGrad(**grad_inputs)
    second = tf_rnn_ops.raw_ops.GRUBlockCellGrad(**grad_inputs)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    for name, value in before.items():
        np.testing.assert_array_equal(tensors[name].numpy(), value)
