"""Keras layers that run on the ops.

docs/guides/keras.md is a guide to these layers.
"""

from tf_rnn_ops._keras.layers.cudnn_rnn import CudnnGRU, CudnnLSTM, CudnnRNN, CudnnRNNRelu, CudnnRNNTanh
from tf_rnn_ops._keras.layers.gru_block_cell import GRUBlockCell
from tf_rnn_ops._keras.layers.keras_layers import GRU, LSTM, SimpleRNN
from tf_rnn_ops._keras.layers.lstm_block_cell import LSTMBlockCell

__all__ = [
    "GRU",
    "LSTM",
    "CudnnGRU",
    "CudnnLSTM",
    "CudnnRNN",
    "CudnnRNNRelu",
    "CudnnRNNTanh",
    "GRUBlockCell",
    "LSTMBlockCell",
    "SimpleRNN",
]

# Files and pickles name this module.
for _name in __all__:
    globals()[_name].__module__ = __name__
