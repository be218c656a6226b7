"""`python -m tf_rnn_ops`: information for bug reports, a check of the ops on a GPU, an accelerated program or model."""

import argparse
import logging
import os
import pathlib
import platform
import runpy
import signal
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_rnn_ops import (
    __version__,
    _build_info,
    _builtin_kernels,
    _constant_weights,
    _conversion,
    _device_check,
    _gpu_kernels,
    _graphs,
    _library,
    _tables,
    _xla,
)
from tf_rnn_ops._keras import acceleration, execution
from tf_rnn_ops._keras.environment import version_and_backend


def _registered_kernels() -> list[tuple[str, str, str]]:
    """Returns (op, device, dtypes) for all ops and devices with kernels."""
    rows = [
        (op, device, " ".join(dtypes))
        for device in ("CPU", "GPU", "XLA_CPU_JIT")
        for op, dtypes in _library.kernel_dtypes(device).items()
    ]
    return sorted(rows)


def _replaced_kernels() -> list[tuple[str, str, str]]:
    """Returns the same for TensorFlow's own ops with kernels that ours can replace."""
    return [(op, "CPU", " ".join(_library.dtypes_of_op(op))) for op in sorted(_builtin_kernels.REPLACED_KERNELS)]


def _cpu_name() -> str:
    """Returns the model name of the CPU."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()  # Linux has no names of Arm CPUs


def versions() -> list[tuple[str, str]]:
    """Returns the versions and paths of the software, as (label, value)."""
    return [
        ("tf_rnn_ops", __version__),
        ("built for TensorFlow", ", ".join(_build_info.TENSORFLOW_VERSIONS)),
        ("built with", _build_info.COMPILER),
        ("TensorFlow", tf.__version__),
        ("TensorFlow-specific libraries", _libraries()),
        ("Keras", version_and_backend()),
        ("NumPy", np.__version__),
        ("Python", platform.python_version()),
        ("operating system", f"{platform.platform()}, {'-'.join(platform.libc_ver())}"),
        ("CPU", f"{_cpu_name()}, {os.cpu_count()} cores"),
        ("CPU engine", str(_library.ENGINE_PATH)),
        ("op library", str(_library.LIBRARY_PATH)),
        ("kernels for TensorFlow's own ops", str(_library.BUILTIN_KERNELS_PATH)),
    ]


def _libraries() -> str:
    """Returns the folder of the libraries in use, and the TensorFlow they were built for."""
    minor_version = _library.minor_version(tf.__version__)
    built_for = next(each for each in _build_info.TENSORFLOW_VERSIONS if _library.minor_version(each) == minor_version)
    return f"{_library.VERSION_FOLDER.name}, built for {built_for}, compatible with every {minor_version}"


def instruction_sets() -> str:
    """Returns the instruction set in use, the available ones, and the value of TF_RNN_OPS_ISA, as one line."""
    cap = os.environ.get("TF_RNN_OPS_ISA")
    return (
        f"{_library.active_instruction_set()} (available: {' '.join(_library.supported_instruction_sets())}; "
        f"TF_RNN_OPS_ISA: {cap or 'not set'})"
    )


def devices() -> list[tuple[str, str]]:
    """Returns the devices and their libraries, as (label, value). A label may appear several times."""
    return [
        ("CPU instruction set", instruction_sets()),
        ("XLA library", _xla_library()),
        ("GPUs visible to TensorFlow", _gpus()),
        ("GPU library", _gpu_library()),
        (_gpu_kernels.VARIABLE, os.environ.get(_gpu_kernels.VARIABLE) or "not set"),
        *(("NVIDIA library", line) for line in _opened_libraries()),
    ]


def _xla_library() -> str:
    """Returns the path of the XLA library if it is loaded, or why it is not."""
    why_not = _xla.why_not_loaded()
    return f"not loaded: {why_not}" if why_not else f"loaded: {_library.XLA_PATH}"


def _gpus() -> str:
    """Returns the number of GPUs that TensorFlow sees, with the name and compute capability of each."""
    gpus = tf.config.list_physical_devices("GPU")
    return "; ".join([str(len(gpus)), *map(_gpu_name, gpus)])


def _gpu_name(gpu: Any) -> str:
    details = tf.config.experimental.get_device_details(gpu)
    name = details.get("device_name", "unknown name")
    capability = ".".join(map(str, details.get("compute_capability", ["unknown"])))
    return f"{name}, compute capability {capability}"


def _gpu_library() -> str:
    """Returns the path of the GPU library if it is loaded, or why it is not."""
    why_not = _gpu_kernels.why_not_loaded()
    return f"not loaded: {why_not}" if why_not else f"loaded: {_library.GPU_KERNELS_PATH}"


def _opened_libraries() -> list[str]:
    return [] if _gpu_kernels.why_not_loaded() else _gpu_kernels.opened_libraries()


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    for line in _tables.aligned(rows):
        print(f"  {line}")


def _report() -> None:
    """Prints versions, devices and kernels."""
    print("Versions")
    _print_table(versions())
    print("\nDevices")
    _print_table(devices())
    print("\nKernels")
    _print_table([("op", "device", "dtypes"), *_registered_kernels()])
    print("\nTensorFlow's own kernels that enable_builtin_kernels(replace=True) replaces")
    _print_table([("op", "device", "dtypes"), *_replaced_kernels()])


def _run(program: str, arguments: Sequence[str], is_module: bool) -> None:
    """Runs a program as Python does, with Keras and graphs accelerated."""
    acceleration.accelerate_keras()
    _graphs.accelerate_graphs()
    # For processes that it starts and that import this package.
    os.environ[acceleration.VARIABLE] = os.environ[_graphs.VARIABLE] = "1"
    sys.argv = [program, *arguments]
    try:
        if is_module:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = str(pathlib.Path(program).resolve().parent)
            runpy.run_path(program, run_name="__main__")
    finally:
        counts = execution.PATHS
        logging.getLogger("tf_rnn_ops").info(
            "of the recurrent layers that ran, %d ran on the op and %d in Keras's own code",
            counts["op"],
            counts["Keras"],
        )
        replaced, others = _graphs.loop_counts()
        if replaced:
            logging.getLogger("tf_rnn_ops").info(
                "of the recurrent loops in graphs, %d ran on the op and %d as they are", replaced, others
            )


def _convert(source: str, output: str | None, weight_format: str | None) -> None:
    """Converts a model, and prints what became of its loops."""
    try:
        conversion = _conversion.convert(source, output, weight_format=weight_format)
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
    print(conversion)
    if output is not None:
        print(f"written: {output}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tf_rnn_ops",
        description="Prints versions, devices and kernels. Include the output in bug reports.",
    )
    parser.add_argument(
        "--check-gpu",
        action="store_true",
        help="compare the results of all ops and types on the first GPU with those on the CPU instead; the exit status "
        "is 0 if all agree and 1 otherwise",
    )
    commands = parser.add_subparsers(title="commands", dest="command", metavar="[run | convert]")
    run = commands.add_parser(
        "run",
        help="run a program with Keras accelerated, without any change to it",
        description="Runs a program as Python does, after accelerate_keras().",
    )
    run.add_argument("-m", action="store_true", dest="is_module", help="the program is the name of a module")
    run.add_argument("program", help="the path of a Python program")
    run.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the program")
    convert = commands.add_parser(
        "convert",
        help="write a SavedModel or frozen graph again, with the op in place of its recurrent loops",
        description="Replaces the recurrent loops of a SavedModel or frozen graph by the op, and prints a table.",
    )
    convert.add_argument("model", help="the folder of a SavedModel, or the file of a frozen graph")
    convert.add_argument("output", nargs="?", help="the new folder or file, which must not exist")
    convert.add_argument("--report", action="store_true", help="print the table, and write nothing")
    convert.add_argument(
        "--weights", choices=_constant_weights.FORMATS, help="pack the weights once for all calls, in this format"
    )
    return parser


def main() -> None:
    """Runs the command line."""
    parser = _parser()
    arguments = parser.parse_args()
    if arguments.command == "run":
        if not (arguments.is_module or pathlib.Path(arguments.program).exists()):
            parser.error(f"program must be the path of a Python program, but {arguments.program!r} does not exist")
        _run(arguments.program, arguments.arguments, arguments.is_module)
        return
    if arguments.command == "convert":
        if arguments.output is None and not arguments.report:
            parser.error("output is missing; with --report, nothing is written")
        _convert(arguments.model, None if arguments.report else arguments.output, arguments.weights)
        return
    # If the output is piped into a program that ends, such as `head`, this one ends without an error, too.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if arguments.check_gpu:
        sys.exit(0 if _device_check.check() else 1)
    _report()


if __name__ == "__main__":
    main()
