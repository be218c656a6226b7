"""The expected outcome of a call: results from the float64 references, or an error."""

import dataclasses
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf
from checks import cudnn_rnn_params as params_checks
from checks import parity
from fuzz_run import Results
from inputs import block_lstm as lstm_inputs
from inputs import cudnn_rnn as cudnn_rnn_inputs
from inputs import gru_block_cell as gru_inputs
from inputs import keras_rnn as keras_rnn_inputs
from inputs.calls import (
    Call,
    attribute_definition,
    attribute_types,
    definition,
    flat_tensors,
    numpy_dtype,
    tensor_of,
)
from inputs.cudnn_rnn import INPUTS, OUTPUTS, regions
from inputs.valid_calls import (
    KERAS_ACTIVATIONS,
    KERAS_INPUTS,
    KERAS_RESULT_NAMES,
    RESULT_NAMES,
    is_huge,
)
from references import block_lstm
from references import cudnn_rnn as network_reference
from references import gru_block_cell as cell_reference
from references import second_order as second_order_reference
from references.block_lstm import Results as LstmResults
from references.cudnn_rnn import Backward, Config, params_size

from tf_rnn_ops._library import ops as own_ops

# Minimum distance of the inputs of a ReLU from 0, where its slope changes.
KINKS = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 1e-1}
ANY = -1  # matches any size of a result
BACKPROPS = tuple(f"{name}_backprop" for name in OUTPUTS)


class InvalidCallError(Exception):
    """The call is invalid and must be rejected."""


@dataclasses.dataclass(frozen=True)
class Expected:
    """The expected result.

    Attributes:
      shape: the shape; ANY matches any size.
      dtype: the dtype.
      values: the values, or None if unknown.
      is_exact: whether the result must be bitwise equal.
      has_zero_factors: whether the reference multiplies padding or dropped values by 0 and the op skips them. The
        results differ only for NaN and infinity.
      regions: slices that are also compared separately.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    values: np.ndarray | None = None
    is_exact: bool = False
    has_zero_factors: bool = False
    regions: tuple[slice, ...] = ()


def require(condition, what: str) -> None:
    """Raises InvalidCallError unless a condition holds."""
    if not condition:
        raise InvalidCallError(what)


# ---------------------------------------------------------------- attributes

_NETWORK_STRINGS = ("rnn_mode", "input_mode", "direction")
_DEFAULT_FIELDS = {"float": "f", "int": "i", "bool": "b", "string": "s", "type": "type"}


def attribute(call: Call, name: str) -> Any:
    """Returns the value of an attribute."""
    of_op = attribute_definition(call.op, name)
    value = call.arguments.get(name)
    if value is None:
        default = of_op.default_value
        value = [] if of_op.type == "list(string)" else getattr(default, _DEFAULT_FIELDS[of_op.type])
    if of_op.type == "type":
        return tf.as_dtype(value)
    return tf.compat.as_str(value) if isinstance(value, bytes) else value


def network_attributes(call: Call) -> dict[str, Any]:
    """Returns the attributes that all network ops share, under their names in Config."""
    return {
        **{name: attribute(call, name) for name in _NETWORK_STRINGS},
        "dropout": float(np.float32(attribute(call, "dropout"))),
        "num_proj": attribute(call, "num_proj") if "num_proj" in attribute_types(call.op) else 0,
    }


def check_config(config: Config) -> None:
    """Rejects an invalid network."""
    require(config.num_layers >= 1, "num_layers is too small")
    require(config.num_proj == 0 or config.rnn_mode == "lstm", "num_proj is for lstm")
    require(config.num_proj <= config.num_units, "num_proj is too large")
    require(config.input_mode != "skip_input" or config.input_size == config.num_units, "input_size is not num_units")
    require(params_size(config) < 2**63, "params cannot be counted")


# ---------------------------------------------------------------- tensors


def common_dtype(call: Call) -> str:
    """Returns the dtype T of the floating inputs."""
    names = [each.name for each in definition(call.op).input_arg if each.type_attr == "T"]
    (dtype,) = {each.dtype for each in flat_tensors({name: call.arguments[name] for name in names})}
    return tf.as_dtype(dtype).name


def require_shape(call: Call, name: str, shape) -> None:
    """Rejects a tensor of another shape."""
    require(tuple(call.arguments[name].shape) == tuple(shape), f"{name} does not have shape {shape}")


def require_shapes(call: Call, shapes: dict[str, Any], has_cell_state=True) -> None:
    """Rejects tensors and gradients of other shapes. Ops without cell states ignore those."""
    for name in call.tensor_names:
        of = re.sub("(_backprop)?(_grad)?$", "", name)
        if of in shapes and (has_cell_state or not of.endswith("_c")):
            require_shape(call, name, shapes[of])
    if "reserve_space" in call.tensor_names:
        require(len(call.arguments["reserve_space"].shape) == 1, "reserve_space is not a vector")


def float64(call: Call, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Returns arguments in float64."""
    return {name: parity.to_float64(call.arguments[name]) for name in names}


# ---------------------------------------------------------------- networks


def read_network(call: Call) -> tuple[Config, str]:
    """Returns the network of a call and its dtype."""
    dtype, attributes = common_dtype(call), network_attributes(call)
    has_v3 = "time_major" in {each.name for each in definition(call.op).attr}
    time_major = attribute(call, "time_major") if has_v3 else True
    h, x = call.arguments["input_h"].shape, call.arguments["input"].shape
    require(len(x) == len(h) == 3, "input and input_h have three dimensions")
    (time, batch), pseudo_layers = (x[:2], h[0]) if time_major else (x[1::-1], h[1])
    is_projected = attributes["num_proj"] > 0 and attributes["rnn_mode"] == "lstm"
    units = call.arguments["input_c"].shape[-1:] if is_projected else h[2:]
    directions = 2 if attributes["direction"] == "bidirectional" else 1
    require(units and pseudo_layers % directions == 0, "input_h has a fraction of a layer")
    config = Config(
        **attributes,
        num_layers=pseudo_layers // directions,
        num_units=units[0],
        input_size=x[2],
        time=time,
        batch=batch,
        time_major=time_major,
    )
    check_config(config)
    require_shapes(call, cudnn_rnn_inputs.shapes(config), config.rnn_mode == "lstm")
    return with_lengths(call, config), dtype


def with_lengths(call: Call, config: Config) -> Config:
    """Returns a network with the sequence lengths of a call."""
    if "sequence_lengths" not in call.tensor_names:
        return config
    require_shape(call, "sequence_lengths", (config.batch,))
    if is_huge(config):
        return config
    lengths = tuple(map(int, call.arguments["sequence_lengths"]))
    require(all(0 <= each <= config.time for each in lengths), "sequence_lengths are beyond time")
    return dataclasses.replace(config, sequence_lengths=lengths)


def has_zero_factors(config: Config) -> bool:
    """Whether a batch has padding or the network has dropout."""
    return config.dropout > 0 or bool((config.lengths < config.time).any())


def masks_of(call: Call, config: Config, reserve_space) -> np.ndarray | None:
    """Returns the dropout masks of a run, or None."""
    if config.dropout == 0 or config.num_layers == 1:
        return None
    return own_ops.tf_rnn_ops_cudnn_rnn_dropout_masks(
        **{name: tensor_of(call.arguments[name]) for name in INPUTS},
        sequence_lengths=config.lengths,
        reserve_space=tensor_of(reserve_space),
        **{name: getattr(config, name) for name in (*_NETWORK_STRINGS, "dropout", "num_proj", "time_major")},
        masks_type=tf.float64,
    ).numpy()


def can_compute(call: Call, config: Config) -> bool:
    """Whether the sizes are small enough for the references."""
    return not call.is_huge() and not is_huge(config)


def without_padding(config: Config, array: np.ndarray) -> np.ndarray:
    """Replaces padding by zeros, because NaN in padding would spread in the reference."""
    is_padding = network_reference.major(config, np.arange(config.time)[:, np.newaxis] >= config.lengths)
    return np.where(is_padding[..., np.newaxis], 0, array)


def wide_arguments(call: Call, config: Config, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Returns arguments in float64 for the references."""
    wide = float64(call, names)
    sequences = {name for name in wide if name.removesuffix("_grad").removesuffix("_backprop") in ("input", "output")}
    return {name: without_padding(config, array) if name in sequences else array for name, array in wide.items()}


def expect_forward(call: Call, results: Results) -> dict[str, Expected]:
    """Returns the expected results of CudnnRNN, V2, V3 or StatelessCudnnRNN."""
    config, dtype_name = read_network(call)
    if call.op == "StatelessCudnnRNN":
        require_shape(call, "seed", (2,))
    is_training, dtype = attribute(call, "is_training"), numpy_dtype(dtype_name)
    shapes = cudnn_rnn_inputs.shapes(config)
    values: dict[str, np.ndarray] = {}
    if can_compute(call, config):
        masks = masks_of(call, config, results["reserve_space"]) if is_training else None
        run = network_reference.forward(config, **wide_arguments(call, config, INPUTS), masks=masks)
        values = {name: getattr(run, name) for name in OUTPUTS}
    leaves_out = bool(values) and has_zero_factors(config)
    expected = {name: Expected(shapes[name], dtype, values.get(name), has_zero_factors=leaves_out) for name in OUTPUTS}
    expected["reserve_space"] = Expected((ANY if is_training else 0,), dtype)
    if call.op != "CudnnRNN":
        is_pair = call.op == "CudnnRNNV2" and is_training
        expected["host_reserved"] = Expected((2,) if is_pair else (), np.dtype(np.int8))
    return expected


def expect_gradients(call: Call, names: dict[str, str], extra: Iterable[str], differentiate: Callable):
    """Returns the expected results of CudnnRNNBackprop, V2, V3 and BackpropGrad.

    Values are unknown if the references do not compute them, or if an input of a ReLU is near the change of its slope.

    Args:
      call: the call.
      names: maps each result to the argument whose shape it has.
      extra: names of arguments other than the inputs and the gradients with respect to the outputs.
      differentiate: returns the values, given the network, the arguments in float64, the forward pass and its masks.
    """
    config, dtype = read_network(call)
    values: dict[str, np.ndarray] = {}
    if can_compute(call, config) and call.is_consistent:
        wide = wide_arguments(call, config, (*INPUTS, *BACKPROPS, *extra))
        masks = masks_of(call, config, call.arguments["reserve_space"])
        run = network_reference.forward(config, **{name: wide[name] for name in INPUTS}, masks=masks)
        # The slope at NaN is undefined, too. Differentiated twice, the reference takes a NaN of `extra` for one.
        if config.rnn_mode != "rnn_relu" or (
            network_reference.nearest_to_the_kink(run) >= KINKS[dtype]
            and not any(np.isnan(wide[name]).any() for name in extra)
        ):
            values = differentiate(config, wide, run, masks)
    return {
        result: Expected(
            tuple(call.arguments[of].shape),
            numpy_dtype(dtype),
            values.get(result),
            has_zero_factors=bool(values) and has_zero_factors(config),
            regions=regions(config, of) if values else (),
        )
        for result, of in names.items()
    }


def expect_backprop(call: Call, results: Results) -> dict[str, Expected]:
    """Returns the expected results of CudnnRNNBackprop, V2 or V3."""

    def differentiate(config, wide, run, masks):
        gradients = {name: wide[name] for name in BACKPROPS}
        return network_reference.backward(
            config, run, wide["input_c"], wide["params"], **gradients, masks=masks
        )._asdict()

    return expect_gradients(call, {f"{name}_backprop": name for name in INPUTS}, (), differentiate)


def with_skipped(call: Call, expected: dict[str, Expected]) -> dict[str, Expected]:
    """Replaces the results that the attribute skip names by empty vectors."""
    skip = attribute(call, "skip")
    return {name: Expected((0,), each.dtype) if name in skip else each for name, each in expected.items()}


def expect_backprop_grad(call: Call, results: Results) -> dict[str, Expected]:
    """Returns the expected results of CudnnRNNBackpropGrad."""
    of_results = [f"{name}_backprop_grad" for name in INPUTS]

    def differentiate(config, wide, run, masks):
        v = Backward(*(wide[name] for name in of_results))
        gradients = second_order_reference.second_order(config, wide, v, masks)
        return {f"{name}_grad": value for name, value in gradients.items()}

    names = {name: name.removesuffix("_grad") for name in RESULT_NAMES}
    return with_skipped(call, expect_gradients(call, names, of_results, differentiate))


def expect_dropout_masks(call: Call, results: Results) -> dict[str, Expected]:
    """Returns the expected results of CudnnRNNDropoutMasks: each element is 0 or 1 / (1 - dropout)."""
    config, _ = read_network(call)
    masks_type = attribute(call, "masks_type")
    shape = (config.num_layers - 1, config.time, config.batch, config.num_directions * config.output_size)
    values = None
    if can_compute(call, config):
        kept = 0 if config.dropout == 1 else 1 / (1 - config.dropout)
        values = np.where(parity.to_float64(results["masks"]) == 0, 0 if config.dropout > 0 else kept, kept)
    return {"masks": Expected(shape, numpy_dtype(masks_type), values)}


# ---------------------------------------------------------------- params


def read_sizes(call: Call) -> Config:
    """Returns the network of a params op."""
    attributes = network_attributes(call)
    sizes: dict[str, Any] = {}
    for name in ("num_layers", "num_units", "input_size"):
        require_shape(call, name, ())
        sizes[name] = int(call.arguments[name])
    config = Config(**attributes, **sizes)
    check_config(config)
    return config


def expect_params_size(call: Call, results: Results) -> dict[str, Expected]:
    """Returns the expected results of CudnnRNNParamsSize."""
    config, s = read_sizes(call), attribute(call, "S")
    size = params_size(config)
    require(s == tf.int64 or size < 2**31, "S is int32")
    dtype = numpy_dtype(s)
    return {"params_size": Expected((1,), dtype, np.array([size], dtype), is_exact=True)}


def check_counts(config: Config, num_weights: int, num_biases: int) -> None:
    """Rejects wrong numbers of weights and biases."""
    biases = config.num_pseudo_layers * 2 * config.num_gates
    require(num_biases == biases, "another number of biases")
    require(num_weights == biases + config.num_pseudo_layers * config.has_projection, "another number of weights")


def expect_canonical_to_params(call: Call, results: Results) -> dict[str, Expected]:
    """Returns the expected results of CudnnRNNCanonicalToParams or V2."""
    dtype, config = numpy_dtype(common_dtype(call)), read_sizes(call)
    parts: list[np.ndarray] = []
    check_counts(config, len(call.arguments["weights"]), len(call.arguments["biases"]))
    for name, shapes in zip(("weights", "biases"), params_checks.canonical_shapes(config), strict=True):
        for array, shape in zip(call.arguments[name], shapes, strict=True):
            require(array.shape in (shape, (int(np.prod(shape)),)), f"{name} are of another shape")
            parts.append(np.zeros(0, dtype) if 0 in shape else array.reshape(-1))
    return {"params": Expected((sum(map(len, parts)),), dtype, np.concatenate(parts), is_exact=True)}


def expect_params_to_canonical(call: Call, results: Results) -> dict[str, list[Expected]]:
    """Returns the expected results of CudnnRNNParamsToCanonical or V2."""
    dtype, config = numpy_dtype(common_dtype(call)), read_sizes(call)
    if call.op.endswith("V2"):
        counts = attribute(call, "num_params_weights"), attribute(call, "num_params_biases")
    else:
        counts = (attribute(call, "num_params"),) * 2
    check_counts(config, *counts)
    require_shape(call, "params", (params_size(config),))
    parts = params_checks.split(config, call.arguments["params"])
    expected = [Expected(part.shape, dtype, part, is_exact=True) for part in parts]
    return {"weights": expected[: counts[0]], "biases": expected[counts[0] :]}


# ---------------------------------------------------------------- GRUBlockCell


def read_cell(call: Call) -> tuple[np.dtype, dict[str, np.ndarray], dict[str, tuple[int, ...]]]:
    """Returns the dtype of a call, its arguments in float64 unless they are huge, and the shapes of its results."""
    dtype = numpy_dtype(common_dtype(call))
    x, h_prev = call.arguments["x"].shape, call.arguments["h_prev"].shape
    require(len(x) == len(h_prev) == 2, "x and h_prev are matrices")
    (batch, input_size), cell_size = x, h_prev[1]
    require(2 * cell_size < 2**63 and input_size + cell_size < 2**63, "too wide")
    state = (batch, cell_size)
    shapes = dict.fromkeys(call.tensor_names, state) | gru_inputs.shapes(batch, input_size, cell_size)
    require_shapes(call, shapes)
    wide = {} if call.is_huge() else float64(call, call.tensor_names)
    of_results = dict.fromkeys((*"ruch", "d_h_prev", "d_c_bar"), state)
    return dtype, wide, {**of_results, "d_x": (batch, input_size), "d_r_bar_u_bar": (batch, 2 * cell_size)}


def expect_cell(call: Call, results: Results) -> dict[str, Expected]:
    """Returns the expected results of GRUBlockCell and its gradient ops."""
    dtype, wide, shapes = read_cell(call)
    function = cell_reference.gru_block_cell if call.op == "GRUBlockCell" else cell_reference.gru_block_cell_grad
    values = function(**wide)._asdict() if wide else {}
    names = [each.name for each in definition(call.op).output_arg]
    return {name: Expected(shapes[name], dtype, values.get(name)) for name in names}


# ---------------------------------------------------------------- LSTMBlockCell and BlockLSTM


def read_lstm(call: Call) -> tuple[np.dtype, dict[str, tuple[int, ...]], int]:
    """Returns the dtype of a call, the shapes of its arguments and results, and the number of steps to run."""
    dtype, of_sequence = numpy_dtype(common_dtype(call)), lstm_inputs.of_sequence(call.op)
    x, cs_prev = call.arguments["x"].shape, call.arguments["cs_prev"].shape
    require(len(x) == (3 if of_sequence else 2) and len(cs_prev) == 2, "x or cs_prev are of another rank")
    (batch, input_size), cell_size = x[-2:], cs_prev[1]
    require(4 * cell_size < 2**63 and input_size + cell_size < 2**63, "too wide")
    output = lstm_inputs.output_shape(call.op, x[0], batch, cell_size)
    shapes = lstm_inputs.shapes(call.op, x[0], batch, input_size, cell_size) | dict.fromkeys(
        LstmResults._fields, output
    )
    require_shapes(call, shapes)
    seq_len_max = 1
    if of_sequence:
        require_shape(call, "seq_len_max", ())
        seq_len_max = int(call.arguments["seq_len_max"])
        require(0 <= seq_len_max <= x[0], "seq_len_max is beyond time")
    return dtype, {**shapes, "dicfo": (batch, 4 * cell_size)}, seq_len_max


def lstm_options(call: Call) -> dict[str, Any]:
    """Returns the attributes of a call, under their names in the references."""
    attributes = {each.name: attribute(call, each.name) for each in definition(call.op).attr if each.type != "type"}
    is_v2 = not attributes.pop("new_cell_second", not call.op.endswith("V2"))
    # TensorFlow's threads flush subnormal numbers.
    floats = {name: np.float32(value) for name, value in attributes.items() if not isinstance(value, bool)}
    flushed = {name: 0.0 if abs(value) < np.finfo(np.float32).tiny else float(value) for name, value in floats.items()}
    return {**attributes, **flushed, "order": block_lstm.IFCO if is_v2 else block_lstm.ICFO}


def expect_lstm(call: Call, results: Results) -> dict[str, Expected]:
    """Returns the expected results of LSTMBlockCell, BlockLSTM of any version, and their gradient ops."""
    dtype, shapes, seq_len_max = read_lstm(call)
    options, steps = lstm_options(call), lstm_inputs.steps(call.op, seq_len_max)
    values: dict[str, np.ndarray] = {}
    if not call.is_huge():
        wide = float64(call, [name for name in call.tensor_names if name != "seq_len_max"])
        given = {name: wide[name] for name in lstm_inputs.shapes(call.op, 0, 0, 0, 0)}
        zeros = np.zeros(shapes["h"])
        outputs, grads = (
            LstmResults(*(wide.get(f"{name}{suffix}", zeros) for name in LstmResults._fields))
            for suffix in ("", "_grad")
        )
        if "Grad" not in call.op:
            function = block_lstm.sequence if steps else block_lstm.step
            values = function(**steps, **given, **options)._asdict()
        elif steps:
            values = block_lstm.sequence_grad(**steps, **given, results=outputs, grads=grads, **options)._asdict()
        else:
            state = {name: given[name] for name in ("cs_prev", *lstm_inputs.PEEPHOLES)}
            values = block_lstm.step_grad(**state, results=outputs, grads=grads, **options)._asdict()
            values["dicfo"] = values["d_gates"]
    names = [each.name for each in definition(call.op).output_arg]
    return {name: Expected(shapes[name.removesuffix("_grad")], dtype, values.get(name)) for name in names}


# ---------------------------------------------------------------- KerasRNN


def keras_rnn_shapes(call: Call) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of inputs and outputs. Rejects others. tests/test_keras_rnn.py checks the values."""
    mode = attribute(call, "rnn_mode")
    standard = dict(zip(KERAS_ACTIVATIONS, ("tanh", "sigmoid"), strict=True))
    others = {name for name, each in standard.items() if attribute(call, name) != each}
    require(others <= set(keras_rnn_inputs.chosen_activations(mode)), "the cell has an activation of its own")
    x, h = call.arguments["sequences"].shape, call.arguments["initial_h"].shape
    require(len(x) == 3 and len(h) == 2, "sequences have three dimensions, and initial_h two")
    (batch, time, features), units = x, h[1]
    shapes = {
        **keras_rnn_inputs.shapes(mode, batch, time, features, units),
        "mask": (batch, time),
        "outputs": (batch, time, units) if attribute(call, "return_sequences") else (batch, units),
        "final_h": (batch, units),
        "final_c": (batch, units),
    }
    for name in ("initial_h", "initial_c"):
        if tuple(call.arguments[name].shape) == (0, units):
            shapes[name] = (0, units)
    if mode != "lstm":
        shapes["initial_c"] = shapes["final_c"] = tuple(call.arguments["initial_c"].shape)
    for name in ("mask", "bias"):
        if 0 in call.arguments[name].shape:
            shapes[name] = tuple(call.arguments[name].shape)
    require_shapes(call, shapes, mode == "lstm")
    for name, width in (("input_masks", features), ("state_masks", units)):
        masks = [tuple(each.shape) for each in call.arguments[name]]
        require(len(masks) in (0, 1, keras_rnn_inputs.NUM_GATES[mode]), f"{name} has one mask, or one for each gate")
        has_steps = any(len(each) == 3 for each in masks)
        shape = (batch, time, width) if has_steps else (batch, width)
        require(all(each == shape for each in masks), f"{name} has the shape {shape}")
    return shapes


def keras_dtype(call: Call, name: str):
    """Returns the dtype of a tensor, or of a gradient: with mixed precision, weights are in float32."""
    is_wide = call.op.startswith("Mixed") and name.startswith(keras_rnn_inputs.WEIGHTS)
    return numpy_dtype("float32" if is_wide else common_dtype(call))


def expect_keras_rnn(call: Call, results: Results) -> dict[str, Expected]:
    """Returns the expected results of KerasRNN."""
    dtype, shapes = numpy_dtype(common_dtype(call)), keras_rnn_shapes(call)
    expected = {name: Expected(shapes[name], dtype) for name in ("outputs", "final_h", "final_c")}
    return {**expected, "reserve_space": Expected((ANY if attribute(call, "is_training") else 0,), dtype)}


def expect_keras_rnn_backprop(call: Call, results: Results) -> dict[str, Expected]:
    """Returns the expected results of KerasRNNBackprop."""
    shapes = keras_rnn_shapes(call)
    return {f"{name}_backprop": Expected(shapes[name], keras_dtype(call, name)) for name in KERAS_INPUTS}


def expect_keras_rnn_backprop_grad(call: Call, results: Results) -> dict[str, Expected]:
    """Returns the expected results of KerasRNNBackpropGrad."""
    expect_keras_rnn_backprop(call, results)
    shapes = {name: tuple(call.arguments[name.removesuffix("_grad")].shape) for name in KERAS_RESULT_NAMES}
    return with_skipped(call, {name: Expected(each, keras_dtype(call, name)) for name, each in shapes.items()})


# ---------------------------------------------------------------- AlignTensor


def expect_aligned(call: Call, results: Results) -> dict[str, Expected]:
    """Returns the expected results of AlignTensor: its input."""
    given = call.arguments["tensor"]
    dtype = given.dtype if given.dtype == bool else numpy_dtype(common_dtype(call))
    return {"aligned": Expected(given.shape, dtype, given, is_exact=True)}


# By the first letters of the op.
_EXPECT: dict[str, Callable[[Call, Results], dict[str, Any]]] = {
    "GRUBlockCell": expect_cell,
    "LSTMBlockCell": expect_lstm,
    "BlockLSTM": expect_lstm,
    "CudnnRNNBackpropGrad": expect_backprop_grad,
    "CudnnRNNBackprop": expect_backprop,
    "CudnnRNNDropoutMasks": expect_dropout_masks,
    "CudnnRNNParamsSize": expect_params_size,
    "CudnnRNNCanonicalToParams": expect_canonical_to_params,
    "CudnnRNNParamsToCanonical": expect_params_to_canonical,
    "CudnnRNN": expect_forward,
    "StatelessCudnnRNN": expect_forward,
    **{
        mixed + op: expected
        for mixed in ("", "Mixed")
        for op, expected in (
            ("KerasRNNBackpropGrad", expect_keras_rnn_backprop_grad),
            ("KerasRNNBackprop", expect_keras_rnn_backprop),
            ("KerasRNN", expect_keras_rnn),
        )
    },
    "AlignTensor": expect_aligned,
}


def expect(call: Call, results: Results) -> dict[str, Any]:
    """Returns the expected results of a call, by name. A list output has a list.

    Args:
      call: the call.
      results: the actual results; only the dropout masks are taken from them.

    Raises:
      InvalidCallError: if the op must reject the call, because an argument was made invalid or because the arguments do
        not fit one another.
    """
    for name, is_invalid in call.mutated.items():
        require(not is_invalid, f"{name} is invalid")
    with np.errstate(all="ignore"):
        return next(of_op for first, of_op in _EXPECT.items() if call.op.startswith(first))(call, results)
