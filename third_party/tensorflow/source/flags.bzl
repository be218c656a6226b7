"""Flags of TensorFlow. Empty: the program sets them for the whole build."""

TENSORFLOW_COPTS = []

TENSORFLOW_DEFINES = []

TENSORFLOW_LINKOPTS = []
