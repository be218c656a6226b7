"""Tensors at unaligned addresses, which TensorFlow itself does not allocate."""

import itertools

import numpy as np
import tensorflow as tf

ALIGNMENT = 64  # of TensorFlow's allocations, in bytes


def at_offset(array, offset):
    """Returns a tensor with the values of an array at `offset` bytes after an aligned address."""
    array = np.asarray(array)
    buffer = np.zeros(array.nbytes + 2 * ALIGNMENT, np.uint8)
    start = offset + -buffer.ctypes.data % ALIGNMENT
    # DLPack supports booleans, but not all floating types.
    bits_dtype = array.dtype if array.dtype == bool else f"u{array.itemsize}"
    bits = buffer[start : start + array.nbytes].view(bits_dtype).reshape(array.shape)
    bits[...] = array.view(bits.dtype)
    lent = tf.experimental.dlpack.from_dlpack(bits.__dlpack__())
    return lent if array.dtype == bool else tf.bitcast(lent, tf.as_dtype(array.dtype))


class Unaligned:
    """Converts arrays to tensors at varying multiples of the element size."""

    def __init__(self):
        self._steps = itertools.count(1, 2)

    def __call__(self, array):
        """Returns a tensor with the values of an array."""
        return at_offset(array, next(self._steps) * array.itemsize % ALIGNMENT or array.itemsize % ALIGNMENT)
