"""Keras's recurrent layers and whole Keras models, with and without acceleration, called as users call them."""

import functools
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from cases import (
    BATCHES,
    EMPTY_FUNCTION,
    FIT,
    FUNCTION,
    OPS_ALONE,
    PREDICT,
    REPEATS,
    SAVED_MODEL,
    TRAIN_ON_BATCH,
    Case,
)
from library import LEARNING_RATE, Problem, Program, Task, Weights, is_valid, name_gradients, problem_of, task

RNN_MODES = {"lstm": "lstm", "gru": "gru", "tanh": "rnn_tanh"}
_LAYERS = {"lstm": keras.layers.LSTM, "gru": keras.layers.GRU, "tanh": keras.layers.SimpleRNN}
# The position in Keras of each of cuDNN's gates, and vice versa: Keras swaps the gates r and u.
_GATES: Mapping[str, Sequence[int]] = {"lstm": [0, 1, 2, 3], "gru": [1, 0, 2], "tanh": [0]}
_ATTENTION_HEADS = 4


# The arguments of a recurrent layer of a variant. With a seed, all peers draw the same masks.
_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "reset_before": {"reset_after": False},
    "dropout": {"dropout": 0.2, "recurrent_dropout": 0.2, "seed": 1},
}


def create_layer(case: Case, dtype: str, **options: Any) -> keras.Layer:
    """Returns a layer of a network, in `Bidirectional` if the network is bidirectional."""
    options |= _OPTIONS.get(case.variant, {})
    if case.variant.startswith("mixed") and dtype == case.dtype:  # which the reference has not
        dtype = case.variant
    # The default initializer of the recurrent kernel does not support every dtype.
    layer = _LAYERS[case.cell](case.units, recurrent_initializer="zeros", dtype=dtype, **options)
    return keras.layers.Bidirectional(layer, dtype=dtype) if case.bidirectional else layer


def to_keras(case: Case, weights: Mapping[str, Weights]) -> list[np.ndarray]:
    """Returns kernel, recurrent kernel and bias of each pseudo-layer in Keras's shapes, as a flat list."""
    gates = _GATES[case.cell]

    def matrix(kernel):  # [gates, units, fan_in] to [fan_in, gates * units]
        return np.moveaxis(kernel[gates], -1, 0).reshape(kernel.shape[-1], -1)

    def bias(each):
        if case.cell == "gru" and case.variant != "reset_before":
            return np.stack([each.input_bias[gates].ravel(), each.recurrent_bias[gates].ravel()])
        return (each.input_bias + each.recurrent_bias)[gates].ravel()

    triples = [(matrix(each.kernel), matrix(each.recurrent_kernel), bias(each)) for each in weights.values()]
    return [array for triple in triples for array in triple]


def from_keras(case: Case, arrays: Sequence[np.ndarray]) -> Mapping[str, Weights]:
    """Returns the weights of each pseudo-layer, given Keras's weights or their gradients."""
    gates, shape = _GATES[case.cell], (-1, case.num_gates, case.units)

    def matrix(kernel):  # [fan_in, gates * units] to [gates, units, fan_in]
        return np.moveaxis(kernel.reshape(shape), 0, -1)[gates]

    def biases(bias):  # The gradient of a sum of two biases is the gradient of each.
        return np.broadcast_to(bias.reshape(shape), [2, *shape[1:]])[:, gates]

    triples = zip(case.pseudo_layers, arrays[0::3], arrays[1::3], arrays[2::3], strict=True)
    return {name: Weights(matrix(kernel), matrix(state), *biases(bias)) for name, kernel, state, bias in triples}


def states_of_layers(case: Case, states: Sequence) -> list[list]:
    """Splits the states by layer; empty lists unless the model is a decoder."""
    count = len(states) // case.layers
    return [list(states[layer * count : (layer + 1) * count]) for layer in range(case.layers)]


def _build(case: Case, problem: Problem) -> tuple[keras.Model, keras.Model]:
    """Returns a model, and the part of it up to the recurrent layers. A decoder's models also take and return states.

    The batch size is not static, as in most models.
    """
    dtype, decodes = problem.targets.dtype.name, case.kind == "decoder"
    x = inputs = keras.Input(problem.inputs.shape[1:], dtype=problem.inputs.dtype.name)
    states = [keras.Input(state.shape[1:], dtype=dtype) for state in problem.states]
    if case.takes_tokens:
        x = keras.layers.Embedding(case.vocabulary, case.input_size, mask_zero=case.varying, dtype=dtype)(x)
    if case.kind == "mixed":
        x = keras.layers.Dense(case.input_size, activation="relu", dtype=dtype)(x)
        x = keras.layers.LayerNormalization(dtype=dtype)(x)
    final_states: list = []
    for layer, own_states in enumerate(states_of_layers(case, states)):
        is_last = layer == case.layers - 1
        recurrent = create_layer(case, dtype, return_sequences=not is_last, return_state=decodes)
        x = recurrent(x, initial_state=own_states or None)
        if decodes:
            x, *own_states = x
            final_states += own_states
        if case.kind == "mixed" and not is_last:
            # No biases: the gradients of key biases are zero up to rounding errors.
            size = case.output_size // _ATTENTION_HEADS
            attended = keras.layers.MultiHeadAttention(_ATTENTION_HEADS, size, use_bias=False, dtype=dtype)(x, x)
            x = keras.layers.LayerNormalization(dtype=dtype)(keras.layers.Add(dtype=dtype)([x, attended]))
    arguments = [inputs, *states] if decodes else inputs
    output = keras.layers.Dense(case.outputs, dtype=dtype)(x)
    return keras.Model(arguments, [output, *final_states] if decodes else output), keras.Model(arguments, x)


class ModelProgram:
    """A Keras model, which is accelerated if Keras currently is.

    Attributes:
      tasks: its program.

    Args:
      case: the model.
      problem: inputs, targets and weights; the weights of a mixed model are drawn here.
      jit_compile: whether XLA compiles the model and the function.
    """

    def __init__(self, case: Case, problem: Problem, jit_compile: bool = False):
        self._case, self._problem = case, problem
        self._model, self._features = _build(case, problem)
        loss = keras.losses.MeanSquaredError(dtype=problem.targets.dtype.name)
        self._model.compile(keras.optimizers.Adam(LEARNING_RATE), loss, jit_compile=jit_compile)
        self._model.optimizer.build(self._model.trainable_variables)
        self._reset()
        self._arguments = tuple(map(tf.constant, [problem.inputs, *problem.states]))
        self._last = self._arguments
        self._function = tf.function(self._infer, jit_compile=jit_compile)
        many = [np.concatenate([array] * BATCHES) for array in (problem.inputs, problem.targets)]
        model, batch = self._model, {"batch_size": case.batch, "verbose": 0}

        def fit():
            return model.fit(*many, shuffle=False, **batch).history["loss"][-1]

        trained: dict[str, Any] = {
            TRAIN_ON_BATCH: lambda: model.train_on_batch(problem.inputs, problem.targets),
            FIT: fit,
        }
        inferred: dict[str, Any] = {
            FUNCTION: lambda: self._function(*self._arguments),
            SAVED_MODEL: self._run_loaded,
            PREDICT: lambda: model.predict(many[0], **batch),
        }
        self.tasks: dict[str, Task] = {
            **{name: Task(call, functools.partial(self._output, call)) for name, call in inferred.items()},
            **{name: Task(call, functools.partial(self._trained, call)) for name, call in trained.items()},
        }
        if case.kind == "decoder":
            self.tasks[FUNCTION] = Task(self._decode, self._decoded)
        self.tasks = {name: each for name, each in self.tasks.items() if name in case.tasks}

    def _reset(self) -> None:
        """Sets the problem's weights, and resets the optimizer and the metrics."""
        case, problem = self._case, self._problem
        if case.kind == "mixed":
            rng = np.random.default_rng(2)
            for weight in self._model.weights:
                weight.assign(rng.uniform(-1, 1, weight.shape) / np.sqrt(weight.shape[-1]))
        else:
            embedding = [] if problem.embedding is None else [problem.embedding]
            recurrent = to_keras(case, problem.weights)
            self._model.set_weights([*embedding, *recurrent, problem.head_kernel, problem.head_bias])
        for moment in self._moments("momentum") + self._moments("velocity"):
            moment.assign(keras.ops.zeros_like(moment))
        self._model.reset_metrics()

    def _moments(self, kind: str) -> list:
        """Returns the optimizer's moments of one kind in the order of the weights."""
        return [each for each in self._model.optimizer.variables if each.path.endswith(f"_{kind}")]

    def _infer(self, inputs, *states):
        """Returns the output; for a decoder the most likely next tokens, the output and the states."""
        if not states:
            return self._model(inputs, training=False)
        output, *states = self._model([inputs, *states], training=False)
        return tf.argmax(output, axis=-1)[:, tf.newaxis], output, *states

    def _decode(self) -> None:
        """Calls the function with its previous results."""
        tokens, _, *states = self._function(*self._last)
        self._last = (tokens, *states)

    @functools.cached_property
    def loaded(self):
        """The function, loaded from a SavedModel."""
        module = tf.Module()
        module.weights = [variable.value for variable in self._model.variables]
        module.serve = self._function
        self._function.get_concrete_function(*self._arguments)
        with tempfile.TemporaryDirectory() as folder:
            tf.saved_model.save(module, folder)
            return tf.saved_model.load(folder)

    def _run_loaded(self):
        return self.loaded.serve(*self._arguments)

    def features(self) -> np.ndarray:
        """Returns what the recurrent layers return."""
        return self._features(list(self._arguments) if self._problem.states else self._arguments[0]).numpy()

    def _output(self, call) -> dict[str, np.ndarray]:
        self._reset()
        return {"output": np.asarray(call())}

    def _decoded(self) -> dict[str, np.ndarray]:
        _, output, *states = self._function(*self._arguments)
        return {"output": output.numpy(), "states": np.stack(states)}

    def _trained(self, call) -> dict[str, np.ndarray]:
        self._reset()
        loss = {"loss": np.asarray(call())}
        moments = [moment.numpy() for moment in self._moments("momentum")]
        if self._case.variant == "dropout":  # the masks of float64 are others
            return {}
        if self._case.kind == "mixed":
            return {**loss, **{f"weight_{index}": moment for index, moment in enumerate(moments)}}
        embedding = {"embedding": moments.pop(0)} if self._case.takes_tokens else {}
        *recurrent, head_kernel, head_bias = moments
        first = {**loss, **embedding, "head_kernel": head_kernel, "head_bias": head_bias}
        return name_gradients(first, from_keras(self._case, recurrent))


def accelerated_program(case: Case) -> Program:
    """Returns the program of a model of accelerated Keras; also an empty function, and the model's ops only."""
    problem = problem_of(case)
    program = ModelProgram(case, problem).tasks
    if case.kind == "mixed" or case.variant:
        return program
    states = list(map(tf.constant, problem.states))
    inputs = tf.constant(problem.inputs)
    sequences = inputs if problem.embedding is None else tf.gather(problem.embedding, problem.inputs)
    mask = tf.constant(is_valid(case)[:, :, 0]) if case.varying else tf.constant([], tf.bool)
    arrays = list(map(tf.constant, to_keras(case, problem.weights)))
    weights = list(zip(arrays[0::3], arrays[1::3], arrays[2::3], strict=True))
    empty, ops_alone = tf.function(lambda *arguments: arguments[0]), tf.function(_repeat_ops)
    alone = functools.partial(ops_alone, case, weights, sequences, mask, *states)
    return {
        **program,
        EMPTY_FUNCTION: task(functools.partial(empty, inputs, *states), lambda result: {"inputs": result.numpy()}),
        OPS_ALONE: task(alone, lambda results: {"features": results[0].numpy()}),
    }


def _repeat_ops(case: Case, weights, sequences, mask, *states):
    """Runs the recurrent layers' ops several times, each time from the final states of the previous run.

    Without this dependency TensorFlow would run identical ops only once.

    Returns:
      The features, [batch, output_size], of the first and of the last run.
    """
    zeros = tf.zeros([case.batch, case.units])
    carried = [[*of_layer, zeros, zeros][:2] for of_layer in states_of_layers(case, states) for _ in case.directions]
    features = []
    for _ in range(REPEATS):
        of_this_run, carried = _run_ops(case, weights, sequences, mask, carried)
        features.append(of_this_run)
    return features[0], features[-1]


def _run_ops(case: Case, weights, sequences, mask, states):
    """Returns the features of sequences, [batch, time, input_size], and the states of each pseudo-layer."""
    # Not imported at the top: the Keras peers do not need the package.
    import tf_rnn_ops

    pseudo_layers, final_states = zip(weights, states, strict=True), []
    for layer in range(case.layers):
        returns_sequences, outputs = layer < case.layers - 1, []
        for direction in case.directions:
            (kernel, recurrent_kernel, bias), (initial_h, initial_c) = next(pseudo_layers)
            op = tf_rnn_ops.raw_ops.KerasRNN(
                sequences=sequences,
                mask=mask,
                initial_h=initial_h,
                initial_c=initial_c,
                kernel=kernel,
                recurrent_kernel=recurrent_kernel,
                bias=bias,
                rnn_mode=RNN_MODES[case.cell],
                go_backwards=direction == "backward",
                return_sequences=returns_sequences,
                zero_output_for_mask=case.bidirectional and returns_sequences,  # as in Keras's Bidirectional
                is_training=False,
            )
            is_reversed = direction == "backward" and returns_sequences
            outputs.append(tf.reverse(op.outputs, [1]) if is_reversed else op.outputs)
            final_states.append([op.final_h, op.final_c])
        sequences = tf.concat(outputs, axis=-1) if case.bidirectional else outputs[0]
    return sequences, final_states
