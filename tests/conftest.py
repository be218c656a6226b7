"""Set-up that every test shares, and the parity table at the end of a run."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import hypothesis
import keras
import parity
import pytest
import tensorflow as tf

# Distribution strategies need several devices. All share their threads, and everything else runs on the first.
(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

hypothesis.settings.register_profile(
    "default",
    deadline=None,  # timing never decides a test
    derandomize=True,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("default")


@pytest.fixture(autouse=True)
def seeded():
    """Gives every test the same random numbers, whatever ran before it."""
    keras.utils.set_random_seed(0)


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
