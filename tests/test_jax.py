"""Tests of the XLA FFI handlers in JAX, through the example that calls them."""

import importlib.util
import re

import numpy as np
import pytest
from environment import pages, processes

jax = pytest.importorskip("jax")

EXAMPLE = pages.EXAMPLES / "jax_lstm.py"
TOLERANCES = {"float64": 1e-12, "float32": 1e-5}
NAMES = ("sequences", "initial_h", "initial_c", "kernel", "recurrent_kernel", "bias")


@pytest.fixture(scope="module")
def example():
    """Returns the module of the example."""
    spec = importlib.util.spec_from_file_location("jax_lstm", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=TOLERANCES)
def dtype(request):
    """A dtype, enabled in JAX."""
    with jax.enable_x64(request.param == "float64"):
        yield request.param


def arguments_of(example, dtype):
    """Returns small arguments of the LSTM, by name."""
    return dict(zip(NAMES, example.make_arguments(3, 7, 5, 4, dtype), strict=True))


def loss_of(function):
    """Returns a loss of the LSTM that depends on all results in different ways."""

    def loss(*arguments):
        outputs, h, c = function(*arguments)
        return jax.numpy.sum(outputs**2) + jax.numpy.sum(3 * h * outputs[:, 1] + jax.numpy.sin(c))

    return loss


def assert_close(actual, expected, dtype):
    """Compares lists of arrays, each relative to its largest magnitude."""
    for ours, theirs in zip(actual, expected, strict=True):
        assert ours.dtype == theirs.dtype == dtype
        assert ours.shape == theirs.shape
        assert np.abs(ours - theirs).max() <= TOLERANCES[dtype] * np.abs(theirs).max()


@pytest.mark.parametrize("compile_", [jax.jit, lambda function: function], ids=["jit", "eager"])
def test_results_and_gradients_equal_a_scan(example, dtype, compile_):
    arguments = arguments_of(example, dtype).values()
    assert_close(compile_(example.lstm)(*arguments), example.scanned_lstm(*arguments), dtype)
    gradients = [
        compile_(jax.grad(loss_of(function), argnums=range(len(NAMES))))(*arguments)
        for function in (example.lstm, example.scanned_lstm)
    ]
    assert_close(*gradients, dtype)


def test_vmap(example):
    arguments = arguments_of(example, "float32")
    sequences = jax.numpy.stack([arguments.pop("sequences"), *example.make_arguments(3, 7, 5, 4)[:1]]) * 2
    mapped = [
        jax.vmap(jax.grad(loss_of(function), argnums=0), in_axes=[0] + [None] * 5)(sequences, *arguments.values())
        for function in (example.lstm, example.scanned_lstm)
    ]
    assert_close(*mapped, "float32")


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("sequences", [3, 7, 6], r"kernel must have the shape \[features, 4 \* units\] = \[6,16\], but has \[5,16\]"),
        ("initial_c", [2, 4], r"initial_c must have the shape \[batch, units\] = \[3,4\], but has \[2,4\]"),
        ("bias", [15], r"bias must have the shape \[4 \* units\] = \[16\], but has \[15\]"),
    ],
)
def test_an_error_names_the_argument(example, name, shape, message):
    arguments = arguments_of(example, "float32") | {name: jax.numpy.zeros(shape)}
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        jax.block_until_ready(example.lstm(*arguments.values()))


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        ("rnn_mode", "lstms", "rnn_mode must be one of rnn_relu, rnn_tanh, lstm, .*, but is lstms"),
        ("recurrent_activation", "", "recurrent_activation must be one of tanh, sigmoid, .*, but is "),
        ("go_backwards", 1, "The attribute go_backwards must be of type bool, but is of type int64"),
    ],
)
def test_an_error_names_the_attribute(example, monkeypatch, attribute, value, message):
    monkeypatch.setitem(example.LSTM, attribute, value)
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        jax.block_until_ready(example.lstm(*arguments_of(example, "float32").values()))


@pytest.mark.parametrize(
    "arguments",
    [
        (None, 3, 7, 4, 4),
        (b"lstms", 3, 7, 4, 4),
        (b"lstm", -1, 7, 4, 4),
        (b"lstm", 3, 7, 4, 3),
        (b"lstm", 3, 2**62, 4, 4),
    ],
)
def test_invalid_arguments_have_no_reserve_space_size(example, arguments):
    assert example.library().TfRnnOps_KerasRNNReserveSpaceSize(*arguments) == -1


def test_the_example_runs_without_tensorflow():
    code = """
        import runpy, sys
        runpy.run_path(sys.argv[1], run_name="__main__")
        assert "tensorflow" not in sys.modules and "tf_rnn_ops" not in sys.modules
    """
    printed = processes.run_code(code, str(EXAMPLE))
    difference = re.search(r"^Largest relative difference of the gradients: (\S+)$", printed, re.MULTILINE)
    assert difference is not None
    assert float(difference[1]) < 1e-5
