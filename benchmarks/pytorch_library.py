"""PyTorch's `nn.LSTM`, `nn.GRU` and `nn.RNN`, its matrix product and `tanh`."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from cases import FORWARD, FORWARD_BACKWARD, PENALTY, PRODUCT, TANH, Elementwise, Network, Product
from problems import NetworkProblem, Weights, elements, name_gradients, network_problem, product_factors
from programs import Library, Program

_MODULES = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "tanh": torch.nn.RNN}


def _to_torch(array: np.ndarray, dtype: str) -> torch.Tensor:
    # PyTorch does not know NumPy's bfloat16, whose numbers float64 holds exactly.
    return torch.from_numpy(np.ascontiguousarray(array, np.float64)).to(getattr(torch, dtype))


def _to_numpy(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().to(torch.float64).numpy()


class NetworkProgram(Program):
    """A network, time-major; of packed sequences, packed and padded by the calls, where their lengths vary."""

    def __init__(self, case: Network, problem: NetworkProblem, device: str = "cpu"):
        self._case = case

        def to_torch(array):
            return _to_torch(array, case.dtype).to(device)

        self._inputs = to_torch(problem.inputs.swapaxes(0, 1))
        self._watched_inputs = self._inputs.clone().requires_grad_()
        self._output_gradient = to_torch(problem.output_gradient.swapaxes(0, 1))
        self._lengths = torch.tensor(case.lengths)
        self._module = _MODULES[case.cell](
            case.input_size,
            case.units,
            num_layers=case.layers,
            bidirectional=case.bidirectional,
            dtype=getattr(torch, case.dtype),
            device=device,
        )
        # Each pseudo-layer's weights, in the order and, but for the gates' own axis, the shapes of ours.
        arrays = [array for weights in problem.weights.values() for array in weights.arrays().values()]
        with torch.no_grad():
            for parameter, array in zip(self._module.parameters(), arrays, strict=True):
                parameter.copy_(to_torch(array).reshape(parameter.shape))
        calls = {FORWARD: self._forward, FORWARD_BACKWARD: self._gradients, PENALTY: self._penalty_gradients}
        self.calls = {task: calls[task] for task in case.tasks}

    def _forward(self) -> torch.Tensor:
        self._module.eval()
        with torch.inference_mode():
            return self._network(self._inputs)

    def _gradients(self) -> tuple[torch.Tensor, ...]:
        self._module.train()
        output = self._network(self._watched_inputs)
        watched = [self._watched_inputs, *self._module.parameters()]
        return torch.autograd.grad(output, watched, self._output_gradient)

    def _penalty_gradients(self) -> tuple[torch.Tensor, ...]:
        """Returns the penalty, see `cases.PenalizedNetwork`, and its gradients with respect to the parameters."""
        self._module.train()
        output = self._network(self._watched_inputs)
        score_gradient = self._output_gradient * output
        (slopes,) = torch.autograd.grad(output, self._watched_inputs, score_gradient, create_graph=True)
        norms = slopes.to(torch.promote_types(slopes.dtype, torch.float32)).norm(dim=(0, 2))
        penalty = ((norms - 1) ** 2).mean()
        return penalty, *torch.autograd.grad(penalty, list(self._module.parameters()))

    def _network(self, inputs: torch.Tensor) -> torch.Tensor:
        if not self._case.varying:
            return self._module(inputs)[0]
        packed = torch.nn.utils.rnn.pack_padded_sequence(inputs, self._lengths, enforce_sorted=False)
        return torch.nn.utils.rnn.pad_packed_sequence(self._module(packed)[0], total_length=self._case.time)[0]

    def results(self, task: str) -> dict[str, np.ndarray]:
        """See the base class."""
        if task == FORWARD:
            return {"output": _to_numpy(self._forward()).swapaxes(0, 1)}
        first, *others = map(_to_numpy, self.calls[task]())
        named = {"penalty": first} if task == PENALTY else {"inputs": first.swapaxes(0, 1)}
        return name_gradients(named, self._weights(others))

    def _weights(self, arrays: list[np.ndarray]) -> Mapping[str, Weights]:
        """Returns arrays of the parameters' shapes as the weights of each pseudo-layer."""
        gates, units = self._case.num_gates, self._case.units
        shaped = [array.reshape(gates, units, *array.shape[1:]) for array in arrays]
        return {
            name: Weights(*shaped[4 * index : 4 * index + 4]) for index, name in enumerate(self._case.pseudo_layers)
        }


class ProductProgram(Program):
    """`torch.mm`."""

    def __init__(self, case: Product):
        self._factors = [_to_torch(factor, case.dtype) for factor in product_factors(case)]
        self.calls = {PRODUCT: self._product}

    def _product(self) -> torch.Tensor:
        with torch.inference_mode():
            return torch.mm(*self._factors)

    def results(self, task: str) -> dict[str, np.ndarray]:
        """See the base class."""
        return {"product": _to_numpy(self._product())}


class ElementwiseProgram(Program):
    """`torch.tanh`."""

    def __init__(self, case: Elementwise):
        self._argument = _to_torch(elements(case), case.dtype)
        self.calls = {TANH: self._tanh}

    def _tanh(self) -> torch.Tensor:
        with torch.inference_mode():
            return torch.tanh(self._argument)

    def results(self, task: str) -> dict[str, np.ndarray]:
        """See the base class."""
        return {"tanh": _to_numpy(self._tanh())}


class PyTorch(Library):
    """PyTorch."""

    def __init__(self, threads: int):
        torch.set_num_threads(threads)
        torch.set_num_interop_threads(1)

    def versions(self) -> dict[str, str]:
        """See the base class."""
        return {"PyTorch": f"{torch.__version__} ({torch.backends.cpu.get_cpu_capability()})"}

    def network(self, case: Network) -> Program:
        """See the base class."""
        return NetworkProgram(case, network_problem(case))

    def product(self, case: Product) -> Program:
        """See the base class."""
        return ProductProgram(case)

    def elementwise(self, case: Elementwise) -> Program:
        """See the base class."""
        return ElementwiseProgram(case)


class PyTorchCuda(Library):
    """PyTorch on a GPU, where it runs cuDNN.

    Attributes:
      device: the device's name.
    """

    device: ClassVar[str] = "cuda"

    def __init__(self, threads: int):
        torch.set_num_threads(threads)

    def versions(self) -> dict[str, str]:
        """See the base class."""
        cudnn = f"cuDNN {torch.backends.cudnn.version()}" if torch.cuda.is_available() else "which sees no GPU"
        return {"PyTorch": f"{torch.__version__} ({cudnn})"}

    def synchronize(self) -> None:
        """See the base class."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    def network(self, case: Network) -> Program | None:
        """See the base class. There is none if PyTorch sees no GPU."""
        if self.device == "cuda" and not torch.cuda.is_available():
            return None
        return NetworkProgram(case, network_problem(case), self.device)
