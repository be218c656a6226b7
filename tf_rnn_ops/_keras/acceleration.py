"""Runs Keras's own recurrent layers on the ops, without changes to the model."""

import functools
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

from tf_rnn_ops._keras import cell_step, execution, kerases, tracing
from tf_rnn_ops._keras.compiled_functions import remake
from tf_rnn_ops._keras.environment import check_backend
from tf_rnn_ops._keras.exports import CONTENTS, POLICY, check_choice
from tf_rnn_ops._keras.patches import SharedPatches, owner_of, with_signature
from tf_rnn_ops._keras.private_names import CALL, FLATTEN_LAYERS, MAKE_FUNCTION
from tf_rnn_ops._keras.table import Keras, Patch

__all__ = ["Acceleration", "accelerate_keras", "restore_keras"]

VARIABLE = "TF_RNN_OPS_ACCELERATE_KERAS"

_logger = logging.getLogger("tf_rnn_ops")


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
    """Runs Keras's own LSTM, GRU and SimpleRNN layers on the op `KerasRNN`.

    Keras 2 (tf_keras) is accelerated, too, if the program imports it before or after this call.

    Models need no changes. All such layers, and `keras.layers.RNN` of their cells or lists of them, run on the op, also
    within `Bidirectional` and `TimeDistributed`, and in models made or loaded before or after this call. Compiled
    functions that Keras has already made (in `fit`, `predict` and so on) are made again. A `tf.function` of your own is
    not traced again. Where a program has replaced methods of Keras's cells, or `inner_loop` of its layers, they run.

    `LSTMCell`, `GRUCell` and `SimpleRNNCell` that you call one step at a time run on the op when that is faster: in
    inference, either in eager mode or, in a graph, for one sequence.

    Unsupported configurations fall back to Keras; docs/guides/keras.md lists them. If TensorFlow sees a GPU, all layers
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
        Likewise for Keras 2 (2.18 to 2.21), if tf_keras is imported.

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
    return start(strict, exports)


def start(strict: bool = False, exports: str = "portable") -> Acceleration:
    """Accelerates Keras as `accelerate_keras` does.

    Raises:
      RuntimeError: if that is not possible.
    """
    check_backend("accelerate_keras")
    for keras in kerases.in_use():
        _check(keras)
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
            # `stacklevel` attributes the warning to the import of the package.
            warnings.warn(f"{VARIABLE}=1 has no effect: {error}", RuntimeWarning, stacklevel=3)


def _check(keras: Keras) -> None:
    """Raises a RuntimeError if the functions of a Keras are not the expected ones."""
    number = keras.package.__version__
    version = tuple(int(each) for each in number.split(".")[:2])
    tested = "Keras {}.{} to {}.{}".format(*keras.oldest, *keras.newest_tested)
    if not (
        version >= keras.oldest
        and all(
            parameters is None or _parameters(owner, name) == [*parameters] for owner, name, parameters in keras.loops
        )
        and all(_parameters(owner_of(each, CALL), CALL)[2:] == ["states", "training"] for each in keras.cells)
        and all(hasattr(keras.model, each) for each in (*MAKE_FUNCTION, FLATTEN_LAYERS))
    ):
        raise RuntimeError(
            f"accelerate_keras was tested with {tested}, but Keras {number} is installed, "
            f"{'which is older' if version < keras.oldest else 'whose layers have other methods'}: install one of the "
            "tested versions, or use the layers in tf_rnn_ops.layers."
        )
    if version > keras.newest_tested:
        _logger.warning("accelerate_keras was tested with %s, and now runs with Keras %s.", tested, number)


def _parameters(owner: Any, name: str) -> list[str]:
    """Returns the parameters of a function that a class or module itself defines, or nothing if it does not."""
    function = vars(owner).get(name)
    return [] if function is None else list(inspect.signature(function).parameters)


class _Switch:
    """Patches Keras's classes while at least one acceleration runs."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._accelerations: dict[Acceleration, None] = {}  # in order
        self._patches: list[SharedPatches] = []  # one for each Keras, while accelerations run
        self._import_of_keras_2 = kerases.ImportOfKeras2(self._add_keras_2)
        # By id, the models that made or used compiled functions.
        self._models: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self.strict = False  # whether a fallback raises an error

    def is_on(self) -> bool:
        return bool(self._accelerations)

    def add(self, acceleration: Acceleration) -> None:
        with self.lock:
            if not self._accelerations:
                tracing.SAVED_ENDPOINTS.__enter__()
                for keras in kerases.in_use():
                    self._patch(keras)
                if not kerases.uses_keras_2():
                    sys.meta_path.insert(0, self._import_of_keras_2)
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
                if self._import_of_keras_2 in sys.meta_path:
                    sys.meta_path.remove(self._import_of_keras_2)
                while self._patches:
                    self._patches.pop().__exit__()
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

    def _patch(self, keras: Keras) -> None:
        """Makes a Keras run on the op, until the last acceleration ends."""
        self._patches.append(SharedPatches(functools.partial(self._methods, keras)))
        self._patches[-1].__enter__()

    def _add_keras_2(self) -> None:
        """Accelerates Keras 2, which the program has just imported."""
        with self.lock:
            if self._import_of_keras_2 not in sys.meta_path:
                return  # no longer accelerated
            sys.meta_path.remove(self._import_of_keras_2)
            for keras in kerases.in_use()[1:]:
                try:
                    _check(keras)
                except RuntimeError as error:
                    _logger.warning("%s is not accelerated: %s", keras.name, error)
                else:
                    self._patch(keras)

    def _methods(self, keras: Keras) -> Iterator[Patch]:
        """Yields the functions of a Keras that run on the op while it is accelerated, for `SharedPatches`."""
        yield from keras.patches(_run)
        for cell in {owner_of(each, CALL): None for each in keras.cells}:
            yield cell, CALL, _step_on_op
        for make in MAKE_FUNCTION:
            yield owner_of(keras.model, make), make, self._after_remaking

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


def _run(
    layer: Any, keras_loop: Callable[..., Any], sequences: Any, initial_state: Any, mask: Any, training: Any
) -> Any:
    """Runs a layer over all steps, on the op if the op supports the call; see `execution.run`."""
    arguments = sequences, initial_state, mask, training
    if not _switch.is_on():
        return keras_loop(*arguments)
    return execution.run(layer, keras_loop, *arguments, strict=_switch.strict)


def _step_on_op(call: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a method `call` of a class of cells that runs on the op if that is faster."""
    signature = inspect.signature(call)
    inputs = list(signature.parameters)[1]  # the name of the argument differs between cells

    @functools.wraps(call)
    def accelerated(cell: Any, *args: Any, **kwargs: Any) -> Any:
        if not _switch.is_on():
            return call(cell, *args, **kwargs)
        if inputs in kwargs:
            args = kwargs.pop(inputs), *args
        return cell_step.run(call, cell, *args, **kwargs)

    return with_signature(accelerated, signature)
