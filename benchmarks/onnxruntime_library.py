"""ONNX Runtime, inference only: the operators LSTM, GRU, RNN, MatMul and Tanh."""

import functools
import pathlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from cases import CALL_IN_PYTHON, FORWARD, FUNCTION, PRODUCT, TANH, Case
from library import Library, Program, Task, Weights, operands, problem_of, task
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

_OPERATORS = {"lstm": "LSTM", "gru": "GRU", "tanh": "RNN"}
# The position in cuDNN of each of ONNX's gates: LSTM i, o, f, c; GRU z, r, h.
_GATES = {"lstm": [0, 3, 1, 2], "gru": [1, 0, 2], "tanh": [0]}
_OPSET = 22
_NEXT_TOKENS = "next_tokens"


class _Graph:
    """A graph with inputs of known shape and dtype, whose nodes are added in order.

    Attributes:
      feeds: the inputs.
    """

    def __init__(self, feeds: Mapping[str, np.ndarray]):
        self.feeds = dict(feeds)
        self._initializers: list = []
        self._nodes: list = []

    def initializer(self, name: str, array: Any) -> str:
        """Adds a constant and returns its name."""
        self._initializers.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def node(self, operator: str, inputs: Sequence[str], *outputs: str, **attributes: Any) -> str:
        """Adds a node and returns the name of its first output."""
        self._nodes.append(helper.make_node(operator, inputs, outputs, **attributes))
        return outputs[0]

    def layer(self, case: Case, layer: int, source: str, weights: Mapping[str, Weights], lengths: str) -> list[str]:
        """Adds a layer with the input `source`, [time, batch, features], and returns the names of its outputs.

        The outputs are [time, directions, batch, units]; the states are [directions, batch, units].
        """
        gates = _GATES[case.cell]
        of_layer = [weights[f"layer_{layer}/{direction}"] for direction in case.directions]

        def rows(array):  # [gates, units, ...] to [gates * units, ...]
            return array[gates].reshape(-1, *array.shape[2:])

        arrays = {
            "W": [rows(each.kernel) for each in of_layer],
            "R": [rows(each.recurrent_kernel) for each in of_layer],
            "B": [np.concatenate([rows(each.input_bias), rows(each.recurrent_bias)]) for each in of_layer],
        }
        names = [self.initializer(f"{name}{layer}", np.stack(array)) for name, array in arrays.items()]
        attributes = {"hidden_size": case.units, "direction": "bidirectional" if case.bidirectional else "forward"}
        if case.cell == "gru":
            attributes["linear_before_reset"] = 1
        num_states = 2 if case.cell == "lstm" else 1
        states = [f"state{num_states * layer + index}" for index in range(num_states)]
        states = states if case.takes_states else []
        outputs = [f"{name}{layer}" for name in "YHC"[: 1 + num_states]]
        self.node(_OPERATORS[case.cell], [source, *names, lengths, *states], *outputs, **attributes)
        return outputs

    def joined(self, case: Case, layer: int, y: str) -> str:
        """Adds nodes that concatenate the directions of a layer's output, and returns the name of the result."""
        if layer == 0:
            self.initializer("shape", np.array([case.time, case.batch, case.output_size], np.int64))
        if case.bidirectional:
            y = self.node("Transpose", [y], f"swapped{layer}", perm=[0, 2, 1, 3])
        return self.node("Reshape", [y, "shape"], f"output{layer}")

    def session(
        self,
        outputs: Sequence[str],
        threads: int,
        convert: Callable[[onnx.ModelProto], onnx.ModelProto] = lambda model: model,
    ) -> onnxruntime.InferenceSession:
        """Returns a session of the graph, after a conversion."""
        types = {_NEXT_TOKENS: TensorProto.INT64}
        infos = [helper.make_tensor_value_info(each, types.get(each, TensorProto.FLOAT), None) for each in outputs]
        inputs = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in self.feeds.items()
        ]
        graph = helper.make_graph(self._nodes, "benchmark", inputs, infos, self._initializers)
        opset = helper.make_opsetid("", _OPSET)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=onnx.IR_VERSION_2024_3_25)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        serialized = convert(model).SerializeToString()
        return onnxruntime.InferenceSession(serialized, options, providers=["CPUExecutionProvider"])

    def task(self, output: str, threads: int, results) -> Task:
        """Returns a task that computes one output, which `results` converts."""
        call = functools.partial(self.session([output], threads).run, None, self.feeds)
        return task(call, lambda outputs: results(outputs[0]))


def _lengths(case: Case) -> dict[str, np.ndarray]:
    return {"lengths": np.array(case.lengths, np.int32)} if case.varying else {}


def _network_program(case: Case, threads: int) -> Program:
    """A network, time-major."""
    problem = problem_of(case)
    graph = _Graph({"X": np.ascontiguousarray(problem.inputs.swapaxes(0, 1)), **_lengths(case)})
    source = "X"
    for layer in range(case.layers):
        y, *_ = graph.layer(case, layer, source, problem.weights, "lengths" if case.varying else "")
        source = graph.joined(case, layer, y)
    return {FORWARD: graph.task(source, threads, lambda output: {"output": output.swapaxes(0, 1)})}


class ModelProgram:
    """A batch-major model, for inference. A decoder returns the next tokens, the output and the states.

    Attributes:
      tasks: its program.

    Args:
      case: the model.
      threads: the number of threads.
    """

    def __init__(self, case: Case, threads: int):
        problem = problem_of(case)
        states = {f"state{i}": state[np.newaxis] for i, state in enumerate(problem.states)}
        graph = _Graph({"X": problem.inputs, **_lengths(case), **states})
        source = "X"
        if problem.embedding is not None:
            source = graph.node("Gather", [graph.initializer("embedding", problem.embedding), source], "embedded")
        source = graph.node("Transpose", [source], "time_major", perm=[1, 0, 2])
        final_states: list[str] = []
        for layer in range(case.layers):
            y, *of_layer = graph.layer(case, layer, source, problem.weights, "lengths" if case.varying else "")
            final_states += of_layer
            if layer < case.layers - 1:
                source = graph.joined(case, layer, y)
        shape = graph.initializer("features_shape", np.array([case.batch, case.output_size], np.int64))
        last = graph.node("Transpose", [f"H{case.layers - 1}"], "last", perm=[1, 0, 2])
        features = graph.node("Reshape", [last, shape], "features")
        head = [graph.initializer(name, getattr(problem, name)) for name in ("head_kernel", "head_bias")]
        output = graph.node("Gemm", [features, *head], "output")
        if case.kind != "decoder":
            self.tasks = {FUNCTION: graph.task(output, threads, lambda output: {"output": output})}
            return
        tokens = graph.node("ArgMax", [output], _NEXT_TOKENS, axis=-1)
        self._first = self._last = graph.feeds
        self._session = graph.session([tokens, output, *final_states], threads)
        self.tasks = {FUNCTION: Task(self._decode, self._results)}

    def _decode(self) -> None:
        """Runs the model on its previous results."""
        tokens, _, *states = self._session.run(None, self._last)
        self._last = {"X": tokens, **{f"state{i}": state for i, state in enumerate(states)}}

    def _results(self) -> dict[str, np.ndarray]:
        _, output, *states = self._session.run(None, self._first)
        return {"output": output, "states": np.concatenate(states)}


def quantized(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns a model whose LSTMs multiply integers, with a scale for each row of W and R.

    Weights have 7 bits on x86-64 without VNNI, as ONNX Runtime's guide advises: sums of two products saturate there.
    """
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "quantized.onnx")
        quantize_dynamic(
            model,
            path,
            op_types_to_quantize=["LSTM"],
            per_channel=True,
            reduce_range="avx2" in flags and "vnni" not in flags,
            weight_type=QuantType.QInt8,
        )
        model = onnx.load(path)
    assert "DynamicQuantizeLSTM" in [node.op_type for node in model.graph.node]
    return model


def _served_program(case: Case, threads: int, is_quantized: bool) -> Program:
    """A served model, which returns the last output, [batch, units], and a decoder's states."""
    if is_quantized and case.cell != "lstm":
        return {}
    problem = problem_of(case)
    states = {f"state{index}": state[np.newaxis] for index, state in enumerate(problem.states)}
    graph = _Graph({"X": problem.inputs, **states})
    source = graph.node("Transpose", ["X"], "time_major", perm=[1, 0, 2])
    _, *final_states = graph.layer(case, 0, source, problem.weights, "")
    shape = graph.initializer("output_shape", np.array([case.batch, case.units], np.int64))
    output = graph.node("Reshape", [final_states[0], shape], "output")
    convert = quantized if is_quantized else lambda model: model
    session = graph.session([output, *(final_states if states else [])], threads, convert)
    call = functools.partial(session.run, None, graph.feeds)
    return {CALL_IN_PYTHON: task(call, lambda outputs: {"output": outputs[0]})}


class OnnxRuntime(Library):
    """ONNX Runtime, which supports these operators in float32 only.

    Attributes:
      is_quantized: whether the weights have 8 bits, which it supports for LSTM in served models.
    """

    is_quantized = False

    def versions(self) -> dict[str, str]:
        return {"ONNX Runtime": onnxruntime.__version__, "ONNX": onnx.__version__}

    def program(self, case: Case) -> Program:
        if case.dtype != "float32" or case.variant or case.kind in ("penalty", "mixed", "gru_block_cell", "block_lstm"):
            return {}
        if case.kind == "network":
            return _network_program(case, self.threads)
        if case.is_model:
            return ModelProgram(case, self.threads).tasks
        if case.is_served:
            return _served_program(case, self.threads, self.is_quantized)
        name, operator, key = {
            "product": (PRODUCT, "MatMul", "product"),
            "elementwise": (TANH, "Tanh", "tanh"),
        }[case.kind]
        graph = _Graph({f"x{index}": each for index, each in enumerate(operands(case))})
        output = graph.node(operator, list(graph.feeds), key)
        return {name: graph.task(output, self.threads, lambda result: {key: result})}
