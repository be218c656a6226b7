"""The common part of the cells for `keras.layers.RNN` that run an op of TensorFlow's names in each step."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import keras
import tensorflow as tf

from tf_rnn_ops._keras.environment import check_backend, supports_jit
from tf_rnn_ops._keras.layers.common import arguments_of, checked_units, draw
from tf_rnn_ops._keras.types import Constraint, Initializer, Regularizer
from tf_rnn_ops._types import Shape


class BlockCell(keras.layers.Layer):
    """A cell whose matrices are [features + units, gates * units]: the rows of the input above those of the state."""

    # The number of gates in a matrix w and a bias b, by the suffix of their names.
    _GATES: ClassVar[Mapping[str, int]]

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
        check_backend(type(self).__name__)
        units = checked_units(units)
        super().__init__(**kwargs)
        self.units = units
        self.state_size: int | list[int] = self.units
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
                f"the last dimension of the input of {type(self).__name__} must be known when the layer is built, but "
                f"the shape is {input_shape}"
            )
        sizes = {suffix: gates * self.units for suffix, gates in self._GATES.items()}
        columns = sum(sizes.values())

        def draw_matrices(dtype: str) -> list[tf.Tensor]:
            kernel = draw(self.kernel_initializer, (features, columns), dtype)
            recurrent = draw(self.recurrent_initializer, (self.units, columns), dtype)
            return tf.split(tf.concat([kernel, recurrent], axis=0), list(sizes.values()), axis=1)

        def draw_biases(dtype: str) -> list[tf.Tensor]:
            return tf.split(draw(self.bias_initializer, (columns,), dtype), list(sizes.values()))

        regularizer = _MatrixRegularizer(features, self.kernel_regularizer, self.recurrent_regularizer)
        constraint = _MatrixConstraint(features, self.kernel_constraint, self.recurrent_constraint)
        self._add_weights(
            {f"w{suffix}": (features + self.units, size) for suffix, size in sizes.items()},
            draw_matrices,
            regularizer=regularizer if regularizer.has_parts else None,
            constraint=constraint if constraint.has_parts else None,
        )
        biases = {f"b{suffix}": (size,) for suffix, size in sizes.items()}
        self._add_weights(biases, draw_biases, regularizer=self.bias_regularizer, constraint=self.bias_constraint)

    def _add_weights(
        self, shapes: Mapping[str, Shape], draw_all: Callable[[str], Sequence[tf.Tensor]], **options: Any
    ) -> None:
        """Adds weights, named as arguments of the op, with the initial values of `draw_all`, which is called once."""
        draw_once = functools.cache(draw_all)
        for index, (name, shape) in enumerate(shapes.items()):

            def initialize(shape: Shape, dtype: str, index: int = index) -> tf.Tensor:
                return draw_once(dtype)[index]

            setattr(self, name, self.add_weight(name=name, shape=shape, initializer=initialize, **options))

    def call(self, inputs: tf.Tensor, states: Any, training: bool = False) -> tuple[tf.Tensor, Any]:
        """Computes one step; see the class.

        Args:
          inputs: [batch, features].
          states: a list of the previous states, each [batch, units].
          training: ignored.

        Returns:
          A tuple of the output, [batch, units], and a list of the new states, each [batch, units].
        """
        names = [f"{kind}{suffix}" for kind in ("w", "b") for suffix in self._GATES]
        weights = {name: self._convert(getattr(self, name)) for name in names}
        previous = [self._convert(each) for each in keras.tree.flatten(states)]
        new = self._step(self._convert(inputs), previous, weights)
        return new[0], new if keras.tree.is_nested(states) else new[0]

    def _step(self, x: tf.Tensor, states: list[tf.Tensor], weights: dict[str, tf.Tensor]) -> list[tf.Tensor]:
        """Runs the op on the input, the previous states and the weights, by name. Returns the new states, h first."""
        raise NotImplementedError

    def _convert(self, value: Any) -> tf.Tensor:
        return keras.ops.cast(value, self.compute_dtype)

    def get_initial_state(self, batch_size: int | None = None) -> list[tf.Tensor]:
        """Returns a list of the initial states: zeros, [batch_size, units]."""
        sizes = keras.tree.flatten(self.state_size)
        return [keras.ops.zeros((batch_size, size), dtype=self.compute_dtype) for size in sizes]

    def get_config(self) -> dict[str, Any]:
        """Returns the config of the cell: its arguments, for `from_config`."""
        return {**super().get_config(), **arguments_of(self, BlockCell.__init__)}


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
