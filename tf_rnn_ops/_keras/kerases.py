"""The Kerases that the program uses: Keras 3, and Keras 2 if tf_keras is imported."""

import functools
import importlib.abc
import importlib.machinery
import logging
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from tf_rnn_ops._keras import keras_2, keras_3
from tf_rnn_ops._keras.table import Keras

_PACKAGE = "tf_keras"

KERAS_3 = keras_3.TABLE
_logger = logging.getLogger("tf_rnn_ops")


@functools.cache
def _keras_2() -> tuple[Keras, ...]:
    """Returns the table of Keras 2, or nothing if this version lacks what the table names, which is logged."""
    try:
        return (keras_2.table(),)
    except (AttributeError, ImportError) as error:
        _logger.warning("Keras 2 (tf_keras) is not accelerated, because this version is not supported: %s", error)
        return ()


def uses_keras_2() -> bool:
    """Returns whether tf_keras is imported, which this package never does by itself."""
    return hasattr(sys.modules.get(_PACKAGE), "__version__")  # defined last


def in_use() -> tuple[Keras, ...]:
    """Returns the tables of the Kerases that the program uses."""
    return (KERAS_3, *(_keras_2() if uses_keras_2() else ()))


def of(layer: Any) -> Keras | None:
    """Returns the table of the Keras that defines a layer, or None if it is not a layer."""
    return next((each for each in in_use() if isinstance(layer, each.layer)), None)


def classes(attribute: str) -> Any:
    """Returns the classes in an attribute of all tables: one class, several, or the keys of a table."""
    values = [getattr(each, attribute) for each in in_use()]
    return tuple(cls for value in values for cls in ([value] if isinstance(value, type) else value))


class ImportOfKeras2(importlib.abc.MetaPathFinder):
    """Calls a function when the program has imported tf_keras, while it is in `sys.meta_path`."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Finds tf_keras as the other finders do."""
        if name != _PACKAGE:
            return None
        others = [each for each in sys.meta_path if each is not self]
        spec = next(filter(None, (each.find_spec(name, path, target) for each in others)), None)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: types.ModuleType) -> None:
                load(module)
                self._then()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
