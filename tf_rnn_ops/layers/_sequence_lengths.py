"""How many steps each sequence of a batch has."""

import tensorflow as tf

from tf_rnn_ops._alignment import aligned


def lengths_of_mask(mask, inputs, time_major=False):
    """Returns the number of steps of each sequence that a right-padded mask says.

    Args:
      mask: [batch, time], or [time, batch] if time_major.
      inputs: what it is the mask of, with one more dimension.
      time_major: whether time comes first.

    Returns:
      int32, [batch].
    """
    mask = tf.cast(mask, tf.bool)
    wanted = inputs.shape[:2]
    dimensions = "[time, batch]" if time_major else "[batch, time]"
    if not mask.shape.is_compatible_with(wanted):
        raise ValueError(f"mask must be {dimensions}, here {wanted}, but has shape {mask.shape}")
    checks = []
    if not (mask.shape.is_fully_defined() and wanted.is_fully_defined()):
        checks = [tf.debugging.assert_equal(tf.shape(mask), tf.shape(inputs)[:2], message=f"mask must be {dimensions}")]
    with tf.control_dependencies(checks):
        by_sequence = tf.transpose(mask) if time_major else mask  # [batch, time]
    lengths = tf.reduce_sum(tf.cast(by_sequence, tf.int32), axis=1)
    right_padded = tf.sequence_mask(lengths, tf.shape(by_sequence)[1])
    tf.debugging.assert_equal(
        by_sequence,
        right_padded,
        message="mask must be right-padded, that is, have for each sequence all that is True before all that is False",
    )
    # XLA leaves out assertions: the op then refuses the length.
    has_all_steps = tf.shape(mask)[0 if time_major else 1] == tf.shape(inputs)[0 if time_major else 1]
    is_right_padded = tf.reduce_all(by_sequence == right_padded, axis=1)
    return tf.where(tf.logical_and(has_all_steps, is_right_padded), lengths, -1)


def checked_lengths(sequence_lengths, batch):
    """Returns sequence lengths as the op takes them, or refuses what are none.

    Args:
      sequence_lengths: integers, [batch].
      batch: the number of sequences, or None where it is unknown; the op checks it then, and always the lengths' range.

    Returns:
      int32, [batch].
    """
    lengths = tf.convert_to_tensor(sequence_lengths)
    if not lengths.dtype.is_integer:
        raise ValueError(f"sequence_lengths must be integers, but are {lengths.dtype.name}")
    if not lengths.shape.is_compatible_with([batch]):
        raise ValueError(f"sequence_lengths must be [batch], here ({batch},), but has shape {lengths.shape}")
    return tf.saturate_cast(aligned(lengths), tf.int32)
