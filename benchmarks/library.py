"""Inputs and weights of the cases: the same in every process and run."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from cases import Case

NUMPY_DTYPES = {
    "bfloat16": ml_dtypes.bfloat16,
    "float16": np.float16,
    "float32": np.float32,
    "float64": np.float64,
}

# So small that training practically does not change the weights.
LEARNING_RATE = 1e-9


class Weights(NamedTuple):
    """The weights of one direction of a layer, or their gradients. G = gates; U = units.

    The gates are in cuDNN's order: LSTM i, f, g, o; GRU r, u, n.
    """

    kernel: np.ndarray  # [G, U, fan_in]
    recurrent_kernel: np.ndarray  # [G, U, U]
    input_bias: np.ndarray  # [G, U], added to the product with the input
    recurrent_bias: np.ndarray  # [G, U], added to the product with the state


class Problem(NamedTuple):
    """Inputs and weights of a network or a (served) model. All except tokens have the same dtype."""

    inputs: np.ndarray  # [batch, time, input_size], or tokens, [batch, time]
    output_gradient: np.ndarray  # [batch, time, output_size], zero past the end of a sequence
    weights: Mapping[str, Weights]  # of each pseudo-layer
    states: Sequence[np.ndarray] = ()  # [batch, units] of each layer of a decoder: hidden state, an LSTM's cell state
    # Of models only:
    targets: Any = None  # [batch, outputs]
    embedding: Any = None  # [vocabulary, input_size], if the model has an Embedding
    head_kernel: Any = None  # [output_size, outputs]: the weights of the Dense layer
    head_bias: Any = None  # [outputs]


def _cast(value: Any, dtype: str) -> Any:
    """Returns arrays in (named) tuples, lists and dicts in another dtype. Integers remain."""
    if isinstance(value, np.ndarray):
        return value if value.dtype == np.int64 else value.astype(NUMPY_DTYPES[dtype])
    if isinstance(value, dict):
        return {key: _cast(each, dtype) for key, each in value.items()}
    if isinstance(value, Weights | Problem):
        return type(value)(*(_cast(each, dtype) for each in value))
    return [_cast(each, dtype) for each in value] if isinstance(value, list) else value


def is_valid(case: Case) -> np.ndarray:
    """Returns whether each step is within its sequence, [batch, time, 1]."""
    return np.arange(case.time)[None, :, None] < np.array(case.lengths)[:, None, None]


def name_gradients(first: Mapping[str, np.ndarray], weights: Mapping[str, Weights]) -> dict[str, np.ndarray]:
    """Adds the gradients of the recurrent weights to other results, with names that all libraries share."""
    named = {
        f"{layer}/{name}": array for layer, gradients in weights.items() for name, array in gradients._asdict().items()
    }
    return {**first, **named}


def problem_of(case: Case, dtype: str = "") -> Problem:
    """Returns the problem of a network or a model, rounded to its dtype, then converted to `dtype` if given."""
    rng = np.random.default_rng(0)
    gates, units = case.num_gates, case.units

    def matrix(fan_in):
        return rng.uniform(-1, 1, [gates, units, fan_in]) / np.sqrt(units)

    def bias():
        # The sum of two biases must be exact in every dtype, because some libraries take only the sum.
        return rng.integers(-32, 32, [gates, units], endpoint=True) / 64

    problem = Problem(
        rng.standard_normal([case.batch, case.time, case.input_size]),
        rng.standard_normal([case.batch, case.time, case.output_size]) * is_valid(case),
        {name: Weights(matrix(fan_in), matrix(units), bias(), bias()) for name, fan_in in case.pseudo_layers.items()},
    )
    if case.is_model:
        problem = problem._replace(**_model_fields(case))
    if case.is_served:
        problem = problem._replace(**_served_fields(case))
    return _cast(_cast(problem, case.dtype), dtype or case.dtype)


def _model_fields(case: Case) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    fields: dict[str, Any] = {}
    if case.takes_tokens:
        # The token 0 is padding.
        tokens = rng.integers(1, case.vocabulary, [case.batch, case.time])
        fields["inputs"] = np.where(is_valid(case)[:, :, 0], tokens, 0)
        fields["embedding"] = rng.standard_normal([case.vocabulary, case.input_size])
    return {
        **fields,
        "states": [rng.uniform(-1, 1, [case.batch, case.units]) for _ in range(case.num_states)],
        "targets": rng.standard_normal([case.batch, case.outputs]),
        "head_kernel": rng.standard_normal([case.output_size, case.outputs]) / np.sqrt(case.output_size),
        "head_bias": rng.standard_normal(case.outputs),
    }


def made_in_c(*shape: int) -> np.ndarray:
    """Returns an input that saved_model_calls.c makes."""
    return ((37 * np.arange(np.prod(shape)) % 201 - 100) / 100).reshape(shape)


def _served_fields(case: Case) -> dict[str, Any]:
    states = [made_in_c(case.batch, case.units) for _ in range(case.num_states)]
    return {"inputs": made_in_c(case.batch, case.time, case.input_size), "states": states}


def cell_arguments(case: Case) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Returns the arguments of `GRUBlockCell`, and the further ones of `GRUBlockCellGrad`."""
    rng = np.random.default_rng(0)
    batch, units, fan_in = case.batch, case.units, case.input_size + case.units
    dtype = NUMPY_DTYPES[case.dtype]

    def normal(*shape):
        return rng.standard_normal(shape).astype(dtype)

    def uniform(low, *shape):
        return rng.uniform(low, 1, shape).astype(dtype)

    forward = {
        "x": normal(batch, case.input_size),
        "h_prev": uniform(-1, batch, units),
        "w_ru": normal(fan_in, 2 * units) / dtype(np.sqrt(fan_in)),
        "w_c": normal(fan_in, units) / dtype(np.sqrt(fan_in)),
        "b_ru": normal(2 * units),
        "b_c": normal(units),
    }
    gates = {"r": uniform(0, batch, units), "u": uniform(0, batch, units), "c": uniform(-1, batch, units)}
    return forward, {**gates, "d_h": normal(batch, units)}


def lstm_arguments(case: Case) -> dict[str, np.ndarray]:
    """Returns the arguments of `BlockLSTM`, except seq_len_max, in float64."""
    rng = np.random.default_rng(0)
    fan_in, state = case.input_size + case.units, (case.batch, case.units)
    return {
        "x": rng.standard_normal([case.time, case.batch, case.input_size]),
        "cs_prev": rng.uniform(-1, 1, state),
        "h_prev": rng.uniform(-1, 1, state),
        "w": rng.standard_normal([fan_in, 4 * case.units]) / np.sqrt(fan_in),
        **{name: np.zeros(case.units) for name in ("wci", "wcf", "wco")},
        "b": rng.standard_normal(4 * case.units),
    }


@functools.lru_cache(maxsize=1)
def operands(case: Case) -> list[np.ndarray]:
    """Returns the two factors of a product, or the argument of an elementwise function, rounded to the case's dtype."""
    rng = np.random.default_rng(0)
    shapes = [[case.size, case.size]] * 2 if case.kind == "product" else [[case.size]]
    return [rng.standard_normal(shape).astype(NUMPY_DTYPES[case.dtype]) for shape in shapes]


class Task(NamedTuple):
    """A task of a case that a library has prepared.

    Attributes:
      call: the timed function. It does all of the task, or starts work that `Library.synchronize` waits for.
      results: returns the task's results, with the names and layouts of all libraries: "output", [batch, time,
        output_size], zero past the end of a sequence, or [batch, outputs] of a model; "states" of a decoder, [layers'
        states, batch, units]; "loss"; "inputs" and others of `name_gradients`: gradients, or for models Adam's first
        moments, which after one step are 0.1 times the gradients.
      sample: given a `measure.Load`, takes a sample as `measure.Session.sample` does; None if `call` is to be timed.
    """

    call: Callable[[], Any]
    results: Callable[[], dict[str, np.ndarray]]
    sample: Callable[[Any], tuple[float, Sequence[float]]] | None = None


def task(call: Callable[[], Any], results: Callable[[Any], dict[str, np.ndarray]]) -> Task:
    """Returns a task whose results are made of what the call returns."""
    return Task(call, lambda: results(call()))


Program = Mapping[str, Task]


class Library:
    """A library in its own process.

    Args:
      threads: the number of threads for one operation.
      **options: attributes of the subclass with other values than its own.
    """

    def __init__(self, threads: int, **options: Any):
        self.threads = threads
        vars(self).update(options)

    def versions(self) -> dict[str, str]:
        """Returns the versions of the measured software, and other facts about it, by name."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Waits until all work that calls have started is done."""

    def program(self, case: Case) -> Program:
        """Returns a case's tasks, without those that the library does not support or that are not measured."""
        raise NotImplementedError
