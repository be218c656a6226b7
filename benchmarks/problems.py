"""Inputs and weights of the cases: the same in every process and run."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import ml_dtypes
import numpy as np
from cases import CellSteps, Decoder, Elementwise, Model, Network, Product

NUMPY_DTYPES = {
    "bfloat16": ml_dtypes.bfloat16,
    "float16": np.float16,
    "float32": np.float32,
    "float64": np.float64,
}

# So small that training practically does not change the weights.
LEARNING_RATE = 1e-9


@dataclasses.dataclass(frozen=True)
class Weights:
    """The weights of one direction of a layer, or their gradients. G = gates; U = units.

    The gates are in cuDNN's order: LSTM i, f, g, o; GRU r, u, n.

    Attributes:
      kernel: [G, U, fan_in].
      recurrent_kernel: [G, U, U].
      input_bias: added to the product with the input, [G, U].
      recurrent_bias: added to the product with the state, [G, U].
    """

    kernel: np.ndarray
    recurrent_kernel: np.ndarray
    input_bias: np.ndarray
    recurrent_bias: np.ndarray

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns the arrays by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def map(self, function) -> "Weights":
        """Applies a function to each array."""
        return Weights(**{name: function(array) for name, array in self.arrays().items()})


@dataclasses.dataclass(frozen=True)
class NetworkProblem:
    """Inputs and weights of a network, all of one dtype.

    Attributes:
      inputs: [batch, time, input_size].
      output_gradient: gradient with respect to the output, [batch, time, output_size]; zero past the end of a sequence.
      weights: the weights of each pseudo-layer, by the names in `Network.pseudo_layers`.
    """

    inputs: np.ndarray
    output_gradient: np.ndarray
    weights: Mapping[str, Weights]

    def astype(self, dtype: str) -> "NetworkProblem":
        """Returns the same numbers in another dtype."""
        numpy_dtype = NUMPY_DTYPES[dtype]
        return NetworkProblem(
            self.inputs.astype(numpy_dtype),
            self.output_gradient.astype(numpy_dtype),
            {name: weights.map(lambda array: array.astype(numpy_dtype)) for name, weights in self.weights.items()},
        )


def is_valid(case: Network) -> np.ndarray:
    """Returns whether each step is within its sequence, [batch, time, 1]."""
    return np.arange(case.time)[None, :, None] < np.array(case.lengths)[:, None, None]


def name_gradients(first: Mapping[str, np.ndarray], weights: Mapping[str, Weights]) -> dict[str, np.ndarray]:
    """Returns results in the format that all peers share.

    Args:
      first: the results other than the gradients of the recurrent weights, by name.
      weights: the gradients of each pseudo-layer's weights.
    """
    named = {
        f"{layer}/{name}": array for layer, gradients in weights.items() for name, array in gradients.arrays().items()
    }
    return {**first, **named}


def network_problem(case: Network) -> NetworkProblem:
    """Returns the problem of a network, rounded to its dtype."""
    rng = np.random.default_rng(0)
    gates, units = case.num_gates, case.units

    def matrix(fan_in):
        return rng.uniform(-1, 1, [gates, units, fan_in]) / np.sqrt(units)

    def bias():
        # The sum of two biases must be exact in every dtype, because some peers take only the sum.
        return rng.integers(-32, 32, [gates, units], endpoint=True) / 64

    problem = NetworkProblem(
        inputs=rng.standard_normal([case.batch, case.time, case.input_size]),
        output_gradient=rng.standard_normal([case.batch, case.time, case.output_size]) * is_valid(case),
        weights={
            name: Weights(matrix(fan_in), matrix(units), bias(), bias()) for name, fan_in in case.pseudo_layers.items()
        },
    )
    return problem.astype(case.dtype)


@dataclasses.dataclass(frozen=True)
class ModelProblem:
    """Inputs and weights of a model. All except tokens have the same dtype.

    Attributes:
      inputs: [batch, time, input_size], or tokens, [batch, time].
      states: the states of each layer of a decoder, [batch, units]: the hidden state, and an LSTM's cell state.
      targets: the targets of training, [batch, outputs].
      embedding: [vocabulary, input_size], or None if the model has no Embedding.
      weights: the weights of each pseudo-layer, by the names in `Network.pseudo_layers`.
      head_kernel: the weights of the Dense layer, [output_size, outputs].
      head_bias: [outputs].
    """

    inputs: np.ndarray
    states: Sequence[np.ndarray]
    targets: np.ndarray
    embedding: np.ndarray | None
    weights: Mapping[str, Weights]
    head_kernel: np.ndarray
    head_bias: np.ndarray

    def astype(self, dtype: str) -> "ModelProblem":
        """Returns the same numbers in another dtype."""

        def cast(array):
            return array.astype(NUMPY_DTYPES[dtype])

        return ModelProblem(
            inputs=self.inputs if self.embedding is not None else cast(self.inputs),
            states=[cast(state) for state in self.states],
            targets=cast(self.targets),
            embedding=None if self.embedding is None else cast(self.embedding),
            weights={name: weights.map(cast) for name, weights in self.weights.items()},
            head_kernel=cast(self.head_kernel),
            head_bias=cast(self.head_bias),
        )


def model_problem(case: Model) -> ModelProblem:
    """Returns the problem of a model, rounded to its dtype."""
    rng = np.random.default_rng(1)
    network = case.network
    of_network = network_problem(network)
    inputs, embedding = of_network.inputs, None
    if case.takes_tokens:
        # The token 0 is padding.
        tokens = rng.integers(1, case.vocabulary, [network.batch, network.time])
        inputs = np.where(is_valid(network)[:, :, 0], tokens, 0)
        embedding = rng.standard_normal([case.vocabulary, network.input_size])
    num_states = network.layers * (2 if network.cell == "lstm" else 1) if isinstance(case, Decoder) else 0
    problem = ModelProblem(
        inputs=inputs,
        states=[rng.uniform(-1, 1, [network.batch, network.units]) for _ in range(num_states)],
        targets=rng.standard_normal([network.batch, case.outputs]),
        embedding=embedding,
        weights=of_network.weights,
        head_kernel=rng.standard_normal([network.output_size, case.outputs]) / np.sqrt(network.output_size),
        head_bias=rng.standard_normal(case.outputs),
    )
    return problem.astype(case.dtype)


@dataclasses.dataclass(frozen=True)
class CellProblem:
    """Arguments of a `GRUBlockCell` and its gradient.

    Attributes:
      forward: the arguments of `GRUBlockCell`, by name.
      gates: the arguments r, u and c of `GRUBlockCellGrad`.
      d_h: the argument d_h of `GRUBlockCellGrad`.
    """

    forward: Mapping[str, np.ndarray]
    gates: Mapping[str, np.ndarray]
    d_h: np.ndarray


def cell_problem(case: CellSteps) -> CellProblem:
    """Returns the problem of a cell, rounded to its dtype."""
    rng = np.random.default_rng(0)
    batch, units, fan_in = case.batch, case.units, case.input_size + case.units
    dtype = NUMPY_DTYPES[case.dtype]

    def normal(*shape):
        return rng.standard_normal(shape).astype(dtype)

    def uniform(low, *shape):
        return rng.uniform(low, 1, shape).astype(dtype)

    return CellProblem(
        forward={
            "x": normal(batch, case.input_size),
            "h_prev": uniform(-1, batch, units),
            "w_ru": normal(fan_in, 2 * units) / dtype(np.sqrt(fan_in)),
            "w_c": normal(fan_in, units) / dtype(np.sqrt(fan_in)),
            "b_ru": normal(2 * units),
            "b_c": normal(units),
        },
        gates={"r": uniform(0, batch, units), "u": uniform(0, batch, units), "c": uniform(-1, batch, units)},
        d_h=normal(batch, units),
    )


def elements(case: Elementwise) -> np.ndarray:
    """Returns the argument of an elementwise function."""
    return np.random.default_rng(0).standard_normal(case.size).astype(NUMPY_DTYPES[case.dtype])


@functools.lru_cache(maxsize=1)
def product_factors(case: Product) -> tuple[np.ndarray, np.ndarray]:
    """Returns the two factors of a product, rounded to its dtype."""
    rng = np.random.default_rng(0)
    shape = [case.size, case.size]
    left, right = (rng.standard_normal(shape).astype(NUMPY_DTYPES[case.dtype]) for _ in range(2))
    return left, right
