"""A switch that makes XLA compile all op calls and functions in the tests.

The environment variable TF_RNN_OPS_TEST_XLA turns it on: 1 for all tests, or n for every nth test. Each op then runs in
a separate function that XLA must compile, eagerly and in graphs; the graph itself need not be compiled. `tf.function`
in a test has the default `jit_compile=True`. Tests that then fail have the mark `not_xla`. If the switch did not work,
they would pass, which is an error.
"""

import functools
import os
import pathlib
import re
import sys

import hypothesis
import pytest
import tensorflow as tf
from tensorflow.python.ops import control_flow_util  # whether a graph is compiled is not public

import tf_rnn_ops

# Run every nth test; 0: off.
EVERY = int(os.environ.get("TF_RNN_OPS_TEST_XLA", "0"))

# XLA cannot compile the ops that call a function in a thread.
_NEVER_COMPILED = ("tf_rnn_ops_function_caller", "tf_rnn_ops_call_in_thread")
_TESTING = pathlib.Path(__file__).parent.parent
_FOLDERS = (str(_TESTING), str(_TESTING.with_name("tests")))


def turn_on() -> None:
    """Turns the switch on, for the rest of the process."""
    library = tf_rnn_ops._library
    for name in set(dir(library.ops)).difference(_NEVER_COMPILED):
        if name.lower().startswith("tf") and not name.endswith("_eager_fallback"):
            setattr(library.ops, name, _compiled(getattr(library.ops, name)))
    for name in tf_rnn_ops.raw_ops.__all__:
        if name.startswith("Cudnn"):
            setattr(tf.raw_ops, name, _compiled(getattr(tf.raw_ops, name)))
    tf.function = _function_of_tests(tf.function)
    tf.random.set_seed = _clearing_functions(tf.random.set_seed)


def _function(op):
    """Returns an op as a function that XLA must compile."""
    return tf.function(lambda *args, **kwargs: op(*args, **kwargs), jit_compile=True, autograph=False)


def _is_compiled(graph) -> bool:
    """Returns whether a graph belongs to a function that XLA compiles, or to its gradient.

    TensorFlow cannot differentiate functions within these.
    """
    if control_flow_util.GraphOrParentsInXlaContext(graph):
        return True
    while graph is not None and not getattr(graph, "name", "").startswith("__backward_"):
        graph = getattr(graph, "outer_graph", None)
    return graph is not None


# For eager calls.
_eager_function = functools.cache(_function)


def _compiled(op):
    """Wraps an op in a compiled function, unless the graph around it is compiled."""

    @functools.wraps(op)
    @tf.autograph.experimental.do_not_convert
    def run(*args, **kwargs):
        if tf.executing_eagerly():
            call = _eager_function(op)
        elif _is_compiled(tf.compat.v1.get_default_graph()):
            call = op
        else:
            call = _function(op)  # a new function, because each op in a graph has its own kernel
        return call(*args, **kwargs)

    return run


def _clearing_functions(set_seed):
    """Wraps `tf.random.set_seed` to also clear the compiled functions, as it clears the kernels."""

    @functools.wraps(set_seed)
    def run(seed):
        _eager_function.cache_clear()
        set_seed(seed)

    return run


def _function_of_tests(function):
    """Wraps `tf.function` to use jit_compile=True by default in calls from the tests."""

    @functools.wraps(function)
    def run(*args, **kwargs):
        if sys._getframe(1).f_code.co_filename.startswith(_FOLDERS):
            kwargs.setdefault("jit_compile", True)
        return function(*args, **kwargs)

    return run


def prepare(test: pytest.Item) -> None:
    """Applies the marks `not_xla` to a test, and reduces the number of examples of a property test."""
    for mark in test.iter_markers("not_xla"):
        _expect_failure(test, *mark.args, **mark.kwargs)
    _draw_fewer_examples(getattr(test, "obj", None))


def _expect_failure(test, reason, *, cases="", crashes=False, sure=True):
    """Expects that a test fails.

    Args:
      test: the test.
      reason: the limitation of XLA or of the switch.
      cases: a regular expression for the beginning of the ids of the cases that fail.
      crashes: whether the test ends the process and must be skipped.
      sure: whether the test always fails, independent of what the process compiled before.
    """
    if re.match(cases, test.name.partition("[")[2]):
        test.add_marker(pytest.mark.skip(reason=reason) if crashes else pytest.mark.xfail(reason=reason, strict=sure))


def _draw_fewer_examples(test) -> None:
    """Limits the examples of a property test, because each one is compiled."""
    settings = getattr(test, "_hypothesis_internal_use_settings", None)  # there is no public way to change them
    if settings:
        number = min(settings.max_examples, 5)
        test._hypothesis_internal_use_settings = hypothesis.settings(settings, max_examples=number)
