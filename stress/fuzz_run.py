"""Runs an op eagerly, in a tf.function and in a graph. Shapes in graphs are partly unknown."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from checks.dropout import fresh_kernels
from inputs.calls import (
    Call,
    Empty,
    array_of,
    definition,
    flat_tensors,
    is_tensor,
    map_tensors,
    tensor_of,
)

import tf_rnn_ops
from tf_rnn_ops._library import ops as own_ops

LIBRARIES = ("tf_rnn_ops", "builtin-kernels", "tensorflow")
WAYS = ("eager", "function", "graph")
WAY_SHARES = (0.91, 0.05, 0.04)  # tracing a graph takes much longer than running it

Results = dict[str, Any]


@dataclasses.dataclass
class Outcome:
    """The outcome of a call.

    Attributes:
      results: the results by name, in the form of arguments, or None.
      error: the exception, or None.
      inferred: the shapes of the results from the shape function, by name.
    """

    results: Results | None = None
    error: Exception | None = None
    inferred: dict[str, Any] = dataclasses.field(default_factory=dict)


def function_of(library: str, op: str) -> Callable | None:
    """Returns the Python function of an op, or None if the library does not have it."""
    if library != "tf_rnn_ops":
        return getattr(tf.raw_ops, op, None)
    return getattr(tf_rnn_ops.raw_ops, op, None) or getattr(own_ops, f"TfRnnOps_{op}")


def run(call: Call, function: Callable, way: str) -> Outcome:
    """Runs a call in one of the WAYS."""
    if call.arguments.get("dropout"):
        fresh_kernels()
    try:
        return {"eager": run_eagerly, "function": run_function, "graph": run_graph}[way](call, function)
    except Exception as error:  # judged by its class
        return Outcome(error=error)


def named(call: Call, outputs) -> Results:
    """Returns the outputs of an op by name."""
    return outputs._asdict() if hasattr(outputs, "_asdict") else {definition(call.op).output_arg[0].name: outputs}


def arrays(call: Call, outputs) -> Results:
    """Returns the outputs of an op, converted to arguments, by name."""
    return {name: tf.nest.map_structure(array_of, value) for name, value in named(call, outputs).items()}


def run_eagerly(call: Call, function: Callable) -> Outcome:
    """Runs an op eagerly."""
    arguments = {name: map_tensors(tensor_of, value) for name, value in call.arguments.items()}
    return Outcome(arrays(call, function(**arguments)))


# ---------------------------------------------------------------- graphs


@dataclasses.dataclass(frozen=True)
class Plan:
    """How a graph gets the tensors of a call: as constants, or fed with a shape that may be unknown."""

    is_constant: list[bool]
    specs: list[tf.TensorSpec]

    def is_fed(self, index: int) -> bool:
        """Whether a tensor is fed."""
        return not self.is_constant[index]


def partial_shape(rng, shape) -> list[int | None] | None:
    """Returns a shape in which no, some or all sizes are unknown, or None."""
    kind = rng.random()
    if kind < 0.3:
        return None
    unknown_share = 0 if kind < 0.5 else 1 if kind < 0.6 else 0.5
    return [None if rng.random() < unknown_share else size for size in shape]


def dtype_of(tensor) -> tf.DType:
    """Returns the TensorFlow dtype of an argument."""
    return tf.string if tensor.dtype == object else tf.as_dtype(tensor.dtype)


def plan_of(call: Call) -> Plan:
    """Draws a plan for the tensors of a call."""
    rng = np.random.default_rng(call.seed)
    tensors = flat_tensors(call.arguments)
    return Plan(
        [isinstance(each, np.ndarray) and bool(rng.random() < 0.25) for each in tensors],
        [tf.TensorSpec(partial_shape(rng, each.shape), dtype_of(each)) for each in tensors],
    )


def call_with(call: Call, function: Callable, tensors: list[tf.Tensor]):
    """Calls an op with other tensors."""
    remaining = iter(tensors)
    arguments = {
        name: map_tensors(lambda _: next(remaining), value) if has_tensors(value) else value
        for name, value in call.arguments.items()
    }
    return function(**arguments)


def has_tensors(argument) -> bool:
    """Whether an argument is a tensor or a list of them."""
    return is_tensor(argument) or (isinstance(argument, list) and any(map(is_tensor, argument)))


def shapes_of(call: Call, outputs) -> dict[str, Any]:
    """Returns the shapes of the outputs of an op, by name."""
    return {name: tf.nest.map_structure(lambda each: each.shape, value) for name, value in named(call, outputs).items()}


def run_function(call: Call, function: Callable) -> Outcome:
    """Runs an op in a tf.function traced for partly unknown shapes."""
    tensors, plan = flat_tensors(call.arguments), plan_of(call)
    inferred: dict[str, Any] = {}

    def traced(*fed):
        remaining = iter(fed)
        inside = [tensor_of(each) if plan.is_constant[i] else next(remaining) for i, each in enumerate(tensors)]
        outputs = call_with(call, function, inside)
        inferred.update(shapes_of(call, outputs))
        return outputs

    specs = [spec for i, spec in enumerate(plan.specs) if plan.is_fed(i)]
    concrete = tf.function(traced, input_signature=specs, autograph=False).get_concrete_function()
    outputs = concrete(*(tensor_of(each) for i, each in enumerate(tensors) if plan.is_fed(i)))
    return Outcome(arrays(call, outputs), inferred=inferred)


def run_graph(call: Call, function: Callable) -> Outcome:
    """Runs an op in a session with placeholders of partly unknown shapes."""
    tensors, plan = flat_tensors(call.arguments), plan_of(call)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        inside = [
            tensor_of(each) if plan.is_constant[i] else tf.compat.v1.placeholder(spec.dtype, spec.shape)
            for i, (each, spec) in enumerate(zip(tensors, plan.specs, strict=True))
        ]
        outputs = call_with(call, function, inside)
        inferred = shapes_of(call, outputs)
        feed = {inside[i]: each for i, each in enumerate(tensors) if plan.is_fed(i)}
        return Outcome(named(call, session.run(outputs, feed)), inferred=inferred)


def can_be_fed(call: Call) -> bool:
    """Whether a session can feed all tensors of a call, which must be NumPy arrays."""
    return not any(isinstance(each, Empty) for each in flat_tensors(call.arguments))
