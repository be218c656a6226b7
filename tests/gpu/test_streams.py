"""Concurrent calls on a GPU: several threads, sessions and streams."""

import concurrent.futures
import pathlib

import pytest
import tensorflow as tf
from checks.cudnn_rnn import assert_all_same_bits, run_all, run_forward
from checks.parity import difference
from environment import processes
from environment.devices import DEVICE, KIND, OPS, OpsOn
from inputs.cudnn_rnn import MODES, Config, network_inputs

import tf_rnn_ops

pytestmark = pytest.mark.gpu

# Different sizes, to detect threads that use the descriptors or workspace of another thread.
CONFIGS = [
    Config(rnn_mode=mode, num_layers=2, num_units=60 + 9 * n, time=20, batch=1 + 7 * n, sequence_lengths=lengths)
    for n, mode in enumerate([*MODES, *MODES])
    for lengths in (None, tuple(1 + (3 * i) % 20 for i in range(1 + 7 * n)))
]


def test_threads():
    expected = [run_all(config, raw_ops=OPS) for config in CONFIGS]
    with concurrent.futures.ThreadPoolExecutor(8) as executor:
        for _ in range(5):
            results = executor.map(lambda config: run_all(config, raw_ops=OPS), CONFIGS)
            for actual, wanted in zip(results, expected, strict=True):
                assert_all_same_bits(actual, wanted)


def test_threads_of_one_session():
    """The threads share the kernels."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        outputs = [run_forward(config, network_inputs(config, "float32"), raw_ops=OPS).output for config in CONFIGS]
        expected = session.run(outputs)
        with concurrent.futures.ThreadPoolExecutor(8) as executor:
            for actual, wanted in zip(executor.map(session.run, outputs * 4), expected * 4, strict=True):
                assert actual.tobytes() == wanted.tobytes()


def test_sessions_of_one_thread_each():
    """The sessions share the device, but not the kernels."""

    def run_in_a_session(config):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            return session.run(run_forward(config, network_inputs(config, "float32"), raw_ops=OPS).output)

    expected = [run_in_a_session(config) for config in CONFIGS]
    with concurrent.futures.ThreadPoolExecutor(4) as executor:
        for actual, wanted in zip(executor.map(run_in_a_session, CONFIGS), expected, strict=True):
            assert actual.tobytes() == wanted.tobytes()


def test_many_in_one_graph():
    config = Config(num_units=100, input_size=40, time=10, batch=16)
    inputs = network_inputs(config, "float32")

    @tf.function
    def run_many():
        return [run_forward(config, inputs, raw_ops=OPS).output for _ in range(16)]

    first, *others = run_many()
    for other in others:
        assert other.numpy().tobytes() == first.numpy().tobytes()


def check_two_devices(kind: str) -> None:
    """Runs networks on two devices of a kind concurrently, each from several threads."""
    ops = [OpsOn(f"{kind}:{index}", tf_rnn_ops.raw_ops) for index in range(2)]
    expected = [run_all(config, raw_ops=ops[0]) for config in CONFIGS]
    with concurrent.futures.ThreadPoolExecutor(8) as executor:
        jobs = [
            (executor.submit(run_all, config, "float32", each), wanted)
            for _ in range(3)
            for config, wanted in zip(CONFIGS, expected, strict=True)
            for each in ops
        ]
        for job, wanted in jobs:
            assert_all_same_bits(job.result(), wanted)


def test_two_devices_on_one_gpu():
    """Each device has its own stream."""
    processes.run_code(
        """
        import sys
        import tensorflow as tf
        kind = sys.argv[1]
        limit = {"memory_limit": 2048} if kind == "GPU" else {}
        (device, *_) = tf.config.list_physical_devices(kind)
        two = [tf.config.LogicalDeviceConfiguration(**limit) for _ in range(2)]
        tf.config.set_logical_device_configuration(device, two)
        tf.config.experimental.enable_tensor_float_32_execution(False)
        import test_streams
        test_streams.check_two_devices(kind)
        """,
        KIND,
        **processes.importing(pathlib.Path(__file__).parent),
    )


def test_waits_for_earlier_ops_of_the_stream():
    """And later ops wait for the result of the op, in graph order."""
    config = Config(num_units=64, input_size=64, time=50, batch=32)
    inputs = network_inputs(config, "float32")

    @tf.function
    def chain(x):
        for _ in range(10):
            x = tf.tanh(
                run_forward(config, {**inputs, "input": tf.matmul(x, x, transpose_b=True) @ x}, raw_ops=OPS).output
            )
        return x

    with tf.device(DEVICE):
        first, second = (chain(tf.constant(inputs["input"])) for _ in range(2))
    assert difference(first, second) < 1e-5
