"""Conversions of Keras weights."""

import functools
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tf_rnn_ops.params._arrays import Library, library_of
from tf_rnn_ops.params._blocks import blocks, blocks_of_pseudo_layers, split_into_blocks
from tf_rnn_ops.params._checks import check_one_floating_dtype, check_supported, check_zero_biases
from tf_rnn_ops.params._layout import Layout, num_pseudo_layers


class _Weight(NamedTuple):
    """A weight of a Keras layer: its pseudo-layer, kind and shape."""

    pseudo_layer: str
    kind: str
    shape: tuple[int, ...]


def from_keras(layout: Layout, weights: Iterable[Any]) -> Any:
    """Converts the weights of Keras layers to a params buffer.

    The layers are `keras.layers.LSTM`, `GRU` with `reset_after=True`, or `SimpleRNN`, or `keras.layers.Bidirectional`
    of these. Pass the results of `get_weights()` of all layers of a stack, concatenated.

    cuDNN adds two biases. If a Keras layer has one bias, it becomes the input bias, and the recurrent bias is zeros. If
    the layer has no bias, both are zeros. The gates of a GRU are reordered, because Keras has the update gate first.
    The weights of a GRU without biases do not show whether it has `reset_after=True`. If it does not, the converted
    network computes something else.

    Args:
      layout: the layout of the buffer, with an input matrix in every layer and without a projection.
      weights: for each pseudo-layer (layer 0 forward, layer 0 backward, layer 1 forward, ...) the kernel,
        [fan_in, num_gates * num_units], the recurrent kernel, [num_units, num_gates * num_units], and, unless the
        layers have `use_bias=False`, the bias: [num_gates * num_units], or [2, num_gates * num_units] in a GRU. All
        have the same floating-point dtype.

    Returns:
      The params buffer, [layout.size]. It is a tensor, differentiable with respect to the weights, if any of them is a
      tensor or variable; otherwise a new NumPy array.

    Raises:
      TypeError: if `layout` is not a `Layout`, or `weights` is a layer.
      ValueError: if Keras does not support the layout, or the number, shape or dtype of the weights is wrong.
      tf.errors.InvalidArgumentError: if a tensor has the wrong shape, which is known only at run time.

    Source: the formulas of `keras.layers.LSTM`, `GRU` and `SimpleRNN`, and of `tf_rnn_ops.raw_ops.CudnnRNN`.

    Examples:
      >>> lstm = keras.layers.LSTM(4)
      >>> lstm.build([None, None, 3])  # [batch, time, features]
      >>> from_keras(layout("lstm", num_units=4, input_size=3), lstm.get_weights()).shape  # [layout.size]
      (144,)
    """
    check_supported(layout, "Keras layers")
    if hasattr(weights, "get_weights"):
        raise TypeError(f"weights must be arrays, but is a {type(weights).__name__}: pass layer.get_weights()")
    weights = list(weights)
    library = library_of(weights)
    of_block = _by_block(layout, _checked(library, layout, weights))
    absent = {block.name for block in blocks(layout)} - set(of_block)
    if absent:
        dtype = next(iter(of_block.values())).dtype
        of_block |= dict.fromkeys(
            absent, library.zeros(blocks(layout)[-1].shape, dtype)
        )  # all biases have the same shape
    return pack_keras_blocks(library, layout, of_block)


def to_keras(layout: Layout, params: Any, *, use_bias: bool = True) -> list[Any]:
    """Converts a params buffer to the weights of Keras layers that compute the same.

    Args:
      layout: the layout of the buffer, with an input matrix in every layer and without a projection.
      params: the buffer, [layout.size].
      use_bias: whether the layers have biases. If a layer has one bias, it is the sum of the two biases of cuDNN. If
        False, the biases in the buffer must be zeros.

    Returns:
      The weights, in the order of `from_keras`, for `set_weights`. They are tensors, differentiable with respect to
      `params`, if it is a tensor or variable; otherwise new NumPy arrays.

    Raises:
      TypeError: if `layout` is not a `Layout`.
      ValueError: if Keras does not support the layout, `params` has the wrong shape, or a bias is not zeros with
        `use_bias=False`.
      tf.errors.InvalidArgumentError: if `params` is a tensor, and a bias is not zeros or the shape, known only at run
        time, is wrong.

    Source: as for `from_keras`.

    Examples:
      >>> gru = layout("gru", num_units=4, input_size=3)
      >>> [weight.shape for weight in to_keras(gru, np.zeros(gru.size, "float32"))]
      [(3, 12), (4, 12), (2, 12)]
    """
    check_supported(layout, "Keras layers")
    library = library_of([params])
    of_block = split_into_blocks(library, layout, params)
    if not use_bias:
        check_zero_biases(library, of_block)
    of_block = {name: _columns(library, layout.rnn_mode, block) for name, block in of_block.items()}
    return [_weight(library, layout, each, of_block) for each in _expected(layout, use_bias)]


def pack_keras_blocks(library: Library, layout: Layout, of_block: Mapping[str, Any]) -> Any:
    """Packs matrices and biases in Keras's format into a params buffer.

    Args:
      library: the library of the arrays.
      layout: the layout of the buffer.
      of_block: for each block an array with the reversed shape, and the gates in Keras's order.
    """
    parts = [part for block in blocks(layout) for part in _rows(library, layout.rnn_mode, of_block[block.name])]
    return library.concat([library.flatten(part) for part in parts])


def _rows(library: Library, rnn_mode: str, weight: Any) -> list[Any]:
    """Converts a matrix or bias in Keras's format to the parts of its block, in the order of their rows."""
    rows = library.transpose(weight) if len(weight.shape) == 2 else weight
    if rnn_mode != "gru":
        return [rows]
    update, reset, new = library.split(rows, [rows.shape[0] // 3] * 3)
    return [reset, update, new]


def _columns(library: Library, rnn_mode: str, block: Any) -> Any:
    """Converts a block to a matrix or bias in Keras's format: the inverse of `_rows`."""
    if rnn_mode == "gru":
        reset, update, new = library.split(block, [block.shape[0] // 3] * 3)
        block = library.concat([update, reset, new])
    return library.transpose(block) if len(block.shape) == 2 else block


@functools.lru_cache
def _expected(layout: Layout, use_bias: bool) -> tuple[_Weight, ...]:
    """Returns the weights of the Keras layers of a layout."""
    weights = []
    for pseudo_layer, of_one in blocks_of_pseudo_layers(layout).items():
        for kind in ("kernel", "recurrent_kernel"):
            weights.append(_Weight(pseudo_layer, kind, of_one[kind].shape[::-1]))
        if use_bias:
            shape = of_one["input_bias"].shape
            weights.append(_Weight(pseudo_layer, "bias", (2, *shape) if layout.rnn_mode == "gru" else shape))
    return tuple(weights)


def _checked(library: Library, layout: Layout, weights: list[Any]) -> dict[_Weight, Any]:
    """Returns the weights of Keras layers as arrays, after checking them."""
    pseudo_layers = num_pseudo_layers(layout)
    if len(weights) not in (3 * pseudo_layers, 2 * pseudo_layers):
        raise ValueError(
            f"weights must have {3 * pseudo_layers} items, or {2 * pseudo_layers} without biases, for a layout with "
            f"{pseudo_layers} pseudo-layers, but has {len(weights)} items"
        )
    expected = _expected(layout, len(weights) == 3 * pseudo_layers)
    names = [f"weights[{number}] ({_described(layout, each)})" for number, each in enumerate(expected)]
    arrays = {
        name: library.checked(name, library.convert(weight), each.shape)
        for name, each, weight in zip(names, expected, weights, strict=True)
    }
    check_one_floating_dtype("weights", arrays)
    return dict(zip(expected, arrays.values(), strict=True))


def _described(layout: Layout, weight: _Weight) -> str:
    """Returns the name of a weight for error messages."""
    reset_after = ", of a GRU with reset_after=True" if (layout.rnn_mode, weight.kind) == ("gru", "bias") else ""
    return f"{weight.pseudo_layer}/{weight.kind}{reset_after}"


def _by_block(layout: Layout, weights: dict[_Weight, Any]) -> dict[str, Any]:
    """Returns the weights of Keras layers by the names of their blocks."""
    of_block = {}
    for each, array in weights.items():
        if each.kind != "bias":
            of_block[f"{each.pseudo_layer}/{each.kind}"] = array
        elif layout.rnn_mode == "gru":
            of_block[f"{each.pseudo_layer}/input_bias"] = array[0]
            of_block[f"{each.pseudo_layer}/recurrent_bias"] = array[1]
        else:
            of_block[f"{each.pseudo_layer}/input_bias"] = array
    return of_block


def _weight(library: Library, layout: Layout, weight: _Weight, of_block: dict[str, Any]) -> Any:
    """Returns the array of one weight, given the blocks in Keras's format."""
    if weight.kind != "bias":
        return of_block[f"{weight.pseudo_layer}/{weight.kind}"]
    biases = [of_block[f"{weight.pseudo_layer}/{kind}"] for kind in ("input_bias", "recurrent_bias")]
    return library.stack(biases) if layout.rnn_mode == "gru" else biases[0] + biases[1]
