"""Compares the references of the CudnnRNN ops with Keras, and with TensorFlow differentiating a plain network.

test_golden.py compares the first one with recordings of cuDNN, in all modes and input modes and with projections.
"""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from inputs.cudnn_rnn import INPUTS, MODES, OUTPUTS, network_inputs, output_gradients
from inputs.pairs import every_pair
from inputs.second_order import output_backprops
from inputs.small_networks import DIRECTIONS, LENGTHS, NETWORKS, network, random_masks
from references import cudnn_rnn as reference
from references import keras_networks, tensorflow_networks
from references.second_order import second_order


def gradients(config, inputs, weights, masks=None):
    """Returns the gradients of the sum of the outputs times their weights from the reference, by input."""
    run = reference.forward(config, **inputs, masks=masks)
    backward = reference.backward(config, run, inputs["input_c"], inputs["params"], **weights, masks=masks)
    return {name: getattr(backward, f"{name}_backprop") for name in INPUTS}


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


def by_tensorflow(config, arguments, v, masks):
    """Differentiates a plain network twice.

    Returns:
      The outputs, the results of the backward pass, and the gradients of <v, backward>, each by name.
    """
    arguments = {name: tf.constant(value) for name, value in arguments.items()}
    inputs = {name: arguments[name] for name in INPUTS}
    with tf.GradientTape() as outer:
        outer.watch(arguments)
        with tf.GradientTape() as inner:
            inner.watch(inputs)
            outputs = tensorflow_networks.cudnn_rnn(config, **inputs, masks=masks)
        d_outputs = tensorflow_networks.Outputs(*(arguments[f"{name}_backprop"] for name in OUTPUTS))
        backprops = inner.gradient(outputs, inputs, d_outputs, unconnected_gradients="zero")
        product = tf.add_n([tf.reduce_sum(backprops[name] * each) for name, each in zip(INPUTS, v, strict=True)])
    return outputs._asdict(), backprops, outer.gradient(product, arguments, unconnected_gradients="zero")


@pytest.mark.parametrize("config", NETWORKS.values(), ids=NETWORKS.keys())
def test_equals_tensorflow_differentiating_a_plain_network_twice(config):
    """With dropout masks."""
    masks, inputs, weights = random_masks(config), network_inputs(config), output_gradients(config)
    v = output_backprops(inputs)
    outputs = {name: getattr(reference.forward(config, **inputs, masks=masks), name) for name in OUTPUTS}
    first = gradients(config, inputs, weights, masks)
    second = second_order(config, {**inputs, **weights}, v, masks)
    expected = by_tensorflow(config, {**inputs, **weights}, v, masks)
    for actual, wanted in zip((outputs, first, second), expected, strict=True):
        assert actual.keys() == wanted.keys()
        for name, value in wanted.items():
            assert parity.difference(actual[name], value) < 1e-12, name
