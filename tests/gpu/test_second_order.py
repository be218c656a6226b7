"""Gradients of gradients on a GPU."""

import pytest
import tensorflow as tf
from checks import parity
from checks.cudnn_rnn import inputs_and_outputs, run_forward, tensors
from checks.dropout import SEEDS, fresh_kernels
from checks.second_order import penalty_gradients, third_order
from environment.devices import CPU_OPS, DEVICE, OPS, assert_on
from inputs import cudnn_rnn as cudnn_rnn_inputs
from inputs import gru_block_cell as gru_inputs
from inputs.cudnn_rnn import DTYPES, INPUTS, MODES, VERSIONS, Config

pytestmark = pytest.mark.gpu

COMPILED = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "tf.function"])


def network(**options) -> Config:
    return Config(direction="bidirectional", num_layers=2, num_units=6, input_size=5, **options)


def run_on(raw_ops, config, version="V3", **attributes):
    return lambda inputs: run_forward(config, inputs, version, raw_ops, **attributes)


def on_device(function, compiled):
    """Returns a function that runs on the device."""

    def run(*arguments):
        with tf.device(DEVICE):
            return function(*arguments)

    return tf.function(run) if compiled else run


@COMPILED
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_a_penalty_equal_the_cpu(mode, version, dtype, compiled):
    config = network(rnn_mode=mode)
    inputs = tensors(inputs_and_outputs(config, dtype, seed=0, rounds_states=True)[0])
    gradients = on_device(lambda inputs: penalty_gradients(run_on(OPS, config, version), inputs), compiled)
    expected = penalty_gradients(run_on(CPU_OPS, config, version), inputs)
    actual_gradients = gradients(inputs)
    assert_on(DEVICE, actual_gradients)
    for name, actual in actual_gradients.items():
        # Second gradients contain the rounding errors of the first ones.
        assert parity.difference(actual, expected[name]) < 10 * parity.TOLERANCES[dtype], name


@COMPILED
@pytest.mark.parametrize("options", [{"sequence_lengths": (5, 0, 3)}, {"time_major": False}, {"num_proj": 4}], ids=str)
def test_options(options, compiled):
    config = network(rnn_mode="lstm", **options)
    inputs = tensors(cudnn_rnn_inputs.network_inputs(config))
    gradients = on_device(lambda inputs: penalty_gradients(run_on(OPS, config), inputs), compiled)(inputs)
    expected = penalty_gradients(run_on(CPU_OPS, config), inputs)
    for name in INPUTS:
        assert parity.difference(gradients[name], expected[name]) < 1e-11, name


@COMPILED
def test_third_order(compiled):
    config = Config(rnn_mode="gru", num_units=3, input_size=2, time=3, batch=2)
    inputs = tensors(cudnn_rnn_inputs.network_inputs(config))
    gradients = on_device(lambda inputs: third_order(run_on(OPS, config), inputs), compiled)(inputs)
    expected = third_order(run_on(CPU_OPS, config), inputs)
    for name in ("input", "input_h", "params"):
        assert parity.difference(gradients[name], expected[name]) < 1e-11, name


@COMPILED
@pytest.mark.parametrize("rate", [0.5, 1.0])
@pytest.mark.parametrize("mode", MODES)
def test_dropout_between_layers(mode, rate, compiled):
    """The second gradient recomputes the forward pass with the same masks."""
    config = network(rnn_mode=mode, dropout=rate, sequence_lengths=(5, 0, 3))
    inputs = tensors(inputs_and_outputs(config, "float64", seed=0)[0])
    gradients = []
    for ops in (OPS, CPU_OPS):
        fresh_kernels()
        run = on_device(lambda inputs, ops=ops: penalty_gradients(run_on(ops, config, **SEEDS), inputs), compiled)
        gradients.append(run(inputs))
    actual, expected = gradients
    for name in INPUTS:
        assert parity.difference(actual[name], expected[name]) < 1e-11, name


@COMPILED
@pytest.mark.parametrize("dtype", gru_inputs.DTYPES)
def test_gru_block_cell(dtype, compiled):
    inputs = tensors(gru_inputs.cell_inputs((3, 4, 5), dtype))

    def gradients(raw_ops):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            with tf.GradientTape() as inner:
                inner.watch(inputs)
                loss = tf.reduce_sum(tf.sin(raw_ops.GRUBlockCell(**inputs).h))
            first = inner.gradient(loss, inputs)
            value = tf.add_n([tf.reduce_sum(each**2) for each in first.values()])
        return tape.gradient(value, inputs)

    expected = gradients(CPU_OPS)
    for name, actual in on_device(lambda: gradients(OPS), compiled)().items():
        assert parity.difference(actual, expected[name]) < 10 * parity.TOLERANCES[dtype], name
