"""One step of Keras's LSTMCell, GRUCell and SimpleRNNCell, on one op.

A cell that is called in a loop of the user's own takes one step per call. The op KerasRNN computes it as a sequence of
one step. It is faster than Keras's ops where no gradient is wanted and either TensorFlow runs eagerly, or a graph takes
a single sequence through an LSTM or a GRU. Elsewhere in graphs it gains nothing, training is slower, and XLA makes one
piece of Keras's ops.
"""

import keras
import tensorflow as tf

from tf_rnn_ops import raw_ops
from tf_rnn_ops.layers import _exports, _inner_loop

try:  # not public, and all that tells whether a tape records
    from tensorflow.python.eager.record import could_possibly_record
except ImportError:

    def could_possibly_record():
        return True


def run(keras_call, cell, inputs, states, training=False):
    """Runs the `call` of a cell on the op where it is faster, or else Keras's own.

    Args:
      keras_call: Keras's own `call`, not bound. It takes the next four arguments.
      cell: an LSTMCell, a GRUCell or a SimpleRNNCell, perhaps of a subclass.
      inputs: see `call`.
      states: see `call`.
      training: see `call`.
    """
    if training or could_possibly_record() or not _is_for_op(cell, inputs, states):
        return keras_call(cell, inputs, states, training)
    return _step(cell, inputs, states)


def _is_for_op(cell, inputs, states):
    """Returns whether the op computes what a cell's `call` does in inference, and is faster."""
    if _inner_loop.path(cell, training=False) != "op" or next(_inner_loop.reasons_of_environment(), None):
        return False
    tensors = [inputs, *_flat(states)]
    weights = [each for each in (cell.kernel, cell.recurrent_kernel, cell.bias) if each is not None]
    # `call` casts nothing: Keras promotes dtypes.
    if not all(isinstance(each, keras.Variable) and each.dtype == cell.compute_dtype for each in weights):
        return False
    if not all(_is_known(each, cell.compute_dtype) for each in tensors):
        return False
    mode = _inner_loop.rnn_mode(cell)
    batch = inputs.shape.as_list()[:1]
    shapes = [[*batch, cell.kernel.shape[0]], *[[*batch, cell.units]] * (2 if mode == "lstm" else 1)]
    if [each.shape.as_list() for each in tensors] != shapes:
        return False
    if tf.executing_eagerly():
        return True
    return (
        batch == [1]
        and mode in ("lstm", "gru")
        and not (_inner_loop.is_compiled_by_xla() or _exports.take_keras_path())
    )


def _is_known(tensor, dtype):
    """Returns whether something is a dense tensor of a dtype and of a shape that is known."""
    return isinstance(tensor, tf.Tensor) and tensor.dtype == dtype and tensor.shape.is_fully_defined()


def _step(cell, inputs, states):
    """Returns what a cell's `call` returns: the output, [batch, units], and the states, in the form of `states`.

    Args:
      cell: the cell.
      inputs: [batch, features].
      states: the states before the step, [batch, units]: a list or a tuple, or a single one.
    """
    initial_h, *initial_c = _flat(states)
    attributes = _inner_loop.op_attributes(cell)
    if attributes["rnn_mode"] not in ("lstm", "gru"):
        # Keras's SimpleRNNCell draws its masks in inference too.
        cell.get_dropout_mask(inputs)
        cell.get_recurrent_dropout_mask(initial_h)
    _, h, c, _ = raw_ops.KerasRNN(
        sequences=tf.expand_dims(inputs, 1),
        mask=[],
        initial_h=initial_h,
        initial_c=initial_c[0] if initial_c else 0,
        kernel=cell.kernel.value,
        recurrent_kernel=cell.recurrent_kernel.value,
        bias=[] if cell.bias is None else cell.bias.value,
        **attributes,
        is_training=False,  # a gradient that is wanted nevertheless runs the op once more
    )
    if initial_c:
        return h, [h, c]
    return h, [h] if isinstance(states, (list, tuple)) else h


def _flat(states):
    """Returns states as a list. A single one may come by itself."""
    return states if isinstance(states, (list, tuple)) else [states]
