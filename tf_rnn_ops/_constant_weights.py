"""Weights that do not change between calls: ops in graphs pack them once, on request in fewer bits.

The attribute `_tf_rnn_ops_constant_weights` of an op says so to its CPU kernel, with the format of the packed weights.
The kernel packs weights again if they are in another buffer than in the call before, as after an assignment to a
variable, and packs none that are not in TensorFlow's own memory. The op library itself sets the attribute for weights
that are constants of a graph.
"""

import collections
import ctypes
import functools
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import keras
import tensorflow as tf

from tf_rnn_ops import _library, _private_names

_ATTRIBUTE = "_tf_rnn_ops_constant_weights"
_FORMATS = ("float32", "bfloat16", "int8")
_OPS = frozenset(["CudnnRNN", "CudnnRNNV2", "CudnnRNNV3", "KerasRNN", "StatelessCudnnRNN"])
# The ops that read a variable.
_READS = frozenset(["ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape"])
# The ops that call functions whose arguments are their last inputs.
_CALLS = frozenset(
    [
        "Case",
        "If",
        "PartitionedCall",
        "StatefulPartitionedCall",
        "StatelessCase",
        "StatelessIf",
        "StatelessWhile",
        "While",
    ]
)


def check_format(argument: str, weights: Any) -> None:
    """Raises a ValueError if an argument is not the format of packed weights."""
    if weights not in _FORMATS:
        raise ValueError(f'{argument} must be "float32", "bfloat16" or "int8", but is {weights!r}')


def mark(op: tf.Operation, weights: str) -> None:
    """Marks an op of a graph, whose weights the kernel then packs once, in a format."""
    if hasattr(op, _private_names.SET_ATTR):
        getattr(op, _private_names.SET_ATTR)(_ATTRIBUTE, tf.compat.v1.AttrValue(s=weights.encode()))


def packed_weights_bytes() -> int:
    """Returns the memory of all packed weights in this process, in bytes.

    Ops with equal weights and formats share them, in all graphs. They are freed with the last graph that has run on
    them. Weights that are packed in each call are not counted.

    Examples:
      >>> serve = freeze(keras.Sequential([keras.Input([10, 3]), keras.layers.LSTM(4)]))
      >>> y = serve(tf.ones([2, 10, 3]))
      >>> packed_weights_bytes() > 0
      True
    """
    return int(_library.call_c(_library.ENGINE_PATH, "TfRnnOps_PackedWeightsBytes", ctypes.c_int64))


def freeze(function: Any, *, weights: str = "float32") -> Any:
    """Returns a function for inference whose variables are constants, with recurrent weights packed once for all calls.

    Later changes to the variables have no effect on it. Variables that the function assigns, such as the states of
    stateful layers and of random seeds, stay variables; to save such a function, also make the model an attribute of
    the saved module. It is faster than `function`, above all for few sequences, and with "bfloat16" or "int8" faster
    again. How much results then differ is in docs/guides/serving.md.

    `weights` is what recurrent ops of type float32 multiply, on CPUs:

    - "float32": the same as `function`.
    - "bfloat16": weights and the inputs and states of each step, rounded, on CPUs with AVX-512 BF16. On others, the
      same as "float32".
    - "int8": integers, with a scale for each column of the weights and for each row of inputs and states. States and
      their weights have 8 bits. Inputs and theirs have 16 bits, so that features need no normalization.

    Sums, biases, gates and states are in float32. Ops of other types keep their type. Ops whose weights are not
    variables or constants of the function keep float32, and XLA ignores the format.

    To save the function for TensorFlow Serving, prefer `accelerate_keras(portable_exports=False, export_weights=...)`:
    a graph with large constants needs several times the memory of one with variables.

    Args:
      function: a Keras model with known inputs, which runs with `training=False` on the op as with
        `tf_rnn_ops.accelerate_keras`; or a concrete function, such as a signature of a loaded SavedModel, with any of
        `KerasRNN`, `CudnnRNN`, `CudnnRNNV2`, `CudnnRNNV3` (also TensorFlow's own) and `StatelessCudnnRNN`. A cell that
        the model or function calls one step at a time runs on the op only with a static batch of 1.
      weights: the format of the packed weights: "float32", "bfloat16" or "int8".

    Returns:
      A concrete function with the arguments and results of `function`; of a model, with its inputs as one argument.

    Raises:
      TypeError: if `function` is neither of them, for example a model of Keras 2.
      ValueError: if `weights` is another format, if the model has no known inputs, or if the function contains none of
        these ops with `is_training=False`.
      RuntimeError: if this version of TensorFlow cannot freeze functions.

    Examples:
      >>> model = keras.Sequential([keras.Input([10, 3]), keras.layers.LSTM(4)])
      >>> serve = freeze(model, weights="int8")
      >>> serve(tf.ones([2, 10, 3])).shape
      TensorShape([2, 4])
    """
    check_format("weights", weights)
    model = function if isinstance(function, keras.Model) else None
    if model is not None:
        function = _inference_function(model)
    if not isinstance(function, tf.types.experimental.ConcreteFunction):
        from tf_rnn_ops._keras import own_code  # which imports this module

        if isinstance(function, own_code.of_keras_2("Layer")):
            raise TypeError(
                "function is a model of Keras 2 (tf_keras), whose layers do not run on the op: pass a model of Keras "
                "3, or a concrete function with one of the ops"
            )
        raise TypeError(
            "function must be a Keras model or a concrete function, such as "
            f"tf.function(f).get_concrete_function(tf.TensorSpec([None, 10, 3])), but is a {type(function).__name__}"
        )
    if _private_names.FREEZING is None:
        raise RuntimeError(
            f"freeze cannot freeze functions of TensorFlow {tf.__version__}, which lacks what tf_rnn_ops uses for it."
        )
    # A lookup table of Keras leaves None in this collection of all graphs, of which TensorFlow would warn.
    initializers = function.graph.get_collection_ref(tf.compat.v1.GraphKeys.TABLE_INITIALIZERS)
    initializers[:] = [each for each in initializers if each is not None]
    variables = function.graph.variables
    # TensorFlow makes constants of those in this list.
    function.graph.variables = _unassigned(function)
    try:
        frozen, graph = _private_names.FREEZING.convert_variables_to_constants_v2_as_graph(
            function, lower_control_flow=False
        )
    finally:
        function.graph.variables = variables
    _rename_functions(graph)
    if not sum(_mark_node(node, weights) for node in _nodes(graph)):
        names = ", ".join(sorted(_OPS))
        raise ValueError(f"function must contain one of {names} with is_training=False, but does not:{_why_not(model)}")
    return _imported(graph, frozen, function)


def _inference_function(model: keras.Model) -> Any:
    """Returns a concrete function that calls a model in inference."""
    from tf_rnn_ops._keras import acceleration  # which imports this module
    from tf_rnn_ops._keras.exports import freezing

    inputs = getattr(model, "inputs", None) if model.built else None
    if not inputs:
        raise ValueError(
            f"function must be a model with known inputs, but {model.name!r} has none: give the first layer an Input, "
            "or pass a concrete function"
        )
    structure = getattr(model, _private_names.INPUTS_STRUCT, inputs[0] if len(inputs) == 1 else inputs)
    specs = keras.tree.map_structure(lambda each: tf.TensorSpec(each.shape, each.dtype, each.name), structure)
    with acceleration.start(), freezing():
        return tf.function(lambda inputs: model(inputs, training=False)).get_concrete_function(specs)


def _why_not(model: keras.Model | None) -> str:
    """Returns why a function does not contain the op.

    Args:
      model: the model that it calls, or None for a function of a user.
    """
    if model is None:
        return (
            " call accelerate_keras before you trace it, with a static batch of 1 if it calls a cell one step at a "
            "time; tf_rnn_ops.explain(model) shows why a layer does not run on the op"
        )
    from tf_rnn_ops._keras import acceleration, explanation  # which import this module

    with acceleration.start():
        return f"\n{explanation.explanation_of(model)}"


def _unassigned(function: Any) -> list[tf.Variable]:
    """Returns the variables of a concrete function that it only reads."""
    graph = function.graph.as_graph_def()
    functions = {each.signature.name: each for each in graph.library.function}

    @functools.cache
    def users_in(name: str) -> dict[str, list[tuple[Any, int]]]:
        return _users(functions[name].node_def if name else graph.node)

    @functools.cache
    def is_assigned(name: str, handle: str) -> bool:
        """Returns whether the function of a name, "" for `function`, may assign the variable with a handle."""
        return any(is_assigned_by(*each) for each in users_in(name).get(handle, ()))

    def is_assigned_by(node: Any, index: int) -> bool:
        if node.op not in _CALLS:
            return node.op not in _READS
        called = [each.name for each in _functions_of(node) if each.name in functions]
        return any(is_assigned(each, functions[each].signature.input_arg[index].name) for each in called)

    captured = function.captured_inputs
    placeholders = function.inputs[len(function.inputs) - len(captured) :]
    assigned = {
        id(handle)
        for handle, each in zip(captured, placeholders, strict=True)
        if each.dtype == tf.resource and is_assigned("", each.op.name)
    }
    return [each for each in function.graph.variables if id(each.handle) not in assigned]


def _users(nodes: Iterable[Any]) -> dict[str, list[tuple[Any, int]]]:
    """Returns, for the name of each node and argument, the nodes that take its output, and at which index from the end.

    The last inputs of a node that calls functions are their arguments.
    """
    users: dict[str, list[tuple[Any, int]]] = collections.defaultdict(list)
    for node in nodes:
        inputs = [each.partition(":")[0] for each in node.input if not each.startswith("^")]
        for i, each in enumerate(inputs):
            users[each].append((node, i - len(inputs)))
    return users


def _nodes(graph: Any) -> Iterator[Any]:
    """Yields the nodes of a GraphDef and its functions."""
    yield from graph.node
    for function in graph.library.function:
        yield from function.node_def


def _functions_of(node: Any) -> Iterator[Any]:
    """Yields the functions in the attributes of a node."""
    for attribute in node.attr.values():
        yield from (attribute.func, *attribute.list.func)


def _rename_functions(graph: Any) -> None:
    """Gives the functions of a GraphDef new names. TensorFlow would take those that it knows by the same names."""
    suffix = f"_{uuid.uuid4().hex}"
    names = {each.signature.name: each.signature.name + suffix for each in graph.library.function}
    for function in graph.library.function:
        function.signature.name = names[function.signature.name]
    for gradient in graph.library.gradient:
        gradient.function_name = names[gradient.function_name]
        gradient.gradient_func = names[gradient.gradient_func]
    for node in _nodes(graph):
        node.op = names.get(node.op, node.op)
        for called in _functions_of(node):
            if called.name in names:
                called.name = names[called.name]


def _mark_node(node: Any, weights: str) -> bool:
    """Marks a node if it is an op with constant weights in inference. Returns whether it is."""
    is_such = node.op.removeprefix("TfRnnOps>") in _OPS and not node.attr["is_training"].b
    if is_such:
        node.attr[_ATTRIBUTE].s = weights.encode()
    return is_such


def _imported(graph: Any, frozen: Any, function: Any) -> Any:
    """Returns a concrete function that runs a GraphDef.

    Args:
      graph: the GraphDef of `frozen`.
      frozen: a concrete function with some of the inputs of `function`, by name, and all its outputs.
      function: a concrete function with the arguments and results.
    """
    imported = tf.compat.v1.wrap_function(lambda: tf.graph_util.import_graph_def(graph, name=""), [])
    inputs, outputs = (
        [imported.graph.get_tensor_by_name(each.name) for each in group] for group in (frozen.inputs, frozen.outputs)
    )
    # Nothing else fetches operations without outputs, such as assignments.
    effects = [each for each in imported.graph.get_operations() if not (each.outputs or each.type == "NoOp")]
    compute = imported.prune(inputs, [*outputs, *effects])

    def run(*args: Any, **kwargs: Any) -> Any:
        arguments = tf.nest.flatten((args, kwargs), expand_composites=True)
        values = [*filter(tf.is_tensor, arguments), *function.captured_inputs]  # others are part of the graph
        by_name = {each.name: value for each, value in zip(function.inputs, values, strict=True)}
        results = iter(compute(*(by_name[each.name] for each in frozen.inputs)))
        return tf.nest.map_structure(
            lambda each: None if each is None else next(results), function.structured_outputs, expand_composites=True
        )

    args, kwargs = function.structured_input_signature
    return tf.function(run, autograph=False).get_concrete_function(*args, **kwargs)
