"""Tests of the benchmark: equal computations in all libraries, correct reports. No test checks speed."""

import argparse
import dataclasses
import importlib
import importlib.util
import itertools
import math
import os
import re
import sys
import threading
import time

import bench
import cases
import keras
import loads
import local_workers
import measure
import memory
import numpy as np
import peers
import problems
import pytest
import report
import run
import sections
import targets
import workers
from checks import parity
from environment import pictures
from local_workers import LocalWorker
from peers import KERAS, KERAS_UNROLLED, KERAS_XLA, ONNX_RUNTIME, OURS, OURS_XLA, PEERS, PYTORCH, RAW_OPS

import tf_rnn_ops

INSTALLED = [name for name in PEERS if not PEERS[name].missing_packages()]


# All sizes differ, to detect swapped ones.
QUICK_NETWORKS = ["lstm-3-4-5-6", "gru-3-7-5-6-varying"]
SLOW_NETWORKS = [
    "gru-3-4-5-6",
    "tanh-3-4-5-6",
    "lstm-3-4-5-6-2layers-bidirectional",
    "gru-3-4-5-6-2layers-bidirectional",
    "lstm-3-7-5-6-varying",
]
NETWORKS = [*QUICK_NETWORKS, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW_NETWORKS)]


def library(name):
    """Returns the library of a peer in this process; skips the test if it is not installed."""
    peer = peers.REFERENCE if name == peers.REFERENCE.name else PEERS[name]
    return local_workers.library(peer)


def program(name, case):
    return library(name).program(case)


def tasks_of(peer, case):
    """Returns the tasks of a case that a peer supports."""
    if isinstance(case, cases.Product):
        return case.tasks if peer in (PYTORCH, ONNX_RUNTIME, RAW_OPS) else ()
    if isinstance(case, cases.CellSteps):
        return case.tasks if peer in (OURS, OURS_XLA, RAW_OPS) else ()
    if isinstance(case, cases.MixedModel):
        return case.tasks if peer in (OURS, OURS_XLA, KERAS, KERAS_XLA) else ()
    if isinstance(case, cases.Model):
        own = {
            OURS: case.tasks,
            PYTORCH: (cases.FUNCTION, cases.TRAIN_ON_BATCH),
            ONNX_RUNTIME: (cases.FUNCTION,),
            RAW_OPS: (),
        }
        by_keras = [task for task in case.tasks if task not in (cases.EMPTY_FUNCTION, cases.OPS_ALONE)]
        return [task for task in case.tasks if task in own.get(peer, by_keras)]
    if isinstance(case, cases.Elementwise):
        return [cases.TANH] if peer in (PYTORCH, ONNX_RUNTIME) else case.tasks
    if peer == ONNX_RUNTIME:
        return [cases.FORWARD] if case.dtype == "float32" else ()
    return () if peer == RAW_OPS else case.tasks


# ---------------------------------------------------------------- made-up runs


def fake_run(seconds, section=sections.MAIN, waits=(), **fields):
    """Returns a run with the given seconds of (case, peer, task)."""
    measurements = [
        measure.Measurement(section, cases.parse_case(case), peer, task, [value], 0.0, others=[0.0], waits=waits)
        for (case, peer, task), value in seconds.items()
    ]
    defaults = {
        "date": "2026-11-21",
        "rounds": 1,
        "threads": 1,
        "has_amx": False,
        "load_before": (0.0,) * 3,
        "load_after": (0.0,) * 3,
        "versions": {},
        "left_out": {},
        "measurements": measurements,
        "memory": [],
    }
    return run.Run(**{**defaults, **fields})


def verdicts(made_up):
    judged = targets.judge(made_up, [target for group in targets.GROUPS for target in group])
    return {(each.target.title, each.target.is_mean): each for each in judged}


def test_without_matplotlib_the_rest_is_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    bench.write(fake_run({("lstm-1-2-3-4", OURS, "forward"): 1.0}), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results.json", "results.md"]
    assert "matplotlib is not installed" in capsys.readouterr().out


@pytest.mark.skipif(not pictures.HAS_MATPLOTLIB, reason="needs matplotlib")
def test_picture_of_a_run_of_one_peer(tmp_path):
    bench.write(fake_run({("lstm-1-2-3-4", OURS, "forward"): 1.0}), tmp_path)
    pictures.assert_is_png(tmp_path / "results.png")


def test_ratio_is_to_the_fastest_of_several_peers():
    name, task = "lstm-1-2-3-4", "forward_backward"
    made_up = fake_run({(name, OURS, task): 1.0, (name, KERAS, task): 3.0, (name, KERAS_XLA, task): 2.0})
    case = cases.parse_case(name)
    assert made_up.ratio(case, task, [KERAS]) == 3
    assert made_up.ratio(case, task, [KERAS, KERAS_XLA]) == 2
    assert made_up.ratio(case, task, [PYTORCH]) is None
    assert made_up.ratio(case, "forward", [KERAS]) is None


def test_share_is_of_the_fastest_product_of_the_same_dtype():
    case = cases.parse_case("lstm-1-2-3-4")
    product = cases.Product(64)
    made_up = fake_run(
        {
            (case.name, OURS, "forward"): case.flops("forward") / 30e9,
            (product.name, PYTORCH, "product"): product.flops("product") / 60e9,
            (product.name, RAW_OPS, "product"): product.flops("product") / 50e9,
            ("product-64-bfloat16", RAW_OPS, "product"): product.flops("product") / 90e9,
        }
    )
    assert made_up.limit("float32") == pytest.approx(60)
    assert made_up.share(case, OURS, "forward") == pytest.approx(0.5)
    assert made_up.share(case, KERAS, "forward") is None
    assert made_up.cases() == [case]


def test_targets_take_the_worst_case_and_the_geometric_mean():
    seconds = {}
    for name, ratio in {"lstm-1-2-3-4": 1.5, "gru-1-2-3-4": 6.0, "lstm-1-2-3-4-varying": 0.1}.items():
        seconds |= {(name, OURS, "forward_backward"): 1.0, (name, PYTORCH, "forward_backward"): ratio}
    judged = verdicts(fake_run(seconds))
    worst = judged["forward + backward: speedup over PyTorch", False]
    assert (worst.measured, worst.where, worst.is_met) == (1.5, "LSTM 1, 2, 3, 4", True)
    mean = judged["forward + backward: speedup over PyTorch", True]
    assert mean.measured == pytest.approx(3)
    assert mean.is_met
    assert judged["LSTM forward: speedup over ONNX Runtime", False].is_met is None


@pytest.mark.parametrize(("ratio", "is_met"), [(1.29, False), (1.31, True)])
def test_a_target_is_met_from_its_bound_on(ratio, is_met):
    name = "gru_block_cell-1-2-3"
    judged = verdicts(fake_run({(name, OURS, "forward"): 1.0, (name, RAW_OPS, "forward"): ratio}))
    assert judged["GRUBlockCell: speedup over tf.raw_ops", False].is_met == is_met


def test_targets_of_bfloat16_require_amx():
    name = "lstm-1-2-3-4-bfloat16"
    seconds = {(name, OURS, "forward"): 1.0, (name, PYTORCH, "forward"): 2.0}
    for has_amx, is_met in ((True, True), (False, None)):
        judged = verdicts(fake_run(seconds, has_amx=has_amx))
        assert judged["bfloat16 forward with AMX: speedup over PyTorch", False].is_met is is_met


def test_targets_of_xla():
    name, short = "lstm-1-2-3-4", "gru-1-2-3-4"
    seconds = {OURS: 4e-3, OURS_XLA: 4.4e-3, KERAS_XLA: 6.6e-3}
    measured = {(name, peer, "forward_backward"): value for peer, value in seconds.items()}
    # Steps below 1 ms are not compared.
    measured |= {(short, OURS, "forward_backward"): 9e-4, (short, OURS_XLA, "forward_backward"): 1.8e-3}
    judged = verdicts(fake_run(measured))
    for title, figure in (
        (", at least 1 ms: time with XLA / without", 1.1),
        (" with XLA: speedup over Keras XLA", 1.5),
    ):
        verdict = judged[f"forward + backward{title}", False]
        assert (verdict.measured, verdict.where, verdict.is_met) == (pytest.approx(figure), "LSTM 1, 2, 3, 4", False)
    model = "model-lstm-1-2-3-4"
    made_up = fake_run({(model, OURS_XLA, "function"): 1.0, (model, KERAS_XLA, "function"): 3.0}, sections.MODELS)
    assert verdicts(made_up)["tf.function with XLA: speedup over Keras XLA", False].measured == pytest.approx(3)


def test_memory_is_the_median_of_processes():
    case = cases.parse_case("lstm-1-2-3-4")
    peaks = {OURS: (190, 150, 100), KERAS: (400, 300, 2000)}
    made_up = fake_run(
        {},
        memory=[
            run.MemoryMeasurement(case, peer, memory.StepMemory(100, peak)) for peer in peaks for peak in peaks[peer]
        ],
    )
    assert made_up.step_bytes(case, OURS) == 50
    assert made_up.memory_ratio(case, KERAS) == pytest.approx(50 / 300)
    assert made_up.step_bytes(case, PYTORCH) is None


def test_target_of_memory_is_an_upper_bound():
    case = cases.parse_case("lstm-1-2-3-4")
    taken = [(OURS, memory.StepMemory(100, 150)), (KERAS, memory.StepMemory(300, 400))]
    made_up = fake_run({}, memory=[run.MemoryMeasurement(case, *each) for each in taken])
    verdict = verdicts(made_up)["memory of a training step / Keras", False]
    assert (verdict.measured, verdict.is_met) == (0.5, True)
    assert "| LSTM 1, 2, 3, 4 | 0 | 0 | 0.50 |" in report.to_markdown(made_up)


def test_targets_of_penalties():
    seconds = {}
    for name, (plain, penalty) in {"penalty-lstm-1-2-3-4": (2.0, 5.0), "penalty-gru-1-2-3-4": (1.0, 3.0)}.items():
        seconds |= {(name, OURS, "forward_backward"): plain, (name, OURS, "penalty"): penalty}
        seconds |= {(name, KERAS, "penalty"): 24.0, (name, KERAS_UNROLLED, "penalty"): 12.0}
    judged = verdicts(fake_run(seconds, section=sections.SECOND_ORDER))
    cost = judged["penalty gradient: time / forward + backward", False]
    assert (cost.measured, cost.where, cost.is_met) == (3.0, "GRU 1, 2, 3, 4, penalty", True)
    title = "penalty gradient: speedup over the best of Keras, Keras XLA and Keras unrolled"
    assert judged[title, False].measured == pytest.approx(12 / 5)
    assert judged[title, True].measured == pytest.approx(math.sqrt(12 / 5 * 12 / 3))
    assert judged["forward + backward: speedup over PyTorch", False].measured is None


def test_memory_of_a_penalty_is_relative_to_the_same_step_without_it():
    penalized = cases.parse_case("penalty-lstm-1-2-3-4")
    mebi = 2**20
    sizes = {
        (penalized, OURS): 150,
        (penalized.plain, OURS): 50,
        (penalized, KERAS): 800,
        (penalized.plain, KERAS): 200,
    }
    made_up = fake_run(
        {},
        memory=[
            run.MemoryMeasurement(*key, memory.StepMemory(100 * mebi, (100 + size) * mebi))
            for key, size in sizes.items()
        ],
    )
    verdict = verdicts(made_up)["memory of a training step with a gradient penalty / without", False]
    assert (verdict.measured, verdict.is_met) == (3.0, True)
    assert verdicts(made_up)["memory of a training step / Keras", False].measured == pytest.approx(50 / 200)
    assert "| LSTM 1, 2, 3, 4 | 150 (3.00) | 800 (4.00) |" in report.to_markdown(made_up)


def test_targets_of_clients_are_relative_to_the_better_of_two():
    name, section = "lstm-1-2-3-4", sections.CLIENTS[4]
    parts = [
        fake_run({(name, peer, "forward"): seconds}, section, waits=[*[1.0] * 98, wait, wait])
        for peer, seconds, wait in ((OURS, 2.0, 6.0), (PYTORCH, 3.0, 4.0), (ONNX_RUNTIME, 5.0, 3.0))
    ]
    made_up = run.join(parts)
    judged = verdicts(made_up)
    rate = judged["4 clients: requests per second / the better of PyTorch and ONNX Runtime", False]
    assert (rate.measured, rate.is_met) == (1.5, True)
    wait = judged["4 clients: 99th percentile latency / the better of PyTorch and ONNX Runtime", False]
    assert wait.measured == pytest.approx(made_up.measurements[0].wait(99) / made_up.measurements[2].wait(99))
    assert not wait.is_met
    assert judged["16 clients: requests per second / the better of PyTorch and ONNX Runtime", False].is_met is None


def test_targets_of_a_small_op_are_relative_to_matrix_products():
    name = "elementwise-5"
    made_up = run.join(
        [
            fake_run({(name, OURS, "tanh"): 1.0}, sections.WAIT_WITH_SEQUENCES, waits=[0.003, 0.003]),
            fake_run({(name, RAW_OPS, "tanh"): 1.0}, sections.WAIT_WITH_PRODUCTS, waits=[0.002, 0.002]),
        ]
    )
    for figure in ("median", "99th percentile"):
        verdict = verdicts(made_up)[f"small op, {figure} latency: with sequences / with matrix products", False]
        assert (verdict.measured, verdict.is_met) == (pytest.approx(1.5), True)
    text = report.to_markdown(made_up)
    assert f"| {sections.SECTIONS[sections.WAIT_WITH_SEQUENCES].title} | 3; 3 |  |" in text


def fake_models():
    """Returns a run of two models. PyTorch runs the first one faster than an empty function."""
    small, large = "model-lstm-1-1-3-4", "model-lstm-2-5-3-4"
    micro = {
        (small, OURS, "function"): 400.0,
        (small, OURS, "empty_function"): 300.0,
        (small, OURS, "ops_alone"): 300.0 + 20.0 * cases.Model.repeats,
        (small, KERAS, "function"): 600.0,
        (small, KERAS_XLA, "function"): 200.0,
        (small, PYTORCH, "function"): 100.0,
        (small, OURS, "train_on_batch"): 1000.0,
        (small, KERAS, "train_on_batch"): 2000.0,
        (large, OURS, "function"): 1000.0,
        (large, OURS, "empty_function"): 300.0,
        (large, OURS, "ops_alone"): 300.0 + 500.0 * cases.Model.repeats,
        (large, KERAS, "function"): 8000.0,
        (large, PYTORCH, "function"): 1500.0,
        (large, ONNX_RUNTIME, "function"): 900.0,
    }
    return fake_run({key: value / 1e6 for key, value in micro.items()}, sections.MODELS)


def test_targets_of_models_are_relative_to_the_better_keras():
    judged = verdicts(fake_models())
    title = "tf.function: speedup over the better of Keras and Keras XLA"
    worst, mean = judged[title, False], judged[title, True]
    assert (worst.measured, worst.where, worst.is_met) == (pytest.approx(0.5), "LSTM 1, 1, 3, 4", False)
    assert (mean.measured, mean.is_met) == (pytest.approx(2), True)
    assert judged["train_on_batch: speedup over the better of Keras and Keras XLA", False].measured == pytest.approx(2)
    assert judged["predict: speedup over the better of Keras and Keras XLA", False].is_met is None


def test_overhead_has_a_target_if_an_empty_function_is_slower_than_pytorch():
    judged = verdicts(fake_models())
    ratio = judged["inference, if PyTorch takes longer than an empty tf.function: speedup over PyTorch", False]
    assert (ratio.measured, ratio.where, ratio.is_met) == (pytest.approx(1.5), "LSTM 2, 5, 3, 4", True)
    rest = judged["inference, otherwise: µs beyond an empty tf.function and the ops", False]
    assert (rest.measured, rest.where, rest.is_met) == (pytest.approx(80), "LSTM 1, 1, 3, 4", False)


def test_tables_of_models_have_means_and_ranges():
    text = report.part_to_markdown(fake_models(), "Keras models")
    assert "| LSTM 1, 1, 3, 4 | 0.4 | 0.6 (1.50) | 0.2 (0.50) | 0.1 (0.25) |  |" in text
    assert "| geometric mean |  | (3.46) | (0.50) | (0.61) | (0.90) |" in text
    assert "| range |  | (1.50 to 8.00) | (0.50 to 0.50) | (0.25 to 1.50) | (0.90 to 0.90) |" in text
    assert "| LSTM 1, 1, 3, 4 | 1 | 2 (2.00) |" in text
    assert "| LSTM 1, 1, 3, 4 | 400 | 300 | 20 | 80 | 100 |" in text


def test_headline_is_of_the_better_keras():
    text = report.headline(fake_models())
    assert "over 2 models, 1 of them also trained" in text
    keras_inference = "**2.00x** the speed of the better of Keras and Keras XLA in inference (0.50x to 8.00x per model)"
    assert f"- {keras_inference}, **2.00x** in training (2.00x to 2.00x)\n" in text
    assert "- **0.61x** the speed of PyTorch in inference (0.25x to 1.50x per model)\n" in text


def test_decoders_have_characters_per_second():
    name = "decoder-gru-4-1-3-5"
    text = report.to_markdown(fake_run({(name, OURS, "function"): 0.002}, sections.MODELS))
    assert "| decoder, GRU 4, 1, 3, 5 | 2000 |" in text


def test_only_targets_with_measurements_are_printed():
    made_up = fake_run({("lstm-1-2-3-4", peer, "forward"): 1.0 for peer in (OURS, PYTORCH)}, sections.BUSY_CPU)
    assert [each.target for each in targets.judge_measured(made_up)] == list(targets.SHARING_TARGETS)


def test_runs_of_different_parts_are_joined():
    case = cases.parse_case("lstm-1-2-3-4")
    taken = run.MemoryMeasurement(case, OURS, memory.StepMemory(100, 150))
    first = fake_run({(case.name, OURS, "forward"): 1.0}, date="first")
    joined = run.join([first, fake_run({(case.name, KERAS, "forward"): 2.0}, date="second", memory=[taken])])
    assert joined.ratio(case, "forward", [KERAS]) == 2
    assert joined.step_bytes(case, OURS) == 50
    assert joined.date == "first"


@pytest.fixture
def publish():
    """The module, which needs matplotlib."""
    pytest.importorskip("matplotlib")
    return importlib.import_module("publish")


@pytest.fixture
def pages(publish, tmp_path):
    """A performance.md and a README.md with all marks."""
    page, readme = tmp_path / "docs" / "performance.md", tmp_path / "README.md"
    page.parent.mkdir()
    marked = {part: f"\nold {part}\n".join(publish.marks(part)) + "\n" for part in report.PARTS}
    page.write_text("\n".join(["before\n", *marked.values(), "after\n"]))
    readme.write_text(f"before\n\n{marked[publish.KERAS_MODELS]}\nafter\n")
    return page, readme


def made_up_parts():
    """Returns a run of each part of the report, and a row of its tables."""
    plain, penalty = "lstm-1-2-3-4", "penalty-lstm-1-2-3-4"
    case = cases.parse_case(plain)
    taken = [run.MemoryMeasurement(case, OURS, memory.StepMemory(0, size * 2**20)) for size in (50, 60, 80)]
    clients = {(plain, OURS, "forward"): 5e-3, (plain, PYTORCH, "forward"): 1e-2}
    with_penalty = {
        (penalty, OURS, "forward_backward"): 2e-3,
        (penalty, OURS, "penalty"): 5e-3,
        (penalty, KERAS, "penalty"): 2e-2,
    }
    return {
        "ops": (fake_run({(plain, OURS, "forward"): 1.0}), "| LSTM 1, 2, 3, 4 | "),
        "sequence length and batch size": (
            fake_run({(plain, OURS, "forward"): 1.0}, sections.LENGTHS),
            "| LSTM 1, 2, 3, 4 | forward | 1000 |",
        ),
        "sharing a machine": (
            fake_run(clients, sections.CLIENTS[1], waits=[4e-3, 6e-3]),
            "| LSTM 1, 2, 3, 4 | 1 | 200; 5; 6 | 100; 5; 6 |",
        ),
        "memory": (fake_run({}, memory=taken), "| LSTM 1, 2, 3, 4 | 60 |"),
        "gradients of penalties": (
            fake_run(with_penalty, sections.SECOND_ORDER),
            "| LSTM 1, 2, 3, 4 | 2 | 5 | 2.50 | 20 (4.0) |",
        ),
        "threads": (
            fake_run({(plain, OURS, "forward"): 1.0, (plain, PYTORCH, "forward"): 2.0}, sections.scaling(1)),
            "| LSTM 1, 2, 3, 4 | 1000; 4.5e-07; 1.00; 2.00 |",
        ),
    }


@pytest.mark.parametrize("part", made_up_parts())
def test_publishing_replaces_the_text_between_the_marks_of_a_part(part, publish, pages):
    page, readme = pages
    made_up, row = made_up_parts()[part]
    before_readme = readme.read_text()
    assert publish.publish(made_up, page.parent) == [page]
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    begin, end = publish.marks(part)
    block = text[text.index(begin) : text.index(end)]
    assert report.part_to_markdown(made_up, part) in block
    assert row in block
    assert [other for other in report.PARTS if f"old {other}\n" not in text] == [part]
    assert readme.read_text() == before_readme
    publish.publish(made_up, page.parent)
    assert page.read_text() == text


def test_conditions_give_the_number_of_samples():
    runs = made_up_parts()
    assert report.part_to_markdown(runs["memory"][0], "memory").startswith("Medians of 3 processes, 2026-11-21.")
    assert report.part_to_markdown(runs["ops"][0], "ops").startswith("Medians of 1 rounds, 2026-11-21.")


def test_models_are_published_in_both_pages_with_a_chart(publish, pages):
    page, readme = pages
    made_up = fake_models()
    assert publish.publish(made_up, page.parent) == [page, readme]
    assert report.part_to_markdown(made_up, publish.KERAS_MODELS) in page.read_text()
    assert report.headline(made_up) in readme.read_text()
    assert "(docs/images/models.png)" in readme.read_text()
    assert "old" not in readme.read_text()
    images = page.parent / "images"
    assert list(images.iterdir()) == [images / "models.png"]
    pictures.assert_is_png(images / "models.png")


def test_ops_are_published_with_a_chart(publish, pages):
    page, _ = pages
    publish.publish(made_up_parts()["ops"][0], page.parent)
    pictures.assert_is_png(page.parent / "images" / "performance.png")


def test_an_option_publishes_the_results(publish, pages, tmp_path, monkeypatch, capsys):
    page, readme = pages
    made_up = fake_models()
    monkeypatch.setattr(publish, "DOCS", page.parent)
    monkeypatch.setattr(bench, "run_benchmark", lambda settings: made_up)
    monkeypatch.setattr(sys, "argv", ["bench.py", f"--output={tmp_path / 'results'}"])
    bench.main()
    assert "old" in readme.read_text()
    monkeypatch.setattr(sys, "argv", ["bench.py", f"--output={tmp_path / 'results'}", "--publish"])
    bench.main()
    assert report.headline(made_up) in readme.read_text()
    printed = capsys.readouterr().out
    assert "wrote results.json, results.md, models.png to " in printed
    assert f"updated {readme}\n" in printed


def test_publishing_requires_the_marks(publish, pages):
    page, _ = pages
    page.write_text("no marks")
    for made_up, _ in made_up_parts().values():
        with pytest.raises(ValueError, match=r"performance\.md must contain"):
            publish.publish(made_up, page.parent)


def test_the_documentation_has_the_marks(publish):
    for page, parts in (("docs/performance.md", report.PARTS), ("README.md", [publish.KERAS_MODELS])):
        text = (publish.DOCS.parent / page).read_text()
        for part in parts:
            assert [text.count(mark) for mark in publish.marks(part)] == [1, 1], part


# ---------------------------------------------------------------- what the libraries compute


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("peer", [OURS, OURS_XLA, KERAS, KERAS_XLA, PYTORCH, ONNX_RUNTIME])
def test_networks_equal_the_reference(peer, name):
    # ONNX Runtime has no float64.
    dtype = "float32" if peer == ONNX_RUNTIME else "float64"
    case = dataclasses.replace(cases.parse_case(name), dtype=dtype)
    prepared, reference = program(peer, case), program("float64", case)
    problem = problems.network_problem(case)
    shapes = {
        "forward": {"output": problem.output_gradient.shape},
        "forward_backward": {
            key: array.shape
            for key, array in problems.name_gradients({"inputs": problem.inputs}, problem.weights).items()
        },
    }
    assert list(prepared.calls) == list(tasks_of(peer, dataclasses.replace(case, dtype="float32")))
    for task in prepared.calls:
        actual, expected = prepared.results(task), reference.results(task)
        assert {key: array.shape for key, array in actual.items()} == shapes[task]
        assert measure.largest_error(actual, expected) <= parity.TOLERANCES[dtype]


SLOW_PENALTIES = [
    *itertools.product([OURS, KERAS, PYTORCH], SLOW_NETWORKS),
    # Building their graphs takes too long for the other networks.
    *itertools.product([KERAS_XLA, KERAS_UNROLLED], QUICK_NETWORKS),
]


@pytest.mark.parametrize(
    ("peer", "name"),
    [
        *itertools.product([OURS, KERAS, PYTORCH], QUICK_NETWORKS),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in SLOW_PENALTIES),
    ],
)
def test_penalties_equal_the_reference(peer, name):
    case = cases.parse_case(f"penalty-{name}-float64")
    prepared, reference = program(peer, case), program("float64", case)
    assert list(prepared.calls) == ["forward_backward", "penalty"]
    problem = problems.network_problem(case)
    named = problems.name_gradients({"penalty": np.array(0.0)}, problem.weights)
    for task in prepared.calls:
        actual, expected = prepared.results(task), reference.results(task)
        if task == "penalty":
            assert {key: array.shape for key, array in actual.items()} == {k: a.shape for k, a in named.items()}
        assert measure.largest_error(actual, expected) <= 1e-11


def test_a_penalty_is_on_the_norm_of_the_gradient_of_each_sequence():
    """Compares with finite differences of the score."""
    case = cases.parse_case("penalty-lstm-2-3-2-3-float64")
    problem = problems.network_problem(case)
    ours = library(OURS)
    ours_module = sys.modules[type(ours).__module__]

    def score(inputs):
        moved = dataclasses.replace(problem, inputs=inputs)
        network = ours_module.CudnnRNNProgram(case.plain, moved, tf_rnn_ops.raw_ops)
        return (network.results("forward")["output"] ** 2 * problem.output_gradient).sum() / 2

    step = 1e-6
    slopes = np.zeros_like(problem.inputs)
    for index in np.ndindex(*slopes.shape):
        unit = np.zeros_like(slopes)
        unit[index] = step
        slopes[index] = (score(problem.inputs + unit) - score(problem.inputs - unit)) / (2 * step)
    norms = np.sqrt((slopes**2).sum(axis=(1, 2)))
    penalty = ours.program(case).results("penalty")["penalty"]
    np.testing.assert_allclose(penalty, np.mean((norms - 1) ** 2), rtol=1e-8)


@pytest.mark.parametrize("peer", [OURS, KERAS, PYTORCH])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_networks_of_bfloat16_are_near_the_reference(peer, cell):
    case = cases.parse_case(f"{cell}-3-4-5-6-bfloat16")
    prepared, reference = program(peer, case), program("float64", case)
    for task in case.tasks:
        actual = {key: array.astype(np.float64) for key, array in prepared.results(task).items()}
        assert measure.largest_error(actual, reference.results(task)) <= 5 * parity.TOLERANCES["bfloat16"]


@pytest.mark.parametrize("peer", [OURS, OURS_XLA, RAW_OPS])
def test_cells_equal_the_reference(peer):
    case = cases.parse_case("gru_block_cell-3-4-5-6steps")
    prepared, reference = program(peer, case), program("float64", case)
    for task in case.tasks:
        assert measure.largest_error(prepared.results(task), reference.results(task)) <= parity.TOLERANCES["float32"]


@pytest.fixture
def accelerated(monkeypatch):
    """Restores Keras at the end of the test."""
    begun, accelerate = [], tf_rnn_ops.accelerate_keras

    def record(**options):
        begun.append(accelerate(**options))
        return begun[-1]

    monkeypatch.setattr(tf_rnn_ops, "accelerate_keras", record)
    yield begun
    for each in begun:
        each.restore()


QUICK_MODELS = ["model-lstm-3-4-5-6-bidirectional-varying", "decoder-lstm-3-1-5-6-2layers"]
SLOW_MODELS = ["model-gru-3-4-5-6-2layers", "model-tanh-3-4-5-6-2layers-bidirectional", "decoder-gru-3-1-5-6"]


@pytest.mark.usefixtures("accelerated")
@pytest.mark.parametrize("name", [*QUICK_MODELS, *(pytest.param(each, marks=pytest.mark.slow) for each in SLOW_MODELS)])
@pytest.mark.parametrize("peer", [OURS, OURS_XLA, KERAS, KERAS_XLA, PYTORCH, ONNX_RUNTIME])
def test_models_equal_the_reference(peer, name):
    case = cases.parse_case(name)
    reference = program("float64", case)
    expected = {task: reference.results(task) for task in case.tasks}
    prepared = program(peer, case)
    assert list(prepared.calls) == list(tasks_of(peer, case))
    for task in prepared.calls:
        # Also after a call, which trains a model and advances a decoder.
        for _ in range(2):
            assert measure.largest_error(prepared.results(task), expected[task]) <= parity.TOLERANCES["float32"]
            prepared.calls[task]()


@pytest.mark.usefixtures("accelerated")
@pytest.mark.parametrize("peer", [OURS, OURS_XLA, KERAS, KERAS_XLA])
def test_mixed_models_equal_the_reference(peer):
    case = cases.parse_case("mixed-lstm-3-4-5-8-2layers")
    reference, prepared = program("float64", case), program(peer, case)
    assert list(prepared.calls) == list(case.tasks)
    for task in case.tasks:
        for _ in range(2):
            error = measure.largest_error(prepared.results(task), reference.results(task))
            assert error <= parity.TOLERANCES["float32"]
            prepared.calls[task]()


def test_other_libraries_have_no_mixed_models():
    assert [program(peer, cases.parse_case("mixed-lstm-3-4-5-8")) for peer in (PYTORCH, ONNX_RUNTIME)] == [None, None]


@pytest.mark.usefixtures("accelerated")
def test_only_our_models_run_on_the_op(runs):
    case = cases.parse_case("model-gru-3-4-5-6-2layers")
    for peer in (KERAS, OURS):
        prepared = program(peer, case)
        for task in (cases.FUNCTION, cases.PREDICT, cases.TRAIN_ON_BATCH, cases.FIT):
            count, _ = runs.during(prepared.calls[task])
            assert count >= 2 if peer == OURS else count == 0
        loaded = prepared._loaded.serve.concrete_functions[0].graph.as_graph_def()
        assert ("TfRnnOps>KerasRNN" in str(loaded)) == (peer == OURS)


@pytest.mark.usefixtures("accelerated")
def test_the_ops_alone_run_as_often_as_they_are_divided_by():
    """Each run starts from the final states of the previous one, so none can be replaced by another."""
    case = cases.parse_case("decoder-lstm-3-1-5-6")
    problem = problems.model_problem(case)
    x = problem.embedding[problem.inputs]
    layer = keras.layers.LSTM(6, return_state=True)
    layer.build(x.shape)
    layer.set_weights(importlib.import_module("keras_layers").to_keras(case.network, problem.weights))
    features, *states = layer(x, initial_state=list(problem.states))
    for _ in range(case.repeats - 1):
        features, *states = layer(x, initial_state=states)
    _, last = program(OURS, case).calls[cases.OPS_ALONE]()
    np.testing.assert_allclose(last, features, atol=1e-5)


@pytest.mark.usefixtures("accelerated")
@pytest.mark.parametrize("peer", [OURS, KERAS, PYTORCH, ONNX_RUNTIME])
def test_decoders_continue_from_their_results(peer):
    """The second call takes the states and the most likely token of the first."""
    case = cases.parse_case("decoder-gru-3-1-5-6")
    reference = program("float64", case)
    first = reference.results(cases.FUNCTION)
    problem = problems.model_problem(case)
    tokens = np.argmax(first["output"], axis=-1)[:, np.newaxis]
    moved = dataclasses.replace(problem, inputs=tokens, states=list(first["states"].astype(np.float32)))
    library(KERAS)  # imports the module
    keras_models = sys.modules["keras_models"]
    expected = keras_models.ModelProgram(case, moved.astype("float64")).results(cases.FUNCTION)["states"]
    prepared = program(peer, case)
    for _ in range(2):
        prepared.calls[cases.FUNCTION]()
    np.testing.assert_allclose(last_states(prepared), expected, atol=1e-5)


def last_states(decoder):
    """Returns the states after a decoder's last call, [states, batch, units]."""
    last = decoder._last
    if isinstance(last, dict):
        return np.concatenate([last["state0"]])
    _, states = last
    return np.asarray(states).reshape(1, 3, 6)


@pytest.mark.parametrize("dtype", sections.PRODUCT_DTYPES)
@pytest.mark.parametrize("peer", [PYTORCH, ONNX_RUNTIME, RAW_OPS])
def test_products_equal_the_reference(peer, dtype):
    case = cases.Product(5, dtype)
    prepared, reference = program(peer, case), program("float64", case)
    if prepared is None:
        assert (peer, dtype) == (ONNX_RUNTIME, "bfloat16")
    else:
        actual = {key: array.astype(np.float64) for key, array in prepared.results("product").items()}
        assert measure.largest_error(actual, reference.results("product")) <= parity.TOLERANCES[dtype]


@pytest.mark.parametrize("peer", [OURS, PYTORCH, ONNX_RUNTIME, RAW_OPS])
def test_elementwise_functions_equal_the_reference(peer):
    case = cases.Elementwise(100)
    prepared, reference = program(peer, case), program("float64", case)
    assert list(prepared.calls) == list(tasks_of(peer, case))
    for task in prepared.calls:
        assert measure.largest_error(prepared.results(task), reference.results(task)) <= parity.TOLERANCES["float32"]


@pytest.mark.parametrize("name", ["lstm-2-3-4-5", "gru-3-4-2-3-2layers-bidirectional-float64", "gru-3-4-2-3-varying"])
def test_gradients_are_those_of_the_forward_task(name, monkeypatch):
    """Compares with the change of sum(output * output_gradient) for a step along the gradient."""
    case = dataclasses.replace(cases.parse_case(name), dtype="float64")
    problem = problems.network_problem(case)
    gradients = program("float64", case).results("forward_backward")
    step = 1e-6

    def moved(sign):
        weights = {
            layer: problems.Weights(
                **{key: array + sign * step * gradients[f"{layer}/{key}"] for key, array in of_layer.arrays().items()}
            )
            for layer, of_layer in problem.weights.items()
        }
        return dataclasses.replace(problem, inputs=problem.inputs + sign * step * gradients["inputs"], weights=weights)

    def loss(sign):
        monkeypatch.setattr("tensorflow_libraries.network_problem", lambda case: moved(sign))
        return np.sum(program("float64", case).results("forward")["output"] * problem.output_gradient)

    difference = (loss(1) - loss(-1)) / (2 * step)
    assert difference == pytest.approx(sum(np.sum(gradient**2) for gradient in gradients.values()), rel=1e-6)


# ---------------------------------------------------------------- how it is measured


@pytest.fixture
def local_bench(monkeypatch, tmp_path):
    """Returns a function that creates a bench whose peers run in this process."""
    monkeypatch.setattr(measure, "Worker", LocalWorker)
    monkeypatch.setattr(LocalWorker, "turns", [], raising=False)
    monkeypatch.setattr(LocalWorker, "corrupted", None, raising=False)
    monkeypatch.setattr(LocalWorker, "others", itertools.repeat(0.0), raising=False)
    return lambda *names: measure.Bench([PEERS[name] for name in names], peers.REFERENCE, 1, tmp_path / "log")


@pytest.mark.parametrize("task", ["forward", "forward_backward"])
def test_wrong_results_are_rejected(task, local_bench, monkeypatch):
    monkeypatch.setattr(LocalWorker, "corrupted", (KERAS, task))
    case = cases.parse_case("lstm-3-4-5-6")
    message = f"^keras gives wrong results for {re.escape(cases.TASKS[task])} of lstm-3-4-5-6: "
    with local_bench(OURS, KERAS) as made, pytest.raises(ValueError, match=message):
        made.measure("main", case, [OURS, KERAS], rounds=1)


def test_peers_take_turns(local_bench):
    case = cases.parse_case("lstm-1-2-3-4")
    rounds = 8
    with local_bench(OURS, KERAS, RAW_OPS) as made:
        products = [turn for size in (2, 3) for turn in made.prepare(cases.Product(size), [OURS, KERAS, RAW_OPS])]
        measured = made.measure("main", case, [OURS, KERAS, RAW_OPS], rounds, products)
    keys = sorted([(peer, case.name, task) for peer in (OURS, KERAS) for task in case.tasks])
    each_round = len(keys) + 1
    turns = LocalWorker.turns
    assert len(turns) == rounds * each_round
    orders = [turns[start : start + each_round] for start in range(0, len(turns), each_round)]
    for order in orders:
        assert sorted(turn for turn in order if turn[0] != RAW_OPS) == keys
        assert sum(turn[0] == RAW_OPS for turn in order) == 1
    assert len({tuple(order) for order in orders}) > 1
    assert {each.case.name for each in measured} == {case.name, "product-2-float32", "product-3-float32"}
    assert sorted(value for each in measured for value in each.seconds) == list(range(1, len(turns) + 1))


@pytest.mark.parametrize(
    ("others", "counts"), [([0.9, 0.1, 0.0], 2), ([0.5, 0.3, 0.4], 2), ([0.1, 0.0, 0.0], 1), ([0.9, 0.8, 0.7], 3)]
)
def test_disturbed_samples_are_taken_again(others, counts, local_bench, monkeypatch):
    monkeypatch.setattr(LocalWorker, "others", iter(others))
    with local_bench(RAW_OPS) as made:
        (measured,) = made.measure("main", cases.Product(2), [RAW_OPS], rounds=1)
    assert (measured.seconds, measured.others) == ([float(counts)], [others[counts - 1]])


def test_only_selected_peers_are_measured(local_bench):
    with local_bench(OURS, KERAS) as made:
        measured = made.measure("main", cases.parse_case("lstm-1-2-3-4"), [KERAS, PYTORCH], rounds=1)
    assert {each.peer for each in measured} == {KERAS}


@pytest.mark.usefixtures("local_bench")
def test_peers_that_are_not_installed_are_skipped(tmp_path, monkeypatch, capsys):
    missing = dataclasses.replace(PEERS[ONNX_RUNTIME], packages=["math", "no_such_package"])
    monkeypatch.setitem(PEERS, ONNX_RUNTIME, missing)
    options = {"cases": "lstm-1-2-3-4", "peers": f"{ONNX_RUNTIME},{KERAS}", "rounds": 1, "output": tmp_path}
    monkeypatch.setattr(sys, "argv", ["bench.py", "--quick", *(f"--{name}={value}" for name, value in options.items())])
    made = bench.run_benchmark(bench.parse_arguments())
    assert {each.peer for each in made.measurements} == {OURS, KERAS}
    assert run.to_json(made)["left_out"] == {ONNX_RUNTIME: ["no_such_package"]}
    sentence = "ONNX Runtime is skipped; not installed: no_such_package"
    assert sentence in capsys.readouterr().out
    assert sentence in report.to_markdown(made)


def test_a_product_may_be_a_case_among_products(local_bench):
    case = cases.Product(2)
    with local_bench(RAW_OPS) as made:
        products = made.prepare(case, [RAW_OPS])
        for _ in range(2):
            made.measure("main", case, [RAW_OPS], 1, products)
            (turn,) = products
            assert made._workers[RAW_OPS].results(turn.case, turn.task)


def test_peers_without_the_background_case_are_not_measured(local_bench):
    load = loads.Load(seconds=0.01, clients=3, background=[(cases.Product(2), "product")])
    with local_bench(OURS, RAW_OPS) as made:
        measured = made.measure("x", cases.Elementwise(2), [OURS, RAW_OPS], 2, tasks=[cases.TANH], load=load)
    assert [(each.peer, each.task) for each in measured] == [(RAW_OPS, cases.TANH)]
    assert len(measured[0].seconds) == 2
    assert len(measured[0].waits) >= 2 * load.clients


def test_each_call_of_each_client_is_timed_with_background_calls():
    begun, at_once = threading.Event(), threading.Barrier(3)
    calls = itertools.count()

    def call():
        assert begun.wait(10)  # the background call runs meanwhile
        next(calls)
        at_once.wait(10)

    requests = loads.time_requests(call, [begun.set], loads.Load(seconds=0.0, clients=3))
    assert len(requests.waits) == next(calls) == 3
    assert min(requests.waits) > 0


def test_errors_of_background_calls_are_raised():
    def fail():
        raise ValueError("it failed")

    with pytest.raises(ValueError, match="it failed"):
        loads.time_requests(lambda: None, [fail], loads.Load(seconds=0.01))


def test_busy_processes_end():
    cpus = sorted(os.sched_getaffinity(0))
    with loads.busy_processes(1) as (process,):
        deadline = time.monotonic() + 10
        while os.sched_getaffinity(process.pid) != {cpus[-1]} and time.monotonic() < deadline:
            time.sleep(0.01)
        assert os.sched_getaffinity(process.pid) == {cpus[-1]}
        assert process.poll() is None
    assert process.poll() is not None


def test_samples_of_the_same_task_are_merged():
    case = cases.Product(2)
    parts = [
        measure.Measurement("main", case, peer, "product", seconds, 0.0, others=seconds, waits=seconds)
        for peer, seconds in ((PYTORCH, [1.0]), (RAW_OPS, [2.0]), (PYTORCH, [3.0, 4.0]))
    ]
    merged = measure.merge(parts)
    assert [(each.peer, each.seconds) for each in merged] == [(PYTORCH, [1.0, 3.0, 4.0]), (RAW_OPS, [2.0])]
    assert all(each.others == each.waits == each.seconds for each in merged)


class Clock:
    """Replaces `time.perf_counter`, and provides functions that take a known time."""

    def __init__(self):
        self.now = 0.0
        self.calls = 0
        self.seconds_to_wait = 0.0

    def function(self, seconds):
        def call():
            self.calls += 1
            self.now += next(seconds)

        return call


@pytest.fixture
def clocked_session(monkeypatch):
    """Returns a function that creates a session whose only case takes known times, and its clock."""
    clock = Clock()
    monkeypatch.setattr(workers.time, "perf_counter", lambda: clock.now)

    def make(seconds):
        class Known:
            def program(self, case):
                return type("Program", (), {"calls": {"product": clock.function(seconds)}})

            def synchronize(self):
                clock.now += clock.seconds_to_wait

        session = workers.Session(Known())
        session.prepare("product-2")
        return session

    return make, clock


def test_short_calls_are_timed_together_after_a_warm_up(clocked_session):
    make, clock = clocked_session
    # The first call compiles and takes long. The others take a bit more than a quarter of a sample; calls in turns take
    # twice as long.
    quarter = workers.SAMPLE_SECONDS / 3.9
    calibration = [100.0] + [quarter] * (workers.CALIBRATION_CALLS - 1)
    session = make(itertools.chain(calibration, itertools.repeat(2 * quarter)))
    session.calibrate("product-2", "product", workers.SAMPLE_SECONDS)
    assert clock.calls == workers.CALIBRATION_CALLS
    assert session.sample("product-2", "product") == pytest.approx(2 * quarter)
    assert clock.calls == workers.CALIBRATION_CALLS + 1 + 4


def test_a_turn_warms_up_for_a_while(clocked_session):
    make, clock = clocked_session
    session = make(itertools.repeat(workers.WARM_UP_SECONDS / 4))
    session.calibrate("product-2", "product", workers.SAMPLE_SECONDS)
    clock.calls, clock.now = 0, 0.0
    session.sample("product-2", "product")
    assert workers.WARM_UP_SECONDS <= clock.now - workers.SAMPLE_SECONDS <= 2 * workers.WARM_UP_SECONDS


def test_long_calls_need_no_warm_up(clocked_session):
    make, clock = clocked_session
    seconds = 2 * workers.LONG_SAMPLES * workers.SAMPLE_SECONDS
    session = make(itertools.repeat(seconds))
    session.calibrate("product-2", "product", workers.SAMPLE_SECONDS)
    clock.calls = 0
    assert session.sample("product-2", "product") == pytest.approx(seconds)
    assert clock.calls == 1


def test_a_sample_synchronizes_once(clocked_session):
    make, clock = clocked_session
    clock.seconds_to_wait = workers.SAMPLE_SECONDS / 4
    session = make(itertools.repeat(workers.SAMPLE_SECONDS / 16))
    session.calibrate("product-2", "product", workers.SAMPLE_SECONDS)
    calls = math.ceil(16 / 5)  # alone, each takes 5 / 16 of a sample
    expected = workers.SAMPLE_SECONDS / 16 + clock.seconds_to_wait / calls
    assert session.sample("product-2", "product") == pytest.approx(expected)


def test_error_is_relative_to_the_largest_magnitude():
    expected = {"a": np.array([1.0, -4.0]), "b": np.array([100.0, 0.0]), "zero": np.zeros(2)}
    assert measure.largest_error(expected, expected) == 0
    actual = {**expected, "a": np.array([1.5, -4.0]), "b": np.array([101.0, 0.5])}
    assert measure.largest_error(actual, expected) == 0.125
    assert measure.largest_error({**expected, "zero": np.array([0.0, -0.5])}, expected) == 0.5
    for wrong in (math.nan, math.inf):
        assert measure.largest_error({**expected, "a": np.array([1.0, wrong])}, expected) == math.inf


def test_results_with_other_names_or_shapes_are_rejected():
    expected = {"a": np.ones([2, 1])}
    with pytest.raises(ValueError, match="expected the results a, got b"):
        measure.largest_error({"b": np.ones([2, 1])}, expected)
    with pytest.raises(ValueError, match=r"a must have shape \(2, 1\), but has shape \(1, 2\)"):
        measure.largest_error({"a": np.ones([1, 2])}, expected)


def made_up_worker(library_name, tmp_path):
    return workers.Worker(peers.Peer("x", "Nobody", library_name, []), 2, tmp_path / "log")


def test_errors_in_a_process_are_raised(tmp_path):
    with made_up_worker("cases.Product", tmp_path) as worker:
        with pytest.raises(workers.WorkerError, match=r"Nobody failed:\n(.|\n)*no attribute 'versions'"):
            worker.versions()
        with pytest.raises(workers.WorkerError, match="no attribute 'program'"):
            worker.prepare(cases.Product(2))


def test_the_end_of_a_process_is_an_error(tmp_path):
    with (
        made_up_worker("os._exit", tmp_path) as worker,
        pytest.raises(workers.WorkerError, match=r"the Nobody process ended with 2; see .*log"),
    ):
        worker.versions()


# In a new process: this one may hold memory of other tests.
@pytest.mark.parametrize("peer", [peer for peer in (OURS, KERAS, PYTORCH) if peer in INSTALLED])
def test_memory_of_a_step_holds_its_gradients(peer, tmp_path):
    with workers.Worker(PEERS[peer], 2, tmp_path / "log") as worker:
        measured = worker.step_memory(cases.parse_case("lstm-8-20-64-512"))
    assert measured.baseline > 0
    assert measured.step >= 4 * 4 * 512 * (512 + 64)


def test_memory_skips_a_process_that_ends(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bench, "PEERS", {OURS: peers.Peer(OURS, "Nobody", "os._exit", [])})
    settings = argparse.Namespace(cases=[cases.parse_case("lstm-2-3-8-16")], quick=True, threads=2)
    assert bench._measure_memory(settings, [OURS], tmp_path / "log") == []
    assert "not measured: the Nobody process ended with 2" in capsys.readouterr().out


@pytest.mark.parametrize(("peer", "name"), [(OURS, "gru_block_cell-1-2-3"), (RAW_OPS, "lstm-1-2-3-4")])
def test_memory_of_untrainable_cases_is_rejected(peer, name):
    with pytest.raises(ValueError, match=re.escape(name.split("-")[0])):
        memory.step_memory(library(peer), cases.parse_case(name))


# ---------------------------------------------------------------- cases and options


def test_names_of_cases_are_read_as_they_are_written():
    for section in sections.SECTIONS.values():
        for case in [*section.cases, *section.quick_cases]:
            assert cases.parse_case(case.name) == case
    assert cases.parse_case("gru-1-20-3-4-bfloat16") == cases.Network("gru", 1, 20, 3, 4, dtype="bfloat16")
    everything = cases.Network("lstm", 1, 2, 3, 4, layers=2, bidirectional=True, varying=True, dtype="float64")
    assert cases.parse_case("lstm-1-2-3-4-2layers-bidirectional-varying-float64") == everything
    assert cases.parse_case("tanh-1-20-3-4").dtype == "float32"
    assert cases.parse_case("gru_block_cell-1-20-3-7steps-bfloat16") == cases.CellSteps(1, 20, 3, 7, "bfloat16")
    network = cases.Network("gru", 1, 20, 3, 4, layers=2)
    assert cases.parse_case("model-gru-1-20-3-4-2layers") == cases.Model(network)
    assert cases.parse_case("decoder-gru-1-1-3-4") == cases.Decoder(cases.Network("gru", 1, 1, 3, 4))
    assert cases.parse_case("mixed-gru-1-20-3-4-2layers") == cases.MixedModel(network)
    assert cases.parse_case("product-12") == cases.Product(12, "float32")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "lstm",
        "lstm-1-2-3",
        "lstm-1-2-3-4-5",
        "lstm-1-2-3-0",
        "rnn-1-2-3-4",
        "lstm-1-2-3-4-int8",
        "lstm-1-2-3-4-varying-bidirectional",
        "gru_block_cell-1-2",
        "model-gru_block_cell-1-2-3",
        "model-lstm-1-2-3-4-bfloat16",
        "decoder-lstm-1-2-3-4",
        "decoder-lstm-1-1-3-4-bidirectional",
        "mixed-lstm-1-2-3-4-varying",
        "product",
    ],
)
def test_invalid_names_of_cases_are_rejected(name):
    with pytest.raises(ValueError, match=r"is not a valid case; cases are .* CELL-BATCH-TIME-INPUT-UNITS"):
        cases.parse_case(name)


@pytest.mark.parametrize(
    ("name", "forward"),
    [
        ("lstm-2-3-5-7", 2 * 2 * 3 * 4 * 7 * (5 + 7)),
        ("gru-2-3-5-7", 2 * 2 * 3 * 3 * 7 * (5 + 7)),
        ("tanh-2-3-5-7-2layers", 2 * 2 * 3 * 7 * ((5 + 7) + (7 + 7))),
        ("tanh-2-3-5-7-2layers-bidirectional", 2 * 2 * 3 * 2 * 7 * ((5 + 7) + (14 + 7))),
        ("tanh-2-8-5-7-varying", 2 * (8 + 2) * 7 * (5 + 7)),
        ("gru_block_cell-2-5-7-3steps", 3 * 2 * 2 * 3 * 7 * (5 + 7)),
        ("penalty-lstm-2-3-5-7", 2 * 2 * 3 * 4 * 7 * (5 + 7)),
    ],
)
def test_operations_are_counted(name, forward):
    case = cases.parse_case(name)
    times = {"forward": 1, "forward_backward": 3, "backward": 1, "penalty": 10}
    assert {task: case.flops(task) for task in case.tasks} == {task: times[task] * forward for task in case.tasks}


def test_operations_of_models_are_those_of_their_networks():
    case = cases.parse_case("model-lstm-2-3-5-7")
    forward = case.network.flops(cases.FORWARD)
    times = {
        cases.FUNCTION: 1,
        cases.SAVED_MODEL: 1,
        cases.PREDICT: case.batches,
        cases.TRAIN_ON_BATCH: 3,
        cases.FIT: 3 * case.batches,
        cases.EMPTY_FUNCTION: 0,
        cases.OPS_ALONE: case.repeats,
    }
    assert {task: case.flops(task) for task in case.tasks} == {task: count * forward for task, count in times.items()}


@pytest.mark.parametrize("batch", [1, 2, 5, 32])
def test_lengths_vary_from_all_to_a_quarter(batch):
    case = cases.Network("lstm", batch, 10, 1, 1, varying=True)
    assert len(case.lengths) == batch
    assert max(case.lengths) == 10
    assert batch == 1 or min(case.lengths) == 3
    assert case.lengths == dataclasses.replace(case).lengths
    assert batch < 32 or case.lengths != sorted(case.lengths, reverse=True)
    assert dataclasses.replace(case, varying=False).lengths == [10] * batch


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--cases=lstm-1-2-3-4,lstm", "'lstm' is not a valid case"),
        ("--peers=keras,nobody", "'nobody' is not one of tf_rnn_ops_xla, keras"),
        ("--peers=tf_rnn_ops", "'tf_rnn_ops' is not one of"),
        ("--sections=main,none", "'none' is not one of main, memory"),
        ("--rounds=0", "'0' is not a positive integer"),
        ("--threads=some", "'some' is not a positive integer"),
    ],
)
def test_invalid_options_are_rejected(option, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["bench.py", option])
    with pytest.raises(SystemExit) as exit_info:
        bench.parse_arguments()
    assert exit_info.value.code == 2
    assert message in capsys.readouterr().err


def test_options_select_sections_and_cases(monkeypatch):
    def settings(*options):
        monkeypatch.setattr(sys, "argv", ["bench.py", *options])
        return bench.parse_arguments()

    default = settings()
    assert default.sections == bench.OPTIONS
    assert default.peers == peers.OTHERS
    assert settings("--quick").rounds < default.rounds
    chosen = settings("--quick", "--cases=gru-1-2-3-4,tanh-1-2-3-4", "--peers=keras_xla,keras", "--rounds=7")
    assert chosen.sections == [sections.MAIN]
    assert [case.name for case in chosen.cases] == ["gru-1-2-3-4", "tanh-1-2-3-4"]
    assert chosen.peers == ["keras_xla", "keras"]
    assert chosen.rounds == 7
    assert settings("--sections=calls,memory").sections == ["calls", "memory"]


def test_cases_are_measured_in_the_sections_of_their_kind(monkeypatch):
    names = ["lstm-1-2-3-4", "model-lstm-1-2-3-4", "decoder-lstm-1-1-3-4"]
    monkeypatch.setattr(sys, "argv", ["bench.py", f"--cases={','.join(names)}"])
    settings = bench.parse_arguments()
    assert settings.sections == [sections.MAIN, sections.MODELS]
    measured = {
        name: [case.name for case in bench._cases_of(sections.SECTIONS[name], settings)]
        for name in (sections.MAIN, sections.MODELS, sections.KERAS_CALLS)
    }
    assert measured == {sections.MAIN: names[:1], sections.MODELS: names[1:], sections.KERAS_CALLS: names[1:]}


def test_the_main_section_has_every_size_for_every_cell():
    sizes = ["1-100-128-256", "32-100-128-256", "64-50-512-512", "128-25-1024-1024"]
    names = {case.name for case in sections.SECTIONS[sections.MAIN].cases}
    assert names >= {f"{cell}-{size}" for cell in cases.NUM_GATES for size in sizes}
