"""The params buffer that a layer starts out with."""

import keras

from tf_rnn_ops.layers._common import draw
from tf_rnn_ops.params._arrays import TENSORFLOW
from tf_rnn_ops.params._blocks import blocks
from tf_rnn_ops.params._keras import pack_keras_blocks


def initial_params(layout, initializers, unit_forget_bias, dtype):
    """Returns the params buffer to start with.

    Args:
      layout: its layout.
      initializers: for each kind of a region an initializer. It draws each matrix for all gates together,
        [fan_in, num_gates * num_units], each bias, [num_gates * num_units], and each projection, [num_units, num_proj].
      unit_forget_bias: whether an LSTM's forget gates get input biases of 1 instead.
      dtype: that of the buffer.
    """
    drawn = {}
    for block in blocks(layout):
        # A matrix as Keras has it is the transpose of the block.
        weight = draw(_fresh(initializers[block.kind]), block.shape[::-1], dtype)
        if block.kind == "input_bias" and layout.rnn_mode == "lstm" and unit_forget_bias:
            i, f, g, o = keras.ops.split(weight, 4)
            weight = keras.ops.concatenate([i, keras.ops.ones_like(f), g, o])
        drawn[block.name] = weight
    return pack_keras_blocks(TENSORFLOW, layout, drawn)


def _fresh(initializer):
    """Returns an initializer that draws other numbers than this one did, unless its seed says which.

    Keras gives every initializer without a seed one of its own, and with it the same numbers at each call.
    """
    has_random_seed = isinstance(initializer, keras.initializers.Initializer) and (
        initializer.get_config().get("seed", 0) is None
    )
    return initializer.clone() if has_random_seed else initializer
