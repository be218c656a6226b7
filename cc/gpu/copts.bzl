"""Compiler options of the GPU engine."""

load("//cc:hardening.bzl", "HARDENING_COPTS")

GPU_COPTS = HARDENING_COPTS + [
    "-Wall",
    "-Wextra",
    "-fvisibility=hidden",
]
