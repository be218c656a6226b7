#!/usr/bin/env bash
# Checks the GPU engine on a machine with a GPU, and then measures how the CPU engine scales with the number of threads.
# Requires only the unpacked bundle of `make gpu-bundle`, and Python with PyTorch, NumPy and ONNX Runtime. Takes the
# options of `gpu_check.py run`; with --fakes FOLDER it runs without a GPU. Environment variables:
#
#   OUT              folder for the results (default: gpu_results)
#   PYTHON           interpreter (default: python3)
#   GPU_SECONDS      time limit of the GPU checks in seconds (default: 400); 0 skips them
#   SCALING_SECONDS  time limit of the scaling benchmark in seconds (default: 130); 0 skips it
#   SCALING_OPTIONS  options of benchmarks/scaling.py

set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
output=${OUT:-gpu_results}
gpu_seconds=${GPU_SECONDS:-400}
scaling_seconds=${SCALING_SECONDS:-130}
read -ra scaling_options <<<"${SCALING_OPTIONS:-}"
status=0

# limited SECONDS PROGRAM ARGUMENT ...
limited() {
  local code=0
  timeout --kill-after=5 "$1" "$python" "${@:2}" || code=$?
  [ "$code" != 124 ] && [ "$code" != 137 ] || echo "error: $2 did not end within $1 s" >&2
  return "$code"
}

mkdir -p "$output/scaling"
# The programs' own limits are lower, so that they can report their results.
if [ "$gpu_seconds" != 0 ]; then
  limited "$gpu_seconds" tools/gpu_check.py run --output "$output/gpu_check" --seconds "$((gpu_seconds - 15))" "$@" ||
    status=$?
fi
if [ "$scaling_seconds" != 0 ]; then
  limited "$scaling_seconds" benchmarks/scaling.py --output "$output/scaling" --seconds "$((scaling_seconds - 15))" \
    ${scaling_options[@]+"${scaling_options[@]}"} 2>&1 | tee "$output/scaling/log.txt" || status=$?
fi
ls -l "$output"/*
exit "$status"
