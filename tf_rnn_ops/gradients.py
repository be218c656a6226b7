"""Gradients of the ops. Importing this module registers them with TensorFlow."""

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tf_rnn_ops import _keras_network, _plain_network
from tf_rnn_ops._alignment import aligned
from tf_rnn_ops._library import ops


def _gradient_of(op):
    """Registers the decorated function as an op's gradient, unless the op has one.

    It has one where the package is imported anew, since TensorFlow lets go of none.
    """

    def register(function):
        with contextlib.suppress(KeyError):
            tf.RegisterGradient(op)(function)
        return function

    return register


@_gradient_of("TfRnnOps>AlignTensor")
def _align_tensor_grad(op, grad):
    """The gradient of AlignTensor."""
    return aligned(grad)


def _local(tensors):
    """Returns tensors as ones of the current graph, which a tape sees.

    The gradient of a tf.while_loop is a graph of its own, in which a tape does not see a tensor of the loop's body.
    """
    return [aligned(each) for each in tensors]


def _widened(tensor, dtype):
    """Returns what a gradient is given in another dtype. None stays None."""
    return tensor if tensor is None or tensor.dtype == dtype else tf.cast(aligned(tensor), dtype)


def _narrowed(tensor, dtype):
    """Returns what a gradient returns in another dtype."""
    return tensor if tensor.dtype == dtype else aligned(tf.cast(tensor, dtype))


@_gradient_of("TfRnnOps>GRUBlockCell")
def gru_block_cell_grad(op, d_r, d_u, d_c, d_h):
    """The gradient of GRUBlockCell, ours or TensorFlow's own: of its inputs x, h_prev, w_ru, w_c, b_ru and b_c.

    For the 16-bit types all of it is in float32: sums over the batch of rounded numbers could lose what is left when
    they cancel.

    Args:
      op: the forward op.
      d_r: gradient with respect to the reset gate, [batch, cell_size], or None for zeros.
      d_u: the same for the update gate.
      d_c: the same for the candidate.
      d_h: the same for the new state.
    """
    dtype = op.outputs[0].dtype
    wide = tf.float32 if dtype.size == 2 else dtype
    x, h_prev = (tf.cast(aligned(each), wide) for each in op.inputs[:2])
    weights = [_widened(each, wide) for each in op.inputs[2:]]
    r, u, c, h = (tf.cast(each, wide) for each in op.outputs)
    d_outputs = [_widened(each, wide) for each in (d_r, d_u, d_c, d_h)]

    step = (x, h_prev, *weights, r, u, c)
    if any(each is not None for each in d_outputs[:3]):
        d_outputs = [tf.zeros_like(h) if each is None else each for each in d_outputs]
        grads = ops.tf_rnn_ops_gru_block_cell_grad_v2(*step, *d_outputs)
    else:
        grads = ops.tf_rnn_ops_gru_block_cell_grad(*step, d_outputs[3])
    x_h = tf.concat([x, h_prev], axis=1)
    # [x h_prev ∘ r]. If it is written so, XLA of TensorFlow 2.21 multiplies it wrongly on CPUs with AVX-512, in float64
    # for 4 sequences and 5 units.
    x_hr = x_h * tf.concat([tf.ones_like(x), r], axis=1)
    d_weights = (
        tf.matmul(x_h, grads.d_r_bar_u_bar, transpose_a=True),
        tf.matmul(x_hr, grads.d_c_bar, transpose_a=True),
        tf.reduce_sum(grads.d_r_bar_u_bar, axis=0),
        tf.reduce_sum(grads.d_c_bar, axis=0),
    )
    d_inputs = [_narrowed(each, dtype) for each in (grads.d_x, grads.d_h_prev)]
    return [*d_inputs, *(aligned(tf.cast(each, dtype)) for each in d_weights)]


def _is_wanted(op, index):
    """Whether the gradient with respect to an op's input is asked for, as far as TensorFlow says."""
    return index not in (getattr(op, "skip_input_indices", None) or ())


@_gradient_of("TfRnnOps>GRUBlockCellGrad")
@_gradient_of("TfRnnOps>GRUBlockCellGradV2")
def gru_block_cell_grad_grad(op, *v):
    """The gradient of GRUBlockCellGrad, ours or TensorFlow's own, and of our V2, as docs/design/second_order.md derives it.

    It is made of operations that TensorFlow differentiates. Each input gets the partial derivative; there are none
    with respect to x, b_ru and b_c, of which the op takes nothing. For the 16-bit types all of it is in float32.

    Args:
      op: the gradient op.
      *v: gradients with respect to its outputs d_x, d_h_prev, d_c_bar and d_r_bar_u_bar, each of its shape or None for
        zeros.
    """
    dtype = op.outputs[0].dtype
    wide = tf.float32 if dtype.size == 2 else dtype
    x, h_prev, w_ru, w_c, _, _, r, u, c, *d_outputs = (tf.cast(aligned(each), wide) for each in op.inputs)
    _, _, d_c_bar, d_ru_bar = (tf.cast(each, wide) for each in op.outputs)
    v_x, v_h, v_c_bar, v_ru_bar = (tf.cast(aligned(each), wide) for each in _zeros_for_none(v, op.outputs))
    has_d_gates = len(d_outputs) > 1
    d_r, d_u, d_c, d_h = d_outputs if has_d_gates else (0, 0, 0, *d_outputs)

    # The backward step.
    e_c, e_u = d_c + d_h * (1 - u), d_u + d_h * (h_prev - c)
    p = tf.matmul(d_c_bar, w_c[tf.shape(x)[1] :], transpose_b=True)
    e_r = d_r + p * h_prev
    # Its formulas from the last to the first; g_q is the gradient with respect to q.
    v_x_h = tf.concat([v_x, v_h], axis=1)
    g_r_bar, g_u_bar = tf.split(v_ru_bar + tf.matmul(v_x_h, w_ru), 2, axis=1)
    g_e_r, g_e_u = g_r_bar * r * (1 - r), g_u_bar * u * (1 - u)
    g_p = v_h * r + g_e_r * h_prev
    v_x_g_p = tf.concat([v_x, g_p], axis=1)
    g_c_bar = v_c_bar + tf.matmul(v_x_g_p, w_c)
    g_e_c = g_c_bar * (1 - c * c)

    grads = [
        None,
        g_e_r * p + g_e_u * d_h,
        tf.matmul(v_x_h, d_ru_bar, transpose_a=True) if _is_wanted(op, 2) else None,
        tf.matmul(v_x_g_p, d_c_bar, transpose_a=True) if _is_wanted(op, 3) else None,
        None,
        None,
        v_h * p + g_r_bar * e_r * (1 - 2 * r),
        v_h * d_h + g_u_bar * e_u * (1 - 2 * u) - g_e_c * d_h,
        -2 * g_c_bar * e_c * c - g_e_u * d_h,
        *([g_e_r, g_e_u, g_e_c] if has_d_gates else []),
        v_h * u + g_e_u * (h_prev - c) + g_e_c * (1 - u),
    ]
    return [None if grad is None else aligned(tf.cast(grad, dtype)) for grad in grads]


def _zeros_for_none(grads, outputs):
    """Returns the gradients with respect to an op's outputs, with zeros in place of None."""
    return [tf.zeros_like(output) if grad is None else grad for grad, output in zip(grads, outputs, strict=True)]


def _without_unwanted_input_grad(op, grads):
    """Returns the results of a gradient op, the first of which is None if nobody asks for it.

    That is the gradient with respect to the sequences, which the first layer of a model need not have. TensorFlow tells
    its kernels what nothing reads; XLA makes all results of a call, unless the call names those that are unwanted.
    """
    if _is_wanted(op, 0):
        return list(grads)
    if not tf.executing_eagerly():
        names = tf.compat.v1.AttrValue.ListValue(s=[grads._fields[0].encode()])
        grads[0].op._set_attr("_unwanted_outputs", tf.compat.v1.AttrValue(list=names))
    return [None, *grads[1:]]


def _network_attrs(op, *more):
    """Returns the attributes of a CudnnRNN op that say what it computes, and those of the names in `more`."""
    names = ("rnn_mode", "input_mode", "direction", "dropout", *more)
    return {name: op.get_attr(name) for name in names}


def _cudnn_rnn_attrs(op, *more):
    """Returns the attributes that every op of the CudnnRNN family has, and those of the names in `more`."""
    return _network_attrs(op, "seed", "seed2", *more)


def _cudnn_rnn_grad(op, d_outputs, backprop, *more_attrs):
    """The gradients of a CudnnRNN op of any version: of its inputs input, input_h, input_c and params.

    Args:
      op: the forward op.
      d_outputs: gradients with respect to its outputs, each of its shape or None for zeros. All but the first three,
        of output, output_h and output_c, are ignored.
      backprop: the gradient op of the same version.
      *more_attrs: names of attributes that not every version has.
    """
    if not op.get_attr("is_training"):
        name = op.type.removeprefix("TfRnnOps>")
        raise ValueError(
            f"{name} must be run with is_training=True to have a gradient, but was run with is_training=False, which "
            "keeps nothing for one."
        )
    d_states = _zeros_for_none(d_outputs[:3], op.outputs[:3])
    attrs = _cudnn_rnn_attrs(op, *more_attrs)
    # After the outputs that it differentiates come reserve_space and, if the version has it, host_reserved.
    grads = backprop(*op.inputs, *op.outputs[:3], *d_states, *op.outputs[3:], **attrs)
    return _without_unwanted_input_grad(op, grads)


@_gradient_of("TfRnnOps>CudnnRNN")
def _cudnn_rnn_v1_grad(op, *d_outputs):
    """The gradient of CudnnRNN."""
    return _cudnn_rnn_grad(op, d_outputs, ops.tf_rnn_ops_cudnn_rnn_backprop)


@_gradient_of("TfRnnOps>CudnnRNNV2")
def _cudnn_rnn_v2_grad(op, *d_outputs):
    """The gradient of CudnnRNNV2."""
    return _cudnn_rnn_grad(op, d_outputs, ops.tf_rnn_ops_cudnn_rnn_backprop_v2)


@_gradient_of("TfRnnOps>CudnnRNNV3")
def _cudnn_rnn_v3_grad(op, *d_outputs):
    """The gradient of CudnnRNNV3, whose last input, sequence_lengths, has none."""
    grads = _cudnn_rnn_grad(op, d_outputs, ops.tf_rnn_ops_cudnn_rnn_backprop_v3, "num_proj", "time_major")
    return [*grads, None]


# The results of CudnnRNNBackpropGrad: gradients with respect to the network's inputs, and to the incoming gradients.
_BACKPROP_GRADS = (
    *("input_grad", "input_h_grad", "input_c_grad", "params_grad"),
    *("output_backprop_grad", "output_h_backprop_grad", "output_c_backprop_grad"),
)


class _BackwardPass(NamedTuple):
    """What a CudnnRNNBackprop op of any version was given, as one of V3 would have been."""

    network: Sequence[tf.Tensor]  # input, input_h, input_c and params
    sequence_lengths: tf.Tensor
    output: tf.Tensor
    d_outputs: Sequence[tf.Tensor]  # gradients with respect to output, output_h and output_c
    reserve_space: tf.Tensor
    attrs: dict[str, Any]

    def differentiate(self, v, wanted=_BACKPROP_GRADS):
        """Returns the results of CudnnRNNBackpropGrad by name, those that are `wanted`.

        Args:
          v: gradients with respect to the results of the backward pass, each of its shape.
          wanted: the names.
        """
        results = ops.tf_rnn_ops_cudnn_rnn_backprop_grad(
            *self.network,
            self.sequence_lengths,
            self.output,
            *self.d_outputs,
            self.reserve_space,
            *v,
            skip=[name for name in _BACKPROP_GRADS if name not in wanted],
            **self.attrs,
        )
        return {name: getattr(results, name) for name in wanted}

    def run(self, d_outputs):
        """Returns the results of the backward pass for other gradients with respect to the outputs."""
        # Of the final states only their shapes are looked at.
        return list(
            ops.tf_rnn_ops_cudnn_rnn_backprop_v3(
                *self.network,
                self.sequence_lengths,
                self.output,
                *map(tf.zeros_like, self.d_outputs[1:]),
                *d_outputs,
                self.reserve_space,
                self._host_reserved(),
                **self.attrs,
            )
        )

    def _host_reserved(self):
        """Returns what a kernel for GPUs reads: the header that its reserve_space begins with, [128] bytes."""
        reserve_space = aligned(self.reserve_space)
        return tf.reshape(tf.bitcast(reserve_space[: 128 // reserve_space.dtype.size], tf.int8), [-1])

    def differentiate_twice(self, v, s):
        """Differentiates all results of CudnnRNNBackpropGrad, as operations of TensorFlow that have any derivative.

        Args:
          v: as `differentiate` takes them.
          s: gradients with respect to the results, each of its shape.

        Returns:
          The gradients with respect to the network's inputs, and those with respect to `d_outputs`.
        """
        dtype = self.output.dtype
        wide = tf.float32 if dtype.size == 2 else dtype
        layout = _plain_network.make_layout(self.network, self.attrs)
        is_dropped = self.attrs["dropout"] > 0 and layout.num_layers > 1
        masks = self._dropout_masks(wide) if is_dropped else None
        lengths = aligned(self.sequence_lengths)
        plain = _plain_network.Network(layout, self.attrs["time_major"], lengths, masks)
        v = [tf.cast(aligned(each), wide) for each in v]

        def results(*sources):
            sources = [tf.cast(aligned(each), wide) for each in sources]
            return _plain_network.backprop_grad(plain, sources[:4], sources[4:], v)

        sources = _local([*self.network, *self.d_outputs])
        grads = _plain_network.differentiate(results, sources, [tf.cast(aligned(each), wide) for each in s])
        return grads[:4], grads[4:]

    def _dropout_masks(self, dtype):
        """Returns what the inputs of the layers above the first were multiplied by."""
        return ops.tf_rnn_ops_cudnn_rnn_dropout_masks(
            *self.network, self.sequence_lengths, self.reserve_space, masks_type=dtype, **self.attrs
        )


# The masks are drawn for the sizes of the arguments, whatever is in them.
with contextlib.suppress(KeyError):  # as in _gradient_of
    tf.no_gradient("TfRnnOps>CudnnRNNDropoutMasks")


def _full_lengths(op):
    """Returns sequence lengths for a CudnnRNN op that has none: its whole time, which comes first."""
    time, batch, _ = tf.unstack(tf.shape(op.inputs[0]))
    return tf.fill([batch], time)


def _cudnn_rnn_backprop_grad(op, v, backward_pass, first_d_output):
    """The gradients of a CudnnRNNBackprop op of any version; docs/design/second_order.md derives them.

    Those with respect to the network's inputs are total: there are none with respect to its outputs and reserve_space.

    Args:
      op: the gradient op.
      v: gradients with respect to its outputs, each of its shape or None for zeros.
      backward_pass: what it was given.
      first_d_output: the index of its input output_backprop.
    """
    indices = (0, 1, 2, 3, first_d_output, first_d_output + 1, first_d_output + 2)
    names = {i: name for i, name in zip(indices, _BACKPROP_GRADS, strict=True) if _is_wanted(op, i)}
    grads = backward_pass.differentiate(_zeros_for_none(v, op.outputs), names.values())
    return [grads[names[i]] if i in names else None for i in range(len(op.inputs))]


@_gradient_of("TfRnnOps>CudnnRNNBackprop")
@_gradient_of("TfRnnOps>CudnnRNNBackpropV2")
def cudnn_rnn_backprop_grad(op, *v):
    """The gradient of CudnnRNNBackprop and V2, ours or TensorFlow's own."""
    network, (output, _, _), d_outputs, reserve_space = op.inputs[:4], op.inputs[4:7], op.inputs[7:10], op.inputs[10]
    attrs = {**_network_attrs(op), "num_proj": 0, "time_major": True}
    backward_pass = _BackwardPass(network, _full_lengths(op), output, d_outputs, reserve_space, attrs)
    return _cudnn_rnn_backprop_grad(op, v, backward_pass, 7)


@_gradient_of("TfRnnOps>CudnnRNNBackpropV3")
def cudnn_rnn_backprop_v3_grad(op, *v):
    """The gradient of CudnnRNNBackpropV3, ours or TensorFlow's own."""
    network, lengths, (output, _, _) = op.inputs[:4], op.inputs[4], op.inputs[5:8]
    attrs = _network_attrs(op, "num_proj", "time_major")
    backward_pass = _BackwardPass(network, lengths, output, op.inputs[8:11], op.inputs[11], attrs)
    return _cudnn_rnn_backprop_grad(op, v, backward_pass, 8)


@_gradient_of("TfRnnOps>CudnnRNNBackpropGrad")
def _cudnn_rnn_backprop_grad_grad(op, *s):
    """The gradient of CudnnRNNBackpropGrad.

    Its results (H v, J v) are linear in v, so that the gradient with respect to v is H s_z + Jᵀ s_d: the same op once
    more, and a backward pass. For the others, a plain network is differentiated.

    Args:
      op: the gradient op.
      *s: gradients with respect to its outputs, s_z and s_d, each of its shape or None for zeros.
    """
    network, lengths, output, d_outputs = op.inputs[:4], op.inputs[4], op.inputs[5], op.inputs[6:9]
    reserve_space, v = op.inputs[9], op.inputs[10:]
    attrs = _network_attrs(op, "num_proj", "time_major")
    backward_pass = _BackwardPass(network, lengths, output, d_outputs, reserve_space, attrs)
    # A result that was skipped has no elements.
    skipped = [tf.compat.as_str(name) for name in op.get_attr("skip")]
    s = [
        tf.zeros_like(like) if grad is None or name in skipped else grad
        for name, grad, like in zip(_BACKPROP_GRADS, s, (*network, *d_outputs), strict=True)
    ]

    grads = [None] * len(op.inputs)
    if any(_is_wanted(op, i) for i in range(10, 14)):
        again = backward_pass.differentiate(s[:4], _BACKPROP_GRADS[:4])
        grads[10:14] = [a + b for a, b in zip(again.values(), backward_pass.run(s[4:]), strict=True)]
    if any(_is_wanted(op, i) for i in (0, 1, 2, 3, 6, 7, 8)):
        grads[:4], grads[6:9] = backward_pass.differentiate_twice(v, s)
    return grads


_KERAS_RNN_ATTRS = (
    "rnn_mode",
    "activation",
    "recurrent_activation",
    "go_backwards",
    "return_sequences",
    "zero_output_for_mask",
)


def _keras_rnn_attrs(op):
    """Returns the attributes that both KerasRNN ops have."""
    attrs = {name: op.get_attr(name) for name in _KERAS_RNN_ATTRS}
    return {name: tf.compat.as_str(each) if isinstance(each, bytes) else each for name, each in attrs.items()}


@_gradient_of("TfRnnOps>KerasRNN")
def _keras_rnn_grad(op, *d_outputs):
    """The gradient of KerasRNN: of all its inputs but mask. Where it kept nothing for one, it runs once more."""
    attrs = _keras_rnn_attrs(op)
    reserve_space = op.outputs[3]
    if not op.get_attr("is_training"):
        reserve_space = ops.tf_rnn_ops_keras_rnn(*op.inputs, is_training=True, **attrs).reserve_space
    d_outputs = _zeros_for_none(d_outputs[:3], op.outputs[:3])
    grads = ops.tf_rnn_ops_keras_rnn_backprop(*op.inputs, *d_outputs, reserve_space, **attrs)
    d_sequences, *others = _without_unwanted_input_grad(op, grads)
    return [d_sequences, None, *others]


@_gradient_of("TfRnnOps>KerasRNNBackprop")
def _keras_rnn_backprop_grad(op, *v):
    """The gradient of KerasRNNBackprop, which is that of the same layer on CudnnRNNV3.

    Those with respect to the layer's inputs are total: there is none with respect to reserve_space.

    Args:
      op: the gradient op.
      *v: gradients with respect to its outputs, each of its shape or None for zeros.
    """
    attrs = _keras_rnn_attrs(op)
    mask = op.inputs[1]

    def outputs(sequences, *others):
        return _keras_network.run([sequences, mask, *others], attrs)

    grads = _plain_network.differentiate_backward(
        outputs, _local([op.inputs[0], *op.inputs[2:7]]), _local(op.inputs[7:10]), _zeros_for_none(v, op.outputs)
    )
    d_sequences, *others, of_outputs, of_final_h, of_final_c = grads
    return [d_sequences, None, *others, of_outputs, of_final_h, of_final_c, None]


def _canonical_to_params_grad(op, d_params, params_to_canonical, **attrs):
    """The gradient of CudnnRNNCanonicalToParams of any version: of its weights and biases.

    Args:
      op: the forward op.
      d_params: gradient with respect to its output, [params_size], or None for zeros.
      params_to_canonical: the inverse op of the same version.
      **attrs: the attributes of that op.
    """
    sizes, canonical = op.inputs[:3], op.inputs[3:]
    (d_params,) = _zeros_for_none([d_params], op.outputs)
    grads = params_to_canonical(*sizes, d_params, **attrs)
    d_canonical = [*grads.weights, *grads.biases]
    # A weight may have come flattened.
    reshaped = [tf.reshape(grad, tf.shape(each)) for grad, each in zip(d_canonical, canonical, strict=True)]
    return [None, None, None, *reshaped]


@_gradient_of("TfRnnOps>CudnnRNNCanonicalToParams")
def canonical_to_params_v1_grad(op, d_params):
    """The gradient of CudnnRNNCanonicalToParams, ours or TensorFlow's own."""
    attrs = _cudnn_rnn_attrs(op, "num_params")
    return _canonical_to_params_grad(op, d_params, ops.tf_rnn_ops_cudnn_rnn_params_to_canonical, **attrs)


@_gradient_of("TfRnnOps>CudnnRNNCanonicalToParamsV2")
def canonical_to_params_v2_grad(op, d_params):
    """The gradient of CudnnRNNCanonicalToParamsV2, ours or TensorFlow's own."""
    attrs = _cudnn_rnn_attrs(op, "num_params_weights", "num_params_biases", "num_proj")
    return _canonical_to_params_grad(op, d_params, ops.tf_rnn_ops_cudnn_rnn_params_to_canonical_v2, **attrs)


def _params_to_canonical_grad(op, d_canonical, num_weights, canonical_to_params, **attrs):
    """The gradient of CudnnRNNParamsToCanonical of any version: of its params.

    Args:
      op: the forward op.
      d_canonical: gradients with respect to its weights and biases, each of its shape or None for zeros.
      num_weights: how many of them are of weights.
      canonical_to_params: the inverse op of the same version.
      **attrs: the attributes of that op.
    """
    d_canonical = _zeros_for_none(d_canonical, op.outputs)
    d_params = canonical_to_params(*op.inputs[:3], d_canonical[:num_weights], d_canonical[num_weights:], **attrs)
    return [None, None, None, d_params]


@_gradient_of("TfRnnOps>CudnnRNNParamsToCanonical")
def params_to_canonical_v1_grad(op, *d_canonical):
    """The gradient of CudnnRNNParamsToCanonical, ours or TensorFlow's own."""
    num_weights = op.get_attr("num_params")
    canonical_to_params = ops.tf_rnn_ops_cudnn_rnn_canonical_to_params
    return _params_to_canonical_grad(op, d_canonical, num_weights, canonical_to_params, **_cudnn_rnn_attrs(op))


@_gradient_of("TfRnnOps>CudnnRNNParamsToCanonicalV2")
def params_to_canonical_v2_grad(op, *d_canonical):
    """The gradient of CudnnRNNParamsToCanonicalV2, ours or TensorFlow's own."""
    num_weights = op.get_attr("num_params_weights")
    canonical_to_params = ops.tf_rnn_ops_cudnn_rnn_canonical_to_params_v2
    attrs = _cudnn_rnn_attrs(op, "num_proj")
    return _params_to_canonical_grad(op, d_canonical, num_weights, canonical_to_params, **attrs)
