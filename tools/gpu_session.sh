#!/usr/bin/env bash
# Checks the GPU engine on a machine with a GPU. Requires only the unpacked bundle of `make gpu-bundle`, and Python with
# PyTorch and NumPy. Takes the options of `gpu_check.py run`; with --fakes FOLDER it runs without a GPU. Environment
# variables:
#
#   OUT             folder for the results (default: gpu_results)
#   PYTHON          interpreter (default: python3)
#   SECONDS_IN_ALL  time limit in seconds (default: 535)

set -euo pipefail
cd "$(dirname "$0")/.."

limit=${SECONDS_IN_ALL:-535}
# The limit for gpu_check.py is lower, so that it can report its results.
own_limit=$((limit - 15))
output=${OUT:-gpu_results}/gpu_check
status=0
timeout --kill-after=5 "$limit" \
  "${PYTHON:-python3}" tools/gpu_check.py run --output "$output" --seconds "$own_limit" "$@" || status=$?
[ "$status" != 124 ] && [ "$status" != 137 ] || echo "error: gpu_check.py did not end within $limit s" >&2
[ ! -d "$output" ] || ls -l "$output"
exit "$status"
