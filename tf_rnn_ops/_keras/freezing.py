"""Functions for inference whose recurrent weights are packed once."""

import inspect
import re
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tf_rnn_ops import _constant_weights
from tf_rnn_ops._frozen_function import FrozenFunction
from tf_rnn_ops._keras import acceleration, explanation, kerases, tracing
from tf_rnn_ops._keras.exports import check_choice
from tf_rnn_ops._keras.private_names import FLATTEN_LAYERS

__all__ = ["freeze"]


def freeze(
    function: Any, *, weight_format: str = "float32", states: Mapping[str, int | str] | None = None
) -> FrozenFunction:
    """Returns a function for inference whose variables are constants, with recurrent weights packed once for all calls.

    Later changes to the variables have no effect on it. It is faster than `function`, above all for few sequences, and
    with "bfloat16" or "int8" faster again. How much results then differ is in docs/guides/serving.md.

    Variables that `function` assigns, such as the states of layers with `stateful=True` and of random seeds, become
    states of the new function, which keeps them from call to call, apart from the variables: see
    `FrozenFunction.stream`. Those that a loop assigns stay variables.

    `weight_format` is what recurrent ops of type float32 multiply, on CPUs:

    - "float32": the same as `function`.
    - "bfloat16": weights and the inputs and states of each step, rounded, on CPUs with AVX-512 BF16. On others, the
      same as "float32".
    - "int8": integers, with a scale for each column of the weights and for each row of inputs and states. States and
      their weights have 8 bits. Inputs and theirs have 16 bits, so that features need no normalization.

    Sums, biases, gates and states are in float32. Ops of other types keep their type. Ops whose weights are not
    variables or constants of the function keep float32, and XLA ignores the format.

    To save the function for TensorFlow Serving, prefer `accelerate_keras(exports=weight_format)`: a graph with large
    constants needs several times the memory of one with variables.

    Args:
      function: a Keras model with known inputs, which runs with `training=False` on the op as with
        `tf_rnn_ops.accelerate_keras`; or a concrete function, such as a signature of a loaded SavedModel, with any of
        `KerasRNN`, `CudnnRNN`, `CudnnRNNV2`, `CudnnRNNV3` (also TensorFlow's own) and `StatelessCudnnRNN`. A cell that
        the model or function calls one step at a time runs on the op only with a static batch of 1.
      weight_format: the format of the packed weights: "float32", "bfloat16" or "int8".
      states: arguments that become states, by the names of the model's inputs or the function's arguments, and the
        results that are their next values: the place in a tuple or list, or the key in a dictionary. They start as
        zeros, and sizes that are not known, such as that of the batch, as 1. The function then takes the other tensors,
        by name, and returns the other results, or all if there are no others; without a tuple, if it is one.

    Returns:
      A function with the arguments and results of `function`; of a model, with its inputs as the argument `inputs`. It
      is faster to call than a concrete function, which it has as an attribute.

    Raises:
      TypeError: if `function` is neither of them.
      ValueError: if `weight_format` is another format, if the model has no known inputs, if the function contains none
        of these ops with `is_training=False`, or if `states` names what the function does not have.
      RuntimeError: if this version of TensorFlow cannot freeze functions.

    Examples:
      >>> model = keras.Sequential([keras.Input([10, 3]), keras.layers.LSTM(4)])
      >>> serve = tf_rnn_ops.freeze(model, weight_format="int8")
      >>> serve(tf.ones([2, 10, 3])).shape
      TensorShape([2, 4])
    """
    check_choice("weight_format", weight_format, _constant_weights.FORMATS)
    model = function if isinstance(function, kerases.classes("model")) else None
    if model is not None:
        function = _inference_function(model)
    if not isinstance(function, tf.types.experimental.ConcreteFunction):
        raise TypeError(
            "function must be a Keras model or a concrete function, such as "
            f"tf.function(f).get_concrete_function(tf.TensorSpec([None, 10, 3])), but is a {type(function).__name__}"
        )
    zeroed = [] if model is None else _states_of_layers(model)
    if states:
        function, variables = _with_state_variables(function, states)
        zeroed += variables
    return _constant_weights.frozen(function, weight_format, zeroed, why_not=lambda: _why_not(model))


def _with_state_variables(function: Any, states: Mapping[str, int | str]) -> tuple[Any, list[tf.Variable]]:
    """Returns a concrete function that keeps arguments and results of another one in variables, and these.

    Args:
      function: the other concrete function.
      states: the results by the names of the arguments, as in `freeze`.
    """
    signature = function.structured_input_signature
    specs = {each.name: each for each in tf.nest.flatten(signature) if isinstance(each, tf.TensorSpec)}
    places = _places_of(function.structured_outputs)
    for of_what, given, known in (("inputs", states.keys(), specs), ("results", states.values(), places)):
        unknown = [each for each in given if each not in known]
        if unknown:
            raise ValueError(
                f"states must be {of_what} of the function, which are {list(known)}, but {unknown[0]!r} is none"
            )
    variables = {}
    for name in states:
        zeros = tf.zeros([1 if size is None else size for size in specs[name].shape], specs[name].dtype)
        variables[name] = tf.Variable(zeros, trainable=False, shape=specs[name].shape)
    others = {name: each for name, each in specs.items() if name not in states}

    def call(*tensors: tf.Tensor) -> Any:
        values = dict(zip(others, tensors, strict=True))
        values |= {name: each.read_value() for name, each in variables.items()}
        args, kwargs = tf.nest.map_structure(
            lambda each: values[each.name] if isinstance(each, tf.TensorSpec) else each, signature
        )
        results = function(*args, **kwargs)
        for name, place in states.items():
            variables[name].assign(results[place])
        kept = [each for each in places if each not in states.values()] or places
        if isinstance(results, Mapping):
            return {each: results[each] for each in kept}
        return results[kept[0]] if len(kept) == 1 else tuple(results[each] for each in kept)

    names = [re.sub(r"\W", "_", name) for name in others]
    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    )
    return tf.function(call, autograph=False).get_concrete_function(*others.values()), list(variables.values())


def _places_of(outputs: Any) -> list[int | str]:
    """Returns the keys of a dictionary or the places in a list or tuple."""
    if isinstance(outputs, Mapping):
        return list(outputs)
    return list(range(len(outputs))) if isinstance(outputs, (list, tuple)) else []


def _states_of_layers(model: Any) -> list[tf.Variable]:
    """Returns the states of the stateful recurrent layers of a model, and of the layers in it."""
    layers: Any = getattr(model, FLATTEN_LAYERS, list)()
    states = tf.nest.flatten([getattr(each, "states", None) for each in layers])
    values = [each if isinstance(each, tf.Variable) else getattr(each, "value", None) for each in states]
    return [each for each in values if isinstance(each, tf.Variable)]


def _inference_function(model: Any) -> Any:
    """Returns a concrete function that calls a model in inference."""
    inputs = getattr(model, "inputs", None) if model.built else None
    if not inputs:
        raise ValueError(
            f"function must be a model with known inputs, but {model.name!r} has none: give the first layer an Input, "
            "or pass a concrete function"
        )
    keras = kerases.of(model)
    assert keras is not None
    structure = getattr(model, keras.inputs_struct, inputs[0] if len(inputs) == 1 else inputs)
    specs = tf.nest.map_structure(lambda each: tf.TensorSpec(each.shape, each.dtype, each.name), structure)
    with acceleration.start(), tracing.freezing():
        return tf.function(lambda inputs: model(inputs, training=False)).get_concrete_function(specs)


def _why_not(model: Any) -> str:
    """Returns why a function does not contain the op.

    Args:
      model: the model that it calls, or None for a function of a user.
    """
    if model is None:
        return (
            " call accelerate_keras before you trace it, with a static batch of 1 if it calls a cell one step at a "
            "time; tf_rnn_ops.explain(model) shows why a layer does not run on the op"
        )
    with acceleration.start():
        return f"\n{explanation.explanation_of(model)}"
