"""The lengths of the sequences of a batch."""

from typing import Any

import tensorflow as tf

from tf_rnn_ops._alignment import aligned


def check(condition: tf.Tensor, message: str) -> tf.Operation | None:
    """Raises an InvalidArgumentError if a scalar is False, in a graph at run time. XLA removes the check."""
    if not tf.executing_eagerly():
        return tf.debugging.Assert(condition, [message])
    if not condition:
        raise tf.errors.InvalidArgumentError(None, None, message)
    return None


def lengths_of_mask(mask: Any, inputs: tf.Tensor, time_major: bool = False) -> tf.Tensor:
    """Returns the number of unmasked steps of each sequence of a right-padded mask.

    Args:
      mask: [batch, time], or [time, batch] if `time_major`.
      inputs: the masked inputs, with one more dimension.
      time_major: whether time comes first.

    Returns:
      int32, [batch].
    """
    mask = tf.cast(mask, tf.bool)
    wanted = inputs.shape[:2]
    dimensions = "[time, batch]" if time_major else "[batch, time]"
    if not mask.shape.is_compatible_with(wanted):
        raise ValueError(f"mask must have the shape {dimensions} = {wanted}, but has {mask.shape}")
    checks = []
    if not (mask.shape.is_fully_defined() and wanted.is_fully_defined()):
        fits = tf.reduce_all(tf.shape(mask) == tf.shape(inputs)[:2])
        checks = [check(fits, f"mask must have the shape {dimensions} of the inputs")]
    with tf.control_dependencies(checks):
        by_sequence = tf.transpose(mask) if time_major else mask  # [batch, time]
    lengths = tf.reduce_sum(tf.cast(by_sequence, tf.int32), axis=1)
    right_padded = tf.sequence_mask(lengths, tf.shape(by_sequence)[1])
    check(
        tf.reduce_all(by_sequence == right_padded),
        "mask must be right-padded: in each sequence, all True values must come before all False values. "
        "For other masks, use tf_rnn_ops.layers.LSTM, GRU or SimpleRNN",
    )
    # XLA removes assertions. The op rejects a length of -1.
    has_all_steps = tf.shape(mask)[0 if time_major else 1] == tf.shape(inputs)[0 if time_major else 1]
    is_right_padded = tf.reduce_all(by_sequence == right_padded, axis=1)
    return tf.where(tf.logical_and(has_all_steps, is_right_padded), lengths, -1)


def checked_lengths(sequence_lengths: Any, batch: int | None) -> tf.Tensor:
    """Returns sequence lengths as an argument of the op, or raises a ValueError. The op checks their range.

    Args:
      sequence_lengths: integers, [batch].
      batch: the number of sequences, or None if unknown, in which case the op checks it.

    Returns:
      int32, [batch].
    """
    lengths = tf.convert_to_tensor(sequence_lengths)
    if not lengths.dtype.is_integer:
        raise ValueError(f"sequence_lengths must be integers, but are of dtype {lengths.dtype.name}")
    if not lengths.shape.is_compatible_with([batch]):
        raise ValueError(f"sequence_lengths must have the shape [batch] = ({batch},), but has {lengths.shape}")
    return tf.saturate_cast(aligned(lengths), tf.int32)
