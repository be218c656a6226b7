"""Selects the device of the tests in tests/gpu: a GPU, or another device to test the tests themselves.

The environment variable TF_RNN_OPS_TEST_DEVICE has the TensorFlow name of the device. With `CPU:0`, the tests run
without a GPU. If it is not set, they run on the first GPU; they are skipped if TensorFlow finds no GPU or the GPU
library is not loaded. If it is set, the device must exist, and for a GPU the library must load.

If it does not name a GPU, TF_RNN_OPS_GPU is 0 by default in all tests.
"""

import os

import pytest
import tensorflow as tf

VARIABLE = "TF_RNN_OPS_TEST_DEVICE"
NAMED = os.environ.get(VARIABLE)
DEVICE = NAMED or "GPU:0"
KIND = DEVICE.partition(":")[0]
IS_GPU = KIND == "GPU"
# Also for processes that the tests start.
os.environ.setdefault("TF_RNN_OPS_GPU", "1" if NAMED and IS_GPU else "0")

import tf_rnn_ops  # noqa: E402  # reads the variable

needs_gpu = pytest.mark.skipif(not IS_GPU, reason=f"requires a GPU, but {VARIABLE} is {DEVICE}")


def require() -> None:
    """Skips the current test if its device is missing, or ends the run if TF_RNN_OPS_TEST_DEVICE names the device."""
    missing = what_is_missing()
    if missing and NAMED:
        pytest.exit(f"{VARIABLE} is {NAMED}, but {missing}", returncode=1)
    if missing:
        pytest.skip(missing)
    if not IS_GPU:
        # TensorFlow has no such kernels on the CPU: compare with ours under the same op names.
        tf_rnn_ops.enable_builtin_kernels()


def what_is_missing() -> str | None:
    """Returns why the tests cannot run on their device, or None if they can."""
    if not tf.config.list_physical_devices(KIND):
        return f"TensorFlow finds no {KIND}"
    why_not = tf_rnn_ops._gpu_kernels.why_not_loaded()
    return f"the GPU library is not loaded: {why_not}" if IS_GPU and why_not else None


def assert_on(device: str, tensors) -> None:
    """Asserts that a device computed the tensors (any structure) and that floating tensors are in its memory."""
    for each in tf.nest.flatten(tensors):
        assert each.device.endswith(device), f"a result is from {each.device}"
        if each.dtype.is_floating:
            assert each.backing_device.endswith(device), f"a result is in the memory of {each.backing_device}"


class OpsOn:
    """A module of raw ops that run on a device. TensorFlow moves an op elsewhere if the device has no kernel.

    Args:
      device: the device.
      raw_ops: the module.
    """

    def __init__(self, device: str, raw_ops):
        self._device = device
        self._raw_ops = raw_ops

    def __getattr__(self, name):
        op = getattr(self._raw_ops, name)

        def run(**arguments):
            with tf.device(self._device):
                outputs = op(**arguments)
            if tf.executing_eagerly():
                assert_on(self._device, outputs)
            return outputs

        return run


OPS = OpsOn(DEVICE, tf_rnn_ops.raw_ops)
# Includes the ops without a built-in counterpart.
LIBRARY = OpsOn(DEVICE, tf_rnn_ops._library.ops)
BUILTIN_OPS = OpsOn(DEVICE, tf.raw_ops)
CPU_OPS = OpsOn("CPU:0", tf_rnn_ops.raw_ops)
