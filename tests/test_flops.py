"""Tests of the numbers of floating-point operations that TensorFlow's profiler reports."""

import keras
import pytest
import tensorflow as tf

import tf_rnn_ops
from tf_rnn_ops import raw_ops

tf_rnn_ops.enable_builtin_kernels()


def flops(function, *shapes):
    """Returns the operations that the profiler counts in the graph of a function."""
    with tf.Graph().as_default() as graph:
        function(*(tf.compat.v1.placeholder(tf.float32, shape) for shape in shapes))
        return flops_of_graph(graph)


def flops_of_graph(graph):
    options = tf.compat.v1.profiler.ProfileOptionBuilder.float_operation()
    options["output"] = "none"
    return tf.compat.v1.profiler.profile(graph, options=options).total_float_ops


@pytest.mark.parametrize("with_gradient", [False, True], ids=["forward", "gradient"])
@pytest.mark.parametrize("bidirectional", [False, True], ids=["unidirectional", "bidirectional"])
@pytest.mark.parametrize("make", [keras.layers.LSTM, keras.layers.GRU, keras.layers.SimpleRNN])
def test_layers_count_as_keras_unrolled(make, bidirectional, with_gradient):
    def count(**options):
        def run(x):
            layer = make(32, return_sequences=True, **options)
            layer = keras.layers.Bidirectional(layer) if bidirectional else layer
            y = layer(x, training=with_gradient)
            if with_gradient:
                tf.gradients(y, [x, *(each.value for each in layer.trainable_variables)])

        return flops(run, (4, 10, 16))

    expected = count(unroll=True)
    with tf_rnn_ops.accelerate_keras(strict=True):
        actual = count()
    assert actual == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("ops", [raw_ops, tf.raw_ops], ids=["ours", "builtin"])
@pytest.mark.parametrize("version", ["", "V2", "V3"])
def test_cudnn_rnn(version, ops):
    time, batch, inputs, units = 10, 4, 16, 32
    steps = time * batch
    options = {"sequence_lengths": [time] * batch} if version == "V3" else {}

    def run(x, h, c, params):
        return getattr(ops, f"CudnnRNN{version}")(
            input=x, input_h=h, input_c=c, params=params, direction="bidirectional", **options
        )

    # Two layers: 4 gates of a product with the input and with the state, two biases, a sum, and 4 operations.
    products = 2 * 2 * 4 * units * ((inputs + units) + (2 * units + units))
    pointwise = 4 * units * (4 * 3 + 4)
    shapes = (time, batch, inputs), (4, batch, units), (4, batch, units), (None,)
    assert flops(run, *shapes) == steps * (products + pointwise)
    # The gradient of reduce_sum and the fills around it are not counted.
    with_gradient = flops(lambda *inputs: tf.gradients(run(*inputs).output, inputs), *shapes)
    assert with_gradient == pytest.approx(3 * steps * (products + pointwise), rel=0.001)


@pytest.mark.parametrize("ops", [raw_ops, tf.raw_ops], ids=["ours", "builtin"])
def test_gru_block_cell(ops):
    names = ("x", "h_prev", "w_ru", "w_c", "b_ru", "b_c")
    shapes = (4, 16), (4, 32), (48, 64), (48, 32), (64,), (32,)
    products = 2 * 4 * 48 * 96

    def run(*inputs):
        return ops.GRUBlockCell(**dict(zip(names, inputs, strict=True))).h

    assert flops(run, *shapes) == products + 4 * 32 * 8
    assert flops(lambda *inputs: tf.gradients(run(*inputs), inputs), *shapes) == pytest.approx(3 * products, rel=0.1)


def test_cudnn_rnn_with_projection():
    time, batch, inputs, units, proj = 10, 4, 16, 32, 8
    products = 2 * (4 * units * (inputs + proj) + units * proj)
    pointwise = units * (4 * 3 + 4)
    shapes = (time, batch, inputs), (1, batch, proj), (1, batch, units), (None,)

    def run(x, h, c, params):
        return raw_ops.CudnnRNNV3(
            input=x, input_h=h, input_c=c, params=params, sequence_lengths=[time] * batch, num_proj=proj
        )

    assert flops(run, *shapes) == time * batch * (products + pointwise)


@pytest.mark.parametrize("use_peephole", [False, True])
@pytest.mark.parametrize("steps", [1, 10])
def test_lstm_of_one_step_and_of_a_sequence(steps, use_peephole):
    batch, inputs, units = 4, 16, 32
    given = {"cs_prev": (batch, units), "h_prev": (batch, units), "w": (inputs + units, 4 * units), "b": (4 * units,)}
    given |= dict.fromkeys(("wci", "wcf", "wco"), (units,))

    def run(x, *others):
        others = dict(zip(given, others, strict=True))
        if steps == 1:
            return raw_ops.LSTMBlockCell(x=x[0], **others, use_peephole=use_peephole).h
        return raw_ops.BlockLSTM(seq_len_max=tf.constant(steps, tf.int64), x=x, **others, use_peephole=use_peephole).h

    # 4 gates: a product, a bias, and 4 operations, with peepholes 6 more.
    products = 2 * 4 * units * (inputs + units)
    expected = steps * batch * (products + units * (4 + 4 + (6 if use_peephole else 0)))
    shapes = (steps, batch, inputs), *given.values()
    assert flops(run, *shapes) == expected
    with_gradient = flops(lambda *inputs: tf.gradients(run(*inputs), inputs), *shapes)
    assert with_gradient == pytest.approx(3 * expected, rel=0.1)


def test_an_unwanted_gradient_of_sequences_is_not_counted():
    layer = keras.layers.LSTM(32)
    layer.build([4, 10, 16])

    def count(wants_input):
        def run(x):
            of = [*([x] if wants_input else []), *(each.value for each in layer.trainable_variables)]
            with tf.GradientTape() as tape:
                tape.watch(of)
                y = layer(x, training=True)
            return tape.gradient(y, of)

        return flops_of_graph(tf.function(run).get_concrete_function(tf.ones([4, 10, 16])).graph)

    with tf_rnn_ops.accelerate_keras(strict=True):
        assert count(True) - count(False) == 2 * 4 * 10 * 16 * 4 * 32


def test_unknown_sizes_are_not_counted():
    shapes = (None, 16), (None, 32), (48, 64), (48, 32), (64,), (32,)
    names = ("x", "h_prev", "w_ru", "w_c", "b_ru", "b_c")
    assert flops(lambda *inputs: raw_ops.GRUBlockCell(**dict(zip(names, inputs, strict=True))), *shapes) == 0
