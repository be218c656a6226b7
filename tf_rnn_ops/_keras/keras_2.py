"""The table of Keras 2, the package tf_keras, and the functions with which it runs a cell over all steps.

A layer of Keras 3 has a method for this. In Keras 2, `call` of a layer leads to one of several functions of modules,
which do not know the layer. So `call` is replaced, too, to remember the layer for the first of them that it calls.
"""

import functools
import importlib
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from tf_rnn_ops._keras import own_code, private_names, tracing
from tf_rnn_ops._keras.patches import owner_of, with_signature
from tf_rnn_ops._keras.private_names import (
    CALL,
    CUDNN_LAYERS,
    CUDNN_LOOP,
    GRU_LOOPS,
    KERAS_2_LAYERS,
    LOOP,
    LSTM_LOOPS,
    OLD_CELLS,
    OLD_LAYERS,
)
from tf_rnn_ops._keras.table import ACTIVATIONS, GRU, LSTM, OTHER_NAMES, SIMPLE_RNN, Keras, Kind, Patch

# The parameters of the functions that are replaced.
_CALL = ("self", "inputs", "mask", "training", "initial_state")
_OPTIONS = (
    *("kernel", "recurrent_kernel", "bias", "mask", "time_major", "go_backwards", "sequence_lengths"),
    *("zero_output_for_mask", "return_sequences"),
)
_OF_LSTM, _OF_GRU = ("inputs", "init_h", "init_c", *_OPTIONS), ("inputs", "init_h", *_OPTIONS)
_OF_CUDNN = ("self", "inputs", "initial_state")
_OF_RNN = (
    *("step_function", "inputs", "initial_states", "go_backwards", "mask", "constants", "unroll", "input_length"),
    *("time_major", "zero_output_for_mask", "return_all_outputs"),
)


class _Calls(threading.local):
    """The calls of layers that run in a thread.

    Attributes:
      layer: the layer whose `call` runs and has not yet come to a loop, and its argument `training`.
      is_in_loop: whether the loop of a layer runs.
    """

    layer: tuple[Any, Any] | None = None
    is_in_loop = False


_calls = _Calls()


def _remembering(call: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the method `call` of a recurrent layer, changed to remember the layer for the loop that it calls."""
    signature = inspect.signature(call)

    @functools.wraps(call)
    def remember(layer: Any, *args: Any, **kwargs: Any) -> Any:
        training = signature.bind_partial(layer, *args, **kwargs).arguments.get("training")
        outer = _calls.layer, _calls.is_in_loop
        _calls.layer, _calls.is_in_loop = (layer, training), False
        try:
            return call(layer, *args, **kwargs)
        finally:
            _calls.layer, _calls.is_in_loop = outer

    return with_signature(remember, signature)


def _running(run: Callable[..., Any], results: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that runs a layer over all steps, changed to call `run`.

    Args:
      run: takes the first arguments of `execution.run`.
      results: takes the layer and the results of `run`, of which the outputs are as the layer returns them. Returns
        those of `function`.
      function: the function.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def loop(*args: Any, **kwargs: Any) -> Any:
        remembered = None if _calls.is_in_loop else _calls.layer or _layer_that_was_saved()
        if remembered is None:
            return function(*args, **kwargs)
        layer, training = remembered
        own = []  # the results of Keras's own function, if that runs

        def keras_loop(*_: Any) -> Any:
            own.append(function(*args, **kwargs))
            return own[0]

        arguments = {"time_major": layer.time_major, **signature.bind(*args, **kwargs).arguments}
        sequences, states, mask = _arguments(**arguments)
        _calls.layer, _calls.is_in_loop = None, True
        try:
            result = run(layer, keras_loop, sequences, states, mask, _resolved(training))
        finally:
            _calls.is_in_loop = False
        if own:
            return result
        last, outputs, states = result
        return results(layer, last, _batch_first(outputs) if layer.time_major else outputs, states)

    return loop


def _arguments(
    *,
    time_major: bool,
    inputs: tf.Tensor,
    mask: Any = None,
    initial_states: Any = None,
    initial_state: Any = None,
    init_h: Any = None,
    init_c: Any = None,
    input_length: Any = None,
    sequence_lengths: Any = None,
    **_: Any,
) -> tuple[tf.Tensor, Any, Any]:
    """Returns the inputs, [batch, time, features], the initial states, and the mask, [batch, time] or None.

    The arguments are those of all `loops`. Each has some of them.
    """
    states = initial_states
    if states is None:
        states = [each for each in (initial_state, init_h, init_c) if each is not None]
    lengths = sequence_lengths if input_length is None else input_length
    if time_major:
        inputs, mask = _batch_first(inputs), None if mask is None else _batch_first(mask)
    if mask is None and tf.is_tensor(lengths):  # of ragged inputs, [batch]
        mask = tf.sequence_mask(lengths, tf.shape(tf.nest.flatten(inputs)[0])[1])
    return inputs, states, mask


def _batch_first(x: Any) -> Any:
    """Returns nested tensors with their first two dimensions, those of steps and batch, exchanged."""
    return tf.nest.map_structure(lambda each: tf.transpose(each, [1, 0, *range(2, len(each.shape))]), x)


def _layer_that_was_saved() -> tuple[Any, Any] | None:
    """Returns the layer that Keras calls, and its `training`, if a save left it the `call` of before."""
    context = _call_context()
    layer = context.layer
    is_recurrent = isinstance(layer, importlib.import_module("tf_keras").layers.RNN)
    return (layer, context.training) if is_recurrent and own_code.is_kept(layer, CALL) else None


def _call_context() -> Any:
    """Returns what Keras knows of the layer that it calls."""
    return getattr(importlib.import_module(private_names.CALL_CONTEXT_MODULE), private_names.CALL_CONTEXT)()


def _resolved(training: Any) -> Any:
    """Returns what Keras takes for `training` if it is not given: a boolean, a number or a tensor."""
    training = _call_context().training if training is None else training
    return importlib.import_module("tf_keras").backend.learning_phase() if training is None else training


def _of_any_cell(layer: Any, last: tf.Tensor, outputs: tf.Tensor, states: list[tf.Tensor]) -> Any:
    """Returns the results of `backend.rnn`."""
    return last, outputs, states


def _of_one_kind(layer: Any, last: tf.Tensor, outputs: tf.Tensor, states: list[tf.Tensor]) -> Any:
    """Returns the results of a function for LSTM or GRU only. The last tells tests of Keras that a CPU computes."""
    return last, outputs, *states, tf.constant(1.0, name="runtime")


def _of_cudnn(layer: Any, last: tf.Tensor, outputs: tf.Tensor, states: list[tf.Tensor]) -> Any:
    """Returns the results of the method of CuDNNLSTM and CuDNNGRU."""
    return outputs if layer.return_sequences else last, states


def _input_masks(cell: Any, kind: Kind, x: tf.Tensor, training: Any, unroll: bool) -> list[tf.Tensor]:
    if x.shape.rank == 2:
        return _masks(cell, kind, private_names.KERAS_2_MASKS, x, training)
    if unroll or tf.executing_eagerly():
        return _masks(cell, kind, private_names.KERAS_2_MASKS, x[:, 0, :], training)
    # Keras keeps masks for a graph. The body of a loop is one of its own, which draws other masks at each step.
    return _masks(cell, kind, private_names.KERAS_2_NEW_MASKS, x, training)


def _state_masks(cell: Any, kind: Kind, h: tf.Tensor, steps: Any, training: Any, unroll: bool) -> list[tf.Tensor]:
    if steps is None or unroll or tf.executing_eagerly():
        return _masks(cell, kind, private_names.KERAS_2_RECURRENT_MASKS, h, training)
    h = tf.repeat(h[:, tf.newaxis], steps, axis=1)  # as for inputs
    return _masks(cell, kind, private_names.KERAS_2_NEW_RECURRENT_MASKS, h, training)


def _masks(cell: Any, kind: Kind, draw: str, x: tf.Tensor, training: Any) -> list[tf.Tensor]:
    """Returns the masks that a method of a cell draws: for each gate, even if Keras uses the first for all gates."""
    drawn = tf.nest.flatten(getattr(cell, draw)(x, training, count=kind.gates))
    return drawn if _has_mask_per_gate(cell, kind) else drawn[:1]


def _has_mask_per_gate(cell: Any, kind: Kind) -> bool:
    return kind.gates > 1 and getattr(cell, private_names.IMPLEMENTATION) == 1


def _is_fused(layer: Any) -> bool:
    """Returns whether the layer decided, when it was made, to run without its cell."""
    return bool(getattr(layer, private_names.IS_FUSED, False))


def _surprises_of_layer(layer: Any) -> Iterator[str]:
    if _is_fused(layer):
        activations, cell = importlib.import_module("tf_keras").activations, layer.cell
        is_as_made = (
            cell.activation in (activations.tanh, tf.tanh)
            and cell.recurrent_activation in (activations.sigmoid, tf.sigmoid)
            and cell.use_bias
            and getattr(cell, "reset_after", True)
        )
        if not is_as_made:
            yield "the cell was changed after the layer was made: pass its options to the constructor of the layer"


def _surprises_of_dropout(cell: Any, kind: Kind) -> Iterator[str]:
    if kind.gates > 1 and cell.recurrent_dropout and not _has_mask_per_gate(cell, kind):
        yield "implementation was set after the cell was made: pass it to the constructor"


def _module_of(thing: Any) -> Any:
    """Returns the module that defines a class or function."""
    return importlib.import_module(thing.__module__)


def table() -> Keras:
    """Returns the table. tf_keras must be imported."""
    tf_keras = importlib.import_module("tf_keras")
    layers, activations, private = tf_keras.layers, tf_keras.activations, importlib.import_module(KERAS_2_LAYERS)
    old_lstm_cell, old_gru_cell = (getattr(private, each) for each in OLD_CELLS)
    cudnn_lstm, cudnn_gru = (getattr(private, each) for each in CUDNN_LAYERS)
    calls = (layers.RNN, layers.LSTM, layers.GRU, owner_of(cudnn_lstm, CALL))
    inherited = (layers.SimpleRNN, *(getattr(private, each) for each in OLD_LAYERS))
    loops = (
        (_module_of(getattr(tf_keras.backend, LOOP)), LOOP, _of_any_cell, _OF_RNN),
        *((_module_of(layers.LSTM), name, _of_one_kind, _OF_LSTM) for name in LSTM_LOOPS),
        *((_module_of(layers.GRU), name, _of_one_kind, _OF_GRU) for name in GRU_LOOPS),
        *((each, CUDNN_LOOP, _of_cudnn, _OF_CUDNN) for each in (cudnn_lstm, cudnn_gru)),
    )

    def patches(run: Callable[..., Any]) -> Iterator[Patch]:
        for cls in calls:
            yield cls, CALL, _remembering
        for owner, name, results, _ in loops:
            yield owner, name, functools.partial(_running, run, results)
        yield from tracing.endpoint_methods(tf_keras.export.ExportArchive)

    return Keras(
        name="Keras 2 (tf_keras)",
        package=tf_keras,
        oldest=(2, 18),
        newest_tested=(2, 21),
        layer=layers.Layer,
        caller=layers.Layer,
        model=tf_keras.Model,
        recurrent=layers.RNN,
        cells={
            layers.LSTMCell: LSTM,
            layers.GRUCell: GRU,
            layers.SimpleRNNCell: SIMPLE_RNN,
            old_lstm_cell: LSTM,
            old_gru_cell: GRU,
        },
        cudnn={cudnn_lstm: LSTM, cudnn_gru: GRU},
        convolutional=(layers.ConvLSTM1D, layers.ConvLSTM2D, layers.ConvLSTM3D),
        stacked_cells=layers.StackedRNNCells,
        lambda_layer=layers.Lambda,
        activations={
            name: tuple(
                getattr(activations, each)
                for each in (name, *OTHER_NAMES.get(name, ()))
                if each != "hard_sigmoid" and hasattr(activations, each)
            )
            for name in ACTIVATIONS
        },
        # In Keras 2, a hard sigmoid has the slope 1 / 5; in Keras 3 and in the op, 1 / 6.
        activations_of_gates=((activations.hard_sigmoid, "hard_sigmoid", 6 / 5),),
        loops=(
            *((cls, CALL, (*_CALL, "constants") if cls is layers.RNN else _CALL) for cls in calls),
            *((cls, CALL, None) for cls in inherited),
            *((owner, name, parameters) for owner, name, _, parameters in loops),
        ),
        compiled_metrics=private_names.KERAS_2_METRICS,
        inputs_struct=private_names.KERAS_2_INPUTS,
        autocast=private_names.KERAS_2_AUTOCAST,
        is_variable=lambda weight: isinstance(weight, tf.Variable),
        is_cast=lambda variable: hasattr(variable, private_names.CAST_VARIABLE),
        stored=lambda variable: tf.convert_to_tensor(getattr(variable, private_names.STORED_VARIABLE, variable)),
        input_masks=_input_masks,
        state_masks=_state_masks,
        draws_in_inference=(LSTM, GRU, SIMPLE_RNN),
        surprises_of_layer=_surprises_of_layer,
        surprises_of_dropout=_surprises_of_dropout,
        drops_before=_is_fused,
        patches=patches,
    )
