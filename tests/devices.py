"""The device that the tests in tests/gpu run on: a GPU, or another one to try the tests themselves out.

The environment variable TF_RNN_OPS_TEST_DEVICE names it as TensorFlow does: with `CPU:0` they run without a GPU. If it
is not set, they run on the first GPU, and are skipped where TensorFlow sees none or the GPU library is not loaded. What
is named has to be there: for a GPU, its library is loaded.
"""

import os

import pytest
import tensorflow as tf

VARIABLE = "TF_RNN_OPS_TEST_DEVICE"
NAMED = os.environ.get(VARIABLE)
DEVICE = NAMED or "GPU:0"
KIND = DEVICE.partition(":")[0]
IS_GPU = KIND == "GPU"
if NAMED and IS_GPU:
    # Of the processes that tests start, too.
    os.environ.setdefault("TF_RNN_OPS_GPU", "1")

import tf_rnn_ops  # noqa: E402  # reads the variable

needs_gpu = pytest.mark.skipif(not IS_GPU, reason=f"means nothing on {DEVICE}, which {VARIABLE} names")


def require() -> None:
    """Skips the running test where its device is missing, or ends the run if the device was named."""
    missing = _what_is_missing()
    if missing and NAMED:
        pytest.exit(f"{VARIABLE} is {NAMED}, but {missing}", returncode=1)
    if missing:
        pytest.skip(missing)
    if not IS_GPU:
        # There, what is compared with TensorFlow's own ops can but be compared with ours under their names.
        tf_rnn_ops.enable_builtin_kernels()


def _what_is_missing() -> str | None:
    """Returns why the tests cannot run on their device, or None if they can."""
    if not tf.config.list_physical_devices(KIND):
        return f"TensorFlow sees no {KIND}"
    why_not = tf_rnn_ops.gpu_kernels.why_not_loaded()
    return f"the GPU library is not loaded: {why_not}" if IS_GPU and why_not else None


def assert_on(device: str, tensors) -> None:
    """Asserts that tensors, in any structure, are results of a device, and that those of floats are in its memory."""
    for each in tf.nest.flatten(tensors):
        assert each.device.endswith(device), f"a result is of {each.device}"
        if each.dtype.is_floating:
            assert each.backing_device.endswith(device), f"a result is in the memory of {each.backing_device}"


class OpsOn:
    """A module of raw ops, each of which runs on a device: TensorFlow moves those elsewhere that it has no kernel for.

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
# With that which has no twin.
LIBRARY = OpsOn(DEVICE, tf_rnn_ops._library.ops)
BUILTIN_OPS = OpsOn(DEVICE, tf.raw_ops)
CPU_OPS = OpsOn("CPU:0", tf_rnn_ops.raw_ops)
