"""Flags of TensorFlow: those that the program is built with."""

TENSORFLOW_COPTS = []

TENSORFLOW_DEFINES = []

TENSORFLOW_LINKOPTS = []
