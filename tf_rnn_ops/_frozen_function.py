"""A function whose call from Python costs little more than TensorFlow's execution of it."""

import inspect
import os
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from tf_rnn_ops import _private_names
from tf_rnn_ops._library import ops

__all__ = ["FrozenFunction"]

# What an argument may be besides tensors: part of the function.
_CONSTANTS = (bool, int, float, str, bytes, type(None))
_HAS_NAMES = None not in (_private_names.FUNCTION_TYPE, _private_names.TAPES)


class FrozenFunction:
    """A function for inference with constant weights, made by `freeze`.

    Call it with tensors, NumPy arrays or lists, by position or by name, nested as the model or function takes them. It
    returns tensors, nested as the model or function returns them. Several threads may call it at the same time.

    A call does little in Python but convert arguments and execute, in the thread that calls. While a gradient tape or
    forward accumulator records, in graphs, in the scope of a distribution strategy, with a GPU, and if the function has
    loops, it calls `concrete_function`.

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

    def __init__(self, function: Any, flat: Any, captured: list[tf.Tensor], taken: list[int]) -> None:
        """Creates the function.

        Args:
          function: it, as a concrete function.
          flat: a concrete function that computes its results, one after the other, from tensors; None if a thread
            alone cannot run it.
          captured: tensors that `flat` takes besides those in the arguments of `function`.
          taken: which tensors `flat` takes, by their places in those in the arguments, followed by `captured`.
        """
        self.concrete_function = function
        self._process = os.getpid()
        args, kwargs = function.structured_input_signature
        parameters = function.function_type.parameters.values()
        names = [each.name for each in parameters if each.kind is not inspect.Parameter.KEYWORD_ONLY]
        # In the order of the inputs of the function.
        self._specs = {**dict(zip(names, args, strict=True)), **{name: kwargs[name] for name in sorted(kwargs)}}
        self._constants = {name: each for name, each in self._specs.items() if isinstance(each, _CONSTANTS)}
        self._is_plain = all(map(_is_plain, self._specs.values()))
        self._captured, self._taken = captured, taken
        self._types = [each.dtype for each in function.outputs]
        # Executes `flat` in the thread of the call.
        self._caller = None
        if _HAS_NAMES and flat is not None:
            self._caller = ops.tf_rnn_ops_function_caller(flat.name, [each.shape for each in flat.inputs])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if os.getpid() != self._process:
            raise RuntimeError(
                "this process was forked after freeze had made the function, and TensorFlow does not run in it: start "
                'it with the method "spawn" of multiprocessing, and call freeze in it'
            )
        if not self._is_plain:
            return self.concrete_function(*args, **kwargs)
        values = args if len(args) == len(self._specs) and not kwargs else self._bound(args, kwargs)
        tensors: list[tf.Tensor] = []
        for (name, spec), value in zip(self._specs.items(), values, strict=True):
            _append(tensors, spec, value, name)
        if self._caller is None or _does_more_than_execute():
            self._check(tensors)
            return self._call_concrete(tensors)
        taken = [(tensors + self._captured)[i] for i in self._taken]
        try:
            results = ops.tf_rnn_ops_call_in_thread(self._caller, taken, self._types)
        except tf.errors.InvalidArgumentError:
            self._check(tensors)
            raise
        return self.concrete_function.function_type.pack_output(results)

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Returns the arguments of a call, in order."""
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
        return [values[name] for name in self._specs]

    def _check(self, tensors: list[tf.Tensor]) -> None:
        """Raises an error if a tensor has another type or shape than the function takes."""
        inputs = [each for name, spec in self._specs.items() for each in _named(spec, name)]
        for (name, spec), tensor in zip(inputs, tensors, strict=True):
            if tensor.dtype != spec.dtype:
                raise TypeError(f"{name} must have the type {spec.dtype.name}, but has {tensor.dtype.name}")
            if not spec.shape.is_compatible_with(tensor.shape):
                raise ValueError(f"{name} must have the shape {spec.shape.as_list()}, but has {tensor.shape.as_list()}")

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


def _named(spec: Any, name: str) -> Iterator[tuple[str, tf.TensorSpec]]:
    """Yields the tensors of an argument, in order, with what errors call them."""
    if isinstance(spec, tf.TensorSpec):
        yield name, spec
    elif isinstance(spec, Mapping):
        for key in sorted(spec):
            yield from _named(spec[key], f"{name}[{key!r}]")
    elif isinstance(spec, (list, tuple)):
        for i, each in enumerate(spec):
            yield from _named(each, f"{name}[{i}]")


def _append(tensors: list[tf.Tensor], spec: Any, value: Any, name: str) -> None:
    """Appends the tensors of an argument, in order, to a list.

    Args:
      tensors: the list.
      spec: what the function takes.
      value: what it got.
      name: what errors call it.
    """
    if isinstance(spec, tf.TensorSpec):
        tensors.append(value if isinstance(value, tf.Tensor) else _converted(spec, value, name))
    elif isinstance(spec, Mapping):
        if not isinstance(value, Mapping) or value.keys() != spec.keys():
            got = f"has {list(value)}" if isinstance(value, Mapping) else f"is a {type(value).__name__}"
            raise ValueError(f"{name} must be a dictionary with the keys {list(spec)}, but {got}")
        for key in sorted(spec):
            _append(tensors, spec[key], value[key], f"{name}[{key!r}]")
    elif isinstance(spec, (list, tuple)):
        if len(spec) == 1 and not isinstance(value, (list, tuple)):
            value = [value]  # as Keras takes it
        if not isinstance(value, (list, tuple)) or len(value) != len(spec):
            got = f"has {len(value)}" if isinstance(value, (list, tuple)) else f"is a {type(value).__name__}"
            raise ValueError(f"{name} must be a {type(spec).__name__} of {len(spec)}, but {got}")
        for i, each in enumerate(spec):
            _append(tensors, each, value[i], f"{name}[{i}]")
    elif value is not spec and value != spec:
        raise ValueError(f"{name} must be {spec!r}, as when the function was made, but is {value!r}")


def _converted(spec: tf.TensorSpec, value: Any, name: str) -> tf.Tensor:
    """Returns an argument that is not a tensor as one."""
    try:
        return tf.constant(value, spec.dtype)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be convertible to {spec.dtype.name}, but: {error}") from error
