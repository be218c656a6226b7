"""Tests of the comparison of two revisions. No test checks speed."""

import pathlib
import shutil
import sys

import compare
import numpy as np
import pytest
from measure import Measurement, Worker
from sections import OURS, PEERS

import tf_rnn_ops

TIMES = 1 + 0.01 * np.random.default_rng(0).standard_normal(20)


@pytest.mark.parametrize(
    ("base", "now", "expected"),
    [
        (TIMES, TIMES[::-1], ""),
        (TIMES, 1.12 * TIMES, "slower"),
        (1.12 * TIMES, TIMES, "faster"),
        (TIMES, 1.08 * TIMES, ""),
        # The minimum only.
        (np.append(TIMES, 0.8), 1.05 * np.append(TIMES, 1.0), "slower"),
        # The median of noise.
        ([1.0, 1.0, 9.0], [1.2, 1.2, 1.2], ""),
        # The mean decides in which direction.
        (np.append(0.9 * TIMES, 0.5), np.append(0.8 * TIMES, 0.6), "faster"),
    ],
)
def test_verdicts(base, now, expected):
    assert compare.verdict(base, now)[1] == expected


@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_the_status_says_if_a_task_is_slower(factor, monkeypatch, capsys):
    class Bench:
        def __init__(self, peers, *_):
            assert [each.folder for each in peers] == ["other", ""]

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def measure(self, section, case, peers, rounds, tasks, load):
            assert load.clients == (4 if tasks is compare.TASKS_OF_CLIENTS else 1)
            series = {"now": factor * TIMES, "base": TIMES}
            return [Measurement(section, case, each, tasks[0], series[each]) for each in peers], []

    monkeypatch.setattr(compare, "Bench", Bench)
    monkeypatch.setattr(sys, "argv", ["compare.py", "other", "--cases", "lstm-1-2-3-4,gru-2-2-3-4"])
    if factor > 1:
        slower = "lstm-1-2-3-4, forward; lstm-1-2-3-4, forward, 4 threads; gru-2-2-3-4, forward"
        with pytest.raises(SystemExit, match=f"^slower than the base: {slower}$"):
            compare.main()
    else:
        compare.main()
    assert capsys.readouterr().out.count("LSTM 1, 2, 3, 4") == 2


def test_the_base_is_imported_from_its_folder(tmp_path):
    shutil.copytree(pathlib.Path(tf_rnn_ops.__file__).parent, tmp_path / "tf_rnn_ops")
    version = tmp_path / "tf_rnn_ops" / "_version.py"
    version.write_text('__version__ = "another"')
    peer = PEERS[OURS]._replace(folder=str(tmp_path))
    with Worker(peer, 1, tmp_path / "log") as worker:
        assert worker.request("versions")["tf_rnn_ops"] == "another"
