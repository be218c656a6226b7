"""Compares the quality of trained models with weights in float32, bfloat16 and int8, beside ONNX Runtime's LSTM.

Trains models and prints a Markdown table of their quality on data that they were not trained on:

* the two-layer LSTM of examples/char_language_model.py, on the source of Python's standard library;
* a bidirectional LSTM that recognizes seven exercises from the accelerometer and gyroscope of a watch, for people
  whom it has not seen. The recordings come with the package seglearn. Once with normalized features, once with the
  features as recorded;
* an LSTM with more weights than the caches of most CPUs hold, on the same text as the first.

Only the weights of recurrent layers change their format; other layers compute in float32.
"""

import argparse
import functools
import gc
import importlib.util
import os
import pathlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import keras
import numpy as np
import onnx
import onnxruntime
import tensorflow as tf
from onnx import TensorProto, helper, numpy_helper
from onnxruntime_library import quantized

import tf_rnn_ops
from tf_rnn_ops.params import from_keras, layout, to_onnx

sys.path.append(str(pathlib.Path(__file__).parent.parent / "examples"))
import char_language_model
import python_source

Data = tuple[np.ndarray, np.ndarray]  # inputs and targets, or those to train on and the held-out ones
Predict = Callable[[np.ndarray], np.ndarray]  # from a batch of inputs to logits

SEED = 0
BATCH = 250  # sequences per call that measures quality
WINDOW, STRIDE = 100, 50  # samples of the watch, which takes 50 per second
UNSEEN_PEOPLE = (8, 9, 10)
HEADER = (
    "model",
    "quality",
    "Keras float32",
    "tf_rnn_ops float32",
    "tf_rnn_ops bfloat16",
    "tf_rnn_ops int8",
    "change by int8",
    "ONNX Runtime float32",
    "ONNX Runtime int8",
    "change by int8",
    "packed weights float32",
    "packed weights int8",
)


class Trained(NamedTuple):
    """A trained model and how to judge it."""

    name: str
    metric: str
    measure: Callable[[np.ndarray, np.ndarray], float]  # from logits and targets
    model: keras.Model
    held_out: Data


# ---------------------------------------------------------------- quality


def perplexity(logits: np.ndarray, targets: np.ndarray) -> float:
    """Returns the perplexity per character of logits, [sequences, time, vocabulary], given the true characters."""
    losses = keras.ops.sparse_categorical_crossentropy(targets, logits, from_logits=True)
    return float(np.exp(np.mean(losses, dtype=np.float64)))


def accuracy(logits: np.ndarray, targets: np.ndarray) -> float:
    """Returns the share in percent of sequences whose largest logit, [sequences, classes], is that of their class."""
    return 100 * float(np.mean(np.argmax(logits, axis=-1) == targets))


def quality(trained: Trained, predict: Predict) -> float:
    """Returns the quality of predictions on the held-out data."""
    inputs, targets = trained.held_out
    batches = [inputs[start : start + BATCH] for start in range(0, len(inputs), BATCH)]
    return trained.measure(np.concatenate([predict(batch) for batch in batches]), targets)


# ---------------------------------------------------------------- models


def fit(model: keras.Model, training: Data, held_out: Data, settings: argparse.Namespace) -> None:
    """Trains a model on the op."""
    print(f"training {model.count_params():,} parameters for {settings.steps} steps", flush=True)
    with tf_rnn_ops.accelerate_keras():
        char_language_model.train(model, training, tuple(each[:BATCH] for each in held_out), settings)


def large_lstm(settings: argparse.Namespace) -> list[keras.layers.Layer]:
    """Returns one LSTM layer."""
    return [keras.layers.LSTM(settings.units, return_sequences=True)]


class Texts(NamedTuple):
    """The characters to train on and the held-out ones, and the size of their vocabulary."""

    training: np.ndarray
    held_out: np.ndarray
    vocabulary_size: int


def read_text(quick: bool) -> Texts:
    """Returns the source of Python's standard library, a part of it if `quick`."""
    training_text, held_out_text = python_source.read_source(40 if quick else None)
    vocabulary = python_source.Vocabulary(training_text)
    training, held_out = vocabulary.encode(training_text), vocabulary.encode(held_out_text)
    bits = python_source.bigram_bits(training, held_out, len(vocabulary))
    print(f"perplexity of a bigram model: {2**bits:.2f}")
    return Texts(training, held_out, len(vocabulary))


def language_model(name: str, network, texts: Texts, most: int, **options: int) -> Trained:
    """Trains a model of the characters of a text as examples/char_language_model.py does.

    Args:
      name: the model's name.
      network: maps settings to the recurrent layers.
      texts: the characters.
      most: the number of held-out sequences.
      **options: the settings `units` and `steps`.
    """
    settings = argparse.Namespace(**options, dropout=0.1, batch=32, time=100, evaluations=1, seed=SEED)
    training = python_source.sequences(texts.training, settings.time)
    inputs, targets = python_source.sequences(texts.held_out, settings.time)
    held_out = inputs[:most], targets[:most]
    model = char_language_model.build_model(network, texts.vocabulary_size, settings)
    fit(model, training, held_out, settings)
    return Trained(name, "perplexity", perplexity, model, held_out)


def windows(recordings: Sequence[np.ndarray], labels: np.ndarray) -> Data:
    """Splits recordings, [samples, channels] each, into windows, [windows, WINDOW, channels], and their labels."""
    of_each = [
        [recording[start : start + WINDOW] for start in range(0, len(recording) - WINDOW + 1, STRIDE)]
        for recording in recordings
    ]
    targets = np.repeat(labels, [len(each) for each in of_each])
    return np.concatenate(of_each).astype("float32"), targets.astype("int32")


def watch_data(is_normalized: bool) -> tuple[Data, Data]:
    """Returns windows of a watch's recordings of exercises, from some people for training and from others."""
    # The data only: the package itself needs others that it does not name.
    spec = importlib.util.find_spec("seglearn")
    assert spec is not None
    assert spec.origin is not None
    path = pathlib.Path(spec.origin).parent / "data" / "watch_dataset.npy"
    data = np.load(path, allow_pickle=True).item()
    unseen = np.isin(data["subject"], UNSEEN_PEOPLE)
    (inputs, targets), (unseen_inputs, unseen_targets) = (
        windows([data["X"][index] for index in np.flatnonzero(chosen)], data["y"][chosen])
        for chosen in (~unseen, unseen)
    )
    mean, deviation = (inputs.mean(axis=(0, 1)), inputs.std(axis=(0, 1))) if is_normalized else (0, 1)
    return ((inputs - mean) / deviation, targets), ((unseen_inputs - mean) / deviation, unseen_targets)


def sensor_classifier(name: str, is_normalized: bool, **options: int) -> Trained:
    """Trains a classifier of exercises with the settings `units` and `steps`."""
    settings = argparse.Namespace(**options, batch=64, evaluations=1, seed=SEED)
    training, held_out = watch_data(is_normalized)
    keras.utils.set_random_seed(settings.seed)
    model = keras.Sequential(
        [
            keras.Input(training[0].shape[1:]),
            keras.layers.Bidirectional(keras.layers.LSTM(settings.units)),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(int(training[1].max()) + 1),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(4e-3, settings.steps)),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    fit(model, training, held_out, settings)
    return Trained(name, "accuracy, %", accuracy, model, held_out)


def models(quick: bool) -> Iterator[Trained]:
    """Trains the models, each when it is asked for; for a few steps only if `quick`."""
    texts = read_text(quick)
    small, large = (50, 50) if quick else (5000, 500)  # held-out sequences
    steps = {"demo": 20, "sensors": 100, "large": 4} if quick else {"demo": 700, "sensors": 300, "large": 300}
    demo, sensors = "characters, LSTM, 2 layers of 256 units, as in the demo", "sensors of a watch, bidirectional LSTM"
    yield language_model(demo, char_language_model.keras_lstm, texts, small, units=256, steps=steps["demo"])
    for normalized, words in ((True, ""), (False, ", not normalized")):
        yield sensor_classifier(f"{sensors}, 64 units{words}", normalized, units=64, steps=steps["sensors"])
    yield language_model("characters, LSTM, 1024 units", large_lstm, texts, large, units=1024, steps=steps["large"])


# ---------------------------------------------------------------- predictions


def our_quality(trained: Trained, weights: str) -> tuple[float, int]:
    """Returns the quality with packed weights in a format, and the bytes of these weights."""
    gc.collect()  # frees the packed weights of earlier functions
    assert tf_rnn_ops.packed_weights_bytes() == 0
    serve = tf_rnn_ops.freeze(trained.model, weight_format=weights)
    measured = quality(trained, lambda inputs: serve(tf.constant(inputs)).numpy())
    return measured, tf_rnn_ops.packed_weights_bytes()


def onnx_lstm(layer: keras.Layer) -> onnx.ModelProto:
    """Returns an LSTM operator with the weights of an `LSTM` or a `Bidirectional` with an `LSTM`."""
    is_bidirectional = isinstance(layer, keras.layers.Bidirectional)
    units = (layer.forward_layer if is_bidirectional else layer).units
    arrays = layer.get_weights()
    size = arrays[0].shape[0]
    of_layer = layout("lstm", units, size, direction="bidirectional" if is_bidirectional else "unidirectional")
    (weights,) = to_onnx(of_layer, from_keras(of_layer, arrays))
    direction = "bidirectional" if is_bidirectional else "forward"
    node = helper.make_node("LSTM", ["x", *weights], ["y", "h"], hidden_size=units, direction=direction)
    graph = helper.make_graph(
        [node],
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["time", "batch", size])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "yh"],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


def onnx_runtime_layer(layer: keras.Layer, is_quantized: bool) -> Predict:
    """Returns a function that computes a recurrent layer in ONNX Runtime."""
    model = quantized(onnx_lstm(layer)) if is_quantized else onnx_lstm(layer)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])

    def compute(inputs):  # [batch, time, features]
        y, h = session.run(None, {"x": np.ascontiguousarray(np.swapaxes(inputs, 0, 1))})
        # y is [time, directions, batch, units], h is [directions, batch, units].
        outputs = y.transpose(2, 0, 1, 3) if layer.return_sequences else h.transpose(1, 0, 2)
        return outputs.reshape(*outputs.shape[:-2], -1)

    return compute


def onnx_runtime_predictions(model: keras.Model, is_quantized: bool) -> Predict:
    """Returns predictions whose recurrent layers run in ONNX Runtime and whose other layers run in Keras."""
    recurrent = (keras.layers.LSTM, keras.layers.Bidirectional)
    steps = [
        onnx_runtime_layer(layer, is_quantized) if isinstance(layer, recurrent) else layer for layer in model.layers
    ]
    return lambda inputs: functools.reduce(lambda values, step: np.asarray(step(values)), steps, inputs)


# ---------------------------------------------------------------- the table


def row(trained: Trained) -> list[str]:
    """Measures a model. Returns its row of the table."""
    print(f"measuring: {trained.name}", flush=True)
    plain = quality(trained, functools.partial(trained.model.predict, batch_size=BATCH, verbose=0))  # not accelerated
    (float32, bytes32), (bfloat16, _), (int8, bytes8) = (
        our_quality(trained, weights) for weights in ("float32", "bfloat16", "int8")
    )
    theirs, their_int8 = (
        quality(trained, onnx_runtime_predictions(trained.model, is_quantized)) for is_quantized in (False, True)
    )
    ours = [*(f"{value:.4g}" for value in (plain, float32, bfloat16, int8)), change(float32, int8)]
    of_onnx_runtime = [f"{theirs:.4g}", f"{their_int8:.4g}", change(theirs, their_int8)]
    sizes = [f"{size / 1e6:.2f} MB" for size in (bytes32, bytes8)]
    return [trained.name, trained.metric, *ours, *of_onnx_runtime, *sizes]


def change(before: float, after: float) -> str:
    """Returns a relative change in percent as text."""
    return f"{100 * (after / before - 1):+.2f} %"


def main() -> None:
    """Trains the models and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="train for a few steps only")
    quick = parser.parse_args().quick
    tf.config.experimental.enable_op_determinism()
    keras.utils.set_random_seed(SEED)  # which determinism requires
    rows = [HEADER, ["---"] * len(HEADER), *map(row, models(quick))]
    print("\n" + "\n".join(f"| {' | '.join(cells)} |" for cells in rows))


if __name__ == "__main__":
    main()
