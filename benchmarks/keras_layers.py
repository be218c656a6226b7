"""Keras's recurrent layers for the cases, and conversion of their weights."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
from cases import Network
from problems import Weights

_LAYERS: Mapping[str, type] = {
    "lstm": keras.layers.LSTM,
    "gru": keras.layers.GRU,
    "tanh": keras.layers.SimpleRNN,
}
# The position in Keras of each of cuDNN's gates, and vice versa: Keras swaps the gates r and u.
_GATES: Mapping[str, Sequence[int]] = {"lstm": [0, 1, 2, 3], "gru": [1, 0, 2], "tanh": [0]}


def create_layer(case: Network, dtype: str, **options: Any) -> keras.Layer:
    """Returns a layer of a network, in `Bidirectional` if the network is bidirectional."""
    # The default initializer of the recurrent kernel does not support every dtype.
    layer = _LAYERS[case.cell](case.units, recurrent_initializer="zeros", dtype=dtype, **options)
    return keras.layers.Bidirectional(layer, dtype=dtype) if case.bidirectional else layer


def to_keras(case: Network, weights: Mapping[str, Weights]) -> list[np.ndarray]:
    """Returns kernel, recurrent kernel and bias of each pseudo-layer in Keras's shapes, as a flat list."""
    return [array for of_layer in weights.values() for array in _to_keras(case, of_layer)]


def _to_keras(case: Network, weights: Weights) -> list[np.ndarray]:
    gates = _GATES[case.cell]

    def matrix(kernel):  # [gates, units, fan_in] to [fan_in, gates * units]
        return np.moveaxis(kernel[gates], -1, 0).reshape(kernel.shape[-1], -1)

    if case.cell == "gru":
        bias = np.stack([weights.input_bias[gates].ravel(), weights.recurrent_bias[gates].ravel()])
    else:
        bias = (weights.input_bias + weights.recurrent_bias)[gates].ravel()
    return [matrix(weights.kernel), matrix(weights.recurrent_kernel), bias]


def from_keras(case: Network, arrays: Sequence[np.ndarray]) -> Mapping[str, Weights]:
    """Returns the weights of each pseudo-layer, given Keras's weights or their gradients."""
    triples = zip(arrays[0::3], arrays[1::3], arrays[2::3], strict=True)
    return {name: _from_keras(case, *triple) for name, triple in zip(case.pseudo_layers, triples, strict=True)}


def _from_keras(case: Network, kernel: np.ndarray, recurrent_kernel: np.ndarray, bias: np.ndarray) -> Weights:
    gates, num_gates, units = _GATES[case.cell], case.num_gates, case.units

    def matrix(kernel):  # [fan_in, gates * units] to [gates, units, fan_in]
        return np.moveaxis(kernel.reshape(-1, num_gates, units), 0, -1)[gates]

    # The gradient of a sum of two biases is the gradient of each.
    biases = np.broadcast_to(bias.reshape(-1, num_gates, units), [2, num_gates, units])[:, gates]
    return Weights(matrix(kernel), matrix(recurrent_kernel), *biases)
