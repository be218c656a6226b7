"""Libraries that use TensorFlow: tf_rnn_ops, Keras with and without XLA, `tf.raw_ops`, and the float64 reference."""

import abc
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf
from cases import (
    BACKWARD,
    FORWARD,
    FORWARD_BACKWARD,
    MAPPED,
    PENALTY,
    PRODUCT,
    TANH,
    CellSteps,
    Elementwise,
    MixedModel,
    Model,
    Network,
    Product,
)
from keras_layers import create_layer, from_keras, to_keras
from keras_models import AcceleratedModelProgram, model_program
from problems import (
    CellProblem,
    NetworkProblem,
    Weights,
    cell_problem,
    elements,
    is_valid,
    model_problem,
    name_gradients,
    network_problem,
    product_factors,
)
from programs import Library, Program


def graph_call(function: Callable, *tensors, jit_compile: bool = False) -> Callable[[], Any]:
    """Returns a call of a function's graph with tensors as arguments, which TensorFlow cannot fold as constants."""
    graph_function = tf.function(function, jit_compile=jit_compile).get_concrete_function(*tensors)
    return functools.partial(graph_function, *tensors)


class NetworkProgram(Program):
    """A network that runs in a `tf.function`.

    Attributes:
      batch_axis: the batch axis in the network's layout.
    """

    batch_axis: ClassVar[int] = 0

    def __init__(self, case: Network, problem: NetworkProblem, jit_compile: bool = False):
        self._case = case
        inputs = tf.constant(self._own_layout(problem.inputs))
        output_gradient = tf.constant(self._own_layout(problem.output_gradient))
        lengths = tf.constant(case.lengths, tf.int32)
        self._variables = self._create_variables(problem)
        compiled = functools.partial(graph_call, jit_compile=jit_compile)
        make_call = {
            FORWARD: lambda: self._forward_call(compiled, inputs, lengths),
            FORWARD_BACKWARD: lambda: compiled(self._gradients, inputs, lengths, output_gradient),
            PENALTY: lambda: compiled(self._penalty_gradients, inputs, lengths, output_gradient),
        }
        self.calls = {task: make_call[task]() for task in case.tasks}

    @staticmethod
    def _own_layout(array: np.ndarray) -> np.ndarray:
        """Converts [batch, time, features] to the network's layout, or back."""
        return array

    @abc.abstractmethod
    def _create_variables(self, problem: NetworkProblem) -> list:
        """Creates the network and returns the variables to differentiate with respect to."""

    @abc.abstractmethod
    def _network(self, inputs, lengths, training: bool):
        """Runs the network."""

    @abc.abstractmethod
    def _weights(self, arrays: Sequence[np.ndarray]) -> Mapping[str, Weights]:
        """Returns the weights of each pseudo-layer, given arrays with the variables' shapes."""

    def _forward_call(self, compiled: Callable, inputs, lengths) -> Callable[[], Any]:
        """Returns the inference call; `compiled` is `graph_call` with the program's settings."""
        return compiled(self._forward, inputs, lengths)

    def _forward(self, inputs, lengths):
        return self._network(inputs, lengths, training=False)

    def _gradients(self, inputs, lengths, output_gradient):
        """Returns the gradients of the sum of output ∘ output_gradient."""
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            output = self._network(inputs, lengths, training=True)
        return tape.gradient(output, [inputs, *self._variables], output_gradients=output_gradient)

    def _penalty_gradients(self, inputs, lengths, output_weights):
        """Returns the penalty, see `cases.PenalizedNetwork`, and its gradients with respect to the variables."""
        with tf.GradientTape() as tape:
            with tf.GradientTape() as inner:
                inner.watch(inputs)
                output = self._network(inputs, lengths, training=True)
            # Passing the score's gradient with respect to the output restricts the time to the network.
            slopes = inner.gradient(output, inputs, output_gradients=output_weights * output)
            slopes = tf.cast(slopes, tf.float64 if inputs.dtype.size == 8 else tf.float32)
            norms = tf.norm(slopes, axis=[1 - self.batch_axis, 2])
            penalty = tf.reduce_mean((norms - 1) ** 2)
        return [penalty, *tape.gradient(penalty, self._variables)]

    def results(self, task: str) -> dict[str, np.ndarray]:
        """See the base class."""
        result = self.calls[task]()
        if task == FORWARD:
            # Keras's output past the end of a sequence differs.
            return {"output": np.where(is_valid(self._case), self._own_layout(result.numpy()), 0)}
        first, *others = (tensor.numpy() for tensor in result)
        named = {"penalty": first} if task == PENALTY else {"inputs": self._own_layout(first)}
        return name_gradients(named, self._weights(others))


class CudnnRNNProgram(NetworkProgram):
    """`CudnnRNNV3` of a module of raw ops, time-major.

    Forward calls the op directly unless XLA compiles it; forward + backward runs in a `tf.function`.
    """

    batch_axis = 1
    _RNN_MODES: ClassVar[dict[str, str]] = {"lstm": "lstm", "gru": "gru", "tanh": "rnn_tanh"}

    def __init__(self, case: Network, problem: NetworkProblem, raw_ops, jit_compile: bool = False):
        self._raw_ops = raw_ops
        self._jit_compile = jit_compile
        super().__init__(case, problem, jit_compile)

    def _forward_call(self, compiled: Callable, inputs, lengths) -> Callable[[], Any]:
        if self._jit_compile:
            return super()._forward_call(compiled, inputs, lengths)
        params = tf.constant(self._params)
        return functools.partial(self._call, inputs, lengths, params, self._zero_states(), training=False)

    @staticmethod
    def _own_layout(array: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.swapaxes(array, 0, 1))

    def _create_variables(self, problem: NetworkProblem) -> list:
        matrices = [(each.kernel, each.recurrent_kernel) for each in problem.weights.values()]
        biases = [(each.input_bias, each.recurrent_bias) for each in problem.weights.values()]
        self._params = tf.Variable(np.concatenate([array.ravel() for pair in matrices + biases for array in pair]))
        return [self._params]

    def _network(self, inputs, lengths, training: bool):
        return self._call(inputs, lengths, self._params, self._zero_states(), training)

    def _zero_states(self):
        case = self._case
        return tf.zeros([len(case.pseudo_layers), case.batch, case.units], self._params.dtype)

    def _call(self, inputs, lengths, params, states, training: bool):
        case = self._case
        return self._raw_ops.CudnnRNNV3(
            input=inputs,
            input_h=states,
            input_c=states,
            params=params,
            sequence_lengths=lengths,
            rnn_mode=self._RNN_MODES[case.cell],
            direction="bidirectional" if case.bidirectional else "unidirectional",
            is_training=training,
        ).output

    def _weights(self, arrays: Sequence[np.ndarray]) -> Mapping[str, Weights]:
        case = self._case
        (rest,) = arrays

        def take(*shape):
            nonlocal rest
            taken, rest = np.split(rest, [np.prod(shape)])
            return taken.reshape(shape)

        gates, units = case.num_gates, case.units
        matrices = [(take(gates, units, fan_in), take(gates, units, units)) for fan_in in case.pseudo_layers.values()]
        biases = [(take(gates, units), take(gates, units)) for _ in matrices]
        pairs = zip(case.pseudo_layers, matrices, biases, strict=True)
        return {name: Weights(*of_layer, *of_layer_biases) for name, of_layer, of_layer_biases in pairs}


class KerasProgram(NetworkProgram):
    """`keras.layers.LSTM`, `GRU` or `SimpleRNN`, batch-major, in `Bidirectional` or with a mask if needed."""

    def __init__(self, case: Network, problem: NetworkProblem, jit_compile: bool = False, unroll: bool = False):
        self._unroll = unroll
        super().__init__(case, problem, jit_compile)

    def _create_variables(self, problem: NetworkProblem) -> list:
        case = self._case
        options = {"return_sequences": True, "unroll": self._unroll}
        self._layers = [create_layer(case, case.dtype, **options) for _ in range(case.layers)]
        fan_ins = [case.input_size, *[case.output_size] * (case.layers - 1)]
        for layer, fan_in in zip(self._layers, fan_ins, strict=True):
            layer.build((case.batch, case.time, fan_in))
        variables = [variable for layer in self._layers for variable in layer.trainable_variables]
        for variable, array in zip(variables, to_keras(case, problem.weights), strict=True):
            variable.assign(array)
        return [variable.value for variable in variables]

    def _network(self, inputs, lengths, training: bool):
        mask = tf.sequence_mask(lengths, self._case.time) if self._case.varying else None
        for layer in self._layers:
            inputs = layer(inputs, mask=mask, training=training)
        return inputs

    def _weights(self, arrays: Sequence[np.ndarray]) -> Mapping[str, Weights]:
        return from_keras(self._case, arrays)


class CellProgram(Program):
    """Several steps of `GRUBlockCell` and `GRUBlockCellGrad` of a module of raw ops in a `tf.function`."""

    def __init__(self, case: CellSteps, problem: CellProblem, raw_ops, jit_compile: bool = False):
        self._case = case
        self._raw_ops = raw_ops
        forward = {name: tf.constant(array) for name, array in problem.forward.items()}
        gates = {name: tf.constant(array) for name, array in problem.gates.items()}
        self.calls = {
            FORWARD: graph_call(self._forward, forward, jit_compile=jit_compile),
            BACKWARD: graph_call(self._backward, forward, gates, tf.constant(problem.d_h), jit_compile=jit_compile),
        }

    def _forward(self, arguments):
        for _ in range(self._case.steps):
            step = self._raw_ops.GRUBlockCell(**arguments)
            arguments = {**arguments, "h_prev": step.h}
        return step._asdict()

    def _backward(self, arguments, gates, d_h):
        for _ in range(self._case.steps):
            gradients = self._raw_ops.GRUBlockCellGrad(**arguments, **gates, d_h=d_h)
            d_h = gradients.d_h_prev
        return gradients._asdict()

    def results(self, task: str) -> dict[str, np.ndarray]:
        """See the base class."""
        return {name: tensor.numpy() for name, tensor in self.calls[task]().items()}


class ProductProgram(Program):
    """`tf.matmul`, in a `tf.function`."""

    def __init__(self, case: Product):
        self.calls = {PRODUCT: graph_call(tf.matmul, *map(tf.constant, product_factors(case)))}

    def results(self, task: str) -> dict[str, np.ndarray]:
        """See the base class."""
        return {"product": self.calls[task]().numpy()}


class ElementwiseProgram(Program):
    """`tf.tanh`, alone and in a `tf.data` pipeline with a private thread pool."""

    def __init__(self, case: Elementwise, threads: int):
        argument = tf.constant(elements(case))
        dataset = tf.data.Dataset.from_tensors(argument).repeat().map(tf.tanh, num_parallel_calls=threads)
        options = tf.data.Options()
        options.threading.private_threadpool_size = threads
        self.calls = {TANH: graph_call(tf.tanh, argument), MAPPED: iter(dataset.with_options(options)).get_next}

    def results(self, task: str) -> dict[str, np.ndarray]:
        """See the base class."""
        return {"tanh": self.calls[task]().numpy()}


class TensorFlowLibrary(Library):
    """A library whose operations run on TensorFlow's threads."""

    def __init__(self, threads: int):
        self._threads = threads
        # Keras must run on the CPU, too.
        tf.config.set_visible_devices([], "GPU")
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        # A single inter-op thread would slow down Keras's training step, whose graph has branches.
        tf.config.threading.set_inter_op_parallelism_threads(threads)

    def versions(self) -> dict[str, str]:
        """See the base class."""
        return {"TensorFlow": tf.__version__}

    def elementwise(self, case: Elementwise) -> Program:
        """See the base class."""
        return ElementwiseProgram(case, self._threads)


class TfRnnOps(TensorFlowLibrary):
    """The ops of this project."""

    jit_compile: ClassVar[bool] = False

    def versions(self) -> dict[str, str]:
        """See the base class."""
        from tf_rnn_ops import __main__ as bug_report

        return {**dict(bug_report.versions()), "instruction set": bug_report.instruction_sets()}

    def network(self, case: Network) -> Program:
        """See the base class."""
        # Not imported at the top: the other libraries of this module do not need the package.
        import tf_rnn_ops

        return CudnnRNNProgram(case, network_problem(case), tf_rnn_ops.raw_ops, self.jit_compile)

    def model(self, case: Model) -> Program:
        """See the base class. Accelerates Keras in this process."""
        import tf_rnn_ops

        tf_rnn_ops.accelerate_keras(portable_exports=False)  # SavedModels contain the op
        if self.jit_compile or isinstance(case, MixedModel):
            return model_program(case, self.jit_compile)
        return AcceleratedModelProgram(case, model_problem(case))

    def cell_steps(self, case: CellSteps) -> Program:
        """See the base class."""
        import tf_rnn_ops

        return CellProgram(case, cell_problem(case), tf_rnn_ops.raw_ops, self.jit_compile)


class TfRnnOpsXla(TfRnnOps):
    """The ops of this project, compiled by XLA."""

    jit_compile = True


class Keras(TensorFlowLibrary):
    """Keras's layers in graph mode."""

    jit_compile: ClassVar[bool] = False
    unroll: ClassVar[bool] = False

    def versions(self) -> dict[str, str]:
        """See the base class."""
        return {**super().versions(), "Keras": keras.__version__}

    def network(self, case: Network) -> Program:
        """See the base class."""
        return KerasProgram(case, network_problem(case), self.jit_compile, self.unroll)

    def model(self, case: Model) -> Program:
        """See the base class."""
        return model_program(case, self.jit_compile)


class KerasXla(Keras):
    """Keras's layers, compiled by XLA."""

    jit_compile = True


class KerasUnrolled(Keras):
    """Keras's layers in graph mode, with unrolled time steps."""

    unroll = True


class RawOps(TensorFlowLibrary):
    """TensorFlow's own ops."""

    def cell_steps(self, case: CellSteps) -> Program | None:
        """See the base class."""
        return CellProgram(case, cell_problem(case), tf.raw_ops) if case.dtype == "float32" else None

    def product(self, case: Product) -> Program:
        """See the base class."""
        return ProductProgram(case)


class Float64CellProgram(Program):
    """The formulas of `GRUBlockCell` in NumPy, as in the documentation of the ops."""

    def __init__(self, case: CellSteps):
        self._steps = case.steps
        self._problem = cell_problem(case)
        self.calls = {}

    def results(self, task: str) -> dict[str, np.ndarray]:
        """See the base class."""
        forward = {name: array.astype(np.float64) for name, array in self._problem.forward.items()}
        if task == FORWARD:
            return self._forward(**forward)
        gates = {name: array.astype(np.float64) for name, array in self._problem.gates.items()}
        return self._backward(**forward, **gates, d_h=self._problem.d_h.astype(np.float64))

    def _forward(self, x, h_prev, w_ru, w_c, b_ru, b_c) -> dict[str, np.ndarray]:
        for _ in range(self._steps):
            r, u = np.split(1 / (1 + np.exp(-(np.hstack([x, h_prev]) @ w_ru + b_ru))), 2, axis=1)
            c = np.tanh(np.hstack([x, h_prev * r]) @ w_c + b_c)
            h_prev = u * h_prev + (1 - u) * c
        return {"r": r, "u": u, "c": c, "h": h_prev}

    def _backward(self, x, h_prev, w_ru, w_c, b_ru, b_c, r, u, c, d_h) -> dict[str, np.ndarray]:
        for _ in range(self._steps):
            d_c_bar = d_h * (1 - u) * (1 - c * c)
            d_u_bar = d_h * (h_prev - c) * u * (1 - u)
            d_x_2, d_h_prevr = np.split(d_c_bar @ w_c.T, [x.shape[1]], axis=1)
            d_r_bar_u_bar = np.hstack([d_h_prevr * h_prev * r * (1 - r), d_u_bar])
            d_x_1, d_h_prev_1 = np.split(d_r_bar_u_bar @ w_ru.T, [x.shape[1]], axis=1)
            d_h = d_h_prev_1 + d_h_prevr * r + d_h * u
        return {"d_x": d_x_1 + d_x_2, "d_h_prev": d_h, "d_c_bar": d_c_bar, "d_r_bar_u_bar": d_r_bar_u_bar}


class Float64ProductProgram(Program):
    """NumPy's product."""

    def __init__(self, case: Product):
        self._factors = [factor.astype(np.float64) for factor in product_factors(case)]
        self.calls = {}

    def results(self, task: str) -> dict[str, np.ndarray]:
        """See the base class."""
        return {"product": np.matmul(*self._factors)}


class Float64ElementwiseProgram(Program):
    """NumPy's function."""

    def __init__(self, case: Elementwise):
        self._argument = elements(case).astype(np.float64)
        self.calls = {}

    def results(self, task: str) -> dict[str, np.ndarray]:
        """See the base class."""
        return {"tanh": np.tanh(self._argument)}


class Float64Reference(TensorFlowLibrary):
    """Expected results: every case in float64 on the same inputs; networks in Keras."""

    def network(self, case: Network) -> Program:
        """See the base class."""
        return KerasProgram(dataclasses.replace(case, dtype="float64"), network_problem(case).astype("float64"))

    def model(self, case: Model) -> Program:
        """See the base class."""
        return model_program(case, dtype="float64")

    def cell_steps(self, case: CellSteps) -> Program:
        """See the base class."""
        return Float64CellProgram(case)

    def product(self, case: Product) -> Program:
        """See the base class."""
        return Float64ProductProgram(case)

    def elementwise(self, case: Elementwise) -> Program:
        """See the base class."""
        return Float64ElementwiseProgram(case)
