"""Inputs of TensorFlow's LSTM ops for the tests."""

import numpy as np
from references.block_lstm import ICFO, IFCO, Results

from inputs.gru_block_cell import cast, random_array

# By the op, its gradient op and the order of its gates.
GRAD_OPS = {"LSTMBlockCell": "LSTMBlockCellGrad", "BlockLSTM": "BlockLSTMGrad", "BlockLSTMV2": "BlockLSTMGradV2"}
ORDERS = {"LSTMBlockCell": ICFO, "BlockLSTM": ICFO, "BlockLSTMV2": IFCO}
PEEPHOLES = ("wci", "wcf", "wco")


def of_sequence(op: str) -> bool:
    """Whether the tensors of an op have a dimension for time."""
    return op.startswith("BlockLSTM")


def forward_op(op: str, is_v2=None) -> str:
    """Returns the forward op of an op. `is_v2`: of BlockLSTMGradV3, whether it belongs to BlockLSTMV2."""
    is_v2 = op.endswith("V2") if is_v2 is None else is_v2
    return op.removesuffix("V2").removesuffix("V3").removesuffix("Grad") + ("V2" if is_v2 else "")


def output_shape(op: str, time: int, batch: int, cell_size: int) -> tuple[int, ...]:
    """Returns the shape of all outputs of an op."""
    return (*([time] if of_sequence(op) else []), batch, cell_size)


def shapes(op: str, time: int, batch: int, input_size: int, cell_size: int) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the inputs of an op, except seq_len_max. `time` is ignored for one step."""
    return {
        "x": output_shape(op, time, batch, input_size),
        "cs_prev": (batch, cell_size),
        "h_prev": (batch, cell_size),
        "w": (input_size + cell_size, 4 * cell_size),
        **dict.fromkeys(PEEPHOLES, (cell_size,)),
        "b": (4 * cell_size,),
    }


def inputs(op: str, size: tuple[int, int, int, int], dtype="float64", seed=0) -> dict[str, np.ndarray]:
    """Returns the inputs of an op, except seq_len_max. `size`: (time, batch, input_size, cell_size)."""
    rng = np.random.default_rng(seed)
    drawn = {name: random_array(rng, *shape) for name, shape in shapes(op, *size).items()}
    drawn["w"] /= np.sqrt(max(len(drawn["w"]), 1))
    return cast(drawn, dtype)


def output_gradients(op: str, size: tuple[int, int, int, int], dtype="float64", seed=1) -> dict[str, np.ndarray]:
    """Returns gradients with respect to all outputs. `size`: as in `inputs`."""
    time, batch, _, cell_size = size
    rng = np.random.default_rng(seed)
    shape = output_shape(op, time, batch, cell_size)
    return cast({f"{name}_grad": random_array(rng, *shape) for name in Results._fields}, dtype)


def steps(op: str, seq_len_max: int) -> dict[str, np.ndarray]:
    """Returns the argument seq_len_max of an op, if it has one."""
    return {"seq_len_max": np.array(seq_len_max, np.int64)} if of_sequence(op) else {}
