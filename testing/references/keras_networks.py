"""Networks of Keras layers, and an independent conversion of their weights from and to params buffers.

In a GRU, the first gate is the update gate in Keras and the reset gate in cuDNN. The LSTM and SimpleRNN layers have one
bias, which is the sum of the two in cuDNN.
"""

import functools

import keras
import numpy as np
import tensorflow as tf

from references import cudnn_rnn as reference
from references.cudnn_rnn import Config

LAYERS = {
    "lstm": keras.layers.LSTM,
    "gru": keras.layers.GRU,
    "rnn_tanh": keras.layers.SimpleRNN,
    "rnn_relu": functools.partial(keras.layers.SimpleRNN, activation="relu"),
}


def stack(config: Config, **arguments) -> list[keras.layers.Layer]:
    """Returns the built Keras layers of a network; they return sequences and states."""
    layers = []
    for number in range(config.num_layers):
        of_layer = {"return_sequences": True, "return_state": True, "dtype": "float64", **arguments}
        layer = LAYERS[config.rnn_mode](config.num_units, **of_layer)
        if config.num_directions == 2:
            layer = keras.layers.Bidirectional(layer, dtype=of_layer["dtype"])
        layer.build((config.batch, config.time, config.fan_in(number)))
        layers.append(layer)
    return layers


def run(config: Config, layers, x, initial_states=None, **arguments) -> list:
    """Returns the outputs of a stack of Keras layers and their final states.

    Args:
      config: the network.
      layers: the result of `stack`.
      x: the input, [batch, time, input].
      initial_states: h and, for an LSTM, c, each [batch, pseudo-layers, units]; zeros by default.
      **arguments: call arguments for each layer.

    Returns:
      The output, [batch, time, directions * units], and the final states like `initial_states`.
    """
    states = []
    for number, layer in enumerate(layers):
        if initial_states is not None:
            pseudo_layers = range(number * config.num_directions, (number + 1) * config.num_directions)
            # Keras lists the states by direction.
            arguments["initial_state"] = [state[:, each] for each in pseudo_layers for state in initial_states]
        x, *of_layer = layer(x, **arguments)
        states += of_layer
    num_states = 2 if config.rnn_mode == "lstm" else 1
    return [x, *(tf.stack(states[each::num_states], axis=1) for each in range(num_states))]


def variables(layers) -> list:
    """Returns the variables of Keras layers in the order of their weights."""
    return [variable for layer in layers for variable in layer.weights]


def assign(layers, weights) -> None:
    """Assigns weights, in the order of `variables`."""
    for variable, weight in zip(variables(layers), weights, strict=True):
        variable.assign(weight)


def weights_from_params(config: Config, params, use_bias=True) -> list[np.ndarray]:
    """Converts a params buffer to the weights of Keras layers."""
    weights = []
    for of_one in reference.unpack(config, np.asarray(params)):
        assert of_one.W is not None
        weights += [_matrix(config, of_one.W), _matrix(config, of_one.R)]
        if use_bias:
            biases = [_in_keras_order(config, bias).ravel() for bias in (of_one.W_bias, of_one.R_bias)]
            weights.append(np.stack(biases) if config.rnn_mode == "gru" else biases[0] + biases[1])
    return weights


def params_from_weights(config: Config, weights) -> np.ndarray:
    """Converts weights of Keras layers with biases to a params buffer. If Keras has one bias, R_bias is zero."""
    params = np.zeros(reference.params_size(config), np.asarray(weights[0]).dtype)
    places = reference.unpack(config, params)  # views
    for place, kernel, recurrent_kernel, bias in zip(places, weights[::3], weights[1::3], weights[2::3], strict=True):
        assert place.W is not None
        place.W[...] = _by_gate(config, kernel)
        place.R[...] = _by_gate(config, recurrent_kernel)
        biases = np.asarray(bias) if config.rnn_mode == "gru" else [bias, np.zeros_like(bias)]
        place.W_bias[...] = _by_gate(config, biases[0])
        place.R_bias[...] = _by_gate(config, biases[1])
    return params


def _in_keras_order(config, by_gate):
    """Swaps the reset and update gates of a GRU, [gates, ...]: from the order of cuDNN to that of Keras, or back."""
    return by_gate[[1, 0, 2]] if config.rnn_mode == "gru" else by_gate


def _matrix(config, by_gate):
    """[gates, units, fan_in] to [fan_in, gates * units]."""
    by_gate = _in_keras_order(config, by_gate)
    return by_gate.reshape(config.num_gates * config.num_units, by_gate.shape[-1]).T


def _by_gate(config, weight):
    """[fan_in, gates * units] to [gates, units, fan_in], or [gates * units] to [gates, units]."""
    gates = np.split(np.asarray(weight), config.num_gates, axis=-1)
    return _in_keras_order(config, np.stack([gate.T for gate in gates]))
