"""Builds the libraries with Bazel and puts them into the wheel."""

import importlib.util
import os
import pathlib
import platform
import re
import subprocess
import sys
import sysconfig

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# The op library, and that of the kernels for TensorFlow's own ops.
_LIBRARIES = ("libtf_rnn_ops.so", "libtf_rnn_ops_builtin_kernels.so")
# That of the GPU's kernels, for the machines that its compiler, NVRTC, is a build requirement on.
_GPU_LIBRARY = "libtf_rnn_ops_gpu.so"
_GPU_MACHINE = "x86_64"
# Those with which XLA compiles the ops.
_XLA_LIBRARIES = ("libtf_rnn_ops_xla.so", "libtf_rnn_ops_ffi.so")
# What they need in TensorFlow's headers: TensorFlow 2.21 and later have it.
_XLA_DECLARATIONS = {
    "tensorflow/compiler/tf2xla/xla_op_kernel.h": "class XlaOpKernel",
    "xla/ffi/api/c_api.h": "struct XLA_FFI_Type_Register_Args",
}
# Among TensorFlow's headers, if it is built for GPUs.
_CUDA_HEADER = "third_party/gpus/cuda/include/cuda.h"


def _libraries(tensorflow_headers: pathlib.Path) -> list[str]:
    """Returns the libraries to build for this machine and TensorFlow."""
    return [*_LIBRARIES, *_xla_libraries(tensorflow_headers), *_gpu_libraries(tensorflow_headers)]


def _xla_libraries(tensorflow_headers: pathlib.Path) -> tuple[str, ...]:
    for name, declaration in _XLA_DECLARATIONS.items():
        header = tensorflow_headers / name
        if not header.is_file() or declaration not in header.read_text():
            print(f"tf_rnn_ops: the libraries for XLA are not built: TensorFlow has no {declaration} in {name}")
            return ()
    return _XLA_LIBRARIES


def _gpu_libraries(tensorflow_headers: pathlib.Path) -> tuple[str, ...]:
    if platform.machine() != _GPU_MACHINE:
        print(f"tf_rnn_ops: the GPU library is not built, which is for {_GPU_MACHINE} alone")
        return ()
    if not (tensorflow_headers / _CUDA_HEADER).is_file():
        print(f"tf_rnn_ops: the GPU library is not built: {_build_python()} has a TensorFlow for CPUs alone")
        return ()
    return (_GPU_LIBRARY,)


def _build_python() -> str:
    """Returns the interpreter whose TensorFlow the library is built against."""
    return os.environ.get("TF_RNN_OPS_PYTHON") or sys.executable


def _nvrtc_environment() -> dict[str, str]:
    """Returns the variable that tells Bazel where the build requirement NVRTC is, unless it is set already.

    An isolated build has its requirements in an environment of its own, which is not that of TensorFlow.
    """
    try:
        package = importlib.util.find_spec("nvidia.cuda_nvrtc")
    except ModuleNotFoundError:
        return {}
    if package is None or not package.submodule_search_locations:
        return {}
    return {"TF_RNN_OPS_NVRTC": os.environ.get("TF_RNN_OPS_NVRTC") or package.submodule_search_locations[0]}


def _build_environment() -> dict[str, str]:
    """Returns this environment without what isolates a build from the interpreter's own packages."""
    hidden = ("PYTHONPATH", "PYTHONNOUSERSITE")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    return {
        **environment,
        **_nvrtc_environment(),
        "TF_RNN_OPS_PYTHON": _build_python(),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }


def _tensorflow() -> tuple[str, pathlib.Path]:
    """Returns the version of the TensorFlow to build against, and where its headers are."""
    script = "import tensorflow as tf; print(tf.__version__); print(tf.sysconfig.get_include())"
    result = subprocess.run(
        [_build_python(), "-c", script], env=_build_environment(), capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        reason = result.stderr.strip().splitlines()[-1:]
        raise SystemExit(
            f"tf_rnn_ops builds against the TensorFlow of {_build_python()}, which cannot import it "
            f"({' '.join(reason)}). Install TensorFlow there, or name another interpreter in TF_RNN_OPS_PYTHON."
        )
    *_, version, headers = result.stdout.splitlines()
    return version, pathlib.Path(headers)


def _compiler() -> str:
    """Returns the name and version of the compiler that Bazel uses."""
    compiler = os.environ.get("CC", "gcc")
    result = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True)
    return result.stdout.splitlines()[0]


def _platform_tag() -> str:
    """Returns the platform part of a wheel's name for a library built here."""
    return re.sub(r"[^a-z0-9_]", "_", sysconfig.get_platform().lower())


class BazelBuildHook(BuildHookInterface):
    """Hatchling's hook: see https://hatch.pypa.io/latest/plugins/build-hook/reference."""

    def initialize(self, version, build_data):
        """Builds the libraries and names the files to add to the wheel."""
        root = pathlib.Path(self.root)
        tensorflow_version, tensorflow_headers = _tensorflow()
        libraries = _libraries(tensorflow_headers)
        targets = [f"//:{library}" for library in libraries]
        subprocess.run([root / "tools/bazel.sh", "build", *targets], env=_build_environment(), check=True)
        build_info = root / "build" / "_build_info.py"
        build_info.parent.mkdir(exist_ok=True)
        build_info.write_text(
            '"""What the op library was built with."""\n\n'
            f"TENSORFLOW_VERSION = {tensorflow_version!r}\n"
            f"COMPILER = {_compiler()!r}\n"
        )
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{_platform_tag()}"
        for library in libraries:
            build_data["force_include"][str(root / "bazel-bin" / library)] = f"tf_rnn_ops/{library}"
        build_data["force_include"][str(build_info)] = "tf_rnn_ops/_build_info.py"
