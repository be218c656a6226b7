"""Tests of the ops through all entry points: graphs, saved models, tf.data, threads and instruction sets."""

from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from environment import processes
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


every_op = pytest.mark.parametrize("case", [gru_case(), lstm_case()], ids=lambda case: case.function)


def test_tf_function_with_unknown_shapes():
    names = list(cell_inputs((1, 1, 1)))

    @tf.function(input_signature=[tf.TensorSpec(None, tf.float64)] * len(names))
    def step(*inputs):
        return tf_rnn_ops.raw_ops.GRUBlockCell(**dict(zip(names, inputs, strict=True))).h

    for size in [(2, 3, 4), (5, 1, 2)]:
        inputs = cell_inputs(size)
        actual = step(*(tf.constant(value) for value in inputs.values()))
        assert parity.difference(actual, reference.gru_block_cell(**inputs).h) < 1e-12


@every_op
def test_a_tf1_graph_with_load_op_library(case, tmp_path):
    """Uses only TensorFlow and the path of the library, without importing the package."""
    np.savez(tmp_path / "inputs.npz", **case.inputs)
    printed = processes.run_code(
        """
        import sys
        import numpy as np
        import tensorflow.compat.v1 as tf
        tf.disable_v2_behavior()
        library = tf.load_op_library(sys.argv[1])
        inputs = np.load(sys.argv[2])
        placeholders = {name: tf.placeholder(tf.float64, name=name) for name in inputs}
        output = getattr(getattr(library, "tf_rnn_ops_" + sys.argv[3])(**placeholders), sys.argv[4])
        with tf.Session() as session:
            result = session.run(output, {placeholders[name]: inputs[name] for name in inputs})
        assert "tf_rnn_ops" not in sys.modules
        print(repr(result.tolist()))
        """,
        LIBRARY,
        str(tmp_path / "inputs.npz"),
        case.function,
        case.output,
    )
    assert parity.difference(np.array(eval(printed)), case.expected) < 1e-12


@every_op
def test_a_graph_def_runs_in_another_process(case, tmp_path):
    with tf.Graph().as_default() as graph:
        op = getattr(tf_rnn_ops._library.ops, "tf_rnn_ops_" + case.function)
        inputs = {name: tf.constant(value) for name, value in case.inputs.items()}
        tf.identity(getattr(op(**inputs), case.output), name="output")
    (tmp_path / "graph.pb").write_bytes(graph.as_graph_def().SerializeToString())
    printed = processes.run_code(
        """
        import sys
        import tensorflow as tf
        import tf_rnn_ops
        graph_def = tf.compat.v1.GraphDef.FromString(open(sys.argv[1], "rb").read())
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            (output,) = tf.import_graph_def(graph_def, return_elements=["output:0"])
            print(repr(session.run(output).tolist()))
        """,
        str(tmp_path / "graph.pb"),
    )
    assert parity.difference(np.array(eval(printed)), case.expected) < 1e-12


LAYERS = {
    "GRUBlockCell": lambda: keras.layers.RNN(tf_rnn_ops.layers.GRUBlockCell(8, kernel_regularizer="l2")),
    "CudnnRNN": lambda: tf_rnn_ops.layers.CudnnLSTM(8, num_layers=2, direction="bidirectional", dropout=0.1),
}


def trained_model(layer):
    inputs = keras.Input([None, 3])
    model = keras.Model(inputs, keras.layers.Dense(1)(LAYERS[layer]()(inputs)))
    model.compile("adam", "mse")
    rng = np.random.default_rng(0)
    model.fit(rng.standard_normal([16, 5, 3]), rng.standard_normal([16, 1]), verbose=0)
    return model


SERVE = """
import sys
import numpy as np
import tensorflow as tf
import tf_rnn_ops
tf.config.experimental.enable_tensor_float_32_execution(False)
x = np.load(sys.argv[2])
"""


@pytest.mark.parametrize(
    ("save", "serve"),
    [
        (
            lambda model, path: model.export(path, verbose=False),
            "model = tf.saved_model.load(sys.argv[1])\ny = model.serve(x)",
        ),
        pytest.param(
            lambda model, path: tf.saved_model.save(model, path),
            "model = tf.saved_model.load(sys.argv[1])\n"
            "y = model.signatures['serving_default'](tf.constant(x))['output_0']",
            marks=pytest.mark.slow,
        ),
        (
            lambda model, path: model.save(path + ".keras"),
            "import keras\ny = keras.models.load_model(sys.argv[1] + '.keras')(x)",
        ),
    ],
    ids=["export", "saved_model", "keras"],
)
@pytest.mark.parametrize("layer", LAYERS)
def test_a_saved_model_runs_in_another_process(tmp_path, save, serve, layer):
    model = trained_model(layer)
    x = np.random.default_rng(1).standard_normal([4, 9, 3]).astype("float32")
    np.save(tmp_path / "x.npy", x)
    save(model, str(tmp_path / "model"))
    code = f"{SERVE}\n{serve}\nprint(repr(y.numpy().tolist()))"
    printed = processes.run_code(code, str(tmp_path / "model"), str(tmp_path / "x.npy"))
    assert parity.difference(np.array(eval(printed)), model(x)) < 1e-6


def test_an_exported_model_has_gradients_in_another_process(tmp_path):
    model = trained_model("CudnnRNN")
    x = np.random.default_rng(1).standard_normal([4, 9, 3]).astype("float32")
    np.save(tmp_path / "x.npy", x)
    model.export(tmp_path / "model", verbose=False)
    code = """
x = tf.constant(x)
model = tf.saved_model.load(sys.argv[1])
with tf.GradientTape() as tape:
    tape.watch(x)
    y = model.serve(x)
print(repr(tape.gradient(y, x).numpy().tolist()))
"""
    printed = processes.run_code(SERVE + code, str(tmp_path / "model"), str(tmp_path / "x.npy"))
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = model(x)
    assert parity.difference(np.array(eval(printed)), tape.gradient(y, x)) < 1e-6


@pytest.mark.parametrize("layer", LAYERS)
def test_weights_round_trip(tmp_path, layer):
    model, other = trained_model(layer), trained_model(layer)
    model.save_weights(tmp_path / "model.weights.h5")
    other.set_weights([np.zeros_like(weight) for weight in other.get_weights()])
    other.load_weights(tmp_path / "model.weights.h5")
    for a, b in zip(model.get_weights(), other.get_weights(), strict=True):
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


@pytest.mark.parametrize("num_threads", [1, 2, 8])
def test_same_bits_for_any_number_of_threads(num_threads, tmp_path):
    inputs = cell_inputs((40, 70, 300), "float32")
    np.savez(tmp_path / "inputs.npz", **inputs)
    processes.run_code(
        """
        import sys
        import numpy as np
        import tensorflow as tf
        tf.config.threading.set_intra_op_parallelism_threads(int(sys.argv[1]))
        tf.config.threading.set_inter_op_parallelism_threads(1)
        import tf_rnn_ops
        inputs = {name: tf.constant(value) for name, value in np.load(sys.argv[2]).items()}
        step = tf_rnn_ops.raw_ops.GRUBlockCell(**inputs)
        grad = tf_rnn_ops.raw_ops.GRUBlockCellGrad(**inputs, r=step.r, u=step.u, c=step.c, d_h=step.h)
        np.savez(sys.argv[3], **{n: t.numpy() for n, t in {**step._asdict(), **grad._asdict()}.items()})
        """,
        str(num_threads),
        str(tmp_path / "inputs.npz"),
        str(tmp_path / "results.npz"),
        CUDA_VISIBLE_DEVICES="-1",
    )
    with tf.device("CPU:0"):
        step = tf_rnn_ops.raw_ops.GRUBlockCell(**inputs)
        grad = tf_rnn_ops.raw_ops.GRUBlockCellGrad(**inputs, r=step.r, u=step.u, c=step.c, d_h=step.h)
    results = np.load(tmp_path / "results.npz")
    for name, value in {**step._asdict(), **grad._asdict()}.items():
        np.testing.assert_array_equal(results[name], value.numpy())


@pytest.mark.parametrize("instruction_set", tf_rnn_ops._library.supported_instruction_sets())
def test_every_instruction_set_equals_the_reference(instruction_set, tmp_path):
    inputs = cell_inputs((5, 33, 70), "float32")
    np.savez(tmp_path / "inputs.npz", **inputs)
    printed = processes.run_code(
        """
        import sys
        import numpy as np
        import tf_rnn_ops
        assert tf_rnn_ops._library.active_instruction_set() == sys.argv[2]
        print(repr(tf_rnn_ops.raw_ops.GRUBlockCell(**np.load(sys.argv[1])).h.numpy().tolist()))
        """,
        str(tmp_path / "inputs.npz"),
        instruction_set,
        TF_RNN_OPS_ISA=instruction_set,
        CUDA_VISIBLE_DEVICES="-1",
    )
    assert parity.difference(np.array(eval(printed)), reference.gru_block_cell(**float64(inputs)).h) < 1e-5
