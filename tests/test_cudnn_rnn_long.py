"""Tests of long sequences, large networks and many calls of the CudnnRNN ops."""

import pytest
import tensorflow as tf
from checks.cudnn_rnn import check_against_reference, check_outputs, run_backprop, run_forward
from environment import process_resources
from inputs import cudnn_rnn as cudnn_rnn_inputs
from inputs.cudnn_rnn import MODES, Config, sized
from inputs.gru_block_cell import float64
from references import cudnn_rnn as reference


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_tanh"])
def test_five_thousand_steps(mode, dtype):
    config = sized((5000, 4, 16, 24), rnn_mode=mode, sequence_lengths=(5000, 0, 4999, 2500))
    check_against_reference(config, dtype)


def test_five_thousand_steps_in_both_directions_of_two_layers():
    options = {"num_layers": 2, "direction": "bidirectional", "sequence_lengths": (5000, 3000)}
    check_against_reference(sized((5000, 2, 16, 24), **options), "float32")


@pytest.mark.parametrize("size", [(10, 512, 64, 128), (4, 16, 1024, 1024), (3, 1, 2048, 1000)], ids=str)
@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_tanh"])
def test_large_batches_and_many_units(mode, size):
    check_against_reference(sized(size, rnn_mode=mode), "float32")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_large_batches_of_other_types(dtype):
    check_against_reference(sized((10, 512, 64, 128)), dtype)


@pytest.mark.parametrize("size", [(5000, 4, 16, 24), (10, 512, 64, 128), (4, 16, 1024, 1024)], ids=str)
def test_many_relu_units_forward(size):
    """Not backward: some of so many ReLU inputs are so close to 0 that rounding changes their slope."""
    config = sized(size, rnn_mode="rnn_relu")
    inputs = cudnn_rnn_inputs.network_inputs(config, "float32")
    outputs = run_forward(config, inputs, is_training=False)
    check_outputs(config, outputs, reference.forward(config, **float64(inputs)), "float32")


def test_many_layers():
    check_against_reference(Config(num_layers=16, direction="bidirectional", num_units=24, input_size=16), "float32")


@pytest.mark.parametrize("mode", MODES)
def test_memory_does_not_grow(mode):
    """The limit is a quarter of the output, which is smaller than any possible leak."""
    config = Config(
        rnn_mode=mode, num_layers=2, direction="bidirectional", num_units=64, input_size=64, time=20, batch=16
    )
    inputs, weights = (
        {name: tf.constant(value) for name, value in arrays.items()}
        for arrays in cudnn_rnn_inputs.inputs_and_gradients(config, "float32")
    )

    def run(num_calls):
        for _ in range(num_calls):
            run_backprop(config, inputs, run_forward(config, inputs), weights)

    run(20)
    before = process_resources.memory()
    num_calls = 200
    run(num_calls)
    output_bytes = weights["output_backprop"].numpy().nbytes
    assert process_resources.memory() - before < num_calls * output_bytes / 4
