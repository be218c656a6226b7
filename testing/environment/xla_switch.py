"""A switch that makes XLA compile all op calls and functions in the tests.

The environment variable TF_RNN_OPS_TEST_XLA turns it on: 1 for all tests, or n for every nth test. Each op then runs in
a separate function that XLA must compile, eagerly and in graphs; the graph itself need not be compiled. `tf.function`
in a test has the default `jit_compile=True`.
"""

import functools
import os
import pathlib
import re
import sys
from typing import NamedTuple

import hypothesis
import pytest
import tensorflow as tf
from tensorflow.python.ops import control_flow_util  # whether a graph is compiled is not public

import tf_rnn_ops

VARIABLE = "TF_RNN_OPS_TEST_XLA"
# Run every nth test; 0: off.
EVERY = int(os.environ.get(VARIABLE, "0"))

_TESTING = pathlib.Path(__file__).parent.parent
_FOLDERS = (str(_TESTING), str(_TESTING.with_name("tests")))


class Unsupported(NamedTuple):
    """A limitation of XLA or of the switch that makes tests fail.

    Attributes:
      reason: the limitation.
      tests: a line with the first letters of file::name of failing tests, (a|b) for a or b.
      ends_the_process: whether the tests crash and must be skipped.
      is_sure: whether the tests always fail, independent of what the process compiled before.
    """

    reason: str
    tests: str
    ends_the_process: bool = False
    is_sure: bool = True

    def includes(self, name: str) -> bool:
        """Returns whether a test fails for this reason."""
        lines = filter(None, map(str.strip, self.tests.splitlines()))
        return any(re.match(re.sub(r"\\([(|)])", r"\1", re.escape(line)), name) for line in lines)


_CELLS = "rnn_relu|rnn_tanh|lstm|gru"
_NETWORKS = f"({_CELLS}|lstm-2)-(uni|bi)directional"
UNSUPPORTED = [
    Unsupported(
        "XLA crashes on empty tensors whose product of sizes overflows",
        """
        test_cudnn_rnn_bad_input.py::test_huge_sizes_of_empty_tensors_are_accepted
        test_cudnn_rnn_bad_input.py::test_sizes_whose_products_overflow_are_rejected
        test_cudnn_rnn_second_order.py::test_dropout_masks_whose_size_overflows_are_rejected
        test_cell_bad_input.py::test_a_huge_batch_of_empty_tensors_is_accepted
        test_cell_bad_input.py::test_sizes_whose_sums_or_products_overflow_are_rejected
        test_keras_rnn.py::test_huge_sizes_of_empty_tensors_return_immediately
        test_keras_rnn.py::test_sizes_whose_product_overflows_are_rejected
        """,
        ends_the_process=True,
    ),
    Unsupported(
        "XLA assumes that tensors are aligned, and crashes",
        """
        test_unaligned.py::test_tensors_not_aligned_to_elements_are_rejected
        test_unaligned.py::test_gradients_are_bitwise_equal[TfRnnOps>GRUBlockCell
        test_unaligned.py::test_a_layer_accepts_masks_and_states_of_any_batch[mask]
        test_unaligned.py::test_(results|gradients)_are_bitwise_equal[(|TfRnnOps>)CudnnRNNBackpropV
        test_unaligned.py::test_(results|gradients)_are_bitwise_equal[TfRnnOps>KerasRNN
        """,
        ends_the_process=True,
    ),
    Unsupported(
        "XLA removes assertions, so the op raises its own error instead",
        """
        test_cudnn_rnn_layer.py::test_a_mask_of_wrong_shape_is_rejected_at_run_time
        test_cudnn_rnn_layer.py::test_a_mask_that_is_not_right_padded_is_rejected[graph]
        """,
    ),
    Unsupported(
        "XLA loses the sizes of the tensor lists of a loop in second-order gradients outside of it",
        """
        test_cudnn_rnn_second_order.py::test_fourth_order[(|dropout-)eager]
        test_cudnn_rnn_second_order.py::test_third_order_passes_no_host_reserved
        test_cudnn_rnn_second_order.py::test_third_order[
        test_cudnn_rnn_second_order.py::test_third_order_with_dropout[an output of one-eager]
        test_cudnn_rnn_second_order.py::test_third_order_with_dropout[two directions-eager]
        test_cudnn_rnn_second_order.py::test_third_order_of_one_layer_with_dropout_uses_no_masks
        test_keras_rnn.py::test_third_derivatives_with_a_mask_with_bytes_other_than_0_and_1
        """,
    ),
    Unsupported(
        "XLA differentiates a loop only if it knows the largest number of iterations",
        """
        test_cudnn_rnn_second_order.py::test_third_order_within_a_while_loop
        test_keras_rnn.py::test_second_derivatives_within_a_while_loop_equal_keras
        """,
    ),
    Unsupported(
        "XLA does not support gradients of its gradient of a loop",
        """
        test_cudnn_rnn_second_order.py::test_padding_has_no_effect
        test_cudnn_rnn_second_order.py::test_forward_accumulator_around_a_tape_of_layers[(lstm|gru|tanh)-tf.function]
        test_keras_rnn.py::test_an_accumulator_around_a_function_equals_keras[(lstm|rnn_tanh|rnn_relu)-True-2]
        test_keras_rnn.py::test_an_accumulator_around_a_function_equals_keras[lstm-False-2]
        """,
    ),
    Unsupported(
        "XLA loses the sizes of the tensor lists of a loop, or their gradients, if the loop is new to the process",
        """
        test_unaligned.py::test_gradients_are_bitwise_equal[(|TfRnnOps>)CudnnRNNBackprop-
        test_unaligned.py::test_gradients_are_bitwise_equal[TfRnnOps>CudnnRNNBackpropGrad-
        test_unaligned.py::test_gradients_are_bitwise_equal[TfRnnOps>BlockLSTMGrad
        test_cell_second_order.py::test_third_order[(LSTMBlockCell|BlockLSTM)
        """,
        is_sure=False,
    ),
    Unsupported(
        "XLA needs the sizes of params before it compiles, and these differ between iterations",
        """
        test_vectorized_map.py::test_ranks_may_be_unknown[Cudnn(RNNParamsSize|RNNCanonicalToParams)
        test_vectorized_map.py::test_ranks_may_be_unknown[CudnnRNNParamsToCanonical(|V2)-all_inputs]
        """,
    ),
    Unsupported(
        "XLA packs weights in each call, and ignores their format",
        "test_constant_weights.py::test_",
        is_sure=False,
    ),
    Unsupported(
        "XLA reads from the tensor list of a loop even if the loop has no steps",
        "test_cudnn_rnn_second_order.py::test_third_order_of_no_steps",
    ),
    Unsupported(
        "XLA cannot pass the tensor list of a loop to a restored function",
        "test_keras_layers.py::test_saved_files_load_in_a_fresh_process",
    ),
    Unsupported(
        "TensorFlow's forward accumulator differentiates functions more often than necessary",
        f"""
        test_cudnn_rnn_second_order.py::test_forward_accumulator[({_CELLS})-eager]
        test_cudnn_rnn_second_order.py::test_forward_accumulator_around_a_tape_of_layers[(lstm|gru|tanh|cudnn)-eager]
        """,
    ),
    Unsupported(
        "TensorFlow builds the gradient of a function when it calls it, even if it is not used",
        f"""
        test_cudnn_rnn_layer.py::test_an_exported_model_runs_and_has_gradients
        test_cudnn_rnn_layer.py::test_dtype_policies[({_CELLS})-False-
        test_cudnn_rnn_layer.py::test_gradients_of_inference_equal_those_of_training_without_dropout[({_CELLS})-False-
        test_cudnn_rnn_layer_options.py::test_equals_the_reference[{_NETWORKS}-(batch|time)-major-lengths-inference]
        """,
    ),
    Unsupported(
        "in a graph that is not compiled, each op is in a separate function",
        """
        test_(cudnn_rnn_gradients|cudnn_rnn_params_ops|gru_block_cell_gradients).py::test_none_counts_as_zero
        test_builtin_kernels.py::test_reserve_space_is_empty_without_a_gradient
        test_cudnn_rnn_second_order.py::test_only_needed_gradients_are_computed[False]
        """,
    ),
    Unsupported(
        "an eager op is in a function, so its shape function raises the error before the kernel",
        """
        test_cudnn_rnn_bad_input.py::test_skipped_input_must_be_of_the_size_of_the_units[CudnnRNNCanonicalToParams(|V2)-run_e
        test_cudnn_rnn_second_order.py::test_wrong_shapes_are_rejected_if_all_results_are_empty[(output|reserve_space)]
        """,
    ),
]


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
    """Marks a test that fails because of a limitation, and reduces the number of examples of a property test."""
    name = f"{test.path.name}::{test.name}"
    for limitation in UNSUPPORTED:
        if limitation.includes(name):
            if limitation.ends_the_process:
                test.add_marker(pytest.mark.skip(reason=limitation.reason))
            else:
                test.add_marker(pytest.mark.xfail(reason=limitation.reason, strict=limitation.is_sure))
    _draw_fewer_examples(getattr(test, "obj", None))


def _draw_fewer_examples(test) -> None:
    """Limits the examples of a property test, because each one is compiled."""
    settings = getattr(test, "_hypothesis_internal_use_settings", None)  # there is no public way to change them
    if settings:
        number = min(settings.max_examples, 5)
        test._hypothesis_internal_use_settings = hypothesis.settings(settings, max_examples=number)
