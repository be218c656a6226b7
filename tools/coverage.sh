#!/usr/bin/env bash
# Measures which lines and branches of the C++ or of the Python code the tests run.
#
#   tools/coverage.sh cc|python [PYTEST_ARGUMENT ...]
#
# cc: the C++ unit tests, and Python tests of the ops with libraries that count. python: the Python tests.

source "$(dirname "$0")/shell.sh"
cd "$REPOSITORY"

# As in .bazelrc.
readonly CLANG=clang-19
readonly PACKAGES=(clang-19 libclang-rt-19-dev llvm-19)
readonly STATE="$REPOSITORY/build/coverage"
readonly LIBRARIES=(libtf_rnn_ops_engine.so libtf_rnn_ops_ffi.so libtf_rnn_ops.so libtf_rnn_ops_builtin_kernels.so
  libtf_rnn_ops_xla.so)
readonly PYTEST=(.venv/bin/pytest -p no:cacheprovider -q --numprocesses=2 --dist=worksteal -m "not slow")

measure_cc() {
  { command -v "$CLANG" && command -v llvm-cov-19; } >/dev/null || install_packages "${PACKAGES[@]}"
  rm -rf "$STATE/cc"
  mkdir -p "$STATE/cc/profiles"
  local profiles=$STATE/cc/profiles/%p-%m.profraw
  say "C++ unit tests"
  tools/bazel.sh test --config=coverage --test_env="LLVM_PROFILE_FILE=$profiles" \
    --sandbox_writable_path="$STATE/cc/profiles" --cache_test_results=no //cc/... >&2
  tools/bazel.sh build --config=coverage "${LIBRARIES[@]/#///:}" >&2
  tools/package_with.sh "$STATE/cc/package" "${LIBRARIES[@]}"
  say "Python tests of the ops"
  PYTHONPATH="$STATE/cc/package" LLVM_PROFILE_FILE="$profiles" "${PYTEST[@]}" "$@" >&2 || say "tests failed"
  llvm-profdata-19 merge --sparse "$STATE"/cc/profiles/*.profraw -o "$STATE/cc/merged"
  # All tests, and the libraries.
  local programs=()
  mapfile -t programs < <(tools/bazel.sh query 'kind(cc_test, //cc/...)' 2>/dev/null | sed 's|//|bazel-bin/|; s|:|/|')
  programs+=("$STATE/cc/package/tf_rnn_ops"/*.so "$STATE/cc/package/tf_rnn_ops"/tensorflow_*/*.so)
  llvm-cov-19 export --format=lcov --instr-profile="$STATE/cc/merged" "${programs[@]/#/--object=}" \
    --ignore-filename-regex='external/|_test|_fuzz|_main\.cc|fuzz_support|reference\.h|cc/gpu/|kernels/gpu/|/usr/' \
    --path-equivalence="/proc/self/cwd,$REPOSITORY" >"$STATE/cc/lcov"
  .venv/bin/python tools/coverage_report.py "$STATE/cc/lcov"
}

measure_python() {
  rm -rf "$STATE/python"
  mkdir -p "$STATE/python"
  COVERAGE_FILE="$STATE/python/data" "${PYTEST[@]}" --cov=tf_rnn_ops --cov-branch --cov-report="lcov:$STATE/python/lcov" \
    "$@" >&2 || say "tests failed"
  # The tests import the installed package.
  sed -i 's|^SF:.*/site-packages/|SF:|' "$STATE/python/lcov"
  .venv/bin/python tools/coverage_report.py "$STATE/python/lcov"
}

case ${1:-} in
cc | python) "measure_$1" "${@:2}" ;;
*) fail "usage: tools/coverage.sh cc|python [PYTEST_ARGUMENT ...]" ;;
esac
