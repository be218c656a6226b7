"""What a process of the fuzzer does: it draws a call, makes it and judges what came of it."""

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
from fuzz_calls import Call, as_float32

import tf_rnn_ops

MEMORY = 12 * 2**30  # bytes of addresses that a process may have, so that none takes the machine's memory


@dataclasses.dataclass(frozen=True)
class Report:
    """What came of a call.

    Attributes:
      op: the op's name.
      way: how it was called.
      kind: that of the verdict.
      is_finding: whether the op is at fault.
      text: what else the verdict says.
      spoils: what was done to a valid call.
      arguments: the call's, in short words.
    """

    op: str
    way: str
    kind: str
    is_finding: bool = False
    text: str = ""
    spoils: tuple[str, ...] = ()
    arguments: dict[str, str] = dataclasses.field(default_factory=dict)


def report_of(call: Call, kind: str, is_finding: bool = False, text: str = "") -> Report:
    """Returns what came of a call, at length where it is a finding."""
    arguments = call.describe() if is_finding else {}
    return Report(call.op, call.way, kind, is_finding, text, tuple(call.spoils), arguments)


def fuzz(library: str, seed: int, number: int) -> Report:
    """Makes a call of a library and judges it."""
    call = fuzz_draw.draw(seed, number)
    if library != fuzz_run.LIBRARIES[0] and call.op.startswith("GRU"):
        as_float32(call)
    function = fuzz_run.function_of(library, call.op)
    if function is None:
        return report_of(call, "no such op")
    verdict = fuzz_judge.judge(call, function, is_strict=library == fuzz_run.LIBRARIES[0])
    return report_of(call, verdict.kind, verdict.is_finding, verdict.text)


def prepare(library: str, seed: int) -> Callable[[int], Report]:
    """Prepares a process for calls of a library."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    tf.config.threading.set_intra_op_parallelism_threads(2)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    if library == "builtin-kernels":
        tf_rnn_ops.enable_builtin_kernels()
    return lambda number: fuzz(library, seed, number)
