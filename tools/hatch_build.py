"""Builds the libraries with Bazel and puts them into the wheel."""

import importlib.util
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

# The CPU engine and the handlers for XLA: one file for all TensorFlow versions. Each version's XLA takes handlers built
# for an older one.
_ENGINE = "libtf_rnn_ops_engine.so"
_FFI_LIBRARY = "libtf_rnn_ops_ffi.so"
_SHARED_LIBRARIES = (_ENGINE, _FFI_LIBRARY)


class _Part(NamedTuple):
    """Libraries that are in the wheel together or not at all."""

    name: str
    libraries: tuple[str, ...]
    # Bazel's targets with the code that depends on TensorFlow's headers.
    adapters: tuple[str, ...]

    def targets(self) -> tuple[str, ...]:
        """Returns Bazel's targets of the libraries."""
        return tuple(f"//:{library}" for library in self.libraries)


# Kernels with which XLA compiles the ops.
_XLA = _Part(
    "XLA", ("libtf_rnn_ops_xla.so", _FFI_LIBRARY), ("//cc/ffi:handlers", "//cc/tensorflow/xla:registered_kernels")
)
# GPU kernels. Built only where their compiler, NVRTC, is a build requirement.
_GPU = _Part(
    "GPU",
    ("libtf_rnn_ops_gpu.so",),
    ("//cc/gpu:cublas", "//cc/gpu:cuda_driver", "//cc/gpu:cudnn", "//cc/tensorflow/kernels/gpu:registered_kernels"),
)
_GPU_MACHINE = "x86_64"
# Our own ops, and kernels for TensorFlow's ops. Every build has them.
_OPS = _Part(
    "op",
    ("libtf_rnn_ops.so", "libtf_rnn_ops_builtin_kernels.so", _ENGINE),
    (
        "//cc/tensorflow/kernels",
        "//cc/tensorflow/kernels/cpu:registered_kernels",
        "//cc/tensorflow/kernels/cpu:registered_builtin_kernels",
        "//cc/tensorflow/ops",
    ),
)
# In the order in which a new TensorFlow is likely to break them.
_PARTS = (_XLA, _GPU, _OPS)
# Bazel's exit status if a target does not compile.
_DOES_NOT_COMPILE = 1
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

    @property
    def folder(self) -> str:
        """Returns the folder of its libraries in the package, such as "tensorflow_2_21"."""
        return "_".join(["tensorflow", *map(str, self.minor_version)])

    def why_not(self, part: _Part) -> str | None:
        """Returns why a part cannot be built for this TensorFlow and its machine, or None."""
        if part is _XLA:
            return self._why_not_xla()
        return self._why_not_gpu() if part is _GPU else None

    def _why_not_xla(self) -> str | None:
        for name, declaration in _XLA_DECLARATIONS.items():
            header = self.headers / name
            if not header.is_file() or declaration not in header.read_text():
                return f"{name} of TensorFlow {self.version} does not declare {declaration}"
        return None

    def _why_not_gpu(self) -> str | None:
        if self.machine != _GPU_MACHINE:
            return f"it requires {_GPU_MACHINE}"
        if not (self.headers / _CUDA_HEADER).is_file():
            return f"TensorFlow {self.version} is a CPU-only build"
        return None


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


def _has_tensorflow(python: str) -> bool:
    """Returns whether an interpreter has TensorFlow, without the seconds that an import takes."""
    script = "import importlib.util, sys; sys.exit(importlib.util.find_spec('tensorflow') is None)"
    return subprocess.run([python, "-c", script], env=_build_environment(python), check=False).returncode == 0


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


class Metadata(MetadataHookInterface):
    """Hatchling's hook: see https://hatch.pypa.io/latest/plugins/metadata-hook/reference."""

    def update(self, metadata):
        """Adds an extra for each distribution of TensorFlow, and README.md as a page without the repository's files."""
        oldest, *_, newest = self.config["tensorflow-versions"]
        major, minor = newest.split(".")
        range_ = f">={oldest},<{major}.{int(minor) + 1}"
        metadata["optional-dependencies"] = {name: [name + range_] for name in ("tensorflow", "tensorflow-cpu")}
        text = (pathlib.Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": _without_relative_links(text)}


def _without_relative_links(text: str) -> str:
    """Returns Markdown without comments, and without pictures, guides and other links that are files."""
    is_file = r"\((?!https?:)[^)]*\)"
    text = re.sub(rf"!\[[^\]]*\]{is_file}\n*|<!--.*?-->\n*|\s\(\[guide\]{is_file}\)", "", text)
    return re.sub(rf"\[([^\]]*)\]{is_file}", r"\1", text)


class BazelBuildHook(BuildHookInterface):
    """Hatchling's hook: see https://hatch.pypa.io/latest/plugins/build-hook/reference."""

    def dependencies(self):
        """Returns TensorFlow as a build requirement if the interpreter has none, as in isolated builds with uv."""
        if os.environ.get(_PYTHON_VARIABLE) or _has_tensorflow(sys.executable):
            return []
        return self.metadata.core.optional_dependencies["tensorflow"]

    def initialize(self, version, build_data):
        """Builds the libraries and adds them to the wheel."""
        root = pathlib.Path(self.root)
        folder = root / "build" / "wheel-files"
        shutil.rmtree(folder, ignore_errors=True)
        tensorflows = _find_tensorflows()
        newest = tensorflows[-1]
        # By library: why the wheel does not have it, and the line about it at the end of the build.
        self._left_out = {}
        # The newest first: it is the most likely to fail. The oldest last: the wheel has its shared libraries.
        for tensorflow in reversed(tensorflows):
            self._build(tensorflow, folder)
        reasons = {library: reason for library, (reason, _) in self._left_out.items()}
        (folder / "_build_info.py").write_text(
            '"""How the libraries were built."""\n\n'
            f"TENSORFLOW_VERSIONS = {tuple(each.version for each in tensorflows)!r}\n"
            f"COMPILER = {_compiler(newest.machine)!r}\n"
            f"LEFT_OUT = {reasons!r}\n"
        )
        if (root / "PKG-INFO").exists() and not (root / ".venv").exists():
            # An unpacked source distribution, built once: stop Bazel's server and delete gigabytes of its cache.
            subprocess.run([root / "tools/bazel.sh", "clean", "--expunge"], check=False)
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{re.sub('[^a-z0-9_]', '_', newest.platform.lower())}"
        build_data["force_include"][str(folder)] = "tf_rnn_ops"

    def finalize(self, version, build_data, artifact_path):
        """Says at the end of the build which libraries the wheel does not have."""
        for line in dict.fromkeys(line for _, line in self._left_out.values()):
            self.app.display_warning(line)

    def _build(self, tensorflow: _TensorFlow, folder: pathlib.Path) -> None:
        """Builds the libraries for one TensorFlow and copies them to their folders in the package."""
        parts = []
        for part in _PARTS:
            why_not = tensorflow.why_not(part)
            if why_not:
                self._leave_out(tensorflow, part, why_not)
            else:
                parts.append(part)
        # First only the objects of the adapters, to find errors before the engine is compiled, which takes minutes.
        objects = "--output_groups=compilation_outputs"
        parts = [part for part in parts if self._compile(tensorflow, [part], lambda part: part.adapters, objects)]
        # The op libraries include the engine, to which the others link.
        together = [parts] if self._is_supported(tensorflow) else [[part] for part in reversed(parts)]
        parts = [part for each in together if self._compile(tensorflow, each, _Part.targets) for part in each]
        of_tensorflow = folder / tensorflow.folder
        of_tensorflow.mkdir(parents=True)
        for library in (library for part in parts for library in part.libraries):
            target = (folder if library in _SHARED_LIBRARIES else of_tensorflow) / library
            shutil.copyfile(pathlib.Path(self.root) / "bazel-bin" / library, target)

    def _is_supported(self, tensorflow: _TensorFlow) -> bool:
        supported = self.metadata.hatch.metadata.hook_config["custom"]["tensorflow-versions"]
        return ".".join(map(str, tensorflow.minor_version)) in supported

    def _compile(
        self, tensorflow: _TensorFlow, parts: Sequence[_Part], targets: Callable[[_Part], Sequence[str]], *options: str
    ) -> bool:
        """Builds targets of some parts. Returns False if the wheel can do without them and they do not compile."""
        arguments = [target for part in parts for target in targets(part)]
        bazel = [f"{self.root}/tools/bazel.sh", "build", *options, *arguments]
        result = subprocess.run(bazel, env=_build_environment(tensorflow.python), check=False)
        if result.returncode != _DOES_NOT_COMPILE or _OPS in parts or self._is_supported(tensorflow):
            result.check_returncode()
            return True
        for part in parts:
            reason = f"it does not compile with TensorFlow {tensorflow.version}, which is not a supported version"
            self._leave_out(tensorflow, part, reason, " The compiler's errors are above.")
        return False

    def _leave_out(self, tensorflow: _TensorFlow, part: _Part, reason: str, hint: str = "") -> None:
        """Notes why a part is not in the wheel, for the user of the package and for the end of the build."""
        line = f"This wheel of tf_rnn_ops has no {part.name} library: {reason}.{hint}"
        self._left_out[f"{tensorflow.folder}/{part.libraries[0]}"] = reason, line
