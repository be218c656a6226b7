"""The op KerasRNN computed by the op CudnnRNNV3, for derivatives of its gradient.

Activations that CudnnRNNV3 does not have are computed by TensorFlow's own operations.

At a masked step, the state does not change, and the output is that of the previous step, or zeros. CudnnRNNV3 supports
sequences of different lengths, but no masked steps in between. So the unmasked steps are moved to the front, and their
outputs are moved back afterwards.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_rnn_ops._alignment import aligned
from tf_rnn_ops._library import ops
from tf_rnn_ops._plain_network import Network, forward
from tf_rnn_ops.params import Layout, layout


def run(inputs: Sequence[tf.Tensor], attrs: dict[str, Any]) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the outputs of KerasRNN, except reserve_space.

    Args:
      inputs: the inputs of KerasRNN.
      attrs: the attributes of KerasRNN, except is_training.

    Raises:
      ValueError: if an LSTM or GRU has activations other than tanh and sigmoid, and weights of unknown shape.
    """
    sequences, mask, initial_h, initial_c, *weights = (aligned(each) for each in inputs)
    rnn_mode = attrs["rnn_mode"]
    batch, time = tf.unstack(tf.shape(sequences)[:2], num=2)
    if attrs["go_backwards"]:
        sequences = tf.reverse(sequences, [1])
    steps = _Steps(_is_unmasked(mask, batch, time, attrs["go_backwards"]), time, attrs["zero_output_for_mask"])
    inputs = (
        steps.to_front(sequences),
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
    output = steps.from_front(output) if attrs["return_sequences"] else steps.last(final_h)
    return output, final_h, final_c


def _layout(rnn_mode: str, kernel: tf.Tensor, recurrent_kernel: tf.Tensor) -> Layout:
    """Returns the layout of the params of a layer with these weights, whose shapes must be known."""
    if None in (kernel.shape.rank, recurrent_kernel.shape.rank, *kernel.shape[:1], *recurrent_kernel.shape[:1]):
        raise ValueError(
            "second derivatives of KerasRNN with activations other than tanh and sigmoid require features and units to "
            f"be known when the graph is built, but the shapes are: kernel {kernel.shape}, recurrent_kernel "
            f"{recurrent_kernel.shape}"
        )
    return layout(rnn_mode, recurrent_kernel.shape[0], kernel.shape[0])


def _is_unmasked(mask: tf.Tensor, batch: tf.Tensor, time: tf.Tensor, go_backwards: bool) -> tf.Tensor:
    """Returns whether each step, in processing order, is unmasked, [batch, time].

    It is computed by the op, with a layer whose output is 1 at unmasked steps. TensorFlow's own ops may crash if the
    mask is not aligned, and the op supports a mask without elements.
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
    """The unmasked steps of sequences, in processing order.

    Attributes:
      lengths: the number of unmasked steps of each sequence, [batch].
    """

    def __init__(self, is_unmasked: tf.Tensor, time: tf.Tensor, zero_output_for_mask: bool) -> None:
        count = tf.cumsum(tf.cast(is_unmasked, tf.int32), axis=1)  # unmasked steps so far, [batch, time]
        self.lengths = tf.reduce_sum(tf.cast(is_unmasked, tf.int32), axis=1)
        # The index of the first unmasked step, the second and so on; any index past the last one.
        ordinals = tf.broadcast_to(tf.range(1, time + 1), tf.shape(is_unmasked))
        self._sources = tf.minimum(tf.searchsorted(count, ordinals), time - 1)
        # The index of the output of each step among the outputs of the unmasked steps. If any step is masked, the last
        # of these outputs is past the end of its sequence, and zeros.
        if zero_output_for_mask:
            self._targets = tf.where(is_unmasked, count - 1, time - 1)
            self._has_last = tf.reduce_any(is_unmasked[:, -1:], axis=1, keepdims=True)  # there may be no step
        else:
            self._targets = tf.math.floormod(count - 1, time)
            self._has_last = tf.expand_dims(self.lengths > 0, 1)

    def to_front(self, sequences: tf.Tensor) -> tf.Tensor:
        """Returns the inputs, [batch, time, features], with those of the unmasked steps moved to the front."""
        return tf.gather(sequences, self._sources, batch_dims=1)

    def from_front(self, output: tf.Tensor) -> tf.Tensor:
        """Returns the outputs of all steps, [batch, time, units], given those of the unmasked steps at the front."""
        return tf.gather(output, self._targets, batch_dims=1)

    def last(self, final_h: tf.Tensor) -> tf.Tensor:
        """Returns the output of the last step, [batch, units]."""
        return tf.where(self._has_last, final_h, tf.zeros_like(final_h))


def _params(rnn_mode: str, weights: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns the params buffer of a layer's weights, as `from_keras` does, but without static shapes."""
    kernel, recurrent_kernel, bias = weights
    width = tf.shape(recurrent_kernel)[1]
    # cuDNN has two biases, as a GRU does. Missing biases are zeros.
    biases = tf.pad(tf.reshape(bias, [-1]), [[0, 2 * width - tf.size(bias)]])
    matrices = [_cudnn_order(rnn_mode, each) for each in (kernel, recurrent_kernel)]
    biases = _cudnn_order(rnn_mode, tf.reshape(biases, [2, width]))
    parts = [*(tf.transpose(each, [1, 0]) for each in matrices), biases]
    return tf.concat([tf.reshape(part, [-1]) for part in parts], axis=0)


def _cudnn_order(rnn_mode: str, columns: tf.Tensor) -> tf.Tensor:
    """Returns a matrix with the columns of its gates in the order of cuDNN, which differs from Keras only in a GRU."""
    if rnn_mode != "gru":
        return columns
    update, reset, new = tf.split(columns, 3, axis=1)
    return tf.concat([reset, update, new], axis=1)
