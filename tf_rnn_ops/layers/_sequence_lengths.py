"""How many steps each sequence of a batch has."""

import tensorflow as tf


def lengths_of_mask(mask, inputs):
    """Returns the number of steps of each sequence, [batch], of a right-padded mask, [batch, time], of the inputs."""
    mask = tf.cast(mask, tf.bool)
    wanted = inputs.shape[:2]
    if not mask.shape.is_compatible_with(wanted):
        raise ValueError(f"mask must be [batch, time], here {wanted}, but has shape {mask.shape}")
    if not (mask.shape.is_fully_defined() and wanted.is_fully_defined()):
        tf.debugging.assert_equal(tf.shape(mask), tf.shape(inputs)[:2], message="mask must be [batch, time]")
    lengths = tf.reduce_sum(tf.cast(mask, tf.int32), axis=1)
    tf.debugging.assert_equal(
        mask,
        tf.sequence_mask(lengths, tf.shape(mask)[1]),
        message="mask must be right-padded, that is, have in each row all that is True before all that is False",
    )
    return lengths
