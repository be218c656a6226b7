"""A task for the fuzzer's processes that crashes or hangs for some numbers."""

import os
import sys
import time

ABORTS, HANGS, EXITS = 7, 30, 41


def work(number: int) -> int:
    """Squares a number, except for the three above."""
    print(f"at {number}", flush=True)
    if number == ABORTS:
        os.abort()
    if number == HANGS:
        time.sleep(3600)
    if number == EXITS:
        sys.exit(5)
    return number**2


def prepare():
    """Returns the task."""
    return work


def fail_to_prepare():
    """Fails during the preparation."""
    raise ValueError("no work")
