"""SavedModels that plain Keras 3 or Keras 2 wrote, as they are and on the op, called from Python."""

import dataclasses
import functools
import importlib
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from cases import ACCELERATED, AS_IS, CONVERTED, Case
from library import Program, is_valid, task

_SIGNATURE = "serving_default"


def _classify_text(layers, case: Case, x):
    x = layers.Bidirectional(layers.LSTM(case.units))(x)
    return layers.Dense(1, "sigmoid")(x)


def _tag(layers, case: Case, x):
    x = layers.Bidirectional(layers.LSTM(case.units, return_sequences=True))(x)
    return layers.Dense(20, "softmax")(x)


def _read_line(layers, case: Case, x):
    for _ in range(2):
        x = layers.Bidirectional(layers.LSTM(case.units, return_sequences=True))(x)
    return layers.Dense(80, "softmax")(x)


def _encode_and_decode(layers, case: Case, x):
    x = layers.RepeatVector(case.time)(layers.LSTM(case.units)(x))
    x = layers.LSTM(case.units, return_sequences=True)(x)
    return layers.TimeDistributed(layers.Dense(case.input_size))(x)


def _spot_keyword(layers, case: Case, x):
    return layers.Dense(12, "softmax")(layers.GRU(case.units)(x))


def _encode_speech(layers, case: Case, x):
    for _ in range(3):
        x = layers.LSTM(case.units, return_sequences=True)(x)
    return layers.Dense(case.units)(x)


def _recommend(layers, case: Case, x):
    return layers.Dense(case.vocabulary)(layers.GRU(case.units)(x))


def _act(layers, case: Case, x):
    return layers.Dense(4)(layers.LSTM(case.units)(layers.Dense(case.units, "tanh")(x)))


BUILDERS: Mapping[str, Callable] = {
    "text_classifier": _classify_text,
    "tagger": _tag,
    "line_reader": _read_line,
    "autoencoder": _encode_and_decode,
    "keyword_spotter": _spot_keyword,
    "speech_encoder": _encode_speech,
    "recommender": _recommend,
    "policy": _act,
}


def _build(case: Case, kind_of_keras: Any = keras) -> Any:
    """Returns the model of Keras 3 or Keras 2, with the same weights. Batch size and steps are not static."""
    layers = kind_of_keras.layers
    if case.takes_tokens:
        x = inputs = kind_of_keras.Input([None], dtype="int32")
        x = layers.Embedding(case.vocabulary, case.input_size, mask_zero=True)(x)
    else:
        x = inputs = kind_of_keras.Input([None, case.input_size])
    model = kind_of_keras.Model(inputs, BUILDERS[case.kind](layers, case, x))
    rng = np.random.default_rng(0)
    shapes = [weight.shape for weight in model.get_weights()]
    model.set_weights([(rng.uniform(-1, 1, shape) / np.sqrt(shape[-1])).astype(np.float32) for shape in shapes])
    return model


def _inputs_of(case: Case) -> np.ndarray:
    """Returns sequences, or tokens, padded with zeros."""
    rng = np.random.default_rng(1)
    if not case.takes_tokens:
        return rng.standard_normal([case.batch, case.time, case.input_size]).astype(np.float32)
    tokens = rng.integers(1, case.vocabulary, [case.batch, case.time], dtype=np.int32)
    return np.where(is_valid(case)[:, :, 0], tokens, 0)


def exported_output(case: Case) -> np.ndarray:
    """Returns the output in float64, of Keras 3."""
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float64")
    try:
        return np.asarray(_build(case)(_inputs_of(case)))
    finally:
        keras.config.set_dtype_policy(policy)


def _export(case: Case, folder: str) -> None:
    """Writes a SavedModel as users of this Keras do."""
    if case.keras_2:
        _build(case, importlib.import_module("tf_keras")).save(folder, save_format="tf")
    else:
        _build(case).export(folder, verbose=False)


class _Loaded:
    """A SavedModel as it is, accelerated, and converted. Keras must not be accelerated.

    Attributes:
      signatures: the function of each task.
    """

    def __init__(self, case: Case):
        # Not imported at the top: the reference does not need the package.
        import tf_rnn_ops

        folder = tempfile.mkdtemp()
        weakref.finalize(self, shutil.rmtree, folder)
        exported, converted = f"{folder}/exported", f"{folder}/converted"
        _export(case, exported)
        tf_rnn_ops.convert(exported, converted, weight_format="float32")
        folders = {AS_IS: exported, ACCELERATED: exported, CONVERTED: converted}
        self._models = {name: tf.saved_model.load(path) for name, path in folders.items()}
        self.signatures = {name: model.signatures[_SIGNATURE] for name, model in self._models.items()}
        # TensorFlow replaces loops before it runs a function for the first time.
        for name, signature in self.signatures.items():
            tf_rnn_ops.accelerate_graphs(name == ACCELERATED)
            _call(signature, tf.constant(_inputs_of(case)))
        tf_rnn_ops.accelerate_graphs(False)


def _call(signature: Any, inputs: tf.Tensor) -> tf.Tensor:
    """Returns the only output of a function with one input."""
    (name,) = signature.structured_input_signature[1]
    (output,) = signature(**{name: inputs}).values()
    return output


# Keras 2 takes half a minute to write a model.
@functools.lru_cache(maxsize=1)
def _load(case: Case) -> _Loaded:
    return _Loaded(case)


def loaded(case: Case) -> _Loaded:
    """Returns the SavedModel of a case, the same for all batch sizes."""
    return _load(dataclasses.replace(case, batch=1))


def exported_program(case: Case) -> Program:
    """Returns the program of an exported model. Keras must not be accelerated."""
    inputs = tf.constant(_inputs_of(case))
    return {
        name: task(functools.partial(_call, signature, inputs), lambda output: {"output": output.numpy()})
        for name, signature in loaded(case).signatures.items()
    }
