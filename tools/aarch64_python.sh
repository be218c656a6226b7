#!/bin/sh
# Python for 64-bit Arm, emulated with QEMU. A link build/aarch64/NAME/bin/python to this script is the interpreter of the
# virtual environment build/aarch64/NAME.
aarch64=$(dirname "$(readlink -f "$0")")/../build/aarch64
exec "$aarch64/../qemu/usr/bin/qemu-aarch64-static" -L "$aarch64/system" -0 "$0" "$aarch64/system/usr/bin/python3" "$@"
