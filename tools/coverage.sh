#!/usr/bin/env bash
# Measures which lines and branches of the C++ and of the Python code the tests run.
#
#   tools/coverage.sh [PYTEST_ARGUMENT ...]
#
# Runs the C++ unit tests; and the Python tests, with libraries that count. PARTS="0/3" runs a third of their cases, as CI
# does.

source "$(dirname "$0")/shell.sh"
cd "$REPOSITORY"

readonly STATE="$REPOSITORY/build/coverage"
failed=

# Goes on after a failed test; fails at the end.
try() {
  "$@" >&2 || failed=1
}

{ command -v "$CLANG" && command -v llvm-cov-19; } >/dev/null || install_packages "${CLANG_PACKAGES[@]}"
rm -rf "$STATE"
mkdir -p "$STATE/profiles"
export LLVM_PROFILE_FILE=$STATE/profiles/%p-%m%c.profraw

say "C++ unit tests"
try tools/bazel.sh test --config=coverage --test_env=LLVM_PROFILE_FILE --sandbox_writable_path="$STATE/profiles" \
  --cache_test_results=no -- //cc/{ffi,ops,rnn,tensorflow}/... -//cc/tensorflow/kernels/gpu/...

say "Python tests"
tools/package_with.sh "$STATE/package" --config=coverage
# In thirds, because the memory of a process grows with each function that it has compiled.
for part in ${PARTS:-0/3 1/3 2/3}; do
  PYTHONPATH="$STATE/package" COVERAGE_FILE="$STATE/python" try .venv/bin/pytest -o cache_dir="$STATE/pytest" -q \
    --numprocesses=2 --dist=worksteal -m "not slow" --part="$part" --cov --cov-append --cov-context=test --cov-report= "$@"
done
COVERAGE_FILE="$STATE/python" .venv/bin/coverage lcov -q -o "$STATE/python.lcov"

say "lines and branches"
llvm-profdata-19 merge --sparse "$STATE"/profiles/*.profraw -o "$STATE/cc"
mapfile -t programs < <(find -L bazel-bin/cc -type f -executable -name '*_test' -not -path '*.runfiles/*' && find "$STATE/package" -name '*.so')
counts=(--instr-profile="$STATE/cc" "${programs[@]/#/--object=}"
  --ignore-filename-regex='external/|_test|test_support|_fuzz|_main\.cc|fuzz_support|reference\.h|third_party|cc/gpu/|kernels/gpu/|/usr/')
llvm-cov-19 export --format=lcov --skip-branches "${counts[@]}" >"$STATE/cc.lcov"
llvm-cov-19 export --skip-functions --skip-expansions "${counts[@]}" >"$STATE/cc.json"
.venv/bin/python tools/coverage_report.py "$STATE"
[ -z "$failed" ] || fail "tests failed"
