"""An LSTM cell for `keras.layers.RNN` with peepholes and clipping."""

from typing import Any, ClassVar

import keras
import tensorflow as tf

from tf_rnn_ops import raw_ops
from tf_rnn_ops._keras.layers.block_cell import BlockCell
from tf_rnn_ops._keras.layers.common import arguments_of, draw
from tf_rnn_ops._types import Shape

_PEEPHOLES = ("wci", "wcf", "wco")


@keras.saving.register_keras_serializable(package="tf_rnn_ops")
class LSTMBlockCell(BlockCell):
    """An LSTM cell, with peepholes and clipping of the cell state if asked, computed by one op.

        [i_bar ci_bar f_bar o_bar] = [x h_prev] * w + b
        i = sigmoid(i_bar + wci ∘ c_prev)      f = sigmoid(f_bar + forget_bias + wcf ∘ c_prev)
        c = i ∘ tanh(ci_bar) + f ∘ c_prev, clipped to [-cell_clip, cell_clip]
        o = sigmoid(o_bar + wco ∘ c)           h = o ∘ tanh(c)

    Computes the same as TensorFlow 1's `tf.contrib.rnn.LSTMBlockCell`, with the weights of `tf.raw_ops.LSTMBlockCell`.
    The gradient passes through the clipping unchanged. Source: Hochreiter and Schmidhuber, 1997; peepholes: Gers and
    Schmidhuber, 2000.

    The layer has two weights, with the gates in the order i, ci, f, o: `w`, [features + units, 4 * units], and `b`,
    [4 * units]. With peepholes, three more, each [units]: `wci`, `wcf` and `wco`. The first `features` rows of `w`
    multiply the input; the `kernel_` arguments apply to them. The other rows multiply the hidden state; the
    `recurrent_` arguments apply to them. The peepholes multiply the cell state; `recurrent_initializer` applies to
    them, but no regularizer or constraint.

    TensorFlow 1's `LSTMCell`, `LSTMBlockCell` and `LSTMBlockFusedCell` save them as `kernel`, `bias`, `w_i_diag`,
    `w_f_diag` and `w_o_diag`; `set_weights` takes these arrays in this order.

    Args:
      units: size of the states and of the output, a positive integer.
      use_peephole: whether the gates i, f and o also depend on the cell state.
      forget_bias: added to the biases of f.
      cell_clip: the cell state is clipped to [-cell_clip, cell_clip]. None, or 0 or less, means no clipping.
      **kwargs: the initializers, regularizers and constraints of `GRUBlockCell`, with the same defaults. The matrices
        are drawn with 4 * units columns, and the peepholes as one [3, units] matrix. And arguments of
        `keras.layers.Layer`: `name`, `trainable`, `dtype`. The compute dtype may be bfloat16, float16, float32 or
        float64.

    Call arguments:
      - `inputs`: [batch, features].
      - `states`: a list of the previous hidden state and cell state, [batch, units], as in `keras.layers.LSTMCell`.
      - `training`: ignored. The cell computes the same in training and inference.

    Call returns:
      A tuple of the output, which is the new hidden state, [batch, units], and a list of the new states.

    Raises:
      ValueError: if `units` is not a positive integer.
      RuntimeError: if the backend of Keras is not TensorFlow.

    Examples:
      >>> layer = keras.layers.RNN(LSTMBlockCell(4, use_peephole=True))
      >>> layer(np.ones([2, 10, 3], "float32")).shape  # [batch, time, features] -> [batch, units]
      TensorShape([2, 4])
    """

    _GATES: ClassVar = {"": 4}

    def __init__(
        self,
        units: int,
        use_peephole: bool = False,
        forget_bias: float = 1.0,
        cell_clip: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(units, **kwargs)
        self.state_size = [self.units, self.units]
        self.use_peephole = bool(use_peephole)
        self.forget_bias = float(forget_bias)
        self.cell_clip = None if cell_clip is None else float(cell_clip)

    def build(self, input_shape: Shape) -> None:
        """Creates the weights; see `GRUBlockCell.build`."""
        super().build(input_shape)
        if self.use_peephole:
            self._add_weights(
                dict.fromkeys(_PEEPHOLES, (self.units,)),
                lambda dtype: tf.unstack(draw(self.recurrent_initializer, (len(_PEEPHOLES), self.units), dtype)),
            )

    def _step(self, x: tf.Tensor, states: list[tf.Tensor], weights: dict[str, tf.Tensor]) -> list[tf.Tensor]:
        if self.use_peephole:
            peepholes = {name: self._convert(getattr(self, name)) for name in _PEEPHOLES}
        else:
            peepholes = dict.fromkeys(_PEEPHOLES, tf.zeros([self.units], self.compute_dtype))
        h, c = states
        step = raw_ops.LSTMBlockCell(
            x=x,
            cs_prev=c,
            h_prev=h,
            **weights,
            **peepholes,
            forget_bias=self.forget_bias,
            cell_clip=self.cell_clip or 0.0,
            use_peephole=self.use_peephole,
        )
        return [step.h, step.cs]

    def get_config(self) -> dict[str, Any]:
        """Returns the config of the cell: its arguments, for `from_config`."""
        return {**super().get_config(), **arguments_of(self, LSTMBlockCell.__init__)}
