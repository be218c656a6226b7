"""ONNX Runtime, for inference: the operators LSTM, GRU and RNN, MatMul and Tanh."""

import functools
from collections.abc import Sequence

import numpy as np
import onnx
import onnxruntime
from cases import FORWARD, PRODUCT, TANH, Elementwise, Network, Product
from onnx import TensorProto, helper, numpy_helper
from problems import NetworkProblem, Weights, elements, network_problem, product_factors
from programs import Library, Program

_OPERATORS = {"lstm": "LSTM", "gru": "GRU", "tanh": "RNN"}
# Which of cuDNN's gates each of ONNX's is: i, o, f, c of an LSTM, z, r, h of a GRU.
_GATES = {"lstm": [0, 3, 1, 2], "gru": [1, 0, 2], "tanh": [0]}
_OPSET = 22


def _session(model: onnx.ModelProto, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _model(nodes: Sequence, inputs: Sequence, output: str, initializers: Sequence) -> onnx.ModelProto:
    outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "benchmark", inputs, outputs, initializers)
    opset = helper.make_opsetid("", _OPSET)
    return helper.make_model(graph, opset_imports=[opset], ir_version=onnx.IR_VERSION_2024_3_25)


def _layer_initializers(case: Network, layer: int, weights: Sequence[Weights]) -> list[onnx.TensorProto]:
    """Returns W, R and B of a layer, whose directions have these weights."""
    gates = _GATES[case.cell]

    def rows(array):  # [gates, units, ...] to [gates * units, ...]
        return array[gates].reshape(-1, *array.shape[2:])

    arrays = {
        "W": [rows(each.kernel) for each in weights],
        "R": [rows(each.recurrent_kernel) for each in weights],
        "B": [np.concatenate([rows(each.input_bias), rows(each.recurrent_bias)]) for each in weights],
    }
    return [numpy_helper.from_array(np.stack(array), f"{name}{layer}") for name, array in arrays.items()]


def _layer_nodes(case: Network, layer: int, source: str, lengths: str) -> tuple[list[onnx.NodeProto], str]:
    """Returns the nodes of a layer, which take `source`, [time, batch, features], and the name of what they give."""
    attributes = {"hidden_size": case.units, "direction": "bidirectional" if case.bidirectional else "forward"}
    if case.cell == "gru":
        attributes["linear_before_reset"] = 1
    y, swapped, output = f"Y{layer}", f"swapped{layer}", f"output{layer}"
    network_inputs = [source, f"W{layer}", f"R{layer}", f"B{layer}", lengths]
    nodes = [helper.make_node(_OPERATORS[case.cell], network_inputs, [y], **attributes)]
    # Y is [time, directions, batch, units].
    if case.bidirectional:
        nodes.append(helper.make_node("Transpose", [y], [swapped], perm=[0, 2, 1, 3]))
    nodes.append(helper.make_node("Reshape", [swapped if case.bidirectional else y, "shape"], [output]))
    return nodes, output


def network_model(case: Network, problem: NetworkProblem) -> onnx.ModelProto:
    """Returns the network as a model, time-major."""
    shape = np.array([case.time, case.batch, case.output_size], np.int64)
    initializers = [numpy_helper.from_array(shape, "shape")]
    inputs = [helper.make_tensor_value_info("X", TensorProto.FLOAT, [case.time, case.batch, case.input_size])]
    lengths = "lengths" if case.varying else ""
    if lengths:
        inputs.append(helper.make_tensor_value_info(lengths, TensorProto.INT32, [case.batch]))
    nodes, source = [], "X"
    for layer in range(case.layers):
        weights = [problem.weights[f"layer_{layer}/{direction}"] for direction in case.directions]
        initializers += _layer_initializers(case, layer, weights)
        layer_nodes, source = _layer_nodes(case, layer, source, lengths)
        nodes += layer_nodes
    return _model(nodes, inputs, source, initializers)


class NetworkProgram(Program):
    """A network, time-major."""

    def __init__(self, case: Network, threads: int):
        problem = network_problem(case)
        feeds = {"X": np.ascontiguousarray(problem.inputs.swapaxes(0, 1))}
        if case.varying:
            feeds["lengths"] = np.array(case.lengths, np.int32)
        session = _session(network_model(case, problem), threads)
        self.calls = {FORWARD: functools.partial(session.run, None, feeds)}

    def results(self, task: str) -> dict[str, np.ndarray]:
        """See the base class."""
        (output,) = self.calls[task]()
        return {"output": output.swapaxes(0, 1)}


class ProductProgram(Program):
    """The operator MatMul."""

    def __init__(self, case: Product, threads: int):
        names = ("left", "right")
        inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [case.size, case.size]) for name in names]
        session = _session(_model([helper.make_node("MatMul", names, ["product"])], inputs, "product", []), threads)
        self.calls = {
            PRODUCT: functools.partial(session.run, None, dict(zip(names, product_factors(case), strict=True)))
        }

    def results(self, task: str) -> dict[str, np.ndarray]:
        """See the base class."""
        (product,) = self.calls[task]()
        return {"product": product}


class ElementwiseProgram(Program):
    """The operator Tanh."""

    def __init__(self, case: Elementwise, threads: int):
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [case.size])]
        session = _session(_model([helper.make_node("Tanh", ["x"], ["tanh"])], inputs, "tanh", []), threads)
        self.calls = {TANH: functools.partial(session.run, None, {"x": elements(case)})}

    def results(self, task: str) -> dict[str, np.ndarray]:
        """See the base class."""
        (tanh,) = self.calls[task]()
        return {"tanh": tanh}


class OnnxRuntime(Library):
    """ONNX Runtime, which knows these operators in float32 only."""

    def __init__(self, threads: int):
        self._threads = threads

    def versions(self) -> dict[str, str]:
        """See the base class."""
        return {"ONNX Runtime": onnxruntime.__version__, "ONNX": onnx.__version__}

    def network(self, case: Network) -> Program | None:
        """See the base class."""
        return NetworkProgram(case, self._threads) if case.dtype == "float32" else None

    def product(self, case: Product) -> Program | None:
        """See the base class."""
        return ProductProgram(case, self._threads) if case.dtype == "float32" else None

    def elementwise(self, case: Elementwise) -> Program:
        """See the base class."""
        return ElementwiseProgram(case, self._threads)
