"""What differs between Keras 3 and Keras 2: a table for each, from which layers are described."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf

# The functions of TensorFlow that are activations, by their names in Keras and in the op.
ACTIVATIONS: dict[str, tuple[Any, ...]] = {
    "tanh": (tf.tanh, tf.nn.tanh),
    "sigmoid": (tf.sigmoid, tf.nn.sigmoid),
    "relu": (tf.nn.relu,),
    "linear": (),
    "hard_sigmoid": (),
    "elu": (tf.nn.elu,),
    "selu": (tf.nn.selu,),
    "softplus": (tf.nn.softplus,),
    "softsign": (tf.nn.softsign,),
    "exponential": (tf.exp,),
    "leaky_relu": (tf.nn.leaky_relu,),
    "relu6": (tf.nn.relu6,),
    "hard_tanh": (),
    "log_sigmoid": (tf.math.log_sigmoid,),
    "squareplus": (),
    "hard_shrink": (),
    "soft_shrink": (),
    "sparse_sigmoid": (),
    "gelu": (tf.nn.gelu,),
    "gelu_approximate": (),
    "silu": (tf.nn.silu,),
    "mish": (),
    "hard_silu": (),
    "tanh_shrink": (),
    "sparse_plus": (),
}

# Other names of the activations in Keras.
OTHER_NAMES = {"elu": ("celu",), "exponential": ("exp",), "silu": ("swish",), "hard_silu": ("hard_swish",)}

# An attribute to replace: its owner, its name, and a function that makes the new value from the original.
Patch: TypeAlias = tuple[Any, str, Callable[[Any], Any]]


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


LSTM = Kind("lstm", 4, 2, ("activation", "recurrent_activation"))
GRU = Kind("gru", 3, 1, ("activation", "recurrent_activation"))
SIMPLE_RNN = Kind("simple_rnn", 1, 1, ("activation",))


class Keras(NamedTuple):
    """One Keras.

    Attributes:
      name: its name for people.
      package: the package that defines it.
      oldest: the oldest version that runs.
      newest_tested: the newest version that was tested.
      layer: the class of all layers.
      caller: the class whose `__call__` runs that of a layer.
      model: the class of all models.
      recurrent: the class of all recurrent layers, `RNN`.
      cells: the kind of each class of cells.
      cudnn: the kind of each class of layers without a cell, which cuDNN computes.
      convolutional: the classes of convolutional recurrent layers.
      stacked_cells: the class of several cells in one.
      lambda_layer: the class of layers that call a function of a user.
      activations: the functions of each activation of the op, by its name.
      activations_of_gates: functions that are an activation of the op if their argument is multiplied by a number:
        (function, name, number).
      loops: the functions that run a cell over all steps, or that call these: owner, name, and the parameters that
        are expected, or None if the owner only inherits the function.
      compiled_metrics: the name of the attribute of a model that leads to its metrics.
      inputs_struct: the name of the attribute of a model that holds its inputs, nested as its caller passes them.
      autocast: the name of the attribute of a layer that tells whether it casts its inputs.
      is_variable: returns whether a weight is a variable of this Keras.
      is_cast: returns whether a variable is cast to the dtype in which its layer computes.
      stored: returns the contents of a variable in the dtype in which it is stored.
      input_masks: takes a cell, its kind, inputs, [batch, time, features] or of one step [batch, features], `training`,
        and whether the loop is unrolled. Draws the dropout masks of the inputs, one for all gates or one for each gate:
        [batch, features] for all steps, or [batch, time, features].
      state_masks: takes a cell, its kind, a state, [batch, units], the number of steps, or None for a call of the cell
        itself, `training`, and whether the loop is unrolled. Draws its masks, one for all gates or one for each gate:
        [batch, units] for all steps, or [batch, steps, units].
      draws_in_inference: the kinds of cells that ask for their dropout masks in inference, too.
      surprises_of_layer: yields why a layer may compute something else than its cell says, and what to change.
      surprises_of_dropout: takes a cell and its kind. Yields why it may draw other masks than these functions.
      drops_before: returns whether a layer applies the dropout of its inputs before it runs its cell.
      patches: takes a function with the first arguments of `execution.run`. Returns the patches that make `loops` call
        it, and others that this Keras needs.
    """

    name: str
    package: Any
    oldest: tuple[int, int]
    newest_tested: tuple[int, int]
    layer: Any
    caller: Any
    model: Any
    recurrent: Any
    cells: Mapping[type, Kind]
    cudnn: Mapping[type, Kind]
    convolutional: Any
    stacked_cells: Any
    lambda_layer: Any
    activations: Mapping[str, tuple[Any, ...]]
    activations_of_gates: tuple[tuple[Any, str, float], ...]
    loops: tuple[tuple[Any, str, Sequence[str] | None], ...]
    compiled_metrics: str
    inputs_struct: str
    autocast: str
    is_variable: Callable[[Any], bool]
    is_cast: Callable[[Any], bool]
    stored: Callable[[Any], tf.Tensor]
    input_masks: Callable[..., list[tf.Tensor]]
    state_masks: Callable[..., list[tf.Tensor]]
    draws_in_inference: tuple[Kind, ...]
    surprises_of_layer: Callable[[Any], Iterable[str]]
    surprises_of_dropout: Callable[[Any, Kind], Iterable[str]]
    drops_before: Callable[[Any], bool]
    patches: Callable[[Callable[..., Any]], Iterable[Patch]]
