"""The list of families. This needs nothing but Python: the process that supervises families is to survive anything."""

from typing import NamedTuple

from gpu_checks.results import ENVIRONMENT


class Family(NamedTuple):
    """Checks that run in one process.

    Attributes:
      function: what yields the cases, "module:function", called with `arguments` and a Context.
      seconds: after so long the process is taken for hanging.
      arguments: what else the function takes.
    """

    function: str
    seconds: float
    arguments: tuple[str, ...] = ()


_MODES = ("lstm", "gru", "rnn_tanh", "rnn_relu")

# In the order in which they run: what is the most worth first.
FAMILIES = {
    ENVIRONMENT: Family("gpu_checks.environment:cases", 60),
    "golden": Family("gpu_checks.golden:cases", 90),
    **{
        mode: Family("gpu_checks.networks:cases_of_mode", 60, (mode,))
        for mode in ("lstm", "gru", "rnn_tanh", "rnn_relu")
    },
    "gru_cell": Family("gpu_checks.gru_cell:cases", 40),
    "dropout": Family("gpu_checks.dropout:cases", 60),
    "second_order": Family("gpu_checks.second_order:cases", 90),
    "choices": Family("gpu_checks.networks:choices", 60),
    "streams": Family("gpu_checks.streams:cases", 60),
    "arguments": Family("gpu_checks.arguments:cases", 40),
    "timing": Family("gpu_checks.timing:cases", 120),
    "tensorflow": Family("gpu_checks.timing:tensorflow_cases", 90),
    "memcheck": Family("gpu_checks.memcheck:cases", 240),
}
# What memcheck runs.
SELECTION = {
    "few": Family("gpu_checks.networks:few_cases", 120),
    "second_order": Family("gpu_checks.second_order:few_cases", 120),
    "gru_cell": FAMILIES["gru_cell"],
}
