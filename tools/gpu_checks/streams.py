"""Several streams, including the default stream, and several threads: results must have the same bits."""

import concurrent.futures
import functools
import itertools

import golden_cases
from golden_cases import Case

from gpu_checks import networks, second_order
from gpu_checks.arrays import to_numpy
from gpu_checks.engine import TYPES, Network
from gpu_checks.outcome import Cases, Context, Outcome

THREADS = 4
ROUNDS = 5


def cases(context: Context) -> Cases:
    """Yields networks of each mode and type on two streams, with and without the default one, and in threads."""
    device = context.engine.device
    for mode, dtype in itertools.product(golden_cases.MODES, TYPES):
        for layout, lengths in ((golden_cases.SEQUENCE_MAJOR, "no_lengths"), (golden_cases.BATCH_MAJOR, "with_0")):
            case = networks.make_case(mode, dtype, lengths, layout, direction="bidirectional", num_layers=2)
            for name, make_stream in (("new", device.new_stream), ("default", device.default_stream)):
                yield f"{name}_stream-{case.name}", functools.partial(check_two_streams, context, case, make_stream)
            yield f"{THREADS}_threads-{case.name}", functools.partial(threads, context, case, shares_network=False)
            yield (
                f"{THREADS}_threads_of_one_network-{case.name}",
                functools.partial(threads, context, case, shares_network=True),
            )


def run(network: Network, tensors) -> dict:
    """Runs all passes of a network and returns the results except the reserve space."""
    outputs = network.forward(tensors)
    gradients = network.backward(tensors, outputs)
    del outputs["reserve_space"]
    return {**outputs, **gradients, **network.backward_grad(tensors)}


def alone(context: Context, case: Case, network: Network):
    """Returns the inputs of a network, and its results when nothing else runs."""
    device = context.engine.device
    arrays = {**networks.floating(networks.make_given(case)), **second_order.make_directions(case)}
    tensors = device.upload_all(arrays, case.dtype)
    results = run(network, tensors)
    device.synchronize()
    return tensors, results


def check_two_streams(context: Context, case: Case, make_stream) -> Outcome:
    """Enqueues a network on two streams alternately, and synchronizes at the end."""
    outcome = Outcome()
    device = context.engine.device
    streams = (make_stream(), device.new_stream())
    with Network(context.engine, case) as network:
        tensors, expected = alone(context, case, network)
        results = []
        for _, stream in itertools.product(range(ROUNDS), streams):
            with stream:
                results.append(run(network, tensors))
        device.synchronize()
        for each in results:
            outcome.expect_same_bits("alternating with another stream", each, expected)
    return outcome


def threads(context: Context, case: Case, shares_network: bool) -> Outcome:
    """Runs a network in several threads, each with its own stream."""
    outcome = Outcome()
    device = context.engine.device
    with Network(context.engine, case) as network:
        tensors, expected = alone(context, case, network)
        in_memory = {name: to_numpy(tensor) for name, tensor in expected.items()}

        def work(_):
            with device.new_stream(), Network(context.engine, case) as own:
                used = network if shares_network else own
                rounds = [run(used, tensors) for _ in range(ROUNDS)]
                device.synchronize()
                return [{name: to_numpy(tensor) for name, tensor in each.items()} for each in rounds]

        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            for each in itertools.chain.from_iterable(pool.map(work, range(THREADS))):
                wrong = [name for name in in_memory if not golden_cases.same_bits(each[name], in_memory[name])]
                outcome.expect(not wrong, f"with other threads: {wrong} differ in bits")
    return outcome
