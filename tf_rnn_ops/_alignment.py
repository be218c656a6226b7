"""Copies tensors to aligned memory.

A tensor from another library, through DLPack, may lie in memory that is not aligned as TensorFlow expects. Most of
TensorFlow's own ops crash on such tensors; ours do not. Align a user's tensor before you pass it to TensorFlow's ops.
"""

import tensorflow as tf

from tf_rnn_ops._library import ops

_COPIED = (tf.bfloat16, tf.float16, tf.float32, tf.float64, tf.bool)
# Integers are bitcast to these types, which does not copy them.
_FLOAT_OF = {
    tf.int16: tf.float16,
    tf.uint16: tf.float16,
    tf.int32: tf.float32,
    tf.uint32: tf.float32,
    tf.int64: tf.float64,
    tf.uint64: tf.float64,
}


def aligned(tensor: tf.Tensor) -> tf.Tensor:
    """Returns the tensor, or an aligned copy if it is not aligned.

    Returns tensors of other dtypes, such as int8 and string, unchanged.
    """
    if tensor.dtype in _FLOAT_OF:
        return tf.bitcast(aligned(tf.bitcast(tensor, _FLOAT_OF[tensor.dtype])), tensor.dtype)
    return ops.tf_rnn_ops_align_tensor(tensor) if tensor.dtype in _COPIED else tensor
