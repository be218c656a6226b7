"""Tests that cancelled calls end early and that later calls are correct."""

import signal

import pytest
from environment import forked, processes

# The oneDNN allocator keeps freed memory.
NO_ONEDNN = {"TF_ENABLE_ONEDNN_OPTS": "0"}
# Imports for calls that take seconds or minutes.
LONG_CALL = """
import os, signal, sys, threading, time
from inputs import mixed_calls
from robustness import interruptions
"""


@pytest.mark.parametrize("num_threads", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_cancelled_calls_end_without_leaks(num_threads):
    """Cancels a function, closes a session, and lets another op of a graph fail.

    A forward pass that continued would exceed the timeout of the process.
    """
    code = """
        import sys
        from robustness import interruptions
        interruptions.check(int(sys.argv[1]))
        """
    processes.run_code(code, str(num_threads), **NO_ONEDNN, **processes.WITH_TESTING)


CTRL_C = """
# A process that was started in the background may ignore SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)
long = interruptions.inference(500)
if {in_function}:
    long = long.in_graph()
expected = mixed_calls.contents(long())
interruptions.soon(lambda: os.kill(os.getpid(), signal.SIGINT))
try:
    long()
    time.sleep(10)
except KeyboardInterrupt:
    print("interrupted")
assert mixed_calls.contents(long()) == expected
"""


def test_ctrl_c_is_raised_after_the_op(tmp_path):
    """As with TensorFlow's own ops: Python's signal handler runs when the op returns."""
    codes = {each: LONG_CALL + CTRL_C.format(in_function=each) for each in (False, True)}
    ended = forked.run_codes(tmp_path, codes, **processes.WITH_TESTING)
    assert list(ended.values()) == [forked.Ended(0, "interrupted\n")] * 2


END = """
long = interruptions.inference(interruptions.FORWARD_LONG)
threading.Thread(target=long, daemon=True).start()
time.sleep(1)
print("ending", flush=True)
if sys.argv[1] == "SIGTERM":
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(100)
sys.exit(int(sys.argv[1]))
"""


@pytest.mark.parametrize(("end", "returncode"), [("3", 3), ("SIGTERM", -signal.SIGTERM)])
def test_the_process_ends_while_a_thread_runs_an_op(end, returncode):
    """The op would exceed the timeout of the process."""
    process = processes.run_python("-c", LONG_CALL + END, end, **processes.WITH_TESTING)
    assert process.stdout.splitlines() == ["ending"], process.stderr[-2000:]
    assert process.returncode == returncode, process.stderr[-2000:]
