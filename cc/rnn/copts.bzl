"""How the engine is compiled."""

RNN_COPTS = [
    "-Wall",
    "-Wextra",
    # GCC finds these in its own AVX-512 headers.
    "-Wno-maybe-uninitialized",
    "-Wno-uninitialized",
    "-fvisibility=hidden",
    "-fno-math-errno",
    # Whether GCC fuses a product and a sum depends on what it inlines around
    # them: copies of one expression could differ in the last bit.
    "-ffp-contract=off",
]
