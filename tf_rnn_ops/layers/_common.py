"""What the layers have in common."""

import numbers

import keras
import tensorflow as tf

from tf_rnn_ops import raw_ops, xla


def check_backend(layer):
    """Refuses to make a layer, given by its class's name, of a Keras that does not run on TensorFlow."""
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            f"{layer} needs Keras to run on TensorFlow, but it runs on {keras.backend.backend()}: "
            "set KERAS_BACKEND=tensorflow before Keras is imported."
        )


def supports_jit():
    """Returns whether Keras may compile a layer of an op with XLA, which has kernels for the CPU alone."""
    # Unlike `list_logical_devices`, this does not start the devices, which can be configured until then.
    return xla.why_not_loaded() is None and not tf.config.get_visible_devices("GPU")


def checked_units(units):
    """Returns the size of a state as an int, or refuses what is none."""
    if isinstance(units, bool) or not isinstance(units, numbers.Integral) or units <= 0:
        raise ValueError(f"units must be a positive integer, but is {units!r}")
    return int(units)


def draw(initializer, shape, dtype):
    """Returns initial values of a dtype, drawn in float32 for the 16-bit ones, which not every initializer can do."""
    wide = "float32" if dtype in ("float16", "bfloat16") else dtype
    return keras.ops.cast(initializer(shape, dtype=wide), dtype)


def run_network(inputs, input_h, input_c, params, lengths, time_major=False, **attributes):
    """Runs a network and returns its outputs but for those that only its gradient needs."""
    outputs = raw_ops.CudnnRNNV3(
        input=inputs,
        input_h=input_h,
        input_c=input_c,
        params=params,
        sequence_lengths=lengths,
        time_major=time_major,
        **attributes,
    )
    return outputs.output, outputs.output_h, outputs.output_c


def infer_network(*inputs, **attributes):
    """Runs a network without dropout and lets it keep nothing for a gradient, which then has to run it again."""

    @tf.custom_gradient
    def infer(*inputs):
        def gradient(*d_outputs):
            *differentiable, lengths = inputs
            with tf.GradientTape() as tape:
                tape.watch(differentiable)
                outputs = run_network(*differentiable, lengths, is_training=True, **attributes)
            return *tape.gradient(outputs, differentiable, output_gradients=d_outputs), None

        return run_network(*inputs, is_training=False, **attributes), gradient

    return infer(*inputs)
