"""The work of a fuzzer process: draws a call, runs it and reports the verdict."""

import dataclasses
import os
import resource
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import paths  # noqa: F401
import fuzz_draw
import fuzz_judge
import fuzz_run
import tensorflow as tf
from inputs.calls import Call, as_float32

import tf_rnn_ops

MEMORY = 12 * 2**30  # limit of the address space of a process, in bytes


@dataclasses.dataclass(frozen=True)
class Report:
    """The report on a call.

    Attributes:
      op: the op name.
      way: how the op was executed.
      kind: the kind of the verdict.
      is_finding: whether the op has a bug.
      text: details of the verdict.
      mutations: descriptions of the mutations.
      arguments: short descriptions of the arguments.
    """

    op: str
    way: str
    kind: str
    is_finding: bool = False
    text: str = ""
    mutations: tuple[str, ...] = ()
    arguments: dict[str, str] = dataclasses.field(default_factory=dict)


def report_of(call: Call, kind: str, is_finding: bool = False, text: str = "") -> Report:
    """Returns the report on a call, with its arguments if it is a finding."""
    arguments = call.describe() if is_finding else {}
    return Report(call.op, call.way, kind, is_finding, text, tuple(call.mutations), arguments)


def fuzz(library: str, seed: int, number: int) -> Report:
    """Runs a call of a library and reports the verdict."""
    call = fuzz_draw.draw(seed, number)
    if library != fuzz_run.LIBRARIES[0] and call.op.startswith("GRU"):
        as_float32(call)
    function = fuzz_run.function_of(library, call.op)
    if function is None:
        return report_of(call, "no such op")
    verdict = fuzz_judge.judge(call, function, is_strict=library == fuzz_run.LIBRARIES[0])
    return report_of(call, verdict.kind, verdict.is_finding, verdict.text)


def prepare(library: str, seed: int) -> Callable[[int], Report]:
    """Prepares a process for calls of a library. Returns the function that runs the call of a number."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    tf.config.threading.set_intra_op_parallelism_threads(2)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    if library == "builtin-kernels":
        tf_rnn_ops.enable_builtin_kernels()
    return lambda number: fuzz(library, seed, number)
