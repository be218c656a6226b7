"""GPU libraries that use TensorFlow: tf_rnn_ops and `tf.raw_ops`."""

import abc
from typing import ClassVar

import tensorflow as tf
from cases import FORWARD, CellSteps, Network
from problems import cell_problem, network_problem
from programs import Library, Program
from tensorflow_libraries import CellProgram, CudnnRNNProgram


class OnDevice(Library):
    """A module of raw ops on a device.

    Attributes:
      device: the device's name.
    """

    device: ClassVar[str] = "GPU:0"

    def __init__(self, threads: int):
        for gpu in tf.config.list_physical_devices("GPU"):
            # Leaves memory for the other libraries.
            tf.config.experimental.set_memory_growth(gpu, True)

    @property
    @abc.abstractmethod
    def _raw_ops(self):
        """The module."""

    def versions(self) -> dict[str, str]:
        """See the base class."""
        return {"TensorFlow": tf.__version__}

    def synchronize(self) -> None:
        """See the base class."""
        tf.test.experimental.sync_devices()

    def network(self, case: Network) -> Program:
        """See the base class."""
        with tf.device(self.device):
            program = CudnnRNNProgram(case, network_problem(case), self._raw_ops)
        return self._checked(program, case)

    def cell_steps(self, case: CellSteps) -> Program | None:
        """See the base class."""
        with tf.device(self.device):
            program = CellProgram(case, cell_problem(case), self._raw_ops)
        return self._checked(program, case)

    def _checked(self, program: Program, case: Network | CellSteps) -> Program:
        """Returns the program if its results are in the device's memory.

        Raises:
          RuntimeError: if they are not. TensorFlow runs an op elsewhere if the device has no kernel for it.
        """
        for call in program.calls.values():
            for tensor in tf.nest.flatten(call()):
                if not tensor.backing_device.endswith(self.device):
                    raise RuntimeError(f"{case.name} ran on {tensor.backing_device}, not on {self.device}")
        return program


class TfRnnOps(OnDevice):
    """The ops of this project."""

    @property
    def _raw_ops(self):
        import tf_rnn_ops

        return tf_rnn_ops.raw_ops

    def versions(self) -> dict[str, str]:
        """See the base class."""
        from tf_rnn_ops import __main__ as bug_report

        devices: dict[str, str] = {}
        for name, value in bug_report.devices():
            devices[name] = f"{devices[name]}; {value}" if name in devices else value
        return {**dict(bug_report.versions()), **devices}


class RawOps(OnDevice):
    """TensorFlow's own ops."""

    @property
    def _raw_ops(self):
        return tf.raw_ops

    def network(self, case: Network) -> Program:
        """See the base class. The bfloat16 backward pass is left out: TensorFlow does not fill its reserve_space."""
        program = super().network(case)
        if case.dtype == "bfloat16":
            program.calls = {FORWARD: program.calls[FORWARD]}
        return program

    def cell_steps(self, case: CellSteps) -> Program | None:
        """See the base class."""
        return super().cell_steps(case) if case.dtype == "float32" else None
