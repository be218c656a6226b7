"""The CudnnRNN ops and KerasRNN built from TensorFlow's own operations, for gradients of third and higher order.

This implementation is slow and uses much memory. It is used only for derivatives that the ops do not have.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tf_rnn_ops._alignment import aligned
from tf_rnn_ops.params import Layout, layout
from tf_rnn_ops.params._arrays import TENSORFLOW
from tf_rnn_ops.params._blocks import blocks_of_pseudo_layers, split_into_blocks


class Cell(NamedTuple):
    """The mathematics of a step.

    Attributes:
      rnn_mode: as in the ops.
      activation: the activation of a cell other than rnn_tanh and rnn_relu, by its name in the op KerasRNN.
      recurrent_activation: the activation of its gates.
    """

    rnn_mode: str
    activation: str = "tanh"
    recurrent_activation: str = "sigmoid"


class Network(NamedTuple):
    """The configuration of a CudnnRNN op.

    Attributes:
      layout: the layout of the params.
      time_major: whether time comes before batch.
      sequence_lengths: [batch].
      masks: dropout masks of the inputs of all layers but the first, [num_layers - 1, time, batch, output], or None.
    """

    layout: Layout
    time_major: bool
    sequence_lengths: tf.Tensor
    masks: tf.Tensor | None = None


_ACTIVATIONS = {
    "tanh": tf.tanh,
    "sigmoid": tf.sigmoid,
    "relu": tf.nn.relu,
    "linear": tf.identity,
    "hard_sigmoid": lambda z: tf.nn.relu6(z + 3) / 6,
    "elu": tf.nn.elu,
    "selu": tf.nn.selu,
    "softplus": tf.nn.softplus,
    "softsign": lambda z: z / (1 + tf.abs(z)),  # TensorFlow's has no second derivative
    "exponential": tf.exp,
    "leaky_relu": tf.nn.leaky_relu,
    "relu6": tf.nn.relu6,
    "hard_tanh": lambda z: tf.clip_by_value(z, -1, 1),
    "log_sigmoid": tf.math.log_sigmoid,
    "squareplus": lambda z: (z + tf.sqrt(tf.square(z) + 4)) / 2,
    "hard_shrink": lambda z: tf.where(tf.abs(z) > 0.5, z, 0),
    "soft_shrink": lambda z: z - tf.clip_by_value(z, -0.5, 0.5),
    "sparse_sigmoid": lambda z: tf.clip_by_value((z + 1) / 2, 0, 1),
    "gelu": lambda z: z * tf.math.erfc(-z * math.sqrt(0.5)) / 2,  # TensorFlow's has the precision of float32
    "gelu_approximate": lambda z: tf.nn.gelu(z, approximate=True),
    "silu": lambda z: z * tf.sigmoid(z),
    "mish": lambda z: z * tf.tanh(tf.nn.softplus(z)),
    "hard_silu": lambda z: z * tf.nn.relu6(z + 3) / 6,
    "tanh_shrink": lambda z: z - tf.tanh(z),
    "sparse_plus": lambda z: tf.where(z < 1, tf.square(tf.nn.relu(z + 1)) / 4, z),
}


def make_layout(arguments: Sequence[tf.Tensor], attrs: dict[str, Any]) -> Layout:
    """Returns the layout of the params, from the shapes of the arguments.

    Args:
      arguments: input, input_h, input_c and params.
      attrs: rnn_mode, input_mode, direction, num_proj and time_major.

    Raises:
      ValueError: if num_layers, num_units or input_size is not known.
    """
    text = {name: tf.compat.as_str(attrs[name]) for name in ("rnn_mode", "input_mode", "direction")}
    input, input_h, input_c, _ = arguments
    pseudo_layers = input_h.shape[0 if attrs["time_major"] else 1]
    num_units = (input_c if text["rnn_mode"] == "lstm" else input_h).shape[2]
    if None in (pseudo_layers, num_units, input.shape[2]):
        raise ValueError(
            "gradients of third or higher order require num_layers, num_units and input_size to be known when the "
            f"graph is built, but the shapes are: input {input.shape}, input_h {input_h.shape}, input_c {input_c.shape}"
        )
    directions = 2 if text["direction"] == "bidirectional" else 1
    return layout(
        **text,
        num_units=num_units,
        input_size=input.shape[2],
        num_layers=pseudo_layers // directions,
        num_proj=attrs["num_proj"],
    )


def _product(x: tf.Tensor, kernel: tf.Tensor, masks: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns W x of some gates, [rows, gates * units].

    Args:
      x: [rows, size].
      kernel: W of the gates, [gates * units, size].
      masks: what to multiply x by before W of each gate does, each [rows, size]; or none.
    """
    if not masks:
        return tf.matmul(x, kernel, transpose_b=True)
    kernels = tf.split(kernel, len(masks), axis=0)
    products = [tf.matmul(x * mask, each, transpose_b=True) for mask, each in zip(masks, kernels, strict=True)]
    return tf.concat(products, axis=1)


def _step(
    cell: Cell,
    weights: Mapping[str, tf.Tensor],
    a: tf.Tensor,
    h_prev: tf.Tensor,
    c_prev: tf.Tensor,
    masks: Sequence[tf.Tensor],
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the hidden state, [batch, output], and the cell state, [batch, units].

    Args:
      cell: the cell.
      weights: the blocks of the pseudo-layer by kind.
      a: W x + bW of all gates, [batch, gates * units].
      h_prev: [batch, output].
      c_prev: [batch, units]; returned unchanged if not LSTM.
      masks: the masks of the state of each gate, each [batch, output]; or none.
    """
    state, gate = _ACTIVATIONS[cell.activation], _ACTIVATIONS[cell.recurrent_activation]
    if cell.rnn_mode == "gru_reset_before":
        sizes = tf.shape(h_prev)[1] * [2, 1]
        a_ru, a_n = tf.split(a, sizes, axis=1)
        r_ru, r_n = tf.split(weights["recurrent_kernel"], sizes, axis=0)
        r, u = tf.split(gate(a_ru + _product(h_prev, r_ru, masks[:2])), 2, axis=1)
        n = state(a_n + _product(r * h_prev, r_n, masks[2:]))
        return (1 - u) * n + u * h_prev, c_prev
    b = _product(h_prev, weights["recurrent_kernel"], masks) + weights["recurrent_bias"]
    if cell.rnn_mode == "lstm":
        i, f, g, o = tf.split(a + b, 4, axis=1)
        c = gate(f) * c_prev + gate(i) * state(g)
        m = gate(o) * state(c)
        return (tf.matmul(m, weights["projection"], transpose_b=True) if "projection" in weights else m), c
    if cell.rnn_mode == "gru":
        (a_r, a_u, a_n), (b_r, b_u, b_n) = tf.split(a, 3, axis=1), tf.split(b, 3, axis=1)
        u = gate(a_u + b_u)
        return (1 - u) * state(a_n + gate(a_r + b_r) * b_n) + u * h_prev, c_prev
    return (tf.nn.relu if cell.rnn_mode == "rnn_relu" else state)(a + b), c_prev


def _sequence(
    cell: Cell,
    weights: Mapping[str, tf.Tensor],
    x: tf.Tensor,
    h: tf.Tensor,
    c: tf.Tensor,
    is_valid: tf.Tensor,
    is_backward: bool = False,
    repeats: bool = False,
    input_masks: Sequence[tf.Tensor] = (),
    state_masks: Sequence[tf.Tensor] = (),
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Runs a pseudo-layer.

    Args:
      cell: the cell.
      weights: the blocks of the pseudo-layer by kind.
      x: [time, batch, fan_in].
      h: [batch, output].
      c: [batch, units].
      is_valid: [time, batch]. At other steps, the state does not change.
      is_backward: whether it processes the steps from last to first.
      repeats: whether the output at other steps is that of the step processed before, instead of zeros.
      input_masks: for each gate [time, batch, fan_in], or [1, batch, fan_in] for all steps; or none.
      state_masks: likewise [time, batch, output], in processing order.

    Returns:
      The output, [time, batch, output], the output of the step processed last, and the final states.
    """
    time, batch, fan_in = tf.unstack(tf.shape(x), 3)
    width = tf.shape(weights["input_bias"])[0]
    rows = tf.reshape(x, [time * batch, fan_in])
    if "kernel" in weights:
        masks = [tf.reshape(tf.broadcast_to(each, tf.shape(x)), tf.shape(rows)) for each in input_masks]
        a = _product(rows, weights["kernel"], masks)
    else:
        a = tf.tile(rows, [1, width // fan_in])
    a = tf.reshape(a + weights["input_bias"], [time, batch, width])
    inputs = tf.TensorArray(x.dtype, size=time, element_shape=[x.shape[1], weights["input_bias"].shape[0]]).unstack(a)
    # The additional last element defines the shape of a sequence without steps if batch is not known.
    outputs = tf.TensorArray(x.dtype, size=time + 1, element_shape=[x.shape[1], h.shape[1]])
    last = tf.zeros_like(h)
    outputs = outputs.write(time, last)

    def step(i: tf.Tensor, h: tf.Tensor, c: tf.Tensor, last: tf.Tensor, outputs: tf.TensorArray) -> tuple[Any, ...]:
        t = time - 1 - i if is_backward else i
        valid = is_valid[t][:, tf.newaxis]
        masks = [each[tf.minimum(t, tf.shape(each)[0] - 1)] for each in state_masks]
        new_h, new_c = _step(cell, weights, inputs.read(t), h, c, masks)
        last = tf.where(valid, new_h, last if repeats else tf.zeros_like(new_h))
        return i + 1, tf.where(valid, new_h, h), tf.where(valid, new_c, c), last, outputs.write(t, last)

    _, h, c, last, outputs = tf.while_loop(
        lambda i, *_: i < time, step, (0, h, c, last, outputs), maximum_iterations=time
    )
    return tf.ensure_shape(outputs.stack()[:time], [None, None, h.shape[1]]), last, h, c


def _without_padding(x: tf.Tensor, is_valid: tf.Tensor) -> tf.Tensor:
    """Returns sequences, [time, batch, size], with zeros at invalid steps, from where NaNs could spread otherwise.

    The same applies to the gradients of all orders.
    """
    return tf.where(is_valid[:, :, tf.newaxis], x, tf.zeros_like(x))


def forward(
    network: Network, input: tf.Tensor, input_h: tf.Tensor, input_c: tf.Tensor, params: tf.Tensor
) -> list[tf.Tensor]:
    """Runs a network.

    Args:
      network: the network.
      input: as in the op.
      input_h: as in the op.
      input_c: as in the op.
      params: as in the op.

    Returns:
      A list of output, output_h and, for an LSTM, output_c.
    """

    def major(tensor: tf.Tensor) -> tf.Tensor:
        return tensor if network.time_major else tf.transpose(tensor, [1, 0, 2])

    of_name = split_into_blocks(TENSORFLOW, network.layout, params)
    is_lstm = network.layout.rnn_mode == "lstm"
    num_directions = 2 if network.layout.direction == "bidirectional" else 1
    pseudo_layers = network.layout.num_layers * num_directions
    h = tf.unstack(major(input_h), pseudo_layers)
    c = tf.unstack(major(input_c), pseudo_layers) if is_lstm else list(h)
    x = major(input)
    is_valid = tf.range(tf.shape(x)[0])[:, tf.newaxis] < network.sequence_lengths
    x = _without_padding(x, is_valid)
    cell = Cell(network.layout.rnn_mode)
    outputs: list[tf.Tensor] = []
    for p, blocks in enumerate(blocks_of_pseudo_layers(network.layout).values()):
        layer, direction = divmod(p, num_directions)
        if direction == 0 and layer > 0:
            x = tf.concat(outputs, axis=-1)
            x = x if network.masks is None else x * network.masks[layer - 1]
            outputs = []
        weights = {kind: of_name[block.name] for kind, block in blocks.items()}
        output, _, h[p], c[p] = _sequence(cell, weights, x, h[p], c[p], is_valid, direction == 1)
        outputs.append(output)
    results = [tf.concat(outputs, axis=-1), tf.stack(h), *([tf.stack(c)] if is_lstm else [])]
    return [major(each) for each in results]


def keras_layer(
    attrs: Mapping[str, Any],
    mask: tf.Tensor,
    input_masks: Sequence[tf.Tensor],
    state_masks: Sequence[tf.Tensor],
    *inputs: tf.Tensor,
) -> list[tf.Tensor]:
    """Computes the op KerasRNN.

    Args:
      attrs: the attributes of the op.
      mask: as in the op.
      input_masks: as in the op.
      state_masks: as in the op.
      *inputs: the other inputs of the op.

    Returns:
      The outputs of the op, except reserve_space.
    """
    sequences, initial_h, initial_c, kernel, recurrent_kernel, bias = inputs
    cell = Cell(attrs["rnn_mode"], attrs["activation"], attrs["recurrent_activation"])
    x = tf.transpose(sequences, [1, 0, 2])
    time, batch, _ = tf.unstack(tf.shape(x), 3)
    # Absent initial states are zeros.
    initial_h = _with_rows(initial_h, batch)
    # An empty mask keeps all steps. One from another library may contain bytes other than 0 and 1.
    kept = tf.reshape(tf.cast(mask, tf.int32), [-1])
    kept = tf.concat([kept, tf.ones([batch * time - tf.size(kept)], tf.int32)], axis=0)
    is_valid = tf.transpose(tf.reshape(kept, [batch, time]) != 0)
    of_input, of_state = (
        [tf.cast(each, x.dtype) for each in _masks_of_gates(cell.rnn_mode, masks)]
        for masks in (input_masks, state_masks)
    )
    if attrs["go_backwards"]:
        x, is_valid, *of_input = (tf.reverse(each, [0]) for each in (x, is_valid, *of_input))
    # cuDNN has two biases, as a GRU does. Missing biases are zeros.
    width = tf.shape(recurrent_kernel)[1]
    biases = tf.pad(tf.reshape(bias, [-1]), [[0, 2 * width - tf.size(bias)]])
    biases = _cudnn_order(cell.rnn_mode, tf.reshape(biases, [2, width]))
    weights = {
        "kernel": tf.transpose(_cudnn_order(cell.rnn_mode, kernel)),
        "recurrent_kernel": tf.transpose(_cudnn_order(cell.rnn_mode, recurrent_kernel)),
        "input_bias": biases[0],
        "recurrent_bias": biases[1],
    }
    is_lstm = cell.rnn_mode == "lstm"
    outputs, last, h, c = _sequence(
        cell,
        weights,
        _without_padding(x, is_valid),
        initial_h,
        _with_rows(initial_c, batch) if is_lstm else initial_h,
        is_valid,
        repeats=not attrs["zero_output_for_mask"],
        input_masks=of_input,
        state_masks=of_state,
    )
    outputs = tf.transpose(outputs, [1, 0, 2]) if attrs["return_sequences"] else last
    return [outputs, h, c if is_lstm else tf.zeros_like(initial_c)]


def _masks_of_gates(rnn_mode: str, masks: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Returns masks of the op for each gate in the order of cuDNN, [time or 1, batch, size]; or none."""

    def time_major(mask: tf.Tensor) -> tf.Tensor:
        shape = tf.shape(mask)
        steps = tf.reduce_prod(shape[1:-1])  # 1 if the mask has no steps
        return tf.transpose(tf.reshape(mask, [shape[0], steps, shape[-1]]), [1, 0, 2])

    masks = [time_major(each) for each in masks]
    gates = {"lstm": 4, "gru": 3, "gru_reset_before": 3}.get(rnn_mode, 1)
    masks = masks * gates if len(masks) == 1 else masks
    return [masks[1], masks[0], masks[2]] if gates == 3 and masks else masks


def _with_rows(matrix: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Returns a matrix with rows of zeros appended."""
    if matrix.shape.rank and matrix.shape[0]:
        return matrix
    size, width = tf.unstack(tf.shape(matrix), 2)
    extended = tf.concat([matrix, tf.zeros([rows - size, width], matrix.dtype)], axis=0)
    # Gradients of loops keep a rank that is unknown, and so must this.
    return extended if matrix.shape.rank else tf.compat.v1.placeholder_with_default(extended, None)


def _cudnn_order(rnn_mode: str, columns: tf.Tensor) -> tf.Tensor:
    """Returns a matrix with the columns of its gates in the order of cuDNN, which differs from Keras only in a GRU."""
    if rnn_mode not in ("gru", "gru_reset_before"):
        return columns
    update, reset, new = tf.split(columns, 3, axis=1)
    return tf.concat([reset, update, new], axis=1)


def differentiate_twice(
    function: Callable[..., Sequence[tf.Tensor]],
    arguments: Sequence[tf.Tensor],
    d_results: Sequence[tf.Tensor],
    v: Sequence[tf.Tensor],
    s: Sequence[tf.Tensor],
) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """Differentiates the results of `differentiate_backward`, with operations that TensorFlow can differentiate again.

    16-bit types are computed in float32.

    Args:
      function: as in `differentiate_backward`, like the next three.
      arguments: tensors of the current graph.
      d_results: likewise.
      v: any tensors.
      s: gradients with respect to the results of `differentiate_backward`.

    Returns:
      The gradients with respect to `arguments`, and those with respect to `d_results`.
    """
    num_arguments, num_sources = len(arguments), len(arguments) + len(d_results)
    num_fixed = num_sources + len(v)
    dtype = wide_dtype(arguments[0].dtype)

    def gradients(*tensors: tf.Tensor) -> list[tf.Tensor]:
        sources, v, s = tensors[:num_sources], tensors[num_sources:num_fixed], tensors[num_fixed:]

        def results(*sources: tf.Tensor) -> list[tf.Tensor]:
            cast = [tf.cast(each, dtype) for each in sources]
            return differentiate_backward(function, cast[:num_arguments], cast[num_arguments:], v)

        return differentiate(results, sources, s)

    fixed = [tf.cast(aligned(each), dtype) for each in (*v, *s)]
    grads = [aligned(each) for each in differentiable(gradients)(*arguments, *d_results, *fixed)]
    return grads[:num_arguments], grads[num_arguments:]


def wide_dtype(dtype: tf.DType) -> tf.DType:
    """Returns the dtype in which gradients of a dtype are computed."""
    return tf.float32 if dtype.size == 2 else dtype


def differentiate_backward(
    function: Callable[..., Sequence[tf.Tensor]],
    arguments: Sequence[tf.Tensor],
    d_results: Sequence[tf.Tensor],
    v: Sequence[tf.Tensor],
) -> list[tf.Tensor]:
    """Returns the gradients of a function's backward pass, with respect to its arguments and to `d_results`.

    Args:
      function: see `differentiate`.
      arguments: see `differentiate`.
      d_results: gradients with respect to the results of the function, tensors of the current graph.
      v: gradients with respect to the results of the backward pass, which are the gradients of the arguments.
    """

    def backward(*sources: tf.Tensor) -> list[tf.Tensor]:
        return differentiate(function, sources[: len(arguments)], sources[len(arguments) :])

    return differentiate(backward, [*arguments, *d_results], v)


def differentiable(function: Callable[..., Sequence[tf.Tensor]]) -> Callable[..., Sequence[tf.Tensor]]:
    """Returns a function that a tape differentiates to any order, given one that calls `differentiate`.

    In a graph, `differentiate` calls tf.gradients, which adds outputs to a tf.while_loop that a tape has already
    recorded; the tape would lose the derivatives through them. So each derivative is a new call of tf.gradients.
    """
    if tf.executing_eagerly():
        return function

    @tf.custom_gradient
    def run(*arguments: tf.Tensor) -> tuple[Sequence[tf.Tensor], Callable[..., Sequence[tf.Tensor]]]:
        def gradients(*tensors: tf.Tensor) -> list[tf.Tensor]:
            return differentiate(function, tensors[: len(arguments)], tensors[len(arguments) :])

        return function(*arguments), lambda *d_results: differentiable(gradients)(*arguments, *d_results)

    return run


def differentiate(
    function: Callable[..., Sequence[tf.Tensor]], arguments: Sequence[tf.Tensor], d_results: Sequence[tf.Tensor]
) -> list[tf.Tensor]:
    """Returns the gradients of a function with respect to its arguments; zeros for arguments that it does not use.

    Args:
      function: a function of tensors that returns tensors.
      arguments: its arguments, tensors of the current graph.
      d_results: gradients with respect to its results. Those past the last result are ignored.
    """
    zero = tf.UnconnectedGradients.ZERO
    d_results = [aligned(each) for each in d_results]
    if not tf.executing_eagerly():
        # A tape does not record if a forward accumulator differentiates a tf.function.
        results = function(*arguments)
        return tf.gradients(results, arguments, d_results[: len(results)], unconnected_gradients=zero)
    with tf.GradientTape() as tape:
        tape.watch(arguments)
        results = function(*arguments)
    return tape.gradient(results, arguments, d_results[: len(results)], unconnected_gradients=zero)
