"""ctypes bindings of the functions of cuDNN 9 for recurrent networks.

Names, types and values are as in the headers cudnn_graph.h, cudnn_ops.h and cudnn_adv.h; a test compares them.
"""

import contextlib
import ctypes
from collections.abc import Iterator
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_void_p

CUDNN_DATA_FLOAT = 0
CUDNN_DATA_DOUBLE = 1
CUDNN_DATA_HALF = 2
CUDNN_DATA_BFLOAT16 = 9
CUDNN_DEFAULT_MATH = 0
CUDNN_TENSOR_OP_MATH = 1
CUDNN_FMA_MATH = 3
CUDNN_RNN_ALGO_STANDARD = 0
CUDNN_FWD_MODE_TRAINING = 1
CUDNN_RNN_RELU = 0
CUDNN_RNN_TANH = 1
CUDNN_LSTM = 2
CUDNN_GRU = 3
CUDNN_RNN_DOUBLE_BIAS = 2
CUDNN_UNIDIRECTIONAL = 0
CUDNN_BIDIRECTIONAL = 1
CUDNN_LINEAR_INPUT = 0
CUDNN_SKIP_INPUT = 1
CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED = 0
CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED = 2
CUDNN_RNN_PADDED_IO_ENABLED = 1
CUDNN_WGRAD_MODE_ADD = 0

# Argument types of the functions that return a status. All pointers, handles and descriptors are c_void_p.
SIGNATURES = {
    "cudnnCreate": [c_void_p],
    "cudnnDestroy": [c_void_p],
    "cudnnSetStream": [c_void_p, c_void_p],
    "cudnnCreateTensorDescriptor": [c_void_p],
    "cudnnDestroyTensorDescriptor": [c_void_p],
    "cudnnSetTensorNdDescriptor": [c_void_p, c_int, c_int, c_void_p, c_void_p],
    "cudnnGetTensorNdDescriptor": [c_void_p, c_int, c_void_p, c_void_p, c_void_p, c_void_p],
    "cudnnCreateRNNDescriptor": [c_void_p],
    "cudnnDestroyRNNDescriptor": [c_void_p],
    "cudnnSetRNNDescriptor_v8": [c_void_p, *[c_int] * 12, c_void_p, c_uint],
    "cudnnCreateRNNDataDescriptor": [c_void_p],
    "cudnnDestroyRNNDataDescriptor": [c_void_p],
    "cudnnSetRNNDataDescriptor": [c_void_p, *[c_int] * 5, c_void_p, c_void_p],
    "cudnnGetRNNWeightSpaceSize": [c_void_p, c_void_p, c_void_p],
    "cudnnGetRNNWeightParams": [c_void_p, c_void_p, c_int, c_size_t, c_void_p, c_int, *[c_void_p] * 4],
    "cudnnGetRNNTempSpaceSizes": [c_void_p, c_void_p, c_int, c_void_p, c_void_p, c_void_p],
    "cudnnRNNForward": [c_void_p, c_void_p, c_int, *[c_void_p] * 11, *[c_size_t, c_void_p] * 3],
    "cudnnRNNBackwardData_v8": [*[c_void_p] * 16, *[c_size_t, c_void_p] * 3],
    "cudnnRNNBackwardWeights_v8": [c_void_p, c_void_p, c_int, *[c_void_p] * 7, *[c_size_t, c_void_p] * 3],
}


class CudnnError(RuntimeError):
    """A cuDNN function did not return CUDNN_STATUS_SUCCESS."""


class Cudnn:
    """The cuDNN library. It must be loaded already or be found by the dynamic loader."""

    def __init__(self):
        self._library = ctypes.CDLL("libcudnn.so.9")
        self._library.cudnnGetErrorString.argtypes = [c_int]
        self._library.cudnnGetErrorString.restype = c_char_p
        self._library.cudnnGetVersion.restype = c_size_t
        for name, argument_types in SIGNATURES.items():
            getattr(self._library, name).argtypes = argument_types

    @property
    def version(self) -> str:
        """The version, such as 9.10.2."""
        number = self._library.cudnnGetVersion()  # such as 91002
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"

    def call(self, name: str, *arguments) -> None:
        """Calls a function.

        Raises:
          CudnnError: if its status is not CUDNN_STATUS_SUCCESS.
        """
        status = getattr(self._library, name)(*arguments)
        if status != 0:
            raise CudnnError(f"{name}: {self._library.cudnnGetErrorString(status).decode()}")

    @contextlib.contextmanager
    def created(self, kind: str) -> Iterator[c_void_p]:
        """Calls cudnnCreate{kind}, and cudnnDestroy{kind} on exit."""
        handle = c_void_p()
        self.call(f"cudnnCreate{kind}", byref(handle))
        try:
            yield handle
        finally:
            self.call(f"cudnnDestroy{kind}", handle)
