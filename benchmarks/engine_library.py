"""The CPU engine on a plain pool of threads, without TensorFlow: benchmarks/engine_calls.cc."""

import ctypes
import functools
import pathlib
from ctypes import c_char_p, c_int, c_int64, c_void_p

import numpy as np
from cases import FORWARD, FORWARD_BACKWARD, Network
from problems import Weights, name_gradients, network_problem
from programs import Library, Program

LIBRARY = pathlib.Path(__file__).parent.parent / "build/engine-calls/libengine_calls.so"
_CPU_INFO = pathlib.Path("/proc/cpuinfo")
_MODES = {"lstm": "lstm", "gru": "gru", "tanh": "rnn_tanh"}
_INPUTS = ("input", "states", "params", "output_backprop")
_RESULTS = ("output", "input_backprop", "params_backprop", "unused_h", "unused_c")


class _NetworkStruct(ctypes.Structure):
    """TfRnnOps_Network."""

    _fields_ = (
        ("mode", c_char_p),
        *((name, c_int64) for name in ("time", "batch", "input_size", "units")),
        *((name, c_void_p) for name in (*_INPUTS, *_RESULTS)),
    )


class NetworkProgram(Program):
    """A network, time-major."""

    def __init__(self, case: Network, run):
        problem = network_problem(case)
        (self._weights,) = problem.weights.values()
        # cuDNN's buffer of one layer: kernels, then biases, gate by gate.
        params = np.concatenate([array.ravel() for array in self._weights.arrays().values()])
        states = np.zeros([case.batch, case.units], np.float32)
        output = np.empty([case.time, case.batch, case.units], np.float32)
        inputs = np.ascontiguousarray(problem.inputs.swapaxes(0, 1))
        self._arrays = {
            "input": inputs,
            "states": states,
            "params": params,
            "output_backprop": np.ascontiguousarray(problem.output_gradient.swapaxes(0, 1)),
            "output": output,
            "input_backprop": np.empty_like(inputs),
            "params_backprop": np.empty_like(params),
            "unused_h": np.empty_like(states),
            "unused_c": np.empty_like(states),
        }
        self._struct = _NetworkStruct(
            mode=_MODES[case.cell].encode(),
            time=case.time,
            batch=case.batch,
            input_size=case.input_size,
            units=case.units,
            **{name: array.ctypes.data for name, array in self._arrays.items()},
        )
        network = ctypes.byref(self._struct)
        self.calls = {
            task: functools.partial(run, network, is_training)
            for task, is_training in ((FORWARD, False), (FORWARD_BACKWARD, True))
        }

    def results(self, task: str) -> dict[str, np.ndarray]:
        """See the base class."""
        for name in _RESULTS:
            self._arrays[name].fill(np.nan)
        self.calls[task]()
        if task == FORWARD:
            return {"output": self._arrays["output"].swapaxes(0, 1)}
        return name_gradients(
            {"inputs": self._arrays["input_backprop"].swapaxes(0, 1)}, {"layer_0/forward": self._gradients()}
        )

    def _gradients(self) -> Weights:
        """Returns the gradients of the weights."""
        weights = list(self._weights.arrays().values())
        ends = np.cumsum([array.size for array in weights])
        parts = np.split(self._arrays["params_backprop"], ends[:-1])
        return Weights(*(part.reshape(array.shape) for part, array in zip(parts, weights, strict=True)))


class Engine(Library):
    """The CPU engine."""

    def __init__(self, threads: int):
        self._library = ctypes.CDLL(str(LIBRARY))
        self._library.TfRnnOps_NewPool.restype = c_void_p
        self._library.TfRnnOps_NewPool.argtypes = [c_int]
        self._library.TfRnnOps_InstructionSet.restype = c_char_p
        self._library.TfRnnOps_RunNetwork.argtypes = [c_void_p, ctypes.POINTER(_NetworkStruct), c_int]
        self._library.TfRnnOps_RunNetwork.restype = None
        self._pool = self._library.TfRnnOps_NewPool(threads)

    def versions(self) -> dict[str, str]:
        """See the base class."""
        return {"CPU": _cpu(), "instruction set": self._library.TfRnnOps_InstructionSet().decode()}

    def network(self, case: Network) -> Program | None:
        """See the base class."""
        if not case.is_plain:
            return None
        return NetworkProgram(case, functools.partial(self._library.TfRnnOps_RunNetwork, self._pool))


def _cpu() -> str:
    """Returns the CPU's name."""
    lines = _CPU_INFO.read_text().splitlines() if _CPU_INFO.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown CPU"
