"""How a layer or cell runs: on the op, in the loop, or in Keras's own code, and why not on the op.

All that follows from a description is decided here, for calls as for `tf_rnn_ops.explain`. The texts of reasons appear
in logs, errors and the table of `explain`.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tf_rnn_ops._keras import description
from tf_rnn_ops._keras.description import Cell, Layer, Unknown

_DTYPES = ("bfloat16", "float16", "float32", "float64")


class Decision(NamedTuple):
    """How a layer or cell runs, if nothing in the environment or in the arguments of a call prevents it.

    Attributes:
      path: "op", "loop" (that of `step_loop`) or "Keras".
      reasons: why it falls back to Keras, and what to change.
    """

    path: str
    reasons: tuple[str, ...] = ()


def of_layer(layers: Sequence[Layer] | Unknown, training: bool) -> Decision:
    """Decides how a layer runs, from its description as layers in a row."""
    if isinstance(layers, Unknown):
        return _decide(layers, training, layers.surprises)
    decisions = [_decide(each.cell, training, each.surprises) for each in layers]
    reasons = tuple(dict.fromkeys(reason for each in decisions for reason in each.reasons))
    paths = {each.path for each in decisions}
    return Decision(next(path for path in ("Keras", "loop", "op") if path in paths), reasons)


def of_cell(cell: Cell | Unknown, training: bool) -> Decision:
    """Decides how a cell runs that is called one step at a time."""
    decision = _decide(cell, training)
    if not (isinstance(cell, Unknown) and cell.is_out_of_reach) and (training or decision.path == "loop"):
        of_steps = (
            "the cell is called one step at a time: it runs on the op in inference, in eager mode or with a static "
            "batch of 1; pass it to keras.layers.RNN to run all steps at once"
        )
        return Decision("Keras", (*decision.reasons, of_steps))
    return decision


def op_attributes(cell: Cell) -> dict[str, Any]:
    """Returns the mode and activations of the op for a cell that it supports."""
    names = description.op_activations(cell)
    if cell.kind.name == "simple_rnn":
        return {"rnn_mode": f"rnn_{names['activation']}"}
    return {"rnn_mode": "gru_reset_before" if cell.resets_before else cell.kind.name, **names}


def _decide(cell: Cell | Unknown, training: bool, surprises: tuple[str, ...] = ()) -> Decision:
    reasons = (*surprises, *_reasons(cell, training))
    if reasons or isinstance(cell, Unknown):
        return Decision("Keras", reasons)
    return Decision("loop" if _needs_loop(cell, training) else "op")


def _needs_loop(cell: Cell, training: bool) -> bool:
    """Returns whether the op lacks something that the loop has. The loop also has any activation."""
    drops_per_gate = training and cell.drops_states and cell.has_mask_per_gate
    return drops_per_gate or (cell.resets_before and any(_reasons_of_activations(cell)))


def _reasons(cell: Cell | Unknown, training: bool) -> Iterator[str]:
    """Yields why a cell falls back to Keras, and what to change."""
    if isinstance(cell, Unknown):
        if description.is_expected(cell):
            name = cell.cls.__name__
            yield f"the cell is a {name}: the loop of Keras runs, and each step is the op {name}"
        else:
            yield cell.reason
        return
    if not _needs_loop(cell, training):
        yield from _reasons_of_activations(cell)
    if training and cell.drops_states and not cell.has_mask_per_gate:
        yield f"recurrent_dropout={cell.recurrent_dropout} in training: set recurrent_dropout=0"
    if cell.dtype not in _DTYPES:
        yield f"dtype {cell.dtype}: use one of {', '.join(_DTYPES)}"
    yield from cell.surprises
    if training:
        yield from cell.surprises_in_training


def _reasons_of_activations(cell: Cell) -> Iterator[str]:
    """Yields which activations of a cell the op does not support."""
    is_simple = cell.kind.name == "simple_rnn"
    for argument, name in description.op_activations(cell).items():
        activation = cell.activations[argument]
        if name is None or (is_simple and name not in ("tanh", "relu")):
            label = repr(getattr(activation, "__name__", type(activation).__name__))
            yield f"{argument}={label}: set " + (
                "activation='tanh' or 'relu'"
                if is_simple
                else "it to one that docs/guides/keras.md lists, such as tanh"
            )
