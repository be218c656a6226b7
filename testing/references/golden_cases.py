"""The golden cases: results recorded from cuDNN, and the archive that stores them.

The tests and tools/record_golden.py share this module, so it depends on NumPy but not on TensorFlow.
tests/golden/README.md describes the archive.
"""

import dataclasses
import io
import itertools
import json
import os
import pathlib
import shutil
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from references import cudnn_rnn as reference

ARCHIVE = pathlib.Path(__file__).parents[2] / "tests/golden/cudnn.zip"
FORMAT = 2
MODES = ("rnn_relu", "rnn_tanh", "lstm", "gru")

GIVEN = (
    "input",
    "input_h",
    "input_c",
    "params",
    "sequence_lengths",
    "output_backprop",
    "output_h_backprop",
    "output_c_backprop",
)
OUTPUTS = ("output", "output_h", "output_c")
BACKPROPS = ("input_backprop", "input_h_backprop", "input_c_backprop", "params_backprop")
REGIONS = ("matrix_regions", "bias_regions")
NO_REGION = (-1, 0, 0)  # the input matrix with skip_input

_CONFIG_FIELDS = (
    "rnn_mode",
    "input_mode",
    "direction",
    "num_layers",
    "num_units",
    "input_size",
    "num_proj",
    "time",
    "batch",
    "sequence_lengths",
)


class RecordingError(ValueError):
    """An archive has no valid recording of a case."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A network, its sizes, and its dtype."""

    config: reference.Config
    dtype: str
    label: str = ""  # distinguishes cases whose names would be equal
    seed: int = 0

    @property
    def name(self) -> str:
        config = self.config
        parts = [
            config.rnn_mode,
            f"{config.num_layers}x{config.num_directions}",
            config.input_mode.removesuffix("_input") if config.input_mode != "linear_input" else "",
            "proj" if config.num_proj else "",
            "lengths" if config.sequence_lengths else "",
            self.label,
            self.dtype,
        ]
        return "-".join(part for part in parts if part)

    @property
    def has_cell_state(self) -> bool:
        return self.config.rnn_mode == "lstm"


class Variant(NamedTuple):
    """A way to call cuDNN that does not affect the results.

    Attributes:
      layout: the memory layout of sequences.
      lengths: the argument devSeqLengths: NULL, or a copy of the lengths on the GPU.
    """

    layout: str
    lengths: str

    @property
    def name(self) -> str:
        return f"{self.layout}-{self.lengths}"


SEQUENCE_MAJOR, BATCH_MAJOR = LAYOUTS = ("sequence_major", "batch_major")
NULL_LENGTHS, DEVICE_LENGTHS = ("null_lengths", "device_lengths")
VARIANTS = {
    variant.name: variant
    for variant in itertools.starmap(Variant, itertools.product(LAYOUTS, (NULL_LENGTHS, DEVICE_LENGTHS)))
}


@dataclasses.dataclass(frozen=True)
class Recording:
    """The recording of one case. All arrays have their stored form.

    Attributes:
      case: the case.
      arrays: the arrays of GIVEN and REGIONS that apply to the case.
      results: the arrays of OUTPUTS and BACKPROPS that apply to the case, by variant name.
      refused: the errors of variants that cuDNN rejects, by variant name.
      recorded_with: the library and its versions.
    """

    case: Case
    arrays: dict[str, np.ndarray]
    results: dict[str, dict[str, np.ndarray]]
    refused: dict[str, str]
    recorded_with: dict[str, str]


def _case(rnn_mode, num_layers, num_directions, dtype="float32", label="", seed=0, **options) -> Case:
    """Returns a case. The default sizes are odd, and large enough for relative comparisons."""
    sizes = {"num_units": 13, "input_size": 11, "time": 7, "batch": 5, **options}
    direction = "bidirectional" if num_directions == 2 else "unidirectional"
    config = reference.Config(rnn_mode=rnn_mode, num_layers=num_layers, direction=direction, **sizes)
    return Case(config, dtype, label, seed)


_LENGTHS = {"sequence_lengths": (3, 7, 1, 6, 4)}
_PROJ = {"num_proj": 9}
_SKIP = {"input_mode": "skip_input", "input_size": 13}


def _of_every_mode() -> Iterator[Case]:
    """Yields all modes with one and two layers and directions, with and without sequence lengths and skip_input."""
    for mode in MODES:
        for stack in itertools.product((1, 2), (1, 2)):
            yield _case(mode, *stack)
            yield _case(mode, *stack, **_LENGTHS)
        yield _case(mode, 1, 1, "float64")
        yield _case(mode, 2, 2, "float64", **_LENGTHS)
        yield _case(mode, 1, 1, **_SKIP)
        yield _case(mode, 2, 2, **_SKIP)
        yield _case(mode, 2, 2, **_SKIP, **_LENGTHS)


def _of_lstm_and_gru() -> Iterator[Case]:
    """Yields projections, other input modes, and unusual sizes."""
    for stack in itertools.product((1, 2), (1, 2)):
        yield _case("lstm", *stack, **_PROJ)
    yield _case("lstm", 2, 2, **_PROJ, **_LENGTHS)
    yield _case("lstm", 2, 2, "float64", **_PROJ, **_LENGTHS)
    yield _case("lstm", 2, 2, **_PROJ, **_SKIP)
    for mode in ("lstm", "gru"):
        yield _case(mode, 2, 2, "float64", **_SKIP)
        yield _case(mode, 2, 2, input_mode="auto_select", label="unequal")
        yield _case(mode, 2, 2, input_mode="auto_select", input_size=13, label="equal")
        yield _case(mode, 2, 2, time=1, label="one_step")
        yield _case(mode, 2, 2, batch=1, label="one_sequence")
        yield _case(mode, 2, 2, sequence_lengths=(2, 5, 1, 4, 3), label="none_full")
        yield _case(mode, 1, 1, time=3, batch=17, input_size=33, num_units=65, label="wide")


def _of_16_bits() -> Iterator[Case]:
    """Yields 16-bit cases with few time steps, because cuDNN rounds the state at each step."""
    few, few_lengths = {"time": 4, "batch": 3}, {"sequence_lengths": (2, 4, 1)}
    for dtype in ("float16", "bfloat16"):
        for mode in ("rnn_tanh", "lstm", "gru"):
            yield _case(mode, 1, 1, dtype, **few)
            yield _case(mode, 2, 2, dtype, **few, **few_lengths)
        yield _case("lstm", 2, 2, dtype, **few, **few_lengths, **_PROJ)
        yield _case("lstm", 2, 2, dtype, **few, **_SKIP)
        yield _case("gru", 2, 2, dtype, **few, **_SKIP)
        # With this seed, no input of a ReLU is so close to zero that rounding changes its sign.
        yield _case("rnn_relu", 1, 1, dtype, time=3, batch=2, seed=15)
        yield _case("rnn_relu", 2, 2, dtype, time=3, batch=2, sequence_lengths=(2, 3), seed=15)


def _by_name(cases: Iterable[Case]) -> dict[str, Case]:
    by_name: dict[str, Case] = {}
    for case in cases:
        assert case.name not in by_name, f"two cases have the name {case.name}"
        by_name[case.name] = case
    return by_name


CASES = _by_name((*_of_every_mode(), *_of_lstm_and_gru(), *_of_16_bits()))


def make_given(case: Case, params_size: int) -> dict[str, np.ndarray]:
    """Returns the inputs of a case in stored form, determined by the case and the size of params.

    Gradients in the padding are not zero, because the ops must ignore them.
    """
    rng = np.random.default_rng([case.seed, zlib.crc32(case.name.encode())])
    given = {}
    for name, shape in shapes(case, params_size).items():
        if name in GIVEN and name != "sequence_lengths":
            scale = 1 / np.sqrt(case.config.input_size + case.config.num_units) if name == "params" else 1
            given[name] = from_float64(rng.standard_normal(shape) * scale, case.dtype)
    if case.config.sequence_lengths:
        given["sequence_lengths"] = case.config.lengths
    return given


def shapes(case: Case, params_size: int) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of all arrays of a case."""
    config = case.config

    def major(*shape: int) -> tuple[int, ...]:
        return shape if config.time_major else (shape[1], shape[0], shape[2])

    input_shape = major(config.time, config.batch, config.input_size)
    output_shape = major(config.time, config.batch, config.num_directions * config.output_size)
    h_shape = major(config.num_pseudo_layers, config.batch, config.output_size)
    c_shape = major(config.num_pseudo_layers, config.batch, config.num_units)
    all_shapes = {
        **dict.fromkeys(("input", "input_backprop"), input_shape),
        **dict.fromkeys(("params", "params_backprop"), (params_size,)),
        **dict.fromkeys(("output", "output_backprop"), output_shape),
        **dict.fromkeys(("input_h", "input_h_backprop", "output_h", "output_h_backprop"), h_shape),
        "matrix_regions": (config.num_pseudo_layers, 2 * config.num_gates + config.has_projection, 3),
        "bias_regions": (config.num_pseudo_layers, 2 * config.num_gates, 3),
    }
    if case.has_cell_state:
        all_shapes |= dict.fromkeys(("input_c", "input_c_backprop", "output_c", "output_c_backprop"), c_shape)
    if config.sequence_lengths:
        all_shapes["sequence_lengths"] = (config.batch,)
    return all_shapes


def reference_results(case: Case, given) -> dict[str, np.ndarray]:
    """Returns the OUTPUTS and BACKPROPS of the reference in float64.

    Args:
      case: the case.
      given: the arrays of GIVEN, in stored form.
    """
    wide = all_to_float64({name: each for name, each in given.items() if name != "sequence_lengths"}, case.dtype)
    input_c, d_output_c = wide.get("input_c", np.zeros([])), wide.get("output_c_backprop", np.zeros([]))
    run = reference.forward(
        case.config, input=wide["input"], input_h=wide["input_h"], input_c=input_c, params=wide["params"]
    )
    grads = reference.backward(
        case.config,
        run,
        input_c=input_c,
        params=wide["params"],
        output_backprop=wide["output_backprop"],
        output_h_backprop=wide["output_h_backprop"],
        output_c_backprop=d_output_c,
    )
    results = {**run._asdict(), **grads._asdict()}
    return {name: results[name] for name in shapes(case, 0) if name in OUTPUTS + BACKPROPS}


def from_float64(array, dtype: str) -> np.ndarray:
    """Rounds a float64 array to its stored form. bfloat16, which NumPy lacks, is stored as uint16 bits."""
    if dtype != "bfloat16":
        return array.astype(dtype)
    bits = array.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)  # to the nearest, ties to even


def to_float64(array, dtype: str) -> np.ndarray:
    """Converts an array in stored form to float64."""
    if dtype == "bfloat16":
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float64)


def all_to_float64(arrays: dict[str, np.ndarray], dtype: str) -> dict[str, np.ndarray]:
    """Converts arrays in stored form to float64."""
    return {name: to_float64(array, dtype) for name, array in arrays.items()}


def stored_dtype(name: str, case: Case) -> np.dtype:
    """Returns the dtype of an array in stored form."""
    if name in REGIONS:
        return np.dtype(np.int64)
    if name == "sequence_lengths":
        return np.dtype(np.int32)
    return np.dtype("uint16" if case.dtype == "bfloat16" else case.dtype)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Returns whether two arrays are bitwise equal: NaN equals itself, and 0 differs from -0."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def save(archive: pathlib.Path, recording: Recording) -> None:
    """Adds a recording to an archive atomically.

    Raises:
      RecordingError: if the archive already has a recording of the case.
    """
    if archive.exists() and recording.case.name in names(archive):
        raise RecordingError(f"{archive} already has a recording of {recording.case.name}")
    metadata = {
        **_describe(recording.case),
        "recorded_with": recording.recorded_with,
        "variants": list(recording.results),
        "refused": recording.refused,
    }
    content = io.BytesIO()
    arrays: dict[str, Any] = {**recording.arrays, **_differing_results(recording)}
    np.savez_compressed(content, metadata=np.array(json.dumps(metadata)), **arrays)

    copy = archive.with_suffix(".partial")
    copy.unlink(missing_ok=True)
    if archive.exists():
        shutil.copyfile(archive, copy)
    with zipfile.ZipFile(copy, "a") as file:
        file.writestr(zipfile.ZipInfo(f"{recording.case.name}.npz"), content.getvalue())
    os.replace(copy, archive)


def _differing_results(recording: Recording) -> dict[str, np.ndarray]:
    """Returns the results of the first variant, and results of other variants that differ from them."""
    first = next(iter(recording.results), "")
    return {
        f"{variant}/{name}": array
        for variant, results in recording.results.items()
        for name, array in results.items()
        if variant == first or not same_bits(array, recording.results[first][name])
    }


def names(archive: pathlib.Path) -> list[str]:
    """Returns the names of the cases in an archive."""
    with zipfile.ZipFile(archive) as file:
        return [name.removesuffix(".npz") for name in file.namelist()]


def load(archive: pathlib.Path, name: str) -> Recording:
    """Reads the recording of a case.

    Raises:
      RecordingError: if it is one of another case or of an earlier version of the case.
    """
    case = CASES[name]
    with zipfile.ZipFile(archive) as members, np.load(io.BytesIO(members.read(f"{name}.npz"))) as file:
        arrays: dict[str, Any] = {each: file[each] for each in file.files}
    metadata = json.loads(str(arrays.pop("metadata")))
    for key, value in _describe(case).items():
        if metadata.get(key) != value:
            raise RecordingError(f"{name} in {archive} was recorded with {key} {metadata.get(key)}, should be {value}")
    results = _take_results(metadata["variants"], arrays)
    return Recording(case, arrays, results, metadata["refused"], metadata["recorded_with"])


def _take_results(variants, arrays) -> dict[str, dict[str, np.ndarray]]:
    """Removes the results from the arrays of a file and returns the complete results by variant."""
    results: dict[str, dict[str, np.ndarray]] = {}
    for variant in variants:
        prefix = f"{variant}/"
        stored = {key.removeprefix(prefix): arrays.pop(key) for key in list(arrays) if key.startswith(prefix)}
        results[variant] = {**results.get(variants[0], {}), **stored}
    return results


def _describe(case) -> dict[str, Any]:
    """Returns the description of a case in the metadata."""
    config = {name: getattr(case.config, name) for name in _CONFIG_FIELDS}
    if case.config.sequence_lengths:
        config["sequence_lengths"] = list(case.config.sequence_lengths)  # as in JSON
    return {"format": FORMAT, "name": case.name, "dtype": case.dtype, "config": config}
