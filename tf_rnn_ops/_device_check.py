"""Compares the results of all ops on a device with those on the CPU, for `python -m tf_rnn_ops --check-gpu`.

A program runs ops, some on the outputs of others. It runs on the device and on the CPU, with the same inputs and seeds,
and all outputs are compared. If an op or type with a GPU kernel is not covered by a program, the check fails. Each
family of ops is checked in its own process, because a GPU error may persist in a process.
"""

import dataclasses
import functools
import itertools
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_rnn_ops import _gpu_kernels, _library, params, raw_ops

_CPU = "CPU:0"


@dataclasses.dataclass(frozen=True)
class Precision:
    """A precision to check.

    Attributes:
      name: its name in the report.
      dtype: the dtype of the ops.
      rounding: the allowed rounding error, relative to the largest magnitude in the tensor.
      tf32: whether TF32 may be used for float32 matrix products.
    """

    name: str
    dtype: tf.DType
    rounding: float
    tf32: bool = False


PRECISIONS = (
    Precision("float64", tf.float64, 1e-12),
    Precision("float32", tf.float32, 1e-5),
    Precision("float32 as TF32", tf.float32, 1e-2, tf32=True),
    Precision("float16", tf.float16, 3e-3),
    Precision("bfloat16", tf.bfloat16, 2e-2),
)

_NETWORK_TWICE, _CELL_TWICE = (f"{op}'s second derivatives" for op in ("CudnnRNNV3", "GRUBlockCell"))
_CONVERSIONS = tuple(
    f"CudnnRNN{way}{version}" for way in ("ParamsToCanonical", "CanonicalToParams") for version in ("", "V2")
)
# The allowed difference from the CPU, as a multiple of the rounding error, since both round. Copies are exact; second
# derivatives accumulate the errors of first ones.
_ALLOWED = 2
_ALLOWED_OF = {
    **dict.fromkeys(("AlignTensor", "CudnnRNNParamsSize", *_CONVERSIONS), 0),
    **dict.fromkeys(("CudnnRNNBackpropGrad", _NETWORK_TWICE, _CELL_TWICE), 20),
}

# Outputs whose format depends on the device.
_OPAQUE = {name for facts in _library.op_table().values() for name in facts.opaque}
# Smaller tensors may contain only sums that nearly cancel, with a large relative error.
_FEW = 8


# ---------------------------------------------------------------- running and comparing


@dataclasses.dataclass(frozen=True)
class Result:
    """The outputs of an op.

    Attributes:
      op: the name of the op, without the namespace.
      outputs: its outputs by name, as float64 arrays or lists of arrays.
      regions: by output, slices that are also compared separately.
    """

    op: str
    outputs: Mapping[str, Any]
    regions: Mapping[str, Sequence[slice]]


class Run:
    """Runs ops on a device and keeps their outputs.

    Attributes:
      results: the outputs of the ops, in the order in which they ran.
      op: the op or function that ran last.

    Args:
      device: the name of the device.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self.results: list[Result] = []
        self.op = ""
        # Clears TensorFlow's cache of kernels, so that the dropout of each op starts from its seeds.
        tf.random.set_seed(0)

    def __call__(self, op: str, regions: Mapping[str, Sequence[slice]] | None = None, **arguments: Any) -> Any:
        """Runs an op and returns its outputs.

        Raises:
          RuntimeError: if TensorFlow ran the op on another device.
        """
        self.op = op
        outputs = run_op(op, self._device, arguments)
        for each in tf.nest.flatten(outputs):
            if not each.device.endswith(self._device):
                raise RuntimeError(f"{op} must run on {self._device}, but TensorFlow ran it on {each.device}")
        by_name = outputs._asdict() if hasattr(outputs, "_asdict") else {"output": outputs}
        self._keep(op, {name: value for name, value in by_name.items() if name not in _OPAQUE}, regions or {})
        return outputs

    def function(self, name: str, function: Callable[..., Mapping[str, tf.Tensor]], *arguments: Any) -> None:
        """Runs a function of several ops as one graph, and keeps its results.

        Args:
          name: the name to report instead of the name of an op.
          function: the function. It returns tensors by name.
          *arguments: its arguments.
        """
        self.op = name
        with tf.device(self._device):
            self._keep(name, tf.function(function, autograph=False)(*arguments), {})

    def _keep(self, op: str, outputs: Mapping[str, Any], regions: Mapping[str, Sequence[slice]]) -> None:
        self.results.append(Result(op, tf.nest.map_structure(_to_float64, dict(outputs)), regions))


def run_op(op: str, device: str, arguments: Mapping[str, Any]) -> Any:
    """Runs an op of the library, by its name without the namespace, on a device."""
    with tf.device(device):
        return getattr(_library.ops, f"TfRnnOps_{op}")(**arguments)


def _to_float64(tensor: tf.Tensor) -> np.ndarray:
    return np.asarray(tensor.numpy()).astype(np.float64)


def largest_difference(actual: Result, expected: Result) -> float:
    """Returns the largest difference of any output, relative to the largest magnitude of the expected one."""
    if actual.op != expected.op:
        raise ValueError(f"both results must be of the same op, but are of {actual.op} and {expected.op}")
    return max(
        (
            _difference(a, b, expected.regions.get(name, ()))
            for name, wanted in expected.outputs.items()
            for a, b in zip(tf.nest.flatten(actual.outputs[name]), tf.nest.flatten(wanted), strict=True)
        ),
        default=0.0,
    )


def _difference(actual: np.ndarray, expected: np.ndarray, regions: Sequence[slice]) -> float:
    """Returns the relative difference of two arrays and of regions in them; infinity if shapes differ or for NaNs."""
    if actual.shape != expected.shape or not (np.isfinite(actual).all() and np.isfinite(expected).all()):
        return np.inf
    error = np.max(np.abs(actual - expected), initial=0.0)
    if error == 0:
        return 0.0
    magnitude = np.max(np.abs(expected))
    relative = error / magnitude if magnitude > 0 else np.inf
    return float(max([relative, *(_difference(actual[region], expected[region], ()) for region in regions)]))


# ---------------------------------------------------------------- networks

INPUTS = ("input", "input_h", "input_c", "params")
OUTPUTS = ("output", "output_h", "output_c")
MODES = ("lstm", "gru", "rnn_tanh", "rnn_relu")
DIRECTIONS = ("unidirectional", "bidirectional")
VERSIONS = ("", "V2", "V3")
SEEDS: dict[str, Any] = {"seed": 3, "seed2": 4}


@dataclasses.dataclass(frozen=True)
class Network:
    """A network and the size of its inputs. Other attributes are those of the ops.

    Attributes:
      size: time, batch, input_size and num_units.
      lengths: the sequence lengths, [batch], or None for full length.
    """

    rnn_mode: str
    direction: str = "unidirectional"
    num_layers: int = 1
    input_mode: str = "linear_input"
    num_proj: int = 0
    time_major: bool = True
    dropout: float = 0.0
    size: tuple[int, int, int, int] = (5, 4, 10, 12)
    lengths: tuple[int, ...] | None = None

    @property
    def layout(self) -> params.Layout:
        """The layout of its params."""
        _, _, input_size, num_units = self.size
        return params.layout(
            self.rnn_mode, num_units, input_size, self.num_layers, self.direction, self.input_mode, self.num_proj
        )

    @property
    def versions(self) -> Sequence[str]:
        """The versions of the op that support it."""
        needs_v3 = self.num_proj or not self.time_major or self.lengths is not None
        return VERSIONS[2:] if needs_v3 else VERSIONS

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of inputs and outputs. Only an LSTM has cell states."""
        time, batch, input_size, num_units = self.size
        directions = DIRECTIONS.index(self.direction) + 1
        output_size = self.num_proj or num_units
        states = self._major(self.num_layers * directions, batch, output_size)
        cells = self._major(self.num_layers * directions, batch, num_units) if self.rnn_mode == "lstm" else ()
        return {
            "input": self._major(time, batch, input_size),
            "input_h": states,
            "input_c": cells,
            "params": (sum(region.size for region in self.layout.values()),),
            "output": self._major(time, batch, directions * output_size),
            "output_h": states,
            "output_c": cells,
        }

    def _major(self, first: int, batch: int, last: int) -> tuple[int, ...]:
        return (first, batch, last) if self.time_major else (batch, first, last)

    def attributes(self, *others: str) -> dict[str, Any]:
        """Returns the attributes that all versions have, and those named in `others`."""
        return {name: getattr(self, name) for name in ("rnn_mode", "input_mode", "direction", "dropout", *others)}

    @property
    def sequence_lengths(self) -> np.ndarray:
        """The number of steps of each sequence, [batch]."""
        time, batch, _, _ = self.size
        return np.array((time,) * batch if self.lengths is None else self.lengths, np.int32)


def networks() -> Iterator[Network]:
    """Yields networks of every mode, direction, number of layers and kind."""
    few_and_no_steps = (5, 0, 2, 3)
    for mode, direction, num_layers in itertools.product(MODES, DIRECTIONS, (1, 3)):
        plain = Network(mode, direction, num_layers)
        change = functools.partial(dataclasses.replace, plain)
        yield plain
        yield change(time_major=False)
        yield change(lengths=few_and_no_steps)
        yield change(input_mode="skip_input", size=(5, 4, 12, 12))
        yield change(input_mode="auto_select", size=(5, 4, 12, 12))
        # cuDNN chooses its algorithm by these sizes.
        yield change(size=(20, 32, 64, 128))
        yield change(size=(4, 8, 16, 112))
        if mode == "lstm":
            yield change(num_proj=8, lengths=few_and_no_steps, time_major=False)
        if num_layers == 1:
            yield change(size=(4, 8, 128, 512))
        if num_layers > 1:
            yield from (change(dropout=rate) for rate in (0.3, 1.0))
            yield change(dropout=0.5, lengths=few_and_no_steps, time_major=False)
    for size in ((0, 4, 10, 12), (5, 0, 10, 12), (5, 4, 0, 12), (1, 1, 8, 8)):
        yield from (Network(mode, "bidirectional", 2, size=size) for mode in MODES)


@functools.cache
def network_inputs(network: Network, dtype: tf.DType) -> dict[str, tf.Tensor]:
    """Returns the floating-point inputs of a network.

    They keep the inputs of ReLUs away from 0, where rounding could change the gradient.
    """
    rng = np.random.default_rng(0)
    arrays = {name: rng.uniform(-1, 1, network.shapes[name]) for name in INPUTS}
    for region in network.layout.values():
        arrays["params"][region.offset : region.offset + region.size] = _weights(network, region, rng).ravel()
    return _cast(arrays, dtype)


def _weights(network: Network, region: params.Region, rng: np.random.Generator) -> np.ndarray:
    """Returns a matrix or a bias."""
    is_bias = len(region.shape) == 1
    values = rng.standard_normal(region.shape) / (1 if is_bias else max(1, region.shape[-1]) ** 0.5)
    if network.rnn_mode != "rnn_relu":
        return values
    # Large biases, so that each ReLU is on or off for all inputs.
    return np.copysign(6, values) if region.kind == "input_bias" else values / 8


def random_like(shapes: Mapping[str, tuple[int, ...]], dtype: tf.DType, seed: int) -> dict[str, tf.Tensor]:
    """Returns random tensors of the given shapes, by name."""
    rng = np.random.default_rng(seed)
    return _cast({name: rng.standard_normal(shape) for name, shape in shapes.items()}, dtype)


def _cast(arrays: Mapping[str, Any], dtype: tf.DType) -> dict[str, tf.Tensor]:
    with tf.device(_CPU):
        return {name: tf.cast(tf.constant(value, tf.float64), dtype) for name, value in arrays.items()}


def run_network(network: Network, version: str, run: Run, dtype: tf.DType) -> None:
    """Runs a network in training and inference, its gradients and their gradients."""
    inputs, shapes = network_inputs(network, dtype), network.shapes
    gradients = random_like({f"{name}_backprop": shapes[name] for name in OUTPUTS}, dtype, 1)
    lengths = {"sequence_lengths": network.sequence_lengths} if version == "V3" else {}
    names = ("num_proj", "time_major")
    common = {**inputs, **lengths, **network.attributes(*(names if version == "V3" else ()))}
    regions = [slice(each.offset, each.offset + each.size) for each in network.layout.values() if each.size >= _FEW]

    run(f"CudnnRNN{version}", **common, **SEEDS, is_training=False)
    outputs = run(f"CudnnRNN{version}", **common, **SEEDS)
    run(f"CudnnRNNBackprop{version}", {"params_backprop": regions}, **common, **outputs._asdict(), **gradients)
    if version != "V3":
        return
    run("StatelessCudnnRNN", **common, seed=tf.constant(list(SEEDS.values()), tf.int64))
    second = random_like({f"{name}_backprop_grad": shapes[name] for name in INPUTS}, dtype, 2)
    kept = {"reserve_space": outputs.reserve_space}
    run(
        "CudnnRNNBackpropGrad", {"params_grad": regions}, **common, **kept, output=outputs.output, **gradients, **second
    )
    if network.dropout > 0 and network.num_layers > 1:
        for masks_type in (tf.float32, tf.float64):
            run("CudnnRNNDropoutMasks", **common, **kept, masks_type=masks_type)


def differentiate_network_twice(network: Network, run: Run, dtype: tf.DType) -> None:
    """Runs the gradients of a network's gradients, with nested tapes in a graph."""

    def outputs(inputs: Mapping[str, tf.Tensor]) -> Sequence[tf.Tensor]:
        lengths = network.sequence_lengths
        return raw_ops.CudnnRNNV3(
            **inputs, **SEEDS, **network.attributes("num_proj", "time_major"), sequence_lengths=lengths
        )[:3]

    inputs = network_inputs(network, dtype)
    towards = random_like({name: each.shape for name, each in inputs.items()}, dtype, 1)
    run.function(_NETWORK_TWICE, functools.partial(_second_derivatives, outputs), inputs, towards)


def _second_derivatives(
    function: Callable[[Mapping[str, tf.Tensor]], Sequence[tf.Tensor]],
    inputs: Mapping[str, tf.Tensor],
    towards: Mapping[str, tf.Tensor],
) -> dict[str, tf.Tensor]:
    """Differentiates a function's gradients with respect to its inputs.

    Args:
      function: takes tensors by name.
      inputs: its argument.
      towards: the direction: factors for the gradients, with the shapes of the inputs.

    Returns:
      The gradients, by name, of the sum of the products of gradients and factors.
    """
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        with tf.GradientTape() as inner:
            inner.watch(inputs)
            value = tf.add_n([tf.reduce_sum(tf.sin(each)) for each in function(inputs)])
        first = inner.gradient(value, inputs)
        product = tf.add_n([tf.reduce_sum(first[name] * each) for name, each in towards.items()])
    return tape.gradient(product, inputs, unconnected_gradients=tf.UnconnectedGradients.ZERO)


# ---------------------------------------------------------------- params, cells and copies


def convert_params(network: Network, run: Run, dtype: tf.DType) -> None:
    """Runs the ops that size, split and join the params of a network."""
    _, _, input_size, num_units = network.size
    sizes = {"num_layers": network.num_layers, "num_units": num_units, "input_size": input_size}
    common: dict[str, Any] = {**sizes, **network.attributes()}
    values = network_inputs(network, dtype)["params"]
    biases = sum(len(region.shape) == 1 for region in network.layout.values())
    # With skip_input, the op has empty matrices, which the layout omits.
    weights = biases + sum(region.kind == "projection" for region in network.layout.values())
    counts: dict[str, Any] = {"num_params_weights": weights, "num_params_biases": biases}
    for size_type in (tf.int32, tf.int64):
        run("CudnnRNNParamsSize", **common, num_proj=network.num_proj, T=dtype, S=size_type)
    canonical = run("CudnnRNNParamsToCanonicalV2", **common, params=values, **counts, num_proj=network.num_proj)
    run("CudnnRNNCanonicalToParamsV2", **common, **canonical._asdict(), num_proj=network.num_proj)
    if not network.num_proj:
        canonical = run("CudnnRNNParamsToCanonical", **common, params=values, num_params=biases)
        run("CudnnRNNCanonicalToParams", **common, **canonical._asdict())


def cell_inputs(size: tuple[int, int, int], dtype: tf.DType) -> dict[str, tf.Tensor]:
    """Returns the inputs of a GRU cell with this batch, input_size and cell_size."""
    batch, input_size, cell_size = size
    fan_in = input_size + cell_size
    shapes = {
        "x": (batch, input_size),
        "h_prev": (batch, cell_size),
        "w_ru": (fan_in, 2 * cell_size),
        "w_c": (fan_in, cell_size),
        "b_ru": (2 * cell_size,),
        "b_c": (cell_size,),
    }
    inputs = random_like(shapes, tf.float64, 0)
    return _cast({**inputs, **{name: inputs[name] / fan_in**0.5 for name in ("w_ru", "w_c")}}, dtype)


def run_cell(size: tuple[int, int, int], run: Run, dtype: tf.DType) -> None:
    """Runs a step of a GRU cell, its gradients and their gradients."""
    inputs = cell_inputs(size, dtype)
    gates = run("GRUBlockCell", **inputs)
    step = {**inputs, **{name: getattr(gates, name) for name in "ruc"}}
    batch, _, cell_size = size
    gradients = random_like({f"d_{name}": (batch, cell_size) for name in "ruch"}, dtype, 1)
    run("GRUBlockCellGrad", **step, d_h=gradients["d_h"])
    run("GRUBlockCellGradV2", **step, **gradients)
    second = functools.partial(_second_derivatives, lambda inputs: raw_ops.GRUBlockCell(**inputs))
    run.function(_CELL_TWICE, second, inputs, random_like({name: x.shape for name, x in inputs.items()}, dtype, 1))


def align(run: Run, dtype: tf.DType) -> None:
    """Runs the op that aligns tensors."""
    for shape in ((), (0, 3), (5, 7)):
        run("AlignTensor", **random_like({"tensor": shape}, dtype, 0))


Program = Callable[[Run, tf.DType], None]


def _network_programs() -> Iterator[Program]:
    for network in networks():
        yield from (functools.partial(run_network, network, version) for version in network.versions)
    for mode, dropout in itertools.product(MODES, (0.0, 0.5)):
        twice = Network(mode, "bidirectional", 2, dropout=dropout, lengths=(5, 0, 2, 3))
        yield functools.partial(differentiate_network_twice, twice)


def _params_programs() -> Iterator[Program]:
    # The params of a network do not depend on its other attributes.
    kinds = dict.fromkeys(
        dataclasses.replace(each, size=(1, 1, *each.size[2:]), lengths=None, time_major=True, dropout=0.0)
        for each in networks()
    )
    return (functools.partial(convert_params, kind) for kind in kinds)


def _cell_programs() -> Iterator[Program]:
    # batch, input_size, cell_size
    sizes = ((1, 1, 1), (3, 7, 13), (33, 65, 31), (1, 5, 257), (64, 128, 256), (0, 3, 4), (3, 0, 4))
    return (functools.partial(run_cell, size) for size in sizes)


@dataclasses.dataclass(frozen=True)
class Family:
    """Ops that are checked together, in one process.

    Attributes:
      ops: the names of the ops.
      programs: returns the programs that run them.
      functions: the names of functions of several ops that the programs also run.
    """

    ops: Sequence[str]
    programs: Callable[[], Iterable[Program]]
    functions: Sequence[str] = ()


FAMILIES = {
    "networks": Family(
        [
            *(f"CudnnRNN{kind}{version}" for kind in ("", "Backprop") for version in VERSIONS),
            "CudnnRNNBackpropGrad",
            "CudnnRNNDropoutMasks",
            "StatelessCudnnRNN",
        ],
        _network_programs,
        [_NETWORK_TWICE],
    ),
    "params": Family(["CudnnRNNParamsSize", *_CONVERSIONS], _params_programs),
    "cells": Family(["GRUBlockCell", "GRUBlockCellGrad", "GRUBlockCellGradV2"], _cell_programs, [_CELL_TWICE]),
    "copies": Family(["AlignTensor"], lambda: [align]),
}


# ---------------------------------------------------------------- the check


@dataclasses.dataclass
class _Row:
    """The result of the check of an op in one precision.

    Attributes:
      cases: the number of compared results.
      difference: the largest difference.
      program: the program with the largest difference, or None if all results are equal.
      error: the error message if the op failed, or None.
    """

    cases: int = 0
    difference: float = 0.0
    program: Program | None = None
    error: str | None = None

    def add(self, difference: float, program: Program) -> None:
        """Adds the difference of one result of a program."""
        self.cases += 1
        if difference > self.difference:
            self.difference, self.program = difference, program

    def agrees(self, allowed: float) -> bool:
        """Returns whether there were results, and no difference is larger than allowed."""
        return self.error is None and self.cases > 0 and self.difference <= allowed


def ops_without_a_program() -> list[str]:
    """Returns the ops that have GPU kernels but are in no family."""
    known = {op for family in FAMILIES.values() for op in family.ops}
    return [op for op in _library.kernel_dtypes("GPU") if op not in known]


def check_family(name: str, device: str, precisions: Iterable[Precision] = PRECISIONS) -> bool:
    """Compares the ops of a family on a device with the CPU, and prints a line for each op and type.

    If results differ, the next line names the case that differs most.

    Args:
      name: the family's name in `FAMILIES`.
      device: the name of the device.
      precisions: the precisions to check.

    Returns:
      Whether all agree.
    """
    family, dtypes = FAMILIES[name], _library.kernel_dtypes("GPU")
    all_agree = True
    for precision in precisions:
        ops = [op for op in family.ops if precision.dtype.name in dtypes.get(op, ())]
        rows = {each: _Row() for each in (*ops, *family.functions)}
        tf.config.experimental.enable_tensor_float_32_execution(precision.tf32)
        for program in family.programs():
            _compare(program, device, precision.dtype, rows)
        for each, row in rows.items():
            allowed = _ALLOWED_OF.get(each, _ALLOWED) * precision.rounding
            all_agree &= row.agrees(allowed)
            print(_to_line(each, precision, row, allowed), flush=True)
    return all_agree


def _compare(program: Program, device: str, dtype: tf.DType, rows: Mapping[str, _Row]) -> None:
    """Runs a program on both devices and adds the differences to the rows of its ops. Skips ops without a row.

    If an op fails on the device, the rest of the program is not run there.
    """
    expected = Run(_CPU)
    program(expected, dtype)
    actual = Run(device)
    try:
        program(actual, dtype)
    except Exception as error:
        if actual.op in rows:
            rows[actual.op].error = " ".join(f"{type(error).__name__}: {error}".split())
    for ours, wanted in zip(actual.results, expected.results, strict=False):
        if ours.op in rows:
            rows[ours.op].add(largest_difference(ours, wanted), program)


_LINE = "{:<34}{:<17}{:>6}  {:>10}  {:>8}  {}"
HEAD = _LINE.format("op", "type", "cases", "difference", "allowed", "result")


def _to_line(name: str, precision: Precision, row: _Row, allowed: float) -> str:
    verdict = "agrees" if row.agrees(allowed) else row.error or ("DIFFERS" if row.cases else "not run")
    line = _LINE.format(name, precision.name, row.cases, f"{row.difference:.1e}", f"{allowed:.0e}", verdict)
    return f"{line}\n    most for {_case_of(row.program)}" if verdict == "DIFFERS" else line


def _case_of(program: Program | None) -> str:
    """Returns the case that a program runs: a network's fields that are not the default, or the size of a cell."""
    if not isinstance(program, functools.partial):
        return "the only case"
    case = program.args[0]
    if not isinstance(case, Network):
        return f"size={case}"
    fields = {each.name: (getattr(case, each.name), each.default) for each in dataclasses.fields(case)}
    return ", ".join(f"{name}={value!r}" for name, (value, default) in fields.items() if value != default)


# The exit code of a process that found a difference. Python itself does not use it.
_DIFFERS = 3


def _check_in_this_process(name: str, device: str) -> None:
    sys.exit(0 if check_family(name, device) else _DIFFERS)


def _check_in_new_process(name: str, device: str) -> str | None:
    """Checks a family in a new process. Returns the problem, or None if all agree."""
    process = multiprocessing.get_context("spawn").Process(target=_check_in_this_process, args=(name, device))
    process.start()
    process.join()
    if process.exitcode in (0, _DIFFERS):
        return f"{name}: results differ" if process.exitcode else None
    return f"{name}: the process of this check ended with exit code {process.exitcode}"


def why_not_possible(device: str) -> str | None:
    """Returns why a device cannot be checked, or None if it can."""
    kind = device.partition(":")[0]
    if not _library.kernel_dtypes("CPU"):
        return "this version of TensorFlow does not list its kernels"
    if _gpu_kernels.why_not_loaded():
        return f"the GPU library is not loaded: {_gpu_kernels.why_not_loaded()}"
    if not tf.config.list_physical_devices(kind):
        has_cuda = tf.test.is_built_with_cuda()
        return f"TensorFlow sees no {kind}" + ("" if has_cuda else ": this TensorFlow is built without CUDA")
    missing = [line for line in _gpu_kernels.opened_libraries() if "cannot be opened" in line]
    return f"an NVIDIA library is missing: {'; '.join(missing)}" if kind == "GPU" and missing else None


def check(device: str = "GPU:0") -> bool:
    """Compares all ops and types on a device with the CPU. Prints a line for each, and the result.

    Args:
      device: the name of the device.

    Returns:
      Whether all agree.
    """
    # The processes of the checks inherit these variables.
    os.environ[_gpu_kernels.VARIABLE] = "1"
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    _gpu_kernels.load_if_wanted()
    problem = why_not_possible(device)
    if problem:
        print(f"Cannot check {device}: {problem}")
        return False
    print(HEAD, flush=True)
    problems = [f"{op}: not covered by this check" for op in ops_without_a_program()]
    problems += filter(None, (_check_in_new_process(name, device) for name in FAMILIES))
    if problems:
        print(
            f"\nThe results on {device} and the CPU do NOT agree ({'; '.join(problems)}). "
            f"Set {_gpu_kernels.VARIABLE}=0 to use the CPU, and report this output as a bug."
        )
    else:
        print(f"\nThe results on {device} and the CPU agree for all ops and types.")
    return not problems
