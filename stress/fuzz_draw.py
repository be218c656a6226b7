"""Draws calls: each follows from a seed and its number alone, so that it can be repeated without those before it."""

import functools

import numpy as np
from fuzz_calls import OPS, Call
from fuzz_run import WAY_SHARES, WAYS
from fuzz_spoils import spoil
from fuzz_valid import VALID, Arguments, choice, draw_seed

# Each valid call is followed by so many that are spoiled, and for which it need not be drawn again.
CALLS_OF_ONE = 3
# How often a call that is spoiled is spoiled once, twice and three times.
SPOILS_SHARES = (0.63, 0.23, 0.14)


def op_of(seed: int, number: int) -> str:
    """Returns the op of a call, without calling any."""
    return choice(np.random.default_rng([seed, number // CALLS_OF_ONE, 0]), OPS)


@functools.lru_cache(maxsize=2)
def draw_valid(seed: int, number: int) -> tuple[str, Arguments]:
    """Draws an op and valid arguments, which are not to be changed."""
    rng = np.random.default_rng([seed, number, 0])
    op = choice(rng, OPS)
    return op, VALID[op](rng)


def draw(seed: int, number: int) -> Call:
    """Draws a call: a valid one, which is spoiled a few times unless it is the first of its kind."""
    op, arguments = draw_valid(seed, number // CALLS_OF_ONE)
    rng = np.random.default_rng([seed, number, 1])
    call = Call(op, WAYS[rng.choice(len(WAYS), p=WAY_SHARES)], dict(arguments), draw_seed(rng))
    if number % CALLS_OF_ONE > 0:
        for _ in range(1 + rng.choice(len(SPOILS_SHARES), p=SPOILS_SHARES)):
            spoil(rng, call)
    return call
