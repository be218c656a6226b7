"""A function whose call from Python costs little more than TensorFlow's execution of it."""

import contextlib
import functools
import inspect
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_rnn_ops import _private_names
from tf_rnn_ops._library import ops

__all__ = ["FrozenFunction"]

STATES = "states"  # the argument of concrete functions with states

# What an argument may be besides tensors: part of the function.
_CONSTANTS = (bool, int, float, str, bytes, type(None))
_HAS_NAMES = None not in (_private_names.CANCELLATION, _private_names.FUNCTION_TYPE, _private_names.TAPES)


class FrozenFunction:
    """A function for inference with constant weights, made by `freeze`.

    Call it with tensors, NumPy arrays or lists, by position or by name, nested as the model or function takes them. It
    returns tensors, nested as the model or function returns them. Several threads may call it at the same time.

    A call does little in Python but convert arguments and execute, in the thread that calls. It calls
    `concrete_function` while a gradient tape or forward accumulator records, in graphs, in the scope of a distribution
    strategy, if another thread may cancel it, with a GPU, and if the function has loops, calls Python code or computes
    the weights of its recurrent ops.

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

    def __init__(
        self,
        function: Any,
        flat: Any,
        captured: list[tf.Tensor],
        taken: list[int],
        initial: list[tf.Tensor],
        freeze: Callable[[Any], "FrozenFunction"],
    ) -> None:
        """Creates the function.

        Args:
          function: it, as a concrete function. With states, it also takes them, as `STATES`, and also returns them.
          flat: a concrete function that computes its results, one after the other, from tensors; None if `function`
            must be called.
          captured: tensors that `flat` takes besides those in the arguments of `function` and the states.
          taken: which tensors `flat` takes before the states, by their places in those in the arguments, followed by
            `captured`.
          initial: the states at first.
          freeze: returns another concrete function with the same format of weights, frozen.
        """
        self.concrete_function = function
        self._process = os.getpid()
        args, kwargs = function.structured_input_signature
        parameters = function.function_type.parameters.values()
        names = [each.name for each in parameters if each.kind is not inspect.Parameter.KEYWORD_ONLY]
        kwargs = {name: kwargs[name] for name in sorted(kwargs) if not (initial and name == STATES)}
        self._args = names
        # In the order of the inputs of the function.
        self._specs = {**dict(zip(names, args, strict=True)), **kwargs}
        self._constants = {name: each for name, each in self._specs.items() if not any(_named(each, name))}
        self._is_plain = all(map(_is_plain, self._specs.values()))
        self._captured, self._taken = captured, taken
        self._types = [each.dtype for each in function.outputs]
        # Executes `flat` in the thread of the call.
        self._caller = None
        if _HAS_NAMES and flat is not None:
            self._caller = ops.tf_rnn_ops_function_caller(
                flat.function_def.SerializeToString(), [each.shape for each in flat.inputs]
            )
        self._initial, self._states, self._lock = initial, initial, threading.Lock()
        self._for_many_streams = functools.cache(lambda: freeze(self._concrete_function_for_many()))

    def stream(self) -> "FrozenFunction":
        """Returns the same function with states of its own, which are those at first. It needs memory only for these.

        Raises:
          ValueError: if the function has no states.
        """
        if not self._initial:
            raise ValueError("the function must have states, such as those of a layer with stateful=True, but has none")
        stream = object.__new__(FrozenFunction)
        stream.__dict__.update(self.__dict__, _states=self._initial, _lock=threading.Lock())
        return stream

    def batch(self, streams: "Sequence[FrozenFunction]", /, *args: Any, **kwargs: Any) -> Any:
        """Calls several streams at once, which takes less time than one after the other.

        The first such call traces the function for any number of streams, which takes seconds, and memory for its
        constants.

        Args:
          streams: different streams of this function, which may be one of them.
          *args: the arguments of all streams: tensors with an axis in front, [streams, ...].
          **kwargs: other arguments, by name.

        Returns:
          The results of all streams, with an axis in front, [streams, ...].

        Raises:
          ValueError: if `streams` has none, others or some twice, if an argument has another shape, or in a graph.
        """
        if not streams or any(each._initial is not self._initial for each in streams) or not self._initial:
            raise ValueError("streams must be streams of this function, at least one")
        if len({*map(id, streams)}) < len(streams):
            raise ValueError("streams must differ, but some occur twice")
        _check_is_eager()
        tensors = self._flat(args, kwargs)
        _check([(name, _stacked(spec, len(streams))) for name, spec in self._inputs()], tensors)
        with contextlib.ExitStack() as locks:
            for each in sorted(streams, key=id):  # in the same order in all threads
                locks.enter_context(each._lock)
            states = tuple(map(tf.stack, zip(*(each._states for each in streams), strict=True)))
            results, states = self._for_many_streams()(tuple(tensors), states)
            for each, *own in zip(streams, *map(tf.unstack, states), strict=True):
                each._states = own
        return results

    def _concrete_function_for_many(self) -> Any:
        """Returns a concrete function of the tensors and states of streams, stacked. It returns results and states."""

        def call(tensors: tuple[tf.Tensor, ...], states: tuple[tf.Tensor, ...]) -> Any:
            return tf.vectorized_map(lambda each: self._call_concrete(*each), (tensors, states))

        specs = tuple(_stacked(spec) for _, spec in self._inputs())
        return tf.function(call, autograph=False).get_concrete_function(specs, tuple(map(_stacked, self._initial)))

    @property
    def states(self) -> list[tf.Tensor]:
        """The states after the last call: of the layers in the order of the model, and of random seeds. Can be set.

        Raises:
          ValueError: if you set another number of states, or a state with another shape.
          TypeError: if you set a state that cannot have the type.
        """
        return list(self._states)

    @states.setter
    def states(self, states: Sequence[Any]) -> None:
        tensors: list[tf.Tensor] = []
        _, arguments = self.concrete_function.structured_input_signature
        specs = list(arguments[STATES]) if self._initial else []
        _append(tensors, specs, states, STATES)
        _check([*_named(specs, STATES)], tensors)
        with self._lock:
            self._states = tensors

    def reset(self) -> None:
        """Makes the states those at first: zeros of layers, and others as they were when `freeze` was called."""
        with self._lock:
            self._states = self._initial

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if os.getpid() != self._process:
            raise RuntimeError(
                "this process was forked after freeze had made the function, and TensorFlow does not run in it: start "
                'it with the method "spawn" of multiprocessing, and call freeze in it'
            )
        if self._is_plain:
            run = functools.partial(self._run, self._flat(args, kwargs))
        else:
            run = functools.partial(self._call_as_is, args, kwargs)
        return self._with_states(run) if self._initial else run([])

    def _flat(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tf.Tensor]:
        """Returns the tensors in the arguments of a call, in order."""
        values = args if len(args) == len(self._specs) and not kwargs else self._bound(args, kwargs)
        tensors: list[tf.Tensor] = []
        for (name, spec), value in zip(self._specs.items(), values, strict=True):
            _append(tensors, spec, value, name)
        return tensors

    def _with_states(self, call: Callable[[list[tf.Tensor]], tuple[Any, Sequence[tf.Tensor]]]) -> Any:
        """Calls a function of the states that returns results and the next states. Returns the results."""
        _check_is_eager()
        with self._lock:
            results, states = call(self._states)
            self._states = list(states)
        return results

    def _run(self, tensors: list[tf.Tensor], states: list[tf.Tensor]) -> Any:
        """Returns the results; with states, a tuple of them and the next states."""
        if self._caller is None or _does_more_than_execute():
            _check(self._inputs(), tensors)
            return self._call_concrete(tensors, states)
        available = tensors + self._captured
        taken = [available[i] for i in self._taken]
        try:
            results = ops.tf_rnn_ops_call_in_thread(self._caller, taken + states, self._types)
        except tf.errors.InvalidArgumentError:
            _check(self._inputs(), tensors)
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

    def _inputs(self) -> list[tuple[str, tf.TensorSpec]]:
        """Returns what errors call the tensors in the arguments, and what they must be, in order."""
        return [each for name, spec in self._specs.items() for each in _named(spec, name)]

    def _described(self) -> str:
        return f"{len(self._specs)} arguments ({', '.join(self._specs)})"

    def _call_concrete(self, tensors: Sequence[tf.Tensor], states: Sequence[tf.Tensor]) -> Any:
        """Calls the concrete function with these tensors in place of the specs of its arguments."""
        remaining = iter(tensors)

        def filled(spec: Any) -> Any:
            return tf.nest.map_structure(
                lambda each: next(remaining) if isinstance(each, tf.TensorSpec) else each, spec
            )

        values = {name: filled(spec) for name, spec in self._specs.items()}
        return self._call_as_is([values.pop(name) for name in self._args], values, states)

    def _call_as_is(self, args: Sequence[Any], kwargs: Mapping[str, Any], states: Sequence[tf.Tensor]) -> Any:
        """Calls the concrete function with these arguments, and with the states if there are any."""
        return self.concrete_function(*args, **kwargs, **({STATES: tuple(states)} if states else {}))

    def __reduce__(self) -> Any:
        raise TypeError(
            "a function that freeze returned cannot be pickled or copied: save it with "
            "tf.saved_model.save(module, path, signatures=serve.concrete_function), or call freeze in the other process"
        )


def _check_is_eager() -> None:
    if not tf.executing_eagerly():
        raise ValueError(
            "a function with states must be called eagerly, because a graph does not keep them: call "
            f"concrete_function, which takes `{STATES}` and returns a tuple of the results and the next states"
        )


def _stacked(each: Any, count: int | None = None) -> tf.TensorSpec:
    """Returns the spec of several tensors with an axis in front, from a tensor or spec of one."""
    return tf.TensorSpec(each.shape if each.shape.rank is None else [count, *each.shape], each.dtype)


def _does_more_than_execute() -> bool:
    """Returns whether TensorFlow does more with a function now than execute it."""
    return (
        not tf.executing_eagerly()
        or _private_names.TAPES.could_possibly_record()
        or _private_names.CANCELLATION.context() is not None
        or tf.distribute.has_strategy()
    )


def _check(inputs: list[tuple[str, tf.TensorSpec]], tensors: list[tf.Tensor]) -> None:
    """Raises an error if a tensor has another type or shape than it must have.

    Args:
      inputs: what errors call the tensors, and what they must be.
      tensors: the tensors.
    """
    for (name, spec), tensor in zip(inputs, tensors, strict=True):
        if tensor.dtype != spec.dtype:
            raise TypeError(f"{name} must have the type {spec.dtype.name}, but has {tensor.dtype.name}")
        if not spec.shape.is_compatible_with(tensor.shape):
            raise ValueError(f"{name} must have the shape {spec.shape.as_list()}, but has {tensor.shape.as_list()}")


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
    elif value is not spec and not (isinstance(value, _CONSTANTS) and repr(value) == repr(spec)):
        got = repr(value) if isinstance(value, _CONSTANTS) else f"a {type(value).__name__}"
        raise ValueError(f"{name} must be {spec!r}, as when the function was made, but is {got}")


def _converted(spec: tf.TensorSpec, value: Any, name: str) -> tf.Tensor:
    """Returns an argument that is not a tensor as one. Gradients go on to variables."""
    is_constant = isinstance(value, (np.ndarray, np.generic, *_CONSTANTS))
    try:
        return tf.constant(value, spec.dtype) if is_constant else tf.convert_to_tensor(value, spec.dtype)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be convertible to {spec.dtype.name}, but: {error}") from error
