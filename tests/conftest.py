"""Set-up that every test shares, and the parity table at the end of a run."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# Processes share a GPU, if there is one.
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")

import devices
import hypothesis
import keras
import parity
import pytest
import tensorflow as tf
import xla_switch
from tensorflow.python.framework import config as tensorflow_config  # the way back from determinism is not public

import tf_rnn_ops

# Distribution strategies need several devices. All share their threads, and everything else runs on the first.
(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

# Results are judged by the rounding of float32, which TF32 is far from.
tf.config.experimental.enable_tensor_float_32_execution(False)

if xla_switch.EVERY:
    xla_switch.turn_on()

hypothesis.settings.register_profile(
    "default",
    deadline=None,  # timing never decides a test
    derandomize=True,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("default")
# `make test-random` chooses it, and a seed.
hypothesis.settings.register_profile("random", hypothesis.settings.get_profile("default"), derandomize=False)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Chooses the tests that run when XLA compiles everything."""
    if not xla_switch.EVERY:
        return
    chosen = items[:: xla_switch.EVERY]
    config.hook.pytest_deselected(items=[each for each in items if each not in chosen])
    items[:] = chosen
    for each in items:
        xla_switch.prepare(each)


@pytest.fixture(autouse=True)
def seeded():
    """Gives every test the same random numbers, whatever ran before it."""
    keras.utils.set_random_seed(0)


@pytest.fixture(autouse=True)
def required_device(request):
    """Sees to the device of the tests in tests/gpu."""
    if request.node.get_closest_marker("gpu"):
        devices.require()


@pytest.fixture
def determinism():
    """Has TensorFlow refuse what differs from run to run."""
    tf.config.experimental.enable_op_determinism()
    yield
    tensorflow_config.disable_op_determinism()


class Runs:
    """How often the op KerasRNN was run or built into a graph."""

    def __init__(self):
        self.count = 0

    def during(self, call, *arguments, **keyword_arguments):
        """Returns how often the op was run during a call, and what the call returns."""
        before = self.count
        result = call(*arguments, **keyword_arguments)
        return self.count - before, result


@pytest.fixture
def runs(monkeypatch):
    """Counts the runs of the op KerasRNN."""
    counted, op = Runs(), tf_rnn_ops.raw_ops.KerasRNN

    def count(**arguments):
        counted.count += 1
        return op(**arguments)

    monkeypatch.setattr(tf_rnn_ops.raw_ops, "KerasRNN", count)
    return counted


def pytest_sessionfinish(session):
    """Sends the parity record to the process that prints, where pytest-xdist runs the tests in others."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["parity"] = parity.record()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Takes the parity record of a process that pytest-xdist has finished with, unless it crashed."""
    parity.merge(getattr(node, "workeroutput", {}).get("parity", []))


def pytest_terminal_summary(terminalreporter):
    """Prints the largest difference that was seen of each op, dtype and output."""
    rows = parity.table()
    if not rows:
        return
    terminalreporter.section("parity: largest differences, relative to the largest magnitude of the tensor")
    for row in rows:
        terminalreporter.write_line(row)
