"""The benchmark program: that it compares like with like, and reports what it measured. No test looks at speed."""

import dataclasses
import importlib.util
import itertools
import json
import math
import pathlib
import re
import sys

import keras
import numpy as np
import parity
import pictures
import processes
import pytest
import tensorflow as tf

import tf_rnn_ops

# The program's modules, which import each other by their bare names.
sys.path.append(str(pathlib.Path(__file__).parent.parent / "benchmarks"))

import cases
import cudnn_rnn
import measure
import peers
import report

ROUNDS = 3
TASKS = ("forward", "forward_backward")
CELLS = ("lstm", "gru", "tanh")


def small_case(cell="lstm", dtype="float64"):
    # Sizes that are all different, so that none can stand for another.
    return cases.Case(cell, batch=3, time=4, input_size=5, units=6, dtype=dtype)


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory):
    """What a quick run printed, and the folder that it wrote to."""
    folder = tmp_path_factory.mktemp("benchmark") / "new"
    options = ["--quick", f"--repeats={ROUNDS}", f"--output={folder}"]
    process = processes.run_python(cudnn_rnn.__file__, *options)
    assert process.returncode == 0, process.stderr[-2000:]
    return process.stdout, folder


@pytest.fixture(scope="module")
def quick_results(quick_run):
    """The results.json of the quick run."""
    return json.loads((quick_run[1] / "results.json").read_text())


def quick_keys():
    """(case, peer, task) of all that a quick run measures."""
    names = [case.name for case in cases.QUICK_TABLE]
    return list(itertools.product(names, ("tf_rnn_ops", "keras"), TASKS))


def key_of(result):
    return result["case"]["name"], result["peer"], result["task"]


def test_json_has_every_measurement_once(quick_results):
    assert sorted(map(key_of, quick_results["results"])) == sorted(quick_keys())


def test_json_counts_operations(quick_results):
    gates = {"lstm": 4, "gru": 3, "tanh": 1}
    for result in quick_results["results"]:
        case = result["case"]
        products = case["batch"] * case["time"] * gates[case["cell"]] * case["units"]
        forward = 2 * products * (case["input_size"] + case["units"])
        assert result["flops"] == forward * {"forward": 1, "forward_backward": 3}[result["task"]]


def test_json_has_medians_and_quartiles_of_the_samples(quick_results):
    for result in quick_results["results"]:
        seconds, gflops = result["seconds"], result["gflops"]
        assert len(seconds["samples"]) == ROUNDS
        assert min(seconds["samples"]) > 0
        names = ("lower_quartile", "median", "upper_quartile")
        quartiles = np.percentile(seconds["samples"], [25, 50, 75])
        np.testing.assert_allclose([seconds[name] for name in names], quartiles)
        # The faster, the more operations a second.
        np.testing.assert_allclose([gflops[name] for name in names], result["flops"] / quartiles[::-1] / 1e9)


def test_json_has_ratios_to_keras(quick_results):
    by_key = {key_of(result): result for result in quick_results["results"]}
    for (case, _, task), result in by_key.items():
        keras_seconds = by_key[case, "keras", task]["seconds"]["median"]
        assert result["ratio_to_keras"] == pytest.approx(keras_seconds / result["seconds"]["median"])


def test_json_has_small_errors(quick_results):
    for result in quick_results["results"]:
        # Keras adds up in 16 bits, which costs it more than rounding the result would.
        factor = 5 if result["peer"] == "keras" else 1
        assert 0 < result["error"] <= factor * parity.TOLERANCES[result["case"]["dtype"]]


def test_json_says_what_it_was_measured_on(quick_results):
    versions = quick_results["versions"]
    assert versions["tf_rnn_ops"] == tf_rnn_ops.__version__
    assert versions["TensorFlow"] == tf.__version__
    assert keras.__version__ in versions["Keras"]
    assert versions["CPU"]
    assert tf_rnn_ops._library.active_instruction_set() in quick_results["instruction_sets"]
    assert quick_results["threads"]["cores"] >= 1
    assert quick_results["rounds"] == ROUNDS
    assert [len(quick_results["load_average"][when]) for when in ("before", "after")] == [3, 3]
    limit = quick_results["limit"]
    assert sorted(map(int, limit["gflops_by_size"])) == [1024, 1536, 2048]
    assert limit["gflops"] == max(limit["gflops_by_size"].values()) > 0


def test_printed_table_has_a_line_for_every_measurement(quick_run, quick_results):
    by_line = {}
    for line in quick_run[0].splitlines():
        cells = re.split(r" {2,}", line)
        by_line[tuple(cells[:3])] = cells[3:]
    labels = {"tf_rnn_ops": "tf_rnn_ops", "keras": "Keras"}
    tasks = {"forward": "forward", "forward_backward": "forward + backward"}
    for result in quick_results["results"]:
        title = cases.Case.parse(result["case"]["name"]).title
        median, _, _, ratio, error = by_line[title, tasks[result["task"]], labels[result["peer"]]]
        assert float(median) == pytest.approx(1e3 * result["seconds"]["median"], abs=0.006)
        assert float(ratio) == pytest.approx(result["ratio_to_keras"], abs=0.006)
        assert float(error) == pytest.approx(result["error"], rel=0.5)


def test_markdown_has_a_row_for_every_case(quick_run, quick_results):
    text = (quick_run[1] / "results.md").read_text()
    _, _, *rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    assert [row[0] for row in rows] == [case.title for case in cases.QUICK_TABLE]
    by_key = {key_of(result): result for result in quick_results["results"]}
    for case, (_, *speeds, ratios) in zip(cases.QUICK_TABLE, rows, strict=True):
        for peer, cell in zip(("tf_rnn_ops", "keras"), speeds, strict=True):
            expected = [f"{by_key[case.name, peer, task]['gflops']['median']:.0f}" for task in TASKS]
            assert cell.split(" / ") == expected
        expected = [f"{by_key[case.name, 'tf_rnn_ops', task]['ratio_to_keras']:.1f}" for task in TASKS]
        assert ratios.split(" / ") == expected


def test_picture_is_drawn_where_matplotlib_is_installed(quick_run):
    printed, folder = quick_run
    if pictures.HAS_MATPLOTLIB:
        pictures.assert_is_png(folder / "results.png")
    else:
        assert not (folder / "results.png").exists()
    assert ("no results.png" in printed) != pictures.HAS_MATPLOTLIB


def fake_run(peer_names=("tf_rnn_ops", "keras")):
    """A run of one case in which nothing was measured."""
    keys = itertools.product(peer_names, TASKS)
    measurements = [measure.Measurement(small_case(), *key, seconds=[1e-6, 2e-6], error=0.0) for key in keys]
    return report.Run(2, (0.0,) * 3, (0.0,) * 3, {1024: 100.0}, measurements)


def test_without_matplotlib_the_rest_is_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    cudnn_rnn.write(fake_run(), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results.json", "results.md"]
    assert "matplotlib is not installed" in capsys.readouterr().out


def test_without_keras_there_are_no_ratios():
    run = fake_run(["tf_rnn_ops", "keras_xla"])
    assert {result["ratio_to_keras"] for result in report.to_json(run)["results"]} == {None}
    assert "tf_rnn_ops | Keras XLA |\n" in report.to_markdown(run)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("name", ["keras", "keras_xla"])
def test_peers_compute_the_same(name, cell):
    case = small_case(cell)
    problem = cases.random_problem(case)
    ours, peer = peers.TfRnnOps(case, problem), peers.PEERS[name](case, problem)
    shapes = {each.name: getattr(problem, each.name).shape for each in dataclasses.fields(problem)}
    expected_shapes = {
        "forward": {"output": shapes["output_gradient"]},
        "forward_backward": {key: shape for key, shape in shapes.items() if key != "output_gradient"},
    }
    for task in TASKS:
        actual, expected = ours.results(task), peer.results(task)
        assert {key: array.shape for key, array in actual.items()} == expected_shapes[task]
        assert actual.keys() == expected.keys()
        for key in expected:
            assert parity.difference(actual[key], expected[key]) <= parity.TOLERANCES["float64"], key


@pytest.mark.parametrize("cell", CELLS)
def test_gradients_are_those_of_the_forward_task(cell):
    """A step along a gradient changes the sum of output ∘ output_gradient by what the gradient says."""
    case = small_case(cell)
    problem = cases.random_problem(case)
    gradients = peers.TfRnnOps(case, problem).results("forward_backward")
    step = 1e-6

    def loss(name, sign):
        moved = getattr(problem, name) + sign * step * gradients[name]
        output = peers.TfRnnOps(case, dataclasses.replace(problem, **{name: moved})).results("forward")["output"]
        return np.sum(output * problem.output_gradient)

    for name, gradient in gradients.items():
        difference = (loss(name, 1) - loss(name, -1)) / (2 * step)
        assert difference == pytest.approx(np.sum(gradient**2), rel=1e-6), name


@pytest.mark.parametrize("task", TASKS)
def test_a_peer_of_wrong_results_is_refused(task, monkeypatch):
    class Wrong(peers.Keras):
        def results(self, wanted):
            arrays = super().results(wanted)
            name = list(arrays)[-1]
            return {**arrays, name: arrays[name] * 1.01} if wanted == task else arrays

    monkeypatch.setitem(peers.PEERS, "keras", Wrong)
    with pytest.raises(ValueError, match=f"^keras computes a wrong {re.escape(cases.TASKS[task])} of lstm-3-4-5-6: "):
        measure.measure_case(small_case(dtype="float32"), ["tf_rnn_ops", "keras"], rounds=1)


def test_a_peer_for_inference_alone_has_no_other_task(monkeypatch, tmp_path, capsys):
    class ForwardOnly(peers.Keras):
        label = "Forward only"
        tasks = ("forward",)

    monkeypatch.setitem(peers.PEERS, "forward_only", ForwardOnly)
    monkeypatch.setattr(measure, "SAMPLE_SECONDS", 0.0)
    run = cudnn_rnn.run_benchmark([small_case()], ["keras", "forward_only"], rounds=1)
    printed = [line for line in capsys.readouterr().out.splitlines() if "Forward only" in line]
    assert len(printed) == 1
    (row,) = [line for line in report.to_markdown(run).splitlines() if line.startswith("| LSTM")]
    assert re.search(r"\| \d+ / *\|", row)
    if pictures.HAS_MATPLOTLIB:
        cudnn_rnn.write(run, tmp_path)
        pictures.assert_is_png(tmp_path / "results.png")


def test_error_is_relative_to_the_largest_magnitude():
    expected = {"a": np.array([1.0, -4.0]), "b": np.array([100.0, 0.0])}
    assert measure.largest_error(expected, expected) == 0
    actual = {"a": np.array([1.5, -4.0]), "b": np.array([101.0, 0.5])}
    assert measure.largest_error(actual, expected) == 0.125
    for wrong in (math.nan, math.inf):
        assert measure.largest_error({**expected, "a": np.array([1.0, wrong])}, expected) == math.inf


def test_results_of_other_names_or_shapes_are_refused():
    expected = {"a": np.ones([2, 1])}
    with pytest.raises(ValueError, match="results must be a, but are b"):
        measure.largest_error({"b": np.ones([2, 1])}, expected)
    with pytest.raises(ValueError, match=r"a must have shape \(2, 1\), but has \(1, 2\)"):
        measure.largest_error({"a": np.ones([1, 2])}, expected)


class Clock:
    """Stands for `time.perf_counter`, and for functions that take a known time."""

    def __init__(self):
        self.now = 0.0
        self.calls = []

    def function(self, key, seconds):
        def call():
            self.calls.append(key)
            self.now += next(seconds)

        return call


def test_functions_take_turns(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(measure.time, "perf_counter", lambda: clock.now)
    names, rounds = ["a", "b", "c"], 8
    seconds = measure.time_in_turns({name: clock.function(name, itertools.repeat(1.0)) for name in names}, rounds)
    assert seconds == {name: [1.0] * rounds for name in names}
    turns = clock.calls[-rounds * len(names) :]
    orders = [tuple(turns[start : start + len(names)]) for start in range(0, len(turns), len(names))]
    assert all(sorted(order) == names for order in orders)
    assert len(set(orders)) > 1


def test_short_calls_are_timed_many_at_once_after_a_warm_up(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(measure.time, "perf_counter", lambda: clock.now)
    # The first call, which compiles, takes long; those after it a quarter of a sample, and 2 times that in turns.
    quarter = measure.SAMPLE_SECONDS / 4
    taken = itertools.chain([100.0], [quarter] * (measure.WARM_UP_CALLS - 1), itertools.repeat(2 * quarter))
    seconds = measure.time_in_turns({"a": clock.function("a", taken)}, rounds=3)
    assert len(clock.calls) == measure.WARM_UP_CALLS + 3 * 4
    assert seconds["a"] == pytest.approx([2 * quarter] * 3)


def test_names_of_cases_are_read_as_they_are_written():
    for case in [*cases.TABLE, *cases.QUICK_TABLE]:
        assert cases.Case.parse(case.name) == case
    assert cases.Case.parse("gru-1-20-3-4-bfloat16") == cases.Case("gru", 1, 20, 3, 4, "bfloat16")
    assert cases.Case.parse("tanh-1-20-3-4").dtype == "float32"


@pytest.mark.parametrize(
    "name", ["", "lstm", "lstm-1-2-3", "lstm-1-2-3-4-5", "lstm-1-2-3-0", "rnn-1-2-3-4", "lstm-1-2-3-4-int8"]
)
def test_other_names_of_cases_are_refused(name):
    with pytest.raises(ValueError, match="a case is named CELL-BATCH-TIME-INPUT-UNITS"):
        cases.Case.parse(name)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--cases=lstm-1-2-3-4,lstm", "'lstm' is not"),
        ("--peers=keras,nobody", "'nobody' is none of keras, keras_xla"),
        ("--peers=tf_rnn_ops", "'tf_rnn_ops' is none of"),
        ("--repeats=0", "'0' is not a positive integer"),
        ("--repeats=some", "'some' is not a positive integer"),
    ],
)
def test_bad_options_are_refused(option, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["cudnn_rnn.py", option])
    with pytest.raises(SystemExit) as exit_info:
        cudnn_rnn.parse_arguments()
    assert exit_info.value.code == 2
    assert message in capsys.readouterr().err


def test_options_choose_what_is_measured(monkeypatch):
    def settings(*options):
        monkeypatch.setattr(sys, "argv", ["cudnn_rnn.py", *options])
        return cudnn_rnn.parse_arguments()

    default = settings()
    assert tuple(default.cases) == cases.TABLE
    assert default.peers == ["keras"]
    assert settings("--quick").repeats < default.repeats
    chosen = settings("--quick", "--cases=gru-1-2-3-4,tanh-1-2-3-4", "--peers=keras_xla,keras", "--repeats=7")
    assert [case.name for case in chosen.cases] == ["gru-1-2-3-4", "tanh-1-2-3-4"]
    assert chosen.peers == ["keras_xla", "keras"]
    assert chosen.repeats == 7
