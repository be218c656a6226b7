"""Ops of a graph, definitions of our ops, and TensorFlow's compatibility rules for changes of definitions.

A graph from an older definition must have the same meaning under the newer one. TensorFlow applies these rules to its
own ops (tensorflow/core/framework/op_def_util.h, OpDefCompatible and OpDefAttrDefaultsUnchanged).
"""

from collections.abc import Iterator

import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.framework import op_def_pb2
from tensorflow.python.framework import op_def_registry

from tf_rnn_ops import _library

_NAMESPACE = "TfRnnOps>"


def ops_of(graph_def) -> list[str]:
    """Returns the types of all nodes in a graph and its functions, with repetitions."""
    functions = [node.op for function in graph_def.library.function for node in function.node_def]
    return [*functions, *(node.op for node in graph_def.node)]


def ops_when_called(function, *arguments) -> list[str]:
    """Returns the types of the nodes that a function of tensors traces."""
    return ops_of(tf.function(function, autograph=False).get_concrete_function(*arguments).graph.as_graph_def())


def current() -> op_def_pb2.OpList:
    """Returns the definitions of all our registered ops, without documentation."""
    op_list = op_def_pb2.OpList()
    for name in _library.op_names():
        op = op_list.op.add()
        op.CopyFrom(op_def_registry.get(_NAMESPACE + name))
        _remove_documentation(op)
    return op_list


def _remove_documentation(op: op_def_pb2.OpDef) -> None:
    for each in (op, *op.attr, *op.input_arg, *op.output_arg):
        each.ClearField("description")
    op.ClearField("summary")


def to_text(op_list: op_def_pb2.OpList) -> str:
    """Converts definitions to text."""
    return text_format.MessageToString(op_list)


def from_text(text: str) -> op_def_pb2.OpList:
    """Parses the text from `to_text`."""
    return text_format.Parse(text, op_def_pb2.OpList())


def incompatibilities(old: op_def_pb2.OpList, new: op_def_pb2.OpList) -> list[str]:
    """Returns a message for each change that affects graphs of the old definitions."""
    new_ops = {op.name: op for op in new.op}
    found = []
    for op in old.op:
        if op.name in new_ops:
            found += [f"{op.name}: {each}" for each in _of_op(op, new_ops[op.name])]
        else:
            found.append(f"{op.name} was removed")
    return found


def _of_op(old: op_def_pb2.OpDef, new: op_def_pb2.OpDef) -> Iterator[str]:
    if list(old.input_arg) != _inputs_of_old_graphs(old, new):
        yield "its inputs changed"
    if list(old.output_arg) != list(new.output_arg):
        yield "its outputs changed"
    if old.is_stateful != new.is_stateful:
        yield "is_stateful changed"
    new_attrs = {attr.name: attr for attr in new.attr}
    for attr in old.attr:
        if attr.name in new_attrs:
            yield from (f"{attr.name} {each}" for each in _of_attr(attr, new_attrs.pop(attr.name)))
        else:
            yield f"{attr.name} was removed"
    yield from (f"{name} is new and has no default" for name, attr in new_attrs.items() if not _has_default(attr))


def _inputs_of_old_graphs(old: op_def_pb2.OpDef, new: op_def_pb2.OpDef) -> list[op_def_pb2.OpDef.ArgDef]:
    """Returns the new inputs without lists that are empty unless a graph sets a new attribute."""
    known = {attr.name for attr in old.attr}
    empty = {
        attr.name for attr in new.attr if attr.name not in known and _has_default(attr) and not attr.default_value.i
    }
    return [each for each in new.input_arg if each.number_attr not in empty]


def _of_attr(old: op_def_pb2.OpDef.AttrDef, new: op_def_pb2.OpDef.AttrDef) -> Iterator[str]:
    if old.type != new.type:
        yield f"has the new type {new.type}"
    if _has_default(old) and old.default_value != new.default_value:
        yield "has a new default"
    if new.has_minimum and not (old.has_minimum and old.minimum >= new.minimum):
        yield f"must be {new.minimum} or more"
    if new.HasField("allowed_values"):
        kind = new.allowed_values.list
        removed = _allowed(old) - _allowed(new)
        if removed or not old.HasField("allowed_values"):
            yield f"no longer allows {sorted(removed) or 'all values'}, but only {kind}"


def _has_default(attr: op_def_pb2.OpDef.AttrDef) -> bool:
    return attr.HasField("default_value")


def _allowed(attr: op_def_pb2.OpDef.AttrDef) -> set:
    values = attr.allowed_values.list
    return {*values.type, *values.s}
