"""Work for the fuzzer's processes of which some numbers end or block the process."""

import os
import sys
import time

ABORTS, HANGS, EXITS = 7, 30, 41


def work(number: int) -> int:
    """Squares a number, unless it is one of those."""
    print(f"at {number}", flush=True)
    if number == ABORTS:
        os.abort()
    if number == HANGS:
        time.sleep(3600)
    if number == EXITS:
        sys.exit(5)
    return number**2


def prepare():
    """Returns the work."""
    return work


def fail_to_prepare():
    """Ends the process before it has any."""
    raise ValueError("no work")
