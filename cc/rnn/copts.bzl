"""Compiler options of the CPU engine."""

RNN_COPTS = [
    "-Wall",
    "-Wextra",
    # GCC reports these for its own AVX-512 headers.
    "-Wno-maybe-uninitialized",
    "-Wno-uninitialized",
    "-fvisibility=hidden",
    "-fno-math-errno",
    # GCC fuses a product and a sum depending on what it inlines around them, so
    # copies of one expression could differ in the last bit.
    "-ffp-contract=off",
]
