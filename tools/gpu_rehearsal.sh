#!/usr/bin/env bash
# Rehearses tools/gpu_session.sh without a GPU: packs the bundle, unpacks it outside of the repository, and runs it there
# on the fakes of cc/gpu/fakes. Fails if a case fails, the fakes notice a misuse or a family does not end. Options are
# those of `gpu_check.py run`. `make gpu-rehearsal` builds the libraries first.

source "$(dirname "$0")/shell.sh"
cd "$REPOSITORY"

tools/gpu_bundle.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tar --extract --gzip --file build/gpu-bundle.tar.gz --directory "$folder"
OUT=$folder/out PYTHON=$REPOSITORY/.venv/bin/python \
  "$folder/tools/gpu_session.sh" --fakes "$REPOSITORY/build/gpu-libraries/fakes" --quick "$@" || {
  tail -n 100 "$folder/out/gpu_check/log.txt" >&2
  fail "the rehearsal failed; the end of its log is above"
}
