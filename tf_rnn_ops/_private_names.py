"""The names of TensorFlow that the package uses although they are not public, so that they may disappear.

No other module contains such a name, and none but `_keras/private_names.py` one of Keras; tests/test_private_names.py
checks this. Without any of them, `import tf_rnn_ops` works, and so does everything but what `Name.without` says.
"""

import importlib
import logging
import operator
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

_logger = logging.getLogger("tf_rnn_ops")


class Name(NamedTuple):
    """A name that is not public.

    Attributes:
      use: what the package learns from it or does with it.
      without: what the package does if it is missing.
    """

    use: str
    without: str


# By module or class, and name. Filled below, and with the names of Keras.
NAMES: dict[str, Name] = {}


def _find(module: str, names: tuple[str, ...], use: str, without: str) -> Any:
    """Returns a module of TensorFlow if it has all of these names. Otherwise, logs what does not work, returns None."""
    NAMES.update({f"{module}.{name}": Name(use, without) for name in names})
    for name in names:
        try:
            operator.attrgetter(name)(importlib.import_module(module))
        except (ImportError, AttributeError):
            _logger.warning("%s.%s is missing, which tf_rnn_ops uses: %s.", module, name, without)
            return None
    return importlib.import_module(module)


def attribute(owner: str, name: str, use: str, without: str) -> str:
    """Returns the name of an attribute of a class or of its instances. Those who use it check whether it exists."""
    NAMES[f"{owner}.{name}"] = Name(use, without)
    return name


KERNELS = _find(
    "tensorflow.python.framework.kernels",
    ("get_registered_kernels_for_op",),
    "lists the kernels of an op",
    "the kernels of libraries are not checked, `python -m tf_rnn_ops` lists none, and --check-gpu refuses to run",
)
OP_DEF_REGISTRY = _find(
    "tensorflow.python.framework.op_def_registry",
    ("get",),
    "finds the definition of an op",
    "another copy of the package is detected only by its engine, and `python -m tf_rnn_ops` lists no kernels",
)
_GRADIENTS = _find(
    "tensorflow.python.framework.ops",
    ("gradient_registry._registry",),
    "replaces TensorFlow's gradients of BlockLSTM and BlockLSTMV2",
    "enable_builtin_kernels(replace=True) does not replace these",
)
STATISTICS = _find(
    "tensorflow.python.framework.ops",
    ("OpStats", "RegisterStatistics"),
    "registers the flops of an op",
    "the profiler does not count those of the package's ops",
)
PFOR = _find(
    "tensorflow.python.ops.parallel_for.pfor",
    (
        *("RegisterPFor", "wrap", "_create_op", "PFor.loop_len_vector"),
        *("_PforInput.op", "_PforInput.op_type", "_PforInput.outputs", "_PforInput.get_attr", "_PforInput.pfor"),
        *("_PforInput.inputs", "_PforInput.num_inputs", "_PforInput.input", "_PforInput.stacked_input"),
        "_PforInput.stack_inputs",
    ),
    "registers converters for tf.vectorized_map",
    "tf.vectorized_map and Jacobians run the package's ops in TensorFlow's own loop, if the caller allows it",
)
TAPES = _find(
    "tensorflow.python.eager.record",
    ("could_possibly_record",),
    "tells whether a gradient tape records",
    "cells that are called one step at a time run Keras's code",
)
CANCELLATION = _find(
    "tensorflow.python.eager.cancellation",
    ("context",),
    "tells whether another thread may cancel a call",
    "that has no effect on a function that `freeze` returned",
)
FUNCTION_TYPE = _find(
    "tensorflow.core.function.polymorphism.function_type",
    ("FunctionType.pack_output",),
    "nests the results of a function",
    "a function that `freeze` returned takes as long to call as others",
)
XLA_CONTEXT = _find(
    "tensorflow.python.ops.control_flow_util",
    ("GraphOrParentsInXlaContext",),
    "tells whether XLA compiles the graph being built",
    "every graph counts as compiled, where single steps do not run on an op",
)
SAVE_CONTEXT = _find(
    "tensorflow.python.saved_model.save_context",
    ("in_save_context", "save_context"),
    "tells whether a model is being saved, and makes Keras trace what it exports as if it were",
    'exported models contain the op, as with exports="op", and `portable` traces no function again',
)
FREEZING = _find(
    "tensorflow.python.framework.convert_to_constants",
    ("convert_variables_to_constants_v2_as_graph",),
    "replaces the variables of a function by constants",
    "`freeze` raises a RuntimeError",
)
_SUSPENDABLE = _find(
    "tensorflow.python.saved_model.save_context",
    ("get_save_options", "_save_context.exit_save_context", "_save_context.enter_save_context"),
    "leaves the save context of a `portable` scope for a while",
    "a model cannot be saved in a `portable` scope",
)
_TRACKING = _find(
    "tensorflow",
    ("__internal__.tracking.AutoTrackable",),
    "makes tf.train.Checkpoint save the state of an object",
    "it does not save the state of dropout of CudnnRNN layers",
)
AutoTrackable: Any = object if _TRACKING is None else _TRACKING.__internal__.tracking.AutoTrackable

SET_ATTR = attribute(
    "tensorflow.Operation",
    "_set_attr",
    "tells XLA that the gradient of the sequences is not wanted, and kernels that weights do not change",
    "XLA computes it nevertheless, and kernels pack weights in each call unless a graph has them as constants",
)
SKIP_INPUT_INDICES = attribute(
    "tensorflow.Operation",
    "skip_input_indices",
    "lists the inputs of an op whose gradients are not wanted",
    "all are computed",
)


def replace_gradient(op: str, gradient: Callable[..., Any]) -> bool:
    """Replaces the registered gradient of an op, for all threads at once. Returns False if that is not possible."""
    if _GRADIENTS is None:
        return False
    gradients = _GRADIENTS.gradient_registry._registry
    gradients[op] = {**gradients[op], "type": gradient}
    return True


def suspends_save_context() -> bool:
    """Returns whether `suspended_save_context` is possible."""
    return _SUSPENDABLE is not None


@contextmanager
def suspended_save_context() -> Iterator[None]:
    """Leaves the save context for a while."""
    options = _SUSPENDABLE.get_save_options()
    _SUSPENDABLE._save_context.exit_save_context()
    try:
        yield
    finally:
        _SUSPENDABLE._save_context.enter_save_context(options)


def create_pfor_op(*arguments: Any) -> Any:
    """Creates an op in a converter, where `PFOR` is not None."""
    return PFOR._create_op(*arguments)


_CALL_CONTEXT = attribute(
    "tensorflow.python.keras.engine.base_layer_utils",
    "call_context",
    "tells whether TensorFlow's old Keras traces a model in order to save it, as tf2onnx.convert.from_keras does",
    "such models contain the op, unless tf2onnx is in the call stack",
)


def is_saved_by_old_keras() -> bool:
    """Returns whether TensorFlow's old Keras, if it is imported, traces a model in order to save it."""
    old_keras = sys.modules.get("tensorflow.python.keras.engine.base_layer_utils")
    call_context = getattr(old_keras, _CALL_CONTEXT, None)
    return call_context is not None and bool(getattr(call_context(), "saving", False))
