"""A test of the comparison of weight formats: its table, with models that were trained for a few steps."""

import importlib.util
import pathlib

import pytest
from environment import processes

PROGRAM = pathlib.Path(__file__).parent / "accuracy.py"
PACKAGES = ["onnx", "onnxruntime", "seglearn"]
MISSING = [package for package in PACKAGES if importlib.util.find_spec(package) is None]


@pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}")
def test_a_quick_run_compares_the_models():
    printed = processes.run_program(str(PROGRAM), "--quick")
    lines = [line.strip("| ").split(" | ") for line in printed.splitlines() if line.startswith("|")]
    header, _, *rows = lines
    assert header[1:3] == ["quality", "Keras float32"]
    assert [row[1] for row in rows] == ["perplexity", "accuracy, %", "accuracy, %", "perplexity"]
    for row in rows:
        keras, ours, bfloat16, int8, onnx_runtime, onnx_runtime_int8 = (float(row[i]) for i in (2, 3, 4, 5, 7, 8))
        assert ours == pytest.approx(keras, rel=2e-3)
        assert onnx_runtime == pytest.approx(keras, rel=2e-3)
        assert [bfloat16, int8, onnx_runtime_int8] == pytest.approx([keras] * 3, rel=0.04)
        float32_size, int8_size = (float(cell.removesuffix(" MB")) for cell in row[-2:])
        assert 0 < int8_size < float32_size / 2
