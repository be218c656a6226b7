"""Tests that arguments of wrong rank, size or dtype raise errors that name them, eagerly and in graphs."""

import numpy as np
import pytest
import tensorflow as tf
from checks.bad_input import (
    BATCH_MAJOR,
    CONFIG,
    ERRORS,
    PROJECTED,
    RUNS,
    assert_rejected,
    cell_arguments,
    names_argument,
    network_arguments,
    run_with_known_shapes,
    split_inputs,
    wrong_shapes,
)
from inputs import calls
from inputs.calls import input_names
from inputs.valid_calls import function_of

import tf_rnn_ops

NETWORK_OPS = [op for op in calls.OPS if op.startswith(("CudnnRNNBackprop", "CudnnRNNV")) or op == "CudnnRNN"]
CELL_OPS = [op for op in calls.OPS if op.startswith(("GRU", "LSTM", "Block"))]
OPS = [*NETWORK_OPS, *CELL_OPS]
ANY_SHAPE = ("host_reserved",)
# Arguments that determine sizes. An error about one of them may name another with the same size.
OF_SIZES = ("input", "input_h", "input_c", "x", "cs_prev", "h_prev")
CASES = [
    pytest.param(op, config, argument, id=f"{op}-{name}-{argument}" if name else f"{op}-{argument}")
    for op in OPS
    for name, config in {"": CONFIG, "projected": PROJECTED, "batch-major": BATCH_MAJOR}.items()
    if config is CONFIG or "num_proj" in calls.attribute_types(op)
    for argument in input_names(op)
    if argument not in ANY_SHAPE
]


def valid_arguments(op, config=CONFIG):
    return network_arguments(op, config) if op in NETWORK_OPS else cell_arguments(op)


def is_also_valid(op, config, argument, right, wrong):
    """Whether only the number of steps differs and no other argument determines it."""
    time_axis = 0 if config.time_major else 1
    return (
        argument in ("input", "x")
        and "Backprop" not in op
        and "Grad" not in op
        and len(right) == len(wrong) == 3
        and wrong == (*right[:time_axis], wrong[time_axis], *right[time_axis + 1 :])
    )


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(("op", "config", "argument"), CASES)
def test_wrong_shape_is_rejected_by_name(op, config, argument, run):
    right = valid_arguments(op, config)
    run(function_of(op), right)
    shape = right[argument].shape
    for wrong_shape in wrong_shapes(shape):
        if is_also_valid(op, config, argument, shape, wrong_shape):
            continue
        if argument == "reserve_space" and run is run_with_known_shapes and len(wrong_shape) == 1:
            continue  # only the kernel checks its size
        wrong = {**right, argument: np.zeros(wrong_shape, right[argument].dtype)}
        message = assert_rejected(run, function_of(op), wrong)
        candidates = right if argument in OF_SIZES else [argument]
        assert any(names_argument(message, each) for each in candidates), (wrong_shape, message)


@pytest.mark.parametrize(("op", "argument"), sorted({(each.values[0], each.values[2]) for each in CASES}))
def test_wrong_dtype_is_rejected(op, argument):
    tensors, attributes = split_inputs(valid_arguments(op))
    for dtype in ("float64", "int32", "int64", "complex64", "bool"):
        if dtype == tensors[argument].dtype:
            continue
        wrong = {name: tf.constant(value) for name, value in tensors.items()}
        wrong[argument] = tf.cast(wrong[argument], dtype)
        with pytest.raises((*ERRORS, TypeError)):
            function_of(op)(**wrong, **attributes)


@pytest.mark.parametrize("dtype", ["int32", "complex64"])
@pytest.mark.parametrize("op", OPS)
def test_unsupported_dtype_everywhere_is_rejected(op, dtype):
    tensors, attributes = split_inputs(valid_arguments(op))
    wrong = {name: tf.cast(value, dtype) if value.dtype == "float32" else value for name, value in tensors.items()}
    with pytest.raises((*ERRORS, TypeError, tf.errors.NotFoundError), match=r"[Tt]"):
        function_of(op)(**wrong, **attributes)


@pytest.mark.parametrize("op", tf_rnn_ops.raw_ops.__all__)
def test_positional_arguments_are_rejected_like_in_tf_raw_ops(op):
    for module in (tf_rnn_ops.raw_ops, tf.raw_ops):
        with pytest.raises(TypeError, match=r"positional argument|only takes keyword args"):
            getattr(module, op, tf_rnn_ops.raw_ops.GRUBlockCell)(tf.ones([2, 3]))


@pytest.mark.parametrize("run", RUNS)
def test_the_message_has_the_actual_and_the_expected_shape(run):
    wrong = {**cell_arguments("GRUBlockCell"), "w_c": np.zeros((7, 5), "float32")}
    expected = r"w_c must have the shape \[input_size \+ cell_size, cell_size\] = \[7,4\], but has \[7,5\]"
    assert_rejected(run, tf_rnn_ops.raw_ops.GRUBlockCell, wrong, expected)
