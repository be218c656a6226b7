"""Dropout between the layers of the CudnnRNN ops on a GPU."""

import cudnn_rnn_reference as reference
import numpy as np
import pytest
import tensorflow as tf
from cudnn_rnn_checks import run_all, run_backprop, run_forward
from cudnn_rnn_inputs import DTYPES, MODES, OUTPUTS, VERSIONS, Config, cast, network_inputs, shapes
from devices import OPS
from dropout_checks import RATES, SEEDS, check_share, check_unrelated, fresh_kernels, scale_of
from parity import to_float64

pytestmark = pytest.mark.gpu

DIRECTIONS = ("unidirectional", "bidirectional")


def reader(rate=0.5, direction="unidirectional", time_major=True) -> Config:
    """Returns a network of rectifiers that passes its input on, so that its output is the mask times the input."""
    return Config(
        rnn_mode="rnn_relu",
        direction=direction,
        num_layers=2,
        num_units=64,
        input_size=64,
        time=40,
        batch=50,
        dropout=rate,
        time_major=time_major,
    )


def reader_inputs(config: Config, dtype="float64") -> dict[str, np.ndarray]:
    """Returns an input of ones for a `reader`, and params that make it one."""
    params = np.zeros(reference.params_size(config))
    identity = np.eye(config.num_units)
    below, above = np.split(np.array(reference.unpack(config, params), dtype=object), 2)
    for weights in below:
        weights[0][0] = identity
    for direction, weights in enumerate(above):
        weights[0][0, :, direction * config.num_units : (direction + 1) * config.num_units] = identity
    zeros = {name: np.zeros(shapes(config)[name]) for name in ("input_h", "input_c")}
    return cast({"input": np.ones(shapes(config)["input"]), **zeros, "params": params}, dtype)


def dropped_ones(config: Config, dtype="float64", version="V3", **attributes) -> np.ndarray:
    """Returns what dropout makes of ones, [time, batch, directions * units], or as the network has it."""
    return run_forward(config, reader_inputs(config, dtype), version, OPS, **attributes).output.numpy()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_number_is_dropped_or_scaled(dtype, rate, version):
    values = np.unique(to_float64(dropped_ones(reader(rate), dtype, version, **SEEDS)))
    assert values[0] == 0
    assert len(values) == 2
    rounding = {"float64": 2**-23, "float32": 2**-22, "float16": 2**-10, "bfloat16": 2**-7}[dtype]
    assert abs(values[1] / scale_of(rate) - 1) <= rounding


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_right_share_is_kept_in_every_place(direction, rate):
    """As far as independent random numbers would have it, however one groups them."""
    kept = dropped_ones(reader(rate, direction), **SEEDS) > 0
    check_share(kept.mean(), 1 - rate, kept.size)
    for axis in range(3):
        shares = kept.mean(axis=tuple({0, 1, 2} - {axis}))
        for share in shares:
            check_share(share, 1 - rate, kept.size / kept.shape[axis])


@pytest.mark.parametrize("rate", [0.25, 0.5])
def test_steps_samples_units_and_directions_are_unrelated(rate):
    mask = dropped_ones(reader(rate, "bidirectional"), **SEEDS)
    check_unrelated(np.split(mask, 2, axis=-1), rate)
    check_unrelated([mask[:-1], mask[1:]], rate)
    check_unrelated([mask[:, :-1], mask[:, 1:]], rate)
    check_unrelated([mask[:, :, :-1], mask[:, :, 1:]], rate)


def test_calls_and_seeds_are_unrelated():
    calls = [dropped_ones(reader(), **SEEDS) for _ in range(4)]
    check_unrelated(calls, 0.5)
    others = [{"seed": 3, "seed2": 5}, {"seed": 4, "seed2": 4}, {"seed": 3}, {"seed2": 4}, {"seed": 4, "seed2": 3}]
    check_unrelated([calls[0], *(dropped_ones(reader(), **other) for other in others)], 0.5)


def test_without_seeds_every_op_has_its_own():
    masks = []
    for _ in range(3):
        fresh_kernels()
        masks += [dropped_ones(reader()), dropped_ones(reader())]
    check_unrelated(masks, 0.5)


def test_the_same_seeds_give_the_same_masks_anew():
    calls = []
    for _ in range(2):
        fresh_kernels()
        calls.append([dropped_ones(reader(), **SEEDS) for _ in range(3)])
    np.testing.assert_array_equal(calls[0], calls[1])


def test_every_pass_of_a_loop_draws_a_new_mask():
    config = reader()
    inputs = reader_inputs(config)

    @tf.function
    def masks():
        results = tf.TensorArray(tf.float64, 4)
        for i in tf.range(4):
            results = results.write(i, run_forward(config, inputs, raw_ops=OPS, **SEEDS).output)
        return results.stack()

    check_unrelated([*masks().numpy(), *masks().numpy()], 0.5)


@pytest.mark.parametrize("time_major", [True, False])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_backward_pass_uses_the_mask_of_its_forward_pass(dtype, direction, time_major):
    """Whatever ran since then: the gradient of the input is the mask times that of the output."""
    config = reader(0.5, direction, time_major)
    inputs = reader_inputs(config, dtype)
    runs = [run_forward(config, inputs, raw_ops=OPS, **SEEDS) for _ in range(3)]
    rng = np.random.default_rng(0)
    # Few enough bits for products and sums to be exact in every type.
    output_gradient = rng.integers(-8, 9, shapes(config)["output"]) / 8
    no_gradients = {name: np.zeros(shapes(config)[name]) for name in OUTPUTS}
    gradients = cast({f"{name}_backprop": value for name, value in no_gradients.items()}, dtype)
    gradients |= cast({"output_backprop": output_gradient}, dtype)
    for outputs in reversed(runs):
        masked = to_float64(outputs.output) * output_gradient
        expected = sum(np.split(masked, config.num_directions, axis=-1))
        actual = run_backprop(config, inputs, outputs, gradients, raw_ops=OPS)
        np.testing.assert_array_equal(to_float64(actual.input_backprop), expected)


@pytest.mark.parametrize("mode", MODES)
def test_without_training_there_is_none(mode):
    options = {"rnn_mode": mode, "num_layers": 2, "num_units": 20}
    inputs = network_inputs(Config(**options), "float32")
    actual, expected = (
        run_forward(Config(**options, dropout=rate), inputs, raw_ops=OPS, is_training=False) for rate in (0.5, 0.0)
    )
    for name in OUTPUTS:
        np.testing.assert_array_equal(getattr(actual, name), getattr(expected, name))


@pytest.mark.parametrize("mode", MODES)
def test_one_layer_knows_no_dropout(mode):
    actual, expected = (run_all(Config(rnn_mode=mode, dropout=rate), raw_ops=OPS) for rate in (0.5, 0.0))
    for name, value in expected.items():
        np.testing.assert_array_equal(actual[name], value, err_msg=name)


@pytest.mark.usefixtures("determinism")
def test_determinism_asks_for_a_seed():
    config = Config(num_layers=2, dropout=0.5)
    inputs = network_inputs(config)
    run_forward(config, inputs, raw_ops=OPS, **SEEDS)
    with pytest.raises(tf.errors.InvalidArgumentError, match="seed"):
        run_forward(config, inputs, raw_ops=OPS)
