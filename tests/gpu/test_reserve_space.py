"""The reserve_space of the CudnnRNN ops on a GPU: backprop rejects one that does not match its network.

The data for this check is also in host memory, in host_reserved, so that backprop does not have to synchronize with the
GPU. The first version of the op has no host_reserved, and synchronizes. So do the others if host_reserved is empty.
"""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from checks.cudnn_rnn import run_backprop, run_forward
from environment.devices import CPU_OPS, DEVICE, OPS, needs_gpu
from inputs.cudnn_rnn import DTYPES, MODES, VERSIONS, Config, inputs_and_gradients, network_inputs
from inputs.reserve_spaces import BASE, OTHER_SIZE, SAME_SIZE

pytestmark = pytest.mark.gpu

OTHERS = [changes for changes, _ in (*SAME_SIZE, *OTHER_SIZE)]
# Options that all versions of the op support.
OF_ALL_VERSIONS = {"rnn_mode", "input_mode", "input_size", "num_units", "num_layers", "direction", "time", "dropout"}


def from_forward(config, dtype="float32", version="V3", ops=OPS, **attributes) -> dict[str, tf.Tensor]:
    """Runs a network forward and returns its opaque outputs for backprop."""
    outputs = run_forward(config, network_inputs(config, dtype), version, ops, **attributes)
    names = ["reserve_space", "host_reserved"] if version else ["reserve_space"]
    return {name: getattr(outputs, name) for name in names}


def backprop(config, dtype="float32", version="V3", ops=OPS, **changes):
    """Runs a network forward and backward, with changed arguments of backprop."""
    inputs, gradients = inputs_and_gradients(config, dtype)
    outputs = run_forward(config, inputs, version, ops)
    return run_backprop(config, inputs, outputs, gradients, version, ops, **changes)


def assert_rejected(config, wrong, dtype="float32", version="V3", ops=OPS):
    with pytest.raises(tf.errors.InvalidArgumentError, match="reserve_space"):
        backprop(config, dtype, version, ops, **wrong)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("changes", OTHERS, ids=str)
def test_reserve_space_of_another_configuration_is_rejected(changes, dtype):
    other = dataclasses.replace(BASE, **changes)
    assert_rejected(BASE, from_forward(other, dtype), dtype)
    assert_rejected(other, from_forward(BASE, dtype), dtype)
    backprop(other, dtype)


@pytest.mark.parametrize("version", ["", "V2"])
@pytest.mark.parametrize("changes", [each for each in OTHERS if each.keys() <= OF_ALL_VERSIONS], ids=str)
def test_reserve_space_of_another_configuration_is_rejected_by_v1_and_v2(changes, version):
    base = dataclasses.replace(BASE, sequence_lengths=None)
    other = dataclasses.replace(base, **changes)
    assert_rejected(base, from_forward(other, version=version), version=version)
    assert_rejected(other, from_forward(base, version=version), version=version)
    backprop(other, version=version)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "changes", [{}, {"sequence_lengths": (9, 0, 4)}, {"dropout": 0.5}, {"num_units": 128}], ids=str
)
def test_reserve_space_has_only_finite_elements(changes, mode, dtype):
    config = Config(rnn_mode=mode, num_layers=2, time=9, batch=3, **changes)
    with tf.device(DEVICE):
        full_of_nan = [tf.fill([50_000], tf.constant(np.nan, dtype)) for _ in range(8)]  # memory that the op may get
        del full_of_nan
    reserve_space = from_forward(config, dtype)["reserve_space"]
    assert np.isfinite(tf.cast(reserve_space, tf.float64)).all()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("mode", MODES)
def test_reserve_space_of_another_size_is_rejected(mode, version):
    config = Config(rnn_mode=mode, num_layers=2, dropout=0.5)
    right = from_forward(config, version=version)["reserve_space"].numpy()
    for wrong in (right[:0], right[:1], right[:-1], right[: right.size // 2], np.concatenate([right, right[:1]])):
        assert_rejected(config, {"reserve_space": wrong}, version=version)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", MODES)
def test_reserve_space_not_from_a_forward_pass_is_rejected(mode, dtype):
    config = Config(rnn_mode=mode, num_layers=2, dropout=0.5)
    right = from_forward(config, dtype, "")["reserve_space"].numpy()
    for wrong in (np.zeros_like(right), np.ones_like(right), np.roll(right, 1)):
        assert_rejected(config, {"reserve_space": wrong}, dtype, "")


@needs_gpu
@pytest.mark.parametrize("version", ["V2", "V3"])
@pytest.mark.parametrize("host_reserved", [5, [1, 2, 3], [[7]], [0] * 256, [1] * 256], ids=str)
def test_host_reserved_not_from_a_forward_pass_is_rejected(host_reserved, version):
    wrong = {"host_reserved": tf.constant(host_reserved, tf.int8)}
    assert_rejected(Config(num_layers=2), wrong, version=version)


@needs_gpu
@pytest.mark.parametrize("version", ["V2", "V3"])
def test_without_host_reserved_reserve_space_is_checked_itself(version):
    config, nothing = Config(num_layers=2), {"host_reserved": tf.zeros([0], tf.int8)}
    for actual, expected in zip(
        backprop(config, version=version, **nothing), backprop(config, version=version), strict=True
    ):
        np.testing.assert_array_equal(actual, expected)
    other = from_forward(Config(num_layers=3), version=version)["reserve_space"]
    assert_rejected(config, {"reserve_space": other, **nothing}, version=version)


@needs_gpu
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", MODES)
def test_reserve_space_of_another_device_is_rejected(mode, dtype, version):
    config = Config(rnn_mode=mode, num_layers=2)
    assert_rejected(config, from_forward(config, dtype, version, CPU_OPS), dtype, version, OPS)
    assert_rejected(config, from_forward(config, dtype, version, OPS), dtype, version, CPU_OPS)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("mode", MODES)
def test_reserve_space_of_inference_is_empty_and_rejected(mode, version):
    config = Config(rnn_mode=mode, num_layers=2, dropout=0.5)
    of_inference = from_forward(config, version=version, is_training=False)
    assert of_inference["reserve_space"].shape == (0,)
    assert_rejected(config, of_inference, version=version)


@pytest.mark.parametrize("version", VERSIONS)
def test_reserve_space_of_another_call_of_the_same_configuration_is_accepted(version):
    config = Config(num_layers=2)
    actual = backprop(config, version=version, **from_forward(config, version=version))
    for a, b in zip(actual, backprop(config, version=version), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("version", VERSIONS)
def test_reserve_space_can_be_copied_through_host_memory(version):
    config = Config(num_layers=2, dropout=0.5)
    inputs, gradients = inputs_and_gradients(config, "float32")
    outputs = run_forward(config, inputs, version, OPS)
    copied = outputs.reserve_space.numpy().copy()
    results = [
        run_backprop(config, inputs, outputs, gradients, version, OPS, reserve_space=each)
        for each in (outputs.reserve_space, copied)
    ]
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)
