"""Small networks of the CudnnRNN ops with every option, for comparisons in float64 with any reference."""

import numpy as np
from references import cudnn_rnn as reference

from inputs.cudnn_rnn import MODES, Config, network_inputs

DIRECTIONS = ("unidirectional", "bidirectional")
LENGTHS = (0, 4, 2)


def network(**options):
    return Config(**{"num_units": 5, "input_size": 3, "time": 4, "batch": 3, **options})


OPTIONS: dict[str, dict] = {
    "plain": {},
    "lengths": {"num_layers": 2, "sequence_lengths": LENGTHS},
    "three layers": {"num_layers": 3, "time": 3},
    "skip_input": {"num_layers": 2, "input_mode": "skip_input", "input_size": 5},
    "auto_select": {"input_mode": "auto_select", "input_size": 5},
    "batch-major": {"num_layers": 2, "time_major": False, "sequence_lengths": LENGTHS},
    "projection": {"num_layers": 2, "num_proj": 2, "sequence_lengths": LENGTHS},
}
NETWORKS = {
    f"{mode}-{direction}-{name}": network(rnn_mode=mode, direction=direction, **options)
    for mode in MODES
    for direction in DIRECTIONS
    for name, options in OPTIONS.items()
    if mode == "lstm" or name != "projection"
}


def random_masks(config, rate=0.5):
    rng = np.random.default_rng(2)
    shape = (config.num_layers - 1, config.time, config.batch, config.num_directions * config.output_size)
    return (rng.random(shape) >= rate) / (1 - rate)


def inputs_away_from_kinks(config, masks, seed=0):
    """Returns inputs with which no ReLU input changes its sign in a central difference."""
    inputs = network_inputs(config, seed=seed)
    run = reference.forward(config, **inputs, masks=masks)
    if config.rnn_mode == "rnn_relu" and reference.nearest_to_the_kink(run) < 1e-4:
        return inputs_away_from_kinks(config, masks, seed + 1)
    return inputs
