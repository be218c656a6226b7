"""Tests of the ops through all entry points: graphs, saved models, tf.data, threads and instruction sets."""

import functools
import textwrap
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from environment import forked
from inputs.cudnn_rnn import network_inputs
from inputs.gru_block_cell import cell_inputs, float64
from references import cudnn_rnn as cudnn_rnn_reference
from references import gru_block_cell as reference
from references.cudnn_rnn import Config

import tf_rnn_ops

LIBRARY = str(tf_rnn_ops._library.LIBRARY_PATH)


class OpCase(NamedTuple):
    """An op: its function in the library, its inputs, and the name and expected value of one output."""

    function: str
    inputs: dict[str, np.ndarray]
    output: str
    expected: np.ndarray


def gru_case() -> OpCase:
    inputs = cell_inputs((2, 3, 4))
    return OpCase("gru_block_cell", inputs, "h", reference.gru_block_cell(**inputs).h)


def lstm_case() -> OpCase:
    inputs = network_inputs(Config())
    return OpCase("cudnn_rnn", inputs, "output", cudnn_rnn_reference.forward(Config(), **inputs).output)


def test_tf_function_with_unknown_shapes():
    names = list(cell_inputs((1, 1, 1)))

    @tf.function(input_signature=[tf.TensorSpec(None, tf.float64)] * len(names))
    def step(*inputs):
        return tf_rnn_ops.raw_ops.GRUBlockCell(**dict(zip(names, inputs, strict=True))).h

    for size in [(2, 3, 4), (5, 1, 2)]:
        inputs = cell_inputs(size)
        actual = step(*(tf.constant(value) for value in inputs.values()))
        assert parity.difference(actual, reference.gru_block_cell(**inputs).h) < 1e-12


# Computes the results in a Python that imports TensorFlow and maybe not the package.
TF1_GRAPH = """
    import tensorflow.compat.v1 as tf
    tf.disable_v2_behavior()
    library = tf.load_op_library({library!r})
    placeholders = {{name: tf.placeholder(tf.float64, name=name) for name in inputs}}
    output = library.tf_rnn_ops_{case.function}(**placeholders).{case.output}
    with tf.Session() as session:
        result = session.run(output, {{placeholders[name]: inputs[name] for name in inputs}})
    assert "tf_rnn_ops" not in sys.modules
"""
GRAPH_DEF = """
    import tensorflow as tf, tf_rnn_ops
    graph_def = tf.compat.v1.GraphDef.FromString(open({path!r}, "rb").read())
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        (output,) = tf.import_graph_def(graph_def, return_elements=["output:0"])
        result = session.run(output)
"""


def run_codes(folder, codes):
    """Runs code in separate processes.

    Args:
      folder: folder for temporary files.
      codes: by name, inputs and code that computes the array `result`, or a dict of arrays of that name.

    Returns:
      The results by name.
    """
    whole = {}
    for number, (name, (inputs, code)) in enumerate(codes.items()):
        np.savez(folder / f"inputs{number}.npz", **inputs)
        begin = f"import os, sys, numpy as np\ninputs = dict(np.load('{folder}/inputs{number}.npz'))\n"
        end = f"np.savez('{folder}/{number}', **(result if isinstance(result, dict) else {{'': result}}))"
        whole[name] = f"{begin}{textwrap.dedent(code)}\n{end}"
    for name, each in forked.run_codes(whole, CUDA_VISIBLE_DEVICES="-1").items():
        assert each.status == 0, f"{name}: {each.output}"
    results = [dict(np.load(folder / f"{number}.npz")) for number in range(len(codes))]
    return dict(zip(codes, [each.get("", each) for each in results], strict=True))


def test_graphs_run_in_another_process(tmp_path):
    """A TF1 graph uses only TensorFlow and the path of the library, without importing the package."""
    codes, expected = {}, {}
    for case in (gru_case(), lstm_case()):
        with tf.Graph().as_default() as graph:
            op = getattr(tf_rnn_ops._library.ops, "tf_rnn_ops_" + case.function)
            inputs = {name: tf.constant(value) for name, value in case.inputs.items()}
            tf.identity(getattr(op(**inputs), case.output), name="output")
        path = tmp_path / f"{case.function}.pb"
        path.write_bytes(graph.as_graph_def().SerializeToString())
        codes[f"TF1 graph of {case.function}"] = case.inputs, TF1_GRAPH.format(library=LIBRARY, case=case)
        codes[f"GraphDef of {case.function}"] = {}, GRAPH_DEF.format(path=str(path))
        expected |= dict.fromkeys(list(codes)[-2:], case.expected)
    for name, actual in run_codes(tmp_path, codes).items():
        assert parity.difference(actual, expected[name]) < 1e-12, name


LAYERS = {
    "GRUBlockCell": lambda: keras.layers.RNN(tf_rnn_ops.layers.GRUBlockCell(8, kernel_regularizer="l2")),
    "LSTMBlockCell": lambda: keras.layers.RNN(tf_rnn_ops.layers.LSTMBlockCell(8, use_peephole=True)),
    "CudnnRNN": lambda: tf_rnn_ops.layers.CudnnLSTM(8, num_layers=2, direction="bidirectional", dropout=0.1),
}


@functools.cache
def trained_model(layer):
    inputs = keras.Input([None, 3])
    model = keras.Model(inputs, keras.layers.Dense(1)(LAYERS[layer]()(inputs)))
    model.compile("adam", "mse")
    rng = np.random.default_rng(0)
    model.fit(rng.standard_normal([16, 5, 3]), rng.standard_normal([16, 1]), verbose=0)
    return model


LOAD = "import keras, tensorflow as tf, tf_rnn_ops\nx = tf.constant(inputs['x'])\nmodel = {load}\n"
SERVE = LOAD + "result = {call}\n"
DIFFERENTIATE = (
    LOAD
    + """
with tf.GradientTape() as tape:
    tape.watch(x)
    y = {call}
result = tape.gradient(y, x)
"""
)
# How to save a model, and to load and call it.
FORMATS = {
    "export": (
        lambda model, path: model.export(path, verbose=False),
        "tf.saved_model.load({path!r})",
        "model.serve(x)",
    ),
    "saved_model": (
        lambda model, path: tf.saved_model.save(model, path),
        "tf.saved_model.load({path!r})",
        "model.signatures['serving_default'](x)['output_0']",
    ),
    "keras": (
        lambda model, path: model.save(path + ".keras"),
        "keras.models.load_model({path!r} + '.keras')",
        "model(x)",
    ),
}


def test_saved_models_run_and_have_gradients_in_another_process(tmp_path):
    x = np.random.default_rng(1).standard_normal([4, 9, 3]).astype("float32")
    codes, expected = {}, {}
    for layer in LAYERS:
        model, watched = trained_model(layer), tf.constant(x)
        with tf.GradientTape() as tape:
            tape.watch(watched)
            y = model(watched)
        gradient = tape.gradient(y, watched)
        for name, (save, load, call) in FORMATS.items():
            path = str(tmp_path / f"{layer}-{name}")
            save(model, path)
            for template, result in ((SERVE, y), (DIFFERENTIATE, gradient)):
                if template is SERVE or name == "export":
                    key = f"{path}, {'output' if template is SERVE else 'gradient'}"
                    codes[key] = {"x": x}, template.format(load=load.format(path=path), call=call)
                    expected[key] = result
    for name, actual in run_codes(tmp_path, codes).items():
        assert parity.difference(actual, expected[name]) < 1e-6, name


@pytest.mark.parametrize("layer", LAYERS)
def test_weights_round_trip(tmp_path, layer):
    model = trained_model(layer)
    weights = model.get_weights()
    model.save_weights(tmp_path / "model.weights.h5")
    model.set_weights([np.zeros_like(weight) for weight in weights])
    model.load_weights(tmp_path / "model.weights.h5")
    for a, b in zip(model.get_weights(), weights, strict=True):
        np.testing.assert_array_equal(a, b)


def test_inside_tf_data():
    """A map runs on threads of the pool, so an op that waits for another thread of the pool could deadlock."""
    inputs = {name: tf.constant(value) for name, value in cell_inputs((16, 60, 200), "float32").items()}
    with tf.device("CPU:0"):  # as in the map
        expected = tf_rnn_ops.raw_ops.GRUBlockCell(**inputs).h

    def step(_):
        return tf_rnn_ops.raw_ops.GRUBlockCell(**inputs).h

    dataset = tf.data.Dataset.range(64).map(step, num_parallel_calls=8)
    for h in dataset:
        np.testing.assert_array_equal(h.numpy(), expected.numpy())


RUN_CELL = """
    import tensorflow as tf
    os.environ |= {environment}
    tf.config.threading.set_intra_op_parallelism_threads({num_threads})
    tf.config.threading.set_inter_op_parallelism_threads(1)
    import tf_rnn_ops
    assert {environment}.get("TF_RNN_OPS_ISA") in (None, tf_rnn_ops._library.active_instruction_set())
    inputs = {{name: tf.constant(value) for name, value in inputs.items()}}
    step = tf_rnn_ops.raw_ops.GRUBlockCell(**inputs)
    grad = tf_rnn_ops.raw_ops.GRUBlockCellGrad(**inputs, r=step.r, u=step.u, c=step.c, d_h=step.h)
    result = {{name: each.numpy() for name, each in {{**step._asdict(), **grad._asdict()}}.items()}}
"""


def test_any_number_of_threads_and_every_instruction_set(tmp_path):
    """The same bits for any number of threads."""
    large, small = cell_inputs((40, 70, 300), "float32"), cell_inputs((5, 33, 70), "float32")
    instruction_sets = tf_rnn_ops._library.supported_instruction_sets()
    of_threads = {num: (large, RUN_CELL.format(environment={}, num_threads=num)) for num in (1, 2, 8)}
    of_sets = {
        name: (small, RUN_CELL.format(environment={"TF_RNN_OPS_ISA": name}, num_threads=2)) for name in instruction_sets
    }
    results = run_codes(tmp_path, {**of_threads, **of_sets})
    with tf.device("CPU:0"):
        step = tf_rnn_ops.raw_ops.GRUBlockCell(**large)
        grad = tf_rnn_ops.raw_ops.GRUBlockCellGrad(**large, r=step.r, u=step.u, c=step.c, d_h=step.h)
    for num_threads in of_threads:
        for name, value in {**step._asdict(), **grad._asdict()}.items():
            np.testing.assert_array_equal(results[num_threads][name], value.numpy())
    expected = reference.gru_block_cell(**float64(small)).h
    for instruction_set in of_sets:
        assert parity.difference(results[instruction_set]["h"], expected) < 1e-5, instruction_set
