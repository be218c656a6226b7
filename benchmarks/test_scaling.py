"""Tests of benchmarks/scaling.py: the engine without TensorFlow, and the figures for several numbers of threads."""

import sys

import cases
import engine_library
import local_workers
import measure
import numpy as np
import pytest
import report
import scaling
import sections
import targets
from checks import parity
from peers import ONNX_RUNTIME, OURS, PYTORCH, PYTORCH_REFERENCE, REFERENCE
from problems import network_problem
from test_benchmark import fake_run

# Networks with enough work for every target.
LARGE, SINGLE = "lstm-32-4-512-512", "gru-1-4-512-512"


def run_with(seconds, case=LARGE, task=cases.FORWARD):
    """Returns a run with the given seconds of (peer, threads)."""
    measured = [
        scaling.by_section(
            measure.Measurement("", cases.parse_case(case), f"{peer}/{threads}", task, [value], 0.0, others=[0.0])
        )
        for (peer, threads), value in seconds.items()
    ]
    return fake_run({}, measurements=measured)


@pytest.fixture(scope="module", params=[1, 3], ids="{} threads".format)
def engine(request):
    """The engine, which `make build/engine-calls/ready` builds, with a number of threads."""
    return engine_library.Engine(request.param)


@pytest.mark.parametrize("cell", cases.NUM_GATES)
def test_the_engine_equals_keras(cell, engine):
    case = cases.parse_case(f"{cell}-3-5-7-40")
    expected, actual = local_workers.library(REFERENCE).network(case), engine.network(case)
    for task in case.tasks:
        for name, array in expected.results(task).items():
            assert parity.difference(actual.results(task)[name], array) < parity.TOLERANCES["float32"], name


def test_the_reference_without_tensorflow_is_float64():
    case = cases.parse_case("gru-2-3-4-5")
    results = local_workers.library(PYTORCH_REFERENCE).network(case).results(cases.FORWARD_BACKWARD)
    inputs = network_problem(case).astype("float64").inputs
    assert {array.dtype for array in results.values()} == {np.dtype(np.float64)}
    assert results["inputs"].shape == inputs.shape
    assert parity.difference(results["inputs"].astype(np.float32), results["inputs"]) > 0


def test_networks_of_several_layers_are_not_supported(engine):
    assert engine.network(cases.parse_case("lstm-2-3-4-5-2layers")) is None
    assert engine.network(cases.parse_case("lstm-2-3-4-5-bfloat16")) is None


def test_the_engine_reports_the_cpu(engine):
    assert engine.versions().keys() == {"CPU", "instruction set"}


@pytest.mark.parametrize(("most", "expected"), [(1, [1]), (2, [1, 2]), (3, [1, 2]), (16, [1, 2, 4, 8, 16])])
def test_the_default_numbers_of_threads(most, expected):
    assert scaling.powers_of_two(most) == expected


def test_efficiency_and_speedup():
    seconds = {(OURS, 1): 16.0, (OURS, 8): 2.5, (PYTORCH, 8): 5.0, (ONNX_RUNTIME, 8): 3.0, (PYTORCH, 1): 8.0}
    taken = run_with(seconds)
    case = cases.parse_case(LARGE)
    assert taken.num_threads() == [1, 8]
    assert taken.efficiency(case, cases.FORWARD, 8) == 16 / 2.5 / 8
    assert taken.efficiency(case, cases.FORWARD, 8, PYTORCH) == 8 / 5 / 8
    assert taken.efficiency(case, cases.FORWARD, 16) is None
    flops = case.flops(cases.FORWARD) / 1e9
    row = f"16000; {flops / 16:.2g}; 1.00; 0.50 | 2500; {flops / 2.5:.2g}; 0.80; 1.20 |"
    assert row in report.part_to_markdown(taken, "threads")
    assert "| tf_rnn_ops, forward | 0.80 |" in report.part_to_markdown(taken, "threads")


@pytest.mark.parametrize(
    ("seconds", "met"),
    [
        # Faster than both others on 16 threads, efficient, and never slower with more threads.
        ({(OURS, 1): 16, (OURS, 16): 1.4, (PYTORCH, 16): 2, (ONNX_RUNTIME, 16): 1.5}, [True, True, True]),
        ({(OURS, 1): 16, (OURS, 16): 1.4, (PYTORCH, 16): 2, (ONNX_RUNTIME, 16): 1.3}, [False, True, True]),
        ({(OURS, 1): 16, (OURS, 16): 1.5, (PYTORCH, 16): 2}, [True, False, True]),
        # 4 threads are slower than 2. Speedups on fewer than 8 threads do not count.
        ({(OURS, 1): 4, (OURS, 2): 2, (OURS, 4): 2.2, (PYTORCH, 4): 1}, [None, None, False]),
    ],
)
def test_targets(seconds, met):
    assert [verdict.is_met for verdict in targets.judge(run_with(seconds), targets.SCALING_TARGETS)] == met


def test_efficiency_is_not_demanded_of_single_sequences():
    seconds = {(OURS, 1): 16, (OURS, 16): 15}
    assert targets.judge(run_with(seconds, SINGLE), targets.SCALING_TARGETS)[1].is_met is None


@pytest.mark.slow
def test_a_run_writes_its_results(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["scaling.py", "--quick", "--threads", "1,2", "--output", str(tmp_path)])
    settings = scaling.parse_arguments()
    taken, failures = scaling.run_benchmark(settings)
    assert not failures
    assert taken.num_threads() == [1, 2]
    assert taken.cases(sections.scaling(2)) == list(sections.SCALING_SECTION.quick_cases)
    assert (tmp_path / "results.json").exists()
    settings.seconds = 0
    assert not scaling.run_benchmark(settings)[0].measurements


def test_a_failure_of_the_engine_is_an_error(tmp_path, monkeypatch):
    failure = measure.Failure("gru-1-1-1-1", f"{OURS}/2", "gives wrong results")
    monkeypatch.setattr(scaling, "run_benchmark", lambda _: (run_with({}), [failure]))
    monkeypatch.setattr(sys, "argv", ["scaling.py", "--output", str(tmp_path)])
    with pytest.raises(SystemExit, match="1"):
        scaling.main()
