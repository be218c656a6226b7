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
find "$package" -name '*.so' | while read -r library; do
  name=$(basename "$library")
  case " ${*:2} " in
  *" $name "*) cp --force "bazel-bin/$name" "$library" ;;
  *) rm "$library" ;;
  esac
done
