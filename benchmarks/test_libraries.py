"""Tests of the benchmark: equal computations in all libraries, correct figures and reports. No test checks speed."""

import dataclasses
import functools
import importlib
import itertools
import os
import pathlib
import subprocess
import sys

import cases
import engine_library
import keras
import library
import numpy as np
import pytest
import report
import sections
import served_models
import tensorflow as tf
from cases import (
    FORWARD,
    FORWARD_BACKWARD,
    FUNCTION,
    PENALTY,
    SERVE_IN_C,
    SERVE_IN_PYTHON,
    TANH,
    TRAIN_ON_BATCH,
    Case,
    parse_case,
)
from checks import parity
from measure import Load, largest_error
from sections import (
    GPU_PEERS,
    KERAS,
    KERAS_UNROLLED,
    KERAS_XLA,
    MAIN,
    ONNX_RUNTIME,
    ONNX_RUNTIME_INT8,
    OURS,
    OURS_INT8,
    OURS_PACKED,
    OURS_XLA,
    PEERS,
    PYTORCH,
    PYTORCH_REFERENCE,
    RAW_OPS,
    REFERENCE,
)

import tf_rnn_ops

INSTALLED = [name for name, peer in PEERS.items() if not peer.missing_packages()]
HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None
SEES_GPU = bool(tf.config.list_physical_devices("GPU"))
DOCS = report.DOCS


def library_of(peer):
    """Returns the library of a peer in this process; skips the test if it is not installed."""
    for package in peer.packages:
        pytest.importorskip(package)
    module, class_name = peer.library.split(".")
    kind = getattr(importlib.import_module(module), class_name)
    # TensorFlow takes no settings once it runs, and PyTorch some only once.
    instance = kind.__new__(kind)
    instance.threads = 1
    return instance


def program_of(peer, case):
    return library_of(PEERS[peer] if isinstance(peer, str) else peer).program(case)


@functools.cache
def reference_of(case):
    """Returns the expected results of each task. Keras must not be accelerated."""
    reference = program_of(REFERENCE, case)
    return {task: reference[task].results() for task in case.tasks}


def errors_of(prepared, case):
    """Returns the error of each task of a program, compared with the reference."""
    actual = {
        name: {key: np.asarray(array, np.float64) for key, array in each.results().items()}
        for name, each in prepared.items()
    }
    return {name: largest_error(results, reference_of(case)[name]) for name, results in actual.items()}


def tasks_of(peer, case):
    """Returns the tasks of a case that a peer supports."""
    ours = [case.tasks, ()][peer == RAW_OPS]
    tensorflow_models = [task for task in case.tasks if task not in (cases.EMPTY_FUNCTION, cases.OPS_ALONE)]
    in_keras = {OURS: case.tasks, RAW_OPS: (), PYTORCH: (), ONNX_RUNTIME: ()}.get(peer, tensorflow_models)
    of_raw_ops: dict = {name: () for name in PEERS if name not in (OURS, OURS_XLA, RAW_OPS)}
    of_others = {
        "network": {ONNX_RUNTIME: [FORWARD] if case.dtype == "float32" else ()},
        "penalty": {ONNX_RUNTIME: ()},
        "gru_block_cell": of_raw_ops,
        "block_lstm": of_raw_ops,
        "product": {name: () for name in PEERS if name not in (PYTORCH, ONNX_RUNTIME, RAW_OPS)},
        "elementwise": {PYTORCH: [TANH], ONNX_RUNTIME: [TANH]},
        "model": {PYTORCH: [FUNCTION, TRAIN_ON_BATCH], ONNX_RUNTIME: [FUNCTION]},
        "decoder": {PYTORCH: [FUNCTION], ONNX_RUNTIME: [FUNCTION]},
        "mixed": {},
        "served": {
            ONNX_RUNTIME: [SERVE_IN_PYTHON],
            ONNX_RUNTIME_INT8: [SERVE_IN_PYTHON] if case.cell == "lstm" else (),
        },
    }[case.kind]
    default = in_keras if case.is_model else ours if case.has_network else case.tasks
    return list(of_others.get(peer, default))


# ---------------------------------------------------------------- cases


def test_names_of_cases_are_read_as_they_are_written():
    of_sections = [*sections.SECTIONS.values(), sections.GPU_SECTION, sections.SCALING_SECTION]
    for case in itertools.chain(*((*section.cases, *section.quick_cases) for section in of_sections)):
        assert parse_case(case.name) == case
    network = {"cell": "lstm", "batch": 1, "time": 2, "input_size": 3, "units": 4}
    for name, case in {
        "lstm-1-2-3-4": Case("network", **network),
        "lstm-1-2-3-4-2layers-bidirectional-varying-float64": Case(
            "network", **network, layers=2, bidirectional=True, varying=True, dtype="float64"
        ),
        "penalty-lstm-1-2-3-4-bfloat16": Case("penalty", **network, dtype="bfloat16"),
        "model-lstm-1-2-3-4-2layers": Case("model", **network, layers=2),
        "mixed-lstm-1-2-3-4-2layers": Case("mixed", **network, layers=2),
        "decoder-lstm-1-1-3-4": Case("decoder", **{**network, "time": 1}),
        "served-lstm-1-2-3-4": Case("served", **network),
        "gru_block_cell-1-20-3-7steps-bfloat16": Case(
            "gru_block_cell", batch=1, input_size=20, units=3, steps=7, dtype="bfloat16"
        ),
        "block_lstm-1-2-3-4-float16": Case("block_lstm", batch=1, time=2, input_size=3, units=4, dtype="float16"),
        "product-12": Case("product", size=12),
        "elementwise-5": Case("elementwise", size=5),
    }.items():
        assert parse_case(name) == case
        assert case.name == name


INVALID_NAMES = """
    lstm lstm-1-2-3 lstm-1-2-3-4-5 lstm-1-2-3-0 rnn-1-2-3-4 lstm-1-2-3-4-int8 lstm-1-2-3-4-varying-bidirectional
    gru_block_cell-1-2 model-gru_block_cell-1-2-3 model-lstm-1-2-3-4-bfloat16 decoder-lstm-1-2-3-4
    decoder-lstm-1-1-3-4-bidirectional mixed-lstm-1-2-3-4-varying product
    served-lstm-1-2-3-4-2layers
"""


@pytest.mark.parametrize("name", ["", *INVALID_NAMES.split()])
def test_invalid_names_of_cases_are_rejected(name):
    with pytest.raises(ValueError, match=r"is not a valid case; cases are .* CELL-BATCH-TIME-INPUT-UNITS"):
        parse_case(name)


@pytest.mark.parametrize(
    ("name", "forward"),
    [
        ("lstm-2-3-5-7", 2 * 2 * 3 * 4 * 7 * (5 + 7)),
        ("gru-2-3-5-7", 2 * 2 * 3 * 3 * 7 * (5 + 7)),
        ("tanh-2-3-5-7-2layers", 2 * 2 * 3 * 7 * ((5 + 7) + (7 + 7))),
        ("tanh-2-3-5-7-2layers-bidirectional", 2 * 2 * 3 * 2 * 7 * ((5 + 7) + (14 + 7))),
        ("tanh-2-8-5-7-varying", 2 * (8 + 2) * 7 * (5 + 7)),
        ("gru_block_cell-2-5-7-3steps", 3 * 2 * 2 * 3 * 7 * (5 + 7)),
        ("block_lstm-2-3-5-7", 2 * 2 * 3 * 4 * 7 * (5 + 7)),
        ("penalty-lstm-2-3-5-7", 2 * 2 * 3 * 4 * 7 * (5 + 7)),
        ("model-lstm-2-3-5-7", 2 * 2 * 3 * 4 * 7 * (5 + 7)),
        ("served-lstm-2-3-5-7", 2 * 2 * 3 * 4 * 7 * (5 + 7)),
        ("product-3", 2 * 3 * 3 * 3),
    ],
)
def test_operations_are_counted(name, forward):
    case = parse_case(name)
    batches = cases.BATCHES
    times = {FORWARD_BACKWARD: 3, PENALTY: 10, TRAIN_ON_BATCH: 3, cases.PREDICT: batches, cases.FIT: 3 * batches}
    times |= {cases.EMPTY_FUNCTION: 0, cases.OPS_ALONE: cases.REPEATS, **dict.fromkeys(cases.COPIES.values(), 0)}
    for task in case.tasks:
        assert case.flops(task) == times.get(task, 1) * forward


@pytest.mark.parametrize("batch", [1, 2, 5, 32])
def test_lengths_vary_from_all_to_a_quarter(batch):
    case = Case("network", "lstm", batch, 10, 1, 1, varying=True)
    assert len(case.lengths) == batch
    assert max(case.lengths) == 10
    assert batch == 1 or min(case.lengths) == 3
    assert case.lengths == dataclasses.replace(case).lengths
    assert batch < 32 or case.lengths != sorted(case.lengths, reverse=True)
    assert dataclasses.replace(case, varying=False).lengths == [10] * batch


def test_every_size_is_measured_in_every_cell_and_type():
    sizes = ["1-100-128-256", "32-100-128-256", "64-50-512-512", "128-25-1024-1024"]
    names = {case.name for case in sections.SECTIONS[MAIN].cases}
    assert names >= {f"{cell}-{size}" for cell in cases.NUM_GATES for size in sizes}
    names = {case.name for case in sections.GPU_SECTION.cases}
    for dtype in ("", "-float16"):
        assert names >= {f"{cell}-{size}{dtype}" for cell in ("lstm", "gru") for size in sizes}
        assert names >= {f"gru_block_cell-{size}{dtype}" for size in ("1-128-256", "128-1024-1024")}


# ---------------------------------------------------------------- what the libraries compute

# All sizes differ, to detect swapped ones.
QUICK_NETWORKS = ["lstm-3-4-5-6", "gru-3-7-5-6-varying"]
SLOW_NETWORKS = [
    "gru-3-4-5-6",
    "tanh-3-4-5-6",
    "lstm-3-4-5-6-2layers-bidirectional",
    "gru-3-4-5-6-2layers-bidirectional",
    "lstm-3-7-5-6-varying",
]


def slow(*values):
    return [pytest.param(*(each if isinstance(each, tuple) else (each,)), marks=pytest.mark.slow) for each in values]


@pytest.mark.parametrize("name", [*QUICK_NETWORKS, *slow(*SLOW_NETWORKS)])
@pytest.mark.parametrize("peer", [OURS, OURS_XLA, KERAS, KERAS_XLA, PYTORCH, ONNX_RUNTIME])
def test_networks_equal_the_reference(peer, name):
    # ONNX Runtime has no float64.
    case = dataclasses.replace(parse_case(name), dtype="float32" if peer == ONNX_RUNTIME else "float64")
    prepared = program_of(peer, case)
    problem = library.problem_of(case)
    gradients = library.name_gradients({"inputs": problem.inputs}, problem.weights)
    expected = {FORWARD: {"output": problem.output_gradient}, FORWARD_BACKWARD: gradients}
    assert list(prepared) == tasks_of(peer, case)
    for task, each in prepared.items():
        shapes = {key: array.shape for key, array in each.results().items()}
        assert shapes == {key: array.shape for key, array in expected[task].items()}
    assert max(errors_of(prepared, case).values()) <= parity.TOLERANCES[case.dtype]


@pytest.mark.parametrize(
    ("peer", "name"),
    [
        *itertools.product([OURS, KERAS, PYTORCH], QUICK_NETWORKS),
        *slow(*itertools.product([OURS, KERAS, PYTORCH], SLOW_NETWORKS)),
        # Building their graphs takes too long for the other networks.
        *slow(*itertools.product([KERAS_XLA, KERAS_UNROLLED], QUICK_NETWORKS)),
    ],
)
def test_penalties_equal_the_reference(peer, name):
    case = parse_case(f"penalty-{name}-float64")
    prepared, weights = program_of(peer, case), library.problem_of(case).weights
    assert list(prepared) == [FORWARD_BACKWARD, PENALTY]
    named = library.name_gradients({"penalty": np.array(0.0)}, weights)
    shapes = {key: array.shape for key, array in prepared[PENALTY].results().items()}
    assert shapes == {key: array.shape for key, array in named.items()}
    assert max(errors_of(prepared, case).values()) <= 1e-11


def test_a_penalty_is_on_the_norm_of_the_gradient_of_each_sequence():
    """Compares with finite differences of the score."""
    case = parse_case("penalty-lstm-2-3-2-3-float64")
    problem, plain = library.problem_of(case), dataclasses.replace(case, kind="network")
    ours = library_of(PEERS[OURS])
    network = sys.modules[type(ours).__module__].CudnnNetwork

    def score(inputs):
        moved = network(plain, problem._replace(inputs=inputs), tf_rnn_ops.raw_ops).program()
        return (moved[FORWARD].results()["output"] ** 2 * problem.output_gradient).sum() / 2

    step = 1e-6
    slopes = np.zeros_like(problem.inputs)
    for index in np.ndindex(*slopes.shape):
        unit = np.zeros_like(slopes)
        unit[index] = step
        slopes[index] = (score(problem.inputs + unit) - score(problem.inputs - unit)) / (2 * step)
    norms = np.sqrt((slopes**2).sum(axis=(1, 2)))
    penalty = ours.program(case)[PENALTY].results()["penalty"]
    np.testing.assert_allclose(penalty, np.mean((norms - 1) ** 2), rtol=1e-8)


@pytest.mark.parametrize("name", ["lstm-2-3-4-5", "gru-3-4-2-3-2layers-bidirectional", "gru-3-4-2-3-varying"])
def test_gradients_are_those_of_the_forward_task(name, monkeypatch):
    """Compares with the change of sum(output * output_gradient) for a step along the gradient."""
    case = parse_case(f"{name}-float64")
    problem = library.problem_of(case)
    gradients = reference_of(case)[FORWARD_BACKWARD]
    step = 1e-6

    def loss(sign):
        weights = {
            layer: library.Weights(
                *(array + sign * step * gradients[f"{layer}/{key}"] for key, array in of_layer._asdict().items())
            )
            for layer, of_layer in problem.weights.items()
        }
        moved = problem._replace(inputs=problem.inputs + sign * step * gradients["inputs"], weights=weights)
        monkeypatch.setattr("tensorflow_library.problem_of", lambda *_: moved)
        return np.sum(program_of(REFERENCE, case)[FORWARD].results()["output"] * problem.output_gradient)

    difference = (loss(1) - loss(-1)) / (2 * step)
    assert difference == pytest.approx(sum(np.sum(gradient**2) for gradient in gradients.values()), rel=1e-6)


@pytest.mark.parametrize(
    ("peer", "name"),
    [
        *itertools.product([OURS, KERAS, PYTORCH], ["lstm-3-4-5-6-bfloat16", "gru-3-4-5-6-bfloat16"]),
        *itertools.product([OURS, OURS_XLA, RAW_OPS], ["gru_block_cell-3-4-5-6steps", "block_lstm-3-4-5-6"]),
        *itertools.product([PYTORCH, ONNX_RUNTIME, RAW_OPS], ["product-5", "product-5-bfloat16"]),
        *itertools.product([OURS, KERAS, PYTORCH, ONNX_RUNTIME, RAW_OPS], ["elementwise-100"]),
    ],
)
def test_ops_are_near_the_reference(peer, name):
    case = parse_case(name)
    prepared = program_of(peer, case)
    supported = (peer, name) != (ONNX_RUNTIME, "product-5-bfloat16")
    assert list(prepared) == (tasks_of(peer, case) if supported else [])
    factor = 5 if case.dtype == "bfloat16" else 1
    assert all(error <= factor * parity.TOLERANCES[case.dtype] for error in errors_of(prepared, case).values())


@pytest.fixture
def restore_keras(monkeypatch):
    """Restores Keras at the end of the test."""
    begun, accelerate = [], tf_rnn_ops.accelerate_keras
    monkeypatch.setattr(tf_rnn_ops, "accelerate_keras", lambda **options: begun.append(accelerate(**options)))
    yield
    for each in begun:
        each.restore()


MODEL_PEERS = [OURS, OURS_XLA, KERAS, KERAS_XLA, PYTORCH, ONNX_RUNTIME]
QUICK_MODELS = ["model-lstm-3-4-5-6-bidirectional-varying", "decoder-lstm-3-1-5-6-2layers"]
SLOW_MODELS = ["model-gru-3-4-5-6-2layers", "model-tanh-3-4-5-6-2layers-bidirectional", "decoder-gru-3-1-5-6"]
MIXED_MODEL = "mixed-lstm-3-4-5-8-2layers"


@pytest.mark.usefixtures("restore_keras")
@pytest.mark.parametrize(
    ("peer", "name"),
    [
        *itertools.product([OURS, KERAS, PYTORCH, ONNX_RUNTIME], [*QUICK_MODELS, MIXED_MODEL]),
        *((OURS_XLA, name) for name in QUICK_MODELS),
        (KERAS_XLA, QUICK_MODELS[1]),
        *slow(*itertools.product(MODEL_PEERS, SLOW_MODELS)),
        *slow((OURS_XLA, MIXED_MODEL), (KERAS_XLA, QUICK_MODELS[0]), (KERAS_XLA, MIXED_MODEL)),
    ],
)
def test_models_equal_the_reference(peer, name):
    case = parse_case(name)
    expected, prepared = reference_of(case), program_of(peer, case)
    assert list(prepared) == tasks_of(peer, case)
    for task, each in prepared.items():
        # Also after a call, which trains a model and advances a decoder.
        for _ in range(2):
            assert largest_error(each.results(), expected[task]) <= parity.TOLERANCES["float32"]
            each.call()


@pytest.mark.usefixtures("restore_keras")
@pytest.mark.parametrize("peer", [KERAS, OURS])
def test_only_our_models_run_on_the_op(peer, monkeypatch):
    counted, op = [], tf_rnn_ops.raw_ops.KerasRNN
    monkeypatch.setattr(tf_rnn_ops.raw_ops, "KerasRNN", lambda **arguments: counted.append(1) or op(**arguments))
    case, programs = parse_case("model-gru-3-4-5-6-2layers"), []
    keras_models = importlib.import_module("keras_models")
    original = keras_models.ModelProgram.__init__
    monkeypatch.setattr(
        keras_models.ModelProgram,
        "__init__",
        lambda self, *args, **kw: programs.append(self) or original(self, *args, **kw),
    )
    prepared = program_of(peer, case)
    for task in (FUNCTION, cases.PREDICT, TRAIN_ON_BATCH, cases.FIT):
        counted.clear()
        prepared[task].call()
        assert len(counted) >= 2 if peer == OURS else not counted
    loaded = programs[0].loaded.serve.concrete_functions[0].graph.as_graph_def()
    assert ("TfRnnOps>KerasRNN" in str(loaded)) == (peer == OURS)


@pytest.mark.usefixtures("restore_keras")
def test_the_ops_alone_run_as_often_as_they_are_divided_by():
    """Each run starts from the final states of the previous one, so none can be replaced by another."""
    case = parse_case("decoder-lstm-3-1-5-6")
    problem = library.problem_of(case)
    x = problem.embedding[problem.inputs]
    layer = keras.layers.LSTM(6, return_state=True)
    layer.build(x.shape)
    layer.set_weights(importlib.import_module("keras_models").to_keras(case, problem.weights))
    features, *states = layer(x, initial_state=list(problem.states))
    for _ in range(cases.REPEATS - 1):
        features, *states = layer(x, initial_state=states)
    _, last = program_of(OURS, case)[cases.OPS_ALONE].call()
    np.testing.assert_allclose(last, features, atol=1e-5)


@pytest.mark.usefixtures("restore_keras")
@pytest.mark.parametrize("peer", [OURS, KERAS, PYTORCH, ONNX_RUNTIME])
def test_decoders_continue_from_their_results(peer):
    """The second call takes the states and the most likely token of the first."""
    case = parse_case("decoder-gru-3-1-5-6")
    first = reference_of(case)[FUNCTION]
    tokens = np.argmax(first["output"], axis=-1)[:, np.newaxis]
    moved = library.problem_of(case, "float64")._replace(inputs=tokens, states=list(first["states"]))
    keras_models = importlib.import_module("keras_models")
    expected = keras_models.ModelProgram(case, moved).tasks[FUNCTION].results()["states"]
    prepared = program_of(peer, case)
    for _ in range(2):
        prepared[FUNCTION].call()
    last = prepared[FUNCTION].call.__self__._last
    states = last["state0"] if isinstance(last, dict) else last[1]
    np.testing.assert_allclose(np.asarray(states).reshape(1, 3, 6), expected, atol=1e-5)


# ---------------------------------------------------------------- served models


@pytest.mark.parametrize("name", ["served-lstm-3-4-5-6", "served-gru-3-1-5-6"])
@pytest.mark.parametrize("peer", sections.SERVERS)
def test_served_models_equal_the_reference(peer, name):
    case = parse_case(name)
    prepared = program_of(peer, case)
    assert list(prepared) == tasks_of(peer, case)
    tolerance = PEERS[peer].allowed_error or parity.TOLERANCES["float32"]
    for task in prepared.keys() & {SERVE_IN_C, SERVE_IN_PYTHON}:
        for _ in range(2):
            assert 0 < largest_error(prepared[task].results(), reference_of(case)[task]) <= tolerance
            prepared[task].call()


@functools.cache
def served(peer, name="served-lstm-2-3-4-5"):
    """Returns a `ServedProgram`."""
    return program_of(peer, parse_case(name))[SERVE_IN_C].call.__self__


@pytest.mark.parametrize("peer", sections.SAVED_MODELS)
def test_only_our_saved_models_contain_the_op(peer):
    saved = pathlib.Path(served(peer).folder, "saved_model.pb").read_bytes()
    assert (b"TfRnnOps>KerasRNN" in saved) == (peer != KERAS)
    assert (b"_tf_rnn_ops_constant_weights" in saved) == (peer not in (KERAS, OURS))
    for weights in (b"bfloat16", b"int8"):
        assert (weights in saved) == PEERS[peer].label.endswith(weights.decode())


def test_onnx_runtime_multiplies_8_bit_weights(monkeypatch):
    pytest.importorskip("onnxruntime")
    module, operators = importlib.import_module("onnxruntime_library"), []
    quantize = module._quantized

    def record(model):
        quantized = quantize(model)
        operators.extend(node.op_type for node in quantized.graph.node)
        return quantized

    monkeypatch.setattr(module, "_quantized", record)
    program_of(ONNX_RUNTIME_INT8, parse_case("served-lstm-2-3-4-5"))
    assert "DynamicQuantizeLSTM" in operators
    assert "LSTM" not in operators


def test_a_decoder_takes_and_returns_states():
    model = served_models.build(parse_case("served-lstm-2-1-4-5"))
    assert [tuple(each.shape) for each in model.inputs] == [(None, 1, 4), (None, 5), (None, 5)]
    assert [tuple(each.shape) for each in model.outputs] == [(None, 5)] * 3


def test_the_saved_model_is_removed_with_its_program():
    program = served_models.ServedProgram(parse_case("served-gru-1-2-3-4"), 1)
    folder = program.folder
    assert os.path.exists(folder)
    program.tasks.clear()
    del program
    assert not os.path.exists(folder)


def test_the_c_program_counts_requests_of_all_clients():
    report = served(OURS_PACKED).run_in_c(clients=3, copies=2)
    assert (report["requests"], len(report["waits"])) == (3, 3)
    assert report["waits"] == sorted(report["waits"])
    assert 0 < report["waits"][0] <= report["median"] <= report["percentile_99"] <= report["seconds"]
    assert 0 < report["resident_before"] <= report["resident_loaded"]
    assert report["resident_at_end"] > 0


def test_the_c_program_prints_quantiles_of_many_requests():
    report = served(OURS_INT8).run_in_c(clients=250)
    assert (report["requests"], len(report["waits"])) == (250, 200)
    assert report["waits"] == sorted(report["waits"])


def test_samples_of_the_c_program_are_requests_and_bytes():
    tasks = served(KERAS).tasks
    seconds, waits = tasks[SERVE_IN_C].sample(Load(seconds=0.01, clients=2))
    assert seconds > 0
    assert len(waits) >= 2
    for task in cases.COPIES.values():
        grown, waits = tasks[task].sample(Load())
        assert grown > 0
        assert not waits


ARGUMENTS = {
    "OP_LIBRARY": "-",
    "FOLDER": "/no/such/folder",
    "CLIENTS": "1",
    "SECONDS": "0",
    "COPIES": "1",
    "THREADS": "1",
    "OUTPUT": "y:0",
    "INPUT": "x=1,2",
}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"OP_LIBRARY": "/no/such/library.so"}, "/no/such/library.so: "),
        ({}, "/no/such/folder: Could not find SavedModel"),
        ({"CLIENTS": "0"}, "CLIENTS: must be an integer from 1 to"),
        ({"SECONDS": "-1"}, "SECONDS: must be a number of at least 0"),
        ({"COPIES": "two"}, "COPIES: must be an integer from 1 to"),
        ({"THREADS": "128"}, "THREADS: must be an integer from 1 to 127"),
        ({"INPUT": "x"}, "x: is not valid"),
        ({"INPUT": "x=1,0"}, "1,0: must be positive integers"),
        ({"INPUT": "x=1,1,1,1,1"}, "1,1,1,1,1: has too many sizes"),
    ],
)
def test_the_c_program_rejects_arguments(changed, message):
    command = [served_models.PROGRAM, *{**ARGUMENTS, **changed}.values()]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 1
    assert f"saved_model_calls: {message}" in process.stderr


def test_an_error_of_the_c_program_is_raised(monkeypatch):
    program = served(KERAS)
    monkeypatch.setattr(program, "_threads", 0)
    with pytest.raises(RuntimeError, match=r"saved_model_calls ended with 1:\n(.|\n)*THREADS: must be"):
        program.run_in_c()


# ---------------------------------------------------------------- the engine without TensorFlow


@pytest.fixture(scope="module", params=[1, 3], ids="{} threads".format)
def engine(request):
    """The engine, which `make build/engine-calls/ready` builds, with a number of threads."""
    return engine_library.Engine(request.param)


@pytest.mark.parametrize("cell", cases.NUM_GATES)
def test_the_engine_equals_keras(cell, engine):
    case = parse_case(f"{cell}-3-5-7-40")
    assert max(errors_of(engine.program(case), case).values()) < parity.TOLERANCES["float32"]
    assert list(engine.program(case)) == list(case.tasks)


def test_the_engine_supports_plain_networks_and_reports_the_cpu(engine):
    assert engine.versions().keys() == {"CPU", "instruction set"}
    for name in ("lstm-2-3-4-5-2layers", "lstm-2-3-4-5-bfloat16", "penalty-lstm-2-3-4-5"):
        assert not engine.program(parse_case(name))


def test_the_reference_without_tensorflow_is_float64():
    case = parse_case("gru-2-3-4-5")
    of_case = library_of(PYTORCH_REFERENCE).program(case)[FORWARD_BACKWARD].results()
    assert {array.dtype for array in of_case.values()} == {np.dtype(np.float64)}
    assert of_case["inputs"].shape == library.problem_of(case).inputs.shape
    assert parity.difference(of_case["inputs"].astype(np.float32), of_case["inputs"]) > 0


# ---------------------------------------------------------------- libraries on a GPU, tested on the CPU


@pytest.fixture
def on_cpu(monkeypatch):
    """Runs the libraries on the CPU, where our kernels implement TensorFlow's own ops."""
    tf_rnn_ops.enable_builtin_kernels()
    library_of(GPU_PEERS[OURS])  # imports the module
    monkeypatch.setattr("tensorflow_library.OnGpu.device", "CPU:0")
    if PYTORCH in INSTALLED:
        library_of(GPU_PEERS[PYTORCH])
        monkeypatch.setattr("pytorch_library.PyTorchOnGpu.device", "cpu")


GPU_NETWORKS = ["lstm-3-4-5-6", "gru-3-4-5-6-2layers-bidirectional", "tanh-3-4-5-6", "gru-3-7-5-6-varying"]


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize(
    ("peer", "name"),
    [
        *itertools.product(GPU_PEERS, [f"{name}-float64" for name in GPU_NETWORKS]),
        *itertools.product([OURS, RAW_OPS], ["lstm-3-4-5-6-float16", "gru_block_cell-3-4-5-6steps"]),
    ],
)
def test_networks_of_gpu_libraries_are_near_the_reference(peer, name):
    case = parse_case(name)
    prepared = program_of(GPU_PEERS[peer], case)
    assert list(prepared) == list(case.tasks)
    factor = 5 if case.dtype == "float16" else 1
    assert max(errors_of(prepared, case).values()) <= factor * parity.TOLERANCES[case.dtype]


@pytest.mark.usefixtures("on_cpu")
def test_unsupported_cases_of_gpu_libraries():
    cell = parse_case("gru_block_cell-3-4-5-float16")
    assert not program_of(GPU_PEERS[RAW_OPS], cell)  # TensorFlow has the op in float32 only
    assert program_of(GPU_PEERS[OURS], cell)
    for name in GPU_PEERS.keys() & set(INSTALLED):
        assert not program_of(GPU_PEERS[name], parse_case("product-2"))
    case = parse_case("lstm-3-4-5-6-bfloat16")
    assert list(program_of(GPU_PEERS[RAW_OPS], case)) == [FORWARD]  # TensorFlow does not fill its reserve_space
    assert list(program_of(GPU_PEERS[OURS], case)) == list(case.tasks)


@pytest.mark.skipif(SEES_GPU, reason="TensorFlow sees a GPU")
@pytest.mark.parametrize("name", ["lstm-3-4-5-6", "gru_block_cell-3-4-5-6steps"])
def test_a_program_on_another_device_is_rejected(name):
    """TensorFlow runs an op on the CPU if there is no GPU, or no GPU kernel."""
    with pytest.raises(RuntimeError, match=rf"^{name} ran on .*CPU:0, not on GPU:0$"):
        program_of(GPU_PEERS[OURS], parse_case(name))


def test_pytorch_without_a_gpu_has_no_networks():
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("PyTorch sees a GPU")
    pytorch = library_of(GPU_PEERS[PYTORCH])
    assert not pytorch.program(parse_case("lstm-3-4-5-6"))
    assert pytorch.versions() == {"PyTorch": f"{torch.__version__} (no GPU found)"}
    pytorch.synchronize()
