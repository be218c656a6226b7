#!/bin/sh
# Debian's compiler for Linux on Arm, in a folder without other tools. Bazel has a compiler look for the linker in its own
# folder first, and what /usr/bin has is for this machine.
exec aarch64-linux-gnu-gcc "$@"
