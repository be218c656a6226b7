"""Loads the op library, or raises an ImportError with the reason and a fix."""

import ctypes
import functools
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple, cast

from tf_rnn_ops import _library_file
from tf_rnn_ops._version import __version__

try:
    from tf_rnn_ops import _build_info
except ImportError:
    raise ImportError(
        f"{pathlib.Path(__file__).parent} is the source of tf_rnn_ops, which has no op library: install the package if "
        "it is not installed, and start Python in another folder."
    ) from None

try:
    import tensorflow as tf
except ModuleNotFoundError as error:
    if error.name != "tensorflow":
        raise
    raise ImportError(
        f"tf_rnn_ops {__version__} requires TensorFlow, which is not installed: run "
        f'`pip install "tensorflow~={_build_info.TENSORFLOW_VERSIONS[-1]}"`, or use tensorflow-cpu instead.'
    ) from None
from tf_rnn_ops._private_names import KERNELS, OP_DEF_REGISTRY


def minor_version(version: str) -> str:
    """Returns the minor version, such as "2.21" for "2.21.0"."""
    return ".".join(version.split(".")[:2])


_PACKAGE = pathlib.Path(__file__).parent
# The CPU engine. It does not depend on TensorFlow. All other libraries except the GPU library depend on it.
ENGINE_PATH = _PACKAGE / "libtf_rnn_ops_engine.so"
# The handlers that XLA calls, in any program with XLA. They do not depend on TensorFlow.
FFI_PATH = _PACKAGE / "libtf_rnn_ops_ffi.so"

# The libraries built for the installed TensorFlow.
VERSION_FOLDER = _PACKAGE / f"tensorflow_{minor_version(tf.__version__).replace('.', '_')}"
# Our ops and their CPU kernels.
LIBRARY_PATH = VERSION_FOLDER / "libtf_rnn_ops.so"
# CPU kernels for TensorFlow's own ops, loaded by enable_builtin_kernels().
BUILTIN_KERNELS_PATH = VERSION_FOLDER / "libtf_rnn_ops_builtin_kernels.so"
# GPU kernels for our ops. Not available on every platform.
GPU_KERNELS_PATH = VERSION_FOLDER / "libtf_rnn_ops_gpu.so"
# The code with which TensorFlow compiles our ops with XLA. Not available for every TensorFlow.
XLA_PATH = VERSION_FOLDER / "libtf_rnn_ops_xla.so"

# The libraries of ours that each library depends on.
_NEEDS = {
    LIBRARY_PATH: (ENGINE_PATH,),
    BUILTIN_KERNELS_PATH: (ENGINE_PATH,),
    GPU_KERNELS_PATH: (),
    XLA_PATH: (ENGINE_PATH, FFI_PATH),
}
# The op and device of a kernel that each library registers.
_REGISTERED_BY = {
    LIBRARY_PATH: ("TfRnnOps>GRUBlockCell", "CPU"),
    BUILTIN_KERNELS_PATH: ("CudnnRNNV3", "CPU"),
    GPU_KERNELS_PATH: ("TfRnnOps>GRUBlockCell", "GPU"),
    XLA_PATH: ("TfRnnOps>GRUBlockCell", "XLA_CPU_JIT"),
}


def check_tensorflow(installed: str, built_for: Sequence[str]) -> None:
    """Checks that there are libraries for the minor version of TensorFlow.

    Args:
      installed: the version of the installed TensorFlow, such as "2.21.0".
      built_for: the versions that the libraries were built for, in ascending order.

    Raises:
      ImportError: if none of them has the same minor version.
    """
    versions = [minor_version(each) for each in built_for]
    if minor_version(installed) in versions:
        return
    *others, newest = versions
    listed = f"{', '.join(others)} and {newest}" if others else newest
    raise ImportError(
        f"tf_rnn_ops {__version__} was built for TensorFlow {listed}, but TensorFlow {installed} is installed: "
        f'run `pip install "tensorflow=={newest}.*"`, or build tf_rnn_ops for TensorFlow {minor_version(installed)}: '
        "run `pip install .` in its source folder."
    )


def why_left_out(name: str, path: pathlib.Path) -> str:
    """Returns why this build has no library of a name, such as "GPU": what the build recorded, if anything."""
    reason = _build_info.LEFT_OUT.get(f"{path.parent.name}/{path.name}", f"{path} does not exist")
    return f"this build of tf_rnn_ops has no {name} library ({reason})"


def load(path: pathlib.Path) -> ModuleType:
    """Loads one of the package's libraries.

    Args:
      path: the .so file.

    Returns:
      The module that `tf.load_op_library` returns.

    Raises:
      ImportError: if the file or a library that it depends on is missing, damaged or not the expected library, or
        cannot be loaded.
    """
    for each in (*_NEEDS[path], path):
        problem = _library_file.why_not_loadable(each)
        if problem:
            raise ImportError(_reinstall(each, problem))
    try:
        # As bytes, because TensorFlow encodes a str as UTF-8, regardless of the file system encoding.
        module = tf.load_op_library(os.fsencode(path))
    except (tf.errors.OpError, OSError, RuntimeError) as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise ImportError(
            f"the tf_rnn_ops library {path} cannot be loaded into TensorFlow {tf.__version__} ({reason}): reinstall "
            "the package, or build it for this TensorFlow with `pip install .` in its source folder."
        ) from error
    op, device = _REGISTERED_BY[path]
    if KERNELS is not None and device not in {
        each.device_type for each in KERNELS.get_registered_kernels_for_op(op).kernel
    }:
        raise ImportError(_reinstall(path, f"is not the expected library: it has no {device} kernel for {op}"))
    return module


def _reinstall(path: pathlib.Path, problem: str) -> str:
    """Returns the error message for a library with a problem."""
    return f"the tf_rnn_ops library {path} {problem}: reinstall the package."


def _load_ops() -> ModuleType:
    """Loads the op library and returns its functions.

    Raises an ImportError if the process has loaded the library of another copy of the package: TensorFlow would keep
    the ops and kernels of the first copy and call them for the second.
    """
    _check_not_in_archive()
    if (_is_registered() and not _is_loaded(LIBRARY_PATH)) or _is_loaded_from_elsewhere(ENGINE_PATH):
        raise ImportError(
            f"another copy of tf_rnn_ops is loaded in this process ({', '.join(_mapped_copies()) or 'unknown path'}), "
            f"so {LIBRARY_PATH} cannot be loaded: start a new process and load only one copy."
        )
    ops = load(LIBRARY_PATH)
    if not hasattr(ops, "tf_rnn_ops_gru_block_cell"):
        raise ImportError(
            f"{LIBRARY_PATH} was already loaded through another path, so TensorFlow returns no functions for it: "
            "import tf_rnn_ops first, or load the library through this path."
        )
    return ops


def _check_not_in_archive() -> None:
    archive = next((folder for folder in LIBRARY_PATH.parents if folder.is_file()), None)
    if archive:
        raise ImportError(
            f"tf_rnn_ops cannot be imported from the archive {archive}, because its libraries must be files: install "
            "it with `pip install`."
        )


def _is_registered() -> bool:
    """Returns whether our ops are registered in TensorFlow."""
    op, _ = _REGISTERED_BY[LIBRARY_PATH]
    return OP_DEF_REGISTRY is not None and OP_DEF_REGISTRY.get(op) is not None


def _is_loaded(path: pathlib.Path) -> bool:
    """Returns whether the library of a file is loaded in this process, through any path."""
    try:
        ctypes.CDLL(str(path), mode=os.RTLD_LAZY | os.RTLD_NOLOAD)
    except OSError:
        return False
    return True


def _is_loaded_from_elsewhere(path: pathlib.Path) -> bool:
    """Returns whether a library of the same name, but from another file, is loaded in this process."""
    return _is_loaded(pathlib.Path(path.name)) and not _is_loaded(path)


def _mapped_copies() -> list[str]:
    """Returns the paths of the op libraries loaded in this process or, if there are none, of the engines."""
    try:
        lines = os.fsdecode(pathlib.Path("/proc/self/maps").read_bytes()).splitlines()
    except OSError:
        return []
    paths = {line.split(maxsplit=5)[-1] for line in lines}
    ours = ([each for each in paths if path.name in each] for path in (LIBRARY_PATH, ENGINE_PATH))
    return sorted(next(filter(None, ours), []))


check_tensorflow(tf.__version__, _build_info.TENSORFLOW_VERSIONS)

# The functions of all ops, generated by TensorFlow.
ops = _load_ops()


def call_c(path: pathlib.Path, name: str, result_type: Any = None) -> Any:
    """Calls a C function of a loaded library that takes no arguments. `result_type` is of ctypes; None: void."""
    function = getattr(ctypes.CDLL(str(path)), name)
    function.restype = result_type
    return function()


def c_string(path: pathlib.Path, name: str) -> str:
    """The same for a function that returns a string."""
    return cast(str, call_c(path, name, ctypes.c_char_p).decode())


def active_instruction_set() -> str:
    """Returns the instruction set that the CPU kernels use, by its name in TF_RNN_OPS_ISA."""
    return c_string(ENGINE_PATH, "TfRnnOps_ActiveInstructionSet")


def supported_instruction_sets() -> list[str]:
    """Returns the instruction sets that the CPU kernels can use on this CPU, in ascending order."""
    return c_string(ENGINE_PATH, "TfRnnOps_SupportedInstructionSets").split()


class OpFacts(NamedTuple):
    """What is known of an op, from the table in cc/ops/signatures.cc.

    Attributes:
      inputs: the names of its inputs.
      outputs: those of its outputs.
      attributes: those of its attributes, except those that follow from the inputs.
      weights: those of the inputs that it packs once if they are constants.
      opaque: those of data of a forward op for its gradient, whose size and contents depend on the device.
      devices: the devices that it runs on, "CPU" and maybe "GPU".
      builtin_devices: those of TensorFlow's op of the same name; none if there is no such op.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: tuple[str, ...]
    weights: tuple[str, ...]
    opaque: tuple[str, ...]
    devices: tuple[str, ...]
    builtin_devices: tuple[str, ...]


@functools.cache
def op_table() -> dict[str, OpFacts]:
    """Returns what is known of each op but AlignTensor, by its name without the namespace."""
    table = json.loads(c_string(ENGINE_PATH, "TfRnnOps_OpTable"))
    return {op: OpFacts(**{name: tuple(value) for name, value in facts.items()}) for op, facts in table.items()}


_OP_PREFIX = "TfRnnOps>"


def facts_of(op: str) -> OpFacts:
    """Returns what is known of an op, ours with or without its namespace, or TensorFlow's of the same name."""
    return op_table()[op.removeprefix(_OP_PREFIX)]


def builtin_ops() -> list[str]:
    """Returns the names of the ops that TensorFlow has, too."""
    return [op for op, facts in op_table().items() if facts.builtin_devices]


def op_names() -> list[str]:
    """Returns the names of the ops, without the namespace. Those that call a function do not count."""
    return sorted([*op_table(), "AlignTensor"])


def kernel_dtypes(device: str) -> dict[str, list[str]]:
    """Returns the dtypes of the kernels on a device, by the name of the op. Ops without such a kernel are omitted.

    Args:
      device: "CPU", "GPU", or "XLA_CPU_JIT" for the kernels that XLA compiles for the CPU.
    """
    if KERNELS is None or OP_DEF_REGISTRY is None:
        return {}
    dtypes: dict[str, set[str]] = {}
    for op in op_names():
        for kernel in KERNELS.get_registered_kernels_for_op(_OP_PREFIX + op).kernel:
            if kernel.device_type == device:
                dtypes.setdefault(op, set()).update(_dtypes(kernel))
    return {op: sorted(names) for op, names in dtypes.items()}


def dtypes_of_op(op: str) -> list[str]:
    """Returns the dtypes of one of our ops, with its namespace, or of one of TensorFlow's."""
    if OP_DEF_REGISTRY is None:
        return []
    return _names_of_dtypes({attr.name: attr.allowed_values for attr in OP_DEF_REGISTRY.get(op).attr})


def _names_of_dtypes(allowed_values: Mapping[str, Any]) -> list[str]:
    return sorted(tf.as_dtype(each).name for each in allowed_values["T"].list.type)


def _dtypes(kernel: Any) -> set[str]:
    """Returns the dtypes of a kernel: those of its op, unless the kernel restricts them."""
    restricted = {constraint.name: constraint.allowed_values for constraint in kernel.constraint}
    return {*(_names_of_dtypes(restricted) if "T" in restricted else dtypes_of_op(kernel.op))}
