"""Models and graphs that were built for a GPU, run on a CPU."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from checks.cudnn_rnn import reference_gradients
from checks.op_definitions import ops_of
from environment import forked, pages
from inputs import cudnn_rnn as cudnn_rnn_inputs
from inputs.cudnn_rnn import INPUTS, MODES, VERSIONS, Config
from inputs.gru_block_cell import float64
from references import cudnn_rnn as cudnn_rnn_reference
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
from tensorflow.python.saved_model.loader_impl import parse_saved_model

# The beginning of a program that loads files written by this process.
SERVER = """
import pathlib
import sys
import numpy as np
import tensorflow as tf
import tf_rnn_ops
folder = pathlib.Path(sys.argv[1])
"""


def saved_graph(folder) -> tf.compat.v1.GraphDef:
    return parse_saved_model(str(folder)).meta_graphs[0].graph_def


# ---------------------------------------------------------------- SavedModels of Keras 3


@contextlib.contextmanager
def keras_that_sees_a_gpu():
    """Makes Keras build graphs as on a machine with a GPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules["keras.src.backend.tensorflow.rnn"], "_is_gpu_available", lambda: True)
        yield


TIME, FEATURES = 7, 3
LENGTHS = (7, 3, 5, 1)
WRAPPERS = {
    "plain": lambda layer: layer,
    "backwards": lambda layer: type(layer).from_config({**layer.get_config(), "go_backwards": True}),
    "bidirectional": keras.layers.Bidirectional,
}
KERAS_MODELS = [(kind, wrapper) for kind in ("LSTM", "GRU") for wrapper in WRAPPERS]


def keras_model(kind: str, wrapper: str) -> keras.Model:
    """Returns a model of two recurrent layers under a right-padded mask, from [batch, time, features] to [batch, 1]."""
    layer = getattr(keras.layers, kind)
    inputs = keras.Input([TIME, FEATURES])
    hidden = keras.layers.Masking()(inputs)
    hidden = WRAPPERS[wrapper](layer(8, return_sequences=True))(hidden)
    # Keras's GPU implementation outputs zeros for masked steps. The next layer must not depend on them.
    hidden = WRAPPERS[wrapper](layer(8))(hidden)
    return keras.Model(inputs, keras.layers.Dense(1)(hidden))


def sequences() -> np.ndarray:
    """Returns sequences of equal lengths, [batch, time, features]."""
    return np.random.default_rng(1).standard_normal([len(LENGTHS), TIME, FEATURES]).astype("float32")


def padded_sequences() -> np.ndarray:
    """Returns sequences of different lengths, [batch, time, features]."""
    return sequences() * (np.arange(TIME) < np.array(LENGTHS)[:, None])[..., None]


def randomize(model, seed=0):
    rng = np.random.default_rng(seed)
    model.set_weights([rng.standard_normal(each.shape) / 2 for each in model.get_weights()])


def output_and_gradients(model, x):
    """Returns a model's output and the gradients of its mean square with respect to its weights."""
    with tf.GradientTape() as tape:
        output = model(x)
        loss = tf.reduce_mean(output**2)
    variables = tape.watched_variables()
    return [output, *tape.gradient(loss, variables)]


@pytest.mark.slow
def test_a_saved_model_of_keras_is_served_and_trained(tmp_path):
    x = padded_sequences()
    np.save(tmp_path / "x.npy", x)
    expected = {}
    for kind, wrapper in KERAS_MODELS:
        model, name = keras_model(kind, wrapper), f"{kind}-{wrapper}"
        randomize(model)
        expected[name] = output_and_gradients(model, x)
        with keras_that_sees_a_gpu():
            written_on_gpu = keras.models.clone_model(model)
            written_on_gpu.set_weights(model.get_weights())
            written_on_gpu.export(tmp_path / name, verbose=False)
        assert "CudnnRNNV3" in ops_of(saved_graph(tmp_path / name))
    names = " ".join(expected)
    forked.run_code(
        SERVER
        + """
x = tf.constant(np.load(folder / "x.npy"))
models = {name: tf.saved_model.load(folder / name) for name in sys.argv[2:]}
for name, model in models.items():
    try:
        model.serve(x)
    except tf.errors.OpError as error:
        assert "CudnnRNNV3" in str(error), error
    else:
        raise AssertionError(f"{name} ran without a GPU")
tf_rnn_ops.enable_builtin_kernels()
for name, model in models.items():
    with tf.GradientTape() as tape:
        output = model.serve(x)
        loss = tf.reduce_mean(output**2)
    gradients = tape.gradient(loss, model.trainable_variables)
    np.savez(folder / f"{name}.npz", output, *gradients)
""",
        str(tmp_path),
        *names.split(),
    )
    for name, arrays in expected.items():
        with np.load(tmp_path / f"{name}.npz") as actual:
            assert len(actual.files) == len(arrays)
            for key, array in zip(actual.files, arrays, strict=True):
                assert parity.difference(actual[key], array) < 1e-5, f"{name}: {key}"


# ---------------------------------------------------------------- graphs of TensorFlow 1


LEARNING_RATE = 0.01
STEPS = 3
TF1_NETWORKS = [(mode, version) for mode in MODES for version in VERSIONS]


def tf1_config(mode: str) -> Config:
    """A bidirectional network with two layers, as built by tf.contrib: time-major, with one opaque variable."""
    return Config(rnn_mode=mode, direction="bidirectional", num_layers=2, num_units=6, input_size=5, time=4, batch=3)


def write_tf1_graph(config: Config, version: str, inputs, path) -> None:
    """Writes a graph that computes a loss of a network and takes a step of gradient descent on it.

    As in tf.contrib, the graph converts params to canonical weights and back to initialize its variable.
    """
    sizes = {name: getattr(config, name) for name in ("num_layers", "num_units", "input_size")}
    options = {name: getattr(config, name) for name in ("rnn_mode", "direction")}
    with tf.Graph().as_default() as graph:
        count = 2 * config.num_gates * config.num_pseudo_layers
        size = tf.raw_ops.CudnnRNNParamsSize(**sizes, **options, T=tf.float64, S=tf.int32)
        with tf.control_dependencies([tf.compat.v1.assert_equal(size, inputs["params"].shape)]):
            given = tf.identity(tf.constant(inputs["params"]))
        canonical = tf.raw_ops.CudnnRNNParamsToCanonical(**sizes, **options, params=given, num_params=count)
        initial = tf.raw_ops.CudnnRNNCanonicalToParams(
            **sizes, **options, weights=canonical.weights, biases=canonical.biases
        )
        with tf.compat.v1.variable_scope("cudnn_rnn", use_resource=False):
            params = tf.compat.v1.get_variable(
                "opaque_kernel", initializer=tf.ensure_shape(initial, inputs["params"].shape), validate_shape=False
            )
        tensors = {**{name: tf.constant(inputs[name]) for name in INPUTS}, "params": params}
        op = getattr(tf.raw_ops, f"CudnnRNN{version}")
        outputs = op(**cudnn_rnn_inputs.forward_arguments(config, tensors, version))
        loss = tf.reduce_sum(outputs.output**2, name="loss") / 2
        loss = tf.identity(loss, name="half_loss")
        (gradient,) = tf.gradients(loss, [params])
        tf.compat.v1.assign_sub(params, LEARNING_RATE * gradient, name="step")
        tf.group(tf.compat.v1.global_variables_initializer(), name="initialize")
    path.write_bytes(graph.as_graph_def().SerializeToString())


def expected_losses(config: Config, inputs) -> list[float]:
    """Returns the losses of gradient descent, from the float64 reference."""
    params, losses = inputs["params"].copy(), []
    for _ in range(STEPS):
        run = cudnn_rnn_reference.forward(config, **{**inputs, "params": params})
        losses.append(np.sum(run.output**2) / 2)
        states = {f"{name}_backprop": np.zeros_like(getattr(run, name)) for name in ("output_h", "output_c")}
        gradients = {"output_backprop": run.output, **states}
        params -= (
            LEARNING_RATE * reference_gradients(config, run, {**inputs, "params": params}, gradients).params_backprop
        )
    return losses


def test_a_tf1_graph_continues_training(tmp_path):
    expected = {}
    for mode, version in TF1_NETWORKS:
        config, name = tf1_config(mode), f"{mode}{version}"
        inputs = cudnn_rnn_inputs.network_inputs(config)
        write_tf1_graph(config, version, inputs, tmp_path / f"{name}.pb")
        expected[name] = expected_losses(config, inputs)
    printed = forked.run_code(
        SERVER
        + f"""
tf_rnn_ops.enable_builtin_kernels()
tf = tf.compat.v1
for path in folder.glob("*.pb"):
    graph_def = tf.GraphDef.FromString(path.read_bytes())
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(graph_def, name="")
        session.run("initialize")
        losses = []
        for _ in range({STEPS}):
            losses.append(session.run("half_loss:0"))
            session.run("step:0")
    print(path.stem, *losses)
""",
        str(tmp_path),
    )
    actual = {name: [float(loss) for loss in losses] for name, *losses in map(str.split, printed.splitlines())}
    assert actual.keys() == expected.keys()
    for name, losses in expected.items():
        np.testing.assert_allclose(actual[name], losses, rtol=1e-12, err_msg=name)
        assert losses[-1] < losses[0]


def test_soft_placement_ignores_a_gpu_in_a_graph(tmp_path):
    forked.run_code(
        SERVER
        + """
tf_rnn_ops.enable_builtin_kernels()
arguments = dict(input=tf.ones([5, 2, 3]), input_h=tf.zeros([1, 2, 4]), input_c=tf.zeros([1, 2, 4]))
with tf.Graph().as_default() as graph, tf.device("/device:GPU:0"):
    inputs = {name: tf.ones(value.shape) for name, value in arguments.items()}
    tf.identity(tf.raw_ops.CudnnRNN(**inputs, params=tf.ones([144])).output, name="output")
graph_def = graph.as_graph_def()
assert any("GPU" in node.device for node in graph_def.node if node.op == "CudnnRNN")
with tf.Graph().as_default():
    (output,) = tf.import_graph_def(graph_def, return_elements=["output:0"])
    config = tf.compat.v1.ConfigProto(allow_soft_placement=True)
    with tf.compat.v1.Session(config=config) as session:
        assert session.run(output).shape == (5, 2, 4)
""",
        str(tmp_path),
    )


# ---------------------------------------------------------------- SavedModels of tf.keras, Keras 2


@pytest.mark.slow
def test_a_saved_model_of_tf_keras_keeps_working(tmp_path):
    """The model contains its layers twice, for CPUs and GPUs. The device selects one at run time."""
    tf_keras = pytest.importorskip("tf_keras")
    np.savez(tmp_path / "x.npz", full=sequences(), padded=padded_sequences())
    inputs = tf_keras.Input([TIME, FEATURES])
    hidden = tf_keras.layers.Masking()(inputs)
    hidden = tf_keras.layers.Bidirectional(tf_keras.layers.LSTM(8, return_sequences=True))(hidden)
    hidden = tf_keras.layers.GRU(8)(hidden)
    model = tf_keras.Model(inputs, tf_keras.layers.Dense(1)(hidden))
    randomize(model)
    expected = [model(padded_sequences()), *output_and_gradients(model, sequences())]
    tf.saved_model.save(model, tmp_path / "model")
    assert "CudnnRNNV3" in ops_of(saved_graph(tmp_path / "model"))
    # Called as a function, a loaded model ignores masks, with or without these kernels. Its signature uses them.
    forked.run_code(
        SERVER
        + """
tf_rnn_ops.enable_builtin_kernels()
x = {name: tf.constant(value) for name, value in np.load(folder / "x.npz").items()}
model = tf.saved_model.load(folder / "model")
served = model.signatures["serving_default"](x["padded"])
with tf.GradientTape() as tape:
    output = model(x["full"], training=True)
    loss = tf.reduce_mean(output**2)
gradients = tape.gradient(loss, model.trainable_variables)
np.savez(folder / "actual.npz", *served.values(), output, *gradients)
""",
        str(tmp_path),
    )
    with np.load(tmp_path / "actual.npz") as actual:
        for key, array in zip(actual.files, expected, strict=True):
            assert parity.difference(actual[key], array) < 1e-5, key


def transpose_gates(kernel, num_gates):
    """Converts a kernel of a CuDNN layer, whose gates are stored as [units, fan_in], to the layout of LSTM and GRU."""
    gates = [each.reshape(each.shape[::-1]).T for each in np.split(kernel, num_gates, axis=1)]
    return np.concatenate(gates, axis=1)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_a_frozen_graph_of_keras_2_cudnn_layers(kind, tmp_path):
    tf_keras = pytest.importorskip("tf_keras")
    layers_v1 = pytest.importorskip("tf_keras.api._v1.keras.layers")
    x = padded_sequences()
    for_cpus = tf_keras.layers.GRU(8, reset_after=True) if kind == "GRU" else tf_keras.layers.LSTM(8)
    for_gpus = getattr(layers_v1, f"CuDNN{kind}")(8)
    for_gpus.build((None, None, FEATURES))
    randomize(for_gpus)
    *kernels, bias = for_gpus.get_weights()
    kernel, recurrent_kernel = (transpose_gates(each, num_gates=3 if kind == "GRU" else 4) for each in kernels)
    bias = bias.reshape(2, -1)  # cuDNN has two biases, Keras's LSTM has their sum
    for_cpus.build((None, None, FEATURES))
    for_cpus.set_weights([kernel, recurrent_kernel, bias if kind == "GRU" else bias.sum(axis=0)])
    expected = for_cpus(x)

    function = tf.function(for_gpus, input_signature=[tf.TensorSpec([None, None, FEATURES], name="x")])
    frozen = convert_variables_to_constants_v2(function.get_concrete_function())
    assert "CudnnRNNV3" in ops_of(frozen.graph.as_graph_def())
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "frozen.pb").write_bytes(frozen.graph.as_graph_def().SerializeToString())
    forked.run_code(
        SERVER
        + """
tf_rnn_ops.enable_builtin_kernels()
graph_def = tf.compat.v1.GraphDef.FromString((folder / "frozen.pb").read_bytes())
with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    (output,) = tf.import_graph_def(graph_def, return_elements=[sys.argv[2]], name="")
    np.save(folder / "output.npy", session.run(output, {"x:0": np.load(folder / "x.npy")}))
""",
        str(tmp_path),
        frozen.outputs[0].name,
    )
    assert parity.difference(np.load(tmp_path / "output.npy"), expected) < 1e-5


# ---------------------------------------------------------------- the shell commands in docs/guides/gpu_graph.md


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_the_page_runs_a_graph_without_python(tmp_path):
    config = Config(num_units=4, input_size=3, time=5, batch=2)
    inputs = cudnn_rnn_inputs.network_inputs(config, "float32")
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [None, 2, 3], name="x")
        with tf.device("/device:GPU:0"):
            op = tf.raw_ops.CudnnRNN(**{**inputs, "input": x})
        tf.identity(op.output, name="y")
    examples = tmp_path / "examples"
    examples.mkdir()
    (examples / "graph.pb").write_bytes(graph.as_graph_def().SerializeToString())
    np.savetxt(examples / "numbers.txt", inputs["input"].ravel())
    shutil.copy(pages.ROOT / "examples" / "run_on_cpu.c", examples)

    commands = pages.code_of("docs/guides/gpu_graph.md", "sh")
    path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
    process = subprocess.run(
        ["bash", "-euc", commands],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-2000:]
    actual = np.array([float(line) for line in process.stdout.split()]).reshape(5, 2, 4)
    expected = cudnn_rnn_reference.forward(config, **float64(inputs)).output
    assert parity.difference(actual, expected) < 1e-5
