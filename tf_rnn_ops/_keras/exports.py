"""What exported models contain: the implementation of Keras, or the op, and how it packs its weights."""

import logging
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_rnn_ops import _constant_weights
from tf_rnn_ops._keras import tracing

# Keras's own operations; the op; and the op that packs its weights once, in a format.
CONTENTS = ("portable", "op", *_constant_weights.FORMATS)
_logger = logging.getLogger("tf_rnn_ops")


def check_choice(argument: str, value: Any, choices: Sequence[str]) -> None:
    """Raises a ValueError if an argument is not one of its choices."""
    if value not in choices:
        *others, last = (f'"{each}"' for each in choices)
        raise ValueError(f"{argument} must be {', '.join(others)} or {last}, but is {value!r}")


class ExportPolicy:
    """What exported models contain while accelerations run. Without any, they contain Keras's own operations.

    By default so, because other processes, ONNX and LiteRT have no kernel for the op. Of several accelerations, one
    that asks for the op counts more than one that does not, and the last format of weights counts most.
    """

    def __init__(self) -> None:
        self._wanted: dict[Any, str] = {}  # by acceleration, one of `CONTENTS`
        self._contents = "portable"
        self._has_logged = False  # that the format has no effect on a layer

    def add(self, acceleration: Any, contents: str) -> None:
        """Adds what an acceleration asks for, one of `CONTENTS`."""
        self._wanted[acceleration] = contents
        self._combine()

    def remove(self, acceleration: Any) -> None:
        """Removes what an acceleration asked for."""
        del self._wanted[acceleration]
        self._combine()

    def _combine(self) -> None:
        wanted = ["portable", *self._wanted.values()]
        formats = [each for each in wanted if each in _constant_weights.FORMATS]
        self._contents = formats[-1] if formats else "op" if "op" in wanted else "portable"
        self._has_logged = False

    def is_portable_export(self) -> bool:
        """Returns whether the function being traced is for an export or a conversion that must not contain the op."""
        purpose = tracing.purpose()
        return purpose == "portable" or (self._contents == "portable" and purpose in ("export", "conversion"))

    def mark(self, output: tf.Tensor, kernel: tf.Tensor) -> None:
        """Marks the op with an output, in inference, if it is being exported to pack its weights once.

        Logs if that is not possible, once until the accelerations change.

        Args:
          output: an output of the op.
          kernel: the tensor or variable from which the op takes its weights.
        """
        contents = self._contents
        if contents not in _constant_weights.FORMATS or tracing.purpose() not in ("export", "portable"):
            return
        if not _is_cast(kernel):
            _constant_weights.mark(output.op, contents)
        elif not self._has_logged:
            self._has_logged = True
            _logger.warning(
                "exports=%r has no effect on CudnnRNN layers with mixed precision, whose weights are cast in each "
                "call: export the model with the dtype policy float32, or use tf_rnn_ops.freeze.",
                contents,
            )


POLICY = ExportPolicy()


def _is_cast(tensor: Any) -> bool:
    """Returns whether a tensor is the result of a cast in a graph."""
    if not tf.is_symbolic_tensor(tensor):
        return False
    op = tensor.op
    while op.type == "Identity":
        op = op.inputs[0].op
    return bool(op.type == "Cast")
