"""tools/gpu_check.py on the fakes: reports of errors in the engine, in cuDNN and in its own processes.

`make gpu-rehearsal` runs the checks without errors.
"""

import collections
import ctypes
import gc
import itertools
import os
import pathlib
import re
import stat
import subprocess
import sys
import types
import weakref

import cudnn_rnn_reference as reference
import golden_cases
import numpy as np
import parity
import pytest
import tensorflow as tf

pytest.importorskip("torch")
import torch
from gpu_checks import (
    engine,
    families,
    memcheck,
    networks,
    results,
    second_order,
    summary,
    supervisor,
    timing,
    torch_layers,
)
from gpu_checks import publish as publishing
from gpu_checks.families import FAMILIES, Family
from gpu_checks.outcome import Outcome
from gpu_checks.philox import RandomStream, dropout_masks, random_words
from gpu_checks.results import CaseResult, FamilyResult, Report

REPOSITORY = pathlib.Path(__file__).parent.parent
LIBRARIES = REPOSITORY / "build/gpu-libraries"
# Time limit of a process, in seconds.
FOREVER = 600


# ---------------------------------------------------------------- the engine's interface


@pytest.fixture(scope="module")
def header():
    """The text of cc/gpu/c_api.h, without comments."""
    return re.sub(r"/\*.*?\*/", "", (REPOSITORY / "cc/gpu/c_api.h").read_text(), flags=re.DOTALL)


def ctypes_of(declaration):
    """Returns (name, ctypes type) of each variable that a C declaration declares."""
    scalars = {
        "int": ctypes.c_int,
        "int32_t": ctypes.c_int32,
        "int64_t": ctypes.c_int64,
        "uint64_t": ctypes.c_uint64,
        "size_t": ctypes.c_size_t,
        "float": ctypes.c_float,
        "struct TfRnnOpsGpu_RandomStream": engine.RandomStreamStruct,
    }
    if "(*" in declaration:
        return [(re.search(r"\(\*(\w+)\)", declaration)[1], engine.ALLOCATE_SCRATCH)]
    type_name, names = re.fullmatch(r"(?:const )?((?:struct )?\w+)\s*(.+)", declaration, re.DOTALL).groups()
    return [
        (
            name.strip().lstrip("* "),
            (ctypes.POINTER(ctypes.c_int32) if type_name == "int32_t" else ctypes.c_void_p)
            if "*" in name
            else scalars[type_name],
        )
        for name in names.split(",")
    ]


STRUCTS = {name: value for name, value in vars(engine).items() if name.endswith("Struct")}


def test_structures_equal_those_of_the_header(header):
    found = dict(re.findall(r"struct TfRnnOpsGpu_(\w+) \{(.*?)\};", header, re.DOTALL))
    assert {f"{name}Struct" for name in found} == set(STRUCTS)
    for name, body in found.items():
        declarations = [each.strip() for each in body.split(";") if each.strip()]
        expected = [field for declaration in declarations for field in ctypes_of(declaration)]
        assert list(STRUCTS[f"{name}Struct"]._fields_) == expected, name


def test_signatures_equal_those_of_the_header(header):
    found = dict(re.findall(r"\bint TfRnnOpsGpu_(\w+)\(([^)]*)\);", header))
    assert set(found) == set(engine.SIGNATURES)
    for name, arguments in found.items():
        expected = [argument_type(each.strip()) for each in arguments.split(",")]
        assert engine.SIGNATURES[name] == expected, name


def argument_type(argument):
    """Returns the ctypes type of an argument of one of the engine's functions."""
    struct = re.search(r"struct TfRnnOpsGpu_(\w+)\*", argument)
    if struct:
        return ctypes.POINTER(STRUCTS[f"{struct[1]}Struct"])
    pointers = {
        "TfRnnOpsGpu_Network**": ctypes.POINTER(ctypes.c_void_p),
        "TfRnnOpsGpu_Network*": ctypes.c_void_p,
        "char**": ctypes.POINTER(ctypes.c_char_p),
        "int64_t*": ctypes.POINTER(ctypes.c_int64),
        "size_t*": ctypes.POINTER(ctypes.c_size_t),
        "int": ctypes.c_int,
    }
    return pointers[argument.removeprefix("const ").rsplit(" ", 1)[0]]


def test_constants_equal_those_of_the_header(header):
    found = {name: int(value) for name, value in re.findall(r"TF_RNN_OPS_GPU_(\w+) = (\d+)", header)}
    types = {"float16": "HALF", "bfloat16": "BFLOAT16", "float32": "FLOAT", "float64": "DOUBLE"}
    expected = {code.name: code.value for code in engine.Code}
    expected |= {types[name]: value for name, value in engine.TYPES.items()}
    expected |= {name.upper(): value for name, value in engine.MODES.items()}
    assert found == expected


def test_scratch_memory_is_freed_with_its_call():
    """Immediately: waiting for the garbage collector would fill the memory of a GPU."""
    tensors = []

    class Device:
        def stream(self):
            return None

        def empty(self, shape, dtype):
            tensor = torch.empty(shape, dtype=getattr(torch, dtype))
            tensors.append(weakref.ref(tensor))
            return tensor

    gc.disable()
    try:
        call = engine.Scratch(Device())
        addresses = [call.struct.allocate_scratch(None, num_bytes) for num_bytes in (256, 512)]
        assert [tensor().data_ptr() for tensor in tensors] == addresses
        del call
        assert [tensor() for tensor in tensors] == [None, None]
    finally:
        gc.enable()


# ---------------------------------------------------------------- dropout


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    # From Random123 by Salmon et al., kat_vectors, philox4x32 with 10 rounds. The first word is the lowest.
    [
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_random_words_equal_the_known_answers(counter, key, words):
    def joined(numbers):
        return sum(number << 32 * i for i, number in enumerate(numbers))

    assert random_words(RandomStream(joined(key), joined(counter)), 0, 4).tolist() == words


@pytest.mark.parametrize("low", [0, 5, 2**64 - 3])
def test_random_words_equal_tensorflow(low):
    key, high, size = 0x0123456789ABCDEF, 0xFEDCBA9876543210, 101
    expected = tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=[size],
        key=tf.constant([key], tf.uint64),
        counter=tf.constant([low, high], tf.uint64),
        alg=1,  # Philox
        dtype=tf.uint32,
    ).numpy()
    stream = RandomStream(key, (high << 64) + low)
    np.testing.assert_array_equal(random_words(stream, 0, size), expected)
    for first in (1, 4, 7):
        np.testing.assert_array_equal(random_words(stream, first, 20), expected[first : first + 20])


def test_masks_of_layers_are_consecutive_in_the_stream():
    config = reference.Config(num_layers=3, direction="bidirectional", time=3, batch=5, num_units=7, dropout=0.25)
    size = 3 * 5 * 2 * 7
    words = random_words(RandomStream(9, 2), 0, 2 * size + 4)
    first, second = dropout_masks(config, RandomStream(9, 2))
    of_second = (size + 3) // 4 * 4  # each layer begins with a new counter value
    np.testing.assert_array_equal(first.reshape(-1) > 0, words[:size] >= 2**30)
    np.testing.assert_array_equal(second.reshape(-1) > 0, words[of_second : of_second + size] >= 2**30)
    assert set(np.unique(first)) == {0, 1 / 0.75}


def test_everything_can_be_dropped():
    config = reference.Config(num_layers=2, dropout=1.0)
    (mask,) = dropout_masks(config, RandomStream(1, 1))
    assert not mask.any()


# ---------------------------------------------------------------- cases


def test_only_padding_is_nan():
    for layout in golden_cases.LAYOUTS:
        case = networks.make_case("lstm", "bfloat16", "with_0", layout)
        given = {**networks.make_given(case), **second_order.make_directions(case)}
        poisoned = networks.with_nan_padding(case, given)
        assert set(poisoned) == set(given) - {"sequence_lengths"}
        for name, array in poisoned.items():
            before, after = (golden_cases.to_float64(each, case.dtype) for each in (given[name], array))
            is_nan = np.isnan(after)
            np.testing.assert_array_equal(after[~is_nan], before[~is_nan])
            if name in ("input", "output_backprop", "dot_input"):
                past_end = np.arange(case.config.time)[:, np.newaxis] >= case.config.lengths
                by_step = reference.major(case.config, is_nan)
                np.testing.assert_array_equal(by_step.all(axis=-1), past_end)
                np.testing.assert_array_equal(by_step.any(axis=-1), past_end)
            else:
                assert not is_nan.any()


def test_only_bfloat16_is_compared_with_kernels_other_than_cudnn():
    for dtype in engine.TYPES:
        case = networks.make_case("lstm", dtype, "no_lengths", golden_cases.SEQUENCE_MAJOR)
        assert torch_layers.runs_cudnn(case, "cuda") == (dtype != "bfloat16")
        assert not torch_layers.runs_cudnn(case, "cpu")


@pytest.mark.parametrize(
    ("dtype", "options", "distance"),
    [
        ("float32", {}, 1e-5),
        ("float32", {"precision": networks.TF32}, 2.0**-8),
        ("float16", {}, 2.0**-8),
        ("bfloat16", {"num_units": 128, "time": 20, "batch": 32}, 0.5),
        ("bfloat16", {"stream": RandomStream(3, 5), "dropout": 0.5}, 2.0**-5),
    ],
)
def test_relu_inputs_are_not_near_0(dtype, options, distance):
    for lengths, layout in itertools.product(networks.LENGTHS, golden_cases.LAYOUTS):
        case = networks.make_case(
            "rnn_relu", dtype, lengths, layout, num_layers=2, direction="bidirectional", **options
        )
        masks = dropout_masks(case.config, options["stream"]) if "stream" in options else None
        given = golden_cases.all_to_float64(networks.floating(networks.make_given(case)), case.dtype)
        inputs = {name: given[name] for name in ("input", "input_h", "params")}
        run = reference.forward(case.config, **inputs, input_c=np.zeros([]), masks=masks)
        assert reference.nearest_to_the_kink(run) > distance


def test_every_family_has_a_function():
    for family in FAMILIES.values():
        module, name = family.function.split(":")
        assert callable(getattr(__import__(module, fromlist=[name]), name))
    assert families.FAMILIES[results.ENVIRONMENT] == next(iter(FAMILIES.values())), "the environment comes first"


# ---------------------------------------------------------------- results


def test_the_latest_result_of_a_case_counts(tmp_path):
    path = tmp_path / results.RESULTS
    results.add_case(path, "lstm", CaseResult("a", results.STARTED))
    results.add_case(path, "lstm", CaseResult("a", results.PASSED, 1.5, {"float64": 1e-7}))
    results.add_case(path, "lstm", CaseResult("b", results.STARTED))
    report = results.read(path)
    assert not report.passed, "b did not end"
    results.add_case(path, "lstm", CaseResult("b", results.SKIPPED, skipped="no need"))
    assert not results.read(path).passed, "the family did not end"
    results.add_end(path, "lstm", results.ENDED, 2.0)
    report = results.read(path)
    assert report.passed
    assert report.families == {
        "lstm": FamilyResult(
            "lstm",
            results.ENDED,
            2.0,
            {
                "a": CaseResult("a", results.PASSED, 1.5, {"float64": 1e-7}),
                "b": CaseResult("b", results.SKIPPED, skipped="no need"),
            },
        )
    }


def test_no_results_are_a_failure(tmp_path):
    assert not results.read(tmp_path / "missing.jsonl").passed
    path = tmp_path / results.RESULTS
    results.add_end(path, "lstm", results.ENDED, 0.0)
    assert not results.read(path).passed


@pytest.mark.parametrize("line", ["{", "[]", "{}", '{"family": "lstm"}', '{"family": "lstm", "case": {"x": 1}}'])
def test_invalid_lines_are_rejected(line, tmp_path):
    path = tmp_path / results.RESULTS
    results.add_case(path, "lstm", CaseResult("a", results.STARTED))
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(ValueError, match=r"line 2 is not a result of tools/gpu_check.py"):
        results.read(path)


def test_a_condensed_file_has_the_same_results(tmp_path):
    path = tmp_path / results.RESULTS
    results.add_case(path, "lstm", CaseResult("a", results.STARTED))
    results.add_case(path, "lstm", CaseResult("a", results.FAILED, problems=["wrong"]))
    results.add_end(path, "lstm", "died of SIGSEGV", 2.0)
    report = results.read(path)
    condensed = tmp_path / "condensed.jsonl"
    results.write_condensed(report, condensed)
    assert results.read(condensed) == report
    assert len(condensed.read_text().splitlines()) == 2


# ---------------------------------------------------------------- the summary and publishing


def made_up_report(library="cuDNN"):
    """Returns a report with everything that a summary shows."""
    environment = {"device": "NVIDIA H100", "commit": "abc123", "library": library}
    timed = {f"{by}{task} ms": ms for by, ms in (("", 1.0), ("torch.nn ", 2.0)) for task in summary.TASKS}
    timed["algorithm"] = "STANDARD"
    copied = {"in place ms": 0.25, "copy ms": 0.75, "gradient ms": 1.5, "reserve_space MB": 500.0}
    cases = {
        results.ENVIRONMENT: [CaseResult(results.ENVIRONMENT, results.PASSED, measured=environment)],
        "lstm": [
            CaseResult("a-bfloat16", results.PASSED, measured={"float64": 7e-3, "torch.nn": 6e-3}),
            CaseResult("b-float16", results.PASSED, measured={"float64": 5e-4}),
            CaseResult("c-float16", results.PASSED, measured={"float64": 4e-4}),
        ],
        "timing": [
            CaseResult("net-float32", results.PASSED, measured=timed),
            CaseResult("net-bfloat16", results.PASSED, measured={**timed, summary.PEER_RUNS: torch_layers.NOT_CUDNN}),
            CaseResult("backward-net-float32", results.PASSED, measured=copied),
        ],
    }
    return Report(
        {name: FamilyResult(name, results.ENDED, 1.0, {c.name: c for c in each}) for name, each in cases.items()}
    )


def row_of(text, first):
    (row,) = [line for line in text.splitlines() if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in row.strip("|").split("|")]


def test_the_summary_shows_all_measurements():
    report = made_up_report()
    text = summary.to_markdown(report)
    assert text.startswith("All checks passed on NVIDIA H100, commit abc123.\n")
    differences = text.split("largest difference")[1]
    assert row_of(differences, "lstm") == ["lstm", "", "", "5e-04", "7e-03", "", "", "", "6e-03"]
    assert row_of(text, "net-float32") == ["net-float32", "STANDARD", "1", "2", "1", "2", "0.25", "0.75", "1.5"]
    assert row_of(text, "net-bfloat16 (PyTorch: not cuDNN)")[1:4] == ["STANDARD", "1", "2"]
    assert row_of(text, "forward + backward") == ["forward + backward", "2.00", "2.00 to 2.00", "2"]
    assert "NVIDIA H100" in summary.to_text(report)


def test_the_summary_names_failed_cases():
    report = made_up_report()
    failed = [CaseResult(f"case{i}", results.FAILED, problems=["is wrong"]) for i in range(9)]
    family = FamilyResult("gru", "died of SIGSEGV", 3.0, {case.name: case for case in failed})
    report.families["gru"] = family
    for text in (summary.to_text(report), summary.to_markdown(report)):
        assert text.startswith("Not all checks passed on NVIDIA H100, commit abc123: gru.")
        assert "died of SIGSEGV" in text
    assert summary.failures(family) == ["case0: is wrong [and 8 similar]"]


def test_the_summary_names_a_failure_of_each_type_first():
    def failed(name, *problems):
        return CaseResult(name, results.FAILED, problems=list(problems))

    kinds = summary.NAMED + 3
    cases = [
        *(failed(f"{i}-float16", f"result{'x' * i} differs by {i}.0e-05, tolerance 3") for i in range(kinds)),
        failed("again-float16", "result differs by 7.5e-05, tolerance 3"),
        failed("other-float32", "result differs by 1.0e-05, tolerance 3", "more"),
        CaseResult("hangs-bfloat16", results.STARTED),
    ]
    lines = summary.failures(FamilyResult("gru", cases={case.name: case for case in cases}))
    assert lines[:4] == [
        "0-float16: result differs by 0.0e-05, tolerance 3 [and 1 similar]",
        "other-float32: result differs by 1.0e-05, tolerance 3; more",
        "hangs-bfloat16: did not end",
        "1-float16: resultx differs by 1.0e-05, tolerance 3",
    ]
    assert lines[summary.NAMED :] == ["... and 5 more of 5 other kinds"]


def test_a_possible_rounding_error_is_near_and_fails():
    allowed = parity.TOLERANCES["float32"]
    cases = {}
    for name, factor in {"right": 0.5, "near": 2, "wrong": 4}.items():
        outcome = Outcome()
        outcome.compare("float64", {"output": np.array([1 + factor * allowed])}, {"output": np.ones(1)}, "float32")
        status = results.FAILED if outcome.problems else results.PASSED
        cases[name] = CaseResult(name, status, problems=outcome.problems)
    assert {name: (case.status, case.is_near) for name, case in cases.items()} == {
        "right": (results.PASSED, False),
        "near": (results.FAILED, True),
        "wrong": (results.FAILED, False),
    }
    cases["both"] = CaseResult("both", results.FAILED, problems=cases["near"].problems + cases["wrong"].problems)
    report = Report({"lstm": FamilyResult("lstm", results.ENDED, 1.0, cases)})
    assert not cases["both"].is_near
    assert row_of(summary.to_markdown(report), "lstm")[1:4] == ["1", "3", "1"]


@pytest.fixture
def repository(tmp_path):
    """A repository to publish into, with the files that `publish` reads."""
    (tmp_path / "docs/design").mkdir(parents=True)
    (tmp_path / "tests/golden").mkdir(parents=True)
    page = tmp_path / "docs/design/gpu.md"
    page.write_text(f"# Before\n\n{publishing.BEGIN}\nold\n{publishing.END}\n\n# After\n")
    return tmp_path


def recording(library):
    """Returns a recording of the reference, labeled with the name of a library."""
    case = golden_cases.CASES["gru-1x1-float32"]
    given = golden_cases.make_given(case, reference.params_size(case.config))
    of_reference = golden_cases.reference_results(case, given)
    rounded = {name: golden_cases.from_float64(array, case.dtype) for name, array in of_reference.items()}
    arrays = {**given, **golden_cases.documented_regions(case.config)}
    return golden_cases.Recording(case, arrays, dict.fromkeys(golden_cases.VARIANTS, rounded), {}, {"library": library})


def run_folder(tmp_path, library="cuDNN", archive_of="cuDNN"):
    """Returns a folder with the files of a made-up run."""
    folder = tmp_path / "run"
    folder.mkdir()
    results.write_condensed(made_up_report(library), folder / results.RESULTS)
    if archive_of:
        golden_cases.save(folder / results.ARCHIVE, recording(archive_of))
    return folder


def test_a_run_is_published(repository, tmp_path):
    folder = run_folder(tmp_path)
    published = publishing.publish(folder, repository)
    page, golden = repository / "docs/design/gpu.md", repository / "tests/golden"
    assert set(published) == {page, golden / results.RESULTS, golden / results.ARCHIVE}
    text = page.read_text()
    assert text.startswith(f"# Before\n\n{publishing.BEGIN}\n\nAll checks passed on NVIDIA H100")
    assert text.endswith(f"\n{publishing.END}\n\n# After\n")
    assert "old" not in text
    assert results.read(golden / results.RESULTS) == made_up_report()
    assert golden_cases.names(golden / results.ARCHIVE) == ["gru-1x1-float32"]
    publishing.publish(folder, repository)
    assert page.read_text() == text
    assert golden_cases.ARCHIVE.name == results.ARCHIVE, "the tests read what is published"


def test_a_run_without_golden_data_is_published(repository, tmp_path):
    publishing.publish(run_folder(tmp_path, archive_of=None), repository)
    assert not (repository / "tests/golden" / results.ARCHIVE).exists()


@pytest.mark.parametrize(
    ("library", "archive_of", "message"),
    [
        ("fake cuDNN", "cuDNN", "has results of fake cuDNN, expected cuDNN"),
        ("cuDNN", "fake cuDNN", "has a recording of fake cuDNN, expected cuDNN"),
    ],
)
def test_results_of_the_fakes_are_not_published(library, archive_of, message, repository, tmp_path):
    before = (repository / "docs/design/gpu.md").read_text()
    with pytest.raises(ValueError, match=message):
        publishing.publish(run_folder(tmp_path, library, archive_of), repository)
    assert (repository / "docs/design/gpu.md").read_text() == before
    assert not list((repository / "tests/golden").iterdir())


def test_a_page_without_marks_is_rejected(repository, tmp_path):
    page = repository / "docs/design/gpu.md"
    page.write_text(page.read_text().replace(publishing.END, ""))
    with pytest.raises(ValueError, match="must contain"):
        publishing.publish(run_folder(tmp_path), repository)


def test_the_page_has_marks():
    text = (REPOSITORY / "docs/design/gpu.md").read_text()
    assert text.count(publishing.BEGIN) == text.count(publishing.END) == 1


# ---------------------------------------------------------------- errors in a run


@pytest.fixture
def options():
    """The options with the paths of the libraries."""
    if not (LIBRARIES / "ready").exists():
        pytest.skip("the libraries are not built; run make gpu-rehearsal")
    return ["--engine", str(LIBRARIES / engine.LIBRARY), "--fakes", str(LIBRARIES / "fakes"), "--quick"]


@pytest.fixture
def run(options, tmp_path):
    """Runs misbehaving families by name, each with a time limit, and returns the report."""

    def run_families(seconds=FOREVER, **limits):
        chosen = {name: Family(f"gpu_check_misbehaving:{name}", limit) for name, limit in limits.items()}
        environment = {
            "LD_LIBRARY_PATH": str(LIBRARIES / "fakes"),
            "PYTHONPATH": f"{REPOSITORY / 'tests'}",
        }
        return supervisor.run(chosen, tmp_path / "out", options, environment, seconds)

    return run_families


def statuses(family):
    return {case.name: case.status for case in family.cases.values()}


AROUND = {"before": results.PASSED, "after": results.PASSED}
# By family: its time limit, its end, the statuses of its cases, and the message of a failed case.
MISBEHAVIORS = {
    "crashes": (FOREVER, "ended", {**AROUND, "crashes": results.FAILED}, "the process died of SIGABRT"),
    "raises": (FOREVER, "ended", {**AROUND, "raises": results.FAILED}, "KeyError: 'no such thing'"),
    "loses_the_device": (FOREVER, "ended", {**AROUND, "loses": results.FAILED}, "the device is lost: an illegal"),
    "misuses_the_fakes": (FOREVER, "ended", {**AROUND, "misuses": results.FAILED}, ""),
    "hangs": (
        30,
        "ran out of time",
        {"before": results.PASSED, "hangs": results.FAILED},
        "the process ran out of time",
    ),
    "always_crashes": (
        FOREVER,
        "died of SIGABRT",
        {str(number): results.FAILED for number in range(1 + supervisor.MAX_RESTARTS)},
        "the process died of SIGABRT",
    ),
    "stops_listing": (FOREVER, "exited with status 1", {"before": results.PASSED}, None),
    "exits_badly": (FOREVER, "exited with status 7", {"before": results.PASSED}, None),
    "says_a_name_twice": (FOREVER, "exited with status 1", {"twice": results.PASSED}, None),
}


def test_a_family_that_fails_is_reported_and_the_others_run(run, tmp_path):
    report = run(**{name: limit for name, (limit, *_) in MISBEHAVIORS.items()}, passes=FOREVER)
    text = (tmp_path / "out" / results.SUMMARY).read_text()
    for name, (_, end, expected, message) in MISBEHAVIORS.items():
        family = report.families[name]
        assert not family.passed, name
        assert family.end == end, name
        assert statuses(family) == expected
        failed = family.with_status(results.FAILED)
        for case in failed:
            assert message in "".join(case.problems)
        for case in failed[:1]:  # the others, if any, are similar
            assert f"{name}/{case.name}: {case.problems[0]}"[:100] in text
    assert report.families["passes"].passed
    assert not report.passed


def test_a_case_that_takes_too_long_is_ended(run, monkeypatch):
    monkeypatch.setenv("GPU_CHECK_CASE_SECONDS", "3")
    family = run(hangs=FOREVER).families["hangs"]
    assert family.end == results.ENDED
    assert statuses(family) == {**AROUND, "hangs": results.FAILED}
    assert family.cases["hangs"].problems == ["it took too long: see its stack in the log"]


def test_no_family_starts_after_the_time_limit(run):
    report = run(seconds=0, passes=FOREVER)
    assert report.families["passes"].end == "no time was left"
    assert not report.passed


def test_time_is_reserved_for_late_families(monkeypatch, tmp_path):
    deadlines = {}

    def note(name, family, path, options, environment, deadline):
        deadlines[name] = deadline
        results.add_end(path, name, results.ENDED, 0.0)

    monkeypatch.setattr(supervisor, "_run_family", note)
    supervisor.run(FAMILIES, tmp_path, [], {}, FOREVER)
    end = deadlines["memcheck_second_order"]
    before_end = {name: end - deadline for name, deadline in deadlines.items()}
    names = list(FAMILIES)
    of_timing, of_memcheck = names.index("timing"), names.index("memcheck_gru_cell")
    expected = [135] * of_timing + [45] * (of_memcheck - of_timing) + [0] * (len(names) - of_memcheck)
    assert before_end == pytest.approx(dict(zip(names, expected, strict=True)))
    assert FAMILIES["lstm"].seconds >= 90


def test_one_wrong_value_is_detected_in_each_result(run):
    report = run(wrong_results=FOREVER)
    cases = report.families["wrong_results"].cases
    assert list(cases) == [*golden_cases.OUTPUTS, *golden_cases.BACKPROPS, *engine.GRADS]
    for name, case in cases.items():
        assert case.status == results.FAILED, name
        problems = "; ".join(case.problems)
        assert f"{name} differs from float64 by" in problems
        assert (f"{name} differs from torch.nn by" in problems) == (name not in engine.GRADS)
        assert "EngineError" not in problems


def test_different_bits_are_detected(run):
    report = run(unstable_results=FOREVER)
    calls = {
        "unstable": ("forward again", "backward again", "backward that owns the reserve space"),
        "second_order": ("again",),
        "null_results": ("of input_grad", "of input_h_grad, output_backprop_grad, output_h_backprop_grad, params_grad"),
    }
    cases = report.families["unstable_results"].cases
    assert set(cases) == set(calls)
    for name, case in cases.items():
        problems = "; ".join(case.problems)
        for call in calls[name]:
            assert f"{call}: " in problems
        assert "differs from" not in problems


def test_the_engine_obeys_forced_options(run):
    """Otherwise the family `choices` compares an algorithm with itself."""
    report = run(forced_choices=FOREVER)
    measured = report.families["forced_choices"].cases["options"].measured
    sizes = {name: int(text.split()[0]) for name, text in measured.items()}
    algorithms = {name: text.split()[1] for name, text in measured.items()}
    # In float32, only with TF32: it approximates tanh.
    for dtype, automatic in (("float32", "standard"), ("bfloat16", "persist_static_small_h")):
        assert algorithms[f"{dtype} nothing"] == automatic
        assert algorithms[f"{dtype} standard_algorithm_only"] == "standard"
    assert sizes["bfloat16 widen_bfloat16"] > sizes["bfloat16 nothing"]
    assert sizes["float32 widen_bfloat16"] == sizes["float32 nothing"]


def test_a_rejected_algorithm_fails_with_the_result_of_the_standard_one(run):
    cases = run(rejects_algorithms=FOREVER).families["rejects_algorithms"].cases
    rejection = "RunForward: UNIMPLEMENTED: no such algorithm"
    timed = "lstm-1x1-2x3x8x8-float32"
    assert list(cases) == ["right", "wrong", "rejected", timed]
    for case in cases.values():
        assert case.status == results.FAILED
        assert case.problems[0] == rejection
    for name in ("right", timed):
        assert cases[name].problems == [rejection, "the standard algorithm passes"]
        assert cases[name].measured["algorithm"] == "standard"
    assert cases[timed].measured["forward ms"] > 0
    assert any("standard algorithm: output differs from float64" in each for each in cases["wrong"].problems)
    assert cases["rejected"].problems[1:] == [f"with the standard algorithm: {rejection}"]


def test_wrong_golden_data_are_saved(run, tmp_path):
    report = run(bad_golden_data=FOREVER)
    cases = report.families["bad_golden_data"].cases
    assert golden_cases.names(tmp_path / "out" / results.ARCHIVE) == list(cases)
    assert len(cases) == 2
    for name, case in cases.items():
        assert case.status == results.FAILED
        problems = "; ".join(case.problems)
        assert "batch_major-null_lengths: cudnnRNNForward: no such layout" in problems
        assert "batch_major-device_lengths: output differs from float64 by" in problems
        assert case.measured["batch_major-device_lengths differs in bits from sequence_major-null_lengths"] == "output"
        read = golden_cases.load(tmp_path / "out" / results.ARCHIVE, name)
        assert read.refused == {"batch_major-null_lengths": "cudnnRNNForward: no such layout"}
        assert set(read.results) == set(golden_cases.VARIANTS) - set(read.refused)
        assert read.recorded_with["library"] == "fake cuDNN"


def test_golden_data_are_saved_if_the_device_is_lost(run, tmp_path):
    cases = run(golden_data_of_a_lost_device=FOREVER).families["golden_data_of_a_lost_device"].cases
    names = golden_cases.names(tmp_path / "out" / results.ARCHIVE)
    assert names == list(cases)
    errors = ("DeviceLostError: an illegal memory access", "RuntimeError: CUDA error: an illegal memory access")
    for name, error in zip(names, errors, strict=True):
        assert cases[name].problems == [f"sequence_major-device_lengths: {error}"]
        read = golden_cases.load(tmp_path / "out" / results.ARCHIVE, name)
        assert list(read.results) == ["sequence_major-null_lengths"]
        assert read.refused == {"sequence_major-device_lengths": error}


# ---------------------------------------------------------------- the programs


def run_program(*arguments, **environment):
    return subprocess.run(
        [sys.executable, str(REPOSITORY / "tools/gpu_check.py"), *map(str, arguments)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=FOREVER,
    )


def test_the_program_writes_its_files_and_reports_success(options, tmp_path):
    arguments = ["run", *options, "--output", tmp_path / "out", "--families", results.ENVIRONMENT, "gru_cell"]
    process = run_program(*arguments)
    assert process.returncode == 0, process.stdout + process.stderr
    assert "All checks passed on fake GPU" in process.stdout
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert files == {results.RESULTS, results.SUMMARY, results.LOG}
    counts = collections.Counter(
        statuses(results.read(tmp_path / "out" / results.RESULTS).families["gru_cell"]).values()
    )
    assert set(counts) == {results.PASSED}

    again = run_program(*arguments)
    assert again.returncode == 1
    assert "is from another run; choose another folder, or delete it" in again.stderr

    published = run_program("publish", tmp_path / "out")
    assert published.returncode != 0
    assert "only runs on a GPU can be published" in published.stderr


def test_without_a_gpu_the_run_fails(options, tmp_path):
    process = run_program(
        "run", *options[:2], "--output", tmp_path / "out", "--families", results.ENVIRONMENT, CUDA_VISIBLE_DEVICES=""
    )
    assert process.returncode == 1
    assert "PyTorch finds no GPU" in (tmp_path / "out" / results.LOG).read_text()


def test_families_that_run_alone_are_stages_of_their_own():
    stages = supervisor._stages(FAMILIES)
    assert [name for stage in stages for name in stage] == list(FAMILIES)
    alone = {name for name, family in FAMILIES.items() if family.runs_alone}
    assert alone == {"timing"}
    assert [stage for stage in stages if alone & set(stage)] == [["timing"]]
    under_memcheck = {name for name, family in FAMILIES.items() if family.under_memcheck}
    assert set(stages[-1]) == under_memcheck


def test_a_hanging_session_is_killed(tmp_path):
    """Even if the program ignores SIGTERM."""
    program = tmp_path / "python"
    program.write_text("#!/bin/bash\ntrap '' TERM\nwhile true; do sleep 1; done\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    process = subprocess.run(
        [REPOSITORY / "tools/gpu_session.sh"],
        env={
            **os.environ,
            "PYTHON": str(program),
            "OUT": str(tmp_path / "out"),
            "GPU_SECONDS": "16",
            "SCALING_SECONDS": "0",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=FOREVER,
    )
    assert process.returncode == 137
    assert "gpu_check.py did not end within 16 s" in process.stderr


def test_pytorch_is_timed_in_inference_and_training(monkeypatch):
    modes = []
    forward = torch.nn.LSTM.forward

    def noting(layer, *arguments):
        modes.append((layer.training, torch.is_inference_mode_enabled()))
        return forward(layer, *arguments)

    monkeypatch.setattr(torch.nn.LSTM, "forward", noting)
    device = types.SimpleNamespace(peer="cpu", median_seconds=lambda calls: len([call() for call in calls]) / 1000)
    context = types.SimpleNamespace(engine=types.SimpleNamespace(device=device), quick=True)
    case = timing.make_case("lstm", "float32", (2, 3, 8, 8))
    tensors = {name: torch.from_numpy(array) for name, array in networks.make_given(case).items()}
    outcome = Outcome()
    timing.time_pytorch(outcome, context, case, tensors)
    num_calls = timing.WARM_UP + timing.QUICK_ROUNDS
    assert modes == [(False, True)] * num_calls + [(True, False)] * num_calls
    assert outcome.measured == {
        "torch.nn forward ms": timing.QUICK_ROUNDS,
        "torch.nn forward + backward ms": timing.QUICK_ROUNDS,
        summary.PEER_RUNS: torch_layers.NOT_CUDNN,
    }


@pytest.fixture
def compute_sanitizer(tmp_path, monkeypatch):
    """Creates a compute-sanitizer on PATH that runs the command and exits with `exit_status`."""

    def install(exit_status):
        folder = tmp_path / "bin"
        folder.mkdir()
        program = folder / memcheck.PROGRAM
        program.write_text(
            '#!/bin/bash\n[ "$PYTORCH_NO_CUDA_MEMORY_CACHING" = 1 ] || exit 1\n'
            f'while [ $# -gt 0 ] && [[ $1 != */python* ]]; do shift; done\n"$@" && exit {exit_status}\n'
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return {"PATH": f"{folder}:{os.environ['PATH']}"}

    return install


@pytest.mark.parametrize(
    ("exit_status", "end"),
    [(0, results.ENDED), (memcheck.ERRORS_FOUND, "compute-sanitizer found errors"), (1, "exited with status 1")],
)
def test_memcheck_is_judged_by_its_exit_status(exit_status, end, options, compute_sanitizer, tmp_path):
    process = run_program(
        *("run", *options, "--output", tmp_path / "out", "--families", "memcheck_networks"),
        **compute_sanitizer(exit_status),
    )
    family = results.read(tmp_path / "out" / results.RESULTS).families["memcheck_networks"]
    assert family.end == end
    assert set(statuses(family).values()) == {results.PASSED}
    assert len(family.cases) > 10
    assert process.returncode == (0 if end == results.ENDED else 1)


def test_memcheck_is_skipped_without_compute_sanitizer(monkeypatch, tmp_path):
    monkeypatch.setattr(memcheck, "PLACES", ())
    monkeypatch.setenv("PATH", "")
    chosen = {name: family for name, family in FAMILIES.items() if family.under_memcheck}
    report = supervisor.run(chosen, tmp_path, [], {}, FOREVER)
    assert report.passed
    for name in chosen:
        case = report.families[name].cases[name]
        assert (case.status, case.skipped) == (results.SKIPPED, "compute-sanitizer is not installed")
