"""The registered gradients of the CudnnRNN ops on a GPU, eagerly and in graphs."""

import functools

import pytest
import tensorflow as tf
from checks import parity
from checks.cudnn_rnn import (
    check_repeats_and_leaves_inputs_unchanged,
    inputs_and_outputs,
    names_of,
    reference_gradients,
    tape_gradients,
    tensors,
    weighted_sum,
)
from environment.devices import DEVICE, OPS, assert_on
from inputs import cudnn_rnn as cudnn_rnn_inputs
from inputs.cudnn_rnn import DTYPES, INPUTS, MODES, VERSIONS, Config
from references import cudnn_rnn as reference

pytestmark = pytest.mark.gpu


def network(**options) -> Config:
    return Config(direction="bidirectional", num_layers=2, num_units=12, input_size=9, **options)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "tf.function"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("mode", MODES)
def test_by_a_tape(mode, version, dtype, compiled):
    config = network(rnn_mode=mode)
    inputs, run = inputs_and_outputs(config, dtype, seed=0, rounds_states=True)
    weights = cudnn_rnn_inputs.output_gradients(config, dtype)
    gradients = functools.partial(tape_gradients, config, version=version, raw_ops=OPS)
    with tf.device(DEVICE):
        actual = (tf.function(gradients) if compiled else gradients)(tensors(inputs), tensors(weights))
    assert_on(DEVICE, actual)
    expected = reference_gradients(config, run, inputs, weights)
    for name in names_of(config, INPUTS):
        wanted = getattr(expected, f"{name}_backprop")
        assert parity.difference(actual[name], wanted) < parity.TOLERANCES[dtype], name


def test_in_a_tf1_graph_by_tf_gradients():
    config = network(sequence_lengths=(5, 0, 3))
    inputs, weights = cudnn_rnn_inputs.inputs_and_gradients(config)
    with tf.Graph().as_default(), tf.device(DEVICE), tf.compat.v1.Session() as session:
        placeholders = {name: tf.compat.v1.placeholder(tf.float64) for name in INPUTS}
        outputs = OPS.CudnnRNNV3(**cudnn_rnn_inputs.forward_arguments(config, placeholders))
        wanted = tf.gradients(weighted_sum(outputs, weights), list(placeholders.values()))
        values = session.run(wanted, {placeholders[name]: inputs[name] for name in INPUTS})
    expected = reference_gradients(config, reference.forward(config, **inputs), inputs, weights)
    for name, value in zip(INPUTS, values, strict=True):
        assert parity.difference(value, getattr(expected, f"{name}_backprop")) < 1e-12, name


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_backprop_is_reproducible_and_does_not_change_its_inputs(dtype, mode, dropout):
    """cuDNN's backward pass overwrites the reserve space, so a second run on it would be wrong."""
    check_repeats_and_leaves_inputs_unchanged(network(rnn_mode=mode, dropout=dropout), dtype, OPS)
    lengths = network(rnn_mode=mode, dropout=dropout, sequence_lengths=(5, 0, 2), time_major=False)
    check_repeats_and_leaves_inputs_unchanged(lengths, dtype, OPS)


def test_a_persistent_tape_gives_the_same_gradients_twice():
    config = network(dropout=0.5)
    inputs, weights = map(tensors, cudnn_rnn_inputs.inputs_and_gradients(config))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(inputs)
        outputs = OPS.CudnnRNNV3(**cudnn_rnn_inputs.forward_arguments(config, inputs))
        loss = weighted_sum(outputs, weights)
    first, second = tape.gradient(loss, inputs), tape.gradient(loss, inputs)
    for name in INPUTS:
        assert first[name].numpy().tobytes() == second[name].numpy().tobytes()
