"""Tests that all libraries compute the same networks. No test checks speed."""

import functools
import importlib
import itertools
import pathlib

import cases
import numpy as np
import pytest
import sections
import served_models
import tensorflow as tf
from cases import (
    COPIES,
    FORWARD_BACKWARD,
    FUNCTION,
    PENALTY,
    SAVED_MODEL,
    SERVE_IN_C,
    TRAIN_ON_BATCH,
    parse_case,
)
from checks import parity
from library import problem_of
from measure import Load, largest_error
from sections import (
    GPU_PEERS,
    KERAS,
    KERAS_UNROLLED,
    KERAS_XLA,
    ONNX_RUNTIME,
    ONNX_RUNTIME_INT8,
    OURS,
    OURS_PACKED,
    OURS_XLA,
    PEERS,
    PYTORCH,
    RAW_OPS,
    REFERENCE,
)

import tf_rnn_ops

INSTALLED = [name for name, peer in PEERS.items() if not peer.missing_packages()]
SEES_GPU = bool(tf.config.list_physical_devices("GPU"))


def library_of(peer):
    """Returns the library of a peer in this process; skips the test if it is not installed."""
    for package in peer.packages:
        pytest.importorskip(package)
    module, class_name = peer.library.split(".")
    kind = getattr(importlib.import_module(module), class_name)
    # TensorFlow takes no settings once it runs, and PyTorch some only once.
    instance = kind.__new__(kind)
    vars(instance).update(threads=1, **peer.options)
    return instance


def program_of(peer, case):
    return library_of(PEERS[peer] if isinstance(peer, str) else peer).program(case)


@functools.cache
def reference_of(case):
    """Returns the expected results of each task. Keras must not be accelerated."""
    reference = program_of(REFERENCE, case)
    return {task: reference[task].results() for task in case.tasks}


def error_of(prepared, case, task):
    """Returns the error of a task of a program, compared with the reference."""
    actual = {key: np.asarray(array, np.float64) for key, array in prepared[task].results().items()}
    return largest_error(actual, reference_of(case)[task])


@pytest.fixture
def restore_keras():
    """Restores Keras at the end of the test."""
    yield
    tf_rnn_ops.restore_keras()


# ---------------------------------------------------------------- cases


def test_names_of_cases_are_read_as_they_are_written():
    for section in (*sections.SECTIONS.values(), sections.GPU_SECTION):
        for case in (*section.cases, *section.quick_cases):
            assert parse_case(case.name) == case


@pytest.mark.parametrize(
    ("name", "forward"),
    [
        ("lstm-2-3-5-7", 2 * 2 * 3 * 4 * 7 * (5 + 7)),
        ("tanh-2-3-5-7-2layers-bidirectional", 2 * 2 * 3 * 2 * 7 * ((5 + 7) + (14 + 7))),
        ("tanh-2-8-5-7-varying", 2 * (8 + 2) * 7 * (5 + 7)),
        ("gru_block_cell-2-5-7-3steps", 3 * 2 * 2 * 3 * 7 * (5 + 7)),
        ("block_lstm-2-3-5-7", 2 * 2 * 3 * 4 * 7 * (5 + 7)),
        ("penalty-gru-2-3-5-7", 2 * 2 * 3 * 3 * 7 * (5 + 7)),
        ("model-lstm-2-3-5-7", 2 * 2 * 3 * 4 * 7 * (5 + 7)),
        ("product-3", 2 * 3 * 3 * 3),
        ("policy-2-3-5-7", 0),
    ],
)
def test_operations_are_counted(name, forward):
    case, batches = parse_case(name), cases.BATCHES
    times = {FORWARD_BACKWARD: 3, PENALTY: 10, TRAIN_ON_BATCH: 3, cases.PREDICT: batches, cases.FIT: 3 * batches}
    times |= {cases.EMPTY_FUNCTION: 0, cases.OPS_ALONE: cases.REPEATS}
    for task in case.tasks:
        assert case.flops(task) == times.get(task, 1) * forward


# ---------------------------------------------------------------- what the libraries compute


def tasks_of(peer, case):
    """Returns the tasks of a case that a peer supports."""
    ours_only = {cases.EMPTY_FUNCTION, cases.OPS_ALONE}
    not_pytorch = {SAVED_MODEL, cases.PREDICT, cases.FIT, cases.MAPPED, *ours_only}
    not_onnx = {*not_pytorch, FORWARD_BACKWARD, TRAIN_ON_BATCH}
    if case.is_exported:
        not_keras = {cases.AS_IS, cases.ACCELERATED, cases.CONVERTED} if peer == KERAS else set()
        not_live = {FUNCTION, TRAIN_ON_BATCH} if case.writer == "tensorflow_1" else set()
        not_in_c = {SERVE_IN_C} if case.takes_tokens else set()
        return [task for task in case.tasks if task not in not_keras | not_live | not_in_c]
    if case.is_served:
        others, live, saved, frozen = cases.CALLS_IN_PYTHON
        if peer in (PYTORCH, ONNX_RUNTIME, ONNX_RUNTIME_INT8):
            return [*others]
        return [SERVE_IN_C, *COPIES.values(), *saved, *(live if peer in (KERAS, OURS) else frozen)]
    lacking = {OURS: (), PYTORCH: not_pytorch, ONNX_RUNTIME: not_onnx}
    return [task for task in case.tasks if task not in lacking.get(peer, ours_only)]


def named(peers, *names):
    return [*itertools.product(peers, names)]


def slow(*values):
    return [pytest.param(*each, marks=pytest.mark.slow) for each in values]


# All sizes differ, to detect swapped ones.
QUICK_NETWORKS = ["lstm-3-4-5-6-float64", "gru-3-7-5-6-varying-float64"]
SLOW_NETWORKS = [
    "gru-3-4-5-6-float64",
    "tanh-3-4-5-6-float64",
    "lstm-3-4-5-6-2layers-bidirectional-float64",
    "gru-3-4-5-6-2layers-bidirectional-float64",
    "lstm-3-7-5-6-varying-float64",
]
PENALTIES = [f"penalty-{name}" for name in QUICK_NETWORKS]
QUICK_MODELS = ["model-lstm-3-4-5-6-bidirectional-varying", "decoder-lstm-3-1-5-6-2layers"]
SLOW_MODELS = ["model-gru-3-4-5-6-2layers", "model-tanh-3-4-5-6-2layers-bidirectional", "decoder-gru-3-1-5-6"]
MIXED_MODEL = "mixed-lstm-3-4-5-8-2layers"
VARIANTS = ["model-lstm-3-4-5-6-varying-dropout", "model-gru-3-4-5-6-reset_before", "model-lstm-3-4-5-6-mixed_bfloat16"]
EXPORTED = [f"{kind}-3-4-5-6" for kind in cases.EXPORTED_MODELS]
PADDED = ["text_classifier-3-4-5-6-varying", "recommender-3-4-5-6-varying-keras_2"]
WRITTEN_BEFORE = ["keyword_spotter-3-4-5-6-keras_2", "line_reader-3-4-5-6-tensorflow_1"]
SERVED = ["served-lstm-3-4-5-6", "served-gru-3-1-5-6"]
THREE = [OURS, KERAS, PYTORCH]
FOUR = [*THREE, ONNX_RUNTIME]
XLA = [OURS_XLA, KERAS_XLA]


@pytest.mark.usefixtures("restore_keras")
@pytest.mark.parametrize(
    ("peer", "name"),
    [
        *named([*THREE, *XLA], *QUICK_NETWORKS),
        *slow(*named([*THREE, *XLA], *SLOW_NETWORKS)),
        *named([ONNX_RUNTIME], *(name.removesuffix("-float64") for name in QUICK_NETWORKS)),
        *slow(*named([ONNX_RUNTIME], *(name.removesuffix("-float64") for name in SLOW_NETWORKS))),
        *named(THREE, *PENALTIES, "lstm-3-4-5-6-bfloat16", "gru-3-4-5-6-bfloat16"),
        *slow(*named([KERAS_XLA, KERAS_UNROLLED], *PENALTIES)),
        *named([OURS, OURS_XLA, RAW_OPS], "gru_block_cell-3-4-5-6steps", "block_lstm-3-4-5-6"),
        *named([PYTORCH, ONNX_RUNTIME, RAW_OPS], "product-5"),
        *named([PYTORCH, RAW_OPS], "product-5-bfloat16"),
        *named([*FOUR, RAW_OPS], "elementwise-100"),
        *named(FOUR, *QUICK_MODELS),
        *named([OURS, KERAS], MIXED_MODEL, *VARIANTS),
        *named([OURS_XLA], *QUICK_MODELS),
        *named([KERAS_XLA], QUICK_MODELS[1]),
        *slow(*named([*FOUR, *XLA], *SLOW_MODELS), *named(XLA, MIXED_MODEL), (KERAS_XLA, QUICK_MODELS[0])),
        *named([PYTORCH, *sections.SERVERS], SERVED[0]),
        *named([PYTORCH, *sections.SERVERS[:-1]], SERVED[1]),
        *named([OURS, KERAS], PADDED[0]),
        *slow(*named([OURS, KERAS], *EXPORTED, PADDED[1], *WRITTEN_BEFORE)),
    ],
)
def test_results_equal_the_reference(peer, name):
    case = parse_case(name)
    assert reference_of(case)
    prepared = program_of(peer, case)
    assert sorted(prepared) == sorted(tasks_of(peer, case))
    tolerance = PEERS[peer].allowed_error or parity.TOLERANCES[case.result_dtype] * (
        5 if case.result_dtype == "bfloat16" else 1
    )
    if case.kind == "penalty":
        tolerance = 1e-11
    for task in prepared.keys() - COPIES.values():
        # Also after a call, which trains a model and advances a decoder.
        for _ in range(2):
            assert error_of(prepared, case, task) <= tolerance, task
            prepared[task].call()


@pytest.mark.usefixtures("restore_keras")
@pytest.mark.parametrize("peer", [KERAS, OURS])
def test_only_our_models_run_on_the_op(peer, monkeypatch):
    counted, op = [], tf_rnn_ops.raw_ops.KerasRNN
    monkeypatch.setattr(tf_rnn_ops.raw_ops, "KerasRNN", lambda **arguments: counted.append(1) or op(**arguments))
    prepared = program_of(peer, parse_case("model-gru-3-4-5-6-2layers"))
    for task in (FUNCTION, cases.PREDICT, TRAIN_ON_BATCH, cases.FIT):
        counted.clear()
        prepared[task].call()
        assert len(counted) >= 2 if peer == OURS else not counted
    loaded = prepared[SAVED_MODEL].call.__self__.loaded.serve.concrete_functions[0].graph.as_graph_def()
    assert ("TfRnnOps>KerasRNN" in str(loaded)) == (peer == OURS)


@pytest.mark.usefixtures("restore_keras")
def test_the_ops_alone_run_as_often_as_they_are_divided_by():
    """Each run starts from the final states of the previous one, so none can be replaced by another."""
    case = parse_case("decoder-lstm-3-1-5-6")
    problem = problem_of(case)
    x, states = problem.embedding[problem.inputs], list(problem.states)
    kernel, recurrent_kernel, bias = importlib.import_module("keras_models").to_keras(case, problem.weights)
    for _ in range(cases.REPEATS):
        i, f, g, o = np.split(x[:, 0] @ kernel + states[0] @ recurrent_kernel + bias, 4, axis=1)
        c = states[1] / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        states = [np.tanh(c) / (1 + np.exp(-o)), c]
    _, last = program_of(OURS, case)[cases.OPS_ALONE].call()
    np.testing.assert_allclose(last, states[0], atol=1e-5)


@pytest.mark.usefixtures("restore_keras")
@pytest.mark.parametrize("peer", FOUR)
def test_decoders_continue_from_their_results(peer):
    """The second call takes the states and the most likely token of the first."""
    case = parse_case("decoder-gru-3-1-5-6")
    first = reference_of(case)[FUNCTION]
    tokens = np.argmax(first["output"], axis=-1)[:, np.newaxis]
    moved = problem_of(case, "float64")._replace(inputs=tokens, states=list(first["states"]))
    keras_models = importlib.import_module("keras_models")
    expected = keras_models.ModelProgram(case, moved).tasks[FUNCTION].results()["states"]
    prepared = program_of(peer, case)
    for _ in range(2):
        prepared[FUNCTION].call()
    last = prepared[FUNCTION].call.__self__._last
    states = last["state0"] if isinstance(last, dict) else last[1]
    np.testing.assert_allclose(np.asarray(states).reshape(1, 3, 6), expected, atol=1e-5)


# ---------------------------------------------------------------- served models


@functools.cache
def served(peer):
    """Returns a `ServedProgram`."""
    try:
        return program_of(peer, parse_case("served-lstm-2-3-4-5"))[COPIES[1]].sample.func.__self__
    finally:
        tf_rnn_ops.restore_keras()


@pytest.mark.parametrize("peer", sections.SAVED_MODELS)
def test_only_our_saved_models_contain_the_op(peer):
    saved = pathlib.Path(served(peer).folder, "saved_model.pb").read_bytes()
    assert (b"TfRnnOps>KerasRNN" in saved) == (peer != KERAS)
    assert (b"_tf_rnn_ops_constant_weights" in saved) == (peer not in (KERAS, OURS))
    for weights in (b"bfloat16", b"int8"):
        assert (weights in saved) == PEERS[peer].label.endswith(weights.decode())


def test_the_c_program_counts_requests_of_all_clients():
    report = served(OURS_PACKED).in_c.run(clients=3, copies=2)
    assert (report["requests"], len(report["waits"])) == (3, 3)
    assert 0 < report["waits"][0] <= report["waits"][-1] <= report["seconds"]
    assert 0 < report["resident_before"] <= report["resident_loaded"]
    report = served(OURS_PACKED).in_c.run(clients=250)
    assert (report["requests"], len(report["waits"])) == (250, 200)  # quantiles
    assert report["waits"] == sorted(report["waits"])
    tasks = served(KERAS).tasks
    seconds, waits = tasks[SERVE_IN_C].sample(Load(seconds=0.01, clients=2))
    assert seconds > 0
    assert len(waits) >= 2
    for task in COPIES.values():
        grown, waits = tasks[task].sample(Load())
        assert grown > 0
        assert not waits


def test_an_error_of_the_c_program_is_raised():
    program = served_models.ServedProgram(parse_case("served-gru-1-2-3-4"), threads=0)
    with pytest.raises(RuntimeError, match=r"saved_model_calls ended with 1:\n(.|\n)*THREADS: must be"):
        program.in_c.run()


# ---------------------------------------------------------------- exported models


@pytest.mark.usefixtures("restore_keras")
@pytest.mark.parametrize(
    "name", ["autoencoder-2-3-4-5", *slow(*([name] for name in [*EXPORTED, *PADDED, *WRITTEN_BEFORE]))]
)
def test_exported_models_run_on_the_op_unless_they_are_left_as_they_are(name):
    exported_models = importlib.import_module("exported_models")
    tf_rnn_ops.accelerate_keras(exports="op")  # as another case has left it
    before = np.array(tf_rnn_ops._graphs.loop_counts())
    program_of(OURS, parse_case(name))
    replaced, others = tf_rnn_ops._graphs.loop_counts() - before
    assert replaced > 0
    assert others == 0
    model = exported_models.exported(parse_case(name), exported_models.OnTheOp)
    for task, signature in model.signatures.items():
        graph = str(signature.graph.as_graph_def())
        has_loop = 'While"' in graph or '"LoopCond"' in graph
        assert ("TfRnnOps>KerasRNN" in graph, not has_loop) == (task == cases.CONVERTED,) * 2


def test_exported_models_are_the_same_for_all_batch_sizes():
    exported_models = importlib.import_module("exported_models")
    assert exported_models.BUILDERS.keys() == cases.EXPORTED_MODELS.keys()
    one, many = (exported_models.exported(parse_case(f"policy-{batch}-2-3-4")) for batch in (1, 32))
    assert one is many


# ---------------------------------------------------------------- libraries on a GPU, tested on the CPU


# Our kernels implement TensorFlow's own ops on the CPU.
ON_CPU = {
    name: peer._replace(options={"device": "cpu" if name == PYTORCH else "CPU:0"}) for name, peer in GPU_PEERS.items()
}
GPU_NETWORKS = ["lstm-3-4-5-6", "gru-3-4-5-6-2layers-bidirectional", "tanh-3-4-5-6", "gru-3-7-5-6-varying"]


@pytest.mark.parametrize(
    ("peer", "name"),
    [
        *named(GPU_PEERS, *(f"{name}-float64" for name in GPU_NETWORKS)),
        *named([OURS, RAW_OPS], "lstm-3-4-5-6-float16", "gru_block_cell-3-4-5-6steps"),
    ],
)
def test_results_of_gpu_libraries_equal_the_reference(peer, name):
    tf_rnn_ops.enable_builtin_kernels()
    case = parse_case(name)
    prepared = program_of(ON_CPU[peer], case)
    assert list(prepared) == list(case.tasks)
    tolerance = parity.TOLERANCES[case.dtype] * (5 if case.dtype == "float16" else 1)
    assert all(error_of(prepared, case, task) <= tolerance for task in prepared)


@pytest.mark.skipif(SEES_GPU, reason="TensorFlow sees a GPU")
@pytest.mark.parametrize("name", ["lstm-3-4-5-6", "gru_block_cell-3-4-5-6steps"])
def test_a_program_on_another_device_is_rejected(name):
    """TensorFlow runs an op on the CPU if there is no GPU, or no GPU kernel."""
    with pytest.raises(RuntimeError, match=rf"^{name} ran on .*CPU:0, not on GPU:0$"):
        program_of(GPU_PEERS[OURS], parse_case(name))
