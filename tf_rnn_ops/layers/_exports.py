"""What is exported takes Keras's path: another process, ONNX or LiteRT has no kernel for the op.

TensorFlow traces what `tf.saved_model.save` writes within its save context. Keras traces the endpoints of an
`ExportArchive`, which serves all formats of `Model.export`, before it saves them. `trace_endpoints_as_saved` puts that
into the save context too.
"""

import functools
import sys

import keras
import tensorflow as tf
from tensorflow.python.saved_model import save_context  # not public, and all that tells what is saved

# Whether exports hold the op: accelerate_keras(portable_exports=False) sets it.
keep_op = False


def take_keras_path():
    """Returns whether what is being traced is exported and must not hold the op."""
    if keep_op or tf.executing_eagerly():
        return False
    return save_context.in_save_context() or _is_traced_by_tf2onnx()


def trace_endpoints_as_saved():
    """Makes Keras trace the endpoints of each `ExportArchive` within TensorFlow's save context."""
    if keras.backend.backend() != "tensorflow":
        return
    # Keras chooses the class of an archive when it makes one.
    owner = next(each for each in type(keras.export.ExportArchive()).__mro__ if "add_endpoint" in vars(each))
    owner.add_endpoint = _with_saved_endpoint(owner.add_endpoint)


def _is_traced_by_tf2onnx():
    """Returns whether `tf2onnx.convert.from_keras` traces a model: it does so by means of TensorFlow's old Keras."""
    old_keras = sys.modules.get("tensorflow.python.keras.engine.base_layer_utils")
    return old_keras is not None and bool(old_keras.call_context().saving)


def _with_saved_endpoint(add_endpoint):
    """Returns the method `add_endpoint` of an archive, but for endpoints that are traced in the save context."""

    @functools.wraps(add_endpoint)
    def add(archive, name, fn, input_signature=None, *args, **kwargs):
        # Without a signature, it is a tf.function that has been traced: it keeps its path.
        if input_signature is not None:
            fn = _in_save_context(fn)
        return add_endpoint(archive, name, fn, input_signature, *args, **kwargs)

    return add


def _in_save_context(fn):
    """Returns a function that runs within the save context, where the tf.functions that it calls are traced anew."""

    @functools.wraps(fn, updated=())  # it may be a model, whose attributes are its own
    def traced(*args, **kwargs):
        if save_context.in_save_context():
            return fn(*args, **kwargs)
        with save_context.save_context(tf.saved_model.SaveOptions()):
            return fn(*args, **kwargs)

    return traced
