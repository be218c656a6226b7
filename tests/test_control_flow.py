"""Every op and layer in the control flow of TensorFlow, with and without XLA: results as without control flow."""

import functools
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_rnn_ops
from tf_rnn_ops import params, raw_ops
from tf_rnn_ops._library import ops

TIME, BATCH, SIZE = 3, 2, 4  # the size of inputs and states, so that an op's output can be its input
CANONICAL = {"num_layers": 1, "num_units": SIZE, "input_size": SIZE}


def _values(*shape):
    return tf.constant(np.random.default_rng(sum(shape)).normal(0, 0.4, shape).astype("float32"))


def _cudnn_rnn(op, x, **options):
    """Returns the output of a CudnnRNN op."""
    num_layers = 2 if "dropout" in options else 1
    mode = options.get("rnn_mode", "lstm")
    state = tf.zeros([num_layers, BATCH, SIZE])
    weights = _values(params.layout(mode, num_units=SIZE, input_size=SIZE, num_layers=num_layers).size)
    lengths = {"sequence_lengths": [TIME, 1]} if op.__name__.endswith(("V3", "v3", "stateless_cudnn_rnn")) else {}
    return op(input=x, input_h=state, input_c=state, params=weights, **lengths, **options).output


def _keras_rnn(x, rnn_mode, gates, **options):
    """Returns the outputs of KerasRNN. Its batch comes first: x has TIME sequences."""
    state = tf.zeros([TIME, SIZE])
    return raw_ops.KerasRNN(
        sequences=x,
        mask=tf.constant([[True, True], [True, False], [False, True]]),
        initial_h=state,
        initial_c=state,
        kernel=_values(SIZE, gates * SIZE),
        recurrent_kernel=_values(SIZE, gates * SIZE),
        bias=_values(*([2] if rnn_mode == "gru" else []), gates * SIZE),
        rnn_mode=rnn_mode,
        return_sequences=True,
        **options,
    ).outputs


def _cell(x):
    """Returns x with the first step replaced by that of GRUBlockCell."""
    weights = {"w_ru": _values(2 * SIZE, 2 * SIZE), "w_c": _values(2 * SIZE, SIZE)}
    biases = {"b_ru": _values(2 * SIZE), "b_c": _values(SIZE)}
    h = raw_ops.GRUBlockCell(x=x[0], h_prev=x[1], **weights, **biases).h
    return tf.concat([h[None], x[1:]], axis=0)


def _lstm_cell(x):
    """Returns x with the first step replaced by that of LSTMBlockCell."""
    step = raw_ops.LSTMBlockCell(x=x[0], cs_prev=x[1], h_prev=x[1], **_lstm_weights(), use_peephole=True)
    return tf.concat([step.h[None], x[1:]], axis=0)


def _block_lstm(x, version, module=raw_ops):
    """Returns the hidden states of BlockLSTM."""
    op = getattr(module, f"BlockLSTM{version}")
    return op(seq_len_max=tf.shape(x, tf.int64)[0] - 1, x=x, cs_prev=x[0], h_prev=x[1], **_lstm_weights()).h


def _lstm_weights():
    peephole = _values(SIZE)
    return {"w": _values(2 * SIZE, 4 * SIZE), "wci": peephole, "wcf": peephole, "wco": peephole, "b": _values(4 * SIZE)}


def _canonical(x, version):
    """Returns weights that went through params and back."""
    names = ("num_params_weights", "num_params_biases") if version else ("num_params",)
    counts = dict.fromkeys(names, 2)
    tensors = {"weights": [tf.tile(x[0], [2, 1])] * 2, "biases": [x[1, 0]] * 2}
    options = {"rnn_mode": "rnn_tanh", **CANONICAL}
    buffer = getattr(raw_ops, f"CudnnRNNCanonicalToParams{version}")(**tensors, **options)
    back = getattr(raw_ops, f"CudnnRNNParamsToCanonical{version}")(params=buffer, **counts, **options)
    # TensorFlow 2.21's optimizer replaces tf.stack([output] * n) by copies of the op's first output, for any op.
    rows = [tf.tanh(back.weights[0][:BATCH]), back.weights[1][:BATCH], tf.tile(back.biases[0][None], [BATCH, 1])]
    return tf.stack(rows)


def _gradient(function):
    """Returns the gradient of a function, whose gradients are second-order ones."""

    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return tape.gradient(y, x, output_gradients=tf.sin(x))

    return gradient


@functools.cache
def _layer(layers, cls, options):
    """Returns a built layer, so that no variable is made within control flow."""
    options = dict(options)
    is_bidirectional = options.pop("bidirectional", False)
    cls = getattr(layers, cls)
    layer = cls(SIZE, return_sequences=True, **options)
    layer = keras.layers.Bidirectional(layer, merge_mode="sum") if is_bidirectional else layer
    layer(tf.zeros([BATCH, TIME, SIZE]))
    return layer


def _call_layer(layers, cls, x, accelerate=False, **options):
    layer = _layer(layers, cls, tuple(options.items()))
    x = tf.transpose(x, [1, 0, 2])
    if not accelerate:
        return tf.transpose(layer(x, training=True), [1, 0, 2])
    with tf_rnn_ops.accelerate_keras(strict=True):
        return tf.transpose(layer(x, training=True), [1, 0, 2])


def _own(cls, **options):
    return lambda x: _call_layer(tf_rnn_ops.layers, cls, x, **options)


def _keras(cls, **options):
    return lambda x: _call_layer(keras.layers, cls, x, accelerate=True, **options)


def _op(name, module=raw_ops, **options):
    return lambda x: _cudnn_rnn(getattr(module, name), x, **options)


_stateless = functools.partial(_cudnn_rnn, ops.tf_rnn_ops_stateless_cudnn_rnn, dropout=0.5, seed=[3, 4])
# Functions of x, [time, batch, size], to a tensor of its shape.
BODIES = {
    "CudnnRNN": _op("CudnnRNN"),
    "CudnnRNNV2": _op("CudnnRNNV2", rnn_mode="gru"),
    "CudnnRNNV3": _op("CudnnRNNV3"),
    "CudnnRNNBackprop": _gradient(_op("CudnnRNN", rnn_mode="rnn_tanh")),
    "CudnnRNNBackpropV2": _gradient(_op("CudnnRNNV2")),
    "CudnnRNNBackpropV3": _gradient(_op("CudnnRNNV3", rnn_mode="gru")),
    "CudnnRNNBackpropGrad": _gradient(_gradient(_op("CudnnRNNV3"))),
    "CudnnRNNDropoutMasks": _gradient(_gradient(_stateless)),
    "StatelessCudnnRNN": _stateless,
    "KerasRNN lstm": lambda x: _keras_rnn(x, "lstm", 4),
    "KerasRNN gru": lambda x: _keras_rnn(x, "gru", 3, go_backwards=True),
    "KerasRNN rnn_tanh": lambda x: _keras_rnn(x, "rnn_tanh", 1, zero_output_for_mask=True),
    "KerasRNN inference": lambda x: _keras_rnn(x, "lstm", 4, is_training=False),
    "KerasRNNBackprop": _gradient(lambda x: _keras_rnn(x, "lstm", 4)),
    "KerasRNNBackpropGrad": _gradient(_gradient(lambda x: _keras_rnn(x, "gru", 3))),
    "GRUBlockCell": _cell,
    "GRUBlockCellGrad": _gradient(_cell),
    "LSTMBlockCell": _lstm_cell,
    "LSTMBlockCellGrad": _gradient(_lstm_cell),
    "BlockLSTM": lambda x: _block_lstm(x, ""),
    "BlockLSTMV2": lambda x: _block_lstm(x, "V2"),
    "BlockLSTMGradV2": _gradient(lambda x: _block_lstm(x, "V2")),
    "CanonicalToParams": lambda x: _canonical(x, ""),
    "CanonicalToParamsV2": lambda x: _canonical(x, "V2"),
    "tf CudnnRNN": _op("CudnnRNN", tf.raw_ops),
    "tf CudnnRNNV2": _op("CudnnRNNV2", tf.raw_ops),
    "tf CudnnRNNV3": _op("CudnnRNNV3", tf.raw_ops),
    "layers.LSTM": _own("LSTM"),
    "layers.GRU": _own("GRU"),
    "layers.GRU, reset before": _own("GRU", reset_after=False),
    "layers.GRU loop": _own("GRU", reset_after=False, activation="softmax"),
    "layers.SimpleRNN": _own("SimpleRNN"),
    "layers.CudnnLSTM": _own("CudnnLSTM"),
    "layers.CudnnGRU": _own("CudnnGRU"),
    "keras LSTM": _keras("LSTM"),
    "keras LSTM unrolled": _keras("LSTM", unroll=True),
    "keras GRU unrolled": _keras("GRU", unroll=True),
    "keras SimpleRNN unrolled": _keras("SimpleRNN", unroll=True),
    "keras Bidirectional": _keras("LSTM", bidirectional=True),
}
QUICK = ("CudnnRNNV3", "tf CudnnRNNV3", "KerasRNN lstm", "GRUBlockCell", "BlockLSTM", "keras LSTM unrolled")


def _twice(x):
    return tf.stack([x, 2 * x])


def _while(step, x):
    return tf.while_loop(lambda i, _: i < 2, lambda i, x: (i + 1, step(i, x)), (0, x), maximum_iterations=2)[1]


def _branch(body, x, index):
    return tf.switch_case(index, [lambda: tf.sin(x), lambda: body(x), lambda: body(2 * x)])


# For each kind of control flow, a function of (body, x, one) and the same without control flow. one: 1, at run time.
FLOWS = {
    "cond": (lambda f, x, one: tf.cond(one > 0, lambda: f(x), lambda: x), lambda f, x: f(x)),
    "cond not taken": (lambda f, x, one: tf.cond(one < 0, lambda: f(x), lambda: tf.sin(x)), lambda f, x: tf.sin(x)),
    "switch_case": (lambda f, x, one: _branch(f, x, one), lambda f, x: f(x)),
    "while_loop": (lambda f, x, one: _while(lambda _, x: f(x), x), lambda f, x: f(f(x))),
    "cond in while_loop": (
        lambda f, x, one: _while(lambda i, x: tf.cond(i < one, lambda: f(x), lambda: tf.sin(x)), x),
        lambda f, x: tf.sin(f(x)),
    ),
    "while_loop in cond": (
        lambda f, x, one: tf.cond(one > 0, lambda: _while(lambda _, x: f(x), x), lambda: x),
        lambda f, x: f(f(x)),
    ),
    "map_fn": (lambda f, x, one: tf.map_fn(f, _twice(x)), lambda f, x: tf.stack([f(x), f(2 * x)])),
    "scan": (
        lambda f, x, one: tf.scan(lambda a, e: f(a + e), _twice(x), x),
        lambda f, x: tf.stack([f(2 * x), f(f(2 * x) + 2 * x)]),
    ),
    "foldl": (lambda f, x, one: tf.foldl(lambda a, e: f(a + e), _twice(x), x), lambda f, x: f(f(2 * x) + 2 * x)),
    "vectorized_map": (
        lambda f, x, one: tf.vectorized_map(f, _twice(x)),
        lambda f, x: tf.stack([f(x), f(2 * x)]),
    ),
    "recompute_grad": (lambda f, x, one: tf.recompute_grad(f)(x), lambda f, x: f(x)),
}


def _results(run, x):
    """Returns the value of a function and its gradient."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = run(x)
    return y, tape.gradient(y, x, output_gradients=tf.cos(y))


@functools.cache
def _expected(body, flow):
    plain = FLOWS[flow][1]
    return tf.function(lambda x: _results(lambda x: plain(BODIES[body], x), x), jit_compile=False)(_input())


def _input():
    return _values(TIME, BATCH, SIZE)


# Parts of the names of cases that fail, with the reasons.
UNSUPPORTED = {
    "while_loop in cond-XLA": "XLA cannot compile the gradient, with any op in the loop",
    **{
        f"GRU loop-{flow}-XLA": "the same"
        for flow in ("cond", "cond not taken", "cond in while_loop", "switch_case", "vectorized_map")
    },
    "Grad-recompute_grad": "tf.recompute_grad does not support a function that computes gradients, of any op",
    "GradV2-recompute_grad": "the same",
    "Backprop-recompute_grad": "the same",
    "BackpropV2-recompute_grad": "the same",
    "BackpropV3-recompute_grad": "the same",
    "DropoutMasks-recompute_grad": "the same",
}
# XLA cannot compile third derivatives, with any control flow or none.
NO_XLA = ("CudnnRNNBackpropGrad", "CudnnRNNDropoutMasks", "KerasRNNBackpropGrad")


def _cases():
    for body, flow, jit in itertools.product(BODIES, FLOWS, (False, True)):
        if jit and body in NO_XLA:
            continue
        name = f"{body}-{flow}-{'XLA' if jit else 'graph'}"
        marks = [] if body in QUICK else [pytest.mark.slow]
        reasons = [reason for part, reason in UNSUPPORTED.items() if part in name]
        if reasons:
            marks.append(pytest.mark.xfail(reason=reasons[0], strict=False))
        yield pytest.param(body, flow, jit, id=name, marks=marks)


@pytest.fixture(autouse=True, scope="module")
def _builtin_kernels():
    tf_rnn_ops.enable_builtin_kernels()


@pytest.mark.parametrize(("body", "flow", "jit"), list(_cases()))
def test_control_flow(body, flow, jit):
    if jit and tf_rnn_ops._xla.why_not_loaded() is not None:
        pytest.skip("no XLA")

    def run(x, one):
        return _results(lambda x: FLOWS[flow][0](BODIES[body], x, one), x)

    actual = tf.function(run, jit_compile=jit)(_input(), tf.constant(1))
    for one, other in zip(actual, _expected(body, flow), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
