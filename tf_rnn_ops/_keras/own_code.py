"""Tells Keras's own functions from others that replaced them, on a class, in a module or on an instance.

A program may patch Keras before or after it imports this package, so the functions are checked at each use. A function
is Keras's own if a module of Keras defines it: `functools.wraps` copies the name of a function, but not its globals.
"""

import operator
import types
from collections.abc import Iterator
from typing import Any

from tf_rnn_ops._keras import private_names

_PACKAGES = ("keras", "tf_keras")

# By owner and names of functions, the functions when all were last found to be Keras's own.
_known: dict[tuple[Any, tuple[str, ...]], Any] = {}


def unwrapped(function: Any) -> Any:
    """Returns a function without the wrappers of this package."""
    return _without_wrappers(function, "tf_rnn_ops")


def _without_wrappers(function: Any, package: str) -> Any:
    while is_defined_in(function, package) and hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function


def is_own(function: Any) -> bool:
    """Returns whether Keras defines a function, which may have a wrapper of this package or of TensorFlow."""
    function = _without_wrappers(unwrapped(function), "tensorflow")
    # A decorator of Keras may wrap a function of a user.
    return any(is_defined_in(function, each) and str(function.__module__).startswith(f"{each}.") for each in _PACKAGES)


def is_defined_in(function: Any, package: str) -> bool:
    """Returns whether the code of a function is in a module of a package."""
    if not isinstance(function, types.FunctionType):
        return False
    return str(function.__globals__.get("__name__")).startswith(f"{package}.")


def is_module_of_keras(name: str) -> bool:
    """Returns whether Keras defines a module."""
    return name.partition(".")[0] in _PACKAGES


def replaced_in_step(cell: Any, caller: type) -> Iterator[str]:
    """Yields the methods that Keras runs when it calls a cell, and that are not Keras's own.

    Args:
      cell: an instance of LSTMCell, GRUCell, SimpleRNNCell or StackedRNNCells, not of a subclass.
      caller: the class whose `__call__` runs that of a layer.
    """
    if not vars(cell).keys().isdisjoint(private_names.OF_STEP):
        yield from (
            f"cell.{each}" for each in private_names.OF_STEP if each in vars(cell) and not _is_saved(cell, each)
        )
    yield from _replaced(type(cell), private_names.OF_STEP)
    yield from _replaced(caller, ("__call__",))


def replaced_in_loop(layer: Any, loops: Any) -> Iterator[str]:
    """Yields the functions that run a layer over all steps, and that are not Keras's own.

    Args:
      layer: a recurrent layer.
      loops: see `table.Keras`.
    """
    names = dict.fromkeys(name for _, name, _ in loops)
    yield from (f"layer.{each}" for each in names if each in vars(layer) and not _is_saved(layer, each))
    for owner, name, _ in loops:
        if not isinstance(owner, type) or isinstance(layer, owner):
            yield from _replaced(owner, (name,))


def is_kept(layer: Any, name: str) -> bool:
    """Returns whether an instance has its own method `name` as an attribute, as Keras 2 leaves it after a save."""
    kept = vars(layer).get(name)
    if not isinstance(kept, types.MethodType) or kept.__self__ is not layer:
        return False
    function = unwrapped(kept.__func__)
    return is_own(function) and function is unwrapped(getattr(type(layer), name))


def _is_saved(layer: Any, name: str) -> bool:
    """Returns whether Keras 2 has set an attribute because it saves the layer, and calls the method of the class."""
    return is_kept(layer, name) or is_defined_in(vars(layer)[name], "tf_keras")


def _replaced(owner: Any, names: tuple[str, ...]) -> Iterator[str]:
    """Yields the functions and properties of a class or module of Keras that are not its own.

    Names that it lacks are ignored.
    """
    known = _known.get((owner, names))
    if known is not None:
        get, functions = known
        if get(owner) == functions:
            return
    existing = [each for each in names if hasattr(owner, each)]
    replaced = [each for each in existing if not _is_own(owner, each)]
    if existing and not replaced:
        get = operator.attrgetter(*existing)
        _known[owner, names] = get, get(owner)
    yield from (f"{owner.__name__}.{each}" for each in replaced)


def _is_own(owner: Any, name: str) -> bool:
    """Returns whether a function or property of a class or module is the one that Keras defines under this name."""
    prefix = ""
    if isinstance(owner, type):
        owner = next(each for each in owner.__mro__ if name in vars(each))
        prefix = f"{owner.__qualname__}."
    value = vars(owner)[name]
    function = unwrapped(value.fget if isinstance(value, property) else value)
    return is_own(function) and function.__qualname__ == prefix + name
