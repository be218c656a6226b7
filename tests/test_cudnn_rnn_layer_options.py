"""Tests of options of the CudnnRNN layers that Keras layers lack: projections, lengths, time-major, named weights."""

import dataclasses
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from checks.cudnn_rnn import gradient_difference, names_of, reference_gradients
from inputs.cudnn_rnn import INPUTS, MODES, OUTPUTS, network_inputs, output_gradients
from references import cudnn_rnn as reference
from references.cudnn_rnn import Config

import tf_rnn_ops
from tf_rnn_ops.params import pack, unpack

CudnnRNN = tf_rnn_ops.layers.CudnnRNN
DIRECTIONS = ("unidirectional", "bidirectional")
BATCH, TIME, FEATURES, UNITS = 4, 7, 3, 5
LENGTHS = (7, 3, 0, 5)
MASK = np.arange(TIME) < np.array(LENGTHS)[:, np.newaxis]


def network(**options) -> Config:
    sizes = {"time": TIME, "batch": BATCH, "input_size": FEATURES, "num_units": UNITS}
    return Config(**{**sizes, "num_layers": 2, "time_major": False, **options})


def layer_of(config: Config, **arguments):
    """Returns a built layer for a network, in float64 by default."""
    of_network = ("rnn_mode", "num_layers", "direction", "num_proj", "time_major")
    layer = CudnnRNN(
        config.num_units, **{name: getattr(config, name) for name in of_network}, **{"dtype": "float64", **arguments}
    )
    layer.build([None, None, config.input_size])
    return layer


def with_params(layer, params):
    layer.set_weights([params])
    return layer


def random_layer(config: Config, **arguments):
    return with_params(layer_of(config, **arguments), network_inputs(config)["params"])


MODES_AND_PROJECTION = [*({"rnn_mode": mode} for mode in MODES), {"rnn_mode": "lstm", "num_proj": 2}]


@pytest.mark.parametrize(
    ("lengths", "training"), [(None, True), (LENGTHS, False)], ids=["whole-training", "lengths-inference"]
)
@pytest.mark.parametrize("time_major", [False, True], ids=["batch-major", "time-major"])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("options", MODES_AND_PROJECTION, ids=lambda options: "-".join(map(str, options.values())))
@pytest.mark.not_xla(
    "TensorFlow builds the gradient of a function when it calls it, even if it is not used",
    cases=".*-(batch|time)-major-lengths-inference",
)
def test_equals_the_reference(options, direction, time_major, lengths, training):
    config = network(**options, direction=direction, time_major=time_major, sequence_lengths=lengths)
    inputs, scales = network_inputs(config), output_gradients(config)
    expected = reference.forward(config, **inputs)
    layer = with_params(layer_of(config, return_sequences=True, return_state=True), inputs["params"])
    x, *states = (tf.constant(inputs[name]) for name in names_of(config, INPUTS[:3]))
    with tf.GradientTape() as tape:
        tape.watch([x, states])
        outputs = layer(x, initial_state=states, sequence_lengths=lengths, training=training)
        loss = tf.add_n(
            [
                tf.reduce_sum(output * scales[f"{name}_backprop"])
                for name, output in zip(names_of(config, OUTPUTS), outputs, strict=True)
            ]
        )
    for name, output in zip(names_of(config, OUTPUTS), outputs, strict=True):
        assert parity.difference(output, getattr(expected, name)) < 1e-12, name
    gradients = reference_gradients(config, expected, inputs, scales)
    actual = tape.gradient(loss, [x, *states, layer.params.value])
    for name, gradient in zip(names_of(config, INPUTS), actual, strict=True):
        assert gradient_difference(config, name, gradient, getattr(gradients, f"{name}_backprop")) < 1e-12, name


@pytest.mark.parametrize("time_major", [False, True], ids=["batch-major", "time-major"])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_without_sequences_each_direction_returns_its_last_step(direction, time_major):
    config = network(direction=direction, time_major=time_major, num_proj=2, sequence_lengths=LENGTHS)
    inputs = network_inputs(config)
    inputs |= {name: np.zeros_like(inputs[name]) for name in ("input_h", "input_c")}
    output = reference.major(config, reference.forward(config, **inputs).output)  # [time, batch, directions * output]
    last = [max(length - 1, 0) for length in LENGTHS]
    forward_part, backward_part = output[last, range(BATCH), :2], output[0, :, 2:]
    layer = with_params(layer_of(config), inputs["params"])
    actual = layer(inputs["input"], sequence_lengths=LENGTHS)
    assert parity.difference(actual, np.hstack([forward_part, backward_part])) < 1e-12


LENGTHS_LIKE = {
    "tuple": LENGTHS,
    "int64": np.array(LENGTHS),
    "uint8": tf.constant(LENGTHS, tf.uint8),
    "variable": tf.Variable(LENGTHS),
}


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize("like", LENGTHS_LIKE)
@pytest.mark.parametrize("mode", MODES)
def test_lengths_equal_a_mask(mode, like, in_graph):
    config = network(rnn_mode=mode)
    layer = random_layer(config, return_sequences=True, return_state=True)
    run = tf.function(layer) if in_graph else layer
    x = network_inputs(config)["input"]
    expected = layer(x, mask=MASK)
    for actual, wanted in zip(run(x, sequence_lengths=LENGTHS_LIKE[like]), expected, strict=True):
        np.testing.assert_array_equal(actual, wanted)


def test_lengths_are_an_input_of_a_model():
    config = network(rnn_mode="gru")
    layer = random_layer(config, dtype="float32", return_state=True)
    inputs = [keras.Input([None, FEATURES]), keras.Input([], dtype="int32")]
    outputs = layer(inputs[0], sequence_lengths=inputs[1])
    assert [output.shape for output in outputs] == [(None, UNITS), (None, 2, UNITS)]
    model = keras.Model(inputs, outputs)
    x, lengths = network_inputs(config, "float32")["input"], np.array(LENGTHS, np.int32)
    for actual, expected in zip(model.predict([x, lengths], verbose=0), layer(x, mask=MASK), strict=True):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("in_model", [False, True])
@pytest.mark.parametrize("is_carried", [False, True])
def test_a_mask_must_agree_with_lengths(is_carried, in_model):
    layer = random_layer(network())
    embedding = keras.layers.Embedding(9, FEATURES, mask_zero=is_carried, dtype="float64")
    numbers = np.where(MASK, np.random.default_rng(0).integers(1, 9, MASK.shape), 0)
    mask = {} if is_carried else {"mask": MASK}

    def run(lengths):
        if not in_model:
            return layer(embedding(numbers), sequence_lengths=lengths, **mask)
        inputs = [keras.Input([None], dtype="int32"), keras.Input([], dtype="int32")]
        model = keras.Model(inputs, layer(embedding(inputs[0]), sequence_lengths=inputs[1], **mask))
        return model([tf.constant(numbers), tf.constant(lengths)])

    output = run(LENGTHS)
    np.testing.assert_array_equal(output, layer(embedding.embeddings.value.numpy()[numbers], mask=MASK))
    with pytest.raises(tf.errors.InvalidArgumentError, match="sequence_lengths must agree with the mask"):
        run([*LENGTHS[:3], LENGTHS[3] + 1])


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        (np.ones([BATCH]), "sequence_lengths must be integers, but are of dtype float"),
        ([True] * BATCH, "sequence_lengths must be integers, but are of dtype bool"),
        (np.ones([BATCH + 1], int), r"sequence_lengths must have the shape \[batch\] = \(4,\), but has \(5,\)"),
        (np.ones([BATCH, 1], int), r"sequence_lengths must have the shape \[batch\] = \(4,\), but has \(4, 1\)"),
        (3, r"sequence_lengths must have the shape \[batch\] = \(4,\), but has \(\)"),
    ],
    ids=["float", "bool", "too many", "matrix", "scalar"],
)
def test_invalid_lengths_are_rejected(lengths, message):
    layer = random_layer(network())
    with pytest.raises(ValueError, match=message):
        layer(network_inputs(network())["input"], sequence_lengths=lengths)


@pytest.mark.parametrize("wrong", [-1, TIME + 1, 2**32 + 1])
@pytest.mark.parametrize("in_graph", [False, True])
def test_lengths_out_of_range_are_rejected(in_graph, wrong):
    layer = random_layer(network())
    run = tf.function(layer) if in_graph else layer
    lengths = tf.constant([*LENGTHS[:3], wrong], tf.int64)
    with pytest.raises(tf.errors.InvalidArgumentError, match="sequence_lengths"):
        run(network_inputs(network())["input"], sequence_lengths=lengths)


def test_lengths_of_wrong_batch_are_rejected_at_run_time():
    layer = random_layer(network())
    signature = [tf.TensorSpec([None, None, FEATURES], tf.float64), tf.TensorSpec([None], tf.int32)]
    run = tf.function(lambda x, lengths: layer(x, sequence_lengths=lengths), input_signature=signature)
    with pytest.raises(tf.errors.InvalidArgumentError, match="sequence_lengths"):
        run(network_inputs(network())["input"], LENGTHS[:3])


def test_a_mask_is_time_major_like_the_inputs():
    config = network(direction="bidirectional", time_major=True)
    layer = random_layer(config, return_sequences=True, return_state=True)
    x = network_inputs(config)["input"]
    for actual, expected in zip(layer(x, mask=MASK.T), layer(x, sequence_lengths=LENGTHS), strict=True):
        np.testing.assert_array_equal(actual, expected)
    with pytest.raises(ValueError, match=r"mask must have the shape \[time, batch\] = \(7, 4\), but has \(4, 7\)"):
        layer(x, mask=MASK)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"mask must be right-padded: .* SimpleRNN\b"):
        layer(x, mask=~MASK.T)


def test_the_mask_of_time_major_inputs_reaches_the_layer_and_the_layers_above():
    config = network(rnn_mode="gru", num_layers=1, time_major=True)
    lower = random_layer(config, return_sequences=True)
    upper = random_layer(dataclasses.replace(config, input_size=UNITS))
    embedding = keras.layers.Embedding(9, FEATURES, mask_zero=True, dtype="float64")
    numbers = np.where(MASK, np.random.default_rng(0).integers(1, 9, MASK.shape), 0).T
    embedding.build()
    x = embedding.embeddings.value.numpy()[numbers]
    expected = upper(lower(x, sequence_lengths=LENGTHS), sequence_lengths=LENGTHS)
    np.testing.assert_array_equal(upper(lower(embedding(numbers))), expected)


@pytest.mark.parametrize("return_state", [False, True])
@pytest.mark.parametrize("return_sequences", [False, True])
@pytest.mark.parametrize("time_major", [False, True], ids=["batch-major", "time-major"])
@pytest.mark.parametrize("num_proj", [None, 2])
def test_symbolic_output_shapes(num_proj, time_major, return_sequences, return_state):
    config = network(direction="bidirectional", time_major=time_major, num_proj=num_proj)
    layer = layer_of(config, return_sequences=return_sequences, return_state=return_state)
    shape = (TIME, BATCH, FEATURES) if time_major else (BATCH, TIME, FEATURES)
    results = keras.tree.map_structure(lambda output: tuple(output.shape), layer(np.zeros(shape)))
    assert layer.compute_output_shape(shape) == results
    symbolic = layer(keras.Input(batch_shape=shape, dtype="float64"))
    assert keras.tree.map_structure(lambda output: output.shape, symbolic) == results
    for state, size in zip(layer.get_initial_state(BATCH), (num_proj or UNITS, UNITS), strict=True):
        np.testing.assert_array_equal(state, np.zeros([4, BATCH, size] if time_major else [BATCH, 4, size]))


@pytest.mark.parametrize("num_proj", [0, None, UNITS])
def test_a_projection_to_num_units_is_no_projection(num_proj):
    layer = CudnnRNN(UNITS, num_proj=num_proj)
    layer.build([None, None, FEATURES])
    assert layer.layout == tf_rnn_ops.params.layout("lstm", UNITS, FEATURES)
    assert layer.compute_output_shape((BATCH, TIME, FEATURES)) == (BATCH, UNITS)


def test_incompatible_states_of_a_projection_are_rejected():
    config = network(num_proj=2)
    message = (
        "initial_state must be [h, c], h [batch, num_layers * num_directions, num_proj] = (4, 2, 2) and "
        "c [batch, num_layers * num_directions, units] = (4, 2, 5), but has the shape (4, 2, 5) and (4, 2, 5)"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        random_layer(config)(network_inputs(config)["input"], initial_state=[np.zeros([BATCH, 2, UNITS])] * 2)


@pytest.mark.parametrize("time_major", [False, True], ids=["batch-major", "time-major"])
def test_a_sequence_continues_from_returned_states(time_major):
    config = network(num_proj=2, time_major=time_major)
    layer = random_layer(config, return_sequences=True, return_state=True)
    x = network_inputs(config)["input"]
    first, second = (x[:3], x[3:]) if time_major else (x[:, :3], x[:, 3:])
    whole = layer(x)
    start, *states = layer(first)
    end, *final_states = layer(second, initial_state=states)
    for actual, expected in zip([tf.concat([start, end], 0 if time_major else 1), *final_states], whole, strict=True):
        assert parity.difference(actual, expected) < 1e-12


def test_initializers_get_the_shapes_of_the_matrices_of_a_projection():
    def constant(value, seen):
        def initializer(shape, dtype=None):
            seen.append(tuple(shape))
            return keras.ops.full(shape, value, dtype=dtype)

        return initializer

    kernels, recurrents, projections = [], [], []
    layer = layer_of(
        network(direction="bidirectional", num_proj=2),
        kernel_initializer=constant(1.0, kernels),
        recurrent_initializer=constant(2.0, recurrents),
        projection_initializer=constant(3.0, projections),
    )
    assert kernels == [(FEATURES, 4 * UNITS)] * 2 + [(2 * 2, 4 * UNITS)] * 2
    assert recurrents == [(2, 4 * UNITS)] * 4
    assert projections == [(UNITS, 2)] * 4
    values = {"kernel": 1, "recurrent_kernel": 2, "projection": 3}
    for name, array in unpack(layer.layout, layer.get_weights()[0]).items():
        if layer.layout[name].kind in values:
            np.testing.assert_array_equal(array, values[layer.layout[name].kind])


def test_initial_projections_are_like_dense_kernels_and_differ():
    layer = CudnnRNN(64, num_layers=2, num_proj=32)
    layer.build([None, None, 8])
    first, second = (layer.canonical_weights[f"layer_{number}/forward/projection"].numpy() for number in (0, 1))
    limit = np.sqrt(6 / (64 + 32))  # Glorot's
    for projection in (first, second):
        assert 0.9 * limit < np.abs(projection).max() <= limit
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("policy", ["float64", "float16", "mixed_bfloat16"])
def test_dtype_policies_with_a_projection(policy):
    config = network(num_proj=2, time_major=True)
    layer = layer_of(config, dtype=policy, return_state=True)
    results = layer(network_inputs(config)["input"], sequence_lengths=LENGTHS, training=True)
    assert {result.dtype.name for result in results} == {keras.DTypePolicy(policy).compute_dtype}


@pytest.mark.parametrize("options", MODES_AND_PROJECTION, ids=lambda options: "-".join(map(str, options.values())))
def test_canonical_weights_equal_params(options):
    layer = random_layer(network(**options, direction="bidirectional"))
    weights = layer.canonical_weights
    expected = unpack(layer.layout, layer.get_weights()[0])
    assert list(weights) == list(layer.layout)
    for name, weight in weights.items():
        assert tf.is_tensor(weight)
        np.testing.assert_array_equal(weight, expected[name])


def test_all_canonical_weights_are_assigned():
    layer, other = random_layer(network(num_proj=2)), layer_of(network(num_proj=2))
    other.assign_canonical_weights(layer.canonical_weights)
    np.testing.assert_array_equal(other.get_weights()[0], layer.get_weights()[0])


def test_assigning_some_canonical_weights_keeps_the_others():
    layer = random_layer(network(), dtype="mixed_bfloat16")
    expected = unpack(layer.layout, layer.get_weights()[0].copy())
    names = ["layer_0/forward/input_bias/f", "layer_1/forward/kernel/g"]
    for name in names:
        expected[name][...] = 0.1
    layer.assign_canonical_weights({name: np.full(layer.layout[name].shape, 0.1) for name in names})
    np.testing.assert_array_equal(layer.get_weights()[0], pack(layer.layout, expected))
    assert layer.params.dtype == "float32"


@pytest.mark.parametrize("in_graph", [False, True])
def test_canonical_weights_have_gradients(in_graph):
    layer = random_layer(network())

    def penalty_and_gradient():
        with tf.GradientTape() as tape:
            kernels = [each for name, each in layer.canonical_weights.items() if "recurrent_kernel" in name]
            penalty = tf.add_n([tf.nn.l2_loss(kernel) for kernel in kernels])
        return tape.gradient(penalty, layer.params.value)

    gradient = (tf.function(penalty_and_gradient) if in_graph else penalty_and_gradient)()
    for name, part in unpack(layer.layout, gradient.numpy()).items():
        is_penalized = layer.layout[name].kind == "recurrent_kernel"
        np.testing.assert_array_equal(part, layer.canonical_weights[name] if is_penalized else np.zeros_like(part))


def test_incompatible_canonical_weights_are_rejected():
    layer = random_layer(network())
    before = layer.get_weights()[0]
    with pytest.raises(ValueError, match=r"unknown name 'layer_2/forward/kernel/i'; .* list\(layer\.layout\)"):
        layer.assign_canonical_weights({"layer_2/forward/kernel/i": np.zeros([UNITS, UNITS])})
    with pytest.raises(ValueError, match=r"layer_0/forward/kernel/i must have the shape \[5, 3\], but has \[3, 5\]"):
        layer.assign_canonical_weights({"layer_0/forward/kernel/i": np.zeros([FEATURES, UNITS])})
    np.testing.assert_array_equal(layer.get_weights()[0], before)
    for use in (lambda layer: layer.canonical_weights, lambda layer: layer.assign_canonical_weights({})):
        with pytest.raises(ValueError, match="CudnnLSTM has no weights yet: build or call the layer first"):
            use(tf_rnn_ops.layers.CudnnLSTM(UNITS))
    for use in (lambda layer: layer.params, lambda layer: layer.layout):
        with pytest.raises(AttributeError, match="CudnnLSTM has no weights yet: build or call the layer first"):
            use(tf_rnn_ops.layers.CudnnLSTM(UNITS))
    with pytest.raises(AttributeError, match="'CudnnLSTM' object has no attribute 'weight'"):
        tf_rnn_ops.layers.CudnnLSTM(UNITS).weight  # noqa: B018


@pytest.mark.parametrize("options", MODES_AND_PROJECTION, ids=lambda options: "-".join(map(str, options.values())))
def test_from_params(options):
    layer = random_layer(network(**options, direction="bidirectional"), return_state=True)
    copy = CudnnRNN.from_params(layer.layout, layer.params.value, dtype="float64", return_state=True, name="copy")
    assert copy.layout == layer.layout
    assert {**copy.get_config(), "name": layer.name} == layer.get_config()
    np.testing.assert_array_equal(copy.get_weights()[0], layer.get_weights()[0])


def test_from_params_rejects_incompatible_params():
    each = tf_rnn_ops.params.layout("gru", 5, 5, input_mode="skip_input")
    layer = tf_rnn_ops.layers.CudnnGRU.from_params(each, np.arange(each.size))
    assert layer.layout == each
    np.testing.assert_array_equal(layer.get_weights()[0], np.arange(each.size, dtype="float32"))
    with pytest.raises(ValueError, match="the rnn_mode of layout must be 'lstm' for CudnnLSTM, but is 'gru'"):
        tf_rnn_ops.layers.CudnnLSTM.from_params(each, np.zeros(each.size))
    with pytest.raises(ValueError, match=rf"params must have the shape \[{each.size}\], but has \[{each.size - 1}\]"):
        CudnnRNN.from_params(each, np.zeros(each.size - 1))


@pytest.mark.parametrize(
    "make",
    [
        lambda: keras.layers.Bidirectional(tf_rnn_ops.layers.CudnnLSTM(UNITS)),
        lambda: tf_rnn_ops.layers.CudnnLSTM(UNITS, go_backwards=True),
    ],
    ids=["Bidirectional", "go_backwards"],
)
def test_the_error_with_bidirectional_names_the_alternative(make):
    message = (
        "^CudnnLSTM has no argument go_backwards, so keras.layers.Bidirectional cannot wrap it: "
        "pass direction='bidirectional' to the layer instead$"
    )
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ({"num_units": 4}, "CudnnLSTM has no argument num_units: use units"),
        ({"activation": "relu"}, "CudnnLSTM has no argument activation: use tf_rnn_ops.layers.LSTM, GRU or SimpleRNN"),
        ({"use_bias": False}, "CudnnLSTM has no argument use_bias: use tf_rnn_ops.layers.LSTM, GRU or SimpleRNN"),
    ],
    ids=["num_units", "activation", "use_bias"],
)
def test_the_error_for_an_argument_of_other_layers_names_the_alternative(arguments, hint):
    with pytest.raises(ValueError, match=f"^{hint}"):
        tf_rnn_ops.layers.CudnnLSTM(UNITS, **arguments)


def test_the_error_for_missing_units_names_no_private_class():
    with pytest.raises(TypeError, match=r"^__init__\(\) missing 1 required positional argument: 'units'$"):
        tf_rnn_ops.layers.CudnnLSTM()


@pytest.mark.parametrize("way", ["keras", "export"])
def test_a_model_with_a_projection_is_saved_and_loaded(way, tmp_path):
    inputs = keras.Input(batch_shape=(TIME, None, FEATURES))
    layer = tf_rnn_ops.layers.CudnnLSTM(UNITS, num_layers=2, num_proj=2, time_major=True, return_sequences=True)
    model = keras.Model(inputs, layer(inputs))
    x = network_inputs(network(time_major=True), "float32")["input"]
    if way == "keras":
        model.save(tmp_path / "model.keras")
        actual = keras.saving.load_model(tmp_path / "model.keras")(x)
    else:
        model.export(tmp_path / "model", verbose=False)
        loaded = tf.saved_model.load(tmp_path / "model")
        actual = loaded.serve(x)
    np.testing.assert_array_equal(actual, model(x))
