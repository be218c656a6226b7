"""Runs the example programs with small settings."""

import itertools
import re

import numpy as np
import pytest
from environment import pages, pictures, processes

DEMO = pages.EXAMPLES / "char_language_model.py"

needs_matplotlib = pytest.mark.skipif(not pictures.HAS_MATPLOTLIB, reason="needs matplotlib")


def test_char_language_model():
    sizes = ["--files=60", "--units=8", "--batch=64", "--steps=20", "--evaluations=2", "--compared-steps=3"]
    printed = processes.run_program(str(DEMO), *sizes)

    bits = {name: float(value) for name, value in re.findall(r"^  (\w+) +(\d+\.\d\d)$", printed, re.MULTILINE)}
    assert list(bits) == ["unigram", "bigram", "GRU", "LSTM"]
    untrained = 7.0  # a uniform guess among about 2^7 characters
    assert 0 < bits["bigram"] < bits["unigram"] < max(bits["GRU"], bits["LSTM"]) < untrained
    assert re.search(r"sample of the LSTM, prompt 'def ':\n\ndef .{100}", printed, re.DOTALL)
    sentence = (
        r"\n\nThe same Keras LSTM model, trained for 3 steps with and without accelerate_keras\(\):\n"
        r"largest loss difference (\S+) bits; \d+ ms instead of \d+ ms per step, a speedup of \d+\.\d\d\.\n$"
    )
    match = re.search(sentence, printed)
    assert match is not None
    assert float(match[1]) < 0.01


def test_char_language_model_rejects_more_evaluations_than_steps():
    process = processes.run_python(str(DEMO), "--steps=3", "--evaluations=4")
    assert process.returncode == 2
    assert "--evaluations must be between 1 and --steps = 3, but is 4" in process.stderr


def table_below(heading, printed):
    """Returns the numbers of the table below a heading, [rows, columns]."""
    lines = printed.split(heading, 1)[1].splitlines()[2:]
    rows = itertools.takewhile(lambda line: re.fullmatch(r"[-+ .e\d]+", line), lines)
    return np.array([row.split() for row in rows], dtype=float)


@pytest.mark.slow
@needs_matplotlib
def test_wgan_gp_drives_the_norm_of_the_gradient_to_1(tmp_path):
    sizes = ["--files=20", "--units=16", "--batch=16", "--time=8", "--steps=40"]
    printed = processes.run_program(str(pages.EXAMPLES / "wgan_gp.py"), *sizes, f"--output={tmp_path / 'new'}")

    step, _, norm, penalty = table_below("training with penalty weight 10", printed).T
    assert np.array_equal(step, [1, *range(4, 41, 4)])
    assert abs(norm[0] - 1) > 0.2
    assert np.all(np.abs(norm[-5:] - 1) < 0.2)
    assert max(penalty[-5:]) < 0.05 < penalty[0]
    free_norm = table_below("training with penalty weight 0", printed)[:, 2]
    assert max(free_norm[-5:]) > 5
    last_line = r"\nmean norm of the critic's gradient over the last tenth .*: (\S+) with the penalty, (\S+) without\n$"
    match = re.search(last_line, printed)
    assert match is not None
    with_penalty, without = (float(each.replace(",", "")) for each in match.groups())
    assert 0.9 < with_penalty < 1.1
    assert without > 5
    assert len(re.findall(r"^generated windows:(?: ['\"].{8}['\"]){5}$", printed, re.MULTILINE)) == 2
    pictures.assert_is_png(tmp_path / "new" / "wgan_gp.png")


@pytest.mark.slow
@needs_matplotlib
def test_maml_adapts_faster_than_the_baselines(tmp_path):
    sizes = ["--units=24", "--time=10", "--shots=12", "--tasks=4", "--steps=300", "--inner-steps=1", "--inner-rate=0.2"]
    unseen = ["--unseen-tasks=20", "--unseen-steps=3"]
    printed = processes.run_program(str(pages.EXAMPLES / "maml.py"), *sizes, *unseen, f"--output={tmp_path / 'new'}")

    step, maml, first_order, joint = table_below("query loss on 20 unseen tasks", printed).T
    assert np.array_equal(step, range(4))
    assert maml[1] < maml[0] / 2
    assert maml[1] < first_order[1] / 2
    assert maml[1] < joint[3] / 1.5 < joint[0] / 1.5
    pictures.assert_is_png(tmp_path / "new" / "maml.png")


def test_streaming():
    printed = processes.run_program(str(pages.EXAMPLES / "streaming.py"), "--steps=20", "--batch=4", "--seconds=0.5")
    before = re.search(r"^voice to noise: (-?\d+\.\d) dB before$", printed, re.MULTILINE)
    rows = re.findall(r"^(\S.*?) +(\d+\.\d+) +(\d+\.\d+) +(-?\d+\.\d)$", printed, re.MULTILINE)
    assert [name for name, *_ in rows][:4] == ["Keras, predict_on_batch", "accelerated", "frozen", "frozen, int8"]
    assert before is not None
    after = [float(each) for *_, each in rows]
    assert min(after) > float(before[1]) + 1
    assert max(after) - min(after) < 0.3
    assert all(0 < float(median) <= float(most) for _, median, most, _ in rows)


def test_gpu_saved_model_is_served_and_trained():
    printed = processes.run_program(str(pages.EXAMPLES / "gpu_saved_model.py"), "--steps=40")
    untrained, trained = re.findall(r"^(?:after|trained).*: loss (\d\.\d+)$", printed, re.MULTILINE)
    assert float(trained) < float(untrained) / 4
    assert "No OpKernel was registered to support Op 'CudnnRNNV3'" in printed


def test_accelerated_keras():
    printed = processes.run_program(str(pages.EXAMPLES / "accelerated_keras.py"))
    difference = re.search(r"^largest difference from plain Keras predictions: (\S+)$", printed, re.MULTILINE)
    assert difference is not None
    assert 0 < float(difference[1]) < 1e-5
