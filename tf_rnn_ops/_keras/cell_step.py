"""One step of Keras's LSTMCell, GRUCell and SimpleRNNCell on one op.

A user may call a cell in a loop, one step per call. The op KerasRNN computes such a call as a sequence of one step.
This is faster than the ops of Keras in eager inference, and in graph inference of an LSTM or GRU on a single sequence.
In other graphs it is not faster; in training it is slower; and XLA fuses the ops of Keras.
"""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_rnn_ops import _private_names, raw_ops
from tf_rnn_ops._keras import execution, exports
from tf_rnn_ops._keras.layers.common import no_cell_state


def run(keras_call: Callable[..., Any], cell: Any, inputs: Any, states: Any, training: bool = False) -> Any:
    """Runs the `call` of a cell on the op if that is faster, otherwise Keras's `call`.

    Args:
      keras_call: Keras's `call`, unbound. It takes the next four arguments.
      cell: an LSTMCell, GRUCell or SimpleRNNCell, or an instance of a subclass.
      inputs: see `call`.
      states: see `call`.
      training: see `call`.
    """
    if training or execution.may_be_recorded() or not _is_faster_on_op(cell, inputs, states):
        return keras_call(cell, inputs, states, training)
    return _step(cell, inputs, states)


def _is_faster_on_op(cell: Any, inputs: Any, states: Any) -> bool:
    """Returns whether the op supports a call of a cell in inference and is faster."""
    if execution.path(cell, training=False) != "op" or next(execution.reasons_of_environment(), None):
        return False
    tensors = [inputs, *_flat(states)]
    weights = [each for each in (cell.kernel, cell.recurrent_kernel, cell.bias) if each is not None]
    # `call` casts nothing; if dtypes differ, Keras promotes them.
    if not all(isinstance(each, keras.Variable) and each.dtype == cell.compute_dtype for each in weights):
        return False
    if not all(_is_static(each, cell.compute_dtype) for each in tensors):
        return False
    mode = execution.rnn_mode(cell)
    batch = inputs.shape.as_list()[:1]
    shapes = [[*batch, cell.kernel.shape[0]], *[[*batch, cell.units]] * (2 if mode == "lstm" else 1)]
    if [each.shape.as_list() for each in tensors] != shapes:
        return False
    if tf.executing_eagerly():
        return True
    return (
        batch == [1]
        and mode in ("lstm", "gru")
        and not (execution.is_compiled_by_xla() or exports.is_portable_export())
    )


def _is_static(tensor: Any, dtype: str) -> bool:
    """Returns whether `tensor` is a dense tensor of a dtype with a fully known shape."""
    return isinstance(tensor, tf.Tensor) and tensor.dtype == dtype and tensor.shape.is_fully_defined()


def _step(cell: Any, inputs: tf.Tensor, states: Any) -> tuple[tf.Tensor, Any]:
    """Returns the output of a cell, [batch, units], and the new states, structured like `states`.

    Args:
      cell: the cell.
      inputs: [batch, features].
      states: the previous states, each [batch, units]: a list, a tuple or a single tensor.
    """
    initial_h, *initial_c = _flat(states)
    attributes = execution.op_attributes(cell)
    if attributes["rnn_mode"] not in ("lstm", "gru"):
        # Keras's SimpleRNNCell draws its dropout masks in inference too.
        for draw, x in ((_private_names.DROPOUT_MASK, inputs), (_private_names.RECURRENT_DROPOUT_MASK, initial_h)):
            if hasattr(cell, draw):
                getattr(cell, draw)(x)
    kernel = cell.kernel.value
    outputs, h, c, _ = raw_ops.KerasRNN(
        sequences=tf.expand_dims(inputs, 1),
        mask=[],
        initial_h=initial_h,
        initial_c=initial_c[0] if initial_c else no_cell_state(cell.compute_dtype),
        kernel=kernel,
        recurrent_kernel=cell.recurrent_kernel.value,
        bias=[] if cell.bias is None else cell.bias.value,
        **attributes,
        is_training=False,  # a gradient, if any, runs the op again
    )
    exports.mark_exported(outputs, kernel)
    if initial_c:
        return h, [h, c]
    return h, [h] if isinstance(states, (list, tuple)) else h


def _flat(states: Any) -> Sequence[Any]:
    """Returns states as a sequence; a single state need not be in one."""
    return states if isinstance(states, (list, tuple)) else [states]
