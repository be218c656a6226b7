"""Draws valid calls of every op with all options, in small sizes, and in huge sizes if the tensors are empty."""

import dataclasses
import functools
import re
import unittest.mock
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from checks import cudnn_rnn_params as params_checks
from checks.dropout import fresh_kernels
from references.block_lstm import Results as LstmResults
from references.cudnn_rnn import Config, params_size

import tf_rnn_ops
from inputs import block_lstm as lstm_inputs
from inputs import cudnn_rnn as cudnn_rnn_inputs
from inputs import gru_block_cell as gru_inputs
from inputs import keras_rnn as keras_rnn_inputs
from inputs.calls import (
    LARGEST_COMPUTED,
    array_of,
    attribute_types,
    can_be_made,
    input_names,
    is_tensor,
    numpy_dtype,
    tensor_of,
    zeros,
)
from inputs.cudnn_rnn import DTYPES, INPUTS, OUTPUTS

HUGE = (2**31 - 1, 2**31, 2**32 + 1, 2**40, 2**62, 2**63 - 1)
HUGE_SHARE = 0.04
SIZES = (0, *range(1, 10), *range(1, 10))
DROPOUTS = (*(0.0,) * 8, 0.3, 0.5, 1.0)
EXTREME_SHARE = 0.12
EXTREME_VALUES = (np.nan, np.nan, np.inf, -np.inf, 1e30, 1e-40, -0.0)
KERAS_ACTIVATIONS = ("activation", "recurrent_activation")
KERAS_FLAGS = ("go_backwards", "return_sequences", "zero_output_for_mask")
KERAS_INPUTS = ("sequences", "initial_h", "initial_c", "kernel", "recurrent_kernel", "bias")
KERAS_RESULT_NAMES = (
    *(f"{name}_grad" for name in KERAS_INPUTS),
    *(f"{name}_backprop_grad" for name in ("outputs", "final_h", "final_c")),
)
RESULT_NAMES = tuple(f"{name}_grad" for name in INPUTS) + tuple(f"{name}_backprop_grad" for name in OUTPUTS)

Arguments = dict[str, Any]


def function_of(op: str) -> Callable[..., Any]:
    """Returns the Python function of one of our ops."""
    return getattr(tf_rnn_ops.raw_ops, op, None) or getattr(tf_rnn_ops._library.ops, f"TfRnnOps_{op}")


def choice(rng, options):
    """Returns one of the options, without conversion to NumPy."""
    return options[int(rng.integers(len(options)))]


def draw_seed(rng) -> int:
    """Draws a seed."""
    return int(rng.integers(2**31))


# ---------------------------------------------------------------- networks


def draw_config(rng, version="V3") -> Config:
    """Draws a network configuration, including time and batch sizes."""
    config = cudnn_rnn_inputs.draw_config(functools.partial(choice, rng), SIZES, SIZES, SIZES, version)
    config = dataclasses.replace(config, dropout=choice(rng, DROPOUTS))
    return with_huge_sizes(rng, config) if rng.random() < HUGE_SHARE else config


def with_huge_sizes(rng, config: Config) -> Config:
    """Makes a size huge and another one 0, if TensorFlow supports the shapes."""
    huge = choice(rng, HUGE)
    if rng.random() < 0.5:
        changes: dict[str, Any] = {"batch": 0, "time": huge}
    else:
        changes = {"num_units": 0, "num_proj": 0, choice(rng, ("time", "num_layers", "input_size")): huge}
    changed = dataclasses.replace(config, **changes, sequence_lengths=None)
    if changed.input_mode == "skip_input":
        changed = dataclasses.replace(changed, input_size=changed.num_units)
    return changed if all(map(can_be_made, cudnn_rnn_inputs.shapes(changed).values())) else config


def is_huge(config: Config) -> bool:
    """Whether a size is too large for the references."""
    sizes = (config.time, config.batch, config.num_layers, config.num_units, config.input_size)
    return max(sizes) > LARGEST_COMPUTED


def draw_arrays(rng, config: Config, dtype: str, names: dict[str, str]) -> Arguments:
    """Draws arrays in the shapes of a network's inputs and outputs.

    Args:
      rng: the random number generator.
      config: the network.
      dtype: the dtype of the arrays.
      names: maps the name of each array to the input or output that has its shape.
    """
    shapes = cudnn_rnn_inputs.shapes(config)
    if is_huge(config):
        return {name: zeros(shapes[of], numpy_dtype(dtype)) for name, of in names.items()}
    drawn = {name: rng.standard_normal(shapes[of]) for name, of in names.items() if of != "params"}
    params = {name: cudnn_rnn_inputs.random_params(config, rng) for name, of in names.items() if of == "params"}
    return gru_inputs.cast({**drawn, **params}, dtype)


def with_extreme_values(rng, arrays: Arguments) -> Arguments:
    """Rarely replaces elements of one array by values that are not finite, very large or very small."""
    names = [name for name, array in arrays.items() if isinstance(array, np.ndarray) and array.size > 0]
    if not names or rng.random() >= EXTREME_SHARE:
        return arrays
    name = choice(rng, names)
    array = arrays[name].copy()
    with np.errstate(over="ignore", under="ignore"):
        array.flat[rng.integers(array.size, size=int(rng.integers(1, 4)))] = choice(rng, EXTREME_VALUES)
    return {**arrays, name: array}


def lengths_of(config: Config):
    """Returns the sequence lengths as an argument."""
    return zeros((config.batch,), np.int32) if is_huge(config) else config.lengths


def run_forward(rng, config: Config, inputs: Arguments, version: str) -> Arguments:
    """Runs our forward op and returns its results as arguments, by name."""
    op = getattr(tf_rnn_ops.raw_ops, f"CudnnRNN{version}")
    arguments = {name: tensor_of(value) for name, value in inputs.items()}
    attributes = cudnn_rnn_inputs.attributes(config, version)
    if version == "V3":
        arguments["sequence_lengths"] = tensor_of(lengths_of(config))
    if config.dropout > 0:
        fresh_kernels()
    outputs = op(**arguments, **attributes, seed=draw_seed(rng), seed2=draw_seed(rng) + 1)
    return {name: array_of(value) for name, value in outputs._asdict().items()}


def network_values(rng, op: str) -> Arguments:
    """Draws arguments of an op that runs or differentiates a network."""
    names = input_names(op)
    config, dtype = draw_config(rng, "V3" if "num_proj" in attribute_types(op) else "V2"), choice(rng, DTYPES)
    drawn = {name: re.sub("(_backprop)?(_grad)?$", "", name) for name in names if name in INPUTS or "_backprop" in name}
    arrays = with_extreme_values(rng, draw_arrays(rng, config, dtype, drawn))
    seeds = draw_seed(rng), draw_seed(rng)
    values = {
        **arrays,
        "sequence_lengths": lengths_of(config),
        **cudnn_rnn_inputs.attributes(config),
        "seed": np.array(seeds, np.int64) if "seed" in names else seeds[0],
        "seed2": seeds[1],
        "is_training": bool(rng.random() < 0.7),
        "masks_type": choice(rng, (tf.float32, tf.float64)),
        "skip": [name for name in RESULT_NAMES if rng.random() < 0.15],
    }
    if "reserve_space" in names:
        version = op.removeprefix("CudnnRNNBackprop")
        inputs = {name: arrays[name] for name in INPUTS}
        values |= run_forward(rng, config, inputs, version if version in cudnn_rnn_inputs.VERSIONS else "V3")
    return values


# ---------------------------------------------------------------- params


def params_values(rng, op: str) -> Arguments:
    """Draws arguments of an op that sizes, splits or joins params."""
    config = draw_config(rng, "V3" if "num_proj" in attribute_types(op) else "V2")
    if is_huge(config):
        return params_values(rng, op)
    dtype = choice(rng, DTYPES)
    params = params_checks.random_bits((params_size(config),), dtype, draw_seed(rng))
    parts = params_checks.split(config, params)
    num_weights = len(params_checks.canonical_shapes(config)[0])
    weights, biases = parts[:num_weights], parts[num_weights:]
    values = {
        **{name: np.array(value, np.int32) for name, value in params_checks.sizes(config).items()},
        **params_checks.attributes(config, "V2"),
        "params": params,
        "weights": [each.reshape(-1) for each in weights] if rng.random() < 0.2 else weights,
        "biases": biases,
        "dropout": config.dropout,
        "seed": draw_seed(rng),
        "seed2": draw_seed(rng),
    }
    # In the other ops, TensorFlow takes these from the tensors.
    if op == "CudnnRNNParamsSize":
        values |= {"T": tf.as_dtype(dtype), "S": choice(rng, (tf.int32, tf.int64))}
    if "params" in input_names(op):
        counts = {"num_params_weights": len(weights), "num_params_biases": len(biases), "num_params": len(biases)}
        values |= counts
    return values


# ---------------------------------------------------------------- GRUBlockCell


def draw_cell(rng, gradients: tuple[str, ...]) -> Arguments:
    """Draws the inputs of GRUBlockCell and gradients with respect to some of its outputs."""
    batch, input_size, cell_size = (choice(rng, SIZES) for _ in range(3))
    dtype = choice(rng, DTYPES)
    if rng.random() < HUGE_SHARE:
        return huge_cell(rng, dtype, gradients)
    inputs = gru_inputs.cell_inputs((batch, input_size, cell_size), dtype, draw_seed(rng))
    drawn = gru_inputs.output_gradients((batch, input_size, cell_size), dtype, draw_seed(rng))
    return with_extreme_values(rng, {**inputs, **{name: drawn[name] for name in gradients}})


def huge_cell(rng, dtype: str, gradients: tuple[str, ...]) -> Arguments:
    """Returns empty inputs of a cell with a huge size."""
    huge = choice(rng, HUGE)
    batch, input_size, cell_size = choice(rng, ((huge, 0, 0), (0, huge, 0), (0, huge // 4, 0), (0, 0, 0)))
    shapes = gru_inputs.shapes(batch, input_size, cell_size) | dict.fromkeys(gradients, (batch, cell_size))
    return {name: zeros(shape, numpy_dtype(dtype)) for name, shape in shapes.items()}


def cell_values(rng, op: str) -> Arguments:
    """Draws arguments of GRUBlockCell, GRUBlockCellGrad or its V2."""
    gradients = tuple(name for name in input_names(op) if name.startswith("d_"))
    values = draw_cell(rng, gradients)
    if gradients:
        inputs = {name: tensor_of(value) for name, value in values.items() if name not in gradients}
        step = tf_rnn_ops.raw_ops.GRUBlockCell(**inputs)
        values |= {name: array_of(getattr(step, name)) for name in "ruc"}
    return values


# ---------------------------------------------------------------- LSTMBlockCell and BlockLSTM


def lstm_values(rng, op: str) -> Arguments:
    """Draws arguments of LSTMBlockCell, BlockLSTM of any version, or their gradient ops."""
    time, batch, input_size, cell_size = (choice(rng, SIZES) for _ in range(4))
    is_v2 = op.endswith("V2") or (op.endswith("V3") and rng.random() < 0.5)
    forward = lstm_inputs.forward_op(op, is_v2)
    dtype, seed = choice(rng, DTYPES), draw_seed(rng)
    if rng.random() < HUGE_SHARE:
        huge = choice(rng, HUGE)
        time, batch, input_size, cell_size = choice(rng, ((huge, 0, 0, 0), (0, huge, 0, 0), (0, 0, 0, huge // 4)))
        shapes = lstm_inputs.shapes(forward, time, batch, input_size, cell_size)
        shapes |= dict.fromkeys(LstmResults._fields, lstm_inputs.output_shape(forward, time, batch, cell_size))
        shapes |= {f"{name}_grad": shapes[name] for name in LstmResults._fields}
        if not all(map(can_be_made, shapes.values())):
            return lstm_values(rng, op)
        arrays = {name: zeros(shape, numpy_dtype(dtype)) for name, shape in shapes.items()}
    else:
        size = time, batch, input_size, cell_size
        arrays = {
            **lstm_inputs.inputs(forward, size, dtype, seed),
            **lstm_inputs.output_gradients(forward, size, dtype),
        }
        arrays = with_extreme_values(rng, {name: arrays[name] for name in arrays if name in input_names(op)})
    values = {
        **lstm_inputs.steps(forward, int(rng.integers(time, endpoint=True))),
        **arrays,
        "new_cell_second": not is_v2,
        "use_peephole": bool(rng.random() < 0.5),
    }
    options = {
        name: choice(rng, (-1.0, -0.5, 0.0, 0.25, 1.0, 3.0))
        for name, kind in attribute_types(forward).items()
        if kind == "float"
    }
    if "Grad" in op:
        names = (*input_names(forward), "use_peephole")
        arguments = {name: tensor_of(values[name]) if is_tensor(values[name]) else values[name] for name in names}
        results = getattr(tf_rnn_ops.raw_ops, forward)(**arguments, **options)
        values |= {name: array_of(each) for name, each in results._asdict().items()}
    return {**values, **options}


# ---------------------------------------------------------------- KerasRNN


def keras_values(rng, op: str) -> Arguments:
    """Draws arguments of KerasRNN, KerasRNNBackprop or KerasRNNBackpropGrad, or of these with mixed precision."""
    is_mixed = op.startswith("Mixed")
    halves = ("float16", "bfloat16")
    dtypes = [each for each in DTYPES if each in halves] or halves if is_mixed else DTYPES
    mode, dtype = choice(rng, tuple(keras_rnn_inputs.KINDS)), choice(rng, dtypes)
    batch, time, features, units = (choice(rng, SIZES) for _ in range(4))
    shapes = keras_rnn_inputs.shapes(mode, batch, time, features, units, use_bias=rng.random() < 0.5)
    drawn = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    mask = choice(rng, (np.zeros([0], bool), rng.random((batch, time)) < 0.7))
    of_gates = {}
    for name, size in (("input_masks", features), ("state_masks", units)):
        count = choice(rng, (0, 0, 1, keras_rnn_inputs.NUM_GATES[mode]))
        shape = choice(rng, ((batch, size), (batch, time, size)))
        masks = {str(i): 2.0 * (rng.random(shape) < 0.5) for i in range(count)}
        of_gates[name] = list(gru_inputs.cast(masks, dtype).values())
    is_backward = "reserve_space" in input_names(op)
    weights = {name: drawn[name] for name in keras_rnn_inputs.WEIGHTS} if is_mixed else {}
    values = {
        **with_extreme_values(rng, gru_inputs.cast(drawn, dtype) | gru_inputs.cast(weights, "float32")),
        "mask": mask,
        **of_gates,
        "rnn_mode": mode,
        **{name: choice(rng, keras_rnn_inputs.ACTIVATIONS) for name in keras_rnn_inputs.chosen_activations(mode)},
        **{name: bool(rng.random() < 0.5) for name in KERAS_FLAGS},
        "is_training": is_backward or bool(rng.random() < 0.7),
    }
    if is_backward:
        tensors = tf.nest.map_structure(lambda each: tensor_of(each) if is_tensor(each) else each, values)
        outputs = {name: array_of(each) for name, each in tf_rnn_ops.raw_ops.KerasRNN(**tensors)._asdict().items()}
        values |= {f"{name}_backprop_grad": values[name] for name in KERAS_INPUTS}
        values |= {f"{name}_backprop": value for name, value in outputs.items()}
        values["reserve_space"] = outputs["reserve_space"]
        values["skip"] = [name for name in KERAS_RESULT_NAMES if rng.random() < 0.15]
    return values


# ---------------------------------------------------------------- AlignTensor


def any_tensor(rng, op: str) -> Arguments:
    """Draws the argument of AlignTensor."""
    shape = [choice(rng, SIZES) for _ in range(rng.integers(4))]
    if rng.random() < 0.2:
        return {"tensor": np.asarray(rng.random(shape) < 0.5)}  # a scalar, too
    return {"tensor": params_checks.random_bits(shape, choice(rng, DTYPES), draw_seed(rng))}


# By the first letters of the op.
_FAMILIES: dict[str, Callable[[np.random.Generator, str], Arguments]] = {
    "CudnnRNNParams": params_values,
    "CudnnRNNCanonical": params_values,
    "CudnnRNN": network_values,
    "StatelessCudnnRNN": network_values,
    "GRUBlockCell": cell_values,
    "LSTMBlockCell": lstm_values,
    "BlockLSTM": lstm_values,
    "KerasRNN": keras_values,
    "MixedKerasRNN": keras_values,
    "AlignTensor": any_tensor,
}


def valid_arguments(rng, op: str) -> Arguments:
    """Draws valid arguments of an op: those of its definition, but no attributes that follow from the tensors."""
    values = next(draw for first, draw in _FAMILIES.items() if op.startswith(first))(rng, op)
    return {name: values[name] for name in (*input_names(op), *attribute_types(op)) if name in values}


def finite_arguments(op: str, dtype: str, sizes: Sequence[int], seed: int) -> Arguments:
    """Draws valid arguments of an op with finite values and no huge sizes.

    Args:
      op: the op name.
      dtype: the type of its floating inputs.
      sizes: the sizes to draw from.
      seed: the random seed.
    """
    options: dict[str, Any] = {
        "DTYPES": (dtype,),
        "HUGE_SHARE": 0,
        "EXTREME_SHARE": 0,
        "SIZES": sizes,
    }
    with unittest.mock.patch.multiple(__name__, **options):
        return valid_arguments(np.random.default_rng(seed), op)
