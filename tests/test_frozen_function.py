"""Tests of calls of the functions that `freeze` returns."""

import collections
import copy
import gc
import math
import os
import pickle
import signal
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf
from checks.keras_layers import FEATURES, TIME, data, needs_xla
from environment import forked, process_resources
from tensorflow.python.eager import cancellation  # only tf.distribute uses it publicly

from tf_rnn_ops import _frozen_function, accelerate_keras, freeze, layers
from tf_rnn_ops._library import ops

pytestmark = pytest.mark.not_xla("functions run in the thread that calls them, without XLA", sure=False)

X = data(3, TIME, FEATURES, dtype="float32")
SPEC = tf.TensorSpec([None, TIME, FEATURES])
Pair = collections.namedtuple("Pair", ["first", "second"])


@pytest.fixture(scope="module")
def layer():
    layer = layers.GRU(4)
    layer.build(X.shape)
    return layer


@pytest.fixture(scope="module")
def model():
    return keras.Sequential([keras.Input([None, FEATURES]), keras.layers.LSTM(4), keras.layers.Dense(2)])


@pytest.fixture
def calls_concrete(monkeypatch):
    """Makes all calls go to the concrete function, as with a TensorFlow that lacks private names."""
    monkeypatch.setattr(_frozen_function, "_HAS_NAMES", False)


def concrete(function, *args, **kwargs):
    with accelerate_keras():
        return tf.function(function).get_concrete_function(*args, **kwargs)


# Functions of a layer, what they are traced with, and calls that mean the same.
SIGNATURES = {
    "one tensor": (
        lambda layer: lambda x: layer(x),
        ([SPEC], {}),
        [([tf.constant(X)], {}), ([X], {}), ([X.astype("float64")], {}), ([], {"x": X.tolist()})],
    ),
    "two": (
        lambda layer: lambda x, scale: layer(x) * scale,
        ([SPEC, tf.TensorSpec([])], {}),
        [([X, 2.0], {}), ([X], {"scale": 2}), ([], {"scale": np.float64(2), "x": tf.Variable(X)})],
    ),
    "constants": (
        lambda layer: lambda x, negates=False, scale=1.0: -layer(x) if negates else layer(x) * scale,
        ([SPEC], {"negates": True}),
        [([tf.constant(X), True, 1.0], {}), ([X], {}), ([X, True], {}), ([X], {"scale": 1.0})],
    ),
    "nested": (
        lambda layer: lambda inputs: {"b": layer(inputs["x"]), "a": [None, {"c": inputs["more"][1] + 1}]},
        ([{"x": SPEC, "more": [tf.TensorSpec([]), tf.TensorSpec([2], tf.int32)]}], {}),
        [([{"more": [1, [2, 3]], "x": X}], {}), ([], {"inputs": {"x": X, "more": (np.float32(1), np.array([2, 3]))}})],
    ),
    "nested constants": (
        lambda layer: lambda x, scales=(1, 2), more={}: layer(x) * scales[1],
        ([SPEC], {}),
        [([tf.constant(X), (1, 2), {}], {}), ([X], {}), ([X], {"scales": [1, 2]})],
    ),
    "unusual names": (
        lambda layer: lambda self, args, nan=math.nan: layer(self) + args,
        ([SPEC, tf.TensorSpec([])], {}),
        [([tf.constant(X), 1.0], {"nan": math.nan}), ([], {"self": X, "args": 1})],
    ),
    "variables and lists of tensors": (
        lambda layer: lambda x, y: layer(x) + y,
        ([SPEC, tf.TensorSpec([2, 1, 4])], {}),
        [
            ([tf.constant(X[:1]), tf.ones([2, 1, 4])], {}),
            ([tf.Variable(X[:1]), [tf.ones([1, 4])] * 2], {}),
            ([keras.Variable(X[:1]), np.ones([2, 1, 4])], {}),
        ],
    ),
    "any number": (
        lambda layer: lambda x, *others, **more: Pair(layer(x) + sum(others), sum(more.values())),
        ([SPEC, tf.TensorSpec([]), tf.TensorSpec([])], {"z": tf.TensorSpec([]), "y": tf.TensorSpec([2])}),
        [([X, 1, 2], {"z": 3, "y": [4, 5]})],
    ),
    "any shape": (
        lambda layer: lambda x: layer(tf.ensure_shape(x, SPEC.shape)),
        ([tf.TensorSpec(None)], {}),
        [([X], {})],
    ),
    "other types": (
        lambda layer: lambda x, n, b: (layer(x), n + 1, tf.strings.length(b)),
        ([SPEC, tf.TensorSpec([], tf.bfloat16), tf.TensorSpec([None], tf.string)], {}),
        [([X, 2, ["a", "bc"]], {})],
    ),
    "ragged": (
        lambda layer: lambda x: {"y": layer(x.to_tensor(shape=[None, TIME, FEATURES])), "x": x},
        ([tf.RaggedTensorSpec([None, None, FEATURES], ragged_rank=1)], {}),
        [([tf.RaggedTensor.from_tensor(X, [6, 2, 3])], {})],
    ),
}


def check_equal(actual, expected):
    tf.nest.assert_same_structure(actual, expected, expand_composites=True)
    trees = (tf.nest.flatten(each, expand_composites=True) for each in (actual, expected))
    for ours, others in zip(*trees, strict=True):
        assert type(ours) is type(others)
        if ours is not None:
            np.testing.assert_allclose(tf.cast(ours, tf.float32), tf.cast(others, tf.float32), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("way", ["executed", "concrete"])
@pytest.mark.parametrize("signature", SIGNATURES)
def test_arguments_and_results(layer, signature, way, request):
    make, (args, kwargs), calls = SIGNATURES[signature]
    function = concrete(make(layer), *args, **kwargs)
    request.getfixturevalue("only_executes" if way == "executed" and signature != "ragged" else "calls_concrete")
    serve = freeze(function)
    expected = function(*calls[0][0], **calls[0][1])
    for args, kwargs in calls:
        check_equal(serve(*args, **kwargs), expected)


def test_a_model_of_one_input_in_a_list(only_executes):
    inputs = [keras.Input([None, FEATURES])]
    model = keras.Model(inputs, keras.layers.LSTM(4)(inputs[0]))
    serve = freeze(model)
    for each in (X, [X], (tf.constant(X),)):
        check_equal(serve(each), model([X]))


def test_a_loaded_signature_takes_arguments_by_position(layer, only_executes, tmp_path):
    function = concrete(lambda x, a: {"y": layer(x) + a}, SPEC, tf.TensorSpec([]))
    module = tf.Module()
    module.layer = layer
    tf.saved_model.save(module, tmp_path, signatures=function)
    loaded = tf.saved_model.load(tmp_path)
    serve = freeze(loaded.signatures["serving_default"])
    for args, kwargs in (([1, X], {}), ([1], {"x": X}), ([], {"x": X, "a": 1})):  # sorted by name
        check_equal(serve(*args, **kwargs), function(tf.constant(X), tf.constant(1.0)))


ERRORS = {
    "missing": ([], {}, TypeError, r"takes 2 arguments \(inputs, scale\), but inputs is missing"),
    "too many": ([{"x": X}, 1, 2], {}, TypeError, r"takes 2 arguments \(inputs, scale\), but got 3"),
    "unknown": ([{"x": X}], {"scales": 1}, TypeError, r"takes 2 arguments \(inputs, scale\), but got scales"),
    "twice": ([{"x": X}, 1], {"scale": 1}, TypeError, "scale was passed by position and by name"),
    "type of a tensor": (
        [{"x": tf.constant(X, tf.float64)}, 1],
        {},
        TypeError,
        r"inputs\['x'\] must have the type float32, but has float64",
    ),
    "not a tensor": ([{"x": X}, "a"], {}, TypeError, "scale must be convertible to float32, but: .*'a'"),
    "type of an array": ([{"x": X}, 1j], {}, TypeError, "scale must be convertible to float32, but: .*1j"),
    "ragged": ([{"x": [[1.0], [1.0, 2.0]]}, 1], {}, TypeError, r"inputs\['x'\] must be convertible to float32, but"),
    "rank": (
        [{"x": X[0]}, 1],
        {},
        ValueError,
        rf"inputs\['x'\] must have the shape \[None, {TIME}, {FEATURES}\], but has \[{TIME}, {FEATURES}\]",
    ),
    "size": ([{"x": X}, [1, 2]], {}, ValueError, r"scale must have the shape \[\], but has \[2\]"),
    "no dictionary": ([X, 1], {}, ValueError, r"inputs must be a dictionary with the keys \['x'\], but is a ndarray"),
    "other keys": ([{"y": X}, 1], {}, ValueError, r"inputs must be a .*, but has \['y'\]"),
}


@pytest.mark.parametrize("error", ERRORS)
def test_errors_name_the_argument(layer, error):
    serve = freeze(concrete(lambda inputs, scale: layer(inputs["x"]) * scale, {"x": SPEC}, tf.TensorSpec([])))
    args, kwargs, kind, message = ERRORS[error]
    with pytest.raises(kind, match=message):
        serve(*args, **kwargs)


def test_errors_of_lists_and_constants(layer):
    serve = freeze(concrete(lambda pair, negates: layer(pair[0]) * pair[1], [SPEC, tf.TensorSpec([])], negates=False))
    for args, message in (
        ([[X, 1], tf.ones([9])], "negates must be False, as when the function was made, but is a EagerTensor"),
        ([X], "pair must be a list of 2, but is a ndarray"),
        ([[X]], "pair must be a list of 2, but has 1"),
        ([[X, 1], True], "negates must be False, as when the function was made, but is True"),
    ):
        with pytest.raises(ValueError, match=message):
            serve(*args)


# ---------------------------------------------------------------- where TensorFlow does more than execute


@pytest.mark.parametrize("watches", [True, False], ids=["watched", "not watched"])
def test_gradients_of_the_inputs(model, watches):
    serve = freeze(model)
    results = []
    for function in (model, serve):
        x = tf.constant(X)
        with tf.GradientTape() as tape:
            tape.watch(x) if watches else None
            y = function(x)
        results.append([y, tape.gradient(y, x)])
    check_equal(*results)


@pytest.mark.parametrize("variable", [tf.Variable, keras.Variable])
def test_gradients_of_a_variable(model, variable):
    serve, x = freeze(model), variable(X)
    results = []
    for function in (model, serve):
        with tf.GradientTape() as tape:
            y = function(x)
        results.append([y, tape.gradient(y, x if variable is tf.Variable else x.value)])
    check_equal(*results)
    check_equal(tf.function(lambda: serve(x))(), results[0][0])
    check_equal(tf.function(lambda x: serve(tf.unstack(x)))(tf.constant(X)), results[0][0])


def test_a_forward_accumulator(model):
    x, tangents = tf.constant(X), tf.constant(data(*X.shape, seed=1, dtype="float32"))
    results = []
    for function in (model, freeze(model)):
        with tf.autodiff.ForwardAccumulator(x, tangents) as accumulator:
            y = function(x)
        results.append([y, accumulator.jvp(y)])
    check_equal(*results)


def test_calls_in_graphs(model):
    serve, x = freeze(model), tf.constant(X)
    inputs = tf.data.Dataset.from_tensor_slices(X).batch(3)
    for actual in (
        tf.function(serve)(x),
        tf.function(lambda x: serve(inputs=x))(x),
        tf.squeeze(tf.vectorized_map(lambda x: serve(x[tf.newaxis]), x), 1),
        next(iter(inputs.map(serve))),
    ):
        check_equal(actual, model(x))


@needs_xla
def test_calls_that_xla_compiles(model):
    serve = freeze(model)
    check_equal(tf.function(lambda x: serve(x), jit_compile=True)(tf.constant(X)), model(X))


SCOPES = {
    "device": lambda: tf.device("CPU:0"),
    "strategy": lambda: tf.distribute.OneDeviceStrategy("CPU:0").scope(),
    "init": tf.init_scope,
    "control dependencies": lambda: tf.control_dependencies([]),
    "name": lambda: tf.name_scope("name"),
}


@pytest.mark.parametrize("scope", SCOPES)
def test_calls_in_a_scope(model, scope):
    serve = freeze(model)
    with SCOPES[scope]():
        check_equal(serve(X), model(X))


def test_calls_by_a_strategy(model):
    serve = freeze(model)
    check_equal(tf.distribute.OneDeviceStrategy("CPU:0").run(serve, (tf.constant(X),)), model(X))


def test_numerics_are_checked(model):
    """TensorFlow calls back after each op that Python executes."""
    serve = freeze(model)
    tf.debugging.enable_check_numerics()
    try:
        check_equal(serve(X), model(X))
        with pytest.raises(tf.errors.InvalidArgumentError, match="NaN"):
            serve(np.full_like(X, np.nan))
    finally:
        tf.debugging.disable_check_numerics()


def test_a_call_can_be_cancelled(model):
    queue = tf.queue.FIFOQueue(1, [tf.float32])
    serve = freeze(concrete(lambda x: model(x) + queue.dequeue(), SPEC))
    manager = cancellation.CancellationManager()
    threading.Timer(0.3, manager.start_cancel).start()
    with cancellation.CancellationManagerContext(manager), pytest.raises(tf.errors.CancelledError):
        serve(X)
    queue.enqueue(1.0)
    check_equal(serve(X), model(X) + 1)


def test_ctrl_c_in_python_code(model):
    """Sets a handler: processes that a shell starts in the background ignore Ctrl-C."""
    seen = threading.Event()

    def interrupted():
        os.kill(os.getpid(), signal.SIGINT)
        return 1.0

    serve = freeze(concrete(lambda x: model(x) + tf.py_function(interrupted, [], tf.float32), SPEC))
    before = signal.signal(signal.SIGINT, lambda *_: seen.set())
    try:
        check_equal(serve(X), model(X) + 1)
        assert seen.wait(10)
    finally:
        signal.signal(signal.SIGINT, before)


def test_resources_of_another_device():
    result = forked.run(
        """
import keras, numpy as np, tensorflow as tf, tf_rnn_ops
(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
layer = tf_rnn_ops.layers.LSTM(4)
layer.build([3, 5, 2])
with tf.device("CPU:1"):
    keys = tf.lookup.KeyValueTensorInitializer([0, 1], [2.0, 3.0])
    table = tf.lookup.StaticHashTable(keys, 0.0)
    total = tf.Variable(tf.zeros([3, 4]))
def infer(x):
    total.assign_add(layer(x))
    return total * table.lookup(tf.constant(1))
x = tf.constant(np.random.default_rng(0).standard_normal([3, 5, 2]), tf.float32)
serve = tf_rnn_ops.freeze(tf.function(infer).get_concrete_function(x))
for i in (1, 2):
    np.testing.assert_allclose(serve(x), 3 * i * layer(x), rtol=1e-5, atol=1e-6)
"""
    )
    assert result.status == 0, result.output


# ---------------------------------------------------------------- memory, threads, processes


def test_results_do_not_share_memory_with_arrays(layer, only_executes):
    serve = freeze(concrete(lambda x: (x, layer(x)), SPEC))
    x = X.copy()
    same, _ = serve(x)
    x[:] = 0
    np.testing.assert_array_equal(same, X)


def test_a_function_outlives_its_model(only_executes):
    model = keras.Sequential([keras.Input([None, FEATURES]), keras.layers.LSTM(4)])
    serve, expected = freeze(model), model(X)
    del model
    keras.backend.clear_session()
    gc.collect()
    check_equal(serve(X), expected)


def test_threads_call_at_the_same_time(model, only_executes):
    serve = freeze(model)
    inputs = [data(1 + i, TIME, FEATURES, seed=i, dtype="float32") for i in range(8)]
    expected, failures = [model(x) for x in inputs], []

    def call(x, y):
        for _ in range(50):
            try:
                check_equal(serve(x), y)
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=call, args=each) for each in zip(inputs, expected, strict=True)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failures


MODEL = """
import os, signal, keras, numpy as np, tensorflow as tf, tf_rnn_ops
model = keras.Sequential([keras.Input([None, 3]), keras.layers.LSTM(4)])
serve, x = tf_rnn_ops.freeze(model), np.ones([2, 5, 3], "float32")
expected = model(x).numpy()
"""


def test_a_function_outlives_a_reset_of_tensorflow():
    result = forked.run(
        MODEL
        + """
from tensorflow.python.eager import context
context._reset_context()
np.testing.assert_allclose(serve(x), expected, rtol=1e-5)
np.testing.assert_allclose(serve(tf.constant(x)), expected, rtol=1e-5)
"""
    )
    assert result.status == 0, result.output


def test_a_forked_process_gets_an_error():
    """Without it, the call would not return: the threads of TensorFlow are not in the fork."""
    result = forked.run(
        MODEL
        + """
serve(x)
child = os.fork()
if child == 0:
    signal.alarm(60)
    try:
        serve(x)
    except RuntimeError as error:
        os._exit(10 if "forked" in str(error) and "spawn" in str(error) else 11)
    os._exit(12)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 10
np.testing.assert_allclose(serve(x), expected, rtol=1e-5)
"""
    )
    assert result.status == 0, result.output


@pytest.mark.parametrize("do", [pickle.dumps, copy.copy, copy.deepcopy])
def test_copies_say_what_to_do_instead(model, do):
    with pytest.raises(TypeError, match="cannot be pickled or copied: save it with"):
        do(freeze(model))


def test_a_function_keeps_no_others(layer):
    """Of models that were frozen before, whose constants take 32 MiB each."""
    small, used = [], []
    for _ in range(4):
        matrix = tf.Variable(tf.random.uniform([2_000_000, 4]))
        for infer in (lambda x: layer(x) + tf.reduce_sum(matrix, 0), layer):  # noqa: B023
            serve = freeze(concrete(lambda x: infer(x), SPEC))  # noqa: B023
            serve(X)
        small.append(serve)
        used.append(process_resources.memory())
    assert used[-1] - used[1] < 2**25


@pytest.mark.slow
def test_a_million_calls_need_no_memory(model, only_executes):
    serve, x = freeze(model), tf.constant(X)
    used = []
    for _ in range(10):
        for _ in range(50_000):
            serve(x)
            serve(X)
        used.append(process_resources.memory())
    assert used[-1] - used[1] < 2**20


# ---------------------------------------------------------------- the ops


def test_the_ops_reject_what_is_not_a_function():
    for no_function in ("no_function", ["", ""]):
        with pytest.raises(tf.errors.InvalidArgumentError, match="function must be one serialized FunctionDef"):
            ops.tf_rnn_ops_function_caller(no_function, [])
    variable = tf.Variable(1.0)
    for other in (variable.handle, tf.stack([variable.handle] * 2)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="caller must be the result of a FunctionCaller"):
            ops.tf_rnn_ops_call_in_thread(other, [], [])


def test_the_op_checks_arguments_and_results():
    function = tf.function(lambda x, y: (x + 1, y)).get_concrete_function(
        tf.TensorSpec([None, 2]), tf.TensorSpec([], tf.int32)
    )
    caller = ops.tf_rnn_ops_function_caller(function.function_def.SerializeToString(), [[None, 2], []])
    x, y, types = tf.ones([3, 2]), tf.constant(4), [tf.float32, tf.int32]
    first, second = ops.tf_rnn_ops_call_in_thread(caller, [x, y], types)
    assert np.all(first == 2)
    assert second == 4
    for arguments, results, message in (
        ([x], types, "the function takes 2 arguments, but got 1"),
        ([x, y, y], types, "the function takes 2 arguments, but got 3"),
        ([tf.ones([3, 3]), y], types, r"arguments\[0\] must have the shape \[\?,2\], but has \[3,3\]"),
        ([x, x[0, 0]], types, "Expects arg.1. to be int32 but float is provided"),
        ([x, y], types[:1], "Tout must have 2 types, but has 1"),
        ([x, y], types[::-1], r"Tout\[0\] must be float"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            ops.tf_rnn_ops_call_in_thread(caller, arguments, results)
