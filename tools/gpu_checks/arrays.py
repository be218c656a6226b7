"""Conversion between PyTorch tensors and arrays in the storage format of golden_cases."""

import numpy as np
import torch


def to_torch(array: np.ndarray, dtype: str) -> torch.Tensor:
    """Copies an array in the storage format of golden_cases to a tensor on the host."""
    if dtype == "bfloat16" and array.dtype == np.uint16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """Copies a tensor to an array in the storage format of golden_cases."""
    tensor = tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(np.uint16).copy()
    return tensor.numpy().copy()
