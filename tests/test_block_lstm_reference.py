"""Compares the reference for TensorFlow's LSTM ops with the ops themselves and with derivatives by complex steps."""

import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from inputs.gru_block_cell import float64
from inputs.pairs import every_pair
from references import block_lstm as reference
from references.block_lstm import ICFO, IFCO, Results

TIME, BATCH, INPUT_SIZE, CELL_SIZE = 6, 3, 4, 10
ORDERS = {"BlockLSTM": ICFO, "BlockLSTMV2": IFCO}
GRAD_OPS = {"BlockLSTM": "BlockLSTMGrad", "BlockLSTMV2": "BlockLSTMGradV2"}


def inputs(dtype="float64"):
    """Returns the inputs of an op for a sequence, except seq_len_max."""
    rng = np.random.default_rng(0)
    shapes = {
        "x": (TIME, BATCH, INPUT_SIZE),
        "cs_prev": (BATCH, CELL_SIZE),
        "h_prev": (BATCH, CELL_SIZE),
        "w": (INPUT_SIZE + CELL_SIZE, 4 * CELL_SIZE),
        "wci": (CELL_SIZE,),
        "wcf": (CELL_SIZE,),
        "wco": (CELL_SIZE,),
        "b": (4 * CELL_SIZE,),
    }
    return {name: rng.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}


def output_gradients(dtype="float64"):
    """Returns gradients with respect to cs and h."""
    rng = np.random.default_rng(1)
    return {name: rng.standard_normal((TIME, BATCH, CELL_SIZE)).astype(dtype) for name in ("cs_grad", "h_grad")}


def run(op, seq_len_max, given, **options):
    """Returns the results of an op, and of the reference for the same numbers."""
    actual = getattr(tf.raw_ops, op)(seq_len_max=seq_len_max, **given, **options)
    if op == "BlockLSTMV2":
        options["forget_bias"] = 0.0
    return actual, reference.sequence(seq_len_max, **float64(given), order=ORDERS[op], **options)


def run_grad(op, seq_len_max, given, results, use_peephole):
    """Returns the results of the backward pass of an op, and of the reference for the same numbers."""
    # TensorFlow does not write all results of steps that it does not run.
    arrays = {name: each.numpy() for name, each in results._asdict().items()}
    gradients = output_gradients(dtype="float32")
    actual = getattr(tf.raw_ops, GRAD_OPS[op])(
        seq_len_max=seq_len_max, **given, **arrays, **gradients, use_peephole=use_peephole
    )
    expected = reference.sequence_grad(
        seq_len_max,
        **float64(given),
        results=Results(**float64(arrays)),
        **float64(gradients),
        order=ORDERS[op],
        use_peephole=use_peephole,
    )
    return actual, expected


@pytest.mark.parametrize(
    ("op", "use_peephole", "cell_clip", "seq_len_max"),
    every_pair(list(ORDERS), [False, True], [-1.0, 0.0, 0.7], [0, 4, TIME]),
)
def test_sequences_equal_tensorflow(op, use_peephole, cell_clip, seq_len_max):
    actual, expected = run(op, seq_len_max, inputs(dtype="float32"), use_peephole=use_peephole, cell_clip=cell_clip)
    for name, value in actual._asdict().items():
        # TensorFlow does not write the gates of the other steps.
        steps = TIME if name in ("cs", "h") else seq_len_max
        assert parity.difference(value[:steps], getattr(expected, name)[:steps]) < 1e-5, name


@pytest.mark.parametrize(
    ("op", "use_peephole", "cell_clip", "seq_len_max"),
    every_pair(list(ORDERS), [False, True], [0.0, 0.7], [0, 4, TIME]),
)
def test_gradients_of_sequences_equal_tensorflow(op, use_peephole, cell_clip, seq_len_max):
    given = inputs(dtype="float32")
    results, _ = run(op, seq_len_max, given, use_peephole=use_peephole, cell_clip=cell_clip)
    actual, expected = run_grad(op, seq_len_max, given, results, use_peephole)
    for name, value in actual._asdict().items():
        assert parity.difference(value, getattr(expected, name)) < 1e-5, name


@pytest.mark.parametrize("op", ORDERS)
def test_tensorflow_differentiates_the_second_version_with_the_gradient_op_of_the_first(op):
    """And so in a wrong order of the gates. If this fails, TensorFlow has mended it."""
    given = {name: tf.constant(each) for name, each in inputs(dtype="float32").items()}
    gradients = output_gradients(dtype="float32")
    with tf.GradientTape() as tape:
        tape.watch(given)
        results = getattr(tf.raw_ops, op)(seq_len_max=TIME, **given)
        loss = tf.reduce_sum(results.cs * gradients["cs_grad"]) + tf.reduce_sum(results.h * gradients["h_grad"])
    actual = tape.gradient(loss, given)
    _, expected = run_grad(op, TIME, given, results, use_peephole=False)
    for name in ("x", "cs_prev", "h_prev", "w", "b"):
        difference = parity.difference(actual[name], getattr(expected, f"{name}_grad"))
        assert difference < 1e-5 if op == "BlockLSTM" else difference > 0.1, name


@pytest.mark.parametrize("use_peephole", [False, True])
@pytest.mark.parametrize("cell_clip", [-1.0, 0.7])
def test_steps_equal_tensorflow(cell_clip, use_peephole):
    given, gradients = inputs(dtype="float32"), output_gradients(dtype="float32")
    given["x"] = given["x"][0]
    gradients = {name: each[0] for name, each in gradients.items()}
    actual = tf.raw_ops.LSTMBlockCell(**given, use_peephole=use_peephole, cell_clip=cell_clip)
    expected = reference.step(**float64(given), use_peephole=use_peephole, cell_clip=cell_clip)
    for name, value in actual._asdict().items():
        assert parity.difference(value, getattr(expected, name)) < 1e-5, name
    arrays = {name: each.numpy() for name, each in actual._asdict().items()}
    of_step = Results(**float64(arrays))
    del arrays["h"]
    actual = tf.raw_ops.LSTMBlockCellGrad(**given, **arrays, **gradients, use_peephole=use_peephole)
    given = float64(given)
    expected = reference.step_grad(
        *(given[name] for name in ("cs_prev", "wci", "wcf", "wco")),
        of_step,
        **float64(gradients),
        use_peephole=use_peephole,
    )
    for value, wanted in zip(actual, expected, strict=True):
        assert parity.difference(value, wanted) < 1e-5


@pytest.mark.parametrize("seq_len_max", [4, TIME])
@pytest.mark.parametrize("order", ORDERS.values(), ids="".join)
def test_gradients_equal_complex_steps(order, seq_len_max):
    """Moves all inputs at once in a random direction."""
    given, gradients = inputs(), output_gradients()
    options = {"order": order, "use_peephole": True}
    rng = np.random.default_rng(2)
    directions = {name: rng.standard_normal(each.shape) for name, each in given.items()}
    moved = {name: each + 1e-30j * directions[name] for name, each in given.items()}
    results = reference.sequence(seq_len_max, **moved, cell_clip=0.0, **options)
    loss = np.sum(results.cs * gradients["cs_grad"]) + np.sum(results.h * gradients["h_grad"])
    values = Results(*(each.real for each in results))
    actual = reference.sequence_grad(seq_len_max, **given, results=values, **gradients, **options)
    total = sum(np.sum(getattr(actual, f"{name}_grad") * each) for name, each in directions.items())
    np.testing.assert_allclose(total, loss.imag / 1e-30, rtol=1e-12)
