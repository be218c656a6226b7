"""Tests of every op with unaligned tensor inputs.

Memory from other libraries may be aligned only to the element size. Most of TensorFlow's tensor accessors, and most of
its own ops, abort on such tensors. XLA does not support them: it may crash, depending on the op and the CPU. So these
tests do not run with XLA.
"""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from checks import dropout as dropout_checks
from inputs import calls, valid_calls
from inputs.unaligned import ALIGNMENT, Unaligned, at_offset
from tensorflow.python.framework import kernels as kernel_registry
from tensorflow.python.framework import op_def_registry
from tensorflow.python.framework import ops as tf_ops

import tf_rnn_ops

tf_rnn_ops.enable_builtin_kernels()

OURS = "TfRnnOps>"
HALVES = (tf.float16, tf.bfloat16)
FLOATS = (tf.float32, tf.float64, *HALVES)


def names_of_kernels() -> list[str]:
    """Returns the names of ops with CPU kernels of ours: our own that compute, and TensorFlow's CudnnRNN ops."""
    kernels = kernel_registry.get_all_registered_kernels().kernel
    names = {each.op for each in kernels if each.device_type == "CPU"}
    calls_a_function = {f"{OURS}{name}" for name in ("FunctionCaller", "CallInThread")}
    return sorted(name for name in names - calls_a_function if name.startswith((OURS, "CudnnRNN")))


OPS = names_of_kernels()


def dtypes_of(name):
    """Returns the floating types that an op supports."""
    (attr,) = (each for each in op_def_registry.get(name).attr if each.name == "T")
    return [tf.as_dtype(each) for each in attr.allowed_values.list.type if tf.as_dtype(each) in FLOATS]


CASES = [pytest.param(name, dtype, id=f"{name}-{dtype.name}") for name in OPS for dtype in dtypes_of(name)]


def test_our_ops_and_tensorflows_are_found():
    ours = {name.removeprefix(OURS) for name in OPS if name.startswith(OURS)}
    assert ours == set(calls.OPS)
    assert {"CudnnRNNV3", "CudnnRNNBackpropV3", "CudnnRNNParamsToCanonicalV2"} <= set(OPS)
    assert all(set(dtypes_of(name)) == set(HALVES if "Mixed" in name else FLOATS) for name in OPS)


# ---------------------------------------------------------------- calls


def function_of(name):
    """Returns the Python function of an op."""
    if name.startswith(OURS):
        return getattr(tf_rnn_ops._library.ops, name.replace(">", "_"))
    return getattr(tf.raw_ops, name)


def draw(name, dtype, seed, largest=9):
    """Draws valid arguments of an op with finite values and sizes from 1 to `largest`."""
    arguments = valid_calls.finite_arguments(name.removeprefix(OURS), dtype.name, range(1, largest + 1), seed)
    return {**arguments, "is_training": True} if "is_training" in arguments else arguments


@pytest.mark.parametrize("dtype", ["int8", "int32", "float16", "float32", "float64"])
def test_tensors_have_the_requested_address(dtype):
    array = np.arange(5).astype(dtype)
    for offset in range(array.itemsize, ALIGNMENT, array.itemsize):
        lent = np.from_dlpack(at_offset(array, offset))
        assert lent.ctypes.data % ALIGNMENT == offset
        np.testing.assert_array_equal(lent, array)


def run(name, arguments, place):
    """Calls an op, with arrays converted to tensors by `place`, and returns its results."""
    dropout_checks.fresh_kernels()
    tensors = {key: calls.map_tensors(place, value) for key, value in arguments.items()}
    return tf.nest.flatten(function_of(name)(**tensors))


def contents(tensors):
    """Returns the bytes of tensors, for comparison; None stays None."""
    return [each if each is None else (each.shape, each.dtype, each.numpy().tobytes()) for each in tensors]


# ---------------------------------------------------------------- results


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_results_are_bitwise_equal(name, dtype):
    for seed, largest in ((0, 9), (1, 9), (2, 40)):
        arguments = draw(name, dtype, seed, largest)
        expected = run(name, arguments, tf.constant)
        assert contents(run(name, arguments, Unaligned())) == contents(expected)


@pytest.mark.parametrize("name", OPS)
def test_empty_tensors_may_have_any_address(name):
    """Even if they are not aligned to the element size."""

    def place(array):
        return at_offset(array, 1) if array.size == 0 else tf.constant(array)

    arguments = valid_calls.finite_arguments(name.removeprefix(OURS), "float32", (0,), seed=0)
    assert contents(run(name, arguments, place)) == contents(run(name, arguments, tf.constant))


@pytest.mark.parametrize("name", OPS)
def test_tensors_not_aligned_to_elements_are_rejected(name):
    """C++ allows such addresses only for bytes, of which a tensor of AlignTensor may consist."""
    names = [each.name for each in op_def_registry.get(name).input_arg if each.name not in ("host_reserved", "mask")]

    def can_be_misplaced(value):
        arrays = tf.nest.flatten(value)
        return arrays and all(np.size(each) > 0 and np.asarray(each).dtype != bool for each in arrays)

    drawn = (draw(name, tf.float32, seed) for seed in itertools.count())
    arguments = next(each for each in drawn if all(can_be_misplaced(each[name]) for name in names))
    for argument in names:
        misplaced = tf.nest.map_structure(lambda array: at_offset(array, 1), arguments[argument])
        message = rf"{argument}(\[\d+\])? must be aligned to \d bytes, .*, but its address modulo \d is 1"
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            run(name, {**arguments, argument: misplaced}, tf.constant)


# ---------------------------------------------------------------- gradients


def weights_of(tensors):
    """Returns random arrays in the shapes of tensors."""
    rng = np.random.default_rng(7)
    return [np.asarray(rng.standard_normal(each.shape), each.dtype.as_numpy_dtype) for each in tensors]


def some(tensors):
    """Returns the tensors that exist and are differentiable."""
    return [each for each in tensors if each is not None and each.dtype.is_floating]


def gradients(name, arguments, place):
    """Returns first-order and second-order gradients of an op with respect to each floating input."""
    sources = []

    def place_source(array):
        tensor = place(array)
        sources.append(tensor) if tensor.dtype.is_floating else None
        return tensor

    with tf.GradientTape() as outer, tf.GradientTape() as inner:
        tensors = {key: calls.map_tensors(place_source, value) for key, value in arguments.items()}
        outer.watch(sources)
        inner.watch(sources)
        results = some(tf.nest.flatten(function_of(name)(**tensors)))
        d_results = list(map(place, weights_of(results)))
        outer.watch(d_results)
        first = some(inner.gradient(results, sources, d_results))
    v = list(map(place, weights_of(first)))
    return [*first, *outer.gradient(first, [*sources, *d_results], v)]


def has_gradient(name):
    """Whether an op has a gradient."""
    return tf_ops.gradient_registry.lookup(name) is not None


def takes_long(name, dtype):
    """Whether gradients of an op are third-order or fourth-order gradients of a network, which run step by step."""
    return name.endswith("BackpropGrad") or ("Backprop" in name and dtype != tf.float32)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param(*each.values, id=each.id, marks=[pytest.mark.slow] if takes_long(*each.values) else [])
        for each in CASES
    ],
)
def test_gradients_are_bitwise_equal(name, dtype):
    if name.endswith("ParamsSize") or not has_gradient(name):
        pytest.skip("no gradient")
    arguments = draw(name, dtype, 1, 2)
    dropout_checks.fresh_kernels()
    expected = gradients(name, arguments, tf.constant)
    dropout_checks.fresh_kernels()
    assert contents(gradients(name, arguments, Unaligned())) == contents(expected)
    assert len(some(expected)) >= 2


# ---------------------------------------------------------------- conversions and layers


LAYOUT = tf_rnn_ops.params.layout("lstm", num_units=4, input_size=3)


def conversions():
    """Returns the conversions of weights, each as a function of `place`, which converts arrays to tensors."""
    rng = np.random.default_rng(0)
    params = rng.standard_normal(LAYOUT.size).astype(np.float32)
    parts = tf_rnn_ops.params.unpack(LAYOUT, params)
    keras_weights = tf_rnn_ops.params.to_keras(LAYOUT, params)
    return {
        "pack": lambda place: tf_rnn_ops.params.pack(LAYOUT, {name: place(part) for name, part in parts.items()}),
        "unpack": lambda place: list(tf_rnn_ops.params.unpack(LAYOUT, place(params)).values()),
        "from_keras": lambda place: tf_rnn_ops.params.from_keras(LAYOUT, map(place, keras_weights)),
        "to_keras": lambda place: tf_rnn_ops.params.to_keras(LAYOUT, place(params)),
    }


@pytest.mark.parametrize("name", conversions())
def test_weights_are_converted(name):
    convert = conversions()[name]
    assert contents(tf.nest.flatten(convert(Unaligned()))) == contents(tf.nest.flatten(convert(tf.constant)))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_a_layer_accepts_sequence_lengths(dtype):
    layer = tf_rnn_ops.layers.CudnnLSTM(4)
    x, lengths = np.random.default_rng(0).standard_normal([2, 5, 3]), np.array([3, 5], dtype)
    results = [
        layer(tf.constant(x, tf.float32), sequence_lengths=place(lengths)) for place in (tf.constant, Unaligned())
    ]
    assert contents(results[1:]) == contents(results[:1])


@pytest.mark.parametrize("argument", ["mask", "initial_state"])
def test_a_layer_accepts_masks_and_states_of_any_batch(argument):
    layer = tf_rnn_ops.layers.GRU(4)
    x = tf.constant(np.random.default_rng(0).standard_normal([2, 5, 3]), tf.float32)
    value = {"mask": np.arange(10).reshape(2, 5) % 3 > 0, "initial_state": np.ones([2, 4], np.float32)}[argument]
    signature = [tf.TensorSpec([None, None, 3]), tf.TensorSpec([None, *value.shape[1:]], value.dtype)]
    run = tf.function(lambda x, value: layer(x, **{argument: value}), input_signature=signature)
    results = [run(x, place(value)) for place in (tf.constant, Unaligned())]
    assert contents(results[1:]) == contents(results[:1])


def test_a_layer_with_given_params_can_be_trained():
    params = Unaligned()(np.zeros(LAYOUT.size, np.float32))
    layer = tf_rnn_ops.layers.CudnnLSTM.from_params(LAYOUT, params)
    layer.params.value.assign_add(tf.ones(LAYOUT.size))  # aborts if the variable uses the unaligned memory
    np.testing.assert_array_equal(layer.params, np.ones(LAYOUT.size))
