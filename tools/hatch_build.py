"""Builds the libraries with Bazel and puts them into the wheel."""

import importlib.util
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
from typing import NamedTuple

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

# The CPU engine and the handlers for XLA: one file for all TensorFlow versions. Each version's XLA takes handlers built
# for an older one.
_ENGINE = "libtf_rnn_ops_engine.so"
_FFI_LIBRARY = "libtf_rnn_ops_ffi.so"
# Our own ops, and kernels for TensorFlow's ops.
_LIBRARIES = ("libtf_rnn_ops.so", "libtf_rnn_ops_builtin_kernels.so")
# GPU kernels. Built only where its compiler, NVRTC, is a build requirement.
_GPU_LIBRARY = "libtf_rnn_ops_gpu.so"
_GPU_MACHINE = "x86_64"
# Kernels with which XLA compiles the ops.
_XLA_LIBRARY = "libtf_rnn_ops_xla.so"
# Declarations that the two XLA libraries need. TensorFlow's headers have them since version 2.21.
_XLA_DECLARATIONS = {
    "tensorflow/compiler/tf2xla/xla_op_kernel.h": "class XlaOpKernel",
    "xla/ffi/api/c_api.h": "struct XLA_FFI_Type_Register_Args",
}
# TensorFlow includes this header if it is built for GPUs.
_CUDA_HEADER = "third_party/gpus/cuda/include/cuda.h"


# Names the Python interpreters with TensorFlow. By default, the one that runs the build.
_PYTHON_VARIABLE = "TF_RNN_OPS_PYTHON"


class _TensorFlow(NamedTuple):
    """A TensorFlow to build against."""

    python: str  # an interpreter that has it
    platform: str  # of that interpreter, such as "linux-x86_64"
    version: str
    headers: pathlib.Path

    @property
    def machine(self) -> str:
        """Returns "x86_64" for "linux-x86_64"."""
        return self.platform.rpartition("-")[2]

    @property
    def minor_version(self) -> list[int]:
        """Returns [2, 21] for "2.21.0"."""
        return [int(part) for part in self.version.split(".")[:2]]

    def libraries(self) -> list[str]:
        """Returns the libraries to build for this TensorFlow and its machine."""
        return [_ENGINE, *_LIBRARIES, *self._xla_libraries(), *self._gpu_libraries()]

    def _xla_libraries(self) -> tuple[str, ...]:
        for name, declaration in _XLA_DECLARATIONS.items():
            header = self.headers / name
            if not header.is_file() or declaration not in header.read_text():
                self._print(f"skipping the XLA libraries: {name} does not declare {declaration}")
                return ()
        return _XLA_LIBRARY, _FFI_LIBRARY

    def _gpu_libraries(self) -> tuple[str, ...]:
        if self.machine != _GPU_MACHINE:
            self._print(f"skipping the GPU library, which requires {_GPU_MACHINE}")
            return ()
        if not (self.headers / _CUDA_HEADER).is_file():
            self._print("skipping the GPU library: this TensorFlow is a CPU-only build")
            return ()
        return (_GPU_LIBRARY,)

    def _print(self, text: str) -> None:
        print(f"tf_rnn_ops for TensorFlow {self.version} ({self.python}): {text}")


def _pythons() -> list[str]:
    """Returns the interpreters with the TensorFlow versions to build against."""
    return (os.environ.get(_PYTHON_VARIABLE) or sys.executable).split(os.pathsep)


def _nvrtc_environment() -> dict[str, str]:
    """Returns TF_RNN_OPS_NVRTC, which tells Bazel the location of NVRTC. A value set by the user takes precedence.

    In an isolated build, NVRTC is not installed in the same environment as TensorFlow.
    """
    try:
        package = importlib.util.find_spec("nvidia.cuda_nvrtc")
    except ModuleNotFoundError:
        return {}
    if package is None or not package.submodule_search_locations:
        return {}
    return {"TF_RNN_OPS_NVRTC": os.environ.get("TF_RNN_OPS_NVRTC") or package.submodule_search_locations[0]}


def _build_environment(python: str) -> dict[str, str]:
    """Returns this environment without variables that hide the installed packages of the interpreter."""
    hidden = ("PYTHONPATH", "PYTHONNOUSERSITE")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    return {**environment, **_nvrtc_environment(), _PYTHON_VARIABLE: python, "TF_CPP_MIN_LOG_LEVEL": "3"}


def _find_tensorflow(python: str) -> _TensorFlow:
    script = (
        "import sysconfig, tensorflow as tf; "
        "print(sysconfig.get_platform(), tf.__version__, tf.sysconfig.get_include(), sep='\\n')"
    )
    result = subprocess.run(
        [python, "-c", script], env=_build_environment(python), capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        reason = result.stderr.strip().splitlines()[-1:]
        raise SystemExit(
            f"Building tf_rnn_ops requires TensorFlow, but {python} cannot import it ({' '.join(reason)}). "
            f"Install TensorFlow, or set {_PYTHON_VARIABLE} to another interpreter."
        )
    *_, of_python, version, headers = result.stdout.splitlines()
    return _TensorFlow(python, of_python, version, pathlib.Path(headers))


def _find_tensorflows() -> list[_TensorFlow]:
    """Returns the TensorFlow installations to build against, sorted by version."""
    tensorflows = sorted(map(_find_tensorflow, _pythons()), key=lambda each: each.minor_version)
    if len({each.platform for each in tensorflows}) > 1:
        raise SystemExit(
            f"All interpreters in {_PYTHON_VARIABLE} must have the same platform: "
            + ", ".join(f"{each.python} has {each.platform}" for each in tensorflows)
        )
    return tensorflows


def _compiler(machine: str) -> str:
    """Returns the name and version of the compiler that Bazel uses to build for a machine."""
    is_native = machine == platform.machine()
    compiler = os.environ.get("CC", "gcc") if is_native else f"{machine}-linux-gnu-gcc"  # as tools/MACHINE_gcc.sh
    result = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True)
    return result.stdout.splitlines()[0]


class TensorFlowExtras(MetadataHookInterface):
    """Hatchling's hook: see https://hatch.pypa.io/latest/plugins/metadata-hook/reference."""

    def update(self, metadata):
        """Adds an extra for each distribution of TensorFlow."""
        oldest, *_, newest = self.config["tensorflow-versions"]
        major, minor = newest.split(".")
        range_ = f">={oldest},<{major}.{int(minor) + 1}"
        metadata["optional-dependencies"] = {name: [name + range_] for name in ("tensorflow", "tensorflow-cpu")}


class BazelBuildHook(BuildHookInterface):
    """Hatchling's hook: see https://hatch.pypa.io/latest/plugins/build-hook/reference."""

    def dependencies(self):
        """Returns TensorFlow as a build requirement, for isolated builds."""
        has_tensorflow = importlib.util.find_spec("tensorflow") is not None
        if has_tensorflow or os.environ.get(_PYTHON_VARIABLE):
            return []
        return self.metadata.core.optional_dependencies["tensorflow"]

    def initialize(self, version, build_data):
        """Builds the libraries and adds them to the wheel."""
        root = pathlib.Path(self.root)
        folder = root / "build" / "wheel-files"
        shutil.rmtree(folder, ignore_errors=True)
        tensorflows = _find_tensorflows()
        newest = tensorflows[-1]
        for tensorflow in tensorflows:
            self._build(tensorflow, folder)
        (folder / "_build_info.py").write_text(
            '"""Versions that the libraries were built with."""\n\n'
            f"TENSORFLOW_VERSIONS = {tuple(each.version for each in tensorflows)!r}\n"
            f"COMPILER = {_compiler(newest.machine)!r}\n"
        )
        if (root / "PKG-INFO").exists() and not (root / ".venv").exists():
            # An unpacked source distribution, built once: stop Bazel's server and delete gigabytes of its cache.
            subprocess.run([root / "tools/bazel.sh", "clean", "--expunge"], check=False)
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{re.sub('[^a-z0-9_]', '_', newest.platform.lower())}"
        build_data["force_include"][str(folder)] = "tf_rnn_ops"

    def _build(self, tensorflow: _TensorFlow, folder: pathlib.Path) -> None:
        """Builds the libraries for one TensorFlow and copies them to their folders in the package."""
        root = pathlib.Path(self.root)
        libraries = tensorflow.libraries()
        targets = [f"//:{library}" for library in libraries]
        environment = _build_environment(tensorflow.python)
        subprocess.run([root / "tools/bazel.sh", "build", *targets], env=environment, check=True)
        of_tensorflow = folder / "_".join(["tensorflow", *map(str, tensorflow.minor_version)])
        of_tensorflow.mkdir(parents=True)
        for library in libraries:
            target = (folder if library in (_ENGINE, _FFI_LIBRARY) else of_tensorflow) / library
            if not target.exists():
                shutil.copyfile(root / "bazel-bin" / library, target)
