"""The ops of cells: ours, the same in differentiable TensorFlow operations, and inputs, for tests of gradients."""

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from inputs import block_lstm as lstm_inputs
from inputs import gru_block_cell as gru_inputs
from references.block_lstm import Results

import tf_rnn_ops
from checks import gru_block_cell as gru


@dataclasses.dataclass(frozen=True)
class Cell:
    """An op with fixed options.

    Attributes:
      ours: the op, with inputs in the order of `inputs`.
      plain: the same in differentiable operations.
      inputs: returns inputs by name, for (batch, input_size, cell_size) and a seed.
      outputs: the names of the outputs.
    """

    ours: Callable[..., Any]
    plain: Callable[..., Any]
    inputs: Callable[..., dict[str, Any]]
    outputs: tuple[str, ...]


def plain_lstm(
    op, seq_len_max, x, cs_prev, h_prev, w, wci, wcf, wco, b, forget_bias=0.0, cell_clip=0.0, use_peephole=False
):
    """An LSTM op in differentiable operations. The gradient of the clipping is that of the identity."""
    peepholes = [each if use_peephole else tf.zeros_like(each) for each in (wci, wcf, wco)]

    def step(x, cs_prev, h_prev):
        bars = tf.split(tf.matmul(tf.concat([x, h_prev], 1), w) + b, 4, axis=1)
        bar = dict(zip(lstm_inputs.ORDERS[op], bars, strict=True))
        i = tf.sigmoid(bar["i"] + peepholes[0] * cs_prev)
        f = tf.sigmoid(bar["f"] + forget_bias + peepholes[1] * cs_prev)
        ci = tf.tanh(bar["ci"])
        cs = i * ci + f * cs_prev
        if cell_clip > 0:
            cs += tf.stop_gradient(tf.clip_by_value(cs, -cell_clip, cell_clip) - cs)
        o = tf.sigmoid(bar["o"] + peepholes[2] * cs)
        co = tf.tanh(cs)
        return Results(i, cs, f, o, ci, co, o * co)

    if not lstm_inputs.of_sequence(op):
        return step(x, cs_prev, h_prev)
    steps = []
    for t in range(seq_len_max):
        steps.append(step(x[t], cs_prev, h_prev))
        cs_prev, h_prev = steps[-1].cs, steps[-1].h
    rest = [tf.zeros_like(h_prev)] * (len(x) - seq_len_max)
    return Results(*(tf.stack([*of_steps, *rest]) for of_steps in zip(*steps, strict=True)))


def _lstm(op: str, seq_len_max=3, **options) -> Cell:
    of_sequence = lstm_inputs.steps(op, seq_len_max)
    return Cell(
        lambda *tensors: getattr(tf_rnn_ops.raw_ops, op)(
            **of_sequence, **dict(zip(lstm_inputs.shapes(op, 0, 0, 0, 0), tensors, strict=True)), **options
        ),
        lambda *tensors: plain_lstm(op, seq_len_max, *tensors, **options),
        lambda size, dtype="float64", seed=0: lstm_inputs.inputs(op, (4, *size), dtype, seed),
        Results._fields,
    )


CELLS = {
    "GRUBlockCell": Cell(gru.our_gru, gru.plain_gru, gru_inputs.cell_inputs, gru.OUTPUTS),
    "LSTMBlockCell": _lstm("LSTMBlockCell", forget_bias=0.5, cell_clip=0.75, use_peephole=True),
    "BlockLSTM": _lstm("BlockLSTM", forget_bias=-0.5, cell_clip=0.75),
    "BlockLSTM with peepholes": _lstm("BlockLSTM", seq_len_max=4, forget_bias=1.0, cell_clip=0.0, use_peephole=True),
    "BlockLSTMV2": _lstm("BlockLSTMV2", use_peephole=True),
}
