"""Dropout between the layers of the CudnnRNN ops on a GPU: the same masks as on the CPU for the same seeds."""

import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from checks.cudnn_rnn import gradient_difference, inputs_and_outputs, run_all, run_backprop, run_forward
from checks.dropout import RATES, SEEDS, check_unrelated, fresh_kernels
from checks.parity import to_float64
from environment.devices import CPU_OPS, OPS
from inputs.cudnn_rnn import DTYPES, MODES, OUTPUTS, VERSIONS, Config, cast, network_inputs, shapes
from references import cudnn_rnn as reference

pytestmark = pytest.mark.gpu

DIRECTIONS = ("unidirectional", "bidirectional")


def reader(rate=0.5, direction="unidirectional", time_major=True) -> Config:
    """Returns a ReLU network that copies its input, so that its output is the mask times the input."""
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
    """Returns an input of ones for a `reader`, and its params."""
    params = np.zeros(reference.params_size(config))
    identity = np.eye(config.num_units)
    below, above = np.split(np.array(reference.unpack(config, params), dtype=object), 2)
    for weights in below:
        weights[0][0] = identity
    for direction, weights in enumerate(above):
        weights[0][0, :, direction * config.num_units : (direction + 1) * config.num_units] = identity
    zeros = {name: np.zeros(shapes(config)[name]) for name in ("input_h", "input_c")}
    return cast({"input": np.ones(shapes(config)["input"]), **zeros, "params": params}, dtype)


def dropped_ones(config: Config, dtype="float64", version="V3", ops=OPS, **attributes) -> np.ndarray:
    """Returns dropout applied to ones, [time, batch, directions * units] or in the network's layout."""
    return run_forward(config, reader_inputs(config, dtype), version, ops, **attributes).output.numpy()


def first_calls(config: Config, count=2, **options) -> list[np.ndarray]:
    """Returns dropout applied to ones in the first calls of an op."""
    fresh_kernels()
    return [dropped_ones(config, **options) for _ in range(count)]


@pytest.mark.parametrize("rate", [*RATES, 1.0])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("version", VERSIONS)
def test_masks_equal_the_cpu(version, dtype, rate):
    """In several calls."""
    options = {"dtype": dtype, "version": version, **SEEDS}
    expected = first_calls(reader(rate), ops=CPU_OPS, **options)
    np.testing.assert_array_equal(first_calls(reader(rate), **options), expected)
    assert np.array_equal(*expected) == (rate == 1)


@pytest.mark.parametrize("seeds", [{"seed": 3}, {"seed2": 4}, {"seed": -1, "seed2": 2**62}], ids=str)
@pytest.mark.parametrize("time_major", [True, False])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_masks_equal_the_cpu_for_any_seeds_and_layout(direction, time_major, seeds):
    config = reader(0.3, direction, time_major)
    np.testing.assert_array_equal(first_calls(config, **seeds), first_calls(config, ops=CPU_OPS, **seeds))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rate", [0.3, 1.0])
@pytest.mark.parametrize("mode", MODES)
def test_networks_equal_the_cpu(mode, rate, dtype):
    """Forward and backward, with several masks and lengths."""
    config = Config(
        rnn_mode=mode, direction="bidirectional", num_layers=3, num_units=20, dropout=rate, sequence_lengths=(5, 0, 3)
    )
    inputs, _ = inputs_and_outputs(config, dtype, seed=0, rounds_states=True)
    results = []
    for ops in (OPS, CPU_OPS):
        fresh_kernels()
        results.append(run_all(config, dtype, ops, inputs))
    actual, expected = results
    for name, value in expected.items():
        of = name.removesuffix("_backprop")
        assert gradient_difference(config, of, actual[name], value) <= 2 * parity.TOLERANCES[dtype], name


def test_ops_without_seeds_draw_different_masks():
    masks = []
    for _ in range(3):
        masks += first_calls(reader())
    check_unrelated(masks, 0.5)


def test_every_iteration_of_a_loop_draws_a_new_mask():
    """The same masks as in separate calls."""
    config = reader()
    inputs = reader_inputs(config)

    @tf.function
    def masks():
        results = tf.TensorArray(tf.float64, 4)
        for i in tf.range(4):
            results = results.write(i, run_forward(config, inputs, raw_ops=OPS, **SEEDS).output)
        return results.stack()

    np.testing.assert_array_equal([*masks().numpy(), *masks().numpy()], first_calls(config, 8, ops=CPU_OPS, **SEEDS))


@pytest.mark.parametrize("time_major", [True, False])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_backward_pass_uses_the_mask_of_its_forward_pass(dtype, direction, time_major):
    """Regardless of calls in between: the gradient of the input is the mask times that of the output."""
    config = reader(0.5, direction, time_major)
    inputs = reader_inputs(config, dtype)
    runs = [run_forward(config, inputs, raw_ops=OPS, **SEEDS) for _ in range(3)]
    rng = np.random.default_rng(0)
    # Few bits, so that products and sums are exact in every type.
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
def test_one_layer_has_no_dropout(mode):
    actual, expected = (run_all(Config(rnn_mode=mode, dropout=rate), raw_ops=OPS) for rate in (0.5, 0.0))
    for name, value in expected.items():
        np.testing.assert_array_equal(actual[name], value, err_msg=name)


@pytest.mark.usefixtures("determinism")
def test_determinism_requires_a_seed_with_dropout():
    config = Config(num_layers=2, dropout=0.5)
    inputs = network_inputs(config)
    run_forward(config, inputs, raw_ops=OPS, **SEEDS)
    with pytest.raises(tf.errors.InvalidArgumentError, match="seed"):
        run_forward(config, inputs, raw_ops=OPS)
