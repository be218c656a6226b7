"""Loads the op library, or says in one sentence why it cannot be loaded."""

import ctypes
import os
import pathlib
from collections.abc import Sequence
from types import ModuleType

from tf_rnn_ops import _library_file
from tf_rnn_ops._version import __version__

try:
    from tf_rnn_ops import _build_info
except ImportError:
    raise ImportError(
        f"{pathlib.Path(__file__).parent} is tf_rnn_ops's source, which has no op library: install the package, if it "
        "is not installed, and start Python in another folder than the source's."
    ) from None

try:
    import tensorflow as tf
except ModuleNotFoundError as error:
    if error.name != "tensorflow":
        raise
    raise ImportError(
        f"tf_rnn_ops {__version__} needs TensorFlow, which is not installed: run "
        f'`pip install "tensorflow~={_build_info.TENSORFLOW_VERSIONS[-1]}"`, or the same with tensorflow-cpu.'
    ) from None
from tensorflow.python.framework import kernels as kernel_registry
from tensorflow.python.framework import op_def_registry


def minor_version(version: str) -> str:
    """Returns "2.21" for "2.21.0"."""
    return ".".join(version.split(".")[:2])


_PACKAGE = pathlib.Path(__file__).parent
# The engine for the CPU, which needs no TensorFlow and which all other libraries but that for GPUs need.
ENGINE_PATH = _PACKAGE / "libtf_rnn_ops_engine.so"
# What XLA calls, for any program with XLA. It needs no TensorFlow either.
FFI_PATH = _PACKAGE / "libtf_rnn_ops_ffi.so"

# The libraries that are built for the TensorFlow that is installed.
OF_TENSORFLOW = _PACKAGE / f"tensorflow_{minor_version(tf.__version__).replace('.', '_')}"
# Our ops, and kernels for them.
LIBRARY_PATH = OF_TENSORFLOW / "libtf_rnn_ops.so"
# Kernels for TensorFlow's own ops, to be loaded by those who ask for them.
BUILTIN_KERNELS_PATH = OF_TENSORFLOW / "libtf_rnn_ops_builtin_kernels.so"
# Kernels for GPUs, for our ops. Not every platform has it.
GPU_KERNELS_PATH = OF_TENSORFLOW / "libtf_rnn_ops_gpu.so"
# How TensorFlow compiles our ops with XLA. Not every TensorFlow lets us.
XLA_PATH = OF_TENSORFLOW / "libtf_rnn_ops_xla.so"

# Those of ours that the dynamic loader loads before a library.
_NEEDS = {
    LIBRARY_PATH: (ENGINE_PATH,),
    BUILTIN_KERNELS_PATH: (ENGINE_PATH,),
    GPU_KERNELS_PATH: (),
    XLA_PATH: (ENGINE_PATH, FFI_PATH),
}
# The op and device of a kernel that is there once a library is loaded.
_REGISTERED_BY = {
    LIBRARY_PATH: ("TfRnnOps>GRUBlockCell", "CPU"),
    BUILTIN_KERNELS_PATH: ("CudnnRNNV3", "CPU"),
    GPU_KERNELS_PATH: ("TfRnnOps>GRUBlockCell", "GPU"),
    XLA_PATH: ("TfRnnOps>GRUBlockCell", "XLA_CPU_JIT"),
}


def check_tensorflow(installed: str, built_for: Sequence[str]) -> None:
    """Refuses a TensorFlow whose C++ interface may differ from those that there are libraries for.

    Args:
      installed: the version of the TensorFlow that is installed, such as "2.21.0".
      built_for: the versions that the libraries were built against, in ascending order.

    Raises:
      ImportError: if none of them is of the same minor version.
    """
    versions = [minor_version(each) for each in built_for]
    if minor_version(installed) in versions:
        return
    *others, newest = versions
    listed = f"{', '.join(others)} and {newest}" if others else newest
    raise ImportError(
        f"tf_rnn_ops {__version__} was built for TensorFlow {listed}, but TensorFlow {installed} is installed: "
        f'run `pip install "tensorflow=={newest}.*"`, or build tf_rnn_ops for TensorFlow {minor_version(installed)} '
        "with `pip install .` from its source."
    )


def load(path: pathlib.Path) -> ModuleType:
    """Loads one of the package's libraries.

    Args:
      path: the .so file.

    Returns:
      The module that `tf.load_op_library` makes of it.

    Raises:
      ImportError: if the file, or one that it needs, is missing, damaged or another library, or cannot be loaded.
    """
    for each in (*_NEEDS[path], path):
        problem = _library_file.why_not_loadable(each)
        if problem:
            raise ImportError(_install_again(each, problem))
    try:
        # The bytes, since TensorFlow would encode a path as UTF-8 whatever the system does.
        module = tf.load_op_library(os.fsencode(path))
    except (tf.errors.OpError, OSError, RuntimeError) as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise ImportError(
            f"tf_rnn_ops's library {path} cannot be loaded into TensorFlow {tf.__version__} ({reason}): install the "
            "package again, or build it for this TensorFlow with `pip install .` from its source."
        ) from error
    op, device = _REGISTERED_BY[path]
    if device not in {each.device_type for each in kernel_registry.get_registered_kernels_for_op(op).kernel}:
        raise ImportError(_install_again(path, f"is another library, which has no kernel of {op} for the {device}"))
    return module


def _install_again(path: pathlib.Path, problem: str) -> str:
    """Returns the sentence that says so of a library with a problem."""
    return f"tf_rnn_ops's library {path} {problem}: install the package again."


def _load_ops() -> ModuleType:
    """Loads the op library, unless that of another copy of the package is in this process, and returns its functions.

    TensorFlow would keep the ops and kernels of the first copy, and call them in the name of the second.
    """
    _check_not_in_archive()
    if (_is_registered() and not _is_loaded(LIBRARY_PATH)) or _is_loaded_from_elsewhere(ENGINE_PATH):
        raise ImportError(
            f"another copy of tf_rnn_ops is in this process ({', '.join(_mapped_copies()) or 'at an unknown path'}), "
            f"beside which {LIBRARY_PATH} cannot be loaded: start a new process and load one of the two there."
        )
    ops = load(LIBRARY_PATH)
    if not hasattr(ops, "tf_rnn_ops_gru_block_cell"):
        raise ImportError(
            f"{LIBRARY_PATH} was loaded by another path before, so that TensorFlow has no functions for it: "
            "import tf_rnn_ops first, or load the library by this path."
        )
    return ops


def _check_not_in_archive() -> None:
    archive = next((folder for folder in LIBRARY_PATH.parents if folder.is_file()), None)
    if archive:
        raise ImportError(
            f"tf_rnn_ops cannot be imported from inside {archive}, since its libraries must be files: install it with "
            "`pip install` instead."
        )


def _is_registered() -> bool:
    """Returns whether TensorFlow has our ops."""
    op, _ = _REGISTERED_BY[LIBRARY_PATH]
    return op_def_registry.get(op) is not None


def _is_loaded(path: pathlib.Path) -> bool:
    """Returns whether the library of a file is in this process, by whatever path it was loaded."""
    try:
        ctypes.CDLL(str(path), mode=os.RTLD_LAZY | os.RTLD_NOLOAD)
    except OSError:
        return False
    return True


def _is_loaded_from_elsewhere(path: pathlib.Path) -> bool:
    """Returns whether the dynamic loader would take another file's library, which is in this process, for this one."""
    return _is_loaded(pathlib.Path(path.name)) and not _is_loaded(path)


def _mapped_copies() -> list[str]:
    """Returns the paths of the op libraries in this process, or else of engines, if they have the libraries' names."""
    try:
        lines = os.fsdecode(pathlib.Path("/proc/self/maps").read_bytes()).splitlines()
    except OSError:
        return []
    paths = {line.split(maxsplit=5)[-1] for line in lines}
    ours = ([each for each in paths if path.name in each] for path in (LIBRARY_PATH, ENGINE_PATH))
    return sorted(next(filter(None, ours), []))


check_tensorflow(tf.__version__, _build_info.TENSORFLOW_VERSIONS)

# The functions of every op, as generated from the op definitions.
ops = _load_ops()


def c_string(path: pathlib.Path, name: str) -> str:
    """Calls a C function of a loaded library that takes nothing and returns a string."""
    function = getattr(ctypes.CDLL(str(path)), name)
    function.restype = ctypes.c_char_p
    return function().decode()


def active_instruction_set() -> str:
    """Returns the instruction set that the CPU kernels use, by the name that TF_RNN_OPS_ISA gives it."""
    return c_string(ENGINE_PATH, "TfRnnOps_ActiveInstructionSet")


def supported_instruction_sets() -> list[str]:
    """Returns the instruction sets that the CPU kernels could use on this CPU, in ascending order."""
    return c_string(ENGINE_PATH, "TfRnnOps_SupportedInstructionSets").split()


_OP_PREFIX = "TfRnnOps>"


def op_names() -> list[str]:
    """Returns the names of the ops that the library registers, without their namespace."""
    prefix = _OP_PREFIX.replace(">", "_")
    return sorted(name.removeprefix(prefix) for name in dir(ops) if name.startswith(prefix))


def kernel_dtypes(device: str) -> dict[str, list[str]]:
    """Returns the dtypes of the kernels that each op has on a device, by the names of those that do.

    Args:
      device: "CPU", "GPU", or "XLA_CPU_JIT" for what XLA compiles for the CPU.
    """
    dtypes: dict[str, set[str]] = {}
    for op in op_names():
        for kernel in kernel_registry.get_registered_kernels_for_op(_OP_PREFIX + op).kernel:
            if kernel.device_type == device:
                dtypes.setdefault(op, set()).update(_dtypes(kernel))
    return {op: sorted(names) for op, names in dtypes.items()}


def _dtypes(kernel) -> set[str]:
    """Returns the values of T that a kernel is for: those of its op unless it says otherwise."""
    op = op_def_registry.get(kernel.op)
    allowed = {attr.name: attr.allowed_values for attr in op.attr} | {
        constraint.name: constraint.allowed_values for constraint in kernel.constraint
    }
    return {tf.as_dtype(each).name for each in allowed["T"].list.type}
