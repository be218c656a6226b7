"""The GPU kernel library on a machine without a GPU: when it is loaded, and the kernels that it registers."""

import json
import os
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from checks.cudnn_rnn import all_results, run_backprop, run_forward
from environment import forked, processes
from environment.package_files import copy_package, in_copy
from inputs import cudnn_rnn as cudnn_rnn_inputs
from inputs import gru_block_cell as gru_inputs
from inputs.cudnn_rnn import DTYPES, MODES, Config

import tf_rnn_ops
from tf_rnn_ops import __main__ as bug_report
from tf_rnn_ops import _gpu_kernels, _library

VARIABLE = "TF_RNN_OPS_GPU"


# ---------------------------------------------------------------- when it is loaded


@pytest.fixture
def load(monkeypatch, tmp_path):
    """A function that sets TF_RNN_OPS_GPU, imports the package and returns whether the GPU library was loaded."""
    driver_files = tmp_path / "dev"
    driver_files.mkdir()
    monkeypatch.setattr(_gpu_kernels, "_DRIVER_FILES", [str(driver_files / "nvidia[0-9]*")])
    monkeypatch.setattr(_gpu_kernels, "_why_not_loaded", "not yet")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def initialize_cuda(*_):
        pytest.fail("this initializes CUDA, which then fails in forked child processes")

    monkeypatch.setattr(tf.config, "list_physical_devices", initialize_cuda)

    def load(value, gpus=0, built_with_cuda=True, times=1):
        for name in ["nvidiactl", *(f"nvidia{gpu}" for gpu in range(gpus))]:
            (driver_files / name).touch()
        loaded = []
        monkeypatch.setattr(_library, "load", loaded.append)
        monkeypatch.setattr(tf.test, "is_built_with_cuda", lambda: built_with_cuda)
        if value is None:
            monkeypatch.delenv(VARIABLE, raising=False)
        else:
            monkeypatch.setenv(VARIABLE, value)
        for _ in range(times):
            _gpu_kernels.load_if_wanted()
        assert loaded in ([], [_library.GPU_KERNELS_PATH])
        assert (_gpu_kernels.why_not_loaded() is None) == bool(loaded)
        return bool(loaded)

    return load


BY_DEFAULT = (None, "", "auto")
# Values of TF_RNN_OPS_GPU, number of GPUs, CUDA_VISIBLE_DEVICES, whether TensorFlow is built with CUDA, and why the
# library is then not loaded.
SITUATIONS = [
    (BY_DEFAULT, 0, None, True, "no NVIDIA GPU was found: no"),
    (BY_DEFAULT, 1, None, True, None),
    (BY_DEFAULT, 2, None, True, None),
    (BY_DEFAULT, 1, "0", True, None),
    (BY_DEFAULT, 1, "", True, "CUDA_VISIBLE_DEVICES hides all GPUs"),
    (BY_DEFAULT, 1, "-1", True, "CUDA_VISIBLE_DEVICES hides all GPUs"),
    (BY_DEFAULT, 1, None, False, "this TensorFlow is built without CUDA"),
    (["0"], 0, None, True, "the environment variable TF_RNN_OPS_GPU is 0"),
    (["0"], 1, None, True, "the environment variable TF_RNN_OPS_GPU is 0"),
    (["1"], 0, None, True, None),
    (["1"], 1, None, True, None),
]


@pytest.mark.parametrize(
    ("value", "gpus", "visible", "built_with_cuda", "why_not"),
    [(value, *others) for values, *others in SITUATIONS for value in values],
)
def test_when_it_is_loaded(monkeypatch, load, value, gpus, visible, built_with_cuda, why_not):
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert load(value, gpus, built_with_cuda) == (why_not is None)
    assert why_not is None or _gpu_kernels.why_not_loaded().partition(" file /")[0] == why_not


@pytest.mark.parametrize("value", BY_DEFAULT)
def test_is_not_loaded_by_default_from_a_build_without_it(monkeypatch, load, value, recwarn):
    monkeypatch.setattr(_library, "GPU_KERNELS_PATH", pathlib.Path("/none/libtf_rnn_ops_gpu.so"))
    assert not load(value, gpus=1)
    assert _gpu_kernels.why_not_loaded() == _gpu_kernels._HAS_NO_LIBRARY
    assert not recwarn


@pytest.mark.parametrize("value", ["2", "yes", "AUTO", " 1", "01"])
def test_any_other_value_is_rejected(load, value):
    with pytest.raises(
        ValueError, match=rf"^the environment variable {VARIABLE} must be 0 .*, 1 .*, auto or unset .*, but is '"
    ):
        load(value, gpus=1)


def test_the_import_rejects_any_other_value():
    ended = forked.run("import tf_rnn_ops", TF_RNN_OPS_GPU="yes")
    assert ended.status == 1
    message = ended.last_line
    assert message.startswith(f"ValueError: the environment variable {VARIABLE} must be ")
    assert message.endswith("but is 'yes'.")


def test_a_second_load_does_nothing(load):
    assert load("auto", gpus=1, times=2)


def test_loading_it_again_after_tensorflow_has_no_effect():
    process = processes.run_python(
        "-c",
        """
import sys
import tensorflow as tf
tf.load_op_library(sys.argv[1])
tf.load_op_library(sys.argv[2])
import tf_rnn_ops
for name in [name for name in sys.modules if name.startswith("tf_rnn_ops")]:
    if "gradients" not in name:
        del sys.modules[name]
import tf_rnn_ops
print(tf_rnn_ops._gpu_kernels.why_not_loaded())
""",
        str(_library.LIBRARY_PATH),
        str(_library.GPU_KERNELS_PATH),
        TF_RNN_OPS_GPU="1",
        TF_CPP_MIN_LOG_LEVEL="0",
    )
    assert process.returncode == 0, process.stderr[-2000:]
    assert process.stdout == "None\n"
    assert "already has a kernel" not in process.stderr


@pytest.mark.parametrize(("value", "loads"), [("", True), ("auto", True), ("0", False)])
def test_the_import_loads_the_library(value, loads, tmp_path):
    (tmp_path / "nvidia0").touch()
    printed = forked.run_code(
        """
        import sys
        import tensorflow as tf
        tf.test.is_built_with_cuda = lambda: True
        import glob
        find = glob.glob
        glob.glob = lambda pattern: find(pattern.replace("/dev", sys.argv[2]))
        import tf_rnn_ops
        print(tf_rnn_ops._gpu_kernels.why_not_loaded() is None, sys.argv[1] in open("/proc/self/maps").read())
        """,
        _library.GPU_KERNELS_PATH.name,
        str(tmp_path),
        TF_RNN_OPS_GPU=value,
        CUDA_VISIBLE_DEVICES="0",
    )
    assert printed == f"{loads} {loads}\n"


# ---------------------------------------------------------------- if it cannot be loaded


def with_copy(folder):
    """Returns the environment of a process that imports a copy of the package with TF_RNN_OPS_GPU=1."""
    # TensorFlow may be on the path, too.
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    return {"PYTHONPATH": path, VARIABLE: "1"}


def import_with_a_warning(folder):
    """Imports a copy of the package and runs an op. Returns the warning."""
    code = """
import json, warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import tf_rnn_ops
x = [[1.0]]
h = tf_rnn_ops.raw_ops.GRUBlockCell(x=x, h_prev=x, w_ru=[[0.0] * 2] * 2, w_c=x * 2, b_ru=[0.0] * 2, b_c=[0.0]).h
assert 0.5 < h.numpy() < 1
print(json.dumps([[str(each.message), each.category.__name__, each.filename] for each in caught
                  if "tf_rnn_ops" in str(each.message)]))
print(tf_rnn_ops._gpu_kernels.why_not_loaded())
"""
    warned, why_not = forked.run_code(code, **with_copy(folder)).splitlines()
    ((message, category, filename),) = json.loads(warned)
    assert category == "RuntimeWarning"
    assert filename == "<string>"
    assert message == f"tf_rnn_ops runs on the CPU only: {why_not}"
    return message


def test_a_missing_library_is_a_warning(tmp_path):
    path = in_copy(copy_package(tmp_path), _library.GPU_KERNELS_PATH)
    path.unlink()
    assert f"this build of tf_rnn_ops has no GPU library ({path} does not exist)." in import_with_a_warning(tmp_path)
    printed = forked.run_code(forked.COMMAND, **with_copy(tmp_path))
    assert re.search(rf"GPU library +not loaded: this build .* has no GPU library \({path} does not exist\)", printed)


def test_a_broken_library_is_a_warning(tmp_path):
    path = in_copy(copy_package(tmp_path), _library.GPU_KERNELS_PATH)
    path.write_bytes(b"not a library")
    assert f"{path} is not a library (13 bytes): reinstall the package." in import_with_a_warning(tmp_path)


# ---------------------------------------------------------------- registered kernels


@pytest.fixture(scope="module")
def kernels():
    """The registered kernels of our ops and of their tf.raw_ops counterparts with the library, by op name."""
    printed = forked.run_code(
        """
        import json
        import tensorflow as tf
        import tf_rnn_ops
        from tensorflow.python.framework import kernels
        from tf_rnn_ops import _library

        def registered(op):
            return [
                {
                    "device": kernel.device_type,
                    "types": {
                        each.name: [tf.as_dtype(value).name for value in each.allowed_values.list.type]
                        for each in kernel.constraint
                    },
                    "host": sorted(kernel.host_memory_arg),
                    "priority": kernel.priority,
                }
                for kernel in kernels.get_registered_kernels_for_op(op).kernel
            ]

        names = _library.op_names()
        print(json.dumps({name: registered(name) for op in names for name in ("TfRnnOps>" + op, op)}))
        """,
        TF_RNN_OPS_GPU="1",
    )
    return json.loads(printed)


def for_device(kernels, device):
    return [each for each in kernels if each["device"] == device]


def types_of(kernels, attr):
    return sorted(name for each in kernels for name in each["types"].get(attr, []))


HALVES = ["bfloat16", "float16"]
OPS = _library.op_names()
# Ops that always run on the CPU.
CPU_OPS = [op for op, facts in _library.op_table().items() if "GPU" not in facts.devices]
# Ops without a counterpart in tf.raw_ops, and an op with the same memory types.
OURS_ALONE = {"GRUBlockCellGradV2": "GRUBlockCellGrad", "AlignTensor": "GRUBlockCell"}
# Ops without a counterpart in tf.raw_ops, and their arguments in host memory.
HOST_ARGUMENTS = {
    "CudnnRNNBackpropGrad": ["sequence_lengths"],
    "CudnnRNNDropoutMasks": ["sequence_lengths"],
    "StatelessCudnnRNN": ["host_reserved", "seed", "sequence_lengths"],
}
GPU_OPS = [op for op in OPS if op not in CPU_OPS]


@pytest.mark.parametrize("device", ["CPU", "GPU"])
@pytest.mark.parametrize("op", OPS)
def test_every_op_and_dtype_has_a_kernel(kernels, op, device):
    registered = for_device(kernels["TfRnnOps>" + op], device)
    if device == "GPU" and op in CPU_OPS:
        assert registered == []
    elif op == "CudnnRNNParamsSize":
        assert types_of(registered, "S") == ["int32", "int64"]
        assert types_of(registered, "T") == []  # for all types
    else:
        masks = ["bool"] if (op, device) == ("AlignTensor", "CPU") else []
        assert types_of(registered, "T") == (HALVES if "Mixed" in op else sorted([*DTYPES, *masks]))


@pytest.mark.parametrize("op", GPU_OPS)
def test_gpu_kernels_have_the_same_host_memory_arguments_as_tf_raw_ops(kernels, op):
    """An argument in the wrong memory would be an invalid address."""
    ours, twins = (for_device(kernels[name], "GPU") for name in ("TfRnnOps>" + op, op))
    assert len({tuple(each["host"]) for each in ours}) == 1
    if op in HOST_ARGUMENTS:
        assert all(each["host"] == HOST_ARGUMENTS[op] for each in ours)
        return
    if op in OURS_ALONE:
        twins = for_device(kernels[OURS_ALONE[op]], "GPU")
    if not tf.test.is_built_with_cuda():
        pytest.skip("this TensorFlow has no kernels for GPUs")
    assert {tuple(each["host"]) for each in ours} == {tuple(each["host"]) for each in twins}
    assert {each["priority"] for each in ours} == {each["priority"] for each in twins}


@pytest.mark.parametrize("op", OPS)
def test_cpu_kernels_have_no_host_memory_arguments(kernels, op):
    """All memory of a CPU is host memory. On CPU:1, TensorFlow mixes up such arguments between threads, or hangs. Its
    own ops Fill and Reshape have this bug."""
    assert all(each["host"] == [] for each in for_device(kernels["TfRnnOps>" + op], "CPU"))


# ---------------------------------------------------------------- the CPU kernels with the library loaded


def run_on_the_cpu():
    """Returns results of ops and of a layer on the CPU as float64 arrays, by name."""
    results = {}
    with tf.device("CPU:0"):
        for mode in MODES:
            for dtype in DTYPES:
                config = Config(rnn_mode=mode, num_layers=2, direction="bidirectional", num_units=20)
                inputs, gradients = cudnn_rnn_inputs.inputs_and_gradients(config, dtype)
                outputs = run_forward(config, inputs)
                of_network = all_results(outputs, run_backprop(config, inputs, outputs, gradients))
                results |= {f"{mode} {dtype} {name}": value for name, value in of_network.items()}
        step = tf_rnn_ops.raw_ops.GRUBlockCell(**gru_inputs.cell_inputs((3, 4, 5), "float32"))
        results |= {f"GRUBlockCell {name}": value.numpy() for name, value in step._asdict().items()}
        layer = tf_rnn_ops.layers.CudnnLSTM(5, kernel_initializer="ones", recurrent_initializer="ones")
        results["layer"] = layer(np.ones([2, 3, 4], "float32")).numpy()
    return {name: parity.to_float64(value) for name, value in results.items()}


def test_cpu_kernels_give_the_same_results_with_the_library(tmp_path):
    files = {value: tmp_path / f"{value}.npz" for value in "01"}
    for value, file in files.items():
        forked.run_code(
            """
            import sys
            import numpy as np
            import test_gpu_library
            np.savez(sys.argv[1], **test_gpu_library.run_on_the_cpu())
            """,
            str(file),
            TF_RNN_OPS_GPU=value,
            **processes.importing(pathlib.Path(__file__).parent),
        )
    without, with_library = (dict(np.load(files[value])) for value in "01")
    assert without.keys() == with_library.keys()
    assert len(without) > 100
    for name, value in without.items():
        np.testing.assert_array_equal(with_library[name], value, err_msg=name)


# ---------------------------------------------------------------- python -m tf_rnn_ops


def test_report_of_a_loaded_library():
    printed = forked.run_code(forked.COMMAND, TF_RNN_OPS_GPU="1")
    assert re.search(rf"^ +GPU library +loaded: {_library.GPU_KERNELS_PATH}$", printed, re.MULTILINE)
    assert re.search(rf"^ +{VARIABLE} +1$", printed, re.MULTILINE)
    opened = re.findall(
        r"^ +NVIDIA library +(\S+?):? (version [\d.]+, /\S+|cannot be opened: .+)$", printed, re.MULTILINE
    )
    assert {"libcuda.so.1", "libcudnn.so.9", "libcublas.so.12"} <= {name for name, _ in opened}
    for op in OPS:
        for device in ("CPU", "GPU") if op in GPU_OPS else ("CPU",):
            dtypes = " ".join(HALVES) if "Mixed" in op else "bfloat16 (bool )?float16 float32 float64"
            assert re.search(rf"^ +{op} +{device} +{dtypes}$", printed, re.MULTILINE)


def test_report_of_a_library_that_is_not_loaded():
    printed = forked.run_code(forked.COMMAND, TF_RNN_OPS_GPU="0")
    assert re.search(rf"^ +GPU library +not loaded: the environment variable {VARIABLE} is 0$", printed, re.MULTILINE)
    assert "NVIDIA library" not in printed
    assert not re.search(r"^ +\w+ +GPU +", printed.partition("\nKernels\n")[2], re.MULTILINE)


def test_report_if_the_variable_is_not_set():
    printed = forked.run_code(forked.COMMAND, TF_RNN_OPS_GPU="", CUDA_VISIBLE_DEVICES="")
    assert re.search(r"^ +GPU library +not loaded: CUDA_VISIBLE_DEVICES hides all GPUs$", printed, re.MULTILINE)
    assert re.search(rf"^ +{VARIABLE} +not set$", printed, re.MULTILINE)


def test_report_names_the_gpus_that_tensorflow_sees(monkeypatch):
    details = {
        "GPU:0": {"device_name": "NVIDIA H200", "compute_capability": (9, 0)},
        "GPU:1": {},
    }
    gpus = [tf.config.PhysicalDevice(f"/physical_device:{name}", "GPU") for name in details]
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus)
    monkeypatch.setattr(
        tf.config.experimental, "get_device_details", lambda gpu: details[gpu.name.removeprefix("/physical_device:")]
    )
    seen = dict(bug_report.devices())["GPUs visible to TensorFlow"]
    assert seen == "2; NVIDIA H200, compute capability 9.0; unknown name, compute capability unknown"
