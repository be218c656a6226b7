"""Trains a noise suppressor, and runs it block by block as a telephone does, with the time that each block takes.

The suppressor has the size of DTLN (Westhausen and Meyer, Dual-Signal Transformation LSTM Network, 2020): four LSTM of
128 units map the spectrum of the last 32 ms to a mask, every 8 ms. The signals are made: voices of harmonics with
gliding pitch, in noise and hum. The states of the LSTMs go on from block to block. The program keeps them

- in Keras's own layers, with `stateful=True`: as they are, and accelerated;
- in a stream of a frozen function (`tf_rnn_ops.freeze`), with float32 and with 8-bit weights;
- in NumPy arrays, with ONNX Runtime, if `onnxruntime` and `tf2onnx` are installed.

Run it with `python examples/streaming.py`. A voice call is fluent if no block takes 8 ms or more.
"""

import argparse
import contextlib
import importlib.util
import os
import time
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

import tf_rnn_ops

RATE = 16_000  # samples per second
BLOCK, WINDOW = 128, 512  # samples: 8 ms and 32 ms
BINS = WINDOW // 2 + 1
UNITS, LAYERS = 128, 4
HANN = np.hanning(WINDOW + 1)[:-1]


def parse_arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--steps", type=int, default=300, help="training steps")
    parser.add_argument("--batch", type=int, default=16, help="signals of a training step")
    parser.add_argument(
        "--seconds", type=float, default=12.0, help="length of the signal that is suppressed block by block"
    )
    parser.add_argument("--seed", type=int, default=0, help="random seed")
    return parser.parse_args()


def make_signals(rng: np.random.Generator, count: int, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns voices, and the voices in noise, each [count, samples]."""
    seconds = np.arange(samples) / RATE
    random = lambda low, high: rng.uniform(low, high, [count, 1])  # noqa: E731
    pitch = random(90, 250) * (1 + 0.2 * np.sin(2 * np.pi * random(0.3, 2) * seconds + random(0, 6)))  # Hz
    phase = 2 * np.pi * np.cumsum(pitch, axis=1) / RATE
    voice = sum(random(0.2, 1) / harmonic * np.sin(harmonic * phase) for harmonic in range(1, 12))
    syllables = np.clip(3 * np.sin(2 * np.pi * random(1.5, 4) * seconds + random(0, 6)), 0, 1)
    hum = random(0, 0.3) * np.sin(2 * np.pi * 50 * seconds + random(0, 6))
    return voice * syllables, voice * syllables + random(0.2, 0.5) * rng.standard_normal([count, samples]) + hum


def spectra(signals: np.ndarray) -> np.ndarray:
    """Returns the spectrum of each window, [count, blocks, BINS]. A block begins BLOCK samples after the one before."""
    windows = np.lib.stride_tricks.sliding_window_view(signals, WINDOW, axis=-1)[:, ::BLOCK]
    return np.fft.rfft(windows * HANN)


def signal_of(spectrum: np.ndarray) -> np.ndarray:
    """Returns the signal whose windows have these spectra, [blocks, BINS]."""
    signal = np.zeros((len(spectrum) - 1) * BLOCK + WINDOW)
    for i, window in enumerate(np.fft.irfft(spectrum)):
        signal[i * BLOCK :][:WINDOW] += window
    return signal / (HANN.sum() / BLOCK)


def features_of(spectrum: np.ndarray) -> np.ndarray:
    """Returns what the model takes of spectra, [..., BINS]."""
    return np.log(np.abs(spectrum) + 1e-3).astype(np.float32)


def make_model(stateful: bool) -> keras.Model:
    """Returns a model from features to masks: of whole signals, or of one block after the other of one signal."""
    x = keras.Input([1, BINS], 1) if stateful else keras.Input([None, BINS])
    y = x
    for _ in range(LAYERS):
        y = keras.layers.LSTM(UNITS, return_sequences=True, stateful=stateful)(y)
    return keras.Model(x, keras.layers.Dense(BINS, "sigmoid")(y))


def train(steps: int, batch: int, rng: np.random.Generator) -> keras.Model:
    """Returns a model that was trained on new signals in each step."""
    model = make_model(stateful=False)
    model.compile(keras.optimizers.Adam(2e-3), "mse")
    for step in range(1, steps + 1):
        voices, noisy = map(spectra, make_signals(rng, batch, samples=RATE))
        ideal = np.clip(np.abs(voices) / (np.abs(noisy) + 1e-3), 0, 1)
        loss = model.train_on_batch(features_of(noisy), ideal)
        if step % max(1, steps // 5) == 0:
            print(f"step {step}: loss {loss:.4f}", flush=True)
    return model


def onnx_runtime(model: keras.Model) -> Callable[[np.ndarray], np.ndarray]:
    """Returns a function from features to the mask of the next block, on ONNX Runtime."""
    import onnxruntime
    import tf2onnx

    x = keras.Input([1, BINS], 1)
    before = [keras.Input([UNITS], 1) for _ in range(2 * LAYERS)]
    y, after, layers = x, [], []
    for i in range(LAYERS):
        layers.append(keras.layers.LSTM(UNITS, return_sequences=True, return_state=True))
        y, *states = layers[-1](y, initial_state=before[2 * i : 2 * i + 2])
        after += states
    layers.append(keras.layers.Dense(BINS, "sigmoid"))
    of_block = keras.Model([x, *before], [layers[-1](y), *after])
    of_block.set_weights(model.get_weights())
    specs = [tf.TensorSpec(each.shape, each.dtype, f"x{i}") for i, each in enumerate(of_block.inputs)]
    with tf_rnn_ops.portable():
        proto, _ = tf2onnx.convert.from_function(tf.function(lambda *inputs: of_block([*inputs])), specs)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    states = [np.zeros(each.shape, np.float32) for each in before]

    def call(features: np.ndarray) -> np.ndarray:
        nonlocal states
        inputs = {f"x{i}": each for i, each in enumerate([features, *states])}
        mask, *states = session.run(None, inputs)
        return mask

    return call


def run(call: Callable[[np.ndarray], np.ndarray], spectrum: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the masked spectrum of each block, and the milliseconds that its mask took."""
    masked, milliseconds = np.zeros_like(spectrum), np.zeros(len(spectrum))
    for i, each in enumerate(spectrum):
        start = time.perf_counter()
        mask = call(features_of(each)[np.newaxis, np.newaxis])
        milliseconds[i] = 1000 * (time.perf_counter() - start)
        masked[i] = each * np.asarray(mask)[0, 0]
    return masked, milliseconds


def decibels(voice: np.ndarray, other: np.ndarray) -> float:
    """Returns the ratio of a voice to what is wrong in another signal, without the first and last window."""
    inner = slice(WINDOW, len(other) - WINDOW)
    return float(10 * np.log10(np.sum(voice[inner] ** 2) / np.sum((other - voice[: len(other)])[inner] ** 2)))


def main() -> None:
    """Trains the model, and compares the ways to run it."""
    arguments = parse_arguments()
    keras.utils.set_random_seed(arguments.seed)
    rng = np.random.default_rng(arguments.seed)
    with tf_rnn_ops.accelerate_keras():
        trained = train(arguments.steps, arguments.batch, rng)
    plain, accelerated = (make_model(stateful=True) for _ in range(2))
    for each in (plain, accelerated):
        each.set_weights(trained.get_weights())

    voices, noisy = make_signals(rng, 1, int(arguments.seconds * RATE))
    (spectrum,) = spectra(noisy)
    calls = {
        "Keras, predict_on_batch": plain.predict_on_batch,
        "accelerated": accelerated.predict_on_batch,
        "frozen": tf_rnn_ops.freeze(plain),
        "frozen, int8": tf_rnn_ops.freeze(plain, weight_format="int8"),
    }
    if all(map(importlib.util.find_spec, ("onnxruntime", "tf2onnx"))):
        calls["ONNX Runtime"] = onnx_runtime(trained)
    print(f"\nvoice to noise: {decibels(voices[0], signal_of(spectrum)):.1f} dB before\n")
    print(f"{'':24}{'ms per block':>14}{'99.9 %':>8}{'dB after':>10}")
    for name, call in calls.items():
        with tf_rnn_ops.accelerate_keras() if name == "accelerated" else contextlib.nullcontext():
            call(features_of(np.zeros([1, 1, BINS])))  # a block of silence, since the first call takes longer
            masked, milliseconds = run(call, spectrum)
        rest = decibels(voices[0], signal_of(masked))
        print(
            f"{name:24}{np.median(milliseconds):14.3f}{np.percentile(milliseconds, 99.9):8.3f}{rest:10.1f}", flush=True
        )


if __name__ == "__main__":
    main()
