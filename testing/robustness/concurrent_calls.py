"""Calls the ops concurrently from many threads and compares the bits with those of sequential calls."""

import concurrent.futures
import dataclasses
import faulthandler
import random
import time

import tensorflow as tf
from environment import process_resources
from inputs import mixed_calls
from inputs.mixed_calls import Call

NUM_THREADS = 16
CALLS_PER_ROUND = 12  # per thread
OWN_GRAPHS = 2  # graphs per thread that no other thread uses
# Timeout of a round, far above its time on a busy machine. The process then ends and dumps all stacks.
DEADLOCK_SECONDS = 240
# Of memory, in bytes. The use of the allocators' arenas varies between rounds; a leak of one output per call would soon
# exceed this.
MOST_GROWTH = 48 << 20


@dataclasses.dataclass(frozen=True)
class Usage:
    """Resources of the process between two rounds: bytes of memory, and threads."""

    memory: int
    threads: int

    @classmethod
    def now(cls) -> "Usage":
        return cls(process_resources.memory(), process_resources.num_threads())


def set_pools(intra_op: int, inter_op: int) -> None:
    """Sets the sizes of TensorFlow's thread pools before its first use; 0 for the default."""
    tf.config.threading.set_intra_op_parallelism_threads(intra_op)
    tf.config.threading.set_inter_op_parallelism_threads(inter_op)


class Threads:
    """Threads that call ops eagerly, in shared graphs and in graphs of their own.

    Args:
      seed: the random seed of the sequence of calls.
    """

    def __init__(self, seed: int):
        self._seed = seed
        self._round = 0
        eager = [(call, mixed_calls.contents(call())) for call in mixed_calls.all_calls()]
        sequential, parallel = mixed_calls.many_in_parallel()
        of_many = mixed_calls.contents(sequential())
        shared = [(call.in_graph(), expected) for call, expected in eager] + [(call, of_many) for call in parallel]
        # The calls of each thread, with the expected bits.
        self._calls: list[list[tuple[Call, list[bytes]]]] = []
        for thread in range(NUM_THREADS):
            chosen = random.Random(f"{seed} {thread}").sample(eager, OWN_GRAPHS)
            own = [(call.in_graph(), expected) for call, expected in chosen]
            self._calls.append(eager + shared + own * 4)
        self._pool = concurrent.futures.ThreadPoolExecutor(NUM_THREADS)

    def run_round(self) -> int:
        """Runs the calls of all threads and returns their number."""
        self._round += 1
        faulthandler.dump_traceback_later(DEADLOCK_SECONDS, exit=True)
        for done in [self._pool.submit(self._work, thread, self._round) for thread in range(NUM_THREADS)]:
            done.result()
        faulthandler.cancel_dump_traceback_later()
        return NUM_THREADS * CALLS_PER_ROUND

    def _work(self, thread: int, number: int) -> None:
        rng = random.Random(f"{self._seed} {thread} {number}")
        for call, expected in rng.choices(self._calls[thread], k=CALLS_PER_ROUND):
            assert mixed_calls.contents(call()) == expected, f"{call.name} differs from the sequential result"


def check(intra_op: int, inter_op: int, seconds: float) -> str:
    """Runs concurrent calls for a time, after a warm-up, and returns a summary.

    Args:
      intra_op: the size of TensorFlow's intra-op pool.
      inter_op: the size of its inter-op pool.
      seconds: the time.

    Raises:
      AssertionError: if the bits of a call differ from those of the sequential call, or if memory or threads grow.
    """
    set_pools(intra_op, inter_op)
    threads = Threads(seed=0)
    for _ in range(3):
        threads.run_round()
    start, num_calls, early = time.monotonic(), 0, None
    while (passed := time.monotonic() - start) < seconds:
        num_calls += threads.run_round()
        if early is None and passed > seconds / 3:
            early = Usage.now()
    late = Usage.now()
    early = early or late
    growth = late.memory - early.memory
    assert growth <= MOST_GROWTH, f"memory grew by {growth} bytes in {num_calls} calls"
    assert late.threads <= early.threads, f"threads grew: {early} to {late}"
    return (
        f"{num_calls} calls of {NUM_THREADS} threads, all bitwise equal to sequential calls; memory "
        f"{growth / 2**20:+.1f} MiB in the last two thirds, {late.threads} threads ({early.threads} before)"
    )
