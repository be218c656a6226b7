"""Tests of `python -m tf_rnn_ops --check-gpu` on the CPU: comparisons, failures and messages."""

import dataclasses
import functools
import json
import random
import re

import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from environment import families_in_processes, forked, processes
from references import cudnn_rnn as reference
from tensorflow.python.framework import op_def_registry

import tf_rnn_ops
from tf_rnn_ops import _device_check, _gpu_kernels, _library
from tf_rnn_ops._device_check import FAMILIES, PRECISIONS, Network

DEVICE = "CPU:1"
FLOAT32 = PRECISIONS[1:2]
# Networks that run every op, and whose outputs are not all zeros.
NETWORKS = [
    Network("lstm", "bidirectional", 2, dropout=0.5),
    Network("lstm", num_proj=8, lengths=(5, 0, 2, 3), time_major=False),
]
FEW_PROGRAMS = {
    "networks": [
        *(functools.partial(_device_check.run_network, NETWORKS[0], version) for version in _device_check.VERSIONS),
        functools.partial(_device_check.run_network, NETWORKS[1], "V3"),
        functools.partial(_device_check.differentiate_network_twice, NETWORKS[0]),
    ],
    "params": [functools.partial(_device_check.convert_params, network) for network in NETWORKS],
    "cells": [functools.partial(_device_check.run_cell, (3, 7, 13))],
    "copies": [_device_check.align],
}
OUTPUTS = [
    (family, op, output.name)
    for family, of_family in FAMILIES.items()
    for op in of_family.ops
    for output in op_def_registry.get(f"TfRnnOps>{op}").output_arg
    if output.name not in ("reserve_space", "host_reserved")
]


@pytest.fixture(scope="module")
def gpu_kernel_dtypes():
    """The dtypes of the GPU kernels by op. Loaded in another process."""
    code = "import json; from tf_rnn_ops import _library; print(json.dumps(_library.kernel_dtypes('GPU')))"
    return json.loads(forked.run_code(f"import tf_rnn_ops\n{code}", TF_RNN_OPS_GPU="1"))


@pytest.fixture(autouse=True)
def registered(monkeypatch, gpu_kernel_dtypes):
    """Pretends that GPU kernels are loaded, for every op of the check."""
    ops = {op: ["float32"] for family in FAMILIES.values() for op in family.ops}
    table = {**ops, **gpu_kernel_dtypes}
    monkeypatch.setattr(_library, "kernel_dtypes", lambda device: table)
    yield table
    tf.config.experimental.enable_tensor_float_32_execution(False)


@pytest.fixture
def few_programs(monkeypatch):
    """Limits each family to a few programs."""
    for name, programs in FEW_PROGRAMS.items():
        few = dataclasses.replace(FAMILIES[name], programs=lambda programs=programs: programs)
        monkeypatch.setitem(FAMILIES, name, few)


def lines_of(printed):
    """Returns (name, type, cases, difference, allowed, verdict) of each printed line that is not indented."""
    return [
        re.fullmatch(r"(.{34})(.{17})(.{6})  (.{10})  (.{8})  (.*)", line).groups()
        for line in printed.splitlines()
        if not line.startswith(" ")
    ]


def verdicts(printed):
    """Returns the verdict of each printed line, by op or function."""
    return {line[0].strip(): line[-1] for line in lines_of(printed)}


# ---------------------------------------------------------------- comparisons


def test_every_op_with_a_gpu_kernel_is_compared(gpu_kernel_dtypes):
    assert len(gpu_kernel_dtypes) >= 15
    assert _device_check.ops_without_a_program() == []
    of_users = {op for op in tf_rnn_ops.raw_ops.__all__ if op in gpu_kernel_dtypes}
    assert of_users <= {op for family in FAMILIES.values() for op in family.ops}


def test_every_dtype_of_the_kernels_is_compared(gpu_kernel_dtypes):
    compared = {each.dtype.name for each in PRECISIONS}
    assert compared == {name for dtypes in gpu_kernel_dtypes.values() for name in dtypes}


def test_networks_of_every_kind_are_compared():
    networks = list(_device_check.networks())
    found = {(each.rnn_mode, each.direction, each.num_layers) for each in networks}
    assert len({(mode, direction, layers) for mode, direction, layers in found if layers in (1, 3)}) == 16
    for mode in _device_check.MODES:
        of_mode = [each for each in networks if each.rnn_mode == mode]
        assert {each.input_mode for each in of_mode} == {"linear_input", "skip_input", "auto_select"}
        assert {each.time_major for each in of_mode} == {False, True}
        assert any(0 in each.sequence_lengths for each in of_mode)
        assert {each.dropout for each in of_mode if each.num_layers > 1} >= {0.0, 0.3, 0.5, 1.0}
        assert {size for each in of_mode for size in each.size} >= {0, 1, 128}
    assert any(each.num_proj for each in networks)
    assert {version for each in networks for version in each.versions} == set(_device_check.VERSIONS)


@pytest.mark.parametrize("network", [each for each in _device_check.networks() if each.rnn_mode == "rnn_relu"], ids=str)
def test_relu_inputs_are_not_near_0(network):
    """The slope of ReLU changes at 0."""
    time, batch, input_size, num_units = network.size
    names = ("rnn_mode", "direction", "num_layers", "input_mode", "num_proj", "time_major")
    config = reference.Config(
        **{name: getattr(network, name) for name in names},
        time=time,
        batch=batch,
        input_size=input_size,
        num_units=num_units,
        sequence_lengths=network.lengths,
    )
    inputs = {name: parity.to_float64(each) for name, each in _device_check.network_inputs(network, tf.float64).items()}
    rng = np.random.default_rng(0)
    directions = _device_check.DIRECTIONS.index(network.direction) + 1
    shape = (time, batch, directions * num_units)
    scale = 0.0 if network.dropout == 1 else 1 / (1 - network.dropout)
    masks = [scale * (rng.random(shape) >= network.dropout) for _ in range(network.num_layers - 1)]
    assert reference.nearest_to_the_kink(reference.forward(config, **inputs, masks=masks)) > 0.5


@pytest.mark.parametrize("name", FAMILIES)
def test_some_programs_of_a_family_run(name):
    """The others run on GPUs only."""
    programs = list(FAMILIES[name].programs())
    for program in random.Random(0).sample(programs, min(len(programs), 3)):
        run = _device_check.Run("CPU:0")
        program(run, tf.float32)
        assert all(_device_check.largest_difference(each, each) == 0 for each in run.results)


def test_results_of_two_ops_cannot_be_compared():
    one, other = (_device_check.Result(op, {}, {}) for op in ("AlignTensor", "CudnnRNN"))
    with pytest.raises(ValueError, match="both results must be of the same op, but are of AlignTensor and CudnnRNN"):
        _device_check.largest_difference(one, other)


# ---------------------------------------------------------------- failures


@pytest.mark.usefixtures("few_programs")
@pytest.mark.parametrize("name", FAMILIES)
def test_a_device_with_equal_results_agrees(name, capsys):
    assert _device_check.check_family(name, DEVICE)
    lines = lines_of(capsys.readouterr().out)
    assert {line[-1] for line in lines} == {"agrees"}
    family = FAMILIES[name]
    assert {line[0].strip() for line in lines} == {*family.ops, *family.functions}
    assert {line[1].strip() for line in lines} == {each.name for each in PRECISIONS}
    assert all(int(line[2]) > 0 for line in lines)


def corrupt(monkeypatch, op, output, change):
    """Changes an output of an op on the checked device."""
    run_op = _device_check.run_op

    def run_corrupted(name, device, arguments):
        outputs = run_op(name, device, arguments)
        if (name, device) != (op, DEVICE):
            return outputs
        with tf.device(device):
            if hasattr(outputs, "_replace"):
                return outputs._replace(**{output: tf.nest.map_structure(change, getattr(outputs, output))})
            return tf.nest.map_structure(change, outputs)

    monkeypatch.setattr(_device_check, "run_op", run_corrupted)


def slightly_more(tensor):
    return tensor * 1.001 if tensor.dtype.is_floating else tensor + 1


def slightly_larger_bias(gradient):
    """Changes a bias next to larger matrices."""
    region = NETWORKS[0].layout["layer_1/forward/recurrent_bias/i"]
    factor = np.ones(gradient.shape, np.float32)
    factor[region.offset : region.offset + region.size] = 1.0001
    return gradient * factor


@pytest.mark.usefixtures("few_programs")
@pytest.mark.parametrize(
    ("family", "op", "output", "change"),
    [
        *((*each, slightly_more) for each in OUTPUTS),
        ("networks", "CudnnRNNBackpropV3", "params_backprop", slightly_larger_bias),
        ("cells", "GRUBlockCell", "h", lambda tensor: tensor + np.nan),
        ("cells", "GRUBlockCell", "h", lambda tensor: tensor + np.inf),
    ],
)
def test_a_wrong_output_differs(family, op, output, change, monkeypatch, capsys):
    corrupt(monkeypatch, op, output, change)
    assert not _device_check.check_family(family, DEVICE, FLOAT32)
    assert verdicts(capsys.readouterr().out)[op] == "DIFFERS"


@pytest.mark.usefixtures("few_programs")
@pytest.mark.parametrize(
    ("family", "op", "output", "case"),
    [
        (
            "networks",
            "CudnnRNNV3",
            "output",
            "rnn_mode='lstm', num_proj=8, time_major=False, lengths=(5, 0, 2, 3)",
        ),
        ("cells", "GRUBlockCell", "h", "size=(3, 7, 13)"),
        ("copies", "AlignTensor", "output", "the only case"),
    ],
)
def test_the_case_that_differs_most_is_named(family, op, output, case, monkeypatch, capsys):
    smallest = 4 * 5 * 8  # elements of the output of the second network
    corrupt(monkeypatch, op, output, lambda tensor: tensor * (1.01 if tf.size(tensor) <= smallest else 1.001))
    assert not _device_check.check_family(family, DEVICE, FLOAT32)
    assert re.search(rf"^{op} .* DIFFERS\n    most for {re.escape(case)}$", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.usefixtures("few_programs")
@pytest.mark.parametrize("name", ["networks", "cells"])
def test_wrong_second_derivatives_differ(name, monkeypatch, capsys):
    run_function = _device_check.Run.function

    def run_corrupted(run, *arguments):
        run_function(run, *arguments)
        if run._device == DEVICE:
            outputs = run.results[-1].outputs
            outputs[next(iter(outputs))] *= 1.001

    monkeypatch.setattr(_device_check.Run, "function", run_corrupted)
    assert not _device_check.check_family(name, DEVICE, FLOAT32)
    found = verdicts(capsys.readouterr().out)
    (function,) = FAMILIES[name].functions
    assert found.pop(function) == "DIFFERS"
    assert set(found.values()) == {"agrees"}


@pytest.mark.usefixtures("few_programs")
def test_a_failing_op_is_named_and_the_others_run(monkeypatch, capsys):
    def fail(_):
        raise tf.errors.UnimplementedError(None, None, "cuDNN says\nno")

    corrupt(monkeypatch, "CudnnRNNBackpropV2", "input_backprop", fail)
    assert not _device_check.check_family("networks", DEVICE, FLOAT32)
    found = verdicts(capsys.readouterr().out)
    assert found.pop("CudnnRNNBackpropV2") == "UnimplementedError: cuDNN says no"
    assert set(found.values()) == {"agrees"}


@pytest.mark.usefixtures("few_programs")
def test_an_op_on_another_device_fails(monkeypatch, capsys):
    run_op = _device_check.run_op
    monkeypatch.setattr(_device_check, "run_op", lambda op, device, arguments: run_op(op, "CPU:0", arguments))
    assert not _device_check.check_family("copies", DEVICE, FLOAT32)
    assert re.match(
        r"RuntimeError: AlignTensor must run on CPU:1, but .*CPU:0", *verdicts(capsys.readouterr().out).values()
    )


def test_an_op_that_no_program_runs_fails(monkeypatch, capsys):
    monkeypatch.setitem(FAMILIES, "copies", dataclasses.replace(FAMILIES["copies"], programs=lambda: []))
    assert not _device_check.check_family("copies", DEVICE, FLOAT32)
    assert verdicts(capsys.readouterr().out) == {"AlignTensor": "not run"}


# ---------------------------------------------------------------- the complete check


@pytest.fixture
def possible(monkeypatch):
    """Allows the check to run, and restores the environment variables that it changes."""
    monkeypatch.setenv(_gpu_kernels.VARIABLE, "0")
    monkeypatch.setenv("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    monkeypatch.setattr(_gpu_kernels, "load_if_wanted", lambda: None)
    monkeypatch.setattr(_device_check, "why_not_possible", lambda device: None)


@pytest.mark.usefixtures("possible")
def test_the_verdict_names_differences_and_crashes(monkeypatch, capsys):
    monkeypatch.setattr(_device_check, "_check_in_this_process", families_in_processes.end_in_different_ways)
    assert not _device_check.check(DEVICE)
    assert capsys.readouterr().out.splitlines()[-1] == (
        "The results on CPU:1 and the CPU do NOT agree (params: results differ; cells: the process of this check ended "
        "with exit code -11; copies: the process of this check ended with exit code 1). Set TF_RNN_OPS_GPU=0 to use "
        "the CPU, and report this output as a bug."
    )


@pytest.mark.usefixtures("possible")
def test_a_new_op_that_is_not_compared_fails_the_verdict(monkeypatch, capsys, registered):
    monkeypatch.setattr(_device_check, "_check_in_new_process", lambda name, device: None)
    assert _device_check.check(DEVICE)
    assert capsys.readouterr().out.endswith("\nThe results on CPU:1 and the CPU agree for all ops and types.\n")
    registered["NewOp"] = ["float32"]
    assert not _device_check.check(DEVICE)
    assert "do NOT agree (NewOp: not covered by this check)" in capsys.readouterr().out


@pytest.mark.slow
def test_the_cpu_agrees_with_itself_in_separate_processes():
    printed = processes.run_code("from tf_rnn_ops import _device_check\nassert _device_check.check('CPU:0')")
    head, *lines, empty, verdict = printed.splitlines()
    assert (head, empty) == (_device_check.HEAD, "")
    assert verdict == "The results on CPU:0 and the CPU agree for all ops and types."
    assert {line[-1] for line in lines_of("\n".join(lines))} == {"agrees"}
    for family in FAMILIES.values():
        for precision in PRECISIONS:
            for function in family.functions:
                assert any(line.startswith(f"{function:<34}{precision.name:<17}") for line in lines)


# ---------------------------------------------------------------- messages if it cannot run


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="TensorFlow sees a GPU")
@pytest.mark.parametrize("value", ["0", "1", ""])
def test_a_missing_gpu_is_reported(value):
    """Regardless of the environment variable: the check always loads the library."""
    ended = forked.run(forked.COMMAND, "--check-gpu", TF_RNN_OPS_GPU=value)
    assert ended.status == 1
    assert ended.printed.startswith("Cannot check GPU:0: TensorFlow sees no GPU")
    assert len(ended.printed.splitlines()) == 1


CUDA, NO_CUDNN = "libcuda.so.1: version 12.8, /lib/libcuda.so.1", "libcudnn.so.9 cannot be opened: no such file"


@pytest.mark.parametrize(
    ("why_not_loaded", "gpus", "libraries", "message"),
    [
        ("there is none", [], [], "the GPU library is not loaded: there is none"),
        (None, [], [], "TensorFlow sees no GPU: this TensorFlow is built without CUDA"),
        (None, ["GPU"], [CUDA, NO_CUDNN], f"an NVIDIA library is missing: {NO_CUDNN}"),
        (None, ["GPU"], [CUDA], None),
    ],
)
def test_what_is_missing_is_reported(monkeypatch, why_not_loaded, gpus, libraries, message):
    monkeypatch.setattr(_gpu_kernels, "_why_not_loaded", why_not_loaded)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus)
    monkeypatch.setattr(tf.test, "is_built_with_cuda", lambda: False)
    monkeypatch.setattr(_gpu_kernels, "opened_libraries", lambda: libraries)
    assert _device_check.why_not_possible("GPU:0") == message


def test_an_unknown_option_is_rejected():
    ended = forked.run(forked.COMMAND, "--check-tpu")
    assert ended.status == 2
    assert "unrecognized arguments: --check-tpu" in ended.errors
