#!/bin/sh
# Debian's cross compiler for Arm, in a folder without other tools: Bazel searches the compiler's folder for the linker
# first, and the linker in /usr/bin is for this machine.
exec aarch64-linux-gnu-gcc "$@"
