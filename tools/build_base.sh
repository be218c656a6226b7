#!/usr/bin/env bash
# Builds the wheel of another revision, without a change to the working tree, and extracts it into a folder.
#
#   tools/build_base.sh REVISION FOLDER
#
# The tools and TensorFlow come from .venv.

source "$(dirname "$0")/shell.sh"

revision=${1:?usage: tools/build_base.sh REVISION FOLDER}
folder=$(realpath -m "${2:?usage: tools/build_base.sh REVISION FOLDER}")
source=$REPOSITORY/build/base
cd "$REPOSITORY"
commit=$(git rev-parse --verify "$revision^{commit}") || fail "no such revision: $revision"

say "building the wheel of $commit in build/base"
rm -rf "$source"
mkdir -p "$source"
trap 'rm -rf "$source"' EXIT
git archive "$commit" | tar -x -C "$source"
ln -s "$REPOSITORY/.venv" "$source/.venv"
cp -R "$TOOLS_STATE/." "$source/.tools"
[ ! -f user.bazelrc ] || cp user.bazelrc "$source"
TF_RNN_OPS_PYTHON=$REPOSITORY/.venv/bin/python "$source/build_pip_pkg.sh" "$source/dist"
rm -rf "$folder"
.venv/bin/python -m zipfile -e "$source"/dist/*.whl "$folder"
