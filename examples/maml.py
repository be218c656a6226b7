"""Meta-learns a GRU with MAML and compares it with first-order MAML and with joint training.

Each task is an oscillator with its own frequency and damping; the GRU predicts the position from the force at each
step. It adapts to a task by a few steps of gradient descent on the sequences of the support set. MAML trains the
initial weights such that these steps lead to a low loss on the query set. It differentiates through the steps, which
requires second-order gradients of the GRU. First-order MAML treats the gradients of the steps as constants. Joint
training fits all tasks without adaptation. Source: Finn et al., Model-Agnostic Meta-Learning for Fast Adaptation of
Deep Networks, 2017.

Run it with `python examples/maml.py`. It requires matplotlib.
"""

import argparse
import os
import pathlib
from typing import Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import matplotlib
import numpy as np
import tensorflow as tf

from tf_rnn_ops.layers import GRU

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def parse_arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--units", type=int, default=32, help="units of the GRU")
    parser.add_argument("--time", type=int, default=20, help="sequence length in time steps")
    parser.add_argument("--shots", type=int, default=8, help="sequences per support set and per query set")
    parser.add_argument("--tasks", type=int, default=8, help="batch size, in tasks")
    parser.add_argument("--steps", type=int, default=1000, help="training steps of each network")
    parser.add_argument("--inner-steps", type=int, default=2, help="gradient steps on each support set in training")
    parser.add_argument(
        "--inner-rate", type=float, default=0.02, help="learning rate of the gradient steps in training"
    )
    parser.add_argument("--unseen-tasks", type=int, default=100, help="number of tasks for the comparison")
    parser.add_argument(
        "--unseen-steps", type=int, default=10, help="gradient steps on each support set in the comparison"
    )
    parser.add_argument("--seed", type=int, default=0, help="random seed")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("build/demo"), help="folder for the plot")
    return parser.parse_args()


class Tasks(NamedTuple):
    """Forces (x) and positions (y), each [tasks, shots, time, 1], or [shots, time, 1] for a single task."""

    support_x: Any
    support_y: Any
    query_x: Any
    query_y: Any


def sample_tasks(num: int, rng: np.random.Generator, settings: argparse.Namespace) -> Tasks:
    """Returns sequences of random forces on `num` oscillators and of their positions, scaled to variance 1."""
    frequency, decay = rng.uniform(0.3, 1.5, [num, 1]), rng.uniform(0.7, 0.95, [num, 1])
    x = rng.normal(size=[num, 2 * settings.shots, settings.time])
    y = np.zeros([num, 2 * settings.shots, settings.time + 2])  # starts with two steps at rest
    for t in range(settings.time):
        y[:, :, t + 2] = 2 * decay * np.cos(frequency) * y[:, :, t + 1] - decay**2 * y[:, :, t] + x[:, :, t] / 2
    y = y[:, :, 2:] / y[:, :, 2:].std(axis=(1, 2), keepdims=True)
    x, y = (each[..., np.newaxis].astype("float32") for each in (x, y))
    return Tasks(x[:, : settings.shots], y[:, : settings.shots], x[:, settings.shots :], y[:, settings.shots :])


def build_model(settings: argparse.Namespace) -> keras.Model:
    """Returns a model from forces to positions, each [batch, time, 1]."""
    keras.utils.set_random_seed(settings.seed)
    return keras.Sequential(
        [
            keras.Input([None, 1]),
            GRU(settings.units, return_sequences=True),
            keras.layers.Dense(1),
        ]
    )


def own_weights(model: keras.Model):
    """Returns a model's weights as tensors."""
    return [tf.convert_to_tensor(variable) for variable in model.trainable_variables]


def predict(model: keras.Model, weights, x):
    """Returns the positions that a model with the given weights predicts for forces, both [batch, time, 1]."""
    y, _ = model.stateless_call(weights, model.non_trainable_variables, x, training=True)
    return y


def mean_squared_error(model: keras.Model, weights, x, y):
    """Returns the loss of a model with the given weights."""
    return tf.reduce_mean((predict(model, weights, x) - y) ** 2)


def descend(model: keras.Model, weights, x, y, rate, first_order=False):
    """Returns the weights after a differentiable step of gradient descent."""
    with tf.GradientTape() as tape:
        tape.watch(weights)
        loss = mean_squared_error(model, weights, x, y)
    gradients = tape.gradient(loss, weights)
    if first_order:
        gradients = [tf.stop_gradient(gradient) for gradient in gradients]
    return [weight - rate * gradient for weight, gradient in zip(weights, gradients, strict=True)]


def maml_loss(model: keras.Model, weights, task: Tasks, settings, first_order=False):
    """Returns the loss on the query set after the inner gradient steps on the support set."""
    for _ in range(settings.inner_steps):
        weights = descend(model, weights, task.support_x, task.support_y, settings.inner_rate, first_order)
    return mean_squared_error(model, weights, task.query_x, task.query_y)


def first_order_loss(model: keras.Model, weights, task: Tasks, settings):
    """Returns the MAML loss with first-order gradients only."""
    return maml_loss(model, weights, task, settings, first_order=True)


def joint_loss(model: keras.Model, weights, task: Tasks, settings):
    """Returns the loss on both sets without adaptation."""
    del settings
    x, y = tf.concat([task.support_x, task.query_x], 0), tf.concat([task.support_y, task.query_y], 0)
    return mean_squared_error(model, weights, x, y)


# The training loss of each network.
LOSSES = {"MAML": maml_loss, "first-order MAML": first_order_loss, "joint training": joint_loss}
COLORS = {"MAML": "tab:blue", "first-order MAML": "tab:orange", "joint training": "tab:green"}


def trainer(model: keras.Model, loss_of_task, settings: argparse.Namespace):
    """Returns a function that runs a training step on tasks and returns their mean loss."""
    learning_rate = keras.optimizers.schedules.CosineDecay(3e-3, settings.steps)
    optimizer = keras.optimizers.Adam(learning_rate, global_clipnorm=1.0)
    optimizer.build(model.trainable_variables)

    def differentiate(task):
        with tf.GradientTape() as tape:
            loss = loss_of_task(model, own_weights(model), task, settings)
        return loss, tape.gradient(loss, model.trainable_variables)

    @tf.function
    def step(tasks):
        types = tf.float32, [tf.float32] * len(model.trainable_variables)
        losses, gradients = tf.map_fn(differentiate, tasks, fn_output_signature=types)
        optimizer.apply([tf.reduce_mean(each, axis=0) for each in gradients], model.trainable_variables)
        return tf.reduce_mean(losses)

    return step


def train(name: str, settings: argparse.Namespace) -> keras.Model:
    """Trains a network and prints its loss at intervals."""
    model = build_model(settings)
    step = trainer(model, LOSSES[name], settings)
    rng = np.random.default_rng(settings.seed)
    print(f"\n{name}\n   step     loss")
    losses = []
    every = max(1, settings.steps // 5)
    for i in range(1, settings.steps + 1):
        losses.append(float(step(sample_tasks(settings.tasks, rng, settings))))
        if i % every == 0:
            print(f"{i:7} {np.mean(losses[-every:]):8.3f}")
    return model


def tester(model: keras.Model, settings: argparse.Namespace):
    """Returns a function from tasks and a rate to the mean query losses after 0, 1, ... gradient steps."""

    @tf.function
    def losses(tasks, rate):
        def losses_of_task(task):
            weights = own_weights(model)
            losses = [mean_squared_error(model, weights, task.query_x, task.query_y)]
            for _ in range(settings.unseen_steps):
                weights = descend(model, weights, task.support_x, task.support_y, rate)
                losses.append(mean_squared_error(model, weights, task.query_x, task.query_y))
            return tf.stack(losses)

        return tf.reduce_mean(tf.map_fn(losses_of_task, tasks, fn_output_signature=tf.float32), axis=0)

    return losses


class Adaptation(NamedTuple):
    """How a network adapts to unseen tasks."""

    rate: float  # learning rate of the gradient steps on the support sets
    losses: np.ndarray  # mean query losses after 0, 1, ... gradient steps


def adapt(model: keras.Model, tasks: Tasks, others: Tasks, settings: argparse.Namespace) -> Adaptation:
    """Returns how a network adapts to `tasks`, at the learning rate that works best on `others`."""
    test = tester(model, settings)
    rates = settings.inner_rate * np.array([0.5, 1, 2, 4, 8, 16], "float32")
    best = rates[np.nanargmin([np.mean(test(others, tf.constant(rate))) for rate in rates])]
    return Adaptation(best, test(tasks, tf.constant(best)).numpy())


def print_table(adaptations: dict[str, Adaptation], settings: argparse.Namespace) -> None:
    """Prints the query losses of each network by gradient steps, and their learning rate."""
    print(f"\nquery loss on {settings.unseen_tasks} unseen tasks, by gradient steps on their support sets")
    print("steps" + "".join(f"{name:>18}" for name in adaptations))
    for step in range(settings.unseen_steps + 1):
        print(f"{step:5}" + "".join(f"{each.losses[step]:18.4f}" for each in adaptations.values()))
    print(" rate" + "".join(f"{each.rate:18.2g}" for each in adaptations.values()))


def draw_losses(axes, adaptations: dict[str, Adaptation], settings: argparse.Namespace) -> None:
    """Draws the query losses of each network by gradient steps."""
    for name, (rate, losses) in adaptations.items():
        axes.plot(losses, "o-", color=COLORS[name], label=f"{name}, learning rate {rate:.2g}")
    axes.axvline(settings.inner_steps, color="gray", linestyle=":", label="inner steps in training")
    axes.set(xlabel=f"gradient steps on {settings.shots} sequences", ylabel="unexplained variance")
    axes.set_yscale("log")
    axes.set_yticks([0.01, 0.03, 0.1, 0.3, 1], ["1 %", "3 %", "10 %", "30 %", "100 %"])
    axes.minorticks_off()
    axes.set_title(f"Query loss, mean over {settings.unseen_tasks} unseen oscillators")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(loc="upper right")


def draw_positions(axes, models: dict[str, keras.Model], adaptations, task: Tasks, settings) -> None:
    """Draws the positions of an oscillator and the predictions of networks before and after adaptation."""
    axes.plot(task.query_y[0, :, 0], color="black", linewidth=5, alpha=0.3, label="true position")
    some = settings.inner_steps
    for name, steps, style in (("MAML", 0, ":"), ("MAML", some, "-"), ("joint training", some, "-")):
        weights = own_weights(models[name])
        for _ in range(steps):
            weights = descend(models[name], weights, task.support_x, task.support_y, adaptations[name].rate)
        predicted = predict(models[name], weights, task.query_x)
        axes.plot(predicted[0, :, 0], style, color=COLORS[name], label=f"{name}, {steps} steps")
    axes.set(xlabel="time", ylabel="position under a random force", title="Predictions for one oscillator")
    axes.set_ylim(top=axes.get_ylim()[1] + 1)  # room for the legend
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(axis="y", alpha=0.3)
    axes.legend(loc="upper center", ncols=2)


def main() -> None:
    """Trains the networks, prints the comparison and saves the figure."""
    settings = parse_arguments()
    models = {name: train(name, settings) for name in LOSSES}

    rng = np.random.default_rng([settings.seed, 1])
    tasks, others = (sample_tasks(settings.unseen_tasks, rng, settings) for _ in range(2))
    adaptations = {name: adapt(model, tasks, others, settings) for name, model in models.items()}
    print_table(adaptations, settings)

    figure, (left, right) = plt.subplots(1, 2, figsize=(14, 5), layout="constrained")
    draw_losses(left, adaptations, settings)
    draw_positions(right, models, adaptations, Tasks(*(each[0] for each in tasks)), settings)
    curves = settings.output / "maml.png"
    curves.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(curves, dpi=120)
    print(f"\nplot: {curves.resolve()}")


if __name__ == "__main__":
    main()
