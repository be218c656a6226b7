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
    """

    function: str
    seconds: float
    arguments: tuple[str, ...] = ()
    reserved: float = 0
    under_memcheck: bool = False


# In order of execution, the most valuable first. The time left in a run can be shorter than the limit of a family.
FAMILIES = {
    ENVIRONMENT: Family("gpu_checks.environment:cases", 60),
    "golden": Family("gpu_checks.golden:cases", 90),
    "lstm": Family("gpu_checks.networks:cases_of_mode", 120, ("lstm",)),
    **{mode: Family("gpu_checks.networks:cases_of_mode", 60, (mode,)) for mode in ("gru", "rnn_tanh", "rnn_relu")},
    "dropout": Family("gpu_checks.dropout:cases", 60),
    "gru_cell": Family("gpu_checks.gru_cell:cases", 40),
    "second_order": Family("gpu_checks.second_order:cases", 90),
    "choices": Family("gpu_checks.networks:choices", 60),
    "streams": Family("gpu_checks.streams:cases", 60),
    "arguments": Family("gpu_checks.arguments:cases", 40),
    "timing": Family("gpu_checks.timing:cases", 120, reserved=90),
    "tensorflow": Family("gpu_checks.timing:tensorflow_cases", 90),
    "memcheck_gru_cell": Family("gpu_checks.gru_cell:cases", 120, reserved=45, under_memcheck=True),
    "memcheck_networks": Family("gpu_checks.networks:few_cases", 120, under_memcheck=True),
    "memcheck_second_order": Family("gpu_checks.second_order:few_cases", 120, under_memcheck=True),
}
