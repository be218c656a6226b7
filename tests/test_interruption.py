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
long = interruptions.inference(300)
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


END = """
long = interruptions.inference(interruptions.FORWARD_LONG)
threading.Thread(target=long, daemon=True).start()
time.sleep(1)
print("ending", flush=True)
"""


def test_signals():
    """Ctrl+C is raised after the op, as with TensorFlow's own: Python's signal handler runs when the op returns.

    SIGTERM ends the process while a thread runs an op, which would exceed the timeout of the process.
    """
    codes = {
        "eager": LONG_CALL + CTRL_C.format(in_function=False),
        "tf.function": LONG_CALL + CTRL_C.format(in_function=True),
        "SIGTERM": LONG_CALL + END + "os.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(100)",
    }
    assert forked.run_codes(codes, **processes.WITH_TESTING) == {
        "eager": forked.Ended(0, "interrupted\n"),
        "tf.function": forked.Ended(0, "interrupted\n"),
        "SIGTERM": forked.Ended(-signal.SIGTERM, "ending\n"),
    }


def test_the_process_exits_while_a_thread_runs_an_op():
    """The op would exceed the timeout of the process."""
    process = processes.run_python("-c", LONG_CALL + END + "sys.exit(3)", **processes.WITH_TESTING)
    assert process.stdout.splitlines() == ["ending"], process.stderr[-2000:]
    assert process.returncode == 3, process.stderr[-2000:]
