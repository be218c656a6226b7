"""Wrong shapes of arguments, and checks of the messages about them."""

import re


def wrong_shapes(shape):
    """Yields wrong shapes similar to a valid one: other ranks, and each size minus 1, plus 1, 0 and doubled."""
    if shape:
        yield ()
        yield shape[:-1]
    yield (*shape, 1)
    yield (1, *shape)
    for axis, size in enumerate(shape):
        for wrong in (size - 1, size + 1, 0, 2 * size):
            yield (*shape[:axis], wrong, *shape[axis + 1 :])


def names_argument(message, argument):
    """Returns whether a message contains the name of an argument."""
    return re.search(rf"\b{argument}\b", message) is not None
