#!/usr/bin/env bash
# Builds wheels from the source distribution with pip, uv and build, each with and without build isolation, and imports
# the installed package.
#
#   tools/test_sdist.sh SDIST ENVIRONMENT
#
# ENVIRONMENT is a virtual environment with TensorFlow. The wheels are installed into it.

source "$(dirname "$0")/shell.sh"
cd "$REPOSITORY"

sdist=$(realpath "${1:?usage: tools/test_sdist.sh SDIST ENVIRONMENT}")
environment=$(realpath "${2:?usage: tools/test_sdist.sh SDIST ENVIRONMENT}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Each build has its own folder and Bazel server. They share a disk cache.
export HOME=$folder/home
mkdir "$HOME"
echo "build --disk_cache=$folder/disk-cache" >"$HOME/.bazelrc"
unset TF_RNN_OPS_PYTHON TF_RNN_OPS_BAZEL_CONFIG
export PIP_NO_CACHE_DIR=1 UV_NO_CACHE=1 PIP_DISABLE_PIP_VERSION_CHECK=1

# Imports the package in the environment, then uninstalls it.
check() {
  (cd / && "$environment/bin/python" -c 'import tf_rnn_ops; print("imported", tf_rnn_ops.__version__)')
  "$environment/bin/python" -m pip uninstall --quiet --yes tf_rnn_ops
}

install() {
  "$environment/bin/python" -m pip install --quiet --no-deps "$@"
}

# Builds a wheel with build, and installs it.
build() {
  rm -rf "$folder/wheel" "$folder/source"
  mkdir "$folder/source"
  tar -xf "$sdist" -C "$folder/source" --strip-components=1
  "$1/bin/python" -m build --wheel "${@:2}" --outdir "$folder/wheel" "$folder/source"
  install --no-index "$folder"/wheel/*.whl
}

say "pip, isolated"
install "$sdist"
check
say "pip, without build isolation"
"$environment/bin/python" -m pip install --quiet --require-hashes -r requirements/tensorflow.txt -r requirements/pytest.txt -r requirements/dev.txt
install --no-build-isolation "$sdist"
check
say "uv, isolated"
"$REPOSITORY/.venv/bin/uv" pip install --quiet --no-deps --python "$environment/bin/python" "$sdist"
check
say "uv, without build isolation"
"$REPOSITORY/.venv/bin/uv" pip install --quiet --no-deps --python "$environment/bin/python" --no-build-isolation "$sdist"
check
say "build, isolated"
build "$environment"
check
say "build, without isolation"
build "$environment" --no-isolation
check
