"""Tests of the switch that makes XLA compile all op calls in the tests."""

import pytest
from environment import processes, xla_switch

COMPILED = """\
eager GRUBlockCell
gradient GRUBlockCell GRUBlockCellGradV2
graph GRUBlockCell
function GRUBlockCell+sine
library GRUBlockCell
builtin CudnnRNN
"""
NOT_COMPILED = "eager\ngradient\ngraph\nfunction\nlibrary\nbuiltin\n"


@pytest.mark.parametrize(("switch", "printed"), [("1", COMPILED), ("0", NOT_COMPILED)], ids=["on", "off"])
def test_what_is_compiled(tmp_path, switch, printed):
    environment = {
        **processes.WITH_TESTING,
        xla_switch.VARIABLE: switch,
        "XLA_FLAGS": f"--xla_dump_to={tmp_path} --xla_dump_hlo_as_text",
    }
    assert processes.run_program("-m", "environment.compiled_calls", str(tmp_path), **environment) == printed
