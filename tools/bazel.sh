#!/usr/bin/env bash
# Runs Bazel for the TensorFlow and architecture of a Python interpreter: TF_RNN_OPS_PYTHON if set, else the one in .venv,
# else python3. Sets up Bazel first if necessary. TF_RNN_OPS_BAZEL_CONFIG optionally names a config of .bazelrc.

source "$(dirname "$0")/shell.sh"

python=${TF_RNN_OPS_PYTHON:-}
if [ -z "$python" ]; then
  python=$REPOSITORY/.venv/bin/python
  [ -x "$python" ] || python=python3
fi
python=$(absolute_python "$python")
cd "$REPOSITORY"

[ -x "$TOOLS_STATE/bazel" ] || tools/setup_bazel.sh

# The architecture, and TensorFlow's path and modification time. Importing TensorFlow would take seconds.
read -r machine installation < <(env -u PYTHONPATH "$python" -c '
import importlib.util, os, platform
spec = importlib.util.find_spec("tensorflow")
print(platform.machine(), f"{spec.origin} {os.stat(spec.origin).st_mtime_ns}" if spec else "")
')
[ -n "$installation" ] ||
  fail "TensorFlow is not installed for $python; install it, or set TF_RNN_OPS_PYTHON to another interpreter"

command=${1:?usage: tools/bazel.sh COMMAND [ARGUMENT ...]}
shift
settings=()
case $command in
build | test | run | coverage | query | cquery | aquery | fetch)
  settings=("--repo_env=TF_RNN_OPS_PYTHON=$python" "--repo_env=TF_RNN_OPS_TENSORFLOW=$installation")
  [ -z "${TF_RNN_OPS_BAZEL_CONFIG:-}" ] || settings+=("--config=$TF_RNN_OPS_BAZEL_CONFIG")
  if [ "$machine" != "$(uname -m)" ]; then
    compiler=$REPOSITORY/tools/${machine}_gcc.sh
    [ -x "$compiler" ] || fail "$python is for $machine; cross-compiling for it on $(uname -m) is not supported"
    settings+=("--config=$machine" "--repo_env=CC=$compiler")
  fi
  ;;
esac
exec "$TOOLS_STATE/bazel" "$command" "${settings[@]}" "$@"
