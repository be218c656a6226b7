"""Trains a model with `fit` on two devices of one machine, `tf.distribute.MirroredStrategy`, and alone.

The devices are two halves of the CPU: they show how it is done, not how to be faster.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import tensorflow as tf
from adding_problem import batches, build, parse_arguments, print_comparison, train_alone

DEVICES = ["CPU:0", "CPU:1"]


def split_cpu(num: int) -> None:
    """Makes devices of the CPU, before TensorFlow has used it."""
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * num)


class StepLosses(keras.callbacks.Callback):
    """Keeps the loss of each step, where Keras would show the mean since the epoch's start."""

    def __init__(self):
        super().__init__()
        self.losses = []

    def on_train_batch_begin(self, batch, logs=None):
        """Forgets the steps before."""
        self.model.reset_metrics()

    def on_train_batch_end(self, batch, logs=None):
        """Keeps the loss."""
        self.losses.append(logs["loss"])


def train_mirrored(steps: int) -> list[float]:
    """Trains on all devices and returns the error of each step."""
    strategy = tf.distribute.MirroredStrategy(DEVICES)
    with strategy.scope():
        model, optimizer = build()
        model.compile(optimizer, "mse")
    step_losses = StepLosses()
    # Each step's batch is divided among the devices.
    model.fit(batches(steps), callbacks=[step_losses], shuffle=False, verbose=0)
    return step_losses.losses


def main() -> None:
    """Trains twice and compares."""
    settings = parse_arguments(__doc__)
    split_cpu(len(DEVICES))
    print_comparison(f"{len(DEVICES)} devices", train_mirrored(settings.steps), train_alone(settings.steps))


if __name__ == "__main__":
    main()
