#!/usr/bin/env bash
# Measures which lines and branches of the C++ or of the Python code the tests run.
#
#   tools/coverage.sh cc|python [PYTEST_ARGUMENT ...]
#
# cc: the C++ unit tests; and the Python tests, with libraries that count. python: the Python tests.

source "$(dirname "$0")/shell.sh"
cd "$REPOSITORY"

readonly STATE="$REPOSITORY/build/coverage"
readonly LIBRARIES=(libtf_rnn_ops_engine.so libtf_rnn_ops_ffi.so libtf_rnn_ops.so libtf_rnn_ops_builtin_kernels.so
  libtf_rnn_ops_xla.so)
readonly PYTEST=(.venv/bin/pytest -p no:cacheprovider -q --numprocesses=2 --dist=worksteal -m "not slow")
failed=

# Goes on after a failed test; fails at the end.
try() {
  "$@" >&2 || failed=1
}

measure_cc() {
  { command -v "$CLANG" && command -v llvm-cov-19; } >/dev/null || install_packages "${CLANG_PACKAGES[@]}"
  local state=$STATE/cc profiles=$STATE/cc/profiles
  rm -rf "$state"
  mkdir -p "$profiles"
  export LLVM_PROFILE_FILE=$profiles/%p-%m.profraw
  say "C++ unit tests"
  try tools/bazel.sh test --config=coverage --test_env=LLVM_PROFILE_FILE --sandbox_writable_path="$profiles" \
    --cache_test_results=no -- //cc/{ffi,ops,rnn,tensorflow}/... -//cc/tensorflow/kernels/gpu/...
  tools/bazel.sh build --config=coverage "${LIBRARIES[@]/#///:}" >&2
  tools/package_with.sh "$state/package" "${LIBRARIES[@]}"
  say "Python tests"
  PYTHONPATH="$state/package" try "${PYTEST[@]}" "$@"
  # A process that was killed leaves a part of its profile.
  llvm-profdata-19 merge --sparse --failure-mode=all "$profiles"/*.profraw -o "$state/merged"
  local programs
  mapfile -t programs < <(find -L bazel-bin/cc -type f -executable -name '*_test' -not -path '*.runfiles/*' && find "$state/package" -name '*.so')
  local counts=(--instr-profile="$state/merged" "${programs[@]/#/--object=}"
    --ignore-filename-regex='external/|_test|test_support|_fuzz|_main\.cc|fuzz_support|reference\.h|third_party|cc/gpu/|kernels/gpu/|/usr/')
  llvm-cov-19 export --format=lcov --skip-branches "${counts[@]}" >"$state/lcov"
  llvm-cov-19 export --skip-functions --skip-expansions "${counts[@]}" >"$state/branches"
  .venv/bin/python tools/coverage_report.py "$state/lcov" --branches "$state/branches" cc/rnn cc/ops cc/tensorflow cc/ffi
}

measure_python() {
  local state=$STATE/python
  rm -rf "$state"
  mkdir -p "$state"
  COVERAGE_FILE="$state/data" try "${PYTEST[@]}" --cov --cov-report="lcov:$state/lcov" "$@"
  # As in the repository.
  sed -i 's|^SF:.*/site-packages/|SF:|' "$state/lcov"
  .venv/bin/python tools/coverage_report.py "$state/lcov" tf_rnn_ops
}

case ${1:-} in
cc | python) "measure_$1" "${@:2}" ;;
*) fail "usage: tools/coverage.sh cc|python [PYTEST_ARGUMENT ...]" ;;
esac
[ -z "$failed" ] || fail "tests failed"
