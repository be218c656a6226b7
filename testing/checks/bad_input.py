"""Valid calls of ops, ways to run them with a wrong argument, and checks of the errors."""

import dataclasses
import re

import numpy as np
import pytest
import tensorflow as tf
from inputs import block_lstm as lstm_inputs
from inputs import cudnn_rnn as cudnn_rnn_inputs
from inputs import gru_block_cell as gru_inputs
from inputs.calls import input_names
from inputs.cudnn_rnn import VERSIONS
from inputs.second_order import output_backprops
from inputs.valid_calls import function_of
from references.cudnn_rnn import Config

from checks.second_order import grad_arguments

ERRORS = (tf.errors.InvalidArgumentError, ValueError)

# ---------------------------------------------------------------- valid calls

CONFIG = Config("lstm", direction="bidirectional", num_layers=1, num_units=4, input_size=3, time=5, batch=2)
PROJECTED = dataclasses.replace(CONFIG, num_proj=3)
BATCH_MAJOR = dataclasses.replace(CONFIG, time_major=False, batch=3)
CELL_SIZE = (2, 3, 4)  # batch, input_size, cell_size


def network_arguments(op: str, config=CONFIG, dtype="float32") -> dict:
    """Returns valid arguments of an op that runs or differentiates a network, with arrays for tensors."""
    version = op[-2:] if op[-2:] in VERSIONS else "V3" if op.endswith("Grad") else ""
    inputs, gradients = cudnn_rnn_inputs.inputs_and_gradients(config, dtype)
    arguments = cudnn_rnn_inputs.forward_arguments(config, inputs, version)
    if "Backprop" in op:
        outputs = function_of(f"CudnnRNN{version}")(**arguments)
        if op.endswith("Grad"):
            v = cudnn_rnn_inputs.cast(output_backprops(inputs)._asdict(), dtype).values()
            arguments = grad_arguments(config, inputs, outputs, gradients, v)
        else:
            arguments = cudnn_rnn_inputs.backprop_arguments(config, inputs, outputs, gradients, version)
    return {name: value.numpy() if tf.is_tensor(value) else value for name, value in arguments.items()}


def cell_arguments(op: str) -> dict:
    """Returns valid arguments of an op of GRU or LSTM cells, or of its gradient op, with arrays for tensors."""
    if "LSTM" in op:
        forward, size = lstm_inputs.forward_op(op), (3, *CELL_SIZE)
        arrays = lstm_inputs.inputs(forward, size, "float32") | lstm_inputs.steps(forward, 2)
        gradients = lstm_inputs.output_gradients(forward, size, "float32")
        arrays |= gradients | {name.removesuffix("_grad"): each for name, each in gradients.items()}
        attributes = {"use_peephole": True, **({"new_cell_second": True} if op.endswith("V3") else {})}
    else:
        arrays = gru_inputs.cell_inputs(CELL_SIZE, "float32")
        gradients = gru_inputs.output_gradients(CELL_SIZE, "float32")
        arrays |= gradients | {name.removeprefix("d_"): each for name, each in gradients.items()}
        attributes = {}
    return {name: arrays[name] for name in input_names(op)} | attributes


# ---------------------------------------------------------------- ways to run them


def split_inputs(arguments):
    """Splits arguments of an op into tensors and attributes."""
    tensors = {name: value for name, value in arguments.items() if isinstance(value, (np.ndarray, list))}
    return tensors, {name: value for name, value in arguments.items() if name not in tensors}


def placeholders(tensors, shaped):
    """Returns a placeholder for each array or list of arrays."""

    def make(array):
        return tf.compat.v1.placeholder(array.dtype, array.shape if shaped else None)

    return tf.nest.map_structure(make, tensors)


def run_eagerly(op, arguments):
    return op(**arguments)


def run_with_known_shapes(op, arguments):
    """Builds a graph with static shapes, which the shape function checks."""
    tensors, attributes = split_inputs(arguments)
    with tf.Graph().as_default():
        return op(**placeholders(tensors, shaped=True), **attributes)


def run_with_unknown_shapes(op, arguments):
    """Runs a graph with unknown shapes, which the kernel checks."""
    tensors, attributes = split_inputs(arguments)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        inputs = placeholders(tensors, shaped=False)
        feed = dict(zip(tf.nest.flatten(inputs), tf.nest.flatten(tensors), strict=True))
        return session.run(op(**inputs, **attributes), feed)


RUNS = [run_eagerly, run_with_known_shapes, run_with_unknown_shapes]

# ---------------------------------------------------------------- wrong arguments and errors


def wrong_shapes(shape):
    """Yields wrong shapes similar to a valid one: other ranks, and each size minus 1, plus 1, 0 and doubled."""
    if shape:
        yield ()
        yield shape[:-1]
    yield (*shape, 1)
    yield (1, *shape)
    for axis, size in enumerate(shape):
        for wrong in (size - 1, size + 1, 0, 2 * size):
            yield (*shape[:axis], wrong, *shape[axis + 1 :])


def names_argument(message, argument):
    """Returns whether a message contains the name of an argument."""
    return re.search(rf"\b{argument}\b", message) is not None


def op_message(error):
    """Returns an error message without TensorFlow's description of the op."""
    line = next(line for line in str(error).splitlines() if " must " in line)
    return re.sub(r"^\{\{.*?\}\} ", "", line).split(" for '{{node")[0].split(" [Op:")[0]


def assert_rejected(run, op, arguments, match=" must .* but "):
    """Asserts that a call raises an error with a message, and returns the message."""
    with pytest.raises(ERRORS, match=" must ") as error:
        run(op, arguments)
    message = op_message(error.value)
    assert re.search(match, message), message
    return message
