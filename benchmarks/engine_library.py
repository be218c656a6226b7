"""The CPU engine on a plain pool of threads, without TensorFlow: benchmarks/engine_calls.cc."""

import ctypes
import functools
import pathlib
from ctypes import c_char_p, c_int, c_int64, c_void_p

import numpy as np
from cases import FORWARD, FORWARD_BACKWARD, Case
from library import Library, Program, Weights, name_gradients, problem_of, task

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


def _network_program(case: Case, run) -> Program:
    """A network, time-major."""
    problem = problem_of(case)
    (weights,) = problem.weights.values()
    states = np.zeros([case.batch, case.units], np.float32)
    inputs = np.ascontiguousarray(problem.inputs.swapaxes(0, 1))
    # cuDNN's buffer of one layer: kernels, then biases, gate by gate.
    params = np.concatenate([array.ravel() for array in weights])
    arrays = {
        "input": inputs,
        "states": states,
        "params": params,
        "output_backprop": np.ascontiguousarray(problem.output_gradient.swapaxes(0, 1)),
        "output": np.full([case.time, case.batch, case.units], np.nan, np.float32),
        "input_backprop": np.full_like(inputs, np.nan),
        "params_backprop": np.full_like(params, np.nan),
        "unused_h": np.empty_like(states),
        "unused_c": np.empty_like(states),
    }
    struct = _NetworkStruct(
        mode=_MODES[case.cell].encode(),
        time=case.time,
        batch=case.batch,
        input_size=case.input_size,
        units=case.units,
        **{name: array.ctypes.data for name, array in arrays.items()},
    )

    def gradients(_) -> dict[str, np.ndarray]:
        ends = np.cumsum([array.size for array in weights])
        parts = np.split(arrays["params_backprop"], ends[:-1])
        of_layer = Weights(*(part.reshape(array.shape) for part, array in zip(parts, weights, strict=True)))
        return name_gradients({"inputs": arrays["input_backprop"].swapaxes(0, 1)}, {"layer_0/forward": of_layer})

    forward, forward_backward = (functools.partial(run, ctypes.byref(struct), training) for training in (False, True))
    return {
        FORWARD: task(forward, lambda _: {"output": arrays["output"].swapaxes(0, 1)}),
        FORWARD_BACKWARD: task(forward_backward, gradients),
    }


class Engine(Library):
    """The CPU engine."""

    def __init__(self, threads: int):
        super().__init__(threads)
        self._library = ctypes.CDLL(str(LIBRARY))
        self._library.TfRnnOps_NewPool.restype = c_void_p
        self._library.TfRnnOps_NewPool.argtypes = [c_int]
        self._library.TfRnnOps_InstructionSet.restype = c_char_p
        self._library.TfRnnOps_RunNetwork.argtypes = [c_void_p, ctypes.POINTER(_NetworkStruct), c_int]
        self._library.TfRnnOps_RunNetwork.restype = None
        self._pool = self._library.TfRnnOps_NewPool(threads)

    def versions(self) -> dict[str, str]:
        lines = _CPU_INFO.read_text().splitlines() if _CPU_INFO.exists() else []
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        instruction_set = self._library.TfRnnOps_InstructionSet().decode()
        return {"CPU": names[0] if names else "unknown CPU", "instruction set": instruction_set}

    def program(self, case: Case) -> Program:
        if not case.is_plain:
            return {}
        return _network_program(case, functools.partial(self._library.TfRnnOps_RunNetwork, self._pool))
