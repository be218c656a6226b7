"""The list of families. Imports only the standard library, so that the supervising process is robust."""

from typing import NamedTuple

from gpu_checks.results import ENVIRONMENT


class Family(NamedTuple):
    """Checks that run in one process.

    Attributes:
      function: "module:function", called with `arguments` and a Context. It yields the cases.
      seconds: time limit.
      arguments: further arguments of the function.
      reserved: seconds that earlier families must leave for this one.
      under_memcheck: whether to run under compute-sanitizer.
      runs_alone: whether no other family may run at the same time.
    """

    function: str
    seconds: float
    arguments: tuple[str, ...] = ()
    reserved: float = 0
    under_memcheck: bool = False
    runs_alone: bool = False


# In order of execution, the most valuable first. The time left in a run can be shorter than the limit of a family.
FAMILIES = {
    ENVIRONMENT: Family("gpu_checks.environment:cases", 60),
    "golden": Family("gpu_checks.golden:cases", 120),
    "lstm": Family("gpu_checks.networks:cases_of_mode", 150, ("lstm",)),
    **{mode: Family("gpu_checks.networks:cases_of_mode", 120, (mode,)) for mode in ("gru", "rnn_tanh", "rnn_relu")},
    "dropout": Family("gpu_checks.dropout:cases", 120),
    "gru_cell": Family("gpu_checks.gru_cell:cases", 40),
    "second_order": Family("gpu_checks.second_order:cases", 180),
    "choices": Family("gpu_checks.networks:choices", 120),
    "streams": Family("gpu_checks.streams:cases", 100),
    "arguments": Family("gpu_checks.arguments:cases", 40),
    "timing": Family("gpu_checks.timing:cases", 120, reserved=45, runs_alone=True),
    "memcheck_gru_cell": Family("gpu_checks.gru_cell:cases", 120, reserved=15, under_memcheck=True),
    "memcheck_networks": Family("gpu_checks.networks:few_cases", 120, under_memcheck=True),
    "memcheck_second_order": Family("gpu_checks.second_order:few_cases", 120, under_memcheck=True),
}
