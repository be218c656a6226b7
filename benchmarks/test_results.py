"""Tests of the benchmark's figures, reports and programs. No test checks speed."""

import itertools
import json
import math
import os
import re
import subprocess
import sys
import threading
import time

import bench
import cases
import gpu
import measure
import numpy as np
import program
import pytest
import report
import results
import scaling
import sections
import targets
import tensorflow as tf
from cases import (
    COPIES,
    FORWARD,
    FORWARD_BACKWARD,
    FUNCTION,
    MEMORY,
    PENALTY,
    PRODUCT,
    SERVE_IN_C,
    SERVE_IN_PYTHON,
    TANH,
    TRAIN_ON_BATCH,
    parse_case,
)
from checks import parity
from environment import processes
from library import Task
from measure import Failure, Load, Measurement, Peer, PeerError, largest_error
from sections import (
    GPU_PEERS,
    KERAS,
    KERAS_UNROLLED,
    KERAS_XLA,
    MAIN,
    MODELS,
    ONNX_RUNTIME,
    ONNX_RUNTIME_INT8,
    OURS,
    OURS_BFLOAT16,
    OURS_INT8,
    OURS_PACKED,
    OURS_XLA,
    PEERS,
    PYTORCH,
    RAW_OPS,
    REFERENCE,
    SERVING,
    SERVING_CLIENTS,
    SERVING_MEMORY,
)
from test_libraries import HAS_MATPLOTLIB, INSTALLED, SEES_GPU, library_of, on_cpu, reference_of, tasks_of  # noqa: F401

import tf_rnn_ops

PLAIN, GRU = "lstm-1-2-3-4", "gru-1-2-3-4"
PENALIZED = f"penalty-{PLAIN}"


def fake_run(seconds, section=MAIN, waits=(), **fields):
    """Returns a run with the given seconds, or bytes, of (case, peer, task)."""
    measurements = [
        Measurement(section, parse_case(case), peer, task, [value], 0.0, [0.0], waits)
        for (case, peer, task), value in seconds.items()
    ]
    return results.Run(**{"date": "2026-11-21", "threads": 1, "measurements": measurements, **fields})


def verdicts(run):
    """Returns what is measured, where, and whether it is met, by title and bound."""
    judged = targets.judge(run, [target for group in targets.GROUPS.values() for target in group])
    return {(each.target.title, "mean" in each.target.bound): each for each in judged}


# ---------------------------------------------------------------- figures and targets


def test_speedup_is_over_the_fastest_of_several_peers():
    seconds = {OURS: 1.0, KERAS: 3.0, KERAS_XLA: 2.0}
    run = fake_run({(PLAIN, peer, FORWARD): value for peer, value in seconds.items()})

    def speedup(task, *peers):
        return results.speedup(task, *peers)(run, MAIN, parse_case(PLAIN))

    assert speedup(FORWARD, KERAS) == 3
    assert speedup(FORWARD, KERAS, KERAS_XLA, PYTORCH) == 2
    assert speedup(FORWARD, PYTORCH) is speedup(FORWARD_BACKWARD, KERAS) is None


def test_share_is_of_the_fastest_product_of_the_same_dtype():
    case, product = parse_case(PLAIN), parse_case("product-64")
    speeds = {
        ("product-64", PYTORCH, PRODUCT): product.flops(PRODUCT) / 60e9,
        ("product-64", RAW_OPS, PRODUCT): product.flops(PRODUCT) / 50e9,
        ("product-64-bfloat16", RAW_OPS, PRODUCT): product.flops(PRODUCT) / 90e9,
    }
    ours = fake_run({(PLAIN, OURS, FORWARD): case.flops(FORWARD) / 30e9})
    run = results.join([ours, fake_run(speeds, sections.PRODUCTS)])
    assert run.limit("float32") == pytest.approx(60)
    assert results.share(FORWARD)(run, MAIN, case) == pytest.approx(0.5)
    assert results.share(FORWARD_BACKWARD)(run, MAIN, case) is None


def test_targets_take_the_worst_case_and_the_geometric_mean():
    seconds = {}
    for name, ratio in {PLAIN: 1.5, GRU: 6.0, f"{PLAIN}-varying": 0.1}.items():
        seconds |= {(name, OURS, FORWARD_BACKWARD): 1.0, (name, PYTORCH, FORWARD_BACKWARD): ratio}
    judged = verdicts(fake_run(seconds))
    worst = judged["forward + backward: speedup over PyTorch", False]
    assert (worst.measured, worst.where, worst.is_met) == (1.5, "LSTM 1, 2, 3, 4", True)
    mean = judged["forward + backward: speedup over PyTorch", True]
    assert (mean.measured, mean.where, mean.is_met) == (pytest.approx(3), "2 cases", True)
    assert judged["LSTM forward: speedup over ONNX Runtime", False].is_met is None


CELL, BFLOAT16 = "gru_block_cell-1-2-3", f"{PLAIN}-bfloat16"
LARGE, SINGLE = "lstm-32-4-512-512", "gru-1-4-512-512"
SMALL_MODEL, LARGE_MODEL = "model-lstm-1-1-3-4", "model-lstm-2-5-3-4"


def fake_models():
    """Returns a run of two models. PyTorch runs the first one faster than an empty function."""
    empty, alone = cases.EMPTY_FUNCTION, cases.OPS_ALONE
    micro = {
        SMALL_MODEL: {
            FUNCTION: {OURS: 400, KERAS: 600, KERAS_XLA: 200, PYTORCH: 100},
            empty: {OURS: 300},
            alone: {OURS: 300 + 20 * cases.REPEATS},
            TRAIN_ON_BATCH: {OURS: 1000, KERAS: 2000},
        },
        LARGE_MODEL: {
            FUNCTION: {OURS: 1000, KERAS: 8000, PYTORCH: 1500, ONNX_RUNTIME: 900},
            empty: {OURS: 300},
            alone: {OURS: 300 + 500 * cases.REPEATS},
        },
    }
    seconds = {
        (case, peer, task): value / 1e6
        for case, tasks in micro.items()
        for task, peers in tasks.items()
        for peer, value in peers.items()
    }
    return fake_run(seconds, MODELS)


def of_peers(case, task, section=MAIN, waits=(), fields=None, **seconds):
    return fake_run({(case, peer, task): value for peer, value in seconds.items()}, section, waits, **(fields or {}))


WAITED = [*[1.0] * 98, 6.0, 6.0]
AMX = {"has_amx": True}
BETTER_KERAS = "speedup over the better of Keras and Keras XLA"
FASTER = "speedup over the faster of PyTorch and ONNX Runtime"
BETTER = "the better of PyTorch and ONNX Runtime"


@pytest.mark.parametrize(
    ("title", "run", "measured", "is_met"),
    [
        ("GRUBlockCell: speedup over tf.raw_ops", of_peers(CELL, FORWARD, tf_rnn_ops=1, tf_raw_ops=1.29), 1.29, False),
        ("GRUBlockCell: speedup over tf.raw_ops", of_peers(CELL, FORWARD, tf_rnn_ops=1, tf_raw_ops=1.31), 1.31, True),
        # Only with AMX.
        *(
            (
                "bfloat16 forward with AMX: speedup over PyTorch",
                of_peers(BFLOAT16, FORWARD, fields=fields, tf_rnn_ops=1, pytorch=2),
                *verdict,
            )
            for fields, verdict in ((AMX, (2, True)), ({}, (None, None)))
        ),
        # Steps below 1 ms are not compared.
        *(
            (
                "forward + backward, at least 1 ms: time with XLA / without",
                of_peers(PLAIN, FORWARD_BACKWARD, tf_rnn_ops=ms / 1e3, tf_rnn_ops_xla=1.1 * ms / 1e3),
                *verdict,
            )
            for ms, verdict in ((4, (1.1, False)), (0.9, (None, None)))
        ),
        (
            "forward + backward with XLA: speedup over Keras XLA",
            of_peers(PLAIN, FORWARD_BACKWARD, tf_rnn_ops_xla=4, keras_xla=6),
            1.5,
            False,
        ),
        (
            "tf.function with XLA: speedup over Keras XLA",
            of_peers(SMALL_MODEL, FUNCTION, MODELS, tf_rnn_ops_xla=1, keras_xla=3),
            3,
            True,
        ),
        ("memory of a training step / Keras", of_peers(PLAIN, MEMORY, MEMORY, tf_rnn_ops=50, keras=100), 0.5, True),
        (
            "memory of a training step with a gradient penalty / without",
            fake_run({(PENALIZED, OURS, MEMORY): 150, (PLAIN, OURS, MEMORY): 50}, MEMORY),
            3,
            True,
        ),
        (
            "4 clients: requests per second / " + BETTER,
            of_peers(PLAIN, FORWARD, sections.CLIENTS[4], WAITED, tf_rnn_ops=2, pytorch=3, onnxruntime=5),
            1.5,
            True,
        ),
        (
            "4 clients: 99th percentile latency / " + BETTER,
            results.join(
                [
                    of_peers(PLAIN, FORWARD, sections.CLIENTS[4], [6.0] * 2, tf_rnn_ops=1),
                    of_peers(PLAIN, FORWARD, sections.CLIENTS[4], [4.0] * 2, pytorch=1),
                    of_peers(PLAIN, FORWARD, sections.CLIENTS[4], [3.0] * 2, onnxruntime=1),
                ]
            ),
            2,
            False,
        ),
        *(
            (
                f"small op, {figure} latency: with sequences / with matrix products",
                results.join(
                    [
                        of_peers("elementwise-5", TANH, sections.WAIT_WITH_SEQUENCES, [3e-3] * 2, tf_rnn_ops=1),
                        of_peers("elementwise-5", TANH, sections.WAIT_WITH_PRODUCTS, [2e-3] * 2, tf_raw_ops=1),
                    ]
                ),
                1.5,
                True,
            )
            for figure in ("median", "99th percentile")
        ),
        (
            f"one busy CPU, forward: {FASTER}",
            of_peers(PLAIN, FORWARD, sections.BUSY_CPU, tf_rnn_ops=2, pytorch=3, onnxruntime=1),
            0.5,
            False,
        ),
        (f"tf.function: {BETTER_KERAS}", fake_models(), 0.5, False),
        (f"train_on_batch: {BETTER_KERAS}", fake_models(), 2, True),
        (f"predict: {BETTER_KERAS}", fake_models(), None, None),
        # The overhead has a target only where an empty function takes longer than PyTorch.
        (
            "inference, if PyTorch takes longer than an empty tf.function: speedup over PyTorch",
            fake_models(),
            1.5,
            True,
        ),
        ("inference, otherwise: µs beyond an empty tf.function and the ops", fake_models(), 80, False),
    ],
)
def test_targets(title, run, measured, is_met):
    verdict = verdicts(run)[title, False]
    assert verdict.measured == (None if measured is None else pytest.approx(measured))
    assert verdict.is_met is is_met


def served(case, clients=1, waits=(), **seconds):
    """Returns a run of a served model with the given seconds of (peer) in the C program, or in ONNX Runtime."""
    tasks = {peer: SERVE_IN_PYTHON if peer.startswith(ONNX_RUNTIME) else SERVE_IN_C for peer in seconds}
    of_case = {(f"served-{case}", peer, tasks[peer]): value for peer, value in seconds.items()}
    return fake_run(of_case, SERVING_CLIENTS[clients], waits)


PACKED_TITLE = "packed in C, at least 10 steps: requests per second / ONNX Runtime"
STEP_TITLE = "packed in C, one step and one client: median µs beyond ONNX Runtime"
INT8_TITLE = "int8 in C, batch ≤ 8, units ≥ 384: requests per second / packed"
BOTH_INT8_TITLE = "int8 in C, at least 10 steps: requests per second / ONNX Runtime int8"


@pytest.mark.parametrize(
    ("title", "run", "measured"),
    [
        (PACKED_TITLE, served("lstm-1-10-3-4", tf_rnn_ops_packed=4, onnxruntime=3), 0.75),
        (PACKED_TITLE, served("lstm-1-9-3-4", tf_rnn_ops_packed=4, onnxruntime=3), None),
        # The worst number of clients counts.
        (
            PACKED_TITLE,
            results.join(
                [
                    served("lstm-1-10-3-4", tf_rnn_ops_packed=2, onnxruntime=3),
                    served("lstm-1-10-3-4", 4, tf_rnn_ops_packed=3, onnxruntime=3),
                ]
            ),
            1,
        ),
        *(
            (
                STEP_TITLE,
                results.join(
                    [
                        served("lstm-1-1-3-4", clients, [90e-6] * 2, tf_rnn_ops_packed=1),
                        served("lstm-1-1-3-4", clients, [40e-6] * 2, onnxruntime=1),
                    ]
                ),
                measured,
            )
            for clients, measured in ((1, 50), (4, None))
        ),
        (INT8_TITLE, served("lstm-8-1-3-384", tf_rnn_ops_packed=4, tf_rnn_ops_int8=2), 2),
        (INT8_TITLE, served("lstm-9-1-3-384", tf_rnn_ops_packed=4, tf_rnn_ops_int8=2), None),
        (INT8_TITLE, served("lstm-8-1-3-383", tf_rnn_ops_packed=4, tf_rnn_ops_int8=2), None),
        (BOTH_INT8_TITLE, served("lstm-8-10-3-4", onnxruntime_int8=3, tf_rnn_ops_int8=2), 1.5),
    ],
)
def test_targets_of_served_models(title, run, measured):
    verdict = verdicts(run)[title, False]
    assert verdict.measured == (None if measured is None else pytest.approx(measured))


def test_targets_of_penalties():
    seconds = {}
    for name, (plain, penalty) in {PENALIZED: (2.0, 5.0), f"penalty-{GRU}": (1.0, 3.0)}.items():
        seconds |= {(name, OURS, FORWARD_BACKWARD): plain, (name, OURS, PENALTY): penalty}
        seconds |= {(name, KERAS, PENALTY): 24.0, (name, KERAS_UNROLLED, PENALTY): 12.0}
    judged = verdicts(fake_run(seconds, sections.SECOND_ORDER))
    cost = judged["penalty gradient: time / forward + backward", False]
    assert (cost.measured, cost.where, cost.is_met) == (3.0, "GRU 1, 2, 3, 4, penalty", True)
    title = "penalty gradient: speedup over the best of Keras, Keras XLA and Keras unrolled"
    assert judged[title, False].measured == pytest.approx(12 / 5)
    assert judged[title, True].measured == pytest.approx(math.sqrt(12 / 5 * 12 / 3))
    assert judged["forward + backward: speedup over PyTorch", False].measured is None


def by_threads(seconds, case=LARGE):
    """Returns a run with the given seconds of (peer, threads)."""
    measured = [
        scaling.by_section(Measurement("", parse_case(case), f"{peer}/{threads}", FORWARD, [value], others=[0.0]))
        for (peer, threads), value in seconds.items()
    ]
    return fake_run({}, measurements=measured)


@pytest.mark.parametrize(
    ("seconds", "case", "met"),
    [
        # Faster than both others on 16 threads, efficient, and never slower with more threads.
        ({(OURS, 1): 16, (OURS, 16): 1.4, (PYTORCH, 16): 2, (ONNX_RUNTIME, 16): 1.5}, LARGE, [True, True, True]),
        ({(OURS, 1): 16, (OURS, 16): 1.4, (PYTORCH, 16): 2, (ONNX_RUNTIME, 16): 1.3}, LARGE, [False, True, True]),
        ({(OURS, 1): 16, (OURS, 16): 1.5, (PYTORCH, 16): 2}, LARGE, [True, False, True]),
        # 4 threads are slower than 2. Speedups on fewer than 8 threads do not count.
        ({(OURS, 1): 4, (OURS, 2): 2, (OURS, 4): 2.2, (PYTORCH, 4): 1}, LARGE, [None, None, False]),
        # Efficiency is not demanded of single sequences.
        ({(OURS, 1): 16, (OURS, 16): 15}, SINGLE, [None, None, True]),
    ],
)
def test_targets_of_threads(seconds, case, met):
    assert [each.is_met for each in targets.judge(by_threads(seconds, case), targets.GROUPS["threads"])] == met


def test_efficiency_and_speedup():
    seconds = {(OURS, 1): 16.0, (OURS, 8): 2.5, (PYTORCH, 8): 5.0, (ONNX_RUNTIME, 8): 3.0, (PYTORCH, 1): 8.0}
    run, case = by_threads(seconds), parse_case(LARGE)
    assert run.num_threads() == [1, 8]
    assert results.efficiency(FORWARD, 8)(run, "", case) == pytest.approx(16 / 2.5 / 8)
    assert results.efficiency(FORWARD, 8, PYTORCH)(run, "", case) == pytest.approx(8 / 5 / 8)
    assert results.efficiency(FORWARD, 16)(run, "", case) is None


def test_only_targets_with_measurements_are_printed():
    run = of_peers(PLAIN, FORWARD, sections.BUSY_CPU, tf_rnn_ops=1, pytorch=1)
    assert [each.target for each in targets.judge_measured(run)] == targets.GROUPS["sharing a machine"]


def test_memory_is_the_median_of_processes():
    bytes_of = {OURS: [90, 50, 0], KERAS: [300, 200, 1900]}
    measured = [
        Measurement(MEMORY, parse_case(PLAIN), peer, MEMORY, [each]) for peer in bytes_of for each in bytes_of[peer]
    ]
    run = fake_run({}, measurements=results.merge(measured))
    assert targets.MEMORY_OVER_KERAS(run, MEMORY, parse_case(PLAIN)) == pytest.approx(50 / 300)


def test_samples_of_the_same_task_are_merged():
    case = parse_case("product-2")
    parts = [
        Measurement(MAIN, case, peer, PRODUCT, seconds, 0.0, seconds, seconds)
        for peer, seconds in ((PYTORCH, [1.0]), (RAW_OPS, [2.0]), (PYTORCH, [3.0, 4.0]))
    ]
    merged = results.merge(parts)
    assert [(each.peer, each.samples) for each in merged] == [(PYTORCH, [1.0, 3.0, 4.0]), (RAW_OPS, [2.0])]
    assert all(each.others == each.waits == each.samples for each in merged)


def test_runs_of_different_parts_are_joined():
    first = fake_run({(PLAIN, OURS, FORWARD): 1.0}, date="first")
    joined = results.join([first, fake_run({(PLAIN, KERAS, FORWARD): 2.0}, date="second")])
    assert results.speedup(FORWARD, KERAS)(joined, MAIN, parse_case(PLAIN)) == 2
    assert joined.date == "first"


# ---------------------------------------------------------------- pages


def test_tables_of_models_have_means_and_ranges():
    text = report.part_to_markdown(fake_models(), report.KERAS_MODELS)
    assert "|  | LSTM 1, 1, 3, 4 | 0.4 | 1.50 | 0.50 | 0.25 |  | 1 | 2.00 |" in text
    assert "| geometric mean |  |  | 3.46 | 0.50 | 0.61 | 0.90 |  | 2.00 |" in text
    extent = "0.50 to 0.50 | 0.25 to 1.50 | 0.90 to 0.90 |  | 2.00 to 2.00 |"
    assert f"| range |  |  | 1.50 to 8.00 | {extent}" in text
    assert "| LSTM 1, 1, 3, 4 | 400 | 300 | 20 | 80 | 100 |" in text


def test_headline_is_of_the_better_keras():
    text = report.headline(fake_models())
    assert "over 2 models, 1 of them also trained" in text
    keras_inference = "**2.00x** the speed of the better of Keras and Keras XLA in inference (0.50x to 8.00x per model)"
    assert f"- {keras_inference}, **2.00x** in training (2.00x to 2.00x)\n" in text
    assert "- **0.61x** the speed of PyTorch in inference (0.25x to 1.50x per model)\n" in text


def made_up_parts():
    """Returns a run of each part of the report but the models, and a row of its tables."""
    mebi = {(PLAIN, OURS, MEMORY): 60 * 2**20, (PENALIZED, OURS, MEMORY): 150 * 2**20}
    mebi |= {(PLAIN, KERAS, MEMORY): 120 * 2**20}
    penalty = {FORWARD_BACKWARD: 2e-3, PENALTY: 5e-3}
    penalties = {**{(PENALIZED, OURS, task): s for task, s in penalty.items()}, (PENALIZED, KERAS, PENALTY): 2e-2}
    clients, lengths = sections.CLIENTS[1], sections.LENGTHS
    waiting = of_peers(PLAIN, FORWARD, clients, [4e-3, 6e-3], tf_rnn_ops=5e-3, pytorch=1e-2)
    serving = served(PLAIN, 4, [4e-3, 6e-3], tf_rnn_ops=5e-3, onnxruntime=1e-2)
    row = "| LSTM 1, 2, 3, 4 |"
    return {
        "ops": (of_peers(PLAIN, FORWARD, tf_rnn_ops=1, keras=3), f"{row} 4.5e-07 | 3.00 |"),
        "sequence length and batch size": (of_peers(PLAIN, FORWARD, lengths, tf_rnn_ops=1), f"{row} 1000 |"),
        "sharing a machine": (waiting, f"{row} 1 clients of the same network | 200; 5; 6 | 100; 5; 6 |"),
        SERVING: (serving, f"{row} 4 | 200; 5; 6 | 100; 5; 6 |"),
        "memory": (fake_run(mebi, MEMORY), f"{row} 60 | 120 | 0.50 |"),
        "gradients of penalties": (fake_run(penalties, sections.SECOND_ORDER), f"{row} 2 | 5 | 2.50 | 4.00 |"),
        "threads": (by_threads({(OURS, 1): 1.0, (PYTORCH, 1): 2.0}, PLAIN), f"{row} 1000; 4.5e-07; 1.00; 2.00 |"),
    }


def test_the_memory_of_copies_is_in_one_cell():
    mebi = {(f"served-{PLAIN}", OURS, task): count * 30 * 2**20 for count, task in COPIES.items()}
    text = report.part_to_markdown(fake_run(mebi, SERVING_MEMORY), SERVING)
    assert "| LSTM 1, 2, 3, 4 | 30; 120 |" in text


@pytest.fixture
def pages(tmp_path):
    """A performance.md and a README.md with all marks."""
    page, readme = tmp_path / "docs" / "performance.md", tmp_path / "README.md"
    page.parent.mkdir()
    marked = {part: f"\nold {part}\n".join(report.marks(part)) + "\n" for part in report.PARTS}
    page.write_text("\n".join(["before\n", *marked.values(), "after\n"]))
    readme.write_text(f"before\n\n{marked[report.KERAS_MODELS]}\nafter\n")
    return page, readme


@pytest.mark.parametrize("part", made_up_parts())
def test_publishing_replaces_the_text_between_the_marks_of_a_part(part, pages):
    page, readme = pages
    run, row = made_up_parts()[part]
    before_readme = readme.read_text()
    assert report.publish(run, page.parent) == [page]
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    begin, end = report.marks(part)
    block = text[text.index(begin) : text.index(end)]
    assert report.part_to_markdown(run, part) in block
    assert row in block
    assert [other for other in report.PARTS if f"old {other}\n" not in text] == [part]
    assert readme.read_text() == before_readme
    report.publish(run, page.parent)
    assert page.read_text() == text
    page.write_text("no marks")
    with pytest.raises(ValueError, match=r"performance\.md must contain"):
        report.publish(run, page.parent)


@pytest.mark.skipif(not HAS_MATPLOTLIB, reason="needs matplotlib")
def test_an_option_publishes_models_in_both_pages_with_a_chart(pages, tmp_path, monkeypatch, capsys):
    page, readme = pages
    run = fake_models()
    monkeypatch.setattr(report, "DOCS", page.parent)
    monkeypatch.setattr(bench, "run_benchmark", lambda settings: run)
    monkeypatch.setattr(sys, "argv", ["bench.py", f"--output={tmp_path / 'results'}"])
    bench.main()
    assert "old" in readme.read_text()
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--publish"])
    bench.main()
    assert report.part_to_markdown(run, report.KERAS_MODELS) in page.read_text()
    assert report.headline(run) in readme.read_text()
    assert "(docs/images/models.png)" in readme.read_text()
    assert "old" not in readme.read_text()
    chart = page.parent / "images" / "models.png"
    assert list(chart.parent.iterdir()) == [chart]
    assert chart.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert f"updated {readme}\n" in capsys.readouterr().out
    row = {"Keras": 1.5, "Keras XLA": 0.5, "PyTorch": 0.25}
    assert report.read_models(page.read_text())[0] == ("", row, {"Keras": 2.0})
    assert report.conditions_of_models(page.read_text()) == "Unknown CPU, 1 threads, 2026-11-21"


@pytest.mark.skipif(not HAS_MATPLOTLIB, reason="needs matplotlib")
def test_bars_are_relative_to_keras():
    import picture

    assert picture.speeds({"Keras": 4.0, "PyTorch": 0.5, "other": 1.0}) == {OURS: 4.0, "PyTorch": 8.0}
    assert picture.speeds({}) == {}


def test_the_documentation_has_the_marks_and_the_tables_of_the_report():
    page, readme = (report.DOCS / "performance.md").read_text(), (report.DOCS.parent / "README.md").read_text()
    for text, parts in ((page, report.PARTS), (readme, [report.KERAS_MODELS])):
        for part in parts:
            assert [text.count(mark) for mark in report.marks(part)] == [1, 1], part
    for table in itertools.chain(*report.PARTS.values()):
        assert f"### {table.title}\n" in page
    rows = report.read_models(page)
    assert [row.model for row in rows] == list(sections.MODEL_WORDS.values())
    if HAS_MATPLOTLIB:
        import picture

        assert {row.model for row in rows} >= set(picture.MODELS)


def test_the_readme_has_the_numbers_of_the_page():
    page, readme = (report.DOCS / "performance.md").read_text(), (report.DOCS.parent / "README.md").read_text()
    rows = report.read_models(page)
    for name, peers in (
        ("the better of Keras and Keras XLA", ["Keras", "Keras XLA"]),
        ("PyTorch", ["PyTorch"]),
        ("ONNX Runtime", ["ONNX Runtime"]),
    ):
        (line,) = (line for line in readme.splitlines() if f"** the speed of {name} in" in line)
        for kind, mean, low, high in re.findall(r"\*\*([\d.]+)x\*\*.*? in (\w+) \(([\d.]+)x to ([\d.]+)x", line):
            kind, mean = mean, kind
            speedups = [getattr(row, kind) for row in rows]
            values = [
                min(each[peer] for peer in peers if peer in each) for each in speedups if set(peers) & each.keys()
            ]
            assert (min(values), max(values)) == (float(low), float(high))
            # The page's figures are rounded.
            assert float(mean) == pytest.approx(np.exp(np.mean(np.log(values))), abs=0.015)
    assert report.conditions_of_models(page).replace(", 2026", ", 2026") in readme.replace("float32, ", "")


# ---------------------------------------------------------------- how it is measured


class LocalWorker:
    """Stands for a `Worker`, without a process; a call of another peer's turn is recorded."""

    turns: list
    corrupted = None
    others: itertools.repeat

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
def local(monkeypatch):
    """Runs the libraries in this process."""
    monkeypatch.setattr(measure, "Worker", LocalWorker)
    for name, value in {"turns": [], "corrupted": None, "others": itertools.repeat(0.0)}.items():
        monkeypatch.setattr(LocalWorker, name, value, raising=False)


@pytest.fixture
def local_bench(local, tmp_path):
    """Returns a function that creates a bench whose peers run in this process."""
    return lambda *names: measure.Bench([PEERS[name] for name in names], REFERENCE, 1, tmp_path / "log")


def test_peers_take_turns(local_bench):
    case, rounds = parse_case(PLAIN), 8
    with local_bench(OURS, KERAS, RAW_OPS) as made:
        measured, failures = made.measure(MAIN, case, [OURS, KERAS, RAW_OPS], rounds)
    assert failures == []
    keys = sorted([(peer, case.name, task) for peer in (OURS, KERAS) for task in case.tasks])
    turns = LocalWorker.turns
    assert len(turns) == rounds * len(keys)
    orders = [turns[start : start + len(keys)] for start in range(0, len(turns), len(keys))]
    assert all(sorted(order) == keys for order in orders)
    assert len({tuple(order) for order in orders}) > 1
    assert {each.case for each in measured} == {case}
    assert sorted(value for each in measured for value in each.samples) == list(range(1, len(turns) + 1))


@pytest.mark.parametrize(
    ("others", "counts"), [([0.9, 0.1, 0.0], 2), ([0.5, 0.3, 0.4], 2), ([0.1, 0.0, 0.0], 1), ([0.9, 0.8, 0.7], 3)]
)
def test_disturbed_samples_are_taken_again(others, counts, local_bench, monkeypatch):
    monkeypatch.setattr(LocalWorker, "others", iter(others))
    with local_bench(RAW_OPS) as made:
        ((measured,), _) = made.measure(MAIN, parse_case("product-2"), [RAW_OPS], rounds=1)
    assert (measured.samples, measured.others) == ([float(counts)], [others[counts - 1]])


def test_only_selected_peers_and_tasks_are_measured(local_bench):
    with local_bench(OURS, KERAS) as made:
        measured, _ = made.measure(MAIN, parse_case(PLAIN), [KERAS, PYTORCH], rounds=1, tasks=[FORWARD])
    assert {(each.peer, each.task) for each in measured} == {(KERAS, FORWARD)}


def test_peers_without_the_background_case_are_not_measured(local_bench):
    load = Load(seconds=0.01, clients=3, background=[(parse_case("product-2"), PRODUCT)])
    with local_bench(OURS, RAW_OPS) as made:
        measured, _ = made.measure("x", parse_case("elementwise-2"), [OURS, RAW_OPS], 2, [TANH], load)
    assert [(each.peer, each.task) for each in measured] == [(RAW_OPS, TANH)]
    assert len(measured[0].samples) == 2
    assert len(measured[0].waits) >= 2 * load.clients


def test_each_call_of_each_client_is_timed_with_background_calls():
    begun, at_once, calls = threading.Event(), threading.Barrier(3), itertools.count()

    def call():
        assert begun.wait(processes.TIMEOUT)  # the background call runs meanwhile
        next(calls)
        at_once.wait(processes.TIMEOUT)

    _, waits = measure.time_requests(call, [begun.set], Load(seconds=0.0, clients=3))
    assert len(waits) == next(calls) == 3
    assert min(waits) > 0


def test_errors_of_background_calls_are_raised():
    def fail():
        raise ValueError("it failed")

    with pytest.raises(ValueError, match="it failed"):
        measure.time_requests(lambda: None, [fail], Load(seconds=0.01))


def test_busy_processes_end():
    cpus = sorted(os.sched_getaffinity(0))
    with measure.busy_processes(1) as (process,):
        deadline = time.monotonic() + processes.TIMEOUT
        while os.sched_getaffinity(process.pid) != {cpus[-1]} and time.monotonic() < deadline:
            time.sleep(0.01)
        assert os.sched_getaffinity(process.pid) == {cpus[-1]}
        assert process.poll() is None
    assert process.poll() is not None


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
        # A turn warms up for a while.
        ([], measure.WARM_UP_SECONDS / 4, 0.0, 4 + 4 * SAMPLE / measure.WARM_UP_SECONDS, measure.WARM_UP_SECONDS / 4),
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
    session.calibrate(case, PRODUCT, SAMPLE)
    made.clear()
    measured, waits = session.sample(case, PRODUCT, measure.QUIET)
    assert measured == pytest.approx(expected)
    assert waits == ()
    assert len(made) == pytest.approx(calls, abs=1 if calls > 5 else 0)


def test_a_task_may_take_its_samples_itself():
    def fail():
        raise AssertionError

    class Own:
        def program(self, case):
            return {PRODUCT: Task(fail, dict, lambda load: (load.clients, [0.5]))}

    session, case = measure.Session(Own()), parse_case("product-2")
    session.prepare(case)
    session.calibrate(case, PRODUCT, SAMPLE)
    assert session.sample(case, PRODUCT, Load(clients=3)) == (3, [0.5])


def test_the_time_of_ended_programs_counts():
    before = measure._seconds_of_programs(os.getpid())
    busy = "import time\nwhile time.process_time() < 0.1: pass"
    subprocess.run([sys.executable, "-c", busy], check=True)
    assert measure._seconds_of_programs(os.getpid()) - before >= 0.09


@pytest.mark.parametrize(("allowed_error", "is_wrong"), [(0.0, True), (0.02, False)])
def test_a_peer_may_have_a_larger_error(allowed_error, is_wrong, local_bench, monkeypatch):
    monkeypatch.setattr(LocalWorker, "corrupted", (RAW_OPS, PRODUCT))
    monkeypatch.setitem(PEERS, RAW_OPS, PEERS[RAW_OPS]._replace(allowed_error=allowed_error))
    with local_bench(RAW_OPS) as made:
        measured, failures = made.measure(MAIN, parse_case("product-2"), [RAW_OPS], rounds=1)
    assert (len(failures), len(measured)) == ((1, 0) if is_wrong else (0, 1))


def test_error_is_relative_to_the_largest_magnitude():
    expected = {"a": np.array([1.0, -4.0]), "b": np.array([100.0, 0.0]), "zero": np.zeros(2)}
    assert largest_error(expected, expected) == 0
    assert largest_error({**expected, "a": np.array([1.5, -4.0]), "b": np.array([101.0, 0.5])}, expected) == 0.125
    assert largest_error({**expected, "zero": np.array([0.0, -0.5])}, expected) == 0.5
    for wrong in (math.nan, math.inf):
        assert largest_error({**expected, "a": np.array([1.0, wrong])}, expected) == math.inf
    with pytest.raises(ValueError, match="expected the results a, got b"):
        largest_error({"b": np.ones(2)}, {"a": np.ones(2)})
    with pytest.raises(ValueError, match=r"a must have shape \(2, 1\), but has shape \(1, 2\)"):
        largest_error({"a": np.ones([1, 2])}, {"a": np.ones([2, 1])})


def made_up_worker(library_name, tmp_path):
    return measure.Worker(Peer("x", "Nobody", library_name, []), 2, tmp_path / "log")


def test_errors_in_a_process_are_raised(tmp_path):
    with made_up_worker("measure.Load", tmp_path) as worker:
        with pytest.raises(PeerError, match=r"Nobody failed:\n(.|\n)*no attribute 'versions'"):
            worker.request("versions")
        with pytest.raises(PeerError, match="no attribute 'program'"):
            worker.request("prepare", parse_case("product-2"))


def test_the_end_of_a_process_is_an_error(tmp_path):
    message = r"the Nobody process ended with 2; see .*log"
    with made_up_worker("os._exit", tmp_path) as worker, pytest.raises(PeerError, match=message) as error_info:
        worker.request("versions")
    assert error_info.value.peer == "x"


# In a new process: this one may hold memory of other tests.
@pytest.mark.parametrize("peer", [peer for peer in (OURS, KERAS, PYTORCH) if peer in INSTALLED])
def test_memory_of_a_step_holds_its_gradients(peer, tmp_path):
    with measure.Worker(PEERS[peer], 2, tmp_path / "log") as worker:
        before, peak = worker.request("step_memory", parse_case("lstm-8-20-64-512"))
    assert before > 0
    assert peak - before >= 4 * 4 * 512 * (512 + 64)


@pytest.mark.parametrize(("peer", "name"), [(OURS, CELL), (RAW_OPS, PLAIN)])
def test_memory_of_untrainable_cases_is_rejected(peer, name):
    with pytest.raises(ValueError, match=re.escape(name.split("-")[0])):
        measure.Session(library_of(PEERS[peer])).step_memory(parse_case(name))


# ---------------------------------------------------------------- the programs


def settings_of(module, monkeypatch, *options):
    monkeypatch.setattr(sys, "argv", [f"{module.__name__}.py", *options])
    return module.parse_arguments()


@pytest.mark.parametrize(
    ("module", "option", "message"),
    [
        (bench, "--cases=lstm-1-2-3-4,lstm", "'lstm' is not a valid case"),
        (bench, "--peers=keras,nobody", "'nobody' is not one of tf_rnn_ops_xla, keras"),
        (bench, "--peers=tf_rnn_ops", "'tf_rnn_ops' is not one of"),
        (bench, "--sections=main,none", "'none' is not one of main, memory"),
        (bench, "--rounds=0", "'0' is not a positive integer"),
        (bench, "--threads=some", "'some' is not a positive integer"),
        (gpu, "--peers=keras", "'keras' is not one of tf_raw_ops, pytorch"),
        (scaling, "--threads=1,x", "'x' is not a positive integer"),
    ],
)
def test_invalid_options_are_rejected(module, option, message, monkeypatch, capsys):
    with pytest.raises(SystemExit) as exit_info:
        settings_of(module, monkeypatch, option)
    assert exit_info.value.code == 2
    assert message in capsys.readouterr().err


def test_options_select_sections_and_cases(monkeypatch):
    default = settings_of(bench, monkeypatch)
    assert default.sections == bench.OPTIONS
    assert default.peers == [name for name in PEERS if name != OURS]
    assert settings_of(bench, monkeypatch, "--quick").rounds < default.rounds
    options = ["--quick", f"--cases={PLAIN},{GRU}", "--peers=keras_xla,keras", "--rounds=7"]
    chosen = settings_of(bench, monkeypatch, *options)
    assert chosen.sections == [MAIN]
    assert [case.name for case in chosen.cases] == [PLAIN, GRU]
    assert (chosen.peers, chosen.rounds) == (["keras_xla", "keras"], 7)
    assert settings_of(bench, monkeypatch, "--sections=calls,memory").sections == ["calls", "memory"]


def test_cases_are_measured_in_the_sections_of_their_kind(monkeypatch):
    names = [PLAIN, SMALL_MODEL, "decoder-lstm-1-1-3-4", f"served-{PLAIN}"]
    settings = settings_of(bench, monkeypatch, f"--cases={','.join(names)}")
    assert settings.sections == [MAIN, MODELS, SERVING]
    for section, expected in (
        (MAIN, names[:1]),
        (MODELS, names[1:3]),
        (sections.KERAS_CALLS, names[1:3]),
        (SERVING_CLIENTS[4], names[3:]),
        (sections.CLIENTS[4], names[:1]),
    ):
        assert [case.name for case in bench.cases_of(sections.SECTIONS[section], settings)] == expected


@pytest.mark.parametrize(("most", "expected"), [(1, [1]), (2, [1, 2]), (3, [1, 2]), (16, [1, 2, 4, 8, 16])])
def test_the_default_numbers_of_threads(most, expected):
    assert scaling.powers_of_two(most) == expected


@pytest.mark.usefixtures("local")
def test_peers_that_are_not_installed_are_skipped(tmp_path, monkeypatch, capsys):
    missing = PEERS[ONNX_RUNTIME]._replace(packages=["math", "no_such_package"])
    monkeypatch.setitem(PEERS, ONNX_RUNTIME, missing)
    options = ["--quick", f"--cases={PLAIN}", f"--peers={ONNX_RUNTIME},{KERAS}", "--rounds=1", f"--output={tmp_path}"]
    run = bench.run_benchmark(settings_of(bench, monkeypatch, *options))
    assert {each.peer for each in run.measurements} == {OURS, KERAS}
    assert run.left_out == {ONNX_RUNTIME: ["no_such_package"]}
    sentence = "ONNX Runtime is skipped; not installed: no_such_package"
    assert sentence in capsys.readouterr().out
    assert sentence in report.to_markdown(run)


def test_memory_skips_a_process_that_ends(tmp_path, monkeypatch, capsys):
    settings = settings_of(bench, monkeypatch, "--quick", "--cases=lstm-2-3-8-16", f"--output={tmp_path}")
    section, path = sections.SECTIONS[MEMORY], tmp_path / "results.json"
    run = bench.measure_memory(section, settings, [Peer(OURS, "Nobody", "os._exit", [])], fake_run({}), path)
    assert run.measurements == []
    assert [(each.case, each.peer) for each in results.read(path).failures] == [("lstm-2-3-8-16", OURS)]
    assert "lstm-2-3-8-16: tf_rnn_ops is skipped: the Nobody process ended with 2" in capsys.readouterr().out


@pytest.mark.skipif(SEES_GPU, reason="TensorFlow sees a GPU")
def test_a_missing_gpu_is_reported(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["gpu.py"])
    with pytest.raises(SystemExit, match=r"^TensorFlow sees no GPU. To measure on the CPU, use benchmarks/bench.py.$"):
        gpu.main()


@pytest.fixture
def run_gpu(on_cpu, local, monkeypatch, tmp_path):  # noqa: F811
    """Returns a function that runs gpu.py in this process as if on a GPU and returns its gpu.json."""
    monkeypatch.setattr(gpu, "find_gpu", lambda: "NVIDIA H200")
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    monkeypatch.setenv("TF_RNN_OPS_GPU", "0")

    def run(*options):
        monkeypatch.setattr(sys, "argv", ["gpu.py", "--quick", f"--output={tmp_path / 'new'}", *options])
        gpu.main()
        return json.loads((tmp_path / "new" / "gpu.json").read_text())

    return run


def test_gpu_json_has_every_measurement_and_the_gpus_name(run_gpu, capsys):
    chosen = cases.parse_cases("gru-2-3-8-16-float16 lstm-2-3-8-16-bfloat16 gru_block_cell-2-8-16")
    written = run_gpu(f"--cases={','.join(case.name for case in chosen)}")
    assert (written["gpu"], written["tf32"], written["failures"]) == ("NVIDIA H200", True, [])
    assert written["versions"][OURS]["tf_rnn_ops"] == tf_rnn_ops.__version__
    assert written["versions"][OURS]["GPU library"]
    assert written["versions"][RAW_OPS] == {"TensorFlow": tf.__version__}
    keys = [(each["case"], each["peer"], each["task"]) for each in written["measurements"]]
    # TensorFlow has no bfloat16 backward pass. The only cell among the quick cases is float32.
    expected = {
        (case.name, peer, task)
        for case in chosen
        for peer in GPU_PEERS.keys() & set(INSTALLED)
        for task in case.tasks
        if (peer != PYTORCH or case.has_network) and (peer, case.dtype, task) != (RAW_OPS, "bfloat16", FORWARD_BACKWARD)
    }
    assert sorted(keys) == sorted(expected)
    assert all(len(each["samples"]) == program.QUICK_ROUNDS for each in written["measurements"])
    printed = capsys.readouterr().out
    assert printed.startswith("NVIDIA H200, float32 as TF32\n")
    assert all(f"{target.title}  " in printed for target in targets.GPU_TARGETS)
    for case in chosen:
        assert printed.count(f"\n{case.title}  ") >= 2 * len(case.tasks)


def test_without_tf32_no_library_uses_it(run_gpu, monkeypatch, capsys):
    """NVIDIA's libraries read the variable. TF32 also allows errors of 1%."""
    seen, sample = [], LocalWorker.sample

    def record(*arguments):
        seen.append(os.environ["NVIDIA_TF32_OVERRIDE"])
        return sample(*arguments)

    monkeypatch.setattr(LocalWorker, "sample", record)
    monkeypatch.setattr(LocalWorker, "corrupted", (RAW_OPS, FORWARD))
    assert run_gpu("--cases=tanh-1-2-3-4")["failures"] == []
    seen.clear()
    capsys.readouterr()
    written = run_gpu("--no-tf32", "--cases=tanh-1-2-3-4", "--peers=tf_raw_ops", "--rounds=3")
    assert (written["tf32"], set(seen)) == (False, {"0"})
    assert capsys.readouterr().out.startswith("NVIDIA H200, float32 as float32\n")
    assert {(each["case"], each["peer"]) for each in written["measurements"]} == {("tanh-1-2-3-4", OURS)}
    assert all(len(each["samples"]) == 3 for each in written["measurements"])
    (failure,) = written["failures"]
    assert failure["message"] == "tf_raw_ops gives wrong results for forward of tanh-1-2-3-4: the error is 1.0e-02"


TWO_CASES = "--cases=tanh-1-2-3-4,gru-1-2-3-4"


def measured(written):
    return {(each["case"], each["peer"]) for each in written["measurements"]}


def test_a_peer_with_other_results_is_skipped_and_named(run_gpu, monkeypatch, capsys):
    request = LocalWorker.request

    def without_one(worker, method, *arguments):
        result = request(worker, method, *arguments)
        is_changed = method == "results" and worker.peer.name == RAW_OPS
        return dict(list(result.items())[1:]) if is_changed else result

    monkeypatch.setattr(LocalWorker, "request", without_one)
    written = run_gpu(TWO_CASES, "--peers=tf_raw_ops")
    assert measured(written) == {("tanh-1-2-3-4", OURS), ("gru-1-2-3-4", OURS)}
    assert [(each["case"], each["peer"]) for each in written["failures"]] == [
        ("tanh-1-2-3-4", RAW_OPS),
        ("gru-1-2-3-4", RAW_OPS),
    ]
    message = "tf_raw_ops gives wrong results for forward of tanh-1-2-3-4: expected the results "
    assert f"tanh-1-2-3-4: tf_raw_ops is skipped: {message}" in capsys.readouterr().out


@pytest.mark.parametrize("method", ["prepare", "results", "calibrate", "sample"])
def test_a_peer_that_crashes_continues_in_a_new_process(run_gpu, monkeypatch, method):
    request, sample, crashed, started = LocalWorker.request, LocalWorker.sample, [], []

    def crash_once(worker, called):
        assert worker not in crashed
        if worker.peer.name == RAW_OPS and not crashed and called == method:
            crashed.append(worker)
            raise PeerError(RAW_OPS, "the tf.raw_ops process ended with -11")

    monkeypatch.setattr(
        LocalWorker,
        "request",
        lambda worker, called, *rest: (crash_once(worker, called), request(worker, called, *rest))[1],
    )
    monkeypatch.setattr(
        LocalWorker, "sample", lambda worker, *rest: (crash_once(worker, "sample"), sample(worker, *rest))[1]
    )
    begin = LocalWorker.__init__
    monkeypatch.setattr(
        LocalWorker, "__init__", lambda worker, peer, *rest: (started.append(peer.name), begin(worker, peer, *rest))[0]
    )
    written = run_gpu(TWO_CASES, "--peers=tf_raw_ops")
    assert written["failures"] == [
        {"case": "tanh-1-2-3-4", "peer": RAW_OPS, "message": "the tf.raw_ops process ended with -11"}
    ]
    assert measured(written) == {("tanh-1-2-3-4", OURS), ("gru-1-2-3-4", OURS), ("gru-1-2-3-4", RAW_OPS)}
    assert started.count(RAW_OPS) == 2


def test_the_status_says_if_ours_failed(run_gpu, monkeypatch):
    monkeypatch.setattr(LocalWorker, "corrupted", (OURS, FORWARD))
    with pytest.raises(SystemExit) as exit_info:
        run_gpu("--cases=tanh-1-2-3-4", "--peers=tf_raw_ops", "--no-tf32")
    assert exit_info.value.code == 1


@pytest.mark.parametrize(("module", "peer"), [(bench, OURS_XLA), (scaling, f"{OURS}/2")])
def test_the_status_of_other_programs_says_it_too(module, peer, tmp_path, monkeypatch):
    failed = of_peers(PLAIN, FORWARD, tf_rnn_ops=1).replace(failures=[Failure("gru-1-1-1-1", peer, "wrong results")])
    monkeypatch.setattr(module, "run_benchmark", lambda _: failed)
    monkeypatch.setattr(sys, "argv", ["program.py", "--output", str(tmp_path)])
    with pytest.raises(SystemExit, match="1"):
        module.main()


def test_a_failure_of_the_reference_ends_the_run(local_bench, monkeypatch):
    request = LocalWorker.request

    def fail(worker, method, *arguments):
        if worker.peer == REFERENCE:
            raise PeerError(worker.peer.name, "float64 failed")
        return request(worker, method, *arguments)

    with local_bench(OURS) as made:
        monkeypatch.setattr(LocalWorker, "request", fail)
        with pytest.raises(PeerError, match="float64 failed"):
            made.measure(MAIN, parse_case(PLAIN), [OURS], 1)


def test_results_are_written_after_each_case(run_gpu, monkeypatch, tmp_path):
    request = LocalWorker.request

    def stop_at_the_second(worker, method, *arguments):
        if arguments[:1] == (parse_case(GRU),):
            raise KeyboardInterrupt
        return request(worker, method, *arguments)

    monkeypatch.setattr(LocalWorker, "request", stop_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        run_gpu(TWO_CASES, "--peers=tf_raw_ops")
    written = json.loads((tmp_path / "new" / "gpu.json").read_text())
    assert measured(written) == {("tanh-1-2-3-4", OURS), ("tanh-1-2-3-4", RAW_OPS)}


CRASHING = """
import os, signal

class Library:
    def __init__(self, threads):
        self.versions = dict

    def program(self, case):
        os.kill(os.getpid(), signal.SIGSEGV)
"""


def test_a_process_that_crashes_is_replaced(tmp_path, monkeypatch):
    (tmp_path / "crashing.py").write_text(CRASHING)
    monkeypatch.syspath_prepend(tmp_path)
    peer, unused = Peer("x", "Nobody", "crashing.Library", []), Peer("", "", "measure.Load", [])
    with measure.Bench([peer], unused, 1, tmp_path / "log") as made:
        for _ in range(2):
            taken, (failure,) = made.measure("x", parse_case("lstm-3-4-5-6"), ["x"], 1)
            assert taken == []
            assert "the Nobody process ended with -11" in failure.message


@pytest.mark.slow
def test_a_run_of_scaling_writes_its_results(tmp_path, monkeypatch):
    settings = settings_of(scaling, monkeypatch, "--quick", "--threads=1,2", f"--output={tmp_path}")
    run = scaling.run_benchmark(settings)
    assert run.failures == []
    assert run.num_threads() == [1, 2]
    assert run.cases(sections.scaling(2)) == list(sections.SCALING_SECTION.quick_cases)
    results.read(tmp_path / "results.json").write(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "results.json").read_text()
    settings.seconds = 0
    assert not scaling.run_benchmark(settings).measurements


# ---------------------------------------------------------------- a quick run of the whole benchmark

ROUNDS = 3
QUICK_PEERS = [KERAS, PYTORCH, ONNX_RUNTIME, RAW_OPS, OURS_PACKED, OURS_BFLOAT16, OURS_INT8, ONNX_RUNTIME_INT8]
QUICK_SECTIONS = [MODELS, MAIN, MEMORY, sections.CALLS, sections.SECOND_ORDER, "sharing", SERVING]


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory):
    """The printed output of a quick run, its output folder and its results."""
    folder = tmp_path_factory.mktemp("benchmark") / "new"
    lists = [f"--peers={','.join(QUICK_PEERS)}", f"--sections={','.join(QUICK_SECTIONS)}"]
    process = processes.run_python(
        bench.__file__, "--quick", f"--rounds={ROUNDS}", "--threads=1", f"--output={folder}", *lists
    )
    assert process.returncode == 0, process.stderr[-2000:]
    return process.stdout, folder, results.read(folder / "results.json")


@pytest.mark.slow
def test_a_quick_run_has_every_measurement_once(quick_run):
    _, _, run = quick_run
    expected = [
        (section.name, case.name, peer, task)
        for section in sections.SECTIONS.values()
        for case, peer in itertools.product(section.quick_cases, [OURS, *QUICK_PEERS])
        if section.option in QUICK_SECTIONS and section.name != MEMORY and peer in section.peers and peer in INSTALLED
        for task in tasks_of(peer, case)
        if task in (section.tasks or case.tasks)
    ]
    timed = [each for each in run.measurements if each.section != MEMORY]
    assert sorted((each.section, each.case.name, each.peer, each.task) for each in timed) == sorted(expected)
    memory = sections.SECTIONS[MEMORY]
    assert [(each.case, each.peer) for each in run.measurements if each.section == MEMORY] == [
        (case, peer) for case in memory.quick_cases for peer in memory.peers if peer in INSTALLED
    ]
    for each in timed:
        load = sections.SECTIONS[each.section].quick_load
        assert len(each.samples) == ROUNDS
        assert min(each.samples) > 0
        assert (len(each.waits) >= load.clients * ROUNDS and min(each.waits) > 0) if load.seconds else not each.waits
        # Others may accumulate in 16 bits.
        factor = 1 if each.peer == OURS else 5
        assert 0 <= each.error <= (PEERS[each.peer].allowed_error or factor * parity.TOLERANCES[each.case.dtype])


@pytest.mark.slow
def test_the_json_of_a_quick_run(quick_run, tmp_path):
    _, folder, run = quick_run
    written = json.loads((folder / "results.json").read_text())
    versions = written["versions"]
    assert versions[OURS]["tf_rnn_ops"] == tf_rnn_ops.__version__
    assert versions[OURS]["CPU"]
    assert tf_rnn_ops._library.active_instruction_set() in versions[OURS]["instruction set"]
    assert versions[KERAS]["TensorFlow"] == tf.__version__
    assert (written["threads"], len(written["load_before"]), len(written["load_after"])) == (1, 3, 3)
    ours = {
        (each["section"], each["case"], each["task"]): each for each in written["measurements"] if each["peer"] == OURS
    }
    for each in written["measurements"]:
        assert each["median"] == pytest.approx(np.median(each["samples"]))
        own = ours.get((each["section"], each["case"], each["task"]))
        assert each["speedup"] == (own and pytest.approx(each["median"] / own["median"]))
    run.write(tmp_path / "again.json")
    assert json.loads((tmp_path / "again.json").read_text()) == written


@pytest.mark.slow
def test_a_quick_run_prints_targets_and_writes_tables(quick_run):
    printed, folder, run = quick_run
    text = (folder / "results.md").read_text()
    for each in run.measurements:
        if not each.section.startswith("sharing/wait"):
            assert f"| {each.case.title.removesuffix(', penalty')} | " in text
    for part in report.PARTS.keys() - {"threads", "sequence length and batch size"}:
        assert all(target.title in printed for target in targets.GROUPS[part])
        assert all(f"### {table.title}\n" in text for table in report.PARTS[part])
