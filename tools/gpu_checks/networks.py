"""Every kind of network: compared with the float64 reference and PyTorch, and checked for identical bits."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import cudnn_rnn_reference as reference
import golden_cases
import numpy as np
from golden_cases import Case

from gpu_checks import torch_layers
from gpu_checks.engine import TYPES, Code, EngineError, Network
from gpu_checks.outcome import Cases, Context, Outcome, float64, regions
from gpu_checks.philox import RandomStream, dropout_masks
from gpu_checks.summary import PEER_RUNS

# Sequence lengths as a function of time and batch.
LENGTHS = {
    "no_lengths": lambda time, batch: None,
    "full": lambda time, batch: (time,) * batch,
    "differing": lambda time, batch: tuple(1 + 3 * sample % time for sample in range(batch)),
    "with_0": lambda time, batch: tuple(3 * sample % time for sample in range(batch)),
}
_SIXTEEN_BITS = ("float16", "bfloat16")
# TF32 has the same mantissa as float16.
TF32 = "float16"
# Minimum distance of the inputs of ReLU from 0, by precision: larger than rounding errors.
_NEAREST_TO_THE_KINK = {"float64": 1e-5, "float32": 1e-5, "float16": 2.0**-8, "bfloat16": 2.0**-5}
_SEEDS = 10_000
# With as many units, no seed keeps the inputs of all ReLUs away from 0.
_MANY_RELUS = 48


def make_case(
    mode: str,
    dtype: str,
    lengths: str,
    layout: str,
    label: str = "",
    stream: RandomStream | None = None,
    precision: str | None = None,
    **options,
) -> Case:
    """Returns a case of odd sizes.

    Args:
      mode: the rnn_mode.
      dtype: dtype of the tensors.
      lengths: one of LENGTHS.
      layout: one of golden_cases.LAYOUTS.
      label: added to the name.
      stream: first random numbers of dropout, if any.
      precision: dtype of the expected rounding, if not `dtype`. Sequences are short for 16-bit types, since rounding
        errors accumulate.
      **options: further fields of Config.
    """
    precision = precision or dtype
    sizes: dict[str, Any] = {"time": 6, "batch": 5, "input_size": 11, "num_units": 13}
    if precision in _SIXTEEN_BITS:
        sizes |= (
            {"time": 2, "batch": 2, "input_size": 9, "num_units": 8} if mode == "rnn_relu" else {"time": 4, "batch": 3}
        )
    sizes |= options
    if sizes.get("input_mode") == "skip_input":
        sizes["input_size"] = sizes["num_units"]
    config = reference.Config(
        rnn_mode=mode,
        time_major=layout == golden_cases.SEQUENCE_MAJOR,
        sequence_lengths=LENGTHS[lengths](sizes["time"], sizes["batch"]),
        **sizes,
    )
    case = Case(config, dtype, "-".join(filter(None, (layout, lengths, label))))
    if mode != "rnn_relu":
        return case
    return _away_from_the_kink(case, precision, None if stream is None else dropout_masks(config, stream))


def _away_from_the_kink(case: Case, precision: str, masks) -> Case:
    """Chooses a seed such that no input of ReLU is so close to 0 that rounding could change the slope."""
    for seed in range(_SEEDS):
        seeded = dataclasses.replace(case, seed=seed)
        wide = golden_cases.all_to_float64(floating(make_given(seeded)), case.dtype)
        run = reference.forward(
            case.config,
            **{name: wide[name] for name in ("input", "input_h", "params")},
            input_c=np.zeros([]),
            masks=masks,
        )
        if reference.nearest_to_the_kink(run) > _NEAREST_TO_THE_KINK[precision]:
            return seeded
    raise ValueError(f"{case.name}: with all {_SEEDS} seeds, an input of ReLU is too close to 0")


def make_given(case: Case) -> dict[str, np.ndarray]:
    """Returns the inputs of the case; params have the documented size."""
    given = golden_cases.make_given(case, reference.params_size(case.config))
    if case.config.rnn_mode != "rnn_relu" or case.config.num_units < _MANY_RELUS:
        return given
    params = golden_cases.to_float64(given["params"], case.dtype) / 8
    for weights in reference.unpack(case.config, params):
        # So large that each ReLU is on or off for all inputs.
        weights.W_bias[...] = np.copysign(6, weights.W_bias)
    return {**given, "params": golden_cases.from_float64(params, case.dtype)}


def floating(given) -> dict[str, np.ndarray]:
    """Returns the inputs of a network except the lengths."""
    return {name: array for name, array in given.items() if name != "sequence_lengths"}


def with_nan_padding(case: Case, given) -> dict[str, np.ndarray]:
    """Returns the inputs of a network and its passes with NaN as padding."""
    poisoned = {name: array.copy() for name, array in floating(given).items()}
    past_end = np.arange(case.config.time)[:, np.newaxis] >= case.config.lengths  # [time, batch]
    nan = golden_cases.from_float64(np.array(np.nan), case.dtype)
    for name in {"input", "output_backprop", "dot_input"} & set(poisoned):
        reference.major(case.config, poisoned[name])[past_end] = nan
    return poisoned


def or_standard(run_check: Callable[..., Outcome], *arguments, **options) -> Outcome:
    """Runs a check. If cuDNN rejects the algorithm, the check fails and reports results of the standard algorithm.

    Args:
      run_check: the check.
      *arguments: arguments of the check.
      **options: options of the check, including those of Network.
    """
    try:
        return run_check(*arguments, **options)
    except EngineError as error:
        if error.code is not Code.UNIMPLEMENTED or options.get("standard_algorithm_only"):
            raise
        error_message = str(error)
    try:
        outcome = run_check(*arguments, **{**options, "standard_algorithm_only": True})
    except RuntimeError as error:  # from the engine or PyTorch: still report the first error
        outcome = Outcome(problems=[str(error)])
    outcome.measured["standard algorithm"] = "fails" if outcome.problems else "passes"
    of_standard = [f"with the standard algorithm: {problem}" for problem in outcome.problems]
    outcome.problems = [error_message, *(of_standard or ["the standard algorithm passes"])]
    return outcome


def check(context: Context, case: Case, **options) -> Outcome:
    """Runs `check_results`, with the standard algorithm if necessary."""
    return or_standard(check_results, context, case, **options)


def check_results(context: Context, case: Case, masks=None, precision: str | None = None, **options) -> Outcome:
    """Runs a network forward and backward, repeatedly, and compares with the reference and with PyTorch.

    Results are initialized with NaN, and the padding of inputs is NaN.

    Args:
      context: the engine.
      case: the case.
      masks: dropout masks for the reference.
      precision: dtype of the allowed rounding, if not that of the case.
      **options: options of Network.
    """
    outcome = Outcome()
    given = make_given(case)
    precision = precision or case.dtype
    device = context.engine.device
    tensors = device.upload_all(with_nan_padding(case, given), case.dtype)
    with Network(context.engine, case, **options) as network:
        outcome.expect(
            network.params_size() == given["params"].size,
            f"params has {network.params_size()} elements, expected {given['params'].size}",
        )
        outcome.measured["algorithm"] = network.reserve_space()[1]
        outputs = network.forward(tensors)
        gradients = network.backward(tensors, outputs)
        actual = float64({**outputs, **gradients})
        if masks is None:
            inference = network.forward(tensors, training=False)
            outcome.compare("inference", float64(inference), float64(outputs), precision, is_rounded=True)
        _expect_same_bits(outcome, network, tensors, outputs, gradients)
        device.synchronize()
    expected = golden_cases.reference_results(case, given, masks)
    outcome.compare("float64", actual, expected, precision, regions(case.config))
    if masks is None:
        compare_with_pytorch(outcome, context, case, actual, given, precision)
    return outcome


def _expect_same_bits(outcome, network, tensors, outputs, gradients) -> None:
    """Repeats the passes in all ways that must produce the same bits."""
    only_outputs = {name: tensor for name, tensor in outputs.items() if name != "reserve_space"}
    outcome.expect_same_bits("forward again", network.forward(tensors), only_outputs)
    outcome.expect_same_bits("backward again", network.backward(tensors, outputs), gradients)
    without_params = {name: tensor for name, tensor in gradients.items() if name != "params_backprop"}
    outcome.expect_same_bits(
        "backward without params_backprop", network.backward(tensors, outputs, wants_params=False), without_params
    )
    owning = network.backward(tensors, outputs, owns_reserve_space=True)
    outcome.expect_same_bits("backward that owns the reserve space", owning, gradients)


def compare_with_pytorch(outcome: Outcome, context: Context, case: Case, actual, given, precision: str) -> None:
    """Compares results with PyTorch, if it supports the case."""
    why_unsupported = torch_layers.why_unsupported(case)
    if why_unsupported:
        outcome.measured["no peer"] = why_unsupported
        return
    device = context.engine.device.peer
    if not torch_layers.runs_cudnn(case, device):
        outcome.measured[PEER_RUNS] = torch_layers.NOT_CUDNN
    try:
        expected = torch_layers.run(case, given, device)
    except RuntimeError as error:  # from PyTorch, or PeerError: keep the other findings
        outcome.problems.append(f"torch.nn: {error}")
        return
    outcome.compare("torch.nn", actual, golden_cases.all_to_float64(expected, case.dtype), precision, is_rounded=True)


def _named(context: Context, all_cases: Iterable[Case], **options) -> Cases:
    for case in all_cases:
        yield case.name, functools.partial(check, context, case, **options)


def every_kind(mode: str) -> Iterator[Case]:
    """Yields every type, direction, layout and kind of lengths in 1 and 3 layers, with skip_input and projections."""
    directions = ("unidirectional", "bidirectional")
    for dtype, layout, lengths in itertools.product(TYPES, golden_cases.LAYOUTS, LENGTHS):
        for direction, num_layers in itertools.product(directions, (1, 3)):
            stack: dict[str, Any] = {"direction": direction, "num_layers": num_layers}
            yield make_case(mode, dtype, lengths, layout, **stack)
            if mode == "lstm":
                yield make_case(mode, dtype, lengths, layout, **stack, num_proj=9)
        for direction, num_layers in zip(directions, (1, 2), strict=True):
            stack = {"direction": direction, "num_layers": num_layers, "input_mode": "skip_input"}
            yield make_case(mode, dtype, lengths, layout, **stack)
    yield make_case(mode, "float32", "no_lengths", golden_cases.SEQUENCE_MAJOR, "no_input", input_size=0)
    yield make_case(mode, "float32", "no_lengths", golden_cases.BATCH_MAJOR, "one_step", time=1)
    yield make_case(mode, "float32", "differing", golden_cases.BATCH_MAJOR, "one_sequence", batch=1)
    yield make_case(mode, "float32", "differing", golden_cases.SEQUENCE_MAJOR, "wide", batch=33, num_units=70)


def cases_of_mode(mode: str, context: Context) -> Cases:
    """Yields the checks of one rnn_mode."""
    return _named(context, every_kind(mode))


def every_mode_and_type() -> Iterator[Case]:
    """Yields each mode and type once."""
    stack: dict[str, Any] = {"direction": "bidirectional", "num_layers": 2}
    for mode, dtype in itertools.product(golden_cases.MODES, TYPES):
        yield make_case(mode, dtype, "with_0", golden_cases.BATCH_MAJOR, **stack)


def few_cases(context: Context) -> Cases:
    """Yields a selection: each mode and type once, and other cases that run our own kernels."""
    yield from _named(context, every_mode_and_type())
    widened = make_case("lstm", "bfloat16", "differing", golden_cases.BATCH_MAJOR, "widened")
    yield from _named(context, [widened], widen_bfloat16=True)


_CHOICES: dict[str, dict[str, bool]] = {
    "automatic": {},
    "standard": {"standard_algorithm_only": True},
    "tf32": {"allow_tf32": True},
}
# Sizes for cuDNN's persistent algorithms: one that keeps small networks on chip, and one for float16 only.
_SMALL = {"num_units": 64, "input_size": 64}
_STATIC = {"num_units": 256, "input_size": 128, "batch": 8}
# cuDNN chooses kernels by units and batch: its algorithm for small networks is wrong in float16 for many of these.
_UNITS, _FEW_UNITS = (48, 64, 112, 128, 200, 256, 384), (48, 64)
_BATCHES = (8, 20, 64)


def choices(context: Context) -> Cases:
    """Yields cases for the choice of algorithm and precision: automatic and forced."""
    stacks: tuple[dict[str, Any], ...] = (
        {"direction": "unidirectional", "num_layers": 1},
        {"direction": "unidirectional", "num_layers": 2},
        {"direction": "bidirectional", "num_layers": 2},
    )
    for mode, stack in itertools.product(golden_cases.MODES, stacks):
        for dtype in TYPES:
            yield from _choices_of(context, mode, dtype, "small", stack, _SMALL)
        for lengths, layout in itertools.product(("no_lengths", "differing", "with_0"), golden_cases.LAYOUTS):
            case = make_case(mode, "bfloat16", lengths, layout, "widened", **stack)
            yield case.name, functools.partial(check, context, case, widen_bfloat16=True)
    for mode in ("lstm", "rnn_tanh"):
        yield from _choices_of(context, mode, "float16", "static", {}, _STATIC)
    for mode, dtype, stack in itertools.product(
        golden_cases.MODES, ("float32", *_SIXTEEN_BITS), (stacks[0], stacks[2])
    ):
        name = f"{mode}-{stack['num_layers']}x{stack['direction']}-sizes-{dtype}"
        yield name, functools.partial(check_sizes, context, mode, dtype, **stack)


def _choices_of(context: Context, mode: str, dtype: str, label_of_sizes: str, stack, sizes) -> Cases:
    """Yields a network with each choice."""
    for choice, options in _CHOICES.items():
        precision = TF32 if choice == "tf32" and dtype == "float32" else dtype
        layout, label = golden_cases.SEQUENCE_MAJOR, f"{label_of_sizes}-{choice}"
        case = make_case(mode, dtype, "no_lengths", layout, label, precision=precision, **stack, **sizes)
        yield case.name, functools.partial(check, context, case, precision=precision, **options)


def check_sizes(context: Context, mode: str, dtype: str, **stack) -> Outcome:
    """Compares the automatic algorithm with the standard one, for many sizes."""
    outcome = Outcome()
    for units, batch in itertools.product(_FEW_UNITS if context.quick else _UNITS, _BATCHES):
        config = reference.Config(
            rnn_mode=mode, num_units=units, input_size=128, time=20, batch=batch, time_major=True, **stack
        )
        case = Case(config, dtype, "sizes")
        tensors = context.engine.device.upload_all(floating(make_given(case)), dtype)
        results = []
        for choice in _CHOICES["standard"], {}:
            with Network(context.engine, case, allow_tf32=True, **choice) as network:
                outputs = network.forward(tensors)
                results.append(float64({**outputs, **network.backward(tensors, outputs)}))
                peer = f"standard for {units} units, batch {batch}, {network.reserve_space()[1]}"
        outcome.compare(peer, results[1], results[0], dtype if dtype == "bfloat16" else TF32, is_rounded=True)
    return outcome
