"""Records golden data by calling cuDNN directly, without the engine, and then checks them.

A recording is saved before it is checked, so that differences from PyTorch, the reference or the documented layout can
be investigated.
"""

import functools

import golden_cases
import numpy as np
import torch
from golden_cases import VARIANTS, Case, Recording

from gpu_checks import networks
from gpu_checks.cudnn_library import Cudnn, CudnnError
from gpu_checks.cudnn_network import CudnnNetwork
from gpu_checks.outcome import Cases, Context, Outcome, regions


def cases(context: Context) -> Cases:
    """Yields the golden cases."""
    cudnn = Cudnn()
    for name, case in golden_cases.CASES.items():
        yield name, functools.partial(record, context, cudnn, case)


def record(context: Context, cudnn: Cudnn, case: Case) -> Outcome:
    """Records one case in every variant and checks the results."""
    outcome = Outcome()
    with CudnnNetwork(cudnn, context.engine.device, case) as network:
        recording = run(context, cudnn, case, network)
        if recording.results:
            golden_cases.save(context.archive, recording)
    if recording.results:
        judge(outcome, context, recording)
    for variant, message in recording.refused.items():
        outcome.problems.append(f"{variant}: {message}")
    return outcome


def run(context: Context, cudnn: Cudnn, case: Case, network: CudnnNetwork) -> Recording:
    """Records a case. Variants that cuDNN rejects are listed as refused. Stops if the device is lost."""
    results, refused = {}, {}
    device = context.engine.device
    given = golden_cases.make_given(case, network.params_size)
    arrays = {**given, **network.regions()}
    recorded_with = {
        "library": device.cudnn_library,
        "cudnn": cudnn.version,
        "gpu": device.name,
        "pytorch": torch.__version__,
        **device.versions(),
    }
    for name, variant in VARIANTS.items():
        try:
            results[name] = network.run(given, variant)
        except CudnnError as error:
            refused[name] = str(error)
        except RuntimeError as error:  # DeviceLostError, or an error of PyTorch on a lost device
            refused[name] = f"{type(error).__name__}: {error}"
            break
    return Recording(case, arrays, results, refused, recorded_with)


def judge(outcome: Outcome, context: Context, recording: Recording) -> None:
    """Compares the layout of params with the documentation, and the results with the reference and PyTorch."""
    case, arrays = recording.case, recording.arrays
    documented = golden_cases.documented_regions(case.config)
    for name, expected in documented.items():
        outcome.expect(np.array_equal(arrays[name], expected), f"{name} differs from the documentation")
    if outcome.problems:
        return  # the reference and PyTorch use the documented layout
    reference_results = golden_cases.reference_results(case, arrays)
    first = next(iter(recording.results))
    for variant, results in recording.results.items():
        wide = golden_cases.all_to_float64(results, case.dtype)
        _compare_variant(outcome, variant, wide, reference_results, case)
        differing = [
            name for name, array in results.items() if not golden_cases.same_bits(array, recording.results[first][name])
        ]
        if differing:
            outcome.measured[f"{variant} differs in bits from {first}"] = ", ".join(differing)
    wide = golden_cases.all_to_float64(recording.results[first], case.dtype)
    networks.compare_with_pytorch(outcome, context, case, wide, arrays_given(arrays), case.dtype)


def _compare_variant(outcome, variant, actual, expected, case):
    """Compares with the reference; problems name the variant."""
    of_variant = Outcome()
    of_variant.compare("float64", actual, expected, case.dtype, regions(case.config))
    difference = of_variant.measured["float64"]
    outcome.measured["float64"] = max(float(difference), float(outcome.measured.get("float64", 0.0)))
    outcome.problems += [f"{variant}: {problem}" for problem in of_variant.problems]


def arrays_given(arrays) -> dict[str, np.ndarray]:
    """Returns the arrays that are inputs of a network."""
    return {name: array for name, array in arrays.items() if name in golden_cases.GIVEN}
