"""Changes random lines of the code, one at a time, and checks that a test fails.

For Python, `make coverage-python OPTIONS=--cov-context=test` must have run: the tests of a mutant are those that run
its line. For C++, they are the unit tests, and then a third of the Python tests. Mutants that do not compile do not
count. Results are in build/mutants, by commit; the program goes on where it was interrupted. The exit status is 1 if a
mutant survived.
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
# Not `python -m pytest`, which would import the package's source from the current folder.
PYTEST = [str(pathlib.Path(sys.executable).with_name("pytest")), "-p", "no:cacheprovider", "-q", "-x"]
PYTEST += ["--numprocesses=2", "--dist=worksteal", "-m", "not slow"]
COUNTED = ("killed", "survived", "not run")
FAILED = (1, 2)  # pytest's status if a test failed, or could not be imported
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


def draw(language: str, seed: int, folder: pathlib.Path = ROOT) -> Iterator[Mutant]:
    """Yields mutants of all files below a folder in a random order, each line once."""
    files = sorted({path for pattern in FILES[language] for path in folder.glob(pattern) if path.is_file()})
    found: dict[tuple[str, int], list[Mutant]] = {}
    for path in files:
        name = str(path.relative_to(folder))
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


def run(command: Sequence[str], folder: pathlib.Path = ROOT, **environment: str) -> int:
    """Runs a program in a folder, and returns its status."""
    process = subprocess.run(
        command, cwd=folder, env=os.environ | environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return process.returncode


class PythonTests:
    """The Python tests that run a line, with a copy of the installed package."""

    def __init__(self):
        self._data = coverage.CoverageData(str(ROOT / "build/coverage/python/data"))
        self._data.read()
        self._files = {re.sub(r".*/site-packages/", "", file): file for file in self._data.measured_files()}
        if not self._files:
            sys.exit("run `make coverage-python OPTIONS=--cov-context=test` first")
        self.folder = STATE / "package"
        shutil.rmtree(self.folder, ignore_errors=True)
        any_file = next(iter(self._files))
        shutil.copytree(
            self._files[any_file].removesuffix(any_file) + "tf_rnn_ops", self.folder / "tf_rnn_ops", symlinks=True
        )

    def judge(self, mutant: Mutant) -> str:
        """Returns "killed", "survived", "not run", "invalid", or "error" if pytest could not run the tests."""
        try:
            compile((self.folder / mutant.file).read_text(), mutant.file, "exec")
        except SyntaxError:
            return "invalid"
        contexts = self._data.contexts_by_lineno(self._files.get(mutant.file, "")).get(mutant.line, [])
        if not contexts:
            return "not run"
        # A line that runs at import has no test's name.
        tests = [name for name in contexts if name] or [name for name in self._data.measured_contexts() if name]
        names = sorted({name.rpartition("|")[0] for name in tests})
        chosen = random.Random(0).sample(names, min(len(names), MOST_TESTS))
        (STATE / "tests").write_text("\n".join(chosen))
        return self.verdict(run([*PYTEST, f"@{STATE / 'tests'}"], PYTHONPATH=str(self.folder)))

    @staticmethod
    def verdict(status: int) -> str:
        """Returns the verdict for the status of pytest."""
        return "survived" if status == 0 else "killed" if status in FAILED else "error"


class EngineTests:
    """The C++ unit tests, in a clone of the last commit, and a third of the Python tests, with its libraries."""

    def __init__(self):
        self.folder = STATE / "tree"
        if not self.folder.exists():
            subprocess.run(["git", "clone", "--quiet", str(ROOT), str(self.folder)], check=True)
        for command in (["fetch", "--quiet"], ["reset", "--quiet", "--hard", "@{upstream}"]):
            subprocess.run(["git", *command], cwd=self.folder, check=True)
        for name in (".venv", ".tools", "node_modules", "user.bazelrc"):
            if (ROOT / name).exists() and not (self.folder / name).exists():
                (self.folder / name).symlink_to(ROOT / name)
        if self._build() or self._test():
            sys.exit("the C++ unit tests fail without a mutant")

    def _build(self) -> int:
        return run(["tools/bazel.sh", "build", *(f"//:{name}" for name in LIBRARIES), "//cc/..."], self.folder)

    def _test(self) -> int:
        return run(["tools/bazel.sh", "test", "--notest_keep_going", "//cc/..."], self.folder)

    def judge(self, _: Mutant) -> str:
        """Returns "killed", "survived", "invalid", or "error" if pytest could not run the tests."""
        if self._build():
            return "invalid"
        if self._test():
            return "killed"
        package = STATE / "package_cc"
        if run(["tools/package_with.sh", str(package), *LIBRARIES], self.folder):
            return "error"
        tests = sorted(map(str, (ROOT / "tests").glob("test_*.py")))
        return PythonTests.verdict(run([*PYTEST, "--part=0/3", *tests], PYTHONPATH=str(package)))


def main() -> None:
    """Draws mutants, judges them and prints the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("language", choices=FILES)
    parser.add_argument("--count", type=int, default=150, help="valid mutants to judge (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="chooses the mutants (%(default)s)")
    settings = parser.parse_args()
    STATE.mkdir(parents=True, exist_ok=True)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    path = STATE / f"{settings.language}_{settings.seed}_{commit.stdout.strip()}.json"
    verdicts: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    tests = PythonTests() if settings.language == "python" else EngineTests()
    for mutant in draw(settings.language, settings.seed, tests.folder):
        if sum(verdict in COUNTED for verdict in verdicts.values()) >= settings.count:
            break
        if mutant.name not in verdicts:
            with mutated(mutant, tests.folder):
                verdicts[mutant.name] = tests.judge(mutant)
            path.write_text(json.dumps(verdicts, indent=1))
            print(f"{verdicts[mutant.name]:<10}{mutant.name}", flush=True)
    counted = [verdict for verdict in verdicts.values() if verdict in COUNTED]
    killed = counted.count("killed")
    print(f"{killed} of {len(counted)} mutants were killed")
    if killed < len(counted):
        sys.exit(1)


if __name__ == "__main__":
    main()
