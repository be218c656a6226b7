"""The graph and the output of a SavedModel."""

import tensorflow as tf
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from checks.op_definitions import ops_of


def contains_op(path):
    """Returns whether a SavedModel contains one of our ops."""
    graph = SavedModel.FromString((path / "saved_model.pb").read_bytes()).meta_graphs[0].graph_def
    return any(op.startswith("TfRnnOps>") for op in ops_of(graph))


def serve(path, x):
    """Returns the output of a SavedModel."""
    (output,) = tf.saved_model.load(path).signatures["serving_default"](tf.constant(x)).values()
    return output
