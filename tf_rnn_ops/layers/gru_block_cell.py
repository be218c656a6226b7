"""A GRU cell for `keras.layers.RNN` whose reset gate is applied before the matrix product."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from tf_rnn_ops import raw_ops
from tf_rnn_ops._types import Constraint, Initializer, Regularizer, Shape
from tf_rnn_ops.layers._common import arguments_of, check_backend, checked_units, draw, supports_jit

# The gates of w_ru and of w_c, as columns (in units) of one matrix of all gates.
_RESET_AND_UPDATE = slice(0, 2)
_CANDIDATE = slice(2, 3)


@keras.saving.register_keras_serializable(package="tf_rnn_ops")
class GRUBlockCell(keras.layers.Layer):
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

    def __init__(
        self,
        units: int,
        kernel_initializer: Initializer = "glorot_uniform",
        recurrent_initializer: Initializer = "orthogonal",
        bias_initializer: Initializer = "zeros",
        kernel_regularizer: Regularizer = None,
        recurrent_regularizer: Regularizer = None,
        bias_regularizer: Regularizer = None,
        kernel_constraint: Constraint = None,
        recurrent_constraint: Constraint = None,
        bias_constraint: Constraint = None,
        **kwargs: Any,
    ) -> None:
        check_backend("GRUBlockCell")
        units = checked_units(units)
        super().__init__(**kwargs)
        self.units = units
        self.state_size = self.units
        self.output_size = self.units
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.recurrent_initializer = keras.initializers.get(recurrent_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.recurrent_regularizer = keras.regularizers.get(recurrent_regularizer)
        self.bias_regularizer = keras.regularizers.get(bias_regularizer)
        self.kernel_constraint = keras.constraints.get(kernel_constraint)
        self.recurrent_constraint = keras.constraints.get(recurrent_constraint)
        self.bias_constraint = keras.constraints.get(bias_constraint)
        self.supports_jit = supports_jit()

    def build(self, input_shape: Shape) -> None:
        """Creates the weights.

        Args:
          input_shape: the shape of the inputs, [batch, features].

        Raises:
          ValueError: if features is unknown.
        """
        features = input_shape[-1]
        if features is None:
            raise ValueError(
                "the last dimension of the input of GRUBlockCell must be known when the layer is built, but the shape "
                f"is {input_shape}"
            )

        @functools.cache
        def draw_matrix(dtype: str) -> tf.Tensor:
            """Draws the weights of all gates, [features + units, 3 * units], once for both matrices."""
            kernel = draw(self.kernel_initializer, (features, 3 * self.units), dtype)
            recurrent = draw(self.recurrent_initializer, (self.units, 3 * self.units), dtype)
            return keras.ops.concatenate([kernel, recurrent], axis=0)

        @functools.cache
        def draw_bias(dtype: str) -> tf.Tensor:
            """Draws the biases of all gates, [3 * units], once for both vectors."""
            return draw(self.bias_initializer, (3 * self.units,), dtype)

        self.w_ru = self._add_matrix("w_ru", features, _RESET_AND_UPDATE, draw_matrix)
        self.w_c = self._add_matrix("w_c", features, _CANDIDATE, draw_matrix)
        self.b_ru = self._add_bias("b_ru", _RESET_AND_UPDATE, draw_bias)
        self.b_c = self._add_bias("b_c", _CANDIDATE, draw_bias)

    def _add_matrix(self, name: str, features: int, gates: slice, draw: Callable[[str], tf.Tensor]) -> keras.Variable:
        """Adds a matrix, [features + units, len(gates) * units], initialized with the gates' columns of `draw`."""

        def initialize(shape: Shape, dtype: str) -> tf.Tensor:
            return draw(dtype)[:, self._columns(gates)]

        regularizer = _MatrixRegularizer(features, self.kernel_regularizer, self.recurrent_regularizer)
        constraint = _MatrixConstraint(features, self.kernel_constraint, self.recurrent_constraint)
        return self.add_weight(
            name=name,
            shape=(features + self.units, (gates.stop - gates.start) * self.units),
            initializer=initialize,
            regularizer=regularizer if regularizer.has_parts else None,
            constraint=constraint if constraint.has_parts else None,
        )

    def _add_bias(self, name: str, gates: slice, draw: Callable[[str], tf.Tensor]) -> keras.Variable:
        """Adds a bias, [len(gates) * units], initialized with the gates' part of `draw`."""

        def initialize(shape: Shape, dtype: str) -> tf.Tensor:
            return draw(dtype)[self._columns(gates)]

        return self.add_weight(
            name=name,
            shape=((gates.stop - gates.start) * self.units,),
            initializer=initialize,
            regularizer=self.bias_regularizer,
            constraint=self.bias_constraint,
        )

    def _columns(self, gates: slice) -> slice:
        return slice(gates.start * self.units, gates.stop * self.units)

    def call(self, inputs: tf.Tensor, states: Any, training: bool = False) -> tuple[tf.Tensor, Any]:
        """Computes one step; see the class.

        Args:
          inputs: [batch, features].
          states: a list of the previous state, [batch, units].
          training: ignored.

        Returns:
          A tuple of the output, which is the new state, [batch, units], and a list of the new state.
        """
        h = raw_ops.GRUBlockCell(
            x=self._convert(inputs),
            h_prev=self._convert(states[0] if keras.tree.is_nested(states) else states),
            w_ru=self._convert(self.w_ru),
            w_c=self._convert(self.w_c),
            b_ru=self._convert(self.b_ru),
            b_c=self._convert(self.b_c),
        ).h
        return h, [h] if keras.tree.is_nested(states) else h

    def _convert(self, value: Any) -> tf.Tensor:
        return keras.ops.cast(value, self.compute_dtype)

    def get_initial_state(self, batch_size: int | None = None) -> list[tf.Tensor]:
        """Returns a list of the initial state: zeros, [batch_size, units]."""
        return [keras.ops.zeros((batch_size, self.state_size), dtype=self.compute_dtype)]

    def get_config(self) -> dict[str, Any]:
        """Returns the config of the cell: its arguments, for `from_config`."""
        return {**super().get_config(), **arguments_of(self, GRUBlockCell.__init__)}


class _RowFunctions:
    """Applies one function to the input rows of a matrix, [features + units, columns], one to the state rows."""

    def __init__(self, features: int, of_kernel: Any, of_recurrent: Any) -> None:
        self._features = features
        self._parts = of_kernel, of_recurrent

    @property
    def has_parts(self) -> bool:
        return self._parts != (None, None)

    def _pairs(self, matrix: tf.Tensor) -> Iterator[tuple[Any, tf.Tensor]]:
        """Returns each function, which may be None, with its rows."""
        return zip(self._parts, (matrix[: self._features], matrix[self._features :]), strict=True)


# Keras up to 3.14 does not accept plain functions.
class _MatrixRegularizer(_RowFunctions, keras.regularizers.Regularizer):
    def __call__(self, matrix: tf.Tensor) -> tf.Tensor:
        return sum(part(rows) for part, rows in self._pairs(matrix) if part is not None)


class _MatrixConstraint(_RowFunctions, keras.constraints.Constraint):
    def __call__(self, matrix: tf.Tensor) -> tf.Tensor:
        constrained = [rows if part is None else part(rows) for part, rows in self._pairs(matrix)]
        return keras.ops.concatenate(constrained, axis=0)
