"""Reports which recurrent layers of a model run on the op, and why others fall back to Keras."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import keras

from tf_rnn_ops import _tables
from tf_rnn_ops._keras import acceleration, decision, description, environment, kerases, private_names
from tf_rnn_ops._keras.description import Unknown
from tf_rnn_ops._keras.layers.block_cell import BlockCell
from tf_rnn_ops._keras.layers.cudnn_rnn import CudnnRNN
from tf_rnn_ops._keras.layers.keras_layers import GRU, LSTM, SimpleRNN

__all__ = ["Explanation", "LayerExplanation", "explain"]

_OUR_LAYERS = (GRU, LSTM, SimpleRNN)
_ALWAYS_ON_OP = (CudnnRNN, BlockCell)


@dataclasses.dataclass(frozen=True)
class LayerExplanation:
    """How one recurrent layer or cell runs.

    Attributes:
      layer: the name of the layer, with the names of its parent layers, such as "bidirectional/forward_lstm".
      kind: the name of its class.
      inference: how it runs in inference: "op", on an op of this package, or "Keras", falling back to Keras.
      training: how it runs in training, likewise.
      reasons: why it falls back to Keras, in inference or in training, and what to change.
    """

    layer: str
    kind: str
    inference: str
    training: str
    reasons: tuple[str, ...]


class Explanation(tuple[LayerExplanation, ...]):
    """The result of `explain`: a tuple of one `LayerExplanation` per recurrent layer or cell. Prints as a table."""

    __slots__ = ()

    def __repr__(self) -> str:
        fallbacks = sum("Keras" in (each.inference, each.training) for each in self)
        return f"<Explanation: {fallbacks} of {len(self)} recurrent layers may fall back to Keras>"

    def __str__(self) -> str:
        if not self:
            return "no recurrent layers or cells"
        reasons = list(dict.fromkeys(reason for each in self for reason in each.reasons))
        rows = [("layer", "class", "inference", "training", "why")]
        for each in self:
            numbers = ", ".join(str(reasons.index(reason) + 1) for reason in each.reasons)
            rows.append((each.layer, each.kind, each.inference, each.training, numbers))
        return "\n".join([*_tables.aligned(rows), *_tables.numbered(reasons)])


def explain(model: keras.layers.Layer) -> Explanation:
    """Prints and returns how the recurrent layers of a model run, in inference and in training, and why.

    In the table, "op" means that a layer runs on an op of this package, and "Keras" that it falls back to Keras.

    `explain` inspects the configuration of the layers, including those in nested models and in wrappers such as
    `Bidirectional`. A fallback that depends on the arguments of a call, such as a mask with one value per unit, is not
    shown, but logged when it happens. Layers that a model creates in its first call are shown after that call. The
    methods `call` and `inner_loop` of subclasses are not inspected. Layers and cells that Keras does not track, such as
    those that a `Lambda` calls, are not shown.

    LSTMCell, GRUCell and SimpleRNNCell are shown if they are not the cell of a layer that is shown, but are called one
    step at a time: by the model itself, or by another cell.

    Args:
      model: a model or layer of Keras 3 or Keras 2 (`tf_keras`).

    Returns:
      An `Explanation`, a tuple with one `LayerExplanation` for each LSTM, GRU, SimpleRNN, RNN, ConvLSTM and cell of
      Keras, and for each layer of `tf_rnn_ops.layers`. A shared layer appears once.

    Raises:
      TypeError: if `model` is not a Keras model or layer.

    Examples:
      >>> first, second = keras.layers.LSTM(4, name="first"), keras.layers.GRU(4, activation="softmax", name="second")
      >>> model = keras.Sequential([first, second])
      >>> with tf_rnn_ops.accelerate_keras():
      ...     explanation = explain(model)
      layer   class  inference  training  why
      first   LSTM   op         op
      second  GRU    Keras      Keras     1
      1. activation='softmax': set it to one that docs/guides/keras.md lists, such as tanh
      >>> [each.training for each in explanation]
      ['op', 'Keras']
    """
    if not isinstance(model, kerases.classes("layer")):
        raise TypeError(f"model must be a Keras model or layer, but is of type {type(model).__name__}")
    explanation = explanation_of(model)
    print(explanation)
    return explanation


def explanation_of(model: Any) -> Explanation:
    """Returns how the recurrent layers of a model run."""
    of_model = _reasons_of_model(model)
    found = {id(layer): (name, layer) for name, layer in reversed(list(_recurrent_layers(model)))}
    return Explanation(_explain_layer(name, layer, of_model) for name, layer in reversed(found.values()))


def _recurrent_layers(layer: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yields (name, layer) of the recurrent layers and cells in a layer or model, including itself."""
    parent = layer
    if isinstance(layer, kerases.classes("recurrent")):
        yield "/".join(path) or layer.name, layer
        parent = layer.cell  # which may call other cells
        if not isinstance(parent, kerases.classes("layer")) or _runs_its_cells(layer):
            return
        path = path or (layer.name,)
    elif isinstance(layer, kerases.classes("cells") + _ALWAYS_ON_OP):
        yield "/".join(path) or layer.name, layer
    for each in _layers_in(parent):
        yield from _recurrent_layers(each, (*path, each.name))


def _runs_its_cells(layer: Any) -> bool:
    """Returns whether a layer runs each of several cells over all steps."""
    described = description.describe_layer(layer)
    is_stack = not isinstance(described, Unknown) and len(described) > 1
    return is_stack and not decision.against_layer(described, training=False)


def _layers_in(layer: Any) -> Sequence[Any]:
    """Returns the layers directly in a layer or model."""
    flatten = getattr(layer, private_names.FLATTEN_LAYERS, None)
    return getattr(layer, "layers", ()) if flatten is None else flatten(include_self=False, recursive=False)


def _reasons_of_model(model: Any) -> list[str]:
    """Returns why all layers of a model fall back to Keras."""
    # In Keras 2, a model that is not compiled has no `jit_compile`, or None.
    is_compiled = isinstance(model, kerases.classes("model")) and getattr(model, "compiled", True) and model.jit_compile
    return list(environment.reasons_against_the_op(bool(is_compiled)))


def _explain_layer(name: str, layer: Any, of_model: Sequence[str]) -> LayerExplanation:
    """Returns the explanation of a layer or cell, given the reasons that apply to all layers of its model."""
    kind = type(layer).__name__
    if isinstance(layer, _ALWAYS_ON_OP):
        return LayerExplanation(name, kind, "op", "op", ())
    is_cell = isinstance(layer, kerases.classes("cells"))
    described: Any = (description.describe_cell if is_cell else description.describe_layer)(layer)
    against: Any = decision.against_cell if is_cell else decision.against_layer
    is_out_of_reach = isinstance(described, Unknown) and described.is_out_of_reach
    outer = [] if is_out_of_reach else [*of_model, *_not_accelerated(layer)]
    inference, training = ((*outer, *against(described, training)) for training in (False, True))
    reasons = tuple(dict.fromkeys((*inference, *training)))
    return LayerExplanation(name, kind, _path(inference), _path(training), reasons)


def _path(reasons: Sequence[str]) -> str:
    return "Keras" if reasons else "op"


def _not_accelerated(layer: Any) -> Iterator[str]:
    """Yields why a layer falls back to Keras if the program has not called accelerate_keras."""
    if not acceleration.is_accelerated() and not isinstance(layer, _OUR_LAYERS):
        yield "Keras is not accelerated: call tf_rnn_ops.accelerate_keras()"
