"""Compares the reference of the CudnnRNN ops with central differences and with Keras."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from inputs.cudnn_rnn import INPUTS, MODES, OUTPUTS, network_inputs, output_gradients
from inputs.pairs import every_pair
from inputs.small_networks import DIRECTIONS, LENGTHS, NETWORKS, inputs_away_from_kinks, network, random_masks
from references import cudnn_rnn as reference
from references import keras_networks


def gradients(config, inputs, weights, masks=None):
    """Returns the gradients of `weighted_sum` from the reference, by input."""
    run = reference.forward(config, **inputs, masks=masks)
    backward = reference.backward(config, run, inputs["input_c"], inputs["params"], **weights, masks=masks)
    return {name: getattr(backward, f"{name}_backprop") for name in INPUTS}


def weighted_sum(outputs, weights):
    """Returns the sum of the outputs in `outputs`, a dict, times their weights."""
    return sum(np.sum(outputs[name] * weights[f"{name}_backprop"]) for name in OUTPUTS)


def directional_derivative(config, inputs, weights, name, towards, masks):
    """Returns the directional derivative of `weighted_sum` for an input, by central differences."""
    distance = 1e-6
    sums = []
    for sign in (-1, 1):
        moved = {**inputs, name: inputs[name] + sign * distance * towards}
        sums.append(weighted_sum(reference.forward(config, **moved, masks=masks)._asdict(), weights))
    return (sums[1] - sums[0]) / (2 * distance)


@pytest.mark.parametrize("argument", INPUTS)
@pytest.mark.parametrize("config", NETWORKS.values(), ids=NETWORKS.keys())
def test_gradients_equal_central_differences(config, argument):
    """In a few random directions."""
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
    """A mask of zeros is equivalent to an input of zeros for the layers above."""
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


def keras_gradients(config, d_params) -> list[np.ndarray]:
    """Returns the gradients with respect to Keras weights, in which one bias is the sum of two."""
    weights = keras_networks.weights_from_params(config, d_params)
    return [each / 2 if each.ndim == 1 else each for each in weights]


@pytest.mark.parametrize(
    ("mode", "direction", "num_layers", "lengths"), every_pair(MODES, DIRECTIONS, [1, 2], [None, LENGTHS])
)
def test_equals_keras(mode, direction, num_layers, lengths):
    options = {"rnn_mode": mode, "direction": direction, "num_layers": num_layers}
    config = network(**options, sequence_lengths=lengths, time_major=False)
    names = ("h", "c") if mode == "lstm" else ("h",)
    inputs, scales = network_inputs(config), output_gradients(config)
    actual = reference.forward(config, **inputs)
    actual_gradients = gradients(config, inputs, scales)

    layers = keras_networks.stack(config)
    keras_networks.assign(layers, keras_networks.weights_from_params(config, inputs["params"]))
    x, states = tf.constant(inputs["input"]), [tf.constant(inputs[f"input_{name}"]) for name in names]
    mask = tf.sequence_mask(config.lengths, config.time)
    with tf.GradientTape() as tape:
        tape.watch([x, states])
        output, *final_states = keras_networks.run(config, layers, x, states, mask=mask)
        output *= tf.cast(mask, x.dtype)[:, :, tf.newaxis]  # Keras repeats the last output in the padding
        expected = dict(zip(OUTPUTS, [output, *final_states], strict=False))
        loss = tf.add_n([tf.reduce_sum(each * scales[f"{name}_backprop"]) for name, each in expected.items()])
    d_x, d_states, d_weights = tape.gradient(loss, [x, states, keras_networks.variables(layers)])

    def check(ours, keras_result):
        assert parity.difference(ours, keras_result) < 1e-12

    for name, each in expected.items():
        check(getattr(actual, name), each)
    check(actual_gradients["input"], d_x)
    for name, each in zip(names, d_states, strict=True):
        check(actual_gradients[f"input_{name}"], each)
    for ours, theirs in zip(keras_gradients(config, actual_gradients["params"]), d_weights, strict=True):
        check(ours, theirs)


def test_projection_equals_an_lstm_whose_weights_are_products():
    """A matrix applied to a projected state equals its product with P applied to the unprojected state."""
    config = network(num_proj=2)
    inputs = network_inputs(config)
    (weights,) = reference.unpack(config, inputs["params"])
    assert weights.P is not None
    # The initial state is the projection of an unprojected state.
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
def test_the_backward_direction_equals_the_forward_direction_on_reversed_sequences(mode):
    """Only the sequence without its padding is reversed."""
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


def test_batch_major_swaps_the_first_two_dimensions():
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
