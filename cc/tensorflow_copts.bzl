"""How code that includes TensorFlow's headers is compiled."""

load("@tensorflow//:flags.bzl", "TENSORFLOW_COPTS")

OP_LIBRARY_COPTS = TENSORFLOW_COPTS + [
    "-Wall",
    "-Wextra",
    # What TensorFlow deprecates next must not break a build against it.
    "-Wno-error=deprecated-declarations",
    "-fvisibility=hidden",
]
