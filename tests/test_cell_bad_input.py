"""Shapes of any rank and size for GRUBlockCell. test_op_bad_input.py tests each argument of all cells."""

import numpy as np
import pytest
import tensorflow as tf
from checks.bad_input import ERRORS, RUNS, cell_arguments
from hypothesis import given
from hypothesis import strategies as st
from inputs import gru_block_cell as gru_inputs

import tf_rnn_ops

shapes = st.lists(st.integers(0, 5), max_size=4).map(tuple)


@given(data=st.data())
def test_any_shapes_are_accepted_or_rejected(data):
    """Results for shapes that the built-in op accepts, and an error that names an argument for others."""
    right = gru_inputs.cell_inputs(
        data.draw(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 3))), "float32"
    )
    changed = data.draw(st.lists(st.sampled_from(sorted(right)), max_size=2, unique=True))
    inputs = {**right, **{name: np.zeros(data.draw(shapes), "float32") for name in changed}}
    try:
        expected = tf.raw_ops.GRUBlockCell(**inputs)
    except tf.errors.InvalidArgumentError:
        for run in RUNS:
            with pytest.raises(ERRORS, match=r"must"):
                run(tf_rnn_ops.raw_ops.GRUBlockCell, inputs)
    else:
        for run in RUNS:
            outputs = run(tf_rnn_ops.raw_ops.GRUBlockCell, inputs)
            assert [each.shape for each in outputs] == [each.shape for each in expected]


HUGE = 2**62


@pytest.mark.parametrize(
    ("x", "h_prev"),
    [((0, HUGE), (0, HUGE)), ((0, 1), (0, HUGE)), ((0, HUGE), (0, 1)), ((HUGE, 0), (HUGE, 1)), ((HUGE, 1), (HUGE, 0))],
    ids=str,
)
@pytest.mark.not_xla("XLA crashes on empty tensors whose product of sizes overflows", crashes=True)
def test_sizes_whose_sums_or_products_overflow_are_rejected(x, h_prev):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        right = cell_arguments("GRUBlockCell")
        inputs = {name: tf.compat.v1.placeholder(tf.float32) for name in right}
        feed = {inputs[name]: value for name, value in right.items() if name not in ("x", "h_prev")}
        # NumPy does not support such arrays; TensorFlow stores no data for them.
        for name, shape in (("x", x), ("h_prev", h_prev)):
            if 0 in shape:
                inputs[name] = tf.zeros(tf.constant(shape, tf.int64))
            else:
                feed[inputs[name]] = np.zeros((3, shape[1]), "float32")
        with pytest.raises(ERRORS, match=r"must"):
            session.run(tf_rnn_ops.raw_ops.GRUBlockCell(**inputs), feed)


@pytest.mark.not_xla("XLA crashes on empty tensors whose product of sizes overflows", crashes=True)
def test_a_huge_batch_of_empty_tensors_is_accepted():
    nothing = tf.zeros(tf.constant([HUGE, 0], tf.int64))
    weights = {"w_ru": tf.zeros([0, 0]), "w_c": tf.zeros([0, 0]), "b_ru": tf.zeros([0]), "b_c": tf.zeros([0])}
    assert tf_rnn_ops.raw_ops.GRUBlockCell(x=nothing, h_prev=nothing, **weights).h.shape == (HUGE, 0)
