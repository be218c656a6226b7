"""Long sequences, large networks and many calls of the CudnnRNN ops."""

import dataclasses
import pathlib
import resource

import cudnn_rnn_inputs
import cudnn_rnn_reference as reference
import pytest
import tensorflow as tf
from cudnn_rnn_checks import check_against_reference, check_outputs, run_backprop, run_forward
from cudnn_rnn_inputs import MODES, Config
from gru_inputs import float64


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_tanh"])
def test_five_thousand_steps(mode, dtype):
    lengths = (5000, 0, 4999, 2500)
    check_against_reference(
        Config(rnn_mode=mode, num_units=24, input_size=16, time=5000, batch=4, sequence_lengths=lengths), dtype
    )


@pytest.mark.slow
def test_five_thousand_steps_in_both_directions_of_two_layers():
    config = Config(num_units=24, input_size=16, time=5000, batch=2, num_layers=2, direction="bidirectional")
    check_against_reference(dataclasses.replace(config, sequence_lengths=(5000, 3000)), "float32")


@pytest.mark.slow
@pytest.mark.parametrize("size", [(10, 512, 64, 128), (4, 16, 1024, 1024), (3, 1, 2048, 1000)], ids=str)
@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_tanh"])
def test_large_batches_and_many_units(mode, size):
    time, batch, input_size, num_units = size
    config = Config(rnn_mode=mode, time=time, batch=batch, input_size=input_size, num_units=num_units)
    check_against_reference(config, "float32")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_large_batches_of_other_types(dtype):
    check_against_reference(Config(time=10, batch=512, input_size=64, num_units=128), dtype)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(5000, 4, 16, 24), (10, 512, 64, 128), (4, 16, 1024, 1024)], ids=str)
def test_many_rectifiers_forward(size):
    """Backward, some of so many are given numbers so near to 0 that rounding decides about their slope."""
    time, batch, input_size, num_units = size
    config = Config(rnn_mode="rnn_relu", time=time, batch=batch, input_size=input_size, num_units=num_units)
    inputs = cudnn_rnn_inputs.network_inputs(config, "float32")
    outputs = run_forward(config, inputs, is_training=False)
    check_outputs(config, outputs, reference.forward(config, **float64(inputs)), "float32")


@pytest.mark.slow
def test_many_layers():
    check_against_reference(Config(num_layers=16, direction="bidirectional", num_units=24, input_size=16), "float32")


def memory_in_use() -> int:
    """Returns how many bytes of memory this process holds."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@pytest.mark.parametrize("mode", MODES)
def test_memory_does_not_grow_from_call_to_call(mode):
    """Not by a quarter of the output, which is smaller than anything that a leak could be of."""
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
    before = memory_in_use()
    num_calls = 200
    run(num_calls)
    output_bytes = weights["output_backprop"].numpy().nbytes
    assert memory_in_use() - before < num_calls * output_bytes / 4
