"""How the GPU's part is compiled."""

load("//cc:hardening.bzl", "HARDENING_COPTS")

GPU_COPTS = HARDENING_COPTS + [
    "-Wall",
    "-Wextra",
    "-fvisibility=hidden",
]
