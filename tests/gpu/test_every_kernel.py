"""Every kernel once, with odd sizes, compared with the float64 reference.

Small enough for compute-sanitizer, which is many times slower.
"""

import functools

import pytest
from checks import cudnn_rnn_params as params_checks
from checks import gru_block_cell as gru_checks
from checks.cudnn_rnn import check_against_reference, inputs_and_outputs, run_forward, tensors
from checks.dropout import SEEDS, fresh_kernels
from checks.parity import TOLERANCES, difference
from checks.second_order import penalty_gradients
from environment.devices import CPU_OPS, LIBRARY, OPS
from inputs.cudnn_rnn import DTYPES, MODES, VERSIONS, Config
from references.cudnn_rnn import params_size

pytestmark = pytest.mark.gpu

SIZES = {"direction": "bidirectional", "num_layers": 2, "num_units": 13, "input_size": 7, "time": 5, "batch": 3}
LENGTHS = (4, 1, 5)
check = functools.partial(check_against_reference, raw_ops=OPS, rounds_states=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("mode", MODES)
def test_cudnn_rnn(mode, version, dtype):
    check(Config(rnn_mode=mode, **SIZES), dtype, version=version)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", MODES)
def test_cudnn_rnn_with_sequence_lengths(mode, dtype):
    config = Config(rnn_mode=mode, sequence_lengths=LENGTHS, time_major=False, **SIZES)
    check(config, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_cudnn_rnn_with_a_projection(dtype):
    check(Config(num_proj=5, sequence_lengths=LENGTHS, **SIZES), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", MODES)
def test_cudnn_rnn_with_dropout(mode, dtype):
    """First and second gradients. The outputs are scaled such that no gradient overflows in float16."""
    config = Config(rnn_mode=mode, dropout=0.5, **SIZES)
    inputs = tensors(inputs_and_outputs(config, dtype, seed=0, rounds_states=True)[0])
    gradients = []
    for ops in (OPS, CPU_OPS):
        fresh_kernels()
        run = functools.partial(run_forward, config, raw_ops=ops, **SEEDS)
        gradients.append(penalty_gradients(lambda inputs, run=run: [each / 16 for each in run(inputs)[:3]], inputs))
    actual, expected = gradients
    for name, gradient in actual.items():
        # Second gradients contain the rounding errors of the first ones.
        assert difference(gradient, expected[name]) < 10 * TOLERANCES[dtype], name


@pytest.mark.parametrize("dtype", DTYPES)
def test_params_ops(dtype):
    config = params_checks.PROJECTED
    params = params_checks.random_bits([params_size(config)], dtype)
    canonical = params_checks.to_canonical(config, params, raw_ops=OPS)
    params_checks.assert_same_bits(params_checks.to_params(config, *canonical, raw_ops=OPS), params)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [(3, 7, 13), (33, 65, 31), (1, 5, 257)], ids=str)
def test_gru_block_cell(size, dtype):
    gru_checks.check_against_reference(size, dtype, raw_ops=OPS)
    gru_checks.check_grad_v2(size, dtype, raw_ops=OPS, library=LIBRARY)
