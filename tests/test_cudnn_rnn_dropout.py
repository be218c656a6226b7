"""Tests of dropout between the layers of the CudnnRNN ops: distribution, seeds and placement."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from checks.cudnn_rnn import (
    all_results,
    assert_all_same_bits,
    gradient_difference,
    reference_gradients,
    run_backprop,
    run_forward,
)
from checks.dropout import RATES, SEEDS, check_share, check_unrelated, fresh_kernels, scale_of
from hypothesis import given
from hypothesis import strategies as st
from inputs import cudnn_rnn as cudnn_rnn_inputs
from inputs.cudnn_rnn import DTYPES, INPUTS, MODES, OUTPUTS, VERSIONS, Config
from inputs.gru_block_cell import float64
from references import cudnn_rnn as reference

from tf_rnn_ops._library import ops


def mask_reader(config: Config) -> Config:
    """Returns an rnn_relu network whose dropout masks have the shapes of those of another network."""
    return dataclasses.replace(
        config,
        rnn_mode="rnn_relu",
        input_mode="linear_input",
        num_units=config.output_size,
        num_proj=0,
        sequence_lengths=None,
    )


def reader_inputs(config: Config, layer: int, recurrent: float) -> dict[str, np.ndarray]:
    """Returns inputs with which an rnn_relu network outputs the dropout mask of a layer's input.

    The output of the layer below is always 1. In the layer itself, the output of each direction is
        h = (the part of the mask for its units) + recurrent * h_prev
    """
    params = np.zeros(reference.params_size(config))
    below, these = (
        reference.unpack(config, params)[each * config.num_directions :][: config.num_directions]
        for each in (layer - 1, layer)
    )
    for weights in below:
        weights.W_bias[...] = 1
    identity = np.eye(config.num_units)
    for direction, weights in enumerate(these):
        assert weights.W is not None
        weights.W[0, :, direction * config.num_units : (direction + 1) * config.num_units] = identity
        weights.R[0] = recurrent * identity
    shapes = cudnn_rnn_inputs.shapes(config)
    return {**{name: np.zeros(shapes[name]) for name in ("input", "input_h", "input_c")}, "params": params}


def dropped_ones(config: Config, dtype="float64", version="V3", **attributes) -> np.ndarray:
    """Applies dropout to ones above the first of two layers, [time, batch, directions * units]."""
    reader = mask_reader(config)
    inputs = cudnn_rnn_inputs.cast(reader_inputs(reader, 1, recurrent=0), dtype)
    return reference.major(config, run_forward(reader, inputs, version, **attributes).output.numpy())


def masks_of(config: Config, **attributes) -> list[np.ndarray]:
    """Returns the dropout masks of a first call, for each layer above layer 0.

    The final states encode them as binary numbers with a digit for each time step, because the outputs contain only the
    mask of the last layer.
    """
    reader = mask_reader(config)
    masks = []
    for layer in range(1, config.num_layers):
        fresh_kernels()
        outputs = run_forward(reader, reader_inputs(reader, layer, recurrent=2), **attributes)
        states = reference.major(reader, outputs.output_h.numpy())[layer * config.num_directions :]
        numbers = np.rint(states / scale_of(config.dropout)).astype(np.int64)
        digits = []
        for direction in range(config.num_directions):
            # The first step of a direction is the most significant digit.
            steps = reversed(reference.time_steps(config, direction))
            place = {t: digit for digit, t in enumerate(steps)}
            digits.append([numbers[direction] >> place[t] & 1 for t in range(config.time)])
        shape = (config.time, config.batch, config.num_directions * config.output_size)
        kept = np.concatenate(digits, axis=-1).reshape(shape)
        masks.append(kept * scale_of(config.dropout))
    return masks


LARGE = Config(num_layers=2, num_units=64, input_size=2, time=40, batch=50, dropout=0.5)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_values_are_dropped_or_scaled(dtype, rate):
    values = np.unique(parity.to_float64(dropped_ones(dataclasses.replace(LARGE, dropout=rate), dtype, **SEEDS)))
    assert values[0] == 0
    assert len(values) == 2
    rounding = {"float64": 2**-52, "float32": 2**-23, "float16": 2**-10, "bfloat16": 2**-7}[dtype]
    assert abs(values[1] / scale_of(rate) - 1) <= rounding


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("direction", ["unidirectional", "bidirectional"])
def test_kept_values_are_independent_with_the_right_probability(direction, rate):
    """For all groupings, the number of kept values has the mean and the variance of a binomial distribution."""
    kept = dropped_ones(dataclasses.replace(LARGE, direction=direction, dropout=rate), **SEEDS) > 0
    check_share(kept.mean(), 1 - rate, kept.size)
    for axis in range(3):
        size = kept.shape[axis]
        counts = kept.sum(axis=axis)
        spread = counts.var(ddof=1) / (size * rate * (1 - rate))
        # The sample variance of n normal numbers has the variance 2 / (n - 1); for counts it is slightly larger.
        excess = (1 - 6 * rate * (1 - rate)) / (size * rate * (1 - rate))
        assert abs(spread - 1) < 5 * np.sqrt(2 / (counts.size - 1) + max(excess, 0) / counts.size)


@pytest.mark.parametrize("rate", [0.25, 0.5])
def test_steps_samples_units_directions_and_layers_are_independent(rate):
    config = dataclasses.replace(LARGE, dropout=rate, num_layers=3, direction="bidirectional")
    masks = masks_of(config, **SEEDS)
    check_unrelated([half for mask in masks for half in np.split(mask, 2, axis=-1)], rate)
    first = masks[0]
    check_unrelated([first[:-1], first[1:]], rate)
    check_unrelated([first[:, :-1], first[:, 1:]], rate)
    check_unrelated([first[:, :, :-1], first[:, :, 1:]], rate)


def test_masks_of_different_calls_and_seeds_are_independent():
    calls = [dropped_ones(LARGE, **SEEDS) for _ in range(4)]
    check_unrelated(calls, LARGE.dropout)
    others = [{"seed": 3, "seed2": 5}, {"seed": 4, "seed2": 4}, {"seed": 3}, {"seed2": 4}, {"seed": 4, "seed2": 3}]
    check_unrelated([calls[0], *(dropped_ones(LARGE, **other) for other in others)], LARGE.dropout)


def test_equal_seeds_give_equal_masks():
    calls = []
    for _ in range(2):
        fresh_kernels()
        calls.append([dropped_ones(LARGE, **SEEDS) for _ in range(3)])
    np.testing.assert_array_equal(calls[0], calls[1])
    assert not np.array_equal(calls[0][0], calls[0][1])


@pytest.mark.parametrize("seeds", [SEEDS, {"seed": 3}, {"seed2": 4}, {"seed": -1, "seed2": 2**62}], ids=str)
def test_graphs_with_the_same_seeds_give_the_same_masks(seeds):
    """Each op starts at its seeds, in one graph or in several; repeated runs continue the sequence."""

    def results():
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            reader = mask_reader(LARGE)
            inputs = reader_inputs(reader, 1, recurrent=0)
            outputs = [run_forward(reader, inputs, **seeds).output for _ in range(2)]
            return [session.run(outputs) for _ in range(3)]

    first, second = results(), results()
    np.testing.assert_array_equal(first, second)
    for of_one_op, of_another in first:
        np.testing.assert_array_equal(of_one_op, of_another)
    assert not np.array_equal(first[0], first[1])
    assert not np.array_equal(first[1], first[2])


def test_ops_without_seeds_draw_different_masks():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        reader = mask_reader(LARGE)
        inputs = reader_inputs(reader, 1, recurrent=0)
        masks = session.run([run_forward(reader, inputs).output for _ in range(3)])
    for _ in range(2):
        fresh_kernels()
        masks.append(dropped_ones(LARGE))
    check_unrelated(masks, LARGE.dropout)


def test_every_iteration_of_a_loop_draws_a_new_mask():
    reader = mask_reader(LARGE)
    inputs = reader_inputs(reader, 1, recurrent=0)

    @tf.function
    def masks():
        results = tf.TensorArray(tf.float64, 4)
        for i in tf.range(4):
            results = results.write(i, run_forward(reader, inputs, **SEEDS).output)
        return results.stack()

    check_unrelated([*masks().numpy(), *masks().numpy()], LARGE.dropout)


@pytest.mark.parametrize("dtype", DTYPES)
def test_masks_are_the_same_for_all_types_and_versions(dtype):
    expected = dropped_ones(LARGE, **SEEDS) > 0
    for version in VERSIONS:
        fresh_kernels()
        np.testing.assert_array_equal(dropped_ones(LARGE, dtype, version, **SEEDS) > 0, expected)


def test_masks_are_the_same_in_either_layout():
    """[time, batch] or [batch, time]."""
    expected = dropped_ones(LARGE, **SEEDS)
    fresh_kernels()
    np.testing.assert_array_equal(dropped_ones(dataclasses.replace(LARGE, time_major=False), **SEEDS), expected)


def check_with_masks(config: Config, inputs, weights, masks, **attributes):
    """Compares a run with dropout, and its registered gradient, with the reference with the same masks."""
    inputs = {name: tf.constant(value) for name, value in inputs.items()}
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = run_forward(config, inputs, **attributes)
        loss = tf.add_n([tf.reduce_sum(getattr(outputs, name) * weights[f"{name}_backprop"]) for name in OUTPUTS])
    gradients = tape.gradient(loss, inputs)
    expected = reference.forward(config, **float64(inputs), masks=masks)
    expected_gradients = reference_gradients(config, expected, inputs, weights, masks)
    tolerance = parity.TOLERANCES[inputs["input"].dtype.name]
    for name in OUTPUTS:
        assert parity.difference(getattr(outputs, name), getattr(expected, name)) < tolerance, name
    for name in INPUTS:
        expected_gradient = getattr(expected_gradients, f"{name}_backprop")
        assert gradient_difference(config, name, gradients[name], expected_gradient) < tolerance, name


@given(
    config=cudnn_rnn_inputs.configs(),
    rate=st.sampled_from(RATES),
    num_layers=st.integers(2, 4),
    seed=st.integers(0, 2**31 - 1),
    seed2=st.integers(1, 2**31 - 1),
)
def test_equals_the_reference_with_any_options(config, rate, num_layers, seed, seed2):
    """Masks depend only on the seeds and the shapes that they apply to."""
    config = dataclasses.replace(config, dropout=rate, num_layers=num_layers)
    inputs, weights = cudnn_rnn_inputs.inputs_and_gradients(config, seed=seed)
    masks = masks_of(config, seed=seed, seed2=seed2)
    fresh_kernels()
    check_with_masks(config, inputs, weights, masks, seed=seed, seed2=seed2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("direction", ["unidirectional", "bidirectional"])
@pytest.mark.parametrize("mode", MODES)
def test_equals_the_reference(mode, direction, dtype):
    config = Config(
        rnn_mode=mode, direction=direction, num_layers=3, num_units=20, time=9, batch=7, dropout=0.25, time_major=False
    )
    config = dataclasses.replace(config, sequence_lengths=(9, 0, 4, 8, 1, 7, 9))
    inputs, weights = cudnn_rnn_inputs.inputs_and_gradients(config, dtype)
    masks = masks_of(config, **SEEDS)
    fresh_kernels()
    check_with_masks(config, inputs, weights, masks, **SEEDS)


@pytest.mark.parametrize("mode", MODES)
def test_the_backward_pass_uses_the_mask_of_its_forward_pass(mode):
    """Even if other calls ran in between."""
    config = Config(rnn_mode=mode, num_layers=2, num_units=20, dropout=0.5)
    inputs, weights = cudnn_rnn_inputs.inputs_and_gradients(config)
    fresh_kernels()
    masks = [dropped_ones(config, **SEEDS) for _ in range(3)]
    fresh_kernels()
    runs = [run_forward(config, inputs, **SEEDS) for _ in range(3)]
    for outputs, mask in reversed(list(zip(runs, masks, strict=True))):
        expected = reference.forward(config, **inputs, masks=[mask])
        assert parity.difference(outputs.output, expected.output) < 1e-12
        expected_backprop = reference_gradients(config, expected, inputs, weights, [mask])
        backprop = run_backprop(config, inputs, outputs, weights)
        for name, actual, expected_gradient in zip(INPUTS, backprop, expected_backprop, strict=True):
            assert gradient_difference(config, name, actual, expected_gradient) < 1e-12


def results_of(config, **attributes):
    """Returns all results of a network, forward and backward, as arrays by name."""
    inputs, weights = cudnn_rnn_inputs.inputs_and_gradients(config, "float32")
    outputs = run_forward(config, inputs, **attributes)
    return all_results(outputs, run_backprop(config, inputs, outputs, weights))


@pytest.mark.parametrize("rate", [0.5, 1.0])
@pytest.mark.parametrize("direction", ["unidirectional", "bidirectional"])
@pytest.mark.parametrize("mode", MODES)
def test_one_layer_has_no_dropout(mode, direction, rate):
    config = Config(rnn_mode=mode, direction=direction)
    expected = results_of(config)
    assert_all_same_bits(results_of(dataclasses.replace(config, dropout=rate)), expected)


@pytest.mark.parametrize("mode", MODES)
def test_a_rate_of_zero_is_no_dropout(mode):
    """For any seeds, the results equal the reference without masks."""
    config = Config(rnn_mode=mode, num_layers=3, num_units=20, dropout=0.0)
    expected = results_of(config)
    assert_all_same_bits(results_of(config, **SEEDS), expected)
    inputs, weights = cudnn_rnn_inputs.inputs_and_gradients(config)
    check_with_masks(config, inputs, weights, None, **SEEDS)


@pytest.mark.parametrize("direction", ["unidirectional", "bidirectional"])
@pytest.mark.parametrize("mode", MODES)
def test_a_rate_of_one_disconnects_the_layers(mode, direction):
    config = Config(rnn_mode=mode, direction=direction, num_layers=3, num_units=20, dropout=1.0)
    inputs, weights = cudnn_rnn_inputs.inputs_and_gradients(config)
    mask = np.zeros((config.time, config.batch, config.num_directions * config.num_units))
    check_with_masks(config, inputs, weights, [mask, mask])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("mode", MODES)
def test_inference_has_no_dropout(mode, version):
    config = Config(rnn_mode=mode, num_layers=2, num_units=20, dropout=0.5)
    inputs = cudnn_rnn_inputs.network_inputs(config, "float32")
    expected = run_forward(dataclasses.replace(config, dropout=0.0), inputs, version, is_training=False)
    actual = run_forward(config, inputs, version, is_training=False)
    for name in OUTPUTS:
        np.testing.assert_array_equal(getattr(actual, name), getattr(expected, name))


@pytest.mark.parametrize("direction", ["unidirectional", "bidirectional"])
@pytest.mark.parametrize("mode", MODES)
def test_the_first_input_and_the_last_output_are_not_dropped(mode, direction):
    config = Config(rnn_mode=mode, direction=direction, num_layers=2, num_units=20)
    inputs = cudnn_rnn_inputs.network_inputs(config, "float32")
    without = run_forward(config, inputs)
    dropped = run_forward(dataclasses.replace(config, dropout=0.5), inputs, **SEEDS)
    directions = config.num_directions
    np.testing.assert_array_equal(dropped.output_h[:directions], without.output_h[:directions])
    assert not np.array_equal(dropped.output, without.output)
    for direction, output in enumerate(np.split(dropped.output, directions, axis=-1)):
        last_step = reference.time_steps(config, direction)[-1]
        np.testing.assert_array_equal(output[last_step], dropped.output_h[directions + direction])


def stateless(config: Config, inputs, seeds, **attributes):
    """Runs StatelessCudnnRNN."""
    return ops.tf_rnn_ops_stateless_cudnn_rnn(
        **cudnn_rnn_inputs.forward_arguments(config, inputs), seed=tf.constant(seeds, tf.int64), **attributes
    )


@pytest.mark.parametrize("seeds", [[3, 4], [-1, 2**62]])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", MODES)
def test_seeds_that_are_an_input_give_the_masks_of_the_same_attributes(mode, dtype, seeds):
    config = Config(rnn_mode=mode, num_layers=3, direction="bidirectional", dropout=0.5, sequence_lengths=(3, 0, 2))
    inputs = {name: tf.constant(each) for name, each in cudnn_rnn_inputs.network_inputs(config, dtype).items()}

    def results(run):
        fresh_kernels()
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = run()
            loss = tf.add_n([tf.reduce_sum(tf.cast(each, tf.float64) ** 2) for each in outputs[:3]])
        return [*outputs, *tape.gradient(loss, inputs, unconnected_gradients="zero").values()]

    expected = results(lambda: run_forward(config, inputs, seed=seeds[0], seed2=seeds[1]))
    for actual, wanted in zip(results(lambda: stateless(config, inputs, seeds)), expected, strict=True):
        np.testing.assert_array_equal(parity.to_float64(actual), parity.to_float64(wanted))


def test_gradients_of_inference_with_seeds_that_are_an_input():
    """They are those without dropout."""
    config = Config(num_layers=2, dropout=0.5, sequence_lengths=(3, 0, 2))
    inputs = {name: tf.constant(each) for name, each in cudnn_rnn_inputs.network_inputs(config).items()}

    def gradients(config, is_training):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = stateless(config, inputs, [1, 2], is_training=is_training)
            loss = tf.add_n([tf.reduce_sum(each**2) for each in outputs[:3]])
        return tape.gradient(loss, inputs, unconnected_gradients="zero").values()

    expected = gradients(dataclasses.replace(config, dropout=0.0), is_training=True)
    for actual, wanted in zip(gradients(config, is_training=False), expected, strict=True):
        np.testing.assert_array_equal(actual, wanted)


def test_equal_seeds_that_are_an_input_give_equal_masks():
    """Also two zeros, which as attributes mean random seeds."""
    config = Config(num_layers=2, dropout=0.5)
    inputs = cudnn_rnn_inputs.network_inputs(config)
    first, second, other = (stateless(config, inputs, [0, seed2]).output.numpy() for seed2 in (0, 0, 1))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("seed", [[1], [1, 2, 3], [[1, 2]], 1])
@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize("is_training", [False, True])
def test_a_seed_of_a_wrong_shape_is_rejected(seed, in_graph, is_training):
    config = Config(num_layers=2, dropout=0.5)
    inputs = cudnn_rnn_inputs.network_inputs(config, "float32")

    def run():
        return stateless(config, inputs, seed, is_training=is_training)

    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match=r"seed must have the shape \[2\]"):
        (tf.function(run) if in_graph else run)()


@pytest.mark.usefixtures("determinism")
@pytest.mark.parametrize("version", VERSIONS)
def test_determinism_requires_a_seed_with_dropout(version):
    config = Config(num_layers=2)
    dropping = dataclasses.replace(config, dropout=0.5)
    inputs = cudnn_rnn_inputs.network_inputs(config)
    run_forward(config, inputs, version)
    run_forward(dropping, inputs, version, is_training=False)
    run_forward(dropping, inputs, version, **SEEDS)
    with pytest.raises(tf.errors.InvalidArgumentError, match="seed"):
        run_forward(dropping, inputs, version)
