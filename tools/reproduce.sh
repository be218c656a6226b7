#!/usr/bin/env bash
# Rebuilds the wheel from a copy of the source in another folder, and compares it with an existing wheel byte by byte. The
# second build uses no cache and no earlier results, and a different folder, time zone and umask.
#
#   tools/reproduce.sh WHEEL

source "$(dirname "$0")/shell.sh"

first=$(realpath "${1:?usage: tools/reproduce.sh WHEEL}")
TF_RNN_OPS_PYTHON=$(absolute_python "${TF_RNN_OPS_PYTHON:-$REPOSITORY/.venv/bin/python}")
export TF_RNN_OPS_PYTHON
cd "$REPOSITORY"
mkdir -p build
copy=$(mktemp -d "$REPOSITORY/build/second-XXXXXX")

cleanup() {
  "$copy/tools/bazel.sh" clean --expunge >/dev/null 2>&1 || true
  rm -rf "$copy"
}
trap cleanup EXIT

say "copying the source to $copy"
git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- --create | tar --extract --touch -C "$copy"
cp -R "$TOOLS_STATE/." "$copy/.tools"
echo 'build --disk_cache= --remote_cache=' >"$copy/user.bazelrc"

umask 077
TZ=Pacific/Kiritimati "$copy/build_pip_pkg.sh" "$copy/dist"

# Prints the checksum and the name of each file in a wheel.
members() {
  "$TF_RNN_OPS_PYTHON" -c '
import sys, zipfile
for each in zipfile.ZipFile(sys.argv[1]).infolist():
    print(f"{each.CRC:08x} {each.filename}")' "$1"
}

second=$copy/dist/$(basename "$first")
[ -f "$second" ] || fail "the second wheel has another name: $(ls "$copy/dist")"
diff <(members "$first") <(members "$second") || fail "the wheels differ in the files above"
cmp "$first" "$second" || fail "the wheels differ, but their files are the same"
say "the wheels are identical: $(sha256sum "$first")"
