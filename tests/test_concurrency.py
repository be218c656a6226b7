"""Threads that call the ops at once see what each would see alone, wait for nothing for ever, and leave nothing."""

import mixed_calls
import processes
import pytest


# The sizes of TensorFlow's intra-op and inter-op pools; 0 is as many as there are CPUs.
@pytest.mark.parametrize(
    ("intra_op", "inter_op"),
    [(1, 1), pytest.param(2, 1, marks=pytest.mark.slow), pytest.param(8, 0, marks=pytest.mark.slow)],
)
def test_sixteen_threads_with_calls_of_every_op(intra_op, inter_op):
    processes.run_code(
        """
        import sys
        import concurrent_calls
        concurrent_calls.set_pools(int(sys.argv[1]), int(sys.argv[2]))
        concurrent_calls.check(seed=0, seconds=3)
        """,
        str(intra_op),
        str(inter_op),
        **processes.WITH_TESTS,
    )


def test_an_inter_op_pool_of_one():
    """An op that waited for another op of the graph, or for a second thread, would wait for ever."""
    processes.run_code(
        """
        import faulthandler
        faulthandler.dump_traceback_later(200, exit=True)
        import concurrent_calls
        import mixed_calls
        concurrent_calls.set_pools(1, 1)
        in_turn, at_once = mixed_calls.many_at_once()
        expected = mixed_calls.contents(in_turn())
        for call in at_once:
            assert mixed_calls.contents(call()) == expected, call.name
        """,
        **processes.WITH_TESTS,
    )


def test_many_at_once_give_what_they_give_in_turn():
    in_turn, at_once = mixed_calls.many_at_once()
    expected = mixed_calls.contents(in_turn())
    for _ in range(3):
        for call in at_once:
            assert mixed_calls.contents(call()) == expected, call.name
