"""Tests of the conversion of PyTorch weights from and to params, by comparing results with PyTorch modules."""

import numpy as np
import pytest
from checks import parity
from checks.cudnn_rnn import names_of
from checks.params_conversions import network, networks, outputs_and_gradients, rejects
from inputs.cudnn_rnn import INPUTS, OUTPUTS, network_inputs, output_gradients, params_layout

from tf_rnn_ops.params import from_pytorch, layout, layout_from_pytorch, to_pytorch, unpack

torch = pytest.importorskip("torch")

LENGTHS = (4, 6, 1)


MODES: dict[str, dict] = {
    "lstm": {},
    "projection": {"rnn_mode": "lstm", "num_proj": 2},
    "gru": {"rnn_mode": "gru"},
    "rnn_tanh": {"rnn_mode": "rnn_tanh"},
    "rnn_relu": {"rnn_mode": "rnn_relu"},
}


def module_of(config, bias=True):
    """Returns the PyTorch module of a network, with random weights."""
    torch.manual_seed(0)
    arguments = {"bias": bias, "bidirectional": config.direction == "bidirectional", "dtype": torch.float64}
    if config.rnn_mode == "lstm":
        make, arguments["proj_size"] = torch.nn.LSTM, config.num_proj
    elif config.rnn_mode == "gru":
        make = torch.nn.GRU
    else:
        make, arguments["nonlinearity"] = torch.nn.RNN, config.rnn_mode.removeprefix("rnn_")
    return make(config.input_size, config.num_units, config.num_layers, **arguments)


def run_pytorch(config, module, inputs):
    """Returns the outputs of a module, and gradients of their scaled sum with respect to its input and states."""
    tensors = {name: torch.tensor(inputs[name], requires_grad=True) for name in names_of(config, INPUTS[:3])}
    x, *states = tensors.values()
    if config.sequence_lengths is not None:
        x = torch.nn.utils.rnn.pack_padded_sequence(x, config.sequence_lengths, enforce_sorted=False)
    output, final_states = module(x, tuple(states) if config.rnn_mode == "lstm" else states[0])
    if config.sequence_lengths is not None:
        output, _ = torch.nn.utils.rnn.pad_packed_sequence(output, total_length=config.time)
    outputs = [output, *(final_states if config.rnn_mode == "lstm" else [final_states])]
    scales = output_gradients(config)
    names = names_of(config, OUTPUTS)
    loss = sum(
        (each * torch.tensor(scales[f"{name}_backprop"])).sum() for name, each in zip(names, outputs, strict=True)
    )
    module.zero_grad()
    loss.backward()
    return [each.detach().numpy() for each in outputs], [each.grad.numpy() for each in tensors.values()]


def check(actual, expected):
    for ours, theirs in zip(actual, expected, strict=True):
        assert parity.difference(ours, theirs) < 1e-12


@pytest.mark.parametrize(
    ("lengths", "bias"),
    [(None, True), (LENGTHS, True), (LENGTHS, False)],
    ids=["whole", "packed", "packed-without biases"],
)
@networks(MODES)
def test_from_pytorch_equals_pytorch(config, bias, lengths):
    config = network(**{**vars(config), "sequence_lengths": lengths})
    module = module_of(config, bias)
    inputs = {**network_inputs(config), "params": from_pytorch(params_layout(config), module.state_dict())}
    outputs, gradients = run_pytorch(config, module, inputs)
    actual, actual_gradients = outputs_and_gradients(config, inputs)
    d_params = actual_gradients.pop("params")
    check(actual, outputs)
    check(actual_gradients.values(), gradients)
    d_weights = {name: weight.grad for name, weight in module.named_parameters()}
    expected = unpack(params_layout(config), from_pytorch(params_layout(config), d_weights))
    for name, gradient in unpack(params_layout(config), d_params.numpy()).items():
        if bias or not name.split("/")[2].endswith("bias"):
            assert parity.difference(gradient, expected[name]) < 1e-12, name
    nonlinearity = config.rnn_mode.removeprefix("rnn_") if config.rnn_mode.startswith("rnn") else "tanh"
    assert layout_from_pytorch(module.state_dict(), nonlinearity=nonlinearity) == params_layout(config)
    weights = to_pytorch(params_layout(config), inputs["params"], use_bias=bias)
    assert list(weights) == list(module.state_dict())
    for name, weight in module.state_dict().items():
        np.testing.assert_array_equal(weights[name], weight)


def test_a_module_inside_another():
    model = torch.nn.ModuleDict(
        {"encoder": module_of(network(rnn_mode="gru")), "decoder": module_of(network(num_layers=2, num_proj=2))}
    )
    for name, module in model.items():
        each = layout_from_pytorch(model.state_dict(), prefix=f"{name}.")
        params = from_pytorch(each, model.state_dict(), prefix=f"{name}.")
        np.testing.assert_array_equal(params, from_pytorch(each, module.state_dict()))
        weights = to_pytorch(each, params, prefix=f"{name}.")
        assert set(weights) == {other for other in model.state_dict() if other.startswith(name)}


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
def test_dtypes_are_kept(dtype):
    module = torch.nn.LSTM(3, 4, dtype=dtype)
    params = from_pytorch(layout("lstm", 4, 3), module.state_dict())
    assert params.dtype == str(dtype).removeprefix("torch.")
    for weight in to_pytorch(layout("lstm", 4, 3), params).values():
        assert weight.dtype == params.dtype


def test_results_share_no_memory():
    module = module_of(network())
    params = from_pytorch(params_layout(network()), module.state_dict())
    for name, weight in to_pytorch(params_layout(network()), params).items():
        assert not np.shares_memory(weight, params)
        assert not np.shares_memory(module.state_dict()[name].numpy(), params)


def test_parameters_and_bfloat16():
    module = torch.nn.GRU(3, 4).bfloat16()
    each = layout("gru", 4, 3)
    expected = from_pytorch(each, module.float().state_dict())
    np.testing.assert_array_equal(from_pytorch(each, dict(module.named_parameters())), expected)
    actual = from_pytorch(each, module.bfloat16().state_dict())
    assert actual.dtype == "float32"
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    "read", [lambda module: layout_from_pytorch(module), lambda module: from_pytorch(layout("gru", 4, 3), module)]
)
def test_a_module_is_rejected(read):
    with pytest.raises(TypeError, match=r"state_dict must be a mapping, but is a GRU: pass module\.state_dict\(\)"):
        read(torch.nn.GRU(3, 4))


ONE_MODULE = "state_dict must contain one module; pass its prefix to select one."


def test_other_modules_are_ignored():
    each = params_layout(network())
    weights = to_pytorch(each, np.arange(each.size, dtype="float64"), prefix="lstm.")
    weights |= {"weight_ih_l0": np.zeros(1), "lstm.extra.weight_ih_l5": np.zeros(1), "lstm.weight": np.zeros(1)}
    assert layout_from_pytorch(weights, prefix="lstm.") == each
    np.testing.assert_array_equal(from_pytorch(each, weights, prefix="lstm."), np.arange(each.size))


WITHOUT_LAYOUT = {
    "prefix": (
        {"weight_ih_l0": np.zeros([16, 3]), "weight_hh_l0": np.zeros([16, 4])},
        {"prefix": "lstm."},
        f"{ONE_MODULE} Found no module with prefix 'lstm.'; modules with other prefixes: ''",
    ),
    "several modules": (
        {"encoder.weight_ih_l0": np.zeros([16, 3]), "a.b.weight_hh_l0": np.zeros([16, 4]), "bias": np.zeros(4)},
        {},
        f"{ONE_MODULE} Found several: 'encoder' and 'a.b'",
    ),
    "none": ({}, {}, f"{ONE_MODULE} Found no module (no weight_ih_l0)"),
    "no recurrent weights": (
        {"weight_ih_l0": np.zeros([16, 3])},
        {},
        "state_dict must have a matrix 'weight_hh_l0', but has no such name",
    ),
    "a vector": (
        {"weight_ih_l0": np.zeros([16, 3]), "weight_hh_l0": np.zeros([16])},
        {},
        "'weight_hh_l0' in state_dict must be a matrix, but has the shape [16]",
    ),
    "two gates": (
        {"weight_ih_l0": np.zeros([8, 3]), "weight_hh_l0": np.zeros([8, 4])},
        {},
        "weight_hh_l0 must have 4 * units (LSTM), 3 * units (GRU) or units (RNN) rows, where units is 4, but has "
        "8 rows",
    ),
    "sigmoid": ({}, {"nonlinearity": "sigmoid"}, "nonlinearity must be 'tanh' or 'relu', but is 'sigmoid'"),
}


@pytest.mark.parametrize(("weights", "arguments", "message"), WITHOUT_LAYOUT.values(), ids=WITHOUT_LAYOUT)
def test_weights_without_a_layout_are_rejected(weights, arguments, message):
    with rejects(message):
        layout_from_pytorch(weights, **arguments)
