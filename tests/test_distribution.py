"""Tests of training under TensorFlow's distribution strategies: the examples, and the layers in several replicas."""

import json
import pathlib
import re
import signal
import subprocess
import sys
import time

import keras
import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from environment import pages, processes

import tf_rnn_ops

EXAMPLES = pages.EXAMPLES / "distributed"
ERROR_OF_THE_MEAN = 1 / 6  # mean squared error of the constant prediction 1

NUM, BATCH, TIME, FEATURES, UNITS = 40, 8, 6, 3, 5
X = np.random.default_rng(0).standard_normal([NUM, TIME, FEATURES])
Y = X[:, :, :1].mean(axis=1)


# ---------------------------------------------------------------- the examples


def run_example(name, *arguments):
    """Runs an example, which must succeed, and returns its output."""
    return processes.run_program(str(EXAMPLES / name), *arguments)


def compared(printed):
    """Returns the printed errors of an example, alone and distributed, and the largest difference."""
    rows = re.findall(r"^ +\d+  (\d\.\d{8})  (\d\.\d{8})$", printed, re.MULTILINE)
    (difference,) = re.findall(r"^largest relative difference over all steps: (\S+)$", printed, re.MULTILINE)
    return *np.array(rows, float).T, float(difference)


@pytest.mark.parametrize("name", ["mirrored.py", pytest.param("multi_worker.py", marks=pytest.mark.slow)])
def test_synchronous_replicas_train_like_one_process(name):
    """Uses float64: in float32, training amplifies a difference in the last bit."""
    printed = run_example(name, "--steps=250", "--dtype=float64")
    alone, distributed, difference = compared(printed)
    assert len(distributed) >= 6
    assert difference < 1e-9
    assert distributed[0] > 2 * ERROR_OF_THE_MEAN
    assert distributed[-1] < ERROR_OF_THE_MEAN / 5
    np.testing.assert_allclose(distributed, alone, atol=1e-8)
    if name == "multi_worker.py":
        results = dict(re.findall(r"^worker (\d): (last error \S+, weights \w{16})$", printed, re.MULTILINE))
        assert set(results) == {"0", "1"}
        assert results["0"] == results["1"]


@pytest.mark.slow
def test_parameter_server_trains_like_one_process_and_learns():
    printed = run_example("parameter_server.py", "--steps=500", "--dtype=float64")
    _, synchronous, difference = compared(printed)
    assert len(synchronous) >= 6
    assert difference < 1e-12
    (ends,) = re.findall(r"error (\S+) over the first tenth of 500 steps, (\S+) over the last", printed)
    first, last = map(float, ends)
    assert last < ERROR_OF_THE_MEAN / 3 < first / 1.2


# Writes its process id to a file, atomically.
TASK = """
import json, os, pathlib, sys, time

sys.path.insert(0, {examples!r})
import local_cluster

if "TF_CONFIG" not in os.environ:
    local_cluster.run({{"worker": 2}}, awaited="worker", timeout={timeout})
    sys.exit()
config = json.loads(os.environ["TF_CONFIG"])
index = config["task"]["index"]
new = pathlib.Path(__file__).with_name(f"{{index}}.new")
new.write_text(str(os.getpid()))
new.rename(new.with_suffix(".pid"))
"""


def start_cluster(tmp_path, program, timeout=processes.TIMEOUT):
    """Starts a program as two workers of a cluster and returns their launcher, which waits for them."""
    path = tmp_path / "program.py"
    path.write_text(TASK.format(examples=str(EXAMPLES), timeout=timeout) + program)
    return subprocess.Popen([sys.executable, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_until(condition):
    deadline = time.monotonic() + processes.TIMEOUT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_running(pid):
    """Whether the process exists and is not a zombie."""
    status = pathlib.Path(f"/proc/{pid}/stat")
    try:
        return status.read_text().rsplit(")")[-1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def started(tmp_path):
    return [int(path.read_text()) for path in tmp_path.glob("*.pid")]


@pytest.mark.parametrize(
    ("program", "timeout", "message"),
    [
        ("if index: sys.exit(3)\ntime.sleep(3600)", processes.TIMEOUT, "worker 1 failed with exit status 3"),
        ("if not index: time.sleep(3600)", 2, "the tasks of job 'worker' did not end within 2 seconds"),
    ],
    ids=["failure", "hang"],
)
def test_a_cluster_that_fails_or_hangs_is_killed(tmp_path, program, timeout, message):
    launcher = start_cluster(tmp_path, program, timeout)
    _, errors = launcher.communicate(timeout=processes.TIMEOUT)
    assert launcher.returncode == 1
    assert message in errors
    assert not any(map(is_running, started(tmp_path)))


def test_a_cluster_ends_with_its_launcher(tmp_path):
    with start_cluster(tmp_path, "time.sleep(3600)") as launcher:
        wait_until(lambda: len(started(tmp_path)) == 2)
        workers = started(tmp_path)
        assert all(map(is_running, workers))
        launcher.send_signal(signal.SIGKILL)
        wait_until(lambda: not any(map(is_running, workers)))


def test_tasks_can_listen_on_their_reserved_ports(tmp_path):
    program = """
import socket

host, port = config["cluster"]["worker"][index].split(":")
with socket.socket() as other:
    other.bind(("", 0))
    assert other.getsockname()[1] != int(port)
with socket.create_server((host, int(port))) as server:
    socket.create_connection((host, int(port))).close()
print(json.dumps(config["cluster"]))
"""
    output, errors = start_cluster(tmp_path, program).communicate(timeout=processes.TIMEOUT)
    assert not errors
    first, second = map(json.loads, output.splitlines())
    assert first == second
    assert len(set(first["worker"])) == 2


# ---------------------------------------------------------------- replicas of one process


@pytest.fixture(scope="session")
def strategy():
    """A strategy for the two logical CPU devices that `conftest.py` creates; only one per process.

    A second strategy would reuse the keys of the first one's reductions, and TensorFlow caches shapes by these keys.
    """
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def lstm(**arguments):
    return tf_rnn_ops.layers.CudnnLSTM(UNITS, num_layers=2, direction="bidirectional", **arguments)


def block_cell():
    return keras.layers.RNN(tf_rnn_ops.layers.GRUBlockCell(UNITS))


def build(recurrent=lstm, **arguments):
    """Returns a compiled model with the same initial weights on every call."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input([TIME, FEATURES]), recurrent(), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.02), "mse", **arguments)
    return model


def replicated(strategy, *arguments, **keyword_arguments):
    """Returns the same model, with its variables mirrored on every device."""
    with strategy.scope():
        return build(*arguments, **keyword_arguments)


class StepLosses(keras.callbacks.Callback):
    """Records the loss of each step."""

    def __init__(self):
        super().__init__()
        self.losses = []

    def on_train_batch_begin(self, batch, logs=None):
        self.model.reset_metrics()

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(logs["loss"])


def fit(model, num=NUM):
    """Trains for two epochs on `num` sequences and returns the loss of each step."""
    step_losses = StepLosses()
    data = tf.data.Dataset.from_tensor_slices((X[:num], Y[:num])).batch(BATCH)
    model.fit(data, epochs=2, shuffle=False, verbose=0, callbacks=[step_losses])
    return step_losses.losses


def on_each_device(variable):
    return [each.numpy() for each in variable.value.values]


@pytest.fixture
def policy(request):
    """Sets the Keras dtype policy."""
    previous = keras.config.dtype_policy()
    keras.config.set_dtype_policy(request.param)
    yield request.param
    keras.config.set_dtype_policy(previous)


# float64: the Keras metrics are float32. Mixed policies: rounding to 16 bits.
LOSS_TOLERANCES = {"float64": 1e-6, "mixed_float16": 3e-3, "mixed_bfloat16": 2e-2}


@pytest.mark.parametrize(
    ("policy", "recurrent", "run_eagerly"),
    [
        ("float64", lstm, False),
        ("mixed_float16", lstm, False),
        ("mixed_bfloat16", lstm, False),
        ("float64", block_cell, True),
    ],
    indirect=["policy"],
)
def test_fit_trains_as_on_one_device(strategy, recurrent, policy, run_eagerly):
    model = replicated(strategy, recurrent, run_eagerly=run_eagerly)
    alone = build(recurrent, run_eagerly=run_eagerly)
    losses = fit(model)
    np.testing.assert_allclose(losses, fit(alone), rtol=LOSS_TOLERANCES[policy])
    assert losses[-1] < losses[0]
    for variable, expected in zip(model.trainable_variables, alone.trainable_variables, strict=True):
        first, second = on_each_device(variable)
        np.testing.assert_array_equal(first, second)
        assert policy != "float64" or parity.difference(first, expected.value) < 1e-12


def test_a_replica_with_an_empty_batch(strategy):
    """The last batch has one sequence, which the first replica gets."""
    model = replicated(strategy)
    losses = fit(model, num=BATCH + 1)
    assert np.all(np.isfinite(losses))
    for variable in model.trainable_variables:
        np.testing.assert_array_equal(*on_each_device(variable))


@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("in_graph", [False, True])
def test_replicas_draw_different_dropout_masks(strategy, in_graph, seed):
    with strategy.scope():
        layer = lstm(dropout=0.5, seed=seed)
        layer.build(X.shape)

    def replicas():
        return strategy.run(lambda: layer(X, training=True))

    run = tf.function(replicas) if in_graph else replicas
    outputs = [output.numpy() for _ in range(2) for output in run().values]
    assert len({output.tobytes() for output in outputs}) == 4


def read_weights(path):
    model = build()
    model.load_weights(path / "model.weights.h5")
    return model


def read_checkpoint(path):
    model = build()
    tf.train.Checkpoint(model=model).read(str(path / "checkpoint")).assert_existing_objects_matched()
    return model


def read_saved_model(path):
    loaded = tf.saved_model.load(path / "exported")
    return lambda x: loaded.serve(x)


FORMATS = {
    "keras": (
        lambda model, path: model.save(path / "model.keras"),
        lambda path: keras.saving.load_model(path / "model.keras"),
    ),
    "weights": (lambda model, path: model.save_weights(path / "model.weights.h5"), read_weights),
    "checkpoint": (lambda model, path: tf.train.Checkpoint(model=model).write(f"{path}/checkpoint"), read_checkpoint),
    "SavedModel": (lambda model, path: model.export(path / "exported", verbose=False), read_saved_model),
}


@pytest.fixture(scope="module")
def trained(strategy):
    """A model trained with two replicas."""
    model = replicated(strategy)
    fit(model)
    return model


@pytest.mark.parametrize("name", FORMATS)
def test_a_model_trained_with_replicas_runs_on_one_device(trained, name, tmp_path):
    write, read = FORMATS[name]
    write(trained, tmp_path)
    x = tf.constant(X, tf.float32)
    assert parity.difference(read(tmp_path)(x), trained(x)) < 1e-6


def test_a_model_trained_on_one_device_continues_with_replicas(strategy, tmp_path):
    alone = build()
    fit(alone)
    alone.save(tmp_path / "model.keras")
    with strategy.scope():
        model = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(fit(model), fit(alone), rtol=1e-4)


# ---------------------------------------------------------------- workers of a parameter server


def test_workers_draw_different_dropout_masks():
    """All servers run in one process and need enough threads to wait for one another."""
    printed = processes.run_code(
        """
        import tensorflow as tf
        import tf_rnn_ops

        threads = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=8)
        tf.config.threading.set_inter_op_parallelism_threads(8)
        jobs = ["worker", "worker", "ps"]
        servers = [tf.distribute.Server({job: ["localhost:0"]}, job, task_index=0, config=threads) for job in jobs]
        addresses = [server.target.removeprefix("grpc://") for server in servers]
        cluster = tf.train.ClusterSpec({"worker": addresses[:2], "ps": addresses[2:]})
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, rpc_layer="grpc")
        strategy = tf.distribute.ParameterServerStrategy(resolver)
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        with strategy.scope():
            layer = tf_rnn_ops.layers.CudnnLSTM(8, num_layers=2, dropout=0.5)
            layer.build([None, None, 3])

        @tf.function
        def run(x):
            return strategy.run(lambda: tf.reduce_sum(layer(x, training=True)))

        results = [coordinator.schedule(run, args=(tf.ones([4, 6, 3]),)) for _ in range(40)]
        coordinator.join()
        print(*(float(result.fetch()) for result in results))
        """
    )
    assert len(set(printed.split())) == 40
