"""Tests of the registered gradient of GRUBlockCell, for every input through every output."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from checks.gru_block_cell import (
    INPUTS,
    OUTPUTS,
    check_grad_v2,
    check_gradients,
    gradients,
    our_gru,
    plain_gru,
    weighted_sum,
)
from hypothesis import given
from hypothesis import strategies as st
from inputs import gru_block_cell as gru_inputs
from references import gru_block_cell as reference
from tensorflow.python.framework import ops as gradient_registry

# All sets of outputs that a loss may depend on.
OUTPUT_SETS = [set for n in range(1, 5) for set in itertools.combinations(OUTPUTS, n)]


def reference_gradients(inputs, step, d_outputs):
    """Returns gradients in float64 for the gates of a forward step, which are rounded to its dtype."""
    x, h_prev = inputs["x"], inputs["h_prev"]
    d_step = reference.gru_block_cell_grad(**inputs, r=step["r"], u=step["u"], c=step["c"], **d_outputs)
    d_w_ru = np.concatenate([x, h_prev], axis=1).T @ d_step.d_r_bar_u_bar
    d_w_c = np.concatenate([x, h_prev * step["r"]], axis=1).T @ d_step.d_c_bar
    d_b_ru, d_b_c = d_step.d_r_bar_u_bar.sum(axis=0), d_step.d_c_bar.sum(axis=0)
    return dict(zip(INPUTS, (d_step.d_x, d_step.d_h_prev, d_w_ru, d_w_c, d_b_ru, d_b_c), strict=True))


@given(
    size=gru_inputs.sizes(max_batch=100),
    of=st.sampled_from(OUTPUT_SETS),
    dtype=st.sampled_from(gru_inputs.DTYPES),
    seed=st.integers(0, 2**32 - 1),
)
def test_equals_the_reference_at_any_size(size, of, dtype, seed):
    """Compared with float64 on the same rounded inputs and gates.

    A gradient is proportional to 1 - r, and rounding an r near 1 changes it by any factor.
    """
    inputs = gru_inputs.cell_inputs(size, dtype, seed)
    weights = gru_inputs.output_gradients(size, dtype, seed)
    actual = gradients(our_gru, inputs, weights, of)
    step = gru_inputs.float64(our_gru(*inputs.values())._asdict())
    d_outputs = gru_inputs.float64({name: value * (name[2:] in of) for name, value in weights.items()})
    check_gradients(actual, reference_gradients(gru_inputs.float64(inputs), step, d_outputs), "float64")


@pytest.mark.parametrize("of", OUTPUT_SETS, ids="".join)
def test_in_a_graph_by_tf_gradients(of):
    inputs = gru_inputs.cell_inputs((3, 4, 5), "float64")
    weights = gru_inputs.output_gradients((3, 4, 5), "float64")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        placeholders = [tf.compat.v1.placeholder(tf.float64, inputs[name].shape) for name in INPUTS]
        graph_gradients = tf.gradients(weighted_sum(our_gru(*placeholders), weights, of), placeholders)
        values = session.run(graph_gradients, dict(zip(placeholders, inputs.values(), strict=True)))
    actual = {name: tf.constant(value) for name, value in zip(INPUTS, values, strict=True)}
    check_gradients(actual, gradients(plain_gru, inputs, weights, of))


@pytest.mark.parametrize("of", OUTPUT_SETS, ids="".join)
@pytest.mark.not_xla("in a graph that is not compiled, each op is in a separate function")
def test_none_counts_as_zero(of):
    """TensorFlow passes zeros for outputs that a loss does not use, but a gradient function may get None."""
    inputs = gru_inputs.cell_inputs((3, 4, 5), "float64")
    weights = gru_inputs.output_gradients((3, 4, 5), "float64")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        op = our_gru(*inputs.values()).h.op
        incoming = [tf.constant(weights["d_" + name]) if name in of else None for name in OUTPUTS]
        results = gradient_registry.get_gradient_function(op)(op, *incoming)
        assert {result.op.type for result in results[:2]} == {
            "TfRnnOps>GRUBlockCellGrad" if of == ("h",) else "TfRnnOps>GRUBlockCellGradV2"
        }
        values = session.run(results)
    actual = {name: tf.constant(value) for name, value in zip(INPUTS, values, strict=True)}
    check_gradients(actual, gradients(plain_gru, inputs, weights, of))


@pytest.mark.parametrize("dtype", gru_inputs.DTYPES)
def test_grad_v2_equals_the_reference(dtype):
    for size in [*gru_inputs.SIZES, gru_inputs.NO_CELLS]:
        check_grad_v2(size, dtype)


def test_unused_gradients_are_not_in_the_graph():
    """A loss without gradients of the weights does not compute them."""
    inputs = gru_inputs.cell_inputs((3, 4, 5), "float64")

    @tf.function
    def state_gradient(x, h_prev, *weights):
        with tf.GradientTape() as tape:
            tape.watch(h_prev)
            loss = tf.reduce_sum(our_gru(x, h_prev, *weights).h)
        return tape.gradient(loss, h_prev)

    concrete = state_gradient.get_concrete_function(*(tf.constant(value) for value in inputs.values()))
    needed = tf.compat.v1.graph_util.extract_sub_graph(concrete.graph.as_graph_def(), [concrete.outputs[0].op.name])
    types = {node.op for node in needed.node}
    assert "TfRnnOps>GRUBlockCellGradV2" in types
    assert "MatMul" not in types
