"""Trains a GRU and an LSTM language model on the characters of Python's standard library and samples from the LSTM.

The GRU uses `tf_rnn_ops.layers.GRUBlockCell`; the two-layer LSTM uses `tf_rnn_ops.layers.CudnnRNN`. The metric is bits
per character on held-out files, with unigram and bigram models as baselines. The program then times the training of a
plain Keras LSTM model with and without `accelerate_keras()`.

Run it with `python examples/char_language_model.py`. It requires matplotlib.
"""

import argparse
import os
import pathlib
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import matplotlib
import numpy as np
import tensorflow as tf
from python_source import UNKNOWN, Vocabulary, bigram_bits, read_source, sequences, unigram_bits

import tf_rnn_ops

matplotlib.use("Agg")
import matplotlib.pyplot as plt

PROMPT = "def "
WARM_UP = 2  # steps that are not timed


def parse_arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--files", type=int, help="number of source files to read, None for all")
    parser.add_argument("--units", type=int, default=256, help="units per layer")
    parser.add_argument("--dropout", type=float, default=0.1, help="dropout rate between LSTM layers")
    parser.add_argument("--batch", type=int, default=32, help="batch size")
    parser.add_argument("--time", type=int, default=100, help="sequence length in characters")
    parser.add_argument("--steps", type=int, default=700, help="training steps of each model")
    parser.add_argument("--evaluations", type=int, default=10, help="number of evaluations on the validation files")
    parser.add_argument("--compared-steps", type=int, default=60, help="training steps of each Keras LSTM run")
    parser.add_argument("--seed", type=int, default=0, help="random seed")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("build/demo"), help="folder for the plot")
    settings = parser.parse_args()
    if not 1 <= settings.evaluations <= settings.steps:
        parser.error(f"--evaluations must be between 1 and --steps = {settings.steps}, but is {settings.evaluations}")
    if settings.compared_steps <= WARM_UP:
        parser.error(f"--compared-steps must be more than {WARM_UP}, but is {settings.compared_steps}")
    return settings


def gru(settings: argparse.Namespace) -> list[keras.layers.Layer]:
    """Returns a GRU layer that applies the reset gate before the matrix product."""
    return [keras.layers.RNN(tf_rnn_ops.layers.GRUBlockCell(settings.units), return_sequences=True)]


def lstm(settings: argparse.Namespace) -> list[keras.layers.Layer]:
    """Returns a two-layer LSTM."""
    return [
        tf_rnn_ops.layers.CudnnRNN(
            settings.units,
            rnn_mode="lstm",
            num_layers=2,
            dropout=settings.dropout,
            seed=settings.seed,
            return_sequences=True,
        )
    ]


def keras_lstm(settings: argparse.Namespace) -> list[keras.layers.Layer]:
    """Returns the same two-layer LSTM, built from Keras layers."""
    return [
        keras.layers.LSTM(settings.units, return_sequences=True),
        keras.layers.Dropout(settings.dropout),
        keras.layers.LSTM(settings.units, return_sequences=True),
    ]


TRAINED = {"GRU": gru, "LSTM": lstm}
COLORS = {"GRU": "tab:blue", "LSTM": "tab:orange"}


class BitsPerCharacter(keras.metrics.Mean):
    """The mean cross-entropy of the next character, in bits."""

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch: true characters, [batch, time], and logits, [batch, time, vocabulary_size]."""
        nats = keras.ops.sparse_categorical_crossentropy(y_true, y_pred, from_logits=True)
        return super().update_state(nats / np.log(2), sample_weight)


def build_model(network, vocabulary_size: int, settings: argparse.Namespace) -> keras.Model:
    """Returns a compiled model from characters, [batch, time], to logits of the next, [batch, time, vocabulary_size].

    Args:
      network: maps the settings to the layers between the embedding and the dense layer.
      vocabulary_size: the number of different characters.
      settings: the command-line settings.
    """
    keras.utils.set_random_seed(settings.seed)
    model = keras.Sequential(
        [
            keras.Input([None], dtype="int32"),
            keras.layers.Embedding(vocabulary_size, 64),
            *network(settings),
            keras.layers.Dense(vocabulary_size),
        ]
    )
    learning_rate = keras.optimizers.schedules.CosineDecay(4e-3, settings.steps)
    model.compile(
        optimizer=keras.optimizers.Adam(learning_rate, global_clipnorm=1.0),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[BitsPerCharacter(name="bits")],
    )
    return model


def train(model: keras.Model, training, validation, settings: argparse.Namespace) -> dict[str, list[float]]:
    """Trains for `settings.steps` steps with regular evaluations and returns the history of the metrics."""
    data = tf.data.Dataset.from_tensor_slices(training).shuffle(len(training[0]), seed=settings.seed)
    data = data.repeat().batch(settings.batch).prefetch(2)
    # A progress bar on a terminal, one line per evaluation in a log.
    verbose = 1 if os.isatty(1) else 2
    return model.fit(
        data,
        steps_per_epoch=settings.steps // settings.evaluations,
        epochs=settings.evaluations,
        validation_data=tf.data.Dataset.from_tensor_slices(validation).batch(256),
        shuffle=False,  # already shuffled
        verbose=verbose,
    ).history


class Run:
    """Trains a model step by step and records each step.

    Attributes:
      bits: the loss of each step, in bits per character.
      seconds: the time of each step: forward, backward and update.
    """

    def __init__(self, model: keras.Model):
        self.bits: list[float] = []
        self.seconds: list[float] = []
        self._model = model
        # Traced once, at the first step, which fixes whether the Keras implementation or the op runs.
        self._step = tf.function(model.train_step)

    def step(self, inputs, targets) -> None:
        """Runs one step on a batch: characters and the characters that follow them, [batch, time]."""
        self._model.reset_metrics()
        start = time.perf_counter()
        metrics = self._step((tf.constant(inputs), tf.constant(targets)))
        self.bits.append(float(metrics["bits"]))
        self.seconds.append(time.perf_counter() - start)

    @property
    def step_time(self) -> float:
        """The median step time in milliseconds, without the warm-up steps."""
        return float(np.median(self.seconds[WARM_UP:])) * 1e3


def run_keras_lstm(inputs, targets, vocabulary_size: int, settings: argparse.Namespace) -> tuple[Run, Run]:
    """Trains the Keras LSTM with and without acceleration, from the same weights and on the same batches.

    The two runs alternate step by step, so that load on the machine affects both equally.
    """
    plain, accelerated = (Run(build_model(keras_lstm, vocabulary_size, settings)) for _ in range(2))
    rng = np.random.default_rng(settings.seed)
    for _ in range(settings.compared_steps):
        batch = rng.integers(0, len(inputs), settings.batch)
        plain.step(inputs[batch], targets[batch])
        with tf_rnn_ops.accelerate_keras():
            accelerated.step(inputs[batch], targets[batch])
    return plain, accelerated


def comparison(plain: Run, accelerated: Run) -> str:
    """Returns a summary of both runs."""
    difference = np.max(np.abs(np.subtract(plain.bits, accelerated.bits)))
    return (
        f"The same Keras LSTM model, trained for {len(plain.bits)} steps with and without accelerate_keras():\n"
        f"largest loss difference {difference:.1g} bits; {accelerated.step_time:.0f} ms instead of "
        f"{plain.step_time:.0f} ms per step, a speedup of {plain.step_time / accelerated.step_time:.2f}."
    )


def draw(histories, baselines, plain: Run, accelerated: Run, settings, path: pathlib.Path) -> None:
    """Saves a figure with the curves of the language models and of the Keras LSTM runs."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(14, 5), layout="constrained")
    draw_curves(left, histories, baselines, settings)
    draw_comparison(right, plain, accelerated)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def draw_comparison(axes, plain: Run, accelerated: Run) -> None:
    """Draws the losses of the Keras LSTM runs, one over the other."""
    steps = np.arange(1, len(plain.bits) + 1)
    label = f"without: {plain.step_time:.0f} ms per step"
    axes.plot(steps, plain.bits, color="tab:gray", linewidth=6, alpha=0.5, label=label)
    label = f"with accelerate_keras(): {accelerated.step_time:.0f} ms per step"
    axes.plot(steps, accelerated.bits, color="tab:red", linewidth=1.5, label=label)
    axes.set(xlabel="steps", ylabel="training loss, bits per character", ylim=(0, None))
    axes.set_title(f"A Keras LSTM model, speedup {plain.step_time / accelerated.step_time:.2f}")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(loc="lower left")


def draw_curves(axes, histories: dict[str, dict[str, list[float]]], baselines, settings) -> None:
    """Draws bits per character against steps, with the baselines as lines."""
    steps = np.arange(1, settings.evaluations + 1) * (settings.steps // settings.evaluations)
    for name, history in histories.items():
        final = f"{history['val_bits'][-1]:.2f}"
        axes.plot(steps, history["val_bits"], "o-", color=COLORS[name], label=f"{name}, validation: {final} at the end")
        axes.plot(steps, history["bits"], "--", color=COLORS[name], alpha=0.6, label=f"{name}, training (running mean)")
    for name, bits in baselines.items():
        axes.axhline(bits, color="gray", linestyle=":")
        axes.annotate(
            f"{name} {bits:.2f}", (steps[-1], bits), (0, 4), textcoords="offset points", ha="right", color="gray"
        )
    top = max([*baselines.values(), *(bits for history in histories.values() for bits in history["bits"])]) + 0.5
    axes.set(xlabel="steps", ylabel="bits per character", ylim=(0, top))
    axes.set_title("Character-level language models of Python's standard library")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(loc="lower left")


def write_sample(model: keras.Model, vocabulary: Vocabulary, length: int, seed: int) -> str:
    """Samples `length` characters after the prompt from the LSTM."""
    embedding, trained, dense = model.layers
    # The same network, but it returns only the last output, and the final states.
    rnn = tf_rnn_ops.layers.CudnnRNN.from_config(
        {**trained.get_config(), "return_sequences": False, "return_state": True}
    )
    rnn.build([None, None, embedding.output_dim])
    rnn.set_weights(trained.get_weights())
    rng = np.random.default_rng(seed)
    written = list(vocabulary.encode(PROMPT))
    new, states = written, None
    for _ in range(length):
        output, *states = rnn(embedding(np.array([new])), initial_state=states)
        logits = dense(output).numpy()[0] / 0.7  # sharpened with temperature 0.7
        logits[UNKNOWN] = -np.inf
        probabilities = np.exp(logits - logits.max())
        new = [rng.choice(len(vocabulary), p=probabilities / probabilities.sum())]
        written += new
    return vocabulary.decode(written)


def main() -> None:
    """Trains the models, prints the results and saves the figure."""
    settings = parse_arguments()
    training_text, validation_text = read_source(settings.files)
    vocabulary = Vocabulary(training_text)
    training, validation = vocabulary.encode(training_text), vocabulary.encode(validation_text)
    size = len(vocabulary)
    print(
        f"{len(training) / 1e6:.1f} and {len(validation) / 1e6:.1f} million characters to train and validate on, "
        f"vocabulary size {size}"
    )
    baselines = {
        "unigram": unigram_bits(training, validation, size),
        "bigram": bigram_bits(training, validation, size),
    }
    inputs, targets = sequences(training, settings.time)

    models = {name: build_model(network, size, settings) for name, network in TRAINED.items()}
    histories = {}
    for name, model in models.items():
        print(f"\ntraining the {name}: {model.count_params():,} parameters")
        histories[name] = train(model, (inputs, targets), sequences(validation, settings.time), settings)

    print("\nbits per character on the validation files")
    for name, bits in {**baselines, **{name: history["val_bits"][-1] for name, history in histories.items()}}.items():
        print(f"  {name:8} {bits:.2f}")
    print(f"\nsample of the LSTM, prompt {PROMPT!r}:\n")
    print(write_sample(models["LSTM"], vocabulary, 400, settings.seed))

    print("\ntraining the Keras LSTM with and without accelerate_keras()")
    plain, accelerated = run_keras_lstm(inputs, targets, size, settings)
    curves = settings.output / "char_language_model.png"
    draw(histories, baselines, plain, accelerated, settings, curves)
    print(f"\nplot: {curves.resolve()}\n\n{comparison(plain, accelerated)}")


if __name__ == "__main__":
    main()
