"""Compares TensorFlow's LSTM ops and ours with a float64 reference.

test_cell_second_order.py tests all gradients from a tape.
"""

import functools

import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from hypothesis import given
from hypothesis import strategies as st
from inputs import block_lstm as lstm_inputs
from inputs.block_lstm import GRAD_OPS, ORDERS, of_sequence, output_gradients, steps
from inputs.gru_block_cell import DTYPES, float64, sizes
from inputs.pairs import every_pair
from references import block_lstm as reference
from references.block_lstm import Results

import tf_rnn_ops
from tf_rnn_ops._library import ops as own_ops

TIME = 6
SIZE = (TIME, 3, 4, 10)
SEQUENCE_OPS = ("BlockLSTM", "BlockLSTMV2")
# TensorFlow's half ops round after each operation.
MODULES = [(tf.raw_ops, "float32"), *((tf_rnn_ops.raw_ops, dtype) for dtype in DTYPES)]


def peer_of(raw_ops):
    """Returns the name of the comparison in the record of differences."""
    return "float64" if raw_ops is tf_rnn_ops.raw_ops else "float64, TensorFlow's op"


def check_forward(raw_ops, op, given, seq_len_max, **options):
    """Compares the results of an op with those of the reference for the same numbers, and returns them."""
    actual = getattr(raw_ops, op)(**steps(op, seq_len_max), **given, **options)
    if raw_ops is tf.raw_ops and of_sequence(op):
        # TensorFlow does not write the gates of the steps that do not run.
        unwritten = {name: getattr(actual, name).numpy() for name in ("i", "f", "o", "ci", "co")}
        for each in unwritten.values():
            each[seq_len_max:] = 0
        actual = actual._replace(**unwritten)
    function = reference.sequence if of_sequence(op) else reference.step
    expected = function(**steps(op, seq_len_max), **float64(given), order=ORDERS[op], **options)
    parity.check(op, peer_of(raw_ops), actual, expected)
    return actual


def reference_gradients(op, given, results, d_outputs, seq_len_max, use_peephole):
    """Returns the results of a gradient op, by name, for the same numbers."""
    wide, grads = float64(given), Results(*float64(d_outputs).values())
    options = {"results": Results(**float64(results)), "grads": grads, "use_peephole": use_peephole}
    if of_sequence(op):
        return reference.sequence_grad(seq_len_max, **wide, **options, order=ORDERS[op])._asdict()
    state = {name: wide[name] for name in ("cs_prev", *lstm_inputs.PEEPHOLES)}
    expected = reference.step_grad(**state, **options)._asdict()
    return {"dicfo": expected.pop("d_gates"), **expected}


def check_backward(raw_ops, op, given, results, d_outputs, seq_len_max, use_peephole):
    """Compares the results of the gradient ops with those of the reference for the same numbers."""
    results = {name: np.asarray(each) for name, each in results._asdict().items()}
    states = {name: d_outputs[name] for name in ("cs_grad", "h_grad")}
    calls = {GRAD_OPS[op]: (getattr(raw_ops, GRAD_OPS[op]), states)}
    if raw_ops is tf_rnn_ops.raw_ops and of_sequence(op):
        of_all = functools.partial(own_ops.tf_rnn_ops_block_lstm_grad_v3, new_cell_second=op == "BlockLSTM")
        calls["BlockLSTMGradV3"] = (of_all, d_outputs)
    for name, (function, gradients) in calls.items():
        of_op = {key: value for key, value in results.items() if of_sequence(op) or key != "h"}
        options = {**steps(op, seq_len_max), "use_peephole": use_peephole}
        actual = function(**given, **of_op, **gradients, **options)
        assert all(each.dtype == given["x"].dtype for each in actual)
        padded = {key: gradients.get(key, np.zeros_like(value)) for key, value in d_outputs.items()}
        expected = reference_gradients(op, given, results, padded, seq_len_max, use_peephole)
        parity.check(name, peer_of(raw_ops), actual, expected)


def check(raw_ops, op, size, dtype, seq_len_max, seed=0, **options):
    """Compares an op and its gradient ops with the reference."""
    given, d_outputs = lstm_inputs.inputs(op, size, dtype, seed), output_gradients(op, size, dtype, seed)
    results = check_forward(raw_ops, op, given, seq_len_max, **options)
    check_backward(raw_ops, op, given, results, d_outputs, seq_len_max, options.get("use_peephole", False))


@pytest.mark.parametrize(
    ("module", "op", "use_peephole", "cell_clip", "seq_len_max"),
    every_pair(MODULES, list(ORDERS), [False, True], [-1.0, 0.0, 0.75], [0, 4, TIME]),
)
def test_equal_the_reference(module, op, use_peephole, cell_clip, seq_len_max):
    raw_ops, dtype = module
    check(raw_ops, op, SIZE, dtype, seq_len_max, use_peephole=use_peephole, cell_clip=cell_clip)


@given(
    op=st.sampled_from(list(ORDERS)),
    size=st.tuples(st.integers(0, 5), sizes(max_batch=40)),
    share=st.floats(0, 1),
    dtype=st.sampled_from(DTYPES),
    forget_bias=st.sampled_from([0.0, 1.0, -2.5]),
    cell_clip=st.sampled_from([-1.0, 0.0, 0.25, 3.0]),
    use_peephole=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_equal_the_reference_with_any_options(op, size, share, dtype, forget_bias, cell_clip, use_peephole, seed):
    time, of_cell = size
    options = {"cell_clip": cell_clip, "use_peephole": use_peephole}
    if op != "BlockLSTMV2":
        options["forget_bias"] = forget_bias
    check(tf_rnn_ops.raw_ops, op, (time, *of_cell), dtype, round(share * time), seed, **options)


@pytest.mark.parametrize("op", ORDERS)
@pytest.mark.parametrize("size", [(0, 2, 3, 4), (2, 0, 3, 4), (2, 3, 0, 4), (2, 3, 4, 0), (0, 0, 0, 0), (30, 1, 1, 1)])
def test_sizes_at_the_bounds(size, op):
    for seq_len_max in {0, size[0]}:
        check(tf_rnn_ops.raw_ops, op, size, "float32", seq_len_max, use_peephole=True)


@pytest.mark.parametrize("op", ORDERS)
def test_defaults_are_those_of_tensorflow(op):
    given = lstm_inputs.inputs(op, SIZE, "float32")
    given["cs_prev"] *= 9  # so that it is clipped
    ours, theirs = (getattr(each, op)(**steps(op, TIME), **given) for each in (tf_rnn_ops.raw_ops, tf.raw_ops))
    assert ours._fields == theirs._fields
    parity.check(op, "tf.raw_ops", ours, theirs)
    assert (np.max(ours.cs) > 3) == (op == "BlockLSTMV2")


@pytest.mark.parametrize("op", SEQUENCE_OPS)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_steps_after_the_last_are_not_read(op, value):
    """Neither forward nor backward."""
    given, d_outputs = lstm_inputs.inputs(op, SIZE, "float32"), output_gradients(op, SIZE, "float32")
    given["x"][4:] = value
    results = check_forward(tf_rnn_ops.raw_ops, op, given, 4)
    arrays = {
        name: np.where(np.arange(TIME)[:, None, None] < 4, each, value) for name, each in results._asdict().items()
    }
    d_outputs = {name: np.where(np.arange(TIME)[:, None, None] < 4, each, value) for name, each in d_outputs.items()}
    check_backward(tf_rnn_ops.raw_ops, op, given, Results(**arrays), d_outputs, 4, use_peephole=False)


@pytest.mark.parametrize("seq_len_max", [-1, TIME + 1, 2**62])
@pytest.mark.parametrize("op", SEQUENCE_OPS)
def test_seq_len_max_must_be_a_number_of_steps(op, seq_len_max):
    given = lstm_inputs.inputs(op, SIZE, "float32")
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"seq_len_max must be .* 6, but is {seq_len_max}"):
        getattr(tf_rnn_ops.raw_ops, op)(seq_len_max=seq_len_max, **given)
    run = tf.function(lambda n: getattr(tf_rnn_ops.raw_ops, op)(seq_len_max=n, **given).h)
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"seq_len_max must be .* 6, but is {seq_len_max}"):
        run(tf.constant(seq_len_max, tf.int64))


@pytest.mark.parametrize("op", SEQUENCE_OPS)
def test_tensorflow_differentiates_the_second_version_with_the_gradient_op_of_the_first(op):
    """In a wrong order of the gates. If this fails, TensorFlow has mended it: change docs/guides/block_lstm.md."""
    given = {name: tf.constant(each) for name, each in lstm_inputs.inputs(op, SIZE, "float32").items()}
    for raw_ops in (tf.raw_ops, tf_rnn_ops.raw_ops):
        with tf.GradientTape() as tape:
            tape.watch(given)
            results = getattr(raw_ops, op)(seq_len_max=TIME, **given)
        actual = tape.gradient([results.cs, results.h], given)
        ones = np.ones(results.h.shape)
        d_outputs = reference.of_states(ones, ones)._asdict()
        expected = reference_gradients(op, given, results._asdict(), d_outputs, TIME, use_peephole=False)
        for name in ("x", "cs_prev", "h_prev", "w", "b"):
            difference = parity.difference(actual[name], expected[f"{name}_grad"])
            is_wrong = raw_ops is tf.raw_ops and op == "BlockLSTMV2"
            assert difference > 0.1 if is_wrong else difference < 1e-5, (raw_ops.__name__, name)
