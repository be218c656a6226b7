"""The examples, made small enough for a test."""

import re

import pages
import pictures
import processes
import pytest

DEMO = pages.EXAMPLES / "char_language_model.py"

needs_matplotlib = pytest.mark.skipif(not pictures.HAS_MATPLOTLIB, reason="needs matplotlib")


@needs_matplotlib
def test_the_demo_trains_compares_writes_and_draws(tmp_path):
    sizes = ["--files=60", "--units=8", "--batch=64", "--steps=20", "--evaluations=2", "--compared-steps=3"]
    printed = processes.run_program(str(DEMO), *sizes, f"--output={tmp_path / 'new'}")

    bits = {name: float(value) for name, value in re.findall(r"^  (\w+) +(\d+\.\d\d)$", printed, re.MULTILINE)}
    assert list(bits) == ["unigram", "bigram", "GRU", "LSTM"]
    untrained = 7.0  # of a guess among some 2^7 characters
    assert 0 < bits["bigram"] < bits["unigram"] < max(bits["GRU"], bits["LSTM"]) < untrained
    assert re.search(r"what the LSTM writes after 'def ':\n\ndef .{100}", printed, re.DOTALL)
    sentence = (
        r"\n\nThe same Keras LSTM model, trained for 3 steps with and without accelerate_keras\(\):\n"
        r"losses that differ by at most (\S+) bits, and steps of \d+ ms instead of \d+, \d+\.\d\d times as fast\.\n$"
    )
    match = re.search(sentence, printed)
    assert match is not None
    assert float(match[1]) < 0.01
    pictures.assert_is_png(tmp_path / "new" / "char_language_model.png")


@needs_matplotlib
def test_the_demo_refuses_more_evaluations_than_steps():
    process = processes.run_python(str(DEMO), "--steps=3", "--evaluations=4")
    assert process.returncode == 2
    assert "--evaluations must be between 1 and --steps = 3, but is 4" in process.stderr


def test_the_saved_model_for_gpus_is_served_and_trained():
    printed = processes.run_program(str(pages.EXAMPLES / "gpu_saved_model.py"), "--steps=40")
    untrained, trained = re.findall(r"^(?:after|trained).*: loss (\d\.\d+)$", printed, re.MULTILINE)
    assert float(trained) < float(untrained) / 4
    assert "No OpKernel was registered to support Op 'CudnnRNNV3'" in printed


def test_the_page_of_keras_shows_a_program_that_runs():
    program = pages.EXAMPLES / "accelerated_keras.py"
    assert f"```python\n{program.read_text()}```" in (pages.ROOT / "docs" / "keras.md").read_text()
    printed = processes.run_program(str(program))
    difference = re.search(r"^largest difference from Keras's own predictions: (\S+)$", printed, re.MULTILINE)
    assert difference is not None
    assert 0 < float(difference[1]) < 1e-5
