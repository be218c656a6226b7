"""What the layers have in common."""

import numbers

import keras


def check_backend(layer):
    """Refuses to make a layer, given by its class's name, of a Keras that does not run on TensorFlow."""
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            f"{layer} needs Keras to run on TensorFlow, but it runs on {keras.backend.backend()}: "
            "set KERAS_BACKEND=tensorflow before Keras is imported."
        )


def checked_units(units):
    """Returns the size of a state as an int, or refuses what is none."""
    if isinstance(units, bool) or not isinstance(units, numbers.Integral) or units <= 0:
        raise ValueError(f"units must be a positive integer, but is {units!r}")
    return int(units)


def draw(initializer, shape, dtype):
    """Returns initial values of a dtype, drawn in float32 for the 16-bit ones, which not every initializer can do."""
    wide = "float32" if dtype in ("float16", "bfloat16") else dtype
    return keras.ops.cast(initializer(shape, dtype=wide), dtype)
