"""Tests of the shape functions of the GRU ops."""

import pytest
import tensorflow as tf
from inputs import gru_block_cell as gru_inputs

import tf_rnn_ops

SIZE = (2, 3, 4)
NAMES = ("x", "h_prev", "w_ru", "w_c", "b_ru", "b_c")


def output_shapes(shapes):
    """Returns static output shapes for static input shapes. Other inputs have unknown rank."""
    with tf.Graph().as_default():
        inputs = {name: tf.compat.v1.placeholder(tf.float32, shapes.get(name)) for name in NAMES}
        step = tf_rnn_ops.raw_ops.GRUBlockCell(**inputs)
        states = {name: getattr(step, name) for name in "ruc"}
        grads = tf_rnn_ops.raw_ops.GRUBlockCellGrad(**inputs, **states, d_h=step.h)
        return [each.shape.as_list() for each in (*step, *grads)]


def expected_shapes(batch, input_size, cell_size):
    state = [batch, cell_size]
    gates = [batch, None if cell_size is None else 2 * cell_size]
    return [state] * 4 + [[batch, input_size], state, state, gates]


def test_all_shapes_known():
    shapes = {name: value.shape for name, value in gru_inputs.cell_inputs(SIZE).items()}
    assert output_shapes(shapes) == expected_shapes(*SIZE)


def test_no_shapes_known():
    assert output_shapes({}) == expected_shapes(None, None, None)


@pytest.mark.parametrize(
    ("shapes", "sizes"),
    [
        ({"x": (2, 3)}, (2, 3, None)),
        ({"h_prev": (2, 4)}, (2, None, 4)),
        ({"x": (None, 3), "h_prev": (2, None)}, (2, 3, None)),
        ({"w_ru": (7, 8)}, (None, 3, 4)),
        ({"w_c": (7, 4)}, (None, 3, 4)),
        ({"w_c": (7, None), "x": (None, 3)}, (None, 3, 4)),
        ({"b_ru": (8,)}, (None, None, 4)),
        ({"b_c": (4,)}, (None, None, 4)),
        ({"b_c": (4,), "w_ru": (7, None)}, (None, 3, 4)),
    ],
    ids=str,
)
def test_shapes_from_partial_inputs(shapes, sizes):
    assert output_shapes(shapes) == expected_shapes(*sizes)


def grad_shapes(shapes):
    """Returns static output shapes of GRUBlockCellGrad, as above."""
    with tf.Graph().as_default():
        names = (*NAMES, "r", "u", "c", "d_h")
        inputs = {name: tf.compat.v1.placeholder(tf.float32, shapes.get(name)) for name in names}
        return [each.shape.as_list() for each in tf_rnn_ops.raw_ops.GRUBlockCellGrad(**inputs)]


@pytest.mark.parametrize("state", ["r", "u", "c", "d_h"])
def test_shapes_from_the_states_of_a_gradient(state):
    assert grad_shapes({state: (2, 4), "w_c": (7, None)}) == expected_shapes(2, 3, 4)[4:]
    with pytest.raises(ValueError, match="must"):
        grad_shapes({state: (2, 9), "w_c": (7, None)})


@pytest.mark.parametrize(
    "shapes",
    [
        {"w_ru": (7, 9)},
        {"b_ru": (9,)},
        {"w_ru": (7, 8), "b_c": (5,)},
        {"w_ru": (7, 8), "w_c": (8, 4)},
        {"x": (None, 3), "h_prev": (None, 4), "w_c": (8, None)},
        {"x": (None, 9), "w_ru": (7, None)},
        {"h_prev": (None, 9), "w_c": (7, None)},
        {"x": (2, None), "h_prev": (3, None)},
        {"b_ru": (8,), "b_c": (3,)},
    ],
    ids=str,
)
def test_contradictory_shapes_are_rejected(shapes):
    with pytest.raises(ValueError, match="must"):
        output_shapes(shapes)
