"""Gradients of a GRU cell, by TensorFlow's tape, and comparisons of them, for the tests."""

import collections

import parity
import reference
import tensorflow as tf

Gradients = collections.namedtuple("Gradients", ["x", "h_prev", "w_ru", "w_c", "b_ru", "b_c"])
INPUTS = Gradients._fields


def plain_gru(x, h_prev, w_ru, w_c, b_ru, b_c):
    """The cell in TensorFlow operations that TensorFlow can differentiate."""
    r, u = tf.split(tf.sigmoid(tf.matmul(tf.concat([x, h_prev], 1), w_ru) + b_ru), 2, axis=1)
    c = tf.tanh(tf.matmul(tf.concat([x, h_prev * r], 1), w_c) + b_c)
    return reference.GRUStep(r, u, c, u * h_prev + (1 - u) * c)


def weighted_sum(outputs, weights, of):
    """A loss that depends on the outputs in `of` alone."""
    return tf.add_n([tf.reduce_sum(getattr(outputs, name) * weights["d_" + name]) for name in of])


def gradients(cell, inputs, weights, of):
    """Gradients of weighted_sum with respect to every input, by an eager tape."""
    variables = [tf.constant(inputs[name]) for name in INPUTS]
    with tf.GradientTape() as tape:
        tape.watch(variables)
        loss = weighted_sum(cell(*variables), weights, of)
    return dict(zip(INPUTS, tape.gradient(loss, variables), strict=True))


def check_gradients(actual, expected, peer="plain GRU"):
    """Compares gradients, by input. One that does not exist counts as zero."""
    wanted = {name: tf.zeros_like(actual[name]) if value is None else value for name, value in expected.items()}
    parity.check("GRUBlockCell's gradient", peer, Gradients(**actual), wanted)
