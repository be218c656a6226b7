"""Tests of the changes that mutants make."""

import sys

import mutants
import pytest


@pytest.mark.parametrize(
    ("line", "comment", "expected"),
    [
        (
            '  if (a < 0 && b) Fail("a < 0");  // a < b\n',
            "//",
            [
                '  if (a <= 0 && b) Fail("a < 0");  // a < b\n',
                '  if (a < 0 || b) Fail("a < 0");  // a < b\n',
                '  if (a < 1 && b) Fail("a < 0");  // a < b\n',
                '  if (!(a < 0 && b)) Fail("a < 0");  // a < b\n',
            ],
        ),
        ("  run.Write(x);\n", "//", ["  ;\n"]),
        ("    if not x:\n", "#", ["    if x:\n", "    if not (not x):\n"]),
        ("    return f(x)  # not 1\n", "#", ["    return None  # not 1\n"]),
        (
            "    return max(x, y) if x is None else z\n",
            "#",
            [
                "    return min(x, y) if x is None else z\n",
                "    return max(x, y) if x is not None else z\n",
                "    return max(x, y) if not (x is None) else z\n",
            ],
        ),
    ],
)
def test_changes(line, comment, expected):
    assert mutants.changes(line, comment) == expected


@pytest.mark.parametrize("language", mutants.FILES)
def test_a_seed_draws_the_same_mutants(language):
    first, again, other = (mutants.draw(language, seed) for seed in (0, 0, 1))
    assert first == again
    assert len(first) == len(other) > 1000
    assert first != other
    assert len({mutant.name for mutant in first}) == len(first)
    for mutant in first[:200]:
        lines = (mutants.ROOT / mutant.file).read_text().splitlines(keepends=True)
        assert lines[mutant.line - 1] != mutant.code


def test_statements(tmp_path):
    (tmp_path / "code.py").write_text("def f(x=1):\n    if x:\n        return g(\n            x)\n    return 0\n")
    found = mutants.statements(tmp_path / "code.py")
    assert found == {1: range(2, 6), 2: range(2, 3), 3: range(3, 5), 4: range(3, 5), 5: range(5, 6)}


def test_a_mutant_that_hangs_is_killed():
    status = mutants.run(["sleep", "100"], timeout=0.1)
    assert mutants.PythonTests.verdict(status) == "killed"


def test_a_verdict_is_kept_unless_the_mutant_survived(tmp_path, monkeypatch, capsys):
    """And judging goes on until enough mutants are valid."""
    (tmp_path / "build/coverage").mkdir(parents=True)
    (tmp_path / "build/coverage/python").touch()
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/uncovered.json").write_text("[]")
    (tmp_path / "tools/equal_mutants.json").write_text("[]")
    (tmp_path / "tf_rnn_ops").mkdir()
    (tmp_path / "tf_rnn_ops/code.py").write_text("".join(f"x{index} = {index} + y\n" for index in range(3, 9)))
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    monkeypatch.setattr(mutants, "STATE", tmp_path / "build/mutants")
    monkeypatch.setattr(mutants, "COVERAGE", tmp_path / "build/coverage")
    monkeypatch.setattr(sys, "argv", ["mutants.py", "python", "--count", "3"])
    judged = []

    class Tests:
        mutants_at_once = 1

        def judge(self, mutant):
            judged.append(mutant.name)
            return ("killed", "invalid", "survived", "killed", "killed")[len(judged) - 1]

    monkeypatch.setattr(mutants, "PythonTests", Tests)
    with pytest.raises(SystemExit, match=r"^1$"):
        mutants.main()
    assert capsys.readouterr().out.endswith("\n2 of 3 mutants were killed\n")
    mutants.main()
    assert capsys.readouterr().out.endswith("\n3 of 3 mutants were killed\n")
    assert len(judged) == 5
    assert judged[2] == judged[4]
    monkeypatch.setattr(sys, "argv", ["mutants.py", "python", "--count", "300"])
    monkeypatch.setattr(Tests, "judge", lambda self, mutant: "killed")
    mutants.main()  # ends with the last mutant
    assert capsys.readouterr().out.endswith("\n5 of 5 mutants were killed\n")
