#!/usr/bin/env bash
# Runs tools/gpu_session.sh without a GPU: packs the bundle, unpacks it outside of the repository, and runs it there with
# the fake libraries of cc/gpu/fakes. Fails if a case fails, a fake library detects misuse, or a family does not end.
# Takes the options of `gpu_check.py run`. `make gpu-rehearsal` builds the libraries first.

source "$(dirname "$0")/shell.sh"
cd "$REPOSITORY"

tools/gpu_bundle.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tar --extract --gzip --file build/gpu-bundle.tar.gz --directory "$folder"
OUT=$folder/out PYTHON=$REPOSITORY/.venv/bin/python SCALING_OPTIONS="--quick --threads 1,2" \
  "$folder/tools/gpu_session.sh" --fakes "$REPOSITORY/build/gpu-libraries/fakes" --quick "$@" || {
  tail -n 100 "$folder"/out/*/log.txt >&2
  fail "the GPU check on the fakes or the scaling benchmark failed; see the ends of their logs above"
}
