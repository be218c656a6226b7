"""Few combinations of the values of options, where all combinations would take long and find nothing more."""

import itertools
from collections.abc import Sequence
from typing import Any


def every_pair(*options: Sequence[Any]) -> list[tuple]:
    """Returns combinations of one value of each option: each pair of values of two options occurs, triples may not."""
    combinations = list(itertools.product(*(range(len(values)) for values in options)))
    pairs = {each: set(itertools.combinations(enumerate(each), 2)) for each in combinations}
    missing, chosen = set().union(*pairs.values()), []
    while missing:
        chosen.append(max(combinations, key=lambda each: len(pairs[each] & missing)))
        missing -= pairs[chosen[-1]]
    return [tuple(values[index] for values, index in zip(options, each, strict=True)) for each in sorted(chosen)]
