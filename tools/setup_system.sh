#!/usr/bin/env bash
# Installs missing Debian packages for the compiler, npm, Python's venv and GoogleTest; without root permissions, prints the
# command that installs them. PYTHON is the interpreter to use.

source "$(dirname "$0")/shell.sh"

PYTHON=${PYTHON:-python3}
missing=()
command -v g++ >/dev/null || missing+=(g++)
command -v npm >/dev/null || missing+=(npm)
echo '#include <gtest/gtest.h>' | g++ -E -x c++ - >/dev/null 2>&1 || missing+=(libgtest-dev)
if ! command -v "$PYTHON" >/dev/null; then
  [ "$PYTHON" = python3 ] || fail "PYTHON is set to $PYTHON, which does not exist"
  missing+=(python3 python3-venv)
elif ! "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null; then
  missing+=("$(basename "$PYTHON")-venv")
fi
if [ ${#missing[@]} -gt 0 ]; then
  install_packages "${missing[@]}"
fi
