#!/usr/bin/env bash
# Checks the GPU engine on a machine with a GPU: what `make gpu-bundle` packs, unpacked there, with Python, PyTorch and
# NumPy, is all that it needs. Writes the results into $OUT, or gpu_results, and ends within nine minutes whatever
# happens. With --fakes FOLDER it is rehearsed without a GPU. Options are those of `gpu_check.py run`; PYTHON chooses the
# interpreter, and SECONDS_IN_ALL another limit.

set -euo pipefail
cd "$(dirname "$0")/.."

limit=${SECONDS_IN_ALL:-535}
# That gpu_check.py gives itself: less, so that it can say what it did.
own_limit=$((limit - 15))
output=${OUT:-gpu_results}/gpu_check
status=0
timeout --kill-after=5 "$limit" \
  "${PYTHON:-python3}" tools/gpu_check.py run --output "$output" --seconds "$own_limit" "$@" || status=$?
[ "$status" != 124 ] && [ "$status" != 137 ] || echo "error: gpu_check.py did not end within $limit s" >&2
[ ! -d "$output" ] || ls -l "$output"
exit "$status"
