"""Tests of the registered gradients of the CudnnRNN ops, for every input through every output."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from checks.cudnn_rnn import (
    check_repeats_and_leaves_inputs_unchanged,
    gradient_difference,
    reference_gradients,
    run_forward,
    tape_gradients,
    tensors,
    weighted_sum,
)
from hypothesis import given
from hypothesis import strategies as st
from inputs import cudnn_rnn as cudnn_rnn_inputs
from inputs.cudnn_rnn import INPUTS, MODES, OUTPUTS, VERSIONS, Config
from inputs.gru_block_cell import float64
from inputs.pairs import every_pair
from references import cudnn_rnn as reference
from tensorflow.python.framework import ops as gradient_registry

import tf_rnn_ops

# All sets of outputs that a loss may depend on.
OUTPUT_SETS = [of for n in range(1, 4) for of in itertools.combinations(OUTPUTS, n)]


def small(**options) -> Config:
    return Config(**{"num_units": 4, "input_size": 3, "time": 3, "batch": 2, "num_layers": 2, **options})


def only(weights, of):
    """Sets the weights of the outputs that are not in `of` to zero."""
    return {name: value * (name.removesuffix("_backprop") in of) for name, value in weights.items()}


def check_gradients(config, inputs, weights, of, actual):
    """Compares gradients by input with those of the reference through the outputs in `of`."""
    run = reference.forward(config, **float64(inputs))
    expected = reference_gradients(config, run, inputs, only(weights, of))
    for name in INPUTS:
        assert actual[name].dtype == inputs[name].dtype
        assert gradient_difference(config, name, actual[name], getattr(expected, f"{name}_backprop")) < 1e-12, name


@pytest.mark.parametrize(("mode", "version", "compiled"), every_pair(MODES, VERSIONS, [False, True]))
def test_equals_central_differences(mode, version, compiled):
    """Uses TensorFlow's gradient checker for every element of every input, through each output and all outputs."""
    config = small(rnn_mode=mode, direction="bidirectional", num_layers=1, num_units=3, input_size=2)
    inputs, weights = cudnn_rnn_inputs.inputs_and_gradients(config)
    names = [name for name in INPUTS if mode == "lstm" or name != "input_c"]
    for of in [("output",), ("output_h",), ("output_c",), OUTPUTS]:

        def loss(*values, of=of):
            moved = {**inputs, **dict(zip(names, values, strict=True))}
            return weighted_sum(run_forward(config, moved, version), weights, of)

        points = [tf.constant(inputs[name]) for name in names]
        theoretical, numerical = tf.test.compute_gradient(tf.function(loss) if compiled else loss, points, 1e-5)
        for name, a, b in zip(names, theoretical, numerical, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-8, err_msg=f"{name} through {of}")


@given(
    config=cudnn_rnn_inputs.configs(),
    of=st.sampled_from(OUTPUT_SETS),
    compiled=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_equals_the_reference_with_any_options(config, of, compiled, seed):
    inputs, weights = map(tensors, cudnn_rnn_inputs.inputs_and_gradients(config, seed=seed))
    function = tf.function(tape_gradients) if compiled else tape_gradients
    check_gradients(config, inputs, weights, of, function(config, inputs, weights, of))


@pytest.mark.parametrize("of", OUTPUT_SETS, ids="-".join)
@pytest.mark.parametrize("version", VERSIONS)
def test_in_a_graph_of_unknown_shapes_by_tf_gradients(version, of):
    config = small()
    inputs, weights = cudnn_rnn_inputs.inputs_and_gradients(config)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        placeholders = {name: tf.compat.v1.placeholder(tf.float64) for name in INPUTS}
        loss = weighted_sum(run_forward(config, placeholders, version), weights, of)
        wanted = tf.gradients(loss, list(placeholders.values()))
        values = session.run(wanted, {placeholders[name]: inputs[name] for name in INPUTS})
    check_gradients(config, inputs, weights, of, dict(zip(INPUTS, values, strict=True)))


@pytest.mark.parametrize("of", OUTPUT_SETS, ids="-".join)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.not_xla("in a graph that is not compiled, each op is in a separate function")
def test_none_counts_as_zero(version, of):
    """TensorFlow passes zeros for outputs that a loss does not use, but a gradient function may get None."""
    config = small()
    inputs, weights = cudnn_rnn_inputs.inputs_and_gradients(config)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        outputs = run_forward(config, inputs, version)
        op = outputs.output.op
        incoming = [tf.constant(weights[f"{name}_backprop"]) if name in of else None for name in OUTPUTS]
        incoming += [None] * (len(outputs) - len(incoming))
        results = gradient_registry.get_gradient_function(op)(op, *incoming)
        assert len(results) == len(op.inputs)
        assert results[0].op.type == f"TfRnnOps>CudnnRNNBackprop{version}"
        if version == "V3":
            assert results[-1] is None  # sequence_lengths
        values = session.run(results[: len(INPUTS)])
    check_gradients(config, inputs, weights, of, dict(zip(INPUTS, values, strict=True)))


@pytest.mark.parametrize(
    ("mode", "dtype", "options"),
    every_pair(
        MODES,
        ["bfloat16", "float32"],
        [{}, {"input_mode": "skip_input", "input_size": 4}, {"sequence_lengths": (3, 0)}],
    ),
)
def test_unused_gradients_do_not_change_the_others(mode, dtype, options):
    """In a graph, the kernel skips unused gradients; eagerly, it computes all."""
    config = small(rnn_mode=mode, direction="bidirectional", **options)
    inputs, weights = map(tensors, cudnn_rnn_inputs.inputs_and_gradients(config, dtype))
    every = tape_gradients(config, inputs, weights)
    for wanted in [("input",), ("params",), ("input_h",), ("input", "params"), ("input_h", "params")]:

        @tf.function
        def some(inputs, wanted=wanted):
            gradients = tape_gradients(config, inputs, weights)
            return {name: gradients[name] for name in wanted}

        for name, gradient in some(inputs).items():
            assert gradient.numpy().tobytes() == every[name].numpy().tobytes(), f"{name} of {wanted}"


def test_only_floating_inputs_have_gradients():
    config = small(sequence_lengths=(3, 1))
    inputs = tensors(cudnn_rnn_inputs.network_inputs(config))
    lengths = tf.constant(config.lengths)
    arguments = {**cudnn_rnn_inputs.forward_arguments(config, inputs), "sequence_lengths": lengths}
    with tf.GradientTape() as tape:
        tape.watch([lengths, inputs["input"]])
        loss = tf.reduce_sum(tf_rnn_ops.raw_ops.CudnnRNNV3(**arguments).output)
    d_lengths, d_input = tape.gradient(loss, [lengths, inputs["input"]])
    assert d_lengths is None
    assert d_input is not None


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "tf.function"])
@pytest.mark.parametrize("version", VERSIONS)
def test_without_training_there_is_no_gradient(version, compiled):
    config = small()
    inputs = tensors(cudnn_rnn_inputs.network_inputs(config))

    def input_gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(run_forward(config, {**inputs, "input": x}, version, is_training=False).output)
        return tape.gradient(loss, x)

    with pytest.raises(ValueError, match="is_training=True"):
        (tf.function(input_gradient) if compiled else input_gradient)(inputs["input"])


@pytest.mark.parametrize("time_major", [True, False])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", cudnn_rnn_inputs.DTYPES)
def test_inputs_are_unchanged_and_results_repeat(dtype, mode, time_major):
    """cuDNN's backward pass writes to the reserve space, so a second run on one forward pass is wrong there."""
    for options in ({"sequence_lengths": (3, 1), "dropout": 0.5}, {}):
        config = small(rnn_mode=mode, direction="bidirectional", num_units=20, time_major=time_major, **options)
        check_repeats_and_leaves_inputs_unchanged(config, dtype)


def test_a_persistent_tape_gives_the_same_gradients_twice():
    config = small(dropout=0.5)
    inputs = tensors(cudnn_rnn_inputs.network_inputs(config))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(inputs)
        loss = tf.reduce_sum(run_forward(config, inputs).output)
    first, second = tape.gradient(loss, inputs), tape.gradient(loss, inputs)
    for name in INPUTS:
        np.testing.assert_array_equal(first[name], second[name])


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "tf.function"])
@pytest.mark.parametrize("version", VERSIONS)
def test_gradients_are_computed_where_the_forward_pass_ran(version, compiled):
    """Even outside of its tf.device scope: a reserve_space is valid on the device of the forward pass only."""
    config = small()
    inputs = tensors(cudnn_rnn_inputs.network_inputs(config))

    def gradients():
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            with tf.device("CPU:1"):
                output = run_forward(config, inputs, version).output
            loss = tf.reduce_sum(output)
        for gradient in tape.gradient(loss, inputs).values():
            assert gradient.device.endswith("CPU:1")

    (tf.function(gradients, autograph=False) if compiled else gradients)()
