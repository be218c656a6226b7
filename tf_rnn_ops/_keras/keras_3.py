"""The table of Keras 3."""

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from tf_rnn_ops._keras import private_names
from tf_rnn_ops._keras.private_names import INNER_LOOP
from tf_rnn_ops._keras.table import ACTIVATIONS, GRU, LSTM, OTHER_NAMES, SIMPLE_RNN, Keras, Kind, Patch

# The classes that define `inner_loop`, and others that run one of these.
_LOOPS = (keras.layers.LSTM, keras.layers.GRU, keras.layers.RNN)
_INHERITED = (keras.layers.SimpleRNN,)
_PARAMETERS = ("self", "sequences", "initial_state", "mask", "training")

# Keras up to 3.7 draws one dropout mask for all gates, and drops the state of a GRU in the interpolation, too.
_HAS_MASKS_OF_GATES = private_names.DROPOUT_MASK_COUNT in keras.layers.LSTMCell.__init__.__code__.co_names


def is_variable(weight: Any) -> bool:
    """Returns whether a weight is a variable of Keras's own class. Up to Keras 3.6, that is not `keras.Variable`."""
    return type(weight).__module__.startswith("keras.") and type(weight).__name__ == "Variable"


def _is_cast(variable: Any) -> bool:
    return bool(getattr(variable, private_names.AUTOCAST, False))


def _stored(variable: Any) -> tf.Tensor:
    make_scope = getattr(sys.modules.get(private_names.AUTOCAST_MODULE), private_names.AUTOCAST_SCOPE, None)
    with contextlib.nullcontext() if make_scope is None else make_scope(None):
        return tf.convert_to_tensor(variable)


def _input_masks(cell: Any, kind: Kind, x: tf.Tensor, training: Any, unroll: bool) -> list[tf.Tensor]:
    return _masks(cell, private_names.DROPOUT_MASK, x if x.shape.rank == 2 else x[:, 0, :])


def _state_masks(cell: Any, kind: Kind, h: tf.Tensor, steps: Any, training: Any, unroll: bool) -> list[tf.Tensor]:
    return _masks(cell, private_names.RECURRENT_DROPOUT_MASK, h)


def _masks(cell: Any, draw: str, x: tf.Tensor) -> list[tf.Tensor]:
    """Returns the masks that a method of a cell draws, and then keeps for all steps."""
    return keras.tree.flatten(getattr(cell, draw, lambda _: [])(x))


def _surprises_of_dropout(cell: Any, kind: Kind) -> Iterator[str]:
    for draw in (private_names.DROPOUT_MASK, private_names.RECURRENT_DROPOUT_MASK):
        if not hasattr(cell, draw):
            yield f"this version of Keras has no {draw}: set dropout=0 and recurrent_dropout=0"
    implementation = getattr(cell, private_names.IMPLEMENTATION, None)
    if kind.gates > 1 and 0 < cell.recurrent_dropout < 1:
        if _HAS_MASKS_OF_GATES and implementation != 1:
            yield "recurrent_dropout was set after the cell was made: pass it to the constructor"
        elif not _HAS_MASKS_OF_GATES and kind is GRU:
            yield "recurrent_dropout of a GRU in training needs Keras 3.8 or newer: install it, or set it to 0"
    has_masks_of_gates = kind.gates > 1 and implementation == 1 and _HAS_MASKS_OF_GATES
    if getattr(cell, private_names.DROPOUT_MASK_COUNT, None) != (kind.gates if has_masks_of_gates else None):
        yield "implementation was set after the cell was made: pass it to the constructor"


def _patches(run: Callable[..., Any]) -> Iterator[Patch]:
    for layer in _LOOPS:
        yield layer, INNER_LOOP, functools.partial(_running, run, layer)


def _running(run: Callable[..., Any], cls: type, inner_loop: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the method `inner_loop` of a class in `_LOOPS`, changed to call `run`."""

    @functools.wraps(inner_loop)
    def accelerated(layer: Any, sequences: Any, initial_state: Any, mask: Any, training: bool = False) -> Any:
        arguments = sequences, initial_state, mask, training
        # The inner_loop of LSTM and GRU may call that of RNN, which must not decide again.
        if cls is not next(each for each in _LOOPS if isinstance(layer, each)):
            return inner_loop(layer, *arguments)
        return run(layer, functools.partial(inner_loop, layer), *arguments)

    return accelerated


TABLE = Keras(
    name="Keras",
    package=keras,
    oldest=(3, 5),
    newest_tested=(3, 16),
    layer=keras.layers.Layer,
    caller=keras.Operation,
    model=keras.Model,
    recurrent=keras.layers.RNN,
    cells={keras.layers.LSTMCell: LSTM, keras.layers.GRUCell: GRU, keras.layers.SimpleRNNCell: SIMPLE_RNN},
    cudnn={},
    convolutional=(keras.layers.ConvLSTM1D, keras.layers.ConvLSTM2D, keras.layers.ConvLSTM3D),
    stacked_cells=keras.layers.StackedRNNCells,
    lambda_layer=keras.layers.Lambda,
    activations={
        **{
            name: tuple(
                getattr(module, each)
                for each in (name, *OTHER_NAMES.get(name, ()))
                for module in (keras.activations, keras.ops)
                if hasattr(module, each)
            )
            for name in ACTIVATIONS
        },
        "gelu": (keras.activations.gelu,),
        "gelu_approximate": (keras.ops.gelu,),  # has approximate=True by default
    },
    activations_of_gates=(),
    loops=(
        *((each, INNER_LOOP, _PARAMETERS) for each in _LOOPS),
        *((each, INNER_LOOP, None) for each in _INHERITED),
    ),
    compiled_metrics=private_names.COMPILE_METRICS,
    inputs_struct=private_names.INPUTS_STRUCT,
    autocast="autocast",
    is_variable=is_variable,
    is_cast=_is_cast,
    stored=_stored,
    input_masks=_input_masks,
    state_masks=_state_masks,
    draws_in_inference=(SIMPLE_RNN,),
    surprises_of_layer=lambda layer: (),
    surprises_of_dropout=_surprises_of_dropout,
    drops_before=lambda layer: False,
    patches=_patches,
)
