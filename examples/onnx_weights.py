"""Exports a GRU network to ONNX, compares it with ONNX Runtime, and imports the weights again.

Run it with `python examples/onnx_weights.py`. It requires the packages onnx and onnxruntime.
"""

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import tf_rnn_ops
from tf_rnn_ops.params import from_onnx, to_onnx

UNITS, FEATURES = 64, 32
LAYERS = 2
OPSET = 14


def gru_model(weights):
    """Returns a time-major ONNX model of bidirectional GRUs with the weights from `to_onnx`, one operator per layer."""
    initializers = [numpy_helper.from_array(np.array([0, 0, -1]), "shape")]  # 0 keeps a dimension: time and batch
    nodes, source = [], "input"
    for layer, tensors in enumerate(weights):
        initializers += [numpy_helper.from_array(tensor, f"{name}{layer}") for name, tensor in tensors.items()]
        y, by_batch, output = f"Y{layer}", f"by_batch{layer}", f"output{layer}"
        nodes += [
            helper.make_node(
                "GRU",
                [source, f"W{layer}", f"R{layer}", f"B{layer}"],
                [y],  # [time, directions, batch, units]
                hidden_size=UNITS,
                direction="bidirectional",
                linear_before_reset=1,
            ),
            helper.make_node("Transpose", [y], [by_batch], perm=[0, 2, 1, 3]),
            helper.make_node("Reshape", [by_batch, "shape"], [output]),  # [time, batch, directions * units]
        ]
        source = output
    input = helper.make_tensor_value_info("input", TensorProto.FLOAT, ["time", "batch", FEATURES])
    output = helper.make_tensor_value_info(source, TensorProto.FLOAT, ["time", "batch", 2 * UNITS])
    graph = helper.make_graph(nodes, "network", [input], [output], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def gru_weights(model):
    """Returns the weights of the GRU operators of a model for `from_onnx`. They must be initializers."""
    arrays = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    nodes = [node for node in model.graph.node if node.op_type == "GRU"]
    # B is optional: the list of inputs ends before it, or its name is empty.
    inputs = [zip("WRB", node.input[1:4], strict=False) for node in nodes]
    return [{name: arrays[of_node] for name, of_node in of_layer if of_node} for of_layer in inputs]


def main():
    """Compares the network in TensorFlow with ONNX Runtime and with the imported network."""
    options = {"time_major": True, "return_sequences": True}
    network = tf_rnn_ops.layers.CudnnGRU(UNITS, num_layers=LAYERS, direction="bidirectional", **options)
    x = np.random.default_rng(0).standard_normal([20, 8, FEATURES]).astype("float32")  # [time, batch, features]
    expected = network(x).numpy()

    model = gru_model(to_onnx(network.layout, network.params.numpy()))  # to save it: onnx.save(model, "network.onnx")
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (output,) = session.run(None, {"input": x})
    difference = np.abs(output - expected).max()
    print(f"The outputs differ by at most {difference:.1g}; the largest is {np.abs(expected).max():.1g}.")

    params = from_onnx(network.layout, gru_weights(model))
    again = tf_rnn_ops.layers.CudnnGRU.from_params(network.layout, params, **options)
    print("The imported network returns equal outputs:", np.array_equal(again(x), expected))


if __name__ == "__main__":
    main()
