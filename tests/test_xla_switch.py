"""Tests of the switch that makes XLA compile all op calls in the tests."""

import pathlib

import processes
import pytest
import xla_switch

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
    program = pathlib.Path(__file__).with_name("compiled_calls.py")
    environment = {
        xla_switch.VARIABLE: switch,
        "XLA_FLAGS": f"--xla_dump_to={tmp_path} --xla_dump_hlo_as_text",
    }
    assert processes.run_program(str(program), str(tmp_path), **environment) == printed
