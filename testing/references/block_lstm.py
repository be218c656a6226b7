"""Plain float64 implementations of TensorFlow's LSTM ops: one step, steps over a sequence, and their backward passes.

The gates of `w` and `b` are in the order of the op: `ICFO` in LSTMBlockCell and BlockLSTM, `IFCO` in BlockLSTMV2.

    [i_bar ci_bar f_bar o_bar] = [x h_prev] * w + b
    i  = sigmoid(i_bar + wci . cs_prev)
    f  = sigmoid(f_bar + forget_bias + wcf . cs_prev)
    ci = tanh(ci_bar)
    cs = clip(i . ci + f . cs_prev)
    o  = sigmoid(o_bar + wco . cs)
    co = tanh(cs)
    h  = o . co

The gradient of the clipping is that of the identity, as in TensorFlow's ops. Without peepholes, their weights have no
effect, even if they are NaN.
"""

from typing import NamedTuple

import numpy as np

from references.gru_block_cell import sigmoid

ICFO = ("i", "ci", "f", "o")
IFCO = ("i", "f", "ci", "o")


class Results(NamedTuple):
    """Results of a step, each [batch, cell_size], or of all steps, each [time, batch, cell_size]."""

    i: np.ndarray
    cs: np.ndarray
    f: np.ndarray
    o: np.ndarray
    ci: np.ndarray
    co: np.ndarray
    h: np.ndarray


def of_states(cs_grad, h_grad) -> Results:
    """Returns gradients with respect to all results, given those of cs and h."""
    return Results(*[np.zeros_like(h_grad)] * 7)._replace(cs=cs_grad, h=h_grad)


class StepGradients(NamedTuple):
    """Results of the backward pass of a step."""

    cs_prev_grad: np.ndarray  # [batch, cell_size]
    d_gates: np.ndarray  # [batch, 4 * cell_size], with respect to [x h_prev] * w + b
    wci_grad: np.ndarray  # [cell_size]
    wcf_grad: np.ndarray
    wco_grad: np.ndarray


class Gradients(NamedTuple):
    """Results of the backward pass of all steps, each with the shape of the input."""

    x_grad: np.ndarray
    cs_prev_grad: np.ndarray
    h_prev_grad: np.ndarray
    w_grad: np.ndarray
    wci_grad: np.ndarray
    wcf_grad: np.ndarray
    wco_grad: np.ndarray
    b_grad: np.ndarray


def step(
    x, cs_prev, h_prev, w, wci, wcf, wco, b, order=ICFO, forget_bias=None, cell_clip=3.0, use_peephole=False
) -> Results:
    """Runs a step. forget_bias: by default 1 in the order ICFO, and 0 in IFCO, whose op has none."""
    if forget_bias is None:
        forget_bias = 1.0 if order == ICFO else 0.0
    bar = dict(zip(order, np.split(np.concatenate([x, h_prev], axis=1) @ w + b, 4, axis=1), strict=True))
    i = sigmoid(bar["i"] + (wci * cs_prev if use_peephole else 0))
    f = sigmoid(bar["f"] + forget_bias + (wcf * cs_prev if use_peephole else 0))
    ci = np.tanh(bar["ci"])
    cs = i * ci + f * cs_prev
    if cell_clip > 0:
        cs = np.clip(cs, -cell_clip, cell_clip)
    o = sigmoid(bar["o"] + (wco * cs if use_peephole else 0))
    co = np.tanh(cs)
    return Results(i, cs, f, o, ci, co, o * co)


def step_grad(
    cs_prev, wci, wcf, wco, results: Results, grads: Results, order=ICFO, use_peephole=False
) -> StepGradients:
    """Runs the backward pass of a step, given the gradients with respect to all results."""
    i, cs, f, o, ci, co, _ = results
    d_o = (grads.o + grads.h * co) * o * (1 - o)
    d_cs = grads.cs + (grads.co + grads.h * o) * (1 - co * co) + (d_o * wco if use_peephole else 0)
    d_i = (grads.i + d_cs * ci) * i * (1 - i)
    d_f = (grads.f + d_cs * cs_prev) * f * (1 - f)
    d_gates = {"i": d_i, "f": d_f, "ci": (grads.ci + d_cs * i) * (1 - ci * ci), "o": d_o}
    products = (d_i * cs_prev, d_f * cs_prev, d_o * cs)
    return StepGradients(
        d_cs * f + (d_i * wci + d_f * wcf if use_peephole else 0),
        np.concatenate([d_gates[name] for name in order], axis=1),
        *(each.sum(axis=0) if use_peephole else np.zeros_like(wci) for each in products),
    )


def sequence(seq_len_max, x, cs_prev, h_prev, w, wci, wcf, wco, b, **options) -> Results:
    """Runs the first `seq_len_max` steps of x, [time, batch, input_size]; the results of the others are zeros."""
    results = Results(*(np.zeros((*x.shape[:2], h_prev.shape[1]), x.dtype) for _ in Results._fields))
    for t in range(seq_len_max):
        one = step(x[t], cs_prev, h_prev, w, wci, wcf, wco, b, **options)
        for all_steps, value in zip(results, one, strict=True):
            all_steps[t] = value
        cs_prev, h_prev = one.cs, one.h
    return results


def sequence_grad(
    seq_len_max, x, cs_prev, h_prev, w, wci, wcf, wco, b, results: Results, grads: Results, **options
) -> Gradients:
    """Runs the backward pass of all steps, given the gradients with respect to all results."""
    input_size = x.shape[2]
    x_grad, w_grad, b_grad = (np.zeros(each.shape, w.dtype) for each in (x, w, b))
    d_cs, d_h = np.zeros_like(cs_prev), np.zeros_like(h_prev)
    of_peepholes = np.zeros((3, *wci.shape), w.dtype)
    for t in reversed(range(seq_len_max)):
        before = (results.cs[t - 1], results.h[t - 1]) if t > 0 else (cs_prev, h_prev)
        of_step, d_step = (Results(*(each[t] for each in all_steps)) for all_steps in (results, grads))
        d_step = d_step._replace(cs=d_step.cs + d_cs, h=d_step.h + d_h)
        one = step_grad(before[0], wci, wcf, wco, of_step, d_step, **options)
        x_grad[t], d_h = np.split(one.d_gates @ w.T, [input_size], axis=1)
        d_cs = one.cs_prev_grad
        w_grad += np.concatenate([x[t], before[1]], axis=1).T @ one.d_gates
        b_grad += one.d_gates.sum(axis=0)
        of_peepholes += [one.wci_grad, one.wcf_grad, one.wco_grad]
    wci_grad, wcf_grad, wco_grad = of_peepholes
    return Gradients(x_grad, d_cs, d_h, w_grad, wci_grad, wcf_grad, wco_grad, b_grad)
