"""What is measured: sizes of networks, the numbers that these are given, and how many operations that takes."""

import dataclasses

import numpy as np
import tensorflow as tf

NUM_GATES = {"lstm": 4, "gru": 3, "tanh": 1}
DTYPES = ("bfloat16", "float16", "float32", "float64")

FORWARD = "forward"
FORWARD_BACKWARD = "forward_backward"
TASKS = {FORWARD: "forward", FORWARD_BACKWARD: "forward + backward"}


@dataclasses.dataclass(frozen=True)
class Case:
    """A network of one layer and one direction.

    Attributes:
      cell: "lstm", "gru" (which resets the state after the matrix product) or "tanh".
      batch: the number of sequences.
      time: the number of steps of each.
      input_size: the size of the input at a step.
      units: the size of the state and of the output at a step.
      dtype: the type of everything that goes in and comes out.
    """

    cell: str
    batch: int
    time: int
    input_size: int
    units: int
    dtype: str = "float32"

    @classmethod
    def parse(cls, name: str) -> "Case":
        """Returns the case of a name such as "lstm-32-100-128-256" or "gru-1-10-8-8-bfloat16".

        Raises:
          ValueError: if there is none of that name.
        """
        cell, *sizes = name.split("-")
        dtype = sizes.pop() if sizes and sizes[-1] in DTYPES else "float32"
        if cell not in NUM_GATES or len(sizes) != 4 or not all(size.isdecimal() and int(size) > 0 for size in sizes):
            raise ValueError(
                f"a case is named CELL-BATCH-TIME-INPUT-UNITS or CELL-BATCH-TIME-INPUT-UNITS-DTYPE, with a cell of "
                f"{', '.join(NUM_GATES)}, sizes of at least 1 and a dtype of {', '.join(DTYPES)}; {name!r} is not"
            )
        batch, time, input_size, units = map(int, sizes)
        return cls(cell, batch, time, input_size, units, dtype)

    @property
    def name(self) -> str:
        """The name that `parse` takes."""
        dtype = "" if self.dtype == "float32" else f"-{self.dtype}"
        return f"{self.cell}-{self.batch}-{self.time}-{self.input_size}-{self.units}{dtype}"

    @property
    def network(self) -> str:
        """The kind of network, as people call it."""
        return {"lstm": "LSTM", "gru": "GRU", "tanh": "tanh RNN"}[self.cell]

    @property
    def title(self) -> str:
        """The network and its sizes: batch, time, input and units."""
        dtype = "" if self.dtype == "float32" else f", {self.dtype}"
        return f"{self.network} {self.batch}, {self.time}, {self.input_size}, {self.units}{dtype}"

    @property
    def num_gates(self) -> int:
        """The number of gates of the cell."""
        return NUM_GATES[self.cell]

    def flops(self, task: str) -> int:
        """Returns the floating-point operations of a task's matrix products; all others are left out.

        Each gate of each step multiplies the input and the state by a matrix: two operations, a multiplication and an
        addition, for each of its units * (input_size + units) elements. The backward pass does as much twice: for the
        gradients of input and state, and for those of the matrices.
        """
        forward = 2 * self.batch * self.time * self.num_gates * self.units * (self.input_size + self.units)
        return {FORWARD: forward, FORWARD_BACKWARD: 3 * forward}[task]


TABLE = tuple(
    map(
        Case.parse,
        [
            "lstm-1-100-128-256",
            "lstm-32-100-128-256",
            "lstm-64-50-512-512",
            "lstm-128-25-1024-1024",
            "gru-32-100-128-256",
            "gru-64-50-512-512",
            "tanh-32-100-128-256",
            "lstm-64-50-512-512-bfloat16",
        ],
    )
)

# Every cell and every dtype of the table, as small as can be.
QUICK_TABLE = tuple(map(Case.parse, ["lstm-2-3-8-16", "gru-2-3-8-16", "tanh-2-3-8-16", "lstm-2-3-8-16-bfloat16"]))


@dataclasses.dataclass(frozen=True)
class Problem:
    """The numbers that a network is given, as arrays of the case's dtype.

    Gates are in cuDNN's order: i, f, g, o of an LSTM; r, u, n of a GRU.

    Attributes:
      inputs: [batch, time, input_size].
      output_gradient: gradient of a scalar with respect to the output, [batch, time, units].
      kernel: the input's weights, [gates, units, input_size].
      recurrent_kernel: the state's weights, [gates, units, units].
      input_bias: the bias of the product with the input, [gates, units].
      recurrent_bias: the bias of the product with the state, [gates, units].
    """

    inputs: np.ndarray
    output_gradient: np.ndarray
    kernel: np.ndarray
    recurrent_kernel: np.ndarray
    input_bias: np.ndarray
    recurrent_bias: np.ndarray

    def astype(self, dtype: str) -> "Problem":
        """Returns the same numbers in another dtype."""
        numpy_dtype = tf.as_dtype(dtype).as_numpy_dtype
        arrays = {field.name: getattr(self, field.name).astype(numpy_dtype) for field in dataclasses.fields(self)}
        return Problem(**arrays)


def random_problem(case: Case) -> Problem:
    """Returns the same random numbers for a case in every run."""
    rng = np.random.default_rng(0)
    gates, units = case.num_gates, case.units

    def weights(*shape):
        return rng.uniform(-1, 1, shape) / np.sqrt(units)

    def biases():
        # Few enough bits for the sum of two to be exact in every dtype: some peers take nothing but the sum.
        return rng.integers(-32, 32, [gates, units], endpoint=True) / 64

    problem = Problem(
        inputs=rng.standard_normal([case.batch, case.time, case.input_size]),
        output_gradient=rng.standard_normal([case.batch, case.time, units]),
        kernel=weights(gates, units, case.input_size),
        recurrent_kernel=weights(gates, units, units),
        input_bias=biases(),
        recurrent_bias=biases(),
    )
    return problem.astype(case.dtype)
