"""Very long calls of the ops, and ways to cancel them.

Use it in separate processes.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from checks.cudnn_rnn import run_backprop, run_forward, tensors
from environment import process_resources
from inputs import cudnn_rnn as cudnn_rnn_inputs
from inputs import mixed_calls
from inputs.cudnn_rnn import OUTPUTS, Config
from inputs.mixed_calls import Call
from tensorflow.python.eager import cancellation  # the only way to cancel one call of a function

from tf_rnn_ops import raw_ops

SHORT = 50  # steps
# Many layers take long but need little memory. A process that waits for all steps exceeds its timeout.
FORWARD_LONG = 400_000
# The backward pass stores activations of every layer, so it has one layer and takes seconds.
BACKWARD_LONG = 100_000
LAYER_LONG = 2**27  # the most without features
FORWARD: dict[str, Any] = {"num_layers": 100, "num_units": 256, "input_size": 8, "batch": 1}
BACKWARD: dict[str, Any] = {**FORWARD, "num_layers": 1, "direction": "bidirectional"}
SECONDS_BEFORE = 0.3  # delay before a call is cancelled
MIB = 1 << 20


def inference(num_steps: int) -> Call:
    """Returns a call that runs a network."""
    config = Config("lstm", time=num_steps, **FORWARD)

    def compute(inputs):
        outputs = run_forward(config, inputs, is_training=False)
        return [getattr(outputs, name) for name in OUTPUTS]

    return Call("CudnnRNNV3", compute, tensors(cudnn_rnn_inputs.network_inputs(config, "float32")))


def backprop(num_steps: int) -> Call:
    """Returns a call of the backward pass of a network."""
    config = Config("gru", time=num_steps, **BACKWARD)
    inputs, gradients = map(tensors, cudnn_rnn_inputs.inputs_and_gradients(config, "float32"))
    arguments = (inputs, run_forward(config, inputs), gradients)
    return Call("CudnnRNNBackpropV3", lambda arguments: list(run_backprop(config, *arguments)), arguments)


def layer(num_steps: int) -> Call:
    """Returns a call of a Keras layer without features, whose steps take no memory."""
    arguments = {
        "sequences": tf.zeros([1, num_steps, 0]),
        "mask": tf.zeros([0], tf.bool),
        "initial_h": tf.ones([1, 8]),
        "initial_c": tf.zeros([]),
        "kernel": tf.zeros([0, 8]),
        "recurrent_kernel": tf.eye(8),
        "bias": tf.zeros([8]),
    }

    def compute(arguments):
        return list(raw_ops.KerasRNN(**arguments, rnn_mode="rnn_tanh", is_training=False)[:3])

    return Call("KerasRNN", compute, arguments)


def expect(error: type[Exception], run: Callable[[], object]) -> None:
    """Asserts that a call raises an error."""
    try:
        run()
    except error:
        return
    raise AssertionError(f"the call ended without {error.__name__}")


def soon(action: Callable[[], None]) -> None:
    """Runs an action in another thread while the next call runs."""
    threading.Timer(SECONDS_BEFORE, action).start()


def cancel_function(long: Call) -> None:
    """Cancels one call of a function."""
    manager = cancellation.CancellationManager()
    function = manager.get_cancelable_function(long.in_graph().compute)
    soon(manager.start_cancel)
    expect(tf.errors.CancelledError, lambda: function(long.arguments))


def close_session(long: Call) -> None:
    """Closes the session that a call runs in."""
    with tf.Graph().as_default():
        placeholders = tf.nest.map_structure(
            lambda each: tf.compat.v1.placeholder(each.dtype, each.shape), long.arguments
        )
        results = long.compute(placeholders)
        session = tf.compat.v1.Session()
        values = [each.numpy() for each in tf.nest.flatten(long.arguments)]
        feed = dict(zip(tf.nest.flatten(placeholders), values, strict=True))
        soon(session.close)
        expect(tf.errors.CancelledError, lambda: session.run(results, feed))


def fail_other_op(long: Call) -> None:
    """Lets another op of the same graph fail."""

    def wait_and_fail():
        time.sleep(SECONDS_BEFORE)
        raise ValueError("expected")

    @tf.function(autograph=False)
    def with_failing_op(arguments):
        tf.numpy_function(wait_and_fail, [], [])
        return long.compute(arguments)

    expect(tf.errors.InvalidArgumentError, lambda: with_failing_op(long.arguments))


ENDS = {"cancelled": cancel_function, "closed": close_session, "failed": fail_other_op}
CALLS = {"forward": (inference, FORWARD_LONG), "backward": (backprop, BACKWARD_LONG), "layer": (layer, LAYER_LONG)}


def check(num_threads: int) -> None:
    """Cancels calls in every way and checks later calls.

    Args:
      num_threads: the size of TensorFlow's intra-op pool.

    Raises:
      AssertionError: if a call is not cancelled, the next call is wrong, or memory or threads leak.
    """
    tf.config.threading.set_intra_op_parallelism_threads(num_threads)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    for name, (make, num_steps) in CALLS.items():
        short, long = make(SHORT), make(num_steps)
        expected = mixed_calls.contents(short())
        for how, end in ENDS.items():
            end(long)  # warm-up: memory that TensorFlow keeps from the first time is not a leak
            memory, threads = process_resources.memory(), process_resources.num_threads()
            end(long)
            assert mixed_calls.contents(short()) == expected, f"{name}, {how}: the next call is wrong"
            growth = process_resources.memory() - memory
            assert growth < 8 * MIB, f"{name}, {how}: {growth >> 20} MiB leaked"
            assert process_resources.num_threads() <= threads, f"{name}, {how}: threads leaked"
