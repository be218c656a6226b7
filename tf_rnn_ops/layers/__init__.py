"""Keras layers made of the ops."""

from tf_rnn_ops.layers.cudnn_rnn import CudnnGRU, CudnnLSTM, CudnnRNN, CudnnRNNRelu, CudnnRNNTanh
from tf_rnn_ops.layers.gru_block_cell import GRUBlockCell

__all__ = ["CudnnGRU", "CudnnLSTM", "CudnnRNN", "CudnnRNNRelu", "CudnnRNNTanh", "GRUBlockCell"]
