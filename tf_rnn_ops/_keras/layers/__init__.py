"""The layers and cells of `tf_rnn_ops.layers`."""
