"""What a recurrent layer or cell of Keras is: a description, from which all else follows. It knows no op.

A program may change a layer at any time, so that it is described at each use.
"""

import dataclasses
import functools
import operator
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from tf_rnn_ops._keras import kerases, own_code
from tf_rnn_ops._keras.table import ACTIVATIONS, Keras, Kind

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
      features: the size of an input, or None if the cell is not built.
      dtype: the dtype in which it computes.
      activations: the functions that it applies, by argument.
      resets_before: whether a GRU applies the reset gate before the matrix product.
      drops_inputs: whether it applies dropout to its inputs in training.
      drops_states: whether it applies recurrent dropout in training.
      draws_in_inference: whether it asks for its dropout masks in inference, too.
      surprises: why it may compute something else than these attributes say, and what to change.
      surprises_in_training: likewise, in training only.
      gate_scale: what to multiply the arguments of `recurrent_activation` by for the activation of the op.
      weights: returns the kernel, [features, gates * units], the recurrent kernel, [units, gates * units], and the
        bias, [gates * units], [2, gates * units] or None, in the dtype in which the cell computes, or in float32 if
        they are stored in it and the cell computes in 16 bits.
      input_masks: takes inputs and `training`, and draws dropout masks; see `Keras`.
      state_masks: takes a state, the number of steps and `training`; likewise.
    """

    kind: Kind
    units: int
    features: int | None
    dtype: str
    activations: Mapping[str, Any]
    resets_before: bool
    drops_inputs: bool
    drops_states: bool
    draws_in_inference: bool
    surprises: tuple[str, ...]
    surprises_in_training: tuple[str, ...]
    gate_scale: float
    weights: Callable[[], tuple[tf.Tensor, tf.Tensor, tf.Tensor | None]]
    input_masks: Callable[..., list[tf.Tensor]]
    state_masks: Callable[..., list[tf.Tensor]]


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


def activation_name(activation: Any) -> str | None:
    """Returns the name of an activation in `ACTIVATIONS`, or None if it is another."""
    tables = (ACTIVATIONS, *(each.activations for each in kerases.in_use()))
    return next((name for table in tables for name, functions in table.items() if activation in functions), None)


def op_activations(cell: Cell) -> dict[str, str | None]:
    """Returns the names of a cell's activations in the op, by argument. None is one that it lacks."""
    names = {each: activation_name(function) for each, function in cell.activations.items()}
    scaled = _scaled_activation(cell.activations)
    return names if scaled is None else {**names, "recurrent_activation": scaled[1]}


def _scaled_activation(activations: Mapping[str, Any]) -> tuple[Any, str, float] | None:
    """Returns the row of `Keras.activations_of_gates` for the activation of the gates, if any."""
    of_gates = activations.get("recurrent_activation")
    rows = (row for each in kerases.in_use() for row in each.activations_of_gates)
    return next((row for row in rows if row[0] is of_gates), None)


def describe_layer(layer: Any) -> tuple[Layer, ...] | Unknown:
    """Describes a recurrent layer of Keras as layers in a row, one for each of its cells.

    The outputs of a layer are the inputs of the next. They are in the order in which the first processes its inputs.
    """
    keras = kerases.of(layer)
    assert keras is not None
    if isinstance(layer, keras.convolutional):
        reason = (
            "the layer is convolutional, and no op computes that: use convolutions in TimeDistributed and then an LSTM"
        )
        return Unknown(type(layer.cell), reason, is_out_of_reach=True)
    surprises = tuple(_surprises_of_layer(layer, keras))
    if isinstance(layer, tuple(keras.cudnn)):
        return _describe_cudnn_layer(layer, keras, surprises)
    is_stack = type(layer.cell) is keras.stacked_cells and len(layer.cell.cells) > 1
    cells = layer.cell.cells if is_stack else [layer.cell]
    described = [describe_cell(each, keras.drops_before(layer), layer.unroll) for each in cells]
    unknown = [each for each in described if isinstance(each, Unknown)]
    if unknown:
        one = min(unknown, key=is_expected)  # of several, one that is not
        if is_expected(one) and len(unknown) < len(described):
            one = one._replace(cls=type(layer.cell), reason="the list has cells of tf_rnn_ops: use one layer per cell")
        return one._replace(is_out_of_reach=False, surprises=surprises)
    last = len(described) - 1
    return tuple(
        Layer(
            cell=cell,
            go_backwards=layer.go_backwards and i == 0,
            returns_sequences=layer.return_sequences or i < last,
            is_unrolled=layer.unroll,
            zeroes_masked_steps=layer.zero_output_for_mask and i == last,
            surprises=surprises,
        )
        for i, cell in enumerate(described)
        if isinstance(cell, Cell)
    )


def is_expected(cell: Unknown) -> bool:
    """Returns whether a cell is meant to run in Keras's loop, because each of its steps is an op of this package."""
    return cell.cls.__module__.startswith("tf_rnn_ops.")


def describe_cell(cell: Any, drops_before: bool = False, unroll: bool = False) -> Cell | Unknown:
    """Describes a cell. It need not be one of Keras.

    Args:
      cell: the cell.
      drops_before: whether its layer applies the dropout of its inputs before.
      unroll: whether its layer unrolls the loop over the steps.
    """
    keras = kerases.of(cell)
    kind = None if keras is None else keras.cells.get(type(cell))  # a subclass may compute something else
    if keras is None or kind is None:
        return Unknown(type(cell), _why_unknown(cell, keras))
    drops_inputs = not drops_before and _drops(kind, cell.dropout)
    drops_states = _drops(kind, cell.recurrent_dropout)
    activations = {each: getattr(cell, each) for each in kind.activations}
    scaled = _scaled_activation(activations)
    return Cell(
        kind=kind,
        units=cell.units,
        features=cell.kernel.shape[0] if cell.built else None,
        dtype=cell.compute_dtype,
        activations=activations,
        resets_before=kind.name == "gru" and not cell.reset_after,
        drops_inputs=drops_inputs,
        drops_states=drops_states,
        draws_in_inference=kind in keras.draws_in_inference,
        surprises=tuple(_surprises(cell, kind, keras)),
        surprises_in_training=(tuple(keras.surprises_of_dropout(cell, kind)) if drops_inputs or drops_states else ()),
        gate_scale=1 if scaled is None else scaled[2],
        weights=functools.partial(_weights, cell, keras),
        input_masks=functools.partial(keras.input_masks, cell, kind, unroll=unroll),
        state_masks=functools.partial(keras.state_masks, cell, kind, unroll=unroll),
    )


def _describe_cudnn_layer(layer: Any, keras: Keras, surprises: tuple[str, ...]) -> tuple[Layer, ...] | Unknown:
    """Describes a CuDNNLSTM or CuDNNGRU. It reverses its inputs itself."""
    kind = keras.cudnn.get(type(layer))
    if kind is None:
        names = " or ".join(each.__name__ for each in keras.cudnn)
        return Unknown(type(layer), f"the layer is a {type(layer).__name__}: use {names}", surprises=surprises)
    cell = Cell(
        kind=kind,
        units=layer.units,
        features=layer.kernel.shape[0] if layer.built else None,
        dtype=layer.compute_dtype,
        activations={"activation": tf.tanh, "recurrent_activation": tf.sigmoid},
        resets_before=False,
        drops_inputs=False,
        drops_states=False,
        draws_in_inference=False,
        surprises=(),
        surprises_in_training=(),
        gate_scale=1,
        weights=functools.partial(_cudnn_weights, layer, keras, kind),
        input_masks=lambda x, training: [],
        state_masks=lambda h, steps, training: [],
    )
    described = Layer(
        cell=cell,
        go_backwards=False,
        returns_sequences=layer.return_sequences,
        is_unrolled=False,
        zeroes_masked_steps=False,
        surprises=surprises,
    )
    return (described,)


def _weights(owner: Any, keras: Keras) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor | None]:
    """Returns the weights of a cell or layer as tensors of its compute dtype, or of float32 if the op takes these."""
    weights = [
        each if each is None else keras.stored(each) if keras.is_variable(each) else tf.convert_to_tensor(each)
        for each in (owner.kernel, owner.recurrent_kernel, owner.bias)
    ]
    dtype = tf.as_dtype(owner.compute_dtype)
    if not (dtype.size == 2 and all(each is None or each.dtype == tf.float32 for each in weights)):
        weights = [each if each is None else tf.cast(each, dtype) for each in weights]
    kernel, recurrent_kernel, bias = weights
    return kernel, recurrent_kernel, bias


def _cudnn_weights(layer: Any, keras: Keras, kind: Kind) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor | None]:
    """Returns the weights of a layer whose bias is [2 * gates * units]: of the inputs' product, and of the state's."""
    kernel, recurrent_kernel, bias = _weights(layer, keras)
    bias = tf.reshape(bias, [2, kind.gates * layer.units])
    return kernel, recurrent_kernel, bias if kind.name == "gru" else tf.reduce_sum(bias, axis=0)


def _why_unknown(cell: Any, keras: Keras | None) -> str:
    if keras is not None and type(cell) is keras.stacked_cells and len(cell.cells) == 1:
        return "the layer has a list of one cell: pass the cell itself"
    return f"the cell is a {type(cell).__name__}: use keras.layers.LSTMCell, GRUCell or SimpleRNNCell"


def _drops(kind: Kind, rate: float) -> bool:
    """Returns whether a cell applies dropout at a rate. LSTM and GRU ignore a rate of 1."""
    return 0 < rate < 1 or (rate == 1 and kind.gates == 1)


def _of_replaced(method: str) -> str:
    return f"{method} is not Keras's own: remove what replaced it"


def _surprises_of_layer(layer: Any, keras: Keras) -> Iterator[str]:
    """Yields why a layer may compute something else than its description says."""
    for method in own_code.replaced_in_loop(layer, keras.loops):
        yield _of_replaced(method)
    yield from keras.surprises_of_layer(layer)
    stack = layer.cell if type(layer.cell) is keras.stacked_cells else None
    if stack is not None:
        yield from _surprises_of_call(stack, keras)
        if getattr(stack, "reverse_state_order", False):
            yield "reverse_state_order=True: set it to False"
        if stack.compute_dtype != layer.compute_dtype:
            yield (
                f"the layer has dtype {layer.compute_dtype}, but its list of cells {stack.compute_dtype}: pass "
                f"keras.layers.StackedRNNCells(cells, dtype={layer.compute_dtype!r})"
            )
    for cell in [layer.cell] if stack is None else stack.cells:
        dtype = getattr(cell, "compute_dtype", None)  # a cell need not be a Keras layer
        if dtype not in (None, layer.compute_dtype):
            yield f"the layer has dtype {layer.compute_dtype}, but its cell {dtype}: use the same dtype for both"


def _surprises(cell: Any, kind: Kind, keras: Keras) -> Iterator[str]:
    """Yields why a cell may compute something else than its description says."""
    yield from _surprises_of_call(cell, keras)
    if cell.built:
        yield from _surprises_of_weights(cell, kind, keras)


def _surprises_of_call(cell: Any, keras: Keras) -> Iterator[str]:
    """Yields why a call of a cell, or of several in one, may do something else than Keras's class says."""
    if not getattr(cell, keras.autocast, True):
        yield "autocast=False: set autocast=True"
    if cell.activity_regularizer is not None:
        yield "the cell has an activity_regularizer: pass it to the layer"
    for method in own_code.replaced_in_step(cell, keras.caller):
        yield _of_replaced(method)


def _surprises_of_weights(cell: Any, kind: Kind, keras: Keras) -> Iterator[str]:
    """Yields why the weights of a cell may not be those that its description leads one to expect."""
    dtype, use_bias, reset_after = cell.compute_dtype, cell.use_bias, getattr(cell, "reset_after", None)
    state = cell.kernel, cell.recurrent_kernel, cell.bias, cell.units, use_bias, reset_after, dtype
    known = _fitting.get(cell)
    if known is not None and all(map(operator.is_, state, known)):
        return
    weights = state[:2] if cell.bias is None else state[:3]
    for weight in weights:
        if not _is_weight(weight, cell, keras):
            yield f"a weight is a {type(weight).__name__}: use a keras.Variable or a tensor of dtype {dtype}"
            return
    width = kind.gates * cell.units
    has_bias = cell.bias is not None if kind.gates == 1 else use_bias
    of_bias = [] if not has_bias else [(2, width) if reset_after else (width,)]
    features, *shapes = (tuple(weight.shape) for weight in weights)
    if [*features[1:], *shapes] != [width, (cell.units, width), *of_bias]:
        yield "the weights do not fit units, use_bias or reset_after: pass these to the constructor"
    elif all(map(keras.is_variable, weights)):  # a tensor would keep its graph alive
        _fitting[cell] = state


def _is_weight(weight: Any, cell: Any, keras: Keras) -> bool:
    """Returns whether the step of Keras uses a weight in the dtype in which the cell computes."""
    dtype = cell.compute_dtype
    if keras.is_variable(weight) and keras.is_cast(weight) and dtype != cell.variable_dtype:
        return True
    return (keras.is_variable(weight) or isinstance(weight, (tf.Tensor, tf.Variable))) and weight.dtype == dtype
