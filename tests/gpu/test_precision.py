"""Precision on a GPU: results are reproducible, and TF32 is used only if TensorFlow allows it."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from checks import gru_block_cell as gru_checks
from checks.cudnn_rnn import (
    all_results,
    assert_all_same_bits,
    check_against_reference,
    run_all,
    run_backprop,
    run_forward,
)
from checks.dropout import fresh_kernels
from checks.parity import difference
from environment.devices import DEVICE, IS_GPU, OPS
from inputs import gru_block_cell as gru_inputs
from inputs.cudnn_rnn import DTYPES, MODES, Config, inputs_and_gradients

pytestmark = pytest.mark.gpu

LARGE = Config(num_layers=2, direction="bidirectional", num_units=128, input_size=96, time=30, batch=32)


def check_repeats(config: Config, dtype: str) -> None:
    """Asserts that all results of a network have the same bits in every run."""
    results = []
    for _ in range(3):
        fresh_kernels()
        results.append(run_all(config, dtype, OPS))
    for other in results[1:]:
        assert_all_same_bits(other, results[0])


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", MODES)
def test_results_are_bitwise_reproducible(mode, dtype, dropout):
    check_repeats(dataclasses.replace(LARGE, rnn_mode=mode, dropout=dropout), dtype)


@pytest.mark.usefixtures("determinism")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", MODES)
def test_results_are_bitwise_reproducible_with_op_determinism(mode, dtype):
    config = dataclasses.replace(LARGE, rnn_mode=mode)
    check_repeats(config, dtype)
    check_repeats(dataclasses.replace(config, sequence_lengths=(*range(30), 30, 7)), dtype)


@pytest.mark.usefixtures("determinism")
def test_op_determinism_changes_no_result():
    check_against_reference(Config(num_layers=2, num_units=20), "float32", raw_ops=OPS)


@pytest.fixture
def tf32():
    """Allows TF32, which is TensorFlow's default."""
    tf.config.experimental.enable_tensor_float_32_execution(True)
    yield
    tf.config.experimental.enable_tensor_float_32_execution(False)


def has_tf32() -> bool:
    """Returns whether the device supports TF32."""
    gpu = tf.config.list_physical_devices("GPU")[int(DEVICE.partition(":")[2])]
    return tf.config.experimental.get_device_details(gpu)["compute_capability"] >= (8, 0)


def forbidding_tf32(run):
    """Returns the results of a call without and with TF32."""
    tf.config.experimental.enable_tensor_float_32_execution(False)
    without = run()
    tf.config.experimental.enable_tensor_float_32_execution(True)
    return without, run()


def check_tf32(without: dict, allowed: dict) -> None:
    """Asserts that results differ if the device supports TF32, and by no more than TF32 rounding."""
    differences = [difference(allowed[name], value) for name, value in without.items()]
    assert max(differences) < 2e-2
    if IS_GPU and has_tf32():
        assert max(differences) > 1e-5


@pytest.mark.usefixtures("tf32")
@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_tanh"])
def test_networks_use_tf32_if_allowed(mode):
    config = dataclasses.replace(LARGE, rnn_mode=mode)
    check_tf32(*forbidding_tf32(lambda: run_all(config, "float32", OPS)))


@pytest.mark.usefixtures("tf32")
def test_cells_use_tf32_if_allowed():
    inputs = gru_inputs.cell_inputs((64, 512, 512), "float32")
    check_tf32(*forbidding_tf32(lambda: OPS.GRUBlockCell(**inputs)._asdict()))


@pytest.mark.usefixtures("tf32")
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_only_float32_uses_tf32(dtype):
    config = dataclasses.replace(LARGE, num_layers=1)
    assert_all_same_bits(*forbidding_tf32(lambda: run_all(config, dtype, OPS)))


@pytest.mark.usefixtures("tf32")
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_other_types_ignore_a_change_of_tf32_between_the_passes(dtype):
    inputs, gradients = inputs_and_gradients(LARGE, dtype)

    def results(between):
        tf.config.experimental.enable_tensor_float_32_execution(False)
        outputs = run_forward(LARGE, inputs, raw_ops=OPS)
        tf.config.experimental.enable_tensor_float_32_execution(between)
        return all_results(outputs, run_backprop(LARGE, inputs, outputs, gradients, raw_ops=OPS))

    assert_all_same_bits(results(True), results(False))


@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_tanh"])
def test_large_networks_without_tf32_have_float32_precision(mode):
    config = dataclasses.replace(LARGE, rnn_mode=mode)
    wide = run_all(config, "float64", OPS)
    # The same values, except for rounding of the inputs.
    for name, value in run_all(config, "float32", OPS).items():
        assert difference(value, wide[name]) < 1e-5, name


def test_cells_without_tf32_have_float32_precision():
    for size in [(64, 512, 512), (128, 1024, 1024)]:
        gru_checks.check_against_reference(size, "float32", raw_ops=OPS)
        assert np.isfinite(OPS.GRUBlockCell(**gru_inputs.cell_inputs(size, "float32")).h).all()
