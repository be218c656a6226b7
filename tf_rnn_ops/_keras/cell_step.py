"""One step of Keras's LSTMCell, GRUCell and SimpleRNNCell on one op.

A user may call a cell in a loop, one step per call. The op KerasRNN computes such a call as a sequence of one step.
This is faster than the ops of Keras in eager inference, and in graph inference of an LSTM or GRU on a single sequence.
In other graphs it is not faster; in training it is slower; and XLA fuses the ops of Keras.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tf_rnn_ops._keras import decision, description, environment, execution, kerases
from tf_rnn_ops._keras.description import Cell
from tf_rnn_ops._keras.exports import POLICY


def run(keras_call: Callable[..., Any], cell: Any, inputs: Any, states: Any, training: Any = False) -> Any:
    """Runs the `call` of a cell on the op if that is faster, otherwise Keras's `call`.

    Args:
      keras_call: Keras's `call`, unbound. It takes the next four arguments.
      cell: an LSTMCell, GRUCell or SimpleRNNCell, or an instance of a subclass.
      inputs: see `call`.
      states: see `call`.
      training: see `call`.
    """
    if not (tf.is_tensor(training) or training or environment.may_be_recorded()):
        described = description.describe_cell(cell)
        if isinstance(described, Cell) and _is_faster_on_op(cell, described, inputs, states, training):
            return _step(described, inputs, states)
    return keras_call(cell, inputs, states, training)


def _is_faster_on_op(cell: Any, described: Cell, inputs: Any, states: Any, training: bool | None) -> bool:
    """Returns whether the op supports a call of a cell in inference and is faster."""
    if training is None and (described.drops_inputs or described.drops_states):
        return False  # Keras 2 finds out elsewhere whether to apply dropout
    if decision.against_cell(described, training=False) or any(environment.reasons_against_the_op()):
        return False
    tensors = [inputs, *_flat(states)]
    weights = [each for each in (cell.kernel, cell.recurrent_kernel, cell.bias) if each is not None]
    keras = kerases.of(cell)
    assert keras is not None
    # `call` casts nothing; if dtypes differ, Keras promotes them.
    if not all(keras.is_variable(each) and each.dtype == described.dtype for each in weights):
        return False
    if not all(_is_static(each, described.dtype) for each in tensors):
        return False
    batch = inputs.shape.as_list()[:1]
    shapes = [[*batch, described.features], *[[*batch, described.units]] * described.kind.states]
    if [each.shape.as_list() for each in tensors] != shapes:
        return False
    if tf.executing_eagerly():
        return True
    return (
        batch == [1]
        and described.kind.name in ("lstm", "gru")
        and not (environment.is_compiled_by_xla() or POLICY.is_portable_export())
    )


def _is_static(tensor: Any, dtype: str) -> bool:
    """Returns whether `tensor` is a dense tensor of a dtype with a fully known shape."""
    return isinstance(tensor, tf.Tensor) and tensor.dtype == dtype and tensor.shape.is_fully_defined()


def _step(described: Cell, inputs: tf.Tensor, states: Any) -> tuple[tf.Tensor, Any]:
    """Returns the output of a cell, [batch, units], and the new states, structured like `states`.

    Args:
      described: what the cell is.
      inputs: [batch, features].
      states: the previous states, each [batch, units]: a list, a tuple or a single tensor.
    """
    initial = _flat(states)
    if described.draws_in_inference:
        described.input_masks(inputs, False)
        described.state_masks(initial[0], None, False)
    # A gradient, if any, runs the op again.
    _, *new = execution.run_op(
        described,
        execution.op_weights(described),
        initial,
        sequences=tf.expand_dims(inputs, 1),
        mask=[],
        is_training=False,
    )
    return new[0], new if isinstance(states, (list, tuple)) else new[0]


def _flat(states: Any) -> Sequence[Any]:
    """Returns states as a sequence; a single state need not be in one."""
    return states if isinstance(states, (list, tuple)) else [states]
