"""Tests of the gradients of cells of any order, for every input through every output."""

import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from checks.cells import CELLS
from checks.cudnn_rnn import tensors
from checks.gru_block_cell import plain_gru_grad
from hypothesis import given
from hypothesis import strategies as st
from inputs import gru_block_cell as gru_inputs
from inputs.second_order import step_arguments, step_output_gradients

from tf_rnn_ops._library import ops

GATE_GRADIENTS = ("d_r", "d_u", "d_c")
UNUSED = ("x", "b_ru", "b_c")  # the backward step does not depend on them
COMPILED = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "tf.function"])


EVERY_CELL = pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)


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
def test_gradient_of_gru_block_cell_grad_equals_that_of_its_formulas(size, dtype, has_d_gates, seed):
    """Partial derivatives, including r, u and c, compared with float64 on the same rounded inputs."""
    arguments = gru_inputs.cast(step_arguments(size, seed), dtype)
    if not has_d_gates:
        arguments = {name: value for name, value in arguments.items() if name not in GATE_GRADIENTS}
    v = gru_inputs.cast(step_output_gradients(size, seed)._asdict(), dtype)
    op = ops.tf_rnn_ops_gru_block_cell_grad_v2 if has_d_gates else ops.tf_rnn_ops_gru_block_cell_grad

    def gradients(run, watched, v):
        with tf.GradientTape() as tape:
            tape.watch(watched)
            results = run(**watched)
        return tape.gradient(list(results), watched, output_gradients=list(v.values()))

    actual = gradients(op, tensors(arguments), tensors(v))
    assert all(actual.pop(name) is None for name in UNUSED)
    wide = {name: value for name, value in gru_inputs.float64(arguments).items() if name not in UNUSED}
    expected = gradients(plain_gru_grad, tensors(wide), tensors(gru_inputs.float64(v)))
    assert all(each.dtype == dtype for each in actual.values())
    check(actual, expected, parity.TOLERANCES[dtype])


def loss_gradients(run, inputs, of):
    """Returns gradients of a loss of the outputs in `of`."""
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = run(*inputs.values())
        loss = tf.add_n([tf.reduce_sum(tf.sin(getattr(outputs, name))) for name in of])
    return tape.gradient(loss, inputs, unconnected_gradients="zero")


def penalty_gradients(run, inputs, of):
    """Returns gradients of a function of the gradients of a loss of the outputs in `of`."""
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        value = tf.add_n([tf.reduce_sum(each**2) for each in loss_gradients(run, inputs, of).values()])
    return tape.gradient(value, inputs, unconnected_gradients="zero")


@COMPILED
@pytest.mark.parametrize(
    ("cell", "of", "size"),
    [
        pytest.param(cell, of, size, id=f"{name}-{''.join(of)}-{size}")
        for name, cell in CELLS.items()
        for of, size in (
            *(((output,), (4, 3, 6)) for output in cell.outputs),
            *((cell.outputs, size) for size in [(4, 3, 6), (2, 0, 3), (1, 1, 1), (0, 3, 4), (2, 3, 0)]),
        )
    ],
)
def test_equals_tensorflow_differentiating_a_plain_cell_twice(cell, of, size, compiled):
    inputs = tensors(cell.inputs(size))
    for gradients in (loss_gradients, penalty_gradients):
        function = tf.function(gradients) if compiled else gradients
        check(function(cell.ours, inputs, of), gradients(cell.plain, inputs, of))


@COMPILED
@EVERY_CELL
def test_forward_accumulator(cell, compiled):
    inputs, v = (tensors(cell.inputs((4, 3, 6), seed=seed)) for seed in (0, 5))

    def product(run):
        primals, directions = list(inputs.values()), list(v.values())
        with tf.autodiff.ForwardAccumulator(primals, directions) as accumulator:
            with tf.GradientTape() as tape:
                tape.watch(primals)
                outputs = run(*primals)
                loss = tf.add_n([tf.reduce_sum(tf.sin(each)) for each in outputs])
            gradients = tape.gradient(loss, primals, unconnected_gradients="zero")
        products = [accumulator.jvp(each, unconnected_gradients="zero") for each in (*outputs, *gradients)]
        return dict(zip((*cell.outputs, *inputs), products, strict=True))

    function = tf.function(product) if compiled else product
    check(function(cell.ours), product(cell.plain))


@pytest.mark.parametrize("pfor", [False, True])
@EVERY_CELL
def test_jacobian_of_a_gradient(cell, pfor):
    inputs = tensors(cell.inputs((2, 3, 4)))

    def hessian(run):
        h_prev = inputs["h_prev"]
        with tf.GradientTape(persistent=True) as outer:
            outer.watch(h_prev)
            with tf.GradientTape() as inner:
                inner.watch(h_prev)
                loss = tf.reduce_sum(tf.sin(run(*({**inputs, "h_prev": h_prev}).values()).h))
            gradient = inner.gradient(loss, h_prev)
        return {"hessian": outer.jacobian(gradient, h_prev, experimental_use_pfor=pfor)}

    check(hessian(cell.ours), hessian(cell.plain))


@pytest.mark.parametrize("ranks", ["eager", "known", "unknown"])
@EVERY_CELL
@pytest.mark.not_xla(
    "XLA loses the sizes of the tensor lists of a loop, or their gradients, if the loop is new to the process",
    cases="LSTMBlockCell|BlockLSTM",
    sure=False,
)
def test_third_order(cell, ranks):
    inputs = tensors(cell.inputs((3, 2, 4)))

    def third_order(inputs, run=cell.ours):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            gradients = penalty_gradients(run, inputs, cell.outputs)
            value = tf.add_n([tf.reduce_sum(tf.sin(each)) for each in gradients.values()])
        return tape.gradient(value, inputs, unconnected_gradients="zero")

    if ranks == "unknown":
        signature = [{name: tf.TensorSpec(None, each.dtype) for name, each in inputs.items()}]
    else:
        signature = None
    function = third_order if ranks == "eager" else tf.function(third_order, input_signature=signature)
    check(function(inputs), third_order(inputs, cell.plain))


@pytest.mark.parametrize("name", ["GRUBlockCell", "LSTMBlockCell"])
def test_through_time(name):
    """A penalty on the gradient with respect to a sequence, in tf.function with a while loop."""
    cell = CELLS[name]
    inputs = tensors(cell.inputs((3, 4, 5)))
    names = [each for each in inputs if each.endswith("_prev")]
    sequence = tf.constant(np.random.default_rng(2).standard_normal((7, 3, 4)))

    def gradients(run, sequence, inputs):
        with tf.GradientTape() as outer:
            outer.watch(inputs)
            with tf.GradientTape() as inner:
                inner.watch(sequence)
                states = [inputs[each] for each in names]
                for x in sequence:
                    outputs = run(*{**inputs, "x": x, **dict(zip(names, states, strict=True))}.values())
                    states = [getattr(outputs, each.removesuffix("_prev")) for each in names]
                loss = tf.reduce_sum(tf.sin(states[-1]))
            value = tf.reduce_sum(inner.gradient(loss, sequence) ** 2)
        return outer.gradient(value, inputs, unconnected_gradients="zero")

    actual, expected = (
        tf.function(lambda s, i, run=run: gradients(run, s, i))(sequence, inputs) for run in (cell.ours, cell.plain)
    )
    check(actual, expected)
