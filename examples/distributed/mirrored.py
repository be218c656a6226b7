"""Trains a model with `fit` under `tf.distribute.MirroredStrategy` and compares it with training on one device.

Run it with `python examples/distributed/mirrored.py`. The two devices are logical devices of one CPU, so do not expect
a speedup.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import tensorflow as tf
from adding_problem import batches, build, parse_arguments, print_comparison, train_alone

DEVICES = ["CPU:0", "CPU:1"]


def split_cpu(num: int) -> None:
    """Splits the CPU into logical devices. Call it before TensorFlow uses the CPU."""
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * num)


class StepLosses(keras.callbacks.Callback):
    """Records the loss of each step. Keras itself reports the mean since the start of the epoch."""

    def __init__(self):
        super().__init__()
        self.losses = []

    def on_train_batch_begin(self, batch, logs=None):
        """Resets the running mean."""
        self.model.reset_metrics()

    def on_train_batch_end(self, batch, logs=None):
        """Records the loss."""
        self.losses.append(logs["loss"])


def train_mirrored(steps: int) -> list[float]:
    """Trains on all devices and returns the error of each step."""
    strategy = tf.distribute.MirroredStrategy(DEVICES)
    with strategy.scope():
        model, optimizer = build()
        model.compile(optimizer, "mse")
    step_losses = StepLosses()
    # fit splits each batch among the devices.
    model.fit(batches(steps), callbacks=[step_losses], shuffle=False, verbose=0)
    return step_losses.losses


def main() -> None:
    """Trains with and without the strategy and compares."""
    settings = parse_arguments(__doc__)
    split_cpu(len(DEVICES))
    print_comparison(f"{len(DEVICES)} devices", train_mirrored(settings.steps), train_alone(settings.steps))


if __name__ == "__main__":
    main()
