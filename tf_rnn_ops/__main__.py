"""`python -m tf_rnn_ops`: what a bug report needs, and with `--check-gpu` whether the ops work on the GPU."""

import argparse
import os
import platform
import sys
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from tf_rnn_ops import __version__, _build_info, _library, device_check, gpu_kernels, xla


def _registered_kernels() -> list[tuple[str, str, str]]:
    """Returns (op, device, dtypes) for every op and device that has kernels."""
    rows = [
        (op, device, " ".join(dtypes))
        for device in ("CPU", "GPU", "XLA_CPU_JIT")
        for op, dtypes in _library.kernel_dtypes(device).items()
    ]
    return sorted(rows)


def _cpu_name() -> str:
    """Returns the CPU's name as the system gives it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
            for line in cpuinfo:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def versions() -> list[tuple[str, str]]:
    """Returns what is installed and what the op library was built with, as (name, value)."""
    return [
        ("tf_rnn_ops", __version__),
        ("built for TensorFlow", ", ".join(_build_info.TENSORFLOW_VERSIONS)),
        ("built with", _build_info.COMPILER),
        ("TensorFlow", tf.__version__),
        ("libraries for it", _libraries()),
        ("Keras", f"{keras.__version__}, backend {keras.backend.backend()}"),
        ("NumPy", np.__version__),
        ("Python", platform.python_version()),
        ("system", f"{platform.platform()}, {'-'.join(platform.libc_ver())}"),
        ("CPU", f"{_cpu_name()}, {os.cpu_count()} cores"),
        ("engine", str(_library.ENGINE_PATH)),
        ("op library", str(_library.LIBRARY_PATH)),
        ("kernels for TensorFlow's own ops", str(_library.BUILTIN_KERNELS_PATH)),
    ]


def _libraries() -> str:
    """Returns which folder of libraries is in use, and why."""
    minor_version = _library.minor_version(tf.__version__)
    built_for = next(each for each in _build_info.TENSORFLOW_VERSIONS if _library.minor_version(each) == minor_version)
    return f"{_library.OF_TENSORFLOW.name}, built for {built_for}: every {minor_version} has the same C++ interface"


def instruction_sets() -> str:
    """Returns the instruction set in use, those that there are, and what TF_RNN_OPS_ISA says, as one line."""
    cap = os.environ.get("TF_RNN_OPS_ISA")
    return (
        f"{_library.active_instruction_set()} (this CPU and build have: "
        f"{' '.join(_library.supported_instruction_sets())}; TF_RNN_OPS_ISA is {cap or 'not set'})"
    )


def devices() -> list[tuple[str, str]]:
    """Returns what the ops can run on, as (name, value). A name may come several times."""
    return [
        ("instruction set", instruction_sets()),
        ("XLA for the CPU", _xla()),
        ("GPUs that TensorFlow sees", _gpus()),
        ("GPU library", _gpu_library()),
        (gpu_kernels.VARIABLE, os.environ.get(gpu_kernels.VARIABLE) or "not set"),
        *(("opened by the GPU library", line) for line in _opened_libraries()),
    ]


def _xla() -> str:
    """Returns the path of the library that lets XLA compile the ops if it is loaded, or why it is not."""
    why_not = xla.why_not_loaded()
    return f"not loaded: {why_not}" if why_not else f"loaded: {_library.XLA_PATH}"


def _gpus() -> str:
    """Returns how many GPUs TensorFlow sees, with the name and compute capability of each."""
    gpus = tf.config.list_physical_devices("GPU")
    return "; ".join([str(len(gpus)), *map(_gpu_name, gpus)])


def _gpu_name(gpu) -> str:
    details = tf.config.experimental.get_device_details(gpu)
    name = details.get("device_name", "no name")
    capability = ".".join(map(str, details.get("compute_capability", ["unknown"])))
    return f"{name}, compute capability {capability}"


def _gpu_library() -> str:
    """Returns the path of the GPU library if it is loaded, or why it is not."""
    why_not = gpu_kernels.why_not_loaded()
    return f"not loaded: {why_not}" if why_not else f"loaded: {_library.GPU_KERNELS_PATH}"


def _opened_libraries() -> list[str]:
    return [] if gpu_kernels.why_not_loaded() else gpu_kernels.opened_libraries()


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _report() -> None:
    """Prints versions, devices and kernels."""
    print("versions")
    _print_table(versions())
    print("\ndevices")
    _print_table(devices())
    print("\nkernels")
    _print_table([("op", "device", "dtypes"), *_registered_kernels()])


def main() -> None:
    """Does what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m tf_rnn_ops", description="Prints versions, devices and kernels, for a bug report."
    )
    parser.add_argument(
        "--check-gpu",
        action="store_true",
        help="compare every op and type on the first GPU with the CPU instead; the exit status is 0 if all agree",
    )
    if parser.parse_args().check_gpu:
        sys.exit(0 if device_check.check() else 1)
    _report()


if __name__ == "__main__":
    main()
