"""Networks of TensorFlow 1 cells, equivalent to the tf.contrib layers, and TensorFlow 1 checkpoints.

TensorFlow still has these cells and their variable names, except for the GRU cell of tf.contrib.
"""

import warnings

import tensorflow as tf
from tensorflow.python.keras.layers.legacy_rnn import rnn_cell_impl

v1 = tf.compat.v1


class CudnnCompatibleGRUCell(rnn_cell_impl.GRUCell):
    """The cell of that name in tf.contrib, which no longer exists, implemented from its documentation.

    r = sigmoid(...), u = sigmoid(...), c = tanh(W x + bW + r ∘ (R h + bR)), h = (1 - u) ∘ c + u ∘ h
    """

    def build(self, inputs_shape):
        fan_in, units = inputs_shape[1], self._num_units
        self.gates = [
            self.add_weight(name="gates/kernel", shape=[fan_in + units, 2 * units]),
            self.add_weight(name="gates/bias", shape=[2 * units]),
        ]
        self.input_projection, self.hidden_projection = (
            [
                self.add_weight(name=f"candidate/{name}/kernel", shape=[height, units]),
                self.add_weight(name=f"candidate/{name}/bias", shape=[units]),
            ]
            for name, height in (("input_projection", fan_in), ("hidden_projection", units))
        )
        self.built = True

    def call(self, inputs, state):
        def project(x, kernel, bias):
            return tf.matmul(x, kernel) + bias

        r, u = tf.split(tf.sigmoid(project(tf.concat([inputs, state], axis=1), *self.gates)), 2, axis=1)
        c = tf.tanh(project(inputs, *self.input_projection) + r * project(state, *self.hidden_projection))
        h = (1 - u) * c + u * state
        return h, h


def _cell(config):
    """Returns a TensorFlow 1 cell with the formulas and the name of the tf.contrib cell."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cells are deprecated
        if config.rnn_mode == "lstm":
            return rnn_cell_impl.LSTMCell(
                config.num_units, forget_bias=0.0, name="cudnn_compatible_lstm_cell", dtype=tf.float64
            )
        if config.rnn_mode == "gru":
            return CudnnCompatibleGRUCell(config.num_units, name="cudnn_compatible_gru_cell", dtype=tf.float64)
        activation = tf.tanh if config.rnn_mode == "rnn_tanh" else tf.nn.relu
        return rnn_cell_impl.BasicRNNCell(config.num_units, activation, dtype=tf.float64)


def _state(config, inputs, pseudo_layer):
    """Returns the initial state of a pseudo-layer in the form of a cell."""
    h, c = inputs["input_h"][pseudo_layer], inputs["input_c"]
    return rnn_cell_impl.LSTMStateTuple(c[pseudo_layer], h) if config.rnn_mode == "lstm" else h


def _run(config, inputs):
    """Adds a network of TensorFlow 1 cells to the graph; returns its output and its final states by cell."""
    options = {"sequence_length": config.lengths, "time_major": True}
    states = [_state(config, inputs, each) for each in range(config.num_pseudo_layers)]
    x = tf.constant(inputs["input"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if config.num_directions == 1:
            cells = rnn_cell_impl.MultiRNNCell([_cell(config) for _ in range(config.num_layers)])
            return v1.nn.dynamic_rnn(cells, x, initial_state=tuple(states), **options)
        final_states = []
        # As in stack_bidirectional_dynamic_rnn of tf.contrib.
        with v1.variable_scope("stack_bidirectional_rnn"):
            for layer in range(config.num_layers):
                with v1.variable_scope(f"cell_{layer}"):
                    pair = dict(zip(("initial_state_fw", "initial_state_bw"), states[2 * layer :], strict=False))
                    outputs, of_layer = v1.nn.bidirectional_dynamic_rnn(
                        _cell(config), _cell(config), x, **pair, **options
                    )
                x = tf.concat(outputs, axis=-1)
                final_states += of_layer
        return x, final_states


def _run_single_cells(config, inputs, scope):
    """Adds one cell per direction to the graph, in TensorFlow's default scope or another; returns as `_run`."""
    states = [_state(config, inputs, each) for each in range(config.num_pseudo_layers)]
    options = {"sequence_length": config.lengths, "time_major": True, "scope": scope}
    x = tf.constant(inputs["input"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if config.num_directions == 1:
            output, state = v1.nn.dynamic_rnn(_cell(config), x, initial_state=states[0], **options)
            return output, [state]
        outputs, final_states = v1.nn.bidirectional_dynamic_rnn(
            _cell(config), _cell(config), x, initial_state_fw=states[0], initial_state_bw=states[1], **options
        )
        return tf.concat(outputs, axis=-1), final_states


def outputs(config, inputs):
    """Adds a network to the graph; returns its outputs under the output names of the op."""
    return _named(config, *_run(config, inputs))


def outputs_of_single_cells(config, inputs, scope=None):
    """Adds a network of one layer without MultiRNNCell to the graph; returns as `outputs`."""
    return _named(config, *_run_single_cells(config, inputs, scope))


def _named(config, output, states):
    """Returns the outputs of a network under the output names of the op."""
    if config.rnn_mode == "lstm":
        return {
            "output": output,
            "output_h": tf.stack([state.h for state in states]),
            "output_c": tf.stack([state.c for state in states]),
        }
    return {"output": output, "output_h": tf.stack(states)}


def save(variables, path):
    """Writes arrays by name to a checkpoint in the format of TensorFlow 1."""
    with tf.Graph().as_default(), v1.Session() as session:
        made = [v1.get_variable(name, initializer=value) for name, value in variables.items()]
        session.run(v1.global_variables_initializer())
        return v1.train.Saver(made).save(session, str(path))
