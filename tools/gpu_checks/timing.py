"""Times networks compared with PyTorch, and the backward pass and its gradient."""

import functools
import itertools

import cudnn_rnn_reference as reference
import golden_cases
import torch
from golden_cases import Case

from gpu_checks import networks, torch_layers
from gpu_checks.arrays import to_numpy
from gpu_checks.engine import Network
from gpu_checks.outcome import Cases, Context, Outcome
from gpu_checks.second_order import case_directions
from gpu_checks.summary import BACKWARD, PEER_RUNS, TASKS

# batch, time, input_size, num_units
SIZES = ((32, 100, 128, 256), (64, 50, 512, 512), (1, 100, 128, 256), (256, 100, 512, 1024))
QUICK_SIZES = ((2, 3, 8, 8),)
DTYPES = ("float32", "float16", "bfloat16")
# Two layers without dropout, which cuDNN runs in one call, and with dropout, which takes two calls.
STACKS: dict[str, dict] = {"2-layers": {"num_layers": 2}, "2-layers-dropout": {"num_layers": 2, "dropout": 0.5}}
ROUNDS = 10
QUICK_ROUNDS = 3
WARM_UP = 3
FORWARD, FORWARD_BACKWARD = TASKS


def timed_cases(context: Context) -> list[Case]:
    """Returns LSTMs and GRUs of usual sizes with one layer, and of the first size with two layers."""
    sizes = QUICK_SIZES if context.quick else SIZES
    kinds: list[tuple[tuple[int, int, int, int], str]] = [(size, "") for size in sizes]
    kinds += [(sizes[0], label) for label in STACKS]
    return [
        make_case(mode, dtype, size, label, **STACKS.get(label, {}))
        for mode, (size, label), dtype in itertools.product(("lstm", "gru"), kinds, DTYPES)
    ]


def make_case(mode: str, dtype: str, size: tuple[int, int, int, int], label: str = "", **options) -> Case:
    """Returns a network with one layer, unless overridden in the options."""
    batch, steps, input_size, num_units = size
    config = reference.Config(
        rnn_mode=mode, batch=batch, time=steps, input_size=input_size, num_units=num_units, **options
    )
    return Case(config, dtype, "-".join(filter(None, (label, "x".join(map(str, size))))))


def cases(context: Context) -> Cases:
    """Yields networks compared with PyTorch, and their backward passes and gradients."""
    for case in timed_cases(context):
        yield case.name, functools.partial(networks.or_standard, time_with_pytorch, context, case)
        yield f"{BACKWARD}-{case.name}", functools.partial(networks.or_standard, backward_passes, context, case)


def rounds(context: Context) -> int:
    """Returns the number of timed calls."""
    return QUICK_ROUNDS if context.quick else ROUNDS


def median_seconds(context: Context, call) -> float:
    """Returns the median duration of a call after warming up."""
    for _ in range(WARM_UP):
        call()
    return context.engine.device.median_seconds(itertools.repeat(call, rounds(context)))


def make_tensors(context: Context, case: Case) -> dict[str, torch.Tensor]:
    """Returns random inputs of a network. They are drawn on the device, which is faster."""
    device = context.engine.device
    tensors = {name: device.empty(shape, case.dtype).normal_() for name, shape in given_shapes(case).items()}
    tensors["params"].mul_(params_scale(case))
    return tensors


def given_shapes(case: Case) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the inputs of a network."""
    shapes = golden_cases.shapes(case, reference.params_size(case.config))
    return {name: shape for name, shape in shapes.items() if name in golden_cases.GIVEN}


def params_scale(case: Case) -> float:
    """Returns a standard deviation of params that avoids tiny and saturated activations."""
    return (case.config.input_size + case.config.num_units) ** -0.5


def time_with_pytorch(context: Context, case: Case, **options) -> Outcome:
    """Times inference and training (forward and backward) of a network, and of PyTorch."""
    outcome = Outcome()
    tensors = make_tensors(context, case)
    with Network(context.engine, case, poisons_results=False, **options) as network:
        outcome.measured["algorithm"] = network.reserve_space()[1]

        def train():
            network.backward(tensors, network.forward(tensors), owns_reserve_space=True)

        outcome.measured[f"{FORWARD} ms"] = 1e3 * median_seconds(
            context, lambda: network.forward(tensors, training=False)
        )
        outcome.measured[f"{FORWARD_BACKWARD} ms"] = 1e3 * median_seconds(context, train)
    time_pytorch(outcome, context, case, tensors)
    return outcome


def time_pytorch(outcome: Outcome, context: Context, case: Case, tensors) -> None:
    """Times inference and training (forward and backward) of PyTorch's layer."""
    layer = torch_layers.make_layer(case)
    torch_layers.load_params(case, layer, to_numpy(tensors["params"]))
    layer = layer.to(context.engine.device.peer)
    if not torch_layers.runs_cudnn(case, context.engine.device.peer):
        outcome.measured[PEER_RUNS] = torch_layers.NOT_CUDNN
    states = tuple(tensors[name] for name in ("input_h", "input_c") if name in tensors)
    states = states if case.has_cell_state else states[0]
    watched = tensors["input"].clone().requires_grad_()

    def infer():
        with torch.inference_mode():
            layer(tensors["input"], states)

    def train():
        output, _ = layer(watched, states)
        torch.autograd.grad(output, [watched, *layer.parameters()], tensors["output_backprop"])

    for name, is_training, call in ((FORWARD, False, infer), (FORWARD_BACKWARD, True, train)):
        layer.train(is_training)  # in training mode, cuDNN would write a reserve space in inference, too
        outcome.measured[f"torch.nn {name} ms"] = 1e3 * median_seconds(context, call)


def backward_passes(context: Context, case: Case, **options) -> Outcome:
    """Times the backward pass with the reserve space and with a copy of it, and its gradient."""
    outcome = Outcome()
    device = context.engine.device
    tensors = make_tensors(context, case)
    with Network(context.engine, case, poisons_results=False, **options) as network:
        outcome.measured["reserve_space MB"] = network.reserve_space()[0] / 1e6
        for name, owns in (("in place ms", True), ("copy ms", False)):

            def backward(owns=owns):
                outputs = network.forward(tensors)
                return functools.partial(network.backward, tensors, outputs, owns_reserve_space=owns)

            for _ in range(WARM_UP):
                backward()()
            seconds = device.median_seconds(backward() for _ in range(rounds(context)))
            outcome.measured[name] = 1e3 * seconds
        directions = {name: tensors[name.removeprefix("dot_")] for name in case_directions(case)}
        gradient = functools.partial(network.backward_grad, {**tensors, **directions})
        outcome.measured["gradient ms"] = 1e3 * median_seconds(context, gradient)
    return outcome
