"""Gradients of the ops. Importing this module registers them with TensorFlow."""

import tensorflow as tf

from tf_rnn_ops._library import ops


def _product_over_batch(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """Returns a^T * b for a, [batch, m], and b, [batch, n], summed in at least float32."""
    wide = tf.float32 if a.dtype.size == 2 else a.dtype
    product = tf.matmul(tf.cast(a, wide), tf.cast(b, wide), transpose_a=True)
    return tf.cast(product, a.dtype)


def _sum_over_batch(a: tf.Tensor) -> tf.Tensor:
    """Returns the sum over the first axis of a, [batch, n], formed in at least float32."""
    wide = tf.float32 if a.dtype.size == 2 else a.dtype
    return tf.cast(tf.reduce_sum(tf.cast(a, wide), axis=0), a.dtype)


@tf.RegisterGradient("TfRnnOps>GRUBlockCell")
def _gru_block_cell_grad(op, d_r, d_u, d_c, d_h):
    """The gradient of GRUBlockCell: of its inputs x, h_prev, w_ru, w_c, b_ru and b_c.

    Args:
      op: the forward op.
      d_r: gradient with respect to the reset gate, [batch, cell_size], or None for zeros.
      d_u: the same for the update gate.
      d_c: the same for the candidate.
      d_h: the same for the new state.
    """
    x, h_prev, *weights = op.inputs
    r, u, c, h = op.outputs
    step = (x, h_prev, *weights, r, u, c)
    if d_r is None and d_u is None and d_c is None:
        grads = ops.tf_rnn_ops_gru_block_cell_grad(*step, d_h)
    else:
        d_outputs = (tf.zeros_like(h) if d is None else d for d in (d_r, d_u, d_c, d_h))
        grads = ops.tf_rnn_ops_gru_block_cell_grad_v2(*step, *d_outputs)
    return (
        grads.d_x,
        grads.d_h_prev,
        _product_over_batch(tf.concat([x, h_prev], axis=1), grads.d_r_bar_u_bar),
        _product_over_batch(tf.concat([x, h_prev * r], axis=1), grads.d_c_bar),
        _sum_over_batch(grads.d_r_bar_u_bar),
        _sum_over_batch(grads.d_c_bar),
    )
