"""Loads a tf.contrib.cudnn_rnn layer from a TensorFlow 1 checkpoint and runs it without a GPU.

    python examples/from_tf1_checkpoint.py model.ckpt-1000 encoder

The arguments are the checkpoint and the scope of the layer; omit the scope if the checkpoint has only one such layer.
Without arguments, the program first writes a checkpoint of a CudnnLSTM with random weights.
"""

import sys
import tempfile

import numpy as np
import tensorflow as tf

import tf_rnn_ops
from tf_rnn_ops.params import from_tf1, layout, layout_from_tf1, to_tf1


def write_checkpoint(path):
    """Writes a checkpoint of a CudnnLSTM in the scope "encoder" and returns its path."""
    lstm = layout("lstm", num_units=64, input_size=32, num_layers=2, direction="bidirectional")
    params = np.random.default_rng(0).uniform(-0.1, 0.1, lstm.size).astype("float32")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for name, value in to_tf1(lstm, params, prefix="encoder").items():
            tf.compat.v1.get_variable(name, initializer=value)
        session.run(tf.compat.v1.global_variables_initializer())
        return tf.compat.v1.train.Saver().save(session, path)


def load_layer(checkpoint, scope=None):
    """Returns a Keras layer with the weights of a tf.contrib layer, which is time-major."""
    layout = layout_from_tf1(checkpoint, scope)
    params = from_tf1(layout, checkpoint, scope)
    return tf_rnn_ops.layers.CudnnRNN.from_params(layout, params, time_major=True, return_sequences=True)


def main():
    """Loads a layer and prints its layout and some of its output."""
    with tempfile.TemporaryDirectory() as folder:
        checkpoint, *scope = sys.argv[1:] or [write_checkpoint(f"{folder}/model.ckpt")]
        layer = load_layer(checkpoint, *scope)
    print(repr(layer.layout))
    inputs = np.ones([10, 1, layer.layout.input_size], "float32")  # [time, batch, features]
    output = layer(inputs).numpy()[-1, 0]
    print("After ten steps of ones, its output begins with", ", ".join(f"{each:.6f}" for each in output[:6]))


if __name__ == "__main__":
    main()
