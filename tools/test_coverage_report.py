"""Tests of the report of coverage."""

import json
import sys

import coverage_report
import pytest

CODE = "int Half(int x) {\n  if (x < 0) abort();\n  return x / 2;\n}\n"
# The second record of the file is of another program.
LCOV = """SF:{root}/cc/ops/half.cc
DA:1,1
DA:2,0
DA:3,0
BRDA:2,0,0,-
BRDA:2,0,1,1
end_of_record
SF:/usr/include/string
DA:1,0
end_of_record
SF:{root}/cc/ops/half.cc
DA:3,7
BRDA:2,0,0,0
end_of_record
"""


@pytest.mark.parametrize("reasons", [[], [{"file": "cc/ops/.*", "code": r"abort\(\)", "reason": "never"}]])
def test_report(reasons, tmp_path, monkeypatch, capsys):
    for path, text in (
        ("cc/ops/half.cc", CODE),
        ("tools/uncovered.json", json.dumps(reasons)),
        ("counts/cc.lcov", LCOV.format(root=tmp_path)),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    monkeypatch.setattr(coverage_report, "ROOT", tmp_path)
    monkeypatch.setattr(coverage_report, "GOALS", {"cc/ops": (0.95, 0.9)})
    monkeypatch.setattr(sys, "argv", ["coverage_report.py", str(tmp_path / "counts")])
    if reasons:
        coverage_report.main()
        expected = "\n\n| folder | lines | branches |\n|---|---:|---:|\n| `cc/ops` | 100.0% of 2 | 100.0% of 0 |\n"
        assert capsys.readouterr().out == expected[1:]
    else:
        with pytest.raises(SystemExit, match=r"^cc/ops is below its goal$"):
            coverage_report.main()
        printed = capsys.readouterr().out
        assert printed.startswith("cc/ops/half.cc: not run: 2\n")
        assert "| `cc/ops` | 66.7% of 3 | 50.0% of 2 |\n" in printed
