"""The functions that a model of Keras compiles, in `fit`, `predict` and so on."""

from typing import Any

import keras

from tf_rnn_ops._keras import description, own_code
from tf_rnn_ops._keras.private_names import COMPILE_METRICS, FLATTEN_LAYERS, MAKE_FUNCTION, USER_METRICS


def remake(model: Any) -> None:
    """Makes the compiled functions of a model again, so that they are traced again, if they may call a cell.

    Skips functions that are not those of Keras: a program set them, or overrides the method that makes them.
    """
    if not _may_call_cells(model):
        return
    for make, function in MAKE_FUNCTION.items():
        is_of_keras = _is_made_by_keras(getattr(model, function, None))
        if is_of_keras and make not in vars(model) and getattr(type(model), make) is getattr(keras.Model, make):
            getattr(model, make)(force=True)


def _may_call_cells(model: Any) -> bool:
    """Returns whether a model has a recurrent layer or cell, or code of others that may call one."""
    cells = (keras.layers.RNN, keras.layers.Lambda, *description.CELLS)
    try:
        compiled = getattr(model, COMPILE_METRICS)
        metrics = None if compiled is None else getattr(compiled, USER_METRICS)
    except AttributeError:  # unknown metrics
        return True
    parts = [*getattr(model, FLATTEN_LAYERS)(), *keras.tree.flatten([model.loss, metrics])]
    return any(isinstance(each, cells) or not _is_of_keras(each) for each in parts)


def _is_of_keras(part: Any) -> bool:
    """Returns whether a layer, loss or metric of a model is Keras's own. Losses and metrics may be given by name."""
    return part is None or isinstance(part, str) or type(part).__module__.startswith("keras.") or own_code.is_own(part)


def _is_made_by_keras(function: Any) -> bool:
    """Returns whether a method of Keras made a compiled function of a model."""
    function = getattr(function, "python_function", function)  # of a tf.function
    while own_code.is_defined_in(function, "tensorflow") and hasattr(function, "__wrapped__"):
        function = function.__wrapped__  # from a decorator such as tf.autograph.experimental.do_not_convert
    return own_code.is_own(function)
