"""SavedModels that plain Keras 3, Keras 2 or TensorFlow 1 wrote, as they are and on the op; and the models of Keras."""

import dataclasses
import functools
import importlib.util
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from cases import ACCELERATED, AS_IS, CONVERTED, FUNCTION, SERVE_IN_C, TRAIN_ON_BATCH, Case
from library import LEARNING_RATE, Program, Task, is_valid, made_in_c, task
from served_models import ProgramInC

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


def is_available(case: Case) -> bool:
    """Returns whether the writer of an exported model is installed. TensorFlow 1 has its cells from Keras 2."""
    return case.writer == "keras_3" or importlib.util.find_spec("tf_keras") is not None


def _keras_of(case: Case) -> Any:
    return keras if case.writer == "keras_3" else importlib.import_module("tf_keras")


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
    """Returns the sequences that the C program makes, or tokens, padded with zeros."""
    if not case.takes_tokens:
        return made_in_c(case.batch, case.time, case.input_size).astype(np.float32)
    rng = np.random.default_rng(1)
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


def exported_loss(case: Case) -> float:
    """Returns the loss of a training step in float64. Keras passes the mask of sequences to the loss."""
    output = exported_output(case)
    has_mask = case.takes_tokens and output.ndim == 3
    return np.mean(output[is_valid(case)[:, :, 0]] ** 2) if has_mask else np.mean(output**2)


def _export(case: Case, folder: str) -> None:
    """Writes a SavedModel as users of the writer do."""
    if case.writer == "tensorflow_1":
        _export_with_tensorflow_1(case, folder)
    elif case.writer == "keras_2":
        _build(case, _keras_of(case)).save(folder, save_format="tf")
    else:
        _build(case).export(folder, verbose=False)


def _export_with_tensorflow_1(case: Case, folder: str) -> None:
    """Writes a reader of text lines with `bidirectional_dynamic_rnn`, in a graph of TensorFlow 1, as a SavedModel."""
    v1, cells = tf.compat.v1, importlib.import_module("tf_keras.src.layers.rnn.legacy_cells")
    arrays = _build(case).get_weights()
    v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default(), v1.Session() as session:
            x = inputs = v1.placeholder(tf.float32, [None, None, case.input_size])
            for i in range(2):
                forward, backward = cells.LSTMCell(case.units), cells.LSTMCell(case.units)
                with v1.variable_scope(f"layer_{i}"):
                    outputs, _ = v1.nn.bidirectional_dynamic_rnn(forward, backward, x, dtype=tf.float32)
                x = tf.concat(outputs, 2)
            kernel, bias = (v1.get_variable(str(i), array.shape) for i, array in enumerate(arrays[-2:]))
            lstms = [each for i in range(0, 12, 3) for each in _weights_of_tensorflow_1(*arrays[i : i + 3])]
            for variable, array in zip(v1.global_variables(), [*lstms, *arrays[-2:]], strict=True):
                variable.load(array, session)
            v1.saved_model.simple_save(session, folder, {"x": inputs}, {"y": tf.nn.softmax(x @ kernel + bias)})
    finally:
        v1.enable_control_flow_v2()


def _weights_of_tensorflow_1(*arrays: np.ndarray) -> list[np.ndarray]:
    """Returns kernel and bias of an `LSTMCell` that adds 1 to f, given Keras's weights."""
    kernel, recurrent_kernel, bias = (np.split(each, 4, axis=-1) for each in arrays)
    kernels = [np.concatenate(each) for each in zip(kernel, recurrent_kernel, strict=True)]
    bias[1] = bias[1] - 1
    # i, f, g, o to i, g, f, o
    return [np.concatenate([each[gate] for gate in (0, 2, 1, 3)], axis=-1) for each in (kernels, bias)]


def _call(signature: Any, inputs: tf.Tensor) -> tf.Tensor:
    """Returns the only output of a function with one input."""
    (name,) = signature.structured_input_signature[1]
    (output,) = signature(**{name: inputs}).values()
    return output


def _task(call: Callable[[], Any]) -> Task:
    return task(call, lambda output: {"output": output.numpy()})


class Exported:
    """A SavedModel. Keras must not be accelerated.

    Attributes:
      folder: where it is. The folder is removed with this object.
      signature: its function.
    """

    def __init__(self, case: Case):
        self._folder = tempfile.TemporaryDirectory()
        self.folder = f"{self._folder.name}/exported"
        self._models: list[Any] = []
        _export(case, self.folder)
        self.signature = self.load(self.folder)

    def load(self, folder: str) -> Any:
        """Returns the function of a SavedModel, which lives as long as this object."""
        self._models.append(tf.saved_model.load(folder))
        return self._models[-1].signatures[_SIGNATURE]

    def in_c(self, case: Case, threads: int, op_library: str) -> Program:
        """Returns the program in C, whose graphs the op library accelerates. It does not take tokens."""
        if case.takes_tokens:
            return {}
        inputs = _inputs_of(case)
        (name,) = self.signature.structured_input_signature[1]
        (output,) = self.signature.structured_outputs
        accelerated = {"TF_RNN_OPS_ACCELERATE_GRAPHS": "1"}
        program = ProgramInC(self.folder, {name: inputs.shape}, output, threads, op_library, accelerated)
        return {SERVE_IN_C: program.task(_call(self.signature, tf.constant(inputs)).shape)}


class OnTheOp(Exported):
    """A SavedModel as it is, accelerated, and converted.

    Attributes:
      signatures: the function of each task.
    """

    def __init__(self, case: Case):
        # Not imported at the top: the reference does not need the package.
        import tf_rnn_ops

        super().__init__(case)
        converted = f"{self._folder.name}/converted"
        tf_rnn_ops.convert(self.folder, converted, weight_format="float32")
        signatures = self.signature, self.load(self.folder), self.load(converted)
        self.signatures = dict(zip((AS_IS, ACCELERATED, CONVERTED), signatures, strict=True))
        # TensorFlow replaces loops before it runs a function for the first time.
        for name, signature in self.signatures.items():
            tf_rnn_ops.accelerate_graphs(name == ACCELERATED)
            _call(signature, tf.constant(_inputs_of(case)))
        tf_rnn_ops.accelerate_graphs(False)

    def in_python(self, case: Case) -> Program:
        """Returns the program of the signatures."""
        inputs = tf.constant(_inputs_of(case))
        return {name: _task(functools.partial(_call, each, inputs)) for name, each in self.signatures.items()}


# Keras 2 takes half a minute to write a model.
@functools.lru_cache(maxsize=1)
def _export_once(kind: Callable[[Case], Any], case: Case) -> Any:
    return kind(case)


def exported(case: Case, kind: Callable[[Case], Any] = Exported) -> Any:
    """Returns the SavedModel of a case, the same for all batch sizes."""
    return _export_once(kind, dataclasses.replace(case, batch=1))


def live_program(case: Case) -> Program:
    """Returns the program of the model of Keras, which is accelerated if Keras currently is."""
    if case.writer == "tensorflow_1":
        return {}
    package = _keras_of(case)
    model, inputs = _build(case, package), _inputs_of(case)
    model.compile(package.optimizers.Adam(LEARNING_RATE), "mse")
    targets = np.zeros(model(inputs).shape, np.float32)
    train = functools.partial(model.train_on_batch, inputs, targets)
    infer = functools.partial(tf.function(model), tf.constant(inputs))
    return {FUNCTION: _task(infer), TRAIN_ON_BATCH: task(train, lambda loss: {"loss": np.asarray(loss)})}
