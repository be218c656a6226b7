"""PyTorch's `nn.LSTM`, `nn.GRU` and `nn.RNN`, its matrix product and `tanh`."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch
from cases import (
    FORWARD,
    FORWARD_BACKWARD,
    FUNCTION,
    PENALTY,
    PRODUCT,
    TANH,
    TRAIN_ON_BATCH,
    Decoder,
    Elementwise,
    MixedModel,
    Model,
    Network,
    Product,
)
from problems import (
    LEARNING_RATE,
    ModelProblem,
    NetworkProblem,
    Weights,
    elements,
    model_problem,
    name_gradients,
    network_problem,
    product_factors,
)
from programs import Library, Program

_MODULES = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "tanh": torch.nn.RNN}


def _to_torch(array: np.ndarray, dtype: str) -> torch.Tensor:
    # PyTorch does not support NumPy's bfloat16; float64 represents its numbers exactly.
    return torch.from_numpy(np.ascontiguousarray(array, np.float64)).to(getattr(torch, dtype))


def _to_numpy(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().to(torch.float64).numpy()


def _create_network(case: Network, weights: Mapping[str, Weights], device: str = "cpu", **options) -> torch.nn.RNNBase:
    """Returns a network with the given weights as a module."""
    dtype = getattr(torch, case.dtype)
    module = _MODULES[case.cell](
        case.input_size,
        case.units,
        num_layers=case.layers,
        bidirectional=case.bidirectional,
        dtype=dtype,
        device=device,
        **options,
    )
    # PyTorch has the same order of weights, with the gate and unit axes merged.
    arrays = [array for of_layer in weights.values() for array in of_layer.arrays().values()]
    with torch.no_grad():
        for parameter, array in zip(module.parameters(), arrays, strict=True):
            parameter.copy_(_to_torch(array, case.dtype).reshape(parameter.shape))
    return module


def _common_weights(case: Network, arrays: Sequence[np.ndarray]) -> Mapping[str, Weights]:
    """Returns the weights of each pseudo-layer, given arrays with the parameters' shapes."""
    shaped = [array.reshape(case.num_gates, case.units, *array.shape[1:]) for array in arrays]
    return {name: Weights(*shaped[4 * index : 4 * index + 4]) for index, name in enumerate(case.pseudo_layers)}


class NetworkProgram(Program):
    """A time-major network. If lengths vary, the calls include packing and padding of the sequences."""

    def __init__(self, case: Network, problem: NetworkProblem, device: str = "cpu"):
        self._case = case

        def to_torch(array):
            return _to_torch(array, case.dtype).to(device)

        self._inputs = to_torch(problem.inputs.swapaxes(0, 1))
        self._watched_inputs = self._inputs.clone().requires_grad_()
        self._output_gradient = to_torch(problem.output_gradient.swapaxes(0, 1))
        self._lengths = torch.tensor(case.lengths)
        self._module = _create_network(case, problem.weights, device)
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
        return name_gradients(named, _common_weights(self._case, others))


class _Model(torch.nn.Module):
    """A `cases.Model` with the problem's weights."""

    def __init__(self, case: Model, problem: ModelProblem):
        super().__init__()
        self._network = case.network
        self._lengths = torch.tensor(case.network.lengths)
        if problem.embedding is not None:
            self.embedding = torch.nn.Embedding.from_pretrained(torch.from_numpy(problem.embedding), freeze=False)
        self.recurrent = _create_network(case.network, problem.weights, batch_first=True)
        self.head = torch.nn.Linear(*problem.head_kernel.shape)
        with torch.no_grad():
            self.head.weight.copy_(torch.from_numpy(problem.head_kernel.T))
            self.head.bias.copy_(torch.from_numpy(problem.head_bias))

    def forward(self, inputs: torch.Tensor, states=None):
        """Returns the output and the states."""
        x = self.embedding(inputs) if hasattr(self, "embedding") else inputs
        if self._network.varying:
            x = torch.nn.utils.rnn.pack_padded_sequence(x, self._lengths, batch_first=True, enforce_sorted=False)
        _, states = self.recurrent(x, states)
        last_states = states[0] if isinstance(states, tuple) else states  # [pseudo-layers, batch, units]
        features = torch.cat(list(last_states[-len(self._network.directions) :]), dim=-1)
        return self.head(features), states


class ModelProgram(Program):
    """A model: inference of one batch, and a step of training with Adam."""

    def __init__(self, case: Model, problem: ModelProblem):
        self._case, self._problem = case, problem
        self._inputs, self._targets = torch.from_numpy(problem.inputs), torch.from_numpy(problem.targets)
        self._reset()
        calls = {FUNCTION: self._decode if isinstance(case, Decoder) else self._infer, TRAIN_ON_BATCH: self._train}
        self.calls = {task: call for task, call in calls.items() if task in case.tasks}

    def _reset(self) -> None:
        """Recreates the model with the problem's weights, its optimizer and a decoder's states."""
        self._model = _Model(self._case, self._problem)
        self._optimizer = torch.optim.Adam(self._model.parameters(), lr=LEARNING_RATE)
        self._last = self._inputs, self._first_states()

    def _first_states(self):
        """Returns a decoder's states in PyTorch's format, [layers, batch, units]; None for other models."""
        states = list(map(torch.from_numpy, self._problem.states))
        if self._case.network.cell == "lstm" and states:
            return torch.stack(states[0::2]), torch.stack(states[1::2])
        return torch.stack(states) if states else None

    def _infer(self) -> torch.Tensor:
        self._model.eval()
        with torch.inference_mode():
            return self._model(self._inputs)[0]

    def _decode(self) -> torch.Tensor:
        """Calls the model with its previous results, and returns the output."""
        self._model.eval()
        with torch.inference_mode():
            output, states = self._model(*self._last)
            self._last = output.argmax(dim=-1, keepdim=True), states
        return output

    def _train(self) -> float:
        self._model.train()
        self._optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(self._model(self._inputs)[0], self._targets)
        loss.backward()
        self._optimizer.step()
        return loss.item()

    def results(self, task: str) -> dict[str, np.ndarray]:
        """See the base class."""
        self._reset()
        result = self.calls[task]()
        if task == TRAIN_ON_BATCH:
            return {"loss": np.array(result), **self._named_moments()}
        if not isinstance(self._case, Decoder):
            return {"output": _to_numpy(result)}
        states = self._last[1]
        if isinstance(states, tuple):  # reorder to hidden state, cell state of each layer
            states = torch.stack(states, dim=1).flatten(0, 1)
        return {"output": _to_numpy(result), "states": _to_numpy(states)}

    def _named_moments(self) -> dict[str, np.ndarray]:
        moments = {
            name: _to_numpy(self._optimizer.state[parameter]["exp_avg"])
            for name, parameter in self._model.named_parameters()
        }
        first = {"head_kernel": moments["head.weight"].T, "head_bias": moments["head.bias"]}
        if self._case.takes_tokens:
            first["embedding"] = moments["embedding.weight"]
        recurrent = [moment for name, moment in moments.items() if name.startswith("recurrent.")]
        return name_gradients(first, _common_weights(self._case.network, recurrent))


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

    def model(self, case: Model) -> Program | None:
        """See the base class."""
        return None if isinstance(case, MixedModel) else ModelProgram(case, model_problem(case))

    def product(self, case: Product) -> Program:
        """See the base class."""
        return ProductProgram(case)

    def elementwise(self, case: Elementwise) -> Program:
        """See the base class."""
        return ElementwiseProgram(case)


class Float64Reference(PyTorch):
    """Expected results: networks in float64 on the same inputs."""

    def network(self, case: Network) -> Program:
        """See the base class."""
        return NetworkProgram(dataclasses.replace(case, dtype="float64"), network_problem(case).astype("float64"))


class PyTorchCuda(Library):
    """PyTorch on a GPU, which uses cuDNN.

    Attributes:
      device: the device's name.
    """

    device: ClassVar[str] = "cuda"

    def __init__(self, threads: int):
        torch.set_num_threads(threads)

    def versions(self) -> dict[str, str]:
        """See the base class."""
        cudnn = f"cuDNN {torch.backends.cudnn.version()}" if torch.cuda.is_available() else "no GPU found"
        return {"PyTorch": f"{torch.__version__} ({cudnn})"}

    def synchronize(self) -> None:
        """See the base class."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    def network(self, case: Network) -> Program | None:
        """See the base class. Returns None if PyTorch sees no GPU."""
        if self.device == "cuda" and not torch.cuda.is_available():
            return None
        return NetworkProgram(case, network_problem(case), self.device)
