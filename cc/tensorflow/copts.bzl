"""Compiler options of code that includes TensorFlow's headers."""

load("@tensorflow//:flags.bzl", "TENSORFLOW_COPTS")
load("//cc:hardening.bzl", "HARDENING_COPTS")

OP_LIBRARY_COPTS = TENSORFLOW_COPTS + HARDENING_COPTS + [
    "-Wall",
    "-Wextra",
    # Later deprecations in TensorFlow must not break the build.
    "-Wno-error=deprecated-declarations",
    "-fvisibility=hidden",
]
