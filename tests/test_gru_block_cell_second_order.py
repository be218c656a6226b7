"""Tests of second-order and higher-order gradients of GRUBlockCell, for every input through every output."""

import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from checks.cudnn_rnn import tensors
from checks.gru_block_cell import INPUTS, OUTPUTS, our_gru, plain_gru
from hypothesis import given
from hypothesis import strategies as st
from inputs import gru_block_cell as gru_inputs
from inputs.second_order import step_arguments, step_output_gradients
from references import gru_block_cell as reference
from references.second_order import STEP_ARGUMENTS, step_second_order

from tf_rnn_ops._library import ops

GATE_GRADIENTS = ("d_r", "d_u", "d_c")
GRADS = ("d_x", "d_h_prev", "d_c_bar", "d_r_bar_u_bar")
COMPILED = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "tf.function"])


def check(actual, expected, tolerance=1e-9):
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        assert parity.difference(actual[name], value) < tolerance, name


@given(
    size=gru_inputs.sizes(max_batch=40),
    dtype=st.sampled_from(gru_inputs.DTYPES),
    has_d_gates=st.booleans(),
    seed=st.integers(0, 2**20),
)
def test_gradient_of_the_gradient_op_equals_the_reference(size, dtype, has_d_gates, seed):
    """Partial derivatives, including r, u and c, compared with float64 on the same rounded inputs."""
    arguments = gru_inputs.cast(step_arguments(size, seed), dtype)
    if not has_d_gates:
        arguments = {name: value for name, value in arguments.items() if name not in GATE_GRADIENTS}
    v = gru_inputs.cast(step_output_gradients(size, seed)._asdict(), dtype)
    op = ops.tf_rnn_ops_gru_block_cell_grad_v2 if has_d_gates else ops.tf_rnn_ops_gru_block_cell_grad
    watched = tensors(arguments)
    with tf.GradientTape() as tape:
        tape.watch(watched)
        results = op(**watched)
    actual = tape.gradient(list(results), watched, output_gradients=[tf.constant(v[name]) for name in GRADS])
    wide = gru_inputs.float64(arguments)
    zeros = dict.fromkeys(GATE_GRADIENTS, np.zeros_like(wide["h_prev"]))
    expected = step_second_order({**zeros, **wide}, reference.GRUStepGrad(*gru_inputs.float64(v).values()))
    for name in STEP_ARGUMENTS:
        if name in arguments:
            assert actual[name].dtype == dtype
            assert parity.difference(actual[name], expected[name]) < parity.TOLERANCES[dtype], name
    assert actual["x"] is None
    assert actual["b_ru"] is None
    assert actual["b_c"] is None


def penalty_gradients(cell, inputs, of):
    """Returns gradients of a function of the gradients of a loss of the outputs in `of`."""
    with tf.GradientTape() as outer:
        outer.watch(inputs)
        with tf.GradientTape() as inner:
            inner.watch(inputs)
            step = cell(*(inputs[name] for name in INPUTS))
            loss = tf.add_n([tf.reduce_sum(tf.sin(getattr(step, name))) for name in of])
        gradients = inner.gradient(loss, inputs, unconnected_gradients="zero")
        value = tf.add_n([tf.reduce_sum(each**2) for each in gradients.values()])
    return outer.gradient(value, inputs, unconnected_gradients="zero")


@COMPILED
@pytest.mark.parametrize("of", [*OUTPUTS, OUTPUTS], ids="".join)
@pytest.mark.parametrize("size", [(4, 3, 6), (2, 0, 3), (1, 1, 1), (0, 3, 4), (2, 3, 0)], ids=str)
def test_equals_tensorflow_differentiating_a_plain_gru_twice(size, of, compiled):
    inputs = tensors(gru_inputs.cell_inputs(size))
    function = tf.function(penalty_gradients) if compiled else penalty_gradients
    check(function(our_gru, inputs, of), penalty_gradients(plain_gru, inputs, of))


@COMPILED
def test_forward_accumulator(compiled):
    inputs, v = (tensors(gru_inputs.cell_inputs((4, 3, 6), seed=seed)) for seed in (0, 5))

    def product(cell):
        primals, directions = list(inputs.values()), list(v.values())
        with tf.autodiff.ForwardAccumulator(primals, directions) as accumulator:
            with tf.GradientTape() as tape:
                tape.watch(primals)
                step = cell(*primals)
                loss = tf.add_n([tf.reduce_sum(tf.sin(each)) for each in step])
            gradients = tape.gradient(loss, primals)
        products = {name: accumulator.jvp(getattr(step, name)) for name in OUTPUTS}
        return {**products, **{name: accumulator.jvp(each) for name, each in zip(INPUTS, gradients, strict=True)}}

    function = tf.function(product) if compiled else product
    check(function(our_gru), product(plain_gru))


@pytest.mark.parametrize("pfor", [False, True])
def test_jacobian_of_a_gradient(pfor):
    inputs = tensors(gru_inputs.cell_inputs((2, 3, 4)))

    def hessian(cell):
        h_prev = inputs["h_prev"]
        with tf.GradientTape(persistent=True) as outer:
            outer.watch(h_prev)
            with tf.GradientTape() as inner:
                inner.watch(h_prev)
                loss = tf.reduce_sum(tf.sin(cell(*({**inputs, "h_prev": h_prev}[name] for name in INPUTS)).h))
            gradient = inner.gradient(loss, h_prev)
        return {"hessian": outer.jacobian(gradient, h_prev, experimental_use_pfor=pfor)}

    check(hessian(our_gru), hessian(plain_gru))


@COMPILED
def test_third_order(compiled):
    inputs = tensors(gru_inputs.cell_inputs((3, 2, 4)))

    def third_order(cell):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            gradients = penalty_gradients(cell, inputs, OUTPUTS)
            value = tf.add_n([tf.reduce_sum(tf.sin(each)) for each in gradients.values()])
        return tape.gradient(value, inputs)

    function = tf.function(third_order) if compiled else third_order
    check(function(our_gru), third_order(plain_gru))


def test_through_time():
    """A penalty on the gradient with respect to a sequence, in tf.function with a while loop."""
    inputs = tensors(gru_inputs.cell_inputs((3, 4, 5)))
    sequence = tf.constant(np.random.default_rng(2).standard_normal((7, 3, 4)))
    weights = {name: inputs[name] for name in INPUTS[2:]}

    def gradients(cell, sequence, weights):
        with tf.GradientTape() as outer:
            outer.watch(weights)
            with tf.GradientTape() as inner:
                inner.watch(sequence)
                h = inputs["h_prev"]
                for x in sequence:
                    h = cell(x, h, *weights.values()).h
                loss = tf.reduce_sum(tf.sin(h))
            value = tf.reduce_sum(inner.gradient(loss, sequence) ** 2)
        return outer.gradient(value, weights)

    actual, expected = (
        tf.function(lambda s, w, cell=cell: gradients(cell, s, w))(sequence, weights) for cell in (our_gru, plain_gru)
    )
    check(actual, expected)
