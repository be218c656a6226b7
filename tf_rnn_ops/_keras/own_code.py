"""Tells Keras's own methods from others that replaced them, on a class or on an instance; and the classes of Keras 2.

A program may patch Keras before or after it imports this package, so the methods are checked at each use. A function is
Keras's own if a module of Keras defines it: `functools.wraps` copies the name of a function, but not its globals.
"""

import operator
import sys
import types
from collections.abc import Iterator
from typing import Any

import keras

from tf_rnn_ops._keras import private_names

_LOOPS = (keras.layers.LSTM, keras.layers.GRU, keras.layers.SimpleRNN, keras.layers.RNN)

# By class and names of methods, the methods when all were last found to be Keras's own.
_known: dict[tuple[type, tuple[str, ...]], Any] = {}


def of_keras_2(*names: str) -> tuple[type, ...]:
    """Returns the classes of these names in `tf_keras.layers`, or none if tf_keras is not imported."""
    tf_keras = sys.modules.get("tf_keras")
    return () if tf_keras is None else tuple(getattr(tf_keras.layers, each) for each in names)


def unwrapped(function: Any) -> Any:
    """Returns a function without the wrappers of this package."""
    while is_defined_in(function, "tf_rnn_ops") and hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function


def is_own(function: Any) -> bool:
    """Returns whether Keras defines a function, which may have a wrapper of this package."""
    function = unwrapped(function)
    # A decorator of Keras may wrap a function of a user.
    return is_defined_in(function, "keras") and str(function.__module__).startswith("keras.")


def is_defined_in(function: Any, package: str) -> bool:
    """Returns whether the code of a function is in a module of a package."""
    if not isinstance(function, types.FunctionType):
        return False
    return str(function.__globals__.get("__name__")).startswith(f"{package}.")


def replaced_in_step(cell: Any) -> Iterator[str]:
    """Yields the methods that Keras runs when it calls a cell, and that are not Keras's own.

    Args:
      cell: an instance of LSTMCell, GRUCell or SimpleRNNCell, not of a subclass.
    """
    if not vars(cell).keys().isdisjoint(private_names.OF_STEP):
        yield from (f"cell.{each}" for each in private_names.OF_STEP if each in vars(cell))
    yield from _replaced(type(cell), private_names.OF_STEP)
    yield from _replaced(keras.Operation, ("__call__",))  # which that of Layer calls


def replaced_in_loop(layer: Any) -> Iterator[str]:
    """Yields the methods `inner_loop` of a `keras.layers.RNN` and of Keras's classes that are not Keras's own."""
    loop = private_names.INNER_LOOP
    if loop in vars(layer):
        yield f"layer.{loop}"
    for cls in _LOOPS:
        if isinstance(layer, cls):
            yield from _replaced(cls, (loop,))


def _replaced(cls: type, names: tuple[str, ...]) -> Iterator[str]:
    """Yields the methods and properties of a class of Keras that are not its own. Names that it lacks are ignored."""
    known = _known.get((cls, names))
    if known is not None:
        get, methods = known
        if get(cls) == methods:
            return
    names_of_class = [each for each in names if hasattr(cls, each)]
    replaced = [each for each in names_of_class if not _is_own_method(cls, each)]
    if names_of_class and not replaced:
        get = operator.attrgetter(*names_of_class)
        _known[cls, names] = get, get(cls)
    yield from (f"{cls.__name__}.{each}" for each in replaced)


def _is_own_method(cls: type, name: str) -> bool:
    """Returns whether a method or property of a class of Keras is the one that Keras defines under this name."""
    owner = next(each for each in cls.__mro__ if name in vars(each))
    method = vars(owner)[name]
    function = unwrapped(method.fget if isinstance(method, property) else method)
    return is_own(function) and function.__qualname__ == f"{owner.__qualname__}.{name}"
