"""Trains a generator of text against an LSTM critic with a gradient penalty, and once more without the penalty.

The critic gives high scores to windows of the source of Python's standard library and low ones to those of a generator.
The difference of the mean scores estimates the Wasserstein distance between the two, provided that the critic's slope
is at most 1. A penalty drives it there: the norm of the gradient of the score with respect to a window, between a real
and a generated one, is to be 1. Training differentiates this gradient, through the LSTM. The norm settles a little
above 1, where the penalty balances what a steeper critic gains. See Gulrajani et al., Improved Training of Wasserstein
GANs, 2017.
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
    """Returns the command line's settings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--files", type=int, default=60, help="how many files of the library to read")
    parser.add_argument("--units", type=int, default=64, help="size of the LSTMs' states")
    parser.add_argument("--noise", type=int, default=16, help="random numbers that each character is made of")
    parser.add_argument("--batch", type=int, default=32, help="windows in a batch")
    parser.add_argument("--time", type=int, default=16, help="characters in a window")
    parser.add_argument("--steps", type=int, default=500, help="steps of the generator")
    parser.add_argument("--critic-steps", type=int, default=5, help="steps of the critic before each of these")
    parser.add_argument("--penalty", type=float, default=10.0, help="weight of the gradient penalty")
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("build/demo"), help="folder for the curves")
    return parser.parse_args()


def read_windows(settings: argparse.Namespace) -> tuple[np.ndarray, Vocabulary]:
    """Returns windows of source code, [windows, time], in a small alphabet, and the vocabulary that it is."""
    text, _ = read_source(settings.files)
    text = re.sub(r"\s+", " ", text.lower())
    text = re.sub(r"[^a-z_ .,:()=]", "", text)
    vocabulary = Vocabulary(text)
    windows, _ = sequences(vocabulary.encode(text), settings.time)
    print(f"{len(windows)} windows of {settings.time} characters, {len(vocabulary)} different")
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
    """Returns an optimizer of a model's weights."""
    optimizer = keras.optimizers.Adam(learning_rate, beta_1=0.5, beta_2=0.9)
    optimizer.build(model.trainable_variables)
    return optimizer


class Measured(NamedTuple):
    """What is measured of each step of the critic."""

    estimate: float  # of the Wasserstein distance
    norm: float  # of the critic's gradient, the mean
    penalty: float  # the mean of (norm - 1)²


class Run:
    """A critic and a generator that are trained against each other.

    Attributes:
      penalty_weight: what the gradient penalty is multiplied by.
      history: what was measured, by steps of the critic.
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
        """Trains on windows of characters, [windows, time], and prints now and then what was measured."""
        settings = self._settings
        rng = np.random.default_rng(settings.seed)
        print(f"\ntraining with {self.penalty_weight:g} times the penalty\n   step  estimate       norm  penalty")
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
        """Takes a step of the critic on windows, [batch, time], and returns what was measured."""
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
        """Takes a step of the generator."""
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
        # With training=True the LSTM keeps what its gradients need.
        return self._critic(windows, training=True)

    def _generated(self, num):
        return self._generator(tf.random.normal([num, self._settings.time, self._settings.noise]), training=True)


def draw_history(axes, run: Run, name: str, color: str, label: str) -> None:
    """Draws what was measured, by the field's name, and its running median."""
    values = np.array([getattr(each, name) for each in run.history])
    width = min(51, len(values))
    medians = np.median(np.lib.stride_tricks.sliding_window_view(values, width), axis=1)
    axes.plot(values, color=color, linewidth=0.5, alpha=0.4)
    axes.plot(np.arange(len(medians)) + width // 2, medians, color=color, linewidth=2, label=label)


def draw(penalized: Run, free: Run, path: pathlib.Path) -> None:
    """Saves the norms and the estimates of a run with the penalty, beside those of one without."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(16, 4.5), layout="constrained")
    for run, color in ((penalized, "tab:blue"), (free, "tab:red")):
        label = f"λ = {run.penalty_weight:g}"
        draw_history(middle, run, "norm", color, label)
        draw_history(right, run, "estimate", color, label)
    draw_history(left, penalized, "norm", "tab:blue", f"λ = {penalized.penalty_weight:g}")
    left.set(
        title="The slope of an LSTM critic with a gradient penalty", ylabel="mean norm of the gradient", ylim=(0, 2)
    )
    middle.set(title="... and without", ylabel="mean norm of the gradient", yscale="log")
    right.set(title="Estimate of the Wasserstein distance", ylabel="mean score of real less generated windows")
    right.set_yscale("symlog", linthresh=10)
    for axes in (left, middle):
        axes.axhline(1, color="black", linestyle="--", linewidth=1, label="target: 1")
    for axes in (left, middle, right):
        axes.set(xlabel="steps of the critic")
        axes.grid(axis="y", alpha=0.3)
        axes.legend(loc="upper left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Trains with and without the penalty, writes and draws."""
    settings = parse_arguments()
    windows, vocabulary = read_windows(settings)
    penalized, free = (Run(len(vocabulary), weight, settings) for weight in (settings.penalty, 0.0))
    for run in (penalized, free):
        run.train(windows)
        print("what the generator writes: " + " ".join(repr(vocabulary.decode(each)) for each in run.generate(5)))

    curves = settings.output / "wgan_gp.png"
    draw(penalized, free, curves)
    print(f"\ncurves: {curves.resolve()}")
    norms = f"{penalized.last_norm:,.3f} with the penalty, {free.last_norm:,.3f} without"
    print(f"mean norm of the critic's gradient in the last tenth of the steps: {norms}")


if __name__ == "__main__":
    main()
