"""Trains character-level language models on the source of Python's standard library and lets one write some.

Each is an embedding, a recurrent network and a dense layer: a GRU made of `tf_rnn_ops.layers.GRUBlockCell`, and two
layers of LSTM with dropout between them, `tf_rnn_ops.layers.CudnnRNN`. Their measure is bits per character on files
that they have not seen, beside a unigram and a bigram model that are counted on the same split. At last the same
network made of Keras's own LSTM layers is trained for a while, once as it is and once accelerated.
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
    """Returns the command line's settings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--files", type=int, help="how many files of the library to read, None for all")
    parser.add_argument("--units", type=int, default=256, help="size of a layer's state")
    parser.add_argument("--dropout", type=float, default=0.1, help="share of the numbers dropped between LSTM layers")
    parser.add_argument("--batch", type=int, default=32, help="sequences in a batch")
    parser.add_argument("--time", type=int, default=100, help="characters in a sequence")
    parser.add_argument("--steps", type=int, default=700, help="batches to train each model on")
    parser.add_argument("--evaluations", type=int, default=10, help="how often to look at the validation files")
    parser.add_argument("--compared-steps", type=int, default=60, help="batches to train Keras's LSTM on, twice")
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("build/demo"), help="folder for the curves")
    settings = parser.parse_args()
    if not 1 <= settings.evaluations <= settings.steps:
        parser.error(f"--evaluations must be between 1 and --steps = {settings.steps}, but is {settings.evaluations}")
    if settings.compared_steps <= WARM_UP:
        parser.error(f"--compared-steps must be more than {WARM_UP}, but is {settings.compared_steps}")
    return settings


def gru(settings: argparse.Namespace) -> list[keras.layers.Layer]:
    """Returns a GRU that resets the state before the matrix product."""
    return [keras.layers.RNN(tf_rnn_ops.layers.GRUBlockCell(settings.units), return_sequences=True)]


def lstm(settings: argparse.Namespace) -> list[keras.layers.Layer]:
    """Returns two layers of LSTM."""
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
    """Returns the same two layers of LSTM, made of Keras's own."""
    return [
        keras.layers.LSTM(settings.units, return_sequences=True),
        keras.layers.Dropout(settings.dropout),
        keras.layers.LSTM(settings.units, return_sequences=True),
    ]


# The networks that are trained, with their names.
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
      network: a function from the settings to the layers between the embedding and the dense layer.
      vocabulary_size: the number of different characters.
      settings: the command line's.
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
    """Trains for the number of steps that was asked for and returns the metrics, evaluated in between."""
    data = tf.data.Dataset.from_tensor_slices(training).shuffle(len(training[0]), seed=settings.seed)
    data = data.repeat().batch(settings.batch).prefetch(2)
    # The progress bar is for a terminal; in a log it is one line an evaluation.
    verbose = 1 if os.isatty(1) else 2
    return model.fit(
        data,
        steps_per_epoch=settings.steps // settings.evaluations,
        epochs=settings.evaluations,
        validation_data=tf.data.Dataset.from_tensor_slices(validation).batch(256),
        shuffle=False,  # the data set has been
        verbose=verbose,
    ).history


class Run:
    """Steps of training a model, and what was measured of them.

    Attributes:
      bits: the loss of each step, in bits per character.
      seconds: the time that each took: forward, backward and update.
    """

    def __init__(self, model: keras.Model):
        self.bits: list[float] = []
        self.seconds: list[float] = []
        self._model = model
        # Traced once, at the first step: what runs then, Keras's path or the op, runs from then on.
        self._step = tf.function(model.train_step)

    def step(self, inputs, targets) -> None:
        """Takes one step on a batch: characters and those that come next, [batch, time]."""
        self._model.reset_metrics()
        start = time.perf_counter()
        metrics = self._step((tf.constant(inputs), tf.constant(targets)))
        self.bits.append(float(metrics["bits"]))
        self.seconds.append(time.perf_counter() - start)

    @property
    def step_time(self) -> float:
        """The median time of a step in milliseconds, but for the first few."""
        return float(np.median(self.seconds[WARM_UP:])) * 1e3


def run_keras_lstm(inputs, targets, vocabulary_size: int, settings: argparse.Namespace) -> tuple[Run, Run]:
    """Trains Keras's LSTM as it is and accelerated, from the same weights and on the same batches.

    The two take turns, so that whatever else the machine does hits both alike.
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
    """Returns in one sentence what acceleration brings."""
    difference = np.max(np.abs(np.subtract(plain.bits, accelerated.bits)))
    return (
        f"The same Keras LSTM model, trained for {len(plain.bits)} steps with and without accelerate_keras():\n"
        f"losses that differ by at most {difference:.1g} bits, and steps of {accelerated.step_time:.0f} ms instead of "
        f"{plain.step_time:.0f}, {plain.step_time / accelerated.step_time:.2f} times as fast."
    )


def draw(histories, baselines, plain: Run, accelerated: Run, settings, path: pathlib.Path) -> None:
    """Saves the curves of the language models, beside those of Keras's LSTM as it is and accelerated."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(14, 5), layout="constrained")
    draw_curves(left, histories, baselines, settings)
    draw_comparison(right, plain, accelerated)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def draw_comparison(axes, plain: Run, accelerated: Run) -> None:
    """Draws the losses of Keras's LSTM as it is and accelerated, one upon the other."""
    steps = np.arange(1, len(plain.bits) + 1)
    label = f"as it is: {plain.step_time:.0f} ms per step"
    axes.plot(steps, plain.bits, color="tab:gray", linewidth=6, alpha=0.5, label=label)
    label = f"with accelerate_keras(): {accelerated.step_time:.0f} ms per step"
    axes.plot(steps, accelerated.bits, color="tab:red", linewidth=1.5, label=label)
    axes.set(xlabel="steps", ylabel="training loss, bits per character", ylim=(0, None))
    axes.set_title(f"A Keras LSTM model, {plain.step_time / accelerated.step_time:.2f} times as fast")
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
    """Lets the LSTM write `length` characters after the prompt."""
    embedding, trained, dense = model.layers
    # The same network, which gives back the output and the states after the last step only.
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
        logits = dense(output).numpy()[0] / 0.7  # a little bolder than the model is
        logits[UNKNOWN] = -np.inf
        probabilities = np.exp(logits - logits.max())
        new = [rng.choice(len(vocabulary), p=probabilities / probabilities.sum())]
        written += new
    return vocabulary.decode(written)


def main() -> None:
    """Trains, compares, writes and draws."""
    settings = parse_arguments()
    training_text, validation_text = read_source(settings.files)
    vocabulary = Vocabulary(training_text)
    training, validation = vocabulary.encode(training_text), vocabulary.encode(validation_text)
    size = len(vocabulary)
    print(f"{len(training) / 1e6:.1f} and {len(validation) / 1e6:.1f} million characters, {size} different")
    baselines = {
        "unigram": unigram_bits(training, validation, size),
        "bigram": bigram_bits(training, validation, size),
    }
    inputs, targets = sequences(training, settings.time)

    models = {name: build_model(network, size, settings) for name, network in TRAINED.items()}
    histories = {}
    for name, model in models.items():
        print(f"\ntraining the {name}, {model.count_params():,} weights")
        histories[name] = train(model, (inputs, targets), sequences(validation, settings.time), settings)

    print("\nbits per character on the validation files")
    for name, bits in {**baselines, **{name: history["val_bits"][-1] for name, history in histories.items()}}.items():
        print(f"  {name:8} {bits:.2f}")
    print(f"\nwhat the LSTM writes after {PROMPT!r}:\n")
    print(write_sample(models["LSTM"], vocabulary, 400, settings.seed))

    print("\ntraining Keras's own LSTM, as it is and accelerated")
    plain, accelerated = run_keras_lstm(inputs, targets, size, settings)
    curves = settings.output / "char_language_model.png"
    draw(histories, baselines, plain, accelerated, settings, curves)
    print(f"\ncurves: {curves.resolve()}\n\n{comparison(plain, accelerated)}")


if __name__ == "__main__":
    main()
