"""The fakes of cc/gpu/fakes as a device: memory is host memory, and PyTorch's layers run on the CPU."""

import contextlib
import ctypes
import pathlib
import threading
import time
import weakref
from ctypes import c_char_p, c_int, c_size_t, c_void_p

import torch

from gpu_checks.device import Device

LIBRARY = "libfake_gpu.so"
COMPUTE_CAPABILITY = (9, 0)
# Supports bfloat16.
CUDNN_VERSION = 91300


class Fakes(Device):
    """The fake driver, cuDNN and cuBLAS. The engine finds them through LD_LIBRARY_PATH."""

    cudnn_library = "fake cuDNN"
    peer = "cpu"

    def __init__(self, folder: pathlib.Path):
        self.name = "fake GPU"
        torch.set_num_threads(1)
        self._library = ctypes.CDLL(str(folder / LIBRARY))
        for name, result, *arguments in (
            ("NewContext", c_void_p, c_int, c_int),
            ("NewStream", c_void_p, c_void_p),
            ("Allocate", c_void_p, c_size_t),
            ("Free", None, c_void_p),
            ("TakeMisuses", c_char_p),
            ("SetCudnnVersion", None, c_size_t),
        ):
            self._function(name).restype = result
            self._function(name).argtypes = arguments
        self._function("SetCudnnVersion")(CUDNN_VERSION)
        self._context = self._function("NewContext")(*COMPUTE_CAPABILITY)
        self._library.cuCtxPushCurrent_v2(c_void_p(self._context))
        self._current = _Current(self._new_stream())

    def _function(self, name: str):
        return getattr(self._library, f"TfRnnOpsFake_{name}")

    def _new_stream(self) -> int:
        return self._function("NewStream")(self._context)

    def versions(self):
        """See the base class."""
        return {"compute_capability": ".".join(map(str, COMPUTE_CAPABILITY))}

    def empty(self, shape, dtype):
        """See the base class."""
        torch_dtype = getattr(torch, dtype)
        num_bytes = torch.Size(shape).numel() * torch_dtype.itemsize
        if num_bytes == 0:
            return torch.empty(shape, dtype=torch_dtype)
        address = self._function("Allocate")(num_bytes)
        memory = (ctypes.c_char * num_bytes).from_address(address)
        weakref.finalize(memory, self._function("Free"), address)  # when the tensor is deleted
        return torch.frombuffer(memory, dtype=torch_dtype).reshape(shape)

    def stream(self):
        """See the base class."""
        return self._current.stream

    def new_stream(self):
        """See the base class."""
        return _Stream(self._current, self._new_stream())

    def default_stream(self):
        """See the base class."""
        return _Stream(self._current, None)

    def synchronize(self):
        """See the base class. The fakes run synchronously."""

    def seconds(self, call):
        """See the base class."""
        begin = time.perf_counter()
        call()
        return time.perf_counter() - begin

    def take_misuses(self):
        """See the base class."""
        return self._function("TakeMisuses")().decode().splitlines()


class _Current(threading.local):
    """The current stream of each thread."""

    def __init__(self, stream: int | None):
        self.stream = stream


class _Stream(contextlib.AbstractContextManager):
    """A stream that is current within a `with` statement."""

    def __init__(self, current: _Current, stream: int | None):
        self._current = current
        self._stream = stream

    def __enter__(self):
        self._outer = self._current.stream
        self._current.stream = self._stream

    def __exit__(self, *exception):
        self._current.stream = self._outer
