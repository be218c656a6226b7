# shellcheck shell=bash
# Functions shared by the scripts in this folder. Source it; it prints nothing.

set -euo pipefail

REPOSITORY=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly REPOSITORY
# Folder for the results of the setup.
# shellcheck disable=SC2034 # used by the scripts that source this
readonly TOOLS_STATE="$REPOSITORY/.tools"

# For fuzzing and coverage, as in .bazelrc.
# shellcheck disable=SC2034 # used by the scripts that source this
readonly CLANG=clang-19 CLANG_PACKAGES=(clang-19 libclang-rt-19-dev llvm-19)

say() {
  echo "==> $*" >&2
}

fail() {
  echo "error: $*" >&2
  exit 1
}

# Prints the absolute path of an interpreter, given its name or path. Does not resolve links: the interpreter of a virtual
# environment is one.
absolute_python() {
  local found
  found=$(command -v "$1") || fail "no such interpreter: $1"
  realpath -s "$found"
}

# Whether Debian packages can be installed without a password.
can_install_packages() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null
}

# Installs Debian packages, or fails with the command to run.
install_packages() {
  can_install_packages ||
    fail "missing system packages; install them with: sudo apt-get install $*"
  say "installing system packages: $*"
  apt-get update -q >&2 || fail "apt-get update failed"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >&2 ||
    fail "apt-get install $* failed"
}
