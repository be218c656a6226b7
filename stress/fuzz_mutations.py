"""Mutations of valid calls."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from inputs.calls import (
    Call,
    Empty,
    attribute_definition,
    attribute_types,
    can_be_made,
    definition,
    flat_tensors,
    is_tensor,
    numpy_dtype,
    zeros,
)
from inputs.keras_rnn import ACTIVATIONS, KINDS
from inputs.reserve_spaces import RESERVE_SPACES
from inputs.valid_calls import HUGE, KERAS_ACTIVATIONS, choice

INT32 = np.iinfo(np.int32)
INT64 = np.iinfo(np.int64)
OTHER_DTYPES = (*("float32", "float64", "float16", "bfloat16") * 2, "int8", "int32", "int64", "uint8", "bool")
EXOTIC_DTYPES = ("complex64", "uint64", "float8_e5m2", "string")
# The Python types of attributes, by their types in op definitions.
PYTHON_TYPES = {
    "float": (float, int),
    "int": (int,),
    "bool": (bool,),
    "string": (str, bytes),
    "type": (tf.DType,),
    "list(string)": (list,),
}
# Arguments of a backward op that must equal inputs or outputs of the forward op.
FORWARD_ARGUMENTS = (
    *("input", "input_h", "input_c", "params", "sequence_lengths", "output", "reserve_space"),
    *("rnn_mode", "input_mode", "direction", "dropout", "num_proj", "time_major", "mask", "go_backwards", "sequences"),
    *KERAS_ACTIVATIONS,
)
FLOATS = (-0.1, 1.1, np.nan, np.inf, -np.inf, 1e-45, -1e-50, 0.0, 1.0, 1 - 1e-9, 1 + 1e-9, 2.0**127, 1e300, 0.5)
INTS = (0, 1, -1, 2, 3, 9, 10, INT32.max, INT32.min, 2**31, 2**32, INT64.max, INT64.min, INT64.max + 1, 2**62)
STRINGS = ("", "LSTM", "lstm ", "rnn", "sideways", "none", "\0", "ü", "lstm\0", "x" * 2000, b"bytes")
VALID_STRINGS = {
    "rnn_mode": tuple(KINDS),
    **dict.fromkeys(KERAS_ACTIVATIONS, ACTIVATIONS),
    "input_mode": ("linear_input", "skip_input", "auto_select"),
    "direction": ("unidirectional", "bidirectional"),
}
TYPES = (tf.float32, tf.float64, tf.float16, tf.bfloat16, tf.int32, tf.int64, tf.string, tf.resource, tf.bool)
# With larger counts, TensorFlow itself allocates that many results before it calls the op.
COUNTS = (0, -1, 1, 2, 7, 1000, INT32.min, INT64.min)
SIZES = (0, -1, 1, 2, 7, 46341, 65536, 2**30, INT32.max, INT32.min)


@dataclasses.dataclass(frozen=True)
class Mutation:
    """A kind of mutation.

    Attributes:
      share: relative frequency.
      function: mutates a call and returns a description, or None if it does not apply to the call.
    """

    share: float
    function: Callable[[np.random.Generator, Call], str | None]


def mutate(rng, call: Call) -> None:
    """Applies one mutation to an argument without one, unless the call has no such tensors left."""
    if not set(call.tensor_names) - call.mutated.keys():
        return
    shares = np.array([each.share for each in MUTATIONS])
    what = MUTATIONS[rng.choice(len(MUTATIONS), p=shares / shares.sum())].function(rng, call)
    if what is None:
        mutate(rng, call)
    else:
        call.mutations.append(what)


def replace(call: Call, name: str, value, is_invalid=False) -> None:
    """Replaces an argument of a call.

    Args:
      call: the call.
      name: the name of the argument.
      value: the new value.
      is_invalid: whether the op must reject the value whatever the other arguments are.
    """
    call.arguments[name] = value
    call.mutated[name] = is_invalid
    if name in FORWARD_ARGUMENTS:
        call.is_consistent = False


# ---------------------------------------------------------------- tensors


def pick_tensor(rng, call: Call) -> tuple[str, int | None, Any]:
    """Picks a tensor argument. Returns its name, its index if it is in a list, and its value; None if it is mutated."""
    name = choice(rng, call.tensor_names)
    value = None if name in call.mutated else call.arguments[name]
    if isinstance(value, list) and value:
        index = int(rng.integers(len(value)))
        return name, index, value[index]
    return name, None, value


def put(call: Call, name: str, index: int | None, value, is_invalid=False) -> str:
    """Replaces a tensor from `pick_tensor` and returns a description of its position."""
    if index is None:
        replace(call, name, value, is_invalid)
        return name
    replaced = list(call.arguments[name])
    replaced[index] = value
    replace(call, name, replaced, is_invalid)
    return f"{name}[{index}]"


def random_tensor(rng, shape, dtype):
    """Returns a tensor of a supported shape."""
    empty = zeros(shape, dtype)
    if isinstance(empty, Empty) or empty.size == 0:
        return empty
    if dtype.kind == "O":
        return np.full(shape, b"text", object)
    if dtype.kind in "iub":
        return rng.integers(0, 2, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def near_shape(rng, shape) -> tuple[int, ...]:
    """Returns a similar shape: one dimension added, removed, swapped or resized, or all flattened."""
    kinds = ["add"] if not shape else ["add", "remove", "size", "size", "size", "exchange", "flatten"]
    kind, axis = choice(rng, kinds), int(rng.integers(max(len(shape), 1)))
    sizes = list(shape)
    if kind == "add":
        sizes.insert(axis, int(choice(rng, (0, 1, 2))))
    elif kind == "remove":
        del sizes[axis]
    elif kind == "size":
        sizes[axis] = max(0, choice(rng, (sizes[axis] - 1, sizes[axis] + 1, 0, 1, 2 * sizes[axis])))
    elif kind == "exchange":
        sizes[0], sizes[axis] = sizes[axis], sizes[0]
    else:
        sizes = [int(np.prod(sizes, dtype=object))]
    return tuple(sizes)


def far_shape(rng) -> tuple[int, ...]:
    """Returns a shape of any rank up to 6."""
    return tuple(int(size) for size in rng.integers(0, choice(rng, (3, 10)), int(rng.integers(7))))


def huge_shape(rng, shape) -> tuple[int, ...]:
    """Returns a shape with huge sizes and a 0."""
    sizes = list(shape) or [0]
    for axis in range(len(sizes)):
        if rng.random() < 0.5:
            sizes[axis] = choice(rng, HUGE)
    sizes[int(rng.integers(len(sizes)))] = 0
    return tuple(sizes)


def mutate_shape(rng, call: Call) -> str | None:
    """Changes the shape of a tensor."""
    name, index, value = pick_tensor(rng, call)
    if not is_tensor(value):
        return None
    kind = rng.random()
    shape = (
        near_shape(rng, value.shape) if kind < 0.7 else far_shape(rng) if kind < 0.85 else huge_shape(rng, value.shape)
    )
    if shape == value.shape or not can_be_made(shape):
        return None
    return put(call, name, index, random_tensor(rng, shape, value.dtype)) + f" of shape {list(shape)}"


def mutate_dtype(rng, call: Call) -> str | None:
    """Changes the dtype of a tensor."""
    name, index, value = pick_tensor(rng, call)
    if not is_tensor(value):
        return None
    dtype = numpy_dtype(choice(rng, OTHER_DTYPES if rng.random() < 0.8 else EXOTIC_DTYPES))
    if dtype == value.dtype or isinstance(value, Empty):
        return None
    is_invalid = dtype not in allowed_dtypes(call, name)
    return put(call, name, index, random_tensor(rng, value.shape, dtype), is_invalid) + f" of dtype {dtype}"


def allowed_dtypes(call: Call, name: str) -> list[np.dtype]:
    """Returns the dtypes that a tensor may have while the others keep theirs: many, if it is the only one of type T."""
    inputs = definition(call.op).input_arg
    (of_tensor,) = (each for each in inputs if each.name == name)
    tensors = flat_tensors({each.name: call.arguments.get(each.name) for each in inputs if each.type_attr == "T"})
    if of_tensor.type_attr != "T" or len(tensors) > 1:
        return []
    return [numpy_dtype(each) for each in attribute_definition(call.op, "T").allowed_values.list.type]


def mutate_kind(rng, call: Call) -> str | None:
    """Replaces a tensor by None, or a list by one of another length or by something else."""
    name = choice(rng, call.tensor_names)
    value = call.arguments[name]
    if name in call.mutated:
        return None
    if isinstance(value, list):
        kind = choice(rng, ("one less", "one more", "none", "half", "not a list", "None"))
        first = value[:1]
        lists = {"one less": value[1:], "one more": value + first, "none": [], "half": value[: len(value) // 2]}
        replace(call, name, lists.get(kind, first[0] if first and kind == "not a list" else None), is_invalid=True)
        return f"{name}: {kind}"
    if rng.random() < 0.7:
        return None
    replace(call, name, None, is_invalid=True)
    return f"{name} is None"


def mutate_lengths(rng, call: Call) -> str | None:
    """Changes a sequence length or number of steps, often to an invalid one."""
    if {"seq_len_max", "sequence_lengths"} & call.mutated.keys():
        return None
    if "seq_len_max" in call.arguments:
        value = choice(rng, (-1, INT64.min, INT64.max, 0, 1, 9, 10))
        replace(call, "seq_len_max", np.array(value, np.int64), is_invalid=value < 0)
        return f"seq_len_max is {value}"
    lengths = call.arguments.get("sequence_lengths")
    if not isinstance(lengths, np.ndarray) or lengths.size == 0 or lengths.dtype != np.int32:
        return None
    changed = lengths.copy()
    longest = int(lengths.max())
    value = choice(rng, (-1, INT32.min, INT32.max, min(longest + 1, INT32.max), longest, 0))
    changed.flat[int(rng.integers(lengths.size))] = value
    replace(call, "sequence_lengths", changed, is_invalid=value < 0)
    return f"sequence_lengths with {value}"


def mutate_sizes(rng, call: Call) -> str | None:
    """Changes a size argument, often to an invalid one."""
    names = [name for name in ("num_layers", "num_units", "input_size") if name in call.arguments]
    names = [name for name in names if name not in call.mutated]
    if not names:
        return None
    name, value = choice(rng, names), choice(rng, SIZES)
    replace(call, name, np.array(value, np.int32), is_invalid=value < (1 if name == "num_layers" else 0))
    return f"{name} is {value}"


# ---------------------------------------------------------------- reserve_space


def mutate_reserve_space(rng, call: Call) -> str | None:
    """Replaces reserve_space by one that is not from the forward op."""
    value = call.arguments.get("reserve_space")
    if (
        "reserve_space" in call.mutated
        or not isinstance(value, np.ndarray)
        or value.ndim != 1
        or value.size == 0
        or value.dtype == object
    ):
        return None
    name = choice(rng, tuple(RESERVE_SPACES))
    replace(call, "reserve_space", RESERVE_SPACES[name](rng, call.op, value))
    return f"reserve_space: {name}"


def mutate_host_reserved(rng, call: Call) -> str | None:
    """Replaces host_reserved by random bytes."""
    if "host_reserved" in call.mutated or not isinstance(call.arguments.get("host_reserved"), np.ndarray):
        return None
    shape = far_shape(rng)
    value = np.frombuffer(rng.bytes(int(np.prod(shape))), np.int8).reshape(shape)
    replace(call, "host_reserved", value)
    return f"host_reserved of random bytes of shape {list(shape)}"


# ---------------------------------------------------------------- attributes


def wrong_attribute(rng, name: str, kind: str) -> Any:
    """Returns a value for an attribute of a type of op definitions, often at its limits."""
    if rng.random() < 0.06:
        return choice(rng, (None, "text", [], object))
    if name.startswith("num_params"):
        return choice(rng, COUNTS)
    if kind == "float":
        return choice(rng, FLOATS)
    if kind == "int":
        return choice(rng, INTS)
    if kind == "bool":
        return bool(rng.random() < 0.5)
    if kind == "type":
        return choice(rng, TYPES)
    if kind == "string":
        return choice(rng, VALID_STRINGS[name] if rng.random() < 0.6 else STRINGS)
    return choice(rng, (["input_grad", "input_grad"], ["unknown"], [1], "input_grad", ["output_c_backprop_grad", ""]))


def is_invalid_attribute(op: str, name: str, value) -> bool:
    """Whether the value of an attribute is invalid whatever the other arguments are."""
    of_op = attribute_definition(op, name)
    if value is None:
        return not of_op.HasField("default_value")
    if not isinstance(value, PYTHON_TYPES[of_op.type]):
        return True
    if of_op.type == "int":
        smallest = of_op.minimum if of_op.has_minimum else 0 if name == "num_proj" else INT64.min
        return not smallest <= value <= INT64.max
    if of_op.type == "float":
        return name == "dropout" and not 0 <= np.float32(np.clip(value, -1e38, 1e38)) <= 1
    if of_op.type == "type":
        return value.as_datatype_enum not in of_op.allowed_values.list.type
    if of_op.type == "bool":
        return False
    given = value if isinstance(value, list) else [value]
    allowed = [*of_op.allowed_values.list.s, *map(tf.compat.as_str, of_op.allowed_values.list.s)]
    return any(each not in allowed for each in given)


def mutate_attribute(rng, call: Call) -> str | None:
    """Changes the value of an attribute."""
    names = [name for name in call.attribute_names if name not in call.mutated]
    if not names:
        return None
    name = choice(rng, names)
    value = wrong_attribute(rng, name, attribute_types(call.op)[name])
    replace(call, name, value, is_invalid_attribute(call.op, name, value))
    return f"{name} is {str(value)[:40]!r}"


def leave_out(rng, call: Call) -> str | None:
    """Removes an argument."""
    if rng.random() < 0.7:
        return None
    name = choice(rng, tuple(call.arguments))
    if name in call.mutated:
        return None
    replace(call, name, None, name in call.tensor_names or is_invalid_attribute(call.op, name, None))
    del call.arguments[name]
    return f"no {name}"


MUTATIONS = (
    Mutation(8, mutate_shape),
    Mutation(2, mutate_dtype),
    Mutation(1, mutate_kind),
    Mutation(2, mutate_lengths),
    Mutation(3, mutate_sizes),
    Mutation(6, mutate_reserve_space),
    Mutation(0.5, mutate_host_reserved),
    Mutation(5, mutate_attribute),
    Mutation(0.7, leave_out),
)
