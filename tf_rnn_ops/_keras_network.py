"""What the op KerasRNN computes, on the op CudnnRNNV3: for derivatives of its gradient.

Activations that CudnnRNNV3 does not have run on operations of TensorFlow.

At a step that a mask leaves out the state stays, and the output is that of the step before, or zeros. CudnnRNNV3 knows
sequences that end early, but no gaps. So the steps that are taken are moved to the front, in their order, and the
outputs back to where the steps were.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_rnn_ops._alignment import aligned
from tf_rnn_ops._library import ops
from tf_rnn_ops._plain_network import Network, forward
from tf_rnn_ops.params import layout


def run(inputs: Sequence[tf.Tensor], attrs: dict[str, Any]) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns what KerasRNN does but for reserve_space.

    Args:
      inputs: those of KerasRNN.
      attrs: those of KerasRNN but is_training.

    Raises:
      ValueError: if an LSTM or a GRU has other activations than tanh and sigmoid, and weights of unknown sizes.
    """
    sequences, mask, initial_h, initial_c, *weights = (aligned(each) for each in inputs)
    rnn_mode = attrs["rnn_mode"]
    batch, time = tf.unstack(tf.shape(sequences)[:2], num=2)
    if attrs["go_backwards"]:
        sequences = tf.reverse(sequences, [1])
    steps = _Steps(_is_taken(mask, batch, time, attrs["go_backwards"]), time, attrs["zero_output_for_mask"])
    inputs = (
        steps.taken(sequences),
        tf.expand_dims(initial_h, 1),
        tf.expand_dims(initial_c, 1) if rnn_mode == "lstm" else initial_c,
        _params(rnn_mode, weights),
    )
    activations = {name: attrs[name] for name in ("activation", "recurrent_activation")}
    if tuple(activations.values()) == ("tanh", "sigmoid"):
        output, output_h, output_c, *_ = ops.tf_rnn_ops_cudnn_rnnv3(
            *inputs, sequence_lengths=steps.lengths, rnn_mode=rnn_mode, time_major=False
        )
    else:
        network = Network(_layout(rnn_mode, *weights[:2]), False, steps.lengths, **activations)
        output, output_h, *output_c = forward(network, *inputs)
    final_h = tf.squeeze(output_h, 1)
    final_c = tf.reshape(output_c, tf.shape(initial_c)) if rnn_mode == "lstm" else tf.zeros_like(initial_c)
    output = steps.put_back(output) if attrs["return_sequences"] else steps.last(final_h)
    return output, final_h, final_c


def _layout(rnn_mode, kernel, recurrent_kernel):
    """Returns the layout of the params of a layer with these weights, whose sizes must be known."""
    if None in (kernel.shape.rank, recurrent_kernel.shape.rank, *kernel.shape[:1], *recurrent_kernel.shape[:1]):
        raise ValueError(
            "Second derivatives of KerasRNN with other activations than tanh and sigmoid need to know features and "
            f"units when a graph is built, but kernel is {kernel.shape} and recurrent_kernel {recurrent_kernel.shape}."
        )
    return layout(rnn_mode, recurrent_kernel.shape[0], kernel.shape[0])


def _is_taken(mask, batch, time, go_backwards):
    """Returns for each step, in the order in which they are taken, whether a mask lets it be taken, [batch, time].

    The op says so, by a layer that puts out 1 at each of these: it reads a mask wherever that lies in memory, where
    TensorFlow's own ops may end the process, and knows what one without elements means.
    """
    zero = tf.zeros([batch, 1])
    outputs = ops.tf_rnn_ops_keras_rnn(
        sequences=tf.ones([batch, time, 1]),
        mask=mask,
        initial_h=zero,
        initial_c=0.0,
        kernel=[[1.0]],
        recurrent_kernel=[[0.0]],
        bias=[],
        rnn_mode="rnn_relu",
        go_backwards=go_backwards,
        return_sequences=True,
        zero_output_for_mask=True,
        is_training=False,
    ).outputs
    return tf.squeeze(outputs, 2) > 0


class _Steps:
    """The steps of sequences, in the order in which they are taken, of which a mask may leave out some.

    Attributes:
      lengths: how many of each sequence are taken, [batch].
    """

    def __init__(self, is_taken, time, zero_output_for_mask):
        taken = tf.cumsum(tf.cast(is_taken, tf.int32), axis=1)  # [batch, time], the number of steps so far
        self.lengths = tf.reduce_sum(tf.cast(is_taken, tf.int32), axis=1)
        # Where the first step lies that is taken, the second and so on; past the last that is, anywhere.
        ordinals = tf.broadcast_to(tf.range(1, time + 1), tf.shape(is_taken))
        self._sources = tf.minimum(tf.searchsorted(taken, ordinals), time - 1)
        # Where the output of each step lies among those of the steps that were taken. Where any step is left out, the
        # last of these is past the end of its sequence, and zeros.
        if zero_output_for_mask:
            self._targets = tf.where(is_taken, taken - 1, time - 1)
            self._has_last = tf.reduce_any(is_taken[:, -1:], axis=1, keepdims=True)  # there may be no step
        else:
            self._targets = tf.math.floormod(taken - 1, time)
            self._has_last = tf.expand_dims(self.lengths > 0, 1)

    def taken(self, sequences):
        """Returns the inputs of the steps that are taken, [batch, time, features], in their order, at the front."""
        return tf.gather(sequences, self._sources, batch_dims=1)

    def put_back(self, output):
        """Returns the outputs of all steps, [batch, time, units], of those that were taken."""
        return tf.gather(output, self._targets, batch_dims=1)

    def last(self, final_h):
        """Returns the output of the last step, [batch, units]."""
        return tf.where(self._has_last, final_h, tf.zeros_like(final_h))


def _params(rnn_mode, weights):
    """Returns the params buffer that holds a layer's weights: what `from_keras` does, without static shapes."""
    kernel, recurrent_kernel, bias = weights
    width = tf.shape(recurrent_kernel)[1]
    # Both biases of cuDNN, as a GRU has them. Zeros where there is one or none.
    biases = tf.pad(tf.reshape(bias, [-1]), [[0, 2 * width - tf.size(bias)]])
    matrices = [_cudnn_order(rnn_mode, each) for each in (kernel, recurrent_kernel)]
    biases = _cudnn_order(rnn_mode, tf.reshape(biases, [2, width]))
    parts = [*(tf.transpose(each, [1, 0]) for each in matrices), biases]
    return tf.concat([tf.reshape(part, [-1]) for part in parts], axis=0)


def _cudnn_order(rnn_mode, columns):
    """Returns a matrix with the columns of its gates in cuDNN's order: only that of a GRU is not Keras's."""
    if rnn_mode != "gru":
        return columns
    update, reset, new = tf.split(columns, 3, axis=1)
    return tf.concat([reset, update, new], axis=1)
