"""What a function is traced for: a call, an export, a converter or `freeze`.

`tf.saved_model.save` traces functions within TensorFlow's save context. Keras traces the endpoints of an
`ExportArchive`, which implements all formats of `Model.export`, before it saves them. `SAVED_ENDPOINTS` makes Keras
trace them within the save context too. tf2onnx and OpenVINO trace a model themselves and are recognized in the call
stack. For all others, and for functions that are already traced, there is the scope `portable`.
"""

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from tf_rnn_ops import _private_names
from tf_rnn_ops._keras.patches import SharedPatches, owner_of
from tf_rnn_ops._keras.private_names import TRACK_RESOURCES
from tf_rnn_ops._keras.table import Patch
from tf_rnn_ops._private_names import SAVE_CONTEXT

# The packages that trace a model in order to convert it.
_CONVERTERS = frozenset(["openvino", "tf2onnx"])


class _Scopes(threading.local):
    """The `portable` scopes of a thread."""

    depth = 0
    opened_save_context = False  # whether the save context is that of a `portable` scope
    is_freezing = False  # in the scope `freezing`


_scopes = _Scopes()


@contextlib.contextmanager
def portable() -> Iterator[None]:
    """Makes functions that are traced in this scope use Keras's own operations, so that converters understand them.

    Use it around a converter that traces the model, or around code that makes a concrete function for one. In the
    scope, a `tf.function` that was traced before is traced again, without a change to what it does outside. This
    applies to accelerated Keras layers and to `LSTM`, `GRU` and `SimpleRNN` in `tf_rnn_ops.layers`, even with
    `exports="op"`; not to the `CudnnRNN` layers, `GRUBlockCell`, `LSTMBlockCell` and `tf_rnn_ops.raw_ops`.
    Eager calls do not change, nor do other threads.

    The scope is also a decorator, and scopes may be nested. Within it, TensorFlow traces as for a SavedModel: under a
    distribution strategy, do not train in it.

    Returns:
      A context manager.

    Examples:
      >>> layer = tf_rnn_ops.layers.LSTM(4)
      >>> with portable():
      ...     serve = tf.function(layer).get_concrete_function(tf.TensorSpec([None, 10, 3]))
      >>> "TfRnnOps>KerasRNN" in str(serve.graph.as_graph_def())
      False
    """
    with contextlib.ExitStack() as stack:
        if SAVE_CONTEXT is not None and not SAVE_CONTEXT.in_save_context():
            stack.enter_context(_NESTED_SAVES)
            stack.enter_context(_own_save_context())
        _scopes.depth += 1
        try:
            yield
        finally:
            _scopes.depth -= 1


@contextlib.contextmanager
def freezing() -> Iterator[None]:
    """Lets functions that this thread traces keep the op, as for an export for inference."""
    _scopes.is_freezing = True
    try:
        yield
    finally:
        _scopes.is_freezing = False


def purpose() -> str:
    """Returns what the function being traced is for.

    Returns:
      "portable" in a scope `portable`; "freezing"; "export" for a SavedModel or an export of Keras; "conversion" for a
      converter that traces models itself; otherwise, and in eager mode, "call".
    """
    if tf.executing_eagerly():
        return "call"
    if _scopes.depth:
        return "portable"
    if _scopes.is_freezing:
        return "freezing"
    if SAVE_CONTEXT is not None and SAVE_CONTEXT.in_save_context():
        return "export"
    return "conversion" if _private_names.is_saved_by_old_keras() or _is_traced_by_converter() else "call"


def _is_traced_by_converter() -> bool:
    """Returns whether a function of a known converter is in the call stack."""
    if _CONVERTERS.isdisjoint(sys.modules):
        return False
    frame: Any = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] in _CONVERTERS:
            return True
        frame = frame.f_back
    return False


@contextlib.contextmanager
def _own_save_context() -> Iterator[None]:
    """Enters the save context for a `portable` scope. In it, TensorFlow traces functions again."""
    with SAVE_CONTEXT.save_context(tf.saved_model.SaveOptions()):
        _scopes.opened_save_context = True
        try:
            yield
        finally:
            _scopes.opened_save_context = False


def _nestable(enter: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function `save_context`, changed to replace the context of a `portable` scope for a while."""

    @functools.wraps(enter)
    @contextlib.contextmanager
    def nestable(options: Any) -> Iterator[None]:
        replaces = _scopes.opened_save_context
        with _private_names.suspended_save_context() if replaces else contextlib.nullcontext(), enter(options):
            _scopes.opened_save_context = False
            try:
                yield
            finally:
                _scopes.opened_save_context = replaces

    return nestable


def _endpoint_methods() -> Iterator[Patch]:
    """Yields the methods with which an `ExportArchive` of Keras 3 traces its endpoints."""
    if keras.backend.backend() == "tensorflow":
        # Keras chooses the base class of an archive when it creates one.
        yield from endpoint_methods(type(keras.export.ExportArchive()))


def endpoint_methods(archive: type) -> Iterator[Patch]:
    """Yields the methods with which a class of archives traces endpoints, and how to make it do so as for a save."""
    if SAVE_CONTEXT is None:
        return
    yield owner_of(archive, "add_endpoint"), "add_endpoint", _with_saved_endpoint
    # Before Keras saves the endpoints, it also traces the call of each tracked model.
    for owner in archive.__mro__:
        if TRACK_RESOURCES in vars(owner):
            yield owner, TRACK_RESOURCES, _in_save_context


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
        if SAVE_CONTEXT.in_save_context():
            return fn(*args, **kwargs)
        with SAVE_CONTEXT.save_context(tf.saved_model.SaveOptions()):
            return fn(*args, **kwargs)

    return traced


# Makes Keras trace the endpoints of each `ExportArchive` within TensorFlow's save context.
SAVED_ENDPOINTS = SharedPatches(_endpoint_methods)
# Lets a model be saved in a `portable` scope.
_NESTED_SAVES = SharedPatches(
    lambda: [(SAVE_CONTEXT, "save_context", _nestable)] if _private_names.suspends_save_context() else []
)
