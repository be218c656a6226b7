"""The reference that the CudnnRNN ops are judged by, against central differences and against Keras."""

import dataclasses

import cudnn_rnn_reference as reference
import keras
import numpy as np
import parity
import pytest
import tensorflow as tf
from cudnn_rnn_inputs import INPUTS, MODES, OUTPUTS, Config, network_inputs, output_gradients

DIRECTIONS = ("unidirectional", "bidirectional")
LENGTHS = (0, 4, 2)


def random_masks(config, rate=0.5):
    rng = np.random.default_rng(2)
    shape = (config.num_layers - 1, config.time, config.batch, config.num_directions * config.output_size)
    return (rng.random(shape) >= rate) / (1 - rate)


def network(**options):
    return Config(**{"num_units": 5, "input_size": 3, "time": 4, "batch": 3, **options})


OPTIONS: dict[str, dict] = {
    "plain": {},
    "lengths": {"num_layers": 2, "sequence_lengths": LENGTHS},
    "three layers": {"num_layers": 3, "time": 3},
    "skip_input": {"num_layers": 2, "input_mode": "skip_input", "input_size": 5},
    "auto_select": {"input_mode": "auto_select", "input_size": 5},
    "batch-major": {"num_layers": 2, "time_major": False, "sequence_lengths": LENGTHS},
    "projection": {"num_layers": 2, "num_proj": 2, "sequence_lengths": LENGTHS},
}
NETWORKS = {
    f"{mode}-{direction}-{name}": network(rnn_mode=mode, direction=direction, **options)
    for mode in MODES
    for direction in DIRECTIONS
    for name, options in OPTIONS.items()
    if mode == "lstm" or name != "projection"
}


def gradients(config, inputs, weights, masks=None):
    """Gradients by the reference of `weighted_sum`, by input."""
    run = reference.forward(config, **inputs, masks=masks)
    backward = reference.backward(config, run, inputs["input_c"], inputs["params"], **weights, masks=masks)
    return {name: getattr(backward, f"{name}_backprop") for name in INPUTS}


def weighted_sum(outputs, weights):
    """The sum of the outputs in `outputs`, a dict, times their weights."""
    return sum(np.sum(outputs[name] * weights[f"{name}_backprop"]) for name in OUTPUTS)


def inputs_away_from_kinks(config, masks, seed=0):
    """Returns inputs with which no rectifier is given a number so near to 0 that a central difference goes across."""
    inputs = network_inputs(config, seed=seed)
    run = reference.forward(config, **inputs, masks=masks)
    if config.rnn_mode == "rnn_relu" and reference.nearest_to_the_kink(run) < 1e-4:
        return inputs_away_from_kinks(config, masks, seed + 1)
    return inputs


def directional_derivative(config, inputs, weights, name, towards, masks):
    """The derivative of `weighted_sum` where an input moves towards something, by central differences."""
    distance = 1e-6
    sums = []
    for sign in (-1, 1):
        moved = {**inputs, name: inputs[name] + sign * distance * towards}
        sums.append(weighted_sum(reference.forward(config, **moved, masks=masks)._asdict(), weights))
    return (sums[1] - sums[0]) / (2 * distance)


@pytest.mark.parametrize("argument", INPUTS)
@pytest.mark.parametrize("config", NETWORKS.values(), ids=NETWORKS.keys())
def test_gradients_equal_central_differences(config, argument):
    """In a few random directions, to each of which every element contributes."""
    weights, masks = output_gradients(config), random_masks(config)
    inputs = inputs_away_from_kinks(config, masks)
    gradient = gradients(config, inputs, weights, masks)[argument]
    assert gradient.shape == inputs[argument].shape
    rng = np.random.default_rng(3)
    for _ in range(4):
        towards = rng.standard_normal(gradient.shape)
        expected = directional_derivative(config, inputs, weights, argument, towards, masks)
        np.testing.assert_allclose(np.sum(gradient * towards), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_masks_multiply_the_inputs_of_layers(mode):
    """A layer that is cut off gives what the layers above it give for an input of zero."""
    config = network(rnn_mode=mode, num_layers=2)
    inputs = network_inputs(config)
    cut_off = reference.forward(config, **inputs, masks=[np.zeros((config.time, config.batch, config.num_units))])
    _, above = reference.unpack(config, inputs["params"])
    upper_config = network(rnn_mode=mode, input_size=config.num_units)
    upper_inputs = {
        "input": np.zeros((config.time, config.batch, config.num_units)),
        "input_h": inputs["input_h"][1:],
        "input_c": inputs["input_c"][1:] if mode == "lstm" else inputs["input_c"],
        "params": np.concatenate([each.ravel() for each in above if each is not None]),
    }
    np.testing.assert_array_equal(cut_off.output, reference.forward(upper_config, **upper_inputs).output)


KERAS_LAYERS: dict[str, tuple[type, dict]] = {
    "lstm": (keras.layers.LSTM, {}),
    "gru": (keras.layers.GRU, {"reset_after": True}),
    "rnn_tanh": (keras.layers.SimpleRNN, {"activation": "tanh"}),
    "rnn_relu": (keras.layers.SimpleRNN, {"activation": "relu"}),
}


def keras_order(mode, by_gate):
    """Exchanges the reset and update gates of a GRU: Keras has the update gate first, and so the other way round."""
    return by_gate[[1, 0, 2]] if mode == "gru" else by_gate


def keras_matrix(mode, by_gate):
    """[gates, units, fan_in] to [fan_in, gates * units]."""
    by_gate = keras_order(mode, by_gate)
    return by_gate.reshape(-1, by_gate.shape[-1]).T


def keras_weights(mode, weights: reference.Weights) -> list[np.ndarray]:
    """Returns the weights of a Keras layer that computes the same as a pseudo-layer."""
    biases = keras_order(mode, weights.W_bias).ravel(), keras_order(mode, weights.R_bias).ravel()
    bias = np.stack(biases) if mode == "gru" else biases[0] + biases[1]
    return [keras_matrix(mode, weights.W), keras_matrix(mode, weights.R), bias]


def keras_gradients(mode, gradient: reference.Weights) -> list[np.ndarray]:
    """Returns the gradients with respect to `keras_weights`, of which one bias stands for the sum of two."""
    kernel, recurrent_kernel, bias = keras_weights(mode, gradient)
    return [kernel, recurrent_kernel, bias if mode == "gru" else bias / 2]


def keras_layer(config: Config, layer: int, weights: list[reference.Weights]):
    """Builds a Keras layer of one or two directions that computes the same as a layer's pseudo-layers."""
    layer_class, options = KERAS_LAYERS[config.rnn_mode]
    keras_layer = layer_class(config.num_units, return_sequences=True, return_state=True, dtype="float64", **options)
    if config.num_directions == 2:
        keras_layer = keras.layers.Bidirectional(keras_layer, dtype="float64")
    keras_layer.build((config.batch, config.time, config.fan_in(layer)))
    keras_layer.set_weights([each for one in weights for each in keras_weights(config.rnn_mode, one)])
    return keras_layer


def by_layer(config, pseudo_layers):
    """Groups something of every pseudo-layer by layers."""
    starts = range(0, config.num_pseudo_layers, config.num_directions)
    return [pseudo_layers[start : start + config.num_directions] for start in starts]


def run_keras(config, layers, x, initial_states):
    """Runs Keras layers one upon another.

    Args:
      config: the network.
      layers: the Keras layers.
      x: the input, [batch, time, input].
      initial_states: by layer, a list of states as Keras takes them, each [batch, units].

    Returns:
      The output, [batch, time, directions * units], and final states like `initial_states`.
    """
    mask = tf.sequence_mask(config.lengths, config.time)
    states = []
    for layer, initial_state in zip(layers, initial_states, strict=True):
        x, *state = layer(x, mask=mask, initial_state=initial_state)
        states.append(state)
    # Keras repeats the last output past a sequence's end.
    return x * tf.cast(mask, x.dtype)[:, :, tf.newaxis], states


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["full", "lengths"])
@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("mode", MODES)
def test_equals_keras(mode, direction, num_layers, lengths):
    config = network(rnn_mode=mode, direction=direction, num_layers=num_layers, sequence_lengths=lengths)
    inputs, weights = network_inputs(config), output_gradients(config)
    run = reference.forward(config, **inputs)
    expected = gradients(config, inputs, weights)

    layers = [
        keras_layer(config, layer, of_layer)
        for layer, of_layer in enumerate(by_layer(config, reference.unpack(config, inputs["params"])))
    ]
    x = tf.constant(inputs["input"].swapaxes(0, 1))
    state_names = ("h", "c") if mode == "lstm" else ("h",)
    # By pseudo-layer, then h and c: the order in which Keras has them within a layer.
    initial_states = [
        [tf.constant(inputs[f"input_{name}"][p]) for p in pseudo_layers for name in state_names]
        for pseudo_layers in by_layer(config, range(config.num_pseudo_layers))
    ]
    with tf.GradientTape() as tape:
        tape.watch([x, initial_states])
        output, states = run_keras(config, layers, x, initial_states)
        final = {
            name: tf.stack([each for of_layer in states for each in of_layer[i :: len(state_names)]])
            for i, name in enumerate(state_names)
        }
        loss = tf.reduce_sum(output * weights["output_backprop"].swapaxes(0, 1))
        for name in state_names:
            loss += tf.reduce_sum(final[name] * weights[f"output_{name}_backprop"])
    d_x, d_states, d_weights = tape.gradient(loss, [x, initial_states, [layer.weights for layer in layers]])

    def check(actual, keras_result):
        assert parity.difference(actual, keras_result) < 1e-12

    check(run.output.swapaxes(0, 1), output)
    check(expected["input"].swapaxes(0, 1), d_x)
    for i, name in enumerate(state_names):
        check(getattr(run, f"output_{name}"), final[name])
        check(expected[f"input_{name}"], tf.stack([each for one in d_states for each in one[i :: len(state_names)]]))
    d_pseudo_layers = reference.unpack(config, expected["params"])
    flat_keras_gradients = [each for of_layer in d_weights for each in of_layer]
    flat_gradients = [each for one in d_pseudo_layers for each in keras_gradients(mode, one)]
    for ours, theirs in zip(flat_gradients, flat_keras_gradients, strict=True):
        check(ours, theirs)


def test_projection_equals_an_lstm_whose_weights_are_products():
    """A projected state enters by a matrix what P^T times that matrix takes from the state before the projection."""
    config = network(num_proj=2)
    inputs = network_inputs(config)
    (weights,) = reference.unpack(config, inputs["params"])
    assert weights.P is not None
    # The initial state is a projection of some state of all units.
    whole_h = np.random.default_rng(4).standard_normal((1, config.batch, config.num_units))
    inputs["input_h"] = whole_h @ weights.P.T

    plain = dataclasses.replace(config, num_proj=0)
    plain_weights = (weights.W, weights.R @ weights.P, weights.W_bias, weights.R_bias)
    plain_params = np.concatenate([np.ravel(each) for each in plain_weights])
    expected = reference.forward(plain, inputs["input"], whole_h, inputs["input_c"], plain_params)
    actual = reference.forward(config, **inputs)
    assert parity.difference(actual.output, expected.output @ weights.P.T) < 1e-12
    assert parity.difference(actual.output_h, expected.output_h @ weights.P.T) < 1e-12
    assert parity.difference(actual.output_c, expected.output_c) < 1e-12


@pytest.mark.parametrize("mode", MODES)
def test_skip_input_equals_input_matrices_of_ones_on_the_diagonal(mode):
    config = network(rnn_mode=mode, input_mode="skip_input", input_size=5)
    inputs = network_inputs(config)
    (weights,) = reference.unpack(config, inputs["params"])
    identities = np.tile(np.eye(5), (config.num_gates, 1))
    linear = dataclasses.replace(config, input_mode="linear_input")
    linear_params = np.concatenate([identities.ravel(), inputs["params"]])
    assert weights.W is None
    expected = reference.forward(linear, **{**inputs, "params": linear_params})
    assert parity.difference(reference.forward(config, **inputs).output, expected.output) < 1e-12


@pytest.mark.parametrize("mode", MODES)
def test_the_backward_direction_is_the_forward_one_of_reversed_sequences(mode):
    """What is reversed is the sequence up to its end."""
    config = network(rnn_mode=mode, direction="bidirectional", sequence_lengths=LENGTHS)
    one = network(rnn_mode=mode, sequence_lengths=LENGTHS)
    inputs = network_inputs(config)
    _, backward_weights = reference.unpack(config, inputs["params"])
    reversed_inputs = {
        "input": inputs["input"].copy(),
        "input_h": inputs["input_h"][1:],
        "input_c": inputs["input_c"][1:] if mode == "lstm" else inputs["input_c"],
        "params": np.concatenate([each.ravel() for each in backward_weights if each is not None]),
    }
    for sample, length in enumerate(LENGTHS):
        reversed_inputs["input"][:length, sample] = inputs["input"][:length, sample][::-1]
    expected = reference.forward(one, **reversed_inputs)
    actual = reference.forward(config, **inputs)
    np.testing.assert_array_equal(actual.output_h[1:], expected.output_h)
    for sample, length in enumerate(LENGTHS):
        np.testing.assert_array_equal(actual.output[:length, sample, 5:], expected.output[:length, sample][::-1])
        np.testing.assert_array_equal(actual.output[length:, sample], 0)
    np.testing.assert_array_equal(actual.output_h[:, LENGTHS.index(0)], inputs["input_h"][:, LENGTHS.index(0)])


def test_batch_major_exchanges_the_first_two_dimensions_of_all():
    config = network(num_layers=2, direction="bidirectional", sequence_lengths=LENGTHS)
    inputs, weights = network_inputs(config), output_gradients(config)

    def exchanged(arrays):
        return {name: value.swapaxes(0, 1) if value.ndim == 3 else value for name, value in arrays.items()}

    batch_major = dataclasses.replace(config, time_major=False)
    run = reference.forward(batch_major, **exchanged(inputs))
    expected_run = reference.forward(config, **inputs)
    for name in OUTPUTS:
        np.testing.assert_array_equal(getattr(run, name).swapaxes(0, 1), getattr(expected_run, name))
    actual = exchanged(gradients(batch_major, exchanged(inputs), exchanged(weights)))
    for name, value in gradients(config, inputs, weights).items():
        np.testing.assert_array_equal(actual[name], value)
