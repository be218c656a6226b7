#!/usr/bin/env bash
# Checks the GPU engine on a machine with a GPU: what `make gpu-bundle` packs, unpacked there, with Python, PyTorch and
# NumPy, is all that it needs. Writes the results into $OUT, or gpu_results, and ends within nine minutes whatever
# happens. With --fakes FOLDER it is rehearsed without a GPU. Options are those of `gpu_check.py run`; PYTHON chooses the
# interpreter.

set -euo pipefail
cd "$(dirname "$0")/.."

# Above what gpu_check.py gives itself.
readonly SECONDS_IN_ALL=535
output=${OUT:-gpu_results}/gpu_check
status=0
timeout --kill-after=5 "$SECONDS_IN_ALL" "${PYTHON:-python3}" tools/gpu_check.py run --output "$output" "$@" || status=$?
[ "$status" != 124 ] && [ "$status" != 137 ] || echo "error: gpu_check.py did not end within $SECONDS_IN_ALL s" >&2
ls -l "$output"
exit "$status"
