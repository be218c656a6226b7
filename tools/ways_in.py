"""Prints what the ways in from Python cost, as JSON. Run by tools/costs.py."""

import collections
import itertools
import json
import os
import pathlib
import re
import sys
import tempfile
from collections.abc import Callable
from typing import Any
from unittest import mock

os.environ |= {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}

import keras
import numpy as np
import tensorflow as tf

before = set(sys.modules)
import tf_rnn_ops  # noqa: E402

CALLS = 100


def modules() -> dict[str, int]:
    """Returns the modules that the package imports besides TensorFlow and Keras, by their first names."""
    # TensorFlow names the module with the functions of an op library by a hash.
    names = (re.sub("^[0-9a-f]{40}$", "load_op_library", name.partition(".")[0]) for name in set(sys.modules) - before)
    return dict(sorted(collections.Counter(names).items()))


def libraries() -> dict[str, int]:
    """Returns the bytes of each library."""
    folder = pathlib.Path(tf_rnn_ops.__file__).parent
    return {str(path.relative_to(folder)): path.stat().st_size for path in sorted(folder.rglob("*.so"))}


def ways_in() -> tuple[dict[str, Callable[[], Any]], dict[str, Any]]:
    """Returns a call of each way in, and the concrete functions of some, by name."""
    tf_rnn_ops.accelerate_keras(exports="float32")
    model = keras.Sequential([keras.Input([None, 8]), keras.layers.LSTM(16), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    array = np.ones([2, 5, 8], np.float32)  # [batch, time, features]
    x, y = tf.constant(array), np.ones([2, 1], np.float32)
    with tempfile.TemporaryDirectory() as folder:
        model.export(folder, verbose=False)
        loaded = tf.saved_model.load(folder)
    signature = loaded.signatures["serving_default"]
    (name,) = signature.structured_input_signature[1]
    function, frozen = tf.function(model), tf_rnn_ops.freeze(model)
    layout = tf_rnn_ops.params.layout("lstm", num_units=16, input_size=8)
    weights, state = tf.Variable(tf.ones([layout.size])), tf.zeros([1, 5, 16])

    def forward() -> tf.Tensor:
        return tf_rnn_ops.raw_ops.CudnnRNN(input=x, input_h=state, input_c=state, params=weights).output

    def gradient() -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(forward())
        return tape.gradient(loss, weights)

    calls: dict[str, Callable[[], Any]] = {
        "model(x)": lambda: model(x),
        "model.predict_on_batch": lambda: model.predict_on_batch(array),
        "model.train_on_batch": lambda: model.train_on_batch(array, y),
        "tf.function(model)": lambda: function(x),
        "signature": lambda: signature(**{name: x}),
        "freeze": lambda: frozen(x),
        "freeze, NumPy array": lambda: frozen(array),
        "freeze, concrete_function": lambda: frozen.concrete_function(x),
        "raw_ops.CudnnRNN": forward,
        "raw_ops.CudnnRNN and its gradient": gradient,
    }
    functions = {
        "tf.function(model)": function.get_concrete_function(x),
        "signature": signature,
        "freeze": frozen.concrete_function,
    }
    return calls, functions


def python_functions(call: Callable[[], Any]) -> dict[str, int]:
    """Returns the calls of Python functions in a call, by their modules."""
    counts: collections.Counter[str] = collections.Counter()

    def profile(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            counts[pathlib.Path(frame.f_code.co_filename).stem] += 1

    sys.setprofile(profile)
    call()
    sys.setprofile(None)
    return dict(sorted(counts.items()))


def graphs(call: Callable[[], Any]) -> int:
    """Returns the graphs that `CALLS` calls make."""
    original = tf.__internal__.FuncGraph.__init__
    with mock.patch.object(tf.__internal__.FuncGraph, "__init__", autospec=True, side_effect=original) as made:
        for _ in range(CALLS):
            call()
    return made.call_count


def nodes(function: Any) -> dict[str, int]:
    """Returns the nodes of a concrete function and of the functions that it calls, by op."""
    graph = function.graph.as_graph_def()
    called = (each.node_def for each in graph.library.function)
    return dict(sorted(collections.Counter(each.op for each in itertools.chain(graph.node, *called)).items()))


def main() -> None:
    """Prints the counts."""
    counts = {"modules": modules(), "bytes of libraries": libraries()}
    calls, functions = ways_in()
    for name, call in calls.items():
        for _ in range(3):  # trace, and find what later calls reuse
            call()
        counts[f"Python functions: {name}"] = python_functions(call)
        counts[f"graphs made by {CALLS} calls: {name}"] = {"graphs": graphs(call)}
    counts |= {f"nodes: {name}": nodes(function) for name, function in functions.items()}
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
