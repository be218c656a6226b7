"""A call that nobody waits for any more ends early, and those after it are right."""

import signal

import processes
import pytest

# Without it TensorFlow has an allocator that keeps what was freed.
NO_ONEDNN = {"TF_ENABLE_ONEDNN_OPTS": "0"}
# Runs a call of seconds, or of minutes, in this process.
LONG_CALL = """
import os, signal, sys, threading, time
import interruptions, mixed_calls
"""


@pytest.mark.parametrize("num_threads", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_cancelled_steps_end_and_leave_nothing(num_threads):
    """A function that is cancelled, a session that is closed, a graph in which another op fails.

    A forward pass that ran on would take longer than its process is given.
    """
    code = """
        import sys
        import interruptions
        interruptions.check(int(sys.argv[1]))
        """
    processes.run_code(code, str(num_threads), **NO_ONEDNN, **processes.WITH_TESTS)


CTRL_C = """
# A process that was started in the background may have been told to take no notice of it.
signal.signal(signal.SIGINT, signal.default_int_handler)
long = interruptions.inference(500)
if sys.argv[1] == "tf.function":
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


@pytest.mark.parametrize("door", ["eager", "tf.function"])
def test_ctrl_c_is_raised_when_the_op_has_run(door):
    """As with TensorFlow's own ops: Python's handler runs when they return."""
    printed = processes.run_code(LONG_CALL + CTRL_C, door, **processes.WITH_TESTS)
    assert printed.splitlines() == ["interrupted"]


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


@pytest.mark.parametrize(("end", "returncode"), [("0", 0), ("3", 3), ("SIGTERM", -signal.SIGTERM)])
def test_the_process_ends_while_a_thread_runs_an_op(end, returncode):
    """One that would take longer than the process is given."""
    process = processes.run_python("-c", LONG_CALL + END, end, **processes.WITH_TESTS)
    assert process.stdout.splitlines() == ["ending"], process.stderr[-2000:]
    assert process.returncode == returncode, process.stderr[-2000:]
