"""Who is measured: the same network computed by different libraries.

A new peer is one more class, and its name in `PEERS`.
"""

import abc
import functools
from collections.abc import Callable, Sequence
from typing import ClassVar

import keras
import numpy as np
import tensorflow as tf
from cases import FORWARD, FORWARD_BACKWARD, TASKS, Case, Problem

import tf_rnn_ops


class Peer(abc.ABC):
    """A network that can run.

    Attributes:
      label: what tables call it.
      tasks: what it can do; a peer for inference alone has no FORWARD_BACKWARD.
    """

    label: ClassVar[str]
    tasks: ClassVar[Sequence[str]] = tuple(TASKS)

    @abc.abstractmethod
    def __init__(self, case: Case, problem: Problem):
        """Makes a network of the case's sizes with the problem's weights, ready to run on its inputs."""

    @abc.abstractmethod
    def run(self, task: str) -> None:
        """Does all of a task and returns when it is done: this is what is timed.

        FORWARD is inference: the outputs of all steps from a state of zeros. FORWARD_BACKWARD is a step of training
        without the update: the outputs, and the gradients with respect to the input and all weights.
        """

    @abc.abstractmethod
    def results(self, task: str) -> dict[str, np.ndarray]:
        """Does a task and returns its results in the form that all peers have in common.

        Returns:
          For FORWARD the "output", [batch, time, units]. For FORWARD_BACKWARD the gradients with respect to "inputs",
          "kernel", "recurrent_kernel", "input_bias" and "recurrent_bias", of the shapes that they have in `Problem`.
        """


class TensorFlowPeer(Peer):
    """A peer that runs in graph mode, in a `tf.function`.

    Attributes:
      jit_compile: whether XLA compiles the function.
    """

    jit_compile: ClassVar[bool] = False

    def __init__(self, case: Case, problem: Problem):
        self._case = case
        inputs = tf.constant(problem.inputs)
        output_gradient = tf.constant(problem.output_gradient)
        self._variables = self._create_variables(problem)
        self._calls = {
            FORWARD: self._compiled(self._forward, inputs),
            FORWARD_BACKWARD: self._compiled(self._gradients, inputs, output_gradient),
        }

    def _compiled(self, function: Callable, *tensors) -> Callable[[], list]:
        """Returns a function of a graph that takes the tensors, which TensorFlow could compute with if it held them."""
        graph_function = tf.function(function, jit_compile=self.jit_compile).get_concrete_function(*tensors)
        return functools.partial(graph_function, *tensors)

    @abc.abstractmethod
    def _create_variables(self, problem: Problem) -> list:
        """Creates the network and returns the variables to differentiate with respect to."""

    @abc.abstractmethod
    def _network(self, inputs, training: bool):
        """Returns the outputs, [batch, time, units], of inputs, [batch, time, input_size]."""

    @abc.abstractmethod
    def _common_form(self, arrays: list[np.ndarray]) -> dict[str, np.ndarray]:
        """Returns arrays of the variables' shapes in the shapes of `Problem`, by name."""

    def run(self, task: str) -> None:
        """See the base class."""
        self._calls[task]()
        tf.test.experimental.sync_devices()

    def results(self, task: str) -> dict[str, np.ndarray]:
        """See the base class."""
        first, *others = (tensor.numpy() for tensor in self._calls[task]())
        return {"output": first} if task == FORWARD else {"inputs": first, **self._common_form(others)}

    def _forward(self, inputs):
        return [self._network(inputs, training=False)]

    def _gradients(self, inputs, output_gradient):
        """Returns the gradients of the sum of output ∘ output_gradient."""
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            output = self._network(inputs, training=True)
        return tape.gradient(output, [inputs, *self._variables], output_gradients=output_gradient)


class TfRnnOps(TensorFlowPeer):
    """`tf_rnn_ops.raw_ops.CudnnRNNV3`, on batch-major data as Keras has them."""

    label = "tf_rnn_ops"

    _RNN_MODES: ClassVar[dict[str, str]] = {"lstm": "lstm", "gru": "gru", "tanh": "rnn_tanh"}

    def _create_variables(self, problem: Problem) -> list:
        parts = (problem.kernel, problem.recurrent_kernel, problem.input_bias, problem.recurrent_bias)
        self._params = tf.Variable(np.concatenate([np.ravel(part) for part in parts]))
        return [self._params]

    def _network(self, inputs, training: bool):
        case = self._case
        zeros = tf.zeros([case.batch, 1, case.units], inputs.dtype)
        return tf_rnn_ops.raw_ops.CudnnRNNV3(
            input=inputs,
            input_h=zeros,
            input_c=zeros,
            params=self._params,
            sequence_lengths=tf.fill([case.batch], case.time),
            rnn_mode=self._RNN_MODES[case.cell],
            is_training=training,
            time_major=False,
        ).output

    def _common_form(self, arrays: list[np.ndarray]) -> dict[str, np.ndarray]:
        (params,) = arrays
        gates, units = self._case.num_gates, self._case.units
        shapes = {
            "kernel": (gates, units, self._case.input_size),
            "recurrent_kernel": (gates, units, units),
            "input_bias": (gates, units),
            "recurrent_bias": (gates, units),
        }
        ends = np.cumsum([np.prod(shape) for shape in shapes.values()])
        parts = np.split(params, ends[:-1])
        return {name: part.reshape(shape) for part, (name, shape) in zip(parts, shapes.items(), strict=True)}


class Keras(TensorFlowPeer):
    """`keras.layers.LSTM`, `GRU` or `SimpleRNN`."""

    label = "Keras"

    _LAYERS: ClassVar[dict[str, type]] = {
        "lstm": keras.layers.LSTM,
        "gru": keras.layers.GRU,
        "tanh": keras.layers.SimpleRNN,
    }
    # Where Keras has each of cuDNN's gates, and so where cuDNN has each of Keras's: it exchanges the gates r and u.
    _GATES: ClassVar[dict[str, list[int]]] = {"lstm": [0, 1, 2, 3], "gru": [1, 0, 2], "tanh": [0]}

    def _create_variables(self, problem: Problem) -> list:
        case = self._case
        # The default initializer of the recurrent kernel does not know every dtype.
        self._layer = self._LAYERS[case.cell](
            case.units, return_sequences=True, recurrent_initializer="zeros", dtype=case.dtype
        )
        self._layer.build(problem.inputs.shape)
        gates = self._GATES[case.cell]

        def matrix(kernel):  # [gates, units, fan_in] to [fan_in, gates * units]
            return np.moveaxis(kernel[gates], -1, 0).reshape(kernel.shape[-1], -1)

        if case.cell == "gru":
            bias = np.stack([problem.input_bias[gates].ravel(), problem.recurrent_bias[gates].ravel()])
        else:
            bias = (problem.input_bias + problem.recurrent_bias)[gates].ravel()
        self._layer.set_weights([matrix(problem.kernel), matrix(problem.recurrent_kernel), bias])
        return [variable.value for variable in self._layer.trainable_variables]

    def _network(self, inputs, training: bool):
        return self._layer(inputs, training=training)

    def _common_form(self, arrays: list[np.ndarray]) -> dict[str, np.ndarray]:
        kernel, recurrent_kernel, bias = arrays
        gates = self._GATES[self._case.cell]
        num_gates, units = self._case.num_gates, self._case.units

        def matrix(kernel):  # [fan_in, gates * units] to [gates, units, fan_in]
            return np.moveaxis(kernel.reshape(-1, num_gates, units), 0, -1)[gates]

        # A bias that is the sum of two has the gradient of each.
        biases = np.broadcast_to(bias.reshape(-1, num_gates, units), [2, num_gates, units])[:, gates]
        return {
            "kernel": matrix(kernel),
            "recurrent_kernel": matrix(recurrent_kernel),
            "input_bias": biases[0],
            "recurrent_bias": biases[1],
        }


class KerasXla(Keras):
    """The same, compiled by XLA."""

    label = "Keras XLA"
    jit_compile = True


OURS = "tf_rnn_ops"
KERAS = "keras"
PEERS: dict[str, type[Peer]] = {OURS: TfRnnOps, KERAS: Keras, "keras_xla": KerasXla}
