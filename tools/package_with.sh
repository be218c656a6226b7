#!/usr/bin/env bash
# Copies the installed package, with libraries that Bazel has built in place of its own. Leaves out its other libraries.
#
#   tools/package_with.sh FOLDER LIBRARY ...

source "$(dirname "$0")/shell.sh"
cd "$REPOSITORY"

folder=${1:?usage: tools/package_with.sh FOLDER LIBRARY ...}
installed=$(.venv/bin/python -I -c 'import importlib.util as u; print(*u.find_spec("tf_rnn_ops").submodule_search_locations)')
rm -rf "$folder"
mkdir -p "$folder"
cp -r "$installed" "$folder/"
package=$folder/tf_rnn_ops
find "$package" -name '*.so' -delete
for library in "${@:2}"; do
  case $library in
  # All TensorFlow versions share these.
  libtf_rnn_ops_engine.so | libtf_rnn_ops_ffi.so) cp "bazel-bin/$library" "$package/" ;;
  *) cp "bazel-bin/$library" "$package"/tensorflow_*/ ;;
  esac
done
