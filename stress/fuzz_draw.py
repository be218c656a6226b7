"""Draws calls. The seed and the number determine a call, so you can repeat it alone."""

import functools

import numpy as np
from fuzz_mutations import mutate
from fuzz_run import WAY_SHARES, WAYS
from inputs.calls import OPS, Call
from inputs.valid_calls import Arguments, choice, draw_seed, valid_arguments

# Calls per drawn valid call: the call itself, then mutations of it.
CALLS_OF_ONE = 3
# Probabilities of one, two and three mutations.
MUTATION_SHARES = (0.63, 0.23, 0.14)


def op_of(seed: int, number: int) -> str:
    """Returns the op of a call without running any op."""
    return choice(np.random.default_rng([seed, number // CALLS_OF_ONE, 0]), OPS)


@functools.lru_cache(maxsize=2)
def draw_valid(seed: int, number: int) -> tuple[str, Arguments]:
    """Draws an op and valid arguments, which callers must not modify."""
    rng = np.random.default_rng([seed, number, 0])
    op = choice(rng, OPS)
    return op, valid_arguments(rng, op)


def draw(seed: int, number: int) -> Call:
    """Draws a valid call, or one with a few mutations."""
    op, arguments = draw_valid(seed, number // CALLS_OF_ONE)
    rng = np.random.default_rng([seed, number, 1])
    call = Call(op, WAYS[rng.choice(len(WAYS), p=WAY_SHARES)], dict(arguments), draw_seed(rng))
    if number % CALLS_OF_ONE > 0:
        for _ in range(1 + rng.choice(len(MUTATION_SHARES), p=MUTATION_SHARES)):
            mutate(rng, call)
    return call
