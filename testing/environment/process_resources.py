"""Memory and threads of this process on Linux."""

import ctypes
import gc
import pathlib

_CLEAR_REFS = pathlib.Path("/proc/self/clear_refs")
_RESET_PEAK = "5"


def status(field: str) -> int:
    """Returns a number in /proc/self/status."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{field}:"))
    return int(line.split()[1])


def num_threads() -> int:
    return status("Threads")


def return_free_memory() -> None:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def memory() -> int:
    """Returns the resident memory in bytes, after returning free memory to the system."""
    return_free_memory()
    return 1024 * status("VmRSS")


def reset_peak() -> None:
    _CLEAR_REFS.write_text(_RESET_PEAK)


def peak() -> int:
    """Returns the peak of the resident memory in bytes since the last reset."""
    return 1024 * status("VmHWM")
