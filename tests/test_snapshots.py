"""Tests that files of snapshots load, reproduce their recorded values, and can be trained further.

tests/snapshots/README.md describes the snapshots.
"""

import contextlib
import json
import pathlib
import shutil
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf
from checks import op_definitions, parity
from checks.cudnn_rnn import run_forward
from inputs import cudnn_rnn as cudnn_rnn_inputs
from inputs import snapshot_networks
from packaging.version import Version

import tf_rnn_ops

tf_rnn_ops.enable_builtin_kernels()

VERSIONS = sorted(folder for folder in (pathlib.Path(__file__).parent / "snapshots").iterdir() if folder.is_dir())
# For float32. The tolerance after training includes the accumulated rounding.
TOLERANCE = {"output": 1e-5, "output_after_training": 1e-4, "gradient": 1e-4}

versions = pytest.mark.parametrize("version", VERSIONS, ids=lambda folder: folder.name)


def files(suffix):
    """Parametrizes a test with the version and name of every file with a suffix."""
    found = [(version, file.name.removesuffix(suffix)) for version in VERSIONS for file in version.glob(f"*{suffix}")]
    ids = [f"{version.name}-{name}" for version, name in sorted(found)]
    return pytest.mark.parametrize(("version", "name"), sorted(found), ids=ids)


def check_values(file, function, variables):
    """Compares a network with its recorded values, before and after training."""
    expected = dict(np.load(file))
    actual = snapshot_networks.values(function, variables, expected.pop("x"))
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        difference = parity.difference(actual[name], value)
        assert difference < TOLERANCE[name.rstrip("_0123456789")], f"{name}: {difference}"
    assert parity.difference(actual["output_after_training"], actual["output"]) > 1e-2


def check_network(version, name, make):
    """Loads and checks a network in the context in which it was saved, and accelerated ones also in plain Keras."""
    for context in [contextlib.nullcontext, *([tf_rnn_ops.accelerate_keras] if name == "accelerated" else [])]:
        with context():
            model = make()
            check_values(version / f"{name}.npz", model, model.trainable_variables)


@files(".keras")
def test_keras_files(version, name):
    with zipfile.ZipFile(version / f"{name}.keras") as file:
        writer = json.loads(file.read("metadata.json"))["keras_version"]
    if Version(keras.__version__) < Version(writer):
        pytest.skip(f"Keras {writer}, which wrote the file, is newer")
    check_network(version, name, lambda: keras.models.load_model(version / f"{name}.keras"))


@files(".weights.h5")
def test_files_of_weights(version, name):
    def load():
        model = snapshot_networks.build(name)
        model.load_weights(version / f"{name}.weights.h5")
        return model

    check_network(version, name, load)


@files(".checkpoint.index")
def test_checkpoints(version, name):
    def restore():
        model = snapshot_networks.build(name)
        status = tf.train.Checkpoint(model=model).read(str(version / f"{name}.checkpoint"))
        status.assert_existing_objects_matched().assert_consumed()
        return model

    check_network(version, name, restore)


@files(".saved_model.zip")
def test_saved_models(version, name, tmp_path):
    shutil.unpack_archive(version / f"{name}.saved_model.zip", tmp_path)
    module = tf.saved_model.load(tmp_path)
    check_values(version / f"{name}.npz", module.call, module.weights)
    if name in snapshot_networks.ON_OP:
        assert b"TfRnnOps>KerasRNN" in (tmp_path / "saved_model.pb").read_bytes()


@versions
@pytest.mark.parametrize("mode", snapshot_networks.MODES)
def test_params_buffers(version, mode):
    params, expected = np.load(version / f"params_{mode}.npy"), np.load(version / f"params_{mode}.npz")
    for name, value in snapshot_networks.named_parts(mode, params).items():
        np.testing.assert_array_equal(value, expected[name])
    config = snapshot_networks.params_config(mode)
    inputs = {name: expected[name] for name in cudnn_rnn_inputs.INPUTS if name in expected}
    outputs = run_forward(config, {**inputs, "params": params})
    for name in cudnn_rnn_inputs.OUTPUTS:
        assert parity.difference(getattr(outputs, name), expected[name]) < TOLERANCE["output"], name


def test_every_network_is_recorded():
    """Detects missing files and networks that are new in this version."""
    folder = pathlib.Path(__file__).parent / "snapshots" / tf_rnn_ops.__version__
    if not folder.exists():
        pytest.skip("this version is not released")
    recorded = {file.name for file in folder.iterdir()}
    for name in snapshot_networks.NETWORKS:
        kinds = ("keras", "weights.h5", "checkpoint.index", "saved_model.zip", "npz")
        assert recorded >= {f"{name}.{kind}" for kind in kinds}
    assert recorded >= {f"{name}.{kind}" for name in snapshot_networks.OPS for kind in ("saved_model.zip", "npz")}
    assert recorded >= {f"params_{mode}.{kind}" for mode in snapshot_networks.MODES for kind in ("npy", "npz")}
    assert "ops.pbtxt" in recorded


# ---------------------------------------------------------------- op definitions


def definitions(version):
    return op_definitions.from_text((version / "ops.pbtxt").read_text())


@versions
def test_op_definitions_are_compatible_with_earlier_versions(version):
    assert op_definitions.incompatibilities(definitions(version), op_definitions.current()) == []


def test_op_definitions_equal_the_snapshot_of_this_version():
    """Even compatible changes are not allowed within a released version."""
    kept = {version.name: definitions(version) for version in VERSIONS}
    assert kept.get(tf_rnn_ops.__version__, op_definitions.current()) == op_definitions.current()


def renamed(op):
    op.name += "2"


def attribute_removed(op):
    del op.attr[0]


def attribute_without_default(op):
    op.attr.add(name="new", type="int")


def changed_default(op):
    (attr,) = (each for each in op.attr if each.name == "dropout")
    attr.default_value.f = 0.5


def default_removed(op):
    (attr,) = (each for each in op.attr if each.name == "dropout")
    attr.ClearField("default_value")


def fewer_types(op):
    del op.attr[0].allowed_values.list.type[-1]


def minimum_added(op):
    (attr,) = (each for each in op.attr if each.name == "seed")
    attr.has_minimum, attr.minimum = True, 0


def input_renamed(op):
    op.input_arg[0].name = "x"


def input_added(op):
    op.input_arg.add(name="new", type=tf.int32.as_datatype_enum)


def output_type_changed(op):
    op.output_arg[1].type_attr, op.output_arg[1].type = "", tf.float32.as_datatype_enum


def outputs_swapped(op):
    op.output_arg[0].name, op.output_arg[1].name = op.output_arg[1].name, op.output_arg[0].name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (renamed, "was removed"),
        (attribute_removed, "T was removed"),
        (attribute_without_default, "new is new and has no default"),
        (changed_default, "dropout has a new default"),
        (default_removed, "dropout has a new default"),
        (fewer_types, "T no longer allows"),
        (minimum_added, "seed must be 0 or more"),
        (input_renamed, "its inputs changed"),
        (input_added, "its inputs changed"),
        (output_type_changed, "its outputs changed"),
        (outputs_swapped, "its outputs changed"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_incompatible_changes_of_an_op_are_found(change, message):
    old, new = op_definitions.current(), op_definitions.current()
    (op,) = (each for each in new.op if each.name == "TfRnnOps>CudnnRNNV2")
    change(op)
    (found,) = op_definitions.incompatibilities(old, new)
    assert message in found


def test_compatible_changes_of_an_op_are_allowed():
    old, new = op_definitions.current(), op_definitions.current()
    new.op.add(name="TfRnnOps>New")
    new.op[0].attr.add(name="new", type="int").default_value.i = 1
    new.op[0].attr[0].allowed_values.list.type.append(tf.int8.as_datatype_enum)
    assert op_definitions.incompatibilities(old, new) == []
