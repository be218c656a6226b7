"""Libraries that use TensorFlow: tf_rnn_ops, Keras and `tf.raw_ops` on the CPU or a GPU, and the float64 reference."""

import functools
import pathlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf
from cases import (
    BACKWARD,
    EMPTY_FUNCTION,
    FORWARD,
    FORWARD_BACKWARD,
    MAPPED,
    OPS_ALONE,
    PENALTY,
    PRODUCT,
    TANH,
    TRAIN_ON_BATCH,
    Case,
)
from exported_models import OnTheOp, exported, exported_loss, exported_output, is_available, live_program
from keras_models import RNN_MODES, ModelProgram, accelerated_program, create_layer, from_keras, to_keras
from library import (
    Library,
    Problem,
    Program,
    Weights,
    cell_arguments,
    is_valid,
    lstm_arguments,
    name_gradients,
    operands,
    problem_of,
    task,
)
from served_models import NO_OPS, ServedProgram, expected_output

sys.path.append(str(pathlib.Path(__file__).parent.parent / "testing"))
from references import block_lstm, gru_block_cell


def _graph_call(function: Callable, *tensors, jit_compile: bool = False) -> Callable[[], Any]:
    """Returns a call of a function's graph with tensors as arguments, which TensorFlow cannot fold as constants."""
    graph_function = tf.function(function, jit_compile=jit_compile).get_concrete_function(*tensors)
    return functools.partial(graph_function, *tensors)


class _Network:
    """A network that runs in a `tf.function`.

    Attributes:
      batch_axis: the batch axis in the network's layout.
      variables: the variables to differentiate with respect to.
    """

    batch_axis: ClassVar[int] = 0
    variables: list

    def __init__(self, case: Case, problem: Problem, jit_compile: bool = False):
        self._case = case
        self._jit_compile = jit_compile
        self._inputs = tf.constant(self._own_layout(problem.inputs))
        self._output_gradient = tf.constant(self._own_layout(problem.output_gradient))
        self._lengths = tf.constant(case.lengths, tf.int32)

    def _own_layout(self, array: np.ndarray) -> np.ndarray:
        """Converts [batch, time, features] to the network's layout, or back."""
        return np.ascontiguousarray(np.swapaxes(array, 0, 1)) if self.batch_axis else array

    def _run(self, inputs, lengths, training: bool):
        raise NotImplementedError

    def _to_weights(self, arrays: Sequence[np.ndarray]) -> Mapping[str, Weights]:
        """Returns the weights of each pseudo-layer, given arrays with the variables' shapes."""
        raise NotImplementedError

    def program(self) -> Program:
        """Returns the program."""

        def gradients(function):
            arguments = self._inputs, self._lengths, self._output_gradient
            return _graph_call(function, *arguments, jit_compile=self._jit_compile)

        def output(result):
            # Keras's output past the end of a sequence differs.
            return {"output": np.where(is_valid(self._case), self._own_layout(result.numpy()), 0)}

        def named(first, result):
            own, *others = (tensor.numpy() for tensor in result)
            own = self._own_layout(own) if first == "inputs" else own
            return name_gradients({first: own}, self._to_weights(others))

        make = {
            FORWARD: lambda: task(self._forward_call(), output),
            FORWARD_BACKWARD: lambda: task(gradients(self._gradients), functools.partial(named, "inputs")),
            PENALTY: lambda: task(gradients(self._penalty_gradients), functools.partial(named, "penalty")),
        }
        return {name: make[name]() for name in self._case.tasks}

    def _forward_call(self) -> Callable[[], Any]:
        forward = functools.partial(self._run, training=False)
        return _graph_call(forward, self._inputs, self._lengths, jit_compile=self._jit_compile)

    def _gradients(self, inputs, lengths, output_gradient):
        """Returns the gradients of the sum of output ∘ output_gradient."""
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            output = self._run(inputs, lengths, training=True)
        return tape.gradient(output, [inputs, *self.variables], output_gradients=output_gradient)

    def _penalty_gradients(self, inputs, lengths, output_weights):
        """Returns the penalty, see `cases`, and its gradients with respect to the variables."""
        with tf.GradientTape() as tape:
            with tf.GradientTape() as inner:
                inner.watch(inputs)
                output = self._run(inputs, lengths, training=True)
            # Passing the score's gradient with respect to the output restricts the time to the network.
            slopes = inner.gradient(output, inputs, output_gradients=output_weights * output)
            slopes = tf.cast(slopes, tf.float64 if inputs.dtype.size == 8 else tf.float32)
            norms = tf.norm(slopes, axis=[1 - self.batch_axis, 2])
            penalty = tf.reduce_mean((norms - 1) ** 2)
        return [penalty, *tape.gradient(penalty, self.variables)]


class CudnnNetwork(_Network):
    """`CudnnRNNV3` of a module of raw ops, time-major.

    Forward calls the op directly unless XLA compiles it; forward + backward runs in a `tf.function`.
    """

    batch_axis = 1

    def __init__(self, case: Case, problem: Problem, raw_ops, jit_compile: bool = False):
        super().__init__(case, problem, jit_compile)
        self._raw_ops = raw_ops
        matrices = [(each.kernel, each.recurrent_kernel) for each in problem.weights.values()]
        biases = [(each.input_bias, each.recurrent_bias) for each in problem.weights.values()]
        self._params = tf.Variable(np.concatenate([array.ravel() for pair in matrices + biases for array in pair]))
        self.variables = [self._params]

    def _forward_call(self) -> Callable[[], Any]:
        if self._jit_compile:
            return super()._forward_call()
        params = tf.constant(self._params)
        return functools.partial(self._call, self._inputs, self._lengths, params, self._zeros(), training=False)

    def _run(self, inputs, lengths, training: bool):
        return self._call(inputs, lengths, self._params, self._zeros(), training)

    def _zeros(self):
        case = self._case
        return tf.zeros([len(case.pseudo_layers), case.batch, case.units], self._params.dtype)

    def _call(self, inputs, lengths, params, states, training: bool):
        return self._raw_ops.CudnnRNNV3(
            input=inputs,
            input_h=states,
            input_c=states,
            params=params,
            sequence_lengths=lengths,
            rnn_mode=RNN_MODES[self._case.cell],
            direction="bidirectional" if self._case.bidirectional else "unidirectional",
            is_training=training,
        ).output

    def _to_weights(self, arrays: Sequence[np.ndarray]) -> Mapping[str, Weights]:
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


class _KerasNetwork(_Network):
    """`keras.layers.LSTM`, `GRU` or `SimpleRNN`, batch-major, in `Bidirectional` or with a mask if needed."""

    def __init__(self, case: Case, problem: Problem, jit_compile: bool = False, unroll: bool = False):
        super().__init__(case, problem, jit_compile)
        dtype = problem.inputs.dtype.name
        self._layers = [create_layer(case, dtype, return_sequences=True, unroll=unroll) for _ in range(case.layers)]
        fan_ins = [case.input_size, *[case.output_size] * (case.layers - 1)]
        for layer, fan_in in zip(self._layers, fan_ins, strict=True):
            layer.build((case.batch, case.time, fan_in))
        variables = [variable for layer in self._layers for variable in layer.trainable_variables]
        for variable, array in zip(variables, to_keras(case, problem.weights), strict=True):
            variable.assign(array)
        self.variables = [variable.value for variable in variables]

    def _run(self, inputs, lengths, training: bool):
        mask = tf.sequence_mask(lengths, self._case.time) if self._case.varying else None
        for layer in self._layers:
            inputs = layer(inputs, mask=mask, training=training)
        return inputs

    def _to_weights(self, arrays: Sequence[np.ndarray]) -> Mapping[str, Weights]:
        return from_keras(self._case, arrays)


def _cell_calls(case: Case, raw_ops) -> dict[str, Callable]:
    """Returns functions of several steps of the ops `GRUBlockCell` and `GRUBlockCellGrad` of a module."""

    def forward(arguments):
        for _ in range(case.steps):
            step = raw_ops.GRUBlockCell(**arguments)
            arguments = {**arguments, "h_prev": step.h}
        return step._asdict()

    def backward(arguments, further):
        for _ in range(case.steps):
            gradients = raw_ops.GRUBlockCellGrad(**arguments, **further)
            further = {**further, "d_h": gradients.d_h_prev}
        return gradients._asdict()

    return {FORWARD: forward, BACKWARD: backward}


def _cell_program(case: Case, raw_ops, jit_compile: bool = False) -> Program:
    """The ops of a module of raw ops in a `tf.function`."""
    arguments, further = ({name: tf.constant(array) for name, array in each.items()} for each in cell_arguments(case))
    inputs = {FORWARD: [arguments], BACKWARD: [arguments, further]}
    return {
        name: task(_graph_call(call, *inputs[name], jit_compile=jit_compile), _arrays)
        for name, call in _cell_calls(case, raw_ops).items()
    }


def _lstm_program(case: Case, raw_ops, jit_compile: bool = False) -> Program:
    """`BlockLSTM`, and `BlockLSTMGrad` after it, of a module of raw ops in a `tf.function`. The gradient of h is h."""
    arguments = {name: tf.constant(array, case.dtype) for name, array in lstm_arguments(case).items()}

    def run_forward(arguments):
        return {"h": raw_ops.BlockLSTM(seq_len_max=case.time, **arguments, cell_clip=0.0).h}

    def run_both(arguments):
        outputs = raw_ops.BlockLSTM(seq_len_max=case.time, **arguments, cell_clip=0.0)
        d_outputs = {"cs_grad": tf.zeros_like(outputs.cs), "h_grad": outputs.h}
        return raw_ops.BlockLSTMGrad(
            seq_len_max=case.time, **arguments, **outputs._asdict(), **d_outputs, use_peephole=False
        )._asdict()

    return {
        FORWARD: task(_graph_call(run_forward, arguments, jit_compile=jit_compile), _arrays),
        FORWARD_BACKWARD: task(_graph_call(run_both, arguments, jit_compile=jit_compile), _arrays),
    }


def _arrays(tensors: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in tensors.items()}


# Programs of ops of a module of raw ops, by the kind of the case.
_PROGRAMS_OF_OPS = {"gru_block_cell": _cell_program, "block_lstm": _lstm_program}


def _elementwise_program(case: Case, threads: int) -> Program:
    """`tf.tanh`, alone and in a `tf.data` pipeline with a private thread pool."""
    argument = tf.constant(*operands(case))
    dataset = tf.data.Dataset.from_tensors(argument).repeat().map(tf.tanh, num_parallel_calls=threads)
    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    calls = {TANH: _graph_call(tf.tanh, argument), MAPPED: iter(dataset.with_options(options)).get_next}
    return {name: task(call, lambda result: {"tanh": result.numpy()}) for name, call in calls.items()}


class _OnCpu(Library):
    """A library whose operations run on TensorFlow's threads."""

    jit_compile = False

    def __init__(self, threads: int, **options: Any):
        super().__init__(threads, **options)
        # Keras must run on the CPU, too.
        tf.config.set_visible_devices([], "GPU")
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        # A single inter-op thread would slow down Keras's training step, whose graph has branches.
        tf.config.threading.set_inter_op_parallelism_threads(threads)

    def versions(self) -> dict[str, str]:
        return {"TensorFlow": tf.__version__}

    def program(self, case: Case) -> Program:
        return _elementwise_program(case, self.threads) if case.kind == "elementwise" else {}


class TfRnnOps(_OnCpu):
    """The ops of this project.

    Attributes:
      exports: what served models contain.
    """

    exports: str = "op"

    def versions(self) -> dict[str, str]:
        from tf_rnn_ops import __main__ as bug_report

        return {**dict(bug_report.versions()), "instruction set": bug_report.instruction_sets()}

    def program(self, case: Case) -> Program:
        # Not imported at the top: the other libraries of this module do not need the package.
        import tf_rnn_ops

        if case.has_network:
            return CudnnNetwork(case, problem_of(case), tf_rnn_ops.raw_ops, self.jit_compile).program()
        if case.kind in _PROGRAMS_OF_OPS:
            return _PROGRAMS_OF_OPS[case.kind](case, tf_rnn_ops.raw_ops, self.jit_compile)
        if case.is_model:
            # Of this process. SavedModels contain the op.
            tf_rnn_ops.accelerate_keras(exports="op")
            if self.jit_compile:
                return ModelProgram(case, problem_of(case), jit_compile=True).tasks
            return accelerated_program(case)
        if case.is_served:
            tf_rnn_ops.accelerate_keras(exports=self.exports)
            freeze = functools.partial(tf_rnn_ops.freeze, weight_format=self.exports) if self.exports != "op" else None
            return ServedProgram(case, self.threads, str(tf_rnn_ops._library.LIBRARY_PATH), freeze).tasks
        if case.is_exported and is_available(case):
            tf_rnn_ops.restore_keras()  # plain Keras writes the model
            model = exported(case, OnTheOp)
            files = {**model.in_python(case), **model.in_c(case, self.threads, str(tf_rnn_ops._library.LIBRARY_PATH))}
            tf_rnn_ops.accelerate_keras()
            return {**files, **live_program(case)}
        return super().program(case)


class Keras(_OnCpu):
    """Keras's layers in graph mode."""

    unroll = False

    def versions(self) -> dict[str, str]:
        return {**super().versions(), "Keras": keras.__version__}

    def program(self, case: Case) -> Program:
        if case.has_network:
            return _KerasNetwork(case, problem_of(case), self.jit_compile, self.unroll).program()
        if case.is_model:
            return ModelProgram(case, problem_of(case), self.jit_compile).tasks
        if case.is_served:
            return ServedProgram(case, self.threads, NO_OPS).tasks
        if case.is_exported and is_available(case):
            in_c = {} if case.takes_tokens else exported(case).in_c(case, self.threads, NO_OPS)
            return {**in_c, **live_program(case)}
        return super().program(case)


class RawOps(_OnCpu):
    """TensorFlow's own ops."""

    def program(self, case: Case) -> Program:
        if case.kind in _PROGRAMS_OF_OPS:
            return _PROGRAMS_OF_OPS[case.kind](case, tf.raw_ops) if case.dtype == "float32" else {}
        if case.kind == "product":
            call = _graph_call(tf.matmul, *map(tf.constant, operands(case)))
            return {PRODUCT: task(call, lambda result: {"product": result.numpy()})}
        return super().program(case)


class Float64Reference(_OnCpu):
    """Expected results: every case in float64 on the same inputs; networks and models in Keras, the rest in NumPy."""

    def program(self, case: Case) -> Program:
        if case.has_network:
            return _KerasNetwork(case, problem_of(case, "float64")).program()
        if case.is_model:
            model = ModelProgram(case, problem_of(case, "float64"))
            return {
                **model.tasks,
                EMPTY_FUNCTION: task(lambda: None, lambda _: {"inputs": problem_of(case).inputs}),
                OPS_ALONE: task(model.features, lambda features: {"features": features}),
            }
        if case.is_served or case.is_exported:
            compute = expected_output if case.is_served else exported_output
            output = task(lambda: compute(case), lambda result: {"output": result})
            loss = task(lambda: exported_loss(case), lambda result: {"loss": result})
            return {name: loss if name == TRAIN_ON_BATCH else output for name in case.tasks}
        if case.kind == "gru_block_cell":
            arguments, further = (
                {name: array.astype(np.float64) for name, array in each.items()} for each in cell_arguments(case)
            )
            calls = _cell_calls(case, _ReferenceCell)
            return {
                FORWARD: task(functools.partial(calls[FORWARD], arguments), dict),
                BACKWARD: task(functools.partial(calls[BACKWARD], arguments, further), dict),
            }
        if case.kind == "block_lstm":
            return _lstm_reference(case)
        of_case = [each.astype(np.float64) for each in operands(case)]
        tanh = task(lambda: np.tanh(*of_case), lambda result: {"tanh": result})
        product = task(lambda: np.matmul(*of_case), lambda result: {"product": result})
        return {PRODUCT: product} if case.kind == "product" else {TANH: tanh, MAPPED: tanh}


class _ReferenceCell:
    """`GRUBlockCell` and its gradient as a module of raw ops."""

    GRUBlockCell = staticmethod(gru_block_cell.gru_block_cell)
    GRUBlockCellGrad = staticmethod(gru_block_cell.gru_block_cell_grad)


def _lstm_reference(case: Case) -> Program:
    """`BlockLSTM` and its gradient."""
    arguments = lstm_arguments(case)
    outputs = block_lstm.sequence(case.time, **arguments, cell_clip=0.0)

    def gradients() -> dict[str, np.ndarray]:
        d_outputs = block_lstm.of_states(np.zeros_like(outputs.cs), outputs.h)
        return block_lstm.sequence_grad(case.time, **arguments, results=outputs, grads=d_outputs)._asdict()

    return {FORWARD: task(lambda: {"h": outputs.h}, dict), FORWARD_BACKWARD: task(gradients, dict)}


class OnGpu(Library):
    """A module of raw ops on a GPU.

    Attributes:
      device: the device's name.
    """

    device = "GPU:0"

    def __init__(self, threads: int, **options: Any):
        super().__init__(threads, **options)
        for gpu in tf.config.list_physical_devices("GPU"):
            # Leaves memory for the other libraries.
            tf.config.experimental.set_memory_growth(gpu, True)

    def versions(self) -> dict[str, str]:
        return {"TensorFlow": tf.__version__}

    def synchronize(self) -> None:
        tf.test.experimental.sync_devices()

    def _program(self, case: Case, raw_ops) -> Program:
        """Returns the program of a module if its results are in the device's memory.

        Raises:
          RuntimeError: if they are not. TensorFlow runs an op elsewhere if the device has no kernel for it.
        """
        if not case.has_network and case.kind != "gru_block_cell":
            return {}
        with tf.device(self.device):
            if case.has_network:
                program = CudnnNetwork(case, problem_of(case), raw_ops).program()
            else:
                program = _cell_program(case, raw_ops)
        for tensor in tf.nest.flatten([each.call() for each in program.values()]):
            if not tensor.backing_device.endswith(self.device):
                raise RuntimeError(f"{case.name} ran on {tensor.backing_device}, not on {self.device}")
        return program


class TfRnnOpsOnGpu(OnGpu):
    """The ops of this project."""

    def versions(self) -> dict[str, str]:
        from tf_rnn_ops import __main__ as bug_report

        devices: dict[str, str] = {}
        for name, value in bug_report.devices():
            devices[name] = f"{devices[name]}; {value}" if name in devices else value
        return {**dict(bug_report.versions()), **devices}

    def program(self, case: Case) -> Program:
        import tf_rnn_ops

        return self._program(case, tf_rnn_ops.raw_ops)


class RawOpsOnGpu(OnGpu):
    """TensorFlow's own ops. The bfloat16 backward pass is left out: TensorFlow does not fill its reserve_space."""

    def program(self, case: Case) -> Program:
        if case.kind == "gru_block_cell" and case.dtype != "float32":
            return {}
        program = self._program(case, tf.raw_ops)
        return {FORWARD: program[FORWARD]} if case.has_network and case.dtype == "bfloat16" else program
