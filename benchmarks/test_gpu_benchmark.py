"""Tests of the GPU benchmark without a GPU: equal computations in all libraries, written results."""

import itertools
import json
import sys

import cases
import gpu
import gpu_libraries
import measure
import numpy as np
import peers
import pytest
import sections
import targets
import tensorflow as tf
import workers
from checks import parity
from environment import processes
from local_workers import LocalWorker, library
from peers import GPU_PEERS, OURS, PYTORCH, RAW_OPS

import tf_rnn_ops

INSTALLED = [name for name, peer in GPU_PEERS.items() if not peer.missing_packages()]
sees_gpu = bool(tf.config.list_physical_devices("GPU"))


@pytest.fixture
def on_cpu(monkeypatch):
    """Runs the libraries on the CPU, where our kernels implement TensorFlow's own ops."""
    tf_rnn_ops.enable_builtin_kernels()
    monkeypatch.setattr(gpu_libraries.OnDevice, "device", "CPU:0")
    if PYTORCH in INSTALLED:
        import pytorch_library

        monkeypatch.setattr(pytorch_library.PyTorchCuda, "device", "cpu")


@pytest.mark.skipif(sees_gpu, reason="TensorFlow sees a GPU")
def test_a_missing_gpu_is_reported():
    process = processes.run_python(gpu.__file__)
    assert process.returncode == 1
    assert process.stdout == ""
    last_line = process.stderr.strip().splitlines()[-1]
    assert last_line == "TensorFlow sees no GPU. To measure on the CPU, use benchmarks/bench.py."


# ---------------------------------------------------------------- what the libraries compute


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize(
    "name", ["lstm-3-4-5-6", "gru-3-4-5-6-2layers-bidirectional", "tanh-3-4-5-6", "gru-3-7-5-6-varying"]
)
@pytest.mark.parametrize("peer", GPU_PEERS)
def test_networks_equal_the_reference(peer, name):
    case = cases.parse_case(f"{name}-float64")
    prepared, reference = library(GPU_PEERS[peer]).program(case), library(peers.REFERENCE).program(case)
    assert list(prepared.calls) == list(case.tasks)
    for task in case.tasks:
        assert measure.largest_error(prepared.results(task), reference.results(task)) <= parity.TOLERANCES["float64"]


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("peer", [OURS, RAW_OPS])
def test_networks_of_float16_are_near_the_reference(peer):
    case = cases.parse_case("lstm-3-4-5-6-float16")
    prepared, reference = library(GPU_PEERS[peer]).program(case), library(peers.REFERENCE).program(case)
    for task in case.tasks:
        actual = {key: array.astype(np.float64) for key, array in prepared.results(task).items()}
        assert measure.largest_error(actual, reference.results(task)) <= 5 * parity.TOLERANCES["float16"]


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("peer", [OURS, RAW_OPS])
def test_cells_equal_the_reference(peer):
    case = cases.parse_case("gru_block_cell-3-4-5-6steps")
    prepared, reference = library(GPU_PEERS[peer]).program(case), library(peers.REFERENCE).program(case)
    for task in case.tasks:
        assert measure.largest_error(prepared.results(task), reference.results(task)) <= parity.TOLERANCES["float32"]


@pytest.mark.usefixtures("on_cpu")
def test_unsupported_cases_have_no_program():
    cell = cases.parse_case("gru_block_cell-3-4-5-float16")
    assert library(GPU_PEERS[RAW_OPS]).program(cell) is None  # TensorFlow has the op in float32 only
    assert library(GPU_PEERS[OURS]).program(cell) is not None
    assert all(library(GPU_PEERS[name]).program(cases.Product(2)) is None for name in INSTALLED)


@pytest.mark.skipif(sees_gpu, reason="TensorFlow sees a GPU")
@pytest.mark.parametrize("name", ["lstm-3-4-5-6", "gru_block_cell-3-4-5-6steps"])
def test_a_program_on_another_device_is_rejected(name):
    """TensorFlow runs an op on the CPU if there is no GPU, or no GPU kernel."""
    with pytest.raises(RuntimeError, match=rf"^{name} ran on .*CPU:0, not on GPU:0$"):
        library(GPU_PEERS[OURS]).program(cases.parse_case(name))


def test_pytorch_without_a_gpu_has_no_networks():
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("PyTorch sees a GPU")
    pytorch = library(GPU_PEERS[PYTORCH])
    assert pytorch.program(cases.parse_case("lstm-3-4-5-6")) is None
    assert pytorch.versions() == {"PyTorch": f"{torch.__version__} (no GPU found)"}
    pytorch.synchronize()


# ---------------------------------------------------------------- the program


@pytest.fixture
def run_locally(on_cpu, monkeypatch, tmp_path):
    """Returns a function that runs the program in this process as if on a GPU and returns its gpu.json."""
    monkeypatch.setattr(measure, "Worker", LocalWorker)
    monkeypatch.setattr(LocalWorker, "turns", [], raising=False)
    monkeypatch.setattr(LocalWorker, "corrupted", None, raising=False)
    monkeypatch.setattr(LocalWorker, "others", itertools.repeat(0.0), raising=False)
    monkeypatch.setattr(LocalWorker, "versions", lambda worker: worker._session.versions(), raising=False)
    monkeypatch.setattr(gpu, "find_gpu", lambda: "NVIDIA H200")
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    monkeypatch.setenv("TF_RNN_OPS_GPU", "0")

    def run(*options):
        monkeypatch.setattr(sys, "argv", ["gpu.py", "--quick", f"--output={tmp_path / 'new'}", *options])
        gpu.main()
        return json.loads((tmp_path / "new" / "gpu.json").read_text())

    return run


def test_json_has_every_measurement_and_the_gpus_name(run_locally, capsys):
    results = run_locally()
    assert results["gpu"] == "NVIDIA H200"
    assert results["tf32"] is True
    assert results["versions"][OURS]["tf_rnn_ops"] == tf_rnn_ops.__version__
    assert results["versions"][OURS]["GPU library"]
    assert results["versions"][RAW_OPS] == {"TensorFlow": tf.__version__}
    keys = {(each["case"], each["peer"], each["task"]) for each in results["measurements"]}
    assert len(keys) == len(results["measurements"])
    for case in sections.GPU_SECTION.quick_cases:
        for task in case.tasks:
            assert (case.name, OURS, task) in keys
            # The only cell among the quick cases is float32.
            has_pass = (case.dtype, task) != ("bfloat16", cases.FORWARD_BACKWARD)
            assert ((case.name, RAW_OPS, task) in keys) == has_pass
            assert ((case.name, PYTORCH, task) in keys) == (PYTORCH in INSTALLED and isinstance(case, cases.Network))
    assert all(len(each["seconds"]["samples"]) == gpu.QUICK_ROUNDS for each in results["measurements"])
    printed = capsys.readouterr().out
    assert printed.startswith("NVIDIA H200, float32 as TF32\n")
    for target in targets.GPU_TARGETS:
        assert f"{target.title}  " in printed
    for case in sections.GPU_SECTION.quick_cases:
        assert printed.count(f"\n{case.title}  ") >= 2 * len(case.tasks)


def test_without_tf32_no_library_uses_it(run_locally, monkeypatch, capsys):
    """NVIDIA's libraries read the variable."""
    seen = []
    monkeypatch.setattr(LocalWorker, "calibrate", lambda *_: seen.append(gpu.os.environ["NVIDIA_TF32_OVERRIDE"]))
    results = run_locally("--no-tf32", "--cases=tanh-1-2-3-4", "--peers=tf_raw_ops", "--rounds=3")
    assert results["tf32"] is False
    assert set(seen) == {"0"}
    assert capsys.readouterr().out.startswith("NVIDIA H200, float32 as float32\n")
    assert {each["peer"] for each in results["measurements"]} == {OURS, RAW_OPS}
    assert {each["case"] for each in results["measurements"]} == {"tanh-1-2-3-4"}
    assert all(len(each["seconds"]["samples"]) == 3 for each in results["measurements"])


def test_tf32_errors_are_allowed_only_with_tf32(run_locally, monkeypatch):
    monkeypatch.setattr(LocalWorker, "corrupted", (RAW_OPS, "forward"))  # an error of 1%
    assert run_locally("--cases=tanh-1-2-3-4")["failures"] == []
    (failure,) = run_locally("--cases=tanh-1-2-3-4", "--no-tf32")["failures"]
    assert failure["message"].startswith(
        "tf_raw_ops gives wrong results for forward of tanh-1-2-3-4: the error is 1.0e-02"
    )


# ---------------------------------------------------------------- libraries that fail


TWO_CASES = "--cases=tanh-1-2-3-4,gru-1-2-3-4"


def measured(results):
    return {(each["case"], each["peer"]) for each in results["measurements"]}


def test_a_peer_with_wrong_results_is_skipped_and_named(run_locally, monkeypatch, capsys):
    monkeypatch.setattr(LocalWorker, "corrupted", (RAW_OPS, "forward"))
    results = run_locally(TWO_CASES, "--peers=tf_raw_ops", "--no-tf32")
    assert measured(results) == {("tanh-1-2-3-4", OURS), ("gru-1-2-3-4", OURS)}
    assert [(each["case"], each["peer"]) for each in results["failures"]] == [
        ("tanh-1-2-3-4", RAW_OPS),
        ("gru-1-2-3-4", RAW_OPS),
    ]
    printed = capsys.readouterr().out
    message = "tf_raw_ops gives wrong results for forward of tanh-1-2-3-4: the error is 1.0e-02"
    assert f"tf.raw_ops is skipped: {message}" in printed


def test_a_peer_with_other_results_is_skipped(run_locally, monkeypatch):
    results_of = LocalWorker.results

    def results(worker, case, task):
        arrays = results_of(worker, case, task)
        return dict(list(arrays.items())[1:]) if worker.peer.name == RAW_OPS else arrays

    monkeypatch.setattr(LocalWorker, "results", results)
    (failure,) = run_locally("--cases=tanh-1-2-3-4", "--peers=tf_raw_ops")["failures"]
    assert failure["message"].startswith(
        "tf_raw_ops gives wrong results for forward of tanh-1-2-3-4: expected the results "
    )


@pytest.mark.parametrize("method", ["prepare", "results", "calibrate", "sample"])
def test_a_peer_that_crashes_continues_in_a_new_process(run_locally, monkeypatch, method):
    original, crashed, started = getattr(LocalWorker, method), [], []

    def crash_once(worker, case, *arguments):
        if worker.peer.name == RAW_OPS and not crashed:
            crashed.append(worker)
            raise workers.WorkerError(RAW_OPS, "the tf.raw_ops process ended with -11")
        assert worker not in crashed
        return original(worker, case, *arguments)

    begin = LocalWorker.__init__
    monkeypatch.setattr(LocalWorker, method, crash_once)
    monkeypatch.setattr(
        LocalWorker,
        "__init__",
        lambda worker, *arguments: (started.append(arguments[0].name), begin(worker, *arguments))[0],
    )
    results = run_locally(TWO_CASES, "--peers=tf_raw_ops")
    assert results["failures"] == [
        {"case": "tanh-1-2-3-4", "peer": RAW_OPS, "message": "the tf.raw_ops process ended with -11"}
    ]
    assert measured(results) == {("tanh-1-2-3-4", OURS), ("gru-1-2-3-4", OURS), ("gru-1-2-3-4", RAW_OPS)}
    assert started.count(RAW_OPS) == 2


def test_the_status_says_if_ours_failed(run_locally, monkeypatch):
    monkeypatch.setattr(LocalWorker, "corrupted", (OURS, "forward"))
    with pytest.raises(SystemExit) as exit_info:
        run_locally("--cases=tanh-1-2-3-4", "--peers=tf_raw_ops", "--no-tf32")
    assert exit_info.value.code == 1


def test_a_failure_of_the_reference_ends_the_run(run_locally, monkeypatch):
    prepare = LocalWorker.prepare

    def fail(worker, case):
        if worker.peer == peers.REFERENCE:
            raise workers.WorkerError(worker.peer.name, "float64 failed")
        return prepare(worker, case)

    monkeypatch.setattr(LocalWorker, "prepare", fail)
    with pytest.raises(workers.WorkerError, match="float64 failed"):
        run_locally("--cases=tanh-1-2-3-4")


def test_results_are_written_after_each_case(run_locally, monkeypatch, tmp_path):
    prepare = LocalWorker.prepare

    def stop_at_the_second(worker, case):
        if case.name == "gru-1-2-3-4":
            raise KeyboardInterrupt
        return prepare(worker, case)

    monkeypatch.setattr(LocalWorker, "prepare", stop_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        run_locally(TWO_CASES, "--peers=tf_raw_ops")
    results = json.loads((tmp_path / "new" / "gpu.json").read_text())
    assert measured(results) == {("tanh-1-2-3-4", OURS), ("tanh-1-2-3-4", RAW_OPS)}


@pytest.mark.usefixtures("on_cpu")
def test_tensorflows_backward_pass_of_bfloat16_is_not_measured():
    case = cases.parse_case("lstm-3-4-5-6-bfloat16")
    assert list(library(GPU_PEERS[RAW_OPS]).program(case).calls) == [cases.FORWARD]
    assert list(library(GPU_PEERS[OURS]).program(case).calls) == list(case.tasks)


def test_a_process_that_crashes_is_replaced(tmp_path):
    crashing = peers.Peer("x", "Nobody", "crashing_library.Crashing", [])
    with measure.Bench([crashing], peers.REFERENCE, 1, tmp_path / "log") as bench:
        for _ in range(2):
            with pytest.raises(workers.WorkerError, match="the Nobody process ended with -11") as error_info:
                bench.prepare(cases.parse_case("lstm-3-4-5-6"), ["x"])
            assert error_info.value.peer == "x"
            bench.restart("x")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--cases=lstm", "'lstm' is not a valid case"),
        ("--peers=keras", "'keras' is not one of tf_raw_ops, pytorch"),
        ("--rounds=0", "'0' is not a positive integer"),
    ],
)
def test_invalid_options_are_rejected(option, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["gpu.py", option])
    with pytest.raises(SystemExit) as exit_info:
        gpu.parse_arguments()
    assert exit_info.value.code == 2
    assert message in capsys.readouterr().err


def test_every_size_is_measured_in_every_type():
    sizes = ["1-100-128-256", "32-100-128-256", "64-50-512-512", "128-25-1024-1024"]
    names = {case.name for case in sections.GPU_SECTION.cases}
    for dtype in ("", "-float16"):
        assert names >= {f"{cell}-{size}{dtype}" for cell in ("lstm", "gru") for size in sizes}
        assert names >= {f"gru_block_cell-{size}-50steps{dtype}" for size in ("1-128-256", "128-1024-1024")}
    for case in [*sections.GPU_SECTION.cases, *sections.GPU_SECTION.quick_cases]:
        assert cases.parse_case(case.name) == case
