"""Whole Keras models, with and without acceleration, called as users call them."""

import functools
import tempfile
from collections.abc import Mapping, Sequence
from typing import ClassVar

import keras
import numpy as np
import tensorflow as tf
from cases import (
    EMPTY_FUNCTION,
    FIT,
    FUNCTION,
    OPS_ALONE,
    PREDICT,
    SAVED_MODEL,
    TRAIN_ON_BATCH,
    Decoder,
    MixedModel,
    Model,
)
from keras_layers import create_layer, from_keras, to_keras
from problems import LEARNING_RATE, ModelProblem, is_valid, model_problem, name_gradients
from programs import Program


def _build(case: Model, problem: ModelProblem) -> tuple[keras.Model, keras.Model]:
    """Returns a model, and the part of it up to the recurrent layers. A decoder's models also take and return states.

    The batch size is not static, as in most models.
    """
    network, dtype = case.network, problem.targets.dtype.name
    decodes = isinstance(case, Decoder)
    x = inputs = keras.Input(problem.inputs.shape[1:], dtype=problem.inputs.dtype.name)
    states = [keras.Input(state.shape[1:], dtype=dtype) for state in problem.states]
    if case.takes_tokens:
        x = keras.layers.Embedding(case.vocabulary, network.input_size, mask_zero=network.varying, dtype=dtype)(x)
    final_states: list = []
    for layer, own_states in enumerate(states_of_layers(case, states)):
        is_last = layer == network.layers - 1
        recurrent = create_layer(network, dtype, return_sequences=not is_last, return_state=decodes)
        x = recurrent(x, initial_state=own_states or None)
        if decodes:
            x, *own_states = x
            final_states += own_states
    arguments = [inputs, *states] if decodes else inputs
    output = keras.layers.Dense(case.outputs, dtype=dtype)(x)
    return keras.Model(arguments, [output, *final_states] if decodes else output), keras.Model(arguments, x)


def _compile(model: keras.Model, problem: ModelProblem, jit_compile: bool) -> None:
    loss = keras.losses.MeanSquaredError(dtype=problem.targets.dtype.name)
    model.compile(keras.optimizers.Adam(LEARNING_RATE), loss, jit_compile=jit_compile)
    model.optimizer.build(model.trainable_variables)


def _moments(model: keras.Model, kind: str) -> list:
    """Returns the optimizer's moments of one kind in the order of the weights."""
    return [each for each in model.optimizer.variables if each.path.endswith(f"_{kind}")]


def _begin_training_anew(model: keras.Model) -> None:
    for moment in _moments(model, "momentum") + _moments(model, "velocity"):
        moment.assign(keras.ops.zeros_like(moment))
    model.reset_metrics()


def states_of_layers(case: Model, states: Sequence) -> list[list]:
    """Splits the states by layer; empty lists unless the model is a decoder."""
    count = len(states) // case.network.layers
    return [list(states[layer * count : (layer + 1) * count]) for layer in range(case.network.layers)]


class ModelProgram(Program):
    """A Keras model.

    Args:
      case: the model.
      problem: inputs, targets and weights.
      jit_compile: whether XLA compiles the model and the function.
    """

    def __init__(self, case: Model, problem: ModelProblem, jit_compile: bool = False):
        self._case, self._problem = case, problem
        self._model, self._features = _build(case, problem)
        _compile(self._model, problem, jit_compile)
        self._reset()
        self._many_inputs, self._many_targets = (
            np.concatenate([array] * case.batches) for array in (problem.inputs, problem.targets)
        )
        self._arguments = tuple(map(tf.constant, [problem.inputs, *problem.states]))
        self._last = self._arguments
        self._function = tf.function(self._infer, jit_compile=jit_compile)
        calls = {
            FUNCTION: self._decode if isinstance(case, Decoder) else self._call_function,
            SAVED_MODEL: self._call_saved_model,
            PREDICT: self._predict,
            TRAIN_ON_BATCH: self._train_on_batch,
            FIT: self._fit,
        }
        self.calls = {task: call for task, call in calls.items() if task in case.tasks}

    def _reset(self) -> None:
        """Sets the problem's weights, and resets the optimizer and the metrics."""
        problem = self._problem
        embedding = [] if problem.embedding is None else [problem.embedding]
        recurrent = to_keras(self._case.network, problem.weights)
        self._model.set_weights([*embedding, *recurrent, problem.head_kernel, problem.head_bias])
        _begin_training_anew(self._model)

    def _infer(self, inputs, *states):
        """Returns the output; for a decoder the most likely next tokens, the output and the states."""
        if not states:
            return self._model(inputs, training=False)
        output, *states = self._model([inputs, *states], training=False)
        return tf.argmax(output, axis=-1)[:, tf.newaxis], output, *states

    def _call_function(self):
        return self._function(*self._arguments)

    def _decode(self):
        """Calls the function with its previous results."""
        tokens, _, *states = self._function(*self._last)
        self._last = (tokens, *states)

    @functools.cached_property
    def _loaded(self):
        """The function, loaded from a SavedModel."""
        module = tf.Module()
        module.weights = [variable.value for variable in self._model.variables]
        module.serve = self._function
        self._function.get_concrete_function(*self._arguments)
        with tempfile.TemporaryDirectory() as folder:
            tf.saved_model.save(module, folder)
            return tf.saved_model.load(folder)

    def _call_saved_model(self):
        return self._loaded.serve(*self._arguments)

    def _predict(self):
        return self._model.predict(self._many_inputs, batch_size=self._case.network.batch, verbose=0)

    def _train_on_batch(self):
        return self._model.train_on_batch(self._problem.inputs, self._problem.targets)

    def _fit(self):
        batch = self._case.network.batch
        history = self._model.fit(self._many_inputs, self._many_targets, batch_size=batch, shuffle=False, verbose=0)
        return history.history["loss"][-1]

    def results(self, task: str) -> dict[str, np.ndarray]:
        """See the base class."""
        self._reset()
        if task in (TRAIN_ON_BATCH, FIT):
            return {"loss": np.asarray(self.calls[task]()), **self._named_moments()}
        if task == EMPTY_FUNCTION:
            return {"inputs": self._problem.inputs}
        if task == OPS_ALONE:
            arguments = self._arguments
            return {"features": self._features(list(arguments) if self._problem.states else arguments[0]).numpy()}
        if isinstance(self._case, Decoder):
            _, output, *states = self._function(*self._arguments)
            return {"output": output.numpy(), "states": np.stack(states)}
        return {"output": np.asarray(self.calls[task]())}

    def _named_moments(self) -> dict[str, np.ndarray]:
        moments = [moment.numpy() for moment in _moments(self._model, "momentum")]
        first = {"embedding": moments.pop(0)} if self._case.takes_tokens else {}
        *recurrent, head_kernel, head_bias = moments
        first |= {"head_kernel": head_kernel, "head_bias": head_bias}
        return name_gradients(first, from_keras(self._case.network, recurrent))


class MixedModelProgram(Program):
    """A `MixedModel` in Keras.

    Args:
      case: the model.
      problem: inputs and targets; the weights are drawn here.
      jit_compile: whether XLA compiles the model and the function.
    """

    def __init__(self, case: MixedModel, problem: ModelProblem, jit_compile: bool = False):
        self._model = _build_mixed(case, problem.targets.dtype.name)
        _compile(self._model, problem, jit_compile)
        self._reset()
        function = tf.function(functools.partial(self._model, training=False), jit_compile=jit_compile)
        self.calls = {
            FUNCTION: functools.partial(function, tf.constant(problem.inputs)),
            TRAIN_ON_BATCH: functools.partial(self._model.train_on_batch, problem.inputs, problem.targets),
        }

    def _reset(self) -> None:
        """Sets the case's weights, and resets the optimizer and the metrics."""
        rng = np.random.default_rng(2)
        for weight in self._model.weights:
            weight.assign(rng.uniform(-1, 1, weight.shape) / np.sqrt(weight.shape[-1]))
        _begin_training_anew(self._model)

    def results(self, task: str) -> dict[str, np.ndarray]:
        """See the base class."""
        self._reset()
        result = np.asarray(self.calls[task]())
        if task == FUNCTION:
            return {"output": result}
        moments = enumerate(_moments(self._model, "momentum"))
        return {"loss": result, **{f"weight_{index}": moment.numpy() for index, moment in moments}}


def _build_mixed(case: MixedModel, dtype: str) -> keras.Model:
    """Returns the model that `MixedModel` describes."""
    network = case.network
    x = inputs = keras.Input([network.time, network.input_size], dtype=dtype)
    x = keras.layers.Dense(network.input_size, activation="relu", dtype=dtype)(x)
    x = keras.layers.LayerNormalization(dtype=dtype)(x)
    for layer in range(network.layers):
        is_last = layer == network.layers - 1
        x = create_layer(network, dtype, return_sequences=not is_last)(x)
        if not is_last:
            # No biases: the gradients of key biases are zero up to rounding errors.
            size = network.output_size // case.heads
            attended = keras.layers.MultiHeadAttention(case.heads, size, use_bias=False, dtype=dtype)(x, x)
            x = keras.layers.LayerNormalization(dtype=dtype)(keras.layers.Add(dtype=dtype)([x, attended]))
    return keras.Model(inputs, keras.layers.Dense(case.outputs, dtype=dtype)(x))


def model_program(case: Model, jit_compile: bool = False, dtype: str = "float32") -> Program:
    """Returns the program of a Keras model, which is accelerated if Keras currently is."""
    problem = model_problem(case).astype(dtype)
    if isinstance(case, MixedModel):
        return MixedModelProgram(case, problem, jit_compile)
    return ModelProgram(case, problem, jit_compile)


class AcceleratedModelProgram(ModelProgram):
    """An accelerated Keras model; also an empty function, and the model's ops only."""

    _RNN_MODES: ClassVar[Mapping[str, str]] = {"lstm": "lstm", "gru": "gru", "tanh": "rnn_tanh"}

    def __init__(self, case: Model, problem: ModelProblem):
        super().__init__(case, problem)
        arrays = list(map(tf.constant, to_keras(case.network, problem.weights)))
        self._weights = list(zip(arrays[0::3], arrays[1::3], arrays[2::3], strict=True))
        sequences = self._arguments[0] if problem.embedding is None else tf.gather(problem.embedding, problem.inputs)
        mask = tf.constant(is_valid(case.network)[:, :, 0]) if case.network.varying else tf.constant([], tf.bool)
        empty, ops_alone = tf.function(lambda *arguments: arguments[0]), tf.function(self._repeat_ops)
        self.calls = {
            **self.calls,
            EMPTY_FUNCTION: functools.partial(empty, *self._arguments),
            OPS_ALONE: functools.partial(ops_alone, sequences, mask, *self._arguments[1:]),
        }

    def _repeat_ops(self, sequences, mask, *states):
        """Runs the recurrent layers' ops several times, each time from the final states of the previous run.

        Without this dependency TensorFlow would run identical ops only once.

        Returns:
          The features, [batch, output_size], of the first and of the last run.
        """
        network = self._case.network
        zeros = tf.zeros([network.batch, network.units])
        of_layers = states_of_layers(self._case, states)
        carried = [[*of_layer, zeros, zeros][:2] for of_layer in of_layers for _ in network.directions]
        features = []
        for _ in range(self._case.repeats):
            of_this_run, carried = self._run_ops(sequences, mask, carried)
            features.append(of_this_run)
        return features[0], features[-1]

    def _run_ops(self, sequences, mask, states):
        """Returns the features of sequences, [batch, time, input_size], and the states of each pseudo-layer."""
        network = self._case.network
        pseudo_layers, final_states = zip(self._weights, states, strict=True), []
        for layer in range(network.layers):
            returns_sequences = layer < network.layers - 1
            outputs = []
            for direction in network.directions:
                op = self._run_op(sequences, mask, *next(pseudo_layers), direction, returns_sequences)
                is_reversed = direction == "backward" and returns_sequences
                outputs.append(tf.reverse(op.outputs, [1]) if is_reversed else op.outputs)
                final_states.append([op.final_h, op.final_c])
            sequences = tf.concat(outputs, axis=-1) if network.bidirectional else outputs[0]
        return sequences, final_states

    def _run_op(self, sequences, mask, weights, states, direction: str, returns_sequences: bool):
        """Runs the op for one direction of a layer."""
        # Not imported at the top: the Keras peers do not need the package.
        import tf_rnn_ops

        network = self._case.network
        kernel, recurrent_kernel, bias = weights
        initial_h, initial_c = states
        return tf_rnn_ops.raw_ops.KerasRNN(
            sequences=sequences,
            mask=mask,
            initial_h=initial_h,
            initial_c=initial_c,
            kernel=kernel,
            recurrent_kernel=recurrent_kernel,
            bias=bias,
            rnn_mode=self._RNN_MODES[network.cell],
            go_backwards=direction == "backward",
            return_sequences=returns_sequences,
            zero_output_for_mask=network.bidirectional and returns_sequences,  # as in Keras's Bidirectional
            is_training=False,
        )

    def results(self, task: str) -> dict[str, np.ndarray]:
        """See the base class."""
        if task == EMPTY_FUNCTION:
            return {"inputs": self.calls[task]().numpy()}
        if task == OPS_ALONE:
            first, _ = self.calls[task]()
            return {"features": first.numpy()}
        return super().results(task)
