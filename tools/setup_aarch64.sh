#!/usr/bin/env bash
# Makes what builds and runs programs for 64-bit Arm on another machine: installs Debian's cross compiler, and puts into
# DEST
#
#   system/   Debian's Python for Arm and all that it needs, of this machine's release
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
# Only unpacked: no program in them is run.
mmdebstrap --quiet --variant=extract --architectures=arm64 --include=python3,libstdc++6,libgtest-dev "$release" "$dest/system"
# Out of the folder of the system's own libraries, which are not what the cross compiler links with.
cp "$dest"/system/usr/lib/aarch64-linux-gnu/libgtest*.a "$dest/lib"
