"""How the engine is compiled."""

RNN_COPTS = [
    "-Wall",
    "-Wextra",
    # GCC finds these in its own AVX-512 headers.
    "-Wno-maybe-uninitialized",
    "-Wno-uninitialized",
    "-fvisibility=hidden",
    "-fno-math-errno",
]
