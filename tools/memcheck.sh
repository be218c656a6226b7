#!/usr/bin/env bash
# Runs Python tests of the ops with libraries built for AddressSanitizer and UndefinedBehaviorSanitizer, which detect when
# our code accesses memory outside of TensorFlow's buffers.
#
#   tools/memcheck.sh [PYTEST_ARGUMENT ...]
#
# By default, runs the tests below, except the slow ones: each op, type, mode and pass, and bad input.

source "$(dirname "$0")/shell.sh"
cd "$REPOSITORY"

readonly STATE="$REPOSITORY/build/memcheck"
readonly TESTS=(
  -m "not slow"
  tests/test_{builtin_kernels,golden,cell_bad_input,op_bad_input,cell_second_order}.py
  tests/test_cudnn_rnn_{bad_input,dropout,gradients,params_ops,parity,reserve_space,second_order,shapes}.py
  tests/test_gru_block_cell_{gradients,parity,shapes}.py
)

# Reports go to files, because pytest's workers would lose them. The checks in `off` fail in TensorFlow and Python: they
# leak objects that live as long as the process, free memory in another library than the one that allocated it, and define
# some globals twice. Failed allocations return null, as without the sanitizers.
run_tests() {
  local off=detect_leaks=0:alloc_dealloc_mismatch=0:new_delete_type_mismatch=0:detect_odr_violation=0
  PYTHONPATH="$STATE/package" \
    LD_PRELOAD="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libubsan.so)" \
    ASAN_OPTIONS="$off:allocator_may_return_null=1:log_path=$STATE/report" \
    UBSAN_OPTIONS="print_stacktrace=1:log_path=$STATE/report" \
    .venv/bin/pytest -p no:cacheprovider -q --numprocesses=2 --dist=worksteal "$@"
}

rm -rf "$STATE"
tools/package_with.sh "$STATE/package" --config=asan
failed=
run_tests "${@:-${TESTS[@]}}" || failed=1
if compgen -G "$STATE/report.*" >/dev/null; then
  cat "$STATE"/report.* >&2
  fail "the sanitizers reported the errors above"
fi
[ -z "$failed" ] || fail "the tests failed"
say "the sanitizers reported no errors"
