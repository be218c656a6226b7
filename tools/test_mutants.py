"""Tests of the changes that mutants make."""

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
                '  if (!(a < 0 && b) Fail("a < 0"));  // a < b\n',
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
    first, again, other = (list(mutants.draw(language, seed)) for seed in (0, 0, 1))
    assert first == again
    assert len(first) == len(other) > 1000
    assert first != other
    for mutant in first[:200]:
        lines = (mutants.ROOT / mutant.file).read_text().splitlines(keepends=True)
        assert lines[mutant.line - 1] != mutant.code
