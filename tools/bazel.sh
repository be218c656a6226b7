#!/usr/bin/env bash
# Runs Bazel against the TensorFlow of one interpreter, and for its machine: the one that TF_RNN_OPS_PYTHON names, else the
# development environment's, else python3. Sets Bazel up first if that was not done. TF_RNN_OPS_BAZEL_CONFIG may name a
# config of .bazelrc.

source "$(dirname "$0")/shell.sh"

python=${TF_RNN_OPS_PYTHON:-}
if [ -z "$python" ]; then
  python=$REPOSITORY/.venv/bin/python
  [ -x "$python" ] || python=python3
fi
python=$(absolute_python "$python")
cd "$REPOSITORY"

[ -x "$TOOLS_STATE/bazel" ] || tools/setup_bazel.sh

# The machine, and where TensorFlow is and since when, without the seconds that importing it takes.
read -r machine installation < <(env -u PYTHONPATH "$python" -c '
import importlib.util, os, platform
spec = importlib.util.find_spec("tensorflow")
print(platform.machine(), f"{spec.origin} {os.stat(spec.origin).st_mtime_ns}" if spec else "")
')
[ -n "$installation" ] ||
  fail "$python has no TensorFlow to build against; install it there, or name another interpreter in TF_RNN_OPS_PYTHON"

command=${1:?usage: tools/bazel.sh COMMAND [ARGUMENT ...]}
shift
settings=()
case $command in
build | test | run | coverage | query | cquery | aquery | fetch)
  settings=("--repo_env=TF_RNN_OPS_PYTHON=$python" "--repo_env=TF_RNN_OPS_TENSORFLOW=$installation")
  [ -z "${TF_RNN_OPS_BAZEL_CONFIG:-}" ] || settings+=("--config=$TF_RNN_OPS_BAZEL_CONFIG")
  if [ "$machine" != "$(uname -m)" ]; then
    compiler=$REPOSITORY/tools/${machine}_gcc.sh
    [ -x "$compiler" ] || fail "$python is for $machine, for which nothing is built on $(uname -m)"
    settings+=("--config=$machine" "--repo_env=CC=$compiler")
  fi
  ;;
esac
exec "$TOOLS_STATE/bazel" "$command" "${settings[@]}" "$@"
