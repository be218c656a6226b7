"""Weights that do not change between calls: ops in graphs pack them once, on request in fewer bits.

The attribute `_tf_rnn_ops_constant_weights` of an op says so to its CPU kernel, with the format of the packed weights.
The kernel packs weights again if they are in another buffer than in the call before, as after an assignment to a
variable, and packs none that are not in TensorFlow's own memory. The op library itself sets the attribute for weights
that are constants of a graph.
"""

import collections
import ctypes
import functools
import inspect
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tensorflow as tf

from tf_rnn_ops import _library, _private_names, _state_variables
from tf_rnn_ops._frozen_function import STATES, FrozenFunction

_ATTRIBUTE = "_tf_rnn_ops_constant_weights"
FORMATS = ("float32", "bfloat16", "int8")
_OPS = frozenset(op for op, facts in _library.op_table().items() if facts.weights)
# The ops that read a variable.
_READS = frozenset(["ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape"])
_CALLS_OF_PYTHON = ("EagerPyFunc", "PyFunc", "PyFuncStateless")
_HANDLES = (tf.resource, tf.variant)
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


def mark(op: tf.Operation, weight_format: str) -> None:
    """Marks an op of a graph, whose weights the kernel then packs once, in a format."""
    if hasattr(op, _private_names.SET_ATTR):
        getattr(op, _private_names.SET_ATTR)(_ATTRIBUTE, tf.compat.v1.AttrValue(s=weight_format.encode()))


def packed_weights_bytes() -> int:
    """Returns the memory of all packed weights in this process, in bytes.

    Ops with equal weights and formats share them, in all graphs. They are freed with the last graph that has run on
    them. Weights that are packed in each call are not counted.

    Examples:
      >>> serve = tf_rnn_ops.freeze(keras.Sequential([keras.Input([10, 3]), keras.layers.LSTM(4)]))
      >>> y = serve(tf.ones([2, 10, 3]))
      >>> packed_weights_bytes() > 0
      True
    """
    return int(_library.call_c(_library.ENGINE_PATH, "TfRnnOps_PackedWeightsBytes", ctypes.c_int64))


def frozen(
    function: Any, weight_format: str, zeroed: Iterable[tf.Variable], why_not: Callable[[], str]
) -> FrozenFunction:
    """Returns a function in which variables are constants that ops pack once, or states if it assigns them.

    Args:
      function: a concrete function.
      weight_format: the format of the packed weights.
      zeroed: the variables that are zero at first if they are states. Others have the values that they have now.
      why_not: returns why the function does not contain the ops, for the error.

    Raises:
      ValueError: if the function contains none of the ops.
      RuntimeError: if this version of TensorFlow cannot freeze functions.
    """
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
        constant, graph = _private_names.FREEZING.convert_variables_to_constants_v2_as_graph(
            function, lower_control_flow=False
        )
    finally:
        function.graph.variables = variables
    _rename_functions(graph)
    if not mark_graph(graph, weight_format):
        names = ", ".join(sorted(_OPS))
        raise ValueError(f"function must contain one of {names} with is_training=False, but does not:{why_not()}")
    assigned = _left(constant, function)
    lifted = _state_variables.lift(graph, assigned)
    starts_as_zero = {id(each.handle) for each in zeroed}
    initial = [
        tf.zeros_like(each) if id(each.handle) in starts_as_zero else each.read_value()
        for each in (assigned[name] for name in lifted)
    ]
    again = functools.partial(frozen, weight_format=weight_format, zeroed=(), why_not=why_not)
    return _imported(graph, constant, function, lifted, initial, again)


def _left(constant: Any, function: Any) -> dict[str, tf.Variable]:
    """Returns the variables of a function that are no constants in another one, by the nodes of their handles."""
    by_handle = {id(each.handle): each for each in function.graph.variables}
    left = {each.name for each in constant.inputs}
    return {
        each.op.name: by_handle[id(handle)]
        for handle, each in _captured(function)
        if each.name in left and id(handle) in by_handle
    }


def _captured(function: Any) -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
    """Returns the tensors that a concrete function captures, with their placeholders."""
    captured = function.captured_inputs
    return zip(captured, function.inputs[len(function.inputs) - len(captured) :], strict=True)


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

    assigned = {
        id(handle)
        for handle, each in _captured(function)
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


def mark_graph(graph: Any, weight_format: str) -> int:
    """Marks the ops of inference in a GraphDef and its functions. Returns how many there are."""
    return sum(_mark_node(node, weight_format) for node in _nodes(graph))


def _mark_node(node: Any, weight_format: str) -> bool:
    """Marks a node if it is an op in inference. Returns whether it is."""
    is_such = node.op.removeprefix("TfRnnOps>") in _OPS and not node.attr["is_training"].b
    if is_such:
        node.attr[_ATTRIBUTE].s = weight_format.encode()
    return is_such


def _imported(
    graph: Any,
    constant: Any,
    function: Any,
    lifted: dict[str, str],
    initial: list[tf.Tensor],
    freeze: Callable[[Any], FrozenFunction],
) -> FrozenFunction:
    """Returns a function that runs a GraphDef.

    Args:
      graph: the GraphDef of `constant`, with states.
      constant: a concrete function with some of the inputs of `function`, by name, and all its outputs.
      function: a concrete function with the arguments and results.
      lifted: the nodes of the states after a run, by those before it.
      initial: the values of the states at first.
      freeze: what `FrozenFunction` takes.
    """
    imported = tf.compat.v1.wrap_function(lambda: tf.graph_util.import_graph_def(graph, name=""), [])
    inputs = [each.name for each in constant.inputs if each.op.name not in lifted]
    tensor = imported.graph.get_tensor_by_name
    states, new_states = ([tensor(f"{each}:0") for each in names] for names in (lifted.keys(), lifted.values()))
    # Nothing else fetches operations without outputs, such as assignments.
    effects = [each for each in imported.graph.get_operations() if not (each.outputs or each.type == "NoOp")]
    compute = imported.prune(
        [*map(tensor, inputs), *states], [*(tensor(each.name) for each in constant.outputs), *new_states, *effects]
    )
    captured = [*function.captured_inputs]
    positions = {each.name: i for i, each in enumerate(function.inputs)}
    taken = [positions[each] for each in inputs]

    def run(*args: Any, **kwargs: Any) -> Any:
        before = kwargs.pop(STATES) if lifted else ()
        arguments = tf.nest.flatten((args, kwargs), expand_composites=True)
        values = [*filter(tf.is_tensor, arguments), *captured]  # others are part of the graph
        results = iter(compute(*(values[i] for i in taken), *before))
        structured = tf.nest.map_structure(
            lambda each: None if each is None else next(results), function.structured_outputs, expand_composites=True
        )
        return (structured, (*results,)[: len(lifted)]) if lifted else structured

    args, kwargs = function.structured_input_signature
    parameters = [inspect.Parameter(each.name, each.kind) for each in function.function_type.parameters.values()]
    if lifted:
        parameters.append(inspect.Parameter(STATES, inspect.Parameter.KEYWORD_ONLY))
        kwargs = {**kwargs, STATES: tuple(tf.TensorSpec(each.shape, each.dtype) for each in states)}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    concrete = tf.function(run, autograph=False).get_concrete_function(*args, **kwargs)
    by_placeholder = {each.name: value for value, each in _captured(function)}
    handles = [by_placeholder.get(each) for each in inputs if tensor(each).dtype in _HANDLES]
    flat = compute if _runs_in_a_thread(graph, handles) else None
    return FrozenFunction(concrete, flat, captured, taken, initial, freeze)


def _runs_in_a_thread(graph: Any, handles: list[tf.Tensor | None]) -> bool:
    """Returns whether a thread of the caller can run a graph.

    Args:
      graph: the GraphDef.
      handles: the resources that it uses. None for one that is not known.
    """
    # Python handles Ctrl-C in its main thread, and TensorFlow's call of Python code would hide it.
    calls = graph.library.function or any(each.op in _CALLS_OF_PYTHON for each in graph.node)
    is_on_cpu = all(each is not None and each.device.endswith("CPU:0") for each in handles)
    return not calls and is_on_cpu and not tf.config.list_logical_devices("GPU") and _has_constant_weights(graph)


def _has_constant_weights(graph: Any) -> bool:
    """Returns whether the weights of all marked ops of a GraphDef are constants without further computation.

    If not, TensorFlow first computes what does not change, which the op CallInThread does not.
    """
    nodes = {each.name: each for each in graph.node}

    def source(tensor: str) -> Any:
        node = nodes[_state_variables.node_of(tensor)]
        return source(node.input[0]) if node.op == "Identity" else node

    marked = ((each, _library.facts_of(each.op)) for each in graph.node if _ATTRIBUTE in each.attr)
    return all(
        source(node.input[facts.inputs.index(name)]).op == "Const" for node, facts in marked for name in facts.weights
    )
