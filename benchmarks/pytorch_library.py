"""PyTorch's `nn.LSTM`, `nn.GRU` and `nn.RNN` on the CPU or a GPU, its matrix product and `tanh`."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from cases import CALL_IN_PYTHON, FORWARD, FORWARD_BACKWARD, FUNCTION, PENALTY, PRODUCT, TANH, TRAIN_ON_BATCH, Case
from library import LEARNING_RATE, Library, Problem, Program, Task, Weights, name_gradients, operands, problem_of, task

_MODULES = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "tanh": torch.nn.RNN}


def _to_torch(array: np.ndarray, dtype: str) -> torch.Tensor:
    # PyTorch does not support NumPy's bfloat16; float64 represents its numbers exactly.
    return torch.from_numpy(np.ascontiguousarray(array, np.float64)).to(getattr(torch, dtype))


def _to_numpy(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().to(torch.float64).numpy()


def _infer(call: Callable[[], Any]) -> Any:
    with torch.inference_mode():
        return call()


def _create_network(
    case: Case, weights: Mapping[str, Weights], dtype: str, device="cpu", **options
) -> torch.nn.RNNBase:
    """Returns a network with the given weights as a module."""
    sizes = {"num_layers": case.layers, "bidirectional": case.bidirectional}
    options |= {"dtype": getattr(torch, dtype), "device": device, **sizes}
    module = _MODULES[case.cell](case.input_size, case.units, **options)
    # PyTorch has the same order of weights, with the gate and unit axes merged.
    arrays = [array for of_layer in weights.values() for array in of_layer]
    with torch.no_grad():
        for parameter, array in zip(module.parameters(), arrays, strict=True):
            parameter.copy_(_to_torch(array, dtype).reshape(parameter.shape))
    return module


def _common_weights(case: Case, arrays: Sequence[np.ndarray]) -> Mapping[str, Weights]:
    """Returns the weights of each pseudo-layer, given arrays with the parameters' shapes."""
    shaped = [array.reshape(case.num_gates, case.units, *array.shape[1:]) for array in arrays]
    return {name: Weights(*shaped[4 * index : 4 * index + 4]) for index, name in enumerate(case.pseudo_layers)}


def _network_program(case: Case, problem: Problem, device: str = "cpu") -> Program:
    """A time-major network. If lengths vary, the calls include packing and padding of the sequences."""
    dtype = problem.inputs.dtype.name
    inputs, output_gradient = (
        _to_torch(array.swapaxes(0, 1), dtype).to(device) for array in (problem.inputs, problem.output_gradient)
    )
    watched_inputs = inputs.clone().requires_grad_()
    lengths = torch.tensor(case.lengths)
    module = _create_network(case, problem.weights, dtype, device)

    def network(inputs: torch.Tensor, training: bool) -> torch.Tensor:
        module.train(training)
        if not case.varying:
            return module(inputs)[0]
        packed = torch.nn.utils.rnn.pack_padded_sequence(inputs, lengths, enforce_sorted=False)
        return torch.nn.utils.rnn.pad_packed_sequence(module(packed)[0], total_length=case.time)[0]

    def gradients() -> Sequence[torch.Tensor]:
        output = network(watched_inputs, training=True)
        return torch.autograd.grad(output, [watched_inputs, *module.parameters()], output_gradient)

    def penalty_gradients() -> Sequence[torch.Tensor]:
        """Returns the penalty, see `cases`, and its gradients with respect to the parameters."""
        output = network(watched_inputs, training=True)
        (slopes,) = torch.autograd.grad(output, watched_inputs, output_gradient * output, create_graph=True)
        norms = slopes.to(torch.promote_types(slopes.dtype, torch.float32)).norm(dim=(0, 2))
        penalty = ((norms - 1) ** 2).mean()
        return penalty, *torch.autograd.grad(penalty, list(module.parameters()))

    def named(first: str, result: Sequence[torch.Tensor]) -> dict[str, np.ndarray]:
        own, *others = map(_to_numpy, result)
        own = own.swapaxes(0, 1) if first == "inputs" else own
        return name_gradients({first: own}, _common_weights(case, others))

    forward = functools.partial(_infer, functools.partial(network, inputs, training=False))
    program = {
        FORWARD: task(forward, lambda output: {"output": _to_numpy(output).swapaxes(0, 1)}),
        FORWARD_BACKWARD: task(gradients, functools.partial(named, "inputs")),
        PENALTY: task(penalty_gradients, functools.partial(named, "penalty")),
    }
    return {name: program[name] for name in case.tasks}


def _initial_states(case: Case, problem: Problem) -> Any:
    """Returns the states as a module takes them, each [layers, batch, units]; None if the model takes none."""
    states = list(map(torch.from_numpy, problem.states))
    if not states:
        return None
    return (torch.stack(states[0::2]), torch.stack(states[1::2])) if case.cell == "lstm" else torch.stack(states)


def _served_program(case: Case) -> Program:
    """A served model, which returns the last output, [batch, units], and a decoder's states."""
    problem = problem_of(case)
    module = _create_network(case, problem.weights, "float32", batch_first=True)
    call = functools.partial(module, torch.from_numpy(problem.inputs), _initial_states(case, problem))
    return {
        CALL_IN_PYTHON: task(functools.partial(_infer, call), lambda results: {"output": _to_numpy(results[0][:, -1])})
    }


class _Model(torch.nn.Module):
    """A model with the problem's weights."""

    def __init__(self, case: Case, problem: Problem):
        super().__init__()
        self._case = case
        self._lengths = torch.tensor(case.lengths)
        if problem.embedding is not None:
            self.embedding = torch.nn.Embedding.from_pretrained(torch.from_numpy(problem.embedding), freeze=False)
        self.recurrent = _create_network(case, problem.weights, "float32", batch_first=True)
        self.head = torch.nn.Linear(*problem.head_kernel.shape)
        with torch.no_grad():
            self.head.weight.copy_(torch.from_numpy(problem.head_kernel.T))
            self.head.bias.copy_(torch.from_numpy(problem.head_bias))

    def forward(self, inputs: torch.Tensor, states=None):
        """Returns the output and the states."""
        x = self.embedding(inputs) if hasattr(self, "embedding") else inputs
        if self._case.varying:
            x = torch.nn.utils.rnn.pack_padded_sequence(x, self._lengths, batch_first=True, enforce_sorted=False)
        _, states = self.recurrent(x, states)
        last_states = states[0] if isinstance(states, tuple) else states  # [pseudo-layers, batch, units]
        features = torch.cat(list(last_states[-len(self._case.directions) :]), dim=-1)
        return self.head(features), states


class ModelProgram:
    """A model: inference of one batch, and a step of training with Adam.

    Attributes:
      tasks: its program.

    Args:
      case: the model.
    """

    def __init__(self, case: Case):
        self._case, self._problem = case, problem_of(case)
        self._inputs, self._targets = map(torch.from_numpy, (self._problem.inputs, self._problem.targets))
        self._reset()
        infer = self._decode if case.kind == "decoder" else self._infer
        tasks = {
            FUNCTION: Task(infer, functools.partial(self._results, infer, self._outputs)),
            TRAIN_ON_BATCH: Task(self._train, functools.partial(self._results, self._train, self._moments)),
        }
        self.tasks = {name: each for name, each in tasks.items() if name in case.tasks}

    def _reset(self) -> None:
        """Recreates the model with the problem's weights, its optimizer and a decoder's states."""
        self._model = _Model(self._case, self._problem)
        self._optimizer = torch.optim.Adam(self._model.parameters(), lr=LEARNING_RATE)
        self._last = self._inputs, _initial_states(self._case, self._problem)

    def _infer(self) -> torch.Tensor:
        self._model.eval()
        return _infer(lambda: self._model(self._inputs)[0])

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

    def _results(self, call: Callable[[], Any], convert: Callable[[Any], dict[str, np.ndarray]]):
        self._reset()
        return convert(call())

    def _outputs(self, output: torch.Tensor) -> dict[str, np.ndarray]:
        states: Any = self._last[1]
        if isinstance(states, tuple):  # reorder to hidden state, cell state of each layer
            states = torch.stack(states, dim=1).flatten(0, 1)
        return {"output": _to_numpy(output), **({} if states is None else {"states": _to_numpy(states)})}

    def _moments(self, loss: float) -> dict[str, np.ndarray]:
        moments = {
            name: _to_numpy(self._optimizer.state[parameter]["exp_avg"])
            for name, parameter in self._model.named_parameters()
        }
        first = {"loss": np.array(loss), "head_kernel": moments["head.weight"].T, "head_bias": moments["head.bias"]}
        if self._case.takes_tokens:
            first["embedding"] = moments["embedding.weight"]
        recurrent = [moment for name, moment in moments.items() if name.startswith("recurrent.")]
        return name_gradients(first, _common_weights(self._case, recurrent))


class PyTorch(Library):
    """PyTorch."""

    def __init__(self, threads: int, **options: Any):
        super().__init__(threads, **options)
        torch.set_num_threads(threads)
        torch.set_num_interop_threads(1)

    def versions(self) -> dict[str, str]:
        return {"PyTorch": f"{torch.__version__} ({torch.backends.cpu.get_cpu_capability()})"}

    def program(self, case: Case) -> Program:
        if case.has_network:
            return _network_program(case, problem_of(case))
        if case.kind in ("model", "decoder") and not case.variant:
            return ModelProgram(case).tasks
        if case.is_served:
            return _served_program(case)
        if case.kind not in ("product", "elementwise"):
            return {}
        of_case = [_to_torch(each, case.dtype) for each in operands(case)]
        name, key, function = {
            "product": (PRODUCT, "product", torch.mm),
            "elementwise": (TANH, "tanh", torch.tanh),
        }[case.kind]
        call = functools.partial(_infer, functools.partial(function, *of_case))
        return {name: task(call, lambda result: {key: _to_numpy(result)})}


class PyTorchOnGpu(Library):
    """PyTorch on a GPU, which uses cuDNN.

    Attributes:
      device: the device's name.
    """

    device = "cuda"

    def __init__(self, threads: int, **options: Any):
        super().__init__(threads, **options)
        torch.set_num_threads(threads)

    def versions(self) -> dict[str, str]:
        cudnn = f"cuDNN {torch.backends.cudnn.version()}" if torch.cuda.is_available() else "no GPU found"
        return {"PyTorch": f"{torch.__version__} ({cudnn})"}

    def synchronize(self) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    def program(self, case: Case) -> Program:
        """See the base class. Supports nothing if PyTorch sees no GPU."""
        is_missing = self.device == "cuda" and not torch.cuda.is_available()
        return {} if is_missing or not case.has_network else _network_program(case, problem_of(case), self.device)
