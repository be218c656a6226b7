"""Tests that TensorFlow's tools for finding NaN find none in the results of the ops, including `reserve_space`."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from checks.cudnn_rnn import run_backprop, run_forward
from inputs import cudnn_rnn as cudnn_rnn_inputs
from inputs import gru_block_cell as gru_inputs
from inputs.cudnn_rnn import DTYPES, MODES, VERSIONS, Config
from inputs.pairs import every_pair
from tensorflow.python.debug.lib import debug_events_reader

import tf_rnn_ops
from tf_rnn_ops import layers, raw_ops

CONFIGS: list[dict] = [
    {},
    {"num_layers": 3, "dropout": 0.5, "direction": "bidirectional"},
    {"sequence_lengths": (7, 0, 3), "batch": 3, "time": 7},
    {"num_units": 128, "input_size": 128, "input_mode": "skip_input", "batch": 9, "time": 12},
]
eager_or_function = pytest.mark.parametrize("is_eager", [True, False], ids=["eager", "function"])
# In eager mode, TensorFlow's check fails for every bfloat16 scalar.
TYPES = [(each, is_eager) for each in DTYPES for is_eager in {False, each != "bfloat16"}]
LAYERS = [keras.layers.LSTM, keras.layers.GRU, keras.layers.SimpleRNN]
OUR_LAYERS = [*LAYERS, layers.LSTM, layers.GRU, layers.SimpleRNN, layers.CudnnLSTM, layers.CudnnGRU]


@pytest.fixture(name="check")
def _check():
    """Makes every op raise an error if a floating-point result has NaN or infinity."""
    tf.debugging.enable_check_numerics()
    yield
    tf.debugging.disable_check_numerics()


def differentiate_network_twice(config, dtype, version):
    """Runs each op of a network, and the derivative of its gradient, which has all inputs of the backward pass."""
    inputs, gradients = cudnn_rnn_inputs.inputs_and_gradients(config, dtype)
    variables = [tf.constant(each) for each in (inputs["input"], inputs["params"])]
    with tf.GradientTape() as tape:
        tape.watch(variables)
        watched = {**inputs, "input": variables[0], "params": variables[1]}
        outputs = run_forward(config, watched, version)
        first = run_backprop(config, watched, outputs, gradients, version)
        value = tf.reduce_sum(first.input_backprop) + tf.reduce_sum(first.params_backprop)
    return outputs.output, tape.gradient(value, variables)


def call_and_differentiate(layer, dtype):
    """Runs a layer for training and returns the gradients of its weights."""
    x = tf.constant(np.random.default_rng(0).normal(size=[3, 9, 4]), dtype)
    with tf.GradientTape() as tape:
        value = tf.reduce_sum(tf.cast(layer(x, training=True), tf.float32))
    return tape.gradient(value, layer.trainable_variables)


def run(function, is_eager):
    return function() if is_eager else tf.function(function)()


@pytest.mark.usefixtures("check")
@pytest.mark.parametrize(("changes", "mode", "types"), every_pair(CONFIGS, MODES, TYPES), ids=str)
def test_networks(changes, mode, types):
    dtype, is_eager = types
    config = Config(rnn_mode=mode, **changes)
    for version in VERSIONS if config.sequence_lengths is None else ["V3"]:
        run(lambda version=version: differentiate_network_twice(config, dtype, version), is_eager)


@pytest.mark.usefixtures("check")
@pytest.mark.parametrize(("dtype", "is_eager"), TYPES)
def test_cells(dtype, is_eager):
    inputs = {name: tf.constant(each) for name, each in gru_inputs.cell_inputs((3, 7, 13), dtype).items()}

    def differentiate_twice():
        with tf.GradientTape() as outer:
            outer.watch(inputs)
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                value = tf.add_n([tf.reduce_sum(each) for each in raw_ops.GRUBlockCell(**inputs)])
            gradients = tape.gradient(value, list(inputs.values()))
            value = tf.add_n([tf.reduce_sum(each) for each in gradients])
        return outer.gradient(value, list(inputs.values()))

    run(differentiate_twice, is_eager)


@pytest.mark.usefixtures("check")
@pytest.mark.parametrize(
    ("make", "policy", "is_eager"),
    every_pair(OUR_LAYERS, ["float32", "mixed_float16", "mixed_bfloat16", "float16", "float64"], [True, False]),
)
def test_layers(make, policy, is_eager):
    if is_eager and policy == "mixed_bfloat16" and make is layers.CudnnGRU:
        pytest.skip("its output_c is a scalar, for which TensorFlow's check fails")
    dtype = keras.DTypePolicy(policy).compute_dtype
    with tf_rnn_ops.accelerate_keras(strict=True):
        layer = make(6, dtype=policy)
        layer.build([3, 9, 4])
        run(lambda: call_and_differentiate(layer, dtype), is_eager)


@pytest.mark.usefixtures("check")
@pytest.mark.parametrize(("make", "policy"), zip(LAYERS, ["float32", "mixed_float16", "mixed_bfloat16"], strict=True))
def test_training_with_masks(make, policy):
    """The lengths of the sequences are in `reserve_space` as a hash, which has any bits."""
    tokens = np.random.default_rng(0).integers(0, 20, [320, 9])
    with tf_rnn_ops.accelerate_keras():
        model = keras.Sequential([keras.layers.Embedding(20, 8, mask_zero=True), keras.layers.Bidirectional(make(6))])
        model.add(keras.layers.Dense(1, dtype="float32"))
        for each in model.layers:
            each.dtype_policy = keras.DTypePolicy(policy if each is not model.layers[-1] else "float32")
        # Loss scaling makes gradients infinite on purpose.
        model.compile("sgd", "mse", auto_scale_loss=False)
        model.fit(tokens, np.zeros([320, 1]), batch_size=8, verbose=0)


@eager_or_function
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_debugger_v2(tmp_path, dtype, is_eager):
    config = Config(rnn_mode="lstm", sequence_lengths=(7, 0, 3), batch=3, time=7)
    writer = tf.debugging.experimental.enable_dump_debug_info(
        str(tmp_path), tensor_debug_mode="CONCISE_HEALTH", circular_buffer_size=-1
    )
    run(lambda: differentiate_network_twice(config, dtype, "V3"), is_eager)
    writer.FlushNonExecutionFiles()
    writer.FlushExecutionFiles()
    tf.debugging.experimental.disable_dump_debug_info()
    with debug_events_reader.DebugDataReader(str(tmp_path)) as reader:
        reader.update()
        if is_eager:
            values = [value for each in reader.executions() for value in each.debug_tensor_values or ()]
        else:
            values = [each.debug_tensor_value for each in reader.graph_execution_traces()]
    floats = [value for value in values if value is not None]
    assert len(floats) > 20
    # Of each tensor: its number, size, and the numbers of -infinity, infinity and NaN.
    assert [value for value in floats if any(value[-3:])] == []
