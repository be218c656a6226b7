"""Converts SavedModels and frozen graphs, whose recurrent loops then run on ops of this package.

The op library finds the loops, and makes a function for each. This module compares each function with its loop, and
reads and writes the files.
"""

import ctypes
import dataclasses
import os
import pathlib
import shutil
import tempfile
from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf.control_flow_pb2 import CondContextDef, WhileContextDef
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from tf_rnn_ops import _constant_weights, _library, _loop_check, _tables

_MODEL_FILE = "saved_model.pb"
# Of the graph before the conversion. A SavedModel may lack it.
_FINGERPRINT = "fingerprint.pb"
_LAYERS = {
    "lstm": "LSTM",
    "gru": "GRU",
    "gru_reset_before": "GRU",
    "rnn_tanh": "SimpleRNN",
    "rnn_relu": "SimpleRNN",
    "rnn": "SimpleRNN",
}


@dataclasses.dataclass(frozen=True)
class LoopConversion:
    """What became of a recurrent loop in a file.

    Attributes:
      loop: the name of the loop's node, or "" if a function could not be read.
      function: the name of the function that contains it, or "" for the graph.
      layer: what the loop is: "LSTM", "GRU" or "SimpleRNN", or, of several cells, "LSTM, GRU"; or "" if not known.
      why_not: why it stays as it is; or "" if it is replaced by the op.
    """

    loop: str
    function: str
    layer: str
    why_not: str


class Conversion(tuple[LoopConversion, ...]):
    """The result of `convert`: a tuple of one `LoopConversion` per recurrent loop. Prints as a table."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<Conversion: {sum(not each.why_not for each in self)} of {len(self)} recurrent loops replaced>"

    def __str__(self) -> str:
        if not self:
            return "no recurrent loops"
        reasons = list(dict.fromkeys(each.why_not for each in self if each.why_not))
        # Keras 2 writes a layer into many functions.
        counts: dict[tuple[str, str, str], int] = {}
        for each in self:
            key = (each.loop, each.layer, each.why_not)
            counts[key] = counts.get(key, 0) + 1
        rows = [("loop", "functions", "layer", "runs on", "why")]
        for (loop, layer, why_not), count in counts.items():
            why = str(reasons.index(why_not) + 1) if why_not else ""
            rows.append((loop, str(count), layer, "TensorFlow" if why_not else "op", why))
        return "\n".join([*_tables.aligned(rows), *_tables.numbered(reasons)])


def convert(source: Any, output: Any = None, *, weight_format: str | None = None) -> Conversion:
    """Writes a SavedModel or frozen graph again, with an op in place of each LSTM, GRU and SimpleRNN.

    Keras 2 and 3 write each such layer as a loop over the steps, as does `dynamic_rnn` of TensorFlow 1. With
    `unroll=True` and in `static_rnn`, the steps follow each other without a loop, and count as one. A loop is
    replaced if each node of its step is understood, and if the op has the results of the loop for random inputs,
    weights, states and masks, which `convert` compares. The results of the new model are those of the old one up to
    rounding. It runs in each program that loads the op library, also without Python, and can be trained as before where
    this package is imported, but for LSTMs that clip their cell state, of which the op has another gradient.

    Everything else stays as it is: variables, signatures, assets, and all other nodes and functions. The file
    fingerprint.pb, which describes the old graph, is left out. The files are read as data: `convert` runs nothing of
    the model but its recurrent loops, so the model need not be trusted. `accelerate_graphs` does the same in memory.

    Args:
      source: the path of a SavedModel's folder, or of a file with a serialized GraphDef.
      output: the path of the new folder or file, which must not exist. None: nothing is written.
      weight_format: "float32", "bfloat16" or "int8": the op packs its weights once for all calls, in this format (see
        `tf_rnn_ops.freeze`). None: in each call.

    Returns:
      A `Conversion`, a tuple with one `LoopConversion` for each recurrent loop. If no loop can be replaced, the output
      equals the source.

    Raises:
      TypeError: if a path is not a path.
      ValueError: if `source` is not such a file or folder, `output` is in it, or `weight_format` is not one of these.
      FileExistsError: if `output` exists.

    Examples:
      >>> tf.saved_model.save(keras.Sequential([keras.Input([10, 3]), keras.layers.LSTM(4)]), "exported")
      >>> convert("exported", "converted")  # Keras saves the model in two functions.
      <Conversion: 2 of 2 recurrent loops replaced>
    """
    formats = (None, *_constant_weights.FORMATS)
    if weight_format not in formats:
        raise ValueError(f"weight_format must be one of {', '.join(map(repr, formats))}, but is {weight_format!r}")
    source = _path("source", source)
    if output is not None:
        output = _path("output", output)
        if os.path.lexists(output):
            raise FileExistsError(f"output must not exist, but {str(output)!r} does")
        if output.resolve().is_relative_to(source.resolve()):
            raise ValueError(f"output must not be in source, but is {str(output)!r}")
    model = _read(source)
    loops: list[LoopConversion] = []
    for graph in _graphs_of(model):
        loops += _convert_graph(graph, weight_format)
    if isinstance(model, SavedModel):
        for meta_graph in model.meta_graphs:
            _remove_contexts(meta_graph)
    if output is not None:
        _write(model, source, output)
    return Conversion(sorted(loops, key=lambda each: (each.loop, each.function)))


# ---------------------------------------------------------------- files


def _path(argument: str, value: Any) -> pathlib.Path:
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{argument} must be a path, but is of type {type(value).__name__}")
    return pathlib.Path(value)


def _read(source: pathlib.Path) -> Any:
    """Returns the SavedModel in a folder, or the graph in a file."""
    expected = f"source must be the folder of a SavedModel, with the file {_MODEL_FILE}, or a file with a GraphDef"
    file, model = (source / _MODEL_FILE, SavedModel()) if source.is_dir() else (source, tf.compat.v1.GraphDef())
    if not file.is_file():
        raise ValueError(f"{expected}, but {str(file)!r} does not exist")
    try:
        model.ParseFromString(file.read_bytes())
    except DecodeError as error:
        raise ValueError(f"{expected}, but {str(file)!r} cannot be read: {error}") from None
    if not any(each.node or each.library.function for each in _graphs_of(model)):
        raise ValueError(f"{expected}, but {str(file)!r} contains no graph")
    return model


def _graphs_of(model: Any) -> list[Any]:
    return [model] if isinstance(model, tf.compat.v1.GraphDef) else [each.graph_def for each in model.meta_graphs]


def _write(model: Any, source: pathlib.Path, output: pathlib.Path) -> None:
    """Writes a model at once: `output` is complete, or does not exist."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{output.name}_") as folder:
        new = pathlib.Path(folder, output.name)
        file = new
        if isinstance(model, SavedModel):
            shutil.copytree(source, new, ignore=shutil.ignore_patterns(_MODEL_FILE, _FINGERPRINT))
            file = new / _MODEL_FILE
        file.write_bytes(model.SerializeToString(deterministic=True))
        new.rename(output)


# ---------------------------------------------------------------- graphs


def _remove_contexts(meta_graph: Any) -> None:
    """Removes the descriptions of loops of TensorFlow 1 that are gone, which would fail when Python loads the graph."""
    names = {each.name for each in meta_graph.graph_def.node}
    collections = meta_graph.collection_def
    for key, kind in (("while_context", WhileContextDef), ("cond_context", CondContextDef)):
        if key not in collections:
            continue
        contexts = collections[key].bytes_list.value
        kept = [each for each in contexts if _values_of(kind.FromString(each)) <= names]
        del contexts[:]
        contexts.extend(kept)
        if not kept:
            del collections[key]


def _values_of(context: Any) -> set[str]:
    """Returns the names of the nodes in the description of a loop or condition."""
    nested = (getattr(each, each.WhichOneof("ctxt")) for each in context.nested_contexts)
    values = (name.lstrip("^").partition(":")[0] for name in context.values_def.values)
    return set(values).union(*map(_values_of, nested))


class _Loop(ctypes.Structure):
    """TfRnnOps_Loop of cc/tensorflow/loops/convert_graph.cc."""

    _fields_ = (
        *((name, ctypes.c_char_p) for name in ("function", "node", "mode", "why_not")),
        ("layer", ctypes.c_void_p),
        ("layer_size", ctypes.c_int64),
        ("graph", ctypes.c_void_p),
        ("graph_size", ctypes.c_int64),
        ("roles", ctypes.c_char_p),
        *((name, ctypes.c_int64) for name in ("time", "batch", "features")),
    )


_ACCEPT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Loop))
_FINISH = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


def _convert_graph(graph: Any, weight_format: str | None) -> list[LoopConversion]:
    """Replaces loops in a graph and its functions, and returns what became of each."""
    loops: list[LoopConversion] = []
    converted: list[bytes] = []
    errors: list[BaseException] = []

    def accept(pointer: Any) -> bool:
        found = pointer.contents
        try:
            why_not = found.why_not.decode() or _why_different(graph, found)
        except BaseException as error:  # C cannot raise it.
            errors.append(error)
            return False
        loop, function, mode = (each.decode() for each in (found.node, found.function, found.mode))
        layer = "" if found.why_not else ", ".join(_LAYERS[each] for each in mode.split(", "))
        loops.append(LoopConversion(loop, function, layer, why_not))
        return not why_not

    def finish(address: int, size: int) -> None:
        converted.append(ctypes.string_at(address, size))

    serialized = graph.SerializeToString()
    function = ctypes.CDLL(str(_library.LIBRARY_PATH)).TfRnnOps_ConvertGraph
    function.restype = ctypes.c_char_p
    problem = function(serialized, ctypes.c_int64(len(serialized)), _ACCEPT(accept), _FINISH(finish)).decode()
    if errors:
        raise errors[0]
    if problem:
        raise ValueError(f"source contains a graph that cannot be read: {problem}")
    if any(not each.why_not for each in loops):
        graph.ParseFromString(converted[0])
    if weight_format is not None:
        _constant_weights.mark_graph(graph, weight_format)
    return loops


def _why_different(graph: Any, found: Any) -> str:
    """Returns why a loop cannot be replaced although it is recognized, or ""."""
    if found.graph_size:
        graph = tf.compat.v1.GraphDef.FromString(ctypes.string_at(found.graph, found.graph_size))
    function, name = found.function.decode(), found.node.decode()
    nodes = graph.node
    if function:
        nodes = next(each.node_def for each in graph.library.function if each.signature.name == function)
    loop = next(each for each in nodes if each.name == name)
    layer = tf.compat.v1.GraphDef().library.function.add()
    layer.ParseFromString(ctypes.string_at(found.layer, found.layer_size))
    sizes = _loop_check.Sizes(found.time, found.batch, found.features)
    return _loop_check.why_different(graph, nodes, loop, found.roles.decode().split(), sizes, layer)
