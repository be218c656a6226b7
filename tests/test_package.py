"""Tests of importing the package, its report, and the properties of its libraries."""

import ast
import dataclasses
import doctest
import importlib
import importlib.metadata
import inspect
import platform
import re
import signal

import keras
import numpy as np
import pytest
import tensorflow as tf
from environment import forked, package_files, processes
from environment.package_files import PACKAGE
from inputs import valid_calls

import tf_rnn_ops
from tf_rnn_ops import _gpu_kernels, _library

# The dependencies of each library, TensorFlow's and ours.
NEEDED = {
    _library.ENGINE_PATH: set(),
    _library.LIBRARY_PATH: {"libtensorflow_framework.so.2", _library.ENGINE_PATH.name},
    _library.BUILTIN_KERNELS_PATH: {"libtensorflow_framework.so.2", _library.ENGINE_PATH.name},
    _library.GPU_KERNELS_PATH: {"libtensorflow_framework.so.2"},
    _library.XLA_PATH: {"libtensorflow_framework.so.2", "libtensorflow_cc.so.2", _library.FFI_PATH.name},
    _library.FFI_PATH: {_library.ENGINE_PATH.name},
}
# The C functions that each library exports.
EXPORTED = {
    _library.ENGINE_PATH: {
        "TfRnnOps_CpuOps",
        "TfRnnOps_OpTable",
        "TfRnnOps_ActiveInstructionSet",
        "TfRnnOps_SupportedInstructionSets",
        "TfRnnOps_PackedWeightsBytes",
    },
    _library.LIBRARY_PATH: {
        "TfRnnOps_AccelerateGraphs",
        "TfRnnOps_ConvertGraph",
        "TfRnnOps_RestoreGraphs",
        "TfRnnOps_NumAcceleratedLoops",
        "TfRnnOps_NumOtherLoops",
    },
    _library.BUILTIN_KERNELS_PATH: {"TfRnnOps_ReplaceBuiltinKernels"},
    _library.GPU_KERNELS_PATH: {"TfRnnOps_GpuLibraries"},
    _library.XLA_PATH: {"TfRnnOps_RegisterXlaBuiltinKernels"},
    _library.FFI_PATH: {"TfRnnOps_FfiOps", "TfRnnOps_KerasRNNReserveSpaceSize"}
    | {f"TfRnnOps_{op}" for op in _library.op_names() if op != "AlignTensor"},
}
# The libraries for XLA and GPUs do not exist for every TensorFlow version and machine.
LIBRARIES = [path for path in NEEDED if path.exists()]
every_library = pytest.mark.parametrize("library", LIBRARIES, ids=lambda path: path.name)


@pytest.mark.parametrize("name", tf_rnn_ops.raw_ops.__all__)
def test_raw_ops_have_the_signatures_of_the_op_definition_and_of_tf_raw_ops(name):
    ours = inspect.signature(getattr(tf_rnn_ops.raw_ops, name)).parameters
    definition = getattr(_library.ops, f"TfRnnOps_{name}")
    for each in (definition, getattr(tf.raw_ops, name, definition)):
        theirs = inspect.signature(each).parameters
        assert list(ours) == list(theirs)
        defaults = {n: p.default for n, p in ours.items()}
        # A definition has no defaults of inputs, but some of ours are lists that are usually empty.
        is_optional = [n for n in ours if n.endswith("_masks")]
        assert all(defaults[n] == () for n in is_optional)
        defaults |= dict.fromkeys(is_optional, inspect.Parameter.empty)
        assert defaults == {n: p.default for n, p in theirs.items()}


@pytest.mark.parametrize("name", tf_rnn_ops.raw_ops.__all__)
def test_autograph_converts_raw_ops(name):
    # Otherwise it warns when a tf.function calls them.
    op = getattr(tf_rnn_ops.raw_ops, name)
    for each in (op, op.__wrapped__):
        assert callable(tf.autograph.to_graph(each))


def test_calls_with_defaults_use_the_fast_path(monkeypatch):
    # TensorFlow calls ops from Python on a much slower path if an attribute does not have the exact type.
    for name in dir(_library.ops):
        if name.endswith("_eager_fallback"):
            monkeypatch.setattr(_library.ops, name, None)
    state = tf.zeros([1, 2, 4])
    params = tf.zeros([4 * 4 * (3 + 4 + 2)])
    run = {"input": tf.zeros([5, 2, 3]), "input_h": state, "input_c": state, "params": params}
    for version, more in {"": {}, "V2": {}, "V3": {"sequence_lengths": tf.fill([2], 5)}}.items():
        forward = getattr(tf_rnn_ops.raw_ops, f"CudnnRNN{version}")(**run, **more)
        gradients = {
            "output": forward.output,
            "output_h": forward.output_h,
            "output_c": forward.output_c,
            "output_backprop": forward.output,
            "output_h_backprop": forward.output_h,
            "output_c_backprop": forward.output_c,
            "reserve_space": forward.reserve_space,
        }
        if version:
            gradients["host_reserved"] = forward.host_reserved
        getattr(tf_rnn_ops.raw_ops, f"CudnnRNNBackprop{version}")(**run, **more, **gradients)
    size = {"num_layers": 1, "num_units": 4, "input_size": 3}
    tf_rnn_ops.raw_ops.CudnnRNNParamsSize(**size, T=tf.float32, S=tf.int32)
    weights, biases = tf_rnn_ops.raw_ops.CudnnRNNParamsToCanonical(**size, params=params, num_params=8)
    tf_rnn_ops.raw_ops.CudnnRNNCanonicalToParams(**size, weights=weights, biases=biases)


@pytest.mark.parametrize("op", tf_rnn_ops._builtin_kernels.REPLACED_KERNELS)
def test_results_have_the_names_of_tf_raw_ops(op):
    arguments = valid_calls.finite_arguments(op, "float32", (1, 2), seed=0)
    ours, theirs = (getattr(module, op)(**arguments) for module in (tf_rnn_ops.raw_ops, tf.raw_ops))
    assert ours._fields == theirs._fields


def docstrings_with_examples():
    """Returns the docstrings of the package that have examples, as test cases, each with the file that it is in."""
    found = []
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                docstring = ast.get_docstring(node) or ""
                if ">>>" in docstring:
                    path = file.relative_to(PACKAGE.parent).with_suffix("")
                    found.append(pytest.param(docstring, path, id=f"{path}:{getattr(node, 'name', '')}"))
    return found


@pytest.mark.parametrize(("docstring", "file"), docstrings_with_examples())
def test_docstring_examples_run(docstring, file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    of_params = {name: getattr(tf_rnn_ops.params, name) for name in tf_rnn_ops.params.__all__}
    names = {"tf": tf, "np": np, "keras": keras, "tf_rnn_ops": tf_rnn_ops, **of_params}
    module = importlib.import_module(".".join(file.parts).removesuffix(".__init__"))
    examples = doctest.DocTestParser().get_doctest(docstring, vars(module) | names, str(file), None, None)
    assert doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(examples).failed == 0


def public_callables():
    """Returns the public functions, classes and methods by their full names."""
    modules = (tf_rnn_ops, tf_rnn_ops.layers, tf_rnn_ops.params, tf_rnn_ops.raw_ops)
    names = {f"{module.__name__}.{name}": getattr(module, name) for module in modules for name in module.__all__}
    found = {name: each for name, each in names.items() if callable(each)}
    for name, each in list(found.items()):
        if inspect.isclass(each):
            methods = {attribute: value for attribute, value in vars(each).items() if not attribute.startswith("_")}
            found |= {f"{name}.{attribute}": value for attribute, value in methods.items() if inspect.isfunction(value)}
    return found


@pytest.mark.parametrize("name", public_callables())
def test_public_callables_have_docstrings_and_annotations(name):
    each = public_callables()[name]
    # A subclass may inherit __init__ from a private class of ours.
    signature = inspect.signature(each.__init__ if inspect.isclass(each) else each)
    inherits_init = inspect.isclass(each) and each.__init__ is object.__init__
    parameters = [] if inherits_init else [each for name, each in signature.parameters.items() if name != "self"]
    is_record = dataclasses.is_dataclass(each) or (inspect.isclass(each) and issubclass(each, tuple))
    assert inspect.getdoc(each)
    assert [value.name for value in parameters if value.annotation is inspect.Parameter.empty] == []
    assert is_record or signature.return_annotation is not inspect.Signature.empty


def test_report(tmp_path):
    """From any folder, and with an instruction set that does not exist."""
    process = processes.run_python("-m", "tf_rnn_ops", cwd=tmp_path, TF_RNN_OPS_ISA="avx9")
    assert process.returncode == 0
    assert 'ignoring TF_RNN_OPS_ISA "avx9"' in process.stderr
    printed = process.stdout
    for wanted in (tf_rnn_ops.__version__, tf.__version__, keras.__version__, np.__version__, str(PACKAGE)):
        assert wanted in printed
    minor_version = tf.__version__.rpartition(".")[0]
    folder = f"tensorflow_{minor_version.replace('.', '_')}"
    assert re.search(rf"TensorFlow-specific libraries +{folder}, built for {re.escape(minor_version)}\.", printed)
    assert re.search(rf"CPU instruction set +{_library.active_instruction_set()} ", printed)
    assert re.search(rf"GPU library +{'not loaded: ' if _gpu_kernels.why_not_loaded() else 'loaded: /'}", printed)
    dtypes = "bfloat16 float16 float32 float64"
    kernels, replaced = printed.split("TensorFlow's own kernels that enable_builtin_kernels(replace=True) replaces")
    for op in (*tf_rnn_ops.raw_ops.__all__, "GRUBlockCellGradV2"):
        assert re.search(rf"^ +{op} +CPU +{dtypes}$", kernels, re.MULTILINE)
    assert re.search(r"^ +GRUBlockCell +CPU +float32$", replaced, re.MULTILINE)
    assert re.search(r"^ +BlockLSTM +CPU +float16 float32$", replaced, re.MULTILINE)


@pytest.mark.parametrize("arguments", [[], ["--check-gpu"]], ids=str)
def test_a_reader_of_the_report_may_stop(arguments):
    """As in `python -m tf_rnn_ops | head -1`."""
    closed_pipe = "import os\nreader, writer = os.pipe()\nos.close(reader)\nos.dup2(writer, 1)\n"
    ended = forked.run(closed_pipe + forked.COMMAND, *arguments)
    assert ended.status == -signal.SIGPIPE
    assert "BrokenPipeError" not in ended.errors


def test_the_report_says_why_the_build_left_libraries_out(tmp_path):
    package = package_files.link_package(tmp_path)
    reasons = {}
    for name, path in {"XLA": _library.XLA_PATH, "GPU": _library.GPU_KERNELS_PATH}.items():
        package_files.in_copy(package, path).unlink(missing_ok=True)
        reasons[str(path.relative_to(PACKAGE))] = f"the {name} library does not compile"
    build_info = package_files.in_copy(package, PACKAGE / "_build_info.py")
    text = build_info.read_text()
    build_info.unlink()
    build_info.write_text(f"{text}LEFT_OUT = {reasons!r}\n")
    printed = processes.run_program("-m", "tf_rnn_ops", PYTHONPATH=str(tmp_path), TF_RNN_OPS_GPU="auto")
    for name in ("XLA", "GPU"):
        why_not = rf"this build of tf_rnn_ops has no {name} library \(the {name} library does not compile\)"
        assert re.search(rf"^ +{name} library +not loaded: {why_not}$", printed, re.MULTILINE), printed


def test_the_page_of_package_indexes_has_no_links_to_files():
    page = importlib.metadata.metadata("tf_rnn_ops").get_payload()
    assert "tf_rnn_ops.accelerate_keras()" in page
    assert re.findall(r"\]\((?!https?:)", page) == []
    assert "<!--" not in page
    assert "(guide)" not in page


def test_the_package_has_type_annotations():
    assert (PACKAGE / "py.typed").exists()


def test_the_libraries_export_only_their_c_functions():
    assert LIBRARIES[:3] == [_library.ENGINE_PATH, _library.LIBRARY_PATH, _library.BUILTIN_KERNELS_PATH]
    for library in LIBRARIES:
        assert package_files.exported(library) == EXPORTED[library]


@every_library
def test_libraries_depend_only_on_tensorflow_and_the_system(library):
    """Even the GPU library: it opens the NVIDIA libraries at its first use."""
    loader = {"x86_64": "ld-linux-x86-64.so.2", "aarch64": "ld-linux-aarch64.so.1"}[platform.machine()]
    system = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "libpthread.so.0", loader}
    assert package_files.needed(library) - system == NEEDED[library]
    search_path = re.findall(r"R(?:UN)?PATH.*\[(.*)\]", package_files.dynamic_section(library))
    needs_ours = any(name.startswith("libtf_rnn_ops") for name in NEEDED[library])
    assert search_path == ["$ORIGIN:$ORIGIN/.."] * needs_ours


@every_library
def test_undefined_symbols_are_in_the_dependencies(library):
    undefined = package_files.undefined(library)
    assert undefined
    assert undefined <= package_files.provided(library)


def test_the_wheel_runs_with_the_glibc_that_tensorflow_2_21_requires():
    wheel = importlib.metadata.distribution("tf_rnn_ops").read_text("WHEEL")
    platforms = re.findall(r"^Tag: py3-none-manylinux_(\d+)_(\d+)_\w+$", wheel, re.MULTILINE)
    assert platforms
    assert min((int(major), int(minor)) for major, minor in platforms) <= (2, 27), platforms


@every_library
def test_hardening(library):
    segments, dynamic_section = package_files.segments(library), package_files.dynamic_section(library)
    assert ("GNU_STACK", "RW") in segments  # the stack is not executable
    assert "GNU_RELRO" in dict(segments)  # relocations are read-only after loading
    # All symbols are bound at load time, not lazily.
    assert re.search(r"\(FLAGS\) +BIND_NOW", dynamic_section)
    assert re.search(r"\(FLAGS_1\) +Flags: NOW", dynamic_section)
    loaded = [flags for kind, flags in segments if kind == "LOAD"]
    assert "RE" in loaded
    assert not [flags for flags in loaded if "W" in flags and "E" in flags]  # code is not writable
    assert "TEXTREL" not in dynamic_section
    assert "__stack_chk_fail" in package_files.undefined(library)  # stack overruns are detected


def test_files_and_pickles_of_layers_name_a_public_module():
    assert {getattr(tf_rnn_ops.layers, name).__module__ for name in tf_rnn_ops.layers.__all__} == {"tf_rnn_ops.layers"}
