"""What this process holds, as Linux counts it."""

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


def give_back_free_memory() -> None:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def memory() -> int:
    """Returns the bytes in memory, without those that are free to be used again."""
    give_back_free_memory()
    return 1024 * status("VmRSS")


def reset_peak() -> None:
    _CLEAR_REFS.write_text(_RESET_PEAK)


def peak() -> int:
    """Returns the most bytes that were in memory since the peak was reset."""
    return 1024 * status("VmHWM")
