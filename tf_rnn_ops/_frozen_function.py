"""A function whose call from Python costs little more than TensorFlow's execution of it."""

import inspect
import os
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from tf_rnn_ops import _private_names

__all__ = ["FrozenFunction"]

# What an argument may be besides tensors: part of the function.
_CONSTANTS = (bool, int, float, str, bytes, type(None))
_EXECUTES = None not in (_private_names.EXECUTION, _private_names.FUNCTION_TYPE, _private_names.TAPES)


class FrozenFunction:
    """A function for inference with constant weights, made by `freeze`.

    Call it with tensors, NumPy arrays or lists, by position or by name, nested as the model or function takes them. It
    returns tensors, nested as the model or function returns them. Several threads may call it at the same time.

    A call does nothing in Python but convert arguments, check their types and shapes, and execute. While a gradient
    tape or forward accumulator records, in graphs and in the scope of a distribution strategy, it calls
    `concrete_function`.

    Attributes:
      concrete_function: the same function as a `tf.types.experimental.ConcreteFunction`, with the same arguments: to
        save it with `tf.saved_model.save`, or to read its graph.

    Raises:
      TypeError: if an argument is missing, is not one of the function, or cannot have the type of the function's.
      ValueError: if an argument has another shape, other nesting, or is another constant than the function has.

    Examples:
      >>> model = keras.Sequential([keras.Input([10, 3]), keras.layers.LSTM(4)])
      >>> serve = tf_rnn_ops.freeze(model)
      >>> serve(np.ones([2, 10, 3], "float32")).shape
      TensorShape([2, 4])
      >>> serve(np.ones([2, 3], "float32"))
      Traceback (most recent call last):
      ValueError: inputs must have the shape [None, 10, 3], but has [2, 3]
    """

    def __init__(self, function: Any) -> None:
        self.concrete_function = function
        self._process = os.getpid()
        args, kwargs = function.structured_input_signature
        parameters = function.function_type.parameters.values()
        names = [each.name for each in parameters if each.kind is not inspect.Parameter.KEYWORD_ONLY]
        # In the order of the inputs of the function.
        self._specs = {**dict(zip(names, args, strict=True)), **{name: kwargs[name] for name in sorted(kwargs)}}
        self._constants = {name: each for name, each in self._specs.items() if isinstance(each, _CONSTANTS)}
        self._captured = list(function.captured_inputs)
        self._count_of_outputs = len(function.outputs)
        self._is_plain = all(map(_is_plain, self._specs.values()))
        # The function runs in the context that made it, also after TensorFlow has made another one.
        self._context = _private_names.EXECUTION.context() if _EXECUTES else None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if os.getpid() != self._process:
            raise RuntimeError(
                "this process was forked after freeze had made the function, and TensorFlow does not run in it: start "
                'it with the method "spawn" of multiprocessing, and call freeze in it'
            )
        if not self._is_plain:
            return self.concrete_function(*args, **kwargs)
        values = self._bound(args, kwargs)
        tensors = [each for name, spec in self._specs.items() for each in _flat(spec, values[name], name)]
        if self._context is None or _does_more_than_execute():
            return self._call_concrete(tensors)
        function = self.concrete_function
        outputs = self._context.call_function(function.name, tensors + self._captured, self._count_of_outputs)
        return function.function_type.pack_output(outputs)

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Returns the arguments of a call by name."""
        if len(args) > len(self._specs):
            raise TypeError(f"the function takes {self._described()}, but got {len(args)} arguments")
        by_position = dict(zip(self._specs, args, strict=False))
        for name in kwargs:
            if name not in self._specs:
                raise TypeError(f"the function takes {self._described()}, but got {name}")
            if name in by_position:
                raise TypeError(f"{name} was passed by position and by name")
        values = {**self._constants, **by_position, **kwargs}
        for name in self._specs:
            if name not in values:
                raise TypeError(f"the function takes {self._described()}, but {name} is missing")
        return values

    def _described(self) -> str:
        return f"{len(self._specs)} arguments ({', '.join(self._specs)})"

    def _call_concrete(self, tensors: list[tf.Tensor]) -> Any:
        """Calls the concrete function with these tensors in place of the specs of its arguments."""
        remaining = iter(tensors)
        args, kwargs = tf.nest.map_structure(
            lambda spec: next(remaining) if isinstance(spec, tf.TensorSpec) else spec,
            self.concrete_function.structured_input_signature,
        )
        return self.concrete_function(*args, **kwargs)

    def __reduce__(self) -> Any:
        raise TypeError(
            "a function that freeze returned cannot be pickled or copied: save it with "
            "tf.saved_model.save(module, path, signatures=serve.concrete_function), or call freeze in the other process"
        )


def _does_more_than_execute() -> bool:
    """Returns whether TensorFlow does more with a function now than execute it."""
    return not tf.executing_eagerly() or _private_names.TAPES.could_possibly_record() or tf.distribute.has_strategy()


def _is_plain(spec: Any) -> bool:
    """Returns whether an argument consists of tensors and constants in dictionaries, lists and tuples."""
    if isinstance(spec, (Mapping, list, tuple)):
        return all(map(_is_plain, spec.values() if isinstance(spec, Mapping) else spec))
    return isinstance(spec, (tf.TensorSpec, *_CONSTANTS))


def _flat(spec: Any, value: Any, name: str) -> Iterator[tf.Tensor]:
    """Yields the tensors of an argument, converted and checked, in the order of the inputs of the function.

    Args:
      spec: what the function takes.
      value: what it got.
      name: what errors call the argument.
    """
    if isinstance(spec, tf.TensorSpec):
        yield _tensor(spec, value, name)
    elif isinstance(spec, Mapping):
        if not isinstance(value, Mapping) or value.keys() != spec.keys():
            got = f"has {list(value)}" if isinstance(value, Mapping) else f"is a {type(value).__name__}"
            raise ValueError(f"{name} must be a dictionary with the keys {list(spec)}, but {got}")
        for key in sorted(spec):
            yield from _flat(spec[key], value[key], f"{name}[{key!r}]")
    elif isinstance(spec, (list, tuple)):
        if len(spec) == 1 and not isinstance(value, (list, tuple)):
            value = [value]  # as Keras takes it
        if not isinstance(value, (list, tuple)) or len(value) != len(spec):
            got = f"has {len(value)}" if isinstance(value, (list, tuple)) else f"is a {type(value).__name__}"
            raise ValueError(f"{name} must be a {type(spec).__name__} of {len(spec)}, but {got}")
        for i, each in enumerate(spec):
            yield from _flat(each, value[i], f"{name}[{i}]")
    elif value is not spec and value != spec:
        raise ValueError(f"{name} must be {spec!r}, as when the function was made, but is {value!r}")


def _tensor(spec: tf.TensorSpec, value: Any, name: str) -> tf.Tensor:
    """Returns an argument as a tensor, if it has the type and shape that the function takes."""
    if not isinstance(value, tf.Tensor):
        try:
            value = tf.constant(value, spec.dtype)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{name} must be convertible to {spec.dtype.name}, but: {error}") from error
    elif value.dtype != spec.dtype:
        raise TypeError(f"{name} must have the type {spec.dtype.name}, but has {value.dtype.name}")
    if not spec.shape.is_compatible_with(value.shape):
        raise ValueError(f"{name} must have the shape {spec.shape.as_list()}, but has {value.shape.as_list()}")
    return value
