#!/usr/bin/env bash
# Copies the installed package, with libraries for CPUs that Bazel builds in place of its own.
#
#   tools/package_with.sh FOLDER [BAZEL_OPTION ...]

source "$(dirname "$0")/shell.sh"
cd "$REPOSITORY"

folder=${1:?usage: tools/package_with.sh FOLDER [BAZEL_OPTION ...]}
installed=$(.venv/bin/python -I -c 'import importlib.util as u; print(*u.find_spec("tf_rnn_ops").submodule_search_locations)')
rm -rf "$folder"
mkdir -p "$folder"
cp -r "$installed" "$folder/"
mapfile -t libraries < <(find "$folder" -name '*.so' -not -name '*_gpu.so')
names=("${libraries[@]##*/}")
tools/bazel.sh build "${@:2}" "${names[@]/#///:}" >&2
for library in "${libraries[@]}"; do
  cp --force "bazel-bin/${library##*/}" "$library"
done
