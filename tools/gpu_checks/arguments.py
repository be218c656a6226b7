"""Invalid arguments: the engine must return an error that names the argument, and the next call must work."""

import dataclasses
import functools
import math
from collections.abc import Callable
from ctypes import byref, c_int32, c_void_p
from typing import Any

import golden_cases

from gpu_checks import networks
from gpu_checks.engine import (
    ALLOCATE_SCRATCH,
    DIRECTIONS,
    GRADS,
    BackwardGradStruct,
    BackwardStruct,
    Code,
    EngineError,
    ForwardStruct,
    GruCellBackwardStruct,
    GruCellForwardStruct,
    Network,
    Scratch,
    fill,
    network_options,
    sequences,
)
from gpu_checks.outcome import Cases, Context, Outcome

CASE = networks.make_case(
    "lstm", "float32", "differing", golden_cases.SEQUENCE_MAJOR, direction="bidirectional", num_layers=2
)
# Invalid fields of NetworkOptionsStruct. The error must name the first one.
BAD_OPTIONS = (
    {"type": 4},
    {"type": -1},
    {"mode": 4},
    {"mode": -1},
    {"num_directions": 0},
    {"num_directions": 3},
    {"num_layers": 0},
    {"num_layers": -1},
    {"input_size": -1},
    {"num_units": -1},
    {"num_proj": -1},
    {"num_proj": 14},
    {"num_proj": 9, "mode": 3},
    {"dropout": -0.1},
    {"dropout": 1.1},
    {"dropout": math.nan},
    {"input_size": 12, "skip_input": 1},
)
# Invalid fields of SequencesStruct.
BAD_SEQUENCES: tuple[dict[str, Any], ...] = (
    {"time": -1},
    {"batch": -1},
    {"lengths": (c_int32 * 5)(-1, 1, 1, 1, 1)},
    {"lengths": (c_int32 * 5)(1, 1, 7, 1, 1)},
)


def cases(context: Context) -> Cases:
    """Yields a case for each invalid argument and each missing pointer."""
    for options in BAD_OPTIONS:
        name = "-".join(f"{field}={value}" for field, value in options.items())
        yield name, functools.partial(check_options, context, options)
    for number, fields in enumerate(BAD_SEQUENCES):
        yield f"{'-'.join(fields)}-{number}", functools.partial(check_sequences, context, fields)
    for function, of_pass in (
        ("RunForward", ForwardStruct),
        ("RunBackward", BackwardStruct),
        ("RunBackwardGrad", BackwardGradStruct),
    ):
        for name in _required(of_pass):
            yield f"{function}-null-{name}", functools.partial(check_null, context, of_pass, function, name)
    for function, of_cell in (
        ("RunGruCellForward", GruCellForwardStruct),
        ("RunGruCellBackward", GruCellBackwardStruct),
    ):
        for name in _required(of_cell):
            yield f"{function}-null-{name}", functools.partial(check_null_of_cell, context, of_cell, function, name)
        for name in ("batch", "input_size", "cell_size"):
            yield f"{function}-{name}=-1", functools.partial(check_cell_size, context, of_cell, function, name)
        yield f"{function}-type=4", functools.partial(check_cell_type, context, of_cell, function)
    yield "time=65536", functools.partial(check_too_many_steps, context)
    yield "no_memory", functools.partial(check_no_memory, context)


def _required(struct) -> list[str]:
    """Returns the names of pointers that must not be null."""
    optional = ("reserve_space", "params_backprop", "d_r", "d_u", "d_c", *DIRECTIONS, *GRADS)
    pointers = [name for name, argument_type in struct._fields_ if argument_type is c_void_p]
    return [name for name in pointers if name not in optional or (struct is BackwardStruct and name == "reserve_space")]


def expect_error(outcome: Outcome, call: Callable[[], object], word: str, code: Code = Code.INVALID_ARGUMENT) -> None:
    """Checks that a call fails with a code and a message that contains a word."""
    try:
        call()
    except EngineError as error:
        outcome.measured["message"] = str(error)
        outcome.expect(error.code == code, f"fails with {error.code.name}, expected {code.name}: {error}")
        outcome.expect(word in str(error).partition(": ")[2], f"the error does not name {word}: {error}")
    else:
        outcome.problems.append(f"succeeds, expected {code.name}")


def expect_that_the_next_call_works(outcome: Outcome, context: Context) -> None:
    """Checks the results of the next call."""
    outcome.problems += networks.check(context, CASE).problems


def check_options(context: Context, options) -> Outcome:
    """Creates a network with invalid options."""
    outcome = Outcome()
    struct = network_options(CASE, **options)
    network = c_void_p()
    expect_error(
        outcome, lambda: context.engine.call("MakeNetwork", byref(struct), byref(network)), next(iter(options))
    )
    outcome.expect(not network, "a network was returned despite the error")
    expect_that_the_next_call_works(outcome, context)
    return outcome


def check_sequences(context: Context, fields) -> Outcome:
    """Calls ReserveSpace and runs passes with invalid sequences."""
    outcome = Outcome()
    struct = sequences(CASE, **fields)
    with Network(context.engine, CASE) as network:
        network.sequences = struct
        name = next(iter(fields))
        expect_error(outcome, network.reserve_space, name)
        tensors = _tensors(context)
        expect_error(outcome, lambda: network.forward(tensors, training=False), name)
        expect_error(outcome, lambda: network.backward_grad(tensors), name)
    expect_that_the_next_call_works(outcome, context)
    return outcome


def _tensors(context: Context):
    return context.engine.device.upload_all(networks.floating(networks.make_given(CASE)), CASE.dtype)


def check_null(context: Context, struct_type, function: str, name: str) -> Outcome:
    """Runs a pass with a null array."""
    outcome = Outcome()
    engine = context.engine
    with Network(engine, CASE) as network:
        tensors = _tensors(context)
        outputs = network.forward(tensors)
        tensors |= {**outputs, **network.backward(tensors, outputs)}
        struct = struct_type()
        fill(struct, {**tensors, name: None})
        expect_error(outcome, lambda: network.run(function, struct), name)
    expect_that_the_next_call_works(outcome, context)
    return outcome


def _cell(context: Context, struct_type):
    """Returns the structure of a step, and its tensors."""
    sizes = (3, 4, 5)
    struct = struct_type(*sizes)
    largest = (sizes[1] + sizes[2]) * 2 * sizes[2]
    names = [name for name, argument_type in struct._fields_ if argument_type is c_void_p]
    tensors = {name: context.engine.device.empty((largest,), "float32").zero_() for name in names}
    fill(struct, tensors)
    return struct, tensors


def _run_cell(context: Context, function: str, struct, type_number: int = 2) -> None:
    call = Scratch(context.engine.device)
    context.engine.call(function, type_number, byref(call.struct), byref(struct))
    context.engine.device.synchronize()


def check_null_of_cell(context: Context, struct_type, function: str, name: str) -> Outcome:
    """Runs a step with a null array."""
    return _check_cell(context, struct_type, function, name, lambda struct: setattr(struct, name, None))


def check_cell_size(context: Context, struct_type, function: str, name: str) -> Outcome:
    """Runs a step with a negative size."""
    return _check_cell(context, struct_type, function, name, lambda struct: setattr(struct, name, -1))


def _check_cell(context, struct_type, function, name, corrupt) -> Outcome:
    outcome = Outcome()
    struct, tensors = _cell(context, struct_type)
    corrupt(struct)
    expect_error(outcome, lambda: _run_cell(context, function, struct), name)
    fill(struct, tensors)
    for field, size in zip(("batch", "input_size", "cell_size"), (3, 4, 5), strict=True):
        setattr(struct, field, size)
    _run_cell(context, function, struct)
    return outcome


def check_cell_type(context: Context, struct_type, function: str) -> Outcome:
    """Runs a step with an invalid type."""
    outcome = Outcome()
    struct, _tensors_in_use = _cell(context, struct_type)
    expect_error(outcome, lambda: _run_cell(context, function, struct, type_number=4), "type")
    return outcome


def check_too_many_steps(context: Context) -> Outcome:
    """Calls ReserveSpace with more time steps than cuDNN supports."""
    outcome = Outcome()
    config = dataclasses.replace(CASE.config, time=65536, batch=1, sequence_lengths=None)
    with Network(context.engine, dataclasses.replace(CASE, config=config)) as network:
        expect_error(outcome, network.reserve_space, "65535", Code.UNIMPLEMENTED)
    expect_that_the_next_call_works(outcome, context)
    return outcome


def check_no_memory(context: Context) -> Outcome:
    """Runs passes while all allocations fail."""
    outcome = Outcome()
    fail = ALLOCATE_SCRATCH(lambda _allocator, _num_bytes: None)
    with Network(context.engine, CASE) as network:
        tensors = _tensors(context)
        outputs = network.forward(tensors)
        network.allocate_scratch = fail
        for call in (
            lambda: network.forward(tensors),
            lambda: network.backward(tensors, outputs),
            lambda: network.backward_grad(tensors),
        ):
            expect_error(outcome, call, "allocate_scratch", Code.OUT_OF_MEMORY)
    expect_that_the_next_call_works(outcome, context)
    return outcome
