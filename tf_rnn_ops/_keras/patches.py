"""Replaces methods of TensorFlow and Keras for a while."""

import inspect
import threading
from collections.abc import Callable, Iterable
from typing import Any

from tf_rnn_ops._keras import own_code


def owner_of(cls: type, name: str) -> type:
    """Returns the class that defines an attribute of a class."""
    return next(each for each in cls.__mro__ if name in vars(each))


def with_signature(function: Callable[..., Any], signature: inspect.Signature) -> Callable[..., Any]:
    """Returns a function with a signature for those who inspect it, as Keras 2 does with `call`."""
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


class SharedPatches:
    """A context manager that replaces attributes from its first entry to its last exit, in all threads.

    Args:
      find: returns the attributes to replace: (owner, name, function that makes the new value from the original).
    """

    def __init__(self, find: Callable[[], Iterable[tuple[Any, str, Callable[[Any], Any]]]]) -> None:
        self._find = find
        self._lock = threading.RLock()  # the garbage collector may call __exit__ while this thread holds the lock
        self._users = 0
        self._patches: list[tuple[Any, str, Any, Any]] = []  # (owner, name, original, new value)

    def __enter__(self) -> None:
        with self._lock:
            self._users += 1
            if self._users > 1:
                return
            for owner, name, wrap in self._find():
                # Another patch may have kept a method of ours that is no longer used.
                original = own_code.unwrapped(vars(owner)[name])
                new = wrap(original)
                self._patches.append((owner, name, original, new))
                setattr(owner, name, new)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            while not self._users and self._patches:
                owner, name, original, new = self._patches.pop()
                if vars(owner).get(name) is new:  # do not undo a later patch of the user
                    setattr(owner, name, original)
