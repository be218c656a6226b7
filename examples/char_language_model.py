"""Trains a GRU and an LSTM language model on the characters of Python's standard library and samples from the LSTM.

The GRU uses `tf_rnn_ops.layers.GRUBlockCell`; the two-layer LSTM uses `tf_rnn_ops.layers.CudnnRNN`. The metric is bits
per character on held-out files, with unigram and bigram models as baselines. The program then times the training of a
plain Keras LSTM model with and without `accelerate_keras()`.

Run it with `python examples/char_language_model.py`.
"""

import argparse
import contextlib
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from python_source import UNKNOWN, Vocabulary, bigram_bits, read_source, sequences, unigram_bits

import tf_rnn_ops

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


def compare_keras_lstm(inputs, targets, vocabulary_size: int, settings: argparse.Namespace) -> str:
    """Trains the Keras LSTM with and without acceleration, and returns how losses and times differ.

    Both models have the same initial weights and batches. They alternate step by step, so that load on the machine
    affects both equally.
    """
    models = [build_model(keras_lstm, vocabulary_size, settings) for _ in range(2)]
    # The first call traces a function, which fixes whether Keras's implementation or the op runs. `train_on_batch`
    # would trace again when the acceleration ends.
    train = [tf.function(model.train_step) for model in models]
    bits, seconds = np.zeros([2, settings.compared_steps]), np.zeros([2, settings.compared_steps])
    rng = np.random.default_rng(settings.seed)
    for step in range(settings.compared_steps):
        batch = rng.integers(0, len(inputs), settings.batch)
        for index, model in enumerate(models):
            model.reset_metrics()
            start = time.perf_counter()
            with tf_rnn_ops.accelerate_keras() if index == 1 else contextlib.nullcontext():
                metrics = train[index]((tf.constant(inputs[batch]), tf.constant(targets[batch])))
            bits[index, step], seconds[index, step] = float(metrics["bits"]), time.perf_counter() - start
    plain, accelerated = 1e3 * np.median(seconds[:, WARM_UP:], axis=1)
    return (
        f"The same Keras LSTM model, trained for {settings.compared_steps} steps with and without accelerate_keras():\n"
        f"largest loss difference {np.abs(bits[1] - bits[0]).max():.1g} bits; {accelerated:.0f} ms instead of "
        f"{plain:.0f} ms per step, a speedup of {plain / accelerated:.2f}."
    )


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
    """Trains the models and prints the results."""
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
    print(f"\n{compare_keras_lstm(inputs, targets, size, settings)}")


if __name__ == "__main__":
    main()
