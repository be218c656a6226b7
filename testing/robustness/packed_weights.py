"""Loads and gives up exports with packed weights, and cancels calls while other threads call ops with them.

Use each check in a separate process.
"""

import contextlib
import tempfile
import threading
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf
from checks.cudnn_rnn import tensors
from environment import process_resources
from inputs import cudnn_rnn as cudnn_rnn_inputs
from inputs.cudnn_rnn import Config

import tf_rnn_ops
from robustness import interruptions
from tf_rnn_ops import _constant_weights

FORMATS = ("float32", "bfloat16", "int8")
NETWORK = Config("lstm", num_units=64, input_size=16, time=5, batch=2)
NUM_CLIENTS = 3
# Of memory, in bytes. TensorFlow itself keeps 3 to 14 KiB for each SavedModel that was loaded, and some at first.
MOST_PER_LOAD = 32 << 10
MOST_AT_FIRST = 16 << 20


def make_server(weights: str, params: tf.Tensor | tf.Variable) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns a function that runs a network on packed weights."""
    inputs = tensors(cudnn_rnn_inputs.network_inputs(NETWORK, "float32"))

    def serve(x):
        output = tf_rnn_ops.raw_ops.CudnnRNNV3(
            **{**inputs, "input": x, "params": params},
            sequence_lengths=list(NETWORK.lengths),
            is_training=False,
        ).output
        _constant_weights.mark(output.op, weights)
        return output

    return serve


def x_and_params() -> tuple[tf.Tensor, tf.Tensor]:
    inputs = tensors(cudnn_rnn_inputs.network_inputs(NETWORK, "float32"))
    return inputs["input"], inputs["params"]


def load_and_give_up(num_loads: int) -> str:
    """Loads exports in turns, and returns a summary.

    Raises:
      AssertionError: if a result is wrong, or if memory or packed weights stay.
    """
    x, params = x_and_params()
    folders, expected = [], []
    for weights in FORMATS:
        module = tf.Module()
        module.params = tf.Variable(params)
        module.serve = tf.function(make_server(weights, module.params), input_signature=[tf.TensorSpec(x.shape)])
        folders.append(tempfile.mkdtemp())
        tf.saved_model.save(module, folders[-1])
        loaded = tf.saved_model.load(folders[-1])
        expected.append(loaded.serve(x).numpy())
    for i in range(num_loads):
        loaded = tf.saved_model.load(folders[i % len(FORMATS)])
        np.testing.assert_array_equal(loaded.serve(x), expected[i % len(FORMATS)])
        assert tf_rnn_ops.packed_weights_bytes() > 0
        if i == num_loads // 10:
            memory = process_resources.memory()
    del module, loaded
    growth = process_resources.memory() - memory
    assert tf_rnn_ops.packed_weights_bytes() == 0
    assert growth < MOST_AT_FIRST + MOST_PER_LOAD * num_loads, f"{growth} bytes"
    return f"{num_loads} exports loaded and given up: {growth >> 10} KiB more memory after the first tenth"


@contextlib.contextmanager
def clients(call: Callable[[], None]) -> Iterator[list[int]]:
    """Calls a function in threads, and counts the calls of each.

    Raises:
      AssertionError: if a call fails.
    """
    ends, counts, errors = threading.Event(), [0] * NUM_CLIENTS, []

    def run(client):
        try:
            while not ends.is_set():
                call()
                counts[client] += 1
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=[client]) for client in range(NUM_CLIENTS)]
    for each in threads:
        each.start()
    try:
        yield counts
    finally:
        ends.set()
        for each in threads:
            each.join()
    assert not errors, errors[0]


def cancel_beside_clients(num_cancelled: int) -> str:
    """Cancels long calls, one after another, while threads run short ones, and returns a summary.

    The threads run sessions, because TensorFlow cancels functions of all threads at once.

    Raises:
      AssertionError: if a result is wrong, a call is not cancelled, or threads stay.
    """
    long = interruptions.inference(interruptions.FORWARD_LONG)
    x, params = (each.numpy() for each in x_and_params())
    with tf.Graph().as_default():
        given = tf.compat.v1.placeholder(tf.float32, x.shape)
        server = make_server("int8", tf.constant(params))(given)
        call = tf.compat.v1.Session().make_callable(server, [given])
        expected = call(x)
    num_threads = process_resources.num_threads()
    with clients(lambda: np.testing.assert_array_equal(call(x), expected)) as counts:
        for _ in range(num_cancelled):
            interruptions.cancel_function(long)
    assert process_resources.num_threads() <= num_threads + 1, "threads leaked"
    return f"{num_cancelled} cancelled calls beside {sum(counts)} calls of clients, all with the right results"
