"""Runs and trains a GPU-only SavedModel, whose LSTM is TensorFlow's CudnnRNNV3 op, on a CPU.

python examples/gpu_saved_model.py              # writes an example model, loads it and trains it
python examples/gpu_saved_model.py --model DIR  # prints the signatures of your model
"""

import argparse
import pathlib
import tempfile

import keras
import numpy as np
import tensorflow as tf

import tf_rnn_ops

UNITS, TIME = 32, 40


class Forecaster(tf.Module):
    """An LSTM and a dense layer that predict the next value at each step; input and output are [batch, time, 1]."""

    def __init__(self):
        rng = np.random.default_rng(0)
        size = 4 * UNITS * (1 + UNITS + 2)  # matrices and biases of four gates
        self.params = tf.Variable(rng.uniform(-0.2, 0.2, [size]), dtype=tf.float32)
        self.kernel = tf.Variable(rng.uniform(-0.2, 0.2, [UNITS, 1]), dtype=tf.float32)

    @tf.function(input_signature=[tf.TensorSpec([None, None, 1])])
    def __call__(self, series):
        """Returns the forecasts."""
        batch, time = tf.shape(series)[0], tf.shape(series)[1]
        state = tf.zeros([batch, 1, UNITS])  # [batch, num_layers, units]
        hidden = tf.raw_ops.CudnnRNNV3(
            input=series,
            input_h=state,
            input_c=state,
            params=self.params,
            sequence_lengths=tf.fill([batch], time),
            time_major=False,
        ).output
        return hidden @ self.kernel


def waves(batch: int, rng) -> tf.Tensor:
    """Returns sine waves of many frequencies, [batch, time + 1, 1]."""
    frequency, phase = rng.uniform(0.2, 0.8, [batch, 1]), rng.uniform(0, 2 * np.pi, [batch, 1])
    return tf.constant(np.sin(frequency * np.arange(TIME + 1) + phase)[..., None], tf.float32)


def loss_of(model, series):
    """Returns the mean squared error of the forecasts."""
    return tf.reduce_mean((model(series[:, :-1]) - series[:, 1:]) ** 2)


def train(model, steps: int) -> None:
    """Trains the variables of a loaded model."""
    optimizer = keras.optimizers.Adam(1e-2)
    rng = np.random.default_rng(1)
    variables = [model.params, model.kernel]
    for step in range(steps):
        series = waves(64, rng)
        with tf.GradientTape() as tape:
            loss = loss_of(model, series)
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        if step % max(1, steps // 4) == 0:
            print(f"  step {step:4}  loss {loss:.4f}")


def show(path: str) -> None:
    """Loads a SavedModel and prints its signatures and their numbers of trainable variables."""
    model = tf.saved_model.load(path)
    for name, signature in model.signatures.items():
        arguments = ", ".join(map(str, signature.structured_input_signature[1].values()))
        print(f"{name}: {arguments} -> {signature.structured_outputs}")
        print(f"  {len(signature.trainable_variables)} trainable variables")


def main() -> None:
    """Writes a model, loads it and trains it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="folder of your SavedModel")
    parser.add_argument("--steps", type=int, default=200, help="training steps")
    settings = parser.parse_args()
    if settings.model:
        tf_rnn_ops.enable_builtin_kernels()
        show(settings.model)
        return

    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "forecaster")
        tf.saved_model.save(Forecaster(), path)
        model = tf.saved_model.load(path)
        series = waves(256, np.random.default_rng(2))
        if not tf.config.list_physical_devices("GPU"):
            try:
                model(series)
            except tf.errors.OpError as error:
                print(f"without enable_builtin_kernels(): {str(error).splitlines()[0]}")

        tf_rnn_ops.enable_builtin_kernels()
        print(f"after enable_builtin_kernels(): loss {loss_of(model, series):.4f}")
        train(model, settings.steps)
        print(f"trained: loss {loss_of(model, series):.4f}")


if __name__ == "__main__":
    main()
