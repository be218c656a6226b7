"""The functions that a model of Keras compiles, in `fit`, `predict` and so on."""

from typing import Any

import tensorflow as tf

from tf_rnn_ops._keras import kerases, own_code
from tf_rnn_ops._keras.private_names import FLATTEN_LAYERS, MAKE_FUNCTION, USER_METRICS
from tf_rnn_ops._keras.table import Keras


def remake(model: Any) -> None:
    """Makes the compiled functions of a model again, so that they are traced again, if they may call a cell.

    Skips functions that are not those of Keras: a program set them, or overrides the method that makes them.
    """
    keras = kerases.of(model)
    if keras is None or not _may_call_cells(model, keras):
        return
    for make, function in MAKE_FUNCTION.items():
        is_of_keras = _is_made_by_keras(getattr(model, function, None))
        if is_of_keras and make not in vars(model) and getattr(type(model), make) is getattr(keras.model, make):
            getattr(model, make)(force=True)


def _may_call_cells(model: Any, keras: Keras) -> bool:
    """Returns whether a model has a recurrent layer or cell, or code of others that may call one."""
    cells = (keras.recurrent, keras.lambda_layer, *keras.cells)
    try:
        compiled = getattr(model, keras.compiled_metrics)
        metrics = None if compiled is None else getattr(compiled, USER_METRICS)
    except AttributeError:  # unknown metrics
        return True
    parts = [*getattr(model, FLATTEN_LAYERS)(), *tf.nest.flatten([getattr(model, "loss", None), metrics])]
    return any(isinstance(each, cells) or not _is_of_keras(each) for each in parts)


def _is_of_keras(part: Any) -> bool:
    """Returns whether a layer, loss or metric of a model is Keras's own. Losses and metrics may be given by name."""
    is_name = part is None or isinstance(part, str)
    return is_name or own_code.is_module_of_keras(type(part).__module__) or own_code.is_own(part)


def _is_made_by_keras(function: Any) -> bool:
    """Returns whether a method of Keras made a compiled function of a model."""
    function = getattr(function, "python_function", function)  # of a tf.function
    while own_code.is_defined_in(function, "tensorflow") and hasattr(function, "__wrapped__"):
        function = function.__wrapped__  # from a decorator such as tf.autograph.experimental.do_not_convert
    return own_code.is_own(function)
