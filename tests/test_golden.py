"""Compares the ops, the layout and the reference with recordings of cuDNN, and tests the archive of recordings."""

import dataclasses
import types
import zipfile

import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from environment import processes
from inputs import cudnn_rnn as cudnn_rnn_inputs
from references import cudnn_rnn as reference
from references import golden_cases
from references.golden_cases import ARCHIVE, CASES, VARIANTS, Recording, RecordingError

import tf_rnn_ops


def missing(recorded_names) -> list[str]:
    """Returns a message with the cases that are not recorded, or an empty list if all are."""
    names = [name for name in CASES if name not in recorded_names]
    if not names:
        return []
    if len(names) == len(CASES):
        return [f"none of the {len(CASES)} golden cases is recorded: tools/record_golden.py does it, on a GPU"]
    return [f"{len(names)} of the {len(CASES)} golden cases are not recorded: {', '.join(names)}"]


def recordings():
    """Returns the names in the archive, and a skipped parameter that lists the missing cases."""
    names = golden_cases.names(ARCHIVE) if ARCHIVE.exists() else []
    absent = [pytest.param(None, marks=pytest.mark.skip(reason=each)) for each in missing(names)]
    return [*names, *absent]


@pytest.mark.parametrize("name", recordings())
def test_a_recording_of_cudnn(name):
    check(golden_cases.load(ARCHIVE, name), library="cuDNN")


def check(recording, library):
    """Asserts that a recording is from a library and that layout, reference and ops agree with it."""
    assert recording.recorded_with["library"] == library
    check_arrays(recording)
    check_layout(recording)
    check_reference(recording, library)
    check_ops(recording, library)


def check_arrays(recording):
    """Checks that a recording has all arrays of its case, in their stored form."""
    case, lengths = recording.case, recording.case.config.lengths
    assert recording.results
    assert recording.results.keys() <= VARIANTS.keys()
    for results in recording.results.values():
        arrays = {**recording.arrays, **results}
        shapes = golden_cases.shapes(case, arrays["params"].size)
        assert {name: array.shape for name, array in arrays.items()} == shapes
        assert {name: array.dtype for name, array in arrays.items()} == {
            name: golden_cases.stored_dtype(name, case) for name in shapes
        }
        np.testing.assert_array_equal(arrays.get("sequence_lengths", lengths), lengths)


def check_layout(recording):
    """Compares the regions of params with the layout of the package."""
    config = recording.case.config
    layout = cudnn_rnn_inputs.params_layout(config)
    matrices = [(each.offset, *each.shape) for each in layout.values() if len(each.shape) == 2]
    biases = [(each.offset, *each.shape, 1) for each in layout.values() if len(each.shape) == 1]
    recorded_matrices = [tuple(each) for each in recording.arrays["matrix_regions"].reshape(-1, 3)]
    assert [each for each in recorded_matrices if each != golden_cases.NO_REGION] == matrices
    assert [tuple(each) for each in recording.arrays["bias_regions"].reshape(-1, 3)] == biases
    assert recording.arrays["params"].size == layout.size


def regions(case):
    """Returns the regions of the results that are also compared separately."""
    return {"params_backprop": cudnn_rnn_inputs.regions(case.config, "params")}


def check_reference(recording, library):
    """Compares the results of each variant with the float64 reference on the same inputs."""
    case = recording.case
    expected = golden_cases.reference_results(case, recording.arrays)
    for results in recording.results.values():
        actual = types.SimpleNamespace(**{name: typed(case, results[name]) for name in expected})
        parity.check(library, "float64", actual, expected, fields=expected, regions=regions(case))


def check_ops(recording, library):
    """Compares the ops with the results of each variant."""
    case = recording.case
    forward, backward = run_ops(recording)
    for results in recording.results.values():
        wide = golden_cases.all_to_float64(results, case.dtype)
        for op, actual, names in (
            ("CudnnRNNV3", forward, golden_cases.OUTPUTS),
            ("CudnnRNNBackpropV3", backward, golden_cases.BACKPROPS),
        ):
            expected = {name: wide[name] for name in names if name in wide}
            parity.check(op, library, actual, expected, fields=expected, regions=regions(case))


def run_ops(recording):
    """Returns the results of CudnnRNNV3 and CudnnRNNBackpropV3 for the inputs of a recording."""
    config = recording.case.config
    given = {
        name: typed(recording.case, recording.arrays[name]) for name in golden_cases.GIVEN if name in recording.arrays
    }
    ignored = np.zeros([], given["input"].dtype)
    inputs = {
        "input": given["input"],
        "input_h": given["input_h"],
        "input_c": given.get("input_c", ignored),
        "params": given["params"],
        "sequence_lengths": config.lengths,
    }
    attributes = {
        "rnn_mode": config.rnn_mode,
        "input_mode": config.input_mode,
        "direction": config.direction,
        "num_proj": config.num_proj,
    }
    forward = tf_rnn_ops.raw_ops.CudnnRNNV3(**inputs, **attributes, is_training=True)
    backward = tf_rnn_ops.raw_ops.CudnnRNNBackpropV3(
        **inputs,
        output=forward.output,
        output_h=forward.output_h,
        output_c=forward.output_c,
        output_backprop=given["output_backprop"],
        output_h_backprop=given["output_h_backprop"],
        output_c_backprop=given.get("output_c_backprop", ignored),
        reserve_space=forward.reserve_space,
        host_reserved=forward.host_reserved,
        **attributes,
    )
    return forward, backward


def typed(case, array):
    """Converts an array in stored form to its dtype."""
    is_bits = case.dtype == "bfloat16" and array.dtype == np.uint16
    return array.view(tf.bfloat16.as_numpy_dtype) if is_bits else array


# The list of cases.


def test_cudnn_can_run_every_case():
    for case in CASES.values():
        assert (case.config.lengths >= 1).all(), f"{case.name}: cuDNN has no sequences of length 0"
        assert (case.config.lengths <= case.config.time).all()


def test_the_archive_is_small():
    """It fits into the repository, and can be copied from a GPU machine even if all variants differ."""
    same = different = 0
    for case in CASES.values():
        for name, shape in golden_cases.shapes(case, reference.params_size(case.config)).items():
            size = int(np.prod(shape)) * golden_cases.stored_dtype(name, case).itemsize
            is_result = name in golden_cases.OUTPUTS + golden_cases.BACKPROPS
            same += size
            different += size * (len(VARIANTS) if is_result else 1)
    assert same < 5e6
    assert different < 16 * 2**20


def test_cases_have_different_inputs():
    first = {case.name: golden_cases.make_given(case, 1000)["params"] for case in CASES.values()}
    again = {case.name: golden_cases.make_given(case, 1000)["params"] for case in CASES.values()}
    for name, params in first.items():
        np.testing.assert_array_equal(again[name], params)
    assert len({params.tobytes() for params in first.values()}) == len(CASES)


FLOATING = [name for name in golden_cases.GIVEN if name != "sequence_lengths"]
EPSILONS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_rounding_the_inputs_stays_within_the_tolerance(case):
    """Otherwise, two correct implementations could exceed the tolerance."""
    given = golden_cases.make_given(case, reference.params_size(case.config))
    wide = {name: golden_cases.to_float64(each, case.dtype) for name, each in given.items() if name in FLOATING}
    in_float64 = dataclasses.replace(case, dtype="float64")
    exact = golden_cases.reference_results(in_float64, wide)
    rng = np.random.default_rng(0)
    for _ in range(5):
        errors = {name: EPSILONS[case.dtype] * rng.uniform(-0.5, 0.5, each.shape) for name, each in wide.items()}
        rounded = golden_cases.reference_results(in_float64, {name: wide[name] * (1 + errors[name]) for name in wide})
        for name, expected in exact.items():
            error = parity.difference(rounded[name], expected, regions(case).get(name, ()))
            assert error < parity.TOLERANCES[case.dtype], name


# The archive: with recordings of the reference instead of cuDNN, and with damaged ones.


@pytest.fixture
def own_parity_record(monkeypatch):
    """Keeps comparisons out of the parity table at the end of the run."""
    monkeypatch.setattr(parity, "_seen", {})


FIRST, *OTHERS = VARIANTS


def recording_of_reference(case):
    given = golden_cases.make_given(case, reference.params_size(case.config))
    results = golden_cases.reference_results(case, given)
    rounded = {name: golden_cases.from_float64(array, case.dtype) for name, array in results.items()}
    arrays = {**given, **golden_cases.documented_regions(case.config)}
    of_variants = {variant: {name: array.copy() for name, array in rounded.items()} for variant in VARIANTS}
    return Recording(case, arrays, of_variants, {}, {"library": "the reference"})


def saved(folder, recording):
    """Saves a recording to a new archive and returns its path."""
    archive = folder / "archive.zip"
    archive.unlink(missing_ok=True)
    golden_cases.save(archive, recording)
    return archive


@pytest.mark.usefixtures("own_parity_record")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_recording_of_the_reference_passes(case, tmp_path):
    archive = saved(tmp_path, recording_of_reference(case))
    check(golden_cases.load(archive, case.name), library="the reference")


def assert_same(read, written):
    assert read.case == written.case
    assert read.recorded_with == written.recorded_with
    assert read.refused == written.refused
    assert list(read.results) == list(written.results)
    for of_read, of_written in (
        (read.arrays, written.arrays),
        *((read.results[v], written.results[v]) for v in read.results),
    ):
        assert set(of_read) == set(of_written)
        for name, array in of_written.items():
            np.testing.assert_array_equal(of_read[name], array, strict=True)


def test_all_recordings_round_trip_in_one_archive(tmp_path):
    archive = tmp_path / "archive.zip"
    written = {name: recording_of_reference(case) for name, case in CASES.items()}
    for recording in written.values():
        golden_cases.save(archive, recording)
    assert golden_cases.names(archive) == list(CASES)
    for name, recording in written.items():
        assert_same(golden_cases.load(archive, name), recording)
    assert archive.stat().st_size < 5e6


@pytest.mark.parametrize("variant", VARIANTS)
def test_different_variants_round_trip(variant, tmp_path):
    recording = recording_of_reference(CASES["lstm-2x2-lengths-float32"])
    recording.results[variant]["output"].flat[3] = -0.0
    recording.results[variant]["params_backprop"].flat[7] = np.nan
    read = golden_cases.load(saved(tmp_path, recording), recording.case.name)
    assert_same(read, recording)
    assert all(golden_cases.same_bits(read.results[v]["output"], recording.results[v]["output"]) for v in VARIANTS)


@pytest.mark.parametrize("refused", VARIANTS)
def test_a_variant_that_cudnn_rejects_is_missing(refused, tmp_path):
    recording = recording_of_reference(CASES["gru-1x1-float32"])
    del recording.results[refused]
    recording.refused[refused] = "cudnnRNNForward: CUDNN_STATUS_NOT_SUPPORTED"
    assert_same(golden_cases.load(saved(tmp_path, recording), recording.case.name), recording)


def test_a_case_is_recorded_once(tmp_path):
    recording = recording_of_reference(CASES["gru-1x1-float32"])
    archive = saved(tmp_path, recording)
    with pytest.raises(RecordingError, match="has a recording of gru-1x1-float32"):
        golden_cases.save(archive, recording)


def test_a_failed_save_leaves_the_archive_unchanged(tmp_path, monkeypatch):
    first, second = (recording_of_reference(CASES[f"gru-1x1-{dtype}"]) for dtype in ("float32", "float64"))
    archive = saved(tmp_path, first)

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr(golden_cases.os, "replace", fail)
    with pytest.raises(OSError, match="no space left"):
        golden_cases.save(archive, second)
    assert golden_cases.names(archive) == [first.case.name]
    monkeypatch.undo()
    golden_cases.save(archive, second)
    assert_same(golden_cases.load(archive, second.case.name), second)


def test_only_cudnn_is_golden():
    with pytest.raises(AssertionError, match="the reference"):
        check(recording_of_reference(CASES["gru-1x1-float32"]), library="cuDNN")


# The case with all kinds of arrays.
FULL = "lstm-2x2-proj-lengths-{dtype}"
# The change of a value, relative to the largest magnitude in its array.
NOTICEABLE = {"float64": 1e-11, "float32": 1e-4, "float16": 3e-2, "bfloat16": 0.2}


@pytest.mark.usefixtures("own_parity_record")
@pytest.mark.parametrize("dtype", NOTICEABLE)
@pytest.mark.parametrize("checked", [check_reference, check_ops])
@pytest.mark.parametrize("variant", [FIRST, OTHERS[-1]])
def test_one_wrong_value_is_detected(checked, dtype, variant):
    for name in golden_cases.OUTPUTS + golden_cases.BACKPROPS:
        recording = recording_of_reference(CASES[FULL.format(dtype=dtype)])
        wide = golden_cases.to_float64(recording.results[variant][name], dtype)
        wide.flat[wide.size // 2] += NOTICEABLE[dtype] * np.abs(wide).max()
        recording.results[variant][name] = golden_cases.from_float64(wide, dtype)
        with pytest.raises(AssertionError, match=rf"\.{name}, {dtype}, .* differs by"):
            checked(recording, "the reference")


@pytest.mark.usefixtures("own_parity_record")
@pytest.mark.parametrize("checked", [check_reference, check_ops])
def test_nan_is_detected(checked):
    for name in golden_cases.OUTPUTS + golden_cases.BACKPROPS:
        recording = recording_of_reference(CASES[FULL.format(dtype="float32")])
        recording.results[FIRST][name].flat[0] = np.nan
        with pytest.raises(AssertionError, match=rf"\.{name}, .* differs by inf"):
            checked(recording, "the reference")


@pytest.mark.usefixtures("own_parity_record")
@pytest.mark.parametrize("checked", [check_reference, check_ops])
def test_results_of_other_inputs_are_detected(checked):
    for name in FLOATING:
        recording = recording_of_reference(CASES[FULL.format(dtype="float32")])
        recording.arrays[name] = np.roll(recording.arrays[name], 1, axis=-1)
        with pytest.raises(AssertionError, match="differs by"):
            checked(recording, "the reference")


@pytest.mark.parametrize("name", golden_cases.REGIONS)
def test_a_different_layout_is_detected(name):
    recording = recording_of_reference(CASES["lstm-2x2-skip-proj-float32"])
    check_layout(recording)
    recording.arrays[name] = recording.arrays[name][:, ::-1]
    with pytest.raises(AssertionError):
        check_layout(recording)


def assert_rejected(recording, message, folder):
    archive = saved(folder, recording)
    with pytest.raises(RecordingError, match=message):
        golden_cases.load(archive, recording.case.name)


@pytest.mark.parametrize("name", ["params", "sequence_lengths", "output_c"])
@pytest.mark.parametrize("change", [None, lambda array: array[:-1], lambda array: array.astype(np.float16)])
def test_wrong_arrays_are_detected(name, change):
    recording = recording_of_reference(CASES[FULL.format(dtype="float32")])
    for arrays in (recording.arrays, *recording.results.values()):
        if name in arrays:
            array = arrays.pop(name)
            arrays.update({name: change(array)} if change else {})
    with pytest.raises((AssertionError, KeyError)):
        check_arrays(recording)


@pytest.mark.usefixtures("own_parity_record")
@pytest.mark.parametrize("name", ["params", "sequence_lengths", "output_c"])
def test_wrong_values_are_detected(name):
    recording = recording_of_reference(CASES[FULL.format(dtype="float32")])
    for arrays in (recording.arrays, *recording.results.values()):
        if name in arrays:
            arrays[name] = arrays[name][::-1]
    with pytest.raises(AssertionError):
        check(recording, library="the reference")


def test_unknown_arrays_and_variants_are_detected():
    recording = recording_of_reference(CASES["gru-1x1-float32"])
    check_arrays(recording)
    for results in ({}, {"unknown": recording.results[FIRST]}):
        with pytest.raises(AssertionError):
            check_arrays(dataclasses.replace(recording, results=results))
    recording.arrays["weights"] = np.zeros(3)
    with pytest.raises(AssertionError):
        check_arrays(recording)


def test_a_recording_of_another_config_is_rejected(tmp_path):
    recording = recording_of_reference(CASES["gru-1x1-float32"])
    config = dataclasses.replace(recording.case.config, input_size=12)
    changed_case = dataclasses.replace(recording.case, config=config)
    message = r"with config .*'input_size': 12.*, should be .*'input_size': 11"
    assert_rejected(dataclasses.replace(recording, case=changed_case), message, tmp_path)


def test_a_recording_of_another_format_is_rejected(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(golden_cases, "FORMAT", golden_cases.FORMAT + 1)
        archive = saved(tmp_path, recording_of_reference(CASES["gru-1x1-float32"]))
    with pytest.raises(RecordingError, match="recorded with format 3, should be 2"):
        golden_cases.load(archive, "gru-1x1-float32")


def test_a_recording_under_another_name_is_rejected(tmp_path):
    archive = saved(tmp_path, recording_of_reference(CASES["gru-1x1-float32"]))
    renamed = tmp_path / "renamed.zip"
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(renamed, "w") as new:
        new.writestr("gru-1x2-float32.npz", old.read("gru-1x1-float32.npz"))
    with pytest.raises(RecordingError, match="recorded with name gru-1x1-float32, should be gru-1x2-float32"):
        golden_cases.load(renamed, "gru-1x2-float32")


def test_bfloat16_rounding_equals_tensorflow():
    bits = np.random.default_rng(0).integers(0, 2**32, 10000, dtype=np.uint32)
    ties = np.arange(0x3F700000, 0x3F900000, 0x8000, dtype=np.uint32)
    values = np.concatenate([bits, ties]).view(np.float32)
    values = values[np.isfinite(values)]
    stored = golden_cases.from_float64(values.astype(np.float64), "bfloat16")
    expected = values.astype(tf.bfloat16.as_numpy_dtype)
    np.testing.assert_array_equal(stored, expected.view(np.uint16))
    np.testing.assert_array_equal(golden_cases.to_float64(stored, "bfloat16"), expected.astype(np.float64))


def test_missing_cases_are_named():
    assert missing(CASES) == []
    (none_recorded,) = missing([])
    assert none_recorded.startswith(f"none of the {len(CASES)} golden cases is recorded")
    first, second, *others = CASES
    (two,) = missing(others)
    assert two == f"2 of the {len(CASES)} golden cases are not recorded: {first}, {second}"


# The recorder, tools/record_golden.py.


def test_modules_of_the_recorder_need_only_numpy():
    processes.run_code(
        """
        import sys
        for name in ("tensorflow", "keras", "hypothesis", "pytest", "ml_dtypes"):
            sys.modules[name] = None
        from references import golden_cases
        """,
        **processes.WITH_TESTING,
    )
