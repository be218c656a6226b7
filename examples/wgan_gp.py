"""Trains a Wasserstein GAN on text, with an LSTM critic, with and without a gradient penalty.

The critic scores windows of source code from Python's standard library (high) and generated windows (low). The
difference of the mean scores estimates the Wasserstein distance if the critic's slope is at most 1. The penalty
(norm - 1)² enforces that: norm is the norm of the score's gradient with respect to an interpolation between a real and
a generated window. Training therefore differentiates a gradient through the LSTM. The norm settles slightly above 1,
where the penalty balances the gain from a steeper critic. Source: Gulrajani et al., Improved Training of Wasserstein
GANs, 2017.

Run it with `python examples/wgan_gp.py`. It requires matplotlib.
"""

import argparse
import os
import pathlib
import re
from typing import NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import matplotlib
import numpy as np
import tensorflow as tf
from python_source import Vocabulary, read_source, sequences

from tf_rnn_ops.layers import LSTM

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def parse_arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--files", type=int, default=60, help="number of source files to read")
    parser.add_argument("--units", type=int, default=64, help="units per LSTM")
    parser.add_argument("--noise", type=int, default=16, help="noise features per character")
    parser.add_argument("--batch", type=int, default=32, help="batch size, in windows")
    parser.add_argument("--time", type=int, default=16, help="window length in characters")
    parser.add_argument("--steps", type=int, default=500, help="generator steps")
    parser.add_argument("--critic-steps", type=int, default=5, help="critic steps per generator step")
    parser.add_argument("--penalty", type=float, default=10.0, help="weight of the gradient penalty")
    parser.add_argument("--seed", type=int, default=0, help="random seed")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("build/demo"), help="folder for the plot")
    return parser.parse_args()


def read_windows(settings: argparse.Namespace) -> tuple[np.ndarray, Vocabulary]:
    """Returns windows of source code in a small alphabet, [windows, time], and their vocabulary."""
    text, _ = read_source(settings.files)
    text = re.sub(r"\s+", " ", text.lower())
    text = re.sub(r"[^a-z_ .,:()=]", "", text)
    vocabulary = Vocabulary(text)
    windows, _ = sequences(vocabulary.encode(text), settings.time)
    print(f"{len(windows)} windows of {settings.time} characters, vocabulary size {len(vocabulary)}")
    return windows, vocabulary


def build_critic(vocabulary_size: int, settings: argparse.Namespace) -> keras.Model:
    """Returns a model from windows, [batch, time, vocabulary_size], to scores, [batch, 1]."""
    return keras.Sequential(
        [
            keras.Input([settings.time, vocabulary_size]),
            LSTM(settings.units),
            keras.layers.Dense(1),
        ]
    )


def build_generator(vocabulary_size: int, settings: argparse.Namespace) -> keras.Model:
    """Returns a model from noise, [batch, time, noise], to probabilities, [batch, time, vocabulary_size]."""
    return keras.Sequential(
        [
            keras.Input([settings.time, settings.noise]),
            LSTM(settings.units, return_sequences=True),
            keras.layers.Dense(vocabulary_size, activation="softmax"),
        ]
    )


def build_optimizer(learning_rate: float, model: keras.Model) -> keras.optimizers.Optimizer:
    """Returns an optimizer for the weights of a model."""
    optimizer = keras.optimizers.Adam(learning_rate, beta_1=0.5, beta_2=0.9)
    optimizer.build(model.trainable_variables)
    return optimizer


class Measured(NamedTuple):
    """Measurements of one critic step."""

    estimate: float  # of the Wasserstein distance
    norm: float  # mean norm of the critic's gradient
    penalty: float  # the mean of (norm - 1)²


class Run:
    """Trains a critic and a generator against each other.

    Attributes:
      penalty_weight: the weight of the gradient penalty.
      history: the measurements of each critic step.
    """

    def __init__(self, vocabulary_size: int, penalty_weight: float, settings: argparse.Namespace):
        keras.utils.set_random_seed(settings.seed)
        self.penalty_weight = penalty_weight
        self.history: list[Measured] = []
        self._vocabulary_size = vocabulary_size
        self._settings = settings
        self._critic = build_critic(vocabulary_size, settings)
        self._generator = build_generator(vocabulary_size, settings)
        self._critic_optimizer = build_optimizer(2e-3, self._critic)
        self._generator_optimizer = build_optimizer(3e-3, self._generator)

    @property
    def last_norm(self) -> float:
        """The mean norm over the last tenth of the steps."""
        return float(np.mean([each.norm for each in self.history[-max(1, len(self.history) // 10) :]]))

    def train(self, windows: np.ndarray) -> None:
        """Trains on windows of characters, [windows, time], and prints measurements at intervals."""
        settings = self._settings
        rng = np.random.default_rng(settings.seed)
        print(f"\ntraining with penalty weight {self.penalty_weight:g}\n   step  estimate       norm  penalty")
        for step in range(1, settings.steps + 1):
            for _ in range(settings.critic_steps):
                batch = windows[rng.integers(0, len(windows), settings.batch)]
                self.history.append(Measured(*map(float, self._train_critic(batch))))
            self._train_generator()
            if step == 1 or step % max(1, settings.steps // 10) == 0:
                estimate, norm, penalty = self.history[-1]
                print(f"{step:7} {estimate:9.3f} {norm:10.3f} {penalty:8.2g}")

    def generate(self, num: int) -> np.ndarray:
        """Returns generated windows, [num, time]: the most probable characters."""
        return tf.argmax(self._generated(num), axis=2).numpy()

    @tf.function
    def _train_critic(self, windows):
        """Runs a critic step on windows, [batch, time]."""
        real = tf.one_hot(windows, self._vocabulary_size)
        generated = self._generated(self._settings.batch)
        share = tf.random.uniform([self._settings.batch, 1, 1])
        with tf.GradientTape() as tape:
            norms = self._gradient_norms(share * real + (1 - share) * generated)
            penalty = tf.reduce_mean((norms - 1) ** 2)
            scores = self._scores(tf.concat([real, generated], axis=0))
            estimate = tf.reduce_mean(scores[: len(real)]) - tf.reduce_mean(scores[len(real) :])
            loss = self.penalty_weight * penalty - estimate if self.penalty_weight else -estimate
        gradients = tape.gradient(loss, self._critic.trainable_variables)
        self._critic_optimizer.apply(gradients, self._critic.trainable_variables)
        return Measured(estimate, tf.reduce_mean(norms), penalty)

    @tf.function
    def _train_generator(self):
        """Runs a generator step."""
        with tf.GradientTape() as tape:
            loss = -tf.reduce_mean(self._scores(self._generated(self._settings.batch)))
        gradients = tape.gradient(loss, self._generator.trainable_variables)
        self._generator_optimizer.apply(gradients, self._generator.trainable_variables)

    def _gradient_norms(self, windows):
        """Returns the norm of the gradient of each score with respect to its window, [batch]."""
        with tf.GradientTape() as tape:
            tape.watch(windows)
            scores = self._scores(windows)
        return tf.norm(tape.gradient(scores, windows), axis=[1, 2])

    def _scores(self, windows):
        # With training=True the LSTM stores the activations that its gradients need.
        return self._critic(windows, training=True)

    def _generated(self, num):
        return self._generator(tf.random.normal([num, self._settings.time, self._settings.noise]), training=True)


def draw_history(axes, run: Run, name: str, color: str, label: str) -> None:
    """Draws one field of the measurements and its running median."""
    values = np.array([getattr(each, name) for each in run.history])
    width = min(51, len(values))
    medians = np.median(np.lib.stride_tricks.sliding_window_view(values, width), axis=1)
    axes.plot(values, color=color, linewidth=0.5, alpha=0.4)
    axes.plot(np.arange(len(medians)) + width // 2, medians, color=color, linewidth=2, label=label)


def draw(penalized: Run, free: Run, path: pathlib.Path) -> None:
    """Saves a figure of the norms and the estimates of both runs."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(16, 4.5), layout="constrained")
    for run, color in ((penalized, "tab:blue"), (free, "tab:red")):
        label = f"λ = {run.penalty_weight:g}"
        draw_history(middle, run, "norm", color, label)
        draw_history(right, run, "estimate", color, label)
    draw_history(left, penalized, "norm", "tab:blue", f"λ = {penalized.penalty_weight:g}")
    left.set(
        title="Gradient norm of an LSTM critic with a gradient penalty", ylabel="mean norm of the gradient", ylim=(0, 2)
    )
    middle.set(title="Gradient norm with and without the penalty", ylabel="mean norm of the gradient", yscale="log")
    right.set(title="Estimate of the Wasserstein distance", ylabel="mean score of real minus generated windows")
    right.set_yscale("symlog", linthresh=10)
    for axes in (left, middle):
        axes.axhline(1, color="black", linestyle="--", linewidth=1, label="target: 1")
    for axes in (left, middle, right):
        axes.set(xlabel="critic steps")
        axes.grid(axis="y", alpha=0.3)
        axes.legend(loc="upper left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Trains with and without the penalty, prints samples and saves the figure."""
    settings = parse_arguments()
    windows, vocabulary = read_windows(settings)
    penalized, free = (Run(len(vocabulary), weight, settings) for weight in (settings.penalty, 0.0))
    for run in (penalized, free):
        run.train(windows)
        print("generated windows: " + " ".join(repr(vocabulary.decode(each)) for each in run.generate(5)))

    curves = settings.output / "wgan_gp.png"
    draw(penalized, free, curves)
    print(f"\nplot: {curves.resolve()}")
    norms = f"{penalized.last_norm:,.3f} with the penalty, {free.last_norm:,.3f} without"
    print(f"mean norm of the critic's gradient over the last tenth of the steps: {norms}")


if __name__ == "__main__":
    main()
