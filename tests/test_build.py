"""The build hook of the wheel, tools/hatch_build.py, with stand-ins for Bazel and TensorFlow."""

import os
import pathlib
import shutil
import zipfile

import pytest
import tensorflow as tf
from environment import processes
from environment.pages import ROOT, TENSORFLOWS

from tf_rnn_ops import _library

pytest.importorskip("hatchling")

LISTED = f"{TENSORFLOWS[0]}.0"
UNKNOWN = "2.99.0"

OPS = {"libtf_rnn_ops.so", "libtf_rnn_ops_builtin_kernels.so", "libtf_rnn_ops_engine.so"}
XLA = {"libtf_rnn_ops_xla.so", "libtf_rnn_ops_ffi.so"}
GPU = {"libtf_rnn_ops_gpu.so"}
ENGINE = "//:libtf_rnn_ops_engine.so"
# Targets that the hook builds, and the libraries that an unknown TensorFlow loses if they do not compile.
OPTIONAL = {
    "//cc/ffi:handlers": XLA,
    "//cc/tensorflow/xla:registered_kernels": XLA,
    "//:libtf_rnn_ops_ffi.so": XLA,
    "//:libtf_rnn_ops_xla.so": XLA,
    "//cc/gpu:cudnn": GPU,
    "//cc/tensorflow/kernels/gpu:registered_kernels": GPU,
    "//:libtf_rnn_ops_gpu.so": GPU,
}
REQUIRED = ("//cc/tensorflow/ops", "//:libtf_rnn_ops.so")

# What the hook asks a Python interpreter about its TensorFlow.
PYTHON = """#!/bin/sh
printf '%s\\n' linux-{machine} {version} {headers}
"""
# Writes the path of the interpreter into the libraries. BROKEN are targets that fail with STATUS, for the TensorFlow in
# the folder ONLY_WITH if that is set. COMPILER is a command that compiles XLA's handlers.
BAZEL = """#!/bin/bash
shift
echo "$@" >>bazel.log
mkdir -p bazel-bin
for target in "$@"; do
  case " $BROKEN " in *" $target "*)
    [[ -z $ONLY_WITH || $TF_RNN_OPS_PYTHON == */$ONLY_WITH/* ]] && echo "ERROR: $target" >&2 && exit "${STATUS:-1}" ;;
  esac
  case $target in
    //cc/ffi:handlers) ${COMPILER:-true} || exit 1 ;;
    *.so) echo "$TF_RNN_OPS_PYTHON" >"bazel-bin/${target#*:}" ;;
  esac
done
"""
# What the hook looks for in TensorFlow's headers.
FFI_HEADER = "xla/ffi/api/c_api.h"
XLA_HEADER = "tensorflow/compiler/tf2xla/xla_op_kernel.h"
CUDA_HEADER = "third_party/gpus/cuda/include/cuda.h"
HEADERS = {
    FFI_HEADER: "struct XLA_FFI_Type_Register_Args;",
    XLA_HEADER: "class XlaOpKernel;",
    CUDA_HEADER: "",
}


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


class Project:
    """A copy of the files that the build of a wheel needs, with a stand-in for Bazel."""

    def __init__(self, folder):
        self.folder = folder
        self.pythons = []
        for name in ("pyproject.toml", "README.md", "LICENSE", "tools/hatch_build.py", "tf_rnn_ops/_version.py"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
        write(folder / "tools/bazel.sh", BAZEL)
        for machine in ("x86_64", "aarch64"):
            write(folder / f"bin/{machine}-linux-gnu-gcc", "#!/bin/sh\necho gcc")

    def add_tensorflow(self, version, headers=HEADERS, machine="x86_64"):
        """Adds a TensorFlow to build for. Returns the folder of its headers."""
        folder = self.folder.parent / version
        for name, text in headers.items():
            if text is not None:
                write(folder / name, text)
        write(folder / "python", PYTHON.format(machine=machine, version=version, headers=folder))
        self.pythons.append(f"{folder}/python")
        return folder

    def build(self, *broken, **environment):
        """Builds the wheel. Returns whether the build succeeded, and the lines that it printed on stderr."""
        process = processes.run_python(
            *("-c", "from hatchling import build; build.build_wheel('dist')"),
            cwd=self.folder,
            TF_RNN_OPS_PYTHON=os.pathsep.join(self.pythons),
            PATH=f"{self.folder}/bin{os.pathsep}{os.environ['PATH']}",
            BROKEN=" ".join(broken),
            **environment,
        )
        return process.returncode == 0, process.stderr.splitlines()

    def calls(self):
        """Returns the arguments of each call of Bazel."""
        return [line.split() for line in (self.folder / "bazel.log").read_text().splitlines()]

    def wheel(self):
        """Returns the libraries in the wheel as {path: content}, and the variables of its _build_info.py."""
        (path,) = (self.folder / "dist").glob("*.whl")
        info = {}
        with zipfile.ZipFile(path) as wheel:
            exec(wheel.read("tf_rnn_ops/_build_info.py"), info)
            names = [name for name in wheel.namelist() if name.endswith(".so")]
            return {name.removeprefix("tf_rnn_ops/"): wheel.read(name).decode() for name in names}, info


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path / "project")


def of(version, library):
    """Returns the path of a library in a wheel."""
    if library in ("libtf_rnn_ops_engine.so", "libtf_rnn_ops_ffi.so"):
        return library
    major, minor, _ = version.split(".")
    return f"tensorflow_{major}_{minor}/{library}"


def paths(version, libraries):
    return {of(version, library) for library in libraries}


def last_lines(reasons):
    """Returns the lines at the end of a build without the libraries, for a dict of reasons by name."""
    return [f"This wheel of tf_rnn_ops has no {name} library: {reason}." for name, reason in reasons.items()]


DOES_NOT_COMPILE = f"it does not compile with TensorFlow {UNKNOWN}, which is not a supported version"
SEE_ERRORS = f"{DOES_NOT_COMPILE}. The compiler's errors are above"


@pytest.mark.parametrize("version", [LISTED, UNKNOWN])
def test_a_wheel_has_all_libraries(project, version):
    project.add_tensorflow(version)
    assert project.build() == (True, [])
    libraries, info = project.wheel()
    assert set(libraries) == paths(version, OPS | XLA | GPU)
    assert info["TENSORFLOW_VERSIONS"] == (version,)
    assert info["LEFT_OUT"] == {}


def test_libraries_that_tensorflow_versions_share_are_those_of_the_oldest(project):
    for version in (UNKNOWN, LISTED):
        project.add_tensorflow(version)
    assert project.build() == (True, [])
    libraries, info = project.wheel()
    assert info["TENSORFLOW_VERSIONS"] == (LISTED, UNKNOWN)
    assert libraries == {
        of(version, library): f"{project.folder.parent / version / 'python'}\n"
        for version in (UNKNOWN, LISTED)
        for library in OPS | XLA | GPU
    }


@pytest.mark.parametrize("version", [LISTED, UNKNOWN])
def test_what_depends_on_tensorflow_is_compiled_before_the_engine(project, version):
    project.add_tensorflow(version)
    assert project.build() == (True, [])
    calls = project.calls()
    (first,) = [index for index, call in enumerate(calls) if ENGINE in call]
    before = {target for call in calls[:first] for target in call}
    assert before >= {target for target in [*OPTIONAL, *REQUIRED] if not target.endswith(".so")}
    # XLA, which is the most likely to break, comes first and alone.
    assert {each for each in calls[0] if each.startswith("//")} == {
        "//cc/ffi:handlers",
        "//cc/tensorflow/xla:registered_kernels",
    }
    # Only their own objects.
    assert all("--output_groups=compilation_outputs" in call for call in calls[:first])


@pytest.mark.parametrize("target", OPTIONAL)
def test_a_library_that_an_unknown_tensorflow_breaks_is_left_out(project, target):
    project.add_tensorflow(UNKNOWN)
    succeeded, printed = project.build(target)
    assert succeeded, printed
    libraries, info = project.wheel()
    assert set(libraries) == paths(UNKNOWN, (OPS | XLA | GPU) - OPTIONAL[target])
    name, library = ("XLA", "libtf_rnn_ops_xla.so") if OPTIONAL[target] == XLA else ("GPU", *GPU)
    assert info["LEFT_OUT"] == {of(UNKNOWN, library): DOES_NOT_COMPILE}
    assert printed == [f"ERROR: {target}", *last_lines({name: SEE_ERRORS})]


def test_a_listed_tensorflow_keeps_what_an_unknown_one_breaks(project):
    for version in (UNKNOWN, LISTED):
        project.add_tensorflow(version)
    broken = ("//cc/tensorflow/xla:registered_kernels", "//:libtf_rnn_ops_gpu.so")
    succeeded, printed = project.build(*broken, ONLY_WITH=UNKNOWN)
    assert succeeded, printed
    libraries, info = project.wheel()
    assert set(libraries) == paths(LISTED, OPS | XLA | GPU) | paths(UNKNOWN, OPS)
    assert info["LEFT_OUT"] == dict.fromkeys(
        paths(UNKNOWN, {"libtf_rnn_ops_xla.so", "libtf_rnn_ops_gpu.so"}), DOES_NOT_COMPILE
    )
    errors = [f"ERROR: {target}" for target in broken]
    assert printed == [*errors, *last_lines({"XLA": SEE_ERRORS, "GPU": SEE_ERRORS})]


@pytest.mark.parametrize(
    ("version", "target"), [(LISTED, each) for each in (*OPTIONAL, *REQUIRED)] + [(UNKNOWN, each) for each in REQUIRED]
)
def test_other_errors_end_the_build(project, version, target):
    project.add_tensorflow(version)
    succeeded, printed = project.build(target)
    assert not succeeded
    assert printed[0] == f"ERROR: {target}"
    assert not list(project.folder.glob("dist/*.whl"))


def test_an_interrupted_build_leaves_nothing_out(project):
    project.add_tensorflow(UNKNOWN)
    succeeded, _ = project.build("//cc/ffi:handlers", STATUS="8")
    assert not succeeded
    assert len(project.calls()) == 1


@pytest.mark.parametrize(
    ("headers", "machine", "name", "reason"),
    [
        ({FFI_HEADER: ""}, "x86_64", "XLA", f"{FFI_HEADER} of {{}} does not declare struct XLA_FFI_Type_Register_Args"),
        ({XLA_HEADER: None}, "x86_64", "XLA", f"{XLA_HEADER} of {{}} does not declare class XlaOpKernel"),
        ({CUDA_HEADER: None}, "x86_64", "GPU", "{} is a CPU-only build"),
        ({}, "aarch64", "GPU", "it requires x86_64"),
    ],
)
def test_a_library_that_the_headers_rule_out_is_left_out(project, headers, machine, name, reason):
    project.add_tensorflow(LISTED, HEADERS | headers, machine)
    missing = {"XLA": XLA, "GPU": GPU}[name]
    succeeded, printed = project.build(*(target for target in OPTIONAL if OPTIONAL[target] == missing))
    assert succeeded, printed
    assert set(project.wheel()[0]) == paths(LISTED, (OPS | XLA | GPU) - missing)
    assert printed == last_lines({name: reason.format(f"TensorFlow {LISTED}")})


def test_an_isolated_build_uses_the_installed_tensorflow(project):
    """pip hides the installed packages from the build, but not from the interpreters that the build starts."""
    write(project.folder / "isolation/sitecustomize.py", 'import sys; sys.modules["tensorflow"] = None')
    code = "from hatchling import build; print(build.get_requires_for_build_wheel())"
    isolation = {"PYTHONPATH": str(project.folder / "isolation"), "TF_RNN_OPS_PYTHON": ""}
    assert processes.run_program("-c", code, cwd=project.folder, **isolation) == "[]\n"


@pytest.mark.skipif(not _library.XLA_PATH.exists(), reason="this TensorFlow has no headers for XLA's handlers")
@pytest.mark.parametrize("is_broken", [False, True])
def test_a_broken_header_of_tensorflow(project, is_broken):
    """Compiles the handlers with TensorFlow's real header."""
    header = (pathlib.Path(tf.sysconfig.get_include()) / FFI_HEADER).read_text()
    if is_broken:
        header = header.replace("XLA_FFI_CallFrame", "XLA_FFI_RenamedCallFrame")
    include = project.add_tensorflow(UNKNOWN, HEADERS | {FFI_HEADER: header})
    compiler = f"g++ -std=c++17 -fsyntax-only -I{ROOT} -I{include} {ROOT}/cc/ffi/handlers.cc"
    succeeded, printed = project.build(COMPILER=compiler)
    assert succeeded, printed
    libraries, _ = project.wheel()
    assert set(libraries) == paths(UNKNOWN, OPS | GPU if is_broken else OPS | XLA | GPU)
    assert any("error: " in line and "XLA_FFI_CallFrame" in line for line in printed) == is_broken
    assert printed[-1:] == (last_lines({"XLA": SEE_ERRORS}) if is_broken else [])
