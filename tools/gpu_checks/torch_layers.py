"""PyTorch's nn.LSTM, nn.GRU and nn.RNN as peers. On a GPU they run cuDNN, too, except for bfloat16."""

import cudnn_rnn_reference as reference
import golden_cases
import numpy as np
import torch
from golden_cases import Case

from gpu_checks.arrays import to_numpy, to_torch

# Value of summary.PEER_RUNS.
NOT_CUDNN = "not cuDNN"


class PeerError(RuntimeError):
    """PyTorch's layers cannot be compared with."""


def why_unsupported(case: Case) -> str:
    """Returns why PyTorch's layers do not support a case; empty if they do."""
    if case.config.skips_input:
        return "PyTorch has no skip_input"
    if case.config.input_size == 0:
        return "PyTorch has no input_size of 0"
    if (case.config.lengths < 1).any():
        return "PyTorch has no sequences of length 0"
    return ""


def runs_cudnn(case: Case, device: str) -> bool:
    """Returns whether PyTorch runs a case with cuDNN. For bfloat16 it has its own kernels and no flat weights."""
    return device == "cuda" and getattr(torch, case.dtype) in torch.backends.cudnn.CUDNN_TENSOR_DTYPES


def make_layer(case: Case) -> torch.nn.Module:
    """Returns PyTorch's layer for a case, with initial weights."""
    config = case.config
    options = {
        "input_size": config.input_size,
        "hidden_size": config.num_units,
        "num_layers": config.num_layers,
        "bidirectional": config.num_directions == 2,
        "dropout": config.dropout if config.num_layers > 1 else 0.0,
        "dtype": getattr(torch, case.dtype),
    }
    if config.rnn_mode == "lstm":
        return torch.nn.LSTM(**options, proj_size=config.num_proj if config.has_projection else 0)
    if config.rnn_mode == "gru":
        return torch.nn.GRU(**options)
    return torch.nn.RNN(**options, nonlinearity=config.rnn_mode.removeprefix("rnn_"))


def by_pytorch_name(case: Case, params: np.ndarray) -> dict[str, np.ndarray]:
    """Returns views of the parts of a params buffer by their names in PyTorch's layers."""
    views: dict[str, np.ndarray] = {}
    for pseudo_layer, weights in enumerate(reference.unpack(case.config, params)):
        layer, direction = divmod(pseudo_layer, case.config.num_directions)
        kernel, recurrent, projection, kernel_bias, recurrent_bias = weights
        parts = {
            "weight_ih": kernel,
            "weight_hh": recurrent,
            "bias_ih": kernel_bias,
            "bias_hh": recurrent_bias,
            "weight_hr": projection,
        }
        suffix = f"_l{layer}{'_reverse' * direction}"
        views |= {name + suffix: part for name, part in parts.items() if part is not None}
    return views


def load_params(case: Case, layer: torch.nn.Module, params: np.ndarray) -> None:
    """Copies the weights in a params buffer to a layer."""
    views = by_pytorch_name(case, params)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            parameter.copy_(to_torch(views[name], case.dtype).reshape(parameter.shape))


def flat_params(layer: torch.nn.Module) -> np.ndarray:
    """Returns the flat weight buffer of a layer that runs cuDNN."""
    parameter = next(layer.parameters())
    layer.flatten_parameters()
    buffer = torch.empty(0, dtype=parameter.dtype, device=parameter.device).set_(parameter.untyped_storage())
    return to_numpy(buffer)


def params_backprop(case: Case, layer: torch.nn.Module, params: np.ndarray) -> np.ndarray:
    """Returns the gradients of a layer's weights as a params buffer, as stored."""
    gradients = np.zeros_like(params)
    views = by_pytorch_name(case, gradients)
    for name, parameter in layer.named_parameters():
        views[name][...] = to_numpy(parameter.grad).reshape(views[name].shape)
    return gradients


def run(case: Case, given: dict[str, np.ndarray], device: str) -> dict[str, np.ndarray]:
    """Returns the OUTPUTS and BACKPROPS of PyTorch's layer for a supported case, as stored.

    Raises:
      PeerError: if PyTorch should run cuDNN, but does not, or has another layout of weights.
    """
    config = case.config
    layer = make_layer(case).to(device)
    load_params(case, layer, given["params"])
    if runs_cudnn(case, device) and not np.array_equal(flat_params(layer), given["params"]):
        raise PeerError("PyTorch's flattened weights are in another order than params")
    # PyTorch's sequences are time-major here; its states always are.
    tensors = {
        name: to_torch(np.ascontiguousarray(reference.major(config, array)), case.dtype).to(device)
        for name, array in given.items()
        if name not in ("params", "sequence_lengths")
    }
    inputs = {
        name: tensors[name].detach().requires_grad_() for name in ("input", "input_h", "input_c") if name in tensors
    }
    if runs_cudnn(case, device) and not torch.backends.cudnn.is_acceptable(tensors["input"]):
        raise PeerError("PyTorch does not use cuDNN for these inputs")

    sequences = inputs["input"]
    if config.sequence_lengths:
        lengths = torch.tensor(config.lengths)
        sequences = torch.nn.utils.rnn.pack_padded_sequence(sequences, lengths, enforce_sorted=False)
    states = tuple(inputs[name] for name in ("input_h", "input_c") if name in inputs)
    output, last = layer(sequences, states if case.has_cell_state else states[0])
    if config.sequence_lengths:
        output, _ = torch.nn.utils.rnn.pad_packed_sequence(output, total_length=config.time)
    last = last if case.has_cell_state else (last,)
    outputs = dict(zip(golden_cases.OUTPUTS, (output, *last), strict=False))
    torch.autograd.backward(list(outputs.values()), [tensors[f"{name}_backprop"] for name in outputs])

    results = {name: to_numpy(tensor) for name, tensor in outputs.items()}
    results |= {f"{name}_backprop": to_numpy(tensor.grad) for name, tensor in inputs.items()}
    results = {name: reference.major(config, array) for name, array in results.items()}
    return {**results, "params_backprop": params_backprop(case, layer, given["params"])}
