"""The params buffer of the CudnnRNN ops: where in it each matrix and bias lies.

The ops take all weights of a network as one vector, `params`. `layout` says which of its elements hold what; `pack`
makes the vector of named arrays, `unpack` takes it apart. `from_keras`, `from_onnx`, `from_pytorch` and `from_tf1` make
it of the weights of Keras's layers, of ONNX's operators, of PyTorch's modules and of the layers of TensorFlow 1's
contrib; `to_keras`, `to_onnx`, `to_pytorch` and `to_tf1` are the ways back. No device is needed for any of it.

With a pseudo-layer for each direction of each layer - layer 0 forward, layer 0 backward, layer 1 forward, ... - the
buffer holds, densely packed,

    first all matrices, pseudo-layer by pseudo-layer: the input matrix W, the recurrent matrix R and, with a
      projection, the projection matrix P;
    then all biases, pseudo-layer by pseudo-layer: that of W, then that of R.

W and R are stored gate by gate, each gate's matrix [num_units, fan_in] and row-major, and applied as y = x W^T, so
that a gate's row holds the weights of one unit: the transpose of what Keras calls a kernel. The gates of an LSTM are
in the order i (input), f (forget), g (the new cell's candidate), o (output); those of a GRU r (reset), u (update), n
(new). Source: cuDNN's documentation of cudnnGetRNNWeightParams, which tells the address of each.
"""

from tf_rnn_ops.params._keras import from_keras, to_keras
from tf_rnn_ops.params._layout import Layout, Region, layout
from tf_rnn_ops.params._onnx import from_onnx, to_onnx
from tf_rnn_ops.params._packing import pack, unpack
from tf_rnn_ops.params._pytorch import from_pytorch, layout_from_pytorch, to_pytorch
from tf_rnn_ops.params._tf1 import from_tf1, layout_from_tf1, to_tf1

__all__ = [
    "Layout",
    "Region",
    "from_keras",
    "from_onnx",
    "from_pytorch",
    "from_tf1",
    "layout",
    "layout_from_pytorch",
    "layout_from_tf1",
    "pack",
    "to_keras",
    "to_onnx",
    "to_pytorch",
    "to_tf1",
    "unpack",
]
