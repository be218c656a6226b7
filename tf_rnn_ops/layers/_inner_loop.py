"""What Keras's `RNN.inner_loop` computes, on one op.

Keras runs a cell step by step. For the cells of its LSTM, GRU and SimpleRNN the op CudnnRNNV3 computes the same, where
`can_run` says so; elsewhere Keras's own loop has to.

Keras skips the steps that a mask leaves out: the state stays, and the output is that of the step before, or zeros if
there is none or if the layer's `zero_output_for_mask` is true. The op knows sequences that end early, but no gaps. So
the unmasked steps are moved to the front, in their order, and the outputs back to where the steps were.
"""

import math

import keras
import tensorflow as tf

from tf_rnn_ops.layers._common import infer_network, run_network
from tf_rnn_ops.params import from_keras, layout

try:  # not public, and all that tells whether XLA is to compile what is being traced
    from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext
except ImportError:
    GraphOrParentsInXlaContext = None

_DTYPES = ("bfloat16", "float16", "float32", "float64")

_SIGMOID = (keras.activations.sigmoid, keras.ops.sigmoid, tf.sigmoid, tf.nn.sigmoid)
_TANH = (keras.activations.tanh, keras.ops.tanh, tf.tanh, tf.nn.tanh)
_RELU = (keras.activations.relu, keras.ops.relu, tf.nn.relu)


def rnn_mode(cell):
    """Returns the rnn_mode of the op that computes what a cell does, or None where there is none.

    A subclass of Keras's cells may compute something else, and has none.
    """
    if type(cell) is keras.layers.LSTMCell and cell.activation in _TANH and cell.recurrent_activation in _SIGMOID:
        return "lstm"
    if type(cell) is keras.layers.GRUCell and cell.activation in _TANH and cell.recurrent_activation in _SIGMOID:
        return "gru" if cell.reset_after else None
    if type(cell) is keras.layers.SimpleRNNCell:
        return "rnn_tanh" if cell.activation in _TANH else "rnn_relu" if cell.activation in _RELU else None
    return None


def can_run_cell(cell, training):
    """Returns whether the op computes what a cell does, in training or elsewhere."""
    return (
        rnn_mode(cell) is not None
        and cell.compute_dtype in _DTYPES
        and cell.autocast
        and cell.activity_regularizer is None
        and not (training and (cell.recurrent_dropout > 0 or _drops_out_by_gate(cell)))
    )


def sees_gpu():
    """Returns whether TensorFlow sees a GPU, where Keras has cuDNN."""
    return bool(tf.config.list_logical_devices("GPU"))


def can_run(layer, sequences, initial_state, mask, training):
    """Returns whether the op computes what a layer's `inner_loop` would return for these arguments."""
    return (
        keras.backend.backend() == "tensorflow"
        and not sees_gpu()
        and not _is_compiled_by_xla()
        and can_run_cell(layer.cell, training)
        and layer.compute_dtype == layer.cell.compute_dtype
        and isinstance(sequences, tf.Tensor)
        and sequences.shape.rank == 3
        and sequences.shape[2] in (None, layer.cell.kernel.shape[0])
        and sequences.dtype.is_floating
        and _are_states(initial_state, layer.cell, sequences)
        and _is_mask(mask, sequences)
        and not (_flat(mask)[0] is not None and _zeroes_other_steps(layer))
    )


def is_faster(layer, sequences, training):
    """Returns whether the op is faster than Keras's loop, where `can_run` says that the op can run.

    The op converts the weights in each call, which takes as long as some of Keras's steps. The thresholds below
    were measured with GRU and LSTM of 64 to 1024 units and 1, 8 and 64 sequences on two cores.

    Returns:
      A bool, or a scalar tensor if that depends on a size that is not known yet.
    """
    if getattr(layer, "use_cudnn", None) is True or sequences.shape[1] == 0:
        return True  # Keras's loop would raise an error
    num_weights = math.prod(layer.cell.kernel.shape) + math.prod(layer.cell.recurrent_kernel.shape)
    is_large = num_weights >= 2**22
    if training:
        of_several = of_one = 8 if is_large else 4
    else:
        of_one = 32 if is_large else 16
        of_several = 4 if num_weights < 2**16 else of_one
    batch, steps, _ = keras.ops.shape(sequences)
    if isinstance(batch, int):
        of_several = of_one = of_several if batch > 1 else of_one
    if isinstance(steps, int) and not of_several <= steps < of_one:
        return steps >= of_several
    return steps >= (of_one if of_one == of_several else tf.where(batch > 1, of_several, of_one))


def inner_loop(layer, sequences, initial_state, mask, training):
    """Runs a layer's cell over all steps, where `can_run` says that the op can.

    Args:
      layer: a `keras.layers.RNN`.
      sequences: the inputs, [batch, time, features].
      initial_state: the states before the first step, each [batch, units].
      mask: the steps to take, [batch, time], [batch, time, 1], a list that starts with one of these, or None.
      training: whether to apply dropout.

    Returns:
      What `inner_loop` is to return: the last output, [batch, units]; all outputs, [batch, time, units], or, unless the
      layer returns sequences, the last one, [batch, 1, units]; and the states after the last step.
    """
    cell = layer.cell
    dtype = cell.compute_dtype
    x = keras.ops.cast(_dropped_out(cell, sequences, training), dtype)
    states = [tf.expand_dims(_of_batch(keras.ops.cast(each, dtype), x), 1) for each in _flat(initial_state)]
    input_h, input_c = states if len(states) == 2 else (*states, tf.zeros([], dtype))
    mask = _flat(mask)[0]
    steps = _AllSteps(x, layer.go_backwards) if mask is None else _UnmaskedSteps(mask, x, layer)

    run = _train if training else infer_network
    network = steps.of(x), input_h, input_c, _params(cell), steps.lengths
    output, *final_states = run(*network, rnn_mode=rnn_mode(cell))

    final_states = [tf.squeeze(each, 1) for each in final_states[: len(states)]]
    last_output = steps.last(final_states[0])
    outputs = steps.back(output) if layer.return_sequences else tf.expand_dims(last_output, 1)
    return last_output, outputs, final_states


class _AllSteps:
    """The steps of sequences without a mask.

    Attributes:
      lengths: the number of steps of each sequence, [batch].
    """

    def __init__(self, x, go_backwards):
        batch, time, _ = keras.ops.shape(x)
        self.lengths = tf.fill([batch], time)
        self._go_backwards = go_backwards

    def of(self, x):
        """Returns the inputs of all steps, [batch, time, features], in the order in which they are taken."""
        return tf.reverse(x, [1]) if self._go_backwards else x

    def back(self, output):
        """Returns the outputs of all steps, [batch, time, units], of those that were taken."""
        return output

    def last(self, final_state):
        """Returns the output of the last step, [batch, units]."""
        return final_state


class _UnmaskedSteps:
    """The steps that a mask does not leave out.

    Attributes:
      lengths: the number of these steps of each sequence, [batch].
    """

    def __init__(self, mask, x, layer):
        mask = _checked_mask(mask, x)
        if layer.go_backwards:
            mask = tf.reverse(mask, [1])
        time = tf.shape(mask)[1]
        taken = tf.cumsum(tf.cast(mask, tf.int32), axis=1)  # [batch, time], the number of steps so far
        self.lengths = tf.reduce_sum(tf.cast(mask, tf.int32), axis=1)
        # Where the first step lies that is taken, the second and so on; past the last that is, anywhere.
        ordinals = tf.broadcast_to(tf.range(1, time + 1), tf.shape(mask))
        sources = tf.minimum(tf.searchsorted(taken, ordinals), time - 1)
        self._sources = time - 1 - sources if layer.go_backwards else sources
        # Where the output of each step lies among those of the steps that were taken. Where any step is masked, the
        # last of these is past the end of its sequence, and zeros.
        if layer.zero_output_for_mask:
            self._targets = tf.where(mask, taken - 1, time - 1)
            self._has_last = mask[:, -1:]
        else:
            self._targets = tf.math.floormod(taken - 1, time)
            self._has_last = tf.expand_dims(self.lengths > 0, 1)

    def of(self, x):
        """Returns the inputs of the steps that are taken, [batch, time, features], in their order, at the front."""
        return tf.gather(x, self._sources, batch_dims=1)

    def back(self, output):
        """Returns the outputs of all steps, [batch, time, units], of those that were taken."""
        return tf.gather(output, self._targets, batch_dims=1)

    def last(self, final_state):
        """Returns the output of the last step, [batch, units]."""
        return tf.where(self._has_last, final_state, tf.zeros_like(final_state))


def _drops_out_by_gate(cell):
    """Returns whether a cell drops other inputs for each of its gates in training."""
    return cell.dropout > 0 and getattr(cell, "implementation", 2) == 1


def _zeroes_other_steps(layer):
    """Returns whether Keras zeroes the outputs of other steps than the masked ones: it reverses all but the mask."""
    return layer.unroll and layer.go_backwards and layer.zero_output_for_mask


def _is_compiled_by_xla():
    """Returns whether XLA is to compile what is being traced: the op has no XLA kernel."""
    return GraphOrParentsInXlaContext is not None and GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())


def _flat(nested):
    return keras.tree.flatten(nested)


def _are_states(initial_state, cell, sequences):
    """Returns whether initial states are as many as the op takes, and as large: not, say, one for the whole batch."""
    states, wanted = _flat(initial_state), (sequences.shape[0], cell.units)
    return len(states) == (2 if rnn_mode(cell) == "lstm" else 1) and all(
        each.shape.rank == 2 and each.shape[1] is not None and each.shape.is_compatible_with(wanted) for each in states
    )


def _of_batch(state, x):
    """Returns a state, [batch, units]. As in Keras, one of a batch of 1 is that of all, which only a run may show."""
    if state.shape[0] is not None and state.shape[0] == x.shape[0]:
        return state
    return tf.broadcast_to(state, [tf.shape(x)[0], state.shape[1]])


def _is_mask(mask, sequences):
    """Returns whether a mask is None or says for each step whether to take it: not, say, for each unit."""
    mask = _flat(mask)[0]
    if mask is None:
        return True
    shape = tf.TensorShape(mask.shape)
    batch, time = sequences.shape[:2]
    of_each_step = shape.rank == 2 or (shape.rank == 3 and shape[2] == 1)
    return (
        of_each_step and (batch is None or shape[0] in (None, 1, batch)) and (time is None or shape[1] in (None, time))
    )


def _checked_mask(mask, sequences):
    """Returns a mask as booleans, [batch, time], or refuses it where its shape is known only when it is run."""
    mask = tf.cast(mask, tf.bool)
    if mask.shape.rank == 3:
        mask = tf.squeeze(mask, 2)
    if mask.shape.is_fully_defined() and mask.shape == sequences.shape[:2]:
        return mask
    shape = tf.shape(sequences)[:2]
    checks = [
        tf.debugging.assert_equal(tf.shape(mask)[1], shape[1], message="mask must have as many steps as the sequences"),
    ]
    with tf.control_dependencies(checks):
        mask = tf.broadcast_to(mask, shape)  # one of a batch of 1 is that of all
    return tf.ensure_shape(mask, sequences.shape[:2])


def _dropped_out(cell, sequences, training):
    """Returns sequences with the same inputs dropped in all steps, by the mask that the cell drew."""
    # LSTM and GRU take a dropout of 1 for none.
    drops = 0 < cell.dropout < 1 or (cell.dropout == 1 and rnn_mode(cell) not in ("lstm", "gru"))
    if not (training and drops):
        return sequences
    return sequences * tf.expand_dims(cell.get_dropout_mask(sequences[:, 0, :]), 1)


def _train(*network, **attributes):
    return run_network(*network, is_training=True, **attributes)


def _params(cell):
    """Returns the params buffer that holds a cell's weights."""
    kernel, *others = (each for each in (cell.kernel, cell.recurrent_kernel, cell.bias) if each is not None)
    weights = [keras.ops.cast(each, cell.compute_dtype) for each in (kernel, *others)]
    return from_keras(layout(rnn_mode(cell), cell.units, kernel.shape[0]), weights)
