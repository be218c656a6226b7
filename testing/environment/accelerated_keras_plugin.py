"""A pytest plugin that runs all tests with accelerated Keras and counts the runs of the op per test file."""

import collections
import pathlib

import tf_rnn_ops

_runs: collections.Counter[str] = collections.Counter()
_file = ""


def pytest_configure():
    """Accelerates Keras and counts the runs of the op."""
    op = tf_rnn_ops.raw_ops.KerasRNN

    def counted(**arguments):
        _runs[_file] += 1
        return op(**arguments)

    tf_rnn_ops.raw_ops.KerasRNN = counted
    tf_rnn_ops.accelerate_keras()


def pytest_runtest_setup(item):
    """Records the current test file."""
    global _file
    _file = pathlib.Path(item.path).stem


def pytest_terminal_summary(terminalreporter):
    """Prints the counts."""
    for file, count in _runs.items():
        terminalreporter.write_line(f"runs of the op in {file}: {count}")
