"""Runs Keras's own recurrent layers on the ops, without changes to the model."""

import functools
import importlib
import inspect
import logging
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

import keras
import tensorflow as tf

from tf_rnn_ops._keras import cell_step, description, execution, tracing
from tf_rnn_ops._keras.compiled_functions import remake
from tf_rnn_ops._keras.environment import check_backend
from tf_rnn_ops._keras.exports import CONTENTS, POLICY, check_choice
from tf_rnn_ops._keras.patches import SharedPatches, owner_of
from tf_rnn_ops._keras.private_names import CALL, FLATTEN_LAYERS, INNER_LOOP, MAKE_FUNCTION

__all__ = ["Acceleration", "accelerate_keras", "restore_keras"]

VARIABLE = "TF_RNN_OPS_ACCELERATE_KERAS"

_OLDEST_KERAS = (3, 5)
_NEWEST_TESTED_KERAS = (3, 16)
_TESTED = "Keras {}.{} to {}.{}".format(*_OLDEST_KERAS, *_NEWEST_TESTED_KERAS)
_logger = logging.getLogger("tf_rnn_ops")

# The classes whose `inner_loop` runs a cell over all steps. SimpleRNN inherits that of RNN.
_LAYERS = (keras.layers.LSTM, keras.layers.GRU, keras.layers.RNN)


class Acceleration:
    """A running acceleration of Keras, as returned by `accelerate_keras`.

    Use it as a context manager, or call `restore` to end the acceleration.

    Args:
      strict: see `accelerate_keras`.
      exports: see `accelerate_keras`.
    """

    def __init__(self, strict: bool, exports: str) -> None:
        self._strict = strict
        self._exports = exports
        self._blocks = 0  # `with` blocks of this acceleration that are running

    def __enter__(self) -> "Acceleration":
        with _switch.lock:
            self._blocks += 1
            _switch.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with _switch.lock:
            self._blocks -= 1
            if not self._blocks:
                self.restore()

    def restore(self) -> None:
        """Ends this acceleration. Keras stays accelerated while another acceleration runs. Further calls do nothing."""
        _switch.remove(self)


def accelerate_keras(*, strict: bool = False, exports: str = "portable", portable_exports: bool = True) -> Acceleration:
    """Runs Keras's own LSTM, GRU and SimpleRNN layers on the op `KerasRNN`, or in a loop that is faster than Keras's.

    Models need no changes. All such layers, and `keras.layers.RNN` with their cells, run on the op, also within
    `Bidirectional` and `TimeDistributed`, and in models made or loaded before or after this call. Compiled functions
    that Keras has already made (in `fit`, `predict` and so on) are made again. A `tf.function` of your own is not
    traced again. Where a program has replaced methods of Keras's cells, or `inner_loop` of its layers, they run.

    `LSTMCell`, `GRUCell` and `SimpleRNNCell` that you call one step at a time run on the op when that is faster: in
    inference, either in eager mode or, in a graph, for one sequence.

    A GRU with `reset_after=False`, and an LSTM or GRU with recurrent dropout in training, run in the loop. Other
    unsupported configurations fall back to Keras; docs/guides/keras.md lists them. If TensorFlow sees a GPU, all layers
    fall back. The logger "tf_rnn_ops" logs each fallback once, and `tf_rnn_ops.explain(model)` shows all of them.
    Acceleration does not change whether XLA compiles a model; with `jit_compile=True`, XLA compiles the op too.

    If the environment variable TF_RNN_OPS_ACCELERATE_KERAS is 1, importing tf_rnn_ops calls this function.

    Args:
      strict: whether to raise a RuntimeError with the reason instead of falling back. Applies to LSTM, GRU, SimpleRNN
        and `RNN` with any cell, including custom cells, but not to cells called directly, nor to exports that use the
        implementation of Keras.
      exports: what exported models (`model.export`, `keras.export.ExportArchive`, `tf.saved_model.save` and conversions
        to ONNX and LiteRT) contain:

        - "portable": the implementation of Keras, so that they run without tf_rnn_ops.
        - "op": the op for the layers that run on it, also to train the loaded model. It packs its weights in each call.
        - "float32", "bfloat16" or "int8": the op, which in inference packs its weights once for all calls, in this
          format (see `tf_rnn_ops.freeze`). The weights stay variables. If a program assigns to them, they are packed
          again, unless they are in memory that is not TensorFlow's own, such as an array of NumPy. Training uses the
          variables themselves. Layers with mixed precision pack weights in each call, which is logged.

        Also applies to the layers in `tf_rnn_ops.layers`; a format, to the `CudnnRNN` layers, too, which always export
        the op.
      portable_exports: False is another way to write `exports="op"`, and does nothing if `exports` is a format.

    Returns:
      An `Acceleration`, which ends when its method `restore()` is called or its `with` block exits. If you call
      `accelerate_keras` several times, Keras stays accelerated until all accelerations have ended, in any order. Until
      then, it is strict if any of them is strict; of their `exports`, the last format counts, then "op".
      `tf_rnn_ops.restore_keras()` ends all of them.

    Raises:
      TypeError: if `strict` or `portable_exports` is not a bool.
      ValueError: if `exports` is none of these.
      RuntimeError: if the backend of Keras is not TensorFlow, or this Keras is older than 3.5 or has other methods than
        the versions that were tested (3.5 to 3.16). A newer version with the same methods is accelerated, and logged.
        If `strict`, also if `tf.keras` is Keras 2 (TF_USE_LEGACY_KERAS=1), which is not accelerated; otherwise a
        warning is issued.

    Examples:
      >>> model = keras.Sequential([keras.layers.LSTM(4)])
      >>> with accelerate_keras():
      ...     model.predict(np.ones([2, 10, 3], "float32"), verbose=0).shape  # [batch, time, features]
      (2, 4)
    """
    for name, value in (("strict", strict), ("portable_exports", portable_exports)):
        if not isinstance(value, bool):
            raise TypeError(f"{name} must be True or False, but is {value!r}")
    check_choice("exports", exports, CONTENTS)
    if exports == "portable" and not portable_exports:
        exports = "op"
    _check_keras_2(strict, stacklevel=3)
    return start(strict, exports)


def start(strict: bool = False, exports: str = "portable") -> Acceleration:
    """Accelerates Keras as `accelerate_keras` does, also if the program uses Keras 2.

    Raises:
      RuntimeError: if that is not possible.
    """
    check_backend("accelerate_keras")
    _check_keras()
    acceleration = Acceleration(strict, exports)
    _switch.add(acceleration)
    return acceleration


def restore_keras() -> None:
    """Ends all accelerations of `accelerate_keras`. Does nothing if Keras is not accelerated.

    Examples:
      >>> acceleration = accelerate_keras()
      >>> restore_keras()
    """
    _switch.remove_all()


def is_accelerated() -> bool:
    """Returns whether Keras is accelerated."""
    return _switch.is_on()


def accelerate_if_wanted() -> None:
    """Accelerates Keras if the environment variable is 1. Warns if that is not possible.

    Raises:
      ValueError: if the environment variable has another value than 0 or 1.
    """
    value = os.environ.get(VARIABLE) or "0"
    if value not in ("0", "1"):
        raise ValueError(
            f"the environment variable {VARIABLE} must be 1 (accelerate Keras when tf_rnn_ops is imported), 0 or unset "
            f"(do not), but is {value!r}."
        )
    if value == "1":
        try:
            start()
        except RuntimeError as error:
            # `stacklevel`, here and below, attributes the warning to the import of the package.
            warnings.warn(f"{VARIABLE}=1 has no effect: {error}", RuntimeWarning, stacklevel=3)
        else:
            _check_keras_2(strict=False, stacklevel=4)


def _check_keras() -> None:
    """Raises a RuntimeError if the classes of this Keras do not have the expected methods."""
    version = tuple(int(each) for each in keras.__version__.split(".")[:2])
    arguments = ["self", "sequences", "initial_state", "mask", "training"]
    if not (
        version >= _OLDEST_KERAS
        and all(_parameters(each, INNER_LOOP) == arguments for each in _LAYERS)
        and all(_parameters(each, CALL)[2:] == ["states", "training"] for each in description.CELLS)
        and all(hasattr(keras.Model, each) for each in (*MAKE_FUNCTION, FLATTEN_LAYERS))
    ):
        raise RuntimeError(
            f"accelerate_keras was tested with {_TESTED}, but Keras {keras.__version__} is installed, "
            f"{'which is older' if version < _OLDEST_KERAS else 'whose layers have other methods'}: install one of the "
            "tested versions, or use the layers in tf_rnn_ops.layers."
        )
    if version > _NEWEST_TESTED_KERAS:
        _logger.warning("accelerate_keras was tested with %s, and now runs with Keras %s.", _TESTED, keras.__version__)


def _parameters(cls: type, method: str) -> list[str]:
    """Returns the parameters of a method that a class itself defines, or nothing if it does not."""
    function = vars(cls).get(method)
    return [] if function is None else list(inspect.signature(function).parameters)


def _check_keras_2(strict: bool, stacklevel: int) -> None:
    """Warns if the program may use Keras 2. If `strict`, raises a RuntimeError if `tf.keras` is Keras 2."""
    if _tf_keras_is_keras_2():
        message = "only Keras 3 is supported, but tf.keras is Keras 2 (TF_USE_LEGACY_KERAS=1): unset the variable"
        if strict:
            raise RuntimeError(f"accelerate_keras(strict=True): {message}.")
        message += " or use `import keras`"
    elif "tf_keras" in sys.modules:
        message = "only Keras 3 is supported, but tf_keras (Keras 2) is imported: use `import keras`"
    else:
        return
    warnings.warn(f"accelerate_keras: {message}.", UserWarning, stacklevel=stacklevel)


def _tf_keras_is_keras_2() -> bool:
    """Returns whether `tf.keras` is not the same Keras as `keras`."""
    if os.environ.get("TF_USE_LEGACY_KERAS") in ("1", "true", "True"):
        try:
            importlib.import_module("tf_keras")
        except Exception:
            # `tf.keras` raises this error only at its first access, left to the user, and then a RecursionError.
            return False
    return tf.keras.layers.LSTM is not keras.layers.LSTM


class _Switch:
    """Patches Keras's classes while at least one acceleration runs."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._accelerations: dict[Acceleration, None] = {}  # in order
        self._patches = SharedPatches(self._methods)
        # By id, the models that made or used compiled functions.
        self._models: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self.strict = False  # whether a fallback raises an error

    def is_on(self) -> bool:
        return bool(self._accelerations)

    def add(self, acceleration: Acceleration) -> None:
        with self.lock:
            if not self._accelerations:
                self._patches.__enter__()
                tracing.SAVED_ENDPOINTS.__enter__()
            self._accelerations[acceleration] = None
            POLICY.add(acceleration, acceleration._exports)
            self._update_strict()

    def remove(self, acceleration: Acceleration) -> None:
        with self.lock:
            if acceleration not in self._accelerations:
                return
            del self._accelerations[acceleration]
            POLICY.remove(acceleration)
            self._update_strict()
            if not self._accelerations:
                self._patches.__exit__()
                tracing.SAVED_ENDPOINTS.__exit__()
                self._remake_all()

    def remove_all(self) -> None:
        with self.lock:
            for acceleration in list(self._accelerations):
                self.remove(acceleration)

    def _update_strict(self) -> None:
        was_strict, self.strict = self.strict, any(each._strict for each in self._accelerations)
        if self.strict and not was_strict:
            # Layers that fall back in functions that are already traced must raise too.
            self._remake_all()

    def _methods(self) -> Iterator[tuple[type, str, Callable[[Any], Any]]]:
        """Yields the methods that run on the op while Keras is accelerated, for `SharedPatches`."""
        for layer in _LAYERS:
            yield layer, INNER_LOOP, functools.partial(_on_op, layer)
        for cell in description.CELLS:
            yield cell, CALL, _step_on_op
        for make in MAKE_FUNCTION:
            yield owner_of(keras.Model, make), make, self._after_remaking

    def _remake_all(self) -> None:
        models, self._models = list(self._models.values()), weakref.WeakValueDictionary()
        for model in models:
            remake(model)

    def _after_remaking(self, make: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a method `make` of a model that, on the first call of any of them, makes all functions again."""

        @functools.wraps(make)
        def make_function(model: Any, *args: Any, **kwargs: Any) -> Any:
            if self.is_on() and self._models.get(id(model)) is not model:
                self._models[id(model)] = model
                remake(model)
            return make(model, *args, **kwargs)

        return make_function


_switch = _Switch()


def _on_op(cls: type, inner_loop: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a method `inner_loop` of a class in `_LAYERS` that runs on the op if the op supports the call."""

    @functools.wraps(inner_loop)
    def accelerated(layer: Any, sequences: Any, initial_state: Any, mask: Any, training: bool = False) -> Any:
        arguments = sequences, initial_state, mask, training
        # The inner_loop of LSTM and GRU may call that of RNN, which must not decide again.
        if not _switch.is_on() or cls is not next(each for each in _LAYERS if isinstance(layer, each)):
            return inner_loop(layer, *arguments)
        return execution.run(layer, functools.partial(inner_loop, layer), *arguments, strict=_switch.strict)

    return accelerated


def _step_on_op(call: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a method `call` of a class in `description.CELLS` that runs on the op if that is faster."""
    inputs = list(inspect.signature(call).parameters)[1]  # the name of the argument differs between cells

    @functools.wraps(call)
    def accelerated(cell: Any, *args: Any, **kwargs: Any) -> Any:
        if not _switch.is_on():
            return call(cell, *args, **kwargs)
        if inputs in kwargs:
            args = kwargs.pop(inputs), *args
        return cell_step.run(call, cell, *args, **kwargs)

    return accelerated
