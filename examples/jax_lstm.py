"""Calls the KerasRNN op from JAX and compares the gradients with those of an LSTM built with jax.lax.scan.

Run it with `python examples/jax_lstm.py`. It requires JAX and does not import TensorFlow. The library has an XLA FFI
handler for each op, named TfRnnOps_ followed by the op name, with the inputs, attributes and outputs of the op. Other
programs that use XLA can call the handlers in the same way.
"""

import ctypes
import functools
import importlib.util
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

# The attributes of a Keras LSTM. Each attribute must have the type that the op defines: bool, int64, float32 or string.
LSTM = {
    "rnn_mode": "lstm",
    "activation": "tanh",
    "recurrent_activation": "sigmoid",
    "go_backwards": False,
    "return_sequences": True,
    "zero_output_for_mask": False,
}


@functools.cache
def library():
    """Loads the handlers and registers them with JAX for the CPU."""
    spec = importlib.util.find_spec("tf_rnn_ops")  # finds the package without importing it
    loaded = ctypes.CDLL(str(pathlib.Path(spec.origin).with_name("libtf_rnn_ops_ffi.so")))
    for op in ("TfRnnOps_KerasRNN", "TfRnnOps_KerasRNNBackprop"):
        handler = jax.ffi.pycapsule(getattr(loaded, op))
        jax.ffi.register_ffi_target(op, {"instantiate": handler, "execute": handler}, platform="cpu")
    loaded.TfRnnOps_KerasRNNReserveSpaceSize.argtypes = [ctypes.c_char_p] + [ctypes.c_int64] * 4
    loaded.TfRnnOps_KerasRNNReserveSpaceSize.restype = ctypes.c_int64
    return loaded


def run(sequences, initial_h, initial_c, kernel, recurrent_kernel, bias, is_training):
    """Calls the op and returns outputs, final_h, final_c and reserve_space."""
    (batch, steps, _), units = sequences.shape, initial_h.shape[-1]
    dtype = sequences.dtype
    size = library().TfRnnOps_KerasRNNReserveSpaceSize(b"lstm", batch, steps, units, dtype.itemsize)
    shapes = [(batch, steps, units), initial_h.shape, initial_c.shape, (size if is_training else 0,)]
    results = [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]
    call = jax.ffi.ffi_call("TfRnnOps_KerasRNN", results, vmap_method="sequential")
    no_mask = jnp.zeros([0], bool)
    arguments = (sequences, no_mask, initial_h, initial_c, kernel, recurrent_kernel, bias)
    return call(*arguments, **LSTM, is_training=is_training)


@jax.custom_vjp
def lstm(sequences, initial_h, initial_c, kernel, recurrent_kernel, bias):
    """Runs an LSTM with weights in the Keras layout. Supports first-order gradients.

    Args:
      sequences: [batch, time, features].
      initial_h: [batch, units].
      initial_c: [batch, units].
      kernel: [features, 4 * units], gates i, f, c, o.
      recurrent_kernel: [units, 4 * units].
      bias: [4 * units].

    Returns:
      The outputs, [batch, time, units], and the final h and c, [batch, units].
    """
    return run(sequences, initial_h, initial_c, kernel, recurrent_kernel, bias, is_training=False)[:3]


def lstm_forward(*arguments):
    """Returns the results and the residuals for the backward pass."""
    *results, reserve_space = run(*arguments, is_training=True)
    return tuple(results), (arguments, reserve_space)


def lstm_backward(residuals, gradients):
    """Returns the gradients with respect to all arguments of `lstm`."""
    (sequences, *others), reserve_space = residuals
    results = [jax.ShapeDtypeStruct(argument.shape, argument.dtype) for argument in (sequences, *others)]
    call = jax.ffi.ffi_call("TfRnnOps_KerasRNNBackprop", results, vmap_method="sequential")
    no_mask = jnp.zeros([0], bool)
    return tuple(call(sequences, no_mask, *others, *gradients, reserve_space, **LSTM))


lstm.defvjp(lstm_forward, lstm_backward)


def scanned_lstm(sequences, initial_h, initial_c, kernel, recurrent_kernel, bias):
    """The same as `lstm`, implemented with jax.lax.scan."""

    def step(state, x):
        h, c = state
        i, f, g, o = jnp.split(x @ kernel + h @ recurrent_kernel + bias, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    (h, c), outputs = jax.lax.scan(step, (initial_h, initial_c), jnp.swapaxes(sequences, 0, 1))
    return jnp.swapaxes(outputs, 0, 1), h, c


def make_arguments(batch=16, steps=50, features=8, units=32, dtype="float32"):
    """Returns random arguments of `lstm`."""
    shapes = [(batch, steps, features), (batch, units), (batch, units), (features, 4 * units), (units, 4 * units)]
    generator = np.random.default_rng(0)
    return [jnp.asarray(generator.normal(scale=0.3, size=shape), dtype) for shape in (*shapes, (4 * units,))]


def main():
    """Compares the gradients of a loss for both LSTMs."""
    arguments = make_arguments()

    def loss(function, *arguments):
        outputs, _, _ = function(*arguments)
        return jnp.sum(outputs**2)

    gradient = jax.jit(jax.grad(loss, argnums=range(1, 7)), static_argnums=0)
    pairs = zip(gradient(lstm, *arguments), gradient(scanned_lstm, *arguments), strict=True)
    difference = max(jnp.abs(actual - expected).max() / jnp.abs(expected).max() for actual, expected in pairs)
    print(f"Largest relative difference of the gradients: {difference:.1g}")


if __name__ == "__main__":
    main()
