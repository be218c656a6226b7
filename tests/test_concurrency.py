"""Tests that concurrent calls return the results of sequential calls, without deadlocks and leaks."""

from environment import forked, processes
from inputs import mixed_calls


def test_threads_with_a_small_stack():
    """32 KiB: TensorFlow's own MatMul takes up to 24."""
    forked.run_code(
        """
        import threading
        from inputs import mixed_calls

        calls = mixed_calls.all_calls()
        calls += [call.in_graph() for call in calls]
        expected = [mixed_calls.contents(call()) for call in calls]
        results = []
        threading.stack_size(32 << 10)
        for call in calls:
            thread = threading.Thread(target=lambda: results.append(call()))
            thread.start()
            thread.join()
        for call, actual, wanted in zip(calls, results, expected, strict=True):
            assert mixed_calls.contents(actual) == wanted, call.name
        """,
        **processes.WITH_TESTING,
    )


def test_an_inter_op_pool_of_one():
    """An op that waits for another op of the graph, or for a second thread, would deadlock."""
    forked.run_code(
        """
        import faulthandler
        faulthandler.dump_traceback_later(200, exit=True)
        from inputs import mixed_calls
        from robustness import concurrent_calls
        concurrent_calls.set_pools(1, 1)
        sequential, parallel = mixed_calls.many_in_parallel()
        expected = mixed_calls.contents(sequential())
        for call in parallel:
            assert mixed_calls.contents(call()) == expected, call.name
        """,
        **processes.WITH_TESTING,
    )


def test_parallel_calls_equal_sequential_calls():
    sequential, parallel = mixed_calls.many_in_parallel()
    expected = mixed_calls.contents(sequential())
    for _ in range(3):
        for call in parallel:
            assert mixed_calls.contents(call()) == expected, call.name
