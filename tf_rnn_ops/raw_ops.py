"""The ops, named and called as their twins in `tf.raw_ops`.

Replacing `tf.raw_ops.` by `tf_rnn_ops.raw_ops.` is the whole migration. All arguments are keywords. Where a twin takes
float32 only, these take bfloat16, half, float32 and float64; bfloat16 and half are computed in float32.
"""

from typing import Any

from tf_rnn_ops._library import ops

__all__ = ["GRUBlockCell", "GRUBlockCellGrad"]


def GRUBlockCell(*, x, h_prev, w_ru, w_c, b_ru, b_c, name: str | None = None) -> Any:
    """Computes one time step of a GRU cell that resets the state before the matrix product.

        [r_bar u_bar] = [x h_prev] * w_ru + b_ru      r = sigmoid(r_bar)      u = sigmoid(u_bar)
        c_bar = [x (h_prev ∘ r)] * w_c + b_c          c = tanh(c_bar)
        h = u ∘ h_prev + (1 - u) ∘ c

    Source: Cho et al., 2014, arXiv:1406.1078. The twin of `tf.raw_ops.GRUBlockCell`, and differentiable with respect
    to every input through every output.

    Args:
      x: the input, [batch, input_size].
      h_prev: the previous state, [batch, cell_size].
      w_ru: weights of the reset and update gates, reset first, [input_size + cell_size, 2 * cell_size].
      w_c: weights of the candidate, [input_size + cell_size, cell_size].
      b_ru: biases of the reset and update gates, [2 * cell_size].
      b_c: biases of the candidate, [cell_size].
      name: a name for the operation.

    Returns:
      A named tuple of the reset gate `r`, the update gate `u`, the candidate `c` and the new state `h`, each
      [batch, cell_size].

    Raises:
      tf.errors.InvalidArgumentError: if an argument's shape does not fit the others', when run eagerly.
      ValueError: the same, when a graph is built.

    Example:
      >>> x, h, b = tf.ones([1, 2]), tf.zeros([1, 3]), tf.zeros([3])
      >>> step = GRUBlockCell(x=x, h_prev=h, w_ru=tf.ones([5, 6]), w_c=tf.ones([5, 3]), b_ru=tf.zeros([6]), b_c=b)
    """
    return ops.tf_rnn_ops_gru_block_cell(x=x, h_prev=h_prev, w_ru=w_ru, w_c=w_c, b_ru=b_ru, b_c=b_c, name=name)


def GRUBlockCellGrad(*, x, h_prev, w_ru, w_c, b_ru, b_c, r, u, c, d_h, name: str | None = None) -> Any:
    """Computes the gradients of one time step of `GRUBlockCell`.

        d_c_bar = d_h ∘ (1 - u) ∘ (1 - c ∘ c)
        d_u_bar = d_h ∘ (h_prev - c) ∘ u ∘ (1 - u)
        [d_x_2 d_h_prevr] = d_c_bar * w_c^T
        d_r_bar = d_h_prevr ∘ h_prev ∘ r ∘ (1 - r)
        [d_x_1 d_h_prev_1] = [d_r_bar d_u_bar] * w_ru^T
        d_x = d_x_1 + d_x_2
        d_h_prev = d_h_prev_1 + d_h_prevr ∘ r + d_h ∘ u

    The twin of `tf.raw_ops.GRUBlockCellGrad`. The gradients of the weights are products of its results:
    d_w_ru = [x h_prev]^T * d_r_bar_u_bar and d_w_c = [x (h_prev ∘ r)]^T * d_c_bar; those of the biases are sums of
    d_r_bar_u_bar and d_c_bar over the batch.

    Args:
      x: the input, [batch, input_size].
      h_prev: the previous state, [batch, cell_size].
      w_ru: weights of the reset and update gates, reset first, [input_size + cell_size, 2 * cell_size].
      w_c: weights of the candidate, [input_size + cell_size, cell_size].
      b_ru: biases of the reset and update gates, [2 * cell_size].
      b_c: biases of the candidate, [cell_size].
      r: the reset gate that the forward step gave, [batch, cell_size].
      u: the update gate that the forward step gave, [batch, cell_size].
      c: the candidate that the forward step gave, [batch, cell_size].
      d_h: gradient with respect to the new state, [batch, cell_size].
      name: a name for the operation.

    Returns:
      A named tuple of the gradients with respect to x, `d_x`, [batch, input_size]; h_prev, `d_h_prev`,
      [batch, cell_size]; c_bar, `d_c_bar`, [batch, cell_size]; and [r_bar u_bar], `d_r_bar_u_bar`,
      [batch, 2 * cell_size].

    Raises:
      tf.errors.InvalidArgumentError: if an argument's shape does not fit the others', when run eagerly.
      ValueError: the same, when a graph is built.

    Example:
      >>> inputs = dict(x=tf.ones([1, 2]), h_prev=tf.zeros([1, 3]), w_ru=tf.ones([5, 6]), w_c=tf.ones([5, 3]),
      ...               b_ru=tf.zeros([6]), b_c=tf.zeros([3]))
      >>> step = GRUBlockCell(**inputs)
      >>> grads = GRUBlockCellGrad(**inputs, r=step.r, u=step.u, c=step.c, d_h=tf.ones([1, 3]))
    """
    return ops.tf_rnn_ops_gru_block_cell_grad(
        x=x, h_prev=h_prev, w_ru=w_ru, w_c=w_c, b_ru=b_ru, b_c=b_c, r=r, u=u, c=c, d_h=d_h, name=name
    )
