"""Setup that all tests share, and the parity table at the end of a run."""

import collections
import os
import random

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# Several processes share the GPU, if any.
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")

import hypothesis
import keras
import pytest
import tensorflow as tf
from checks import parity
from environment import devices, xla_switch
from tensorflow.python.framework import config as tensorflow_config  # disabling determinism is not public

import tf_rnn_ops

# Distribution strategies need several devices. The devices share threads; all other tests run on the first.
(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

# The tolerances are for float32, which is much more precise than TF32.
tf.config.experimental.enable_tensor_float_32_execution(False)

if xla_switch.EVERY:
    xla_switch.turn_on()

hypothesis.settings.register_profile(
    "default",
    deadline=None,  # timing must not fail a test
    derandomize=True,
    max_examples=50,  # the same ones in each run
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("default")
# Used by `make test-random`, with a seed.
hypothesis.settings.register_profile(
    "random", hypothesis.settings.get_profile("default"), derandomize=False, max_examples=200
)


def pytest_addoption(parser):
    """Adds --part and --soak."""
    parser.addoption(
        "--part",
        default="0/1",
        metavar="K/N",
        help="Run part K of N of the cases of each test, and at least one. The parts 0 to N-1 together are all cases.",
    )
    parser.addoption(
        "--soak", type=float, metavar="FACTOR", help="Run tests/test_robustness.py FACTOR times as long as `make soak`."
    )


def part_of_cases(items, number, parts):
    """Returns the tests of one part: of each test function, some of its cases, chosen at random by its name."""
    cases_of = collections.defaultdict(list)
    for each in items:
        cases_of[each.nodeid.partition("[")[0]].append(each)
    chosen = set()
    for function, cases in cases_of.items():
        random.Random(function).shuffle(cases)
        chosen.update(cases[number % min(parts, len(cases)) :: parts])
    return [each for each in items if each in chosen]


def select(config, items, chosen):
    """Reduces the tests to run to those chosen."""
    dropped = set(items).difference(chosen)
    if dropped:
        config.hook.pytest_deselected(items=[each for each in items if each in dropped])
        items[:] = chosen


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Selects the tests to run: with --part, if their device is missing, and when XLA compiles all ops."""
    of_gpu = {each for each in items if each.get_closest_marker("gpu")}
    if of_gpu and devices.what_is_missing():
        # One test of each file stays, and is skipped with the reason.
        first = {each.path: each for each in reversed(items) if each in of_gpu}
        select(config, items, [each for each in items if each not in of_gpu or first[each.path] is each])
    number, parts = map(int, config.getoption("part").split("/"))
    select(config, items, part_of_cases(items, number, parts))
    if xla_switch.EVERY:
        select(config, items, items[:: xla_switch.EVERY])
        for each in items:
            xla_switch.prepare(each)


@pytest.fixture(autouse=True)
def seeded():
    """Seeds the random numbers of every test, independent of other tests."""
    keras.utils.set_random_seed(0)


@pytest.fixture(autouse=True)
def required_device(request):
    """Skips tests in tests/gpu if their device is missing."""
    if request.node.get_closest_marker("gpu"):
        devices.require()


@pytest.fixture
def determinism():
    """Enables TensorFlow's op determinism."""
    tf.config.experimental.enable_op_determinism()
    yield
    tensorflow_config.disable_op_determinism()


class Runs:
    """Counts how often the op KerasRNN was run or added to a graph."""

    def __init__(self):
        self.count = 0

    def during(self, call, *arguments, **keyword_arguments):
        """Returns the number of runs of the op during a call, and the result of the call."""
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


@pytest.fixture
def only_executes(monkeypatch):
    """Makes it an error if a frozen function calls its concrete function."""
    monkeypatch.delattr(tf_rnn_ops.FrozenFunction, "_call_concrete")


def pytest_sessionfinish(session):
    """Sends the parity record from a worker of pytest-xdist to the main process."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["parity"] = parity.record()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Receives the parity record of a worker of pytest-xdist, unless it crashed."""
    parity.merge(getattr(node, "workeroutput", {}).get("parity", []))


def pytest_terminal_summary(terminalreporter):
    """Prints the largest difference of each op, dtype and output."""
    rows = parity.table()
    if not rows:
        return
    terminalreporter.section("parity: largest differences, relative to the largest magnitude of the tensor")
    for row in rows:
        terminalreporter.write_line(row)
