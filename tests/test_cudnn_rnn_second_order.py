"""Tests of second-order and higher-order gradients of the CudnnRNN ops."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from checks.cudnn_rnn import gradient_difference, names_of, run_backprop, run_forward, tensors
from checks.second_order import (
    BACKPROP_GRADS,
    backprop_grad,
    dropout_masks,
    grad_arguments,
    penalty,
    penalty_gradients,
    third_order,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from inputs import cudnn_rnn as cudnn_rnn_inputs
from inputs.cudnn_rnn import DTYPES, INPUTS, MODES, OUTPUTS, VERSIONS
from inputs.gru_block_cell import float64
from inputs.second_order import output_backprops
from inputs.small_networks import DIRECTIONS, LENGTHS, NETWORKS, inputs_away_from_kinks, network
from references import cudnn_rnn as first_order
from references import tensorflow_networks
from references.second_order import ARGUMENTS, second_order

import tf_rnn_ops
from tf_rnn_ops import raw_ops
from tf_rnn_ops._library import ops

DROPPED = network(num_layers=3, direction="bidirectional", sequence_lengths=LENGTHS, dropout=0.5)
GRADS = tuple(f"{name}_grad" for name in ARGUMENTS)
COMPILED = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "tf.function"])
# For graphs that take long to build.
SLOWLY_COMPILED = pytest.mark.parametrize(
    "compiled", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["eager", "tf.function"]
)


def maybe_compiled(function, compiled):
    return tf.function(function) if compiled else function


def masks_of(config, inputs, outputs):
    """Returns the dropout masks of a run as arrays, or None."""
    return dropout_masks(config, inputs, outputs, tf.float64).numpy() if config.dropout else None


def arguments_of(config, dtype="float64", seed=0):
    """Returns the independent arguments of a backward pass, and gradients with respect to its results."""
    inputs, gradients = cudnn_rnn_inputs.inputs_and_gradients(config, dtype, seed)
    v = cudnn_rnn_inputs.cast(output_backprops(inputs, seed + 5)._asdict(), dtype)
    return inputs, gradients, list(v.values())


# ---------------------------------------------------------------- the op


@settings(max_examples=200)
@given(
    config=cudnn_rnn_inputs.configs(),
    dropout=st.sampled_from([0.0, 0.3]),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 2**20),
)
def test_equals_the_reference_with_any_options(config, dropout, dtype, seed):
    """Compared with float64 on the same rounded inputs."""
    config = dataclasses.replace(config, dropout=dropout)
    inputs, gradients, v = arguments_of(config, dtype, seed)
    outputs = run_forward(config, inputs, seed=7)
    actual = backprop_grad(config, inputs, outputs, gradients, v)
    masks = masks_of(config, inputs, outputs)
    wide = float64({**inputs, **gradients})
    run = first_order.forward(config, **{name: wide[name] for name in INPUTS}, masks=masks)
    assume(config.rnn_mode != "rnn_relu" or first_order.nearest_to_the_kink(run) >= 1e-2)
    expected = second_order(config, wide, first_order.Backward(*map(parity.to_float64, v)), masks)
    wanted = {f"{name}_grad": value for name, value in expected.items()}
    fields = [name for name in GRADS if config.rnn_mode == "lstm" or "_c" not in name]
    regions = {"params_grad": cudnn_rnn_inputs.regions(config, "params")}
    parity.check(f"CudnnRNNBackpropGrad {config.rnn_mode}", "float64", actual, wanted, fields, regions)
    for name in set(GRADS) - set(fields):
        assert not getattr(actual, name).numpy().any()


@pytest.mark.parametrize("time_major", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_dropout_masks_are_those_of_the_forward_pass(dtype, time_major):
    config = dataclasses.replace(DROPPED, dropout=0.3, time_major=time_major)
    inputs, _, _ = arguments_of(config, dtype)
    outputs = run_forward(config, inputs, seed=7)
    masks = masks_of(config, inputs, outputs)
    assert masks.shape == (2, config.time, config.batch, 2 * config.num_units)
    run = first_order.forward(config, **float64(inputs), masks=masks)
    parity.check("CudnnRNNDropoutMasks", "float64", outputs, run, OUTPUTS)


def test_zero_and_nan_directions():
    config = network(num_layers=2, direction="bidirectional")
    inputs, gradients, v = arguments_of(config)
    outputs = run_forward(config, inputs)
    for index in (0, 3):
        parts = [np.zeros_like(each) if i == index else each for i, each in enumerate(v)]
        expected = second_order(config, {**inputs, **gradients}, first_order.Backward(*parts))
        actual = backprop_grad(config, inputs, outputs, gradients, parts)
        for name, value in zip(ARGUMENTS, actual, strict=True):
            assert gradient_difference(config, name, value, expected[name]) < 1e-12, name
        parts[index].flat[-1] = np.nan
        result = backprop_grad(config, inputs, outputs, gradients, parts)
        assert np.isnan(result.input_h_grad).any()


def padded(config, name, array, value):
    """Returns a copy of an array in the shape of the argument `name`, with `value` in the padding."""
    if name not in ("input", "output_backprop"):
        return array
    is_padding = np.arange(config.time)[:, np.newaxis] >= config.lengths
    return np.where((is_padding if config.time_major else is_padding.T)[..., np.newaxis], value, array)


@pytest.mark.parametrize("time_major", [True, False])
@pytest.mark.not_xla("XLA has no gradients of its gradient of a loop")
def test_padding_has_no_effect(time_major):
    """In the second order, and in the third, in which the plain network would spread NaN."""
    config = network(num_layers=2, direction="bidirectional", sequence_lengths=LENGTHS, time_major=time_major)
    inputs, gradients, v = arguments_of(config)
    outputs = run_forward(config, inputs)
    arrays = {**inputs, **gradients}
    s = {name: np.random.default_rng(1).standard_normal(array.shape) for name, array in arrays.items()}

    def orders(value):
        padded_arrays, padded_s = (
            {name: padded(config, name, array, value) for name, array in each.items()} for each in (arrays, s)
        )
        directions = [padded(config, name, array, value) for name, array in zip(INPUTS, v, strict=True)]
        watched = {**tensors(padded_arrays), **dict(zip(BACKPROP_GRADS, map(tf.constant, directions), strict=True))}
        with tf.GradientTape() as tape:
            tape.watch(watched)
            results = ops.tf_rnn_ops_cudnn_rnn_backprop_grad(
                **{**grad_arguments(config, inputs, outputs, gradients, v), **watched}
            )
        third = tape.gradient(list(results), watched, output_gradients=[tf.constant(padded_s[name]) for name in arrays])
        return [*results, *third.values()]

    for actual, expected in zip(orders(np.nan), orders(0.0), strict=True):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("skipped", GRADS)
def test_skipped_results_are_empty_and_do_not_change_the_others(skipped):
    config = network(num_layers=2, direction="bidirectional", sequence_lengths=LENGTHS)
    inputs, gradients, v = arguments_of(config)
    outputs = run_forward(config, inputs)
    full = backprop_grad(config, inputs, outputs, gradients, v)
    for skip in [skipped], [name for name in GRADS if name != skipped]:
        for name, value in backprop_grad(config, inputs, outputs, gradients, v, skip=skip)._asdict().items():
            if name in skip:
                assert value.shape == (0,)
            else:
                np.testing.assert_array_equal(value, getattr(full, name))


@pytest.mark.not_xla("XLA crashes on empty tensors whose product of sizes overflows", crashes=True)
def test_dropout_masks_whose_size_overflows_are_rejected():
    """With batch size 0, so all arrays are empty."""
    input, state = (tf.zeros(tf.constant(shape, tf.int64)) for shape in ([2**62, 0, 3], [3, 0, 4]))
    inputs = {"input": input, "input_h": state, "input_c": state}
    network_of = {"rnn_mode": "gru", "input_mode": "linear_input", "direction": "unidirectional", "dropout": 0.5}
    params = tf.zeros(108 + 2 * 120)
    outputs = raw_ops.CudnnRNN(**inputs, params=params, **network_of)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"must be smaller: .* overflows int64"):
        ops.tf_rnn_ops_cudnn_rnn_dropout_masks(
            **inputs,
            params=params,
            sequence_lengths=tf.zeros(0, tf.int32),
            reserve_space=outputs.reserve_space,
            **network_of,
            num_proj=0,
        )


def test_empty_dropout_masks_return_immediately():
    """Even with a huge number of layers, over which a loop would take hours."""
    input, state = tf.zeros([3, 2, 0]), tf.zeros(tf.constant([2**40, 2, 0], tf.int64))
    inputs = {"input": input, "input_h": state, "input_c": state, "params": tf.zeros(0), "dropout": 0.5}
    outputs = raw_ops.CudnnRNN(**inputs)
    masks = ops.tf_rnn_ops_cudnn_rnn_dropout_masks(
        **inputs, sequence_lengths=[3, 3], reserve_space=outputs.reserve_space
    )
    assert masks.shape == (2**40 - 1, 3, 2, 0)


def test_a_reserve_space_of_tensorflows_gpu_kernel_is_rejected():
    config = network()
    inputs, gradients, v = arguments_of(config)
    outputs = run_forward(config, inputs)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"reserve_space.*TensorFlow's own GPU kernel"):
        backprop_grad(config, inputs, outputs, gradients, v, reserve_space=np.zeros_like(outputs.reserve_space))


GPU_AT = 2 * 76  # offset of the device in the header of a reserve_space


def of_gpu(reserve_space):
    """Returns a reserve_space as from a GPU: the same header except for the device, and other contents."""
    content = bytearray(reserve_space.numpy().tobytes()[:288])
    content[GPU_AT] = 1
    return np.frombuffer(bytes(content), reserve_space.dtype.as_numpy_dtype)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_forward_pass_of_a_gpu_is_recomputed(dtype, dropout):
    """With its dropout masks, which the random stream in the header determines."""
    config = dataclasses.replace(DROPPED, dropout=dropout)
    inputs, gradients, v = arguments_of(config, dtype)
    outputs = run_forward(config, inputs, seed=7)
    expected = backprop_grad(config, inputs, outputs, gradients, v)
    changes = {"reserve_space": of_gpu(outputs.reserve_space), "output": np.zeros_like(outputs.output)}
    actual = backprop_grad(config, inputs, outputs, gradients, v, **changes)
    for name in GRADS:
        np.testing.assert_array_equal(getattr(actual, name), getattr(expected, name), err_msg=name)


def test_dropout_masks_of_a_gpu_are_drawn_again():
    inputs, _, _ = arguments_of(DROPPED)
    outputs = run_forward(DROPPED, inputs, seed=7)
    of_a_gpu = outputs._replace(reserve_space=of_gpu(outputs.reserve_space))
    np.testing.assert_array_equal(masks_of(DROPPED, inputs, of_a_gpu), masks_of(DROPPED, inputs, outputs))


def test_the_reserve_space_of_another_network_is_rejected():
    config = network()
    inputs, gradients, v = arguments_of(config)
    other = network(num_units=6)
    reserve_space = run_forward(other, cudnn_rnn_inputs.network_inputs(other)).reserve_space
    outputs = run_forward(config, inputs)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"reserve_space.*num_units was 6, but is 5"):
        backprop_grad(config, inputs, outputs, gradients, v, reserve_space=reserve_space)
    for device in (lambda each: each, of_gpu):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"reserve_space.*num_units was 6, but is 5"):
            backprop_grad(config, inputs, outputs, gradients, v, reserve_space=device(reserve_space))


def test_shapes_are_known_in_a_graph():
    config = network(num_layers=2, direction="bidirectional")
    inputs, gradients, v = arguments_of(config)
    arguments = grad_arguments(config, inputs, run_forward(config, inputs), gradients, v)

    @tf.function
    def run():
        results = ops.tf_rnn_ops_cudnn_rnn_backprop_grad(**arguments, skip=["params_grad"])
        for name in ARGUMENTS:
            wanted = [0] if name == "params" else {**inputs, **gradients}[name].shape
            assert getattr(results, f"{name}_grad").shape == wanted, name
        return results

    run()


@COMPILED
def test_nothing_runs_if_all_results_are_skipped(compiled):
    """Arguments are not checked then."""
    config = network()
    inputs, gradients, v = arguments_of(config)
    arguments = grad_arguments(config, inputs, run_forward(config, inputs), gradients, v)
    arguments["reserve_space"] = np.zeros(3)
    results = maybe_compiled(lambda: ops.tf_rnn_ops_cudnn_rnn_backprop_grad(**arguments, skip=list(GRADS)), compiled)()
    assert all(each.shape == (0,) for each in results)


@pytest.mark.parametrize("name", ["output", "reserve_space"])
@pytest.mark.not_xla("an eager op is in a function, so its shape function raises the error before the kernel")
def test_wrong_shapes_are_rejected_if_all_results_are_empty(name):
    config = network(num_units=0, input_size=0)
    inputs, gradients, v = arguments_of(config)
    arguments = grad_arguments(config, inputs, run_forward(config, inputs), gradients, v)
    results = ops.tf_rnn_ops_cudnn_rnn_backprop_grad(**arguments)
    assert all(0 in each.shape for each in results)
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{name} must have"):
        ops.tf_rnn_ops_cudnn_rnn_backprop_grad(**{**arguments, name: np.zeros((2, 0, 0, 0))})


def test_shapes_of_dropout_masks_are_known_in_a_graph():
    inputs = tensors(arguments_of(DROPPED)[0])
    reserve_space = run_forward(DROPPED, inputs, seed=7).reserve_space

    @tf.function
    def run(**inputs):
        masks = ops.tf_rnn_ops_cudnn_rnn_dropout_masks(
            **inputs,
            sequence_lengths=DROPPED.lengths,
            reserve_space=reserve_space,
            **cudnn_rnn_inputs.attributes(DROPPED),
        )
        assert masks.shape == (2, DROPPED.time, DROPPED.batch, 2 * DROPPED.num_units)
        return masks

    assert run(**inputs).dtype == tf.float32


# ---------------------------------------------------------------- the registered gradients


def ours(config, version="V3", **attributes):
    return lambda inputs: run_forward(config, inputs, version, **attributes)


def plain(config, masks=None):
    return lambda inputs: tensorflow_networks.cudnn_rnn(config, **inputs, masks=masks)


def check(config, actual, expected, tolerance=1e-9):
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        assert gradient_difference(config, name, actual[name], value) < tolerance, name


@SLOWLY_COMPILED
@pytest.mark.parametrize("config", NETWORKS.values(), ids=NETWORKS.keys())
def test_equals_tensorflow_differentiating_a_plain_network_twice(config, compiled):
    inputs = tensors(cudnn_rnn_inputs.network_inputs(config))
    function = maybe_compiled(lambda inputs: penalty_gradients(ours(config), inputs), compiled)
    check(config, function(inputs), penalty_gradients(plain(config), inputs))


@pytest.mark.parametrize("of", range(3), ids=["input", "params", "input_h-input_c"])
@pytest.mark.parametrize("wanted", range(3), ids=["input", "params", "all"])
def test_gradients_of_some_inputs_with_respect_to_others(wanted, of):
    version = VERSIONS[(wanted + of) % 3]  # each meets each of the others
    wanted = [("input",), ("params",), INPUTS][wanted]
    of = [("input",), ("params",), ("input_h", "input_c")][of]
    config = network(num_layers=2, direction="bidirectional")
    inputs = tensors(cudnn_rnn_inputs.network_inputs(config))
    for compiled in (False, True):
        function = maybe_compiled(lambda i: penalty_gradients(ours(config, version), i, of, wanted), compiled)
        check(config, function(inputs), penalty_gradients(plain(config), inputs, of, wanted))


@pytest.mark.parametrize("mode", MODES)
def test_dropout_uses_the_mask_of_the_forward_pass(mode):
    config = dataclasses.replace(DROPPED, rnn_mode=mode)
    inputs = tensors(cudnn_rnn_inputs.network_inputs(config))
    actual, run = with_its_run(config, inputs, penalty_gradients)
    masks = masks_of(config, inputs, run)
    assert (masks == 0).any()
    check(config, actual, penalty_gradients(plain(config, masks), inputs))


@settings(max_examples=60)
@given(config=cudnn_rnn_inputs.configs(smallest=8, largest=20), seed=st.integers(0, 2**20))
def test_equals_central_differences_of_the_first_gradient(config, seed):
    """In a random direction of all arguments of the backward pass."""
    inputs = inputs_away_from_kinks(config, None, seed)
    arguments = {**inputs, **cudnn_rnn_inputs.output_gradients(config, seed=seed)}
    v = output_backprops(inputs, seed)
    rng, distance = np.random.default_rng(seed), 1e-6
    direction = {name: rng.standard_normal(value.shape) for name, value in arguments.items()}

    def product(arguments):
        inputs, gradients = ({name: arguments[name] for name in some} for some in (INPUTS, ARGUMENTS[4:]))
        results = run_backprop(config, inputs, run_forward(config, inputs), gradients)
        return tf.add_n([tf.reduce_sum(a * b) for a, b in zip(results, v, strict=True)])

    watched = tensors(arguments)
    with tf.GradientTape() as tape:
        tape.watch(watched)
        value = product(watched)
    slopes = tape.gradient(value, watched, unconnected_gradients="zero")
    actual = sum(np.sum(slopes[name] * direction[name]) for name in names_of(config, ARGUMENTS))
    moved = [
        product({name: value + sign * distance * direction[name] for name, value in arguments.items()}).numpy()
        for sign in (-1, 1)
    ]
    scale = 1 + sum(np.sum(np.abs(slopes[name] * direction[name])) for name in names_of(config, ARGUMENTS))
    assert abs(actual - (moved[1] - moved[0]) / (2 * distance)) < 1e-6 * scale


@pytest.mark.parametrize("mode", MODES)
def test_the_hessian_is_symmetric(mode):
    """<w, H v> = <v, H w>, at sizes too large for central differences."""
    config = network(
        rnn_mode=mode, direction=DIRECTIONS[1], num_layers=2, num_units=100, input_size=70, time=60, batch=20
    )
    inputs = tensors(cudnn_rnn_inputs.network_inputs(config))

    @tf.function
    def hessian_product(v):
        with tf.GradientTape() as outer:
            outer.watch(inputs)
            with tf.GradientTape() as inner:
                inner.watch(inputs)
                loss = tf.reduce_sum(tf.sin(run_forward(config, inputs).output))
            gradients = inner.gradient(loss, inputs, unconnected_gradients="zero")
            product = tf.add_n([tf.reduce_sum(gradients[name] * v[name]) for name in INPUTS])
        return outer.gradient(product, inputs, unconnected_gradients="zero")

    def product(a, b):
        return sum(np.sum(a[name] * b[name]) for name in INPUTS)

    v, w = (dict(zip(INPUTS, map(tf.constant, output_backprops(inputs, seed)), strict=True)) for seed in (5, 6))
    assert abs(product(w, hessian_product(v)) / product(v, hessian_product(w)) - 1) < 1e-9


# ---------------------------------------------------------------- APIs for gradients


# TensorFlow builds the third order eagerly.
@pytest.mark.parametrize(
    ("mode", "compiled"),
    [
        *(pytest.param(mode, False, marks=pytest.mark.slow if mode in ("rnn_relu", "gru") else ()) for mode in MODES),
        *((mode, True) for mode in MODES),
    ],
)
@pytest.mark.not_xla(
    "the forward accumulator differentiates functions more often than necessary",
    cases="(rnn_relu|rnn_tanh|lstm|gru)-False",
)
def test_forward_accumulator(mode, compiled):
    """J v, and H v with a tape inside the accumulator."""
    config = network(rnn_mode=mode, num_layers=2, direction="bidirectional", sequence_lengths=LENGTHS)
    inputs, _, v = arguments_of(config)
    inputs, tangents = tensors(inputs), dict(zip(INPUTS, map(tf.constant, v), strict=True))

    def products(run):
        primals, directions = ([each[name] for name in INPUTS] for each in (inputs, tangents))
        with tf.autodiff.ForwardAccumulator(primals, directions) as accumulator:
            with tf.GradientTape() as tape:
                tape.watch(primals)
                outputs = run(dict(zip(INPUTS, primals, strict=True)))
                loss = tf.add_n([tf.reduce_sum(tf.sin(each)) for each in outputs[:3]])
            gradients = tape.gradient(loss, primals, unconnected_gradients="zero")
        outputs = {name: accumulator.jvp(each) for name, each in zip(names_of(config, OUTPUTS), outputs, strict=False)}
        inputs_ = names_of(config, INPUTS)
        of_gradients = {name: g for name, g in zip(INPUTS, gradients, strict=True) if name in inputs_}
        return outputs, {name: accumulator.jvp(g) for name, g in of_gradients.items()}

    actual = maybe_compiled(lambda: products(ours(config)), compiled)()
    for some, expected in zip(actual, products(plain(config)), strict=True):
        check(config, some, expected)


@COMPILED
@pytest.mark.parametrize("pfor", [False, True])
def test_jacobians_of_a_gradient(pfor, compiled):
    """A Hessian, a Jacobian, and a Hessian for each batch entry."""
    config = network(time=3, batch=2, input_size=2, time_major=False)
    inputs = tensors(cudnn_rnn_inputs.network_inputs(config))

    def jacobians(run):
        x = inputs["input"]
        with tf.GradientTape(persistent=True) as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                value = tf.reduce_sum(tf.sin(run({**inputs, "input": x}).output), axis=(1, 2))
            gradient = inner.gradient(value, x)
        return {
            "hessian": outer.jacobian(gradient, x, experimental_use_pfor=pfor),
            "first": outer.jacobian(value, x, experimental_use_pfor=pfor),
            "of each entry": outer.batch_jacobian(gradient, x, experimental_use_pfor=pfor),
        }

    check(config, maybe_compiled(lambda: jacobians(ours(config)), compiled)(), jacobians(plain(config)))


def test_hessians_in_a_graph():
    config = network(time=2, batch=2, input_size=2, num_units=3)
    arrays = cudnn_rnn_inputs.network_inputs(config)

    def hessian(run):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            inputs = {name: tf.constant(value) for name, value in arrays.items()}
            loss = tf.reduce_sum(tf.sin(run(inputs).output))
            return dict(zip(INPUTS, session.run(tf.hessians(loss, [inputs[name] for name in INPUTS])), strict=True))

    check(config, hessian(ours(config)), hessian(plain(config)))


def test_persistent_tapes_repeat_gradients():
    config = dataclasses.replace(DROPPED, sequence_lengths=None)
    inputs = tensors(cudnn_rnn_inputs.network_inputs(config))
    with tf.GradientTape(persistent=True) as outer:
        outer.watch(inputs)
        with tf.GradientTape(persistent=True) as inner:
            inner.watch(inputs)
            loss = tf.reduce_sum(tf.sin(run_forward(config, inputs).output))
        values = [tf.reduce_sum(inner.gradient(loss, inputs["input"]) ** 2) for _ in range(2)]
    first, *others = (outer.gradient(value, inputs) for value in (*values, *values))
    for other in others:
        for name in INPUTS:
            np.testing.assert_array_equal(other[name], first[name])


def test_recompute_grad():
    """For a penalty. TensorFlow's recompute_grad itself does not support second-order gradients."""
    config = network(num_layers=2)
    inputs = tensors(cudnn_rnn_inputs.network_inputs(config))

    def value(*arrays):
        return penalty(ours(config), dict(zip(INPUTS, arrays, strict=True)), ("input",))

    with tf.GradientTape() as tape:
        tape.watch(inputs)
        recomputed = tf.recompute_grad(value)(*(inputs[name] for name in INPUTS))
    check(config, tape.gradient(recomputed, inputs), penalty_gradients(plain(config), inputs, ("input",)))


@pytest.mark.parametrize("version", VERSIONS)
def test_in_a_graph_of_unknown_shapes(version):
    config = network(num_layers=2, direction="bidirectional")
    inputs = tensors(cudnn_rnn_inputs.network_inputs(config))
    unknown = {name: tf.TensorSpec(None, tf.float64) for name in INPUTS}
    function = tf.function(lambda inputs: penalty_gradients(ours(config, version), inputs), input_signature=[unknown])
    check(config, function(inputs), penalty_gradients(plain(config), inputs))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.not_xla("in a graph that is not compiled, each op is in a separate function", cases="False")
def test_only_needed_gradients_are_computed(monkeypatch, compiled):
    """A penalty on the gradient with respect to data needs only the second-order gradients for params."""
    config = network()
    inputs = tensors(cudnn_rnn_inputs.network_inputs(config))
    skipped, op = [], ops.tf_rnn_ops_cudnn_rnn_backprop_grad

    def spy(*arguments, skip, **attributes):
        skipped.append(set(skip))
        return op(*arguments, skip=skip, **attributes)

    monkeypatch.setattr(ops, "tf_rnn_ops_cudnn_rnn_backprop_grad", spy)
    maybe_compiled(lambda: penalty_gradients(ours(config), inputs, ("input",), ("params",)), compiled)()
    assert all({"input_grad", "input_h_grad", "input_c_grad"} <= each for each in skipped)
    assert all("params_grad" not in each for each in skipped)
    assert skipped


# ---------------------------------------------------------------- layers


# From [batch, time, features] to [batch, time, 4]. test_keras_rnn.py tests the op of the first three.
LAYERS = {
    "lstm": lambda **options: tf_rnn_ops.layers.LSTM(4, **options),
    "gru": lambda **options: tf_rnn_ops.layers.GRU(4, **options),
    "tanh": lambda **options: tf_rnn_ops.layers.SimpleRNN(4, **options),
    "cudnn": lambda **options: tf_rnn_ops.layers.CudnnRNN(
        2, rnn_mode="lstm", num_layers=2, direction="bidirectional", **options
    ),
    "cell": lambda **options: keras.layers.RNN(tf_rnn_ops.layers.GRUBlockCell(4, dtype="float64"), **options),
}


@COMPILED
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("make_layer", LAYERS.values(), ids=LAYERS)
def test_hessian_products_of_layers(make_layer, training, compiled):
    """Compares nested tapes with differences of the gradients."""
    rng = np.random.default_rng(0)
    x = tf.constant(rng.standard_normal((2, 4, 3)))
    layer = make_layer(dtype="float64", return_sequences=True)
    layer.build(x.shape)
    weights = [each.value for each in layer.trainable_weights]
    v = [tf.constant(rng.standard_normal(each.shape)) for each in weights]

    def gradients():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.sin(layer(x, training=training)))
        return tape.gradient(loss, weights)

    def hessian_product():
        with tf.GradientTape() as tape:
            product = tf.add_n([tf.reduce_sum(g * each) for g, each in zip(gradients(), v, strict=True)])
        return tape.gradient(product, weights)

    actual = maybe_compiled(hessian_product, compiled)()

    step = 1e-5
    values = [each.numpy() for each in weights]

    def gradients_at(distance):
        for weight, value, direction in zip(weights, values, v, strict=True):
            weight.assign(value + distance * direction.numpy())
        return [each.numpy() for each in gradients()]

    for product, above, below in zip(actual, gradients_at(step), gradients_at(-step), strict=True):
        assert parity.difference(product, (above - below) / (2 * step)) < 1e-7


# ---------------------------------------------------------------- higher orders


THIRD_ORDER = {
    "lengths": {"num_layers": 2, "direction": "bidirectional", "sequence_lengths": LENGTHS},
    "skip_input, batch-major": {"input_mode": "skip_input", "input_size": 5, "time_major": False},
}


@pytest.mark.parametrize("options", THIRD_ORDER.values(), ids=THIRD_ORDER.keys())
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.not_xla("XLA loses the sizes of the tensor lists of a loop in second-order gradients outside of it")
def test_third_order(mode, options):
    config = network(rnn_mode=mode, **{"num_proj": 3, **options} if mode == "lstm" else options)
    inputs = tensors(cudnn_rnn_inputs.network_inputs(config))
    check(config, third_order(ours(config), inputs), third_order(plain(config), inputs))


def third_derivatives(run, inputs, wanted):
    """Returns the gradients of the size of a product of a Hessian and a constant with respect to some inputs."""
    inputs = {name: tf.convert_to_tensor(each) for name, each in inputs.items()}
    with tf.GradientTape() as outer:
        outer.watch([inputs[name] for name in wanted])
        with tf.GradientTape() as middle:
            middle.watch(inputs)
            with tf.GradientTape() as inner:
                inner.watch(inputs)
                loss = sum(tf.reduce_sum(tf.sin(each)) for each in run(inputs)[:3])
            gradients = inner.gradient(loss, list(inputs.values()))
            product = sum(tf.reduce_sum(tf.cos(tf.stop_gradient(each)) * each) for each in gradients)
        sizes = [tf.reduce_sum(each**2) for each in middle.gradient(product, list(inputs.values()))]
    return outer.gradient(sizes, {name: inputs[name] for name in wanted})


def test_a_third_derivative_without_that_of_the_direction():
    """The direction of the second derivative is constant here."""
    config = network(num_layers=2)
    inputs = tensors(cudnn_rnn_inputs.network_inputs(config))
    actual, expected = (third_derivatives(run(config), inputs, ("input", "params")) for run in (ours, plain))
    check(config, actual, expected)


@pytest.mark.parametrize("mode", [pytest.param("lstm", marks=pytest.mark.slow), "gru"])
def test_third_order_in_a_function(mode):
    config = network(rnn_mode=mode, sequence_lengths=LENGTHS)
    inputs = tensors(cudnn_rnn_inputs.network_inputs(config))
    actual = tf.function(lambda: third_order(ours(config), inputs))()
    check(config, actual, third_order(plain(config), inputs))


def within_a_while_loop(run):
    """Returns a network that runs another network twice in a while loop of the graph."""

    def looped(inputs):
        def step(number, *states):
            return number + 1, *run({**inputs, **dict(zip(("input_h", "input_c"), states, strict=True))})[1:3]

        return tf.while_loop(lambda number, *_: number < 2, step, (0, inputs["input_h"], inputs["input_c"]))[1:]

    return looped


@pytest.mark.not_xla("XLA differentiates a loop only if it knows the largest number of iterations")
def test_third_order_within_a_while_loop():
    config = network(num_units=3)
    inputs = tensors(cudnn_rnn_inputs.network_inputs(config))
    actual = tf.function(lambda: third_order(within_a_while_loop(ours(config)), inputs))()
    check(config, actual, third_order(within_a_while_loop(plain(config)), inputs))


def with_its_run(config, inputs, gradients):
    """Returns the result of `gradients` for a run of a network, and that run."""
    runs = []

    def run(inputs):
        runs.append(run_forward(config, inputs, seed=7))
        return runs[-1]

    return gradients(run, inputs), runs[-1]


THIRD_ORDER_DROPOUT = {
    "two directions": {"direction": "bidirectional", "sequence_lengths": LENGTHS},
    "an output of one": {"num_units": 1},  # a mask of unknown width could broadcast to it
}


@SLOWLY_COMPILED
@pytest.mark.parametrize("options", THIRD_ORDER_DROPOUT.values(), ids=THIRD_ORDER_DROPOUT.keys())
@pytest.mark.not_xla(
    "XLA loses the sizes of the tensor lists of a loop in second-order gradients outside of it",
    cases="(an output of one|two directions)-eager",
)
def test_third_order_with_dropout(options, compiled):
    config = network(num_layers=2, dropout=0.5, **options)
    inputs = tensors(cudnn_rnn_inputs.network_inputs(config))
    actual, run = maybe_compiled(lambda: with_its_run(config, inputs, third_order), compiled)()
    masks = masks_of(config, inputs, run)
    assert (masks == 0).any()
    check(config, actual, third_order(plain(config, masks), inputs))


@pytest.mark.not_xla("XLA loses the sizes of the tensor lists of a loop in second-order gradients outside of it")
def test_third_order_of_one_layer_with_dropout_uses_no_masks(monkeypatch):
    config = network(time=2, dropout=0.5)
    inputs = tensors(cudnn_rnn_inputs.network_inputs(config))
    monkeypatch.delattr(ops, "tf_rnn_ops_cudnn_rnn_dropout_masks")
    check(config, third_order(ours(config), inputs), third_order(plain(config), inputs))


@pytest.mark.not_xla("XLA loses the sizes of the tensor lists of a loop in second-order gradients outside of it")
def test_third_order_passes_no_host_reserved(monkeypatch):
    """So that the GPU kernel reads the header of reserve_space; the CPU kernel ignores it."""
    config = network(time=2)
    inputs = tensors(arguments_of(config)[0])
    handed, op = [], ops.tf_rnn_ops_cudnn_rnn_backprop_v3

    def spy(*arguments, **attributes):
        handed.append(arguments[12])
        return op(*arguments, **attributes)

    monkeypatch.setattr(ops, "tf_rnn_ops_cudnn_rnn_backprop_v3", spy)
    third_order(ours(config), inputs)
    assert (tf.int8, [0]) in [(each.dtype, each.shape) for each in handed]


@pytest.mark.parametrize(("mode", "is_batch_known"), [("lstm", False), ("rnn_tanh", True)])
@pytest.mark.not_xla("XLA reads from the tensor list of a loop even if the loop has no steps")
def test_third_order_of_no_steps(mode, is_batch_known):
    """The final states equal the initial states."""
    config = network(rnn_mode=mode, time=0)
    inputs = tensors(cudnn_rnn_inputs.network_inputs(config))

    def copy(inputs):
        output = tf.zeros([0, config.batch, config.num_units], tf.float64)
        output_c = inputs["input_c"] if mode == "lstm" else tf.zeros([], tf.float64)
        return tensorflow_networks.Outputs(output, inputs["input_h"], output_c)

    batch = config.batch if is_batch_known else None
    shapes = {name: [each.shape[0], batch, each.shape[2]] for name, each in inputs.items() if each.shape.rank == 3}
    signature = {name: tf.TensorSpec(shapes.get(name, each.shape), tf.float64) for name, each in inputs.items()}
    function = tf.function(lambda inputs: third_order(ours(config), inputs), input_signature=[signature])
    expected = third_order(copy, inputs)
    assert expected["input_h"].numpy().any()
    check(config, function(inputs), expected)
    check(config, third_order(ours(config), inputs), expected)


@pytest.mark.parametrize(
    ("options", "compiled"),
    [
        ({}, False),
        ({"rnn_mode": "rnn_tanh", "num_layers": 2, "dropout": 0.5}, False),
        pytest.param({"rnn_mode": "rnn_tanh"}, True, marks=pytest.mark.slow),
        pytest.param({"rnn_mode": "rnn_tanh", "num_layers": 2, "dropout": 0.5}, True, marks=pytest.mark.slow),
    ],
    ids=["eager", "dropout-eager", "tf.function", "dropout-tf.function"],
)
@pytest.mark.not_xla(
    "XLA loses the sizes of the tensor lists of a loop in second-order gradients outside of it",
    cases="(dropout-)?eager",
)
def test_fourth_order(options, compiled):
    config = network(time=2, num_units=3, input_size=2, **options)
    inputs = tensors(cudnn_rnn_inputs.network_inputs(config))

    def fourth_order(run, inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            # The sine of large numbers would amplify rounding.
            value = tf.add_n([tf.reduce_sum(tf.sin(1e-4 * each)) for each in third_order(run, inputs).values()])
        return tape.gradient(value, inputs, unconnected_gradients="zero")

    actual, run = maybe_compiled(lambda: with_its_run(config, inputs, fourth_order), compiled)()
    check(config, actual, fourth_order(plain(config, masks_of(config, inputs, run)), inputs))


def test_third_order_needs_sizes():
    config = network()
    inputs = tensors(cudnn_rnn_inputs.network_inputs(config))
    unknown = {name: tf.TensorSpec(None, tf.float64) for name in INPUTS}
    function = tf.function(lambda inputs: third_order(ours(config), inputs), input_signature=[unknown])
    with pytest.raises(ValueError, match="require num_layers, num_units and input_size to be known"):
        function(inputs)


def product_around_a_function(specification, inputs):
    """Returns a product of a Hessian and a vector, by an accumulator around a function that contains the tape.

    Args:
      specification: the input signature of the function, or None for eager mode.
      inputs: the inputs of the network.
    """
    config = network()

    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.sin(run_forward(config, {**inputs, "input": x}).output))
        return tape.gradient(loss, x)

    if specification is not None:
        gradient = tf.function(gradient, input_signature=[specification])
    x = inputs["input"]
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
        result = gradient(x)
    return accumulator.jvp(result)


def test_an_accumulator_around_a_function_needs_sizes():
    """TensorFlow builds the third order, although it does not run it."""
    inputs = tensors(cudnn_rnn_inputs.network_inputs(network()))
    shape = inputs["input"].shape
    known = product_around_a_function(tf.TensorSpec([None, None, shape[2]], tf.float64), inputs)
    assert parity.difference(known, product_around_a_function(None, inputs)) < 1e-12
    with pytest.raises(ValueError, match="require num_layers, num_units and input_size to be known"):
        product_around_a_function(tf.TensorSpec(None, tf.float64), inputs)
