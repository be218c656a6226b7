"""The GRU cell that resets the state before the matrix product, for `keras.layers.RNN`."""

import functools

import keras

from tf_rnn_ops import raw_ops
from tf_rnn_ops.layers._common import check_backend, checked_units, draw, supports_jit

# The gates of w_ru (reset, update) and of w_c (candidate), in one matrix of fan_out 3 * units.
_RESET_AND_UPDATE = slice(0, 2)
_CANDIDATE = slice(2, 3)


@keras.saving.register_keras_serializable(package="tf_rnn_ops")
class GRUBlockCell(keras.layers.Layer):
    """A GRU cell whose reset gate acts before the matrix product, computed by one op.

        [r_bar u_bar] = [x h_prev] * w_ru + b_ru      r = sigmoid(r_bar)      u = sigmoid(u_bar)
        c_bar = [x (h_prev ∘ r)] * w_c + b_c          c = tanh(c_bar)
        h = u ∘ h_prev + (1 - u) ∘ c

    The mathematics of `keras.layers.GRUCell(units, reset_after=False)`, with weights laid out as in
    `tf.raw_ops.GRUBlockCell`. Source: Cho et al., 2014, arXiv:1406.1078.

    The layer holds four weights: `w_ru`, [features + units, 2 * units], reset gate first; `w_c`,
    [features + units, units]; `b_ru`, [2 * units]; `b_c`, [units]. The first `features` rows of a matrix multiply
    the input: the kernel_ arguments are about them. The other rows multiply the state: the recurrent_ arguments are
    about them.

    Args:
      units: size of the state and of the output, a positive integer.
      kernel_initializer: initializer for the input's weights, drawn as one [features, 3 * units] matrix.
      recurrent_initializer: initializer for the state's weights, drawn as one [units, 3 * units] matrix.
      bias_initializer: initializer for the biases, drawn as one [3 * units] vector.
      kernel_regularizer: regularizer for the input's weights, applied to the gates' and the candidate's in turn.
      recurrent_regularizer: regularizer for the state's weights, likewise.
      bias_regularizer: regularizer for the biases, likewise.
      kernel_constraint: constraint for the input's weights, likewise.
      recurrent_constraint: constraint for the state's weights, likewise.
      bias_constraint: constraint for the biases, likewise.
      **kwargs: what every Keras layer takes: name, trainable, dtype. A dtype or policy may compute in bfloat16,
        float16, float32 or float64.

    Call arguments:
      inputs: [batch, features].
      states: a list of the previous state, [batch, units].
      training: ignored; the cell does the same in training and inference.

    Returns:
      The new state, [batch, units], as output and in a list as states.

    Raises:
      ValueError: if units is not a positive integer.
      RuntimeError: if Keras runs on another backend than TensorFlow.

    Example:
      >>> layer = keras.layers.RNN(GRUBlockCell(4))
      >>> layer(np.ones([2, 10, 3], "float32")).shape  # [batch, time, features] -> [batch, units]
      TensorShape([2, 4])
    """

    def __init__(
        self,
        units,
        kernel_initializer="glorot_uniform",
        recurrent_initializer="orthogonal",
        bias_initializer="zeros",
        kernel_regularizer=None,
        recurrent_regularizer=None,
        bias_regularizer=None,
        kernel_constraint=None,
        recurrent_constraint=None,
        bias_constraint=None,
        **kwargs,
    ):
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

    def build(self, input_shape):
        """Creates the weights for inputs of [batch, features]."""
        features = input_shape[-1]
        if features is None:
            raise ValueError(f"GRUBlockCell needs the last dimension of its input, but the shape is {input_shape}")

        @functools.cache
        def draw_matrix(dtype):
            """Draws all gates' weights, [features + units, 3 * units], once for both matrices."""
            kernel = draw(self.kernel_initializer, (features, 3 * self.units), dtype)
            recurrent = draw(self.recurrent_initializer, (self.units, 3 * self.units), dtype)
            return keras.ops.concatenate([kernel, recurrent], axis=0)

        @functools.cache
        def draw_bias(dtype):
            """Draws all gates' biases, [3 * units], once for both vectors."""
            return draw(self.bias_initializer, (3 * self.units,), dtype)

        self.w_ru = self._add_matrix("w_ru", features, _RESET_AND_UPDATE, draw_matrix)
        self.w_c = self._add_matrix("w_c", features, _CANDIDATE, draw_matrix)
        self.b_ru = self._add_bias("b_ru", _RESET_AND_UPDATE, draw_bias)
        self.b_c = self._add_bias("b_c", _CANDIDATE, draw_bias)

    def _add_matrix(self, name, features, gates, draw):
        """Adds a matrix, [features + units, gates * units], with the gates' columns of what `draw` returns."""

        def initialize(shape, dtype=None):
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

    def _add_bias(self, name, gates, draw):
        """Adds a bias, [gates * units], with the gates' part of what `draw` returns."""

        def initialize(shape, dtype=None):
            return draw(dtype)[self._columns(gates)]

        return self.add_weight(
            name=name,
            shape=((gates.stop - gates.start) * self.units,),
            initializer=initialize,
            regularizer=self.bias_regularizer,
            constraint=self.bias_constraint,
        )

    def _columns(self, gates):
        return slice(gates.start * self.units, gates.stop * self.units)

    def call(self, inputs, states, training=False):
        """Computes one step; see the class."""
        h = raw_ops.GRUBlockCell(
            x=self._convert(inputs),
            h_prev=self._convert(states[0] if keras.tree.is_nested(states) else states),
            w_ru=self._convert(self.w_ru),
            w_c=self._convert(self.w_c),
            b_ru=self._convert(self.b_ru),
            b_c=self._convert(self.b_c),
        ).h
        return h, [h] if keras.tree.is_nested(states) else h

    def _convert(self, value):
        return keras.ops.cast(value, self.compute_dtype)

    def get_initial_state(self, batch_size=None):
        """Returns a list of the state before the first step: zeros, [batch_size, units]."""
        return [keras.ops.zeros((batch_size, self.state_size), dtype=self.compute_dtype)]

    def get_config(self):
        """Returns the arguments that make an equal cell."""
        return {
            **super().get_config(),
            "units": self.units,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "recurrent_initializer": keras.initializers.serialize(self.recurrent_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            "kernel_regularizer": keras.regularizers.serialize(self.kernel_regularizer),
            "recurrent_regularizer": keras.regularizers.serialize(self.recurrent_regularizer),
            "bias_regularizer": keras.regularizers.serialize(self.bias_regularizer),
            "kernel_constraint": keras.constraints.serialize(self.kernel_constraint),
            "recurrent_constraint": keras.constraints.serialize(self.recurrent_constraint),
            "bias_constraint": keras.constraints.serialize(self.bias_constraint),
        }


class _OfRows:
    """Applies one function to a matrix's rows for the input, another to those for the state.

    The matrix is [features + units, columns].
    """

    def __init__(self, features, of_kernel, of_recurrent):
        self._features = features
        self._parts = of_kernel, of_recurrent

    @property
    def has_parts(self):
        return self._parts != (None, None)

    def _pairs(self, matrix):
        """Returns each part, which may be None, with its rows."""
        return zip(self._parts, (matrix[: self._features], matrix[self._features :]), strict=True)


# Keras up to 3.14 takes no plain functions.
class _MatrixRegularizer(_OfRows, keras.regularizers.Regularizer):
    def __call__(self, matrix):
        return sum(part(rows) for part, rows in self._pairs(matrix) if part is not None)


class _MatrixConstraint(_OfRows, keras.constraints.Constraint):
    def __call__(self, matrix):
        constrained = [rows if part is None else part(rows) for part, rows in self._pairs(matrix)]
        return keras.ops.concatenate(constrained, axis=0)
