# shellcheck shell=bash
# What the scripts in this folder share. Source it; it prints nothing.

set -euo pipefail

REPOSITORY=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly REPOSITORY
# Where set-up keeps what it made or found.
# shellcheck disable=SC2034 # used where this is sourced
readonly TOOLS_STATE="$REPOSITORY/.tools"

say() {
  echo "==> $*" >&2
}

fail() {
  echo "error: $*" >&2
  exit 1
}

# Prints an interpreter's absolute path, given its name or a path from the current folder. Links stay: a virtual
# environment's interpreter is one.
absolute_python() {
  local found
  found=$(command -v "$1") || fail "there is no interpreter $1"
  realpath -s "$found"
}

# Whether Debian packages can be installed without asking anyone.
can_install_packages() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null
}

# Installs the named Debian packages, or says who should.
install_packages() {
  can_install_packages ||
    fail "missing system packages; install them with: sudo apt-get install $*"
  say "installing system packages: $*"
  apt-get update -q >&2 || fail "apt-get update failed"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >&2 ||
    fail "apt-get install $* failed"
}
