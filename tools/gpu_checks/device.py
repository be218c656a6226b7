"""What the engine runs on: a GPU, whose memory, streams and clock are PyTorch's, or the fakes of cc/gpu/fakes."""

import abc
import contextlib
import statistics
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import torch

from gpu_checks.arrays import to_torch
from gpu_checks.cudnn_library import version_text


class DeviceLostError(RuntimeError):
    """The GPU refuses all further work of this process."""


class Device(abc.ABC):
    """A GPU or what stands for it. Calls concern the current stream of the calling thread.

    Attributes:
      name: its name.
      cudnn_library: what its libcudnn.so.9 is.
      peer: PyTorch's name for the device that its layers run on as peers.
    """

    name: str
    cudnn_library: str
    peer: str

    @abc.abstractmethod
    def versions(self) -> dict[str, str]:
        """Returns the versions of what belongs to it."""

    @abc.abstractmethod
    def empty(self, shape: tuple[int, ...], dtype: str) -> torch.Tensor:
        """Returns memory of undefined content. It is free again, in the order of the stream, when nobody has it."""

    @abc.abstractmethod
    def stream(self) -> int | None:
        """Returns the current stream, a CUstream: None is the default one."""

    @abc.abstractmethod
    def new_stream(self) -> contextlib.AbstractContextManager:
        """Returns a new stream, which is current within a `with` statement. It may be entered several times."""

    @abc.abstractmethod
    def default_stream(self) -> contextlib.AbstractContextManager:
        """Returns the default stream, on which PyTorch works unless it is told otherwise, as `new_stream` does."""

    @abc.abstractmethod
    def synchronize(self) -> None:
        """Waits for all work.

        Raises:
          DeviceLostError: if the device is of no use to this process from now on.
        """

    @abc.abstractmethod
    def seconds(self, call: Callable[[], object]) -> float:
        """Returns how long the work takes that a call enqueues on the current stream."""

    @abc.abstractmethod
    def take_misuses(self) -> list[str]:
        """Returns what was done wrong since the last call, as far as the device notices."""

    def poisoned(self, shape: tuple[int, ...], dtype: str) -> torch.Tensor:
        """Returns memory full of NaN."""
        return self.empty(shape, dtype).fill_(torch.nan)

    def upload(self, array: np.ndarray, dtype: str) -> torch.Tensor:
        """Returns an array that is stored as golden_cases stores it."""
        return self.empty(array.shape, dtype).copy_(to_torch(array, dtype))

    def upload_all(self, arrays: Mapping[str, np.ndarray], dtype: str) -> dict[str, torch.Tensor]:
        """Returns arrays that are stored as golden_cases stores them."""
        return {name: self.upload(array, dtype) for name, array in arrays.items()}

    def median_seconds(self, calls: Iterator[Callable[[], object]]) -> float:
        """Returns the median of what several calls take."""
        return statistics.median(self.seconds(call) for call in calls)


class Cuda(Device):
    """The first GPU that PyTorch sees."""

    cudnn_library = "cuDNN"
    peer = "cuda"

    def __init__(self):
        if not torch.cuda.is_available():
            raise SystemExit("PyTorch sees no GPU. --fakes FOLDER tries this program out without one.")
        # TF32 has 10 bits. The engine is told so call by call.
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
        """See the base class: a GPU notices nothing that it does not report as an error."""
        return []
