#!/usr/bin/env bash
# Sets up building and running programs for 64-bit Arm on another architecture: installs Debian's cross compiler, and
# creates in DEST
#
#   system/   Debian's Python for Arm and its dependencies, from this machine's Debian release
#   lib/      GoogleTest for Arm
#
#   tools/setup_aarch64.sh DEST

source "$(dirname "$0")/shell.sh"

dest=${1:?usage: tools/setup_aarch64.sh DEST}
missing=()
command -v aarch64-linux-gnu-g++ >/dev/null || missing+=(g++-aarch64-linux-gnu)
command -v mmdebstrap >/dev/null || missing+=(mmdebstrap)
[ ${#missing[@]} = 0 ] || install_packages "${missing[@]}"

say "fetching Debian's Python for Arm into $dest/system"
rm -rf "${dest:?}"/{system,lib}
mkdir -p "$dest/lib"
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
# Unpack only; run no program from the packages.
mmdebstrap --quiet --variant=extract --architectures=arm64 --include=python3,libstdc++6,libgtest-dev "$release" "$dest/system"
# Keep GoogleTest apart from the system libraries in that folder, which the cross compiler must not link.
cp "$dest"/system/usr/lib/aarch64-linux-gnu/libgtest*.a "$dest/lib"
