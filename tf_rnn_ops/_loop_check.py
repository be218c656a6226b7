"""Compares a recurrent loop of a graph with the function that is to replace it, on random inputs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

_AttrValue = tf.compat.v1.AttrValue

# The largest difference, relative to the largest magnitude of a tensor.
_TOLERANCES = {tf.float64: 1e-9, tf.float32: 1e-4, tf.float16: 2e-2, tf.bfloat16: 1e-1}
# (time, batch) of each comparison, where the graph does not determine them.
_SIZES = ((7, 3), (1, 1))
_MAX_ELEMENTS = 1 << 26
# The attribute of a loop with the function that computes what it does by the steps of the graph, which has no loop.
_STEPS = "_tf_rnn_ops_steps"


class Sizes(NamedTuple):
    """Sizes of a loop. -1: the graph does not determine it."""

    time: int
    batch: int
    features: int


class _UnknownError(Exception):
    """A loop cannot be run. The message tells why."""


def why_different(graph: Any, nodes: Sequence[Any], loop: Any, roles: Sequence[str], sizes: Sizes, layer: Any) -> str:
    """Runs a loop and the function that is to replace it, and returns how they differ, or "" if they do not.

    Args:
      graph: the graph, or a graph with the library of functions.
      nodes: the nodes of the graph or function that contains the loop.
      loop: the While.
      roles: what each variable of the loop is for, and its shape, as in cc/tensorflow/loops/convert_graph.cc.
      sizes: the sizes of the loop.
      layer: the function.
    """
    try:
        for time, batch in _SIZES:
            drawn = sizes._replace(
                time=time if sizes.time < 0 else sizes.time, batch=batch if sizes.batch < 0 else sizes.batch
            )
            check = _Check(graph, {each.name: each for each in nodes}, loop, roles, drawn)
            if not check.agrees(layer):
                return "the op has other results"
    except _UnknownError as error:
        return f"it cannot be compared with the op: {error}"
    except (tf.errors.OpError, ValueError, TypeError, OverflowError, MemoryError) as error:
        return f"it cannot be compared with the op: {' '.join(str(error).split())[:300]}"
    return ""


class _Check:
    """A graph with a loop and its replacement, on equal inputs."""

    def __init__(self, graph: Any, nodes: Mapping[str, Any], loop: Any, roles: Sequence[str], sizes: Sizes) -> None:
        self._library = {each.signature.name: each for each in graph.library.function}
        self._nodes, self._loop, self._sizes = nodes, loop, sizes
        self._roles, self._shapes = zip(*(each.split(":") for each in roles), strict=True)
        self._rng = np.random.default_rng(0)
        self._graph = tf.compat.v1.GraphDef()
        self._graph.versions.CopyFrom(graph.versions)
        self._feeds: dict[str, Any] = {}
        self._assignments: list[str] = []

    def agrees(self, layer: Any) -> bool:
        """Returns whether the loop and a function have the same results."""
        self._add_functions(layer)
        pairs = list(self._results(layer))
        with tf.Graph().as_default() as graph:
            tf.graph_util.import_graph_def(self._graph, name="")
            config = tf.compat.v1.ConfigProto(device_count={"GPU": 0}, allow_soft_placement=True)
            with tf.compat.v1.Session(graph=graph, config=config) as session:
                session.run(self._assignments, self._feeds)
                results = session.run(pairs, self._feeds)
        return all(_are_equal(actual, expected) for actual, expected in results)

    def _add_functions(self, layer: Any) -> None:
        """Adds the layer, and the functions of the loop, which call no others."""
        names = {self._loop.attr[name].func.name for name in ("body", "cond", _STEPS) if name in self._loop.attr}
        self._graph.library.function.extend([layer, *(self._library[name] for name in names)])

    def _add(self, op: str, inputs: Sequence[str] = (), **attributes: Any) -> str:
        """Adds a node and returns its name. An attribute is a dtype, a shape, an int or an AttrValue."""
        node = self._graph.node.add(name=f"node_{len(self._graph.node)}", op=op, input=inputs)
        for name, value in attributes.items():
            if isinstance(value, tf.DType):
                value = _AttrValue(type=value.as_datatype_enum)
            elif isinstance(value, tf.TensorShape):
                value = _AttrValue(shape=value.as_proto())
            elif isinstance(value, int):
                value = _AttrValue(i=value)
            node.attr[name].CopyFrom(value)
        return node.name

    def _feed(self, value: Any) -> str:
        """Adds a placeholder with a value."""
        name = self._add("Placeholder", dtype=tf.as_dtype(value.dtype))
        self._feeds[f"{name}:0"] = value
        return name

    def _results(self, layer: Any) -> Iterator[tuple[str, str]]:
        """Adds the loop and the layer, and yields the names of the tensors that must be equal."""
        types = [tf.as_dtype(each) for each in self._loop.attr["T"].list.type]
        loop_inputs, layer_inputs = zip(*map(self._inputs, range(len(types))), strict=True)
        signature = layer.signature
        results = [tf.as_dtype(each.type) for each in signature.output_arg]
        call = self._call(
            signature.name, layer_inputs, [tf.as_dtype(each.type) for each in signature.input_arg], results
        )
        loop = self._add_loop(loop_inputs, types)
        for i, (role, dtype) in enumerate(zip(self._roles, types, strict=True)):
            pair = f"{call}:{i}", f"{loop}:{i}"
            if role in ("inputs", "mask", "outputs"):
                items = tf.as_dtype(self._source(i).attr["element_dtype"].type)
                pair = self._stack(pair[0], items), self._stack(pair[1], items)
            if role == "outputs":
                yield f"{call}:{len(types)}", pair[1]
            if dtype != tf.resource:
                yield pair

    def _call(self, name: str, inputs: Sequence[str], inputs_types: list[tf.DType], types: list[tf.DType]) -> str:
        """Adds a call of a function, and returns its name."""

        def list_of(dtypes: list[tf.DType]) -> Any:
            return _AttrValue(list=_AttrValue.ListValue(type=[each.as_datatype_enum for each in dtypes]))

        function = _AttrValue()
        function.func.name = name
        return self._add("StatefulPartitionedCall", inputs, Tin=list_of(inputs_types), Tout=list_of(types), f=function)

    def _add_loop(self, inputs: Sequence[str], types: list[tf.DType]) -> str:
        """Adds the loop, or the steps of the graph that it stands for, and returns its name."""
        if _STEPS in self._loop.attr:
            return self._call(self._loop.attr[_STEPS].func.name, inputs, types, types)
        loop = self._graph.node.add(name="loop", op=self._loop.op, input=inputs)
        for name in ("T", "cond", "body", "output_shapes", "parallel_iterations"):
            if name in self._loop.attr:
                loop.attr[name].CopyFrom(self._loop.attr[name])
        return str(loop.name)

    def _stack(self, items: str, dtype: tf.DType) -> str:
        """Adds the tensor of a tensor list, and returns its name."""
        shape = self._feed(np.int32(-1))
        return self._add("TensorListStack", [items, shape], element_dtype=dtype, num_elements=-1) + ":0"

    def _source(self, i: int) -> Any:
        """Returns the node with the initial value of a variable. It may be empty."""
        name = self._loop.input[i].partition(":")[0]
        while name in self._nodes and self._nodes[name].op == "Identity":
            name = self._nodes[name].input[0].partition(":")[0]
        return self._nodes.get(name, tf.compat.v1.NodeDef())

    def _inputs(self, i: int) -> tuple[str, str]:
        """Adds the initial value of a variable, and returns its names in the inputs of the loop and of the layer."""
        role, source = self._roles[i], self._source(i)
        dtype = tf.as_dtype(self._loop.attr["T"].list.type[i])
        if role in ("inputs", "mask"):
            tensor = self._feed(self._steps(role, source))
            items = self._add(
                "TensorListFromTensor",
                [tensor, self._feed(np.int32(-1))],
                element_dtype=tf.as_dtype(source.attr["element_dtype"].type),
                shape_type=tf.int32,
            )
            # With an Identity between list and loop, `accelerate_graphs` does not replace this loop.
            return self._add("Identity", [items], T=tf.variant), tensor
        if role == "outputs":
            size = self._constant(self._nodes.get(source.input[1].partition(":")[0], tf.compat.v1.NodeDef()))
            number = np.asarray(self._sizes.time if size is None else size, np.int32)
            items = self._add(
                "TensorListReserve",
                [self._feed(np.int32(-1)), self._feed(number)],
                element_dtype=tf.as_dtype(source.attr["element_dtype"].type),
                shape_type=tf.int32,
            )
            return items, items
        name = self._variable(i) if dtype == tf.resource else self._feed(self._value(i, role, source, dtype))
        return name, name

    def _constant(self, node: Any) -> np.ndarray | None:
        return tf.make_ndarray(node.attr["value"].tensor) if node.op == "Const" else None

    def _steps(self, role: str, source: Any) -> np.ndarray:
        """Returns random steps of sequences, [time, batch, features], or of a mask, [time, batch, 1]."""
        time, batch, features = self._sizes
        if role == "mask":
            return self._random([time, batch, 1], tf.bool)
        if features < 0:
            raise _UnknownError("the number of features is not in the file")
        return self._random([time, batch, features], tf.as_dtype(source.attr["element_dtype"].type))

    def _value(self, i: int, role: str, source: Any, dtype: tf.DType) -> np.ndarray:
        """Returns the initial value of a variable that is not a list: that of the file, or a random one."""
        constant = self._constant(source)
        if constant is not None:
            return constant
        if role in ("counter", "time"):
            return np.asarray(self._sizes.time if role == "time" else 0, dtype.as_numpy_dtype)
        if role == "lengths":
            return self._random([self._sizes.batch], dtype)
        if self._shapes[i] == "?":
            raise _UnknownError(f"the shape of input {i} is not in the file")
        shape = [int(each) for each in filter(None, self._shapes[i].split(","))]
        if role in ("state", "zero") and shape[1] < 0:
            raise _UnknownError("the number of units is not in the file")
        shape = [self._sizes.batch if each < 0 else each for each in shape]
        return np.zeros(shape, dtype.as_numpy_dtype) if role == "zero" else self._random(shape, dtype)

    def _variable(self, i: int) -> str:
        """Adds a variable of random values."""
        shape, dtype = self._shape_of_variable(i)
        if not shape.is_fully_defined():
            raise _UnknownError(f"the shape of the variable of input {i} is not in the file")
        name = self._add("VarHandleOp", dtype=dtype, shape=shape, shared_name=_AttrValue(s=f"variable_{i}".encode()))
        value = self._feed(self._random(shape.as_list(), dtype))
        self._assignments.append(self._add("AssignVariableOp", [name, value], dtype=dtype))
        return name

    def _shape_of_variable(self, i: int) -> tuple[tf.TensorShape, tf.DType]:
        """Returns the shape and type of a TensorFlow variable, from the node that makes it or that reads it."""
        source = self._source(i)
        if source.op == "VarHandleOp":
            return tf.TensorShape(source.attr["shape"].shape), tf.as_dtype(source.attr["dtype"].type)
        body = self._library[self._loop.attr["body"].func.name]
        argument = body.signature.input_arg[i].name
        reads = [each for each in body.node_def if each.op == "ReadVariableOp" and each.input[0] == argument]
        shapes = [shape for each in reads for shape in each.attr["_output_shapes"].list.shape]
        if not shapes:
            return tf.TensorShape(None), tf.float32
        return tf.TensorShape(shapes[0]), tf.as_dtype(reads[0].attr["dtype"].type)

    def _random(self, shape: Sequence[int], dtype: tf.DType) -> np.ndarray:
        """Returns random values. Those of weights keep states in [-1, 1], if their activations do."""
        if np.prod(shape, dtype=float) > _MAX_ELEMENTS:
            raise _UnknownError(f"it needs a tensor of shape {list(shape)}")
        if dtype.is_bool:
            return self._rng.random(shape) < 0.6
        if dtype.is_integer:
            return self._rng.integers(0, self._sizes.time + 1, shape).astype(dtype.as_numpy_dtype)
        scale = max(1, shape[0]) ** -0.5 if len(shape) == 2 else 1
        return np.asarray(self._rng.standard_normal(shape) * scale, dtype.as_numpy_dtype)


def _are_equal(actual: np.ndarray, expected: np.ndarray) -> bool:
    """Returns whether two arrays are equal up to rounding."""
    if (actual.shape, actual.dtype) != (expected.shape, expected.dtype):
        return False
    tolerance = _TOLERANCES.get(tf.as_dtype(expected.dtype))
    if tolerance is None:
        return np.array_equal(actual, expected)
    actual, expected = actual.astype(np.float64), expected.astype(np.float64)
    finite = np.abs(expected[np.isfinite(expected)])
    return np.allclose(actual, expected, rtol=0, atol=tolerance * finite.max(initial=0), equal_nan=True)
