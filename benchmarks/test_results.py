"""Tests of the benchmark's figures, reports and programs. No test checks speed."""

import importlib.util
import itertools
import json
import math
import os
import re
import sys
import threading

import bench
import cases
import gpu
import measure
import numpy as np
import program
import pytest
import report
import results
import sections
import summary
import tables
import tensorflow as tf
from cases import (
    ACCELERATED,
    AS_IS,
    CALL_IN_PYTHON,
    CONVERTED,
    COPIES,
    FORWARD,
    FORWARD_BACKWARD,
    FUNCTION,
    MEMORY,
    PENALTY,
    PRODUCT,
    SERVE_IN_C,
    TANH,
    TRAIN_ON_BATCH,
    parse_case,
)
from checks import parity
from environment import processes
from library import Task
from measure import Failure, Load, Measurement, Peer, largest_error
from sections import (
    CALL_CLIENTS,
    GRAPHS,
    KERAS,
    KERAS_XLA,
    MAIN,
    MODELS,
    ONNX_RUNTIME,
    OURS,
    OURS_INT8,
    OURS_PACKED,
    PEERS,
    PYTORCH,
    RAW_OPS,
    REFERENCE,
    SCALING_THREADS,
    SERVING,
    SERVING_CLIENTS,
    SERVING_MEMORY,
)
from test_libraries import INSTALLED, ON_CPU, library_of, reference_of

import tf_rnn_ops

needs_matplotlib = pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="needs matplotlib")
KERAS_MODELS = "Keras models"
PLAIN, GRU, MODEL = "lstm-1-2-3-4", "gru-1-2-3-4", "model-lstm-1-1-3-4"
PENALIZED, SERVED = f"penalty-{PLAIN}", f"served-{PLAIN}"
MEBI = 2**20


def fake_run(seconds, section=MAIN, waits=()):
    """Returns a run with the given seconds, or bytes, of (case, peer, task)."""
    measurements = [
        Measurement(section, parse_case(case), peer, task, [value], 0.0, [0.0], waits)
        for (case, peer, task), value in seconds.items()
    ]
    return results.Run("2026-11-21", threads=1, commit="abc", measurements=measurements)


def joined(runs):
    return runs[0].replace(measurements=[each for run in runs for each in run.measurements])


def of_peers(case, task, section=MAIN, waits=(), **seconds):
    return fake_run({(case, peer, task): value for peer, value in seconds.items()}, section, waits)


def fake_models():
    """Returns a run of two models. PyTorch runs the first one faster than an empty function."""
    empty, alone, second = cases.EMPTY_FUNCTION, cases.OPS_ALONE, "model-lstm-2-5-3-4"
    runs = [
        of_peers(MODEL, FUNCTION, MODELS, tf_rnn_ops=400e-6, keras=600e-6, keras_xla=200e-6, pytorch=100e-6),
        of_peers(MODEL, empty, MODELS, tf_rnn_ops=300e-6),
        of_peers(MODEL, alone, MODELS, tf_rnn_ops=(300 + 20 * cases.REPEATS) * 1e-6),
        of_peers(MODEL, TRAIN_ON_BATCH, MODELS, tf_rnn_ops=1e-3, keras=2e-3),
        of_peers(second, FUNCTION, MODELS, tf_rnn_ops=1e-3, keras=8e-3, pytorch=1.5e-3, onnxruntime=0.9e-3),
        of_peers(second, empty, MODELS, tf_rnn_ops=300e-6),
        of_peers(second, alone, MODELS, tf_rnn_ops=(300 + 500 * cases.REPEATS) * 1e-6),
    ]
    return joined(runs)


# ---------------------------------------------------------------- figures and pages


def test_figures():
    case, product = parse_case(PLAIN), parse_case("product-64")
    products = {
        ("product-64", PYTORCH, PRODUCT): product.flops(PRODUCT) / 60e9,
        ("product-64", RAW_OPS, PRODUCT): product.flops(PRODUCT) / 50e9,
        ("product-64-bfloat16", RAW_OPS, PRODUCT): product.flops(PRODUCT) / 90e9,
    }
    one = of_peers(PLAIN, FORWARD, SCALING_THREADS[1], tf_rnn_ops=16.0, pytorch=8.0)
    eight = of_peers(PLAIN, FORWARD, SCALING_THREADS[8], tf_rnn_ops=2.5, pytorch=5.0)
    ours = case.flops(FORWARD) / 30e9
    main = of_peers(PLAIN, FORWARD, tf_rnn_ops=ours, keras=3 * ours, keras_xla=2 * ours)
    run = joined([main, fake_run(products, sections.PRODUCTS), one, eight])
    assert run.num_threads() == [1, 8]
    for figure, expected in (
        (results.speedup(FORWARD, KERAS), 3),
        (results.speedup(FORWARD, KERAS, KERAS_XLA, PYTORCH), 2),
        (results.speedup(FORWARD, PYTORCH), None),
        (results.speedup(FORWARD_BACKWARD, KERAS), None),
        (results.share(FORWARD), 0.5),
        (results.efficiency(FORWARD, 8), 16 / 2.5 / 8),
        (results.efficiency(FORWARD, 8, PYTORCH), 8 / 5 / 8),
        (results.efficiency(FORWARD, 16), None),
    ):
        assert figure(run, MAIN, case) == (expected and pytest.approx(expected))


def test_samples_of_the_same_task_are_merged():
    case = parse_case("product-2")
    parts = [
        Measurement(MAIN, case, peer, PRODUCT, seconds, 0.0, seconds, seconds)
        for peer, seconds in ((PYTORCH, [1.0]), (RAW_OPS, [2.0]), (PYTORCH, [3.0, 4.0]))
    ]
    merged = results.merge(parts)
    assert [(each.peer, each.samples) for each in merged] == [(PYTORCH, [1.0, 3.0, 4.0]), (RAW_OPS, [2.0])]
    assert all(each.others == each.waits == each.samples for each in merged)


def test_a_later_measurement_or_failure_replaces_a_failure(tmp_path):
    failures = [Failure(MAIN, PLAIN, KERAS, "wrong"), Failure(MAIN, PLAIN, PYTORCH, "wrong")]
    run = of_peers(PLAIN, FORWARD, tf_rnn_ops=1).replace(failures=failures)
    again = of_peers(PLAIN, FORWARD, keras=3).measurements
    new = [Failure(MAIN, PLAIN, PYTORCH, "no memory"), Failure(MEMORY, PLAIN, PYTORCH, "no memory")]
    added = program.add(run, again, new, tmp_path / "results.json")
    assert added.failures == new
    text = report.to_markdown(added)
    assert text.count(f"PyTorch failed in {PLAIN}.") == 2
    assert report.part_to_markdown(added, "ops").count(f"PyTorch failed in {PLAIN}.") == 1


def made_up_parts():
    """Returns a run of each part of the report, and a row of its tables."""
    memory = {(PLAIN, OURS, MEMORY): 60, (PENALIZED, OURS, MEMORY): 150, (PLAIN, KERAS, MEMORY): 120}
    copies = {(SERVED, OURS, task): count * 30 * MEBI for count, task in COPIES.items()}
    penalty = {(PENALIZED, OURS, FORWARD_BACKWARD): 2e-3, (PENALIZED, OURS, PENALTY): 5e-3}
    times = {("policy-1-2-3-4", AS_IS): 6, ("policy-1-2-3-4", ACCELERATED): 3, ("policy-1-2-3-4", CONVERTED): 2}
    times |= {("policy-32-2-3-4", AS_IS): 8, ("policy-32-2-3-4", ACCELERATED): 2, ("policy-32-2-3-4", CONVERTED): 1}
    graphs = {(name, OURS, task): seconds for (name, task), seconds in times.items()}
    graphs |= {("policy-32-2-3-4", peer, TRAIN_ON_BATCH): seconds for peer, seconds in ((KERAS, 9), (OURS, 2))}
    waits, row = [4e-3, 6e-3], "| LSTM 1, 2, 3, 4 |"
    serving = [
        of_peers(SERVED, SERVE_IN_C, SERVING_CLIENTS[4], waits, tf_rnn_ops=5e-3),
        of_peers(SERVED, CALL_IN_PYTHON, SERVING_CLIENTS[4], waits, onnxruntime=1e-2),
        fake_run(copies, SERVING_MEMORY),
    ]
    return {
        KERAS_MODELS: (fake_models(), "| LSTM 1, 1, 3, 4 | 400 | 300 | 20 | 80 | 100 |"),
        "options of layers": (
            of_peers("model-gru-1-1-3-4-reset_before", FUNCTION, sections.KERAS_OPTIONS, tf_rnn_ops=1, keras=3),
            "|  | GRU 1, 1, 3, 4, reset_after=False | 1000 | 3.00 |",
        ),
        "ops": (of_peers(PLAIN, FORWARD, tf_rnn_ops=1, keras=3), f"{row} 4.48e-07 | 3.00 |"),
        "sequence length and batch size": (of_peers(PLAIN, FORWARD, sections.LENGTHS, tf_rnn_ops=1), f"{row} 1000 |"),
        "sharing a machine": (
            of_peers(PLAIN, FORWARD, sections.CLIENTS[1], waits, tf_rnn_ops=5e-3, pytorch=1e-2),
            f"{row} 1 | 200 | 100 |",
        ),
        SERVING: (joined(serving), f"{row} 4 | 200 | 100 |"),
        tables.CALLS_FROM_PYTHON: (
            of_peers(SERVED, cases.FROZEN, CALL_CLIENTS[4], waits, tf_rnn_ops_packed=2e-3),
            "|  | LSTM 1, 2, 3, 4 |\n| --- | ---: |\n| tf_rnn_ops packed: freeze | 500 |",
        ),
        GRAPHS: (
            fake_run(graphs, GRAPHS),
            "| 2, 3, 4 | Keras 3 | 8000 | 4.00 | 8.00 |",
        ),
        "memory": (fake_run({key: size * MEBI for key, size in memory.items()}, MEMORY), f"{row} 60 | 120 | 0.50 |"),
        "gradients of penalties": (
            fake_run({**penalty, (PENALIZED, KERAS, PENALTY): 2e-2}, sections.SECOND_ORDER),
            f"{row} 2 | 5 | 2.50 | 4.00 |",
        ),
        "threads": (
            of_peers(PLAIN, FORWARD, SCALING_THREADS[1], tf_rnn_ops=1, pytorch=2),
            f"{row} 2.00 |",
        ),
    }


@pytest.fixture
def pages(tmp_path):
    """The pages of the documentation and a README.md with all marks."""
    docs, readme = tmp_path / "docs", tmp_path / "README.md"
    (docs / "guides").mkdir(parents=True)
    parts = (summary.PART, *report.PARTS)
    marked = {part: f"\nold {part}\n".join(report.marks(part)) + "\n" for part in parts}
    for name in {*map(report.page_of, parts)}:
        of_page = [marked[part] for part in parts if report.page_of(part) == name]
        (docs / name).write_text("\n".join(["before\n", *of_page, "after\n"]))
    readme.write_text(f"before\n\n{marked[summary.PART]}\nafter\n")
    return docs, readme


@needs_matplotlib
@pytest.mark.parametrize("part", report.PARTS)
def test_publishing_replaces_the_text_between_the_marks_of_a_part(part, pages, tmp_path):
    docs, readme = pages
    page = docs / report.page_of(part)
    run, row = made_up_parts()[part]
    run.write(tmp_path / "results.json")
    read = results.read(tmp_path / "results.json")
    assert report.publish(read, docs) == [*dict.fromkeys([page, docs / "performance.md", readme])]
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    block = report.block_of(page, part)
    assert report.part_to_markdown(run, part) in block
    assert row in block
    texts = "".join((docs / name).read_text() for name in {*map(report.page_of, report.PARTS)})
    assert [other for other in report.PARTS if f"old {other}\n" not in texts] == [part]
    assert f"old {summary.PART}" not in readme.read_text()
    report.publish(read, docs)
    assert page.read_text() == text
    page.write_text("no marks")
    with pytest.raises(ValueError, match=rf"{page.name} must contain"):
        report.publish(run, docs)


@needs_matplotlib
def test_the_summary_says_what_is_faster_and_what_is_slower(pages):
    docs, readme = pages
    waits = {OURS_PACKED: [2e-3], OURS_INT8: [1e-3], ONNX_RUNTIME: [1e-3]}
    calls = [
        of_peers(SERVED, cases.FROZEN if peer != ONNX_RUNTIME else CALL_IN_PYTHON, CALL_CLIENTS[1], each, **{peer: 1})
        for peer, each in waits.items()
    ]
    served = of_peers(SERVED, SERVE_IN_C, SERVING_CLIENTS[4], [1e-3], tf_rnn_ops_packed=1, tf_rnn_ops_int8=1)
    onnx = of_peers(SERVED, CALL_IN_PYTHON, SERVING_CLIENTS[4], [1e-3], onnxruntime=2)
    exported = made_up_parts()[GRAPHS][0]
    report.publish(joined([fake_models(), *calls, served, onnx, exported]), docs)
    text, front = (docs / "performance.md").read_text(), readme.read_text()
    assert "|  | LSTM 1, 1, 3, 4 | 0.4 | 1.50 | 0.50 | 0.25 |  |\n" in text
    assert "| geometric mean |  |  | 3.46 | 0.50 | 0.61 | 0.90 |\n" in text
    assert "| range |  |  | 1.50 to 8.00 | 0.50 to 0.50 | 0.25 to 1.50 | 0.90 to 0.90 |\n" in text
    for line in (
        "- Predict with a Keras model: **3.46x** Keras, **0.50x** Keras XLA, **0.61x** PyTorch, "
        "**0.90x** ONNX Runtime\n",
        "- Train a Keras model: **2.00x** Keras\n",
        "- Serve in C, packed weights: **2.00x** ONNX Runtime\n",
        "- Serve from Python, packed weights: **0.50x** ONNX Runtime\n",
        "- Call an old SavedModel from Python: **2.83x** the same file before\n",
    ):
        assert line in front
    assert "(tf_rnn_ops unknown (abc), 2026-11-21, unknown CPU, unknown instruction set, 1 threads):" in front
    assert "(docs/images/speed.png)" in front
    assert (docs / "images" / "speed.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert "| Predict with a Keras model | PyTorch | 0.61 | 0.25 | 1.50 | 2 |\n" in text
    slower = report.block_of(docs / "performance.md", summary.PART).partition("### Where others are faster\n\n")[2]
    assert slower.strip().splitlines() == [
        "- Keras models: tf.function: Keras XLA in 1 of 1 rows, down to 0.50 (LSTM 1, 1, 3, 4); PyTorch in 1 of 2 "
        "rows, down to 0.25 (LSTM 1, 1, 3, 4); ONNX Runtime in 1 of 1 rows, down to 0.90 (LSTM 2, 5, 3, 4)",
        "- 1 thread: median of a call, µs: ONNX Runtime in 1 of 1 rows, down to 0.50 (LSTM 1, 2, 3, 4)",
    ]


def of_the_documentation():
    """Returns the text of each part of the documentation."""
    return {part: report.block_of(report.DOCS / report.page_of(part), part) for part in report.PARTS}


def test_the_documentation_has_the_tables_and_the_summary_of_the_report():
    found = of_the_documentation()
    for part, text in found.items():
        assert [title for title in re.findall("^### (.*)$", text, re.MULTILINE) if title in tables.TABLES] == [
            table.title for table in report.PARTS[part]
        ]
        assert not re.search(r"\|[^|\n]*;[^|\n]*\|", text), "a cell has several figures"
    models = summary.rows_of(report.PARTS[KERAS_MODELS][0], found)
    assert [name for name, _ in models] == [*sections.MODEL_WORDS.values()]
    assert summary.page(found).strip() == report.block_of(report.DOCS / "performance.md", summary.PART).strip()
    assert summary.front(found).strip() == report.block_of(report.DOCS.parent / "README.md", summary.PART).strip()


@pytest.mark.parametrize("part", report.PARTS)
def test_the_tables_are_of_this_minor_version(part):
    found = of_the_documentation()[part]
    if part in report.MEASURED_ELSEWHERE:
        assert re.search(r"\b20\d\d-\d\d-\d\d\b", found)
        return
    version = re.search(r"^tf_rnn_ops ([\d.]+) \([0-9a-f]+\), 20\d\d-\d\d-\d\d, ", found, re.MULTILINE)
    assert version, found[:300]
    assert version[1].split(".")[:2] == tf_rnn_ops.__version__.split(".")[:2]


# ---------------------------------------------------------------- how it is measured


class LocalWorker:
    """Stands for a `Worker`, without a process; its samples are numbered, and each turn is recorded."""

    def __init__(self, peer, threads, log):
        self.peer = peer
        self._session = measure.Session(library_of(peer))

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def request(self, method, *arguments):
        if method == "calibrate" or (self.peer == REFERENCE and method != "results"):
            return None
        if self.peer == REFERENCE:
            return reference_of(arguments[0])[arguments[1]]
        result = getattr(self._session, method)(*arguments)
        if method == "results" and self.corrupted == (self.peer.name, arguments[1]):
            last = list(result)[-1]
            return {**result, last: result[last] * 1.01}
        return result

    def sample(self, case, task, load):
        self.turns.append((self.peer.name, case.name, task))
        waits = self.request("sample", case, task, load)[1] if load.seconds else ()
        return measure.Sample(float(len(self.turns)), next(self.others), waits)


@pytest.fixture
def local_bench(tmp_path, monkeypatch):
    """Returns a function that creates a bench whose peers run in this process."""
    monkeypatch.setattr(measure, "Worker", LocalWorker)
    for name, value in {"turns": [], "corrupted": None, "others": itertools.repeat(0.0)}.items():
        monkeypatch.setattr(LocalWorker, name, value, raising=False)
    return lambda *names: measure.Bench([PEERS[name] for name in names], REFERENCE, 1, tmp_path / "log")


def test_peers_take_turns(local_bench):
    case, rounds = parse_case(PLAIN), 8
    with local_bench(OURS, KERAS, RAW_OPS) as made:
        measured, failures = made.measure(MAIN, case, [OURS, KERAS, RAW_OPS, PYTORCH], rounds)
    assert failures == []
    keys = sorted([(peer, case.name, task) for peer in (OURS, KERAS) for task in case.tasks])
    turns = LocalWorker.turns
    orders = [turns[start : start + len(keys)] for start in range(0, len(turns), len(keys))]
    assert [sorted(order) for order in orders] == [keys] * rounds
    assert len({tuple(order) for order in orders}) > 1
    assert sorted(value for each in measured for value in each.samples) == list(range(1, len(turns) + 1))


@pytest.mark.parametrize(("others", "counts"), [([0.9, 0.1, 0.0], 2), ([0.1, 0.0, 0.0], 1), ([0.9, 0.8, 0.7], 3)])
def test_disturbed_samples_are_taken_again(others, counts, local_bench, monkeypatch):
    monkeypatch.setattr(LocalWorker, "others", iter(others))
    with local_bench(RAW_OPS) as made:
        ((measured,), _) = made.measure(MAIN, parse_case("product-2"), [RAW_OPS], rounds=1)
    assert (measured.samples, measured.others) == ([float(counts)], [others[counts - 1]])


def test_peers_without_the_background_case_are_not_measured(local_bench):
    load = Load(seconds=0.01, clients=3, background=[(parse_case("product-2"), PRODUCT)])
    with local_bench(OURS, RAW_OPS) as made:
        measured, _ = made.measure("x", parse_case("elementwise-2"), [OURS, RAW_OPS], 2, [TANH], load)
    assert [(each.peer, each.task, len(each.samples)) for each in measured] == [(RAW_OPS, TANH, 2)]
    assert len(measured[0].waits) >= 2 * load.clients


@pytest.mark.parametrize(("allowed_error", "is_wrong"), [(0.0, True), (0.02, False)])
def test_a_peer_with_wrong_results_is_not_measured(allowed_error, is_wrong, local_bench, monkeypatch):
    monkeypatch.setattr(LocalWorker, "corrupted", (RAW_OPS, PRODUCT))
    monkeypatch.setitem(PEERS, RAW_OPS, PEERS[RAW_OPS]._replace(allowed_error=allowed_error))
    with local_bench(RAW_OPS) as made:
        measured, failures = made.measure(MAIN, parse_case("product-2"), [RAW_OPS], rounds=1)
    assert len(measured) == (0 if is_wrong else 1)
    message = "tf_raw_ops gives wrong results for matmul of product-2: the error is 1.0e-02"
    assert [each.message for each in failures] == [message] * is_wrong


def test_error_is_relative_to_the_largest_magnitude():
    expected = {"a": np.array([1.0, -4.0]), "b": np.array([100.0, 0.0]), "zero": np.zeros(2)}
    assert largest_error(expected, expected) == 0
    assert largest_error({**expected, "a": np.array([1.5, -4.0]), "b": np.array([101.0, 0.5])}, expected) == 0.125
    assert largest_error({**expected, "zero": np.array([0.0, -0.5])}, expected) == 0.5
    assert largest_error({**expected, "a": np.array([1.0, math.nan])}, expected) == math.inf
    with pytest.raises(ValueError, match="expected the results a, got b"):
        largest_error({"b": np.ones(2)}, {"a": np.ones(2)})
    with pytest.raises(ValueError, match=r"a must have shape \(2, 1\), but has shape \(1, 2\)"):
        largest_error({"a": np.ones([1, 2])}, {"a": np.ones([2, 1])})


def test_each_call_of_each_client_is_timed_with_background_calls():
    begun, at_once, calls = threading.Event(), threading.Barrier(3), itertools.count()

    def call():
        assert begun.wait(processes.TIMEOUT)  # the background call runs meanwhile
        next(calls)
        at_once.wait(processes.TIMEOUT)

    _, waits = measure.time_requests(call, [begun.set], Load(seconds=0.0, clients=3))
    assert len(waits) == next(calls) == 3
    assert min(waits) > 0


def test_many_times_of_calls_keep_their_percentiles():
    times = np.random.default_rng(0).exponential(size=100_000).tolist()
    of_all, kept = (
        Measurement(MAIN, parse_case(PLAIN), OURS, FORWARD, [1.0], 0.0, [0.0], waits)
        for waits in (times, measure.quantiles(times))
    )
    assert len(kept.waits) == measure.QUANTILES
    for percent in (0, 50, 99, 99.9, 100):
        assert kept.wait(percent) == pytest.approx(of_all.wait(percent), rel=1e-3)
    assert measure.quantiles(times[:10]) == times[:10]


SAMPLE = measure.SAMPLE_SECONDS


@pytest.mark.parametrize(
    ("calibration", "seconds", "wait", "calls", "expected"),
    [
        # The first call compiles and takes long. The others take a bit more than a quarter of a sample, and in turns
        # twice as long: a call warms up, and four are timed together.
        ([100.0, SAMPLE / 3.9, SAMPLE / 3.9], SAMPLE / 1.95, 0.0, 1 + 4, SAMPLE / 1.95),
        # Long calls need no warm-up.
        ([], 2 * measure.LONG_SAMPLES * SAMPLE, 0.0, 1, 2 * measure.LONG_SAMPLES * SAMPLE),
        # A sample synchronizes once: alone, a call takes 5 / 16 of a sample.
        ([], SAMPLE / 16, SAMPLE / 4, 1 + 4, SAMPLE / 16 + SAMPLE / 4 / math.ceil(16 / 5)),
    ],
)
def test_calls_in_a_sample(calibration, seconds, wait, calls, expected, monkeypatch):
    now, made, times = [0.0], [], itertools.chain(calibration, itertools.repeat(seconds))

    def call():
        made.append(1)
        now[0] += next(times)

    class Known:
        def program(self, case):
            return {PRODUCT: Task(call, dict)}

        def synchronize(self):
            now[0] += wait

    monkeypatch.setattr(measure.time, "perf_counter", lambda: now[0])
    session, case = measure.Session(Known()), parse_case("product-2")
    session.prepare(case)
    session.calibrate(case, PRODUCT)
    made.clear()
    measured, waits = session.sample(case, PRODUCT, measure.QUIET)
    assert measured == pytest.approx(expected)
    assert waits == ()
    assert len(made) == calls


CRASHING = """
import os, signal

class Library:
    def __init__(self, threads):
        self.versions = dict

    def program(self, case):
        if case.kind == "product":
            raise ValueError("no products")
        os.kill(os.getpid(), signal.SIGSEGV)
"""


def test_a_process_that_crashes_is_replaced(tmp_path, monkeypatch):
    (tmp_path / "crashing.py").write_text(CRASHING)
    monkeypatch.syspath_prepend(tmp_path)
    peer, unused = Peer("x", "Nobody", "crashing.Library", []), Peer("", "", "measure.Load", [])
    with measure.Bench([peer], unused, 1, tmp_path / "log") as made:
        for case, message in [(PLAIN, "the Nobody process ended with -11"), ("product-2", "ValueError: no products")]:
            taken, (failure,) = made.measure("x", parse_case(case), ["x"], 1)
            assert taken == []
            assert message in failure.message


# In a new process: this one may hold memory of other tests.
def test_memory_of_a_step_holds_its_gradients(tmp_path):
    with measure.Worker(PEERS[OURS], 2, tmp_path / "log") as worker:
        before, peak = worker.request("step_memory", parse_case("lstm-8-20-64-512"))
    assert before > 0
    assert peak - before >= 4 * 4 * 512 * (512 + 64)


# ---------------------------------------------------------------- the programs


def settings_of(module, monkeypatch, *options):
    monkeypatch.setattr(sys, "argv", [f"{module.__name__}.py", *options])
    return module.parse_arguments()


@pytest.mark.parametrize(
    ("module", "option", "message"),
    [
        (bench, "--cases=lstm-1-2-3-4,lstm", "'lstm' is not a valid case"),
        (bench, "--cases=lstm-1-2-3-4-5", "'lstm-1-2-3-4-5' is not a valid case"),
        (bench, "--cases=decoder-lstm-1-2-3-4", "'decoder-lstm-1-2-3-4' is not a valid case"),
        (bench, "--sections=main,none", "'none' is not one of main, memory"),
        (bench, "--rounds=0", "'0' is not a positive integer"),
        (gpu, "--peers=keras", "'keras' is not one of tf_raw_ops, pytorch"),
    ],
)
def test_invalid_options_are_rejected(module, option, message, monkeypatch, capsys):
    with pytest.raises(SystemExit, match="2"):
        settings_of(module, monkeypatch, option)
    assert message in capsys.readouterr().err


def test_options_select_sections_and_cases(monkeypatch):
    default = settings_of(bench, monkeypatch)
    assert default.sections == bench.DEFAULT
    assert default.peers == [name for name in PEERS if name != OURS]
    assert settings_of(bench, monkeypatch, "--sections=calls,scaling").sections == ["calls", "scaling"]
    names = [PLAIN, MODEL, "decoder-lstm-1-1-3-4", SERVED, "policy-1-2-3-4"]
    settings = settings_of(bench, monkeypatch, f"--cases={','.join(names)}")
    assert settings.sections == [MAIN, MODELS, SERVING, GRAPHS]
    for section, expected in (
        (MAIN, names[:1]),
        (MODELS, names[1:3]),
        (SERVING_CLIENTS[4], names[3:4]),
        (GRAPHS, names[4:]),
        (sections.CLIENTS[4], names[:1]),
        (CALL_CLIENTS[8], names[3:4]),
        (sections.KERAS_OPTIONS, names[1:3]),
        (sections.CALLS, []),
    ):
        assert [case.name for case in bench.cases_of(sections.SECTIONS[section], settings)] == expected


def test_peers_that_are_not_installed_are_skipped(capsys):
    missing = PEERS[ONNX_RUNTIME]._replace(packages=["math", "no_such_package"])
    peers, run = program.begin([PEERS[OURS], missing], threads=1)
    assert peers == [PEERS[OURS]]
    sentence = "ONNX Runtime is skipped; not installed: no_such_package"
    assert sentence in capsys.readouterr().out
    assert sentence in report.to_markdown(run)


@pytest.mark.usefixtures("local_bench")
def test_a_run_on_a_gpu(monkeypatch, tmp_path, capsys):
    """On the CPU. NVIDIA's libraries read the variable. TF32 also allows errors of 1%."""
    tf_rnn_ops.enable_builtin_kernels()
    monkeypatch.setattr(gpu, "find_gpu", lambda: "NVIDIA H200")
    monkeypatch.setattr(gpu, "GPU_PEERS", ON_CPU)
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    monkeypatch.setenv("TF_RNN_OPS_GPU", "0")
    monkeypatch.setattr(LocalWorker, "corrupted", (RAW_OPS, FORWARD))
    names = ["tanh-1-2-3-4", "lstm-2-3-8-16-bfloat16", "gru_block_cell-2-8-16"]
    for option, tf32 in ((None, True), ("--no-tf32", False)):
        options = [option] if option else []
        options += ["--quick", "--peers=tf_raw_ops", f"--cases={','.join(names)}", f"--output={tmp_path}"]
        monkeypatch.setattr(sys, "argv", ["gpu.py", *options])
        gpu.main()
        assert capsys.readouterr().out.startswith(f"NVIDIA H200, float32 as {'TF32' if tf32 else 'float32'}\n")
        assert os.environ["NVIDIA_TF32_OVERRIDE"] == ("1" if tf32 else "0")
        written = json.loads((tmp_path / "gpu.json").read_text())
        assert (written["gpu"], written["tf32"]) == ("NVIDIA H200", tf32)
        failed = [] if tf32 else [(names[0], RAW_OPS), (names[2], RAW_OPS)]
        assert [(each["case"], each["peer"]) for each in written["failures"]] == failed
        # TensorFlow has no bfloat16 backward pass.
        expected = {
            (name, peer, task)
            for name, peer in itertools.product(names, [OURS, RAW_OPS])
            for task in parse_case(name).tasks
            if (name, peer) not in failed and (name, peer, task) != (names[1], RAW_OPS, FORWARD_BACKWARD)
        }
        assert {(each["case"], each["peer"], each["task"]) for each in written["measurements"]} == expected


@pytest.mark.usefixtures("local_bench")
def test_an_interrupted_measurement_of_memory_goes_on(monkeypatch, tmp_path):
    taken = iter(range(1, 9))

    class Worker:
        def __init__(self, peer, *_):
            self.peer = peer

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def request(self, method, *_):
            if method == "versions":
                return {"CPU": "a"}
            if self.peer.name == KERAS:
                raise measure.PeerError(KERAS, "no memory")
            return 0, next(taken)

    monkeypatch.setattr(bench, "Worker", Worker)
    options = ["--sections=memory", f"--cases={PLAIN}", "--peers=keras", "--threads=1", f"--output={tmp_path}"]
    monkeypatch.setattr(sys, "argv", ["bench.py", *options, "--resume"])
    path = tmp_path / "results.json"
    begun = {"quick": False, "rounds": bench.ROUNDS, "peers": [KERAS], "cases": [PLAIN]}
    one = of_peers(PLAIN, MEMORY, MEMORY, tf_rnn_ops=9).replace(options=begun, commit=program.commit())
    one.write(path)
    bench.main()
    run = results.read(path)
    assert [(each.peer, each.samples) for each in run.measurements] == [(OURS, [9, 1, 2])]
    assert run.failures == [Failure(MEMORY, PLAIN, KERAS, "no memory")]
    assert run.versions == {OURS: {"CPU": "a"}, KERAS: {"CPU": "a"}}


@pytest.mark.usefixtures("local_bench")
def test_an_interrupted_run_goes_on(monkeypatch, tmp_path):
    def run(*options):
        options = ["--quick", "--peers=keras", "--threads=1", f"--output={tmp_path}", *options]
        monkeypatch.setattr(sys, "argv", ["bench.py", *options])
        LocalWorker.turns.clear()
        bench.main()
        return {case for _, case, _ in LocalWorker.turns}, results.read(tmp_path / "results.json")

    with pytest.raises(SystemExit, match="cannot resume: there is no"):
        run("--sections=batches", "--resume")
    _, first = run("--sections=batches")
    removed, *kept = first.cases(sections.BATCHES)
    before = [each for each in first.measurements if each.case in kept]
    failure = Failure(sections.BATCHES, removed.name, KERAS, "interrupted")
    first.replace(measurements=before, failures=[failure]).write(tmp_path / "results.json")
    measured, both = run("--sections=batches,lengths", "--resume")
    assert measured == {removed.name, *(case.name for case in sections.SECTIONS[sections.LENGTHS].quick_cases)}
    assert [each for each in both.measurements if each.case in kept and each.section == sections.BATCHES] == before
    assert both.failures == []
    for changed, message in (
        ({"commit": "abc"}, "cannot resume: commit: abc when the run was interrupted"),
        ({"threads": 9}, "cannot resume: threads: 9 when"),
        ({"options": {**both.options, "rounds": 9}}, "cannot resume: options: .*'rounds': 9.* when"),
        ({"left_out": {PYTORCH: ["torch"]}}, "cannot resume: left_out: "),
        ({"versions": {**both.versions, KERAS: {"Keras": "1"}}}, "cannot resume: versions of Keras: "),
    ):
        left = [each for each in both.measurements if each.case != removed]
        both.replace(measurements=left, **changed).write(tmp_path / "results.json")
        with pytest.raises(SystemExit, match=message):
            run("--sections=batches,lengths", "--resume")
    assert not run("--sections=batches")[1].cases(sections.LENGTHS)


def test_the_status_says_if_ours_failed(tmp_path, monkeypatch):
    failed = of_peers(PLAIN, FORWARD, tf_rnn_ops=1).replace(failures=[Failure(MAIN, GRU, OURS, "wrong results")])
    monkeypatch.setattr(bench, "run_benchmark", lambda _: failed)
    monkeypatch.setattr(sys, "argv", ["bench.py", "--output", str(tmp_path)])
    with pytest.raises(SystemExit, match="1"):
        bench.main()


@pytest.mark.slow
def test_a_quick_run_has_every_measurement_once(tmp_path):
    options = [f"--sections={','.join(bench.OPTIONS)}", "--quick", "--rounds=3", "--threads=2", f"--output={tmp_path}"]
    process = processes.run_python(bench.__file__, *options)
    assert process.returncode == 0, process.stderr[-2000:]
    run = results.read(tmp_path / "results.json")
    assert run.failures == []
    assert run.num_threads() == [1, 2]
    keys = [(each.section, each.case, each.peer, each.task) for each in run.measurements]
    assert len(set(keys)) == len(keys)
    for section in (each for each in sections.SECTIONS.values() if each.num_threads <= 2):
        of_section = [(case, peer) for name, case, peer, _ in keys if name == section.name]
        assert {case for case, _ in of_section} == {*section.quick_cases}
        assert {peer for _, peer in of_section} == {*section.peers} & {*INSTALLED}
        for case in (each for each in section.quick_cases if each.has_network or each.is_model or each.is_served):
            assert (case, OURS) in of_section or OURS not in section.peers, case
    called = {(task, peer) for section, case, peer, task in keys if section in sections.CALL_CLIENTS.values()}
    assert {*sections.WAYS} <= called
    for each in run.measurements:
        load = sections.SECTIONS[each.section].quick_load
        assert len(each.samples) == (1 if each.section == MEMORY else 3)
        assert min(each.samples) > 0 or each.section == MEMORY
        times_each_call = load.seconds > 0 or each.task == SERVE_IN_C
        assert (len(each.waits) >= load.clients * 3 and min(each.waits) > 0) if times_each_call else not each.waits
        # Others may accumulate in 16 bits.
        factor = 1 if each.peer == OURS else 5
        assert 0 <= each.error <= (PEERS[each.peer].allowed_error or factor * parity.TOLERANCES[each.case.dtype])
    text = (tmp_path / "results.md").read_text()
    assert all(f"### {table.title}\n" in text for table in itertools.chain(*report.PARTS.values()))
    written = json.loads((tmp_path / "results.json").read_text())
    assert written["versions"][OURS]["tf_rnn_ops"] == tf_rnn_ops.__version__
    assert tf_rnn_ops._library.active_instruction_set() in written["versions"][OURS]["instruction set"]
    assert written["versions"][KERAS]["TensorFlow"] == tf.__version__
    for each in written["measurements"]:
        assert each["median"] == pytest.approx(np.median(each["samples"]))
