"""What a library has to offer to be measured: programs for the cases that it can do."""

import abc
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from cases import Case, CellSteps, Elementwise, Model, Network, Product


class Program(abc.ABC):
    """A case that a library has made ready to run.

    Attributes:
      calls: what is timed, by task: functions that do all of a task, or start what `Library.synchronize` waits for. Of
        a `Network`, FORWARD is inference, the outputs of all steps from a state of zeros; FORWARD_BACKWARD a step of
        training without the update, the outputs and the gradients with respect to the input and all weights; PENALTY
        the gradient of a `PenalizedNetwork`'s penalty with respect to all weights. Of `CellSteps`, FORWARD and BACKWARD
        run `GRUBlockCell` and `GRUBlockCellGrad`. Of a `Model`, FUNCTION, SAVED_MODEL and PREDICT are inference: a call
        of a function, of a loaded SavedModel's, and `predict` of several batches; TRAIN_ON_BATCH and FIT are a step of
        training with Adam and an epoch of several. EMPTY_FUNCTION is a function that returns its first argument;
        OPS_ALONE runs the ops of the recurrent layers several times, one after the other, in one function. PRODUCT
        multiplies. TANH computes the function; MAPPED does so in a `tf.data` pipeline that has threads of its own.
    """

    calls: Mapping[str, Callable[[], Any]]

    @abc.abstractmethod
    def results(self, task: str) -> dict[str, np.ndarray]:
        """Does a task and returns its results in the form that all libraries have in common.

        Returns:
          Of a `Network`: for FORWARD the "output", [batch, time, output_size], which is zero past the end of a
          sequence; for FORWARD_BACKWARD and PENALTY what `problems.name_gradients` does. Of `CellSteps`: what the last
          op gave, by the names of its outputs. Of a `Model`: what it gives, "output", and of a `Decoder` its "states",
          [layers' states, batch, units]; for training the "loss" and the first moments of Adam, which after a step are
          a tenth of the gradients, as `problems.name_gradients` names them; the "inputs" for EMPTY_FUNCTION; the
          "features" that the recurrent layers give the first time for OPS_ALONE. Of a `Product`: "product"; of
          `Elementwise`: "tanh".
        """


class Library(abc.ABC):
    """A library, in the process that measures it.

    Args:
      threads: the number of threads that it may use for one operation.
    """

    @abc.abstractmethod
    def __init__(self, threads: int):
        pass

    @abc.abstractmethod
    def versions(self) -> dict[str, str]:
        """Returns what is to be known of what is measured, by what it is."""

    def synchronize(self) -> None:  # noqa: B027  # most have nothing to wait for
        """Returns when all is done that calls have started."""

    def program(self, case: Case) -> Program | None:
        """Returns a program for a case, or None if the library does not do such cases."""
        if isinstance(case, Network):
            return self.network(case)
        if isinstance(case, Model):
            return self.model(case)
        if isinstance(case, CellSteps):
            return self.cell_steps(case)
        return self.product(case) if isinstance(case, Product) else self.elementwise(case)

    def network(self, case: Network) -> Program | None:
        """Returns a program for a network, or None if the library has none such."""
        return None

    def model(self, case: Model) -> Program | None:
        """Returns a program for a model, or None if the library has none such."""
        return None

    def cell_steps(self, case: CellSteps) -> Program | None:
        """Returns a program for steps of a `GRUBlockCell`, or None if the library has none."""
        return None

    def product(self, case: Product) -> Program | None:
        """Returns a program for a product, or None if the library's are not measured."""
        return None

    def elementwise(self, case: Elementwise) -> Program | None:
        """Returns a program for an elementwise function, or None if the library's are not measured."""
        return None
