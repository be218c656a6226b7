"""Variables that a graph assigns, made inputs and outputs of the graph."""

import graphlib
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

# What becomes of the ops that change a variable: the same op on its value.
_UPDATES = {"AssignVariableOp": "Identity", "AssignAddVariableOp": "AddV2", "AssignSubVariableOp": "Sub"}


def lift(graph: Any, variables: Mapping[str, tf.Variable]) -> dict[str, str]:
    """Makes inputs and outputs of the variables in a GraphDef that only its own nodes read and assign.

    Those of other functions, such as loops, stay variables.

    Args:
      graph: the GraphDef, which is changed.
      variables: the variables, by the names of the placeholders of their handles.

    Returns:
      The nodes with the values of variables after a run, by the names of the placeholders, which now stand for the
      values before it.
    """
    nodes = {each.name: each for each in graph.node}
    try:
        # TensorFlow orders the nodes that read or assign the same variable.
        order = list(
            graphlib.TopologicalSorter({name: map(node_of, each.input) for name, each in nodes.items()}).static_order()
        )
    except graphlib.CycleError:  # loops of TensorFlow 1
        return {}
    users: dict[str, list[Any]] = {name: [] for name in variables}
    for name in order:
        for each in {node_of(each) for each in nodes[name].input} & users.keys():
            users[each].append(nodes[name])
    return {
        name: _lift(nodes[name], variable, users[name])
        for name, variable in variables.items()
        if all(_reads_or_assigns(each, name) for each in users[name])
    }


def node_of(tensor: str) -> str:
    """Returns the name of the node of an input of another node, such as "^node" or "node:1"."""
    return tensor.removeprefix("^").partition(":")[0]


def _reads_or_assigns(node: Any, variable: str) -> bool:
    return (node.op == "ReadVariableOp" or node.op in _UPDATES) and node.input[0] == variable


def _lift(placeholder: Any, variable: tf.Variable, users: list[Any]) -> str:
    """Makes a placeholder stand for the value of a variable, not its handle. Returns the node with the last value."""
    placeholder.ClearField("attr")
    placeholder.attr["dtype"].type = variable.dtype.as_datatype_enum
    placeholder.attr["shape"].shape.CopyFrom(variable.shape.as_proto())
    value = placeholder.name
    for node in users:
        operands = [value] if node.op in ("ReadVariableOp", "AssignAddVariableOp", "AssignSubVariableOp") else []
        node.input[:] = [*operands, *node.input[1:]]
        if node.op in _UPDATES:
            value = node.name
        node.op = _UPDATES.get(node.op, "Identity")
        node.ClearField("attr")
        node.attr["T"].type = variable.dtype.as_datatype_enum
    return value
