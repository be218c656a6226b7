"""Plain float64 implementations, easy to compare with the formulas in the documentation of the ops."""

from typing import NamedTuple

import numpy as np


class GRUStep(NamedTuple):
    """Results of a forward step; each [batch, cell_size]."""

    r: np.ndarray
    u: np.ndarray
    c: np.ndarray
    h: np.ndarray


class GRUStepGrad(NamedTuple):
    """Results of a backward step."""

    d_x: np.ndarray  # [batch, input_size]
    d_h_prev: np.ndarray  # [batch, cell_size]
    d_c_bar: np.ndarray  # [batch, cell_size]
    d_r_bar_u_bar: np.ndarray  # [batch, 2 * cell_size]


def sigmoid(x):
    """Returns 1 / (1 + exp(-x)) without overflow, also for complex numbers."""
    return (1 + np.tanh(x / 2)) / 2


def gru_block_cell(x, h_prev, w_ru, w_c, b_ru, b_c) -> GRUStep:
    r, u = np.split(sigmoid(np.concatenate([x, h_prev], axis=1) @ w_ru + b_ru), 2, axis=1)
    c = np.tanh(np.concatenate([x, h_prev * r], axis=1) @ w_c + b_c)
    h = u * h_prev + (1 - u) * c
    return GRUStep(r, u, c, h)


def gru_block_cell_grad(x, h_prev, w_ru, w_c, b_ru, b_c, r, u, c, d_h, d_r=0.0, d_u=0.0, d_c=0.0) -> GRUStepGrad:
    input_size = x.shape[1]
    d_c_bar = (d_c + d_h * (1 - u)) * (1 - c * c)
    d_u_bar = (d_u + d_h * (h_prev - c)) * u * (1 - u)
    d_x_2, d_h_prevr = np.split(d_c_bar @ w_c.T, [input_size], axis=1)
    d_r_bar = (d_r + d_h_prevr * h_prev) * r * (1 - r)
    d_r_bar_u_bar = np.concatenate([d_r_bar, d_u_bar], axis=1)
    d_x_1, d_h_prev_1 = np.split(d_r_bar_u_bar @ w_ru.T, [input_size], axis=1)
    return GRUStepGrad(d_x_1 + d_x_2, d_h_prev_1 + d_h_prevr * r + d_h * u, d_c_bar, d_r_bar_u_bar)
