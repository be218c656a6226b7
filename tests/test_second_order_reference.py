"""Compares the second-order reference with central differences and with second-order gradients of TensorFlow."""

import numpy as np
import pytest
import tensorflow as tf
from checks import gru_block_cell as gru_checks
from checks import parity
from inputs import gru_block_cell as gru_inputs
from inputs.cudnn_rnn import INPUTS, MODES, OUTPUTS, network_inputs, output_gradients
from inputs.second_order import output_backprops, step_arguments, step_output_gradients
from inputs.small_networks import DIRECTIONS, LENGTHS, NETWORKS, inputs_away_from_kinks, network, random_masks
from references import cudnn_rnn as first_order
from references import gru_block_cell as reference
from references import tensorflow_networks
from references.second_order import ARGUMENTS, STEP_ARGUMENTS, second_order, step_second_order

SIZE = (3, 2, 4)


def inner_product(config, arguments, v, masks):
    """Returns <v, backward> in float64."""
    run = first_order.forward(config, **{name: arguments[name] for name in INPUTS}, masks=masks)
    further = {name: arguments[name] for name in ARGUMENTS if name not in ("input", "input_h")}
    results = first_order.backward(config, run, **further, masks=masks)
    return sum(np.sum(a * b) for a, b in zip(v, results, strict=True))


@pytest.mark.parametrize("argument", ARGUMENTS)
@pytest.mark.parametrize(
    "config",
    [*NETWORKS.values(), *(network(rnn_mode=mode, num_layers=2, time=0) for mode in MODES)],
    ids=[*NETWORKS, *(f"{mode}-no steps" for mode in MODES)],
)
def test_equals_central_differences_of_the_backward_pass(config, argument):
    """In a few random directions."""
    masks = random_masks(config)
    inputs = inputs_away_from_kinks(config, masks)
    arguments = {**inputs, **output_gradients(config)}
    v = output_backprops(inputs)
    gradient = second_order(config, arguments, v, masks)[argument]
    assert gradient.shape == arguments[argument].shape
    rng, distance = np.random.default_rng(3), 1e-6
    for _ in range(2):
        towards = rng.standard_normal(gradient.shape)
        products = [
            inner_product(config, {**arguments, argument: arguments[argument] + signed * towards}, v, masks)
            for signed in (-distance, distance)
        ]
        expected = (products[1] - products[0]) / (2 * distance)
        np.testing.assert_allclose(np.sum(gradient * towards), expected, rtol=1e-6, atol=1e-6)


def twice_by_tensorflow(config, arguments, v, masks):
    """Returns the gradients of `inner_product` from two tapes around the plain network, by argument."""
    arguments = {name: tf.constant(value) for name, value in arguments.items()}
    inputs = {name: arguments[name] for name in INPUTS}
    with tf.GradientTape() as outer:
        outer.watch(arguments)
        with tf.GradientTape() as inner:
            inner.watch(inputs)
            outputs = tensorflow_networks.cudnn_rnn(config, **inputs, masks=masks)
        d_outputs = tensorflow_networks.Outputs(*(arguments[f"{name}_backprop"] for name in OUTPUTS))
        backprops = inner.gradient(outputs, inputs, d_outputs, unconnected_gradients="zero")
        product = tf.add_n([tf.reduce_sum(backprops[name] * each) for name, each in zip(INPUTS, v, strict=True)])
    return outer.gradient(product, arguments, unconnected_gradients="zero")


def check(actual, expected):
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        assert parity.difference(actual[name], value) < 1e-12, name


@pytest.mark.parametrize("config", NETWORKS.values(), ids=NETWORKS.keys())
def test_equals_tensorflow_differentiating_a_plain_network_twice(config):
    masks, inputs = random_masks(config), network_inputs(config)
    arguments = {**inputs, **output_gradients(config)}
    v = output_backprops(inputs)
    check(second_order(config, arguments, v, masks), twice_by_tensorflow(config, arguments, v, masks))


@pytest.mark.parametrize("mode", MODES)
def test_the_hessian_is_symmetric(mode):
    """<w, H v> = <v, H w>, and <J v, d> = <v, J^T d> for output gradients d, at sizes too large for differences."""
    config = network(
        rnn_mode=mode,
        direction=DIRECTIONS[1],
        num_layers=2,
        num_units=20,
        input_size=16,
        num_proj=12 if mode == "lstm" else 0,
        time=30,
        batch=3,
        sequence_lengths=(30, 0, 17),
    )
    inputs = network_inputs(config)
    arguments = {**inputs, **output_gradients(config)}
    v, w = (output_backprops(inputs, seed) for seed in (5, 6))
    of_v, of_w = (second_order(config, arguments, each) for each in (v, w))
    of_inputs = [
        [np.sum(gradients[name] * each) for name, each in zip(INPUTS, other, strict=True)]
        for gradients, other in ((of_v, w), (of_w, v))
    ]
    assert abs(sum(of_inputs[0]) / sum(of_inputs[1]) - 1) < 1e-10
    of_outputs = sum(np.sum(of_v[f"{name}_backprop"] * arguments[f"{name}_backprop"]) for name in OUTPUTS)
    assert abs(of_outputs / inner_product(config, arguments, v, masks=None) - 1) < 1e-10


@pytest.mark.parametrize("mode", MODES)
def test_padding_has_no_effect(mode):
    """Neither the input, nor the gradient with respect to input_backprop."""
    config = network(rnn_mode=mode, num_layers=2, direction=DIRECTIONS[1], sequence_lengths=LENGTHS)
    inputs = network_inputs(config)
    arguments = {**inputs, **output_gradients(config)}
    v = output_backprops(inputs)
    expected = second_order(config, arguments, v)
    is_past = ~first_order.major(config, np.arange(config.time)[:, np.newaxis] < config.lengths)
    for array in (arguments["input"], arguments["output_backprop"], v.input_backprop):
        array[is_past] += 100
    for name, value in second_order(config, arguments, v).items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)
    assert not expected["input"][is_past].any()
    assert not expected["output_backprop"][is_past].any()


@pytest.mark.parametrize("argument", [*STEP_ARGUMENTS, "x", "b_ru", "b_c"])
@pytest.mark.parametrize("size", [SIZE, (2, 0, 3), (0, 3, 4)], ids=str)
def test_step_equals_central_differences_of_the_backward_step(size, argument):
    """Partial derivatives for each argument, including r, u and c as independent arguments."""
    arguments, v = step_arguments(size), step_output_gradients(size)
    gradient = step_second_order(arguments, v).get(argument, np.zeros_like(arguments[argument]))
    assert gradient.shape == arguments[argument].shape
    distance, expected = 1e-6, np.zeros_like(gradient)
    for index in np.ndindex(*gradient.shape):
        products = []
        for signed in (-distance, distance):
            moved = {**arguments, argument: arguments[argument].copy()}
            moved[argument][index] += signed
            results = reference.gru_block_cell_grad(**moved)
            products.append(sum(np.sum(a * b) for a, b in zip(v, results, strict=True)))
        expected[index] = (products[1] - products[0]) / (2 * distance)
    np.testing.assert_allclose(gradient, expected, atol=1e-7)


def backward_of_step(inputs, step, d_outputs) -> dict[str, np.ndarray]:
    """Returns the gradients with respect to all inputs of a forward step, as the registered gradient computes them."""
    x, h_prev = inputs["x"], inputs["h_prev"]
    grads = reference.gru_block_cell_grad(**inputs, r=step.r, u=step.u, c=step.c, **d_outputs)
    return {
        "x": grads.d_x,
        "h_prev": grads.d_h_prev,
        "w_ru": np.concatenate([x, h_prev], axis=1).T @ grads.d_r_bar_u_bar,
        "w_c": np.concatenate([x, h_prev * step.r], axis=1).T @ grads.d_c_bar,
        "b_ru": grads.d_r_bar_u_bar.sum(axis=0),
        "b_c": grads.d_c_bar.sum(axis=0),
    }


def chained_second_order(inputs, d_outputs, v) -> dict[str, np.ndarray]:
    """Returns the gradients of <v, backward_of_step> by the chain rule, like a tape.

    Through the matrix products for the gradients of the weights, then through the backward step, then through r, u and
    c as results of the forward step.
    """
    input_size = inputs["x"].shape[1]
    step = reference.gru_block_cell(**inputs)
    r, h_prev = step.r, inputs["h_prev"]
    x_h, x_hr = (np.concatenate([inputs["x"], each], axis=1) for each in (h_prev, h_prev * r))
    grads = reference.gru_block_cell_grad(**inputs, r=r, u=step.u, c=step.c, **d_outputs)
    of_grads = reference.GRUStepGrad(v["x"], v["h_prev"], x_hr @ v["w_c"] + v["b_c"], x_h @ v["w_ru"] + v["b_ru"])
    gradients = step_second_order({**inputs, **step._asdict(), **d_outputs}, of_grads)
    of_x_h, of_x_hr = grads.d_r_bar_u_bar @ v["w_ru"].T, grads.d_c_bar @ v["w_c"].T
    gradients["h_prev"] += of_x_h[:, input_size:] + of_x_hr[:, input_size:] * r
    d_gates = {f"d_{name}": gradients.pop(name) for name in "ruc"}
    d_gates["d_r"] += of_x_hr[:, input_size:] * h_prev
    through_gates = backward_of_step(inputs, step, {**d_gates, "d_h": np.zeros_like(h_prev)})
    gradients["x"] = of_x_h[:, :input_size] + of_x_hr[:, :input_size]
    for name, value in through_gates.items():
        gradients[name] = gradients.get(name, 0) + value
    return gradients


@pytest.mark.parametrize("size", [SIZE, (2, 0, 3), (1, 1, 1)], ids=str)
def test_step_chained_through_its_gates_equals_tensorflow_differentiating_a_plain_gru_twice(size):
    inputs, d_outputs = gru_inputs.cell_inputs(size), gru_inputs.output_gradients(size)
    v = gru_inputs.cell_inputs(size, seed=5)
    arguments = {name: tf.constant(value) for name, value in {**inputs, **d_outputs}.items()}
    variables = [arguments[name] for name in gru_checks.INPUTS]
    with tf.GradientTape() as outer:
        outer.watch(arguments)
        with tf.GradientTape() as inner:
            inner.watch(variables)
            step = gru_checks.plain_gru(*variables)
        backprops = inner.gradient(step, variables, [arguments[f"d_{name}"] for name in step._fields])
        product = tf.add_n([tf.reduce_sum(a * v[name]) for name, a in zip(gru_checks.INPUTS, backprops, strict=True)])
    check(chained_second_order(inputs, d_outputs, v), outer.gradient(product, arguments, unconnected_gradients="zero"))
