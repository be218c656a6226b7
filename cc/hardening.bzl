"""Compiler options of code that reads a caller's input."""

# Stronger than the defaults of Bazel's toolchain, with which the engine in cc/rnn is compiled: its callers check sizes.
HARDENING_COPTS = [
    "-fstack-protector-strong",
    "-U_FORTIFY_SOURCE",
    "-D_FORTIFY_SOURCE=2",
]

# For the ops, and for adapters that include no headers of a framework.
OPS_COPTS = HARDENING_COPTS + [
    "-Wall",
    "-Wextra",
    "-fvisibility=hidden",
]
