"""The initial params buffer of a layer."""

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from tf_rnn_ops._keras.layers.common import draw
from tf_rnn_ops.params._arrays import TENSORFLOW
from tf_rnn_ops.params._blocks import blocks
from tf_rnn_ops.params._keras import pack_keras_blocks
from tf_rnn_ops.params._layout import Layout


def initial_params(layout: Layout, initializers: Mapping[str, Any], unit_forget_bias: bool, dtype: str) -> tf.Tensor:
    """Returns the initial params buffer.

    Args:
      layout: the layout of the buffer.
      initializers: an initializer for each kind of region. It draws each matrix for all gates together,
        [fan_in, num_gates * num_units], each bias, [num_gates * num_units], and each projection, [num_units, num_proj].
      unit_forget_bias: whether to set the input biases of an LSTM's forget gates to 1.
      dtype: the dtype of the buffer.
    """
    drawn = {}
    for block in blocks(layout):
        # A matrix in Keras's format is the transpose of the block.
        weight = draw(_fresh(initializers[block.kind]), block.shape[::-1], dtype)
        if block.kind == "input_bias" and layout.rnn_mode == "lstm" and unit_forget_bias:
            i, f, g, o = keras.ops.split(weight, 4)
            weight = keras.ops.concatenate([i, keras.ops.ones_like(f), g, o])
        drawn[block.name] = weight
    return pack_keras_blocks(TENSORFLOW, layout, drawn)


def _fresh(initializer: Any) -> Any:
    """Returns a copy that draws new numbers, unless the initializer has a seed.

    Keras gives an initializer without a seed a random one, so that it draws the same numbers at each call.
    """
    has_random_seed = isinstance(initializer, keras.initializers.Initializer) and (
        initializer.get_config().get("seed", 0) is None
    )
    return initializer.clone() if has_random_seed else initializer
