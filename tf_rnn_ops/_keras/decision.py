"""Whether a layer or cell runs on the op or in Keras's own code, and why not on the op.

All that follows from a description is decided here, for calls as for `tf_rnn_ops.explain`. The texts of reasons appear
in logs, errors and the table of `explain`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from tf_rnn_ops._keras import description
from tf_rnn_ops._keras.description import Cell, Layer, Unknown

_DTYPES = ("bfloat16", "float16", "float32", "float64")


def against_layer(layers: Sequence[Layer] | Unknown, training: bool) -> tuple[str, ...]:
    """Returns why a layer falls back to Keras, and what to change, from its description as layers in a row.

    Something in the environment or in the arguments of a call may prevent that it runs on the op, too.
    """
    if isinstance(layers, Unknown):
        return (*layers.surprises, *_against(layers, training))
    reasons = (reason for each in layers for reason in (*each.surprises, *_against(each.cell, training)))
    return tuple(dict.fromkeys(reasons))


def against_cell(cell: Cell | Unknown, training: bool) -> tuple[str, ...]:
    """Returns likewise why a cell falls back that is called one step at a time."""
    reasons = tuple(_against(cell, training))
    if training and not (isinstance(cell, Unknown) and cell.is_out_of_reach):
        of_steps = (
            "the cell is called one step at a time: it runs on the op in inference, in eager mode or with a static "
            "batch of 1; pass it to keras.layers.RNN to run all steps at once"
        )
        return (*reasons, of_steps)
    return reasons


def op_attributes(cell: Cell) -> dict[str, Any]:
    """Returns the mode and activations of the op for a cell that it supports."""
    names = description.op_activations(cell)
    if cell.kind.name == "simple_rnn":
        activation = names["activation"]
        return {"rnn_mode": f"rnn_{activation}"} if activation in ("tanh", "relu") else {"rnn_mode": "rnn", **names}
    return {"rnn_mode": "gru_reset_before" if cell.resets_before else cell.kind.name, **names}


def _against(cell: Cell | Unknown, training: bool) -> Iterator[str]:
    """Yields why a cell falls back to Keras, and what to change."""
    if isinstance(cell, Unknown):
        if description.is_expected(cell):
            name = cell.cls.__name__
            yield f"the cell is a {name}: the loop of Keras runs, and each step is the op {name}"
        else:
            yield cell.reason
        return
    yield from _against_activations(cell)
    if cell.dtype not in _DTYPES:
        yield f"dtype {cell.dtype}: use one of {', '.join(_DTYPES)}"
    yield from cell.surprises
    if training:
        yield from cell.surprises_in_training


def _against_activations(cell: Cell) -> Iterator[str]:
    """Yields which activations of a cell the op does not support."""
    for argument, name in description.op_activations(cell).items():
        if name is None:
            activation = cell.activations[argument]
            label = repr(getattr(activation, "__name__", type(activation).__name__))
            yield f"{argument}={label}: set it to one that docs/guides/keras.md lists, such as tanh"
