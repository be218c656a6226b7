"""The ops, named and called as their twins in `tf.raw_ops`, and one in Keras's form, which has no twin.

Replacing `tf.raw_ops.` by `tf_rnn_ops.raw_ops.` is the whole migration. All arguments are keywords. All ops run on the
CPU, where the twins of the CudnnRNN ops do not, and take bfloat16, half, float32 and float64, where the twins of the
GRUBlockCell ops take float32 only; bfloat16 and half are computed in float32.
"""

import random
from typing import Any

import tensorflow as tf

from tf_rnn_ops._library import ops

__all__ = [
    "CudnnRNN",
    "CudnnRNNBackprop",
    "CudnnRNNBackpropV2",
    "CudnnRNNBackpropV3",
    "CudnnRNNCanonicalToParams",
    "CudnnRNNCanonicalToParamsV2",
    "CudnnRNNParamsSize",
    "CudnnRNNParamsToCanonical",
    "CudnnRNNParamsToCanonicalV2",
    "CudnnRNNV2",
    "CudnnRNNV3",
    "GRUBlockCell",
    "GRUBlockCellGrad",
    "KerasRNN",
    "KerasRNNBackprop",
]


def _drawing_on_its_own(outputs, drops):
    """Names the stream of dropout masks of an op in a graph, and returns the op's outputs.

    XLA compiles the op anew for each shape. All programs of one name draw from one stream, as the op's kernel does.
    """
    if drops and not tf.executing_eagerly():
        stream = tf.compat.v1.AttrValue(i=random.SystemRandom().getrandbits(63))
        outputs[0].op._set_attr("_dropout_stream", stream)
    return outputs


def GRUBlockCell(*, x, h_prev, w_ru, w_c, b_ru, b_c, name: str | None = None) -> Any:
    """Computes one time step of a GRU cell that resets the state before the matrix product.

        [r_bar u_bar] = [x h_prev] * w_ru + b_ru      r = sigmoid(r_bar)      u = sigmoid(u_bar)
        c_bar = [x (h_prev ∘ r)] * w_c + b_c          c = tanh(c_bar)
        h = u ∘ h_prev + (1 - u) ∘ c

    Source: Cho et al., 2014, arXiv:1406.1078. The twin of `tf.raw_ops.GRUBlockCell`, and differentiable with respect
    to every input through every output.

    Args:
      x: the input, [batch, input_size].
      h_prev: the previous state, [batch, cell_size].
      w_ru: weights of the reset and update gates, reset first, [input_size + cell_size, 2 * cell_size].
      w_c: weights of the candidate, [input_size + cell_size, cell_size].
      b_ru: biases of the reset and update gates, [2 * cell_size].
      b_c: biases of the candidate, [cell_size].
      name: a name for the operation.

    Returns:
      A named tuple of the reset gate `r`, the update gate `u`, the candidate `c` and the new state `h`, each
      [batch, cell_size].

    Raises:
      tf.errors.InvalidArgumentError: if an argument's shape does not fit the others', when run.
      ValueError: the same, when a graph is built of shapes that are known.

    Example:
      >>> x, h, b = tf.ones([1, 2]), tf.zeros([1, 3]), tf.zeros([3])
      >>> step = GRUBlockCell(x=x, h_prev=h, w_ru=tf.ones([5, 6]), w_c=tf.ones([5, 3]), b_ru=tf.zeros([6]), b_c=b)
    """
    return ops.tf_rnn_ops_gru_block_cell(x=x, h_prev=h_prev, w_ru=w_ru, w_c=w_c, b_ru=b_ru, b_c=b_c, name=name)


def GRUBlockCellGrad(*, x, h_prev, w_ru, w_c, b_ru, b_c, r, u, c, d_h, name: str | None = None) -> Any:
    """Computes the gradients of one time step of `GRUBlockCell`.

        d_c_bar = d_h ∘ (1 - u) ∘ (1 - c ∘ c)
        d_u_bar = d_h ∘ (h_prev - c) ∘ u ∘ (1 - u)
        [d_x_2 d_h_prevr] = d_c_bar * w_c^T
        d_r_bar = d_h_prevr ∘ h_prev ∘ r ∘ (1 - r)
        [d_x_1 d_h_prev_1] = [d_r_bar d_u_bar] * w_ru^T
        d_x = d_x_1 + d_x_2
        d_h_prev = d_h_prev_1 + d_h_prevr ∘ r + d_h ∘ u

    The twin of `tf.raw_ops.GRUBlockCellGrad`. The gradients of the weights are products of its results:
    d_w_ru = [x h_prev]^T * d_r_bar_u_bar and d_w_c = [x (h_prev ∘ r)]^T * d_c_bar; those of the biases are sums of
    d_r_bar_u_bar and d_c_bar over the batch.

    Args:
      x: the input, [batch, input_size].
      h_prev: the previous state, [batch, cell_size].
      w_ru: weights of the reset and update gates, reset first, [input_size + cell_size, 2 * cell_size].
      w_c: weights of the candidate, [input_size + cell_size, cell_size].
      b_ru: biases of the reset and update gates, [2 * cell_size].
      b_c: biases of the candidate, [cell_size].
      r: the reset gate that the forward step gave, [batch, cell_size].
      u: the update gate that the forward step gave, [batch, cell_size].
      c: the candidate that the forward step gave, [batch, cell_size].
      d_h: gradient with respect to the new state, [batch, cell_size].
      name: a name for the operation.

    Returns:
      A named tuple of the gradients with respect to x, `d_x`, [batch, input_size]; h_prev, `d_h_prev`,
      [batch, cell_size]; c_bar, `d_c_bar`, [batch, cell_size]; and [r_bar u_bar], `d_r_bar_u_bar`,
      [batch, 2 * cell_size].

    Raises:
      tf.errors.InvalidArgumentError: if an argument's shape does not fit the others', when run.
      ValueError: the same, when a graph is built of shapes that are known.

    Example:
      >>> inputs = dict(x=tf.ones([1, 2]), h_prev=tf.zeros([1, 3]), w_ru=tf.ones([5, 6]), w_c=tf.ones([5, 3]),
      ...               b_ru=tf.zeros([6]), b_c=tf.zeros([3]))
      >>> step = GRUBlockCell(**inputs)
      >>> grads = GRUBlockCellGrad(**inputs, r=step.r, u=step.u, c=step.c, d_h=tf.ones([1, 3]))
    """
    return ops.tf_rnn_ops_gru_block_cell_grad(
        x=x, h_prev=h_prev, w_ru=w_ru, w_c=w_c, b_ru=b_ru, b_c=b_c, r=r, u=u, c=c, d_h=d_h, name=name
    )


def CudnnRNN(
    *,
    input,
    input_h,
    input_c,
    params,
    rnn_mode: str = "lstm",
    input_mode: str = "linear_input",
    direction: str = "unidirectional",
    dropout: float = 0.0,
    seed: int = 0,
    seed2: int = 0,
    is_training: bool = True,
    name: str | None = None,
) -> Any:
    """Runs a stack of recurrent layers over a sequence, as cuDNN does.

    At each step a pseudo-layer, which is one direction of one layer, computes from its input x

        rnn_relu   h = max(0, W x + bW + R h_prev + bR)
        rnn_tanh   h = tanh(W x + bW + R h_prev + bR)
        lstm       i = sigmoid(W_i x + bW_i + R_i h_prev + bR_i), f and o alike
                   g = tanh(W_g x + bW_g + R_g h_prev + bR_g)
                   c = f ∘ c_prev + i ∘ g
                   h = o ∘ tanh(c), or with `CudnnRNNV3`'s projection h = P (o ∘ tanh(c))
        gru        r = sigmoid(W_r x + bW_r + R_r h_prev + bR_r), u alike
                   n = tanh(W_n x + bW_n + r ∘ (R_n h_prev + bR_n))
                   h = (1 - u) ∘ n + u ∘ h_prev

    The output of a layer is h of all directions, forward first, joined along the last axis. Source: NVIDIA's
    documentation of cuDNN, cudnnRNNMode_t.

    The twin of `tf.raw_ops.CudnnRNN`, and differentiable with respect to `input`, `input_h`, `input_c` and `params`
    through `output`, `output_h` and `output_c`, if `is_training`.

    Args:
      input: the sequence, [time, batch, input_size].
      input_h: hidden states before the first step, [num_layers * num_directions, batch, num_units].
      input_c: cell states before the first step, of the shape of `input_h`. Ignored unless `rnn_mode` is "lstm".
      params: all weights and biases, [params_size]; `CudnnRNNCanonicalToParams` makes them.
      rnn_mode: "rnn_relu", "rnn_tanh", "lstm" or "gru".
      input_mode: "linear_input"; "skip_input" adds the input to every gate of layer 0 in place of its product with a
        matrix, and input_size must be num_units; "auto_select" is "skip_input" where these are equal and "linear_input"
        elsewhere.
      direction: "unidirectional" (num_directions is 1) or "bidirectional" (2).
      dropout: the probability that an element of the input of a layer other than the first is set to 0, if
        `is_training`. The others are divided by 1 - `dropout`.
      seed: with `seed2`, fixes the random numbers of dropout. If both are 0, they are seeded at random.
      seed2: see `seed`.
      is_training: whether to apply dropout and to fill `reserve_space`.
      name: a name for the operation.

    Returns:
      A named tuple of the hidden states of the last layer at each step, `output`, [time, batch, num_directions *
      num_units]; those after the last step, `output_h`, of the shape of `input_h`; the cell states after the last step,
      `output_c`, of the shape of `input_c`, a scalar 0 in other modes than "lstm"; and what the gradient op needs,
      `reserve_space`, a vector, empty unless `is_training`.

    Raises:
      tf.errors.InvalidArgumentError: if an argument's shape does not fit the others' or the attributes, or an attribute
        is out of range, when run.
      ValueError: the same, when a graph is built of shapes that are known.

    Example:
      >>> x, h = tf.ones([5, 2, 3]), tf.zeros([1, 2, 4])
      >>> size = CudnnRNNParamsSize(num_layers=1, num_units=4, input_size=3, T=tf.float32, S=tf.int32)
      >>> rnn = CudnnRNN(input=x, input_h=h, input_c=h, params=tf.zeros(size))
      >>> rnn.output.shape.as_list()
      [5, 2, 4]
    """
    outputs = ops.tf_rnn_ops_cudnn_rnn(
        input=input,
        input_h=input_h,
        input_c=input_c,
        params=params,
        rnn_mode=rnn_mode,
        input_mode=input_mode,
        direction=direction,
        dropout=dropout,
        seed=seed,
        seed2=seed2,
        is_training=is_training,
        name=name,
    )
    return _drawing_on_its_own(outputs, is_training and dropout)


def CudnnRNNV2(
    *,
    input,
    input_h,
    input_c,
    params,
    rnn_mode: str = "lstm",
    input_mode: str = "linear_input",
    direction: str = "unidirectional",
    dropout: float = 0.0,
    seed: int = 0,
    seed2: int = 0,
    is_training: bool = True,
    name: str | None = None,
) -> Any:
    """Runs a stack of recurrent layers over a sequence, as cuDNN does: `CudnnRNN` with one more result.

    The formulas are those of `CudnnRNN`.

    The twin of `tf.raw_ops.CudnnRNNV2`, and differentiable with respect to `input`, `input_h`, `input_c` and `params`
    through `output`, `output_h` and `output_c`, if `is_training`.

    Args:
      input: the sequence, [time, batch, input_size].
      input_h: hidden states before the first step, [num_layers * num_directions, batch, num_units].
      input_c: cell states before the first step, of the shape of `input_h`. Ignored unless `rnn_mode` is "lstm".
      params: all weights and biases, [params_size]; `CudnnRNNCanonicalToParams` makes them.
      rnn_mode: "rnn_relu", "rnn_tanh", "lstm" or "gru".
      input_mode: "linear_input"; "skip_input" adds the input to every gate of layer 0 in place of its product with a
        matrix, and input_size must be num_units; "auto_select" is "skip_input" where these are equal and "linear_input"
        elsewhere.
      direction: "unidirectional" (num_directions is 1) or "bidirectional" (2).
      dropout: the probability that an element of the input of a layer other than the first is set to 0, if
        `is_training`. The others are divided by 1 - `dropout`.
      seed: with `seed2`, fixes the random numbers of dropout. If both are 0, they are seeded at random.
      seed2: see `seed`.
      is_training: whether to apply dropout and to fill `reserve_space`.
      name: a name for the operation.

    Returns:
      A named tuple of the hidden states of the last layer at each step, `output`, [time, batch, num_directions *
      num_units]; those after the last step, `output_h`, of the shape of `input_h`; the cell states after the last step,
      `output_c`, of the shape of `input_c`, a scalar 0 in other modes than "lstm"; what the gradient op needs,
      `reserve_space`, a vector, empty unless `is_training`; and an int8 `host_reserved`, for the gradient on a
      GPU.

    Raises:
      tf.errors.InvalidArgumentError: if an argument's shape does not fit the others' or the attributes, or an attribute
        is out of range, when run.
      ValueError: the same, when a graph is built of shapes that are known.

    Example:
      >>> x, h = tf.ones([5, 2, 3]), tf.zeros([1, 2, 4])
      >>> size = CudnnRNNParamsSize(num_layers=1, num_units=4, input_size=3, T=tf.float32, S=tf.int32)
      >>> rnn = CudnnRNNV2(input=x, input_h=h, input_c=h, params=tf.zeros(size))
      >>> rnn.output.shape.as_list()
      [5, 2, 4]
    """
    outputs = ops.tf_rnn_ops_cudnn_rnnv2(
        input=input,
        input_h=input_h,
        input_c=input_c,
        params=params,
        rnn_mode=rnn_mode,
        input_mode=input_mode,
        direction=direction,
        dropout=dropout,
        seed=seed,
        seed2=seed2,
        is_training=is_training,
        name=name,
    )
    return _drawing_on_its_own(outputs, is_training and dropout)


def CudnnRNNV3(
    *,
    input,
    input_h,
    input_c,
    params,
    sequence_lengths,
    rnn_mode: str = "lstm",
    input_mode: str = "linear_input",
    direction: str = "unidirectional",
    dropout: float = 0.0,
    seed: int = 0,
    seed2: int = 0,
    num_proj: int = 0,
    is_training: bool = True,
    time_major: bool = True,
    name: str | None = None,
) -> Any:
    """Runs a stack of recurrent layers over sequences of any lengths, as cuDNN does.

    The formulas are those of `CudnnRNN`. Past the last step of an entry of the batch its output is 0; its final states
    are those of its last step, or the initial ones if it has none; and the backward direction starts at its last step.
    output_size is `num_proj`, or num_units where there is no projection.

    The twin of `tf.raw_ops.CudnnRNNV3`, and differentiable with respect to `input`, `input_h`, `input_c` and `params`
    through `output`, `output_h` and `output_c`, if `is_training`.

    Args:
      input: the sequence, [time, batch, input_size].
      input_h: hidden states before the first step, [num_layers * num_directions, batch, output_size].
      input_c: cell states before the first step, [num_layers * num_directions, batch, num_units]. Ignored unless
        `rnn_mode` is "lstm".
      params: all weights and biases, [params_size]; `CudnnRNNCanonicalToParamsV2` makes them.
      sequence_lengths: int32, the number of steps of each entry of the batch, from 0 to time, [batch].
      rnn_mode: "rnn_relu", "rnn_tanh", "lstm" or "gru".
      input_mode: "linear_input"; "skip_input" adds the input to every gate of layer 0 in place of its product with a
        matrix, and input_size must be num_units; "auto_select" is "skip_input" where these are equal and "linear_input"
        elsewhere.
      direction: "unidirectional" (num_directions is 1) or "bidirectional" (2).
      dropout: the probability that an element of the input of a layer other than the first is set to 0, if
        `is_training`. The others are divided by 1 - `dropout`.
      seed: with `seed2`, fixes the random numbers of dropout. If both are 0, they are seeded at random.
      seed2: see `seed`.
      num_proj: the size of the projection of the hidden state, "lstm" only and less than num_units. 0, or num_units,
        for none.
      is_training: whether to apply dropout and to fill `reserve_space`.
      time_major: whether time comes before batch. If not, the first two dimensions of all sequences and states are
        swapped.
      name: a name for the operation.

    Returns:
      A named tuple of the hidden states of the last layer at each step, `output`, [time, batch, num_directions *
      output_size]; those after the last step, `output_h`, of the shape of `input_h`; the cell states after the last
      step, `output_c`, of the shape of `input_c`, a scalar 0 in other modes than "lstm"; what the gradient op needs,
      `reserve_space`, a vector, empty unless `is_training`; and an int8 `host_reserved`, for the gradient on a
      GPU.

    Raises:
      tf.errors.InvalidArgumentError: if an argument's shape does not fit the others' or the attributes, or an attribute
        is out of range, when run.
      ValueError: the same, when a graph is built of shapes that are known.

    Example:
      >>> x, h = tf.ones([5, 2, 3]), tf.zeros([1, 2, 4])
      >>> size = CudnnRNNParamsSize(num_layers=1, num_units=4, input_size=3, T=tf.float32, S=tf.int32)
      >>> rnn = CudnnRNNV3(input=x, input_h=h, input_c=h, params=tf.zeros(size), sequence_lengths=[5, 2])
      >>> rnn.output.shape.as_list()
      [5, 2, 4]
    """
    outputs = ops.tf_rnn_ops_cudnn_rnnv3(
        input=input,
        input_h=input_h,
        input_c=input_c,
        params=params,
        sequence_lengths=sequence_lengths,
        rnn_mode=rnn_mode,
        input_mode=input_mode,
        direction=direction,
        dropout=dropout,
        seed=seed,
        seed2=seed2,
        num_proj=num_proj,
        is_training=is_training,
        time_major=time_major,
        name=name,
    )
    return _drawing_on_its_own(outputs, is_training and dropout)


def CudnnRNNBackprop(
    *,
    input,
    input_h,
    input_c,
    params,
    output,
    output_h,
    output_c,
    output_backprop,
    output_h_backprop,
    output_c_backprop,
    reserve_space,
    rnn_mode: str = "lstm",
    input_mode: str = "linear_input",
    direction: str = "unidirectional",
    dropout: float = 0.0,
    seed: int = 0,
    seed2: int = 0,
    name: str | None = None,
) -> Any:
    """Computes the gradients of `CudnnRNN`.

    The twin of `tf.raw_ops.CudnnRNNBackprop`. It leaves its inputs as they are: run twice, it gives the same gradients
    twice.

    Args:
      input: as in the forward op.
      input_h: as in the forward op.
      input_c: as in the forward op.
      params: as in the forward op.
      output: as the forward op gave it.
      output_h: as the forward op gave it.
      output_c: as the forward op gave it.
      output_backprop: gradient with respect to `output`, of its shape.
      output_h_backprop: gradient with respect to `output_h`, of its shape.
      output_c_backprop: gradient with respect to `output_c`, of its shape. Ignored unless `rnn_mode` is "lstm".
      reserve_space: as the forward op gave it, with `is_training` and the same other attributes.
      rnn_mode: as in the forward op.
      input_mode: as in the forward op.
      direction: as in the forward op.
      dropout: as in the forward op.
      seed: as in the forward op.
      seed2: as in the forward op.
      name: a name for the operation.

    Returns:
      A named tuple of the gradients with respect to `input`, `input_backprop`; `input_h`, `input_h_backprop`;
      `input_c`, `input_c_backprop`, 0 in other modes than "lstm"; and `params`, `params_backprop`; each of the shape of
      what it is the gradient of.

    Raises:
      tf.errors.InvalidArgumentError: if an argument's shape does not fit the others' or the attributes, or an attribute
        is out of range, or `reserve_space` is from a forward op of other shapes or attributes, when run.
      ValueError: the same, when a graph is built of shapes that are known.

    Example:
      >>> x, h = tf.ones([5, 2, 3]), tf.zeros([1, 2, 4])
      >>> size = CudnnRNNParamsSize(num_layers=1, num_units=4, input_size=3, T=tf.float32, S=tf.int32)
      >>> inputs = dict(input=x, input_h=h, input_c=h, params=tf.zeros(size))
      >>> rnn = CudnnRNN(**inputs)
      >>> d_rnn = dict(output_backprop=rnn.output, output_h_backprop=rnn.output_h, output_c_backprop=rnn.output_c)
      >>> CudnnRNNBackprop(**inputs, **rnn._asdict(), **d_rnn).params_backprop.shape == size
      True
    """
    return ops.tf_rnn_ops_cudnn_rnn_backprop(
        input=input,
        input_h=input_h,
        input_c=input_c,
        params=params,
        output=output,
        output_h=output_h,
        output_c=output_c,
        output_backprop=output_backprop,
        output_h_backprop=output_h_backprop,
        output_c_backprop=output_c_backprop,
        reserve_space=reserve_space,
        rnn_mode=rnn_mode,
        input_mode=input_mode,
        direction=direction,
        dropout=dropout,
        seed=seed,
        seed2=seed2,
        name=name,
    )


def CudnnRNNBackpropV2(
    *,
    input,
    input_h,
    input_c,
    params,
    output,
    output_h,
    output_c,
    output_backprop,
    output_h_backprop,
    output_c_backprop,
    reserve_space,
    host_reserved,
    rnn_mode: str = "lstm",
    input_mode: str = "linear_input",
    direction: str = "unidirectional",
    dropout: float = 0.0,
    seed: int = 0,
    seed2: int = 0,
    name: str | None = None,
) -> Any:
    """Computes the gradients of `CudnnRNNV2`.

    The twin of `tf.raw_ops.CudnnRNNBackpropV2`. It leaves its inputs as they are: run twice, it gives the same
    gradients twice.

    Args:
      input: as in the forward op.
      input_h: as in the forward op.
      input_c: as in the forward op.
      params: as in the forward op.
      output: as the forward op gave it.
      output_h: as the forward op gave it.
      output_c: as the forward op gave it.
      output_backprop: gradient with respect to `output`, of its shape.
      output_h_backprop: gradient with respect to `output_h`, of its shape.
      output_c_backprop: gradient with respect to `output_c`, of its shape. Ignored unless `rnn_mode` is "lstm".
      reserve_space: as the forward op gave it, with `is_training` and the same other attributes.
      host_reserved: what the forward op returned, which on a GPU says what `reserve_space` is of; ignored on the CPU.
      rnn_mode: as in the forward op.
      input_mode: as in the forward op.
      direction: as in the forward op.
      dropout: as in the forward op.
      seed: as in the forward op.
      seed2: as in the forward op.
      name: a name for the operation.

    Returns:
      A named tuple of the gradients with respect to `input`, `input_backprop`; `input_h`, `input_h_backprop`;
      `input_c`, `input_c_backprop`, 0 in other modes than "lstm"; and `params`, `params_backprop`; each of the shape of
      what it is the gradient of.

    Raises:
      tf.errors.InvalidArgumentError: if an argument's shape does not fit the others' or the attributes, or an attribute
        is out of range, or `reserve_space` is from a forward op of other shapes or attributes, when run.
      ValueError: the same, when a graph is built of shapes that are known.

    Example:
      >>> x, h = tf.ones([5, 2, 3]), tf.zeros([1, 2, 4])
      >>> size = CudnnRNNParamsSize(num_layers=1, num_units=4, input_size=3, T=tf.float32, S=tf.int32)
      >>> inputs = dict(input=x, input_h=h, input_c=h, params=tf.zeros(size))
      >>> rnn = CudnnRNNV2(**inputs)
      >>> d_rnn = dict(output_backprop=rnn.output, output_h_backprop=rnn.output_h, output_c_backprop=rnn.output_c)
      >>> CudnnRNNBackpropV2(**inputs, **rnn._asdict(), **d_rnn).params_backprop.shape == size
      True
    """
    return ops.tf_rnn_ops_cudnn_rnn_backprop_v2(
        input=input,
        input_h=input_h,
        input_c=input_c,
        params=params,
        output=output,
        output_h=output_h,
        output_c=output_c,
        output_backprop=output_backprop,
        output_h_backprop=output_h_backprop,
        output_c_backprop=output_c_backprop,
        reserve_space=reserve_space,
        host_reserved=host_reserved,
        rnn_mode=rnn_mode,
        input_mode=input_mode,
        direction=direction,
        dropout=dropout,
        seed=seed,
        seed2=seed2,
        name=name,
    )


def CudnnRNNBackpropV3(
    *,
    input,
    input_h,
    input_c,
    params,
    sequence_lengths,
    output,
    output_h,
    output_c,
    output_backprop,
    output_h_backprop,
    output_c_backprop,
    reserve_space,
    host_reserved,
    rnn_mode: str = "lstm",
    input_mode: str = "linear_input",
    direction: str = "unidirectional",
    dropout: float = 0.0,
    seed: int = 0,
    seed2: int = 0,
    num_proj: int = 0,
    time_major: bool = True,
    name: str | None = None,
) -> Any:
    """Computes the gradients of `CudnnRNNV3`.

    The twin of `tf.raw_ops.CudnnRNNBackpropV3`. It leaves its inputs as they are: run twice, it gives the same
    gradients twice.

    Args:
      input: as in the forward op.
      input_h: as in the forward op.
      input_c: as in the forward op.
      params: as in the forward op.
      sequence_lengths: as in the forward op.
      output: as the forward op gave it.
      output_h: as the forward op gave it.
      output_c: as the forward op gave it.
      output_backprop: gradient with respect to `output`, of its shape.
      output_h_backprop: gradient with respect to `output_h`, of its shape.
      output_c_backprop: gradient with respect to `output_c`, of its shape. Ignored unless `rnn_mode` is "lstm".
      reserve_space: as the forward op gave it, with `is_training` and the same other attributes.
      host_reserved: what the forward op returned, which on a GPU says what `reserve_space` is of; ignored on the CPU.
      rnn_mode: as in the forward op.
      input_mode: as in the forward op.
      direction: as in the forward op.
      dropout: as in the forward op.
      seed: as in the forward op.
      seed2: as in the forward op.
      num_proj: as in the forward op.
      time_major: as in the forward op.
      name: a name for the operation.

    Returns:
      A named tuple of the gradients with respect to `input`, `input_backprop`; `input_h`, `input_h_backprop`;
      `input_c`, `input_c_backprop`, 0 in other modes than "lstm"; and `params`, `params_backprop`; each of the shape of
      what it is the gradient of.

    Raises:
      tf.errors.InvalidArgumentError: if an argument's shape does not fit the others' or the attributes, or an attribute
        is out of range, or `reserve_space` is from a forward op of other shapes or attributes, when run.
      ValueError: the same, when a graph is built of shapes that are known.

    Example:
      >>> x, h = tf.ones([5, 2, 3]), tf.zeros([1, 2, 4])
      >>> size = CudnnRNNParamsSize(num_layers=1, num_units=4, input_size=3, T=tf.float32, S=tf.int32)
      >>> inputs = dict(input=x, input_h=h, input_c=h, params=tf.zeros(size), sequence_lengths=[5, 2])
      >>> rnn = CudnnRNNV3(**inputs)
      >>> d_rnn = dict(output_backprop=rnn.output, output_h_backprop=rnn.output_h, output_c_backprop=rnn.output_c)
      >>> CudnnRNNBackpropV3(**inputs, **rnn._asdict(), **d_rnn).params_backprop.shape == size
      True
    """
    return ops.tf_rnn_ops_cudnn_rnn_backprop_v3(
        input=input,
        input_h=input_h,
        input_c=input_c,
        params=params,
        sequence_lengths=sequence_lengths,
        output=output,
        output_h=output_h,
        output_c=output_c,
        output_backprop=output_backprop,
        output_h_backprop=output_h_backprop,
        output_c_backprop=output_c_backprop,
        reserve_space=reserve_space,
        host_reserved=host_reserved,
        rnn_mode=rnn_mode,
        input_mode=input_mode,
        direction=direction,
        dropout=dropout,
        seed=seed,
        seed2=seed2,
        num_proj=num_proj,
        time_major=time_major,
        name=name,
    )


def CudnnRNNParamsSize(
    *,
    num_layers,
    num_units,
    input_size,
    T,  # noqa: N803  # named as the twin
    S,  # noqa: N803  # named as the twin
    rnn_mode: str = "lstm",
    input_mode: str = "linear_input",
    direction: str = "unidirectional",
    dropout: float = 0.0,
    seed: int = 0,
    seed2: int = 0,
    num_proj: int = 0,
    name: str | None = None,
) -> Any:
    """Computes the number of elements of a network's params buffer.

    A pseudo-layer, which is one direction of one layer, has num_units * (fan_in + output_size + 2) of them for each of
    its gates, and with a projection num_proj * num_units more. fan_in is input_size in layer 0, or 0 if the input is
    not multiplied, and num_directions * output_size above; output_size is `num_proj`, or num_units without a
    projection. There are 4 gates in "lstm", 3 in "gru" and 1 elsewhere.

    The twin of `tf.raw_ops.CudnnRNNParamsSize`.

    Args:
      num_layers: the number of layers, an int32 scalar, at least 1.
      num_units: the size of a cell, an int32 scalar.
      input_size: the size of the input of layer 0, an int32 scalar.
      T: the dtype of the params; of no influence.
      S: the dtype of the result, `tf.int32` or `tf.int64`.
      rnn_mode: "rnn_relu", "rnn_tanh", "lstm" or "gru".
      input_mode: "linear_input"; "skip_input", where layer 0 has no input matrices and input_size must be num_units;
        "auto_select" is "skip_input" where these are equal and "linear_input" elsewhere.
      direction: "unidirectional" (num_directions is 1) or "bidirectional" (2).
      dropout: of no influence.
      seed: of no influence.
      seed2: of no influence.
      num_proj: the size of the projection of the hidden state, "lstm" only and less than num_units. 0, or num_units,
        for none.
      name: a name for the operation.

    Returns:
      The number, [1].

    Raises:
      tf.errors.InvalidArgumentError: if a size is negative or no scalar, the sizes do not fit one another or the
        attributes, an attribute is out of range, or the number does not fit into `S`, when run.
      ValueError: the same, when a graph is built of shapes that are known.

    Example:
      >>> int(CudnnRNNParamsSize(num_layers=1, num_units=4, input_size=3, T=tf.float32, S=tf.int32)[0])
      144
    """
    return ops.tf_rnn_ops_cudnn_rnn_params_size(
        num_layers=num_layers,
        num_units=num_units,
        input_size=input_size,
        T=T,
        S=S,
        rnn_mode=rnn_mode,
        input_mode=input_mode,
        direction=direction,
        dropout=dropout,
        seed=seed,
        seed2=seed2,
        num_proj=num_proj,
        name=name,
    )


def CudnnRNNCanonicalToParams(
    *,
    num_layers,
    num_units,
    input_size,
    weights,
    biases,
    rnn_mode: str = "lstm",
    input_mode: str = "linear_input",
    direction: str = "unidirectional",
    dropout: float = 0.0,
    seed: int = 0,
    seed2: int = 0,
    name: str | None = None,
) -> Any:
    """Joins weights and biases into a params buffer.

    Gates are in the order i, f, g, o in "lstm", where g makes the new cell state, and r, u, n in "gru"; pseudo-layers
    in the order layer 0 forward, layer 0 backward, layer 1 forward, ... fan_in is input_size in layer 0, or 0 if the
    input is not multiplied, and num_directions * num_units above.

    The twin of `tf.raw_ops.CudnnRNNCanonicalToParams`, and differentiable.

    Args:
      num_layers: the number of layers, an int32 scalar, at least 1.
      num_units: the size of a cell, an int32 scalar.
      input_size: the size of the input of layer 0, an int32 scalar.
      weights: the matrices, pseudo-layer by pseudo-layer: the input matrices of its gates, [num_units, fan_in], then
        their recurrent matrices, [num_units, num_units]. Each may be flattened to one dimension.
      biases: the biases, pseudo-layer by pseudo-layer: those of the input matrices, then those of the recurrent ones,
        each [num_units].
      rnn_mode: "rnn_relu", "rnn_tanh", "lstm" or "gru".
      input_mode: "linear_input"; "skip_input", where layer 0 has no input matrices and input_size must be num_units;
        "auto_select" is "skip_input" where these are equal and "linear_input" elsewhere.
      direction: "unidirectional" (num_directions is 1) or "bidirectional" (2).
      dropout: of no influence.
      seed: of no influence.
      seed2: of no influence.
      name: a name for the operation.

    Returns:
      The params, [params_size].

    Raises:
      tf.errors.InvalidArgumentError: if there are more or fewer weights or biases than the network has, a shape is not
        as said above, or an attribute is out of range, when run.
      ValueError: the same, when a graph is built of shapes that are known.

    Example:
      >>> weights, biases = [tf.ones([4, 3])] * 4 + [tf.ones([4, 4])] * 4, [tf.zeros([4])] * 8
      >>> sizes = dict(num_layers=1, num_units=4, input_size=3)
      >>> params = CudnnRNNCanonicalToParams(**sizes, weights=weights, biases=biases)
      >>> params.shape.as_list()
      [144]
    """
    return ops.tf_rnn_ops_cudnn_rnn_canonical_to_params(
        num_layers=num_layers,
        num_units=num_units,
        input_size=input_size,
        weights=weights,
        biases=biases,
        rnn_mode=rnn_mode,
        input_mode=input_mode,
        direction=direction,
        dropout=dropout,
        seed=seed,
        seed2=seed2,
        name=name,
    )


def CudnnRNNCanonicalToParamsV2(
    *,
    num_layers,
    num_units,
    input_size,
    weights,
    biases,
    rnn_mode: str = "lstm",
    input_mode: str = "linear_input",
    direction: str = "unidirectional",
    dropout: float = 0.0,
    seed: int = 0,
    seed2: int = 0,
    num_proj: int = 0,
    name: str | None = None,
) -> Any:
    """Joins weights and biases into a params buffer.

    Gates are in the order i, f, g, o in "lstm", where g makes the new cell state, and r, u, n in "gru"; pseudo-layers
    in the order layer 0 forward, layer 0 backward, layer 1 forward, ... fan_in is input_size in layer 0, or 0 if the
    input is not multiplied, and num_directions * output_size above; output_size is `num_proj`, or num_units without a
    projection.

    The twin of `tf.raw_ops.CudnnRNNCanonicalToParamsV2`, and differentiable.

    Args:
      num_layers: the number of layers, an int32 scalar, at least 1.
      num_units: the size of a cell, an int32 scalar.
      input_size: the size of the input of layer 0, an int32 scalar.
      weights: the matrices, pseudo-layer by pseudo-layer: the input matrices of its gates, [num_units, fan_in], then
        their recurrent matrices, [num_units, output_size], then, if there is a projection, its matrix, [num_proj,
        num_units]. Each may be flattened to one dimension.
      biases: the biases, pseudo-layer by pseudo-layer: those of the input matrices, then those of the recurrent ones,
        each [num_units].
      rnn_mode: "rnn_relu", "rnn_tanh", "lstm" or "gru".
      input_mode: "linear_input"; "skip_input", where layer 0 has no input matrices and input_size must be num_units;
        "auto_select" is "skip_input" where these are equal and "linear_input" elsewhere.
      direction: "unidirectional" (num_directions is 1) or "bidirectional" (2).
      dropout: of no influence.
      seed: of no influence.
      seed2: of no influence.
      num_proj: the size of the projection of the hidden state, "lstm" only and less than num_units. 0, or num_units,
        for none.
      name: a name for the operation.

    Returns:
      The params, [params_size].

    Raises:
      tf.errors.InvalidArgumentError: if there are more or fewer weights or biases than the network has, a shape is not
        as said above, or an attribute is out of range, when run.
      ValueError: the same, when a graph is built of shapes that are known.

    Example:
      >>> weights, biases = [tf.ones([4, 3])] * 4 + [tf.ones([4, 4])] * 4, [tf.zeros([4])] * 8
      >>> sizes = dict(num_layers=1, num_units=4, input_size=3)
      >>> params = CudnnRNNCanonicalToParamsV2(**sizes, weights=weights, biases=biases)
      >>> params.shape.as_list()
      [144]
    """
    return ops.tf_rnn_ops_cudnn_rnn_canonical_to_params_v2(
        num_layers=num_layers,
        num_units=num_units,
        input_size=input_size,
        weights=weights,
        biases=biases,
        rnn_mode=rnn_mode,
        input_mode=input_mode,
        direction=direction,
        dropout=dropout,
        seed=seed,
        seed2=seed2,
        num_proj=num_proj,
        name=name,
    )


def CudnnRNNParamsToCanonical(
    *,
    num_layers,
    num_units,
    input_size,
    params,
    num_params: int,
    rnn_mode: str = "lstm",
    input_mode: str = "linear_input",
    direction: str = "unidirectional",
    dropout: float = 0.0,
    seed: int = 0,
    seed2: int = 0,
    name: str | None = None,
) -> Any:
    """Splits a params buffer into weights and biases.

    The inverse of `CudnnRNNCanonicalToParams`, which says in which order the weights and biases come.

    The twin of `tf.raw_ops.CudnnRNNParamsToCanonical`, and differentiable.

    Args:
      num_layers: the number of layers, an int32 scalar, at least 1.
      num_units: the size of a cell, an int32 scalar.
      input_size: the size of the input of layer 0, an int32 scalar.
      params: the params, [params_size].
      num_params: the number of weights, and of biases: num_layers * num_directions * 2 * num_gates, where num_gates is
        4 in "lstm", 3 in "gru" and 1 elsewhere.
      rnn_mode: "rnn_relu", "rnn_tanh", "lstm" or "gru".
      input_mode: "linear_input"; "skip_input", where layer 0 has no input matrices and input_size must be num_units;
        "auto_select" is "skip_input" where these are equal and "linear_input" elsewhere.
      direction: "unidirectional" (num_directions is 1) or "bidirectional" (2).
      dropout: of no influence.
      seed: of no influence.
      seed2: of no influence.
      name: a name for the operation.

    Returns:
      A named tuple of the matrices, `weights`, and the vectors, `biases`, two lists.

    Raises:
      tf.errors.InvalidArgumentError: if there are more or fewer weights or biases than the network has, a shape is not
        as said above, or an attribute is out of range, when run.
      ValueError: the same, when a graph is built of shapes that are known.

    Example:
      >>> sizes = dict(num_layers=1, num_units=4, input_size=3)
      >>> canonical = CudnnRNNParamsToCanonical(**sizes, params=tf.zeros([144]), num_params=8)
      >>> [each.shape.as_list() for each in canonical.weights[3:5]]
      [[4, 3], [4, 4]]
    """
    return ops.tf_rnn_ops_cudnn_rnn_params_to_canonical(
        num_layers=num_layers,
        num_units=num_units,
        input_size=input_size,
        params=params,
        num_params=num_params,
        rnn_mode=rnn_mode,
        input_mode=input_mode,
        direction=direction,
        dropout=dropout,
        seed=seed,
        seed2=seed2,
        name=name,
    )


def CudnnRNNParamsToCanonicalV2(
    *,
    num_layers,
    num_units,
    input_size,
    params,
    num_params_weights: int,
    num_params_biases: int,
    rnn_mode: str = "lstm",
    input_mode: str = "linear_input",
    direction: str = "unidirectional",
    dropout: float = 0.0,
    seed: int = 0,
    seed2: int = 0,
    num_proj: int = 0,
    name: str | None = None,
) -> Any:
    """Splits a params buffer into weights and biases.

    The inverse of `CudnnRNNCanonicalToParamsV2`, which says in which order the weights and biases come.

    The twin of `tf.raw_ops.CudnnRNNParamsToCanonicalV2`, and differentiable.

    Args:
      num_layers: the number of layers, an int32 scalar, at least 1.
      num_units: the size of a cell, an int32 scalar.
      input_size: the size of the input of layer 0, an int32 scalar.
      params: the params, [params_size].
      num_params_weights: the number of weights: num_layers * num_directions * 2 * num_gates, where num_gates is 4 in
        "lstm", 3 in "gru" and 1 elsewhere; with a projection 2 * num_gates + 1 in place of 2 * num_gates.
      num_params_biases: the number of biases: num_layers * num_directions * 2 * num_gates.
      rnn_mode: "rnn_relu", "rnn_tanh", "lstm" or "gru".
      input_mode: "linear_input"; "skip_input", where layer 0 has no input matrices and input_size must be num_units;
        "auto_select" is "skip_input" where these are equal and "linear_input" elsewhere.
      direction: "unidirectional" (num_directions is 1) or "bidirectional" (2).
      dropout: of no influence.
      seed: of no influence.
      seed2: of no influence.
      num_proj: the size of the projection of the hidden state, "lstm" only and less than num_units. 0, or num_units,
        for none.
      name: a name for the operation.

    Returns:
      A named tuple of the matrices, `weights`, and the vectors, `biases`, two lists.

    Raises:
      tf.errors.InvalidArgumentError: if there are more or fewer weights or biases than the network has, a shape is not
        as said above, or an attribute is out of range, when run.
      ValueError: the same, when a graph is built of shapes that are known.

    Example:
      >>> sizes = dict(num_layers=1, num_units=4, input_size=3)
      >>> counts = dict(num_params_weights=8, num_params_biases=8)
      >>> canonical = CudnnRNNParamsToCanonicalV2(**sizes, params=tf.zeros([144]), **counts)
      >>> [each.shape.as_list() for each in canonical.weights[3:5]]
      [[4, 3], [4, 4]]
    """
    return ops.tf_rnn_ops_cudnn_rnn_params_to_canonical_v2(
        num_layers=num_layers,
        num_units=num_units,
        input_size=input_size,
        params=params,
        num_params_weights=num_params_weights,
        num_params_biases=num_params_biases,
        rnn_mode=rnn_mode,
        input_mode=input_mode,
        direction=direction,
        dropout=dropout,
        seed=seed,
        seed2=seed2,
        num_proj=num_proj,
        name=name,
    )


def KerasRNN(
    *,
    sequences,
    mask,
    initial_h,
    initial_c,
    kernel,
    recurrent_kernel,
    bias,
    rnn_mode: str = "lstm",
    activation: str = "tanh",
    recurrent_activation: str = "sigmoid",
    go_backwards: bool = False,
    return_sequences: bool = False,
    zero_output_for_mask: bool = False,
    is_training: bool = True,
    name: str | None = None,
) -> Any:
    """Computes a layer of Keras's, `LSTM`, `GRU` with `reset_after=True` or `SimpleRNN`, on weights as Keras has them.

    With the gates beside one another in Keras's order (LSTM i, f, g, o; GRU u, r, n), W = kernel, R = recurrent_kernel:

        LSTM  [i_bar f_bar g_bar o_bar] = x W + h_prev R + bias      i = sigmoid(i_bar), f and o alike
              c = f ∘ c_prev + i ∘ tanh(g_bar)      h = o ∘ tanh(c)
        GRU   u = sigmoid(x W_u + h_prev R_u + bias[0, u] + bias[1, u]), r alike
              n = tanh(x W_n + bias[0, n] + r ∘ (h_prev R_n + bias[1, n]))      h = u ∘ h_prev + (1 - u) ∘ n
        else  h = act(x W + h_prev R + bias)

    At a step that the mask leaves out the state stays, and the output is that of the step before, or zeros if there is
    none. The op runs on the CPU alone.

    Differentiable with respect to all inputs but mask, to any order; with `is_training=False`, the gradient runs the op
    once more.

    Source: `keras.layers.LSTM`, `GRU` and `SimpleRNN` of Keras 3.

    Args:
      sequences: the inputs, [batch, time, features].
      mask: booleans, [batch, time]: which steps to take. Of no elements to take all.
      initial_h: the hidden state before the first step, [batch, units].
      initial_c: the cell state before the first step, [batch, units]; ignored unless rnn_mode is "lstm".
      kernel: [features, num_gates * units], where num_gates is 4 in "lstm", 3 in "gru" and 1 elsewhere.
      recurrent_kernel: [units, num_gates * units].
      bias: [num_gates * units], in "gru" [2, num_gates * units]. Of no elements for zeros.
      rnn_mode: "rnn_relu", "rnn_tanh", "lstm" or "gru".
      activation: what "lstm" and "gru" activate their state with: "tanh", "sigmoid", "relu", "linear" or
        "hard_sigmoid". It replaces tanh above.
      recurrent_activation: what they activate their gates with, of the same. It replaces sigmoid above.
      go_backwards: whether to take the steps from the last to the first. The outputs come in the order in which they
        are taken.
      return_sequences: whether the outputs of all steps are wanted, or the last one.
      zero_output_for_mask: whether the output of a step that is left out is zeros.
      is_training: whether to keep what a gradient needs.
      name: a name for the operation.

    Returns:
      A named tuple of `outputs`, [batch, time, units], or [batch, units] unless return_sequences; `final_h`,
      [batch, units]; `final_c`, of the shape of initial_c; and `reserve_space`, opaque, for the gradient op.

    Raises:
      tf.errors.InvalidArgumentError: if an argument's shape does not fit the others', when run.
      ValueError: the same, when a graph is built of shapes that are known.

    Example:
      >>> x, h, w = tf.ones([2, 10, 3]), tf.zeros([2, 4]), tf.ones([3, 16])
      >>> weights = dict(kernel=w, recurrent_kernel=tf.ones([4, 16]), bias=tf.zeros([16]))
      >>> KerasRNN(sequences=x, mask=[], initial_h=h, initial_c=h, **weights).outputs.shape
      TensorShape([2, 4])
    """
    return ops.tf_rnn_ops_keras_rnn(
        sequences=sequences,
        mask=mask,
        initial_h=initial_h,
        initial_c=initial_c,
        kernel=kernel,
        recurrent_kernel=recurrent_kernel,
        bias=bias,
        rnn_mode=rnn_mode,
        activation=activation,
        recurrent_activation=recurrent_activation,
        go_backwards=go_backwards,
        return_sequences=return_sequences,
        zero_output_for_mask=zero_output_for_mask,
        is_training=is_training,
        name=name,
    )


def KerasRNNBackprop(
    *,
    sequences,
    mask,
    initial_h,
    initial_c,
    kernel,
    recurrent_kernel,
    bias,
    outputs_backprop,
    final_h_backprop,
    final_c_backprop,
    reserve_space,
    rnn_mode: str = "lstm",
    activation: str = "tanh",
    recurrent_activation: str = "sigmoid",
    go_backwards: bool = False,
    return_sequences: bool = False,
    zero_output_for_mask: bool = False,
    name: str | None = None,
) -> Any:
    """Computes the gradients of `KerasRNN`.

    Args:
      sequences: as `KerasRNN` was given it, like the inputs and attributes that are not named below.
      mask: likewise.
      initial_h: likewise.
      initial_c: likewise.
      kernel: likewise.
      recurrent_kernel: likewise.
      bias: likewise.
      outputs_backprop: gradient with respect to `outputs`, of its shape.
      final_h_backprop: gradient with respect to `final_h`, of its shape.
      final_c_backprop: gradient with respect to `final_c`, of its shape; ignored unless rnn_mode is "lstm".
      reserve_space: as `KerasRNN` returned it, with `is_training=True`.
      rnn_mode: as in `KerasRNN`.
      activation: as in `KerasRNN`.
      recurrent_activation: as in `KerasRNN`.
      go_backwards: as in `KerasRNN`.
      return_sequences: as in `KerasRNN`.
      zero_output_for_mask: as in `KerasRNN`.
      name: a name for the operation.

    Returns:
      A named tuple of the gradients with respect to the inputs, each of its input's shape: `sequences_backprop`,
      `initial_h_backprop`, `initial_c_backprop` (zeros unless rnn_mode is "lstm"), `kernel_backprop`,
      `recurrent_kernel_backprop` and `bias_backprop`.

    Raises:
      tf.errors.InvalidArgumentError: if an argument's shape does not fit the others', or reserve_space is of another
        call, when run.
      ValueError: the same, when a graph is built of shapes that are known.

    Example:
      >>> x, h, w = tf.ones([2, 10, 3]), tf.zeros([2, 4]), tf.ones([3, 16])
      >>> inputs = dict(sequences=x, mask=[], initial_h=h, initial_c=h, kernel=w, recurrent_kernel=tf.ones([4, 16]))
      >>> d = dict(outputs_backprop=tf.ones([2, 4]), final_h_backprop=h, final_c_backprop=h)
      >>> reserve_space = KerasRNN(**inputs, bias=tf.zeros([16])).reserve_space
      >>> KerasRNNBackprop(**inputs, **d, bias=tf.zeros([16]), reserve_space=reserve_space).kernel_backprop.shape
      TensorShape([3, 16])
    """
    return ops.tf_rnn_ops_keras_rnn_backprop(
        sequences=sequences,
        mask=mask,
        initial_h=initial_h,
        initial_c=initial_c,
        kernel=kernel,
        recurrent_kernel=recurrent_kernel,
        bias=bias,
        outputs_backprop=outputs_backprop,
        final_h_backprop=final_h_backprop,
        final_c_backprop=final_c_backprop,
        reserve_space=reserve_space,
        rnn_mode=rnn_mode,
        activation=activation,
        recurrent_activation=recurrent_activation,
        go_backwards=go_backwards,
        return_sequences=return_sequences,
        zero_output_for_mask=zero_output_for_mask,
        name=name,
    )
