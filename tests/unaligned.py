"""Tensors that lie where TensorFlow itself would not have put them."""

import itertools

import numpy as np
import tensorflow as tf

ALIGNMENT = 64  # bytes, of what TensorFlow allocates


def at_offset(array, offset):
    """Returns a tensor of an array's numbers that lies `offset` bytes behind an aligned address."""
    array = np.asarray(array)
    room = np.zeros(array.nbytes + 2 * ALIGNMENT, np.uint8)
    start = offset + -room.ctypes.data % ALIGNMENT
    # DLPack has booleans, but not all floating types.
    bits_dtype = array.dtype if array.dtype == bool else f"u{array.itemsize}"
    bits = room[start : start + array.nbytes].view(bits_dtype).reshape(array.shape)
    bits[...] = array.view(bits.dtype)
    lent = tf.experimental.dlpack.from_dlpack(bits.__dlpack__())
    return lent if array.dtype == bool else tf.bitcast(lent, tf.as_dtype(array.dtype))


class Unaligned:
    """Lends arrays to TensorFlow, each at another multiple of the size of its elements."""

    def __init__(self):
        self._steps = itertools.count(1, 2)

    def __call__(self, array):
        """Returns a tensor of an array's numbers."""
        return at_offset(array, next(self._steps) * array.itemsize % ALIGNMENT or array.itemsize % ALIGNMENT)
