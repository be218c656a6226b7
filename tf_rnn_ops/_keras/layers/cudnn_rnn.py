"""Stacks of recurrent layers computed by one op, with all weights in one vector."""

import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_rnn_ops import _private_names, raw_ops
from tf_rnn_ops._keras import private_names
from tf_rnn_ops._keras.environment import check_backend, supports_jit
from tf_rnn_ops._keras.exports import POLICY
from tf_rnn_ops._keras.layers.common import (
    arguments_of,
    checked_units,
    draw,
    with_signature_of,
)
from tf_rnn_ops._keras.layers.sequence_lengths import check, checked_lengths, lengths_of_mask
from tf_rnn_ops._keras.types import Initializer
from tf_rnn_ops._library import ops
from tf_rnn_ops._types import Function, Shape, TensorLike
from tf_rnn_ops.params import Layout, layout, pack, unpack
from tf_rnn_ops.params._arrays import TENSORFLOW, library_of
from tf_rnn_ops.params._blocks import blocks
from tf_rnn_ops.params._checks import checked_params
from tf_rnn_ops.params._keras import pack_keras_blocks


def _run_network(*network: tf.Tensor, seed: tf.Tensor | None = None, **attributes: Any) -> tuple[tf.Tensor, ...]:
    """Runs a network and returns output, output_h and output_c.

    Args:
      *network: the inputs, input_h, input_c, params and sequence lengths.
      seed: the two seeds of dropout, [2]. Required for dropout.
      **attributes: the attributes of the op.
    """
    names = ("input", "input_h", "input_c", "params", "sequence_lengths")
    inputs = dict(zip(names, network, strict=True))
    attributes = {"time_major": False, **attributes}
    if seed is None:
        outputs = raw_ops.CudnnRNNV3(**inputs, **attributes)
    else:
        outputs = ops.tf_rnn_ops_stateless_cudnn_rnn(**inputs, seed=seed, **attributes)
    return outputs.output, outputs.output_h, outputs.output_c


def _infer_network(*inputs: tf.Tensor, **attributes: Any) -> tuple[tf.Tensor, ...]:
    """Runs a network in inference, keeping nothing for the gradient. A gradient runs it again."""

    @tf.custom_gradient
    def infer(*inputs: tf.Tensor) -> tuple[Any, Callable[..., Any]]:
        def gradient(*d_outputs: tf.Tensor) -> tuple[tf.Tensor | None, ...]:
            *differentiable, lengths = inputs
            with tf.GradientTape() as tape:
                tape.watch(differentiable)
                outputs = _run_network(*differentiable, lengths, is_training=True, **attributes)
            return *tape.gradient(outputs, differentiable, output_gradients=d_outputs), None

        outputs = _run_network(*inputs, is_training=False, **attributes)
        POLICY.mark(outputs[0], inputs[3])
        return outputs, gradient

    return infer(*inputs)


def _checked_dropout(dropout: Any) -> float:
    """Returns `dropout` as a float, or raises a ValueError."""
    if isinstance(dropout, bool) or not isinstance(dropout, numbers.Real) or not 0 <= dropout <= 1:  # type: ignore[operator]
        raise ValueError(f"dropout must be a number from 0 to 1, but is {dropout!r}")
    return float(dropout)


def _checked_seed(seed: Any) -> int | None:
    """Returns `seed` as an int or None, or raises a ValueError."""
    if seed is None:
        return None
    if isinstance(seed, bool) or not isinstance(seed, numbers.Integral) or not -(2**63) <= int(seed) < 2**63:
        raise ValueError(f"seed must be None or a 64-bit integer, but is {seed!r}")
    return int(seed)


def _replica_number() -> int:
    """Returns the number of the current replica of the distribution strategy, or 0 without a strategy."""
    replica = tf.distribute.get_replica_context() if tf.distribute.has_strategy() else None
    return 0 if replica is None else int(tf.get_static_value(replica.replica_id_in_sync_group))


class _SeedGenerator(keras.random.SeedGenerator, _private_names.AutoTrackable):
    """Keras's `SeedGenerator` with a state that `tf.train.Checkpoint` saves.

    The op reads its seeds on the host: with the state in the memory of a GPU, it would wait for the GPU.
    """

    def __init__(self, seed: int | None) -> None:
        with tf.device("CPU:0"):
            super().__init__(seed, name="seed_generator")


def _initial_params(layout: Layout, initializers: Mapping[str, Any], unit_forget_bias: bool, dtype: str) -> tf.Tensor:
    """Returns the initial params buffer.

    Args:
      layout: the layout of the buffer.
      initializers: an initializer for each kind of region. It draws each matrix for all gates together,
        [fan_in, num_gates * num_units], each bias, [num_gates * num_units], and each projection, [num_units, num_proj].
      unit_forget_bias: whether to set the input biases of an LSTM's forget gates to 1.
      dtype: the dtype of the buffer.
    """
    drawn = {}
    for block in blocks(layout):
        # A matrix in Keras's format is the transpose of the block.
        weight = draw(_fresh(initializers[block.kind]), block.shape[::-1], dtype)
        if block.kind == "input_bias" and layout.rnn_mode == "lstm" and unit_forget_bias:
            i, f, g, o = keras.ops.split(weight, 4)
            weight = keras.ops.concatenate([i, keras.ops.ones_like(f), g, o])
        drawn[block.name] = weight
    return pack_keras_blocks(TENSORFLOW, layout, drawn)


def _fresh(initializer: Any) -> Any:
    """Returns a copy that draws new numbers, unless the initializer has a seed.

    Keras gives an initializer without a seed a random one, so that it draws the same numbers at each call.
    """
    has_random_seed = isinstance(initializer, keras.initializers.Initializer) and (
        initializer.get_config().get("seed", 0) is None
    )
    return initializer.clone() if has_random_seed else initializer


_SEED_STATE = "seed_generator_state"  # in files of Keras
# Arguments of Keras's layers that a CudnnRNN does not have.
_ARGUMENTS_OF_KERAS = (
    "activation",
    "recurrent_activation",
    "use_bias",
    "recurrent_dropout",
    "stateful",
    "unroll",
    "reset_after",
)


@keras.saving.register_keras_serializable(package="tf_rnn_ops")
class CudnnRNN(keras.layers.Layer):
    """A stack of unidirectional or bidirectional recurrent layers, computed by one op.

    See `tf_rnn_ops.raw_ops.CudnnRNN` for the formulas. One layer in one direction computes the same as
    `keras.layers.LSTM`, `GRU` or `SimpleRNN` with default activations; in both directions, the same as
    `keras.layers.Bidirectional` of it. Several layers compute the same as a stack of these, with `keras.layers.Dropout`
    between them. The initial weights have the same distribution: each matrix is drawn for all gates together.

    The layer has one weight, `params`, the buffer described in `tf_rnn_ops.params`. Once the layer is built,
    `layer.layout` describes the buffer, `layer.canonical_weights` returns the matrices and biases by name, and
    `layer.assign_canonical_weights` writes some or all of them. To use weights from Keras, PyTorch, ONNX or TensorFlow
    1, create a layer with `from_params`, or call
    `layer.params.assign(tf_rnn_ops.params.from_keras(layer.layout, weights))`.

    States are [batch, num_layers * num_directions, units], in the order layer 0 forward, layer 0 backward, layer 1
    forward and so on. The layer is stateless: to continue a sequence, pass the states of `return_state` as
    `initial_state`.

    In inference, the layer keeps no activations. If a gradient is taken there, such as for a saliency map, the op runs
    again.

    Args:
      units: size of the state of each layer and direction, a positive integer.
      rnn_mode: "lstm", "gru" (reset gate after the matrix product), "rnn_tanh" or "rnn_relu".
      num_layers: number of layers, a positive integer.
      direction: "unidirectional" (num_directions is 1) or "bidirectional" (2). `keras.layers.Bidirectional` cannot wrap
        this layer.
      input_mode: "linear_input"; "skip_input", which adds the input itself to every gate of layer 0 (no input matrix)
        and requires features == units; or "auto_select", which is "skip_input" if these are equal and "linear_input"
        otherwise.
      dropout: fraction of the inputs of all layers but the first to drop in training. The remaining inputs are divided
        by 1 - `dropout`.
      seed: seed for dropout, as in `keras.layers.Dropout`: an integer, or None for a random one, which
        `keras.utils.set_random_seed` determines. If dropout applies, the layer has a `seed_generator`, a
        `keras.random.SeedGenerator`, from which each call in training draws new masks. Files of Keras and
        `tf.train.Checkpoint` contain its state: training continues with the masks that it would have drawn. Replicas of
        a distribution strategy draw different masks. Under a `tf.distribute.ParameterServerStrategy`, the masks differ
        in each run, also with a seed.
      return_sequences: whether to return the outputs of all steps or only the last output of each direction.
      return_state: whether to return the final states in addition to the output.
      kernel_initializer: initializer for the input weights, drawn as one [fan_in, num_gates * units] matrix for each
        layer and direction. With an integer seed, matrices of the same shape have the same values.
      recurrent_initializer: initializer for the recurrent weights, drawn as [units, num_gates * units], or
        [num_proj, num_gates * units], likewise.
      bias_initializer: initializer for the input biases and, in a GRU, the recurrent biases, drawn as
        [num_gates * units], likewise. The recurrent biases of the other modes are zeros.
      unit_forget_bias: whether to set the input biases of an LSTM's forget gates to 1.
      num_proj: the size that the hidden state h of an LSTM, which is also the output of each layer and direction, is
        projected to, at most `units`. None, 0 or `units` means no projection. It replaces `units` in the shapes of h
        and the outputs, but not in that of c.
      projection_initializer: initializer for the projections, drawn as [units, num_proj] for each layer and direction.
      time_major: whether time comes before batch in the inputs, mask and outputs, and num_layers * num_directions
        before batch in the states.
      **kwargs: arguments of `keras.layers.Layer`: `name`, `trainable`, `dtype`. The compute dtype may be bfloat16,
        float16, float32 or float64.

    Call arguments:
      - `inputs`: [batch, time, features], or [time, batch, features] if `time_major`.
      - `initial_state`: a list of the initial states: h and, for an LSTM, c. Zeros by default.
      - `mask`: boolean, [batch, time], or [time, batch] if `time_major`. It must be right-padded: in each sequence, all
        True values come before all False values. The outputs of masked steps are 0; the last step is the last unmasked
        one. By default, the mask of the inputs, such as that of an embedding, if they have one.
      - `training`: whether to apply dropout.
      - `sequence_lengths`: integers, [batch]: the number of steps of each sequence, from 0 to time. Equivalent to a
        mask; if you pass both, they must agree. Only a mask is passed on to the next layers.

    Call returns:
      The outputs, [batch, time, num_directions * units], or [time, batch, num_directions * units] if `time_major`.
      Without `return_sequences`, the last output of each direction, [batch, num_directions * units]. With
      `return_state`, a tuple of this and the final states, with the shapes of `initial_state`.

    Raises:
      ValueError: if an argument has an invalid value, or the shape of inputs, states, mask or lengths does not match.
      tf.errors.InvalidArgumentError: if a mask is not right-padded, a length is out of range or does not agree with the
        mask, or a shape that is known only at run time does not match.
      RuntimeError: if the backend of Keras is not TensorFlow.

    Examples:
      >>> layer = CudnnRNN(4, num_layers=2, direction="bidirectional")
      >>> layer(np.ones([2, 10, 3], "float32")).shape  # [batch, time, features] -> [batch, num_directions * units]
      TensorShape([2, 8])
    """

    def __init__(
        self,
        units: int,
        rnn_mode: str = "lstm",
        num_layers: int = 1,
        direction: str = "unidirectional",
        input_mode: str = "linear_input",
        dropout: float = 0.0,
        seed: int | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        kernel_initializer: Initializer = "glorot_uniform",
        recurrent_initializer: Initializer = "orthogonal",
        bias_initializer: Initializer = "zeros",
        unit_forget_bias: bool = True,
        num_proj: int | None = None,
        projection_initializer: Initializer = "glorot_uniform",
        time_major: bool = False,
        **kwargs: Any,
    ) -> None:
        check_backend(type(self).__name__)
        self._check_arguments(kwargs)
        # Raises an error for bad arguments now. `build` makes the actual layout, with the number of features.
        num_proj = 0 if num_proj is None else num_proj
        any_layout = layout(rnn_mode, checked_units(units), units, num_layers, direction, input_mode, num_proj)
        super().__init__(**kwargs)
        self.units = int(units)
        self.rnn_mode = rnn_mode
        self.num_layers = int(num_layers)
        self.direction = direction
        self.input_mode = input_mode
        self.dropout = _checked_dropout(dropout)
        self.seed = _checked_seed(seed)
        self.return_sequences = return_sequences
        self.return_state = return_state
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.recurrent_initializer = keras.initializers.get(recurrent_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.unit_forget_bias = unit_forget_bias
        self.num_proj = int(num_proj)
        self.projection_initializer = keras.initializers.get(projection_initializer)
        self.time_major = time_major
        self._num_directions = 2 if direction == "bidirectional" else 1
        self._output_size = any_layout.num_proj or self.units  # of one direction
        self._state_sizes = (self._output_size, self.units) if rnn_mode == "lstm" else (self._output_size,)
        # Nothing is random if all or no inputs are dropped.
        self._draws_masks = self.num_layers > 1 and 0 < self.dropout < 1
        if self._draws_masks:
            self.seed_generator = _SeedGenerator(self.seed)
        self.input_spec = keras.InputSpec(ndim=3)
        self.supports_jit = supports_jit()

    @classmethod
    def _check_arguments(cls, arguments: Mapping[str, Any]) -> None:
        """Raises a ValueError for an argument of other layers that has an alternative."""
        if "go_backwards" in arguments:
            raise ValueError(
                f"{cls.__name__} has no argument go_backwards, so keras.layers.Bidirectional cannot wrap it: "
                "pass direction='bidirectional' to the layer instead"
            )
        if "num_units" in arguments:
            raise ValueError(f"{cls.__name__} has no argument num_units: use units")
        for name in _ARGUMENTS_OF_KERAS:
            if name in arguments:
                raise ValueError(
                    f"{cls.__name__} has no argument {name}: use tf_rnn_ops.layers.LSTM, GRU or SimpleRNN, which have "
                    "the arguments of Keras"
                )

    @classmethod
    def from_params(cls, layout: Layout, params: TensorLike, **arguments: Any) -> "CudnnRNN":
        """Creates a built layer with the weights of a params buffer.

        Args:
          layout: the layout of the buffer, a `tf_rnn_ops.params.Layout`.
          params: the buffer, [layout.size].
          **arguments: arguments of the layer that the layout does not determine, such as `return_sequences`.

        Returns:
          The layer.

        Raises:
          TypeError: if `layout` is not a `Layout`.
          ValueError: if the class is for another rnn_mode, `params` has the wrong shape, or the layer does not have an
            argument.

        Examples:
          >>> weights = {"weight_ih_l0": np.ones([16, 3]), "weight_hh_l0": np.ones([16, 4])}  # of a torch.nn.LSTM
          >>> lstm = tf_rnn_ops.params.layout_from_pytorch(weights)
          >>> layer = CudnnRNN.from_params(lstm, tf_rnn_ops.params.from_pytorch(lstm, weights))
          >>> layer(np.ones([2, 10, 3], "float32")).shape  # [batch, time, features] -> [batch, units]
          TensorShape([2, 4])
        """
        params = checked_params(library_of([params]), layout, params)
        layer = cls(**cls._arguments_of(layout), **arguments)
        layer.build([None, None, layout.input_size])
        layer.params.assign(params)
        return layer

    @classmethod
    def _arguments_of(cls, layout: Layout) -> dict[str, Any]:
        """Returns the arguments of a layer whose params have a layout."""
        return {
            "units": layout.num_units,
            "rnn_mode": layout.rnn_mode,
            "num_layers": layout.num_layers,
            "direction": layout.direction,
            "input_mode": layout.input_mode,
            "num_proj": layout.num_proj,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "CudnnRNN":
        """Creates a layer from the config that `get_config` returns."""
        cls._check_arguments(config)  # Otherwise Keras adds the whole config to the error.
        return super().from_config(config)

    def build(self, input_shape: Shape) -> None:
        """Creates the weight, `params`.

        Args:
          input_shape: the shape of the inputs, [..., features].

        Raises:
          ValueError: if features is unknown.
        """
        features = input_shape[-1]
        if features is None:
            raise ValueError(
                f"the last dimension of the input of {type(self).__name__} must be known when the layer is built, but "
                f"the shape is {input_shape}"
            )
        self.layout = layout(
            self.rnn_mode, self.units, features, self.num_layers, self.direction, self.input_mode, self.num_proj
        )
        self.params = self.add_weight(
            name="params",
            shape=(self.layout.size,),
            initializer=lambda shape, dtype=None: self._initial_params(dtype),
        )
        self.input_spec = keras.InputSpec(ndim=3, axes={-1: features})

    def _initial_params(self, dtype: str) -> tf.Tensor:
        """Returns the initial params buffer."""
        initializers = {
            "kernel": self.kernel_initializer,
            "recurrent_kernel": self.recurrent_initializer,
            "projection": self.projection_initializer,
            "input_bias": self.bias_initializer,
            # In Keras, a GRU has both biases, the other layers have one.
            "recurrent_bias": self.bias_initializer if self.rnn_mode == "gru" else keras.initializers.Zeros(),
        }
        return _initial_params(self.layout, initializers, self.unit_forget_bias, dtype)

    def _unbuilt(self) -> str:
        return f"{type(self).__name__} has no weights yet: build or call the layer first"

    def __getattr__(self, name: str) -> Any:
        """Raises an error for an attribute that does not exist, such as one that `build` creates."""
        if name in ("layout", "params"):
            raise AttributeError(self._unbuilt())
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def canonical_weights(self) -> dict[str, tf.Tensor]:
        """The matrices and biases in `params`, by the names in `layout`.

        They are differentiable with respect to `params`.

        Raises:
          ValueError: if the layer is not built.
        """
        if not self.built:
            raise ValueError(self._unbuilt())
        return unpack(self.layout, self.params.value)

    def assign_canonical_weights(self, arrays: Mapping[str, TensorLike]) -> None:
        """Writes matrices and biases into `params`.

        Args:
          arrays: arrays or tensors by the names in `layout`. Weights without an entry do not change.

        Raises:
          ValueError: if the layer is not built, a name is unknown, or an array has the wrong shape.

        Examples:
          >>> layer = CudnnRNN(4, rnn_mode="rnn_tanh")
          >>> layer.build([None, None, 3])  # [batch, time, features]
          >>> layer.assign_canonical_weights({"layer_0/forward/input_bias": np.ones([4])})
          >>> float(tf.reduce_sum(layer.canonical_weights["layer_0/forward/input_bias"]))
          4.0
        """
        weights = self.canonical_weights
        for name in arrays:
            if name not in weights:
                raise ValueError(f"unknown name {name!r}; the names are those of list(layer.layout)")
        weights |= {name: tf.cast(array, self.params.dtype) for name, array in arrays.items()}
        self.params.assign(pack(self.layout, weights))

    def call(
        self,
        inputs: TensorLike,
        initial_state: Any = None,
        mask: TensorLike | None = None,
        training: bool = False,
        sequence_lengths: TensorLike | None = None,
    ) -> Any:
        """Computes all steps; see the class.

        Args:
          inputs: [batch, time, features], or [time, batch, features] if `time_major`.
          initial_state: a list of the initial states. Zeros by default.
          mask: boolean, [batch, time], or [time, batch] if `time_major`, right-padded.
          training: whether to apply dropout.
          sequence_lengths: integers, [batch]: the number of steps of each sequence.

        Returns:
          The outputs or, with `return_state`, a tuple of the outputs and the final states.
        """
        lengths = self._lengths(inputs, mask, sequence_lengths)
        inputs = self._convert(inputs)
        batch = keras.ops.shape(inputs)[self._batch_axis]
        states = self.get_initial_state(batch) if initial_state is None else self._checked_states(initial_state, inputs)
        input_h, input_c = states if self.rnn_mode == "lstm" else (*states, tf.zeros([], inputs.dtype))
        network = inputs, input_h, input_c, self._convert(self.params), lengths
        output, *final_states = self._train(*network) if training else _infer_network(*network, **self._attributes())
        if not self.return_sequences:
            output = self._of_last_layer(final_states[0])
        return (output, *final_states[: len(self._state_sizes)]) if self.return_state else output

    def _convert(self, value: Any) -> tf.Tensor:
        return keras.ops.cast(value, self.compute_dtype)

    @property
    def _batch_axis(self) -> int:
        """The batch dimension of inputs, outputs and states."""
        return 1 if self.time_major else 0

    def _lengths(self, inputs: tf.Tensor, mask: Any, sequence_lengths: Any) -> tf.Tensor:
        """Returns the number of steps of each sequence, [batch], from the arguments of `call`."""
        if mask is None:
            # Keras passes this mask only if no other argument of the call is a tensor.
            mask = getattr(inputs, private_names.KERAS_MASK, None)
        if mask is None and sequence_lengths is None:
            shape = keras.ops.shape(inputs)
            return tf.fill([shape[self._batch_axis]], shape[1 - self._batch_axis])
        of_mask = None if mask is None else lengths_of_mask(mask, inputs, self.time_major)
        if sequence_lengths is None:
            return of_mask
        lengths = checked_lengths(sequence_lengths, inputs.shape[self._batch_axis])
        if of_mask is not None:
            check(tf.reduce_all(lengths == of_mask), "sequence_lengths must agree with the mask")
            # XLA removes assertions. The op rejects lengths of -1.
            lengths = tf.where(tf.reduce_all(lengths == of_mask), lengths, -tf.ones_like(lengths))
        return lengths

    def _state_shapes(self, batch: Any) -> list[tuple[Any, ...]]:
        """Returns the shapes of the states."""
        pseudo_layers = self.num_layers * self._num_directions
        first = (pseudo_layers, batch) if self.time_major else (batch, pseudo_layers)
        return [(*first, size) for size in self._state_sizes]

    def _checked_states(self, initial_state: Any, inputs: tf.Tensor) -> list[tf.Tensor]:
        """Returns the argument `initial_state` as a list of tensors, or raises a ValueError."""
        states = initial_state if keras.tree.is_nested(initial_state) else [initial_state]
        wanted = self._state_shapes(inputs.shape[self._batch_axis])
        for number, state in enumerate(states):
            if state is None:
                raise ValueError(
                    f"initial_state must be None or a list of {len(wanted)} tensors, but item {number} is None"
                )
        states = [self._convert(state) for state in states]
        fits = len(states) == len(wanted) and all(
            state.shape.is_compatible_with(shape) for state, shape in zip(states, wanted, strict=True)
        )
        if not fits:
            raise ValueError(
                f"initial_state must be {self._describe_states(wanted)}, but has the shape "
                f"{' and '.join(str(state.shape) for state in states)}"
            )
        return states

    def _describe_states(self, wanted: Sequence[Shape]) -> str:
        """Returns the states, and the meaning of their shapes, as text."""
        first = "num_layers * num_directions, batch" if self.time_major else "batch, num_layers * num_directions"
        sizes = {"h": "num_proj" if self._output_size < self.units else "units", "c": "units"}
        shapes = {
            name: f"[{first}, {size}] = {shape}"
            for (name, size), shape in zip(sizes.items(), wanted, strict=False)  # only an LSTM has c
        }
        names = f"[{', '.join(shapes)}]"
        if len(set(shapes.values())) < len(shapes):
            return f"{names}, each {shapes['h']}"
        return f"{names}, {' and '.join(f'{name} {shape}' for name, shape in shapes.items())}"

    def _of_last_layer(self, states: tf.Tensor) -> tf.Tensor:
        """Returns the states of the last layer, with both directions concatenated: [batch, num_directions * size]."""
        of_directions = states[-self._num_directions :] if self.time_major else states[:, -self._num_directions :]
        by_sequence = tf.transpose(of_directions, [1, 0, 2]) if self.time_major else of_directions
        return tf.reshape(by_sequence, [-1, self._num_directions * self._output_size])

    def _attributes(self) -> dict[str, Any]:
        """Returns the attributes of the op, except those for training."""
        return {
            "rnn_mode": self.rnn_mode,
            "input_mode": self.input_mode,
            "direction": self.direction,
            "num_proj": self.num_proj,
            "time_major": self.time_major,
        }

    def _train(self, *inputs: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Runs the op with dropout."""
        return _run_network(
            *inputs, seed=self._next_seed(), is_training=True, dropout=self.dropout, **self._attributes()
        )

    def _next_seed(self) -> tf.Tensor:
        """Returns the two seeds for the dropout of a call, which differ between replicas."""
        if not self._draws_masks:
            return tf.zeros([2], tf.int64)
        if isinstance(tf.distribute.get_strategy(), tf.distribute.ParameterServerStrategy):
            # All workers run one graph, and would often read the same state. This op draws a seed in each process.
            return tf.raw_ops.RandomUniformInt(shape=[2], minval=np.int64(0), maxval=np.int64(2**62))
        with tf.device("CPU:0"):
            seed = tf.cast(self.seed_generator.next(), tf.int64)
            return seed + tf.constant([0, _replica_number() << 32], tf.int64)

    def save_own_variables(self, store: Any) -> None:
        """Saves the weight and the state of dropout in a file of Keras."""
        super().save_own_variables(store)
        if self._draws_masks:
            store[_SEED_STATE] = self.seed_generator.state.numpy()

    def load_own_variables(self, store: Any) -> None:
        """Loads the weight and, if the file has it, the state of dropout, which files of version 0.2 do not have."""
        stored = {name: store[name] for name in store.keys()}  # noqa: SIM118, a store of Keras has only `keys`
        state = stored.pop(_SEED_STATE, None)
        if self._draws_masks and state is not None:
            self.seed_generator.state.assign(state)
        super().load_own_variables(stored)

    def get_initial_state(self, batch_size: int) -> list[tf.Tensor]:
        """Returns the default initial states: zeros, [batch_size, num_layers * num_directions, units] each."""
        return [keras.ops.zeros(shape, self.compute_dtype) for shape in self._state_shapes(batch_size)]

    def compute_output_shape(self, input_shape: Shape) -> Any:
        """Returns the shape of the output or, with `return_state`, a tuple of the shapes of the output and states."""
        batch = input_shape[self._batch_axis]
        width = self._num_directions * self._output_size
        output = (*input_shape[:2], width) if self.return_sequences else (batch, width)
        return (output, *self._state_shapes(batch)) if self.return_state else output

    def compute_mask(self, inputs: tf.Tensor, previous_mask: Any) -> Any:
        """Returns the mask of the inputs if the layer returns sequences, otherwise None. States have no mask."""
        mask = previous_mask if self.return_sequences else None
        return [mask, *[None] * len(self._state_sizes)] if self.return_state else mask

    def get_config(self) -> dict[str, Any]:
        """Returns the config of the layer: its arguments, for `from_config`."""
        return {**super().get_config(), **arguments_of(self, CudnnRNN.__init__)}


def _sets_mode(declared: Function) -> Function:
    """Returns the constructor of `CudnnRNN` with the arguments that `declared` names and the rnn_mode of the class."""
    declared.__qualname__ = "__init__"  # in errors, which Python raises for all subclasses

    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        declared(self, *args, **kwargs)  # raises a TypeError for wrong arguments
        units, *others = args or [kwargs.pop("units")]
        super(_SingleModeRNN, self).__init__(units, self._RNN_MODE, *others, **kwargs)

    return with_signature_of(declared, construct)


class _SingleModeRNN(CudnnRNN):
    """A `CudnnRNN` whose rnn_mode is fixed by its class."""

    _RNN_MODE = ""

    @_sets_mode
    def __init__(
        self,
        units: int,
        num_layers: int = 1,
        direction: str = "unidirectional",
        input_mode: str = "linear_input",
        dropout: float = 0.0,
        seed: int | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        kernel_initializer: Initializer = "glorot_uniform",
        recurrent_initializer: Initializer = "orthogonal",
        bias_initializer: Initializer = "zeros",
        unit_forget_bias: bool = True,
        num_proj: int | None = None,
        projection_initializer: Initializer = "glorot_uniform",
        time_major: bool = False,
        **kwargs: Any,
    ) -> None: ...

    @classmethod
    def _arguments_of(cls, layout: Layout) -> dict[str, Any]:
        arguments = super()._arguments_of(layout)
        rnn_mode = arguments.pop("rnn_mode")
        if rnn_mode != cls._RNN_MODE:
            raise ValueError(
                f"the rnn_mode of layout must be {cls._RNN_MODE!r} for {cls.__name__}, but is {rnn_mode!r}"
            )
        return arguments

    def get_config(self) -> dict[str, Any]:
        """Returns the config of the layer: its arguments, for `from_config`."""
        config = super().get_config()
        del config["rnn_mode"]
        return config


@keras.saving.register_keras_serializable(package="tf_rnn_ops")
class CudnnLSTM(_SingleModeRNN):
    """A `CudnnRNN` with rnn_mode="lstm": `CudnnLSTM(4, num_layers=2)` is `CudnnRNN(4, "lstm", num_layers=2)`.

    See `CudnnRNN` for the other arguments.

    Examples:
      >>> layer = CudnnLSTM(4, num_layers=2)
      >>> layer(np.ones([2, 10, 3], "float32")).shape  # [batch, time, features] -> [batch, units]
      TensorShape([2, 4])
    """

    _RNN_MODE = "lstm"


@keras.saving.register_keras_serializable(package="tf_rnn_ops")
class CudnnGRU(_SingleModeRNN):
    """A `CudnnRNN` with rnn_mode="gru": `CudnnGRU(4, num_layers=2)` is `CudnnRNN(4, "gru", num_layers=2)`.

    See `CudnnRNN` for the other arguments.

    Examples:
      >>> layer = CudnnGRU(4, num_layers=2)
      >>> layer(np.ones([2, 10, 3], "float32")).shape  # [batch, time, features] -> [batch, units]
      TensorShape([2, 4])
    """

    _RNN_MODE = "gru"


@keras.saving.register_keras_serializable(package="tf_rnn_ops")
class CudnnRNNTanh(_SingleModeRNN):
    """A `CudnnRNN` with rnn_mode="rnn_tanh": `CudnnRNNTanh(4)` is `CudnnRNN(4, "rnn_tanh")`.

    See `CudnnRNN` for the other arguments.

    Examples:
      >>> layer = CudnnRNNTanh(4)
      >>> layer(np.ones([2, 10, 3], "float32")).shape  # [batch, time, features] -> [batch, units]
      TensorShape([2, 4])
    """

    _RNN_MODE = "rnn_tanh"


@keras.saving.register_keras_serializable(package="tf_rnn_ops")
class CudnnRNNRelu(_SingleModeRNN):
    """A `CudnnRNN` with rnn_mode="rnn_relu": `CudnnRNNRelu(4)` is `CudnnRNN(4, "rnn_relu")`.

    See `CudnnRNN` for the other arguments.

    Examples:
      >>> layer = CudnnRNNRelu(4)
      >>> layer(np.ones([2, 10, 3], "float32")).shape  # [batch, time, features] -> [batch, units]
      TensorShape([2, 4])
    """

    _RNN_MODE = "rnn_relu"
