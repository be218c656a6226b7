"""Keras's LSTM, GRU and SimpleRNN, computed by one op."""

import weakref
from typing import Any

import keras
import tensorflow as tf

from tf_rnn_ops._keras import execution, tracing
from tf_rnn_ops._keras.layers.common import with_signature_of
from tf_rnn_ops._keras.types import Activation, Constraint, Initializer, Regularizer
from tf_rnn_ops._types import Function


def _runs_keras(declared: Function) -> Function:
    """Returns the constructor of the Keras layer, with the arguments that `declared` names."""

    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        super(_RunsOnOp, self).__init__(*args, **kwargs)
        # As long as the layer exists, Keras exports it without the op.
        tracing.SAVED_ENDPOINTS.__enter__()
        weakref.finalize(self, tracing.SAVED_ENDPOINTS.__exit__).atexit = False

    return with_signature_of(declared, construct)


class _RunsOnOp:
    """Mixin that runs a Keras layer on the op if the op supports it."""

    def inner_loop(
        self,
        sequences: tf.Tensor,
        initial_state: Any,
        mask: Any,
        training: bool = False,
    ) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
        """Runs the cell over all steps; see `keras.layers.RNN`."""
        keras_loop = super().inner_loop  # type: ignore[misc]  # of the Keras layer
        return execution.run(self, keras_loop, sequences, initial_state, mask, training)


@keras.saving.register_keras_serializable(package="tf_rnn_ops")
class LSTM(_RunsOnOp, keras.layers.LSTM):
    """`keras.layers.LSTM` computed by one op: same arguments, weights, config and results.

    The layer falls back to the implementation of Keras if the op does not support the arguments (for example, another
    activation), if TensorFlow sees a GPU, or if Keras uses another backend. All masks are supported. With
    `jit_compile=True`, XLA compiles the op too. docs/guides/keras.md lists the unsupported configurations;
    `tf_rnn_ops.explain(model)` and the logger "tf_rnn_ops" report why a layer falls back.

    Exported models, such as a SavedModel, use the implementation of Keras and run without tf_rnn_ops. To change this,
    see the argument `exports` of `tf_rnn_ops.accelerate_keras`.

    Convert between the two layers with `keras.layers.LSTM.from_config(layer.get_config())`, and copy the weights with
    `get_weights` and `set_weights`.

    In inference, the op keeps no activations. If a gradient is taken there, such as for a saliency map, the op runs
    again.

    Args:
      units: size of the state and of the output, a positive integer.
      activation: activation of the candidate and the cell state. None means linear.
      recurrent_activation: activation of the gates. None means linear.
      use_bias: whether the layer has biases.
      kernel_initializer: initializer for the kernel, which multiplies the inputs.
      recurrent_initializer: initializer for the recurrent kernel, which multiplies the state.
      bias_initializer: initializer for the bias.
      unit_forget_bias: whether to initialize the bias of the forget gate to 1.
      kernel_regularizer: regularizer for the kernel.
      recurrent_regularizer: regularizer for the recurrent kernel.
      bias_regularizer: regularizer for the bias.
      activity_regularizer: regularizer for the output of the layer.
      kernel_constraint: constraint for the kernel.
      recurrent_constraint: constraint for the recurrent kernel.
      bias_constraint: constraint for the bias.
      dropout: fraction of the inputs to drop in training.
      recurrent_dropout: fraction of the state to drop in training.
      seed: seed for dropout.
      return_sequences: whether to return the outputs of all steps or only the last output.
      return_state: whether to return the final states in addition to the output.
      go_backwards: whether to process the steps from last to first. The outputs are in processing order.
      stateful: whether the initial state of a batch is the final state of the previous batch.
      unroll: whether to unroll the loop over the steps. Ignored if the layer runs on the op.
      use_cudnn: how Keras uses cuDNN. Applies only if the layer falls back to Keras.
      **kwargs: arguments of `keras.layers.Layer`: `name`, `trainable`, `dtype`; and `zero_output_for_mask`.

    Call arguments:
      - `sequences`: [batch, time, features].
      - `initial_state`: a list of the initial hidden and cell states, each [batch, units]. Zeros by default.
      - `mask`: boolean, [batch, time]. At a step where it is False, the state does not change, and the output is
        repeated from the previous step.
      - `training`: whether to apply dropout.

    Call returns:
      The outputs, [batch, time, units], if `return_sequences`, otherwise the last output, [batch, units]. With
      `return_state`, a tuple of this and the final hidden and cell states, each [batch, units].

    Raises:
      ValueError: if Keras rejects an argument.
      tf.errors.InvalidArgumentError: if the shape of a mask or state is known only at run time and does not match.

    Examples:
      >>> layer = LSTM(4, return_sequences=True)
      >>> layer(np.ones([2, 10, 3], "float32")).shape  # [batch, time, features] -> [batch, time, units]
      TensorShape([2, 10, 4])
    """

    @_runs_keras
    def __init__(
        self,
        units: int,
        activation: Activation = "tanh",
        recurrent_activation: Activation = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        recurrent_initializer: Initializer = "orthogonal",
        bias_initializer: Initializer = "zeros",
        unit_forget_bias: bool = True,
        kernel_regularizer: Regularizer = None,
        recurrent_regularizer: Regularizer = None,
        bias_regularizer: Regularizer = None,
        activity_regularizer: Regularizer = None,
        kernel_constraint: Constraint = None,
        recurrent_constraint: Constraint = None,
        bias_constraint: Constraint = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | keras.random.SeedGenerator | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        use_cudnn: bool | str = "auto",
        **kwargs: Any,
    ) -> None: ...


@keras.saving.register_keras_serializable(package="tf_rnn_ops")
class GRU(_RunsOnOp, keras.layers.GRU):
    """`keras.layers.GRU` computed by one op: same arguments, weights, config and results.

    See `LSTM` for the arguments, of which the GRU lacks `unit_forget_bias`, and for fallbacks, exports, conversion and
    errors. There is only one state, [batch, units]. With `reset_after=False` and an activation that the op does not
    support, the layer runs in the loop.

    Args:
      reset_after: whether the reset gate is applied after the matrix product or before it.

    Examples:
      >>> layer = GRU(4)
      >>> layer(np.ones([2, 10, 3], "float32")).shape  # [batch, time, features] -> [batch, units]
      TensorShape([2, 4])
    """

    @_runs_keras
    def __init__(
        self,
        units: int,
        activation: Activation = "tanh",
        recurrent_activation: Activation = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        recurrent_initializer: Initializer = "orthogonal",
        bias_initializer: Initializer = "zeros",
        kernel_regularizer: Regularizer = None,
        recurrent_regularizer: Regularizer = None,
        bias_regularizer: Regularizer = None,
        activity_regularizer: Regularizer = None,
        kernel_constraint: Constraint = None,
        recurrent_constraint: Constraint = None,
        bias_constraint: Constraint = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | keras.random.SeedGenerator | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        reset_after: bool = True,
        use_cudnn: bool | str = "auto",
        **kwargs: Any,
    ) -> None: ...


@keras.saving.register_keras_serializable(package="tf_rnn_ops")
class SimpleRNN(_RunsOnOp, keras.layers.SimpleRNN):
    """`keras.layers.SimpleRNN` computed by one op: same arguments, weights, config and results.

    See `LSTM` for the arguments, of which the SimpleRNN lacks `recurrent_activation`, `unit_forget_bias` and
    `use_cudnn`, and for fallbacks, exports, conversion and errors. There is only one state, [batch, units].

    Examples:
      >>> layer = SimpleRNN(4, activation="relu")
      >>> layer(np.ones([2, 10, 3], "float32")).shape  # [batch, time, features] -> [batch, units]
      TensorShape([2, 4])
    """

    @_runs_keras
    def __init__(
        self,
        units: int,
        activation: Activation = "tanh",
        use_bias: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        recurrent_initializer: Initializer = "orthogonal",
        bias_initializer: Initializer = "zeros",
        kernel_regularizer: Regularizer = None,
        recurrent_regularizer: Regularizer = None,
        bias_regularizer: Regularizer = None,
        activity_regularizer: Regularizer = None,
        kernel_constraint: Constraint = None,
        recurrent_constraint: Constraint = None,
        bias_constraint: Constraint = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        seed: int | keras.random.SeedGenerator | None = None,
        **kwargs: Any,
    ) -> None: ...
