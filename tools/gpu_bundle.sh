#!/usr/bin/env bash
# Packs the files that tools/gpu_session.sh needs on a machine with a GPU into build/gpu-bundle.tar.gz: the engines, the
# checks, the reference implementations and the benchmark. `make gpu-bundle` builds the engines first.

source "$(dirname "$0")/shell.sh"
cd "$REPOSITORY"

readonly BUNDLE=build/gpu-bundle
readonly ENGINE=build/gpu-libraries/libtf_rnn_ops_gpu_engine.so
readonly CPU_ENGINE=build/engine-calls/libengine_calls.so
readonly REFERENCES=(cudnn_rnn_reference golden_cases parity reference second_order_reference)
# Upload limit of the GPU machine.
readonly MAX_BYTES=$((64 * 1024 * 1024))

for library in "$ENGINE" "$CPU_ENGINE"; do
  [ -f "$library" ] || fail "$library is missing; run make gpu-bundle"
done
rm -rf "$BUNDLE" "$BUNDLE.tar.gz"
mkdir -p "$BUNDLE/tools/gpu_checks" "$BUNDLE/tests" "$BUNDLE/benchmarks" "$BUNDLE/$(dirname "$CPU_ENGINE")"
cp "$ENGINE" "$BUNDLE/"
cp "$CPU_ENGINE" "$BUNDLE/$CPU_ENGINE"
cp benchmarks/*.py "$BUNDLE/benchmarks/"
cp tools/gpu_check.py tools/gpu_session.sh "$BUNDLE/tools/"
cp tools/gpu_checks/*.py "$BUNDLE/tools/gpu_checks/"
for name in "${REFERENCES[@]}"; do cp "tests/$name.py" "$BUNDLE/tests/"; done
{ git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown; } >"$BUNDLE/commit"
tar --create --gzip --file "$BUNDLE.tar.gz" --directory "$BUNDLE" .
[ "$(stat --format %s "$BUNDLE.tar.gz")" -lt "$MAX_BYTES" ] || fail "$BUNDLE.tar.gz must be smaller than $MAX_BYTES bytes"
say "packed $(du --human-readable "$BUNDLE.tar.gz" | cut -f 1) into $BUNDLE.tar.gz"
