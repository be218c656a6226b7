"""ctypes bindings of the GPU engine. cc/gpu/c_api.h documents the functions; a test compares the two."""

import ctypes
import enum
import functools
import pathlib
from collections.abc import Callable, Collection, Mapping
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p

import torch
from cudnn_rnn_reference import params_size
from golden_cases import BACKPROPS, GIVEN, OUTPUTS, Case, shapes

from gpu_checks.device import Device
from gpu_checks.philox import RandomStream

LIBRARY = "libtf_rnn_ops_gpu_engine.so"


class Code(enum.IntEnum):
    """TfRnnOpsGpu_Code: the return value of a function."""

    OK = 0
    INVALID_ARGUMENT = 1
    OUT_OF_MEMORY = 2
    UNIMPLEMENTED = 3
    UNAVAILABLE = 4
    INTERNAL = 5


TYPES = {"float16": 0, "bfloat16": 1, "float32": 2, "float64": 3}
MODES = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}
# Gradients with respect to the results of a backward pass. They have the shapes of the network's inputs.
DIRECTIONS = ("dot_input", "dot_input_h", "dot_input_c", "dot_params")
# Gradients with respect to the inputs of a backward pass, with the same shapes.
GRADS = tuple(f"{name}_grad" for name in GIVEN if name != "sequence_lengths")
ALLOCATE_SCRATCH = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_size_t)


def _pointers(names: str) -> list[tuple[str, type]]:
    return [(name, c_void_p) for name in names.split()]


class CallStruct(ctypes.Structure):
    """TfRnnOpsGpu_Call."""

    _fields_ = (
        ("stream", c_void_p),
        ("allocate_scratch", ALLOCATE_SCRATCH),
        ("allocator", c_void_p),
        ("allow_tf32", c_int),
    )


class NetworkOptionsStruct(ctypes.Structure):
    """TfRnnOpsGpu_NetworkOptions."""

    _fields_ = (
        *((name, c_int) for name in ("type", "mode", "skip_input", "num_directions")),
        *((name, c_int64) for name in ("num_layers", "input_size", "num_units", "num_proj")),
        ("dropout", c_float),
        *((name, c_int) for name in ("standard_algorithm_only", "widen_bfloat16")),
    )


class SequencesStruct(ctypes.Structure):
    """TfRnnOpsGpu_Sequences."""

    _fields_ = (("time", c_int64), ("batch", c_int64), ("time_major", c_int), ("lengths", POINTER(c_int32)))


class RandomStreamStruct(ctypes.Structure):
    """TfRnnOpsGpu_RandomStream."""

    _fields_ = (("key", c_uint64), ("counter_low", c_uint64), ("counter_high", c_uint64))


class ForwardStruct(ctypes.Structure):
    """TfRnnOpsGpu_Forward."""

    _fields_ = (
        *_pointers("input input_h input_c params output output_h output_c reserve_space"),
        ("dropout_stream", RandomStreamStruct),
    )


class BackwardStruct(ctypes.Structure):
    """TfRnnOpsGpu_Backward."""

    _fields_ = (
        *_pointers("input input_h input_c params output output_backprop output_h_backprop output_c_backprop"),
        *_pointers("reserve_space"),
        ("owns_reserve_space", c_int),
        ("dropout_stream", RandomStreamStruct),
        *_pointers("input_backprop input_h_backprop input_c_backprop params_backprop"),
    )


class BackwardGradStruct(ctypes.Structure):
    """TfRnnOpsGpu_BackwardGrad."""

    _fields_ = (
        *_pointers("input input_h input_c params output_backprop output_h_backprop output_c_backprop"),
        ("dropout_stream", RandomStreamStruct),
        *_pointers(" ".join(DIRECTIONS)),
        *_pointers(" ".join(GRADS)),
    )


_CELL_SIZES = tuple((name, c_int64) for name in ("batch", "input_size", "cell_size"))


class GruCellForwardStruct(ctypes.Structure):
    """TfRnnOpsGpu_GruCellForward."""

    _fields_ = (*_CELL_SIZES, *_pointers("x h_prev w_ru w_c b_ru b_c r u c h"))


class GruCellBackwardStruct(ctypes.Structure):
    """TfRnnOpsGpu_GruCellBackward."""

    _fields_ = (*_CELL_SIZES, *_pointers("h_prev w_ru w_c r u c d_r d_u d_c d_h d_x d_h_prev d_c_bar d_r_bar_u_bar"))


# Argument types of the functions that return a code, without the prefix TfRnnOpsGpu_.
SIGNATURES = {
    "MakeNetwork": [POINTER(NetworkOptionsStruct), POINTER(c_void_p)],
    "ParamsSize": [c_void_p, POINTER(c_int64)],
    "ReserveSpace": [
        c_void_p,
        POINTER(CallStruct),
        POINTER(SequencesStruct),
        POINTER(c_size_t),
        POINTER(c_char_p),
    ],
    "RunForward": [c_void_p, POINTER(CallStruct), POINTER(SequencesStruct), POINTER(ForwardStruct)],
    "RunBackward": [c_void_p, POINTER(CallStruct), POINTER(SequencesStruct), POINTER(BackwardStruct)],
    "RunBackwardGrad": [c_void_p, POINTER(CallStruct), POINTER(SequencesStruct), POINTER(BackwardGradStruct)],
    "RunGruCellForward": [c_int, POINTER(CallStruct), POINTER(GruCellForwardStruct)],
    "RunGruCellBackward": [c_int, POINTER(CallStruct), POINTER(GruCellBackwardStruct)],
}


class EngineError(RuntimeError):
    """A function of the engine did not return OK.

    Attributes:
      code: the code that it returned.
    """

    def __init__(self, name: str, code: int, message: str):
        super().__init__(f"{name}: {Code(code).name}: {message}")
        self.code = Code(code)


class Engine:
    """The engine library and the device that it runs on."""

    def __init__(self, path: pathlib.Path, device: Device):
        self.device = device
        self._library = ctypes.CDLL(str(path))
        for name, argument_types in SIGNATURES.items():
            self._function(name).argtypes = argument_types
        for name in ("LastError", "Libraries"):
            self._function(name).restype = c_char_p
        self._function("FreeNetwork").argtypes = [c_void_p]
        self._function("FreeNetwork").restype = None

    def _function(self, name: str):
        return getattr(self._library, f"TfRnnOpsGpu_{name}")

    def libraries(self) -> list[str]:
        """Returns a line each for the driver, cuDNN and cuBLAS."""
        return self._function("Libraries")().decode().splitlines()

    def call(self, name: str, *arguments) -> None:
        """Calls a function that returns a code.

        Raises:
          EngineError: if the code is not OK.
        """
        code = self._function(name)(*arguments)
        if code != Code.OK:
            raise EngineError(name, code, self._function("LastError")().decode())

    def free_network(self, network: c_void_p) -> None:
        """Calls FreeNetwork."""
        self._function("FreeNetwork")(network)


class Scratch:
    """The TfRnnOpsGpu_Call of one call, on the current stream. Owns the scratch memory of the call."""

    def __init__(self, device: Device, allow_tf32: bool = False):
        memory: list[torch.Tensor] = []

        # Not a method: `self` would be in a reference cycle, and its memory would wait for the garbage collector.
        def allocate(_allocator, num_bytes: int) -> int | None:
            try:
                tensor = device.empty((num_bytes,), "uint8")
            except RuntimeError:  # out of memory: the engine must report it
                return None
            memory.append(tensor)
            return tensor.data_ptr()

        self.struct = CallStruct(device.stream(), ALLOCATE_SCRATCH(allocate), None, allow_tf32)


def address(tensor: torch.Tensor | None) -> int | None:
    """Returns the address of a tensor, or None."""
    return None if tensor is None else tensor.data_ptr()


def fill(struct, tensors: Mapping[str, torch.Tensor | None]) -> None:
    """Sets the pointers in a structure to the tensors of the same names, and the others to null."""
    for name, argument_type in struct._fields_:
        if argument_type is c_void_p:
            setattr(struct, name, address(tensors.get(name)))


class Network:
    """A network of the engine for a case, for use in a `with` statement.

    Tensors are on the engine's device. They have the dtype of the case and the shapes of golden_cases.shapes.

    Attributes:
      sequences: the SequencesStruct of all calls.
      allocate_scratch: an ALLOCATE_SCRATCH; None to allocate on the device.
    """

    def __init__(
        self,
        engine: Engine,
        case: Case,
        stream: RandomStream | None = None,
        allow_tf32: bool = False,
        poisons_results: bool = True,
        **options,
    ):
        """Stores the options. `__enter__` creates the network.

        Args:
          engine: the engine.
          case: the case, including config.dropout.
          stream: first random numbers of dropout.
          allow_tf32: whether float32 operands may be rounded to 10 bits.
          poisons_results: whether to fill the results with NaN first, to detect elements that are not written.
          **options: further fields of NetworkOptionsStruct.
        """
        self._engine = engine
        self._device = engine.device
        self._case = case
        self._allow_tf32 = allow_tf32
        self._new = engine.device.poisoned if poisons_results else engine.device.empty
        self._shapes = shapes(case, params_size(case.config))
        self._shapes |= {f"{name}_grad": shape for name, shape in self._shapes.items() if f"{name}_grad" in GRADS}
        self._options = network_options(case, **options)
        key, counter = stream or RandomStream(0, 0)
        self._stream = RandomStreamStruct(key, counter % 2**64, counter >> 64)
        self.sequences = sequences(case)
        self.allocate_scratch: Callable | None = None

    def __enter__(self):
        self._network = c_void_p()
        self._engine.call("MakeNetwork", byref(self._options), byref(self._network))
        return self

    def __exit__(self, *exception):
        self._engine.free_network(self._network)

    def params_size(self) -> int:
        """Returns the number of params."""
        size = c_int64()
        self._engine.call("ParamsSize", self._network, byref(size))
        return size.value

    def reserve_space(self) -> tuple[int, str]:
        """Returns the size of the reserve space in bytes, and the name of the algorithm."""
        num_bytes, algorithm = c_size_t(), c_char_p()
        call = self._scratch()
        arguments = (byref(call.struct), byref(self.sequences), byref(num_bytes), byref(algorithm))
        self._engine.call("ReserveSpace", self._network, *arguments)
        return num_bytes.value, (algorithm.value or b"").decode()

    def forward(self, given: Mapping[str, torch.Tensor], training: bool = True) -> dict[str, torch.Tensor]:
        """Runs the network.

        Args:
          given: the arrays of golden_cases.GIVEN, except the lengths.
          training: whether to compute a reserve_space.

        Returns:
          The OUTPUTS that the case has, and reserve_space if training.
        """
        results = self._new_results(OUTPUTS)
        if training:
            results["reserve_space"] = self._device.empty((self._reserve_bytes,), "uint8")
        struct = ForwardStruct(dropout_stream=self._stream)
        fill(struct, {**given, **results})
        self.run("RunForward", struct)
        return results

    def backward(
        self,
        given: Mapping[str, torch.Tensor],
        outputs: Mapping[str, torch.Tensor],
        owns_reserve_space: bool = False,
        wants_params: bool = True,
    ) -> dict[str, torch.Tensor]:
        """Returns the BACKPROPS that the case has.

        Args:
          given: as for `forward`.
          outputs: the results of `forward`.
          owns_reserve_space: whether the call may write to the reserve_space.
          wants_params: whether to compute params_backprop.
        """
        results = self._new_results(BACKPROPS if wants_params else BACKPROPS[:-1])
        struct = BackwardStruct(dropout_stream=self._stream, owns_reserve_space=owns_reserve_space)
        fill(struct, {**given, **outputs, **results})
        self.run("RunBackward", struct)
        return results

    def backward_grad(
        self, given: Mapping[str, torch.Tensor], wanted: Collection[str] = GRADS
    ) -> dict[str, torch.Tensor]:
        """Returns the gradients of the backward pass that the case has.

        Args:
          given: as for `backward`, and DIRECTIONS; missing ones are null.
          wanted: the GRADS to compute; the others are null.
        """
        results = self._new_results(wanted)
        struct = BackwardGradStruct(dropout_stream=self._stream)
        fill(struct, {**given, **results})
        self.run("RunBackwardGrad", struct)
        return results

    def _new_results(self, names) -> dict[str, torch.Tensor]:
        return {name: self._new(self._shapes[name], self._case.dtype) for name in names if name in self._shapes}

    @functools.cached_property
    def _reserve_bytes(self) -> int:
        return self.reserve_space()[0]

    def run(self, name: str, struct: ctypes.Structure) -> None:
        """Calls RunForward, RunBackward or RunBackwardGrad."""
        call = self._scratch()
        self._engine.call(name, self._network, byref(call.struct), byref(self.sequences), byref(struct))

    def _scratch(self) -> Scratch:
        call = Scratch(self._device, self._allow_tf32)
        if self.allocate_scratch is not None:
            call.struct.allocate_scratch = self.allocate_scratch
        return call


def network_options(case: Case, **options) -> NetworkOptionsStruct:
    """Returns the TfRnnOpsGpu_NetworkOptions of a case; `options` override fields."""
    config = case.config
    fields = {
        "type": TYPES[case.dtype],
        "mode": MODES[config.rnn_mode],
        "skip_input": config.skips_input,
        "num_directions": config.num_directions,
        "num_layers": config.num_layers,
        "input_size": config.input_size,
        "num_units": config.num_units,
        "num_proj": config.num_proj,
        "dropout": config.dropout,
        **options,
    }
    return NetworkOptionsStruct(**fields)


def sequences(case: Case, **fields) -> SequencesStruct:
    """Returns the TfRnnOpsGpu_Sequences of a case; `fields` override fields."""
    config = case.config
    lengths = None
    if config.sequence_lengths is not None:
        lengths = (c_int32 * config.batch)(*config.sequence_lengths)
    values = {"time": config.time, "batch": config.batch, "time_major": config.time_major, "lengths": lengths, **fields}
    return SequencesStruct(**values)
