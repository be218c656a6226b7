"""Tests of the op KerasRNN: equality with Keras, and errors."""

import functools
import itertools
import math
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from checks.keras_layers import HAS_MASKS_OF_GATES, KERAS, MASKS, Tensor, check_equal, data
from hypothesis import given, settings
from hypothesis import strategies as st
from inputs.keras_rnn import ACTIVATIONS, GATED, KINDS, NUM_GATES, arguments, gate_masks, has_cell_state
from inputs.pairs import every_pair
from inputs.valid_calls import KERAS_ACTIVATIONS

from tf_rnn_ops import _plain_network, layers, raw_ops
from tf_rnn_ops._keras import table
from tf_rnn_ops._library import ops

ERRORS = (tf.errors.InvalidArgumentError, ValueError)
USUAL = "tanh", "sigmoid", "relu", "linear", "hard_sigmoid"
FLAGS = ("go_backwards", "return_sequences", "zero_output_for_mask")
DTYPES = ("float64", "float32", "float16", "bfloat16")


def dtypes_of(activation, recurrent_activation):
    """Returns the types in which rounding is neither amplified by unbounded gates nor crosses a kink."""
    is_bounded = recurrent_activation in ("tanh", "sigmoid", "hard_sigmoid", "softsign", "hard_tanh", "sparse_sigmoid")
    if not is_bounded or activation == "exponential":
        return DTYPES[:1]
    with_kinks = {"relu", "hard_sigmoid", "selu", "leaky_relu", "relu6", "hard_tanh", "hard_shrink"}
    with_kinks |= {"soft_shrink", "sparse_sigmoid", "hard_silu"}
    return DTYPES[:2] if {activation, recurrent_activation} & with_kinks else DTYPES


# The functions of Keras by their names in the op. Old versions lack some.
FUNCTIONS = {each: getattr(keras.activations, each) for each in ACTIVATIONS if hasattr(keras.activations, each)}
FUNCTIONS["gelu_approximate"] = functools.partial(keras.activations.gelu, approximate=True)
FUNCTIONS["gelu"] = lambda z: z * tf.math.erfc(-z * math.sqrt(0.5)) / 2  # Keras's has the precision of float32
# Each activation of the state and of the gates beside a standard one, in one of the modes, and in the next type in the
# next mode; and each pair of the usual ones. Each in a layer without gates.
OTHERS = [each for each in FUNCTIONS if each not in USUAL]
PAIRS = [
    *itertools.product(USUAL, repeat=2),
    *((each, "sigmoid") for each in OTHERS),
    *(("tanh", each) for each in OTHERS),
]
ACTIVATED = [
    (GATED[(i + j) % len(GATED)], *pair, dtype)
    for i, pair in enumerate(PAIRS)
    for j, dtype in enumerate(dtypes_of(*pair))
] + [("rnn", each, "sigmoid", dtype) for each in FUNCTIONS for dtype in dtypes_of(each, "sigmoid")]
# Without 16-bit types for rnn_relu: rounding can change the sign of a ReLU input, and thereby the slope.
CASES = [case for case in itertools.product(KINDS, DTYPES[1:]) if case[0] != "rnn_relu" or case[1] == "float32"]
# Modes and types other than float64, masks, flags.
TYPED = every_pair(CASES, [None, "gaps"], [(False, True, False), (True, False, False)])


def test_python_has_each_activation_of_the_op():
    """For third derivatives, and to run Keras's layers on the op."""
    assert tuple(_plain_network._ACTIVATIONS) == tuple(table.ACTIVATIONS) == ACTIVATIONS


def make_keras(mode, inputs, use_bias, **flags):
    """Returns the Keras layer for the inputs of the op."""
    options = {"rnn_relu": {"activation": "relu"}, "gru_reset_before": {"reset_after": False}}
    flags = {**options.get(mode, {}), **flags}
    flags |= {name: FUNCTIONS[flags[name]] for name in KERAS_ACTIVATIONS if name in flags}
    if mode not in GATED:
        flags.pop("recurrent_activation", None)
    layer = KERAS[KINDS[mode]](
        inputs["initial_h"].shape[1], return_state=True, use_bias=use_bias, dtype="float64", **flags
    )
    layer.build(inputs["sequences"].shape)
    return layer


def run_keras(mode, inputs, **flags):
    """Returns the outputs and final states of the Keras layer for the inputs of the op."""
    use_bias = inputs["bias"].shape.num_elements() > 0 or inputs["recurrent_kernel"].shape[0] == 0
    layer = make_keras(mode, inputs, use_bias, **flags)
    wide = {name: tf.cast(each, tf.float64) for name, each in inputs.items()}
    layer.set_weights([wide[name] for name in ("kernel", "recurrent_kernel", "bias")[: 2 + use_bias]])
    states = [wide["initial_h"], wide["initial_c"]][: 1 + has_cell_state(mode)]
    mask = inputs["mask"] if inputs["mask"].shape.num_elements() else None
    with tf.GradientTape() as tape:
        tape.watch([wide["sequences"], *states])
        outputs = layer(wide["sequences"], initial_state=states, mask=mask)
        loss = tf.add_n([tf.reduce_sum(tf.sin(each)) for each in outputs])
    variables = [wide["sequences"], *states, *(each.value for each in layer.trainable_variables)]
    return [*outputs, *tape.gradient(loss, variables)]


def run_op(mode, inputs, is_training=True, **flags):
    """Returns the results of the op, with the gradients that `run_keras` returns."""
    differentiable = [name for name in inputs if name != "mask" and (name != "initial_c" or has_cell_state(mode))]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        results = raw_ops.KerasRNN(**inputs, rnn_mode=mode, is_training=is_training, **flags)
        outputs = list(results[: 2 + has_cell_state(mode)])
        loss = tf.add_n([tf.reduce_sum(tf.sin(tf.cast(each, tf.float64))) for each in outputs])
    gradients = tape.gradient(loss, [inputs[name] for name in differentiable])
    return [*outputs, *(each for each in gradients if each.shape.num_elements())]


def check_against_keras(mode, dtype, mask, flags):
    """Asserts that the op equals the Keras layer in training and in inference."""
    inputs = arguments(mode, dtype, mask=MASKS.get(mask))
    flags = dict(zip(FLAGS, flags, strict=True))
    expected = run_keras(mode, inputs, **flags)
    for is_training in (True, False):
        check_op(mode, dtype, run_op(mode, inputs, is_training, **flags), expected)


def check_op(mode, dtype, actual, expected):
    """Asserts that results equal those of Keras, which are in float64."""
    for one, other in zip(actual, expected, strict=True):
        assert one.dtype == dtype
        parity.check(f"KerasRNN {mode}", "Keras", Tensor(one), Tensor(other))


@pytest.mark.parametrize(
    ("mode", "mask", "flags"),
    every_pair(list(KINDS), [None, *MASKS], list(itertools.product([False, True], repeat=3))),
    ids=str,
)
def test_equals_keras(mode, mask, flags):
    check_against_keras(mode, "float64", mask, flags)


@pytest.mark.parametrize(("mode", "activation", "recurrent_activation", "dtype"), ACTIVATED)
def test_activations_equal_keras(mode, activation, recurrent_activation, dtype):
    # With more steps, unbounded gates produce numbers too large for the sine of the loss.
    inputs = arguments(mode, dtype, time=3, mask=MASKS["gaps"][:, :3])
    flags = {"activation": activation, "recurrent_activation": recurrent_activation, "return_sequences": True}
    expected = run_keras(mode, inputs, **flags)
    for is_training in (True, False):
        check_op(mode, dtype, run_op(mode, inputs, is_training, **flags), expected)


@pytest.mark.parametrize("in_graph", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize("mode", ["rnn_tanh", "rnn_relu"])
@pytest.mark.parametrize("name", KERAS_ACTIVATIONS)
def test_activations_of_a_cell_without_gates_are_rejected(name, mode, in_graph):
    def call():
        return raw_ops.KerasRNN(**arguments(mode, "float32"), rnn_mode=mode, **{name: "linear"})

    with pytest.raises(ERRORS, match=rf"{name} must be (tanh|sigmoid) .* linear where rnn_mode is {mode}"):
        (tf.function(call) if in_graph else call)()


@pytest.mark.parametrize(("case", "mask", "flags"), TYPED, ids=str)
def test_equals_keras_in_every_type(case, mask, flags):
    check_against_keras(*case, mask, flags)


@settings(max_examples=50)
@given(
    mode=st.sampled_from(list(KINDS)),
    sizes=st.tuples(*[st.integers(1, most) for most in (20, 12, 40, 70)]),
    use_bias=st.booleans(),
    flags=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    share=st.sampled_from([None, 0.5, 0.9]),
)
def test_equals_keras_in_any_size(mode, sizes, use_bias, flags, share):
    batch, time, features, units = sizes
    mask = None if share is None else np.random.default_rng(0).random((batch, time)) < share
    inputs = arguments(mode, "float64", batch, time, features, units, use_bias, mask)
    flags = dict(zip(FLAGS, flags, strict=True))
    check_op(mode, "float64", run_op(mode, inputs, **flags), run_keras(mode, inputs, **flags))


@pytest.mark.parametrize("mode", KINDS)
@pytest.mark.parametrize("return_sequences", [False, True])
@pytest.mark.parametrize("empty", ["batch", "time", "features", "units"])
@pytest.mark.parametrize("mask", [None, False, True])
def test_sizes_of_zero_work(mode, empty, return_sequences, mask):
    sizes = {"batch": 2, "time": 3, "features": 4, "units": 5, empty: 0}
    is_taken = None if mask is None else np.full([sizes["batch"], sizes["time"]], mask)
    inputs = arguments(mode, "float32", **sizes, mask=is_taken)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        results = raw_ops.KerasRNN(**inputs, rnn_mode=mode, return_sequences=return_sequences)
        loss = tf.reduce_sum(results.outputs) + tf.reduce_sum(results.final_h)
    gradients = tape.gradient(loss, [each for name, each in inputs.items() if name != "mask"])
    for gradient, name in zip(gradients, [name for name in inputs if name != "mask"], strict=True):
        assert gradient.shape == inputs[name].shape
        assert np.isfinite(gradient).all()
    if empty == "time" or mask is False:
        np.testing.assert_array_equal(results.final_h, inputs["initial_h"])
        np.testing.assert_array_equal(results.outputs, tf.zeros_like(results.outputs))


QUICK_THIRD_DERIVATIVES = [("lstm", "gaps"), ("rnn_tanh", "nothing")]
THIRD_DERIVATIVES = [
    *(
        pytest.param(*each, {}, marks=[] if each in QUICK_THIRD_DERIVATIVES else pytest.mark.slow)
        for each in itertools.product([*GATED, "rnn_tanh"], [None, "gaps", "nothing"])
    ),
    pytest.param("lstm", "gaps", {"activation": "sigmoid", "return_sequences": False}, marks=pytest.mark.slow),
    pytest.param("gru", "left-padded", {"zero_output_for_mask": True}, marks=pytest.mark.slow),
    pytest.param("gru", "gaps", {"input_masks": gate_masks("gru", size=2), "state_masks": gate_masks("gru", size=3)}),
    *(
        pytest.param(
            mode,
            "gaps",
            {"input_masks": gate_masks(mode, size=2, **options), "state_masks": gate_masks(mode, size=3, **options)},
            marks=pytest.mark.slow,
        )
        for mode, options in (
            ("lstm", {"count": 1}),
            ("lstm", {"has_steps": True}),
            ("gru_reset_before", {"has_steps": True}),
            ("gru_reset_before", {"count": 1}),
            ("rnn_tanh", {"has_steps": True}),
        )
    ),
]


@pytest.mark.parametrize(("mode", "mask", "flags"), THIRD_DERIVATIVES)
@pytest.mark.not_xla("XLA has no gradient of the gradient of a concat in a loop", cases=r".*-flags1[4-9]\]")
def test_third_derivatives_equal_central_differences(mode, mask, flags):
    flags = {"rnn_mode": mode, "go_backwards": True, "return_sequences": True, **flags}
    inputs = arguments(mode, units=3, features=2, mask=MASKS.get(mask))
    names = [name for name in inputs if name != "mask" and (name != "initial_c" or has_cell_state(mode))]
    directions = {name: data(*inputs[name].shape, seed=9) for name in names}

    def outputs_loss(x):
        results = raw_ops.KerasRNN(**inputs | x, **flags)
        return tf.add_n([tf.reduce_sum(tf.sin(each)) for each in results[: 2 + has_cell_state(mode)]])

    def gradient_of(loss):
        @tf.function
        def gradient(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                value = loss(x)
            return tape.gradient(value, x)

        return gradient

    def size_of(gradient):
        return lambda x: tf.add_n([tf.reduce_sum(tf.square(each)) for each in gradient(x).values()])

    def moved(distance):
        return {name: inputs[name] + distance * directions[name] for name in names}

    loss = outputs_loss
    for _ in range(2):  # the second derivative, and then the third
        loss = size_of(gradient_of(loss))
        gradient = gradient_of(loss)
        distance = 1e-5
        expected = (loss(moved(distance)) - loss(moved(-distance))) / (2 * distance)
        gradients = gradient(moved(0.0))
        actual = tf.add_n([tf.reduce_sum(gradients[name] * directions[name]) for name in names])
        np.testing.assert_allclose(actual, expected, rtol=1e-6)


def gradients_of_penalty(run, inputs):
    """Returns second derivatives by name: gradients of a penalty on the gradients of a function."""
    sources = {name: each for name, each in inputs.items() if name != "mask"}
    with tf.GradientTape() as outer:
        outer.watch(sources)
        with tf.GradientTape() as inner:
            inner.watch(sources)
            loss = tf.add_n([tf.reduce_sum(tf.sin(each)) for each in run({**inputs, **sources})])
        gradients = inner.gradient(loss, list(sources.values()))
        penalty = tf.add_n([tf.reduce_sum(tf.square(each)) for each in gradients if each is not None])
    return outer.gradient(penalty, sources)


def check_gradients(actual, expected, inputs):
    """Compares gradients by name of the input with those of Keras, where None means zeros."""
    for name, gradient in actual.items():
        theirs = tf.zeros_like(inputs[name]) if expected[name] is None else expected[name]
        assert parity.difference(gradient, theirs) < 1e-12, name


def outputs_of_op(inputs, **flags):
    """Returns the outputs of the op and its final states."""
    return raw_ops.KerasRNN(**inputs, **flags)[: 2 + has_cell_state(flags["rnn_mode"])]


def outputs_of_keras(layer, inputs, use_bias):
    """Returns the outputs and final states of the Keras layer for the inputs of the op, which include its weights."""
    weights = [inputs[name] for name in ("kernel", "recurrent_kernel", "bias")[: 2 + use_bias]]
    states = [inputs["initial_h"], inputs["initial_c"]][: len(layer.state_size)]
    mask = inputs["mask"] if inputs["mask"].shape.num_elements() else None
    others = [each.value for each in layer.non_trainable_variables]  # state of the seed generator
    outputs, _ = layer.stateless_call(weights, others, inputs["sequences"], initial_state=states, mask=mask)
    return outputs


def of_unknown_shapes(run):
    """Returns a function of the inputs of the op in a graph with unknown shapes."""

    def in_graph(inputs):
        specs = {name: tf.TensorSpec(None, each.dtype) for name, each in inputs.items()}
        return tf.function(run, input_signature=[specs], autograph=False)(inputs)

    return in_graph


@pytest.mark.parametrize(
    ("mask", "use_bias", "flags"),
    [
        (None, False, (False, True, False)),
        ("gaps", True, (True, False, False)),
        ("gaps", True, (True, False, True)),
        ("gaps", True, (False, True, False)),
        ("left-padded", False, (True, True, True)),
        ("right-padded", True, (False, False, True)),
        ("nothing", True, (False, True, False)),
    ],
)
@pytest.mark.parametrize("mode", KINDS)
def test_second_derivatives_of_unknown_shapes_equal_keras(mode, mask, use_bias, flags):
    inputs = arguments(mode, use_bias=use_bias, mask=MASKS.get(mask))
    flags = dict(zip(FLAGS, flags, strict=True))
    layer = make_keras(mode, inputs, use_bias, **flags)
    expected = gradients_of_penalty(lambda inputs: outputs_of_keras(layer, inputs, use_bias), inputs)
    run = functools.partial(outputs_of_op, rnn_mode=mode, **flags)
    actual = of_unknown_shapes(lambda inputs: gradients_of_penalty(run, inputs))(inputs)
    check_gradients(actual, expected, inputs)


@pytest.mark.parametrize(
    ("mode", "activation"),
    [
        *itertools.product(GATED, USUAL),
        # TensorFlow has no second derivative of softsign.
        *((GATED[i % len(GATED)], each) for i, each in enumerate(OTHERS) if each != "softsign"),
        *(("rnn", each) for each in FUNCTIONS if each != "softsign"),
    ],
)
def test_second_derivatives_with_other_activations_equal_keras(mode, activation):
    inputs = arguments(mode, mask=MASKS["gaps"])
    gate = "hard_sigmoid" if mode in GATED else "sigmoid"
    flags = {"activation": activation, "recurrent_activation": gate, "return_sequences": True}
    layer = make_keras(mode, inputs, use_bias=True, **flags)
    expected = gradients_of_penalty(lambda inputs: outputs_of_keras(layer, inputs, use_bias=True), inputs)
    run = functools.partial(outputs_of_op, rnn_mode=mode, **flags)
    of_op = functools.partial(gradients_of_penalty, run)
    for compute in (of_op, of_unknown_shapes(of_op)):
        check_gradients(compute(inputs), expected, inputs)


def outputs_of_cell(cell, inputs, of_input, of_state, go_backwards):
    """Returns the outputs of all steps and the final states of a cell of Keras, with these dropout masks."""
    weights = [inputs[name] for name in ("kernel", "recurrent_kernel", "bias")]
    others = [each.value for each in cell.non_trainable_variables]
    states, outputs = [inputs["initial_h"], inputs["initial_c"]][: len(tf.nest.flatten(cell.state_size))], []
    steps = range(inputs["sequences"].shape[1])
    for i, t in enumerate(reversed(steps) if go_backwards else steps):
        for name, masks, step in (("_dropout_mask", of_input, t), ("_recurrent_dropout_mask", of_state, i)):
            drawn = [mask[:, step] if mask.shape.rank == 3 else mask for mask in masks]
            setattr(cell, name, drawn if len(drawn) > 1 else drawn[0])
        (y, new), _ = cell.stateless_call(weights, others, inputs["sequences"][:, t], states, training=True)
        is_taken = inputs["mask"][:, t, tf.newaxis]
        states = [tf.where(is_taken, *each) for each in zip(tf.nest.flatten(new), states, strict=True)]
        outputs.append(tf.where(is_taken, y, tf.zeros_like(y)))
    return [tf.stack(outputs, axis=1), *states]


@pytest.mark.skipif(not HAS_MASKS_OF_GATES, reason="the cells of Keras up to 3.7 take one mask for all gates")
@pytest.mark.parametrize("has_steps", [False, True], ids=["same", "steps"])
@pytest.mark.parametrize("go_backwards", [False, True], ids=["forwards", "backwards"])
@pytest.mark.parametrize("mode", KINDS)
def test_dropout_equals_a_cell_of_keras(mode, go_backwards, has_steps):
    """With its first and second derivatives."""
    inputs = arguments(mode, mask=MASKS["gaps"])
    of_input, of_state = (gate_masks(mode, size=size, has_steps=has_steps) for size in (3, 5))
    cell = make_keras(mode, inputs, use_bias=True, dropout=0.5, recurrent_dropout=0.5).cell
    flags = {"return_sequences": True, "zero_output_for_mask": True, "go_backwards": go_backwards}
    of_op = functools.partial(outputs_of_op, rnn_mode=mode, input_masks=of_input, state_masks=of_state, **flags)
    of_cell = functools.partial(outputs_of_cell, cell, of_input=of_input, of_state=of_state, go_backwards=go_backwards)
    check_equal(of_op(inputs), of_cell(inputs), f"KerasRNN {mode}")
    expected = gradients_of_penalty(of_cell, inputs)
    check_gradients(gradients_of_penalty(of_op, inputs), expected, inputs)
    unknown = of_unknown_shapes(functools.partial(gradients_of_penalty, of_op))
    check_gradients(unknown(inputs), expected, inputs)


@pytest.mark.parametrize("mode", KINDS)
def test_one_mask_is_for_all_gates(mode):
    inputs = arguments(mode)
    (of_input,), (of_state,) = (gate_masks(mode, size=size, count=1) for size in (3, 5))
    one, each = (
        raw_ops.KerasRNN(**inputs, rnn_mode=mode, input_masks=[of_input] * count, state_masks=[of_state] * count)
        for count in (1, NUM_GATES[mode])
    )
    check_equal(one[:3], each[:3], f"KerasRNN {mode}")


@pytest.mark.parametrize("has_steps", [False, True], ids=["same", "steps"])
@pytest.mark.parametrize(("mode", "dtype"), CASES)
def test_dropout_in_every_type(mode, dtype, has_steps):
    masks = {
        f"{name}_masks": gate_masks(mode, dtype, time=3, size=size, has_steps=has_steps)
        for name, size in (("input", 3), ("state", 5))
    }
    # Few steps, over which the rounding of tanh in 16 bits does not add up.
    rounded = backprop_grad_arguments(arguments(mode, dtype, time=3), rnn_mode=mode, **masks)
    wide = tf.nest.map_structure(lambda each: tf.cast(each, tf.float64) if is_float(each) else each, rounded)
    forward = {name: wide[name] for name in (*arguments(mode), *masks)}
    expected = raw_ops.KerasRNN(**forward, rnn_mode=mode)
    wide["reserve_space"] = expected.reserve_space
    actual = raw_ops.KerasRNN(**{name: rounded[name] for name in forward}, rnn_mode=mode)
    parity.check(f"KerasRNN {mode}", "float64", *(Forward(*each[:2]) for each in (actual, expected)))
    results = (ops.tf_rnn_ops_keras_rnn_backprop_grad(**each) for each in (rounded, wide))
    parity.check(f"KerasRNNBackpropGrad {mode}", "float64", *results)


class Forward(NamedTuple):
    """The results of the op that do not depend on its type."""

    outputs: tf.Tensor
    final_h: tf.Tensor


# The name of the masks, the masks, and the error.
WRONG_MASKS = {
    "no shape": ("state", [tf.ones([4])], r"\[0\] must have the shape \[batch, units\] = \[4,5\], but has \[4\]"),
    "units": ("state", [tf.ones([4, 5])] * 3 + [tf.ones([4, 6])], r"\[3\] must have the shape \[batch, units\]"),
    "features": ("input", [tf.ones([4, 5])], r"\[0\] must have the shape \[batch, features\] = \[4,3\]"),
    "time": ("input", [tf.ones([4, 7, 3])], r"\[0\] must have the shape \[batch, time, features\] = \[4,6,3\]"),
    "mixed": (
        "state",
        [tf.ones([4, 6, 5])] * 3 + [tf.ones([4, 5])],
        r"\[3\] must have the shape \[batch, time, units\]",
    ),
    "number": ("input", [tf.ones([4, 3])] * 2, " must have no tensor, 1 or 4, one for each gate, but has 2"),
}


@pytest.mark.parametrize("in_graph", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize("case", WRONG_MASKS)
def test_wrong_masks_of_gates_are_rejected(case, in_graph):
    name, masks, message = WRONG_MASKS[case]
    call = functools.partial(raw_ops.KerasRNN, **arguments("lstm", "float32"), **{f"{name}_masks": masks})
    with pytest.raises(ERRORS, match=f"{name}_masks{message}"):
        (tf.function(call) if in_graph else call)()


def backprop_grad_arguments(inputs, seed=7, **flags):
    """Returns arguments of KerasRNNBackpropGrad."""
    names = [name for name in inputs if name != "mask"]
    directions = {f"{name}_backprop_grad": data(*inputs[name].shape, seed=seed + i) for i, name in enumerate(names)}
    return {
        "input_masks": [],
        "state_masks": [],
        **backprop_arguments(inputs, **flags),
        **{name: tf.cast(each, inputs["sequences"].dtype) for name, each in directions.items()},
    }


def backprop_grad(inputs, skip=(), **flags):
    return ops.tf_rnn_ops_keras_rnn_backprop_grad(**backprop_grad_arguments(inputs, **flags), skip=skip)


@pytest.mark.parametrize(("case", "mask", "flags"), TYPED, ids=str)
def test_second_derivatives_of_every_type_equal_float64(case, mask, flags):
    mode, dtype = case
    flags = {"rnn_mode": mode, **dict(zip(FLAGS, flags, strict=True))}
    rounded = backprop_grad_arguments(arguments(mode, dtype, mask=MASKS.get(mask)), **flags)
    wide = {name: tf.cast(each, tf.float64) if is_float(each) else each for name, each in rounded.items()}
    wide["reserve_space"] = raw_ops.KerasRNN(**{name: wide[name] for name in arguments(mode)}, **flags).reserve_space
    results, expected = (ops.tf_rnn_ops_keras_rnn_backprop_grad(**each) for each in (rounded, wide))
    parity.check(f"KerasRNNBackpropGrad {mode}", "float64", results, expected)


def is_float(value):
    return tf.is_tensor(value) and value.dtype.is_floating


@pytest.mark.parametrize("flags", [(False, True, False), (True, False, False)], ids=str)
@pytest.mark.parametrize("mode", GATED)
def test_results_of_the_second_derivative_that_are_skipped_are_empty(mode, flags):
    flags = {"rnn_mode": mode, **dict(zip(FLAGS, flags, strict=True))}
    inputs = arguments(mode, mask=MASKS["gaps"])
    everything = backprop_grad(inputs, **flags)._asdict()
    rng = np.random.default_rng(0)
    for skip in (*([name] for name in everything), *(rng.permutation(list(everything))[:5].tolist() for _ in range(5))):
        for name, actual in backprop_grad(inputs, **flags, skip=skip)._asdict().items():
            expected = tf.zeros([0], tf.float64) if name in skip else everything[name]
            np.testing.assert_array_equal(actual, expected, err_msg=name)


@pytest.mark.parametrize("in_graph", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize("flags", [(False, False, True), (True, True, False)], ids=str)
@pytest.mark.parametrize("empty", ["batch", "time", "features", "units"])
@pytest.mark.parametrize("mode", GATED)
def test_second_derivatives_of_sizes_of_zero(mode, empty, flags, in_graph):
    inputs = arguments(mode, **{"batch": 2, "time": 3, "features": 4, "units": 5, empty: 0})
    flags = {"rnn_mode": mode, **dict(zip(FLAGS, flags, strict=True))}
    run = functools.partial(gradients_of_penalty, functools.partial(outputs_of_op, **flags))
    gradients = (of_unknown_shapes(run) if in_graph else run)(inputs)
    for name, gradient in gradients.items():
        assert gradient.shape == inputs[name].shape, name
        assert np.isfinite(gradient).all(), name
        if empty == "time":  # the final states are the initial ones, and the penalty the sum of their cos(x)^2
            is_state = name == "initial_h" or (name == "initial_c" and has_cell_state(mode))
            expected = -tf.sin(2 * inputs[name]) if is_state else tf.zeros_like(inputs[name])
            assert parity.difference(gradient, expected) < 1e-12, name


def test_a_caller_gets_the_gradient_of_its_own_zeros():
    """Only Keras's zeros are left out, and only where nobody can ask for their gradient."""
    layer = layers.GRU(3)

    @tf.function(input_signature=[tf.TensorSpec([None, 4, 2])])
    def gradient(x):
        h = tf.zeros([tf.shape(x)[0], 3])
        with tf.GradientTape() as tape:
            tape.watch(h)
            y = layer(x, initial_state=h)
        return tape.gradient(y, h)

    assert np.all(gradient(tf.ones([5, 4, 2])) != 0)


@pytest.mark.parametrize("in_graph", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("mode", ["lstm", "gru"])
@pytest.mark.not_xla("XLA has no gradients of its gradient of a loop", cases=".*-3-.*")
def test_absent_initial_states_are_zeros(mode, order, in_graph):
    inputs = arguments(mode, mask=MASKS["gaps"])
    names = ["initial_h", "initial_c"][: 1 + has_cell_state(mode)]
    states = {name: tf.zeros_like(inputs[name]) for name in names}
    absent = {name: each[:0] for name, each in states.items()}
    run = functools.partial(outputs_of_op, rnn_mode=mode, return_sequences=True)

    def gradients(run, inputs):
        def loss(inputs):
            return tf.add_n([tf.reduce_sum(tf.sin(each)) for each in run(inputs)])

        for _ in range(order):
            loss = functools.partial(sum_of_squares_of_gradients, loss)
        return [*run(inputs), loss(inputs)]

    gradients = functools.partial(gradients, run)
    gradients = of_unknown_shapes(gradients) if in_graph else gradients
    for actual, expected in zip(gradients(inputs | absent), gradients(inputs | states), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-9)


def sum_of_squares_of_gradients(loss, inputs):
    """Returns the sum of the squares of the gradients of a loss, except those of initial states."""
    sources = {name: each for name, each in inputs.items() if name != "mask"}
    with tf.GradientTape() as tape:
        tape.watch(sources)
        value = loss({**inputs, **sources})
    gradients = tape.gradient(value, sources)
    for name, each in gradients.items():
        assert each is None or each.shape.is_compatible_with(inputs[name].shape), name
    of_others = [each for name, each in gradients.items() if not name.startswith("initial_") and each is not None]
    return tf.add_n([tf.reduce_sum(tf.square(each)) for each in of_others])


@pytest.mark.parametrize(("mode", "is_training"), [*((mode, True) for mode in KINDS), ("lstm", False)])
@pytest.mark.not_xla("XLA differentiates a loop only if it knows the largest number of iterations")
def test_second_derivatives_within_a_while_loop_equal_keras(mode, is_training):
    inputs = arguments(mode)
    layer = make_keras(mode, inputs, use_bias=True)
    expected = gradients_of_penalty(lambda inputs: outputs_of_keras(layer, inputs, use_bias=True), inputs)

    def run(inputs):
        def step(time, h, c):
            one = {**inputs, "sequences": inputs["sequences"][:, time : time + 1], "initial_h": h, "initial_c": c}
            return time + 1, *raw_ops.KerasRNN(**one, rnn_mode=mode, is_training=is_training)[1:3]

        steps = inputs["sequences"].shape[1]
        _, h, c = tf.while_loop(lambda time, *_: time < steps, step, (0, inputs["initial_h"], inputs["initial_c"]))
        return [h, h, c][: 2 + has_cell_state(mode)]

    actual = tf.function(functools.partial(gradients_of_penalty, run))(inputs)
    check_gradients(
        {name: 0 * inputs[name] if each is None else each for name, each in actual.items()}, expected, inputs
    )


@pytest.mark.parametrize(
    ("mode", "is_training", "order"),
    [
        *((mode, True, 1) for mode in KINDS),
        ("lstm", False, 1),
        ("rnn_tanh", True, 2),
        *(pytest.param(*each, 2, marks=pytest.mark.slow) for each in (("lstm", True), ("lstm", False))),
        *(pytest.param(mode, True, 2, marks=pytest.mark.slow) for mode in ("gru", "rnn_relu")),
    ],
)
@pytest.mark.not_xla(
    "XLA has no gradients of its gradient of a loop", cases="(lstm|rnn_tanh|rnn_relu)-True-2|lstm-False-2"
)
def test_an_accumulator_around_a_function_equals_keras(mode, is_training, order):
    inputs = arguments(mode, mask=MASKS["gaps"])
    layer = make_keras(mode, inputs, use_bias=True, return_sequences=True)
    flags = {"rnn_mode": mode, "return_sequences": True, "is_training": is_training}

    def loss(run, x):
        # Terms that bypass the op must not hide a missing contribution of the op.
        return tf.reduce_sum(tf.sin(run({**inputs, "sequences": x})[0])) + tf.reduce_sum(x)

    def gradient(run, x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = loss(run, x)
        return tape.gradient(value, x)

    def product(run):
        x = inputs["sequences"]
        with tf.autodiff.ForwardAccumulator(x, data(*x.shape, seed=7)) as accumulator:
            result = run(x)
        return accumulator.jvp(result)

    differentiated = loss if order == 1 else gradient
    run_keras_layer = functools.partial(outputs_of_keras, layer, use_bias=True)
    expected = product(functools.partial(differentiated, run_keras_layer))
    of_op = functools.partial(differentiated, functools.partial(outputs_of_op, **flags))
    for run in (of_op, tf.function(of_op)):
        assert parity.difference(product(run), expected) < 1e-12


WRONG = {
    "sequences": tf.ones([4, 6]),
    "mask": tf.ones([4, 5], tf.bool),
    "initial_h": tf.ones([3, 5]),
    "initial_c": tf.ones([4, 6]),
    "kernel": tf.ones([3, 21]),
    "recurrent_kernel": tf.ones([6, 20]),
    "bias": tf.ones([2, 20]),
}


def backprop_arguments(inputs, **flags):
    outputs = raw_ops.KerasRNN(**inputs, **flags)
    gradients = dict(zip(("outputs_backprop", "final_h_backprop", "final_c_backprop"), outputs[:3], strict=True))
    return {**inputs, **gradients, "reserve_space": outputs.reserve_space, **flags}


# Each op, and a function that returns its arguments.
OPS = {
    "KerasRNN": (raw_ops.KerasRNN, lambda inputs, **flags: {**inputs, **flags}),
    "KerasRNNBackprop": (raw_ops.KerasRNNBackprop, backprop_arguments),
    "KerasRNNBackpropGrad": (ops.tf_rnn_ops_keras_rnn_backprop_grad, backprop_grad_arguments),
}


@pytest.mark.parametrize("in_graph", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize("mode", GATED)
@pytest.mark.parametrize("op", OPS)
def test_a_wrong_shape_is_rejected_by_name(op, mode, in_graph):
    run, arguments_of = OPS[op]
    right = arguments_of(arguments(mode, "float32"), rnn_mode=mode)

    def call(name):
        return run(**right | {name: WRONG.get(name, tf.ones([7, 7, 7]))})

    what = r"the shape \[" if op == "KerasRNN" else ""
    ignored = () if mode == "lstm" else ("initial_c", "final_c_backprop", "initial_c_backprop_grad")
    for name, value in right.items():
        if not tf.is_tensor(value) or name in ignored:
            continue
        with pytest.raises(ERRORS, match=rf"\b{name} must have " + what):
            (tf.function(call) if in_graph else call)(name)


@pytest.mark.parametrize("in_graph", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize("of_gradient", [False, True], ids=["input", "tangent"])
@pytest.mark.parametrize("name", ["bias", "initial_h", "initial_c"])
def test_a_tangent_is_empty_only_if_its_input_is(name, of_gradient, in_graph):
    right = backprop_grad_arguments(arguments("lstm", "float32"))
    empty = f"{name}_backprop_grad" if of_gradient else name
    call = functools.partial(ops.tf_rnn_ops_keras_rnn_backprop_grad, **right | {empty: right[empty][:0]})
    with pytest.raises(ERRORS, match=rf"{name}_backprop_grad must have the shape of {name} = \[[\d,]+\], but has \["):
        (tf.function(call) if in_graph else call)()


def test_a_reserve_space_of_another_call_is_rejected():
    inputs = arguments("lstm", "float32", mask=MASKS["gaps"])
    others = {
        "mask or go_backwards differ": backprop_arguments(inputs | {"mask": tf.constant(MASKS["left-padded"])}),
        "time was 5, but is 6": backprop_arguments(arguments("lstm", "float32", time=5)),
        "rnn_mode was gru, but is lstm": backprop_arguments(arguments("gru", "float32"), rnn_mode="gru"),
        "the activations differ": backprop_arguments(inputs, activation="relu"),
        "input_masks or state_masks differ": backprop_arguments(inputs, state_masks=gate_masks("lstm", "float32")),
    }
    right = backprop_arguments(inputs)
    for why, other in others.items():
        with pytest.raises(tf.errors.InvalidArgumentError, match=why):
            raw_ops.KerasRNNBackprop(**right | {"reserve_space": other["reserve_space"]})
        wrong = backprop_grad_arguments(inputs) | {"reserve_space": other["reserve_space"]}
        with pytest.raises(tf.errors.InvalidArgumentError, match=why):
            ops.tf_rnn_ops_keras_rnn_backprop_grad(**wrong)
    reversed_ = backprop_arguments(arguments("lstm", "float32"), go_backwards=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="mask or go_backwards differ"):
        raw_ops.KerasRNNBackprop(**reversed_ | {"go_backwards": False})
    of_cudnn = raw_ops.CudnnRNNV3(
        input=tf.ones([4, 6, 3]),
        input_h=tf.ones([4, 1, 5]),
        input_c=tf.ones([4, 1, 5]),
        params=tf.ones([200]),
        sequence_lengths=[6] * 4,
        time_major=False,
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match="the layout of the weights differs"):
        raw_ops.KerasRNNBackprop(**right | {"reserve_space": of_cudnn.reserve_space})


HUGE = [
    {"sequences": (0, 2**40, 2**20), "initial_h": (0, 5)},
    {"sequences": (2, 2**40, 0), "initial_h": (2, 0)},
    {"sequences": (2**31, 2**31, 0), "initial_h": (2**31, 0)},
    {"sequences": (2**60, 0, 0), "initial_h": (2**60, 0)},
]


@pytest.mark.parametrize("return_sequences", [False, True])
@pytest.mark.parametrize("shapes", HUGE, ids=str)
@pytest.mark.not_xla("XLA crashes on empty tensors whose product of sizes overflows", crashes=True)
def test_huge_sizes_of_empty_tensors_return_immediately(shapes, return_sequences):
    inputs = {name: tf.zeros(shape) for name, shape in shapes.items()}
    features, units = inputs["sequences"].shape[2], inputs["initial_h"].shape[1]
    weights = {"kernel": tf.zeros([features, 3 * units]), "recurrent_kernel": tf.zeros([units, 3 * units])}
    inputs |= {**weights, "mask": [], "initial_c": 0.0, "bias": []}
    flags = {"rnn_mode": "gru", "return_sequences": return_sequences}
    outputs = raw_ops.KerasRNN(**inputs, **flags)
    state = (shapes["sequences"][0], units)
    assert outputs.outputs.shape == ((*shapes["sequences"][:2], units) if return_sequences else state)
    gradients = {"outputs_backprop": outputs.outputs, "final_h_backprop": outputs.final_h, "final_c_backprop": 0.0}
    grads = raw_ops.KerasRNNBackprop(**inputs, **flags, **gradients, reserve_space=outputs.reserve_space)
    assert grads.sequences_backprop.shape == shapes["sequences"]


@pytest.mark.parametrize("time", [2**59, 2**62])
@pytest.mark.not_xla("XLA crashes on empty tensors whose product of sizes overflows", crashes=True)
def test_sizes_whose_product_overflows_are_rejected(time):
    # Only the states and weights of this call have elements.
    inputs = arguments("lstm", "float32", batch=1, time=0, features=0, units=60)
    inputs["sequences"] = tf.zeros([1, time, 0])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"must be smaller: .* overflows int64"):
        raw_ops.KerasRNN(**inputs, is_training=False)


@pytest.mark.parametrize("run", [raw_ops.KerasRNN, tf.function(raw_ops.KerasRNN)], ids=["eager", "graph"])
@pytest.mark.parametrize("is_training", [False, True])
@pytest.mark.parametrize(("batch", "time"), [(1, 2**40), (2**10, 2**20)])
def test_steps_that_take_time_but_no_memory_are_limited(batch, time, is_training, run):
    inputs = arguments("lstm", "float32", batch=batch, time=0, features=0, units=1)
    inputs["sequences"] = tf.zeros([batch, time, 0])
    message = rf"sequences must have at most 134217728 steps if it has no features, .*\[{batch},{time},0\]"
    with pytest.raises(ERRORS, match=message):
        run(**inputs, is_training=is_training)
    state = tf.zeros([batch, 1])
    gradients = {"outputs_backprop": state, "final_h_backprop": state, "final_c_backprop": state}
    with pytest.raises(ERRORS, match=message):
        raw_ops.KerasRNNBackprop(**inputs, **gradients, reserve_space=[])


def test_a_mask_with_bytes_other_than_0_and_1():
    inputs = arguments("lstm", mask=MASKS["gaps"])
    lent = (MASKS["gaps"] * np.uint8(2)).view(bool)
    expected, actual = (raw_ops.KerasRNN(**inputs | {"mask": mask}) for mask in (inputs["mask"], lent))
    check_equal(actual[:3], expected[:3], "KerasRNN lstm")


@pytest.mark.not_xla("XLA loses the sizes of the tensor lists of a loop in second-order gradients outside of it")
def test_third_derivatives_with_a_mask_with_bytes_other_than_0_and_1():
    inputs = arguments("lstm", mask=MASKS["gaps"])
    lent = (MASKS["gaps"] * np.uint8(2)).view(bool)

    def third_derivatives(mask):
        x = inputs["sequences"]
        with tf.GradientTape() as tape:
            tape.watch(x)
            run = functools.partial(outputs_of_op, rnn_mode="lstm")
            penalty = gradients_of_penalty(run, {**inputs, "sequences": x, "mask": mask})
            square = tf.reduce_sum(tf.square(penalty["sequences"]))
        return tape.gradient(square, x)

    np.testing.assert_array_equal(third_derivatives(lent), third_derivatives(inputs["mask"]))


@pytest.mark.parametrize("mode", KINDS)
@pytest.mark.parametrize("return_sequences", [False, True])
def test_shapes_are_known_in_a_graph(mode, return_sequences):
    specs = {
        name: tf.TensorSpec([None] * each.shape.rank, each.dtype) for name, each in arguments(mode, mask=[]).items()
    }

    @tf.function(input_signature=[specs])
    def graph(inputs):
        inputs["recurrent_kernel"].set_shape([5, NUM_GATES[mode] * 5])
        inputs["sequences"].set_shape([4, 6, None])
        outputs = raw_ops.KerasRNN(**inputs, rnn_mode=mode, return_sequences=return_sequences)
        assert outputs.outputs.shape == ((4, 6, 5) if return_sequences else (4, 5))
        assert outputs.final_h.shape == (4, 5)
        return outputs

    inputs = arguments(mode)
    actual, expected = graph(inputs), raw_ops.KerasRNN(**inputs, rnn_mode=mode, return_sequences=return_sequences)
    check_equal(actual[:3], expected[:3], f"KerasRNN {mode}")


def test_inference_stores_no_activations():
    outputs = raw_ops.KerasRNN(**arguments("gru"), rnn_mode="gru", is_training=False)
    assert outputs.reserve_space.shape == (0,)


def test_layers_with_weights_that_are_read_in_place_equal_keras():
    # More columns than one multiplication handles, and more rows than a tile.
    for batch, time in ((1, 1), (3, 2), (40, 1)):
        inputs = arguments("gru", "float32", batch=batch, time=time, features=150, units=300)
        check_op("gru", "float32", run_op("gru", inputs), run_keras("gru", inputs))
