"""The networks of the files in tests/snapshots, with random weights.

The tests load the files into networks from these builders. If you change a builder, record the snapshot again. Do not
change the builders of a released version; add new builders for new networks.
"""

import contextlib
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from references.cudnn_rnn import Config

import tf_rnn_ops
from tf_rnn_ops import layers

MODES = ("lstm", "gru", "rnn_tanh", "rnn_relu")
LEARNING_RATE = 0.1
NUM_STEPS = 3


def _cudnn_layers() -> list[keras.layers.Layer]:
    return [
        layers.CudnnLSTM(3, num_layers=2, direction="bidirectional", return_sequences=True),
        layers.CudnnGRU(2, return_sequences=True),
        layers.CudnnRNNTanh(3, return_sequences=True, kernel_initializer="orthogonal"),
        layers.CudnnRNNRelu(3, kernel_initializer="orthogonal"),
    ]


def _cudnn_dropout() -> list[keras.layers.Layer]:
    """The files have the state of a `SeedGenerator`, since version 0.3.0."""
    return [layers.CudnnLSTM(3, num_layers=2, dropout=0.5, seed=1)]


def _keras_layers() -> list[keras.layers.Layer]:
    return [
        layers.LSTM(3, return_sequences=True),
        keras.layers.Bidirectional(layers.GRU(2, return_sequences=True)),
        layers.SimpleRNN(3),
    ]


def _gru_block_cell() -> list[keras.layers.Layer]:
    return [keras.layers.RNN(layers.GRUBlockCell(3))]


def _accelerated() -> list[keras.layers.Layer]:
    return [
        keras.layers.Bidirectional(keras.layers.LSTM(2, return_sequences=True)),
        keras.layers.GRU(3),
    ]


_NETWORKS = {
    "cudnn_layers": _cudnn_layers,
    "cudnn_dropout": _cudnn_dropout,
    "keras_layers": _keras_layers,
    "gru_block_cell": _gru_block_cell,
    "accelerated": _accelerated,
}
NETWORKS = tuple(_NETWORKS)


def as_made(name: str):
    """Returns the context in which a network is built and called."""
    return tf_rnn_ops.accelerate_keras(portable_exports=False) if name in ON_OP else contextlib.nullcontext()


def build(name: str) -> keras.Model:
    """Returns a network: [batch, 4, 2] to [batch, 3]."""
    return keras.Sequential([keras.Input([4, 2]), *_NETWORKS[name]()], name=name)


def network_input() -> np.ndarray:
    """Returns an input for any of the networks."""
    return np.random.default_rng(1).standard_normal([2, 4, 2]).astype("float32")


class Served(tf.Module):
    """A trainable SavedModel of a Keras model, or of another function with its variables."""

    def __init__(self, function, variables, input_shape):
        super().__init__()
        self.function = function
        self.weights = variables
        self.call = tf.function(function, input_signature=[tf.TensorSpec(input_shape)])


class Ops(tf.Module):
    """A function of one input that runs every op of a module like tf.raw_ops."""

    def __init__(self, raw_ops):
        super().__init__()
        self._raw_ops = raw_ops
        rng = np.random.default_rng(2)
        gates = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
        sizes = {mode: count * (3 * (2 + 3) + 2 * 3) for mode, count in gates.items()}
        self.weights = [
            tf.Variable(rng.standard_normal(size).astype("float32") / 2, name=mode) for mode, size in sizes.items()
        ]
        self._cell = {
            "w_ru": rng.standard_normal([5, 6]).astype("float32"),
            "w_c": rng.standard_normal([5, 3]).astype("float32"),
            "b_ru": rng.standard_normal([6]).astype("float32"),
            "b_c": rng.standard_normal([3]).astype("float32"),
        }

    @tf.function(input_signature=[tf.TensorSpec([None, 4, 2])])
    def call(self, x):
        """Returns [batch, n]: an output of each version of the ops, each with another mode."""
        x = tf.transpose(x, [1, 0, 2])
        state = tf.zeros([1, tf.shape(x)[1], 3])
        lengths = tf.fill([tf.shape(x)[1]], 3)
        lstm, gru, tanh, relu = (
            self._through_canonical(each, mode) for each, mode in zip(self.weights, MODES, strict=True)
        )
        run = {"input": x, "input_h": state}
        outputs = [
            self._raw_ops.CudnnRNN(**run, input_c=state, params=lstm).output,
            self._raw_ops.CudnnRNNV2(**run, input_c=0.0, params=gru, rnn_mode="gru").output,
            self._raw_ops.CudnnRNNV3(
                **run, input_c=0.0, params=tanh, rnn_mode="rnn_tanh", sequence_lengths=lengths
            ).output,
            self._raw_ops.CudnnRNNV2(**run, input_c=0.0, params=relu, rnn_mode="rnn_relu").output,
        ]
        if self._raw_ops is tf_rnn_ops.raw_ops:
            outputs.append(self._raw_ops.GRUBlockCell(x=x[0], h_prev=state[0], **self._cell).h[tf.newaxis])
        return tf.concat([each[-1] for each in outputs], axis=1)

    def _through_canonical(self, params, mode):
        """Splits params and joins them again."""
        size = {"num_layers": 1, "num_units": 3, "input_size": 2, "rnn_mode": mode}
        num_params = {"lstm": 8, "gru": 6}.get(mode, 2)
        weights, biases = self._raw_ops.CudnnRNNParamsToCanonical(**size, params=params, num_params=num_params)
        params = self._raw_ops.CudnnRNNCanonicalToParams(**size, weights=weights, biases=biases)
        count = {"num_params_weights": num_params, "num_params_biases": num_params}
        weights, biases = self._raw_ops.CudnnRNNParamsToCanonicalV2(**size, params=params, **count)
        params = self._raw_ops.CudnnRNNCanonicalToParamsV2(**size, weights=weights, biases=biases)
        return params * tf.ones(self._raw_ops.CudnnRNNParamsSize(**size, T=tf.float32, S=tf.int32))


# The Keras models whose SavedModels contain the op KerasRNN, because portable_exports is False.
ON_OP = ("accelerated", "keras_layers")

# The networks with only a SavedModel.
OPS = {"ops": tf_rnn_ops.raw_ops, "builtin_ops": tf.raw_ops}


def params_config(mode: str) -> Config:
    """Returns the network of a mode whose params buffer is in the snapshot."""
    return Config(rnn_mode=mode, num_layers=2, direction="bidirectional", num_units=3, input_size=2, time=4, batch=2)


def named_parts(mode: str, params: np.ndarray) -> dict[str, Any]:
    """Returns the names and shapes of the arrays in a params buffer, and all their elements in this order."""
    config = params_config(mode)
    layout = tf_rnn_ops.params.layout(
        mode,
        num_layers=config.num_layers,
        num_units=config.num_units,
        input_size=config.input_size,
        direction=config.direction,
    )
    parts = tf_rnn_ops.params.unpack(layout, params)
    return {
        "part_names": np.array([f"{name} {part.shape}" for name, part in parts.items()]),
        "parts": np.concatenate([part.ravel() for part in parts.values()]),
    }


def values(function, variables, x) -> dict[str, Any]:
    """Returns the output of a network, its gradients, and its output after some training steps on the variables."""
    result = {"output": function(x).numpy()}
    for step in range(NUM_STEPS):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(function(x)))
        gradients = tape.gradient(loss, variables)
        if step == 0:
            result |= {f"gradient_{number}": each.numpy() for number, each in enumerate(gradients)}
        for variable, gradient in zip(variables, gradients, strict=True):
            variable.assign(variable - LEARNING_RATE * gradient)
    return {**result, "output_after_training": function(x).numpy()}
