"""Gradients of the backward passes in plain NumPy, with the formulas of docs/design/second_order.md.

The differentiated function is <v, backward>: the sum of the results of a backward pass times arrays v of their shapes.
Shapes have the names of references.cudnn_rnn. dot_x is the tangent of x in the direction v: dot_h of h, and dot_d_h of
the gradient d_h. Arrays named both_x stack a value and its tangent along a first dimension of 2, [d_h, dot_d_h].
"""

from typing import NamedTuple

import numpy as np

from references import cudnn_rnn as reference
from references.cudnn_rnn import Backward, Config, Forward, Step, Weights, major
from references.gru_block_cell import GRUStepGrad


class BackwardGrad(NamedTuple):
    """Gradients with respect to the inputs of a backward pass, in their shapes.

    The gradients with respect to the inputs of the network are total: they include the path through the activations.
    """

    input: np.ndarray
    input_h: np.ndarray
    input_c: np.ndarray
    params: np.ndarray
    output_backprop: np.ndarray
    output_h_backprop: np.ndarray
    output_c_backprop: np.ndarray


# Arguments of a backward pass: the inputs of the network, and gradients with respect to its outputs.
ARGUMENTS = BackwardGrad._fields


def product_dot(a, dot_a, b, dot_b, transpose_b=False):
    """Returns the tangent of a @ b, or of a if b is None."""
    if b is None:
        return dot_a
    if transpose_b:
        b, dot_b = b.swapaxes(-1, -2), dot_b.swapaxes(-1, -2)
    return dot_a @ b + a @ dot_b


def sigmoid_dot(gate, dot_z):
    return gate * (1 - gate) * dot_z


def tanh_dot(gate, dot_z):
    return (1 - gate**2) * dot_z


def sigmoid_grad_dot(d_gate, dot_d_gate, gate, dot_gate):
    """Returns the tangent of the gradient through a sigmoid, d_gate * gate * (1 - gate)."""
    return dot_d_gate * gate * (1 - gate) + d_gate * (1 - 2 * gate) * dot_gate


def tanh_grad_dot(d_gate, dot_d_gate, gate, dot_gate):
    """Returns the tangent of the gradient through a tanh, d_gate * (1 - gate^2)."""
    return dot_d_gate * (1 - gate**2) - d_gate * 2 * gate * dot_gate


def activate_dot(rnn_mode, step: Step, dot_a, dot_b, dot_h_prev, dot_c_prev):
    """Returns the tangents of the results of `activate`."""
    if rnn_mode == "lstm":
        i, f, g, o = step.gates
        dot_z = dot_a + dot_b
        dot_i, dot_f, dot_o = (sigmoid_dot(step.gates[gate], dot_z[gate]) for gate in (0, 1, 3))
        dot_g = tanh_dot(g, dot_z[2])
        dot_c = dot_f * step.c_prev + f * dot_c_prev + dot_i * g + i * dot_g
        tanh_c = np.tanh(step.c)
        return np.stack([dot_i, dot_f, dot_g, dot_o]), dot_c, dot_o * tanh_c + o * tanh_dot(tanh_c, dot_c)
    if rnn_mode == "gru":
        r, u, n = step.gates
        dot_r, dot_u = (sigmoid_dot(step.gates[gate], dot_a[gate] + dot_b[gate]) for gate in (0, 1))
        dot_n = tanh_dot(n, dot_a[2] + dot_r * step.b[2] + r * dot_b[2])
        dot_m = (1 - u) * dot_n + u * dot_h_prev + dot_u * (step.h_prev - n)
        return np.stack([dot_r, dot_u, dot_n]), dot_c_prev, dot_m
    h, dot_z = step.gates, dot_a + dot_b
    dot_h = tanh_dot(h, dot_z) if rnn_mode == "rnn_tanh" else np.where(h > 0, dot_z, 0)
    return dot_h, dot_c_prev, dot_h[0]


def activate_grad_dot(rnn_mode, step: Step, dot: Step, d_m, d_c, dot_d_m, dot_d_c):
    """Returns the tangents of the results of `activate_grad`."""
    if rnn_mode == "lstm":
        i, f, g, o = step.gates
        dot_i, dot_f, dot_g, dot_o = dot.gates
        q = np.tanh(step.c)
        dot_q = tanh_dot(q, dot.c)
        dot_d_c = dot_d_c + dot_d_m * o * (1 - q**2) + d_m * (dot_o * (1 - q**2) - 2 * o * q * dot_q)
        d_c = d_c + d_m * o * (1 - q**2)
        dot_d_a = np.stack(
            [
                sigmoid_grad_dot(d_c * g, dot_d_c * g + d_c * dot_g, i, dot_i),
                sigmoid_grad_dot(d_c * step.c_prev, dot_d_c * step.c_prev + d_c * dot.c_prev, f, dot_f),
                tanh_grad_dot(d_c * i, dot_d_c * i + d_c * dot_i, g, dot_g),
                sigmoid_grad_dot(d_m * q, dot_d_m * q + d_m * dot_q, o, dot_o),
            ]
        )
        return dot_d_a, dot_d_a, np.zeros_like(step.h_prev), dot_d_c * f + d_c * dot_f
    if rnn_mode == "gru":
        r, u, n = step.gates
        dot_r, dot_u, dot_n = dot.gates
        q, dot_q = step.b[2], dot.b[2]
        d_n, dot_d_n = d_m * (1 - u), dot_d_m * (1 - u) - d_m * dot_u
        d_u, dot_d_u = d_m * (step.h_prev - n), dot_d_m * (step.h_prev - n) + d_m * (dot.h_prev - dot_n)
        d_a_n, dot_d_a_n = d_n * (1 - n**2), tanh_grad_dot(d_n, dot_d_n, n, dot_n)
        dot_d_a_r = sigmoid_grad_dot(d_a_n * q, dot_d_a_n * q + d_a_n * dot_q, r, dot_r)
        dot_d_a_u = sigmoid_grad_dot(d_u, dot_d_u, u, dot_u)
        dot_d_a = np.stack([dot_d_a_r, dot_d_a_u, dot_d_a_n])
        dot_d_b = np.stack([dot_d_a_r, dot_d_a_u, dot_d_a_n * r + d_a_n * dot_r])
        return dot_d_a, dot_d_b, dot_d_m * u + d_m * dot_u, dot_d_c
    h, dot_h = step.gates, dot.gates
    dot_d_a = tanh_grad_dot(d_m, dot_d_m, h, dot_h) if rnn_mode == "rnn_tanh" else np.where(h > 0, dot_d_m, 0)
    return dot_d_a, dot_d_a, np.zeros_like(step.h_prev), dot_d_c


def forward_step_dot(config: Config, weights: Weights, dot_weights: Weights, step: Step, dot_x, dot_h_prev, dot_c_prev):
    """Returns the tangents of the results of `forward_step`."""
    dot_from_x = product_dot(step.x, dot_x, weights.W, dot_weights.W, transpose_b=True)
    dot_a = dot_from_x + dot_weights.W_bias[:, np.newaxis]
    dot_from_h = product_dot(step.h_prev, dot_h_prev, weights.R, dot_weights.R, transpose_b=True)
    dot_b = dot_from_h + dot_weights.R_bias[:, np.newaxis]
    dot_gates, dot_c, dot_m = activate_dot(config.rnn_mode, step, dot_a, dot_b, dot_h_prev, dot_c_prev)
    dot_h = product_dot(step.m, dot_m, weights.P, dot_weights.P, transpose_b=True)
    return dot_h, Step(step.valid, dot_x, dot_h_prev, dot_c_prev, dot_a, dot_b, dot_gates, dot_c, dot_m)


def backward_step_both(
    config: Config, weights: Weights, dot_weights: Weights, step: Step, dot: Step, both_d_h, both_d_c, dot_d_weights
):
    """Adds the tangents of one time step's gradients with respect to the weights to `dot_d_weights`.

    Returns:
      Gradients with respect to x, h_prev and c_prev, with their tangents.
    """
    (d_h, dot_d_h), (d_c, dot_d_c) = both_d_h, both_d_c
    d_m = d_h if weights.P is None else d_h @ weights.P
    dot_d_m = product_dot(d_h, dot_d_h, weights.P, dot_weights.P)
    d_a, d_b, d_h_prev, d_c_prev = reference.activate_grad(config.rnn_mode, step, d_m, d_c)
    dot_d_a, dot_d_b, dot_d_h_prev, dot_d_c_prev = activate_grad_dot(
        config.rnn_mode, step, dot, d_m, d_c, dot_d_m, dot_d_c
    )
    if dot_d_weights.P is not None:
        dot_d_weights.P[...] += product_dot(d_h.T, dot_d_h.T, step.m, dot.m)
    if dot_d_weights.W is not None:
        dot_d_weights.W[...] += product_dot(d_a.swapaxes(1, 2), dot_d_a.swapaxes(1, 2), step.x, dot.x)
    dot_d_weights.R[...] += product_dot(d_b.swapaxes(1, 2), dot_d_b.swapaxes(1, 2), step.h_prev, dot.h_prev)
    dot_d_weights.W_bias[...] += dot_d_a.sum(axis=1)
    dot_d_weights.R_bias[...] += dot_d_b.sum(axis=1)
    d_x = d_a if weights.W is None else d_a @ weights.W
    dot_d_x = product_dot(d_a, dot_d_a, weights.W, dot_weights.W)
    d_h_prev = d_h_prev + (d_b @ weights.R).sum(axis=0)
    dot_d_h_prev = dot_d_h_prev + product_dot(d_b, dot_d_b, weights.R, dot_weights.R).sum(axis=0)
    return (
        np.stack([d_x.sum(axis=0), dot_d_x.sum(axis=0)]),
        np.stack([d_h_prev, dot_d_h_prev]),
        np.stack([d_c_prev, dot_d_c_prev]),
    )


def forward_sequence_dot(config: Config, direction: int, weights: Weights, dot_weights: Weights, steps, dot_x, h, c):
    """Returns the tangents of the results of `forward_sequence`.

    Args:
      config: the network.
      direction: 0 for forward in time, 1 for backward.
      weights: the weights of the pseudo-layer.
      dot_weights: the tangents of the weights.
      steps: the steps from `forward_sequence`.
      dot_x: the tangent of the input, [time, batch, fan_in].
      h: the tangent of the initial hidden state, [batch, output].
      c: the tangent of the initial cell state, [batch, units].
    """
    output = np.zeros_like(dot_x, shape=(config.time, config.batch, config.output_size))
    dots = {}
    for t in reference.time_steps(config, direction):
        valid = steps[t].valid
        new_h, dots[t] = forward_step_dot(config, weights, dot_weights, steps[t], dot_x[t], h, c)
        output[t] = np.where(valid, new_h, 0)
        h = np.where(valid, new_h, h)
        c = np.where(valid, dots[t].c, c)
    return output, h, c, [dots[t] for t in range(config.time)]


def backward_sequence_both(
    config: Config,
    direction: int,
    weights: Weights,
    dot_weights: Weights,
    steps,
    dots,
    both_d_output,
    both_d_h,
    both_d_c,
    dot_d_weights,
    both_d_x,
):
    """Differentiates one pseudo-layer and accumulates the results for its weights and its input.

    Args:
      config: the network.
      direction: 0 for forward in time, 1 for backward.
      weights: the weights of the pseudo-layer.
      dot_weights: the tangents of the weights.
      steps: the steps from `forward_sequence`.
      dots: the tangents of the steps.
      both_d_output: gradient with respect to the output and its tangent, [2, time, batch, output].
      both_d_h: the same for the final hidden state, [2, batch, output].
      both_d_c: the same for the final cell state, [2, batch, units].
      dot_d_weights: accumulates the tangents of the gradients with respect to the weights.
      both_d_x: accumulates the gradient with respect to the input and its tangent, [2, time, batch, fan_in].

    Returns:
      Gradients with respect to the initial states, with their tangents.
    """
    for t in reversed(reference.time_steps(config, direction)):
        valid = steps[t].valid
        both_d_x_step, both_d_h_prev, both_d_c_prev = backward_step_both(
            config,
            weights,
            dot_weights,
            steps[t],
            dots[t],
            np.where(valid, both_d_output[:, t] + both_d_h, 0),
            np.where(valid, both_d_c, 0),
            dot_d_weights,
        )
        both_d_x[:, t] += both_d_x_step
        both_d_h = np.where(valid, both_d_h_prev, both_d_h)
        both_d_c = np.where(valid, both_d_c_prev, both_d_c)
    return both_d_h, both_d_c


def forward_dot(config: Config, run: Forward, params, v: Backward, masks=None) -> Forward:
    """Returns the tangents of the results of `forward`, including its steps.

    Args:
      config: the network.
      run: the result of `forward`.
      params: as given to `forward`.
      v: the tangents of the inputs, named like their gradients; input_c_backprop is ignored if not LSTM.
      masks: as given to `forward`.
    """
    has_c = config.rnn_mode == "lstm"
    all_weights, dot_all_weights = reference.unpack(config, params), reference.unpack(config, v.params_backprop)
    h = list(major(config, v.input_h_backprop))
    c = list(major(config, v.input_c_backprop) if has_c else np.zeros_like(h))
    all_dots = []
    x = major(config, v.input_backprop)
    for layer in range(config.num_layers):
        if layer > 0 and masks is not None:
            x = x * masks[layer - 1]
        outputs = []
        for direction in range(config.num_directions):
            p = layer * config.num_directions + direction
            output, h[p], c[p], dots = forward_sequence_dot(
                config, direction, all_weights[p], dot_all_weights[p], run.steps[p], x, h[p], c[p]
            )
            outputs.append(output)
            all_dots.append(dots)
        x = np.concatenate(outputs, axis=-1)
    return Forward(
        output=major(config, x),
        output_h=major(config, np.stack(h)),
        output_c=major(config, np.stack(c)) if has_c else np.zeros_like(x, shape=()),
        steps=all_dots,
    )


def both_of_constant(gradient):
    """Returns a constant gradient and its tangent, which is zero."""
    return np.stack([gradient, np.zeros_like(gradient)])


def backward_grad(
    config: Config,
    run: Forward,
    input_c,
    params,
    output_backprop,
    output_h_backprop,
    output_c_backprop,
    v: Backward,
    masks=None,
) -> BackwardGrad:
    """Differentiates <v, backward>.

    Args:
      config: the network.
      run: the result of `forward`.
      input_c: as given to `forward`.
      params: as given to `forward`.
      output_backprop: as given to `backward`.
      output_h_backprop: as given to `backward`.
      output_c_backprop: as given to `backward`.
      v: gradients with respect to the results of `backward`; input_c_backprop is ignored if not LSTM.
      masks: as given to `forward`.
    """
    has_c = config.rnn_mode == "lstm"
    dot_run = forward_dot(config, run, params, v, masks)
    dot_params_backprop = np.zeros_like(params)
    all_weights, dot_all_weights, dot_d_all_weights = (
        reference.unpack(config, each) for each in (params, v.params_backprop, dot_params_backprop)
    )
    d_h = major(config, output_h_backprop)
    both_d_h = [both_of_constant(each) for each in d_h]
    both_d_c = [both_of_constant(each) for each in (major(config, output_c_backprop) if has_c else np.zeros_like(d_h))]
    both_d_output = both_of_constant(major(config, output_backprop))
    for layer in reversed(range(config.num_layers)):
        both_d_x = np.zeros_like(both_d_output, shape=(2, config.time, config.batch, config.fan_in(layer)))
        for direction, both_d_output_of_one in enumerate(np.split(both_d_output, config.num_directions, axis=-1)):
            p = layer * config.num_directions + direction
            both_d_h[p], both_d_c[p] = backward_sequence_both(
                config,
                direction,
                all_weights[p],
                dot_all_weights[p],
                run.steps[p],
                dot_run.steps[p],
                both_d_output_of_one,
                both_d_h[p],
                both_d_c[p],
                dot_d_all_weights[p],
                both_d_x,
            )
        both_d_output = both_d_x * masks[layer - 1] if layer > 0 and masks is not None else both_d_x
    return BackwardGrad(
        input=major(config, both_d_output[1]),
        input_h=major(config, np.stack(both_d_h)[:, 1]),
        input_c=major(config, np.stack(both_d_c)[:, 1]) if has_c else np.zeros_like(input_c),
        params=dot_params_backprop,
        output_backprop=dot_run.output,
        output_h_backprop=dot_run.output_h,
        output_c_backprop=dot_run.output_c if has_c else np.zeros_like(output_c_backprop),
    )


class GRUStepGradGrad(NamedTuple):
    """Partial gradients with respect to the inputs of a backward step of the GRU.

    A backward step does not depend on x, b_ru and b_c.
    """

    h_prev: np.ndarray
    w_ru: np.ndarray
    w_c: np.ndarray
    r: np.ndarray
    u: np.ndarray
    c: np.ndarray
    d_h: np.ndarray
    d_r: np.ndarray
    d_u: np.ndarray
    d_c: np.ndarray


# Arguments of the backward pass of a step.
STEP_ARGUMENTS = GRUStepGradGrad._fields


def gru_block_cell_grad_grad(
    h_prev, w_ru, w_c, r, u, c, d_h, v: GRUStepGrad, d_r=0.0, d_u=0.0, d_c=0.0
) -> GRUStepGradGrad:
    """Differentiates <v, gru_block_cell_grad>. g_x is the gradient with respect to an intermediate result x."""
    input_size = w_c.shape[0] - w_c.shape[1]
    # The backward step.
    e_c, e_u = d_c + d_h * (1 - u), d_u + d_h * (h_prev - c)
    d_c_bar, d_u_bar = e_c * (1 - c * c), e_u * u * (1 - u)
    d_h_prevr = d_c_bar @ w_c[input_size:].T
    e_r = d_r + d_h_prevr * h_prev
    d_r_bar_u_bar = np.concatenate([e_r * r * (1 - r), d_u_bar], axis=1)
    # The formulas of the backward step in reverse order.
    v_x_h = np.concatenate([v.d_x, v.d_h_prev], axis=1)
    g_r_bar, g_u_bar = np.split(v.d_r_bar_u_bar + v_x_h @ w_ru, 2, axis=1)
    g_e_r, g_e_u = g_r_bar * r * (1 - r), g_u_bar * u * (1 - u)
    g_h_prevr = v.d_h_prev * r + g_e_r * h_prev
    v_x_h_prevr = np.concatenate([v.d_x, g_h_prevr], axis=1)
    g_c_bar = v.d_c_bar + v_x_h_prevr @ w_c
    g_e_c = g_c_bar * (1 - c * c)
    return GRUStepGradGrad(
        h_prev=g_e_r * d_h_prevr + g_e_u * d_h,
        w_ru=v_x_h.T @ d_r_bar_u_bar,
        w_c=v_x_h_prevr.T @ d_c_bar,
        r=v.d_h_prev * d_h_prevr + g_r_bar * e_r * (1 - 2 * r),
        u=v.d_h_prev * d_h + g_u_bar * e_u * (1 - 2 * u) - g_e_c * d_h,
        c=-2 * c * g_c_bar * e_c - g_e_u * d_h,
        d_h=v.d_h_prev * u + g_e_u * (h_prev - c) + g_e_c * (1 - u),
        d_r=g_e_r,
        d_u=g_e_u,
        d_c=g_e_c,
    )


def backward_arguments(arguments):
    """Returns the arguments of `backward` and `backward_grad` other than the run, from a dict of all arguments."""
    return {name: arguments[name] for name in ARGUMENTS if name not in ("input", "input_h")}


def second_order(config: Config, arguments, v: Backward, masks=None) -> dict[str, np.ndarray]:
    """Returns the gradients of <v, backward> by argument, for a dict of all arguments."""
    run = reference.forward(config, **{name: arguments[name] for name in ARGUMENTS[:4]}, masks=masks)
    return backward_grad(config, run, **backward_arguments(arguments), v=v, masks=masks)._asdict()


def step_second_order(arguments, v: GRUStepGrad) -> dict[str, np.ndarray]:
    """Returns the gradients of <v, gru_block_cell_grad> by argument, for a dict of all arguments."""
    return gru_block_cell_grad_grad(**{name: arguments[name] for name in STEP_ARGUMENTS}, v=v)._asdict()
