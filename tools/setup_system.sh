#!/usr/bin/env bash
# Makes sure that the compiler, npm, Python's venv and GoogleTest are there: the Debian packages that are missing are
# installed, or named where that takes another user. PYTHON is the interpreter that will be used.

source "$(dirname "$0")/shell.sh"

PYTHON=${PYTHON:-python3}
missing=()
command -v g++ >/dev/null || missing+=(g++)
command -v npm >/dev/null || missing+=(npm)
echo '#include <gtest/gtest.h>' | g++ -E -x c++ - >/dev/null 2>&1 || missing+=(libgtest-dev)
if ! command -v "$PYTHON" >/dev/null; then
  [ "$PYTHON" = python3 ] || fail "there is no interpreter $PYTHON, which PYTHON names"
  missing+=(python3 python3-venv)
elif ! "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null; then
  missing+=("$(basename "$PYTHON")-venv")
fi
if [ ${#missing[@]} -gt 0 ]; then
  install_packages "${missing[@]}"
fi
