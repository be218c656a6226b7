"""How the engine is compiled."""

RNN_COPTS = [
    "-O3",
    "-Wall",
    "-Wextra",
    "-Werror",
    # GCC finds it in its own AVX-512 headers.
    "-Wno-maybe-uninitialized",
    "-fvisibility=hidden",
    "-fno-math-errno",
]
