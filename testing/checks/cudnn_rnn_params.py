"""Networks, calls and comparisons for tests of the ops that size, split and join a params buffer."""

import itertools

import numpy as np
import tensorflow as tf
from inputs.cudnn_rnn import MODES
from references.cudnn_rnn import Config

import tf_rnn_ops

# All kinds of networks with 5 units: (input_mode, input_size, num_proj).
KINDS = [
    ("linear_input", 3, 0),
    ("linear_input", 0, 0),
    ("skip_input", 5, 0),
    ("auto_select", 5, 0),
    ("auto_select", 3, 0),
    ("linear_input", 3, 2),
    ("skip_input", 5, 2),
    ("linear_input", 3, 5),
]
NETWORKS = [
    Config(mode, input_mode, direction, num_layers, 5, input_size, num_proj)
    for mode, direction, num_layers, (input_mode, input_size, num_proj) in itertools.product(
        MODES, ["unidirectional", "bidirectional"], [1, 3], KINDS
    )
    if mode == "lstm" or num_proj == 0
]
NO_UNITS = [Config(mode, num_units=0, input_size=3, num_layers=2) for mode in MODES]
# The smallest network with a projection, two layers and two directions.
PROJECTED = Config("lstm", direction="bidirectional", num_layers=2, num_units=3, input_size=2, num_proj=1)


def network_id(config):
    sizes = f"{config.num_layers}-{config.num_units}-{config.input_size}-{config.num_proj}"
    return f"{config.rnn_mode}-{config.input_mode}-{config.direction}-{sizes}"


def versions(config):
    """Returns the versions of the ops that support a network."""
    return ["V2"] if config.num_proj else ["", "V2"]


def canonical_shapes(config):
    """Returns the shapes of the weights and of the biases, in order."""
    weights = []
    for layer in range(config.num_layers):
        fan_in = 0 if layer == 0 and config.skips_input else config.fan_in(layer)
        matrices = [(config.num_units, fan_in)] * config.num_gates
        matrices += [(config.num_units, config.output_size)] * config.num_gates
        matrices += [(config.output_size, config.num_units)] * config.has_projection
        weights += matrices * config.num_directions
    return weights, [(config.num_units,)] * (2 * config.num_gates * config.num_pseudo_layers)


def split(config, params):
    """Splits the buffer into weights and biases with NumPy."""
    weights, biases = canonical_shapes(config)
    ends = np.cumsum([int(np.prod(shape)) for shape in weights + biases])
    parts = np.split(params, ends[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, weights + biases, strict=True)]


def sizes(config):
    return {"num_layers": config.num_layers, "num_units": config.num_units, "input_size": config.input_size}


def attributes(config, version):
    names = ["rnn_mode", "input_mode", "direction"] + ["num_proj"] * (version == "V2")
    return {name: getattr(config, name) for name in names}


def to_canonical(config, params, version="V2", raw_ops=tf_rnn_ops.raw_ops):
    """Runs CudnnRNNParamsToCanonical or V2, ours or TensorFlow's."""
    weights, biases = canonical_shapes(config)
    counts = {"num_params": len(biases)}
    if version == "V2":
        counts = {"num_params_weights": len(weights), "num_params_biases": len(biases)}
    op = getattr(raw_ops, "CudnnRNNParamsToCanonical" + version)
    return op(**sizes(config), params=params, **counts, **attributes(config, version))


def to_params(config, weights, biases, version="V2", raw_ops=tf_rnn_ops.raw_ops):
    """Runs CudnnRNNCanonicalToParams or V2, ours or TensorFlow's."""
    op = getattr(raw_ops, "CudnnRNNCanonicalToParams" + version)
    return op(**sizes(config), weights=weights, biases=biases, **attributes(config, version))


def random_bits(shape, dtype, seed=0):
    """Returns random bits, which include NaN and infinity."""
    numpy_dtype = np.dtype(tf.as_dtype(dtype).as_numpy_dtype)
    size = int(np.prod(shape))
    return np.frombuffer(np.random.default_rng(seed).bytes(size * numpy_dtype.itemsize), numpy_dtype).reshape(shape)


def assert_same_bits(actual, expected):
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    assert actual.tobytes() == expected.tobytes()
