"""What a recurrent layer or cell of Keras is: a description, from which all else follows. It knows no op.

A program may change a layer at any time, so that it is described at each use.
"""

import dataclasses
import operator
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tf_rnn_ops._keras import own_code, private_names


class Kind(NamedTuple):
    """What all cells of a class have in common.

    Attributes:
      name: "lstm", "gru" or "simple_rnn".
      gates: the number of gates. A kernel is [features, gates * units].
      states: the number of states.
      activations: the arguments that are activations.
    """

    name: str
    gates: int
    states: int
    activations: tuple[str, ...]


KINDS = {
    keras.layers.LSTMCell: Kind("lstm", 4, 2, ("activation", "recurrent_activation")),
    keras.layers.GRUCell: Kind("gru", 3, 1, ("activation", "recurrent_activation")),
    keras.layers.SimpleRNNCell: Kind("simple_rnn", 1, 1, ("activation",)),
}
CELLS = tuple(KINDS)
_CONVOLUTIONAL = (keras.layers.ConvLSTM1D, keras.layers.ConvLSTM2D, keras.layers.ConvLSTM3D)

# The functions of each activation, by its name in Keras and in the op.
ACTIVATIONS = {
    "tanh": (keras.activations.tanh, keras.ops.tanh, tf.tanh, tf.nn.tanh),
    "sigmoid": (keras.activations.sigmoid, keras.ops.sigmoid, tf.sigmoid, tf.nn.sigmoid),
    "relu": (keras.activations.relu, keras.ops.relu, tf.nn.relu),
    "linear": (keras.activations.linear,),
    "hard_sigmoid": (keras.activations.hard_sigmoid, keras.ops.hard_sigmoid),
}

# Keras up to 3.7 draws one dropout mask for all gates.
_HAS_MASKS_OF_GATES = private_names.DROPOUT_MASK_COUNT in keras.layers.LSTMCell.__init__.__code__.co_names
# By cell, its weights and the attributes that belong to them when they were last found to fit.
_fitting: weakref.WeakKeyDictionary[Any, tuple[Any, ...]] = weakref.WeakKeyDictionary()


class Unknown(NamedTuple):
    """A cell that may compute anything, or a layer with such a cell.

    Attributes:
      cls: the class of the cell.
      reason: why it is unknown, and what to change.
      is_out_of_reach: whether a layer of this class never runs on this package.
      surprises: of a layer, see `Cell`.
    """

    cls: type
    reason: str
    is_out_of_reach: bool = False
    surprises: tuple[str, ...] = ()


@dataclasses.dataclass(slots=True)
class Cell:
    """A cell of Keras.

    Attributes:
      kind: see `Kind`.
      units: the size of a state.
      dtype: the dtype in which it computes.
      activations: the functions that it applies, by argument.
      resets_before: whether a GRU applies the reset gate before the matrix product.
      drops_inputs: whether it applies dropout to its inputs in training.
      drops_states: whether it applies recurrent dropout in training.
      recurrent_dropout: its rate, also if it is not applied.
      has_mask_per_gate: whether each gate has dropout masks of its own.
      surprises: why it may compute something else than these attributes say, and what to change.
      surprises_in_training: likewise, in training only.
    """

    kind: Kind
    units: int
    dtype: str
    activations: Mapping[str, Any]
    resets_before: bool
    drops_inputs: bool
    drops_states: bool
    recurrent_dropout: float
    has_mask_per_gate: bool
    surprises: tuple[str, ...]
    surprises_in_training: tuple[str, ...]


@dataclasses.dataclass(slots=True)
class Layer:
    """A layer that runs a cell over all steps of sequences.

    Attributes:
      cell: its cell.
      go_backwards: whether it processes the steps from last to first.
      returns_sequences: whether its output has all steps.
      is_unrolled: whether Keras unrolls the loop over the steps.
      zeroes_masked_steps: whether the output is zero at masked steps.
      surprises: see `Cell`.
    """

    cell: Cell
    go_backwards: bool
    returns_sequences: bool
    is_unrolled: bool
    zeroes_masked_steps: bool
    surprises: tuple[str, ...]


def with_keras_2(*classes: type) -> Any:
    """Returns the classes of layers, and those of Keras 2 with the same names."""
    return (*classes, *own_code.of_keras_2(*(each.__name__ for each in classes)))


def activation_name(activation: Any) -> str | None:
    """Returns the name of an activation in `ACTIVATIONS`, or None if it is another."""
    return next((name for name, functions in ACTIVATIONS.items() if activation in functions), None)


def describe_layer(layer: Any) -> Layer | Unknown:
    """Describes a `keras.layers.RNN`, also one of Keras 2."""
    out_of_reach = _out_of_reach(layer)
    if out_of_reach:
        return out_of_reach
    cell, surprises = describe_cell(layer.cell), tuple(_surprises_of_layer(layer))
    if isinstance(cell, Unknown):
        return cell._replace(is_out_of_reach=False, surprises=surprises)
    return Layer(
        cell=cell,
        go_backwards=layer.go_backwards,
        returns_sequences=layer.return_sequences,
        is_unrolled=layer.unroll,
        zeroes_masked_steps=layer.zero_output_for_mask,
        surprises=surprises,
    )


def describe_cell(cell: Any) -> Cell | Unknown:
    """Describes a cell. It need not be one of Keras."""
    kind = KINDS.get(type(cell))  # a subclass may compute something else
    if kind is None:
        return _out_of_reach(cell) or Unknown(type(cell), _why_unknown(cell))
    drops_inputs, drops_states = _drops(kind, cell.dropout), _drops(kind, cell.recurrent_dropout)
    return Cell(
        kind=kind,
        units=cell.units,
        dtype=cell.compute_dtype,
        activations={each: getattr(cell, each) for each in kind.activations},
        resets_before=kind.name == "gru" and not cell.reset_after,
        drops_inputs=drops_inputs,
        drops_states=drops_states,
        recurrent_dropout=cell.recurrent_dropout,
        has_mask_per_gate=kind.gates > 1 and bool(getattr(cell, private_names.DROPOUT_MASK_COUNT, None)),
        surprises=tuple(_surprises(cell, kind)),
        surprises_in_training=tuple(_surprises_of_dropout(cell, kind)) if drops_inputs or drops_states else (),
    )


def _out_of_reach(layer: Any) -> Unknown | None:
    """Returns a layer or cell whose class never runs on this package, or None if it may."""
    is_of_keras_2 = not isinstance(layer, keras.layers.Layer) and isinstance(layer, own_code.of_keras_2("Layer"))
    if isinstance(layer, with_keras_2(*_CONVOLUTIONAL) if is_of_keras_2 else _CONVOLUTIONAL):
        reason = (
            "the layer is convolutional, and no op computes that: use convolutions in TimeDistributed and then an LSTM"
        )
    elif is_of_keras_2:
        reason = "the layer is from Keras 2 (tf_keras), which is not supported: use Keras 3"
    else:
        return None
    return Unknown(type(getattr(layer, "cell", layer)), reason, is_out_of_reach=True)


def _why_unknown(cell: Any) -> str:
    if type(cell) is not keras.layers.StackedRNNCells:
        return f"the cell is a {type(cell).__name__}: use keras.layers.LSTMCell, GRUCell or SimpleRNNCell"
    if len(cell.cells) == 1:
        return "the layer has a list of one cell: pass the cell itself"
    return "the layer stacks several cells: use one layer per cell"


def _drops(kind: Kind, rate: float) -> bool:
    """Returns whether a cell applies dropout at a rate. LSTM and GRU ignore a rate of 1."""
    return 0 < rate < 1 or (rate == 1 and kind.gates == 1)


def _of_replaced(method: str) -> str:
    return f"{method} is not Keras's own: remove what replaced it"


def _surprises_of_layer(layer: Any) -> Iterator[str]:
    """Yields why a layer may compute something else than its description says."""
    for method in own_code.replaced_in_loop(layer):
        yield _of_replaced(method)
    dtype = getattr(layer.cell, "compute_dtype", None)  # a cell need not be a Keras layer
    if dtype not in (None, layer.compute_dtype):
        yield f"the layer has dtype {layer.compute_dtype}, but its cell {dtype}: use the same dtype for both"


def _surprises(cell: Any, kind: Kind) -> Iterator[str]:
    """Yields why a cell may compute something else than its description says."""
    if not cell.autocast:
        yield "autocast=False: set autocast=True"
    if cell.activity_regularizer is not None:
        yield "the cell has an activity_regularizer: pass it to the layer"
    for method in own_code.replaced_in_step(cell):
        yield _of_replaced(method)
    if cell.built:
        yield from _surprises_of_weights(cell, kind)


def _surprises_of_dropout(cell: Any, kind: Kind) -> Iterator[str]:
    """Yields why a cell with dropout may draw other masks than its description says."""
    for draw in (private_names.DROPOUT_MASK, private_names.RECURRENT_DROPOUT_MASK):
        if not hasattr(cell, draw):
            yield f"this version of Keras has no {draw}: set dropout=0 and recurrent_dropout=0"
    implementation = getattr(cell, private_names.IMPLEMENTATION, None)
    has_masks_of_gates = kind.gates > 1 and implementation == 1 and _HAS_MASKS_OF_GATES
    if getattr(cell, private_names.DROPOUT_MASK_COUNT, None) != (kind.gates if has_masks_of_gates else None):
        yield "implementation was set after the cell was made: pass it to the constructor"


def _surprises_of_weights(cell: Any, kind: Kind) -> Iterator[str]:
    """Yields why the weights of a cell may not be those that its description leads one to expect."""
    dtype, use_bias, reset_after = cell.compute_dtype, cell.use_bias, getattr(cell, "reset_after", None)
    state = cell.kernel, cell.recurrent_kernel, cell.bias, cell.units, use_bias, reset_after, dtype
    known = _fitting.get(cell)
    if known is not None and all(map(operator.is_, state, known)):
        return
    weights = state[:2] if cell.bias is None else state[:3]
    for weight in weights:
        if not _is_weight(weight, cell, dtype):
            yield f"a weight is a {type(weight).__name__}: use a keras.Variable or a tensor of dtype {dtype}"
            return
    width = kind.gates * cell.units
    has_bias = cell.bias is not None if kind.gates == 1 else use_bias
    of_bias = [] if not has_bias else [(2, width) if reset_after else (width,)]
    features, *shapes = (tuple(weight.shape) for weight in weights)
    if [*features[1:], *shapes] != [width, (cell.units, width), *of_bias]:
        yield "the weights do not fit units, use_bias or reset_after: pass these to the constructor"
    elif all(map(is_variable_of_keras, weights)):  # a tensor would keep its graph alive
        _fitting[cell] = state


def is_variable_of_keras(weight: Any) -> bool:
    """Returns whether a weight is a variable of Keras's own class. Up to Keras 3.6, that is not `keras.Variable`."""
    return type(weight).__module__.startswith("keras.") and type(weight).__name__ == "Variable"


def _is_weight(weight: Any, cell: Any, dtype: str) -> bool:
    """Returns whether the step of Keras uses a weight in the dtype in which the cell computes."""
    if is_variable_of_keras(weight):
        is_cast = getattr(weight, private_names.AUTOCAST, False)
        return weight.dtype == dtype or (is_cast and dtype != cell.variable_dtype)
    return isinstance(weight, (tf.Tensor, tf.Variable)) and weight.dtype == dtype
