"""The ops, the layout and the reference against what the real cuDNN gave, and the files that say what it gave."""

import ctypes
import dataclasses
import pathlib
import re
import types

import cudnn_rnn_inputs
import cudnn_rnn_reference as reference
import golden_cases
import numpy as np
import parity
import processes
import pytest
import tensorflow as tf
from golden_cases import CASES, Recording, RecordingError

import tf_rnn_ops

CUDNN_HEADERS = pathlib.Path(tf.sysconfig.get_include()) / "third_party/gpus/cudnn/include"


def missing(recorded_names) -> list[str]:
    """Says in one sentence which cases are not recorded, or nothing if all are."""
    names = [name for name in CASES if name not in recorded_names]
    if not names:
        return []
    if len(names) == len(CASES):
        return [f"none of the {len(CASES)} golden cases is recorded: tools/record_golden.py does it, on a GPU"]
    return [f"{len(names)} of the {len(CASES)} golden cases are not recorded: {', '.join(names)}"]


def recordings():
    """The files in the golden data's folder, and one more to be skipped that says which cases are missing."""
    paths = sorted(golden_cases.FOLDER.glob("*.npz"))
    present = [pytest.param(path, id=path.stem) for path in paths]
    absent = [
        pytest.param(None, marks=pytest.mark.skip(reason=each)) for each in missing({path.stem for path in paths})
    ]
    return present + absent


@pytest.mark.parametrize("path", recordings())
def test_a_recording_of_cudnn(path):
    check(path, library="cuDNN")


def check(path, library):
    """Asserts that a file holds what a library gave, and that the layout, the reference and the ops give the same."""
    recording = golden_cases.load(path)
    assert recording.recorded_with["library"] == library
    check_layout(recording)
    check_reference(recording, library)
    check_ops(recording, library)


def check_layout(recording):
    """Compares every region of params with where the package says that it lies."""
    config = recording.case.config
    layout = cudnn_rnn_inputs.params_layout(config)
    matrices = [(each.offset, *each.shape) for each in layout.values() if len(each.shape) == 2]
    biases = [(each.offset, *each.shape, 1) for each in layout.values() if len(each.shape) == 1]
    recorded_matrices = [tuple(each) for each in recording.arrays["matrix_regions"].reshape(-1, 3)]
    assert [each for each in recorded_matrices if each != golden_cases.NO_REGION] == matrices
    assert [tuple(each) for each in recording.arrays["bias_regions"].reshape(-1, 3)] == biases
    assert recording.arrays["params"].size == layout.size


def regions(case):
    """Returns the parts of results that are compared one by one."""
    return {"params_backprop": cudnn_rnn_inputs.regions(case.config, "params")}


def check_reference(recording, library):
    """Compares what was recorded with the float64 reference on the same inputs."""
    expected = golden_cases.reference_results(recording.case, recording.arrays)
    actual = types.SimpleNamespace(**{name: typed(recording, name) for name in expected})
    parity.check(library, "float64", actual, expected, fields=expected, regions=regions(recording.case))


def check_ops(recording, library):
    """Compares the ops with what was recorded."""
    forward, backward = run_ops(recording)
    outputs = recording.float64(*golden_cases.OUTPUTS)
    backprops = recording.float64(*golden_cases.BACKPROPS)
    parity.check("CudnnRNNV3", library, forward, outputs, fields=outputs)
    parity.check("CudnnRNNBackpropV3", library, backward, backprops, fields=backprops, regions=regions(recording.case))


def run_ops(recording):
    """Returns the results of CudnnRNNV3 and CudnnRNNBackpropV3 for what a recorded run was given."""
    config = recording.case.config
    given = {name: typed(recording, name) for name in golden_cases.GIVEN if name in recording.arrays}
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


def typed(recording, name):
    """Returns a recorded array in the dtype that it stands for."""
    array = recording.arrays[name]
    is_bits = recording.case.dtype == "bfloat16" and array.dtype == np.uint16
    return array.view(tf.bfloat16.as_numpy_dtype) if is_bits else array


# The list of cases.


def test_cudnn_can_run_every_case():
    for case in CASES.values():
        assert (case.config.lengths >= 1).all(), f"{case.name}: cuDNN has no sequences of length 0"
        assert (case.config.lengths <= case.config.time).all()


def test_the_recordings_fit_into_a_repository():
    total = 0
    for case in CASES.values():
        for name, shape in golden_cases.shapes(case, reference.params_size(case.config)).items():
            total += int(np.prod(shape)) * golden_cases.stored_dtype(name, case).itemsize
    assert total < 5e6


def test_every_case_is_given_numbers_of_its_own():
    first = {case.name: golden_cases.make_given(case, 1000)["params"] for case in CASES.values()}
    again = {case.name: golden_cases.make_given(case, 1000)["params"] for case in CASES.values()}
    for name, params in first.items():
        np.testing.assert_array_equal(again[name], params)
    assert len({params.tobytes() for params in first.values()}) == len(CASES)


FLOATING = [name for name in golden_cases.GIVEN if name != "sequence_lengths"]
EPSILONS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_rounding_what_is_given_changes_the_results_by_less_than_is_allowed(case):
    """Or two right implementations could differ by more."""
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


# The files: recorded from the reference instead of cuDNN, and damaged.


@pytest.fixture
def own_parity_record(monkeypatch):
    """Keeps comparisons out of the table at the end of the run."""
    monkeypatch.setattr(parity, "_seen", {})


def recording_of_reference(case):
    given = golden_cases.make_given(case, reference.params_size(case.config))
    results = golden_cases.reference_results(case, given)
    rounded = {name: golden_cases.from_float64(array, case.dtype) for name, array in results.items()}
    arrays = {**given, **rounded, **golden_cases.documented_regions(case.config)}
    return Recording(case, arrays, {"library": "the reference"})


@pytest.mark.usefixtures("own_parity_record")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_recording_of_the_reference_passes(case, tmp_path):
    check(golden_cases.save(tmp_path, recording_of_reference(case)), library="the reference")


def test_a_recording_is_read_as_it_was_written(tmp_path):
    for case in CASES.values():
        written = recording_of_reference(case)
        read = golden_cases.load(golden_cases.save(tmp_path, written))
        assert read.case == case
        assert read.recorded_with == written.recorded_with
        assert set(read.arrays) == set(written.arrays)
        for name, array in written.arrays.items():
            np.testing.assert_array_equal(read.arrays[name], array, strict=True)


def test_only_cudnn_is_golden(tmp_path):
    path = golden_cases.save(tmp_path, recording_of_reference(CASES["gru-1x1-float32"]))
    with pytest.raises(AssertionError, match="the reference"):
        check(path, library="cuDNN")


# With everything that a recording can have.
FULL = "lstm-2x2-proj-lengths-{dtype}"
# How far to move a number, relative to the largest of its array.
NOTICEABLE = {"float64": 1e-11, "float32": 1e-4, "float16": 3e-2, "bfloat16": 0.2}


@pytest.mark.usefixtures("own_parity_record")
@pytest.mark.parametrize("dtype", NOTICEABLE)
@pytest.mark.parametrize("checked", [check_reference, check_ops])
def test_one_wrong_number_is_noticed(checked, dtype):
    for name in golden_cases.OUTPUTS + golden_cases.BACKPROPS:
        recording = recording_of_reference(CASES[FULL.format(dtype=dtype)])
        (wide,) = recording.float64(name).values()
        wide.flat[wide.size // 2] += NOTICEABLE[dtype] * np.abs(wide).max()
        recording.arrays[name] = golden_cases.from_float64(wide, dtype)
        with pytest.raises(AssertionError, match=rf"\.{name}, {dtype}, .* differs by"):
            checked(recording, "the reference")


@pytest.mark.usefixtures("own_parity_record")
@pytest.mark.parametrize("checked", [check_reference, check_ops])
def test_nan_is_noticed(checked):
    for name in golden_cases.OUTPUTS + golden_cases.BACKPROPS:
        recording = recording_of_reference(CASES[FULL.format(dtype="float32")])
        recording.arrays[name].flat[0] = np.nan
        with pytest.raises(AssertionError, match=rf"\.{name}, .* differs by inf"):
            checked(recording, "the reference")


@pytest.mark.usefixtures("own_parity_record")
@pytest.mark.parametrize("checked", [check_reference, check_ops])
def test_results_of_other_inputs_are_noticed(checked):
    for name in FLOATING:
        recording = recording_of_reference(CASES[FULL.format(dtype="float32")])
        recording.arrays[name] = np.roll(recording.arrays[name], 1, axis=-1)
        with pytest.raises(AssertionError, match="differs by"):
            checked(recording, "the reference")


@pytest.mark.parametrize("name", golden_cases.REGIONS)
def test_another_layout_is_noticed(name):
    recording = recording_of_reference(CASES["lstm-2x2-skip-proj-float32"])
    check_layout(recording)
    recording.arrays[name] = recording.arrays[name][:, ::-1]
    with pytest.raises(AssertionError):
        check_layout(recording)


def without(name):
    return lambda arrays: {each: array for each, array in arrays.items() if each != name}


def changed(name, change):
    return lambda arrays: {**arrays, name: change(arrays[name])}


OTHER_ARRAYS = {
    "a result is missing": (without("output_c"), "holds .*, should hold .*output_c"),
    "params are missing": (without("params"), "holds .*, should hold .*params"),
    "an unknown array": (lambda arrays: {**arrays, "weights": np.zeros(3)}, "holds .*weights.*, should hold"),
    "another shape": (changed("input", lambda array: array[:-1]), r"input has shape \(6, .*, should have \(7, "),
    "another size of params": (changed("params", lambda array: array[:-1]), "params_backprop has shape"),
    "another dtype": (
        changed("output", lambda array: array.astype(np.float64)),
        "output has dtype float64, should have float32",
    ),
    "another dtype of lengths": (
        changed("sequence_lengths", lambda array: array.astype(np.int64)),
        "sequence_lengths has dtype int64, should have int32",
    ),
    "other lengths": (
        changed("sequence_lengths", lambda array: array[::-1]),
        r"sequence_lengths is \[4 6 1 7 3\], should be \[3 7 1 6 4\]",
    ),
}


@pytest.mark.parametrize(("change", "message"), OTHER_ARRAYS.values(), ids=OTHER_ARRAYS)
def test_other_arrays_are_refused(change, message, tmp_path):
    recording = recording_of_reference(CASES[FULL.format(dtype="float32")])
    path = golden_cases.save(tmp_path, dataclasses.replace(recording, arrays=change(recording.arrays)))
    with pytest.raises(RecordingError, match=message):
        golden_cases.load(path)


def test_a_recording_of_another_config_is_refused(tmp_path):
    recording = recording_of_reference(CASES["gru-1x1-float32"])
    config = dataclasses.replace(recording.case.config, input_size=12)
    changed_case = dataclasses.replace(recording.case, config=config)
    path = golden_cases.save(tmp_path, dataclasses.replace(recording, case=changed_case))
    with pytest.raises(RecordingError, match=r"with config .*'input_size': 12.*, should be .*'input_size': 11"):
        golden_cases.load(path)


def test_a_recording_of_another_format_is_refused(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(golden_cases, "FORMAT", golden_cases.FORMAT + 1)
        path = golden_cases.save(tmp_path, recording_of_reference(CASES["gru-1x1-float32"]))
    with pytest.raises(RecordingError, match="has format 2, should have 1"):
        golden_cases.load(path)


def test_a_recording_under_another_name_is_refused(tmp_path):
    path = golden_cases.save(tmp_path, recording_of_reference(CASES["gru-1x1-float32"]))
    with pytest.raises(RecordingError, match="recorded with name gru-1x1-float32, should be gru-1x2-float32"):
        golden_cases.load(path.rename(tmp_path / "gru-1x2-float32.npz"))
    with pytest.raises(RecordingError, match="is of no case in the list"):
        golden_cases.load((tmp_path / "gru-1x2-float32.npz").rename(tmp_path / "unheard_of.npz"))


def test_a_damaged_file_is_refused(tmp_path):
    path = golden_cases.save(tmp_path, recording_of_reference(CASES["gru-1x1-float32"]))
    whole = path.read_bytes()
    middle = len(whole) // 2
    for damaged in (b"", b"text", whole[:-1], whole[:middle], whole[:middle] + b"\xa5\x5a\xa5" + whole[middle + 3 :]):
        path.write_bytes(damaged)
        with pytest.raises(RecordingError, match="cannot be read"):
            golden_cases.load(path)


def test_bfloat16_is_rounded_as_tensorflow_rounds_it():
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


# The recorder, as far as it can be tried without a GPU.


def test_what_the_recorder_shares_needs_numpy_alone():
    processes.run_code(
        """
        import sys
        for name in ("tensorflow", "keras", "hypothesis", "pytest", "ml_dtypes"):
            sys.modules[name] = None
        import cudnn_rnn_reference, golden_cases, parity
        """,
        **processes.WITH_TESTS,
    )


@pytest.fixture(scope="module")
def cudnn_library():
    """The module that calls cuDNN by ctypes."""
    return pytest.importorskip("cudnn_library")


@pytest.fixture(scope="module")
def cudnn_headers():
    """The text of cuDNN's headers, without comments."""
    headers = [CUDNN_HEADERS / f"cudnn_{name}.h" for name in ("graph", "ops", "adv")]
    if not all(header.is_file() for header in headers):
        pytest.skip("needs cuDNN's headers, which this TensorFlow has not")
    return re.sub(r"/\*.*?\*/", "", "\n".join(header.read_text() for header in headers), flags=re.DOTALL)


def test_constants_are_those_of_the_headers(cudnn_library, cudnn_headers):
    constants = {name: value for name, value in vars(cudnn_library).items() if name.startswith("CUDNN_")}
    assert len(constants) > 20
    for name, value in constants.items():
        (text,) = re.findall(rf"\b{name}\s+(?:=\s*(?=\d)|(?=\())(\d+|\(1U << \d+\))", cudnn_headers)
        shift = re.fullmatch(r"\(1U << (\d+)\)", text)
        assert value == (1 << int(shift[1]) if shift else int(text)), name


def test_signatures_are_those_of_the_headers(cudnn_library, cudnn_headers):
    assert len(cudnn_library.SIGNATURES) > 20
    for name, argument_types in cudnn_library.SIGNATURES.items():
        (arguments,) = re.findall(rf"\bcudnnStatus_t CUDNNWINAPI\s+{name}\(([^)]*)\);", cudnn_headers)
        assert [ctypes_type(each) for each in arguments.split(",")] == argument_types, name


def ctypes_type(argument):
    """Returns the ctypes type of an argument as a C header declares it."""
    argument_type = argument.rsplit(maxsplit=1)[0].strip()
    if "*" in argument or "[" in argument or re.search(r"(Descriptor_t|Handle_t|Stream_t)$", argument_type):
        return ctypes.c_void_p
    numbers = {
        "int": ctypes.c_int,
        "int32_t": ctypes.c_int32,
        "uint32_t": ctypes.c_uint32,
        "unsigned long long": ctypes.c_ulonglong,
        "size_t": ctypes.c_size_t,
        "float": ctypes.c_float,
    }
    is_enum = re.fullmatch(r"cudnn\w+_t", argument_type)
    return ctypes.c_int if is_enum else numbers[argument_type]
