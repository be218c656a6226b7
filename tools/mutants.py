"""Changes random lines of the code, one at a time, and checks that a test fails.

`make coverage` must have run: a mutant in a line that no test ran has survived. Python's are tested by the tests that
run the line; those of C++ by the unit tests, and then by a third of the Python tests. Lines in tools/uncovered.json are
not changed; mutants that do not compile, or are in tools/equal_mutants.json, do not count. Verdicts are kept in
build/mutants; a mutant that survived is judged again in the next run. The exit status is 1 if a mutant survived.
"""

import argparse
import ast
import concurrent.futures
import contextlib
import hashlib
import importlib.util
import itertools
import json
import os
import pathlib
import queue
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import coverage
import coverage_report

ROOT = pathlib.Path(__file__).parent.parent
STATE = ROOT / "build/mutants"
COVERAGE = ROOT / "build/coverage"
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
    (r"\bif \(((?:[^()]|\([^()]*\))+)\)", r"if (!(\1))"),
    (r"\bif (?!\()(.+):$", r"if not (\1):"),
    (r" if (.+) else ", r" if not (\1) else "),
    # A call is left out, a result is lost.
    (r"^(\s*)[\w.>:-]+\(.*\);$", r"\1;"),
    (r"^(\s*)[\w.]+\(.*\)$", r"\1pass"),
    (r"^(\s*)return [\w.]+\(.*\)$", r"\1return None"),
]
# Lines in which a change does not change what the program does, or only what it says to a person.
IGNORED = re.compile(r"^\s*(//|#|using |namespace |import |from |@)|ASSERT|assert|raise \w+\(|warnings\.warn")
WITH_BODY = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.If,
    ast.For,
    ast.While,
    ast.With,
    ast.Try,
)
MOST_TESTS = 300
# Seconds after which the tests of a mutant hang. Without a mutant, they take a minute.
LONGEST = 900
# Not `python -m pytest`, which would import the package's source from the current folder.
PYTEST = [str(pathlib.Path(sys.executable).with_name("pytest")), "-p", "no:cacheprovider", "-q", "-x", "-m", "not slow"]
COUNTED = ("killed", "survived", "not run")
FINAL = ("killed", "invalid")
HANGS = 124
# pytest's status if a test failed, or a file of tests or conftest.py could not be imported; or that of `run`.
FAILED = (1, 2, 4, HANGS)
BAZEL_BUILD_FAILED, BAZEL_TEST_FAILED = 1, 3


class Mutant(NamedTuple):
    """A changed line of a file. The name does not change with the number of the line."""

    file: str
    line: int
    code: str
    name: str


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


def draw(language: str, seed: int) -> list[Mutant]:
    """Returns mutants of all files in a random order, one for each line.

    The order of the mutants, and the mutant of a line, are the same if other lines change.
    """
    files = sorted({path for pattern in FILES[language] for path in ROOT.glob(pattern) if path.is_file()})
    found = []
    for path in files:
        file = str(path.relative_to(ROOT))
        if NOT_MUTATED.search(file):
            continue
        skipped, comment = texts(path), "#" if language == "python" else "//"
        lines = path.read_text().splitlines(keepends=True)
        stripped = [line.strip() for line in lines]
        for number, line in enumerate(lines, 1):
            if number in skipped or IGNORED.search(line):
                continue
            changed = changes(line, comment)
            if not changed:
                continue
            place = f"{file}: {line.strip()} #{stripped[:number].count(line.strip())}"
            key = hashlib.sha256(f"{seed} {place}".encode()).hexdigest()
            code = random.Random(key).choice(changed)
            found.append((key, Mutant(file, number, code, f"{place}: {code.strip()}")))
    return [mutant for _, mutant in sorted(found)]


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


def run(
    command: Sequence[str], folder: pathlib.Path = ROOT, timeout: float | None = LONGEST, **environment: str
) -> int:
    """Runs a program in a folder. Returns its status, or HANGS if it had to be killed after `timeout` seconds."""
    try:
        process = subprocess.run(
            command,
            cwd=folder,
            env=os.environ | environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        return HANGS
    return process.returncode


def statements(path: pathlib.Path) -> dict[int, range]:
    """Returns, for each line of a Python file, the lines that run with it: its statement, or a function's body."""
    found: dict[int, range] = {}
    for node in ast.walk(ast.parse(path.read_text())):  # outer ones first
        if isinstance(node, ast.stmt):
            end = (node.end_lineno or node.lineno) + 1
            body = node.body[0].lineno if isinstance(node, WITH_BODY) else end
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            header = range(node.lineno, body)
            found |= dict.fromkeys(header, range(body, end) if is_function else header)
    return found


class PythonTests:
    """The Python tests that run a line, with a copy of the installed package."""

    def __init__(self):
        self.mutants_at_once = os.cpu_count() or 1
        data = coverage.CoverageData(str(COVERAGE / "python"))
        data.read()
        in_repository = {coverage_report.in_repository(file): file for file in data.measured_files()}
        contexts = {file: data.contexts_by_lineno(path) for file, path in in_repository.items()}
        passing = self._passing()
        self._tests = {
            file: {line: {name.rpartition("|")[0] for name in names} & passing for line, names in lines.items()}
            for file, lines in contexts.items()
        }
        every = {test for lines in self._tests.values() for tests in lines.values() for test in tests}
        of_package = {test for test in passing if test.startswith("tests/test_package.py")}
        # A line that runs at import has no tests of its own. Those of the package check what it declares.
        self._tests_of_imports = [*sorted(of_package), *self._some_of(every - of_package)]
        installed = importlib.util.find_spec("tf_rnn_ops").submodule_search_locations[0]
        self._packages: queue.Queue[pathlib.Path] = queue.Queue()
        for index in range(self.mutants_at_once):
            copy = STATE / f"package_{index}"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(installed, copy / "tf_rnn_ops", symlinks=True)
            self._packages.put(copy)

    @staticmethod
    def _some_of(tests: Collection[str]) -> list[str]:
        return random.Random(0).sample(sorted(tests), min(len(tests), MOST_TESTS))

    @staticmethod
    def _passing() -> set[str]:
        """Returns the tests that do not fail without a mutant."""
        listed = subprocess.run([*PYTEST, "--collect-only"], cwd=ROOT, capture_output=True, text=True, check=True)
        failing = COVERAGE / "pytest/v/cache/lastfailed"
        return set(listed.stdout.splitlines()) - set(json.loads(failing.read_text()) if failing.exists() else ())

    def judge(self, mutant: Mutant) -> str:
        """Returns "killed", "survived", "not run", "invalid", or "error" if pytest could not run the tests."""
        package = self._packages.get()
        try:
            with mutated(mutant, package):
                return self._judge(mutant, package)
        finally:
            self._packages.put(package)

    def _judge(self, mutant: Mutant, package: pathlib.Path) -> str:
        try:
            compile((package / mutant.file).read_text(), mutant.file, "exec")
        except SyntaxError:
            return "invalid"
        by_line = self._tests.get(mutant.file, {})
        run_with = statements(ROOT / mutant.file).get(mutant.line, range(mutant.line, mutant.line + 1))
        if not any(line in by_line for line in (mutant.line, *run_with)):
            return "not run"
        tests = {test for line in run_with for test in by_line.get(line, ())}
        chosen = self._some_of(tests) if tests else self._tests_of_imports
        (package / "tests").write_text("\n".join(chosen))
        return self.verdict(run([*PYTEST, f"@{package / 'tests'}"], PYTHONPATH=str(package)))

    @staticmethod
    def verdict(status: int) -> str:
        """Returns the verdict for the status of pytest."""
        return "survived" if status == 0 else "killed" if status in FAILED else "error"


class EngineTests:
    """The C++ unit tests, in a clone of the last commit, and a third of the Python tests, with its libraries."""

    def __init__(self):
        self.mutants_at_once = 1
        self._folder = STATE / "tree"
        if not self._folder.exists():
            subprocess.run(["git", "clone", "--quiet", str(ROOT), str(self._folder)], check=True)
        for command in (["fetch", "--quiet"], ["reset", "--quiet", "--hard", "@{upstream}"]):
            subprocess.run(["git", *command], cwd=self._folder, check=True)
        for name in (".venv", ".tools", "node_modules", "user.bazelrc"):
            if (ROOT / name).exists() and not (self._folder / name).exists():
                (self._folder / name).symlink_to(ROOT / name)
        self._counts = coverage_report.read(COVERAGE)
        if self._test():
            sys.exit("the C++ unit tests fail without a mutant")

    def _test(self) -> int:
        timeout = f"--test_timeout={LONGEST}"
        return run(["tools/bazel.sh", "test", "--notest_keep_going", timeout, "//cc/..."], self._folder, timeout=None)

    def judge(self, mutant: Mutant) -> str:
        """Returns "killed", "survived", "not run", "invalid", or "error" if Bazel or pytest could not run the tests."""
        count = self._counts[mutant.file].lines.get(mutant.line) if mutant.file in self._counts else None
        if not count:
            return "invalid" if count is None else "not run"
        with mutated(mutant, self._folder):
            return self._judge()

    def _judge(self) -> str:
        status = self._test()
        if status:
            return {BAZEL_BUILD_FAILED: "invalid", BAZEL_TEST_FAILED: "killed"}.get(status, "error")
        package = STATE / "package_cc"
        if run(["tools/package_with.sh", str(package)], self._folder, timeout=None):
            return "invalid"
        tests = sorted(map(str, (ROOT / "tests").glob("test_*.py")))
        command = [*PYTEST, "--numprocesses=2", "--dist=worksteal", "--part=0/3", *tests]
        return PythonTests.verdict(run(command, timeout=4 * LONGEST, PYTHONPATH=str(package)))


def drawn(language: str, seed: int) -> Iterator[Mutant]:
    """Yields the mutants to judge: not those that are equal, or in lines that no test can run."""
    reasons = json.loads((ROOT / "tools/uncovered.json").read_text())
    equal = {entry["mutant"] for entry in json.loads((ROOT / "tools/equal_mutants.json").read_text())}
    for mutant in draw(language, seed):
        left_out = any(mutant.line in coverage_report.lines_of(reason, mutant.file) for reason in reasons)
        if mutant.name not in equal and not left_out:
            yield mutant


def main() -> None:
    """Draws mutants, judges them and prints the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("language", choices=FILES)
    parser.add_argument("--count", type=int, default=150, help="valid mutants to judge (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="chooses the mutants (%(default)s)")
    settings = parser.parse_args()
    if not (COVERAGE / "python").exists():
        sys.exit("run `make coverage` first")
    STATE.mkdir(parents=True, exist_ok=True)
    path = STATE / f"{settings.language}_{settings.seed}.json"
    before: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    verdicts = {name: verdict for name, verdict in before.items() if verdict in FINAL}
    tests = PythonTests() if settings.language == "python" else EngineTests()
    counted: list[str] = []
    mutants = drawn(settings.language, settings.seed)
    with concurrent.futures.ThreadPoolExecutor(tests.mutants_at_once) as threads:
        while some := list(itertools.islice(mutants, settings.count - len(counted))):
            new = [mutant for mutant in some if mutant.name not in verdicts]
            # Only this thread keeps verdicts: Ctrl-C, which ends the tests of the others, leaves none.
            for mutant, verdict in zip(new, threads.map(tests.judge, new), strict=True):
                verdicts[mutant.name] = verdict
                path.write_text(json.dumps(verdicts, indent=1))
                print(f"{verdict:<10}{mutant.file}:{mutant.line}\n{'':<10}{mutant.name}", flush=True)
            counted += [verdicts[mutant.name] for mutant in some if verdicts[mutant.name] in COUNTED]
    killed = counted.count("killed")
    print(f"{killed} of {len(counted)} mutants were killed")
    if killed < len(counted):
        sys.exit(1)


if __name__ == "__main__":
    main()
