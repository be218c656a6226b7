"""The ops of a graph, the definitions of ours, and TensorFlow's rule for what may change in them.

A graph that an older definition made must mean the same under the newer one. TensorFlow holds its own ops to that rule
(tensorflow/core/framework/op_def_util.h, OpDefCompatible and OpDefAttrDefaultsUnchanged).
"""

from collections.abc import Iterator

import tensorflow as tf
from google.protobuf import text_format  # type: ignore[import-untyped]
from tensorflow.core.framework import op_def_pb2
from tensorflow.python.framework import op_def_registry

from tf_rnn_ops import _library

_NAMESPACE = "TfRnnOps>"


def ops_of(graph_def) -> list[str]:
    """Returns the kinds of the ops in a graph and its functions, each as often as it occurs."""
    functions = [node.op for function in graph_def.library.function for node in function.node_def]
    return [*functions, *(node.op for node in graph_def.node)]


def ops_when_called(function, *arguments) -> list[str]:
    """Returns the kinds of the ops that a function of tensors traces."""
    return ops_of(tf.function(function, autograph=False).get_concrete_function(*arguments).graph.as_graph_def())


def current() -> op_def_pb2.OpList:
    """Returns the definitions of all of our ops that are registered, without their documentation."""
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
    """Returns definitions as they are kept."""
    return text_format.MessageToString(op_list)


def from_text(text: str) -> op_def_pb2.OpList:
    """Returns definitions that `to_text` has written."""
    return text_format.Parse(text, op_def_pb2.OpList())


def incompatibilities(old: op_def_pb2.OpList, new: op_def_pb2.OpList) -> list[str]:
    """Returns a sentence for each change that a graph of the old definitions would feel."""
    new_ops = {op.name: op for op in new.op}
    found = []
    for op in old.op:
        if op.name in new_ops:
            found += [f"{op.name}: {each}" for each in _of_op(op, new_ops[op.name])]
        else:
            found.append(f"{op.name} is no more")
    return found


def _of_op(old: op_def_pb2.OpDef, new: op_def_pb2.OpDef) -> Iterator[str]:
    if list(old.input_arg) != list(new.input_arg):
        yield "its inputs are others"
    if list(old.output_arg) != list(new.output_arg):
        yield "its outputs are others"
    if old.is_stateful != new.is_stateful:
        yield "it is stateful, or no more"
    new_attrs = {attr.name: attr for attr in new.attr}
    for attr in old.attr:
        if attr.name in new_attrs:
            yield from (f"{attr.name} {each}" for each in _of_attr(attr, new_attrs.pop(attr.name)))
        else:
            yield f"{attr.name} is no more"
    yield from (f"{name} is new and has no default" for name, attr in new_attrs.items() if not _has_default(attr))


def _of_attr(old: op_def_pb2.OpDef.AttrDef, new: op_def_pb2.OpDef.AttrDef) -> Iterator[str]:
    if old.type != new.type:
        yield f"is of type {new.type}"
    if _has_default(old) and old.default_value != new.default_value:
        yield "has another default"
    if new.has_minimum and not (old.has_minimum and old.minimum >= new.minimum):
        yield f"must be {new.minimum} or more"
    if new.HasField("allowed_values"):
        kind = new.allowed_values.list
        refused = _allowed(old) - _allowed(new)
        if refused or not old.HasField("allowed_values"):
            yield f"may no more be {sorted(refused) or 'anything'}, but one of {kind}"


def _has_default(attr: op_def_pb2.OpDef.AttrDef) -> bool:
    return attr.HasField("default_value")


def _allowed(attr: op_def_pb2.OpDef.AttrDef) -> set:
    values = attr.allowed_values.list
    return {*values.type, *values.s}
