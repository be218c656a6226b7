"""Tensors in memory that TensorFlow's own ops take.

Other libraries lend TensorFlow memory, through DLPack, at addresses that it would not have chosen itself. Most of
TensorFlow's own ops then end the process. Ours do not; where we call TensorFlow's, a user's tensor passes through here
first.
"""

import tensorflow as tf

from tf_rnn_ops._library import ops

_FLOATS = (tf.bfloat16, tf.float16, tf.float32, tf.float64)
# What integers pass as: a bitcast leaves them where they are.
_FLOAT_OF = {
    tf.int16: tf.float16,
    tf.uint16: tf.float16,
    tf.int32: tf.float32,
    tf.uint32: tf.float32,
    tf.int64: tf.float64,
    tf.uint64: tf.float64,
}


def aligned(tensor: tf.Tensor) -> tf.Tensor:
    """Returns a tensor in aligned memory: a copy if it is not.

    Of dtypes of one byte, and others than numbers, it is the tensor itself.
    """
    if tensor.dtype in _FLOAT_OF:
        return tf.bitcast(aligned(tf.bitcast(tensor, _FLOAT_OF[tensor.dtype])), tensor.dtype)
    return ops.tf_rnn_ops_align_tensor(tensor) if tensor.dtype in _FLOATS else tensor
