"""cuDNN's recurrent networks, unrolled in TensorFlow ops that support gradients of any order."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from references import cudnn_rnn as reference
from references.cudnn_rnn import Config


class Outputs(NamedTuple):
    """Results of a network, in the shapes of `Forward` in the reference."""

    output: tf.Tensor
    output_h: tf.Tensor
    output_c: tf.Tensor


def unpack(config: Config, params) -> list[reference.Weights]:
    """Returns the weights of every pseudo-layer as tensors, with the gates concatenated along the rows."""
    places = reference.unpack(config, np.arange(reference.params_size(config)))

    def take(place):
        if place is None:
            return None
        start = place.min(initial=params.shape[0])
        return tf.reshape(params[start : start + place.size], [np.prod(place.shape[:-1]), place.shape[-1]])

    return [reference.Weights(*map(take, each)) for each in places]


def step(config: Config, weights: reference.Weights, x, h_prev, c_prev):
    """Returns the hidden state, [batch, output], and the cell state, [batch, units]."""
    gates = config.num_gates
    from_x = tf.tile(x, [1, gates]) if weights.W is None else tf.matmul(x, weights.W, transpose_b=True)
    a = tf.split(from_x + tf.reshape(weights.W_bias, [-1]), gates, axis=1)
    b = tf.split(tf.matmul(h_prev, weights.R, transpose_b=True) + tf.reshape(weights.R_bias, [-1]), gates, axis=1)
    if config.rnn_mode == "lstm":
        i, f, o = (tf.sigmoid(a[gate] + b[gate]) for gate in (0, 1, 3))
        c = f * c_prev + i * tf.tanh(a[2] + b[2])
        m = o * tf.tanh(c)
        return (m if weights.P is None else tf.matmul(m, weights.P, transpose_b=True)), c
    if config.rnn_mode == "gru":
        r, u = (tf.sigmoid(a[gate] + b[gate]) for gate in (0, 1))
        return (1 - u) * tf.tanh(a[2] + r * b[2]) + u * h_prev, c_prev
    return (tf.tanh if config.rnn_mode == "rnn_tanh" else tf.nn.relu)(a[0] + b[0]), c_prev


def sequence(config: Config, direction: int, weights: reference.Weights, x, h, c):
    """Returns the output of a pseudo-layer, a list by time of [batch, output], and its final states."""
    output = {}
    for t in reference.time_steps(config, direction):
        valid = tf.constant(t < config.lengths)[:, tf.newaxis]
        new_h, new_c = step(config, weights, x[t], h, c)
        output[t] = tf.where(valid, new_h, tf.zeros_like(new_h))
        h, c = tf.where(valid, new_h, h), tf.where(valid, new_c, c)
    return [output[t] for t in range(config.time)], h, c


def major(config: Config, tensor):
    """Swaps the first two dimensions of an argument or result unless time_major."""
    return tensor if config.time_major else tf.transpose(tensor, [1, 0, 2])


def cudnn_rnn(config: Config, input, input_h, input_c, params, masks=None) -> Outputs:
    """Runs a network.

    Args:
      config: the network.
      input: [time, batch, input].
      input_h: [pseudo-layers, batch, output].
      input_c: [pseudo-layers, batch, units]; ignored if not LSTM.
      params: [params_size].
      masks: dropout masks, as in the reference.
    """
    has_c = config.rnn_mode == "lstm"
    all_weights = unpack(config, params)
    h = tf.unstack(major(config, input_h), config.num_pseudo_layers)
    c = tf.unstack(major(config, input_c), config.num_pseudo_layers) if has_c else list(h)
    x = tf.unstack(major(config, input), config.time)
    for layer in range(config.num_layers):
        if layer > 0 and masks is not None:
            x = [each * mask for each, mask in zip(x, masks[layer - 1], strict=True)]
        outputs = []
        for direction in range(config.num_directions):
            p = layer * config.num_directions + direction
            output, h[p], c[p] = sequence(config, direction, all_weights[p], x, h[p], c[p])
            outputs.append(output)
        x = [tf.concat(each, axis=1) for each in zip(*outputs, strict=True)]
    return Outputs(
        output=major(config, tf.stack(x)),
        output_h=major(config, tf.stack(h)),
        output_c=major(config, tf.stack(c)) if has_c else tf.zeros([], params.dtype),
    )
