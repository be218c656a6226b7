"""Tests under load, over long runs and without memory, each in a process. `make soak` runs them for longer."""

from collections.abc import Mapping
from typing import NamedTuple

import pytest
from environment import forked, processes
from robustness import memory_limits

# Freed memory returns to the system: the oneDNN allocator would keep it.
MEASURABLE = {"TF_ENABLE_ONEDNN_OPTS": "0"}
NO_ENVIRONMENT: Mapping[str, str] = {}
LIMITED = memory_limits.ENVIRONMENT
# The ops that also run in graphs and datasets. The other ops use the same code there.
IN_GRAPHS = ("CudnnRNNV3", "CudnnRNNBackpropV3", "CudnnRNNBackpropGrad", "GRUBlockCell", *memory_limits.MASKED)


class Check(NamedTuple):
    """A check in testing/robustness.

    Attributes:
      call: returns a summary; %d is the amount.
      amount: of the test: seconds, steps or events.
      soak: of a soak test.
      is_slow: whether the test is slow.
      environment: of the process.
    """

    call: str
    amount: int = 0
    soak: int = 0
    is_slow: bool = False
    environment: Mapping[str, str] = NO_ENVIRONMENT


CHECKS = {
    # Sizes of TensorFlow's intra-op and inter-op thread pools; 0: one thread per CPU.
    "threads, pools of 1 and 1": Check("concurrent_calls.check(1, 1, %d)", 3, 120),
    "threads, pools of 2 and 1": Check("concurrent_calls.check(2, 1, %d)", 3, 120, is_slow=True),
    "threads, pools of 8 and 0": Check("concurrent_calls.check(8, 0, %d)", 3, 120, is_slow=True),
    "training, lstm": Check("long_training.check('lstm', %d)", 500, 20_000),
    "training, gru": Check("long_training.check('gru', %d)", 500, 20_000),
    **{
        f"long sequence, {mode}, {dtype}": Check(
            f"long_sequences.check('{mode}', '{dtype}', %d)", 20_000, 100_000, is_slow=True, environment=MEASURABLE
        )
        for mode, dtype in [("lstm", "float32"), ("gru", "float32"), ("lstm", "bfloat16"), ("gru", "bfloat16")]
    },
    "memory limits, masks": Check(f"memory_limits.check('eager', {memory_limits.MASKED})", environment=LIMITED),
    "memory limits, every op": Check("memory_limits.check('eager')", is_slow=True, environment=LIMITED),
    "memory limits, graph": Check(f"memory_limits.check('graph', {IN_GRAPHS})", environment=LIMITED),
    "memory limits, dataset": Check(f"memory_limits.check('dataset', {IN_GRAPHS})", is_slow=True, environment=LIMITED),
    "packed weights, exports": Check("packed_weights.load_and_give_up(%d)", 12, 1000),
    "packed weights, cancelled": Check("packed_weights.cancel_beside_clients(%d)", 12, 200),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if check.is_slow else []) for name, check in CHECKS.items()]
)
def test_in_a_process(name, request):
    check, factor = CHECKS[name], request.config.getoption("soak")
    amount = int(check.soak * factor) if factor else check.amount
    call = check.call % amount if "%d" in check.call else check.call
    code = f"from robustness import {call.partition('.')[0]}\nprint({call})"
    if factor:
        print(processes.run_code(code, timeout=None, **check.environment, **processes.WITH_TESTING))
    elif check.environment:
        processes.run_code(code, **check.environment, **processes.WITH_TESTING)
    else:
        forked.run_code(code, **processes.WITH_TESTING)
