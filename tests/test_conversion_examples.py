"""The example programs that convert weights."""

import re

import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from environment import pages, processes
from references import tf1_networks
from references.cudnn_rnn import Config

SCOPE = "model/encoder"


def run_example(name, *arguments):
    """Runs an example program and returns its output."""
    return processes.run_program(str(pages.EXAMPLES / name), *arguments)


def check_differences(printed):
    """Asserts that a program reports equal outputs of two libraries."""
    difference, largest = re.search(r"differ by at most (\S+); the largest is (\S+)\.$", printed, re.MULTILINE).groups()
    assert float(difference) < 1e-5 * float(largest)


def test_from_pytorch():
    pytest.importorskip("torch")
    check_differences(run_example("from_pytorch.py"))


def test_onnx_weights():
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    printed = run_example("onnx_weights.py")
    check_differences(printed)
    assert printed.endswith("The imported network returns equal outputs: True\n")


def write_checkpoint(config, path):
    """Writes a checkpoint of a network of TensorFlow 1 cells; returns its path and the output for an input of ones."""
    states = np.zeros((config.num_pseudo_layers, config.batch, config.num_units))
    inputs = {"input": np.ones((config.time, config.batch, config.input_size)), "input_h": states, "input_c": states}
    v1 = tf1_networks.v1
    with tf.Graph().as_default(), v1.Session() as session:
        with v1.variable_scope(SCOPE, initializer=v1.random_uniform_initializer(-1, 1, seed=1)):
            output = tf1_networks.outputs(config, inputs)["output"]
        v1.get_variable("other", initializer=0.0)
        session.run(v1.global_variables_initializer())
        return v1.train.Saver().save(session, str(path)), session.run(output)


def test_from_tf1_checkpoint(tmp_path):
    config = Config(
        rnn_mode="gru", direction="bidirectional", num_layers=2, num_units=4, input_size=3, time=10, batch=1
    )
    path, output = write_checkpoint(config, tmp_path / "model.ckpt")
    printed = run_example("from_tf1_checkpoint.py", path, SCOPE)
    assert "Layout(rnn_mode='gru', num_units=4, input_size=3, num_layers=2, direction='bidirectional'" in printed
    numbers = re.search(r"its output begins with (.*)$", printed, re.MULTILINE)[1]
    assert parity.difference(np.array(eval(f"[{numbers}]")), output[-1, 0, :6]) < 1e-5


def test_from_tf1_checkpoint_without_arguments():
    printed = run_example("from_tf1_checkpoint.py")
    assert "Layout(rnn_mode='lstm', num_units=64, input_size=32, num_layers=2, direction='bidirectional'" in printed
    assert re.search(r"its output begins with (-?0\.\d{6}(, )?){6}$", printed, re.MULTILINE)
