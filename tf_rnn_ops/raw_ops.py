"""Low-level ops with the names and arguments of the ops in `tf.raw_ops`.

To migrate, replace `tf.raw_ops.` with `tf_rnn_ops.raw_ops.`. All arguments are keyword-only. All ops run on the CPU and
support bfloat16, half, float32 and float64; bfloat16 and half are computed in float32. In TensorFlow, the CudnnRNN ops
require a GPU, the GRUBlockCell ops support float32 only, and the LSTM ops float32 and half. `KerasRNN` and
`KerasRNNBackprop` are not in `tf.raw_ops`.

If the shapes of the arguments do not match each other and the attributes, or an attribute is out of range, an op raises
`tf.errors.InvalidArgumentError` when it runs, or `ValueError` when a graph is built and the shapes are known.

docs/guides/raw_ops.md is a guide to these ops.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import tensorflow as tf

from tf_rnn_ops._library import ops
from tf_rnn_ops._types import Function, TensorLike

__all__ = [
    "BlockLSTM",
    "BlockLSTMGrad",
    "BlockLSTMGradV2",
    "BlockLSTMV2",
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
    "LSTMBlockCell",
    "LSTMBlockCellGrad",
]


def _implemented_by(name: str, mixed: str = "") -> Callable[[Function], Function]:
    """Returns a decorator for a function that declares the arguments and defaults of an op of the library.

    The function must have a body, even if it is empty: AutoGraph cannot convert a function with only a docstring.

    Args:
      name: the op.
      mixed: the op for a kernel in float32 beside sequences of 16 bits, if there is one.
    """

    def decorate(declared: Function) -> Function:
        # The op has the same defaults, but not all of the type with which TensorFlow calls it fast.
        defaults = declared.__kwdefaults__ or {}

        @functools.wraps(declared)
        def op(**arguments: Any) -> Any:
            try:
                return getattr(ops, mixed if mixed and _is_mixed(arguments) else name)(**defaults | arguments)
            except TypeError:
                declared(**arguments)  # if an argument is wrong, raises an error that names this function
                raise

        return cast(Function, op)

    return decorate


def _is_mixed(arguments: Mapping[str, Any]) -> bool:
    """Returns whether the kernel is a tensor or array in float32 and the sequences are one of 16 bits."""
    kernel, sequences = (getattr(arguments.get(name), "dtype", None) for name in ("kernel", "sequences"))
    return sequences in (tf.float16, tf.bfloat16) and kernel == tf.float32


@_implemented_by("tf_rnn_ops_gru_block_cell")
def GRUBlockCell(
    *,
    x: TensorLike,
    h_prev: TensorLike,
    w_ru: TensorLike,
    w_c: TensorLike,
    b_ru: TensorLike,
    b_c: TensorLike,
    name: str | None = None,
) -> Any:
    """Computes one time step of a GRU cell whose reset gate is applied before the matrix product.

        [r_bar u_bar] = [x h_prev] * w_ru + b_ru      r = sigmoid(r_bar)      u = sigmoid(u_bar)
        c_bar = [x (h_prev ∘ r)] * w_c + b_c          c = tanh(c_bar)
        h = u ∘ h_prev + (1 - u) ∘ c

    Source: Cho et al., 2014, arXiv:1406.1078. Same interface as `tf.raw_ops.GRUBlockCell`. All outputs are
    differentiable with respect to all inputs.

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

    Examples:
      >>> x, h, b = tf.ones([1, 2]), tf.zeros([1, 3]), tf.zeros([3])
      >>> step = GRUBlockCell(x=x, h_prev=h, w_ru=tf.ones([5, 6]), w_c=tf.ones([5, 3]), b_ru=tf.zeros([6]), b_c=b)
    """
    ...


@_implemented_by("tf_rnn_ops_gru_block_cell_grad")
def GRUBlockCellGrad(
    *,
    x: TensorLike,
    h_prev: TensorLike,
    w_ru: TensorLike,
    w_c: TensorLike,
    b_ru: TensorLike,
    b_c: TensorLike,
    r: TensorLike,
    u: TensorLike,
    c: TensorLike,
    d_h: TensorLike,
    name: str | None = None,
) -> Any:
    """Computes the gradients of one time step of `GRUBlockCell`.

        d_c_bar = d_h ∘ (1 - u) ∘ (1 - c ∘ c)
        d_u_bar = d_h ∘ (h_prev - c) ∘ u ∘ (1 - u)
        [d_x_2 d_h_prevr] = d_c_bar * w_c^T
        d_r_bar = d_h_prevr ∘ h_prev ∘ r ∘ (1 - r)
        [d_x_1 d_h_prev_1] = [d_r_bar d_u_bar] * w_ru^T
        d_x = d_x_1 + d_x_2
        d_h_prev = d_h_prev_1 + d_h_prevr ∘ r + d_h ∘ u

    Same interface as `tf.raw_ops.GRUBlockCellGrad`. The op does not return the gradients of the weights and biases.
    Compute those of the weights as d_w_ru = [x h_prev]^T * d_r_bar_u_bar and d_w_c = [x (h_prev ∘ r)]^T * d_c_bar, and
    those of the biases as the sums of d_r_bar_u_bar and d_c_bar over the batch.

    See `GRUBlockCell` for the arguments. The op also takes `r`, `u` and `c`, outputs of the forward step,
    and `d_h`, the gradient with respect to its output `h`, [batch, cell_size].

    Returns:
      A named tuple of the gradients `d_x`, [batch, input_size]; `d_h_prev`, [batch, cell_size]; `d_c_bar`,
      [batch, cell_size]; and `d_r_bar_u_bar`, the gradient with respect to [r_bar u_bar], [batch, 2 * cell_size].

    Examples:
      >>> inputs = dict(x=tf.ones([1, 2]), h_prev=tf.zeros([1, 3]), w_ru=tf.ones([5, 6]), w_c=tf.ones([5, 3]),
      ...               b_ru=tf.zeros([6]), b_c=tf.zeros([3]))
      >>> step = GRUBlockCell(**inputs)
      >>> grads = GRUBlockCellGrad(**inputs, r=step.r, u=step.u, c=step.c, d_h=tf.ones([1, 3]))
    """
    ...


@_implemented_by("tf_rnn_ops_lstm_block_cell")
def LSTMBlockCell(
    *,
    x: TensorLike,
    cs_prev: TensorLike,
    h_prev: TensorLike,
    w: TensorLike,
    wci: TensorLike,
    wcf: TensorLike,
    wco: TensorLike,
    b: TensorLike,
    forget_bias: float = 1.0,
    cell_clip: float = 3.0,
    use_peephole: bool = False,
    name: str | None = None,
) -> Any:
    """Computes one time step of an LSTM cell, with peepholes if asked.

        [i_bar ci_bar f_bar o_bar] = [x h_prev] * w + b
        i = sigmoid(i_bar + wci ∘ cs_prev)      f = sigmoid(f_bar + forget_bias + wcf ∘ cs_prev)
        ci = tanh(ci_bar)                       cs = i ∘ ci + f ∘ cs_prev, clipped
        o = sigmoid(o_bar + wco ∘ cs)           co = tanh(cs)      h = o ∘ co

    Source: Hochreiter and Schmidhuber, 1997; peepholes: Gers and Schmidhuber, 2000. Same interface as
    `tf.raw_ops.LSTMBlockCell`. All outputs are differentiable with respect to all inputs. As in TensorFlow, the
    gradient passes through the clipping unchanged.

    Args:
      x: the input, [batch, input_size].
      cs_prev: the previous cell state, [batch, cell_size].
      h_prev: the previous hidden state, [batch, cell_size].
      w: weights of the gates i, ci, f and o, [input_size + cell_size, 4 * cell_size].
      wci: peephole weights of i, [cell_size]. Ignored unless `use_peephole`, like the next two.
      wcf: peephole weights of f, [cell_size].
      wco: peephole weights of o, [cell_size].
      b: biases of the gates, [4 * cell_size].
      forget_bias: added to the biases of f.
      cell_clip: the cell state is clipped to [-cell_clip, cell_clip]. 0 or less means no clipping.
      use_peephole: whether to use `wci`, `wcf` and `wco`.
      name: a name for the operation.

    Returns:
      A named tuple of the input gate `i`, the cell state `cs`, the forget gate `f`, the output gate `o`, the new cell
      `ci`, the tanh of the cell state `co` and the hidden state `h`, each [batch, cell_size].

    Examples:
      >>> state, peephole = tf.zeros([1, 3]), tf.zeros([3])
      >>> step = LSTMBlockCell(x=tf.ones([1, 2]), cs_prev=state, h_prev=state, w=tf.ones([5, 12]), wci=peephole,
      ...                      wcf=peephole, wco=peephole, b=tf.zeros([12]))
    """
    ...


@_implemented_by("tf_rnn_ops_lstm_block_cell_grad")
def LSTMBlockCellGrad(
    *,
    x: TensorLike,
    cs_prev: TensorLike,
    h_prev: TensorLike,
    w: TensorLike,
    wci: TensorLike,
    wcf: TensorLike,
    wco: TensorLike,
    b: TensorLike,
    i: TensorLike,
    cs: TensorLike,
    f: TensorLike,
    o: TensorLike,
    ci: TensorLike,
    co: TensorLike,
    cs_grad: TensorLike,
    h_grad: TensorLike,
    use_peephole: bool,
    name: str | None = None,
) -> Any:
    """Computes the gradients of one time step of `LSTMBlockCell`.

    Same interface as `tf.raw_ops.LSTMBlockCellGrad`. The gradients of `x`, `h_prev`, `w` and `b` follow from `dicfo`:
    [x_grad h_prev_grad] = dicfo * w^T, w_grad = [x h_prev]^T * dicfo, and b_grad is the sum of dicfo over the batch.

    See `LSTMBlockCell` for the arguments. The op also takes outputs of the forward step, `i` to `co`, and
    the gradients with respect to its outputs `cs` and `h`, each [batch, cell_size].

    Returns:
      A named tuple of the gradients `cs_prev_grad`, [batch, cell_size]; `dicfo`, that with respect to
      [x h_prev] * w + b, [batch, 4 * cell_size]; and `wci_grad`, `wcf_grad` and `wco_grad`, [cell_size], zeros unless
      `use_peephole`.
    """
    ...


@_implemented_by("tf_rnn_ops_block_lstm")
def BlockLSTM(
    *,
    seq_len_max: TensorLike,
    x: TensorLike,
    cs_prev: TensorLike,
    h_prev: TensorLike,
    w: TensorLike,
    wci: TensorLike,
    wcf: TensorLike,
    wco: TensorLike,
    b: TensorLike,
    forget_bias: float = 1.0,
    cell_clip: float = 3.0,
    use_peephole: bool = False,
    name: str | None = None,
) -> Any:
    """Runs the steps of `LSTMBlockCell` over a sequence.

    Same interface as `tf.raw_ops.BlockLSTM`. All outputs are differentiable with respect to all inputs except
    `seq_len_max`. See `LSTMBlockCell` for the formulas and the other arguments.

    More arguments:
      - `seq_len_max`: the number of steps to run, from 0 to time, a scalar int64. The results of the other steps are
        zeros.
      - `x`: the input, [time, batch, input_size].
      - `cs_prev` and `h_prev`: the states before the first step, [batch, cell_size].

    Returns:
      A named tuple of `i`, `cs`, `f`, `o`, `ci`, `co` and `h` of all steps, each [time, batch, cell_size].
    """
    ...


@_implemented_by("tf_rnn_ops_block_lstmv2")
def BlockLSTMV2(
    *,
    seq_len_max: TensorLike,
    x: TensorLike,
    cs_prev: TensorLike,
    h_prev: TensorLike,
    w: TensorLike,
    wci: TensorLike,
    wcf: TensorLike,
    wco: TensorLike,
    b: TensorLike,
    cell_clip: float = 0.0,
    use_peephole: bool = False,
    name: str | None = None,
) -> Any:
    """Runs the steps of `LSTMBlockCell` over a sequence.

    Same interface as `tf.raw_ops.BlockLSTMV2`. The same as `BlockLSTM`, except for the order of the gates in `w` and
    `b`, i, f, ci and o, and the default of `cell_clip`; there is no `forget_bias`. TensorFlow's own gradient of this op
    is wrong.
    """
    ...


@_implemented_by("tf_rnn_ops_block_lstm_grad")
def BlockLSTMGrad(
    *,
    seq_len_max: TensorLike,
    x: TensorLike,
    cs_prev: TensorLike,
    h_prev: TensorLike,
    w: TensorLike,
    wci: TensorLike,
    wcf: TensorLike,
    wco: TensorLike,
    b: TensorLike,
    i: TensorLike,
    cs: TensorLike,
    f: TensorLike,
    o: TensorLike,
    ci: TensorLike,
    co: TensorLike,
    h: TensorLike,
    cs_grad: TensorLike,
    h_grad: TensorLike,
    use_peephole: bool,
    name: str | None = None,
) -> Any:
    """Computes the gradients of `BlockLSTM`.

    Same interface as `tf.raw_ops.BlockLSTMGrad`. See `BlockLSTM` for the arguments. The op also takes
    the outputs of the forward op, `i` to `h`, and the gradients with respect to `cs` and `h`, each
    [time, batch, cell_size].

    Returns:
      A named tuple of the gradients `x_grad`, `cs_prev_grad`, `h_prev_grad`, `w_grad`, `wci_grad`, `wcf_grad`,
      `wco_grad` and `b_grad`, each with the shape of the argument. Those of the peephole weights are zeros unless
      `use_peephole`.
    """
    ...


@_implemented_by("tf_rnn_ops_block_lstm_grad_v2")
def BlockLSTMGradV2(
    *,
    seq_len_max: TensorLike,
    x: TensorLike,
    cs_prev: TensorLike,
    h_prev: TensorLike,
    w: TensorLike,
    wci: TensorLike,
    wcf: TensorLike,
    wco: TensorLike,
    b: TensorLike,
    i: TensorLike,
    cs: TensorLike,
    f: TensorLike,
    o: TensorLike,
    ci: TensorLike,
    co: TensorLike,
    h: TensorLike,
    cs_grad: TensorLike,
    h_grad: TensorLike,
    use_peephole: bool,
    name: str | None = None,
) -> Any:
    """Computes the gradients of `BlockLSTMV2`.

    Same interface as `tf.raw_ops.BlockLSTMGradV2`. The same as `BlockLSTMGrad`, for the order of the gates of
    `BlockLSTMV2`.
    """
    ...


@_implemented_by("tf_rnn_ops_cudnn_rnn")
def CudnnRNN(
    *,
    input: TensorLike,
    input_h: TensorLike,
    input_c: TensorLike,
    params: TensorLike,
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

    A pseudo-layer is one direction of one layer. At each step it computes from its input x

        rnn_relu   h = max(0, W x + bW + R h_prev + bR)
        rnn_tanh   h = tanh(W x + bW + R h_prev + bR)
        lstm       i = sigmoid(W_i x + bW_i + R_i h_prev + bR_i), f and o likewise
                   g = tanh(W_g x + bW_g + R_g h_prev + bR_g)
                   c = f ∘ c_prev + i ∘ g
                   h = o ∘ tanh(c), or h = P (o ∘ tanh(c)) with the projection of `CudnnRNNV3`
        gru        r = sigmoid(W_r x + bW_r + R_r h_prev + bR_r), u likewise
                   n = tanh(W_n x + bW_n + r ∘ (R_n h_prev + bR_n))
                   h = (1 - u) ∘ n + u ∘ h_prev

    The output of a layer is h of all directions, forward first, concatenated along the last axis. Source: NVIDIA's
    documentation of cuDNN, cudnnRNNMode_t.

    Same interface as `tf.raw_ops.CudnnRNN`. If `is_training`, `output`, `output_h` and `output_c` are differentiable
    with respect to `input`, `input_h`, `input_c` and `params`.

    Args:
      input: the sequence, [time, batch, input_size].
      input_h: hidden states before the first step, [num_layers * num_directions, batch, num_units].
      input_c: cell states before the first step, same shape as `input_h`. Ignored unless `rnn_mode` is "lstm".
      params: all weights and biases, [params_size], from `tf_rnn_ops.params.pack` or `CudnnRNNCanonicalToParams`.
      rnn_mode: "rnn_relu", "rnn_tanh", "lstm" or "gru".
      input_mode: "linear_input"; "skip_input", which adds the input itself to every gate of layer 0 (no input matrix)
        and requires input_size == num_units; or "auto_select", which is "skip_input" if these are equal and
        "linear_input" otherwise.
      direction: "unidirectional" (num_directions is 1) or "bidirectional" (2).
      dropout: the fraction of the inputs of all layers but the first to drop, if `is_training`. The remaining inputs
        are divided by 1 - `dropout`.
      seed: with `seed2`, the seed of dropout. If both are 0, a random seed is used. Each call draws new masks.
      seed2: see `seed`.
      is_training: whether to apply dropout and to keep `reserve_space` for the gradient.
      name: a name for the operation.

    Returns:
      A named tuple of `output`, the hidden states of the last layer at each step, [time, batch, num_directions *
      num_units]; `output_h`, the hidden states after the last step, same shape as `input_h`; `output_c`, the cell
      states after the last step, same shape as `input_c`, or a scalar 0 unless `rnn_mode` is "lstm"; and
      `reserve_space`, a vector for the gradient op, empty unless `is_training`.

    Examples:
      >>> x, h = tf.ones([5, 2, 3]), tf.zeros([1, 2, 4])
      >>> size = CudnnRNNParamsSize(num_layers=1, num_units=4, input_size=3, T=tf.float32, S=tf.int32)
      >>> rnn = CudnnRNN(input=x, input_h=h, input_c=h, params=tf.zeros(size))
      >>> rnn.output.shape.as_list()
      [5, 2, 4]
    """
    ...


@_implemented_by("tf_rnn_ops_cudnn_rnnv2")
def CudnnRNNV2(
    *,
    input: TensorLike,
    input_h: TensorLike,
    input_c: TensorLike,
    params: TensorLike,
    rnn_mode: str = "lstm",
    input_mode: str = "linear_input",
    direction: str = "unidirectional",
    dropout: float = 0.0,
    seed: int = 0,
    seed2: int = 0,
    is_training: bool = True,
    name: str | None = None,
) -> Any:
    """Computes `CudnnRNN`, and returns one more output: `host_reserved`, int8, for the gradient on a GPU.

    Same interface as `tf.raw_ops.CudnnRNNV2`. See `CudnnRNN` for the arguments and the other outputs.
    """
    ...


@_implemented_by("tf_rnn_ops_cudnn_rnnv3")
def CudnnRNNV3(
    *,
    input: TensorLike,
    input_h: TensorLike,
    input_c: TensorLike,
    params: TensorLike,
    sequence_lengths: TensorLike,
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
    """Runs a stack of recurrent layers over sequences of different lengths, as cuDNN does.

    For each sequence of the batch, the outputs past its last step are 0, the final states are those of its last step
    (the initial states if its length is 0), and the backward direction starts at its last step.

    Same interface as `tf.raw_ops.CudnnRNNV3`. See `CudnnRNN` for the formulas and the other arguments and outputs, and
    `CudnnRNNV2` for `host_reserved`.

    More arguments:
      - `sequence_lengths`: int32, the number of steps of each sequence, from 0 to time, [batch].
      - `num_proj`: the size that the hidden state is projected to, "lstm" only. Less than num_units, or 0 (or
        num_units) for no projection. It replaces num_units in the shapes of `input_h`, `output_h` and `output`, but not
        in those of the cell states. For the params, use `CudnnRNNCanonicalToParamsV2`.
      - `time_major`: whether time comes before batch. If False, `input` and `output` are [batch, time, ...], and the
        states are [batch, num_layers * num_directions, ...].

    Examples:
      >>> x, h = tf.ones([5, 2, 3]), tf.zeros([1, 2, 4])
      >>> size = CudnnRNNParamsSize(num_layers=1, num_units=4, input_size=3, T=tf.float32, S=tf.int32)
      >>> rnn = CudnnRNNV3(input=x, input_h=h, input_c=h, params=tf.zeros(size), sequence_lengths=[5, 2])
      >>> rnn.output.shape.as_list()
      [5, 2, 4]
    """
    ...


@_implemented_by("tf_rnn_ops_cudnn_rnn_backprop")
def CudnnRNNBackprop(
    *,
    input: TensorLike,
    input_h: TensorLike,
    input_c: TensorLike,
    params: TensorLike,
    output: TensorLike,
    output_h: TensorLike,
    output_c: TensorLike,
    output_backprop: TensorLike,
    output_h_backprop: TensorLike,
    output_c_backprop: TensorLike,
    reserve_space: TensorLike,
    rnn_mode: str = "lstm",
    input_mode: str = "linear_input",
    direction: str = "unidirectional",
    dropout: float = 0.0,
    seed: int = 0,
    seed2: int = 0,
    name: str | None = None,
) -> Any:
    """Computes the gradients of `CudnnRNN`.

    Same interface as `tf.raw_ops.CudnnRNNBackprop`. The op does not modify its inputs, so running it twice returns
    the same gradients.

    Takes the inputs, outputs and attributes of the forward op, which must have run with `is_training`.

    More arguments:
      - `output_backprop`: gradient with respect to `output`, same shape.
      - `output_h_backprop`: gradient with respect to `output_h`, same shape.
      - `output_c_backprop`: gradient with respect to `output_c`, same shape. Ignored unless `rnn_mode` is "lstm".

    Returns:
      A named tuple of the gradients `input_backprop`, `input_h_backprop`, `input_c_backprop` (zeros unless `rnn_mode`
      is "lstm") and `params_backprop`, each with the shape of its input.

    Raises:
      tf.errors.InvalidArgumentError: if `reserve_space` comes from a forward op with other shapes or attributes.

    Examples:
      >>> x, h = tf.ones([5, 2, 3]), tf.zeros([1, 2, 4])
      >>> size = CudnnRNNParamsSize(num_layers=1, num_units=4, input_size=3, T=tf.float32, S=tf.int32)
      >>> inputs = dict(input=x, input_h=h, input_c=h, params=tf.zeros(size))
      >>> rnn = CudnnRNN(**inputs)
      >>> d_rnn = dict(output_backprop=rnn.output, output_h_backprop=rnn.output_h, output_c_backprop=rnn.output_c)
      >>> CudnnRNNBackprop(**inputs, **rnn._asdict(), **d_rnn).params_backprop.shape == size
      True
    """
    ...


@_implemented_by("tf_rnn_ops_cudnn_rnn_backprop_v2")
def CudnnRNNBackpropV2(
    *,
    input: TensorLike,
    input_h: TensorLike,
    input_c: TensorLike,
    params: TensorLike,
    output: TensorLike,
    output_h: TensorLike,
    output_c: TensorLike,
    output_backprop: TensorLike,
    output_h_backprop: TensorLike,
    output_c_backprop: TensorLike,
    reserve_space: TensorLike,
    host_reserved: TensorLike,
    rnn_mode: str = "lstm",
    input_mode: str = "linear_input",
    direction: str = "unidirectional",
    dropout: float = 0.0,
    seed: int = 0,
    seed2: int = 0,
    name: str | None = None,
) -> Any:
    """Computes the gradients of `CudnnRNNV2`.

    Same interface as `tf.raw_ops.CudnnRNNBackpropV2`. See `CudnnRNNBackprop` for the arguments, results and errors. The
    op also takes the output `host_reserved` of the forward op, which describes `reserve_space` on a GPU, and is ignored
    on the CPU.
    """
    ...


@_implemented_by("tf_rnn_ops_cudnn_rnn_backprop_v3")
def CudnnRNNBackpropV3(
    *,
    input: TensorLike,
    input_h: TensorLike,
    input_c: TensorLike,
    params: TensorLike,
    sequence_lengths: TensorLike,
    output: TensorLike,
    output_h: TensorLike,
    output_c: TensorLike,
    output_backprop: TensorLike,
    output_h_backprop: TensorLike,
    output_c_backprop: TensorLike,
    reserve_space: TensorLike,
    host_reserved: TensorLike,
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

    Same interface as `tf.raw_ops.CudnnRNNBackpropV3`. See `CudnnRNNBackprop` for the arguments, results and errors. The
    op also takes `host_reserved`, as `CudnnRNNBackpropV2` does, and the arguments that only `CudnnRNNV3` has.
    """
    ...


@_implemented_by("tf_rnn_ops_cudnn_rnn_params_size")
def CudnnRNNParamsSize(
    *,
    num_layers: TensorLike,
    num_units: TensorLike,
    input_size: TensorLike,
    T: tf.DType,  # noqa: N803  # the name in tf.raw_ops
    S: tf.DType,  # noqa: N803  # the name in tf.raw_ops
    rnn_mode: str = "lstm",
    input_mode: str = "linear_input",
    direction: str = "unidirectional",
    dropout: float = 0.0,
    seed: int = 0,
    seed2: int = 0,
    num_proj: int = 0,
    name: str | None = None,
) -> Any:
    """Computes the number of elements of the params buffer of a network.

    Each pseudo-layer (see `CudnnRNN`) has num_units * (fan_in + output_size + 2) elements per gate, plus
    num_proj * num_units with a projection. fan_in is input_size in layer 0 (0 with "skip_input") and num_directions *
    output_size in the layers above; output_size is `num_proj`, or num_units without a projection. "lstm" has 4 gates,
    "gru" 3, and the other modes 1.

    Same interface as `tf.raw_ops.CudnnRNNParamsSize`.

    Args:
      num_layers: the number of layers, an int32 scalar, at least 1.
      num_units: the size of a cell, an int32 scalar.
      input_size: the size of the input of layer 0, an int32 scalar.
      T: the dtype of the params. Ignored.
      S: the dtype of the result, `tf.int32` or `tf.int64`.
      rnn_mode: see `CudnnRNN`.
      input_mode: see `CudnnRNN`. With "skip_input", layer 0 has no input matrices.
      direction: see `CudnnRNN`.
      dropout: ignored.
      seed: ignored.
      seed2: ignored.
      num_proj: see `CudnnRNNV3`.
      name: a name for the operation.

    Returns:
      The number of elements, [1].

    Raises:
      tf.errors.InvalidArgumentError: if a size is negative or does not match the others, or the result does not fit
        into `S`.

    Examples:
      >>> int(CudnnRNNParamsSize(num_layers=1, num_units=4, input_size=3, T=tf.float32, S=tf.int32)[0])
      144
    """
    ...


@_implemented_by("tf_rnn_ops_cudnn_rnn_canonical_to_params")
def CudnnRNNCanonicalToParams(
    *,
    num_layers: TensorLike,
    num_units: TensorLike,
    input_size: TensorLike,
    weights: Sequence[TensorLike],
    biases: Sequence[TensorLike],
    rnn_mode: str = "lstm",
    input_mode: str = "linear_input",
    direction: str = "unidirectional",
    dropout: float = 0.0,
    seed: int = 0,
    seed2: int = 0,
    name: str | None = None,
) -> Any:
    """Joins weights and biases into a params buffer: `CudnnRNNCanonicalToParamsV2` without a projection.

    Same interface as `tf.raw_ops.CudnnRNNCanonicalToParams`. Differentiable.
    """
    ...


@_implemented_by("tf_rnn_ops_cudnn_rnn_canonical_to_params_v2")
def CudnnRNNCanonicalToParamsV2(
    *,
    num_layers: TensorLike,
    num_units: TensorLike,
    input_size: TensorLike,
    weights: Sequence[TensorLike],
    biases: Sequence[TensorLike],
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

    The gates are in the order i, f, g, o in "lstm", where g is the candidate of the cell state, and r, u, n in "gru".
    The pseudo-layers are in the order layer 0 forward, layer 0 backward, layer 1 forward, ...

    Same interface as `tf.raw_ops.CudnnRNNCanonicalToParamsV2`. Differentiable. See `CudnnRNNParamsSize` for fan_in,
    output_size and the other arguments.

    More arguments:
      - `weights`: the matrices, for each pseudo-layer: the input matrices of its gates, [num_units, fan_in], then the
        recurrent matrices, [num_units, output_size], then, with a projection, the projection matrix, [num_proj,
        num_units]. Each may be flattened to one dimension.
      - `biases`: the biases, for each pseudo-layer: the input biases of its gates, then the recurrent biases, each
        [num_units].

    Returns:
      The params, [params_size].

    Examples:
      >>> weights, biases = [tf.ones([4, 3])] * 4 + [tf.ones([4, 4])] * 4, [tf.zeros([4])] * 8
      >>> sizes = dict(num_layers=1, num_units=4, input_size=3)
      >>> params = CudnnRNNCanonicalToParamsV2(**sizes, weights=weights, biases=biases)
      >>> params.shape.as_list()
      [144]
    """
    ...


@_implemented_by("tf_rnn_ops_cudnn_rnn_params_to_canonical")
def CudnnRNNParamsToCanonical(
    *,
    num_layers: TensorLike,
    num_units: TensorLike,
    input_size: TensorLike,
    params: TensorLike,
    num_params: int,
    rnn_mode: str = "lstm",
    input_mode: str = "linear_input",
    direction: str = "unidirectional",
    dropout: float = 0.0,
    seed: int = 0,
    seed2: int = 0,
    name: str | None = None,
) -> Any:
    """Splits a params buffer into weights and biases: `CudnnRNNParamsToCanonicalV2` without a projection.

    Same interface as `tf.raw_ops.CudnnRNNParamsToCanonical`. Differentiable. `num_params` is the number of weights, and
    also that of biases.
    """
    ...


@_implemented_by("tf_rnn_ops_cudnn_rnn_params_to_canonical_v2")
def CudnnRNNParamsToCanonicalV2(
    *,
    num_layers: TensorLike,
    num_units: TensorLike,
    input_size: TensorLike,
    params: TensorLike,
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

    The inverse of `CudnnRNNCanonicalToParamsV2`, which documents the order of the weights and biases.

    Same interface as `tf.raw_ops.CudnnRNNParamsToCanonicalV2`. Differentiable. See `CudnnRNNParamsSize` for the other
    arguments.

    More arguments:
      - `params`: the params, [params_size].
      - `num_params_weights`: the number of weights: num_layers * num_directions * 2 * num_gates, where num_gates is 4
        in "lstm", 3 in "gru" and 1 in the other modes. With a projection, 2 * num_gates + 1 instead of 2 * num_gates.
      - `num_params_biases`: the number of biases: num_layers * num_directions * 2 * num_gates.

    Returns:
      A named tuple of two lists, `weights` (the matrices) and `biases` (the vectors).

    Examples:
      >>> sizes = dict(num_layers=1, num_units=4, input_size=3)
      >>> counts = dict(num_params_weights=8, num_params_biases=8)
      >>> canonical = CudnnRNNParamsToCanonicalV2(**sizes, params=tf.zeros([144]), **counts)
      >>> [each.shape.as_list() for each in canonical.weights[3:5]]
      [[4, 3], [4, 4]]
    """
    ...


@_implemented_by("tf_rnn_ops_keras_rnn", mixed="tf_rnn_ops_mixed_keras_rnn")
def KerasRNN(
    *,
    sequences: TensorLike,
    mask: TensorLike,
    initial_h: TensorLike,
    initial_c: TensorLike,
    kernel: TensorLike,
    recurrent_kernel: TensorLike,
    bias: TensorLike,
    input_masks: Sequence[TensorLike] = (),
    state_masks: Sequence[TensorLike] = (),
    rnn_mode: str = "lstm",
    activation: str = "tanh",
    recurrent_activation: str = "sigmoid",
    go_backwards: bool = False,
    return_sequences: bool = False,
    zero_output_for_mask: bool = False,
    is_training: bool = True,
    name: str | None = None,
) -> Any:
    """Computes the Keras layer `LSTM`, `GRU` or `SimpleRNN`, with weights in Keras's format.

    W is `kernel`, R is `recurrent_kernel`, and their columns hold the gates in the order of Keras (LSTM: i, f, g, o;
    GRU: u, r, n). The mode "gru" is a GRU with `reset_after=True`, "gru_reset_before" one with `reset_after=False`:

        LSTM  [i_bar f_bar g_bar o_bar] = x W + h_prev R + bias      i = sigmoid(i_bar), f and o likewise
              c = f ∘ c_prev + i ∘ tanh(g_bar)      h = o ∘ tanh(c)
        GRU   u = sigmoid(x W_u + h_prev R_u + bias[0, u] + bias[1, u]), r likewise
              n = tanh(x W_n + bias[0, n] + r ∘ (h_prev R_n + bias[1, n]))      h = u ∘ h_prev + (1 - u) ∘ n
        GRU, reset before   u and r likewise, with one bias      n = tanh(x W_n + (r ∘ h_prev) R_n + bias[n])
        else  h = act(x W + h_prev R + bias), where act is relu in "rnn_relu", and tanh otherwise

    At a masked step the state does not change, and the output is repeated from the previous step (zeros at the first
    step). With dropout, W of each gate multiplies x times the gate's mask, and R likewise h_prev or r ∘ h_prev. The op
    runs on the CPU only.

    With mixed precision, `kernel`, `recurrent_kernel` and `bias` are in float32 while all else is in bfloat16 or half;
    their gradients then are in float32, too.

    Differentiable to any order with respect to all inputs except `mask`, `input_masks` and `state_masks`. With
    `is_training=False`, the gradient runs the op again.

    Source: `keras.layers.LSTM`, `GRU` and `SimpleRNN` of Keras 3.

    Args:
      sequences: the inputs, [batch, time, features].
      mask: booleans, [batch, time]: False masks a step. Pass `[]` for no mask.
      initial_h: the hidden state before the first step, [batch, units], or [0, units] for zeros.
      initial_c: the cell state before the first step, likewise. Ignored unless `rnn_mode` is "lstm".
      kernel: [features, num_gates * units], where num_gates is 4 in "lstm", 3 in the modes of a GRU, else 1.
      recurrent_kernel: [units, num_gates * units].
      bias: [num_gates * units], or [2, num_gates * units] in "gru". Pass `[]` for no bias.
      input_masks: dropout masks of the inputs, one for all gates or one for each gate, in the order of the kernel:
        [batch, features] for all steps, or [batch, time, features]. None of them for no dropout.
      state_masks: likewise of the hidden state, for recurrent dropout: [batch, units], or [batch, time, units] in
        processing order.
      rnn_mode: "rnn_relu", "rnn_tanh", "lstm", "gru", "gru_reset_before" or "rnn".
      activation: in the modes "lstm", "gru", "gru_reset_before" and "rnn", replaces tanh above: "tanh", "sigmoid",
        "relu", "linear", "hard_sigmoid", "elu", "selu", "softplus", "softsign", "exponential", "leaky_relu", "relu6",
        "hard_tanh", "log_sigmoid", "squareplus", "hard_shrink", "soft_shrink", "sparse_sigmoid", "gelu", "silu",
        "mish", "hard_silu", "tanh_shrink" or "sparse_plus", as in `keras.activations` without other arguments; or
        "gelu_approximate", gelu with `approximate=True`.
      recurrent_activation: the activation of the gates, which replaces sigmoid above: one of the same.
      go_backwards: whether to process the steps from last to first. The outputs are in processing order.
      return_sequences: whether to return the outputs of all steps or only the last output.
      zero_output_for_mask: whether the outputs of masked steps are zeros.
      is_training: whether to keep `reserve_space` for the gradient.
      name: a name for the operation.

    Returns:
      A named tuple of `outputs`, [batch, time, units], or [batch, units] unless `return_sequences`; `final_h`,
      [batch, units]; `final_c`, likewise, but zeros with the shape of `initial_c` unless `rnn_mode` is "lstm"; and
      `reserve_space`, opaque data for the gradient op.

    Examples:
      >>> x, h, w = tf.ones([2, 10, 3]), tf.zeros([2, 4]), tf.ones([3, 16])
      >>> weights = dict(kernel=w, recurrent_kernel=tf.ones([4, 16]), bias=tf.zeros([16]))
      >>> KerasRNN(sequences=x, mask=[], initial_h=h, initial_c=h, **weights).outputs.shape
      TensorShape([2, 4])
    """
    ...


@_implemented_by("tf_rnn_ops_keras_rnn_backprop", mixed="tf_rnn_ops_mixed_keras_rnn_backprop")
def KerasRNNBackprop(
    *,
    sequences: TensorLike,
    mask: TensorLike,
    initial_h: TensorLike,
    initial_c: TensorLike,
    kernel: TensorLike,
    recurrent_kernel: TensorLike,
    bias: TensorLike,
    outputs_backprop: TensorLike,
    final_h_backprop: TensorLike,
    final_c_backprop: TensorLike,
    reserve_space: TensorLike,
    input_masks: Sequence[TensorLike] = (),
    state_masks: Sequence[TensorLike] = (),
    rnn_mode: str = "lstm",
    activation: str = "tanh",
    recurrent_activation: str = "sigmoid",
    go_backwards: bool = False,
    return_sequences: bool = False,
    zero_output_for_mask: bool = False,
    name: str | None = None,
) -> Any:
    """Computes the gradients of `KerasRNN`.

    Takes the inputs of `KerasRNN` and its attributes except `is_training`, which must have been True.

    More arguments:
      - `outputs_backprop`: gradient with respect to `outputs`, same shape.
      - `final_h_backprop`: gradient with respect to `final_h`, same shape.
      - `final_c_backprop`: gradient with respect to `final_c`, same shape. Ignored unless `rnn_mode` is "lstm".
      - `reserve_space`: an output of `KerasRNN`.

    Returns:
      A named tuple of the gradients `sequences_backprop`, `initial_h_backprop`, `initial_c_backprop` (zeros unless
      `rnn_mode` is "lstm"), `kernel_backprop`, `recurrent_kernel_backprop` and `bias_backprop`, each with the shape of
      its input.

    Raises:
      tf.errors.InvalidArgumentError: if `reserve_space` comes from another call.

    Examples:
      >>> x, h, w = tf.ones([2, 10, 3]), tf.zeros([2, 4]), tf.ones([3, 16])
      >>> inputs = dict(sequences=x, mask=[], initial_h=h, initial_c=h, kernel=w, recurrent_kernel=tf.ones([4, 16]))
      >>> d = dict(outputs_backprop=tf.ones([2, 4]), final_h_backprop=h, final_c_backprop=h)
      >>> reserve_space = KerasRNN(**inputs, bias=tf.zeros([16])).reserve_space
      >>> KerasRNNBackprop(**inputs, **d, bias=tf.zeros([16]), reserve_space=reserve_space).kernel_backprop.shape
      TensorShape([3, 16])
    """
    ...
