"""Tests of frozen functions with states, and of their streams."""

import concurrent.futures
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from checks.keras_layers import FEATURES, KERASES, data
from environment import process_resources

from tf_rnn_ops import FrozenFunction, _state_variables, accelerate_keras, freeze

pytestmark = pytest.mark.not_xla("functions run in the thread that calls them, without XLA", sure=False)

BLOCK, UNITS = 3, 4
BLOCKS = [data(1, BLOCK, FEATURES, seed=i, dtype="float32") for i in range(4)]
OTHER_BLOCKS = [data(1, BLOCK, FEATURES, seed=10 + i, dtype="float32") for i in range(4)]


def make_model(package=keras):
    layers = package.layers
    model = package.Sequential(
        [
            package.Input(batch_shape=[1, BLOCK, FEATURES])
            if package is keras
            else layers.InputLayer(batch_input_shape=[1, BLOCK, FEATURES]),
            layers.LSTM(UNITS, return_sequences=True, stateful=True),
            layers.Bidirectional(layers.GRU(UNITS, return_sequences=True, stateful=True)),
            layers.SimpleRNN(UNITS, stateful=True, dropout=0.5),
            layers.Dense(2),
        ]
    )
    model.build([1, BLOCK, FEATURES])
    return model


def reset(model):
    for layer in model.layers:
        for each in (layer, getattr(layer, "forward_layer", None), getattr(layer, "backward_layer", None)):
            if getattr(each, "stateful", False) and hasattr(each, "states"):
                (each.reset_states if hasattr(each, "reset_states") else each.reset_state)()


def check(actual, expected):
    assert parity.difference(actual, expected) < 1e-5


@pytest.fixture(scope="module")
def model():
    return make_model()


@pytest.fixture
def serve(model):
    return freeze(model)


def outputs_of(model, blocks):
    """Returns the outputs of a model for blocks of one sequence."""
    reset(model)
    return [np.asarray(model(each)) for each in blocks]


@pytest.mark.parametrize("package", KERASES)
def test_blocks_of_streams_equal_those_of_the_model(package, only_executes):
    model = make_model(package)
    expected, others = (outputs_of(model, blocks) for blocks in (BLOCKS, OTHER_BLOCKS))
    serve = freeze(model)  # although the states of the model are not zero
    of_model = [np.asarray(each) for each in model.variables]
    stream, other = serve.stream(), serve.stream()
    for i, (y, z) in enumerate(zip(expected, others, strict=True)):
        check(stream(BLOCKS[i]), y)
        check(other(OTHER_BLOCKS[i]), z)
        check(serve(BLOCKS[i]), y)
    stream.reset()
    other.states = stream.states
    for i, y in enumerate(expected):
        check(stream(BLOCKS[i]), y)
        check(other(BLOCKS[i]), y)
    assert all(np.array_equal(*each) for each in zip(of_model, model.variables, strict=True))
    assert [each.shape.as_list() for each in serve.states if each.dtype == tf.float32] == [[1, UNITS]] * 5


def model_with_states(in_dictionaries, batch=None):
    """Returns a model that takes and returns its states."""
    x = keras.Input([None, FEATURES], batch, name="x")
    h, c, g = (keras.Input([UNITS], batch, name=name) for name in ("h", "c", "g-state"))
    y, *states = keras.layers.LSTM(UNITS, return_sequences=True, return_state=True)(x, initial_state=[h, c])
    y, state = keras.layers.GRU(UNITS, return_sequences=True, return_state=True)(y, initial_state=g)
    if in_dictionaries:
        outputs = {"y": y, "next h": states[0], "next c": states[1], "next g": state}
        return keras.Model({"x": x, "h": h, "c": c, "g-state": g}, outputs)
    return keras.Model([h, x, c, g], [states[0], y, states[1], state])


# By whether the model has dictionaries: the results that are the next states.
NEXT = {True: {"h": "next h", "c": "next c", "g-state": "next g"}, False: {"h": 0, "c": 2, "g-state": 3}}


@pytest.mark.parametrize("in_dictionaries", [True, False], ids=["dictionaries", "lists"])
@pytest.mark.parametrize("batch", [None, 1])
def test_states_that_are_inputs_and_outputs(in_dictionaries, batch, only_executes):
    model = model_with_states(in_dictionaries, batch)
    serve = freeze(model, states=NEXT[in_dictionaries])
    h, c, g = (tf.zeros([1, UNITS]) for _ in range(3))
    for block in map(tf.constant, BLOCKS):
        y = serve(x=block)
        if in_dictionaries:
            results = model({"x": block, "h": h, "c": c, "g-state": g})
            h, c, g = (results[f"next {name}"] for name in "hcg")
            assert list(y) == ["y"]
            check(y["y"], results["y"])
        else:
            h, expected, c, g = model([h, block, c, g])
            check(y, expected)
        check(tf.stack(serve.states), tf.stack([h, c, g]))


def test_states_of_other_batches():
    model = model_with_states(in_dictionaries=False)
    serve = freeze(model, states=NEXT[False])
    zeros = tf.zeros([2, UNITS])
    serve.states = [zeros] * 3
    x = tf.concat(BLOCKS[:2], 0)
    check(serve(x), model([zeros, x, zeros, zeros])[1])
    with pytest.raises(ValueError, match=rf"states\[1\] must have the shape \[None, {UNITS}\], but has \[2, 5\]"):
        serve.states = [zeros, tf.zeros([2, 5]), zeros]


def test_a_state_without_elements(model):
    with accelerate_keras():
        infer = tf.function(lambda x, empty: (model(x), tf.concat([empty, empty], 0)))
        function = infer.get_concrete_function(tf.TensorSpec(BLOCKS[0].shape), tf.TensorSpec([0]))
    serve = freeze(function, states={"empty": 1})
    serve(BLOCKS[0])
    assert 0 in [each.shape.num_elements() for each in serve.states]


def test_errors_of_states_that_are_inputs():
    model = model_with_states(False)
    for states, message in (
        ({"f": 0}, r"states must be inputs of the function, which are \['h', 'x', 'c', 'g-state'\], but 'f' is none"),
        ({"h": 4}, r"states must be results of the function, which are \[0, 1, 2, 3\], but 4 is none"),
    ):
        with pytest.raises(ValueError, match=message):
            freeze(model, states=states)


def test_states_go_on_where_they_were_read(serve, model):
    expected = outputs_of(model, BLOCKS)
    serve(BLOCKS[0])
    states, stream = serve.states, serve.stream()
    serve(OTHER_BLOCKS[0])
    stream.states = [np.asarray(each).tolist() for each in states]
    for i in (1, 2, 3):
        check(stream(BLOCKS[i]), expected[i])


def test_errors_of_states(serve):
    zeros = [tf.zeros_like(each) for each in serve.states]
    where = next(i for i, each in enumerate(zeros) if each.dtype == tf.float32)
    for change, kind, message in (
        (lambda: zeros[1:], ValueError, f"states must be a list of {len(zeros)}, but has {len(zeros) - 1}"),
        (
            lambda: [*zeros[:where], tf.zeros([2, UNITS]), *zeros[where + 1 :]],
            ValueError,
            rf"states\[{where}\] must have the shape \[1, {UNITS}\], but has \[2, {UNITS}\]",
        ),
        (lambda: [*zeros[:where], "a", *zeros[where + 1 :]], TypeError, rf"states\[{where}\] must be convertible"),
    ):
        with pytest.raises(kind, match=message):
            serve.states = change()
    with pytest.raises(ValueError, match="the function must have states, such as those of a layer with stateful=True"):
        freeze(keras.Sequential([keras.Input([BLOCK, FEATURES]), keras.layers.LSTM(2)])).stream()


def test_a_call_that_fails_changes_no_state(serve):
    serve(BLOCKS[0])
    before = serve.states
    with pytest.raises(ValueError, match="inputs must have the shape"):
        serve(BLOCKS[0][:, :, 1:])
    assert all(a is b for a, b in zip(before, serve.states, strict=True))


def test_variables_beside_a_loop_of_tensorflow_1_stay():
    """Its nodes form a cycle, which has no order."""
    graph = tf.compat.v1.GraphDef()
    for name, op, inputs in (
        ("handle", "Placeholder", []),
        ("read", "ReadVariableOp", ["handle"]),
        ("merge", "Merge", ["read", "next"]),
        ("next", "NextIteration", ["merge"]),
    ):
        graph.node.add(name=name, op=op, input=inputs)
    before = graph.SerializeToString()
    assert _state_variables.lift(graph, {"handle": tf.Variable(1.0)}) == {}
    assert graph.SerializeToString() == before


@pytest.mark.parametrize("autograph", [False, True])
def test_graphs_cannot_keep_states(serve, autograph):
    for call in (serve, lambda x: serve.batch([serve], x[tf.newaxis])):
        with pytest.raises(ValueError, match="a function with states must be called eagerly"):
            tf.function(lambda x: call(x), autograph=autograph)(tf.constant(BLOCKS[0]))  # noqa: B023


@pytest.mark.parametrize("weight_format", ["float32", "int8"])
def test_several_streams_at_once(model, weight_format, monkeypatch):
    serve = freeze(model, weight_format=weight_format)
    streams, alone = [serve, *(serve.stream() for _ in range(3))], [serve.stream() for _ in range(4)]
    for i, each in enumerate(streams):  # have different states
        for block in BLOCKS[:i]:
            check(each(block), alone[i](block))
    for x in (np.stack(BLOCKS), tf.stack(OTHER_BLOCKS)):
        actual = serve.batch(streams[::-1], x)
        monkeypatch.delattr(FrozenFunction, "_call_concrete", raising=False)  # what traces the first call
        check(actual, [each(block) for each, block in zip(alone[::-1], x, strict=True)])
    check(streams[2](BLOCKS[0]), alone[2](BLOCKS[0]))
    for count in (1, 2):
        check(
            streams[3].batch(streams[:count], inputs=x[:count]),
            [each(block) for each, block in zip(alone[:count], x[:count], strict=True)],
        )


def test_errors_of_several_streams(serve, model):
    x, stream = np.stack(BLOCKS[:2]), serve.stream()
    for streams, argument, message in (
        ([], x, "streams must be streams of this function, at least one"),
        ([serve, freeze(model)], x, "streams must be streams of this function"),
        ([stream, stream], x, "streams must differ, but some occur twice"),
        ([serve, stream], x[:1], r"inputs must have the shape \[2, 1, 3, 3\], but has \[1, 1, 3, 3\]"),
        ([serve, stream], x[..., :1], r"inputs must have the shape \[2, 1, 3, 3\], but has \[2, 1, 3, 1\]"),
    ):
        with pytest.raises(ValueError, match=message):
            serve.batch(streams, argument)


def test_states_are_inputs_and_outputs_of_a_saved_model(serve, model, tmp_path):
    expected = outputs_of(model, BLOCKS)
    states = {f"state{i}": each for i, each in enumerate(serve.states)}

    @tf.function
    def step(x, **states):
        y, after = serve.concrete_function(x, states=tuple(states.values()))
        return {"y": y, **dict(zip(states, after, strict=True))}

    specs = {name: tf.TensorSpec(each.shape, each.dtype) for name, each in states.items()}
    signature = step.get_concrete_function(tf.TensorSpec(BLOCKS[0].shape), **specs)
    tf.saved_model.save(tf.Module(), tmp_path, signatures=signature)
    loaded = tf.saved_model.load(tmp_path)
    for each, y in zip(BLOCKS, expected, strict=True):
        states = loaded.signatures["serving_default"](x=tf.constant(each), **states)
        check(states.pop("y"), y)


def test_gradients_of_a_block(serve, model):
    """The states before it are constants."""
    reset(model)
    gradients = []
    for function in (model, serve):
        function(BLOCKS[0])
        x = tf.constant(BLOCKS[1])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        gradients.append(tape.gradient(y, x))
    check(*gradients)
    check(serve(BLOCKS[2]), model(BLOCKS[2]))


def test_threads_that_share_a_stream_wait(serve, model):
    """Each block then sees the state after another one."""
    counts = tf.Variable(0)

    def infer(x):
        return model(x), counts.assign_add(1)

    with accelerate_keras():
        counted = freeze(tf.function(infer).get_concrete_function(tf.TensorSpec(BLOCKS[0].shape)))
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda _: int(counted(BLOCKS[0])[1]), range(400)))
    assert sorted(results) == list(range(1, 401))
    assert counts == 0


def swap(a, b):
    before = a + 0
    a.assign(b)
    b.assign(before)
    return a + 0, b + 0


# Functions of two variables.
ASSIGNMENTS = {
    "read before and after": lambda a, b: (a.read_value(), a.assign(2 * a).read_value(), a + 0),
    "twice": lambda a, b: (a.assign_add(b), a + 0, a.assign_sub(1)),
    "swap": swap,
    "only assigned": lambda a, b: (a.assign(b + 1), b.read_value()),
    "from each other": lambda a, b: (a.assign_add(b) + 0, b.assign_add(a) + 0, a.assign_sub(b) + 0),
}


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_assignments_equal_those_of_the_function(model, assignment):
    a, b = tf.Variable(3), tf.Variable(5)
    with accelerate_keras():
        infer = tf.function(lambda x: (model(x), *ASSIGNMENTS[assignment](a, b)))
        function = infer.get_concrete_function(tf.TensorSpec(BLOCKS[0].shape))
    serve = freeze(function)
    expected = [[int(each) for each in function(tf.constant(BLOCKS[0]))[1:]] for _ in range(3)]
    for _ in range(2):
        assert [[int(each) for each in serve(BLOCKS[0])[1:]] for _ in range(3)] == expected
        serve.reset()


def test_streams_need_memory_for_their_states_only(serve):
    stream = serve.stream()
    stream(BLOCKS[0])
    before = process_resources.memory()
    streams = [serve.stream() for _ in range(10_000)]
    assert process_resources.memory() - before < 10_000 * 2000
    for each in streams[:2]:
        check(each(BLOCKS[0]), serve.stream()(BLOCKS[0]))
    assert sys.getsizeof(streams[0].__dict__) < 2000
