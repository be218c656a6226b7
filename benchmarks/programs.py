"""Base classes of the measured libraries and of their programs for the cases."""

import abc
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from cases import Case, CellSteps, Elementwise, Model, Network, Product


class Program(abc.ABC):
    """A case that a library has prepared.

    Attributes:
      calls: the timed functions by task. Each does all of a task, or starts work that `Library.synchronize` waits for.
        `Network`: FORWARD is inference, the outputs of all steps from zero states; FORWARD_BACKWARD computes the
        outputs and the gradients with respect to the input and all weights; PENALTY computes the gradient of a
        `PenalizedNetwork`'s penalty with respect to all weights.
        `CellSteps`: FORWARD and BACKWARD run `GRUBlockCell` and `GRUBlockCellGrad`.
        `Model`: FUNCTION and SAVED_MODEL infer one batch with a function, and with the function of a loaded SavedModel;
        PREDICT calls `predict` on several batches; TRAIN_ON_BATCH is a training step with Adam; FIT is an epoch of
        several steps; EMPTY_FUNCTION is a function that returns its first argument; OPS_ALONE runs the ops of the
        recurrent layers several times in sequence in one function.
        `Product`: PRODUCT multiplies.
        `Elementwise`: TANH computes the function; MAPPED computes it in a `tf.data` pipeline with its own threads.
    """

    calls: Mapping[str, Callable[[], Any]]

    @abc.abstractmethod
    def results(self, task: str) -> dict[str, np.ndarray]:
        """Runs a task and returns its results in the format that all libraries share.

        Returns:
          `Network`: for FORWARD the "output", [batch, time, output_size], zero past the end of a sequence; for
          FORWARD_BACKWARD and PENALTY the gradients, named as by `problems.name_gradients`.
          `CellSteps`: the outputs of the last op, by name.
          `Model`: for inference the "output", and of a `Decoder` the "states", [layers' states, batch, units]; for
          training the "loss" and Adam's first moments (after one step 0.1 times the gradients), named as by
          `problems.name_gradients`; for EMPTY_FUNCTION the "inputs"; for OPS_ALONE the "features" that the first run of
          the recurrent layers returns.
          `Product`: "product". `Elementwise`: "tanh".
        """


class Library(abc.ABC):
    """A library in its own process.

    Args:
      threads: the number of threads for one operation.
    """

    @abc.abstractmethod
    def __init__(self, threads: int):
        pass

    @abc.abstractmethod
    def versions(self) -> dict[str, str]:
        """Returns the versions of the measured software, and other facts about it, by name."""

    def synchronize(self) -> None:  # noqa: B027  # most libraries are synchronous
        """Waits until all work that calls have started is done."""

    def program(self, case: Case) -> Program | None:
        """Returns a program for a case, or None if the library does not support it."""
        if isinstance(case, Network):
            return self.network(case)
        if isinstance(case, Model):
            return self.model(case)
        if isinstance(case, CellSteps):
            return self.cell_steps(case)
        return self.product(case) if isinstance(case, Product) else self.elementwise(case)

    def network(self, case: Network) -> Program | None:
        """Returns a program for a network, or None if the library does not support it."""
        return None

    def model(self, case: Model) -> Program | None:
        """Returns a program for a model, or None if the library does not support it."""
        return None

    def cell_steps(self, case: CellSteps) -> Program | None:
        """Returns a program for steps of a `GRUBlockCell`, or None if the library does not support it."""
        return None

    def product(self, case: Product) -> Program | None:
        """Returns a program for a product, or None if this library's products are not measured."""
        return None

    def elementwise(self, case: Elementwise) -> Program | None:
        """Returns a program for an elementwise function, or None if this library's functions are not measured."""
        return None
