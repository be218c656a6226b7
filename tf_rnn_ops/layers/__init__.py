"""Keras layers made of the ops."""

from tf_rnn_ops.layers.gru_block_cell import GRUBlockCell

__all__ = ["GRUBlockCell"]
