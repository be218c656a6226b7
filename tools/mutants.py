"""Changes random lines of the code, one at a time, and checks that a test fails.

For Python, `make coverage-python OPTIONS=--cov-context=test` must have run: the tests of a mutant are those that run
its line. For C++, they are the unit tests, and then the Python tests of the ops. Mutants that do not compile do not
count. Results are in build/mutants; the program goes on where it was interrupted. The exit status is 1 if a mutant
survived.
"""

import argparse
import ast
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import coverage

ROOT = pathlib.Path(__file__).parent.parent
STATE = ROOT / "build/mutants"
FILES = {
    "cc": ("cc/ops/**/*", "cc/rnn/*", "cc/rnn/simd/**/*", "cc/tensorflow/**/*", "cc/ffi/*"),
    "python": ("tf_rnn_ops/**/*.py",),
}
NOT_MUTATED = re.compile(
    r"_test|test_support|_fuzz|fuzz_|_main\.cc|reference\.h|/gpu/|(?<!\.cc)(?<!\.h)(?<!\.py)$|_version\.py|_gpu_kernels\.py"
)
# What is changed, and into what.
SWAPS = (
    ("+", "-"),
    ("*", "+"),
    ("/", "*"),
    ("+=", "-="),
    ("<", "<="),
    (">", ">="),
    ("==", "!="),
    ("&&", "||"),
    ("and", "or"),
)
WORDS = (("true", "false"), ("True", "False"), ("min(", "max("), ("all(", "any("), ("break", "continue"))
RULES = [
    *((f" {re.escape(old)} ", f" {new} ") for pair in SWAPS for old, new in (pair, pair[::-1])),
    *((rf"\b{re.escape(old)}", new) for pair in WORDS for old, new in (pair, pair[::-1])),
    *((rf"\b{number}\b", str(number + 1)) for number in range(3)),
    (r"\bnot ", ""),
    (r" is not ", " is "),
    (r" is None", " is not None"),
    (r"\bif \((.+)\)", r"if (!(\1))"),
    (r"\bif (?!\()(.+):$", r"if not (\1):"),
    (r" if (.+) else ", r" if not (\1) else "),
    # A call is left out, a result is lost.
    (r"^(\s*)[\w.>:-]+\(.*\);$", r"\1;"),
    (r"^(\s*)[\w.]+\(.*\)$", r"\1pass"),
    (r"^(\s*)return [\w.]+\(.*\)$", r"\1return None"),
]
# Lines in which a change does not change what the program does, or only what it says to a person.
IGNORED = re.compile(r"^\s*(//|#|using |namespace |import |from |@)|ASSERT|assert|raise \w+\(|warnings\.warn")
MOST_TESTS = 300
PYTEST = [
    "-m",
    "pytest",
    "-p",
    "no:cacheprovider",
    "-q",
    "-x",
    "--numprocesses=2",
    "--dist=worksteal",
    "-m",
    "not slow",
]
OP_TESTS = [
    *sorted(str(path) for path in (ROOT / "tests").glob("test_cudnn_rnn_[bdgprs]*.py")),
    *(str(ROOT / f"tests/test_{name}.py") for name in ("builtin_kernels", "golden", "cell_bad_input", "op_bad_input")),
    *(str(ROOT / f"tests/test_{name}.py") for name in ("block_lstm", "keras_rnn", "accelerated_graphs")),
    *sorted(str(path) for path in (ROOT / "tests").glob("test_gru_block_cell_*.py")),
]
LIBRARIES = ["libtf_rnn_ops_engine.so", "libtf_rnn_ops_ffi.so", "libtf_rnn_ops.so", "libtf_rnn_ops_builtin_kernels.so"]
LIBRARIES += ["libtf_rnn_ops_xla.so"]


class Mutant(NamedTuple):
    """A changed line of a file."""

    file: str
    line: int
    code: str

    @property
    def name(self) -> str:
        """The name in the results."""
        return f"{self.file}:{self.line}: {self.code.strip()}"


def texts(path: pathlib.Path) -> set[int]:
    """Returns the lines of a file in Python's docstrings and in C++'s raw strings."""
    code = path.read_text()
    if path.suffix != ".py":
        found = re.finditer(r'R"(\w*)\(.*?\)\1"', code, re.DOTALL)
        ends = [(1 + code.count("\n", 0, each.start()), 1 + code.count("\n", 0, each.end())) for each in found]
    else:
        statements = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Expr)]
        strings = [each for each in statements if isinstance(each.value, ast.Constant)]
        ends = [(each.lineno, each.end_lineno or each.lineno) for each in strings]
    return {line for first, last in ends for line in range(first, last + 1)}


def changes(line: str, comment: str) -> list[str]:
    """Returns the changed forms of a line, without changes in strings and in a comment at its end."""
    code = line.partition(comment)[0].rstrip()
    rest = line[len(code) :]
    found = [(match, new) for old, new in RULES for match in re.finditer(old, code)]
    matches = [(match, new) for match, new in found if code.count('"', 0, match.start()) % 2 == 0]
    return [code[: match.start()] + match.expand(new) + code[match.end() :] + rest for match, new in matches]


def draw(language: str, seed: int) -> Iterator[Mutant]:
    """Yields mutants of all files in a random order, each line once."""
    files = sorted({path for pattern in FILES[language] for path in ROOT.glob(pattern) if path.is_file()})
    found: dict[tuple[str, int], list[Mutant]] = {}
    for path in files:
        name = str(path.relative_to(ROOT))
        if NOT_MUTATED.search(name):
            continue
        skipped, comment = texts(path), "#" if language == "python" else "//"
        for number, line in enumerate(path.read_text().splitlines(keepends=True), 1):
            if number not in skipped and not IGNORED.search(line):
                found[name, number] = [Mutant(name, number, code) for code in changes(line, comment)]
    chooser = random.Random(seed)
    places = sorted(place for place, mutants in found.items() if mutants)
    chooser.shuffle(places)
    return (chooser.choice(found[place]) for place in places)


@contextlib.contextmanager
def mutated(mutant: Mutant, folder: pathlib.Path) -> Iterator[None]:
    """Changes a file in a copy of the repository or of the package, and restores it at the end."""
    path = folder / mutant.file
    original = path.read_text()
    lines = original.splitlines(keepends=True)
    lines[mutant.line - 1] = mutant.code
    path.write_text("".join(lines))
    try:
        yield
    finally:
        path.write_text(original)


def run(command: Sequence[str], folder: pathlib.Path, **environment: str) -> subprocess.CompletedProcess:
    """Runs a program that ends after ten minutes at the latest; the status is then 124."""
    return subprocess.run(
        ["timeout", "--kill-after=5", "600", *command],
        cwd=folder,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


class PythonTests:
    """The Python tests, on a copy of the installed package."""

    def __init__(self):
        self._data = coverage.CoverageData(str(ROOT / "build/coverage/python/data"))
        self._data.read()
        self._files = {re.sub(r".*/site-packages/", "", file): file for file in self._data.measured_files()}
        self.folder = STATE / "package"
        subprocess.run(["tools/package_with.sh", str(self.folder)], cwd=ROOT, check=True)
        installed = pathlib.Path(next(iter(self._files.values()))).parents[0]
        while installed.name != "tf_rnn_ops":
            installed = installed.parent
        shutil.copytree(installed, self.folder / "tf_rnn_ops", dirs_exist_ok=True)

    def judge(self, mutant: Mutant) -> str:
        """Returns "killed", "survived", "untested" or "invalid"."""
        try:
            compile((self.folder / mutant.file).read_text(), mutant.file, "exec")
        except SyntaxError:
            return "invalid"
        contexts = self._data.contexts_by_lineno(self._files.get(mutant.file, "")).get(mutant.line, [])
        tests = sorted({name.partition("|")[0] for name in contexts if name})
        if not contexts:
            return "untested"
        if not tests:  # the line runs at import
            tests = sorted({name.partition("|")[0] for name in self._data.measured_contexts() if name})
        random.Random(0).shuffle(tests)
        names = STATE / "tests"
        names.write_text("\n".join(tests[:MOST_TESTS]))
        found = run([sys.executable, *PYTEST, f"@{names}"], ROOT, PYTHONPATH=str(self.folder))
        return "survived" if found.returncode in (0, 5) else "killed"


class EngineTests:
    """The C++ unit tests and the Python tests of the ops, in a copy of the repository."""

    def __init__(self):
        self.folder = STATE / "tree"
        if not self.folder.exists():
            subprocess.run(["git", "clone", "--quiet", str(ROOT), str(self.folder)], check=True)
        for name in (".venv", ".tools", "node_modules", "user.bazelrc"):
            if (ROOT / name).exists() and not (self.folder / name).exists():
                (self.folder / name).symlink_to(ROOT / name)

    def judge(self, _: Mutant) -> str:
        """Returns "killed", "survived" or "invalid"."""
        bazel = ["tools/bazel.sh", "{}", "--config=baseline", "--notest_keep_going", "//cc/..."]
        build = ["tools/bazel.sh", "build", "--config=baseline", *(f"//:{name}" for name in LIBRARIES), "//cc/..."]
        if run(build, self.folder).returncode:
            return "invalid"
        if run([part.format("test") for part in bazel], self.folder).returncode:
            return "killed"
        package = STATE / "package_cc"
        run(["tools/package_with.sh", str(package), *LIBRARIES], self.folder)
        found = run([sys.executable, *PYTEST, "--part=0/3", *OP_TESTS], ROOT, PYTHONPATH=str(package))
        return "survived" if found.returncode == 0 else "killed"


def main() -> None:
    """Draws mutants, judges them and prints the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("language", choices=FILES)
    parser.add_argument("--count", type=int, default=150, help="valid mutants to judge (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="chooses the mutants (%(default)s)")
    settings = parser.parse_args()
    STATE.mkdir(parents=True, exist_ok=True)
    path = STATE / f"{settings.language}_{settings.seed}.json"
    verdicts: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    tests = PythonTests() if settings.language == "python" else EngineTests()
    for mutant in draw(settings.language, settings.seed):
        if sum(verdict != "invalid" for verdict in verdicts.values()) >= settings.count:
            break
        if mutant.name not in verdicts:
            with mutated(mutant, tests.folder):
                verdicts[mutant.name] = tests.judge(mutant)
            path.write_text(json.dumps(verdicts, indent=1))
            print(f"{verdicts[mutant.name]:<10}{mutant.name}", flush=True)
    valid = [verdict for verdict in verdicts.values() if verdict != "invalid"]
    killed = valid.count("killed")
    print(f"{killed} of {len(valid)} mutants were killed")
    if killed < len(valid):
        sys.exit(1)


if __name__ == "__main__":
    main()
