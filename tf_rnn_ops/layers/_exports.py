"""Exported models use the implementation of Keras, because other processes, ONNX and LiteRT have no kernel for the op.

`tf.saved_model.save` traces functions within TensorFlow's save context. Keras traces the endpoints of an
`ExportArchive`, which implements all formats of `Model.export`, before it saves them. `trace_endpoints_as_saved` makes
Keras trace them within the save context too.
"""

import functools
import sys
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.saved_model import save_context  # not public; nothing else tells that a model is being saved

# Whether exported models contain the op, set by accelerate_keras(portable_exports=False).
keep_op = False


def is_portable_export() -> bool:
    """Returns whether the function being traced is for an export that must not contain the op."""
    if keep_op or tf.executing_eagerly():
        return False
    return save_context.in_save_context() or _is_traced_by_tf2onnx()


def trace_endpoints_as_saved() -> None:
    """Makes Keras trace the endpoints of each `ExportArchive` within TensorFlow's save context."""
    if keras.backend.backend() != "tensorflow":
        return
    # Keras chooses the base class of an archive when it creates one.
    classes: Any = type(keras.export.ExportArchive()).__mro__
    owner = next(each for each in classes if "add_endpoint" in vars(each))
    owner.add_endpoint = _with_saved_endpoint(owner.add_endpoint)
    # Before Keras saves the endpoints, it also traces the call of each tracked model.
    for owner in classes:
        if "_filter_and_track_resources" in vars(owner):
            owner._filter_and_track_resources = _in_save_context(owner._filter_and_track_resources)


def _is_traced_by_tf2onnx() -> bool:
    """Returns whether `tf2onnx.convert.from_keras` is tracing a model, which it does with TensorFlow's old Keras."""
    old_keras = sys.modules.get("tensorflow.python.keras.engine.base_layer_utils")
    return old_keras is not None and bool(old_keras.call_context().saving)


def _with_saved_endpoint(add_endpoint: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the method `add_endpoint` of an archive, changed to trace endpoints in the save context."""

    @functools.wraps(add_endpoint)
    def add(
        archive: Any, name: str, fn: Callable[..., Any], input_signature: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        # Without a signature, `fn` is a tf.function that is already traced.
        if input_signature is not None:
            fn = _in_save_context(fn)
        return add_endpoint(archive, name, fn, input_signature, *args, **kwargs)

    return add


def _in_save_context(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that runs within the save context, where TensorFlow traces the tf.functions it calls again."""

    @functools.wraps(fn, updated=())  # `fn` may be a model, whose attributes must not be copied
    def traced(*args: Any, **kwargs: Any) -> Any:
        if save_context.in_save_context():
            return fn(*args, **kwargs)
        with save_context.save_context(tf.saved_model.SaveOptions()):
            return fn(*args, **kwargs)

    return traced
