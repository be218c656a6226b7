"""Helpers for tests of the CudnnRNN ops: calls, and comparisons with the float64 reference."""

import numpy as np
import tensorflow as tf
from inputs import cudnn_rnn as cudnn_rnn_inputs
from inputs.cudnn_rnn import INPUTS, OUTPUTS, Config
from inputs.gru_block_cell import float64
from references import cudnn_rnn as reference

import tf_rnn_ops
from checks import parity


def run_forward(config: Config, inputs, version="V3", raw_ops=tf_rnn_ops.raw_ops, **attributes):
    """Runs a forward op.

    Args:
      config: the network.
      inputs: a dict of the op's floating inputs.
      version: the suffix of the op name.
      raw_ops: the module of the op: ours or TensorFlow's.
      **attributes: attributes that are not in the config: seeds, is_training.
    """
    op = getattr(raw_ops, f"CudnnRNN{version}")
    return op(**cudnn_rnn_inputs.forward_arguments(config, inputs, version), **attributes)


def run_backprop(config: Config, inputs, outputs, gradients, version="V3", raw_ops=tf_rnn_ops.raw_ops, **changes):
    """Runs a backprop op.

    Args:
      config: the network.
      inputs: a dict of the forward op's floating inputs.
      outputs: the outputs of the forward op.
      gradients: a dict of the gradients with respect to the outputs.
      version: the suffix of the op name.
      raw_ops: the module of the op: ours or TensorFlow's.
      **changes: arguments that override those from above.
    """
    op = getattr(raw_ops, f"CudnnRNNBackprop{version}")
    return op(**{**cudnn_rnn_inputs.backprop_arguments(config, inputs, outputs, gradients, version), **changes})


def run_all(config: Config, dtype: str = "float32", raw_ops=tf_rnn_ops.raw_ops, inputs=None) -> dict[str, np.ndarray]:
    """Returns all results of a network as arrays by name: training forward and backward, and inference."""
    inputs = inputs or cudnn_rnn_inputs.network_inputs(config, dtype)
    weights = cudnn_rnn_inputs.output_gradients(config, dtype)
    outputs = run_forward(config, inputs, raw_ops=raw_ops, seed=1, seed2=2)
    inference = run_forward(config, inputs, raw_ops=raw_ops, is_training=False)
    return {
        **all_results(outputs, run_backprop(config, inputs, outputs, weights, raw_ops=raw_ops)),
        **{f"inference {name}": getattr(inference, name).numpy() for name in OUTPUTS},
    }


def all_results(outputs, backprop) -> dict[str, np.ndarray]:
    """Returns the results of a forward op and its backprop op, except reserve_space, as arrays by name."""
    results = {name: getattr(outputs, name) for name in OUTPUTS} | backprop._asdict()
    return {name: value.numpy() for name, value in results.items()}


def assert_all_same_bits(actual: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(actual[name], value, err_msg=name)
        assert actual[name].tobytes() == value.tobytes(), f"{name}: the sign of a zero differs"


def tensors(arrays) -> dict[str, tf.Tensor]:
    """Converts the arrays of a dict to tensors."""
    return {name: tf.constant(value) for name, value in arrays.items()}


def weighted_sum(outputs, weights, of=OUTPUTS):
    """Returns a loss that depends only on the outputs in `of`; its gradients with respect to them are `weights`."""
    return tf.add_n([tf.reduce_sum(getattr(outputs, name) * weights[f"{name}_backprop"]) for name in of])


def tape_gradients(config: Config, inputs, weights, of=OUTPUTS, version="V3", raw_ops=tf_rnn_ops.raw_ops):
    """Returns the gradients of `weighted_sum` with respect to every input, computed by a tape."""
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        loss = weighted_sum(run_forward(config, inputs, version, raw_ops), weights, of)
    return tape.gradient(loss, inputs)


def reference_gradients(config: Config, run: reference.Forward, inputs, gradients, masks=None) -> reference.Backward:
    """Differentiates a run of the reference, in float64."""
    input_c, params = (parity.to_float64(inputs[name]) for name in ("input_c", "params"))
    return reference.backward(config, run, input_c, params, **float64(gradients), masks=masks)


def inputs_and_outputs(config: Config, dtype: str, seed: int, rounds_states=False):
    """Returns inputs of a network and the results of the reference.

    For rnn_relu, the inputs are such that rounding cannot change the sign of the input of any ReLU.

    Args:
      config: the network.
      dtype: the type of the inputs.
      seed: the random seed.
      rounds_states: whether the tested kernels round every state to `dtype`, as cuDNN does. Our CPU kernels do not.
    """
    inputs = cudnn_rnn_inputs.network_inputs(config, dtype, seed)
    if config.rnn_mode != "rnn_relu":
        return inputs, reference.forward(config, **float64(inputs))
    reach = 1e-5
    if rounds_states and dtype in ("float16", "bfloat16"):
        inputs, reach = cudnn_rnn_inputs.away_from_kinks(config, inputs), 0.1
    expected = reference.forward(config, **float64(inputs))
    if reference.nearest_to_the_kink(expected) < reach:
        return inputs_and_outputs(config, dtype, seed + 1, rounds_states)
    return inputs, expected


def names_of(config: Config, names):
    """Returns the names that exist in the mode: only an LSTM has cell states."""
    return [name for name in names if config.rnn_mode == "lstm" or not name.endswith("_c")]


def check_outputs(config: Config, actual, expected: reference.Forward, dtype: str) -> None:
    """Compares the results of a forward op with the reference."""
    assert all(getattr(actual, name).dtype.name == dtype for name in (*OUTPUTS, "reserve_space"))
    parity.check(f"CudnnRNN {config.rnn_mode}", "float64", actual, expected, names_of(config, OUTPUTS))
    if config.rnn_mode != "lstm":
        assert actual.output_c.shape == ()
        assert actual.output_c == 0


def check_gradients(op: str, peer: str, config: Config, actual, expected, ending="_backprop", names=INPUTS) -> None:
    """Compares gradients. Those of params are compared for each matrix and each bias.

    There, 16-bit gradients from a GPU may differ twice as much: cuDNN rounds sums over time to 16 bits.
    """
    names = names_of(config, names)
    regions = {f"{name}{ending}": cudnn_rnn_inputs.regions(config, name) for name in names}
    dtype = actual[0].dtype
    is_rounded = dtype.size == 2 and "GPU" in actual[0].device
    parity.check(op, peer, actual, expected, list(regions), None if is_rounded else regions)
    if is_rounded:
        for field, parts in regions.items():
            error = parity.difference(getattr(actual, field), getattr(expected, field), parts)
            assert error <= 2 * parity.TOLERANCES[dtype.name], f"{op}.{field}, {dtype.name}: differs by {error:.2g}"


def gradient_difference(config: Config, name: str, actual, expected) -> float:
    """Returns `parity.difference` of gradients with respect to an input, or the largest over the regions of params."""
    return parity.difference(actual, expected, cudnn_rnn_inputs.regions(config, name))


def check_backprop(config: Config, actual, expected: reference.Backward, dtype: str) -> None:
    """Compares the results of a backprop op with the reference."""
    assert all(each.dtype.name == dtype for each in actual)
    check_gradients(f"CudnnRNNBackprop {config.rnn_mode}", "float64", config, actual, expected)
    if config.rnn_mode != "lstm":
        assert actual.input_c_backprop.shape == expected.input_c_backprop.shape
        assert not actual.input_c_backprop.numpy().any()


def check_network(
    config: Config,
    dtype: str,
    version: str,
    inputs,
    expected: reference.Forward,
    gradients,
    raw_ops=tf_rnn_ops.raw_ops,
) -> None:
    """Compares a network, forward and backward, with the results of the reference."""
    check_outputs(config, run_forward(config, inputs, version, raw_ops, is_training=False), expected, dtype)
    outputs = run_forward(config, inputs, version, raw_ops)
    check_outputs(config, outputs, expected, dtype)
    expected_backprop = reference_gradients(config, expected, inputs, gradients)
    check_backprop(config, run_backprop(config, inputs, outputs, gradients, version, raw_ops), expected_backprop, dtype)


def check_against_reference(
    config: Config, dtype: str, seed=0, version="V3", raw_ops=tf_rnn_ops.raw_ops, rounds_states=False
) -> None:
    """Compares a network, forward and backward, with the reference on the same rounded inputs."""
    inputs, expected = inputs_and_outputs(config, dtype, seed, rounds_states)
    gradients = cudnn_rnn_inputs.output_gradients(config, dtype, seed)
    check_network(config, dtype, version, inputs, expected, gradients, raw_ops)


def check_against_peer(config: Config, dtype: str, version: str, peer: str, peer_ops, raw_ops, backward=True) -> None:
    """Compares a network on a GPU, forward and backward, with other kernels on the same inputs.

    Args:
      config: the network.
      dtype: the type of its inputs.
      version: the suffix of the op names.
      peer: the name of the other kernels in the parity record.
      peer_ops: the module of the other raw ops.
      raw_ops: the module of our raw ops.
      backward: whether to also compare the backward pass.
    """
    inputs, _ = inputs_and_outputs(config, dtype, seed=0, rounds_states=True)
    gradients = cudnn_rnn_inputs.output_gradients(config, dtype)
    name = f"CudnnRNN{{}}{version} {config.rnn_mode}"
    for is_training in (False, True):
        ours, theirs = (
            run_forward(config, inputs, version, each, is_training=is_training) for each in (raw_ops, peer_ops)
        )
        parity.check(name.format(""), peer, ours, theirs, names_of(config, OUTPUTS))
    if not backward:
        return
    # Each backward pass uses the reserve_space of its own forward pass, because it is opaque.
    ours, theirs = (
        run_backprop(config, inputs, outputs, gradients, version, each)
        for outputs, each in ((ours, raw_ops), (theirs, peer_ops))
    )
    check_gradients(name.format("Backprop"), peer, config, ours, theirs)


def check_repeats_and_leaves_inputs_unchanged(config: Config, dtype: str, raw_ops=tf_rnn_ops.raw_ops) -> None:
    """Runs backprop twice on one forward pass; asserts equal bits and unchanged inputs."""
    inputs, weights = map(tensors, cudnn_rnn_inputs.inputs_and_gradients(config, dtype))
    outputs = run_forward(config, inputs, raw_ops=raw_ops, seed=7)
    arguments = cudnn_rnn_inputs.backprop_arguments(config, inputs, outputs, weights)
    arguments["sequence_lengths"] = tf.constant(config.lengths)
    given_tensors = {name: value for name, value in arguments.items() if tf.is_tensor(value)}
    before = {name: value.numpy().tobytes() for name, value in given_tensors.items()}
    first = raw_ops.CudnnRNNBackpropV3(**arguments)
    second = raw_ops.CudnnRNNBackpropV3(**arguments)
    for a, b in zip(first, second, strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()
    for name, value in given_tensors.items():
        assert value.numpy().tobytes() == before[name], name
