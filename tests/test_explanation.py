"""Tests of explain, which reports the implementation of each recurrent layer."""

import functools

import keras
import pytest
import tensorflow as tf
from checks.keras_layers import BATCH, FEATURES, KERAS, KINDS, OURS, TIME, UNITS, data, needs_xla
from environment import processes
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import tf_rnn_ops
from tf_rnn_ops import _xla, accelerate_keras, explain

X = data(BATCH, TIME, FEATURES, dtype="float32")

CONFIGS = st.fixed_dictionaries(
    {
        "activation": st.sampled_from(["tanh", "relu", "gelu", "softmax", tf.tanh, abs, None]),
        "dropout": st.sampled_from([0, 0.1]),
        "recurrent_dropout": st.sampled_from([0, 0.1]),
        "unroll": st.booleans(),
        "dtype": st.sampled_from(["float32", "float64"]),
        "activity_regularizer": st.sampled_from([None, "l2"]),
    }
)
OF_GATES = {"recurrent_activation": st.sampled_from(["sigmoid", "hard_sigmoid"])}
OF_KINDS = {
    "LSTM": st.fixed_dictionaries(OF_GATES),
    "GRU": st.fixed_dictionaries({**OF_GATES, "reset_after": st.booleans()}),
    "SimpleRNN": st.just({}),
}


@pytest.mark.parametrize("layers", [KERAS, OURS], ids=["Keras", "tf_rnn_ops.layers"])
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=8, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(drawn=st.data())
def test_predicts_the_implementation(kind, layers, drawn):
    config = {**drawn.draw(CONFIGS), **drawn.draw(OF_KINDS[kind])}
    layer = layers[kind](UNITS, **config)
    with accelerate_keras():
        (row,) = explain(layer)
        for training, path in ((False, row.inference), (True, row.training)):
            call = tf.function(lambda x, training=training: layer(x, training=training))
            graph = call.get_concrete_function(tf.TensorSpec(X.shape)).graph
            assert ("TfRnnOps>KerasRNN" in [op.type for op in graph.get_operations()]) == (path == "op")
    assert (row.layer, row.kind) == (layer.name, kind)
    assert bool(row.reasons) == ("Keras" in (row.inference, row.training))


class CustomCell(keras.layers.Layer):
    """A custom cell."""

    state_size = output_size = UNITS

    def call(self, inputs, states):
        return states[0], states


def nested_model():
    inner = keras.Sequential(
        [
            keras.layers.GRU(UNITS, recurrent_dropout=0.2, return_sequences=True, name="gru"),
            keras.layers.SimpleRNN(UNITS, recurrent_dropout=0.2, name="simple"),
        ],
        name="inner",
    )
    shared = keras.layers.LSTM(UNITS, return_sequences=True, name="shared")
    inputs = keras.Input([None, FEATURES])
    hidden = keras.layers.Dense(UNITS)(inputs)
    hidden = shared(shared(hidden))
    hidden = keras.layers.Bidirectional(
        keras.layers.SimpleRNN(UNITS, activation="softmax", return_sequences=True, name="simple"), name="both"
    )(hidden)
    cells = [
        keras.layers.LSTMCell(UNITS, name="lstm_cell"),
        keras.layers.GRUCell(UNITS, reset_after=False, name="gru_cell"),
    ]
    hidden = keras.layers.RNN(cells, return_sequences=True, name="stack")(hidden)
    others = [keras.layers.LSTMCell(UNITS, name="lstm"), CustomCell()]
    hidden = keras.layers.RNN(others, return_sequences=True, name="other_stack")(hidden)
    hidden = keras.layers.RNN(keras.layers.GRUCell(UNITS), return_sequences=True, name="of_a_cell")(hidden)
    hidden = keras.layers.TimeDistributed(keras.layers.Dense(2), name="distributed")(hidden)
    return keras.Model(inputs, inner(hidden))


TABLE = """\
layer                 class      inference  training  why
shared                LSTM       op         op
both/forward_simple   SimpleRNN  Keras      Keras     1
both/backward_simple  SimpleRNN  Keras      Keras     1
stack                 RNN        op         op
other_stack           RNN        Keras      Keras     2
other_stack/lstm      LSTMCell   op         Keras     3
of_a_cell             RNN        op         op
inner/gru             GRU        op         op
inner/simple          SimpleRNN  op         op
1. activation='softmax': set it to one that docs/guides/keras.md lists, such as tanh
2. the cell is a CustomCell: use keras.layers.LSTMCell, GRUCell or SimpleRNNCell
3. the cell is called one step at a time: it runs on the op in inference, in eager mode or with a static batch of 1; \
pass it to keras.layers.RNN to run all steps at once
"""


def test_prints_a_table_of_nested_layers(capsys):
    with accelerate_keras():
        explanation = explain(nested_model())
    assert capsys.readouterr().out == TABLE
    assert f"{explanation}\n" == TABLE
    assert repr(explanation) == "<Explanation: 4 of 9 recurrent layers may fall back to Keras>"
    assert explanation[-1] == tf_rnn_ops.LayerExplanation(
        layer="inner/simple", kind="SimpleRNN", inference="op", training="op", reasons=()
    )


def test_all_reasons_of_a_layer_are_given():
    layer = keras.layers.GRU(UNITS, activation="softmax", recurrent_activation="softmax", dtype="float64")
    layer.cell.activity_regularizer = keras.regularizers.L2()
    (row,) = explain(layer)
    assert row.reasons == (
        "Keras is not accelerated: call tf_rnn_ops.accelerate_keras()",
        "activation='softmax': set it to one that docs/guides/keras.md lists, such as tanh",
        "recurrent_activation='softmax': set it to one that docs/guides/keras.md lists, such as tanh",
        "the cell has an activity_regularizer: pass it to the layer",
    )


class PlainCell:
    """A cell that is not a Keras layer."""

    state_size = output_size = UNITS

    def call(self, inputs, states):
        return states[0], states


GRU = keras.layers.GRUCell
OTHER_CELL = "the cell is a {}: use keras.layers.LSTMCell, GRUCell or SimpleRNNCell"
# Layers, each with the only reason why it falls back.
REASONS = [
    (
        lambda: keras.layers.SimpleRNN(UNITS, activation=keras.layers.LeakyReLU()),
        "activation='LeakyReLU': set it to one that docs/guides/keras.md lists, such as tanh",
    ),
    (lambda: keras.layers.RNN(CustomCell()), OTHER_CELL.format("CustomCell")),
    (lambda: keras.layers.RNN(PlainCell()), OTHER_CELL.format("PlainCell")),
    (lambda: keras.layers.RNN(type("Derived", (GRU,), {})(UNITS)), OTHER_CELL.format("Derived")),
    (
        lambda: keras.layers.RNN(GRU(UNITS, dtype="float64")),
        "the layer has dtype float32, but its cell float64: use the same dtype for both",
    ),
]


@pytest.mark.parametrize(("make", "reason"), REASONS)
def test_the_reason_of_a_layer(make, reason):
    with accelerate_keras():
        (row,) = explain(make())
    assert row.reasons == (reason,)


@pytest.mark.parametrize("name", ["GRUBlockCell", "LSTMBlockCell"])
def test_a_block_cell(name, caplog):
    layer = keras.layers.RNN(getattr(tf_rnn_ops.layers, name)(UNITS))
    with accelerate_keras(), caplog.at_level("INFO"):
        (row,) = explain(layer)
        layer(X)
    reason = f"the cell is a {name}: the loop of Keras runs, and each step is the op {name}"
    assert row.reasons == (reason,)
    (record,) = [each for each in caplog.records if each.name == "tf_rnn_ops"]
    assert record.levelname == "INFO"
    assert reason in record.getMessage()


def test_a_list_of_one_cell(runs):
    layer = keras.layers.RNN([keras.layers.LSTMCell(UNITS)])
    with accelerate_keras():
        row, cell = explain(layer)
        assert runs.during(layer, X)[0] >= TIME  # the cell runs the steps
    assert (row.inference, row.training) == ("Keras", "Keras")
    assert row.reasons == ("the layer has a list of one cell: pass the cell itself",)
    assert (cell.layer, cell.kind) == (f"{layer.name}/{layer.cell.cells[0].name}", "LSTMCell")
    assert (cell.inference, cell.training) == ("op", "Keras")


class CallsCells(keras.Model):
    """A model that calls cells itself."""

    def __init__(self):
        super().__init__()
        self.lstm = keras.layers.LSTMCell(UNITS, name="lstm")
        self.gru = keras.layers.GRUCell(UNITS, activation="softmax", name="gru")
        self.block = tf_rnn_ops.layers.LSTMBlockCell(UNITS, name="block")


def test_cells_that_a_model_calls_itself():
    model = CallsCells()
    assert {row.inference for row in explain(model)} == {"Keras", "op"}
    with accelerate_keras():
        rows = {row.layer: row for row in explain(model)}
        model.lstm.call = functools.partial(model.lstm.call)
        assert "cell.call is not Keras's own: remove what replaced it" in explain(model.lstm)[0].reasons
    assert {name: (row.inference, row.training) for name, row in rows.items()} == {
        "lstm": ("op", "Keras"),
        "gru": ("Keras", "Keras"),
        "block": ("op", "op"),
    }
    assert [reason[:20] for reason in rows["gru"].reasons] == ["activation='softmax'", "the cell is called o"]


def test_cudnn_layers():
    model = keras.Sequential([tf_rnn_ops.layers.CudnnLSTM(UNITS), tf_rnn_ops.layers.CudnnRNN(UNITS, "gru")])
    rows = explain(model)
    assert [(row.kind, row.inference, row.training, row.reasons) for row in rows] == [
        ("CudnnLSTM", "op", "op", ()),
        ("CudnnRNN", "op", "op", ()),
    ]


CONFIGURED_LATER = """
import keras
import tensorflow as tf
import tf_rnn_ops

tf_rnn_ops.accelerate_keras()
tf_rnn_ops.explain(keras.Sequential([keras.layers.RNN(tf_rnn_ops.layers.GRUBlockCell(2)), keras.layers.Dense(1)]))
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.set_soft_device_placement(True)
print(tf.config.threading.get_intra_op_parallelism_threads())
"""


def test_does_not_initialize_the_devices(tmp_path):
    (tmp_path / "program.py").write_text(CONFIGURED_LATER)
    assert processes.run_program(str(tmp_path / "program.py")).splitlines()[-1] == "1"


def test_without_acceleration():
    model = keras.Sequential([keras.layers.LSTM(UNITS), OURS["GRU"](UNITS)])
    keras_row, ours = explain(model)
    assert keras_row.reasons == ("Keras is not accelerated: call tf_rnn_ops.accelerate_keras()",)
    assert (keras_row.inference, keras_row.training) == ("Keras", "Keras")
    assert (ours.inference, ours.training) == ("op", "op")


def test_a_gpu(monkeypatch):
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind=None: ["a GPU"] if kind == "GPU" else [])
    with accelerate_keras():
        rows = explain(keras.Sequential([keras.layers.LSTM(UNITS), OURS["GRU"](UNITS)]))
    for row in rows:
        assert (row.inference, row.training) == ("Keras", "Keras")
        assert row.reasons[0].startswith("TensorFlow sees a GPU")


def test_another_backend(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    (row,) = explain(OURS["GRU"](UNITS))
    assert row.inference == "Keras"
    assert row.reasons == ("the Keras backend is jax: set KERAS_BACKEND=tensorflow before you import keras",)


@pytest.mark.parametrize("has_library", [pytest.param(True, marks=needs_xla), False])
def test_a_model_that_xla_compiles(has_library, runs, monkeypatch):
    if not has_library:
        monkeypatch.setattr(_xla, "_why_not_loaded", "no library")
    model = keras.Sequential([keras.layers.LSTM(UNITS)])
    model.compile("sgd", "mse", jit_compile=True)
    with accelerate_keras():
        (row,) = explain(model)
        assert bool(runs.during(lambda: model.predict(X, verbose=0))[0]) == (row.inference == "op") == has_library
    assert any("XLA compiles the layer" in reason for reason in row.reasons) == (not has_library)


def test_keras_2():
    tf_keras = pytest.importorskip("tf_keras")
    k = tf_keras.layers
    model = tf_keras.Sequential(
        [
            k.Bidirectional(k.LSTM(2, return_sequences=True)),
            k.GRU(2, reset_after=False, return_sequences=True),
            k.LSTM(2, activation="hard_sigmoid", recurrent_activation="hard_sigmoid"),
        ]
    )
    with accelerate_keras():
        rows = explain(model)
        (of_cell,) = explain(k.LSTMCell(2))
        stacked = explain(k.RNN([k.LSTMCell(2), k.GRUCell(2)]))
    assert [row.inference for row in rows] == [row.training for row in rows] == ["op", "op", "op", "Keras"]
    (reason,) = rows[-1].reasons
    assert reason.startswith("activation='hard_sigmoid': set it to one that")
    assert (of_cell.inference, of_cell.training) == ("op", "Keras")
    assert [(row.kind, row.inference, row.training) for row in stacked] == [("RNN", "op", "op")]
    assert all("Keras is not accelerated" in row.reasons[0] for row in explain(model))


@pytest.mark.parametrize("kind", ["ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"])
@pytest.mark.parametrize("package", ["keras", "tf_keras"])
def test_convolutional_layers(package, kind):
    layers = pytest.importorskip(package).layers
    (row,) = explain(layers.Bidirectional(getattr(layers, kind)(2, 3)).forward_layer)
    reason = "the layer is convolutional, and no op computes that: use convolutions in TimeDistributed and then an LSTM"
    assert (row.kind, row.inference, row.training, row.reasons) == (kind, "Keras", "Keras", (reason,))


def test_without_recurrent_layers(capsys):
    assert explain(keras.Sequential([keras.layers.Dense(1)])) == ()
    assert capsys.readouterr().out == "no recurrent layers or cells\n"


@pytest.mark.parametrize("model", [None, "model", keras.layers.LSTM])
def test_objects_that_are_not_models_are_rejected(model):
    with pytest.raises(TypeError, match="model must be a Keras model or layer, but is of type"):
        explain(model)
