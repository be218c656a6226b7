"""Arrays as PyTorch has them and as golden_cases stores them."""

import numpy as np
import torch


def to_torch(array: np.ndarray, dtype: str) -> torch.Tensor:
    """Returns an array that is stored as golden_cases stores it as a tensor on the host, of its own memory."""
    if dtype == "bfloat16" and array.dtype == np.uint16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """Returns a tensor as an array that is stored as golden_cases stores it, of its own memory."""
    tensor = tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(np.uint16).copy()
    return tensor.numpy().copy()
