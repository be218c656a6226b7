"""Runs the recurrent loops of graphs on the op `KerasRNN`, whoever wrote the graphs."""

import ctypes
import warnings

import tensorflow as tf

from tf_rnn_ops import _library

VARIABLE = "TF_RNN_OPS_ACCELERATE_GRAPHS"


def accelerate_graphs(enable: bool = True) -> None:
    """Runs the LSTM, GRU and SimpleRNN layers in graphs on the op `KerasRNN`, without changes to the graphs.

    Keras 2 and 3 write each such layer as a loop over the steps, as does `dynamic_rnn` of TensorFlow 1: into a
    SavedModel or frozen graph, or into the graph of a `tf.function`. With `unroll=True` and in `static_rnn`, the steps
    follow each other without a loop, and count as one. Before TensorFlow runs a graph or function for the first time,
    each loop that is recognized is replaced by the op, in memory. A loop is replaced only if every node of its step is
    understood: an LSTM, a GRU or a SimpleRNN, with masks, states, `go_backwards` and the activations of the op, in
    inference. Everything else stays as it is, and so do loops whose gradients are wanted. The results are those of the
    loop up to rounding.

    Call it before the graphs first run: TensorFlow keeps functions that have run, and each session keeps its graph. If
    TensorFlow sees a GPU, nothing is replaced.

    If the environment variable TF_RNN_OPS_ACCELERATE_GRAPHS is 1, the op library replaces loops as soon as it is
    loaded, also in programs in C, C++, Java, Go and Rust; see docs/guides/saved_models.md.

    Args:
      enable: whether to replace loops from now on. False does not undo what is replaced.

    Raises:
      TypeError: if `enable` is not a bool.

    Examples:
      >>> accelerate_graphs()
      >>> accelerate_graphs(False)
    """
    if not isinstance(enable, bool):
        raise TypeError(f"enable must be True or False, but is {enable!r}")
    if enable and tf.config.get_visible_devices("GPU"):
        warnings.warn(
            "accelerate_graphs has no effect, because TensorFlow sees a GPU: set CUDA_VISIBLE_DEVICES=-1 to run on the "
            "CPU.",
            RuntimeWarning,
            stacklevel=2,
        )
    name = "TfRnnOps_AccelerateGraphs" if enable else "TfRnnOps_RestoreGraphs"
    _library.call_c(_library.LIBRARY_PATH, name)


def loop_counts() -> tuple[int, int]:
    """Returns the numbers of recurrent loops that were replaced, and of those that stay as they are."""
    replaced, others = (
        _library.call_c(_library.LIBRARY_PATH, f"TfRnnOps_Num{name}Loops", ctypes.c_int64)
        for name in ("Accelerated", "Other")
    )
    return replaced, others
