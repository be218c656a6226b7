"""The Keras layers on a GPU: results compared with the CPU, and training.

`LSTM`, `GRU` and `SimpleRNN` fall back to Keras if TensorFlow sees a GPU.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf
from checks.parity import difference, to_float64
from environment.devices import DEVICE, assert_on

import tf_rnn_ops

pytestmark = pytest.mark.gpu

layers = tf_rnn_ops.layers
BATCH, TIME, FEATURES, UNITS = 4, 7, 5, 12
MASK = np.arange(TIME) < np.array([7, 3, 1, 5])[:, np.newaxis]

LAYERS = {
    **{
        f"{layer.__name__}-{direction}": (
            lambda layer=layer, direction=direction, **options: layer(
                UNITS, num_layers=2, direction=direction, return_sequences=True, **options
            )
        )
        for layer in (layers.CudnnLSTM, layers.CudnnGRU, layers.CudnnRNNTanh, layers.CudnnRNNRelu)
        for direction in ("unidirectional", "bidirectional")
    },
    "GRUBlockCell": lambda dtype=None: keras.layers.RNN(
        layers.GRUBlockCell(UNITS, dtype=dtype), return_sequences=True, dtype=dtype
    ),
}
every_layer = pytest.mark.parametrize("make_layer", LAYERS.values(), ids=LAYERS.keys())


def outputs_and_gradients(make_layer, device, weights=None, mask=None, dtype="float64"):
    """Runs a layer on a device. Returns its output, the gradients of the input and the weights, and the weights."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal([BATCH, TIME, FEATURES])
    with tf.device(device):
        layer = make_layer(dtype=dtype)
        x = tf.constant(x.astype(tf.as_dtype(layer.compute_dtype).as_numpy_dtype))
        layer.build(x.shape)
        layer.set_weights(weights or [rng.standard_normal(each.shape) / 3 for each in layer.weights])
        variables = [variable.value for variable in layer.trainable_variables]
        with tf.GradientTape() as tape:
            tape.watch(x)
            output = layer(x, mask=None if mask is None else tf.constant(mask), training=True)
            loss = tf.reduce_sum(tf.cast(output, tf.float64) ** 2)
        gradients = tape.gradient(loss, [x, *variables])
    assert_on(device, [output, *gradients])
    return [output, *gradients], layer.get_weights()


@pytest.mark.parametrize("mask", [None, MASK], ids=["whole", "masked"])
@every_layer
def test_equals_the_cpu(make_layer, mask):
    expected, weights = outputs_and_gradients(make_layer, "CPU:0", mask=mask)
    actual, _ = outputs_and_gradients(make_layer, DEVICE, weights, mask)
    for ours, wanted in zip(actual, expected, strict=True):
        assert difference(ours, wanted) < 1e-11


@pytest.mark.parametrize("policy", ["float16", "bfloat16", "mixed_float16", "mixed_bfloat16"])
@every_layer
def test_16_bit_dtype_policies(make_layer, policy):
    expected, weights = outputs_and_gradients(make_layer, "CPU:0")
    (output, *gradients), _ = outputs_and_gradients(make_layer, DEVICE, weights, dtype=policy)
    assert output.dtype.name == policy.removeprefix("mixed_")
    assert difference(output, expected[0]) < 0.1
    for each in gradients:
        assert np.isfinite(to_float64(each)).all()


@pytest.mark.parametrize("layer", ["CudnnLSTM", "CudnnGRU", "CudnnRNNTanh", "LSTM", "GRUBlockCell"])
def test_fit_learns(layer):
    """Learns the mean of the first feature."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal([256, 12, 3]).astype("float32")
    y = x[:, :, 0].mean(axis=1, keepdims=True)
    with tf.device(DEVICE):
        part = getattr(layers, layer)(16)
        recurrent = keras.layers.RNN(part) if layer == "GRUBlockCell" else part
        model = keras.Sequential([keras.Input([None, 3]), recurrent, keras.layers.Dense(1)])
        model.compile(keras.optimizers.Adam(0.01), "mse")
        before = model.evaluate(x, y, verbose=0)
        model.fit(x, y, batch_size=32, epochs=15, verbose=0)
        assert model.evaluate(x, y, verbose=0) < before / 3


def test_dropout_between_layers_trains():
    x = np.random.default_rng(0).standard_normal([64, 10, 3]).astype("float32")
    with tf.device(DEVICE):
        model = keras.Sequential([layers.CudnnLSTM(16, num_layers=3, dropout=0.5), keras.layers.Dense(1)])
        model.compile("adam", "mse")
        losses = model.fit(x, x[:, :, 0].mean(axis=1, keepdims=True), epochs=3, verbose=0).history["loss"]
    assert np.isfinite(losses).all()


def test_a_saved_model_runs_on_another_device(tmp_path):
    x = np.random.default_rng(0).standard_normal([4, 9, 3]).astype("float32")
    with tf.device(DEVICE):
        inputs = keras.Input([None, 3])
        recurrent = layers.CudnnLSTM(8, num_layers=2, direction="bidirectional")
        model = keras.Model(inputs, keras.layers.Dense(1)(recurrent(inputs)))
        expected = model(x)
    model.export(tmp_path / "model", verbose=False)
    for device in (DEVICE, "CPU:0"):
        with tf.device(device):
            assert difference(tf.saved_model.load(str(tmp_path / "model")).serve(x), expected) < 1e-5
