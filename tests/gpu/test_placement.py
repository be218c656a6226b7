"""Device placement: ops run on a GPU if TensorFlow sees one, also in graphs and models on several devices."""

import textwrap

import numpy as np
import pytest
import tensorflow as tf
from checks.cudnn_rnn import all_results, assert_all_same_bits, run_backprop, run_forward, tensors
from checks.parity import difference
from environment import processes
from environment.devices import CPU_OPS, DEVICE, OPS, assert_on, needs_gpu
from inputs.cudnn_rnn import Config, forward_arguments, inputs_and_gradients, network_inputs, sized
from inputs.gru_block_cell import cell_inputs

import tf_rnn_ops

pytestmark = pytest.mark.gpu

CONFIG = Config(num_layers=2, direction="bidirectional", sequence_lengths=(5, 0, 3))


@pytest.mark.parametrize("home", ["CPU:0", DEVICE])
@pytest.mark.parametrize("ops", [CPU_OPS, OPS], ids=["CPU:0", DEVICE])
def test_arguments_of_any_device(ops, home):
    inputs, gradients = inputs_and_gradients(CONFIG)
    outputs = run_forward(CONFIG, inputs, raw_ops=ops)
    expected = all_results(outputs, run_backprop(CONFIG, inputs, outputs, gradients, raw_ops=ops))
    with tf.device(home):
        inputs, gradients = tensors(inputs), tensors(gradients)
        lengths = tf.constant(CONFIG.lengths)
    outputs = ops.CudnnRNNV3(**{**forward_arguments(CONFIG, inputs), "sequence_lengths": lengths})
    backprop = run_backprop(CONFIG, inputs, outputs, gradients, raw_ops=ops, sequence_lengths=lengths)
    assert_all_same_bits(all_results(outputs, backprop), expected)


def test_sequence_lengths_that_a_graph_computes():
    """The op reads them from host memory; TensorFlow copies them if necessary."""
    inputs = network_inputs(CONFIG)
    mask = np.arange(CONFIG.time) < np.array(CONFIG.lengths)[:, np.newaxis]

    @tf.function
    def output(mask):
        lengths = tf.reduce_sum(tf.cast(mask, tf.int32), axis=1)
        return OPS.CudnnRNNV3(**{**forward_arguments(CONFIG, inputs), "sequence_lengths": lengths}).output

    with tf.device(DEVICE):
        actual = output(tf.constant(mask))
    np.testing.assert_array_equal(actual, run_forward(CONFIG, inputs, raw_ops=OPS).output)


def test_a_graph_on_two_devices():
    """Layers alternate between the CPU and the device, with a gradient through all of them."""
    config = sized((5, 3, 8, 8), rnn_mode="gru")
    inputs = tensors(network_inputs(config))

    def input_gradient(x, devices):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for ops in devices:
                y = run_forward(config, {**inputs, "input": y}, raw_ops=ops).output
            loss = tf.reduce_sum(y * y)
        return tape.gradient(loss, x)

    expected = input_gradient(inputs["input"], [CPU_OPS] * 4)
    for devices in ([CPU_OPS, OPS, CPU_OPS, OPS], [OPS, CPU_OPS, OPS, CPU_OPS]):
        for function in (input_gradient, tf.function(input_gradient)):
            assert difference(function(inputs["input"], devices), expected) < 1e-12


def test_a_session_without_soft_placement():
    """Every op runs on the requested device."""
    config = Config()
    options = tf.compat.v1.ConfigProto(allow_soft_placement=False)
    inputs = network_inputs(config)
    with tf.Graph().as_default(), tf.device(DEVICE), tf.compat.v1.Session(config=options) as session:
        placeholders = {name: tf.compat.v1.placeholder(tf.float64, value.shape) for name, value in inputs.items()}
        output = OPS.CudnnRNNV3(**forward_arguments(config, placeholders)).output
        actual = session.run(output, {placeholders[name]: value for name, value in inputs.items()})
    np.testing.assert_array_equal(actual, run_forward(config, inputs, raw_ops=OPS).output)


@needs_gpu
def test_ops_run_on_the_gpu_by_default():
    config = Config()
    outputs = tf_rnn_ops.raw_ops.CudnnRNNV3(**forward_arguments(config, network_inputs(config)))
    assert_on("GPU:0", outputs)
    assert_on("GPU:0", tf_rnn_ops.raw_ops.GRUBlockCell(**cell_inputs((2, 3, 4))))


# With a 1 x 1 input of ones.
RUN_A_CELL = """
x, one = tf.ones([1, 1]), tf.ones([1])
weights = {"w_ru": tf.ones([2, 2]), "w_c": tf.ones([2, 1]), "b_ru": tf.ones([2]), "b_c": one}
h = tf_rnn_ops.raw_ops.GRUBlockCell(x=x, h_prev=x, **weights).h
assert 0.9 < h.numpy().item() < 1.1
print(h.device[-5:], flush=True)
"""


@needs_gpu
@pytest.mark.parametrize("value", ["auto", "1", "0", ""])
def test_the_environment_variable_selects_the_device(value):
    device = "CPU:0" if value == "0" else "GPU:0"
    printed = processes.run_code(f"import tensorflow as tf\nimport tf_rnn_ops\n{RUN_A_CELL}", TF_RNN_OPS_GPU=value)
    assert printed == f"{device}\n"


@needs_gpu
@pytest.mark.parametrize("value", ["1", ""])
def test_a_forked_process_can_use_the_gpu_if_the_parent_did_not_list_gpus(value):
    code = f"""
import os
import tensorflow as tf
import tf_rnn_ops
child = os.fork()
if child:
    assert os.waitpid(child, 0)[1] == 0
else:
{textwrap.indent(RUN_A_CELL, "    ")}
    os._exit(0)
"""
    assert processes.run_code(code, TF_RNN_OPS_GPU=value) == "GPU:0\n"


@needs_gpu
def test_builtin_ops_stay_on_the_gpu_with_builtin_cpu_kernels():
    printed = processes.run_code(
        """
        import tensorflow as tf
        import tf_rnn_ops
        tf_rnn_ops.enable_builtin_kernels()
        state = tf.zeros([1, 2, 4])
        outputs = tf.raw_ops.CudnnRNNV3(  # the only version that TensorFlow supports with cuDNN 9
            input=tf.zeros([5, 2, 3]),
            input_h=state,
            input_c=state,
            params=tf.zeros([4 * 4 * (3 + 4 + 2)]),
            sequence_lengths=[5, 5],
        )
        print(outputs.output.device[-5:])
        """
    )
    assert printed == "GPU:0\n"
