"""Records the golden data: what the real cuDNN gives for the cases of tests/golden_cases.py.

    python tools/record_golden.py [--output FOLDER] [--case PATTERN] [--device cuda]

Needs a machine with an NVIDIA GPU, NumPy, and PyTorch with CUDA and cuDNN 9; not TensorFlow. All that is written comes
from calls of cuDNN itself. PyTorch is the witness: where its nn.LSTM, nn.GRU and nn.RNN, which run cuDNN too, have what
a case needs, they must give the same, or the case is not written. What differs from the float64 reference, or from the
documented layout of params, is written and reported: there the tests are to be corrected, not cuDNN.

With --device cpu PyTorch's layers run alone, on the CPU, which tries this script out; the tests do not take its files.
"""

import argparse
import fnmatch
import pathlib
import sys
from collections.abc import Callable

import cudnn_library
import numpy as np
import torch
from cudnn_network import CudnnNetwork, to_numpy, to_torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))
import cudnn_rnn_reference as reference
import golden_cases
import parity
from golden_cases import Case, Recording


class NotRecordedError(RuntimeError):
    """A case cannot be recorded, or must not be."""


def make_layer(case: Case) -> torch.nn.Module:
    """Returns PyTorch's layer for a case, with weights of its own."""
    config = case.config
    options = {
        "input_size": config.input_size,
        "hidden_size": config.num_units,
        "num_layers": config.num_layers,
        "bidirectional": config.num_directions == 2,
        "dtype": getattr(torch, case.dtype),
    }
    if config.rnn_mode == "lstm":
        return torch.nn.LSTM(**options, proj_size=config.num_proj if config.has_projection else 0)
    if config.rnn_mode == "gru":
        return torch.nn.GRU(**options)
    return torch.nn.RNN(**options, nonlinearity=config.rnn_mode.removeprefix("rnn_"))


def by_pytorch_name(case: Case, params: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the parts of a params buffer under the names that PyTorch's layers have for them, as views."""
    views: dict[str, np.ndarray] = {}
    for pseudo_layer, weights in enumerate(reference.unpack(case.config, params)):
        layer, direction = divmod(pseudo_layer, case.config.num_directions)
        kernel, recurrent, projection, kernel_bias, recurrent_bias = weights
        parts = {
            "weight_ih": kernel,
            "weight_hh": recurrent,
            "bias_ih": kernel_bias,
            "bias_hh": recurrent_bias,
            "weight_hr": projection,
        }
        suffix = f"_l{layer}{'_reverse' * direction}"
        views |= {name + suffix: part for name, part in parts.items() if part is not None}
    return views


def load_params(case: Case, layer: torch.nn.Module, params: np.ndarray) -> None:
    """Gives a layer the weights in a params buffer; on the GPU the layer's own buffer must become the same."""
    views = by_pytorch_name(case, params)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            parameter.copy_(to_torch(views[name], case.dtype, "cpu").reshape(parameter.shape))
    if parameter.is_cuda:
        layer.flatten_parameters()
        buffer = torch.empty(0, dtype=parameter.dtype, device="cuda").set_(parameter.untyped_storage())
        if not np.array_equal(to_numpy(buffer), params):
            raise NotRecordedError("PyTorch's flattened weights are in another order than params")


def params_backprop(case: Case, layer: torch.nn.Module, params: np.ndarray) -> np.ndarray:
    """Returns the gradients of a layer's weights as a params buffer, as it is stored."""
    gradients = np.zeros_like(params)
    views = by_pytorch_name(case, gradients)
    for name, parameter in layer.named_parameters():
        views[name][...] = to_numpy(parameter.grad).reshape(views[name].shape)
    return gradients


def run_pytorch(case: Case, given: dict[str, np.ndarray], device: str) -> dict[str, np.ndarray]:
    """Returns the OUTPUTS and BACKPROPS of PyTorch's layer for a case that has an input matrix."""
    layer = make_layer(case).to(device)
    load_params(case, layer, given["params"])
    tensors = {name: to_torch(array, case.dtype, device) for name, array in given.items()}
    inputs = {name: tensors[name].requires_grad_() for name in ("input", "input_h", "input_c") if name in tensors}
    if device == "cuda" and not torch.backends.cudnn.is_acceptable(tensors["input"]):
        raise NotRecordedError("PyTorch does not use cuDNN for these inputs")

    sequences = inputs["input"]
    if case.config.sequence_lengths:
        lengths = torch.tensor(case.config.lengths)
        sequences = torch.nn.utils.rnn.pack_padded_sequence(sequences, lengths, enforce_sorted=False)
    state = (inputs["input_h"], inputs["input_c"]) if case.has_cell_state else inputs["input_h"]
    output, last = layer(sequences, state)
    if case.config.sequence_lengths:
        output, _ = torch.nn.utils.rnn.pad_packed_sequence(output, total_length=case.config.time)
    last = last if case.has_cell_state else (last,)
    outputs = dict(zip(golden_cases.OUTPUTS, (output, *last), strict=False))
    torch.autograd.backward(list(outputs.values()), [tensors[f"{name}_backprop"] for name in outputs])

    results = {name: to_numpy(tensor) for name, tensor in outputs.items()}
    results |= {f"{name}_backprop": to_numpy(tensor.grad) for name, tensor in inputs.items()}
    return {**results, "params_backprop": params_backprop(case, layer, given["params"])}


def largest_difference(actual, expected) -> tuple[float, str]:
    """Returns the largest of the relative differences of results, both float64, and the name of that result."""
    return max((parity.difference(actual[name], expected[name]), name) for name in expected)


def float64(case: Case, results: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns results that are stored as golden_cases stores them as float64."""
    return {name: golden_cases.to_float64(array, case.dtype) for name, array in results.items()}


def witness(case: Case, given, results) -> str:
    """Compares cuDNN's results with those of PyTorch's layer and returns how it went in words.

    Raises:
      NotRecordedError: if they differ by more than rounding.
    """
    if case.config.skips_input:
        return "PyTorch has no skip_input"
    if given["params"].size != reference.params_size(case.config):
        return "no witness for an unknown layout"
    difference, name = largest_difference(float64(case, results), float64(case, run_pytorch(case, given, "cuda")))
    if difference > parity.TOLERANCES[case.dtype]:
        raise NotRecordedError(f"{name} of PyTorch differs by {difference:.1e}")
    return f"PyTorch {difference:.1e}"


def findings(recording: Recording) -> tuple[str, list[str]]:
    """Compares a recording with the reference and returns the largest difference and what the tests will not accept."""
    case, arrays = recording.case, recording.arrays
    documented = golden_cases.documented_regions(case.config)
    found = [
        f"{name} is not as documented" for name in documented if not np.array_equal(arrays[name], documented[name])
    ]
    documented_size = reference.params_size(case.config)
    if arrays["params"].size != documented_size:
        return "", [*found, f"params has {arrays['params'].size} elements, not {documented_size} as documented"]
    expected = golden_cases.reference_results(case, arrays)
    difference, name = largest_difference(recording.float64(*expected), expected)
    if difference > parity.TOLERANCES[case.dtype]:
        found.append(f"{name} differs from the reference by {difference:.1e}")
    return f"reference {difference:.1e}", found


def record_on_gpu(cudnn: cudnn_library.Cudnn, case: Case) -> tuple[Recording, str]:
    """Returns a recording of cuDNN, and what the witness said."""
    with CudnnNetwork(cudnn, case) as network:
        given = golden_cases.make_given(case, network.params_size)
        results = network.run(given)
        arrays = {**given, **results, **network.regions()}
    recorded_with = {
        "library": "cuDNN",
        "cudnn": f"{cudnn.version // 10000}.{cudnn.version // 100 % 100}.{cudnn.version % 100}",
        "gpu": torch.cuda.get_device_name(),
        "cuda": torch.version.cuda,
        "pytorch": torch.__version__,
    }
    return Recording(case, arrays, recorded_with), witness(case, given, results)


def record_on_cpu(case: Case) -> tuple[Recording, str]:
    """Returns a recording of PyTorch's layer on the CPU, which is not golden."""
    given = golden_cases.make_given(case, reference.params_size(case.config))
    arrays = {**given, **run_pytorch(case, given, "cpu"), **golden_cases.documented_regions(case.config)}
    return Recording(case, arrays, {"library": "PyTorch on the CPU", "pytorch": torch.__version__}), "no witness"


def make_recorder(device: str) -> Callable[[Case], tuple[Recording, str]]:
    """Returns what records a case on a device."""
    if device == "cpu":
        return record_on_cpu
    if not torch.cuda.is_available():
        raise SystemExit("PyTorch sees no GPU: record on a machine that has one, or try the script with --device cpu")
    # TF32 has 10 bits; cuDNN itself is told so case by case.
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.zeros(1, device="cuda")  # makes the device current and loads cuDNN's libraries
    cudnn = cudnn_library.Cudnn()
    if cudnn.version != torch.backends.cudnn.version():
        raise SystemExit(f"libcudnn.so.9 is {cudnn.version}, but PyTorch has {torch.backends.cudnn.version()}")
    return lambda case: record_on_gpu(cudnn, case)


def record_all(cases: list[Case], device: str, folder: pathlib.Path) -> list[str]:
    """Records cases into a folder, prints a line for each, and returns what is to be looked into."""
    recorder = make_recorder(device)
    problems = []
    for case in cases:
        try:
            recording, witnessed = recorder(case)
        except RuntimeError as error:  # cuDNN's, PyTorch's or the witness's
            print(f"{case.name}: not recorded: {error}", flush=True)
            problems.append(f"{case.name}: not recorded: {error}")
            continue
        path = golden_cases.save(folder, recording)
        golden_cases.load(path)
        difference, found = findings(recording)
        print(f"{case.name}: {path.stat().st_size} bytes, {witnessed}, {difference}", flush=True)
        problems += [f"{case.name}: {each}" for each in found]
    return problems


def main() -> None:
    """Records what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, default=golden_cases.FOLDER, help="where the files go")
    parser.add_argument("--case", default="*", help="only the cases whose name fits this pattern")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: to try this script out")
    arguments = parser.parse_args()
    if arguments.device == "cpu" and arguments.output.resolve() == golden_cases.FOLDER.resolve():
        parser.error("--device cpu needs an --output other than the golden data's folder")
    arguments.output.mkdir(parents=True, exist_ok=True)

    cases = [case for name, case in golden_cases.CASES.items() if fnmatch.fnmatch(name, arguments.case)]
    if arguments.device == "cpu":
        cases = [case for case in cases if not case.config.skips_input]
    problems = record_all(cases, arguments.device, arguments.output)
    print(f"{len(cases)} cases, {len(problems)} findings", *problems, sep="\n")
    sys.exit(1 if problems or not cases else 0)


if __name__ == "__main__":
    main()
