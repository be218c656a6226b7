"""Memory usage of the ops on a GPU: it is constant across steps, and running out of memory is an error, not a crash."""

import ctypes
import dataclasses
import functools
import pathlib
import resource

import pytest
import tensorflow as tf
from checks.cudnn_rnn import run_backprop, run_forward, tensors
from environment import processes
from environment.devices import DEVICE, OPS, needs_gpu
from inputs import cudnn_rnn as cudnn_rnn_inputs
from inputs import gru_block_cell as gru_inputs
from inputs.cudnn_rnn import MODES, Config

pytestmark = pytest.mark.gpu

MEBI = 2**20
CONFIG = Config(num_layers=2, direction="bidirectional", num_units=64, input_size=64, time=20, batch=16, dropout=0.5)


def network_step(mode: str):
    """Returns a function that runs a network with dropout forward and backward."""
    config = dataclasses.replace(CONFIG, rnn_mode=mode)
    with tf.device(DEVICE):
        inputs, weights = map(tensors, cudnn_rnn_inputs.inputs_and_gradients(config, "float32"))

    def step():
        return run_backprop(config, inputs, run_forward(config, inputs, raw_ops=OPS), weights, raw_ops=OPS)

    return step


def gru_block_cell_step():
    """Returns a function that runs a GRU cell forward and backward."""
    size = (16, 64, 64)
    with tf.device(DEVICE):
        inputs = tensors(gru_inputs.cell_inputs(size, "float32"))

    def step():
        gates = OPS.GRUBlockCell(**inputs)
        return OPS.GRUBlockCellGrad(**inputs, r=gates.r, u=gates.u, c=gates.c, d_h=gates.h)

    return step


STEPS = {**{mode: functools.partial(network_step, mode) for mode in MODES}, "GRUBlockCell": gru_block_cell_step}
every_step = pytest.mark.parametrize("make_step", STEPS.values(), ids=STEPS.keys())


def run(step, times: int) -> None:
    """Runs a step many times, discards the results and synchronizes."""
    for _ in range(times):
        step()
    tf.test.experimental.sync_devices()


@needs_gpu
@every_step
def test_memory_of_tensorflows_allocator_is_constant(make_step):
    step = make_step()
    run(step, 20)
    before = tf.config.experimental.get_memory_info(DEVICE)
    run(step, 1000)
    after = tf.config.experimental.get_memory_info(DEVICE)
    assert after["current"] == before["current"]
    # The host can be further ahead of the device than before.
    assert after["peak"] <= 1.1 * before["peak"]


def host_bytes() -> int:
    """Returns the host memory of this process in bytes."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@every_step
def test_host_memory_is_constant(make_step):
    """Detects leaks of descriptors, handles and plans."""
    step = make_step()
    run(step, 100)
    before = host_bytes()
    run(step, 1000)
    assert host_bytes() - before < 16 * MEBI


def free_device_bytes() -> int:
    """Returns the free memory of the device in bytes."""
    driver = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    index = int(DEVICE.partition(":")[2])
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), index) == 0
    assert driver.cuCtxPushCurrent_v2(context) == 0
    assert driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
    assert driver.cuCtxPopCurrent_v2(ctypes.byref(context)) == 0
    assert driver.cuDevicePrimaryCtxRelease_v2(index) == 0
    return free.value


@needs_gpu
@every_step
def test_device_memory_is_constant(make_step):
    """Detects allocations of cuDNN and cuBLAS, which bypass TensorFlow's allocator, if nothing else uses the GPU."""
    step = make_step()
    run(step, 100)
    before = free_device_bytes()
    run(step, 1000)
    assert before - free_device_bytes() < 16 * MEBI


@needs_gpu
@pytest.mark.parametrize("time", [1000, 40000])
def test_out_of_memory_does_not_affect_later_calls(time):
    """Of 256 MiB, the output takes 16 MiB and the data kept for backprop 400 MiB, or the output takes 640 MiB."""
    printed = processes.run_code(
        """
        import sys
        import tensorflow as tf
        (gpu, *_) = tf.config.list_physical_devices("GPU")
        limit = tf.config.LogicalDeviceConfiguration(memory_limit=256)
        tf.config.set_logical_device_configuration(gpu, [limit])
        import tf_rnn_ops

        LAYERS, UNITS, BATCH = 4, 64, 64
        PARAMS_SIZE = 4 * UNITS * ((1 + UNITS + 2) + (LAYERS - 1) * (UNITS + UNITS + 2))

        def output(time):
            with tf.device("GPU:0"):
                state = tf.zeros([LAYERS, BATCH, UNITS])
                return tf_rnn_ops.raw_ops.CudnnRNNV3(
                    input=tf.zeros([time, BATCH, 1]),
                    input_h=state,
                    input_c=state,
                    params=tf.zeros([PARAMS_SIZE]),
                    sequence_lengths=tf.fill([BATCH], time),
                ).output

        # TensorFlow waits 10 s before it reports that memory is used up.
        for _ in range(2):
            try:
                output(int(sys.argv[1]))
            except tf.errors.ResourceExhaustedError:
                print("ResourceExhaustedError")
            assert (output(10).numpy() == 0).all()
        """,
        str(time),
    )
    assert printed.splitlines() == ["ResourceExhaustedError"] * 2
