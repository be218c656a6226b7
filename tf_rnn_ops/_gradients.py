"""Gradients of the ops. Importing this module registers them with TensorFlow."""

import contextlib
import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import tensorflow as tf

from tf_rnn_ops import _plain_lstm, _plain_network, _private_names
from tf_rnn_ops._alignment import aligned
from tf_rnn_ops._library import facts_of, ops

_Function = TypeVar("_Function", bound=Callable[..., Any])
# A gradient may be None: as an argument, it is zeros; as a result, there is none.
_Grad: TypeAlias = tf.Tensor | None


# The gradients of our ops, by their names without the namespace.
GRADIENTS: dict[str, Callable[..., Any]] = {}


def _gradient_of(*ops: str) -> Callable[[_Function], _Function]:
    """Registers the decorated function as the gradient of ops, unless they have one.

    If the package is imported again, they have one, because TensorFlow does not unregister gradients.
    """

    def register(function: _Function) -> _Function:
        for op in ops:
            GRADIENTS[op] = function
            with contextlib.suppress(KeyError):
                tf.RegisterGradient(f"TfRnnOps>{op}")(function)
        return function

    return register


@_gradient_of("AlignTensor")
def _align_tensor_grad(op: tf.Operation, grad: tf.Tensor) -> tf.Tensor:
    """The gradient of AlignTensor."""
    return aligned(grad)


def _local(tensors: Iterable[tf.Tensor]) -> list[tf.Tensor]:
    """Returns the tensors as tensors of the current graph, so that a tape records them.

    The gradient of a tf.while_loop is a separate graph, where a tape does not record tensors of the loop's body.
    """
    return [aligned(each) for each in tensors]


def _widened(tensor: _Grad, dtype: tf.DType) -> _Grad:
    """Casts an argument of a gradient. None stays None."""
    return tensor if tensor is None or tensor.dtype == dtype else tf.cast(aligned(tensor), dtype)


def _narrowed(tensor: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Casts a result of a gradient."""
    return tensor if tensor.dtype == dtype else aligned(tf.cast(tensor, dtype))


@_gradient_of("GRUBlockCell")
def _gru_block_cell_grad(op: tf.Operation, d_r: _Grad, d_u: _Grad, d_c: _Grad, d_h: _Grad) -> list[_Grad]:
    """The gradient of GRUBlockCell, ours or TensorFlow's own, with respect to x, h_prev, w_ru, w_c, b_ru and b_c.

    16-bit types are computed in float32, because sums of rounded numbers over the batch could cancel.

    Args:
      op: the forward op.
      d_r: gradient with respect to the reset gate, [batch, cell_size], or None for zeros.
      d_u: gradient with respect to the update gate, likewise.
      d_c: gradient with respect to the candidate, likewise.
      d_h: gradient with respect to the new state, likewise.
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
    # [x h_prev ∘ r]. A concat of these is miscompiled by XLA of TensorFlow 2.21 on CPUs with AVX-512, in float64 for 4
    # sequences and 5 units.
    x_hr = x_h * tf.concat([tf.ones_like(x), r], axis=1)
    d_weights = (
        tf.matmul(x_h, grads.d_r_bar_u_bar, transpose_a=True),
        tf.matmul(x_hr, grads.d_c_bar, transpose_a=True),
        tf.reduce_sum(grads.d_r_bar_u_bar, axis=0),
        tf.reduce_sum(grads.d_c_bar, axis=0),
    )
    d_inputs = [_narrowed(each, dtype) for each in (grads.d_x, grads.d_h_prev)]
    return [*d_inputs, *(aligned(tf.cast(each, dtype)) for each in d_weights)]


def _is_wanted(op: tf.Operation, index: int) -> bool:
    """Returns False if TensorFlow reports that the gradient with respect to an input is not needed."""
    return index not in (getattr(op, _private_names.SKIP_INPUT_INDICES, None) or ())


@_gradient_of("GRUBlockCellGrad", "GRUBlockCellGradV2")
def _gru_block_cell_grad_grad(op: tf.Operation, *v: _Grad) -> list[_Grad]:
    """The gradient of GRUBlockCellGrad, ours or TensorFlow's own, and of our V2.

    docs/design/second_order.md derives the formulas. They use only operations that TensorFlow differentiates. The
    results are partial derivatives. Those with respect to x, b_ru and b_c are None, because the op does not use the
    values of these. 16-bit types are computed in float32.

    Args:
      op: the gradient op.
      *v: gradients with respect to its outputs d_x, d_h_prev, d_c_bar and d_r_bar_u_bar, each with the shape of the
        output, or None for zeros.
    """
    dtype = op.outputs[0].dtype
    wide = tf.float32 if dtype.size == 2 else dtype
    x, h_prev, w_ru, w_c, _, _, r, u, c, *d_outputs = (tf.cast(aligned(each), wide) for each in op.inputs)
    _, _, d_c_bar, d_ru_bar = (tf.cast(each, wide) for each in op.outputs)
    v_x, v_h, v_c_bar, v_ru_bar = (tf.cast(aligned(each), wide) for each in _zeros_for_none(v, op.outputs))
    has_d_gates = len(d_outputs) > 1
    d_r, d_u, d_c, d_h = d_outputs if has_d_gates else (0, 0, 0, *d_outputs)

    # Recompute the intermediate values of the backward step.
    e_c, e_u = d_c + d_h * (1 - u), d_u + d_h * (h_prev - c)
    p = tf.matmul(d_c_bar, w_c[tf.shape(x)[1] :], transpose_b=True)
    e_r = d_r + p * h_prev
    # Differentiate its formulas from last to first; g_q is the gradient with respect to q.
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


def _zeros_for_none(grads: Iterable[_Grad], like: Iterable[tf.Tensor]) -> list[tf.Tensor]:
    """Returns gradients, with zeros in place of None.

    Args:
      grads: gradients, or None for zeros.
      like: tensors of their shapes.
    """
    return [tf.zeros_like(each) if grad is None else grad for grad, each in zip(grads, like, strict=True)]


def _zeros_for_skipped(
    op: tf.Operation, names: Iterable[str], grads: Iterable[_Grad], like: Iterable[tf.Tensor]
) -> list[tf.Tensor]:
    """Returns the gradients with respect to the outputs of an op, with zeros for None and for those that it skips.

    Args:
      op: an op with the attribute `skip`. A skipped output has no elements.
      names: the names of its outputs.
      grads: gradients with respect to these.
      like: tensors of the shapes of the outputs.
    """
    skipped = [tf.compat.as_str(name) for name in op.get_attr("skip")]
    present = (None if name in skipped else grad for name, grad in zip(names, grads, strict=True))
    return _zeros_for_none(present, like)


def _without_unwanted_input_grad(op: tf.Operation, grads: Any, index: int = 0) -> list[_Grad]:
    """Returns the results of a gradient op, with None for the first, that of the input `index`, if it is not needed.

    The first result is the gradient with respect to the sequences, which the first layer of a model does not need. A
    kernel of TensorFlow can see which results are unused. XLA computes all results of a call, unless an attribute lists
    the unwanted ones.
    """
    if _is_wanted(op, index):
        return list(grads)
    set_attr = None if tf.executing_eagerly() else getattr(grads[0].op, _private_names.SET_ATTR, None)
    if set_attr is not None:
        names = tf.compat.v1.AttrValue.ListValue(s=[grads._fields[0].encode()])
        set_attr("_unwanted_outputs", tf.compat.v1.AttrValue(list=names))
    return [None, *grads[1:]]


def _new_cell_second(op: tf.Operation) -> bool:
    """Returns whether the order of an LSTM op's gates is i, ci, f, o, instead of i, f, ci, o."""
    return op.get_attr("new_cell_second") if op.type.endswith("V3") else not op.type.endswith("V2")


def _lstm_grads(
    op: tf.Operation, inputs: Sequence[tf.Tensor], outputs: Sequence[tf.Tensor], d_outputs: Sequence[_Grad]
) -> Any:
    """Returns the gradients with respect to the inputs of an LSTM op, except seq_len_max.

    Args:
      op: the op.
      inputs: the inputs of BlockLSTM that computes the same.
      outputs: its outputs.
      d_outputs: gradients with respect to these, or None for zeros.
    """
    return ops.tf_rnn_ops_block_lstm_grad_v3(
        *inputs,
        *outputs,
        *_zeros_for_none(d_outputs, outputs),
        new_cell_second=_new_cell_second(op),
        use_peephole=op.get_attr("use_peephole"),
    )


@_gradient_of("BlockLSTM", "BlockLSTMV2")
def _block_lstm_grad(op: tf.Operation, *d_outputs: _Grad) -> list[_Grad]:
    """The gradient of BlockLSTM and BlockLSTMV2, ours or TensorFlow's own."""
    grads = _lstm_grads(op, op.inputs, op.outputs, d_outputs)
    return [None, *_without_unwanted_input_grad(op, grads, index=1)]


@_gradient_of("LSTMBlockCell")
def _lstm_block_cell_grad(op: tf.Operation, *d_outputs: _Grad) -> list[_Grad]:
    """The gradient of LSTMBlockCell, ours or TensorFlow's own: that of a sequence of one step."""

    def as_sequence(tensor: _Grad) -> _Grad:
        return None if tensor is None else aligned(tensor)[tf.newaxis]

    x, *others = op.inputs
    inputs = (tf.constant(1, tf.int64), as_sequence(x), *others)
    grads = _lstm_grads(op, inputs, [*map(as_sequence, op.outputs)], [*map(as_sequence, d_outputs)])
    d_x, *d_others = _without_unwanted_input_grad(op, grads)
    return [None if d_x is None else aligned(tf.squeeze(d_x, axis=0)), *d_others]


def _lstm_backprop_grad(
    op: tf.Operation, v: Sequence[_Grad], function: Callable[..., Any], inputs: Sequence[tf.Tensor]
) -> list[_Grad]:
    """The gradient of a gradient op of an LSTM, computed by differentiating a function in its place.

    The results are partial derivatives with respect to all inputs of the op: the outputs of the forward op are tensors
    like any other. 16-bit types are computed in float32.

    Args:
      op: the gradient op.
      v: gradients with respect to its outputs, or None for zeros.
      function: maps `inputs` to the results of the op, with operations that TensorFlow can differentiate.
      inputs: the floating inputs of the op.
    """

    def gradients(*tensors: tf.Tensor) -> list[tf.Tensor]:
        return _plain_network.differentiate(function, tensors[: len(inputs)], tensors[len(inputs) :])

    dtype = op.outputs[0].dtype
    tensors = _local((*inputs, *_zeros_for_none(v, op.outputs)))
    wide = [tf.cast(each, _plain_network.wide_dtype(dtype)) for each in tensors]
    return [aligned(tf.cast(each, dtype)) for each in _plain_network.differentiable(gradients)(*wide)]


@_gradient_of("BlockLSTMGrad", "BlockLSTMGradV2", "BlockLSTMGradV3")
def _block_lstm_backprop_grad(op: tf.Operation, *v: _Grad) -> list[_Grad]:
    """The gradient of BlockLSTMGrad, BlockLSTMGradV2, ours or TensorFlow's own, and BlockLSTMGradV3."""
    seq_len_max, *inputs = op.inputs
    function = functools.partial(
        _plain_lstm.sequence_grads, aligned(seq_len_max), _new_cell_second(op), op.get_attr("use_peephole")
    )
    return [None, *_lstm_backprop_grad(op, v, function, inputs)]


@_gradient_of("LSTMBlockCellGrad")
def _lstm_block_cell_backprop_grad(op: tf.Operation, *v: _Grad) -> list[_Grad]:
    """The gradient of LSTMBlockCellGrad, ours or TensorFlow's own."""
    function = functools.partial(_plain_lstm.step_grads, op.get_attr("use_peephole"))
    return _lstm_backprop_grad(op, v, function, op.inputs)


def _shared_attrs(op: tf.Operation, other: str) -> dict[str, Any]:
    """Returns the attributes of an op that another op of ours has, too."""
    own = facts_of(op.type).attributes
    values = {name: op.get_attr(name) for name in facts_of(other).attributes if name in own}
    return {name: tf.compat.as_str(each) if isinstance(each, bytes) else each for name, each in values.items()}


def _run(op: str, inputs: Mapping[str, Any], attrs: Mapping[str, Any]) -> Any:
    """Runs an op of ours with attributes and with those of the inputs that it has, by name."""
    own = {name: inputs[name] for name in facts_of(op).inputs}
    return getattr(ops, f"TfRnnOps_{op}")(**own, **attrs)


def _inputs_of(op: tf.Operation) -> dict[str, tf.Tensor]:
    """Returns the inputs of an op without lists by name."""
    return dict(zip(facts_of(op.type).inputs, op.inputs, strict=True))


def _outputs_of(op: tf.Operation) -> dict[str, tf.Tensor]:
    """Returns the outputs of an op without lists by name."""
    return dict(zip(facts_of(op.type).outputs, op.outputs, strict=True))


def _wanted_grads(op: tf.Operation, gradient_op: str) -> list[str]:
    """Returns the results of a gradient op that TensorFlow needs: x_grad is that of the input x of `op`."""
    inputs, results = facts_of(op.type).inputs, facts_of(gradient_op).outputs
    return [f"{x}_grad" for i, x in enumerate(inputs) if f"{x}_grad" in results and _is_wanted(op, i)]


def _by_input(op: tf.Operation, grads: Mapping[str, _Grad]) -> list[_Grad]:
    """Returns results of a gradient op in the order of the inputs of `op`, None for the others.

    The last input may be a list without gradients.
    """
    by_name = [grads.get(f"{x}_grad") for x in facts_of(op.type).inputs]
    return [*by_name, *[None] * len(op.inputs)][: len(op.inputs)]


def _on_device_of(tensor: tf.Tensor) -> contextlib.AbstractContextManager[Any]:
    """Returns a scope for ops on the device of a tensor, if it is known.

    A backward pass accepts the reserve_space of a forward pass on the same device only. A gradient is often computed
    outside of the scope that placed the forward pass, where TensorFlow prefers a GPU.
    """
    return tf.device(tensor.device) if tensor.device else contextlib.nullcontext()


@_gradient_of("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3", "StatelessCudnnRNN")
def _cudnn_rnn_grad(op: tf.Operation, *d_outputs: _Grad) -> list[_Grad]:
    """The gradient of a CudnnRNN op of any version. sequence_lengths and seed have none.

    StatelessCudnnRNN runs again with is_training=False, as `convert` writes it. The others are those of TensorFlow.

    Args:
      op: the forward op.
      *d_outputs: gradients with respect to its outputs, or None for zeros. All but the first three, those of output,
        output_h and output_c, are ignored.
    """
    name = op.type.removeprefix("TfRnnOps>")
    inputs, outputs, changes = _inputs_of(op), _outputs_of(op), {}
    if not op.get_attr("is_training"):
        if name != "StatelessCudnnRNN":
            raise ValueError(
                f"{name} has a gradient only with is_training=True, but was run with is_training=False: pass "
                "is_training=True."
            )
        changes = {"dropout": 0.0}
        again = _run(name, inputs, {**_shared_attrs(op, name), **changes, "is_training": True})
        outputs.update(reserve_space=again.reserve_space, host_reserved=again.host_reserved)
    version = "V3" if "sequence_lengths" in facts_of(name).inputs else name.removeprefix("CudnnRNN")
    backprop = f"CudnnRNNBackprop{version}"
    d_states = _zeros_for_none(d_outputs[:3], op.outputs[:3])
    gradients = dict(zip(_NETWORK_GRADIENTS, d_states, strict=True))
    arguments = {**inputs, **outputs, **gradients}
    with _on_device_of(arguments["reserve_space"]):
        grads = _run(backprop, arguments, {**_shared_attrs(op, backprop), **changes})
    of_network = _without_unwanted_input_grad(op, grads)
    return [*of_network, *[None] * (len(op.inputs) - len(of_network))]


_NETWORK_INPUTS = ("input", "input_h", "input_c", "params")
_NETWORK_GRADIENTS = ("output_backprop", "output_h_backprop", "output_c_backprop")
# The results of CudnnRNNBackpropGrad: gradients with respect to these inputs and gradients.
_BACKPROP_GRADS = facts_of("CudnnRNNBackpropGrad").outputs


class _BackwardPass(NamedTuple):
    """The arguments of a CudnnRNNBackprop op of any version, converted to those of V3."""

    network: Sequence[tf.Tensor]  # input, input_h, input_c and params
    sequence_lengths: tf.Tensor
    output: tf.Tensor
    d_outputs: Sequence[tf.Tensor]  # gradients with respect to output, output_h and output_c
    reserve_space: tf.Tensor
    attrs: dict[str, Any]

    def differentiate(self, v: Sequence[tf.Tensor], wanted: Collection[str] = _BACKPROP_GRADS) -> dict[str, tf.Tensor]:
        """Returns the `wanted` results of CudnnRNNBackpropGrad by name.

        Args:
          v: gradients with respect to the results of the backward pass.
          wanted: the names of the results.
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

    def run(self, d_outputs: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Returns the results of the backward pass for other gradients with respect to the outputs."""
        # The op reads only the shapes of the final states.
        with _on_device_of(self.reserve_space):
            grads = ops.tf_rnn_ops_cudnn_rnn_backprop_v3(
                *self.network,
                self.sequence_lengths,
                self.output,
                *map(tf.zeros_like, self.d_outputs[1:]),
                *d_outputs,
                self.reserve_space,
                tf.zeros([0], tf.int8),  # host_reserved: a GPU reads the header of reserve_space
                **self.attrs,
            )
        return list(grads)

    def differentiate_twice(
        self, v: Sequence[tf.Tensor], s: Sequence[tf.Tensor]
    ) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """Differentiates all results of CudnnRNNBackpropGrad, with operations that TensorFlow can differentiate again.

        Args:
          v: as in `differentiate`.
          s: gradients with respect to the results.

        Returns:
          The gradients with respect to the inputs of the network, and those with respect to `d_outputs`.
        """
        layout = _plain_network.make_layout(self.network, self.attrs)
        is_dropped = self.attrs["dropout"] > 0 and layout.num_layers > 1
        masks = self._dropout_masks(_plain_network.wide_dtype(self.output.dtype)) if is_dropped else None
        network = _plain_network.Network(layout, self.attrs["time_major"], aligned(self.sequence_lengths), masks)
        function = functools.partial(_plain_network.forward, network)
        return _plain_network.differentiate_twice(function, _local(self.network), _local(self.d_outputs), v, s)

    def _dropout_masks(self, dtype: tf.DType) -> tf.Tensor:
        """Returns the dropout masks of the inputs of all layers but the first."""
        return ops.tf_rnn_ops_cudnn_rnn_dropout_masks(
            *self.network, self.sequence_lengths, self.reserve_space, masks_type=dtype, **self.attrs
        )


def _backward_pass(op: tf.Operation) -> _BackwardPass:
    """Returns the arguments of CudnnRNNBackprop of any version or CudnnRNNBackpropGrad, which computes its gradient."""
    inputs, attrs = _inputs_of(op), _shared_attrs(op, "CudnnRNNBackpropGrad")
    attrs.pop("skip", None)
    return _BackwardPass(
        [inputs[name] for name in _NETWORK_INPUTS],
        inputs["sequence_lengths"] if "sequence_lengths" in inputs else _full_lengths(op),
        inputs["output"],
        [inputs[name] for name in _NETWORK_GRADIENTS],
        inputs["reserve_space"],
        attrs,
    )


# The masks depend only on the shapes of the arguments.
with contextlib.suppress(KeyError):  # as in _gradient_of
    tf.no_gradient("TfRnnOps>CudnnRNNDropoutMasks")


def _full_lengths(op: tf.Operation) -> tf.Tensor:
    """Returns the sequence lengths, all equal to time, for a CudnnRNN op without this argument."""
    time, batch, _ = tf.unstack(tf.shape(op.inputs[0]), 3)
    return tf.fill([batch], time)


@_gradient_of("CudnnRNNBackprop", "CudnnRNNBackpropV2", "CudnnRNNBackpropV3")
def _cudnn_rnn_backprop_grad(op: tf.Operation, *v: _Grad) -> list[_Grad]:
    """The gradient of a CudnnRNNBackprop op, ours or TensorFlow's own; docs/design/second_order.md derives it.

    The gradients with respect to the inputs of the network are total derivatives. Those with respect to its outputs and
    reserve_space are None.

    Args:
      op: the gradient op.
      *v: gradients with respect to its outputs, or None for zeros.
    """
    wanted = _wanted_grads(op, "CudnnRNNBackpropGrad")
    return _by_input(op, _backward_pass(op).differentiate(_zeros_for_none(v, op.outputs), wanted))


@_gradient_of("CudnnRNNBackpropGrad")
def _cudnn_rnn_backprop_grad_grad(op: tf.Operation, *s: _Grad) -> list[_Grad]:
    """The gradient of CudnnRNNBackpropGrad.

    Its results (H v, J v) are linear in v. So the gradient with respect to v is H s_z + Jᵀ s_d: another call of the op
    and a backward pass. The other gradients are computed by differentiating `_plain_network`.

    Args:
      op: the gradient op.
      *s: gradients with respect to its outputs, s_z and s_d, or None for zeros.
    """
    backward_pass, v = _backward_pass(op), op.inputs[10:]
    d_results = _zeros_for_skipped(op, _BACKPROP_GRADS, s, (*backward_pass.network, *backward_pass.d_outputs))

    grads: list[_Grad] = [None] * len(op.inputs)
    if any(_is_wanted(op, i) for i in range(10, 14)):
        again = backward_pass.differentiate(d_results[:4], _BACKPROP_GRADS[:4])
        grads[10:14] = [a + b for a, b in zip(again.values(), backward_pass.run(d_results[4:]), strict=True)]
    if any(_is_wanted(op, i) for i in (0, 1, 2, 3, 6, 7, 8)):
        grads[:4], grads[6:9] = backward_pass.differentiate_twice(v, d_results)
    return grads


def _of_family(op: tf.Operation, name: str) -> Callable[..., Any]:
    """Returns KerasRNN or one of its gradients, or that of MixedKerasRNN if `op` belongs to it."""
    return getattr(ops, f"tf_rnn_ops_mixed_{name}" if "Mixed" in op.type else f"tf_rnn_ops_{name}")


@_gradient_of("KerasRNN", "MixedKerasRNN")
def _keras_rnn_grad(op: tf.Operation, *d_outputs: _Grad) -> list[_Grad]:
    """The gradient of KerasRNN, with respect to all inputs but masks. With is_training=False, the op runs again."""
    attrs = _shared_attrs(op, "KerasRNNBackprop")
    layer, masks = op.inputs[:7], _masks_of_gates(op, 7)
    reserve_space = op.outputs[3]
    if not op.get_attr("is_training"):
        reserve_space = _of_family(op, "keras_rnn")(*layer, *masks, is_training=True, **attrs).reserve_space
    gradients = _zeros_for_none(d_outputs[:3], op.outputs[:3])
    grads = _of_family(op, "keras_rnn_backprop")(*layer, *gradients, reserve_space, *masks, **attrs)
    d_sequences, *others = _without_unwanted_input_grad(op, grads)
    return [d_sequences, None, *others, *[None] * (len(op.inputs) - 7)]


# The differentiable inputs of KerasRNN: all but mask, which comes second, and the masks of gates, which come last.
_KERAS_INPUTS = (0, *range(2, 7))
# The number of inputs of KerasRNNBackprop before the masks of gates.
_KERAS_BACKPROP_INPUTS = 11


def _masks_of_gates(op: tf.Operation, first: int) -> tuple[Sequence[tf.Tensor], Sequence[tf.Tensor]]:
    """Returns input_masks and state_masks of a KerasRNN op, of which the input `first` is the first."""
    of_input, of_state = op.get_attr("num_input_masks"), op.get_attr("num_state_masks")
    return op.inputs[first : first + of_input], op.inputs[first + of_input : first + of_input + of_state]


# The results of KerasRNNBackpropGrad: gradients with respect to these inputs and the incoming gradients.
_KERAS_BACKPROP_GRADS = facts_of("KerasRNNBackpropGrad").outputs


def _keras_backprop_grads(
    op: tf.Operation, v: Sequence[tf.Tensor], attrs: dict[str, Any], wanted: Collection[str]
) -> dict[str, tf.Tensor]:
    """Returns the `wanted` results of KerasRNNBackpropGrad by name.

    Args:
      op: KerasRNNBackprop, or an op with its inputs and others after these.
      v: gradients with respect to its outputs.
      attrs: its attributes.
      wanted: the names of the results.
    """
    skip = [name for name in _KERAS_BACKPROP_GRADS if name not in wanted]
    inputs, masks = op.inputs[:_KERAS_BACKPROP_INPUTS], _masks_of_gates(op, _KERAS_BACKPROP_INPUTS)
    results = _of_family(op, "keras_rnn_backprop_grad")(*inputs, *masks, *v, skip=skip, **attrs)
    return {name: getattr(results, name) for name in wanted}


@_gradient_of("KerasRNNBackprop", "MixedKerasRNNBackprop")
def _keras_rnn_backprop_grad(op: tf.Operation, *v: _Grad) -> list[_Grad]:
    """The gradient of KerasRNNBackprop.

    The gradients with respect to the inputs of the layer are total derivatives. That with respect to reserve_space is
    None.

    Args:
      op: the gradient op.
      *v: gradients with respect to its outputs, or None for zeros.
    """
    # The outputs have the shapes of the inputs. An output that nothing reads is not computed.
    directions = _zeros_for_none(v, [op.inputs[i] for i in _KERAS_INPUTS])
    wanted = _wanted_grads(op, "KerasRNNBackpropGrad")
    return _by_input(op, _keras_backprop_grads(op, directions, _shared_attrs(op, "KerasRNNBackprop"), wanted))


@_gradient_of("KerasRNNBackpropGrad", "MixedKerasRNNBackpropGrad")
def _keras_rnn_backprop_grad_grad(op: tf.Operation, *s: _Grad) -> list[_Grad]:
    """The gradient of KerasRNNBackpropGrad, computed as that of CudnnRNNBackpropGrad."""
    layer, d_outputs, reserve_space, v = op.inputs[:7], op.inputs[7:10], op.inputs[10], op.inputs[-6:]
    masks, first_v = _masks_of_gates(op, _KERAS_BACKPROP_INPUTS), len(op.inputs) - 6
    arguments = [layer[i] for i in _KERAS_INPUTS]
    attrs = _shared_attrs(op, "KerasRNNBackprop")
    d_results = _zeros_for_skipped(op, _KERAS_BACKPROP_GRADS, s, (*arguments, *d_outputs))

    grads: list[_Grad] = [None] * len(op.inputs)
    if any(_is_wanted(op, i) for i in range(first_v, len(op.inputs))):
        again = _keras_backprop_grads(op, d_results[:6], attrs, _KERAS_BACKPROP_GRADS[:6])
        backward = _of_family(op, "keras_rnn_backprop")(*layer, *d_results[6:], reserve_space, *masks, **attrs)
        grads[first_v:] = [a + b for a, b in zip(again.values(), backward, strict=True)]
    if any(_is_wanted(op, i) for i in (*_KERAS_INPUTS, 7, 8, 9)):
        function = functools.partial(_plain_network.keras_layer, attrs, aligned(layer[1]), *map(_local, masks))
        of_layer, of_d_outputs = _plain_network.differentiate_twice(
            function, _local(arguments), _local(d_outputs), v, d_results
        )
        grads[:10] = [of_layer[0], None, *of_layer[1:], *of_d_outputs]
    return grads


@_gradient_of("CudnnRNNCanonicalToParams", "CudnnRNNCanonicalToParamsV2")
def _canonical_to_params_grad(op: tf.Operation, d_params: _Grad) -> list[_Grad]:
    """The gradient of CudnnRNNCanonicalToParams of any version, ours or TensorFlow's own.

    Args:
      op: the forward op.
      d_params: gradient with respect to its output, [params_size], or None for zeros.
    """
    inverse = op.type.removeprefix("TfRnnOps>").replace("CanonicalToParams", "ParamsToCanonical")
    sizes, canonical = op.inputs[:3], op.inputs[3:]
    (d_params,) = _zeros_for_none([d_params], op.outputs)
    counts = {name: op.get_attr(name) for name in facts_of(inverse).attributes if name.startswith("num_params")}
    inputs = dict(zip(facts_of(inverse).inputs, (*sizes, d_params), strict=True))
    grads = _run(inverse, inputs, {**_shared_attrs(op, inverse), **counts})
    d_canonical = [*grads.weights, *grads.biases]
    # A weight may be flattened.
    reshaped = [tf.reshape(grad, tf.shape(each)) for grad, each in zip(d_canonical, canonical, strict=True)]
    return [None, None, None, *reshaped]


@_gradient_of("CudnnRNNParamsToCanonical", "CudnnRNNParamsToCanonicalV2")
def _params_to_canonical_grad(op: tf.Operation, *d_canonical: _Grad) -> list[_Grad]:
    """The gradient of CudnnRNNParamsToCanonical of any version, ours or TensorFlow's own.

    Args:
      op: the forward op.
      *d_canonical: gradients with respect to its weights and biases, or None for zeros.
    """
    inverse = op.type.removeprefix("TfRnnOps>").replace("ParamsToCanonical", "CanonicalToParams")
    num_weights = op.get_attr("num_params_weights" if inverse.endswith("V2") else "num_params")
    canonical = _zeros_for_none(d_canonical, op.outputs)
    values = (*op.inputs[:3], canonical[:num_weights], canonical[num_weights:])
    inputs = dict(zip(facts_of(inverse).inputs, values, strict=True))
    return [None, None, None, _run(inverse, inputs, _shared_attrs(op, inverse))]
