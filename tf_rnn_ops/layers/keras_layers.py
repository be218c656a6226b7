"""Keras's LSTM, GRU and SimpleRNN, computed by one op or in a faster loop."""

import keras

from tf_rnn_ops.layers import _inner_loop


class _RunsOnOp:
    """What makes one of Keras's layers run on the op, where the op can compute what it computes."""

    def inner_loop(self, sequences, initial_state, mask, training=False):
        """Runs the cell over all steps; see `keras.layers.RNN`."""
        return _inner_loop.run(self, super().inner_loop, sequences, initial_state, mask, training)


@keras.saving.register_keras_serializable(package="tf_rnn_ops")
class LSTM(_RunsOnOp, keras.layers.LSTM):
    """`keras.layers.LSTM`, computed by one op: the same arguments, weights, config and results.

    With recurrent dropout in training, the layer runs in a loop over the steps that is faster than Keras's. Where the
    op cannot compute what the arguments ask for, such as another activation, the layer takes Keras's path; so it does
    where TensorFlow sees a GPU or Keras runs on another backend. Any mask can be expressed. XLA compiles the op too.
    docs/guides/keras.md has the list; `tf_rnn_ops.explain(model)` and the logger "tf_rnn_ops" say why a layer falls back.
    `use_cudnn` chooses among Keras's paths and is ignored on the op's and the loop's.

    An exported model, such as a SavedModel, takes Keras's path, so that it runs without tf_rnn_ops: see the argument
    `portable_exports` of `tf_rnn_ops.accelerate_keras`.

    Weights and config are those of Keras's layer: `keras.layers.LSTM.from_config(layer.get_config())` makes the one of
    the other, `get_weights` and `set_weights` carry the weights over.

    Where it does not train, the op keeps no activations; a gradient that is wanted there nevertheless, such as a
    saliency map, makes it run once more.

    Args:
      *args: those of `keras.layers.LSTM`.
      **kwargs: those of `keras.layers.LSTM`.

    Call arguments:
      sequences: [batch, time, features].
      initial_state: a list of the states before the first step, [batch, units] each. Zeros by default.
      mask: boolean, [batch, time]: where it is false, the state stays, and the output is that of the step before.
      training: whether to apply dropout.

    Returns:
      The outputs, [batch, time, units], with `return_sequences`, or that of the last step, [batch, units]. With
      `return_state`, a tuple of them and the final states, [batch, units] each.

    Raises:
      ValueError: if an argument is refused by Keras.
      tf.errors.InvalidArgumentError: if the shape of a mask or state is known only when the layer is run, and wrong.

    Example:
      >>> layer = LSTM(4, return_sequences=True)
      >>> layer(np.ones([2, 10, 3], "float32")).shape  # [batch, time, features] -> [batch, time, units]
      TensorShape([2, 10, 4])
    """


@keras.saving.register_keras_serializable(package="tf_rnn_ops")
class GRU(_RunsOnOp, keras.layers.GRU):
    """`keras.layers.GRU`, computed by one op: the same arguments, weights, config and results.

    What `LSTM` says holds here too. With `reset_after=False` the layer runs in the loop in inference and in training,
    with any activation. With tanh and sigmoid, the defaults, its step is the op `GRUBlockCell`, unless XLA compiles.

    Args:
      *args: those of `keras.layers.GRU`.
      **kwargs: those of `keras.layers.GRU`.

    Call arguments:
      sequences: [batch, time, features].
      initial_state: the state before the first step, [batch, units]. Zeros by default.
      mask: boolean, [batch, time]: where it is false, the state stays, and the output is that of the step before.
      training: whether to apply dropout.

    Returns:
      The outputs, [batch, time, units], with `return_sequences`, or that of the last step, [batch, units]. With
      `return_state`, a tuple of them and the final state, [batch, units].

    Raises:
      ValueError: if an argument is refused by Keras.
      tf.errors.InvalidArgumentError: if the shape of a mask or state is known only when the layer is run, and wrong.

    Example:
      >>> layer = GRU(4)
      >>> layer(np.ones([2, 10, 3], "float32")).shape  # [batch, time, features] -> [batch, units]
      TensorShape([2, 4])
    """


@keras.saving.register_keras_serializable(package="tf_rnn_ops")
class SimpleRNN(_RunsOnOp, keras.layers.SimpleRNN):
    """`keras.layers.SimpleRNN`, computed by one op: the same arguments, weights, config and results.

    What `LSTM` says holds here too, but for the loop: recurrent dropout in training takes Keras's path, and so do other
    activations than tanh and relu.

    Args:
      *args: those of `keras.layers.SimpleRNN`.
      **kwargs: those of `keras.layers.SimpleRNN`.

    Call arguments:
      sequences: [batch, time, features].
      initial_state: the state before the first step, [batch, units]. Zeros by default.
      mask: boolean, [batch, time]: where it is false, the state stays, and the output is that of the step before.
      training: whether to apply dropout.

    Returns:
      The outputs, [batch, time, units], with `return_sequences`, or that of the last step, [batch, units]. With
      `return_state`, a tuple of them and the final state, [batch, units].

    Raises:
      ValueError: if an argument is refused by Keras.
      tf.errors.InvalidArgumentError: if the shape of a mask or state is known only when the layer is run, and wrong.

    Example:
      >>> layer = SimpleRNN(4, activation="relu")
      >>> layer(np.ones([2, 10, 3], "float32")).shape  # [batch, time, features] -> [batch, units]
      TensorShape([2, 4])
    """
