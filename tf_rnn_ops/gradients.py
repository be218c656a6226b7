"""Gradients of the ops. Importing this module registers them with TensorFlow."""

import tensorflow as tf

from tf_rnn_ops._library import ops


@tf.RegisterGradient("TfRnnOps>GRUBlockCell")
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
    x, h_prev, *weights = (tf.cast(each, wide) for each in op.inputs)
    r, u, c, h = (tf.cast(each, wide) for each in op.outputs)
    d_outputs = [None if each is None else tf.cast(each, wide) for each in (d_r, d_u, d_c, d_h)]

    step = (x, h_prev, *weights, r, u, c)
    if any(each is not None for each in d_outputs[:3]):
        d_outputs = [tf.zeros_like(h) if each is None else each for each in d_outputs]
        grads = ops.tf_rnn_ops_gru_block_cell_grad_v2(*step, *d_outputs)
    else:
        grads = ops.tf_rnn_ops_gru_block_cell_grad(*step, d_outputs[3])
    d_inputs = (
        grads.d_x,
        grads.d_h_prev,
        tf.matmul(tf.concat([x, h_prev], axis=1), grads.d_r_bar_u_bar, transpose_a=True),
        tf.matmul(tf.concat([x, h_prev * r], axis=1), grads.d_c_bar, transpose_a=True),
        tf.reduce_sum(grads.d_r_bar_u_bar, axis=0),
        tf.reduce_sum(grads.d_c_bar, axis=0),
    )
    return [tf.cast(each, dtype) for each in d_inputs]


def _zeros_for_none(grads, outputs):
    """Returns the gradients with respect to an op's outputs, with zeros in place of None."""
    return [tf.zeros_like(output) if grad is None else grad for grad, output in zip(grads, outputs, strict=True)]


def _cudnn_rnn_attrs(op, *more):
    """Returns the attributes that every op of the CudnnRNN family has, and those of the names in `more`."""
    names = ("rnn_mode", "input_mode", "direction", "dropout", "seed", "seed2", *more)
    return {name: op.get_attr(name) for name in names}


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
    return list(backprop(*op.inputs, *op.outputs[:3], *d_states, *op.outputs[3:], **attrs))


@tf.RegisterGradient("TfRnnOps>CudnnRNN")
def _cudnn_rnn_v1_grad(op, *d_outputs):
    """The gradient of CudnnRNN."""
    return _cudnn_rnn_grad(op, d_outputs, ops.tf_rnn_ops_cudnn_rnn_backprop)


@tf.RegisterGradient("TfRnnOps>CudnnRNNV2")
def _cudnn_rnn_v2_grad(op, *d_outputs):
    """The gradient of CudnnRNNV2."""
    return _cudnn_rnn_grad(op, d_outputs, ops.tf_rnn_ops_cudnn_rnn_backprop_v2)


@tf.RegisterGradient("TfRnnOps>CudnnRNNV3")
def _cudnn_rnn_v3_grad(op, *d_outputs):
    """The gradient of CudnnRNNV3, whose last input, sequence_lengths, has none."""
    grads = _cudnn_rnn_grad(op, d_outputs, ops.tf_rnn_ops_cudnn_rnn_backprop_v3, "num_proj", "time_major")
    return [*grads, None]


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


@tf.RegisterGradient("TfRnnOps>CudnnRNNCanonicalToParams")
def canonical_to_params_v1_grad(op, d_params):
    """The gradient of CudnnRNNCanonicalToParams, ours or TensorFlow's own."""
    attrs = _cudnn_rnn_attrs(op, "num_params")
    return _canonical_to_params_grad(op, d_params, ops.tf_rnn_ops_cudnn_rnn_params_to_canonical, **attrs)


@tf.RegisterGradient("TfRnnOps>CudnnRNNCanonicalToParamsV2")
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


@tf.RegisterGradient("TfRnnOps>CudnnRNNParamsToCanonical")
def params_to_canonical_v1_grad(op, *d_canonical):
    """The gradient of CudnnRNNParamsToCanonical, ours or TensorFlow's own."""
    num_weights = op.get_attr("num_params")
    canonical_to_params = ops.tf_rnn_ops_cudnn_rnn_canonical_to_params
    return _params_to_canonical_grad(op, d_canonical, num_weights, canonical_to_params, **_cudnn_rnn_attrs(op))


@tf.RegisterGradient("TfRnnOps>CudnnRNNParamsToCanonicalV2")
def params_to_canonical_v2_grad(op, *d_canonical):
    """The gradient of CudnnRNNParamsToCanonicalV2, ours or TensorFlow's own."""
    num_weights = op.get_attr("num_params_weights")
    canonical_to_params = ops.tf_rnn_ops_cudnn_rnn_canonical_to_params_v2
    attrs = _cudnn_rnn_attrs(op, "num_proj")
    return _params_to_canonical_grad(op, d_canonical, num_weights, canonical_to_params, **attrs)
