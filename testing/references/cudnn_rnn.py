"""cuDNN's recurrent networks in plain NumPy, forward and backward, easy to compare with the formulas.

In the shapes: time, batch, input = input_size, units = num_units, output = the size of one direction's output,
directions, layers, gates, and pseudo-layers = layers * directions. All computations use the dtype of the arrays,
which may be complex: references.second_order differentiates this code by complex steps.
"""

import dataclasses
from typing import NamedTuple

import numpy as np

from references.gru_block_cell import sigmoid

NUM_GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}


@dataclasses.dataclass(frozen=True)
class Config:
    """A network with its time and batch sizes, named like the attributes of the ops."""

    rnn_mode: str = "lstm"
    input_mode: str = "linear_input"
    direction: str = "unidirectional"
    num_layers: int = 1
    num_units: int = 8
    input_size: int = 8
    num_proj: int = 0
    time: int = 5
    batch: int = 3
    time_major: bool = True
    sequence_lengths: tuple[int, ...] | None = None
    dropout: float = 0.0

    @property
    def num_gates(self) -> int:
        return NUM_GATES[self.rnn_mode]

    @property
    def num_directions(self) -> int:
        return 2 if self.direction == "bidirectional" else 1

    @property
    def num_pseudo_layers(self) -> int:
        return self.num_layers * self.num_directions

    @property
    def skips_input(self) -> bool:
        """Whether layer 0 has no input matrix."""
        fits = self.input_size == self.num_units
        return self.input_mode == "skip_input" or (self.input_mode == "auto_select" and fits)

    @property
    def has_projection(self) -> bool:
        return 0 < self.num_proj < self.num_units

    @property
    def output_size(self) -> int:
        """The size of the output of one direction, and of its hidden state."""
        return self.num_proj if self.has_projection else self.num_units

    @property
    def lengths(self) -> np.ndarray:
        """The sequence lengths, [batch]."""
        full = (self.time,) * self.batch
        return np.array(full if self.sequence_lengths is None else self.sequence_lengths, np.int32)

    def fan_in(self, layer: int) -> int:
        """The size of a layer's input."""
        return self.num_directions * self.output_size if layer else self.input_size


class Weights(NamedTuple):
    """The weights of a pseudo-layer. A matrix is applied as y = x * W^T."""

    W: np.ndarray | None  # [gates, units, fan_in], or None with skip_input
    R: np.ndarray  # [gates, units, output]
    P: np.ndarray | None  # [output, units], or None without a projection
    W_bias: np.ndarray  # [gates, units]
    R_bias: np.ndarray  # [gates, units]


class Step(NamedTuple):
    """The activations of a time step of a pseudo-layer that the backward pass needs."""

    valid: np.ndarray  # whether the step is within the sequence, [batch, 1]
    x: np.ndarray  # [batch, fan_in]
    h_prev: np.ndarray  # [batch, output]
    c_prev: np.ndarray  # [batch, units]
    a: np.ndarray  # W x + bW, [gates, batch, units]
    b: np.ndarray  # R h_prev + bR, [gates, batch, units]
    gates: np.ndarray  # [gates, batch, units]
    c: np.ndarray  # [batch, units]
    m: np.ndarray  # the hidden state before the projection, [batch, units]


class Forward(NamedTuple):
    """Results of a forward pass. With time_major=False, batch comes before time and before pseudo-layers."""

    output: np.ndarray  # [time, batch, directions * output]
    output_h: np.ndarray  # [pseudo-layers, batch, output]
    output_c: np.ndarray  # [pseudo-layers, batch, units]; a scalar zero if not LSTM
    steps: list[list[Step]]  # by pseudo-layer and time


class Backward(NamedTuple):
    """Results of a backward pass: gradients with respect to the inputs, in their shapes."""

    input_backprop: np.ndarray
    input_h_backprop: np.ndarray
    input_c_backprop: np.ndarray
    params_backprop: np.ndarray


def params_size(config: Config) -> int:
    """Returns the number of elements of `params`."""
    gates, layers, units, output = config.num_gates, config.num_layers, config.num_units, config.output_size
    fan_ins = (0 if config.skips_input else config.input_size) + (layers - 1) * config.fan_in(1)
    projection = layers * output * units if config.has_projection else 0
    return config.num_directions * (gates * units * (fan_ins + layers * (output + 2)) + projection)


def unpack(config: Config, params: np.ndarray) -> list[Weights]:
    """Returns the weights of every pseudo-layer, as views into `params`."""
    assert params.shape == (params_size(config),)
    gates, units, output = config.num_gates, config.num_units, config.output_size
    offset = 0

    def take(*shape):
        nonlocal offset
        start, offset = offset, offset + int(np.prod(shape))
        return params[start:offset].reshape(shape)

    matrices = []
    for pseudo_layer in range(config.num_pseudo_layers):
        layer = pseudo_layer // config.num_directions
        skip = layer == 0 and config.skips_input
        w = None if skip else take(gates, units, config.fan_in(layer))
        r = take(gates, units, output)
        p = take(output, units) if config.has_projection else None
        matrices.append((w, r, p))
    return [Weights(*each, take(gates, units), take(gates, units)) for each in matrices]


def major(config: Config, array: np.ndarray) -> np.ndarray:
    """Swaps the first two dimensions of an argument or result unless time_major."""
    return array if config.time_major else array.swapaxes(0, 1)


def activate(rnn_mode, a, b, h_prev, c_prev):
    """Returns the gates, the cell state and the hidden state before the projection."""
    if rnn_mode == "lstm":
        i, f, o = (sigmoid(a[gate] + b[gate]) for gate in (0, 1, 3))
        g = np.tanh(a[2] + b[2])
        c = f * c_prev + i * g
        return np.stack([i, f, g, o]), c, o * np.tanh(c)
    if rnn_mode == "gru":
        r, u = (sigmoid(a[gate] + b[gate]) for gate in (0, 1))
        n = np.tanh(a[2] + r * b[2])
        return np.stack([r, u, n]), c_prev, (1 - u) * n + u * h_prev
    z = a + b
    h = np.tanh(z) if rnn_mode == "rnn_tanh" else np.where(z.real < 0, 0, z)
    return h, c_prev, h[0]


def activate_grad(rnn_mode, step: Step, d_m, d_c):
    """Returns gradients with respect to a and b, and direct gradients (not through a and b) of h_prev and c_prev."""
    if rnn_mode == "lstm":
        i, f, g, o = step.gates
        tanh_c = np.tanh(step.c)
        d_c = d_c + d_m * o * (1 - tanh_c**2)
        d_i, d_f, d_g, d_o = d_c * g, d_c * step.c_prev, d_c * i, d_m * tanh_c
        d_a = np.stack([d_i * i * (1 - i), d_f * f * (1 - f), d_g * (1 - g**2), d_o * o * (1 - o)])
        return d_a, d_a, np.zeros_like(step.h_prev), d_c * f
    if rnn_mode == "gru":
        r, u, n = step.gates
        d_u, d_n = d_m * (step.h_prev - n), d_m * (1 - u)
        d_a_n = d_n * (1 - n**2)
        d_r = d_a_n * step.b[2]
        d_a_r, d_a_u = d_r * r * (1 - r), d_u * u * (1 - u)
        return np.stack([d_a_r, d_a_u, d_a_n]), np.stack([d_a_r, d_a_u, d_a_n * r]), d_m * u, d_c
    h = step.gates
    d_a = d_m * (1 - h**2) if rnn_mode == "rnn_tanh" else np.where(h.real > 0, d_m, 0)
    return d_a, d_a, np.zeros_like(step.h_prev), d_c


def forward_step(config: Config, weights: Weights, x, h_prev, c_prev, valid) -> tuple[np.ndarray, Step]:
    """Runs one time step of a pseudo-layer.

    Returns:
      The hidden state, [batch, output], and the step for the backward pass.
    """
    from_x = x if weights.W is None else x @ weights.W.swapaxes(1, 2)
    a = from_x + weights.W_bias[:, np.newaxis]
    b = h_prev @ weights.R.swapaxes(1, 2) + weights.R_bias[:, np.newaxis]
    gates, c, m = activate(config.rnn_mode, a, b, h_prev, c_prev)
    h = m if weights.P is None else m @ weights.P.T
    return h, Step(valid, x, h_prev, c_prev, a, b, gates, c, m)


def backward_step(config: Config, weights: Weights, step: Step, d_h, d_c, d_weights: Weights):
    """Adds one time step's gradients with respect to the weights to `d_weights`.

    Returns:
      Gradients with respect to x, h_prev and c_prev.
    """
    d_m = d_h if weights.P is None else d_h @ weights.P
    d_a, d_b, d_h_prev, d_c_prev = activate_grad(config.rnn_mode, step, d_m, d_c)
    if d_weights.P is not None:
        d_weights.P[...] += d_h.T @ step.m
    if d_weights.W is not None:
        d_weights.W[...] += d_a.swapaxes(1, 2) @ step.x
    d_weights.R[...] += d_b.swapaxes(1, 2) @ step.h_prev
    d_weights.W_bias[...] += d_a.sum(axis=1)
    d_weights.R_bias[...] += d_b.sum(axis=1)
    d_x = d_a if weights.W is None else d_a @ weights.W
    return d_x.sum(axis=0), d_h_prev + (d_b @ weights.R).sum(axis=0), d_c_prev


def time_steps(config: Config, direction: int) -> range:
    """Returns the time steps in the order of a direction."""
    return range(config.time - 1, -1, -1) if direction else range(config.time)


def forward_sequence(config: Config, direction: int, weights: Weights, x, h, c):
    """Runs one pseudo-layer.

    Args:
      config: the network.
      direction: 0 for forward in time, 1 for backward.
      weights: the weights of the pseudo-layer.
      x: the input, [time, batch, fan_in].
      h: the initial hidden state, [batch, output].
      c: the initial cell state, [batch, units].

    Returns:
      The output, [time, batch, output], the final states, and the steps by time.
    """
    output = np.zeros_like(x, shape=(config.time, config.batch, config.output_size))
    steps = {}
    for t in time_steps(config, direction):
        valid = (t < config.lengths)[:, np.newaxis]
        new_h, steps[t] = forward_step(config, weights, x[t], h, c, valid)
        output[t] = np.where(valid, new_h, 0)
        h = np.where(valid, new_h, h)
        c = np.where(valid, steps[t].c, c)
    return output, h, c, [steps[t] for t in range(config.time)]


def backward_sequence(config: Config, direction: int, weights: Weights, steps, d_output, d_h, d_c, d_weights, d_x):
    """Differentiates one pseudo-layer and accumulates the gradients with respect to its weights and its input.

    Args:
      config: the network.
      direction: 0 for forward in time, 1 for backward.
      weights: the weights of the pseudo-layer.
      steps: the steps from `forward_sequence`.
      d_output: gradient with respect to the output, [time, batch, output].
      d_h: gradient with respect to the final hidden state, [batch, output].
      d_c: gradient with respect to the final cell state, [batch, units].
      d_weights: accumulates the gradients with respect to the weights.
      d_x: accumulates the gradient with respect to the input, [time, batch, fan_in].

    Returns:
      Gradients with respect to the initial states.
    """
    for t in reversed(time_steps(config, direction)):
        valid = steps[t].valid
        d_h_step = np.where(valid, d_output[t] + d_h, 0)
        d_c_step = np.where(valid, d_c, 0)
        d_x_step, d_h_prev, d_c_prev = backward_step(config, weights, steps[t], d_h_step, d_c_step, d_weights)
        d_x[t] += d_x_step
        d_h = np.where(valid, d_h_prev, d_h)
        d_c = np.where(valid, d_c_prev, d_c)
    return d_h, d_c


def forward(config: Config, input, input_h, input_c, params, masks=None) -> Forward:
    """Runs a network.

    Args:
      config: the network.
      input: [time, batch, input].
      input_h: [pseudo-layers, batch, output].
      input_c: [pseudo-layers, batch, units]; ignored if not LSTM.
      params: [params_size].
      masks: dropout masks for the inputs of the layers above layer 0, each [time, batch, directions * output]
        independent of time_major; or None for no dropout.
    """
    has_c = config.rnn_mode == "lstm"
    all_weights = unpack(config, params)
    h = list(major(config, input_h))
    c = list(major(config, input_c) if has_c else np.zeros_like(h))
    all_steps = []
    x = major(config, input)
    for layer in range(config.num_layers):
        if layer > 0 and masks is not None:
            x = x * masks[layer - 1]
        outputs = []
        for direction in range(config.num_directions):
            p = layer * config.num_directions + direction
            output, h[p], c[p], steps = forward_sequence(config, direction, all_weights[p], x, h[p], c[p])
            outputs.append(output)
            all_steps.append(steps)
        x = np.concatenate(outputs, axis=-1)
    return Forward(
        output=major(config, x),
        output_h=major(config, np.stack(h)),
        output_c=major(config, np.stack(c)) if has_c else np.zeros_like(x, shape=()),
        steps=all_steps,
    )


def backward(
    config: Config, run: Forward, input_c, params, output_backprop, output_h_backprop, output_c_backprop, masks=None
) -> Backward:
    """Differentiates a run of a network.

    Args:
      config: the network.
      run: the result of `forward`.
      input_c: as given to `forward`.
      params: as given to `forward`.
      output_backprop: gradient with respect to output, of its shape.
      output_h_backprop: gradient with respect to output_h, of its shape.
      output_c_backprop: gradient with respect to output_c, of its shape; ignored if not LSTM.
      masks: as given to `forward`.
    """
    has_c = config.rnn_mode == "lstm"
    params_backprop = np.zeros_like(params)
    all_weights, d_all_weights = unpack(config, params), unpack(config, params_backprop)
    d_h = list(major(config, output_h_backprop))
    d_c = list(major(config, output_c_backprop) if has_c else np.zeros_like(d_h))
    d_output = major(config, output_backprop)
    for layer in reversed(range(config.num_layers)):
        d_x = np.zeros_like(d_output, shape=(config.time, config.batch, config.fan_in(layer)))
        for direction, d_output_of_one in enumerate(np.split(d_output, config.num_directions, axis=-1)):
            p = layer * config.num_directions + direction
            d_h[p], d_c[p] = backward_sequence(
                config, direction, all_weights[p], run.steps[p], d_output_of_one, d_h[p], d_c[p], d_all_weights[p], d_x
            )
        d_output = d_x * masks[layer - 1] if layer > 0 and masks is not None else d_x
    return Backward(
        input_backprop=major(config, d_output),
        input_h_backprop=major(config, np.stack(d_h)),
        input_c_backprop=major(config, np.stack(d_c)) if has_c else np.zeros_like(input_c),
        params_backprop=params_backprop,
    )


def nearest_to_the_kink(run: Forward) -> float:
    """Returns the smallest magnitude of the inputs of all ReLUs, whose slope changes at 0.

    It is NaN if one of them is NaN.
    """
    magnitudes = [np.abs(step.a + step.b).min(initial=np.inf) for steps in run.steps for step in steps]
    return np.min(magnitudes, initial=np.inf)
