"""Arguments of the backward passes, and gradients with respect to their results."""

import numpy as np
from references.cudnn_rnn import Backward
from references.gru_block_cell import GRUStepGrad

from inputs import gru_block_cell as gru_inputs
from inputs.cudnn_rnn import INPUTS


def output_backprops(inputs, seed=5) -> Backward:
    """Returns gradients with respect to the results of a backward pass, in the shapes of the inputs."""
    rng = np.random.default_rng(seed)
    return Backward(*(rng.standard_normal(inputs[name].shape) for name in INPUTS))


def step_arguments(size, seed=0) -> dict[str, np.ndarray]:
    """Returns arguments of the backward step of the GRU, with gates independent of the inputs."""
    inputs = gru_inputs.cell_inputs(size, seed=seed)
    rng = np.random.default_rng([seed, 2])
    shape = inputs["h_prev"].shape
    gates = {name: rng.uniform(0.1, 0.9, shape) for name in "ruc"}
    return {**inputs, **gates, **gru_inputs.output_gradients(size, seed=seed)}


def step_output_gradients(size, seed=5) -> GRUStepGrad:
    """Returns gradients with respect to the results of the backward step of the GRU."""
    batch, input_size, cell_size = size
    rng = np.random.default_rng(seed)
    widths = (input_size, cell_size, cell_size, 2 * cell_size)
    return GRUStepGrad(*(rng.standard_normal((batch, width)) for width in widths))
