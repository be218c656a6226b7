"""Compares the ops, the layout and the reference with recordings of cuDNN, and tests the archive of recordings."""

import dataclasses
import types

import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from checks.cudnn_rnn import run_backprop, run_forward
from environment import processes
from inputs import cudnn_rnn as cudnn_rnn_inputs
from inputs.cudnn_rnn import INPUTS, OUTPUTS
from references import cudnn_rnn as reference
from references import golden_cases
from references.golden_cases import ARCHIVE, CASES, VARIANTS, RecordingError


def check(recording):
    """Asserts that a recording is from cuDNN and that layout, reference and ops agree with it."""
    assert recording.recorded_with["library"] == "cuDNN"
    check_arrays(recording)
    check_layout(recording)
    check_reference(recording)
    check_ops(recording)


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


def check_reference(recording):
    """Compares the results of each variant with the float64 reference on the same inputs."""
    case = recording.case
    expected = golden_cases.reference_results(case, recording.arrays)
    for results in recording.results.values():
        actual = types.SimpleNamespace(**{name: typed(case, results[name]) for name in expected})
        parity.check("cuDNN", "float64", actual, expected, fields=expected, regions=regions(case))


def check_ops(recording):
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
            parity.check(op, "cuDNN", actual, expected, fields=expected, regions=regions(case))


def run_ops(recording):
    """Returns the results of CudnnRNNV3 and CudnnRNNBackpropV3 for the inputs of a recording."""
    case, arrays = recording.case, recording.arrays
    ignored = np.zeros([], golden_cases.stored_dtype("input", case))  # cell states, if there are none
    inputs = {name: typed(case, arrays.get(name, ignored)) for name in INPUTS}
    gradients = {f"{name}_backprop": typed(case, arrays.get(f"{name}_backprop", ignored)) for name in OUTPUTS}
    forward = run_forward(case.config, inputs)
    return forward, run_backprop(case.config, inputs, forward, gradients)


def typed(case, array):
    """Converts an array in stored form to its dtype."""
    is_bits = case.dtype == "bfloat16" and array.dtype == np.uint16
    return array.view(tf.bfloat16.as_numpy_dtype) if is_bits else array


def test_every_case_is_recorded():
    assert golden_cases.names(ARCHIVE) == list(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_recording_of_cudnn(name):
    check(golden_cases.load(ARCHIVE, name))


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


# ---------------------------------------------------------------- damaged recordings


@pytest.fixture
def own_parity_record(monkeypatch):
    """Keeps comparisons out of the parity table at the end of the run."""
    monkeypatch.setattr(parity, "_seen", {})


# The case with all kinds of arrays.
FULL = "lstm-2x2-proj-lengths-{}"
# The change of a value, relative to the largest magnitude in its array.
NOTICEABLE = {"float64": 1e-11, "float32": 1e-4, "float16": 3e-2, "bfloat16": 0.2}


@pytest.mark.usefixtures("own_parity_record")
@pytest.mark.parametrize("dtype", NOTICEABLE)
@pytest.mark.parametrize("checked", [check_reference, check_ops])
def test_one_wrong_value_is_detected(checked, dtype):
    """In the last variant."""
    for name in golden_cases.OUTPUTS + golden_cases.BACKPROPS:
        recording = golden_cases.load(ARCHIVE, FULL.format(dtype))
        *_, results = recording.results.values()
        wide = golden_cases.to_float64(results[name], dtype)
        wide.flat[wide.size // 2] += NOTICEABLE[dtype] * np.abs(wide).max()
        results[name] = golden_cases.from_float64(wide, dtype)
        with pytest.raises(AssertionError, match=rf"\.{name}, {dtype}, .* differs by"):
            checked(recording)


def change(name, function):
    """Returns a function that changes an array in all variants of a recording."""

    def changed(recording):
        for arrays in (recording.arrays, *recording.results.values()):
            if name in arrays:
                arrays[name] = function(arrays[name])

    return changed


DAMAGES = {
    "another library": lambda recording: recording.recorded_with.update(library="the reference"),
    "no variants": lambda recording: recording.results.clear(),
    "an unknown variant": lambda recording: recording.results.update(unknown=next(iter(recording.results.values()))),
    "an unknown array": lambda recording: recording.arrays.update(weights=np.zeros(3)),
    "no params": lambda recording: recording.arrays.pop("params"),
    "no output": lambda recording: [results.pop("output_c") for results in recording.results.values()],
    "other lengths": change("sequence_lengths", lambda array: array[::-1]),
    "shorter params": change("params", lambda array: array[:-1]),
    "another type": change("output_c", lambda array: array.astype(np.float16)),
    "NaN": change("output", lambda array: np.where(np.arange(array.size).reshape(array.shape), array, np.nan)),
    **{
        f"another {name}": change(name, lambda array: np.roll(array, 1, axis=-1))
        for name in (*FLOATING, *golden_cases.REGIONS)
    },
}


@pytest.mark.usefixtures("own_parity_record")
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_is_detected(damage):
    recording = golden_cases.load(ARCHIVE, FULL.format("float32"))
    damage(recording)
    with pytest.raises((AssertionError, KeyError)):
        check(recording)


# ---------------------------------------------------------------- the archive


def test_recordings_round_trip(tmp_path):
    """Also if variants differ in a bit, and if cuDNN rejects one."""
    archive, written = tmp_path / "archive.zip", {}
    for name in ("gru-1x1-float32", FULL.format("bfloat16")):
        written[name] = golden_cases.load(ARCHIVE, name)
        arrays = {each: dict(recorded) for each, recorded in written[name].results.items()}
        first, *_, last = arrays
        arrays[last]["output"] = -arrays[last]["output"]
        arrays[first]["params_backprop"] = arrays[first]["params_backprop"] * 0
        written[name].results.update(arrays)
    rejected = written["gru-1x1-float32"]
    del rejected.results[next(iter(rejected.results))]
    rejected.refused["a variant"] = "cudnnRNNForward: CUDNN_STATUS_NOT_SUPPORTED"
    for recording in written.values():
        golden_cases.save(archive, recording)
        with pytest.raises(RecordingError, match=f"has a recording of {recording.case.name}"):
            golden_cases.save(archive, recording)
    assert golden_cases.names(archive) == list(written)
    for name, recording in written.items():
        read = golden_cases.load(archive, name)
        assert (read.case, read.recorded_with, read.refused) == (
            recording.case,
            recording.recorded_with,
            recording.refused,
        )
        assert list(read.results) == list(recording.results)
        for actual, expected in (
            (read.arrays, recording.arrays),
            *((read.results[variant], each) for variant, each in recording.results.items()),
        ):
            assert actual.keys() == expected.keys()
            assert all(golden_cases.same_bits(actual[each], expected[each]) for each in expected)


def test_a_recording_of_another_case_is_rejected(tmp_path):
    recording = golden_cases.load(ARCHIVE, "gru-1x1-float32")
    config = dataclasses.replace(recording.case.config, input_size=12)
    changed_case = dataclasses.replace(recording.case, config=config)
    golden_cases.save(tmp_path / "archive.zip", dataclasses.replace(recording, case=changed_case))
    with pytest.raises(RecordingError, match=r"with config .*'input_size': 12.*, should be .*'input_size': 11"):
        golden_cases.load(tmp_path / "archive.zip", "gru-1x1-float32")


def test_bfloat16_rounding_equals_tensorflow():
    bits = np.random.default_rng(0).integers(0, 2**32, 10000, dtype=np.uint32)
    ties = np.arange(0x3F700000, 0x3F900000, 0x8000, dtype=np.uint32)
    values = np.concatenate([bits, ties]).view(np.float32)
    values = values[np.isfinite(values)]
    stored = golden_cases.from_float64(values.astype(np.float64), "bfloat16")
    expected = values.astype(tf.bfloat16.as_numpy_dtype)
    np.testing.assert_array_equal(stored, expected.view(np.uint16))
    np.testing.assert_array_equal(golden_cases.to_float64(stored, "bfloat16"), expected.astype(np.float64))


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
