"""Helpers for tests that convert weights of other libraries from and to params."""

import re

import numpy as np
import pytest
from hypothesis import strategies as st
from inputs.cudnn_rnn import INPUTS, MODES, OUTPUTS, output_gradients, params_layout
from references.cudnn_rnn import Config

from checks.cudnn_rnn import names_of, run_forward, tape_gradients, tensors

DIRECTIONS = ("unidirectional", "bidirectional")


def network(**options) -> Config:
    """Returns a small network."""
    return Config(**{"num_units": 5, "input_size": 3, "time": 6, **options})


def networks(modes=None, **options):
    """Parametrizes a test with networks of each mode with one layer, several, and two directions.

    Args:
      modes: options of networks, by name; by default all modes.
      **options: options of all networks.
    """
    modes = modes or {mode: {"rnn_mode": mode} for mode in MODES}
    sizes = (("unidirectional", 1), ("unidirectional", 3), ("bidirectional", 2))
    return pytest.mark.parametrize(
        "config",
        [
            pytest.param(network(**of_mode, **options, direction=way, num_layers=layers), id=f"{name}-{way}-{layers}")
            for name, of_mode in modes.items()
            for way, layers in sizes
        ],
    )


@st.composite
def configs(draw, smallest=0, **options) -> Config:
    """A strategy for networks without projections, of any size."""
    sizes = st.integers(smallest, 9)
    return Config(
        rnn_mode=draw(st.sampled_from(MODES)),
        direction=draw(st.sampled_from(DIRECTIONS)),
        num_layers=draw(st.integers(1, 3)),
        num_units=draw(sizes),
        input_size=draw(sizes),
        **{name: draw(strategy) for name, strategy in options.items()},
    )


def consecutive_numbers(config: Config, dtype="float64") -> np.ndarray:
    """Returns a params buffer of integers modulo 128, which all types can represent."""
    return (np.arange(params_layout(config).size) % 128).astype(dtype)


def outputs_and_gradients(config: Config, inputs):
    """Returns the outputs of the op as a list, and the gradients of their scaled sum by name of the input."""
    inputs = tensors(inputs)
    outputs, names = run_forward(config, inputs), names_of(config, OUTPUTS)
    gradients = tape_gradients(config, inputs, output_gradients(config), names)
    return [getattr(outputs, name) for name in names], {name: gradients[name] for name in names_of(config, INPUTS)}


def rejects(message, error=ValueError):
    """Returns a context that expects an error with exactly this message."""
    return pytest.raises(error, match=f"^{re.escape(message)}$")
