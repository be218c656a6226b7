"""Gradients of the backward passes of networks in plain NumPy, from complex steps.

The differentiated function is <v, backward>: the sum of the results of a backward pass times arrays v of their shapes.
"""

from typing import NamedTuple

import numpy as np

from references import cudnn_rnn as reference
from references.cudnn_rnn import Backward, Config


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
