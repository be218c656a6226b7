"""Calls of the second-order ops of the CudnnRNN family, and gradients of gradients of networks."""

import tensorflow as tf
from inputs.cudnn_rnn import INPUTS, attributes

from tf_rnn_ops._library import ops

BACKPROP_GRADS = tuple(f"{name}_backprop_grad" for name in INPUTS)


def grad_arguments(config, inputs, outputs, gradients, v) -> dict:
    """Returns the arguments of CudnnRNNBackpropGrad."""
    return {
        **inputs,
        **gradients,
        **dict(zip(BACKPROP_GRADS, v, strict=True)),
        **attributes(config),
        "sequence_lengths": config.lengths,
        "output": outputs.output,
        "reserve_space": outputs.reserve_space,
    }


def backprop_grad(config, inputs, outputs, gradients, v, **changes):
    """Runs CudnnRNNBackpropGrad."""
    return ops.tf_rnn_ops_cudnn_rnn_backprop_grad(
        **{**grad_arguments(config, inputs, outputs, gradients, v), **changes}
    )


def dropout_masks(config, inputs, outputs, masks_type=tf.float32):
    """Returns the dropout masks of the inputs of the layers above the first."""
    return ops.tf_rnn_ops_cudnn_rnn_dropout_masks(
        **inputs,
        sequence_lengths=config.lengths,
        reserve_space=outputs.reserve_space,
        **attributes(config),
        masks_type=masks_type,
    )


def penalty(run, inputs, of):
    """Returns a nonlinear function of an output and of the gradients of a loss with respect to the inputs in `of`."""
    with tf.GradientTape() as tape:
        tape.watch([inputs[name] for name in of])
        outputs = run(inputs)
        loss = tf.add_n([tf.reduce_sum(tf.sin(each)) for each in outputs[:3]])
    gradients = tape.gradient(loss, [inputs[name] for name in of], unconnected_gradients="zero")
    return tf.add_n([tf.reduce_sum(each**2) for each in gradients]) + tf.reduce_sum(outputs[0] ** 2)


def penalty_gradients(run, inputs, of=INPUTS, wanted=INPUTS):
    """Returns the gradients of the penalty, by input."""
    with tf.GradientTape() as tape:
        tape.watch([inputs[name] for name in wanted])
        value = penalty(run, inputs, of)
    return tape.gradient(value, {name: inputs[name] for name in wanted}, unconnected_gradients="zero")


def third_order(run, inputs):
    """Returns gradients of a function of gradients of a penalty."""
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        gradients = penalty_gradients(run, inputs)
        value = tf.add_n([tf.reduce_sum(tf.sin(each)) for each in gradients.values()])
    return tape.gradient(value, inputs, unconnected_gradients="zero")
