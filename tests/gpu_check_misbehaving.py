"""Families for tools/gpu_check.py that fail in different ways."""

import functools
import itertools
import os
import time

import golden_cases
from gpu_checks import golden, networks, second_order, timing
from gpu_checks.cudnn_library import CudnnError
from gpu_checks.cudnn_network import CudnnNetwork
from gpu_checks.device import DeviceLostError
from gpu_checks.engine import GRADS, Code, EngineError, Network
from gpu_checks.outcome import Outcome


def _between_good_ones(name, check):
    yield "before", Outcome
    yield name, check
    yield "after", Outcome


def passes(context):
    yield from _between_good_ones("in between", Outcome)


def hangs(context):
    return _between_good_ones("hangs", functools.partial(time.sleep, 3600))


def crashes(context):
    return _between_good_ones("crashes", os.abort)


def always_crashes(context):
    for number in range(100):
        yield str(number), os.abort


def raises(context):
    def check():
        raise KeyError("no such thing")

    return _between_good_ones("raises", check)


def loses_the_device(context):
    device = context.engine.device

    def check():
        def synchronize():
            raise DeviceLostError("an illegal memory access was encountered")

        device.synchronize = synchronize
        return Outcome()

    return _between_good_ones("loses", check)


def misuses_the_fakes(context):
    def check():
        context.engine.device._function("Free")(4096)
        return Outcome()

    return _between_good_ones("misuses", check)


def stops_listing(context):
    yield "before", Outcome
    raise RuntimeError("cannot list the others")


def exits_badly(context):
    yield "before", Outcome
    os._exit(7)


def says_a_name_twice(context):
    yield "twice", Outcome
    yield "twice", Outcome


def wrong_results(context):
    """Yields a network for each result, with one wrong number in that result."""
    case = networks.make_case("lstm", "float32", "differing", golden_cases.BATCH_MAJOR, num_layers=3)
    checks = {
        **dict.fromkeys(golden_cases.OUTPUTS + golden_cases.BACKPROPS, networks.check),
        **dict.fromkeys(GRADS, second_order.check),
    }

    class Wrong(Network):
        def _new_results(self, names):
            self.results = super()._new_results(names)
            return self.results

        def run(self, name, struct):
            super().run(name, struct)
            if wrong in self.results:
                self.results[wrong].view(-1)[5] += 1e-3

    networks.Network = second_order.Network = Wrong
    for wrong, check in checks.items():
        yield wrong, functools.partial(check, context, case)


def unstable_results(context):
    """Yields networks whose results differ from call to call by less than rounding."""
    case = networks.make_case("gru", "float64", "no_lengths", golden_cases.SEQUENCE_MAJOR)
    calls = itertools.count()

    class Unstable(Network):
        def _new_results(self, names):
            results = super()._new_results(names)
            self.results = list(results.values())
            return results

        def run(self, name, struct):
            super().run(name, struct)
            for tensor in self.results:
                tensor.mul_(1 + next(calls) * 2**-52)

    networks.Network = second_order.Network = Unstable
    yield "unstable", functools.partial(networks.check, context, case)
    yield "second_order", functools.partial(second_order.check, context, case)
    yield "null_results", functools.partial(second_order.check_null_results, context, case)


def forced_choices(context):
    """Yields one case that measures the effect of network options. It is in this file because it needs the fakes."""

    def check():
        outcome = Outcome()
        for dtype in ("float32", "bfloat16"):
            case = networks.make_case("lstm", dtype, "no_lengths", golden_cases.SEQUENCE_MAJOR, num_units=64)
            for name in ("nothing", "standard_algorithm_only", "widen_bfloat16"):
                with Network(context.engine, case, **({} if name == "nothing" else {name: True})) as network:
                    outcome.measured[f"{dtype} {name}"] = " ".join(map(str, network.reserve_space()))
        return outcome

    yield "options", check


def rejects_algorithms(context):
    """Yields networks whose algorithm is rejected; the standard algorithm is right, wrong, or rejected, too."""
    case = networks.make_case("gru", "float32", "no_lengths", golden_cases.SEQUENCE_MAJOR, num_units=64)

    class Rejecting(Network):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            self.is_standard = options.get("standard_algorithm_only", False)

        def run(self, name, struct):
            if standard == "rejected" or not self.is_standard:
                raise EngineError(name, Code.UNIMPLEMENTED, "no such algorithm")
            super().run(name, struct)
            if standard == "wrong" and "output" in self.results:
                self.results["output"].view(-1)[5] += 1

        def _new_results(self, names):
            self.results = super()._new_results(names)
            return self.results

    networks.Network = timing.Network = Rejecting
    for standard in ("right", "wrong", "rejected"):
        yield standard, functools.partial(networks.check, context, case)
    standard = "right"
    for name, check in timing.cases(context):
        yield name, check
        break


def bad_golden_data(context):
    """Yields two golden cases with a cuDNN that rejects one variant and returns a wrong result for another."""

    class Bad(CudnnNetwork):
        def run(self, given, variant):
            if variant.name == "batch_major-null_lengths":
                raise CudnnError("cudnnRNNForward: no such layout")
            results = super().run(given, variant)
            if variant.name == "batch_major-device_lengths":
                results["output"].flat[0] += 1
            return results

    golden.CudnnNetwork = Bad
    yield from itertools.islice(golden.cases(context), 2)


def golden_data_of_a_lost_device(context):
    """Yields two golden cases whose second variant loses the device, with both kinds of errors."""
    errors = iter((DeviceLostError("an illegal memory access"), RuntimeError("CUDA error: an illegal memory access")))

    class Lost(CudnnNetwork):
        def run(self, given, variant):
            if variant.name != "sequence_major-null_lengths":
                raise next(errors)
            return super().run(given, variant)

    golden.CudnnNetwork = Lost
    yield from itertools.islice(golden.cases(context), 2)
