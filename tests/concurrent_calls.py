"""Threads that all call the ops at once, and see the bits that calls in turn give."""

import concurrent.futures
import dataclasses
import faulthandler
import random
import time

import mixed_calls
import process_resources
import tensorflow as tf
from mixed_calls import Call

NUM_THREADS = 16
CALLS_PER_ROUND = 12  # of each thread
CALLS_OF_ITS_OWN = 2  # graphs that a thread shares with no other
# What no round takes, even on a busy machine: the process then ends, and shows where each thread is.
SECONDS_OF_A_DEADLOCK = 240
# Of memory, in bytes. Where threads' allocations lie changes from round to round; a leak of an output of each call
# would soon be more.
MOST_GROWTH = 48 << 20


@dataclasses.dataclass(frozen=True)
class Usage:
    """What the process holds between two rounds: bytes of memory, and threads."""

    memory: int
    threads: int

    @classmethod
    def now(cls) -> "Usage":
        return cls(process_resources.memory(), process_resources.num_threads())


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What was done.

    Attributes:
      num_calls: how many calls the threads made.
      seconds: how long they took.
      early: what the process held after a third of the rounds.
      late: what it held in the end.
    """

    num_calls: int
    seconds: float
    early: Usage
    late: Usage


def set_pools(intra_op: int, inter_op: int) -> None:
    """Sets the sizes of TensorFlow's pools, before it is used; 0 for its own choice."""
    tf.config.threading.set_intra_op_parallelism_threads(intra_op)
    tf.config.threading.set_inter_op_parallelism_threads(inter_op)


class Threads:
    """Threads that make calls, some eager, some of graphs that all share, and some of graphs that are one's own.

    Args:
      seed: of what each thread calls, and when.
    """

    def __init__(self, seed: int):
        self._seed = seed
        self._round = 0
        eager = [(call, mixed_calls.contents(call())) for call in mixed_calls.all_calls()]
        in_turn, at_once = mixed_calls.many_at_once()
        of_many = mixed_calls.contents(in_turn())
        shared = [(call.in_graph(), expected) for call, expected in eager] + [(call, of_many) for call in at_once]
        # What each thread may call, with the bits that it is to see.
        self._calls: list[list[tuple[Call, list[bytes]]]] = []
        for thread in range(NUM_THREADS):
            chosen = random.Random(f"{seed} {thread}").sample(eager, CALLS_OF_ITS_OWN)
            own = [(call.in_graph(), expected) for call, expected in chosen]
            self._calls.append(eager + shared + own * 4)
        self._pool = concurrent.futures.ThreadPoolExecutor(NUM_THREADS)

    def run_round(self) -> int:
        """Has all threads make their calls, and returns how many these are."""
        self._round += 1
        faulthandler.dump_traceback_later(SECONDS_OF_A_DEADLOCK, exit=True)
        for done in [self._pool.submit(self._work, thread, self._round) for thread in range(NUM_THREADS)]:
            done.result()
        faulthandler.cancel_dump_traceback_later()
        return NUM_THREADS * CALLS_PER_ROUND

    def _work(self, thread: int, number: int) -> None:
        rng = random.Random(f"{self._seed} {thread} {number}")
        for call, expected in rng.choices(self._calls[thread], k=CALLS_PER_ROUND):
            assert mixed_calls.contents(call()) == expected, f"{call.name} differs from what it gives in turn"


def run(seed: int, seconds: float) -> Outcome:
    """Has threads call the ops for a time, after they were warmed up.

    Raises:
      AssertionError: if a call gives other bits than it gives in turn.
    """
    threads = Threads(seed)
    for _ in range(3):
        threads.run_round()
    start, num_calls, early = time.monotonic(), 0, None
    while (passed := time.monotonic() - start) < seconds:
        num_calls += threads.run_round()
        if early is None and passed > seconds / 3:
            early = Usage.now()
    return Outcome(num_calls, passed, early or Usage.now(), Usage.now())


def check(seed: int, seconds: float) -> Outcome:
    """Does what `run` does, and asserts that the process holds no more in the end than before.

    Raises:
      AssertionError: if it does, or a call gives other bits than it gives in turn.
    """
    outcome = run(seed, seconds)
    growth = outcome.late.memory - outcome.early.memory
    assert growth <= MOST_GROWTH, f"memory grew by {growth} bytes in {outcome.num_calls} calls"
    assert outcome.late.threads <= outcome.early.threads, f"threads became more: {outcome.early} to {outcome.late}"
    return outcome
