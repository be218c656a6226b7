"""The params buffer of the CudnnRNN ops: its layout, and conversions of weights.

The CudnnRNN ops take all weights of a network as one vector, `params`. `layout` describes the vector, `pack` makes it
from named matrices and biases, and `unpack` splits it. `from_keras`, `from_onnx`, `from_pytorch` and `from_tf1` convert
the weights of Keras layers, ONNX operators, PyTorch modules and the layers of TensorFlow 1's contrib; `to_keras`,
`to_onnx`, `to_pytorch` and `to_tf1` convert back. No GPU is needed.

A pseudo-layer is one direction of one layer. Pseudo-layers are in the order layer 0 forward, layer 0 backward, layer 1
forward, ... The buffer contains, densely packed,

1. all matrices, by pseudo-layer: the input matrix W, the recurrent matrix R and, with a projection, the projection
   matrix P;
2. all biases, by pseudo-layer: that of W, then that of R.

W and R are stored gate by gate. The matrix of a gate is [num_units, fan_in], row-major, and applied as y = x W^T: the
transpose of a Keras kernel. The gates are in the order i (input), f (forget), g (candidate), o (output) in an LSTM, and
r (reset), u (update), n (new) in a GRU. Source: cuDNN's documentation of cudnnGetRNNWeightParams.

Guides: docs/guides/keras_weights.md, docs/guides/onnx.md, docs/guides/pytorch.md and docs/guides/tf1_checkpoint.md.
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
