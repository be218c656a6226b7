"""Op calls: arguments, their properties and their text form."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_registry  # op definitions are not public in Python

from tf_rnn_ops import _library

OPS = tuple(_library.op_names())
LARGEST_COMPUTED = 2**16  # largest size that the references compute
LARGEST_COUNT = 2**22  # most elements of an array


@dataclasses.dataclass(frozen=True)
class Empty:
    """A tensor without elements whose shape NumPy may not support."""

    shape: tuple[int, ...]
    dtype: np.dtype


@dataclasses.dataclass
class Call:
    """A call of an op.

    Attributes:
      op: the op name, without a namespace.
      way: how the op is executed, one of fuzz_run.WAYS.
      arguments: tensors (arrays, `Empty`s or lists of these) and attributes, by name.
      seed: seed of random choices in the execution.
      mutations: descriptions of the mutations of a valid call.
      mutated: the names of the arguments that were mutated, and whether their values are invalid for any values of the
        others.
      is_consistent: whether the arguments that a backward op shares with the forward op are unmodified.
    """

    op: str
    way: str
    arguments: dict[str, Any]
    seed: int = 0
    mutations: list[str] = dataclasses.field(default_factory=list)
    mutated: dict[str, bool] = dataclasses.field(default_factory=dict)
    is_consistent: bool = True

    @property
    def tensor_names(self) -> list[str]:
        """The names of the arguments that are tensors, or lists of them."""
        return [name for name in input_names(self.op) if name in self.arguments]

    @property
    def attribute_names(self) -> list[str]:
        """The names of the arguments that are attributes."""
        return [name for name in self.arguments if name not in input_names(self.op)]

    def is_huge(self) -> bool:
        """Whether a size is too large for the references."""
        sizes = [self.arguments.get(name) for name in ("num_layers", "num_units", "input_size")]
        return any(isinstance(each, Empty) for each in flat_tensors(self.arguments)) or any(
            isinstance(each, np.ndarray)
            and each.size == 1
            and each.dtype.kind == "i"
            and abs(int(each.flat[0])) > LARGEST_COMPUTED
            for each in sizes
        )

    def describe(self) -> dict[str, str]:
        """Returns short descriptions of the arguments, by name."""
        return {name: describe(value) for name, value in self.arguments.items()}


@functools.cache
def definition(op: str):
    """Returns the definition of one of our ops."""
    return op_def_registry.get(f"TfRnnOps>{op}")


@functools.cache
def input_names(op: str) -> tuple[str, ...]:
    """Returns the names of the input tensors of an op."""
    return tuple(each.name for each in definition(op).input_arg)


@functools.cache
def attribute_types(op: str) -> dict[str, str]:
    """Returns the attribute types of an op definition, by name."""
    return {each.name: each.type for each in definition(op).attr}


@functools.cache
def attribute_definition(op: str, name: str):
    """Returns the definition of an attribute of one of our ops."""
    (found,) = (each for each in definition(op).attr if each.name == name)
    return found


def numpy_dtype(dtype) -> np.dtype:
    """Returns the NumPy dtype of a TensorFlow dtype."""
    return np.dtype(tf.as_dtype(dtype).as_numpy_dtype)


def is_tensor(argument) -> bool:
    """Whether an argument is an array or an `Empty`."""
    return isinstance(argument, (np.ndarray, Empty))


def map_tensors(function: Callable, argument):
    """Applies a function to a tensor or to each tensor of a list. Returns other arguments unchanged."""
    if isinstance(argument, list):
        return [map_tensors(function, each) for each in argument]
    return function(argument) if is_tensor(argument) else argument


def flat_tensors(arguments: dict[str, Any]) -> list:
    """Returns all tensors in the arguments."""
    tensors: list = []
    for argument in arguments.values():
        map_tensors(tensors.append, argument)
    return tensors


def can_be_made(shape) -> bool:
    """Whether TensorFlow supports tensors of a shape and they are small enough.

    TensorFlow multiplies the sizes from the first on, and each partial product must fit int64.
    """
    counts = [math.prod(shape[:length]) for length in range(len(shape) + 1)]
    return max([*shape, *counts]) < 2**63 and counts[-1] <= LARGEST_COUNT


def zeros(shape, dtype):
    """Returns zeros of a supported shape."""
    if 0 in shape and any(each > LARGEST_COMPUTED for each in shape):
        return Empty(tuple(shape), np.dtype(dtype))
    return np.zeros(shape, dtype)


def array_of(tensor):
    """Converts the result of an op to an argument."""
    shape, dtype = tuple(tensor.shape), numpy_dtype(tensor.dtype)
    return zeros(shape, dtype) if 0 in shape else np.asarray(tensor.numpy()).astype(dtype, copy=False)


def tensor_of(argument) -> tf.Tensor:
    """Converts an argument to a tensor."""
    if isinstance(argument, Empty):
        return tf.reshape(tensor_of(np.zeros(0, argument.dtype)), tf.constant(argument.shape, tf.int64))
    return tf.constant(argument)


def as_float32(call: Call) -> None:
    """Casts the tensors of a call to float32 if they share one floating dtype, for ops that support only float32."""
    dtypes = {each.dtype for each in flat_tensors(call.arguments)}
    if len(dtypes) == 1 and tf.as_dtype(dtypes.pop()).is_floating:
        call.arguments = {name: map_tensors(_cast_to_float32, value) for name, value in call.arguments.items()}


def _cast_to_float32(argument):
    if isinstance(argument, Empty):
        return dataclasses.replace(argument, dtype=np.dtype(np.float32))
    with np.errstate(all="ignore"):
        return argument.astype(np.float32)


def describe(argument) -> str:
    """Returns a short description of an argument."""
    if isinstance(argument, list) and argument and all(map(is_tensor, argument)):
        return f"list of {len(argument)}: " + ", ".join(map(describe, argument[:12]))
    if not is_tensor(argument):
        return repr(argument)[:200]
    name = tf.as_dtype(argument.dtype).name if argument.dtype.kind != "O" else "string"
    text = f"{name}{list(argument.shape)}"
    if isinstance(argument, np.ndarray) and argument.size <= 9 and argument.dtype.kind in "iu":
        text += f" = {argument.tolist()}"
    return text
