#!/usr/bin/env bash
# Links the ops into a C++ program as for TensorFlow Serving, and serves a SavedModel with it (see docs/guides/serving.md).
# Requires .venv with the wheel.

source "$(dirname "$0")/shell.sh"

readonly PYTHON=$REPOSITORY/.venv/bin/python
# The first two are from TensorFlow Serving's .bazelrc.
readonly SERVING_FLAGS=(--compilation_mode=opt --cxxopt=-std=c++17 --nosandbox_debug)
folder=$(mktemp -d)

# Bazel ignores --symlink_prefix for bazel-out. Its server is not used for other workspaces.
cleanup() {
  cd "$REPOSITORY/examples/serving"
  "$TOOLS_STATE/bazel" shutdown
  rm -rf bazel-out "$folder"
}
trap cleanup EXIT

bazel() {
  local command=$1
  shift
  "$TOOLS_STATE/bazel" --bazelrc="$TOOLS_STATE/bazelrc" "$command" "--repo_env=TF_RNN_OPS_PYTHON=$PYTHON" \
    "--symlink_prefix=$folder/bazel-" "${SERVING_FLAGS[@]}" "$@"
}

say "writing a SavedModel with the ops"
(cd "$folder" && "$PYTHON" "$REPOSITORY/examples/serving/save_model.py" "$folder")

cd "$REPOSITORY/examples/serving"
say "building a program with the ops linked in"
bazel build //:run_saved_model
say "serving the SavedModel"
tensorflow=$("$PYTHON" -c 'import importlib.util; print(*importlib.util.find_spec("tensorflow").submodule_search_locations)')
LD_LIBRARY_PATH=$tensorflow "$folder/bazel-bin/run_saved_model" "$folder/model" 2 5 3 <"$folder/numbers.txt" >"$folder/served.txt"
"$PYTHON" -c '
import sys, numpy as np
served, expected = map(np.loadtxt, sys.argv[1:])
np.testing.assert_allclose(served, expected, rtol=1e-5, atol=1e-6)
' "$folder/served.txt" "$folder/outputs.txt"
say "the results match Keras: $(paste -sd ' ' "$folder/served.txt")"

# TensorFlow Serving uses the older ABI. The installed TensorFlow does not, so compile without linking.
say "compiling the ops with the old libstdc++ ABI"
bazel build --copt=-D_GLIBCXX_USE_CXX11_ABI=0 @tf_rnn_ops//:linked_ops @tf_rnn_ops//:linked_builtin_kernels
