"""Runs Keras's own tests of recurrent layers, which its wheel contains, with accelerated Keras."""

import importlib.util
import re

import pytest
from environment import processes

FILES = (
    "lstm_test",
    "gru_test",
    "simple_rnn_test",
    "bidirectional_test",
    "rnn_test",
    "time_distributed_test",
    "stacked_rnn_cells_test",
    "dropout_rnn_cell_test",
)
# Tests of layers or cells that the op can run.
ON_THE_OP = ("lstm_test", "gru_test", "simple_rnn_test", "bidirectional_test", "stacked_rnn_cells_test")


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec(f"keras.src.layers.rnn.{FILES[0]}") is None,
    reason="needs a Keras whose wheel has its tests",
)
def test_keras_own_tests_pass(tmp_path):
    options = ["-q", "-p", "no:cacheprovider", "-p", "environment.accelerated_keras_plugin", f"--rootdir={tmp_path}"]
    modules = [f"keras.src.layers.rnn.{file}" for file in FILES]
    command = ["-m", "pytest", *options, "--pyargs", *modules]
    process = processes.run_python(*command, cwd=tmp_path, **processes.WITH_TESTING)
    assert process.returncode == 0, process.stdout[-5000:]
    passed = int(re.search(r"(\d+) passed", process.stdout)[1])
    assert passed > 60
    runs = dict(re.findall(r"runs of the op in (\w+): (\d+)", process.stdout))
    assert set(runs) == set(ON_THE_OP)
    assert all(int(count) > 10 for count in runs.values())
