"""Deterministic calls of every op, of many kinds and sizes."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from checks import cudnn_rnn_params as params_checks
from checks.cells import CELLS
from checks.cudnn_rnn import run_backprop, run_forward, tensors
from checks.keras_layers import MASKS
from checks.second_order import backprop_grad, dropout_masks

import tf_rnn_ops
from inputs import cudnn_rnn as cudnn_rnn_inputs
from inputs import gru_block_cell as gru_inputs
from inputs import keras_rnn
from inputs.cudnn_rnn import OUTPUTS, Config
from tf_rnn_ops._library import ops

Results = list[tf.Tensor]


@dataclasses.dataclass(frozen=True)
class Call:
    """A computation with fixed arguments.

    Attributes:
      name: the name in messages.
      compute: computes the results from the tensors.
      arguments: the tensors, in any structure.
    """

    name: str
    compute: Callable[[Any], Results]
    arguments: Any

    def __call__(self) -> Results:
        return self.compute(self.arguments)

    def in_graph(self) -> "Call":
        """Returns the same call as a new graph, which is traced immediately."""
        function = tf.function(self.compute, autograph=False).get_concrete_function(self.arguments)
        return Call(f"{self.name} in a graph", function, self.arguments)


def contents(results: Results) -> list[bytes]:
    """Returns the bits of results."""
    return [result.numpy().tobytes() for result in results]


# Units above and below the size of a tile; batches that are split into tasks, and a batch of one.
NETWORKS = [
    (
        "V3",
        "float32",
        Config("lstm", num_units=130, input_size=70, time=9, batch=11, sequence_lengths=(9, 4, 0) * 3 + (7, 1)),
    ),
    ("V3", "float32", Config("gru", direction="bidirectional", num_units=200, input_size=150, time=3, batch=64)),
    ("V3", "float32", Config("lstm", num_units=257, input_size=31, time=20, batch=1)),
    ("V3", "bfloat16", Config("lstm", num_layers=2, num_units=130, num_proj=45, input_size=70, batch=40)),
    ("V3", "float16", Config("gru", num_units=65, input_size=33, time=12, batch=9, time_major=False)),
    ("V3", "float64", Config("rnn_relu", num_layers=2, num_units=30, input_size=40, time=30, batch=4)),
    ("V2", "float32", Config("rnn_tanh", direction="bidirectional", num_units=100, input_size=40, time=10, batch=16)),
    ("V2", "float32", Config("gru", num_layers=3, num_units=8, input_size=8, time=5, batch=3)),
    ("", "float32", Config("lstm", num_layers=2, num_units=96, input_size=64, time=15, batch=32)),
    ("", "float64", Config("rnn_tanh", num_units=40, input_size=40, input_mode="skip_input", time=7, batch=5)),
]
DROPPED = Config("lstm", num_layers=3, direction="bidirectional", num_units=40, input_size=30, batch=6, dropout=0.5)
GRU_CELLS = [
    ("float32", (1, 128, 256)),
    ("float32", (64, 31, 65)),
    ("float64", (5, 130, 200)),
    ("bfloat16", (32, 64, 96)),
]


LSTM_OPS = [name for name in CELLS if "LSTM" in name]
# The mode, dtype and mask of layers.
LAYERS = [
    ("lstm", "float32", False),
    ("lstm", "bfloat16", True),
    ("lstm", "float64", True),
    ("gru", "float16", True),
    ("gru", "bfloat16", False),
    ("rnn_tanh", "float64", False),
]


def all_calls() -> list[Call]:
    """Returns calls of every op."""
    networks = [network(*each) for each in NETWORKS]
    return [
        *networks,
        dropped_network(),
        *(second_order(config, dtype) for version, dtype, config in NETWORKS if version == "V3"),
        *(cell(*each) for each in GRU_CELLS),
        *(
            lstm(dtype, name)
            for name, dtype in zip(LSTM_OPS, ("float32", "bfloat16", "float64", "float16"), strict=True)
        ),
        *(layer(*each) for each in LAYERS),
        *(params(version) for version in ("", "V2")),
    ]


def network(version: str, dtype: str, config: Config) -> Call:
    """Returns a call of the inference, the training step and the gradient of a network."""

    def compute(arguments):
        inputs, gradients = arguments
        inference = run_forward(config, inputs, version, is_training=False)
        outputs = run_forward(config, inputs, version)
        backprop = run_backprop(config, inputs, outputs, gradients, version)
        return [getattr(each, name) for each in (inference, outputs) for name in OUTPUTS] + list(backprop)

    arguments = [tensors(each) for each in cudnn_rnn_inputs.inputs_and_gradients(config, dtype)]
    return Call(f"CudnnRNN{version} {dtype} {config}", compute, arguments)


def dropped_network() -> Call:
    """Returns a call of the gradient of a training step with dropout. Every call must recover the same masks."""
    inputs, gradients = map(tensors, cudnn_rnn_inputs.inputs_and_gradients(DROPPED, "float32"))
    outputs = run_forward(DROPPED, inputs, seed=1, seed2=2)

    def compute(arguments):
        inputs, gradients, outputs = arguments
        return [dropout_masks(DROPPED, inputs, outputs), *run_backprop(DROPPED, inputs, outputs, gradients)]

    return Call("CudnnRNNBackpropV3 with dropout", compute, (inputs, gradients, outputs))


def second_order(config: Config, dtype: str) -> Call:
    """Returns a call of the second-order gradient of a network."""

    def compute(arguments):
        inputs, gradients = arguments
        outputs = run_forward(config, inputs)
        v = run_backprop(config, inputs, outputs, gradients)
        return list(backprop_grad(config, inputs, outputs, gradients, v))

    arguments = [tensors(each) for each in cudnn_rnn_inputs.inputs_and_gradients(config, dtype)]
    return Call(f"CudnnRNNBackpropGrad {dtype} {config}", compute, arguments)


def cell(dtype: str, size: tuple[int, int, int]) -> Call:
    """Returns a call of a step of GRUBlockCell and its gradients."""

    def compute(arguments):
        inputs, gradients = arguments
        step = tf_rnn_ops.raw_ops.GRUBlockCell(**inputs)
        gates = {name: getattr(step, name) for name in "ruc"}
        grad = tf_rnn_ops.raw_ops.GRUBlockCellGrad(**inputs, **gates, d_h=gradients["d_h"])
        grad_v2 = ops.tf_rnn_ops_gru_block_cell_grad_v2(**inputs, **gates, **gradients)
        return [*step, *grad, *grad_v2]

    arguments = (tensors(gru_inputs.cell_inputs(size, dtype)), tensors(gru_inputs.output_gradients(size, dtype)))
    return Call(f"GRUBlockCell {dtype} {size}", compute, arguments)


def lstm(dtype: str, name: str) -> Call:
    """Returns a call of an LSTM op and its gradient."""
    of_op = CELLS[name]

    def compute(inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = list(of_op.ours(*inputs.values()))
        return [*outputs, *tf.nest.flatten(tape.gradient(outputs, inputs, unconnected_gradients="zero"))]

    return Call(f"{name} {dtype}", compute, tensors(of_op.inputs((9, 40, 70), dtype)))


def layer(mode: str, dtype: str, has_mask: bool) -> Call:
    """Returns a call of KerasRNN and its gradient."""
    inputs = keras_rnn.arguments(mode, dtype, units=20, mask=MASKS["gaps"] if has_mask else None)
    raw_ops = tf_rnn_ops.raw_ops

    def compute(inputs):
        outputs, final_h, final_c, reserve_space = raw_ops.KerasRNN(**inputs, rnn_mode=mode)
        gradients = {"outputs_backprop": outputs, "final_h_backprop": final_h, "final_c_backprop": final_c}
        grads = raw_ops.KerasRNNBackprop(**inputs, rnn_mode=mode, **gradients, reserve_space=reserve_space)
        return [outputs, final_h, *grads]

    return Call(f"KerasRNN {mode} {dtype}{' with a mask' if has_mask else ''}", compute, inputs)


def params(version: str) -> Call:
    """Returns a call that splits and joins the params of a network."""
    config = Config("lstm", num_layers=2, num_units=60, num_proj=20 if version else 0, input_size=50)

    def compute(whole):
        split = params_checks.to_canonical(config, whole, version)
        joined = params_checks.to_params(config, split.weights, split.biases, version)
        network = params_checks.sizes(config) | params_checks.attributes(config, version)
        return [
            *split.weights,
            *split.biases,
            joined,
            tf_rnn_ops.raw_ops.CudnnRNNParamsSize(**network, T=tf.float32, S=tf.int64),
        ]

    whole = tf.constant(cudnn_rnn_inputs.network_inputs(config, "float32")["params"])
    return Call(f"CudnnRNNParamsToCanonical{version}", compute, whole)


# ---------------------------------------------------------------- several calls of an op in one computation

MANY = Config("lstm", num_units=100, input_size=40, time=10, batch=16)
NUM_INPUTS = 6


def of_one(arguments, i) -> Results:
    """Returns the results of a training step on one of several inputs."""
    inputs = {**arguments, "input": arguments["input"][i]}
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        output = run_forward(MANY, inputs).output
    return [output, *tape.gradient(output, [inputs["input"], inputs["params"]])]


def of_all_sequentially(arguments) -> Results:
    """Returns the results for all inputs, computed sequentially. The functions below return the same."""
    each = [of_one(arguments, i) for i in range(NUM_INPUTS)]
    return [tf.stack(results) for results in zip(*each, strict=True)]


def of_all_in_one_graph(arguments) -> Results:
    return of_all_sequentially(arguments)


def of_all_in_a_loop(arguments) -> Results:
    """The iterations are independent and run in parallel."""
    dtype = arguments["input"].dtype
    arrays = [tf.TensorArray(dtype, NUM_INPUTS) for _ in of_one(arguments, 0)]

    def body(i, arrays):
        results = of_one(arguments, i)
        return i + 1, [array.write(i, result) for array, result in zip(arrays, results, strict=True)]

    _, arrays = tf.while_loop(lambda i, _: i < NUM_INPUTS, body, (0, arrays), parallel_iterations=4)
    return [array.stack() for array in arrays]


def collect(dataset: tf.data.Dataset) -> Results:
    return [tf.stack(results) for results in zip(*dataset, strict=True)]


def mapped(arguments) -> tf.data.Dataset:
    return tf.data.Dataset.range(NUM_INPUTS).map(lambda i: of_one(arguments, i), num_parallel_calls=4)


def mapped_and_interleaved(arguments) -> tf.data.Dataset:
    """Parallel maps within datasets that are read in parallel."""

    def dataset_of(i):
        return tf.data.Dataset.range(i, i + 1).map(lambda i: of_one(arguments, i), num_parallel_calls=2)

    return tf.data.Dataset.range(NUM_INPUTS).interleave(dataset_of, cycle_length=3, num_parallel_calls=3)


def many_in_parallel() -> tuple[Call, Sequence[Call]]:
    """Returns a computation of several sequential calls, and computations in which TensorFlow runs them in parallel."""
    inputs = tensors(cudnn_rnn_inputs.network_inputs(MANY, "float32"))
    several = tf.stack([inputs["input"] / (i + 1) for i in range(NUM_INPUTS)])
    arguments = {**inputs, "input": several}
    calls = [
        Call("many in one graph", of_all_in_one_graph, arguments).in_graph(),
        Call("tf.while_loop", of_all_in_a_loop, arguments).in_graph(),
        Call("Dataset.map", collect, mapped(arguments)),
        Call("Dataset.interleave", collect, mapped_and_interleaved(arguments)),
    ]
    return Call("many sequentially", of_all_sequentially, arguments), calls
