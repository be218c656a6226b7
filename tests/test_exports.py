"""Tests that exported models use the Keras implementation unless portable_exports is False."""

import contextlib
import functools
import gc
import sys
import threading
import types

import keras
import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from checks.keras_layers import FEATURES, KERAS, OURS, TIME, UNITS, data
from checks.op_definitions import ops_of, ops_when_called
from checks.saved_models import contains_op, serve
from environment import forked, processes
from inputs.pairs import every_pair
from tensorflow.python.saved_model import save_context

from tf_rnn_ops import accelerate_keras, portable
from tf_rnn_ops._keras import exports

# Layers of both: exports and converters treat them in the same way.
BOTH = {**KERAS, "GRU": OURS["GRU"]}
X = data(2, TIME, FEATURES, dtype="float32")
SIGNATURE = [tf.TensorSpec([None, None, FEATURES])]


def make_model(layers=KERAS, batch=None, **arguments):
    inputs = keras.Input(batch_shape=[batch, TIME if batch else None, FEATURES])
    hidden = keras.layers.Bidirectional(layers["LSTM"](UNITS, return_sequences=True, **arguments))(inputs)
    hidden = layers["GRU"](UNITS, return_sequences=True, **arguments)(hidden)
    return keras.Model(inputs, layers["SimpleRNN"](UNITS, **arguments)(hidden))


class UserFunctionModel(keras.Model):
    """A model whose call is a tf.function that was already traced with the signature of the export."""

    def __init__(self):
        super().__init__()
        self.recurrent = keras.layers.GRU(UNITS)

    @tf.function(input_signature=SIGNATURE)
    def call(self, x):
        return self.recurrent(x)


MODELS = {
    "Keras": make_model,
    "tf_rnn_ops.layers": functools.partial(make_model, OURS),
    "tf.function": UserFunctionModel,
}


def save_archive(model, path):
    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint("infer", functools.partial(model, training=False), SIGNATURE)
    archive.add_endpoint("call", model, SIGNATURE)
    archive.add_endpoint("train", lambda x: model(x, training=True), SIGNATURE)
    archive.write_out(path, verbose=False)


WAYS = {
    "Model.export": lambda model, path: model.export(path, verbose=False),
    "tf.saved_model.save": tf.saved_model.save,
    "ExportArchive": save_archive,
}


def check_saved(path, expected, has_op=False):
    """Checks whether a SavedModel contains the op, and its output for X."""
    assert contains_op(path) == has_op
    assert parity.difference(serve(path, X), expected) < 1e-5


PORTABLE, WITH_OP, IN_SCOPE = "portable", "with the op", "in a portable scope"


@pytest.mark.parametrize(("name", "way", "how"), every_pair(list(MODELS), list(WAYS), [PORTABLE, WITH_OP, IN_SCOPE]))
def test_a_saved_model_contains_the_op_on_request(name, way, how, tmp_path, runs):
    save = save_context.save_context
    with accelerate_keras(portable_exports=how == PORTABLE):
        model = MODELS[name]()
        count, expected = runs.during(model, X)
        assert count > 0
        with portable() if how == IN_SCOPE else contextlib.nullcontext():
            WAYS[way](model, tmp_path)
            ops = ops_when_called(lambda x: model(x), *SIGNATURE)
            assert ("TfRnnOps>KerasRNN" in ops) == (how != IN_SCOPE)
    check_saved(tmp_path, expected, has_op=how == WITH_OP)
    assert save_context.save_context is save
    assert not save_context.in_save_context()


LOAD = """
import sys
import numpy as np
import tensorflow as tf
model = tf.saved_model.load("{folder}/model")
(output,) = model.signatures["serving_default"](tf.constant(np.load("{folder}/x.npy"))).values()
assert "tf_rnn_ops" not in sys.modules
np.save("{folder}/output.npy", output)
"""
ATTRIBUTES = """
import importlib, sys, types
import keras, tensorflow as tf
import keras.src, tensorflow.python.saved_model.save_context

def state():
    found = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in ("keras", "tensorflow") or type(module) is not types.ModuleType:
            continue
        for key, value in list(vars(module).items()):
            found[name, key] = value
            if isinstance(value, type) and value.__module__.partition(".")[0] in ("keras", "tensorflow"):
                found.update(((value, each), vars(value)[each]) for each in list(vars(value)))
    return found

# Imports of modules add attributes, but must not replace any.
keras.export.ExportArchive()
before = state()
import tf_rnn_ops
after = state()
ignored = ("_abc_impl", "__doc__", "__annotations__", "__warningregistry__")
print([key for key, value in before.items() if key[1] not in ignored and after.get(key, state) is not value])
new = [key for key in after if key not in before and isinstance(key[0], type)]
print([key for key in new if key[0] in {owner for owner, _ in before}])
"""


def test_other_processes(tmp_path):
    """A saved model runs without tf_rnn_ops, whose import changes no attribute of Keras and TensorFlow."""
    with accelerate_keras():
        model = make_model()
        expected = model(X)
        model.export(tmp_path / "model", verbose=False)
    np.save(tmp_path / "x.npy", X)
    ended = forked.run_codes({"load": LOAD.replace("{folder}", str(tmp_path)), "attributes": ATTRIBUTES})
    assert ended["load"].status == 0, ended["load"].output
    assert parity.difference(np.load(tmp_path / "output.npy"), expected) < 1e-5
    assert ended["attributes"] == forked.Ended(0, "[]\n[]\n")


def test_our_layers_are_exported_without_an_acceleration(tmp_path, runs):
    model = make_model(OURS)
    count, expected = runs.during(model, X)
    assert count == 4
    model.export(tmp_path, verbose=False)
    check_saved(tmp_path, expected)
    assert runs.during(model, X)[0] == count


def test_exports_contain_the_op_while_any_acceleration_requests_it(tmp_path):
    model = make_model()
    with accelerate_keras(), accelerate_keras(portable_exports=False), accelerate_keras():
        model.export(tmp_path / "inner", verbose=False)
    with accelerate_keras():
        model.export(tmp_path / "after", verbose=False)
    assert contains_op(tmp_path / "inner")
    assert not contains_op(tmp_path / "after")


def test_another_thread_runs_on_the_op_during_an_export(tmp_path, runs):
    model, other = make_model(), keras.layers.GRU(UNITS)
    counts = []

    def serve(x):
        thread = threading.Thread(target=lambda: counts.append(runs.during(tf.function(other), X)[0]))
        thread.start()
        thread.join()
        return model(x)

    archive = keras.export.ExportArchive()
    archive.track(model)
    with accelerate_keras():
        archive.add_endpoint("serve", serve, SIGNATURE)
        archive.write_out(tmp_path, verbose=False)
    assert counts
    assert all(counts)
    assert not contains_op(tmp_path)


def test_functions_traced_before_an_export(tmp_path):
    """The export traces them again, except for concrete functions and endpoints."""
    module = tf.Module()
    module.layer = keras.layers.LSTM(UNITS)
    module.serve = tf.function(lambda x: module.layer(x))
    archive, other = keras.export.ExportArchive(), keras.export.ExportArchive()
    with accelerate_keras():
        concrete = module.serve.get_concrete_function(*SIGNATURE)
        archive.track(module.layer)
        archive.add_endpoint("serve", module.serve, SIGNATURE)
        archive.write_out(tmp_path / "archive", verbose=False)
        other.track(module.layer)
        other.add_endpoint("serve", module.serve)
        other.write_out(tmp_path / "archive of traced functions", verbose=False)
        tf.saved_model.save(module, tmp_path / "saved")
        tf.saved_model.save(module, tmp_path / "saved with a concrete function", signatures=concrete)
    assert {path.name: contains_op(path) for path in tmp_path.iterdir()} == {
        "archive": False,
        "archive of traced functions": True,
        "saved": False,
        "saved with a concrete function": True,
    }


def test_a_saved_model_without_the_op_has_gradients(tmp_path):
    model, x = make_model(), tf.constant(X)
    with accelerate_keras():
        model.export(tmp_path, verbose=False)
    loaded = tf.saved_model.load(tmp_path)

    def gradient(call):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.sin(call(x)))
        return tape.gradient(loss, x)

    assert parity.difference(gradient(loaded.serve), gradient(model)) < 1e-5


def test_an_export_logs_no_fallback(tmp_path, caplog):
    with accelerate_keras(strict=True):
        make_model().export(tmp_path, verbose=False)
    assert not contains_op(tmp_path)
    assert not [each for each in caplog.records if each.name == "tf_rnn_ops"]


@pytest.mark.parametrize("way", WAYS)
def test_strict_allows_exports_of_unsupported_layers(way, tmp_path):
    model = keras.Sequential([keras.Input([None, FEATURES]), keras.layers.LSTM(UNITS, activation="softmax")])
    expected = model(X)
    with accelerate_keras(strict=True):
        WAYS[way](model, tmp_path)
    assert parity.difference(serve(tmp_path, X), expected) < 1e-5


def test_a_saved_keras_file_is_the_same(tmp_path):
    model = make_model()
    model.save(tmp_path / "plain.keras")
    with accelerate_keras():
        model.save(tmp_path / "accelerated.keras")
        loaded = keras.models.load_model(tmp_path / "accelerated.keras")
    assert loaded.get_config() == keras.models.load_model(tmp_path / "plain.keras").get_config()
    assert [type(each) for each in loaded.layers] == [type(each) for each in model.layers]


def interpret(tflite_model, x):
    """Returns the output of a LiteRT model."""
    interpreter = tf.lite.Interpreter(model_content=tflite_model)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def convert(model, tmp_path):
    """Converts a model to LiteRT with TensorFlow's converter."""
    return tf.lite.TFLiteConverter.from_keras_model(model).convert()


def export(model, tmp_path):
    """Converts a model to LiteRT with the export method of Keras."""
    model.export(tmp_path / "model.tflite", format="litert", verbose=False)
    return (tmp_path / "model.tflite").read_bytes()


# The installed interpreter does not support the loop ops in Keras's export.
@pytest.mark.parametrize(("to_litert", "unroll"), [(convert, False), (convert, True), (export, True)])
def test_litert(to_litert, unroll, tmp_path):
    if to_litert is export and not hasattr(keras.src.export, "litert"):
        pytest.skip("this Keras version does not support the export")
    model = make_model(BOTH, batch=1, unroll=unroll)
    expected = model(X[:1])
    with accelerate_keras():
        converted = to_litert(model, tmp_path)
    assert parity.difference(interpret(converted, X[:1]), expected) < 1e-5


@pytest.fixture
def converted_functions(monkeypatch):
    """A fake tf2onnx that traces and records the functions that `from_function` would convert."""
    onnx = pytest.importorskip("keras.src.export.onnx")
    functions = []

    def from_function(function, input_signature, **_):
        functions.append(function.get_concrete_function(*input_signature))

    module = types.SimpleNamespace(convert=types.SimpleNamespace(from_function=from_function))
    monkeypatch.setattr(keras.src.utils.module_utils.tf2onnx, "module", module)
    monkeypatch.setattr(onnx, "patch_tf2onnx", lambda: None)
    return functions


@pytest.mark.parametrize("portable", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_onnx_export(name, portable, tmp_path, converted_functions):
    with accelerate_keras(portable_exports=portable):
        model = MODELS[name]()
        model(X)
        model.export(tmp_path / "model.onnx", format="onnx", verbose=False)
    (function,) = converted_functions
    ops = ops_of(function.graph.as_graph_def())
    assert ops.count("TfRnnOps>KerasRNN") == (0 if portable else 1 if name == "tf.function" else 4)
    assert ("While" in ops or "StatelessWhile" in ops) == portable


def test_tf2onnx_traces_the_keras_implementation():
    """Traces a model like tf2onnx.convert.from_keras."""
    from tensorflow.python.keras.saving import saving_utils

    model = make_model(BOTH)
    with accelerate_keras():
        function = saving_utils.trace_model_call(model, SIGNATURE).get_concrete_function()
        assert "TfRnnOps>KerasRNN" not in ops_of(function.graph.as_graph_def())
        assert "TfRnnOps>KerasRNN" in ops_when_called(model, *SIGNATURE)


def test_onnx_runtime_runs_an_exported_model(tmp_path):
    pytest.importorskip("tf2onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    model = make_model(BOTH)
    expected = model(X)
    with accelerate_keras():
        model.export(tmp_path / "model.onnx", format="onnx", verbose=False)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    (output,) = session.run(None, {session.get_inputs()[0].name: X})
    assert parity.difference(output, expected) < 1e-5


def archive_methods():
    """Returns the methods of all classes of an `ExportArchive`."""
    return [dict(vars(each)) for each in type(keras.export.ExportArchive()).__mro__]


def test_keras_is_restored_when_accelerations_and_our_layers_end():
    gc.collect()
    before = archive_methods()
    with accelerate_keras():
        assert archive_methods() != before
    assert archive_methods() == before
    layer = OURS["LSTM"](UNITS)
    with accelerate_keras(), portable():
        pass
    assert archive_methods() != before
    del layer
    gc.collect()
    assert archive_methods() == before


def test_results_of_casts_are_recognized():
    assert not exports._is_cast(tf.constant(1.0))
    with tf.Graph().as_default():
        weights = tf.compat.v1.placeholder(tf.float32)
        cast = tf.cast(weights, tf.float16)
        assert [exports._is_cast(each) for each in (weights, cast, tf.identity(cast))] == [False, True, True]


def test_exports_of_another_backend_stay():
    code = """
    import keras
    archive = type(keras.export.ExportArchive())
    methods = lambda: [dict(vars(each)) for each in archive.__mro__]
    before = methods()
    import tf_rnn_ops
    layer = tf_rnn_ops.layers.LSTM(3)
    print(methods() == before, keras.backend.backend())
    """
    assert processes.run_code(code, KERAS_BACKEND="numpy") == "True numpy\n"


def test_a_later_patch_of_an_archive_is_not_undone(monkeypatch):
    owner = next(each for each in type(keras.export.ExportArchive()).__mro__ if "add_endpoint" in vars(each))
    monkeypatch.setattr(owner, "add_endpoint", owner.add_endpoint)
    with accelerate_keras():
        patch = owner.add_endpoint = functools.partialmethod(owner.add_endpoint)
    assert vars(owner)["add_endpoint"] is patch


@pytest.mark.parametrize(("layers", "kind"), [(KERAS, "LSTM"), (OURS, "GRU")], ids=["Keras", "tf_rnn_ops.layers"])
def test_a_layer_with_use_cudnn_is_exported(layers, kind, tmp_path):
    layer = layers[kind](UNITS, use_cudnn=True)
    model = keras.Sequential([keras.Input([None, FEATURES]), keras.layers.Masking(), layer])
    with accelerate_keras(strict=True):
        expected = model(X)
        model.export(tmp_path, verbose=False)
    check_saved(tmp_path, expected)


@pytest.mark.parametrize(("name", "keep"), [*((name, False) for name in MODELS), ("tf.function", True)])
def test_functions_are_traced_again_in_a_portable_scope(name, keep, runs):
    model = MODELS[name]()
    with accelerate_keras(portable_exports=not keep):
        expected = model(X)
        function = tf.function(model)

        def ops():
            graph = function.get_concrete_function(*SIGNATURE).graph
            return ops_of(graph.as_graph_def())

        assert "TfRnnOps>KerasRNN" in ops()
        with portable(), portable():
            assert "TfRnnOps>KerasRNN" not in ops()
            assert parity.difference(function(X), expected) < 1e-5
            assert runs.during(model.predict, X, verbose=0)[0] == 0
        assert "TfRnnOps>KerasRNN" in ops()
        assert "TfRnnOps>KerasRNN" not in portable()(ops)()


def test_a_portable_scope_applies_to_one_thread():
    model, names = make_model(), []
    with accelerate_keras():
        model(X)
        with portable():
            thread = threading.Thread(target=lambda: names.extend(ops_when_called(model, *SIGNATURE)))
            thread.start()
            thread.join()
    assert "TfRnnOps>KerasRNN" in names


def test_a_concrete_function_is_converted_to_litert():
    model = make_model(BOTH, batch=1, unroll=True)
    with accelerate_keras(), portable():
        expected = model(X[:1])
        function = tf.function(model).get_concrete_function(tf.TensorSpec([1, TIME, FEATURES]))
        converted = tf.lite.TFLiteConverter.from_concrete_functions([function]).convert()
    assert parity.difference(interpret(converted, X[:1]), expected) < 1e-5


def test_tf2onnx_converts_a_function():
    tf2onnx = pytest.importorskip("tf2onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    model = make_model(BOTH)
    with accelerate_keras():
        expected = model(X)
        converted, _ = tf2onnx.convert.from_function(tf.function(model), SIGNATURE)
    session = onnxruntime.InferenceSession(converted.SerializeToString())
    (output,) = session.run(None, {session.get_inputs()[0].name: X})
    assert parity.difference(output, expected) < 1e-5


def test_openvino_converts_a_model():
    openvino = pytest.importorskip("openvino")
    model = make_model(BOTH)
    with accelerate_keras():
        expected = model(X)
        converted = openvino.convert_model(model, example_input=X)
    compiled = openvino.Core().compile_model(converted, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    assert parity.difference(compiled(X)[0], expected) < 1e-5


@pytest.mark.parametrize("converter", ["tf2onnx", "openvino"])
def test_a_converter_is_recognized_in_the_call_stack(converter, monkeypatch):
    module = types.ModuleType(f"{converter}.convert")
    exec("def trace(function, *signature): return function.get_concrete_function(*signature)", vars(module))
    monkeypatch.setitem(sys.modules, converter, module)
    model = make_model()
    with accelerate_keras():
        graph = module.trace(tf.function(model), *SIGNATURE).graph
        assert "TfRnnOps>KerasRNN" not in ops_of(graph.as_graph_def())
        assert "TfRnnOps>KerasRNN" in ops_when_called(model, *SIGNATURE)
