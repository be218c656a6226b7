"""Keras's own recurrent layers on these ops, in models that are not changed."""

import functools
import inspect
import os
import sys
import threading
import warnings
import weakref

import keras
import tensorflow as tf

from tf_rnn_ops.layers import _cell_step, _exports, _inner_loop
from tf_rnn_ops.layers._common import check_backend

__all__ = ["Acceleration", "accelerate_keras", "restore_keras"]

VARIABLE = "TF_RNN_OPS_ACCELERATE_KERAS"

_OLDEST_KERAS = (3, 5)

# Where Keras runs a cell over all steps. LSTM and GRU try cuDNN first; RNN serves SimpleRNN too.
_LAYERS = (keras.layers.LSTM, keras.layers.GRU, keras.layers.RNN)
# What a model makes its compiled functions with, and where it keeps them.
_FUNCTIONS = {f"make_{name}": name for name in ("train_function", "test_function", "predict_function")}


class Acceleration:
    """What `accelerate_keras` returns: a context manager that ends the acceleration, as `restore` does."""

    def __init__(self, strict, portable_exports):
        self._strict = strict
        self._portable_exports = portable_exports

    def __enter__(self):
        _switch.add(self)
        return self

    def __exit__(self, *_):
        self.restore()

    def restore(self):
        """Gives Keras its own path back, unless it is accelerated by another call too. Twice is harmless."""
        _switch.remove(self)


def accelerate_keras(*, strict=False, portable_exports=True):
    """Lets Keras's own LSTM, GRU and SimpleRNN run on the op `KerasRNN`, or in a loop that is faster than Keras's.

    Models need no change: from now on, their layers, and `keras.layers.RNN` of their cells, take the op's path, alone
    and within `Bidirectional` and `TimeDistributed`, whether a model is made or loaded before or after. A compiled
    function that a model has made already (by `fit`, `predict` and so on) is made again. A `tf.function` of your own
    keeps the path that it was traced with.

    `LSTMCell`, `GRUCell` and `SimpleRNNCell` that are called one step at a time run on the op where it is faster:
    without a gradient, in eager mode or, in a graph, for one sequence.

    A GRU with `reset_after=False`, and an LSTM or GRU with recurrent dropout in training, run in the loop. Other
    unsupported configurations fall back to Keras; docs/guides/keras.md has the list. So does everything where TensorFlow sees
    a GPU. Each fallback is logged once by the logger "tf_rnn_ops", and `tf_rnn_ops.explain(model)` shows them all.
    Acceleration does not change whether XLA compiles a model: with `jit_compile=True`, it compiles the op too.

    If the environment variable TF_RNN_OPS_ACCELERATE_KERAS is 1, importing tf_rnn_ops makes this call.

    Args:
      strict: whether a layer that would fall back raises a RuntimeError that says why, instead. It concerns LSTM, GRU,
        SimpleRNN and `RNN` of any cell, a custom one included, but not a cell that is called by itself. Exports raise
        none.
      portable_exports: whether what is exported (`model.export`, `keras.export.ExportArchive`, `tf.saved_model.save`
        and conversions to ONNX and LiteRT) takes Keras's path, so that it runs without tf_rnn_ops. If false, it holds
        the op, as far as a layer runs on it. It concerns the layers of `tf_rnn_ops.layers` too.

    Returns:
      An `Acceleration`: its method `restore()` ends it, and so does the end of a `with` block. Keras stays accelerated
      while any of several calls has not been ended, in whatever order they are; meanwhile, it is strict if one of them
      is, and exports hold the op if one of them wants that. `tf_rnn_ops.restore_keras()` ends them all.

    Raises:
      RuntimeError: if Keras runs on another backend than TensorFlow, is older than 3.5, or is not built as those
        versions are that this was written for; and, if `strict`, where `tf.keras` is Keras 2 (TF_USE_LEGACY_KERAS=1),
        which is not accelerated. Otherwise a warning says so.

    Example:
      >>> model = keras.Sequential([keras.layers.LSTM(4)])
      >>> with accelerate_keras():
      ...     model.predict(np.ones([2, 10, 3], "float32"), verbose=0).shape  # [batch, time, features]
      (2, 4)
    """
    check_backend("accelerate_keras")
    _check_keras()
    _check_keras_2(strict)
    return Acceleration(strict, portable_exports).__enter__()


def restore_keras():
    """Ends every acceleration, also those whose `Acceleration` is not at hand. Without any, it does nothing.

    Example:
      >>> acceleration = accelerate_keras()
      >>> restore_keras()
    """
    _switch.remove_all()


def is_accelerated():
    """Returns whether Keras is accelerated."""
    return _switch.is_on()


def accelerate_if_wanted():
    """Accelerates Keras if the environment variable says so. If that is impossible, a warning says why.

    Raises:
      ValueError: if the environment variable is none of its values.
    """
    value = os.environ.get(VARIABLE) or "0"
    if value not in ("0", "1"):
        raise ValueError(
            f"the environment variable {VARIABLE} must be 1 (importing tf_rnn_ops accelerates Keras) or 0 or not set "
            f"(it does not), but is {value!r}."
        )
    if value == "1":
        try:
            accelerate_keras()
        except RuntimeError as error:
            # As if from the import of the package.
            warnings.warn(f"{VARIABLE}=1 has no effect: {error}", RuntimeWarning, stacklevel=3)


def _check_keras():
    """Refuses a Keras whose layers and models are not built as is needed."""
    version = tuple(int(each) for each in keras.__version__.split(".")[:2])
    arguments = ["self", "sequences", "initial_state", "mask", "training"]
    if (
        version >= _OLDEST_KERAS
        and all(list(inspect.signature(each.inner_loop).parameters) == arguments for each in _LAYERS)
        and all(
            list(inspect.signature(each.call).parameters)[2:] == ["states", "training"] for each in _inner_loop.CELLS
        )
        and all(hasattr(keras.Model, each) for each in (*_FUNCTIONS, "_flatten_layers"))
    ):
        return
    raise RuntimeError(
        f"accelerate_keras works with Keras {'.'.join(map(str, _OLDEST_KERAS))} to 3.15, but Keras {keras.__version__} "
        "is installed: use the layers of tf_rnn_ops.layers, or another Keras."
    )


def _check_keras_2(strict):
    """Warns that Keras 2 is not accelerated where a program may use it, or refuses that if `strict`."""
    if _tf_keras_is_keras_2():
        message = (
            "tf.keras is Keras 2 here (TF_USE_LEGACY_KERAS=1), and only Keras 3 is accelerated: unset the variable"
        )
        if strict:
            raise RuntimeError(f"accelerate_keras(strict=True): {message}.")
    elif "tf_keras" in sys.modules:
        message = "tf_keras has been imported, which is Keras 2, and only Keras 3 is accelerated"
    else:
        return
    warnings.warn(f"{message}, or use `import keras`.", UserWarning, stacklevel=3)


def _tf_keras_is_keras_2():
    """Returns whether `tf.keras` is another Keras than `keras`."""
    try:
        return tf.keras.layers.LSTM is not keras.layers.LSTM
    except ImportError:  # TF_USE_LEGACY_KERAS=1 without tf_keras
        return False


class _Switch:
    """Keeps Keras's classes patched while there are accelerations."""

    def __init__(self):
        self._lock = threading.RLock()
        self._accelerations = set()
        self._originals = []  # (class, name of the attribute, what it was)
        self._models = weakref.WeakValueDictionary()  # by id, those whose functions take the op's path
        self.strict = False  # whether a fallback raises an error

    def is_on(self):
        return bool(self._accelerations)

    def add(self, acceleration):
        with self._lock:
            if not self._accelerations:
                self._patch_all()
            self._accelerations.add(acceleration)
            self._update_options()

    def remove(self, acceleration):
        with self._lock:
            if acceleration not in self._accelerations:
                return
            self._accelerations.remove(acceleration)
            self._update_options()
            if not self._accelerations:
                self._restore_all()

    def remove_all(self):
        with self._lock:
            for acceleration in list(self._accelerations):
                self.remove(acceleration)

    def _update_options(self):
        """Combines what the accelerations ask for."""
        was_strict, self.strict = self.strict, any(each._strict for each in self._accelerations)
        _exports.keep_op = not all(each._portable_exports for each in self._accelerations)
        if self.strict and not was_strict:
            # What falls back in a function that is traced already is to raise too.
            self._remake_all()

    def _patch_all(self):
        for layer in _LAYERS:
            self._patch(layer, "inner_loop", functools.partial(_on_op, layer))
        for cell in _inner_loop.CELLS:
            self._patch(cell, "call", _step_on_op)
        for make in _FUNCTIONS:
            self._patch(_owner(keras.Model, make), make, self._after_remaking)

    def _patch(self, owner, name, wrap):
        original = vars(owner)[name]
        self._originals.append((owner, name, original))
        setattr(owner, name, wrap(original))

    def _restore_all(self):
        while self._originals:
            setattr(*self._originals.pop())
        self._remake_all()

    def _remake_all(self):
        models, self._models = list(self._models.values()), weakref.WeakValueDictionary()
        for model in models:
            _remake_functions(model)

    def _after_remaking(self, make):
        """Returns a model's method `make`, but that the first of these to be called makes all functions again."""

        @functools.wraps(make)
        def make_function(model, *args, **kwargs):
            # Before it is built, a model may not show what layers it will have.
            is_concerned = self.strict or not model.built or _is_accelerated(model)
            if id(model) not in self._models and is_concerned:
                self._models[id(model)] = model
                _remake_functions(model)
            return make(model, *args, **kwargs)

        return make_function


_switch = _Switch()


def _owner(cls, name):
    """Returns the class that a class has an attribute from."""
    return next(each for each in cls.__mro__ if name in vars(each))


def _on_op(cls, inner_loop):
    """Returns the method `inner_loop` of a class in `_LAYERS`, but on the op where the op can run."""

    @functools.wraps(inner_loop)
    def accelerated(layer, sequences, initial_state, mask, training=False):
        arguments = sequences, initial_state, mask, training
        # The inner_loop of LSTM and GRU decides before it calls RNN's.
        if cls is not next(each for each in _LAYERS if isinstance(layer, each)):
            return inner_loop(layer, *arguments)
        return _inner_loop.run(layer, functools.partial(inner_loop, layer), *arguments, strict=_switch.strict)

    return accelerated


def _step_on_op(call):
    """Returns the method `call` of a class in `_inner_loop.CELLS`, but on the op where the op is faster."""
    inputs = list(inspect.signature(call).parameters)[1]  # SimpleRNNCell has another name for them

    @functools.wraps(call)
    def accelerated(cell, *args, **kwargs):
        if inputs in kwargs:
            args = kwargs.pop(inputs), *args
        return _cell_step.run(call, cell, *args, **kwargs)

    return accelerated


def _is_accelerated(model):
    """Returns whether a model has a cell, in a layer or by itself, that does not take Keras's path."""
    return any(
        _inner_loop.path(each, training) != "Keras" for each in model._flatten_layers() for training in (False, True)
    )


def _remake_functions(model):
    """Makes those compiled functions again that a model has, unless it makes them itself: they are traced anew."""
    for make, function in _FUNCTIONS.items():
        if getattr(model, function, None) is not None and getattr(type(model), make) is getattr(keras.Model, make):
            getattr(model, make)(force=True)
