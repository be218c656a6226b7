"""Trains a character-level language model on the source of Python's standard library and lets it write some.

The network is an embedding, a GRU made of `tf_rnn_ops.layers.GRUBlockCell` and a dense layer. Its measure is bits per
character on files that it has not seen, beside a unigram and a bigram model that are counted on the same split.
"""

import argparse
import os
import pathlib
import sysconfig

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import matplotlib
import numpy as np
import tensorflow as tf

import tf_rnn_ops

matplotlib.use("Agg")
import matplotlib.pyplot as plt

VALIDATION_EVERY = 20  # every 20th file is for validation
UNKNOWN = 0  # stands for every character outside the vocabulary
PROMPT = "def "


def parse_arguments() -> argparse.Namespace:
    """Returns the command line's settings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--units", type=int, default=256, help="size of the GRU's state")
    parser.add_argument("--batch", type=int, default=64, help="sequences in a batch")
    parser.add_argument("--time", type=int, default=100, help="characters in a sequence")
    parser.add_argument("--steps", type=int, default=1000, help="batches to train on")
    parser.add_argument("--evaluations", type=int, default=10, help="how often to look at the validation files")
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("build/demo"), help="folder for the curve")
    return parser.parse_args()


def read_source() -> tuple[str, str]:
    """Returns the texts to train on and to validate on: the standard library's modules, split by file."""
    library = pathlib.Path(sysconfig.get_path("stdlib"))
    skipped = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3"}
    files = [
        path for path in sorted(library.rglob("*.py")) if not skipped.intersection(path.relative_to(library).parts)
    ]
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in files]
    validation = texts[::VALIDATION_EVERY]
    training = [text for i, text in enumerate(texts) if i % VALIDATION_EVERY]
    print(f"{len(training)} files to train on, {len(validation)} for validation, from {library}")
    return "".join(training), "".join(validation)


class Vocabulary:
    """Numbers for the characters that occur more than once in a million."""

    def __init__(self, text: str):
        characters, counts = np.unique(np.array(list(text)), return_counts=True)
        self.characters = ["\N{REPLACEMENT CHARACTER}", *characters[counts > len(text) * 1e-6]]
        self._numbers = {character: number for number, character in enumerate(self.characters)}

    def __len__(self):
        return len(self.characters)

    def encode(self, text: str) -> np.ndarray:
        """Returns the characters' numbers."""
        return np.array([self._numbers.get(character, UNKNOWN) for character in text], dtype=np.int32)

    def decode(self, numbers) -> str:
        """Returns the characters of the numbers."""
        return "".join(self.characters[number] for number in numbers)


def unigram_bits(training: np.ndarray, validation: np.ndarray, size: int) -> float:
    """Returns bits per character when each is guessed by how often it occurs."""
    counts = np.bincount(training, minlength=size) + 1.0
    return float(-np.mean(np.log2(counts / counts.sum())[validation]))


def bigram_bits(training: np.ndarray, validation: np.ndarray, size: int) -> float:
    """Returns bits per character when each is guessed by how often it follows the one before."""
    counts = np.ones([size, size])
    np.add.at(counts, (training[:-1], training[1:]), 1)
    log_probabilities = np.log2(counts / counts.sum(axis=1, keepdims=True))
    return float(-np.mean(log_probabilities[validation[:-1], validation[1:]]))


def sequences(text: np.ndarray, time: int) -> tuple[np.ndarray, np.ndarray]:
    """Cuts a text into inputs and targets, one character on; each [sequences, time]."""
    num = (len(text) - 1) // time
    return text[: num * time].reshape(num, time), text[1 : num * time + 1].reshape(num, time)


def build_model(vocabulary_size: int, units: int) -> keras.Model:
    """Returns a model from characters, [batch, time], to the next ones' logits, [batch, time, vocabulary_size]."""
    return keras.Sequential(
        [
            keras.Input([None], dtype="int32"),
            keras.layers.Embedding(vocabulary_size, 64),
            keras.layers.RNN(tf_rnn_ops.layers.GRUBlockCell(units), return_sequences=True),
            keras.layers.Dense(vocabulary_size),
        ]
    )


class BitsPerCharacter(keras.metrics.Mean):
    """The mean cross-entropy of the next character, in bits."""

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch: true characters, [batch, time], and logits, [batch, time, vocabulary_size]."""
        nats = keras.ops.sparse_categorical_crossentropy(y_true, y_pred, from_logits=True)
        return super().update_state(nats / np.log(2), sample_weight)


def train(model: keras.Model, training, validation, settings: argparse.Namespace) -> keras.callbacks.History:
    """Trains for the number of steps that was asked for and evaluates in between."""
    steps = settings.steps // settings.evaluations
    learning_rate = keras.optimizers.schedules.CosineDecay(4e-3, settings.steps)
    model.compile(
        optimizer=keras.optimizers.Adam(learning_rate, global_clipnorm=1.0),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[BitsPerCharacter(name="bits")],
    )
    data = tf.data.Dataset.from_tensor_slices(training).shuffle(len(training[0]), seed=settings.seed)
    data = data.repeat().batch(settings.batch).prefetch(2)
    # The progress bar is for a terminal; in a log it is one line an evaluation.
    verbose = 1 if os.isatty(1) else 2
    return model.fit(
        data,
        steps_per_epoch=steps,
        epochs=settings.evaluations,
        validation_data=validation,
        shuffle=False,  # the data set has been
        verbose=verbose,
    )


def draw_curve(history: keras.callbacks.History, settings, baselines: dict[str, float], path: pathlib.Path) -> None:
    """Saves bits per character against steps, with the baselines as lines."""
    steps = np.arange(1, settings.evaluations + 1) * (settings.steps // settings.evaluations)
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    axes.plot(steps, history.history["bits"], "o-", color="tab:blue", alpha=0.5, label="GRU, training (running mean)")
    axes.plot(steps, history.history["val_bits"], "o-", color="tab:orange", label="GRU, validation")

    def label(text, height, color):
        axes.annotate(
            text, (steps[-1], height), (0, 6), textcoords="offset points", ha="right", va="bottom", color=color
        )

    for name, bits in baselines.items():
        axes.axhline(bits, color="gray", linestyle="--")
        label(f"{name} {bits:.2f}", bits, "gray")
    final = history.history["val_bits"][-1]
    label(f"{final:.2f}", final, "tab:orange")
    top = max([*baselines.values(), *history.history["bits"], *history.history["val_bits"]]) + 0.5
    axes.set(xlabel="steps", ylabel="bits per character", ylim=(0, top))
    axes.set_title("Character-level language model of Python's standard library")
    axes.legend(loc="lower left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def write_sample(model: keras.Model, vocabulary: Vocabulary, length: int, seed: int) -> str:
    """Lets the model write `length` characters after the prompt."""
    embedding, rnn, dense = model.layers
    rng = np.random.default_rng(seed)
    state = rnn.cell.get_initial_state(batch_size=1)
    written = list(vocabulary.encode(PROMPT))
    for position in range(len(written) + length - 1):
        output, state = rnn.cell(embedding(np.array([written[position]])), state)
        if position == len(written) - 1:
            logits = dense(output).numpy()[0] / 0.7  # a little bolder than the model is
            logits[UNKNOWN] = -np.inf
            probabilities = np.exp(logits - logits.max())
            written.append(rng.choice(len(vocabulary), p=probabilities / probabilities.sum()))
    return vocabulary.decode(written)


def main() -> None:
    """Trains, compares, draws and writes."""
    settings = parse_arguments()
    keras.utils.set_random_seed(settings.seed)
    training_text, validation_text = read_source()
    vocabulary = Vocabulary(training_text)
    training, validation = vocabulary.encode(training_text), vocabulary.encode(validation_text)
    print(f"{len(training) / 1e6:.1f} and {len(validation) / 1e6:.1f} million characters, {len(vocabulary)} different")
    baselines = {
        "unigram": unigram_bits(training, validation, len(vocabulary)),
        "bigram": bigram_bits(training, validation, len(vocabulary)),
    }

    model = build_model(len(vocabulary), settings.units)
    model.summary()
    inputs, targets = sequences(validation, settings.time)
    validation_data = tf.data.Dataset.from_tensor_slices((inputs, targets)).batch(256)
    history = train(model, sequences(training, settings.time), validation_data, settings)

    print("\nbits per character on the validation files")
    for name, bits in {**baselines, "GRU": history.history["val_bits"][-1]}.items():
        print(f"  {name:8} {bits:.2f}")
    print(f"\nwhat the model writes after {PROMPT!r}:\n")
    print(write_sample(model, vocabulary, 400, settings.seed))
    curve = settings.output / "char_language_model.png"
    draw_curve(history, settings, baselines, curve)
    print(f"\nloss curve: {curve.resolve()}")


if __name__ == "__main__":
    main()
