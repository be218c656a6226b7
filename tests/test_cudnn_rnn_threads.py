"""Tests that the results of CudnnRNN ops do not depend on threads, and that the ops do not deadlock."""

import concurrent.futures
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from checks.cudnn_rnn import assert_all_same_bits, run_all, run_forward
from environment import processes
from inputs import cudnn_rnn as cudnn_rnn_inputs
from inputs.cudnn_rnn import DTYPES, INPUTS, MODES, Config

LENGTHS = (9, 4, 0, 7, 9, 1, 2, 8, 9, 3, 5)
# More units than a tile, odd sizes; small and large batches.
NETWORKS = {
    mode: Config(
        rnn_mode=mode,
        direction="bidirectional",
        num_layers=2,
        num_units=130,
        input_size=70,
        time=9,
        batch=11,
        sequence_lengths=LENGTHS,
        dropout=0.5,
    )
    for mode in MODES
}
NETWORKS["projection"] = Config(num_units=130, input_size=70, num_proj=45, num_layers=2, batch=40)
NETWORKS["many samples"] = Config(rnn_mode="gru", num_units=200, input_size=150, time=3, batch=150)
NETWORKS["one sample"] = Config(num_units=257, input_size=31, time=20, batch=1)


def run_every_network() -> dict[str, np.ndarray]:
    """Returns the results of the first call of all networks in all types, as float64 arrays by name."""
    tf.random.set_seed(0)
    cases = [(name, dtype) for name in NETWORKS for dtype in DTYPES]
    return {
        f"{name} {dtype} {output}": parity.to_float64(value)
        for name, dtype in cases
        for output, value in run_all(NETWORKS[name], dtype).items()
    }


@pytest.fixture(scope="module")
def here():
    return run_every_network()


@pytest.mark.parametrize("num_threads", [1, 2, 4])
def test_same_bits_for_any_number_of_threads(num_threads, here, tmp_path):
    processes.run_code(
        """
        import sys
        import numpy as np
        import tensorflow as tf
        tf.config.threading.set_intra_op_parallelism_threads(int(sys.argv[1]))
        tf.config.threading.set_inter_op_parallelism_threads(1)
        import test_cudnn_rnn_threads
        np.savez(sys.argv[2], **test_cudnn_rnn_threads.run_every_network())
        """,
        str(num_threads),
        str(tmp_path / "results.npz"),
        **processes.importing(pathlib.Path(__file__).parent),
    )
    results = np.load(tmp_path / "results.npz")
    assert_all_same_bits(dict(results), here)


@pytest.mark.parametrize("mode", MODES)
def test_concurrent_calls_equal_sequential_calls(mode):
    """Networks of several sizes, without dropout, because its masks depend on the order of calls."""
    configs = [Config(rnn_mode=mode, num_layers=2, num_units=60 + 9 * n, time=20, batch=1 + 7 * n) for n in range(8)]
    expected = [run_all(config) for config in configs]
    with concurrent.futures.ThreadPoolExecutor(8) as executor:
        for _ in range(5):
            for results, wanted in zip(executor.map(run_all, configs), expected, strict=True):
                assert_all_same_bits(results, wanted)


def test_a_limit_of_zero_threads_uses_the_calling_thread():
    """Like TensorFlow's own kernels."""
    config = Config(num_units=100, input_size=40, time=10, batch=16)
    inputs = cudnn_rnn_inputs.network_inputs(config, "float32")
    dataset = tf.data.Dataset.range(1).map(lambda _: run_forward(config, inputs).output)
    limited = tf.raw_ops.MaxIntraOpParallelismDataset(
        input_dataset=dataset._variant_tensor,
        max_intra_op_parallelism=0,
        output_types=[tf.float32],
        output_shapes=[dataset.element_spec.shape],
    )
    output = tf.raw_ops.DatasetToSingleElement(dataset=limited, output_types=[tf.float32], output_shapes=[None])[0]
    np.testing.assert_array_equal(output, run_forward(config, inputs).output)


@pytest.mark.parametrize("num_threads", [None, 1, 2])
def test_inside_tf_data(num_threads):
    """A map runs on threads of the pool, so an op that waits for another thread of the pool could deadlock."""
    config = Config(num_units=100, input_size=40, num_layers=2, direction="bidirectional", time=10, batch=16)
    inputs = {name: tf.constant(value) for name, value in cudnn_rnn_inputs.network_inputs(config, "float32").items()}

    def gradient(_):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss = tf.reduce_sum(run_forward(config, inputs).output)
        return tape.gradient(loss, inputs)

    expected = gradient(0)
    dataset = tf.data.Dataset.range(32).map(gradient, num_parallel_calls=8)
    options = tf.data.Options()
    if num_threads is not None:
        options.threading.private_threadpool_size = num_threads
    for gradients in dataset.with_options(options):
        for name in INPUTS:
            np.testing.assert_array_equal(gradients[name], expected[name])


def test_many_in_one_graph():
    """Ops of one graph run in parallel, each on some of the threads."""
    config = Config(num_units=100, input_size=40, time=10, batch=16)
    inputs = cudnn_rnn_inputs.network_inputs(config, "float32")

    @tf.function
    def run_many():
        return [run_forward(config, inputs).output for _ in range(16)]

    first, *others = run_many()
    for other in others:
        np.testing.assert_array_equal(first, other)
    np.testing.assert_array_equal(first, run_all(config)["output"])
