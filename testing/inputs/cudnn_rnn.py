"""Inputs of the CudnnRNN ops for the tests."""

import dataclasses

import numpy as np
from hypothesis import strategies as st
from references.cudnn_rnn import NUM_GATES, Config, params_size, unpack

import tf_rnn_ops
from inputs.gru_block_cell import cast, random_array

DTYPES = ("float32", "float64", "float16", "bfloat16")
MODES = tuple(NUM_GATES)
INPUTS = ("input", "input_h", "input_c", "params")
OUTPUTS = ("output", "output_h", "output_c")
# Suffixes of the op names. The first two versions are time-major, without sequence lengths and projections.
VERSIONS = ("", "V2", "V3")
# A tensor with fewer elements may consist of sums that nearly cancel.
FEW = 8


def sized(size: tuple[int, int, int, int], **options) -> Config:
    """Returns a network with options and a size: time, batch, input_size, num_units."""
    time, batch, input_size, num_units = size
    return Config(time=time, batch=batch, input_size=input_size, num_units=num_units, **options)


def major(config: Config, *shape: int) -> tuple[int, ...]:
    """Returns a shape with its first two sizes swapped unless time_major."""
    return shape if config.time_major else (shape[1], shape[0], *shape[2:])


def shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the floating inputs and outputs of the forward ops, except reserve_space.

    Only an LSTM has cell states. In other modes they are scalars, and the ops ignore them as inputs.
    """
    states = major(config, config.num_pseudo_layers, config.batch, config.output_size)
    cell_states = major(config, config.num_pseudo_layers, config.batch, config.num_units)
    has_cell_state = config.rnn_mode == "lstm"
    return {
        "input": major(config, config.time, config.batch, config.input_size),
        "input_h": states,
        "input_c": cell_states if has_cell_state else (),
        "params": (params_size(config),),
        "output": major(config, config.time, config.batch, config.num_directions * config.output_size),
        "output_h": states,
        "output_c": cell_states if has_cell_state else (),
    }


def params_layout(config: Config) -> tf_rnn_ops.params.Layout:
    """Returns the layout of the params buffer of a network."""
    names = ("rnn_mode", "num_units", "input_size", "num_layers", "direction", "input_mode", "num_proj")
    return tf_rnn_ops.params.layout(**{name: getattr(config, name) for name in names})


def regions(config: Config, name: str) -> tuple[slice, ...]:
    """Returns the slices of an input's gradient that are also compared separately.

    These are the matrices and biases of the gates in params, because errors in a small bias are small relative to a
    large matrix. Regions with few elements, and networks with a small projected state, are excluded: they may consist
    of sums that nearly cancel, with large relative rounding errors.
    """
    if name != "params" or 0 < config.num_proj < FEW:
        return ()
    layout = params_layout(config).values()
    return tuple(slice(each.offset, each.offset + each.size) for each in layout if each.size >= FEW)


def random_params(config: Config, rng) -> np.ndarray:
    """Returns parameters with which the activations of all layers are of order 1."""
    params = random_array(rng, params_size(config))
    for weights in unpack(config, params):
        for matrix in (weights.W, weights.R, weights.P):
            if matrix is not None:
                matrix[...] /= np.sqrt(max(matrix.shape[-1], 1))
    return params


def network_inputs(config: Config, dtype="float64", seed=0) -> dict[str, np.ndarray]:
    """Returns the floating inputs of a forward op, as arrays of `dtype`."""
    rng = np.random.default_rng(seed)
    inputs = {name: random_array(rng, *shapes(config)[name]) for name in ("input", "input_h", "input_c")}
    return cast({**inputs, "params": random_params(config, rng)}, dtype)


def away_from_kinks(config: Config, inputs) -> dict[str, np.ndarray]:
    """Returns inputs with which the input of every ReLU is far from 0 at every step.

    Args:
      config: the network.
      inputs: inputs of the network, from which the result takes the dtype and the signs.
    """
    params = inputs["params"].astype(np.float64)
    for weights in unpack(config, params):
        for matrix in (weights.W, weights.R):
            if matrix is not None:
                matrix /= 8
        weights.W_bias[...] = np.copysign(8, weights.W_bias)
        weights.R_bias[...] /= 8
    return {**inputs, "params": params.astype(inputs["params"].dtype)}


def output_gradients(config: Config, dtype="float64", seed=0) -> dict[str, np.ndarray]:
    """Returns gradients with respect to the outputs, as arrays of `dtype`."""
    rng = np.random.default_rng([seed, 1])  # different from the inputs of the same seed
    return cast({f"{name}_backprop": random_array(rng, *shapes(config)[name]) for name in OUTPUTS}, dtype)


def inputs_and_gradients(config: Config, dtype="float64", seed=0):
    """Returns the results of `network_inputs` and `output_gradients`."""
    return network_inputs(config, dtype, seed), output_gradients(config, dtype, seed)


def attributes(config: Config, version="V3") -> dict:
    """Returns the attributes, except seeds, that the forward op and its backprop op share."""
    names = ["rnn_mode", "input_mode", "direction", "dropout"]
    if version == "V3":
        names += ["num_proj", "time_major"]
    return {name: getattr(config, name) for name in names}


def forward_arguments(config: Config, inputs, version="V3") -> dict:
    """Returns the arguments of a forward op.

    Args:
      config: the network.
      inputs: a dict of the op's floating inputs.
      version: the suffix of the op name.
    """
    lengths = {"sequence_lengths": config.lengths} if version == "V3" else {}
    return {**inputs, **lengths, **attributes(config, version)}


def backprop_arguments(config: Config, inputs, outputs, gradients, version="V3") -> dict:
    """Returns the arguments of a backprop op.

    Args:
      config: the network.
      inputs: a dict of the forward op's floating inputs.
      outputs: the outputs of the forward op.
      gradients: a dict of the gradients with respect to the outputs.
      version: the suffix of the op name.
    """
    names = [*OUTPUTS, "reserve_space"]
    if version != "":
        names.append("host_reserved")
    from_forward = {name: getattr(outputs, name) for name in names}
    return {**forward_arguments(config, inputs, version), **from_forward, **gradients}


def draw_config(pick, units, input_sizes, steps, version="V3") -> Config:
    """Draws a network with any combination of options.

    Args:
      pick: returns one element of a sequence.
      units: the numbers of units to pick from, in ascending order.
      input_sizes: the sizes of the input to pick from.
      steps: the numbers of time steps and sequences to pick from.
      version: the suffix of the op name.
    """
    input_mode, num_units = pick(("linear_input", "skip_input", "auto_select")), pick(units)
    config = Config(
        rnn_mode=pick(MODES),
        input_mode=input_mode,
        direction=pick(("unidirectional", "bidirectional")),
        num_layers=pick((1, 2, 3)),
        num_units=num_units,
        input_size=num_units if input_mode == "skip_input" else pick((num_units, *[pick(input_sizes)] * 2)),
        time=pick(steps),
        batch=pick(steps),
    )
    if version != "V3":
        return config
    projections = range(max(units[0], 1), num_units + 1) if config.rnn_mode == "lstm" else ()
    lengths = tuple(pick(range(config.time + 1)) for _ in range(config.batch))
    return dataclasses.replace(
        config,
        num_proj=pick((0, pick(projections))) if projections else 0,
        time_major=pick((True, False)),
        sequence_lengths=pick((None, lengths)),
    )


@st.composite
def configs(draw, version="V3", smallest=FEW, largest=40) -> Config:
    """A strategy for networks with any combination of options.

    By default, networks have at least 8 units and 0 or at least 8 inputs: tensors with few elements may consist of sums
    that nearly cancel, with large relative rounding errors.

    Args:
      draw: the draw function of Hypothesis.
      version: the suffix of the op name.
      smallest: the smallest number of units and inputs.
      largest: the largest number of units and inputs.
    """
    units = range(smallest, largest + 1)
    input_sizes = (*[0] * (len(units) // 3), *units)
    return draw_config(lambda options: draw(st.sampled_from(options)), units, input_sizes, range(12), version)
