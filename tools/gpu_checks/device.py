"""Devices for the engine: a GPU, through PyTorch, or the fakes of cc/gpu/fakes."""

import abc
import contextlib
import statistics
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import torch

from gpu_checks.arrays import to_torch
from gpu_checks.cudnn_library import version_text


class DeviceLostError(RuntimeError):
    """The GPU cannot run further work of this process."""


class Device(abc.ABC):
    """A GPU or a fake. Methods use the current stream of the calling thread.

    Attributes:
      name: name of the device.
      cudnn_library: "cuDNN", or the name of a fake library.
      peer: PyTorch device for the layers to compare with.
    """

    name: str
    cudnn_library: str
    peer: str

    @abc.abstractmethod
    def versions(self) -> dict[str, str]:
        """Returns the versions of the device's software and hardware."""

    @abc.abstractmethod
    def empty(self, shape: tuple[int, ...], dtype: str) -> torch.Tensor:
        """Returns uninitialized memory. It is freed in stream order when it is no longer referenced."""

    @abc.abstractmethod
    def stream(self) -> int | None:
        """Returns the current CUstream; None is the default stream."""

    @abc.abstractmethod
    def new_stream(self) -> contextlib.AbstractContextManager:
        """Returns a new stream, which is current within a `with` statement and can be reentered."""

    @abc.abstractmethod
    def default_stream(self) -> contextlib.AbstractContextManager:
        """Returns the default stream, for use like `new_stream`."""

    @abc.abstractmethod
    def synchronize(self) -> None:
        """Waits for all work.

        Raises:
          DeviceLostError: if this process can no longer use the device.
        """

    @abc.abstractmethod
    def seconds(self, call: Callable[[], object]) -> float:
        """Returns the duration of the work that a call enqueues on the current stream."""

    @abc.abstractmethod
    def take_misuses(self) -> list[str]:
        """Returns the API misuses that the device detected since the last call."""

    def poisoned(self, shape: tuple[int, ...], dtype: str) -> torch.Tensor:
        """Returns memory full of NaN."""
        return self.empty(shape, dtype).fill_(torch.nan)

    def upload(self, array: np.ndarray, dtype: str) -> torch.Tensor:
        """Copies an array in the storage format of golden_cases to the device."""
        return self.empty(array.shape, dtype).copy_(to_torch(array, dtype))

    def upload_all(self, arrays: Mapping[str, np.ndarray], dtype: str) -> dict[str, torch.Tensor]:
        """Copies several arrays to the device."""
        return {name: self.upload(array, dtype) for name, array in arrays.items()}

    def median_seconds(self, calls: Iterator[Callable[[], object]]) -> float:
        """Returns the median duration of several calls."""
        return statistics.median(self.seconds(call) for call in calls)


class Cuda(Device):
    """The first GPU of PyTorch."""

    cudnn_library = "cuDNN"
    peer = "cuda"

    def __init__(self):
        if not torch.cuda.is_available():
            raise SystemExit("PyTorch finds no GPU. Use --fakes FOLDER to run without a GPU.")
        # The engine takes this setting per call.
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.zeros(1, device="cuda")  # makes the device's context current and loads CUDA's libraries
        torch.cuda.set_stream(torch.cuda.Stream())
        self.name = torch.cuda.get_device_name()

    def versions(self) -> dict[str, str]:
        """See the base class."""
        properties = torch.cuda.get_device_properties(0)
        return {
            "cuda": str(torch.version.cuda),
            "pytorch_cudnn": version_text(torch.backends.cudnn.version()),
            "compute_capability": f"{properties.major}.{properties.minor}",
        }

    def empty(self, shape, dtype):
        """See the base class."""
        return torch.empty(shape, dtype=getattr(torch, dtype), device="cuda")

    def stream(self):
        """See the base class."""
        return torch.cuda.current_stream().cuda_stream or None

    def new_stream(self):
        """See the base class."""
        return torch.cuda.stream(torch.cuda.Stream())

    def default_stream(self):
        """See the base class."""
        return torch.cuda.stream(torch.cuda.default_stream())

    def synchronize(self):
        """See the base class."""
        try:
            torch.cuda.synchronize()
        except RuntimeError as error:
            raise DeviceLostError(str(error)) from error

    def seconds(self, call):
        """See the base class."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / 1000

    def take_misuses(self):
        """See the base class. A GPU reports errors only."""
        return []
