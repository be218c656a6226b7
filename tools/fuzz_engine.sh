#!/usr/bin/env bash
# Fuzzes the engine with libFuzzer, one target after another.
#
#   tools/fuzz_engine.sh [--seconds N] [--merge] [TARGET ...]
#
# Runs each target in cc/rnn (all by default) for N seconds (60), starting from cc/rnn/corpus/TARGET.hex. New inputs, logs
# and failing inputs go to build/fuzz/TARGET. --merge then rebuilds the corpus. Inputs that found a bug are kept in
# cc/rnn/faults/TARGET.hex, which --merge does not change.

source "$(dirname "$0")/shell.sh"
cd "$REPOSITORY"

readonly SYMBOLIZER=llvm-symbolizer-19
# Maximum number of inputs in a corpus. All inputs with new coverage would be some hundred, and cover little more.
readonly CORPUS_INPUTS=64

has_libfuzzer() {
  command -v "$CLANG" >/dev/null && command -v "$SYMBOLIZER" >/dev/null &&
    [ -f "$("$CLANG" -print-file-name="libclang_rt.fuzzer-$(uname -m).a")" ]
}

build_targets() {
  tools/bazel.sh build --config=fuzz "${targets[@]/#///cc/rnn:}" >&2
  for target in "${targets[@]}"; do
    rm -rf "build/fuzz/$target/corpus"
    mkdir -p "build/fuzz/$target/found" "build/fuzz/$target/corpus"
    [ ! -f "cc/rnn/corpus/$target.hex" ] ||
      .venv/bin/python tools/fuzz_corpus.py unpack "cc/rnn/corpus/$target.hex" "build/fuzz/$target/corpus"
    cp -f "bazel-bin/cc/rnn/$target" "build/fuzz/$target/run"
  done
}

# Runs a target. New inputs go to the first folder.
run_target() {
  local state=build/fuzz/$1
  if ! "$state/run" -max_total_time="$seconds" -max_len=400 -len_control=0 -timeout=120 -print_final_stats=1 \
    -artifact_prefix="$state/" "$state/found" "$state/corpus" >"$state/log" 2>&1; then
    tail -n 40 "$state/log" >&2
    fail "$1 failed; the input is in $state, the log is $state/log"
  fi
  grep -E '^#[0-9]+\s+DONE|stat::(number_of_executed_units|peak_rss_mb)' "$state/log"
}

# Writes a minimal set of inputs with the coverage of all folders into the first folder.
cover() {
  local log=$1 control_file=$2
  shift 2
  rm -rf "$control_file" "$1"
  mkdir "$1"
  "$state/run" -set_cover_merge=1 -use_counters=0 -merge_control_file="$control_file" "$@" >"$log" 2>&1 ||
    fail "merging the corpus failed; see $log"
}

# Replaces the corpus of a target with the inputs, old and new, that cover the most.
merge_corpus() {
  local state=build/fuzz/$1 corpus=cc/rnn/corpus/$1.hex
  cover "$state/merge.log" "$state/merge.control" "$state/merged" "$state/corpus" "$state/found"
  cover "$state/merge.log" "$state/merge.control" "$state/again" "$state/merged"
  .venv/bin/python tools/fuzz_corpus.py choose "$state/merge.control" "$CORPUS_INPUTS" "$corpus"
  say "$1: $(wc -l <"$corpus") inputs, of $(find "$state/merged" -type f | wc -l) needed for full coverage"
}

seconds=60
merges=
targets=()
while [ $# -gt 0 ]; do
  case $1 in
  --seconds)
    seconds=${2:?--seconds requires a number}
    shift
    ;;
  --merge) merges=1 ;;
  -*) fail "unknown option $1; options: --seconds N, --merge" ;;
  *) targets+=("$1") ;;
  esac
  shift
done
if [ ${#targets[@]} = 0 ]; then
  for source in cc/rnn/*_fuzz.cc; do targets+=("$(basename "$source" .cc)"); done
fi

has_libfuzzer || install_packages "${CLANG_PACKAGES[@]}"
ASAN_SYMBOLIZER_PATH=$(command -v "$SYMBOLIZER")
export ASAN_SYMBOLIZER_PATH
build_targets
for target in "${targets[@]}"; do
  say "fuzzing $target for $seconds seconds"
  run_target "$target"
  [ -z "$merges" ] || merge_corpus "$target"
done
