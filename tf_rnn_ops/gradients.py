"""Gradients of the ops. Importing this module registers them with TensorFlow."""

import tensorflow as tf

from tf_rnn_ops._library import ops


@tf.RegisterGradient("TfRnnOps>GRUBlockCell")
def _gru_block_cell_grad(op, d_r, d_u, d_c, d_h):
    """The gradient of GRUBlockCell: of its inputs x, h_prev, w_ru, w_c, b_ru and b_c.

    For the 16-bit types all of it is in float32: sums over the batch of rounded numbers could lose what is left when
    they cancel.

    Args:
      op: the forward op.
      d_r: gradient with respect to the reset gate, [batch, cell_size], or None for zeros.
      d_u: the same for the update gate.
      d_c: the same for the candidate.
      d_h: the same for the new state.
    """
    dtype = op.outputs[0].dtype
    wide = tf.float32 if dtype.size == 2 else dtype
    x, h_prev, *weights = (tf.cast(each, wide) for each in op.inputs)
    r, u, c, h = (tf.cast(each, wide) for each in op.outputs)
    d_outputs = [None if each is None else tf.cast(each, wide) for each in (d_r, d_u, d_c, d_h)]

    step = (x, h_prev, *weights, r, u, c)
    if any(each is not None for each in d_outputs[:3]):
        d_outputs = [tf.zeros_like(h) if each is None else each for each in d_outputs]
        grads = ops.tf_rnn_ops_gru_block_cell_grad_v2(*step, *d_outputs)
    else:
        grads = ops.tf_rnn_ops_gru_block_cell_grad(*step, d_outputs[3])
    d_inputs = (
        grads.d_x,
        grads.d_h_prev,
        tf.matmul(tf.concat([x, h_prev], axis=1), grads.d_r_bar_u_bar, transpose_a=True),
        tf.matmul(tf.concat([x, h_prev * r], axis=1), grads.d_c_bar, transpose_a=True),
        tf.reduce_sum(grads.d_r_bar_u_bar, axis=0),
        tf.reduce_sum(grads.d_c_bar, axis=0),
    )
    return [tf.cast(each, dtype) for each in d_inputs]
