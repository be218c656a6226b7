"""A GRU cell for `keras.layers.RNN` whose reset gate is applied before the matrix product."""

from typing import ClassVar

import keras
import tensorflow as tf

from tf_rnn_ops import raw_ops
from tf_rnn_ops._keras.layers.block_cell import BlockCell


@keras.saving.register_keras_serializable(package="tf_rnn_ops")
class GRUBlockCell(BlockCell):
    """A GRU cell whose reset gate is applied before the matrix product, computed by one op.

        [r_bar u_bar] = [x h_prev] * w_ru + b_ru      r = sigmoid(r_bar)      u = sigmoid(u_bar)
        c_bar = [x (h_prev ∘ r)] * w_c + b_c          c = tanh(c_bar)
        h = u ∘ h_prev + (1 - u) ∘ c

    Computes the same as `keras.layers.GRUCell(units, reset_after=False)`, with the weights of
    `tf.raw_ops.GRUBlockCell`. Source: Cho et al., 2014, arXiv:1406.1078.

    The layer has four weights: `w_ru`, [features + units, 2 * units], reset gate first; `w_c`,
    [features + units, units]; `b_ru`, [2 * units]; `b_c`, [units]. The first `features` rows of a matrix multiply the
    input; the `kernel_` arguments apply to them. The other rows multiply the state; the `recurrent_` arguments apply to
    them.

    TensorFlow 1's `GRUCell` and `GRUBlockCellV2` save them as `gates/kernel`, `candidate/kernel`, `gates/bias` and
    `candidate/bias`; `set_weights` takes these arrays in this order. `GRUBlockCell` of TensorFlow 1 may exchange the
    names: `w_ru` is the matrix with 2 * units columns.

    Args:
      units: size of the state and of the output, a positive integer.
      kernel_initializer: initializer for the input weights, drawn as one [features, 3 * units] matrix.
      recurrent_initializer: initializer for the state weights, drawn as one [units, 3 * units] matrix.
      bias_initializer: initializer for the biases, drawn as one [3 * units] vector.
      kernel_regularizer: regularizer for the input weights, applied separately to those in `w_ru` and in `w_c`.
      recurrent_regularizer: regularizer for the state weights, likewise.
      bias_regularizer: regularizer for the biases, likewise.
      kernel_constraint: constraint for the input weights, likewise.
      recurrent_constraint: constraint for the state weights, likewise.
      bias_constraint: constraint for the biases, likewise.
      **kwargs: arguments of `keras.layers.Layer`: `name`, `trainable`, `dtype`. The compute dtype may be bfloat16,
        float16, float32 or float64.

    Call arguments:
      - `inputs`: [batch, features].
      - `states`: a list of the previous state, [batch, units].
      - `training`: ignored. The cell computes the same in training and inference.

    Call returns:
      A tuple of the output, which is the new state, [batch, units], and a list of the new state.

    Raises:
      ValueError: if `units` is not a positive integer.
      RuntimeError: if the backend of Keras is not TensorFlow.

    Examples:
      >>> layer = keras.layers.RNN(GRUBlockCell(4))
      >>> layer(np.ones([2, 10, 3], "float32")).shape  # [batch, time, features] -> [batch, units]
      TensorShape([2, 4])
    """

    _GATES: ClassVar = {"_ru": 2, "_c": 1}

    def _step(self, x: tf.Tensor, states: list[tf.Tensor], weights: dict[str, tf.Tensor]) -> list[tf.Tensor]:
        return [raw_ops.GRUBlockCell(x=x, h_prev=states[0], **weights).h]
