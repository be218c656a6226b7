"""Tests that arguments of wrong rank, size or dtype raise errors that name them, eagerly and in graphs."""

import functools
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
from checks.bad_input import names_argument, wrong_shapes
from hypothesis import given
from hypothesis import strategies as st
from inputs import block_lstm as lstm_inputs
from inputs import calls
from inputs import gru_block_cell as gru_inputs
from inputs.calls import input_names

import tf_rnn_ops

SIZE = (2, 3, 4)
ERRORS = (tf.errors.InvalidArgumentError, ValueError)


def forward_inputs():
    return gru_inputs.cell_inputs(SIZE, "float32")


def grad_inputs():
    batch, _, cell_size = SIZE
    state = np.zeros((batch, cell_size), "float32")
    return {**forward_inputs(), "r": state, "u": state, "c": state, "d_h": state}


def grad_v2_inputs():
    state = grad_inputs()["d_h"]
    return {**grad_inputs(), "d_r": state, "d_u": state, "d_c": state}


def lstm_arguments(op):
    """Returns the tensors of an LSTM op or its gradient op, by name."""
    forward = lstm_inputs.forward_op(op)
    arguments = lstm_inputs.inputs(forward, (3, *SIZE), "float32")
    gradients = lstm_inputs.output_gradients(forward, (3, *SIZE), "float32")
    states = {name.removesuffix("_grad"): each for name, each in gradients.items()}
    every = {**lstm_inputs.steps(forward, 2), **arguments, **states, **gradients}
    return {name: every[name] for name in input_names(op)}


def lstm_op(op):
    """Returns the function of an LSTM op or its gradient op."""
    options = {"new_cell_second": True} if op.endswith("V3") else {}
    return functools.partial(getattr(tf_rnn_ops._library.ops, f"TfRnnOps_{op}"), use_peephole=True, **options)


LSTM_OPS = [op for op in calls.OPS if "LSTM" in op]
OPS: dict[str, tuple[Callable, Callable]] = {
    "GRUBlockCell": (tf_rnn_ops.raw_ops.GRUBlockCell, forward_inputs),
    "GRUBlockCellGrad": (tf_rnn_ops.raw_ops.GRUBlockCellGrad, grad_inputs),
    "GRUBlockCellGradV2": (tf_rnn_ops._library.ops.tf_rnn_ops_gru_block_cell_grad_v2, grad_v2_inputs),
    **{op: (lstm_op(op), functools.partial(lstm_arguments, op)) for op in LSTM_OPS},
}
CASES = [(op, argument) for op, (_, make) in OPS.items() for argument in make()]


def run_eagerly(op, inputs):
    return op(**inputs)


def run_with_known_shapes(op, inputs):
    """Builds a graph with static shapes, which the shape function checks."""
    with tf.Graph().as_default():
        return op(**{name: tf.compat.v1.placeholder(value.dtype, value.shape) for name, value in inputs.items()})


def run_with_unknown_shapes(op, inputs):
    """Runs a graph with unknown shapes, which the kernel checks."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        placeholders = {name: tf.compat.v1.placeholder(value.dtype) for name, value in inputs.items()}
        outputs = op(**placeholders)
        return session.run(outputs, {placeholders[name]: value for name, value in inputs.items()})


@pytest.mark.parametrize("run", [run_eagerly, run_with_known_shapes, run_with_unknown_shapes])
@pytest.mark.parametrize(("op", "argument"), CASES)
def test_wrong_shape_is_rejected_by_name(op, argument, run):
    function, make = OPS[op]
    right = make()
    run(function, right)
    for shape in wrong_shapes(right[argument].shape):
        if (op in lstm_inputs.GRAD_OPS, argument, shape[1:]) == (True, "x", right["x"].shape[1:]) and len(shape) == 3:
            continue  # only x tells the number of steps
        wrong = {**right, argument: np.zeros(shape, right[argument].dtype)}
        with pytest.raises(ERRORS) as error:
            run(function, wrong)
        message = str(error.value)
        # An error about x or a state may name another argument with the same size.
        candidates = right if argument in ("x", "cs_prev", "h_prev") else [argument]
        assert any(names_argument(message, each) for each in candidates), (shape, message)
        assert " must " in message
        assert " but " in message


def test_the_message_has_the_actual_and_the_expected_shape():
    wrong = {**forward_inputs(), "w_c": np.zeros((7, 5), "float32")}
    expected = r"w_c must have the shape \[input_size \+ cell_size, cell_size\] = \[7,4\], but has \[7,5\]"
    for run in (run_eagerly, run_with_known_shapes, run_with_unknown_shapes):
        with pytest.raises(ERRORS, match=expected):
            run(tf_rnn_ops.raw_ops.GRUBlockCell, wrong)


@pytest.mark.parametrize(("op", "argument"), CASES)
def test_wrong_dtype_is_rejected(op, argument):
    function, make = OPS[op]
    for dtype in ("float64", "int32", "complex64", "bool"):
        wrong = {name: tf.constant(value) for name, value in make().items()}
        wrong[argument] = tf.cast(wrong[argument], dtype)
        with pytest.raises((*ERRORS, TypeError)):
            function(**wrong)


@pytest.mark.parametrize("dtype", ["int32", "complex64"])
def test_unsupported_dtype_everywhere_is_rejected(dtype):
    with pytest.raises((*ERRORS, TypeError, tf.errors.NotFoundError), match=r"[Tt]"):
        tf_rnn_ops.raw_ops.GRUBlockCell(**{n: tf.cast(v, dtype) for n, v in forward_inputs().items()})


def test_positional_arguments_are_rejected_like_in_tf_raw_ops():
    with pytest.raises(TypeError):
        tf_rnn_ops.raw_ops.GRUBlockCell(*forward_inputs().values())
    with pytest.raises(TypeError):
        tf.raw_ops.GRUBlockCell(*forward_inputs().values())


shapes = st.lists(st.integers(0, 5), max_size=4).map(tuple)


@given(data=st.data())
def test_any_shapes_are_accepted_or_rejected(data):
    """Results for shapes that the built-in op accepts, and an error that names an argument for others."""
    right = gru_inputs.cell_inputs(
        data.draw(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 3))), "float32"
    )
    changed = data.draw(st.lists(st.sampled_from(sorted(right)), max_size=2, unique=True))
    inputs = {**right, **{name: np.zeros(data.draw(shapes), "float32") for name in changed}}
    try:
        expected = tf.raw_ops.GRUBlockCell(**inputs)
    except tf.errors.InvalidArgumentError:
        for run in (run_eagerly, run_with_known_shapes, run_with_unknown_shapes):
            with pytest.raises(ERRORS, match=r"must"):
                run(tf_rnn_ops.raw_ops.GRUBlockCell, inputs)
    else:
        for run in (run_eagerly, run_with_known_shapes, run_with_unknown_shapes):
            outputs = run(tf_rnn_ops.raw_ops.GRUBlockCell, inputs)
            assert [each.shape for each in outputs] == [each.shape for each in expected]


HUGE = 2**62


@pytest.mark.parametrize(
    ("x", "h_prev"),
    [((0, HUGE), (0, HUGE)), ((0, 1), (0, HUGE)), ((0, HUGE), (0, 1)), ((HUGE, 0), (HUGE, 1)), ((HUGE, 1), (HUGE, 0))],
    ids=str,
)
@pytest.mark.not_xla("XLA crashes on empty tensors whose product of sizes overflows", crashes=True)
def test_sizes_whose_sums_or_products_overflow_are_rejected(x, h_prev):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        inputs = {name: tf.compat.v1.placeholder(tf.float32) for name in forward_inputs()}
        feed = {inputs[name]: value for name, value in forward_inputs().items() if name not in ("x", "h_prev")}
        # NumPy does not support such arrays; TensorFlow stores no data for them.
        for name, shape in (("x", x), ("h_prev", h_prev)):
            if 0 in shape:
                inputs[name] = tf.zeros(tf.constant(shape, tf.int64))
            else:
                feed[inputs[name]] = np.zeros((3, shape[1]), "float32")
        with pytest.raises(ERRORS, match=r"must"):
            session.run(tf_rnn_ops.raw_ops.GRUBlockCell(**inputs), feed)


@pytest.mark.not_xla("XLA crashes on empty tensors whose product of sizes overflows", crashes=True)
def test_a_huge_batch_of_empty_tensors_is_accepted():
    nothing = tf.zeros(tf.constant([HUGE, 0], tf.int64))
    weights = {"w_ru": tf.zeros([0, 0]), "w_c": tf.zeros([0, 0]), "b_ru": tf.zeros([0]), "b_c": tf.zeros([0])}
    assert tf_rnn_ops.raw_ops.GRUBlockCell(x=nothing, h_prev=nothing, **weights).h.shape == (HUGE, 0)
