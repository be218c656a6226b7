"""Stacks of recurrent layers in one op, with all weights in one vector."""

import numbers
import random

import keras
import tensorflow as tf

from tf_rnn_ops.layers._common import check_backend, checked_units, infer_network, run_network, supports_jit
from tf_rnn_ops.layers._initial_params import initial_params
from tf_rnn_ops.layers._sequence_lengths import checked_lengths, lengths_of_mask
from tf_rnn_ops.params import layout, pack, unpack
from tf_rnn_ops.params._arrays import library_of
from tf_rnn_ops.params._checks import checked_params


def _checked_dropout(dropout):
    """Returns a probability as a float, or refuses what is none."""
    if isinstance(dropout, bool) or not isinstance(dropout, numbers.Real) or not 0 <= dropout <= 1:
        raise ValueError(f"dropout must be a number from 0 to 1, but is {dropout!r}")
    return float(dropout)


def _checked_seed(seed):
    """Returns a seed as an int, or refuses what neither is one nor None."""
    if seed is None:
        return None
    if isinstance(seed, bool) or not isinstance(seed, numbers.Integral) or not -(2**63) <= seed < 2**63:
        raise ValueError(f"seed must be None or an integer of 64 bits, but is {seed!r}")
    return int(seed)


def _replica_number():
    """Returns which of a distribution strategy's replicas is running, on any machine; 0 where there is no strategy."""
    replica = tf.distribute.get_replica_context() if tf.distribute.has_strategy() else None
    return 0 if replica is None else int(tf.get_static_value(replica.replica_id_in_sync_group))


def _listed(shapes):
    """Returns shapes as text."""
    return " and ".join(map(str, shapes))


@keras.saving.register_keras_serializable(package="tf_rnn_ops")
class CudnnRNN(keras.layers.Layer):
    """A stack of recurrent layers, in one direction or both, computed by one op.

    The formulas are those of `tf_rnn_ops.raw_ops.CudnnRNN`. One layer in one direction computes what
    `keras.layers.LSTM`, `GRU` or `SimpleRNN` does with its default activations; in both directions what
    `keras.layers.Bidirectional` makes of it; several what a stack of these does, with `keras.layers.Dropout` between
    them. It starts out as they do as well, every matrix drawn for all gates together.

    The layer holds one weight, `params`, the buffer that `tf_rnn_ops.params` describes. Once the layer is built,
    `layer.layout` says what lies where in it, `layer.canonical_weights` is the matrices and biases by name, and
    `layer.assign_canonical_weights` writes some or all of them. Weights of Keras's layers, of PyTorch and of TensorFlow
    1's contrib are assigned as `layer.params.assign(tf_rnn_ops.params.from_keras(layer.layout, weights))`, or make a
    layer by `from_params`.

    States are [batch, num_layers * num_directions, units], in the order layer 0 forward, layer 0 backward, layer 1
    forward and so on. The layer keeps none from one call to the next: what `return_state` gives is handed on as
    `initial_state`.

    Where it does not train, the layer keeps no activations; a gradient that is wanted there nevertheless, such as a
    saliency map, makes it run once more.

    Args:
      units: size of the state of each layer and direction, a positive integer.
      rnn_mode: "lstm", "gru", whose reset gate acts after the matrix product, "rnn_tanh" or "rnn_relu".
      num_layers: number of layers, a positive integer.
      direction: "unidirectional" (num_directions is 1) or "bidirectional" (2), which takes the place of
        `keras.layers.Bidirectional`: that cannot wrap this layer.
      input_mode: "linear_input"; "skip_input" adds the input to every gate of layer 0 in place of its product with a
        matrix, and features must be units; "auto_select" is "skip_input" where these are equal and "linear_input"
        elsewhere.
      dropout: the probability that an element of the input of a layer other than the first is set to 0 in training.
        The others are divided by 1 - `dropout`.
      seed: an integer that fixes the random numbers of dropout: each graph that the layer is built into draws the same,
        and layers of equal arguments that run eagerly draw from one stream. With None, each layer and graph draws
        others than those before it, and the same ones again after `keras.utils.set_random_seed`. The replicas of a
        distribution strategy draw different ones, but for the workers of a `tf.distribute.ParameterServerStrategy`:
        with a seed they draw the same, with None others in each run.
      return_sequences: whether to return the outputs of all steps or only of each direction's last.
      return_state: whether to return the final states too.
      kernel_initializer: initializer for the input's weights, drawn as one [fan_in, num_gates * units] matrix for each
        layer and direction. One with an integer seed draws the same for all of those of one shape.
      recurrent_initializer: initializer for the state's weights, drawn as [units, num_gates * units], or
        [num_proj, num_gates * units], likewise.
      bias_initializer: initializer for the biases, drawn as [num_gates * units], likewise: those of the input and, in
        a GRU, those of the state, which are zeros in the other modes.
      unit_forget_bias: whether an LSTM's forget gates get input biases of 1 instead.
      num_proj: the size that an LSTM's hidden state h, and so the output of each layer and direction, is projected to,
        at most units; None, 0 or units for no projection. In the shapes of h and of outputs it takes the place of
        units, in that of c it does not.
      projection_initializer: initializer for the projections, drawn as [units, num_proj] for each layer and direction.
      time_major: whether time comes before batch in the inputs, a mask and the outputs, and
        num_layers * num_directions before batch in the states.
      **kwargs: what every Keras layer takes: name, trainable, dtype. A dtype or policy may compute in bfloat16,
        float16, float32 or float64.

    Call arguments:
      inputs: [batch, time, features], or [time, batch, features] if `time_major`.
      initial_state: a list of the states before the first step: that of h and, of an LSTM, that of c. Zeros by default.
      mask: boolean, [batch, time], or [time, batch] if `time_major`, and right-padded: of each sequence all that is
        True comes before all that is False. The masked steps' outputs are 0; the last step is the last unmasked one. By
        default the mask that the inputs carry, such as an embedding's, whether or not there is an `initial_state`; all
        steps if they carry none.
      training: whether to apply dropout.
      sequence_lengths: integers, [batch]: the number of steps of each sequence, from 0 to time. They have the effect of
        a mask, which must say the same if there is one as well; but layers above know of a mask only.

    Returns:
      The outputs, [batch, time, num_directions * units], or, unless `return_sequences`, those of each direction's last
      step, [batch, num_directions * units]. If `time_major`, the former are [time, batch, num_directions * units]. With
      `return_state`, a tuple of them and the states after the last step, of the shapes of `initial_state`.

    Raises:
      ValueError: if an argument is none of these, or inputs, states, a mask or lengths have other shapes.
      tf.errors.InvalidArgumentError: if a mask is not right-padded, a length is not from 0 to time or not what the mask
        says, or a shape that is known only when the layer is run is another.
      RuntimeError: if Keras runs on another backend than TensorFlow.

    Example:
      >>> layer = CudnnRNN(4, num_layers=2, direction="bidirectional")
      >>> layer(np.ones([2, 10, 3], "float32")).shape  # [batch, time, features] -> [batch, num_directions * units]
      TensorShape([2, 8])
    """

    def __init__(
        self,
        units,
        rnn_mode="lstm",
        num_layers=1,
        direction="unidirectional",
        input_mode="linear_input",
        dropout=0.0,
        seed=None,
        return_sequences=False,
        return_state=False,
        kernel_initializer="glorot_uniform",
        recurrent_initializer="orthogonal",
        bias_initializer="zeros",
        unit_forget_bias=True,
        num_proj=None,
        projection_initializer="glorot_uniform",
        time_major=False,
        **kwargs,
    ):
        check_backend(type(self).__name__)
        self._refuse_go_backwards(kwargs)
        # Refuses bad arguments now: the layout proper is made when the number of features is known.
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
        self._own_seed = random.randrange(1, 2**31)  # drawn from what Keras's own layers draw theirs from
        self._num_graphs = 0  # that draw dropout
        self.input_spec = keras.InputSpec(ndim=3)
        self.supports_jit = supports_jit()

    @classmethod
    def _refuse_go_backwards(cls, arguments):
        """Refuses the argument that keras.layers.Bidirectional gives to a copy of the layer that it wraps."""
        if "go_backwards" in arguments:
            raise ValueError(
                f"{cls.__name__} has no argument go_backwards, and keras.layers.Bidirectional cannot wrap it: "
                "direction='bidirectional' makes it run in both directions by itself"
            )

    @classmethod
    def from_params(cls, layout, params, **arguments):
        """Returns a built layer that has the weights of a params buffer.

        Args:
          layout: the layout of the buffer, a `tf_rnn_ops.params.Layout`.
          params: the buffer, [layout.size].
          **arguments: those of the layer that the layout does not say, such as return_sequences.

        Raises:
          ValueError: if the layer is a subclass for another mode, params has another shape, or an argument is none of
            the layer's.

        Example:
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
    def _arguments_of(cls, layout):
        """Returns the arguments of a layer with weights of a layout."""
        return {
            "units": layout.num_units,
            "rnn_mode": layout.rnn_mode,
            "num_layers": layout.num_layers,
            "direction": layout.direction,
            "input_mode": layout.input_mode,
            "num_proj": layout.num_proj,
        }

    @classmethod
    def from_config(cls, config):
        """Returns the layer that a config of `get_config` describes."""
        cls._refuse_go_backwards(config)  # Keras would say it with the whole config around it.
        return super().from_config(config)

    def build(self, input_shape):
        """Creates the weight for inputs of [..., features]."""
        features = input_shape[-1]
        if features is None:
            raise ValueError(
                f"{type(self).__name__} needs the last dimension of its input, but the shape is {input_shape}"
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

    def _initial_params(self, dtype):
        """Returns the params buffer to start with."""
        initializers = {
            "kernel": self.kernel_initializer,
            "recurrent_kernel": self.recurrent_initializer,
            "projection": self.projection_initializer,
            "input_bias": self.bias_initializer,
            # Keras's GRU has both biases, its other layers have one.
            "recurrent_bias": self.bias_initializer if self.rnn_mode == "gru" else keras.initializers.Zeros(),
        }
        return initial_params(self.layout, initializers, self.unit_forget_bias, dtype)

    @property
    def canonical_weights(self):
        """The matrices and biases that `params` holds: tensors by the names of `layout`, each of its shape.

        They are differentiable with respect to `params`.

        Raises:
          ValueError: if the layer is not built.
        """
        if not self.built:
            raise ValueError(f"{type(self).__name__} has no weights before it is built or called")
        return unpack(self.layout, self.params.value)

    def assign_canonical_weights(self, arrays):
        """Writes matrices and biases into `params`.

        Args:
          arrays: arrays or tensors by names of `layout`, each of its shape. What they do not name stays as it is.

        Raises:
          ValueError: if the layer is not built, or has no weight of a name, or one of another shape.

        Example:
          >>> layer = CudnnRNN(4, rnn_mode="rnn_tanh")
          >>> layer.build([None, None, 3])  # [batch, time, features]
          >>> layer.assign_canonical_weights({"layer_0/forward/input_bias": np.ones([4])})
          >>> float(tf.reduce_sum(layer.canonical_weights["layer_0/forward/input_bias"]))
          4.0
        """
        weights = self.canonical_weights
        weights |= {name: tf.cast(array, self.params.dtype) for name, array in arrays.items()}
        self.params.assign(pack(self.layout, weights))

    def call(self, inputs, initial_state=None, mask=None, training=False, sequence_lengths=None):
        """Computes all steps; see the class."""
        lengths = self._lengths(inputs, mask, sequence_lengths)
        inputs = self._convert(inputs)
        batch = keras.ops.shape(inputs)[self._batch_axis]
        states = self.get_initial_state(batch) if initial_state is None else self._checked_states(initial_state, inputs)
        input_h, input_c = states if self.rnn_mode == "lstm" else (*states, tf.zeros([], inputs.dtype))
        network = inputs, input_h, input_c, self._convert(self.params), lengths
        output, *final_states = self._train(*network) if training else infer_network(*network, **self._attributes())
        if not self.return_sequences:
            output = self._of_last_layer(final_states[0])
        return (output, *final_states[: len(self._state_sizes)]) if self.return_state else output

    def _convert(self, value):
        return keras.ops.cast(value, self.compute_dtype)

    @property
    def _batch_axis(self):
        """Which dimension of inputs, outputs and states the batch is."""
        return 1 if self.time_major else 0

    def _lengths(self, inputs, mask, sequence_lengths):
        """Returns the number of steps of each sequence, [batch], that the layer was called with."""
        if mask is None:
            # Keras looks this up where the inputs are the only tensors among the arguments, but not beside others.
            mask = getattr(inputs, "_keras_mask", None)
        if mask is None and sequence_lengths is None:
            shape = keras.ops.shape(inputs)
            return tf.fill([shape[self._batch_axis]], shape[1 - self._batch_axis])
        of_mask = None if mask is None else lengths_of_mask(mask, inputs, self.time_major)
        if sequence_lengths is None:
            return of_mask
        lengths = checked_lengths(sequence_lengths, inputs.shape[self._batch_axis])
        if of_mask is not None:
            tf.debugging.assert_equal(lengths, of_mask, message="sequence_lengths must be those that the mask says")
            # XLA leaves out assertions: the op then refuses the lengths.
            lengths = tf.where(tf.reduce_all(lengths == of_mask), lengths, -tf.ones_like(lengths))
        return lengths

    def _state_shapes(self, batch):
        """Returns the shapes of the states."""
        pseudo_layers = self.num_layers * self._num_directions
        first = (pseudo_layers, batch) if self.time_major else (batch, pseudo_layers)
        return [(*first, size) for size in self._state_sizes]

    def _checked_states(self, initial_state, inputs):
        """Returns the states that the layer was called with as a list of tensors, or refuses them."""
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
                f"initial_state must be a list of {len(wanted)} tensors of the shapes {_listed(wanted)}, but has "
                f"{_listed(state.shape for state in states)}"
            )
        return states

    def _of_last_layer(self, states):
        """Returns the states of the last layer with both directions side by side: [batch, num_directions * size]."""
        of_directions = states[-self._num_directions :] if self.time_major else states[:, -self._num_directions :]
        by_sequence = tf.transpose(of_directions, [1, 0, 2]) if self.time_major else of_directions
        return tf.reshape(by_sequence, [-1, self._num_directions * self._output_size])

    def _attributes(self):
        """Returns the attributes of the op but for those of training."""
        return {
            "rnn_mode": self.rnn_mode,
            "input_mode": self.input_mode,
            "direction": self.direction,
            "num_proj": self.num_proj,
            "time_major": self.time_major,
        }

    def _train(self, *inputs):
        """Runs the op with dropout."""
        seed, seed2 = self._seeds()
        dropout = {"dropout": self.dropout, "seed": seed, "seed2": seed2}
        return run_network(*inputs, is_training=True, **self._attributes(), **dropout)

    def _seeds(self):
        """Returns the two seeds of an op that draws dropout; two zeros let each of its kernels take its own."""
        strategy = tf.distribute.get_strategy()
        if self.seed is None and isinstance(strategy, tf.distribute.ParameterServerStrategy):
            return 0, 0  # All workers run one graph.
        first_of_replica = _replica_number() << 32
        if self.seed is not None:
            return self.seed, first_of_replica + 1
        if tf.executing_eagerly():
            # Always the same, so that TensorFlow finds the kernel that it has made before.
            return self._own_seed, first_of_replica
        self._num_graphs += 1
        return self._own_seed, first_of_replica + self._num_graphs

    def get_initial_state(self, batch_size):
        """Returns the list of states that are the default: zeros, [batch_size, num_layers * num_directions, units]."""
        return [keras.ops.zeros(shape, self.compute_dtype) for shape in self._state_shapes(batch_size)]

    def compute_output_shape(self, input_shape):
        """Returns the shapes of what the layer returns for inputs of [batch, time, features]."""
        batch = input_shape[self._batch_axis]
        width = self._num_directions * self._output_size
        output = (*input_shape[:2], width) if self.return_sequences else (batch, width)
        return (output, *self._state_shapes(batch)) if self.return_state else output

    def compute_mask(self, inputs, previous_mask):
        """Returns the mask of the outputs: that of the inputs, if they are sequences too. States have none."""
        mask = previous_mask if self.return_sequences else None
        return [mask, *[None] * len(self._state_sizes)] if self.return_state else mask

    def get_config(self):
        """Returns the arguments that make an equal layer."""
        return {
            **super().get_config(),
            "units": self.units,
            "rnn_mode": self.rnn_mode,
            "num_layers": self.num_layers,
            "direction": self.direction,
            "input_mode": self.input_mode,
            "dropout": self.dropout,
            "seed": self.seed,
            "return_sequences": self.return_sequences,
            "return_state": self.return_state,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "recurrent_initializer": keras.initializers.serialize(self.recurrent_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            "unit_forget_bias": self.unit_forget_bias,
            "num_proj": self.num_proj,
            "projection_initializer": keras.initializers.serialize(self.projection_initializer),
            "time_major": self.time_major,
        }


class _OfOneMode(CudnnRNN):
    """A `CudnnRNN` whose class says its rnn_mode, and which takes the other arguments."""

    _RNN_MODE = ""

    def __init__(self, units, **kwargs):
        super().__init__(units, rnn_mode=self._RNN_MODE, **kwargs)

    @classmethod
    def _arguments_of(cls, layout):
        arguments = super()._arguments_of(layout)
        rnn_mode = arguments.pop("rnn_mode")
        if rnn_mode != cls._RNN_MODE:
            raise ValueError(
                f"layout must have the rnn_mode {cls._RNN_MODE!r} for {cls.__name__}, but has {rnn_mode!r}"
            )
        return arguments

    def get_config(self):
        """Returns the arguments that make an equal layer."""
        config = super().get_config()
        del config["rnn_mode"]
        return config


@keras.saving.register_keras_serializable(package="tf_rnn_ops")
class CudnnLSTM(_OfOneMode):
    """A `CudnnRNN` whose rnn_mode is "lstm": `CudnnLSTM(4, num_layers=2)` for `CudnnRNN(4, "lstm", num_layers=2)`."""

    _RNN_MODE = "lstm"


@keras.saving.register_keras_serializable(package="tf_rnn_ops")
class CudnnGRU(_OfOneMode):
    """A `CudnnRNN` whose rnn_mode is "gru": `CudnnGRU(4, num_layers=2)` for `CudnnRNN(4, "gru", num_layers=2)`."""

    _RNN_MODE = "gru"


@keras.saving.register_keras_serializable(package="tf_rnn_ops")
class CudnnRNNTanh(_OfOneMode):
    """A `CudnnRNN` whose rnn_mode is "rnn_tanh": `CudnnRNNTanh(4)` for `CudnnRNN(4, "rnn_tanh")`."""

    _RNN_MODE = "rnn_tanh"


@keras.saving.register_keras_serializable(package="tf_rnn_ops")
class CudnnRNNRelu(_OfOneMode):
    """A `CudnnRNN` whose rnn_mode is "rnn_relu": `CudnnRNNRelu(4)` for `CudnnRNN(4, "rnn_relu")`."""

    _RNN_MODE = "rnn_relu"
