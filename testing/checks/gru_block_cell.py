"""Comparisons of the GRU ops, and of their gradients from a tape, for the tests."""

import collections

import tensorflow as tf
from inputs import gru_block_cell as gru_inputs
from references import gru_block_cell as reference

import tf_rnn_ops
from checks import parity

Gradients = collections.namedtuple("Gradients", ["x", "h_prev", "w_ru", "w_c", "b_ru", "b_c"])
INPUTS = Gradients._fields
OUTPUTS = reference.GRUStep._fields


def check_against_builtin(inputs, d_h, raw_ops=tf_rnn_ops.raw_ops, builtin_ops=tf.raw_ops):
    """Compares a float32 step, forward and backward, with TensorFlow's own ops."""
    actual = raw_ops.GRUBlockCell(**inputs)
    expected = builtin_ops.GRUBlockCell(**inputs)
    parity.check("GRUBlockCell", "tf.raw_ops", actual, expected)
    grad_inputs = gru_inputs.grad_inputs(inputs, expected, d_h=d_h)
    actual_grad = raw_ops.GRUBlockCellGrad(**grad_inputs)
    expected_grad = builtin_ops.GRUBlockCellGrad(**grad_inputs)
    parity.check("GRUBlockCellGrad", "tf.raw_ops", actual_grad, expected_grad)


def check_against_reference(size, dtype, seed=0, raw_ops=tf_rnn_ops.raw_ops):
    """Compares a step, forward and backward, with the float64 reference on the same rounded inputs."""
    inputs = gru_inputs.cell_inputs(size, dtype, seed)
    actual = raw_ops.GRUBlockCell(**inputs)
    assert all(output.dtype.name == dtype for output in actual)
    parity.check("GRUBlockCell", "float64", actual, reference.gru_block_cell(**gru_inputs.float64(inputs)))

    d_h = gru_inputs.output_gradients(size, dtype, seed)["d_h"]
    grad_inputs = gru_inputs.grad_inputs(inputs, actual, d_h=d_h)
    expected_grad = reference.gru_block_cell_grad(**gru_inputs.float64(grad_inputs))
    actual_grad = raw_ops.GRUBlockCellGrad(**grad_inputs)
    assert all(output.dtype.name == dtype for output in actual_grad)
    parity.check("GRUBlockCellGrad", "float64", actual_grad, expected_grad)


def check_grad_v2(size, dtype, raw_ops=tf_rnn_ops.raw_ops, library=tf_rnn_ops._library.ops):
    """Compares GRUBlockCellGradV2, with gradients of all outputs, with the float64 reference."""
    inputs = gru_inputs.cell_inputs(size, dtype)
    step = raw_ops.GRUBlockCell(**inputs)
    grad_inputs = gru_inputs.grad_inputs(inputs, step, **gru_inputs.output_gradients(size, dtype))
    actual = library.tf_rnn_ops_gru_block_cell_grad_v2(**grad_inputs)
    expected = reference.gru_block_cell_grad(**gru_inputs.float64(grad_inputs))
    parity.check("GRUBlockCellGradV2", "float64", actual, expected)


def our_gru(*inputs):
    """The op, with inputs in the order of `INPUTS`."""
    return tf_rnn_ops.raw_ops.GRUBlockCell(**dict(zip(INPUTS, inputs, strict=True)))


def plain_gru(x, h_prev, w_ru, w_c, b_ru, b_c):
    """The cell in differentiable TensorFlow ops."""
    r, u = tf.split(tf.sigmoid(tf.matmul(tf.concat([x, h_prev], 1), w_ru) + b_ru), 2, axis=1)
    c = tf.tanh(tf.matmul(tf.concat([x, h_prev * r], 1), w_c) + b_c)
    return reference.GRUStep(r, u, c, u * h_prev + (1 - u) * c)


def plain_gru_grad(h_prev, w_ru, w_c, r, u, c, d_h, d_r=0.0, d_u=0.0, d_c=0.0):
    """The backward step in differentiable TensorFlow ops."""
    input_size = w_c.shape[0] - w_c.shape[1]
    d_c_bar = (d_c + d_h * (1 - u)) * (1 - c * c)
    d_u_bar = (d_u + d_h * (h_prev - c)) * u * (1 - u)
    d_x_hr = tf.matmul(d_c_bar, w_c, transpose_b=True)
    d_hr = d_x_hr[:, input_size:]
    d_r_bar = (d_r + d_hr * h_prev) * r * (1 - r)
    d_r_bar_u_bar = tf.concat([d_r_bar, d_u_bar], 1)
    d_x_h = tf.matmul(d_r_bar_u_bar, w_ru, transpose_b=True)
    d_x, d_h_prev = d_x_h[:, :input_size] + d_x_hr[:, :input_size], d_x_h[:, input_size:] + d_hr * r + d_h * u
    return reference.GRUStepGrad(d_x, d_h_prev, d_c_bar, d_r_bar_u_bar)


def weighted_sum(outputs, weights, of):
    """Returns a loss that depends only on the outputs in `of`."""
    return tf.add_n([tf.reduce_sum(getattr(outputs, name) * weights["d_" + name]) for name in of])


def gradients(cell, inputs, weights, of):
    """Returns the gradients of weighted_sum with respect to every input, from an eager tape."""
    variables = [tf.constant(inputs[name]) for name in INPUTS]
    with tf.GradientTape() as tape:
        tape.watch(variables)
        loss = weighted_sum(cell(*variables), weights, of)
    return dict(zip(INPUTS, tape.gradient(loss, variables), strict=True))


def check_gradients(actual, expected, peer="plain GRU"):
    """Compares gradients by input. None counts as zero."""
    zero_filled = {name: tf.zeros_like(actual[name]) if value is None else value for name, value in expected.items()}
    parity.check("GRUBlockCell's gradient", peer, Gradients(**actual), zero_filled)
