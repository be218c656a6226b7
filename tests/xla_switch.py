"""The switch with which XLA compiles every call of the ops in the tests, and every function that the tests make.

The environment variable TF_RNN_OPS_TEST_XLA turns it on: 1 for all tests, or n for every nth. An op that is called
eagerly then runs in a function of its own that XLA must compile, and so does one that is built into a graph, which need
not be compiled itself. `tf.function` in a test, of which nothing else is said, has `jit_compile=True`.
"""

import functools
import os
import pathlib
import sys

import tensorflow as tf
from tensorflow.python.ops import control_flow_util  # which functions are compiled is not public

import tf_rnn_ops

VARIABLE = "TF_RNN_OPS_TEST_XLA"
# Every how many tests to run. 0 is off.
EVERY = int(os.environ.get(VARIABLE, "0"))

_TESTS = str(pathlib.Path(__file__).parent)


def turn_on() -> None:
    """Turns the switch on, for the rest of the process."""
    library = tf_rnn_ops._library
    for name in dir(library.ops):
        if name.lower().startswith("tf") and not name.endswith("_eager_fallback"):
            setattr(library.ops, name, _compiled(getattr(library.ops, name)))
    for name in tf_rnn_ops.raw_ops.__all__:
        if name.startswith("Cudnn"):
            setattr(tf.raw_ops, name, _compiled(getattr(tf.raw_ops, name)))
    tf.function = _function_of_tests(tf.function)


def _compiled(op):
    """Returns the function of an op, which is compiled where nothing around it is."""

    @functools.partial(tf.function, jit_compile=True, autograph=False)
    def function(*args, **kwargs):
        return op(*args, **kwargs)

    @functools.wraps(op)
    @tf.autograph.experimental.do_not_convert
    def run(*args, **kwargs):
        is_within = control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())
        return (op if is_within else function)(*args, **kwargs)

    return run


def _function_of_tests(function):
    """Returns `tf.function` with another default for those who call it from the tests."""

    @functools.wraps(function)
    def run(*args, **kwargs):
        if sys._getframe(1).f_code.co_filename.startswith(_TESTS):
            kwargs.setdefault("jit_compile", True)
        return function(*args, **kwargs)

    return run
