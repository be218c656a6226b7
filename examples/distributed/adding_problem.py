"""The adding problem, its model and a training loop in one process: shared by the examples of distributed training.

Each step of a sequence has a number from 0 to 1 and a marker. Two steps are marked, one in each half, and the target is
the sum of their numbers. The constant prediction 1 has a mean squared error of 1/6.
Source: Hochreiter and Schmidhuber, 1997, Long short-term memory.
"""

import argparse

import keras
import numpy as np
import tensorflow as tf

import tf_rnn_ops

TIME = 10
GLOBAL_BATCH = 64  # batch size of a step, summed over all replicas
ERROR_OF_THE_MEAN = 1 / 6


def parse_arguments(description: str) -> argparse.Namespace:
    """Parses the command line and sets the Keras float type."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--steps", type=int, default=500, help="training steps")
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float32", help="floating-point type")
    settings = parser.parse_args()
    if settings.steps < 10:
        parser.error(f"--steps must be at least 10, but is {settings.steps}")
    keras.config.set_floatx(settings.dtype)
    return settings


def sequences(num: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Returns sequences, [num, TIME, 2], and their targets, [num, 1]."""
    random = np.random.default_rng(seed)
    numbers = random.random([num, TIME])
    markers = np.zeros([num, TIME])
    for half in np.split(np.arange(TIME), 2):
        markers[np.arange(num), random.choice(half, num)] = 1
    x = np.stack([numbers, markers], axis=-1)
    y = np.sum(numbers * markers, axis=1, keepdims=True)
    return x.astype(keras.config.floatx()), y.astype(keras.config.floatx())


def batches(steps: int) -> tf.data.Dataset:
    """Returns the batch of each step: sequences, [GLOBAL_BATCH, TIME, 2], and targets, [GLOBAL_BATCH, 1]."""
    return tf.data.Dataset.from_tensor_slices(sequences(steps * GLOBAL_BATCH)).batch(GLOBAL_BATCH)


def build() -> tuple[keras.Model, keras.Optimizer]:
    """Returns a model and its optimizer with all variables created. Every call returns the same initial values."""
    keras.utils.set_random_seed(0)
    lstm = tf_rnn_ops.layers.CudnnLSTM(32)
    model = keras.Sequential([keras.Input([TIME, 2]), lstm, keras.layers.Dense(1)])
    optimizer = keras.optimizers.Adam(0.01)
    optimizer.build(model.trainable_variables)
    return model, optimizer


def train_step(model: keras.Model, optimizer: keras.Optimizer, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Trains on one replica's part of a batch and returns the replica's share of the mean squared error.

    The shares of all replicas sum to the error. The optimizer sums their gradients to the gradient of the error.
    """
    with tf.GradientTape() as tape:
        share = tf.reduce_sum((model(x, training=True) - y) ** 2) / GLOBAL_BATCH
    optimizer.apply(tape.gradient(share, model.trainable_variables), model.trainable_variables)
    return share


def train_alone(steps: int) -> list[float]:
    """Trains without a strategy and returns the error of each step."""
    model, optimizer = build()
    step = tf.function(lambda x, y: train_step(model, optimizer, x, y))
    return [float(step(*batch)) for batch in batches(steps)]


def print_comparison(name: str, losses: list[float], alone: list[float]) -> None:
    """Prints the errors of some steps next to those of a single process, and the largest difference over all steps."""
    print(f"mean squared error (of the constant prediction 1: {ERROR_OF_THE_MEAN:.4f})")
    print(f"  step       alone  {name}")
    for step in sorted({0, 1, *range(0, len(losses), max(1, len(losses) // 5)), len(losses) - 1}):
        print(f"  {step + 1:4}  {alone[step]:.8f}  {losses[step]:.8f}")
    difference = np.max(np.abs(np.subtract(losses, alone)) / np.array(alone))
    print(f"largest relative difference over all steps: {difference:.1e}")
