"""Helpers for the dropout tests: seeds, rates, and checks of masks."""

import itertools

import numpy as np
import tensorflow as tf

SEEDS = {"seed": 3, "seed2": 4}
RATES = [0.1, 0.25, 0.3, 0.5, 0.9]


def scale_of(rate: float) -> float:
    """Returns the factor of kept values. The attribute is a float32."""
    return 1 / (1 - float(np.float32(rate)))


def fresh_kernels():
    """Restarts the random sequences of all ops: setting TensorFlow's seed clears its cache of eager kernels."""
    tf.random.set_seed(0)


def check_share(found, probability, samples):
    """Asserts that a share of independent samples is within five standard deviations of its expected value."""
    deviation = np.sqrt(probability * (1 - probability) / samples)
    assert abs(found - probability) < 5 * deviation


def check_unrelated(masks, rate):
    """Asserts that each pair of masks agrees in as many places as independent masks do."""
    for a, b in itertools.combinations([mask > 0 for mask in masks], 2):
        check_share(np.mean(a == b), rate**2 + (1 - rate) ** 2, a.size)
