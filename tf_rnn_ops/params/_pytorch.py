"""Conversions of PyTorch weights."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tf_rnn_ops.params._arrays import NUMPY
from tf_rnn_ops.params._blocks import Block, blocks, blocks_of_pseudo_layers, split_into_blocks
from tf_rnn_ops.params._checks import (
    check_enough,
    check_names,
    check_one_floating_dtype,
    check_supported,
    check_zero_biases,
    mode_of_nonlinearity,
    shape_of_matrix,
)
from tf_rnn_ops.params._layout import Layout, layout

# PyTorch's names for the kinds of blocks, in the order of its modules.
_KINDS = {
    "kernel": "weight_ih",
    "recurrent_kernel": "weight_hh",
    "input_bias": "bias_ih",
    "recurrent_bias": "bias_hh",
    "projection": "weight_hr",
}
_MODULES = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "RNN", "rnn_relu": "RNN"}
_WEIGHT = re.compile(rf"(?:{'|'.join(_KINDS.values())})_l(?P<layer>\d+)(?P<is_backward>_reverse)?")


def layout_from_pytorch(state_dict: Mapping[str, Any], prefix: str | None = None, nonlinearity: str = "tanh") -> Layout:
    """Returns the layout of the params buffer for a `torch.nn.LSTM`, `GRU` or `RNN`, from the shapes of its weights.

    Args:
      state_dict: the weights, as in `from_pytorch`.
      prefix: the prefix of their names, as in `from_pytorch`.
      nonlinearity: "tanh" or "relu", the nonlinearity of a `torch.nn.RNN`, which the weights do not show.

    Returns:
      A `Layout`.

    Raises:
      TypeError: if `state_dict` is a module.
      ValueError: if the weights are not those of exactly one such module, or `nonlinearity` is invalid.

    Examples:
      >>> weights = {"rnn.weight_ih_l0": np.ones([12, 3]), "rnn.weight_hh_l0": np.ones([12, 4])}
      >>> layout_from_pytorch(weights, prefix="rnn").rnn_mode
      'gru'
    """
    mode_of_one_gate = mode_of_nonlinearity(nonlinearity)
    prefix, given = _module(state_dict, prefix)
    num_rows, num_outputs = shape_of_matrix("state_dict", state_dict, f"{prefix}weight_hh_l0")
    _, input_size = shape_of_matrix("state_dict", state_dict, f"{prefix}weight_ih_l0")
    has_projection = "weight_hr_l0" in given
    num_units = shape_of_matrix("state_dict", state_dict, f"{prefix}weight_hr_l0")[1] if has_projection else num_outputs
    modes = {4 * num_units: "lstm", 3 * num_units: "gru", num_units: mode_of_one_gate}
    if num_units == 0 or num_rows not in modes:
        raise ValueError(
            f"{prefix}weight_hh_l0 must have 4 * units (LSTM), 3 * units (GRU) or units (RNN) rows, where units is "
            f"{num_units}, but has {num_rows} rows"
        )
    num_layers = 1 + max(int(each["layer"]) for each in given.values())
    direction = "bidirectional" if any(each["is_backward"] for each in given.values()) else "unidirectional"
    num_proj = num_outputs if has_projection else 0
    return layout(modes[num_rows], num_units, input_size, num_layers, direction, num_proj=num_proj)


def from_pytorch(layout: Layout, state_dict: Mapping[str, Any], prefix: str | None = None) -> np.ndarray:
    """Converts the weights of a `torch.nn.LSTM`, `GRU` or `RNN` to a params buffer.

    The values are copied unchanged, because PyTorch and cuDNN use the same order of gates. The biases of a module with
    `bias=False` are zeros in the buffer.

    Args:
      layout: the layout of the buffer, as returned by `layout_from_pytorch`.
      state_dict: the `state_dict()` of the module or of a parent module: a mapping from names such as "weight_ih_l0",
        "bias_hh_l1_reverse" or "weight_hr_l0" to arrays or CPU tensors. All weights of the module have the same
        floating-point dtype. Other entries are ignored.
      prefix: the prefix of these names, which is the path of the module, such as "encoder.lstm", with or without a dot
        at its end; "" for no prefix. By default any prefix, if the weights are those of one module.

    Returns:
      A new NumPy array, [layout.size], float32 if the weights are bfloat16.

    Raises:
      ValueError: if PyTorch does not support the layout, the weights are those of several modules, or their names,
        shapes or dtypes do not match the layout.
      TypeError: if `layout` is not a `Layout`, `state_dict` is a module, or, from PyTorch, if a tensor is not on the
        CPU.

    Source: the formulas in the documentation of `torch.nn.LSTM`, `GRU` and `RNN`, and of
    `tf_rnn_ops.raw_ops.CudnnRNN`.

    Examples:
      >>> weights = {"weight_ih_l0": np.ones([16, 3]), "weight_hh_l0": np.ones([16, 4])}  # nn.LSTM(3, 4, bias=False)
      >>> from_pytorch(layout_from_pytorch(weights), weights).shape  # [layout.size]
      (144,)
    """
    check_supported(layout, "PyTorch modules", with_projection=True)
    prefix, given = _module(state_dict, prefix)
    check_enough("state_dict", layout, given)
    has_bias = any(name.startswith("bias") for name in given)
    expected = {f"{prefix}{name}": block for name, block in _weights(layout, has_bias).items()}
    requirement = (
        f"state_dict must have exactly the {len(expected)} weights of a torch.nn.{_MODULES[layout.rnn_mode]} with this "
        "layout"
    )
    check_names(requirement, expected, dict.fromkeys(f"{prefix}{name}" for name in given))
    arrays = {name: NUMPY.checked(name, _array(state_dict[name]), block.shape) for name, block in expected.items()}
    check_one_floating_dtype("state_dict", arrays)
    of_block = dict(zip(expected.values(), arrays.values(), strict=True))
    dtype = next(iter(arrays.values())).dtype
    parts = [of_block[block] if block in of_block else np.zeros(block.shape, dtype) for block in blocks(layout)]
    return np.concatenate([np.ravel(part) for part in parts])


def to_pytorch(layout: Layout, params: Any, prefix: str = "", *, use_bias: bool = True) -> dict[str, np.ndarray]:
    """Converts a params buffer to the weights of a `torch.nn.LSTM`, `GRU` or `RNN` that computes the same.

    Args:
      layout: the layout of the buffer, with an input matrix in every layer.
      params: the buffer, [layout.size].
      prefix: a prefix for the names, such as "encoder.lstm", with or without a dot at its end.
      use_bias: whether the module has biases. If False, the biases in the buffer must be zeros.

    Returns:
      New NumPy arrays by the names in `torch.nn.Module.state_dict`. Convert them to tensors with `torch.from_numpy`.

    Raises:
      TypeError: if `layout` is not a `Layout`.
      ValueError: if PyTorch does not support the layout, `params` has the wrong shape, or a bias is not zeros with
        `use_bias=False`.

    Source: as for `from_pytorch`.

    Examples:
      >>> rnn = layout("rnn_tanh", num_units=4, input_size=3)
      >>> list(to_pytorch(rnn, np.zeros(rnn.size)))
      ['weight_ih_l0', 'weight_hh_l0', 'bias_ih_l0', 'bias_hh_l0']
    """
    check_supported(layout, "PyTorch modules", with_projection=True)
    of_block = split_into_blocks(NUMPY, layout, np.array(params))
    if not use_bias:
        check_zero_biases(NUMPY, of_block)
    start = f"{prefix.rstrip('.')}." if prefix else ""
    return {f"{start}{name}": of_block[block.name] for name, block in _weights(layout, use_bias).items()}


def _array(weight: Any) -> np.ndarray:
    """Returns an array or tensor as a NumPy array, which has no bfloat16."""
    if hasattr(weight, "detach"):
        weight = weight.detach()
        weight = weight.float() if str(weight.dtype) == "torch.bfloat16" else weight
    return np.asarray(weight)


def _module(state_dict: Mapping[str, Any], prefix: str | None) -> tuple[str, dict[str, re.Match[str]]]:
    """Returns the prefix of a module, with the dot at its end, if any, and the matches of the names after it.

    A prefix of None matches any prefix.
    """
    if hasattr(state_dict, "state_dict"):
        raise TypeError(f"state_dict must be a mapping, but is a {type(state_dict).__name__}: pass module.state_dict()")
    modules: dict[str, dict[str, re.Match[str]]] = {}
    for full_name in state_dict:
        parent, dot, name = full_name.rpartition(".")
        if match := _WEIGHT.fullmatch(name):
            modules.setdefault(f"{parent}{dot}", {})[name] = match
    found = [each for each in modules if prefix in (None, each, each.rstrip("."))]
    if len(found) != 1:
        raise _not_one(found, modules, prefix)
    return found[0], modules[found[0]]


def _not_one(found: Iterable[str], modules: Iterable[str], prefix: str | None) -> ValueError:
    """Returns the error for no module, or more than one, with a prefix among all prefixes."""
    if found:
        text = f"several: {_listed(found)}"
    else:
        text = "no module" if prefix is None else f"no module with prefix {prefix!r}"
        text += f"; modules with other prefixes: {_listed(modules)}" if modules else " (no weight_ih_l0)"
    return ValueError(f"state_dict must contain one module; pass its prefix to select one. Found {text}")


def _listed(prefixes: Iterable[str]) -> str:
    """Returns prefixes as text."""
    return " and ".join(repr(each.rstrip(".")) for each in prefixes)


def _weights(layout: Layout, use_bias: bool) -> dict[str, Block]:
    """Returns the blocks of a module by PyTorch's names, in PyTorch's order."""
    weights = {}
    for of_one in blocks_of_pseudo_layers(layout).values():
        for kind, word in _KINDS.items():
            if kind in of_one and (use_bias or not kind.endswith("bias")):
                block = of_one[kind]
                weights[f"{word}_l{block.layer}{'_reverse' if block.direction == 'backward' else ''}"] = block
    return weights
