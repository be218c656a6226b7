"""The list of families. This needs nothing but Python: the process that supervises families is to survive anything."""

from typing import NamedTuple

from gpu_checks.results import ENVIRONMENT


class Family(NamedTuple):
    """Checks that run in one process.

    Attributes:
      function: what yields the cases, "module:function", called with `arguments` and a Context.
      seconds: after so long the process is taken for hanging.
      arguments: what else the function takes.
      reserved: so many seconds of a run are kept for it, whatever earlier families take.
      under_memcheck: whether the process runs under compute-sanitizer.
    """

    function: str
    seconds: float
    arguments: tuple[str, ...] = ()
    reserved: float = 0
    under_memcheck: bool = False


# In the order in which they run: what is the most worth first. A family gets less than its limit where no more is left.
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
