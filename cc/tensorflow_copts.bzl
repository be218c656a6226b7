"""How code that includes TensorFlow's headers is compiled."""

load("@tensorflow//:flags.bzl", "TENSORFLOW_COPTS")
load("//cc:hardening.bzl", "HARDENING_COPTS")

OP_LIBRARY_COPTS = TENSORFLOW_COPTS + HARDENING_COPTS + [
    "-Wall",
    "-Wextra",
    # What TensorFlow deprecates next must not break a build against it.
    "-Wno-error=deprecated-declarations",
    "-fvisibility=hidden",
]
