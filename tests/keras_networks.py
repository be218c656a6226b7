"""Networks made of Keras's own layers, and their weights in the params buffer, by gates and independent of the package.

Keras has a GRU's update gate first and cuDNN the reset gate; Keras's LSTM and SimpleRNN have one bias where cuDNN has
two, which are added.
"""

import functools

import cudnn_rnn_reference as reference
import keras
import numpy as np
import tensorflow as tf
from cudnn_rnn_reference import Config

LAYERS = {
    "lstm": keras.layers.LSTM,
    "gru": keras.layers.GRU,
    "rnn_tanh": keras.layers.SimpleRNN,
    "rnn_relu": functools.partial(keras.layers.SimpleRNN, activation="relu"),
}


def stack(config: Config, **arguments) -> list[keras.layers.Layer]:
    """Returns Keras's own layers for a network, built, one upon another; they return sequences and states."""
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
      layers: what `stack` returns.
      x: the input, [batch, time, input].
      initial_states: the state of h and, of an LSTM, of c, each [batch, pseudo-layers, units]; zeros by default.
      **arguments: call arguments for each layer.

    Returns:
      The output, [batch, time, directions * units], and the final states like `initial_states`.
    """
    states = []
    for number, layer in enumerate(layers):
        if initial_states is not None:
            pseudo_layers = range(number * config.num_directions, (number + 1) * config.num_directions)
            # Keras has both states of a direction side by side.
            arguments["initial_state"] = [state[:, each] for each in pseudo_layers for state in initial_states]
        x, *of_layer = layer(x, **arguments)
        states += of_layer
    num_states = 2 if config.rnn_mode == "lstm" else 1
    return [x, *(tf.stack(states[each::num_states], axis=1) for each in range(num_states))]


def variables(layers) -> list:
    """Returns the variables of Keras layers in the order of their weights."""
    return [variable for layer in layers for variable in layer.weights]


def assign(layers, weights) -> None:
    """Gives Keras layers their weights, a list like `variables`."""
    for variable, weight in zip(variables(layers), weights, strict=True):
        variable.assign(weight)


def weights_from_params(config: Config, params, use_bias=True) -> list[np.ndarray]:
    """Returns the weights of Keras layers that compute what a params buffer does."""
    weights = []
    for of_one in reference.unpack(config, np.asarray(params)):
        assert of_one.W is not None
        weights += [_matrix(config, of_one.W), _matrix(config, of_one.R)]
        if use_bias:
            biases = [_in_keras_order(config, bias).ravel() for bias in (of_one.W_bias, of_one.R_bias)]
            weights.append(np.stack(biases) if config.rnn_mode == "gru" else biases[0] + biases[1])
    return weights


def params_from_weights(config: Config, weights) -> np.ndarray:
    """Returns a params buffer of the weights of Keras layers, which have biases; where Keras has one, R's is zeros."""
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
    """Exchanges the reset and update gates of a GRU, [gates, ...]: from cuDNN's order to Keras's, or back."""
    return by_gate[[1, 0, 2]] if config.rnn_mode == "gru" else by_gate


def _matrix(config, by_gate):
    """[gates, units, fan_in] to [fan_in, gates * units]."""
    by_gate = _in_keras_order(config, by_gate)
    return by_gate.reshape(config.num_gates * config.num_units, by_gate.shape[-1]).T


def _by_gate(config, weight):
    """[fan_in, gates * units] to [gates, units, fan_in], or [gates * units] to [gates, units]."""
    gates = np.split(np.asarray(weight), config.num_gates, axis=-1)
    return _in_keras_order(config, np.stack([gate.T for gate in gates]))
