"""The switch with which XLA compiles every call of the ops in the tests, and every function that the tests make.

The environment variable TF_RNN_OPS_TEST_XLA turns it on: 1 for all tests, or n for every nth. An op that is called
eagerly then runs in a function of its own that XLA must compile, and so does one that is built into a graph, which need
not be compiled itself. `tf.function` in a test, of which nothing else is said, has `jit_compile=True`.
"""

import functools
import os
import pathlib
import sys
from typing import NamedTuple

import hypothesis
import pytest
import tensorflow as tf
from tensorflow.python.ops import control_flow_util  # which functions are compiled is not public

import tf_rnn_ops

VARIABLE = "TF_RNN_OPS_TEST_XLA"
# Every how many tests to run. 0 is off.
EVERY = int(os.environ.get(VARIABLE, "0"))

_TESTS = pathlib.Path(__file__).parent


class Refused(NamedTuple):
    """What XLA does not do, or the switch, so that tests fail.

    Attributes:
      reason: why.
      tests: those that fail, each by what its file and name begin with.
      ends_the_process: whether they cannot even be tried.
      is_sure: whether they fail whatever else the process has compiled before.
    """

    reason: str
    tests: list[str]
    ends_the_process: bool = False
    is_sure: bool = True


REFUSED = [
    Refused(
        "XLA crashes on empty tensors of sizes whose product overflows, whatever is computed of them",
        [
            "test_cudnn_rnn_bad_input.py::test_huge_sizes_are_answered_where_there_is_nothing_to_compute",
            "test_cudnn_rnn_bad_input.py::test_sizes_whose_products_overflow_are_refused",
            "test_cudnn_rnn_second_order.py::test_dropout_masks_whose_size_cannot_be_counted_are_refused",
            "test_gru_block_cell_bad_input.py::test_a_huge_batch_of_nothing_is_answered",
            "test_gru_block_cell_bad_input.py::test_sizes_whose_sums_or_products_overflow_are_refused",
            "test_keras_rnn.py::test_huge_sizes_without_elements_take_no_time",
            "test_keras_rnn.py::test_sizes_that_cannot_be_counted_are_refused",
        ],
        ends_the_process=True,
    ),
    Refused(
        "XLA takes a tensor at an odd address for one of its own, and crashes",
        [
            "test_unaligned.py::test_elements_between_their_places_are_refused",
            "test_unaligned.py::test_gradients_are_of_the_same_bits[TfRnnOps>GRUBlockCell",
            "test_unaligned.py::test_a_layer_takes_masks_and_states_of_any_batch[mask]",
            *(
                f"test_unaligned.py::test_{what}_are_of_the_same_bits[{op}"
                for what in ("results", "gradients")
                for op in ("CudnnRNNBackpropV", "TfRnnOps>CudnnRNNBackpropV", "TfRnnOps>KerasRNN")
            ),
        ],
        ends_the_process=True,
    ),
    Refused(
        "XLA leaves out assertions, so that the op refuses what they would have, in other words",
        [
            "test_cudnn_rnn_layer.py::test_a_mask_of_another_shape_is_refused_when_shapes_are_known",
            "test_cudnn_rnn_layer.py::test_a_mask_that_is_not_right_padded_is_refused[graph]",
        ],
    ),
    Refused(
        "XLA loses the sizes of the lists that a loop keeps where the gradient of its gradient is taken outside",
        [
            "test_cudnn_rnn_second_order.py::test_fourth_order[dropout-eager]",
            "test_cudnn_rnn_second_order.py::test_fourth_order[eager]",
            "test_cudnn_rnn_second_order.py::test_the_third_order_hands_a_backward_pass_the_header_for_gpus",
            "test_cudnn_rnn_second_order.py::test_third_order[",
            "test_cudnn_rnn_second_order.py::test_third_order_with_dropout[an output of one-eager]",
            "test_cudnn_rnn_second_order.py::test_third_order_with_dropout[two directions-eager]",
            "test_cudnn_rnn_second_order.py::test_dropout_of_one_layer_takes_no_masks_in_the_third_order",
            "test_keras_rnn.py::test_second_derivatives_with_other_activations_equal_keras",
        ],
    ),
    Refused(
        "XLA differentiates a loop only if it knows the largest number of iterations",
        [
            "test_cudnn_rnn_second_order.py::test_third_order_within_a_while_loop",
            "test_keras_rnn.py::test_second_derivatives_within_a_while_loop_equal_keras",
        ],
    ),
    Refused(
        "XLA has no gradient of what it makes of the gradient of a loop",
        [
            "test_cudnn_rnn_second_order.py::test_what_is_past_the_ends_takes_no_part",
            *(
                f"test_cudnn_rnn_second_order.py::test_forward_accumulator_around_a_tape_of_layers[{layer}-tf.function]"
                for layer in ("lstm", "gru", "tanh")
            ),
            *(
                f"test_keras_rnn.py::test_third_derivatives_equal_central_differences[{case}]"
                for case in ("lstm-gaps", "gru-None", "rnn_tanh-nothing")
            ),
            *(
                f"test_keras_rnn.py::test_an_accumulator_around_a_function_equals_keras[{case}-2]"
                for case in ("lstm-True", "gru-True", "rnn_tanh-True", "rnn_relu-True", "lstm-False")
            ),
        ],
    ),
    Refused(
        "XLA loses the sizes of a loop's lists, or has no gradient of them, where the loop is new to the process",
        [
            f"test_unaligned.py::test_gradients_are_of_the_same_bits[{op}-"
            for op in ("CudnnRNNBackprop", "TfRnnOps>CudnnRNNBackprop", "TfRnnOps>CudnnRNNBackpropGrad")
        ],
        is_sure=False,
    ),
    Refused(
        "XLA reads from the list that a loop keeps even if the loop has no steps",
        ["test_cudnn_rnn_second_order.py::test_third_order_of_no_steps"],
    ),
    Refused(
        "XLA hands no list that a loop keeps to a function that another process restored",
        ["test_keras_layers.py::test_saved_files_load_in_a_fresh_process"],
    ),
    Refused(
        "TensorFlow's forward accumulator differentiates a function more often than it is asked to",
        [
            *(
                f"test_cudnn_rnn_second_order.py::test_forward_accumulator[{mode}-eager]"
                for mode in ("rnn_relu", "rnn_tanh", "lstm", "gru")
            ),
            *(
                f"test_cudnn_rnn_second_order.py::test_forward_accumulator_around_a_tape_of_layers[{layer}-eager]"
                for layer in ("lstm", "gru", "tanh", "cudnn")
            ),
        ],
    ),
    Refused(
        "TensorFlow builds the gradient of a function when it calls it, whether or not it is asked for",
        [
            "test_cudnn_rnn_layer.py::test_an_exported_model_runs_and_has_gradients",
            *(
                f"test_cudnn_rnn_layer.py::{test}[{mode}-False-"
                for test in (
                    "test_dtype_policies",
                    "test_gradients_of_inference_are_those_of_training_without_dropout",
                )
                for mode in ("rnn_relu", "rnn_tanh", "lstm", "gru")
            ),
            *(
                f"test_cudnn_rnn_layer_options.py::test_equals_the_reference[{network}-{major}-major-lengths-inference]"
                for network in (
                    f"{mode}-{direction}"
                    for mode in ("rnn_relu", "rnn_tanh", "lstm", "gru", "lstm-2")
                    for direction in ("unidirectional", "bidirectional")
                )
                for major in ("batch", "time")
            ),
        ],
    ),
    Refused(
        "in a graph that is not compiled, the op is in a function of its own",
        [
            "test_cudnn_rnn_gradients.py::test_none_counts_as_zero",
            "test_cudnn_rnn_params_ops.py::test_none_counts_as_zero",
            "test_gru_block_cell_gradients.py::test_none_counts_as_zero",
            "test_builtin_kernels.py::test_nothing_is_kept_for_a_gradient_that_nobody_asks_for",
            "test_cudnn_rnn_second_order.py::test_only_what_is_asked_for_is_made[False]",
        ],
    ),
    Refused(
        "an op that is called eagerly is in a function, where its shape function refuses shapes before it does",
        [
            *(
                f"test_cudnn_rnn_bad_input.py::test_skipped_input_must_be_of_the_size_of_the_units[{op}-run_eagerly]"
                for op in ("CudnnRNNCanonicalToParams", "CudnnRNNCanonicalToParamsV2")
            ),
            *(
                f"test_cudnn_rnn_second_order.py::test_wrong_shapes_are_refused_where_all_results_are_empty[{argument}]"
                for argument in ("output", "reserve_space")
            ),
        ],
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
    tf.random.set_seed = _letting_go(tf.random.set_seed)


def _function(op):
    """Returns an op as a function that XLA must compile."""
    return tf.function(lambda *args, **kwargs: op(*args, **kwargs), jit_compile=True, autograph=False)


def _is_compiled(graph) -> bool:
    """Returns whether a graph is of a function that XLA compiles, or of a gradient, which is compiled as the function.

    TensorFlow differentiates no functions within these.
    """
    if control_flow_util.GraphOrParentsInXlaContext(graph):
        return True
    while graph is not None and not getattr(graph, "name", "").startswith("__backward_"):
        graph = getattr(graph, "outer_graph", None)
    return graph is not None


# Those that are called eagerly.
_eager_function = functools.cache(_function)


def _compiled(op):
    """Returns the function of an op, which is compiled where nothing around it is."""

    @functools.wraps(op)
    @tf.autograph.experimental.do_not_convert
    def run(*args, **kwargs):
        if tf.executing_eagerly():
            call = _eager_function(op)
        elif _is_compiled(tf.compat.v1.get_default_graph()):
            call = op
        else:
            call = _function(op)  # anew, as each op in a graph has a kernel of its own
        return call(*args, **kwargs)

    return run


def _letting_go(set_seed):
    """Returns `tf.random.set_seed`, which lets go of what was compiled of ops, as it does of their kernels."""

    @functools.wraps(set_seed)
    def run(seed):
        _eager_function.cache_clear()
        set_seed(seed)

    return run


def _function_of_tests(function):
    """Returns `tf.function` with another default for those who call it from the tests."""

    @functools.wraps(function)
    def run(*args, **kwargs):
        if sys._getframe(1).f_code.co_filename.startswith(str(_TESTS)):
            kwargs.setdefault("jit_compile", True)
        return function(*args, **kwargs)

    return run


def prepare(test: pytest.Item) -> None:
    """Marks a test that fails because of what is refused, and has a property test draw fewer examples."""
    name = f"{test.path.name}::{test.name}"
    for refused in REFUSED:
        if name.startswith(tuple(refused.tests)):
            if refused.ends_the_process:
                test.add_marker(pytest.mark.skip(reason=refused.reason))
            else:
                test.add_marker(pytest.mark.xfail(reason=refused.reason, strict=refused.is_sure))
    _draw_fewer_examples(getattr(test, "obj", None))


def _draw_fewer_examples(test) -> None:
    """Has a property test draw as many examples as there is time to compile."""
    settings = getattr(test, "_hypothesis_internal_use_settings", None)  # there is no public way to change them
    if settings:
        number = min(settings.max_examples, 5)
        test._hypothesis_internal_use_settings = hypothesis.settings(settings, max_examples=number)
