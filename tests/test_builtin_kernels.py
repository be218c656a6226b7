"""Tests of TensorFlow's own ops on the CPU after `enable_builtin_kernels`: kernels and gradients.

test_gpu_graphs.py tests graphs that contain these ops.
"""

import itertools
import shutil
import textwrap

import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from checks.cudnn_rnn import (
    check_against_reference,
    gradient_difference,
    reference_gradients,
    run_forward,
    tape_gradients,
    tensors,
)
from checks.cudnn_rnn_params import to_canonical, to_params
from checks.gru_block_cell import INPUTS as GRU_INPUTS
from checks.gru_block_cell import check_gradients, gradients, plain_gru
from checks.keras_layers import needs_xla
from environment import forked, processes
from hypothesis import given, settings
from hypothesis import strategies as st
from inputs import cudnn_rnn as cudnn_rnn_inputs
from inputs import gru_block_cell as gru_inputs
from inputs.cudnn_rnn import DTYPES, INPUTS, MODES, VERSIONS, Config
from references import cudnn_rnn as cudnn_rnn_reference
from tensorflow.python.framework import kernels as kernel_registry

import tf_rnn_ops

tf_rnn_ops.enable_builtin_kernels()

BUILTIN_KERNELS = str(tf_rnn_ops._library.BUILTIN_KERNELS_PATH)
DIRECTIONS = ("unidirectional", "bidirectional")


# ---------------------------------------------------------------- kernels


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("mode", MODES)
def test_equal_the_reference(mode, direction, version, dtype):
    config = Config(rnn_mode=mode, direction=direction, num_layers=2, num_units=9, input_size=8, time=5, batch=3)
    check_against_reference(config, dtype, version=version, raw_ops=tf.raw_ops)


@settings(max_examples=50)
@given(config=cudnn_rnn_inputs.configs(), dtype=st.sampled_from(DTYPES), seed=st.integers(0, 2**32 - 1))
def test_equal_the_reference_with_any_options(config, dtype, seed):
    check_against_reference(config, dtype, seed, raw_ops=tf.raw_ops)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_the_builtin_ops(mode, version):
    config = Config(rnn_mode=mode, direction="bidirectional", num_layers=2, num_units=5, input_size=3, time=4, batch=3)
    inputs, d_outputs = cudnn_rnn_inputs.inputs_and_gradients(config)
    run = cudnn_rnn_reference.forward(config, **inputs)
    expected = reference_gradients(config, run, inputs, d_outputs)

    actual = tape_gradients(config, tensors(inputs), d_outputs, version=version, raw_ops=tf.raw_ops)
    for name in INPUTS:
        assert gradient_difference(config, name, actual[name], getattr(expected, f"{name}_backprop")) < 1e-12, name


@pytest.mark.parametrize("version", VERSIONS)
def test_second_order_gradients_of_the_builtin_ops(version):
    config = Config(
        rnn_mode="lstm", direction="bidirectional", num_layers=2, num_units=5, input_size=3, time=4, batch=3
    )
    inputs = {name: tf.constant(value) for name, value in cudnn_rnn_inputs.network_inputs(config).items()}

    def penalty_gradients(raw_ops):
        with tf.GradientTape() as outer:
            outer.watch(inputs)
            with tf.GradientTape() as inner:
                inner.watch(inputs)
                loss = tf.reduce_sum(tf.sin(run_forward(config, inputs, version, raw_ops).output))
            value = tf.add_n([tf.reduce_sum(each**2) for each in inner.gradient(loss, inputs).values()])
        return outer.gradient(value, inputs)

    actual, expected = (penalty_gradients(each) for each in (tf.raw_ops, tf_rnn_ops.raw_ops))
    for name in INPUTS:
        np.testing.assert_array_equal(actual[name], expected[name], err_msg=name)


def test_gradient_of_the_builtin_gru_block_cell_grad():
    inputs = {name: tf.constant(each) for name, each in gru_inputs.cell_inputs((3, 4, 5), "float32").items()}

    def penalty_gradients(raw_ops):
        with tf.GradientTape() as outer:
            outer.watch(inputs)
            step = raw_ops.GRUBlockCell(**inputs)
            gates = {name: getattr(step, name) for name in "ruc"}
            d_x = raw_ops.GRUBlockCellGrad(**inputs, **gates, d_h=tf.ones_like(step.h)).d_x
            value = tf.reduce_sum(d_x**2)
        return outer.gradient(value, inputs)

    actual, expected = (penalty_gradients(each) for each in (tf.raw_ops, tf_rnn_ops.raw_ops))
    for name, value in expected.items():
        assert parity.difference(actual[name], value) < 1e-5, name


@pytest.mark.parametrize("size_type", [tf.int32, tf.int64], ids=lambda each: each.name)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("mode", MODES)
def test_params_size(mode, direction, dtype, size_type):
    config = Config(rnn_mode=mode, direction=direction, num_layers=2, num_units=5, input_size=3)
    size = tf.raw_ops.CudnnRNNParamsSize(
        num_layers=2, num_units=5, input_size=3, T=dtype, S=size_type, rnn_mode=mode, direction=direction
    )
    assert size.numpy().tolist() == [cudnn_rnn_reference.params_size(config)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("mode", "version"), [*itertools.product(MODES, ["", "V2"])])
def test_params_to_canonical_and_back(mode, version, dtype):
    config = Config(rnn_mode=mode, direction="bidirectional", num_layers=2, num_units=5, input_size=3)
    params = cudnn_rnn_inputs.network_inputs(config, dtype)["params"]
    weights, biases = to_canonical(config, params, version, tf.raw_ops)
    pseudo_layers = cudnn_rnn_reference.unpack(config, params)
    matrices = [matrix for each in pseudo_layers for matrix in (*each.W, *each.R)]
    vectors = [vector for each in pseudo_layers for vector in (*each.W_bias, *each.R_bias)]
    for actual, expected in zip([*weights, *biases], [*matrices, *vectors], strict=True):
        np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(to_params(config, weights, biases, version, tf.raw_ops), params)


@pytest.mark.parametrize("version", ["", "V2"])
def test_gradients_of_the_conversions(version):
    """Both conversions only move values, and their gradients move them back."""
    config = Config(rnn_mode="lstm", num_layers=2, num_units=5, input_size=3)
    params = tf.constant(cudnn_rnn_inputs.network_inputs(config)["params"])
    factors = tf.range(params.shape[0], dtype=params.dtype)
    with tf.GradientTape() as tape:
        tape.watch(params)
        weights, biases = to_canonical(config, params, version, tf.raw_ops)
        loss = tf.reduce_sum(to_params(config, weights, biases, version, tf.raw_ops) ** 2 * factors)
    np.testing.assert_allclose(tape.gradient(loss, params), 2 * params * factors, rtol=1e-12)


# ---------------------------------------------------------------- GRUBlockCell, which TensorFlow cannot train


def builtin_gru(*inputs):
    return tf.raw_ops.GRUBlockCell(**dict(zip(GRU_INPUTS, inputs, strict=True)))


@pytest.mark.parametrize("of", [("h",), ("r", "u", "c", "h")], ids="".join)
@pytest.mark.parametrize("size", [(4, 3, 6), (2, 0, 3), (1, 1, 1)], ids=str)
def test_gradient_of_the_builtin_gru_block_cell(size, of):
    inputs = gru_inputs.cell_inputs(size, "float32")
    weights = gru_inputs.output_gradients(size, "float32")
    wide = [gru_inputs.float64(each) for each in (inputs, weights)]
    check_gradients(gradients(builtin_gru, inputs, weights, of), gradients(plain_gru, *wide, of))


# ---------------------------------------------------------------- enable_builtin_kernels


def test_is_off_by_default_and_idempotent():
    processes.run_code(
        """
        import tensorflow as tf
        import tf_rnn_ops

        def size():
            return tf.raw_ops.CudnnRNNParamsSize(num_layers=1, num_units=4, input_size=3, T=tf.float32, S=tf.int32)

        try:
            size()
        except tf.errors.OpError as error:
            assert "CudnnRNNParamsSize" in str(error)
        else:
            raise AssertionError("ran without a kernel")
        tf_rnn_ops.enable_builtin_kernels()
        assert size().numpy().tolist() == [144]
        tf_rnn_ops.enable_builtin_kernels()
        assert size().numpy().tolist() == [144]
        """
    )


def test_existing_kernels_and_gradients_are_kept(tmp_path):
    """A copy of the library, loaded first, simulates a TensorFlow that already has kernels."""
    copy = shutil.copy(BUILTIN_KERNELS, tmp_path)
    engine = tf_rnn_ops._library.ENGINE_PATH
    (tmp_path / engine.name).symlink_to(engine)
    process = processes.run_python(
        "-c",
        """
import sys
import warnings
import tensorflow as tf
tf.load_op_library(sys.argv[1])
tf.RegisterGradient("GRUBlockCell")(lambda op, *grads: [tf.fill(tf.shape(each), 7.0) for each in op.inputs])
import tf_rnn_ops
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    tf_rnn_ops.enable_builtin_kernels()
(warning,) = caught
assert "TensorFlow already has a gradient for GRUBlockCell" in str(warning.message)
assert warning.filename == "<string>", warning.filename
x = tf.ones([1, 1])
with tf.GradientTape() as tape:
    tape.watch(x)
    h = tf.raw_ops.GRUBlockCell(x=x, h_prev=x, w_ru=tf.ones([2, 2]), w_c=tf.ones([2, 1]), b_ru=[0.0, 0.0], b_c=[0.0]).h
assert tape.gradient(h, x).numpy() == 14  # of x and of h_prev
print(tf.raw_ops.CudnnRNNParamsSize(num_layers=1, num_units=4, input_size=3, T=tf.float32, S=tf.int32).numpy())
""",
        str(copy),
        TF_CPP_MIN_LOG_LEVEL="1",
    )
    assert process.returncode == 0, process.stderr[-2000:]
    assert process.stdout == "[144]\n"
    for op in ("CudnnRNN", "CudnnRNNV3", "CudnnRNNBackprop", "CudnnRNNParamsSize"):
        assert process.stderr.count(f" {op} already has a kernel for the CPU, which stays in use.") == 1


@pytest.mark.parametrize("name", [name for name in tf_rnn_ops.raw_ops.__all__ if name.startswith("CudnnRNN")])
def test_gpu_kernels_keep_their_priority(name):
    """TensorFlow's placer chooses the kernel with the highest priority, and a GPU before a CPU if they are equal."""
    kernels = kernel_registry.get_registered_kernels_for_op(name).kernel
    priorities = {
        device: {each.priority for each in kernels if each.device_type == device} for device in ("CPU", "GPU")
    }
    assert priorities["CPU"] == {0}
    assert priorities["GPU"] <= {0}  # empty in a CPU-only build of TensorFlow


# ---------------------------------------------------------------- enable_builtin_kernels(replace=True)

# Calls all of TensorFlow's ops with kernels that ours replace.
REPLACED = """
import numpy as np
import tensorflow as tf
from inputs import valid_calls
import tf_rnn_ops
from tensorflow.python.framework import kernels

OPS = tf_rnn_ops._builtin_kernels.REPLACED_KERNELS

def arguments_of(op):
    return valid_calls.finite_arguments(op, "float32", (3, 5), seed=1)

def same_bits(op, arguments):
    results = [getattr(module, op)(**arguments) for module in (tf.raw_ops, tf_rnn_ops.raw_ops)]
    return [each.numpy().tobytes() for each in results[0]] == [each.numpy().tobytes() for each in results[1]]
"""


def run_with_replaced_kernels(code):
    """Runs code in a process of its own, because kernels cannot be restored."""
    forked.run_code(REPLACED + textwrap.dedent(code), **processes.WITH_TESTING)


def test_kernels_of_the_builtin_ops_are_replaced():
    run_with_replaced_kernels(
        """
        for _ in range(2):
            tf_rnn_ops.enable_builtin_kernels(replace=True)
            for op in OPS:
                assert same_bits(op, arguments_of(op)), op
        replaced = {each.op for each in kernels.get_all_registered_kernels().kernel if each.priority > 0}
        assert {op for op in replaced if op in tf_rnn_ops.raw_ops.__all__} == set(OPS)
        """
    )


@pytest.mark.parametrize("forget", ["keras.utils.clear_session()", "tf.random.set_seed(1)"])
def test_ops_that_ran_keep_their_kernels_until_tensorflow_forgets_them(forget):
    run_with_replaced_kernels(
        f"""
        import keras

        arguments = {{op: arguments_of(op) for op in OPS}}
        before = {{op: same_bits(op, each) for op, each in arguments.items()}}
        assert not all(before.values())
        tf_rnn_ops.enable_builtin_kernels(replace=True)
        assert {{op: same_bits(op, each) for op, each in arguments.items()}} == before
        {forget}
        assert all(same_bits(op, each) for op, each in arguments.items())
        """
    )


def test_replaced_kernels_reject_shapes_that_abort_tensorflow():
    """Some of these calls abort the process with TensorFlow's kernels."""
    run_with_replaced_kernels(
        """
        tf_rnn_ops.enable_builtin_kernels(replace=True)
        rejected = 0
        for op in OPS:
            right = arguments_of(op)
            for name, value in right.items():
                if not isinstance(value, np.ndarray):
                    continue
                for shape in ((), (0,), (1,), (2, 2), (0, 0), (1, 1, 1, 1)):
                    try:
                        getattr(tf.raw_ops, op)(**right | {name: np.zeros(shape, value.dtype)})
                    except tf.errors.InvalidArgumentError as error:
                        assert " must " in str(error), error
                        rejected += 1
                    else:
                        assert shape == value.shape, (op, name, shape)
        assert rejected > 400, rejected
        """
    )


def test_gradients_of_the_builtin_lstms_are_replaced():
    run_with_replaced_kernels(
        """
        from checks import cells

        tf_rnn_ops.enable_builtin_kernels(replace=True)
        for name, cell in cells.CELLS.items():
            if name.startswith("GRU"):
                continue
            inputs = {key: tf.constant(each) for key, each in cell.inputs((2, 3, 4), "float32").items()}

            def gradients():
                with tf.GradientTape() as outer:
                    outer.watch(inputs)
                    with tf.GradientTape() as inner:
                        inner.watch(inputs)
                        loss = tf.add_n([tf.reduce_sum(tf.sin(each)) for each in cell.ours(*inputs.values())])
                    first = inner.gradient(loss, inputs)
                    value = tf.add_n([tf.reduce_sum(each**2) for each in first.values()])
                return first, outer.gradient(value, inputs, unconnected_gradients="zero")

            expected = gradients()
            raw_ops, tf_rnn_ops.raw_ops = tf_rnn_ops.raw_ops, tf.raw_ops
            actual = gradients()
            tf_rnn_ops.raw_ops = raw_ops
            for one, other in zip(tf.nest.flatten(actual), tf.nest.flatten(expected), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6, err_msg=name)
        """
    )


def test_nothing_is_replaced_if_tensorflow_sees_a_gpu():
    run_with_replaced_kernels(
        """
        import unittest.mock
        import warnings

        with unittest.mock.patch.object(tf.config, "get_visible_devices", lambda kind: [kind]):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                tf_rnn_ops.enable_builtin_kernels(replace=True)
        (warning,) = caught
        assert "replaces nothing, because TensorFlow sees a GPU" in str(warning.message)
        assert warning.filename == "<string>", warning.filename
        assert not all(same_bits(op, arguments_of(op)) for op in OPS)
        """
    )


@needs_xla
def test_the_builtin_ops_compile_with_xla():
    run_with_replaced_kernels(
        """
        tf_rnn_ops.enable_builtin_kernels()
        for op in OPS:
            arguments = {key: tf.constant(each) if isinstance(each, np.ndarray) else each
                         for key, each in arguments_of(op).items()}
            compiled = tf.function(lambda: getattr(tf.raw_ops, op)(**arguments), jit_compile=True)()
            for one, other in zip(compiled, getattr(tf_rnn_ops.raw_ops, op)(**arguments), strict=True):
                assert one.numpy().tobytes() == other.numpy().tobytes(), op
        """
    )


# ---------------------------------------------------------------- inference graphs with is_training=True


def reserve_space_bytes(fetch_reserve_space: bool, dropout: float, num_layers: int) -> int:
    """Runs a graph and returns the size of the reserve_space of its op in bytes."""
    config = Config(num_layers=num_layers, num_units=5, input_size=3, time=4, batch=3, dropout=dropout)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        arguments = cudnn_rnn_inputs.forward_arguments(config, cudnn_rnn_inputs.network_inputs(config), "V2")
        outputs = tf.raw_ops.CudnnRNNV2(**arguments, name="network")
        fetched = [outputs.output, *([outputs.reserve_space] if fetch_reserve_space else [])]
        options = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE)
        metadata = tf.compat.v1.RunMetadata()
        session.run(fetched, options=options, run_metadata=metadata)
    (node,) = (
        node
        for device in metadata.step_stats.dev_stats
        for node in device.node_stats
        if node.node_name.endswith("network")
    )
    (reserve_space,) = (each.tensor_description for each in node.output if each.slot == 3)
    return reserve_space.allocation_description.requested_bytes


@pytest.mark.not_xla("in a graph that is not compiled, each op is in a separate function")
def test_reserve_space_is_empty_without_a_gradient():
    """Keras's graphs for GPUs always have is_training=True."""
    assert reserve_space_bytes(True, dropout=0.0, num_layers=2) > 0
    assert reserve_space_bytes(False, dropout=0.0, num_layers=2) == 0
    assert reserve_space_bytes(False, dropout=0.5, num_layers=1) == 0
    assert reserve_space_bytes(False, dropout=0.5, num_layers=2) > 0  # dropout is applied
