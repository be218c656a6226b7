"""Gradients of the backward passes in plain NumPy, from complex steps and from formulas.

The differentiated function is <v, backward>: the sum of the results of a backward pass times arrays v of their shapes.
"""

from typing import NamedTuple

import numpy as np

from references import cudnn_rnn as reference
from references.cudnn_rnn import Backward, Config
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
# Its square vanishes next to any number, so a complex step has no truncation error.
STEP = 1e-100


def complex_array(real, imag) -> np.ndarray:
    """Returns real + i * imag. Python's operators would make NaN of infinities."""
    result = np.empty(np.shape(real), np.complex128)
    result.real, result.imag = real, imag
    return result


def second_order(config: Config, arguments, v: Backward, masks=None) -> dict[str, np.ndarray]:
    """Returns the gradients of <v, backward>, by argument.

    The backward pass returns J^T d, where J is the Jacobian of the outputs and d their gradients. The gradient of
    <v, J^T d> with respect to d is J v: the derivative of the outputs in the direction v. With respect to the inputs it
    is H v, where H is the symmetric Hessian of <d, outputs>: the derivative of J^T d in the direction v. Both follow
    from the reference at inputs + i * STEP * v: an analytic function f has the imaginary part STEP * f'(x) v there.

    Args:
      config: the network.
      arguments: a dict of all ARGUMENTS.
      v: gradients with respect to the results of `backward`; input_c_backprop is ignored if not LSTM.
      masks: as given to `forward`.
    """
    if config.rnn_mode != "lstm":
        v = v._replace(input_c_backprop=np.zeros(()))
    inputs = {
        name: complex_array(arguments[name], STEP * direction) for name, direction in zip(ARGUMENTS[:4], v, strict=True)
    }
    d_outputs = {name: complex_array(arguments[name], 0) for name in ARGUMENTS[4:]}
    run = reference.forward(config, **inputs, masks=masks)
    results = reference.backward(config, run, inputs["input_c"], inputs["params"], **d_outputs, masks=masks)
    moved = BackwardGrad(*results, *run[:3])
    if config.rnn_mode != "lstm":
        moved = moved._replace(output_c_backprop=np.zeros_like(d_outputs["output_c_backprop"]))
    return {name: value.imag / STEP for name, value in moved._asdict().items()}


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


def step_second_order(arguments, v: GRUStepGrad) -> dict[str, np.ndarray]:
    """Returns the gradients of <v, gru_block_cell_grad> by argument, for a dict of all arguments."""
    return gru_block_cell_grad_grad(**{name: arguments[name] for name in STEP_ARGUMENTS}, v=v)._asdict()
