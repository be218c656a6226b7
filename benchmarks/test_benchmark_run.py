"""Tests of a run of the whole benchmark with tiny sizes: printed and written results."""

import itertools
import json
import re

import bench
import cases
import numpy as np
import pytest
import run
import sections
import targets
import tensorflow as tf
from checks import parity
from environment import pictures, processes
from peers import KERAS, ONNX_RUNTIME, OURS, PEERS, PYTORCH, RAW_OPS
from test_benchmark import INSTALLED, tasks_of

import tf_rnn_ops

pytestmark = pytest.mark.slow

ROUNDS = 3
QUICK_PEERS = [KERAS, PYTORCH, ONNX_RUNTIME, RAW_OPS]
QUICK_SECTIONS = [
    sections.MODELS,
    sections.MAIN,
    sections.MEMORY,
    sections.CALLS,
    sections.SECOND_ORDER,
    sections.SHARING,
]


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory):
    """The printed output of a quick run, and its output folder."""
    folder = tmp_path_factory.mktemp("benchmark") / "new"
    options = {
        "rounds": ROUNDS,
        "peers": ",".join(QUICK_PEERS),
        "sections": ",".join(QUICK_SECTIONS),
        "threads": 1,
        "output": folder,
    }
    arguments = [f"--{name}={value}" for name, value in options.items()]
    process = processes.run_python(bench.__file__, "--quick", *arguments)
    assert process.returncode == 0, process.stderr[-2000:]
    return process.stdout, folder


@pytest.fixture(scope="module")
def quick_results(quick_run):
    """The results.json of the quick run."""
    return json.loads((quick_run[1] / "results.json").read_text())


def quick_keys():
    """Yields (section, case, peer, task) of all timed tasks of a quick run, except matrix products."""
    timed = [each for each in sections.SECTIONS.values() if each.option in QUICK_SECTIONS]
    for section in timed:
        if section.name == sections.MEMORY:
            continue
        for case, peer in itertools.product(section.quick_cases, [OURS, *QUICK_PEERS]):
            if peer in INSTALLED and peer in section.peers:
                for task in tasks_of(peer, case):
                    if task in section.tasks:
                        yield section.name, case.name, peer, task


def key_of(result):
    return result["section"], result["case"], result["peer"], result["task"]


def is_limit(result):
    return result["section"] == sections.MAIN and result["case"].startswith("product")


def test_json_has_every_measurement_once(quick_results):
    timed = [key_of(result) for result in quick_results["measurements"] if not is_limit(result)]
    assert sorted(timed) == sorted(quick_keys())


def test_json_has_products_by_every_peer_that_has_them(quick_results):
    expected = {RAW_OPS, *(name for name in (PYTORCH, ONNX_RUNTIME) if name in INSTALLED)}
    products = [result for result in quick_results["measurements"] if is_limit(result)]
    assert {result["peer"] for result in products if "float32" in result["case"]} == expected
    assert {result["peer"] for result in products if "bfloat16" in result["case"]} == expected - {ONNX_RUNTIME}
    for dtype, limit in quick_results["limit_gflops"].items():
        fastest = [r["flops"] / r["seconds"]["median"] / 1e9 for r in products if dtype in r["case"]]
        assert limit == pytest.approx(max(fastest))


def test_json_has_medians_and_quartiles_of_the_samples(quick_results):
    for result in quick_results["measurements"]:
        seconds, gflops = result["seconds"], result["gflops"]
        assert is_limit(result) or len(seconds["samples"]) == ROUNDS
        assert min(seconds["samples"]) > 0
        names = ("lower_quartile", "median", "upper_quartile")
        quartiles = np.percentile(seconds["samples"], [25, 50, 75])
        np.testing.assert_allclose([seconds[name] for name in names], quartiles)
        # GFLOP/s and seconds are in opposite order.
        np.testing.assert_allclose([gflops[name] for name in names], result["flops"] / quartiles[::-1] / 1e9)


def test_json_has_every_wait_of_requests(quick_results):
    for result in quick_results["measurements"]:
        load = sections.SECTIONS[result["section"]].quick_load
        assert bool(result["waits"]) == bool(load.seconds)
        assert len(result["waits"]) >= load.clients * ROUNDS or not load.seconds
        assert min(result["waits"], default=1) > 0


def test_json_has_ratios_to_ours(quick_results):
    by_key = {key_of(result): result for result in quick_results["measurements"]}
    for (section, case, _, task), result in by_key.items():
        ours = by_key.get((section, case, OURS, task))
        expected = ours and pytest.approx(result["seconds"]["median"] / ours["seconds"]["median"])
        assert result["ratio"] == expected


def test_json_has_small_errors(quick_results):
    for result in quick_results["measurements"]:
        dtype = cases.parse_case(result["case"]).dtype
        # Others may accumulate in 16 bits.
        factor = 1 if result["peer"] == OURS else 5
        assert 0 <= result["error"] <= factor * parity.TOLERANCES[dtype]


def test_json_has_the_memory_of_training_steps(quick_results):
    section = sections.SECTIONS[sections.MEMORY]
    measured = [(each["case"], each["peer"]) for each in quick_results["memory"]]
    assert measured == [
        (case.name, peer) for case in section.quick_cases for peer in section.peers if peer in INSTALLED
    ]
    for each in quick_results["memory"]:
        assert 0 < each["baseline_bytes"] <= each["peak_bytes"]


def test_json_has_the_conditions(quick_results):
    versions = quick_results["versions"]
    assert versions[OURS]["tf_rnn_ops"] == tf_rnn_ops.__version__
    assert versions[OURS]["CPU"]
    assert tf_rnn_ops._library.active_instruction_set() in versions[OURS]["instruction set"]
    assert versions[KERAS]["TensorFlow"] == tf.__version__
    assert quick_results["threads"] == 1
    assert quick_results["rounds"] == ROUNDS
    assert [len(quick_results[f"load_{when}"]) for when in ("before", "after")] == [3, 3]


def test_json_round_trip(quick_results):
    again = run.to_json(run.from_json(quick_results))
    assert json.loads(json.dumps(again)) == quick_results


def test_printed_table_has_a_line_for_every_measurement(quick_run, quick_results):
    lines = [re.split(r" {2,}", line) for line in quick_run[0].splitlines()]
    for result in quick_results["measurements"]:
        if not is_limit(result):
            title = cases.parse_case(result["case"]).title
            wanted = [title, cases.TASKS[result["task"]], PEERS[result["peer"]].label]
            milliseconds = 1e3 * result["seconds"]["median"]
            medians = [float(cells[3]) for cells in lines if cells[:3] == wanted]
            assert any(median == pytest.approx(milliseconds, rel=0.06) for median in medians), wanted


def test_markdown_has_every_case_of_the_main_section(quick_run):
    text = (quick_run[1] / "results.md").read_text()
    for case in sections.SECTIONS[sections.MAIN].quick_cases:
        # A table for each task.
        assert len(re.findall(rf"^\| {re.escape(case.title)} \| ", text, re.MULTILINE)) >= len(case.tasks), case
    for target in itertools.chain(*targets.GROUPS):
        assert f"| {target.title} | {target.demand} | " in text
        assert target.title in quick_run[0]


def test_markdown_has_every_model(quick_run, quick_results):
    text = (quick_run[1] / "results.md").read_text()
    for name in (sections.MODELS, sections.KERAS_CALLS):
        section = sections.SECTIONS[name]
        for case, task in itertools.product(section.quick_cases, [cases.FUNCTION, cases.SAVED_MODEL, cases.FIT]):
            if task in section.tasks and task in case.tasks:
                assert f"| {case.title} | " in text


def test_markdown_has_every_penalty(quick_run, quick_results):
    text = (quick_run[1] / "results.md").read_text()
    (table,) = re.findall(r"^### .* with a gradient penalty, ms$([^#]*)", text, re.MULTILINE)
    rows = {cells[0]: cells for cells in (line.strip("| ").split(" | ") for line in table.splitlines())}
    for case in sections.SECTIONS[sections.SECOND_ORDER].quick_cases:
        found = [r for r in quick_results["measurements"] if (r["case"], r["peer"]) == (case.name, OURS)]
        medians = {each["task"]: each["seconds"]["median"] for each in found}
        cost = medians["penalty"] / medians["forward_backward"]
        assert float(rows[case.plain.title][3]) == pytest.approx(cost, abs=0.006)


def test_charts_are_drawn_if_matplotlib_is_installed(quick_run):
    printed, folder = quick_run
    if pictures.HAS_MATPLOTLIB:
        for name in ("results.png", "models.png"):
            pictures.assert_is_png(folder / name)
    else:
        assert not list(folder.glob("*.png"))
    assert ("skipping the charts" in printed) != pictures.HAS_MATPLOTLIB
