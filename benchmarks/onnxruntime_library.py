"""ONNX Runtime, inference only: the operators LSTM, GRU, RNN, MatMul and Tanh."""

import functools
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnxruntime
from cases import FORWARD, FUNCTION, PRODUCT, TANH, Decoder, Elementwise, MixedModel, Model, Network, Product
from onnx import TensorProto, helper, numpy_helper
from problems import (
    ModelProblem,
    NetworkProblem,
    Weights,
    elements,
    model_problem,
    network_problem,
    product_factors,
)
from programs import Library, Program

_OPERATORS = {"lstm": "LSTM", "gru": "GRU", "tanh": "RNN"}
# The position in cuDNN of each of ONNX's gates: LSTM i, o, f, c; GRU z, r, h.
_GATES = {"lstm": [0, 3, 1, 2], "gru": [1, 0, 2], "tanh": [0]}
_OPSET = 22
_NEXT_TOKENS = "next_tokens"


def _session(model: onnx.ModelProto, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _model(nodes: Sequence, inputs: Sequence, outputs: Sequence[str], initializers: Sequence) -> onnx.ModelProto:
    types = {_NEXT_TOKENS: TensorProto.INT64}
    outputs = [helper.make_tensor_value_info(each, types.get(each, TensorProto.FLOAT), None) for each in outputs]
    graph = helper.make_graph(nodes, "benchmark", inputs, outputs, initializers)
    opset = helper.make_opsetid("", _OPSET)
    return helper.make_model(graph, opset_imports=[opset], ir_version=onnx.IR_VERSION_2024_3_25)


def _layer_initializers(case: Network, layer: int, weights: Sequence[Weights]) -> list[onnx.TensorProto]:
    """Returns W, R and B of a layer, given the weights of its directions."""
    gates = _GATES[case.cell]

    def rows(array):  # [gates, units, ...] to [gates * units, ...]
        return array[gates].reshape(-1, *array.shape[2:])

    arrays = {
        "W": [rows(each.kernel) for each in weights],
        "R": [rows(each.recurrent_kernel) for each in weights],
        "B": [np.concatenate([rows(each.input_bias), rows(each.recurrent_bias)]) for each in weights],
    }
    return [numpy_helper.from_array(np.stack(array), f"{name}{layer}") for name, array in arrays.items()]


def _layer_node(
    case: Network, layer: int, source: str, lengths: str, states: Sequence[str] = ()
) -> tuple[onnx.NodeProto, list[str]]:
    """Returns the node of a layer with the input `source`, [time, batch, features], and the names of its outputs.

    These are the outputs of all steps, [time, directions, batch, units], and the states, [directions, batch, units].
    """
    attributes = {"hidden_size": case.units, "direction": "bidirectional" if case.bidirectional else "forward"}
    if case.cell == "gru":
        attributes["linear_before_reset"] = 1
    inputs = [source, f"W{layer}", f"R{layer}", f"B{layer}", lengths, *states]
    outputs = [f"Y{layer}", f"H{layer}", *([f"C{layer}"] if case.cell == "lstm" else [])]
    return helper.make_node(_OPERATORS[case.cell], inputs, outputs, **attributes), outputs


def _output_nodes(case: Network, layer: int, y: str) -> tuple[list[onnx.NodeProto], str]:
    """Returns the nodes that concatenate the directions of a layer's output, and the name of the result."""
    swapped, output, nodes = f"swapped{layer}", f"output{layer}", []
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
        initializers += _layer_initializers(case, layer, _weights_of_layer(case, problem.weights, layer))
        node, (y, *_) = _layer_node(case, layer, source, lengths)
        output_nodes, source = _output_nodes(case, layer, y)
        nodes += [node, *output_nodes]
    return _model(nodes, inputs, [source], initializers)


def _weights_of_layer(case: Network, weights: Mapping[str, Weights], layer: int) -> list[Weights]:
    return [weights[f"layer_{layer}/{direction}"] for direction in case.directions]


def whole_model(case: Model, problem: ModelProblem) -> onnx.ModelProto:
    """Returns a batch-major model with the inputs "X", "lengths" if they vary, and the states of a decoder.

    It returns the output, [batch, outputs]; a decoder returns the next tokens, [batch, 1], the output and the states.
    """
    network = case.network
    arrays = {
        "shape": np.array([network.time, network.batch, network.output_size], np.int64),
        "features_shape": np.array([network.batch, network.output_size], np.int64),
        "head_kernel": problem.head_kernel,
        "head_bias": problem.head_bias,
    }
    element = TensorProto.INT64 if case.takes_tokens else TensorProto.FLOAT
    inputs = [helper.make_tensor_value_info("X", element, problem.inputs.shape)]
    lengths = "lengths" if network.varying else ""
    if lengths:
        inputs.append(helper.make_tensor_value_info(lengths, TensorProto.INT32, [network.batch]))
    nodes, source = [], "X"
    if problem.embedding is not None:
        arrays["embedding"] = problem.embedding
        nodes.append(helper.make_node("Gather", ["embedding", source], ["embedded"]))
        source = "embedded"
    nodes.append(helper.make_node("Transpose", [source], ["time_major"], perm=[1, 0, 2]))
    source, final_states = "time_major", []
    initializers = [numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in arrays.items()]
    num_states = len(problem.states) // network.layers
    for layer in range(network.layers):
        states = [f"state{layer * num_states + index}" for index in range(num_states)]
        shape = [1, network.batch, network.units]
        inputs += [helper.make_tensor_value_info(state, TensorProto.FLOAT, shape) for state in states]
        initializers += _layer_initializers(network, layer, _weights_of_layer(network, problem.weights, layer))
        node, (y, *of_layer) = _layer_node(network, layer, source, lengths, states)
        nodes.append(node)
        final_states += of_layer
        if layer < network.layers - 1:
            output_nodes, source = _output_nodes(network, layer, y)
            nodes += output_nodes
    nodes += [
        helper.make_node("Transpose", [f"H{network.layers - 1}"], ["last"], perm=[1, 0, 2]),
        helper.make_node("Reshape", ["last", "features_shape"], ["features"]),
        helper.make_node("Gemm", ["features", "head_kernel", "head_bias"], ["output"]),
    ]
    if not isinstance(case, Decoder):
        return _model(nodes, inputs, ["output"], initializers)
    nodes.append(helper.make_node("ArgMax", ["output"], [_NEXT_TOKENS], axis=-1))
    return _model(nodes, inputs, [_NEXT_TOKENS, "output", *final_states], initializers)


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


class ModelProgram(Program):
    """A model, for inference."""

    def __init__(self, case: Model, threads: int):
        problem = model_problem(case)
        self._decodes = isinstance(case, Decoder)
        self._first = {
            "X": problem.inputs,
            **{f"state{i}": state[np.newaxis] for i, state in enumerate(problem.states)},
        }
        if case.network.varying:
            self._first["lengths"] = np.array(case.network.lengths, np.int32)
        self._last = self._first
        self._session = _session(whole_model(case, problem), threads)
        self.calls = {FUNCTION: self._decode if self._decodes else functools.partial(self._run, self._first)}

    def _run(self, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        return self._session.run(None, feeds)

    def _decode(self) -> None:
        """Runs the model on its previous results."""
        tokens, _, *states = self._run(self._last)
        self._last = {"X": tokens, **{f"state{i}": state for i, state in enumerate(states)}}

    def results(self, task: str) -> dict[str, np.ndarray]:
        """See the base class."""
        if not self._decodes:
            return {"output": self._run(self._first)[0]}
        _, output, *states = self._run(self._first)
        return {"output": output, "states": np.concatenate(states)}


class ProductProgram(Program):
    """The operator MatMul."""

    def __init__(self, case: Product, threads: int):
        names = ("left", "right")
        inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [case.size, case.size]) for name in names]
        session = _session(_model([helper.make_node("MatMul", names, ["product"])], inputs, ["product"], []), threads)
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
        session = _session(_model([helper.make_node("Tanh", ["x"], ["tanh"])], inputs, ["tanh"], []), threads)
        self.calls = {TANH: functools.partial(session.run, None, {"x": elements(case)})}

    def results(self, task: str) -> dict[str, np.ndarray]:
        """See the base class."""
        (tanh,) = self.calls[task]()
        return {"tanh": tanh}


class OnnxRuntime(Library):
    """ONNX Runtime, which supports these operators in float32 only."""

    def __init__(self, threads: int):
        self._threads = threads

    def versions(self) -> dict[str, str]:
        """See the base class."""
        return {"ONNX Runtime": onnxruntime.__version__, "ONNX": onnx.__version__}

    def network(self, case: Network) -> Program | None:
        """See the base class."""
        return NetworkProgram(case, self._threads) if case.dtype == "float32" else None

    def model(self, case: Model) -> Program | None:
        """See the base class."""
        return None if isinstance(case, MixedModel) else ModelProgram(case, self._threads)

    def product(self, case: Product) -> Program | None:
        """See the base class."""
        return ProductProgram(case, self._threads) if case.dtype == "float32" else None

    def elementwise(self, case: Elementwise) -> Program:
        """See the base class."""
        return ElementwiseProgram(case, self._threads)
