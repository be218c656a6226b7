"""Calls the ops under increasing limits of the address space until they succeed.

Use it in a separate process with ENVIRONMENT.
"""

import contextlib
import dataclasses
import re
import resource
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from checks import cudnn_rnn_params as params_checks
from checks.cudnn_rnn import run_backprop, run_forward, tensors
from checks.second_order import backprop_grad, dropout_masks
from environment import process_resources
from inputs import cudnn_rnn as cudnn_rnn_inputs
from inputs import gru_block_cell as gru_inputs
from inputs import keras_rnn, mixed_calls
from inputs.cudnn_rnn import Config
from inputs.mixed_calls import Call
from inputs.unaligned import at_offset

import tf_rnn_ops
from tf_rnn_ops import _constant_weights
from tf_rnn_ops._library import ops

# Each tensor is allocated with mmap and returned to the system: without the oneDNN allocator, and without per-thread
# arenas, which reserve address space in advance.
ENVIRONMENT = {"TF_ENABLE_ONEDNN_OPTS": "0", "MALLOC_MMAP_THRESHOLD_": str(64 << 10), "MALLOC_ARENA_MAX": "1"}
# Initial headroom for Python and TensorFlow, and the increment of the limit, in bytes.
INITIAL_HEADROOM = 8 << 20
INCREMENT = 5 << 20
# Tensors of 6 to 70 MiB; the computation is long enough to measure.
NETWORK = Config("lstm", num_units=384, input_size=256, time=110, batch=64, sequence_lengths=(110,) * 32 + (90,) * 32)
CELL = (8192, 64, 512)
PARAMS = Config("gru", num_units=1200, input_size=1200)
DROPPED = Config("gru", num_layers=2, num_units=256, input_size=8, time=64, batch=512, dropout=0.5)
PACKED = Config("lstm", num_units=1000, input_size=1000, time=2, batch=1024)
EMPTY = Config(num_units=0, input_size=0, time=0, batch=16 << 20)
# Batch, time and units of a layer. Without features, one long sample takes memory only for its mask.
LAYER = (64, 8192, 4)
LONG_LAYER = (1, 8 << 20, 1)
# Names of calls with a mask.
MASKED = ("KerasRNN of a long masked sample", "KerasRNNBackprop with a mask")


@contextlib.contextmanager
def limited(more_bytes: int):
    """Limits the address space of the process to its current size plus `more_bytes`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (1024 * process_resources.status("VmSize") + more_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of a call under increasing limits.

    Attributes:
      failed: the tensors that could not be allocated, as TensorFlow describes them.
      num_failures: the number of failed calls.
      headroom: the bytes that were sufficient.
      seconds: the longest CPU time of a failed call.
      seconds_of_a_call: the CPU time of a successful call.
    """

    failed: set[str]
    num_failures: int
    headroom: int
    seconds: float
    seconds_of_a_call: float


def climb(call: Call) -> Outcome:
    """Repeats a call under increasing limits until it succeeds, and checks its results.

    Raises:
      AssertionError: if the results differ from those without a limit.
    """
    expected = mixed_calls.contents(call())
    start = time.process_time()
    call()
    seconds_of_a_call = time.process_time() - start
    failed, num_failures, longest, headroom = set(), 0, 0.0, INITIAL_HEADROOM
    process_resources.return_free_memory()
    while True:
        try:
            with limited(headroom):
                start = time.process_time()
                results = call()
        except tf.errors.ResourceExhaustedError as error:
            longest = max(longest, time.process_time() - start)
            failed.add(failed_tensor(error.message))
            num_failures += 1
            headroom += INCREMENT
            continue
        assert mixed_calls.contents(results) == expected
        return Outcome(failed, num_failures, headroom, longest, seconds_of_a_call)


def failed_tensor(message: str) -> str:
    """Returns the shape and type of a tensor in an error message, as in "[64,64,512] float"."""
    found = re.search(r"OOM when allocating tensor with shape(\[[\d,]*\]) and type (\w+)", message)
    assert found is not None, message
    return " ".join(found.groups())


def of_op(name: str, op: Callable, arguments: dict[str, tf.Tensor], **attributes) -> Call:
    """Returns a call of an op."""
    return Call(name, lambda arguments: tf.nest.flatten(op(**arguments, **attributes)), arguments)


def layer_inputs(batch, time, units, mask) -> dict[str, tf.Tensor]:
    """Returns the inputs of an LSTM layer without features."""
    return keras_rnn.arguments("lstm", "float32", batch, time, features=0, units=units, mask=mask)


def layer_calls() -> Iterator[Call]:
    """Yields calls of KerasRNN and its gradient."""
    forward, backprop = tf_rnn_ops.raw_ops.KerasRNN, tf_rnn_ops.raw_ops.KerasRNNBackprop
    long = layer_inputs(*LONG_LAYER, np.zeros(LONG_LAYER[:2]))
    yield of_op("KerasRNN of a long masked sample", forward, long, rnn_mode="lstm", is_training=False)
    batch, time, _ = LAYER
    masks = {"": np.zeros([0]), " with a mask": np.arange(batch * time).reshape(batch, time) % 3 > 0}
    attributes: dict[str, Any] = {"rnn_mode": "lstm", "return_sequences": True}
    for suffix, mask in masks.items():
        inputs = layer_inputs(*LAYER, mask)
        yield of_op(f"KerasRNN{suffix}", forward, inputs, **attributes)
        outputs, final_h, final_c, reserve_space = forward(**inputs, **attributes)
        gradients = {"outputs_backprop": outputs, "final_h_backprop": final_h, "final_c_backprop": final_c}
        yield of_op(
            f"KerasRNNBackprop{suffix}", backprop, {**inputs, **gradients, "reserve_space": reserve_space}, **attributes
        )


def network_calls() -> Iterator[Call]:
    """Yields calls of the ops of networks."""
    raw_ops = tf_rnn_ops.raw_ops
    inputs, gradients = map(tensors, cudnn_rnn_inputs.inputs_and_gradients(NETWORK, "float32"))
    outputs = run_forward(NETWORK, inputs)
    network = {**inputs, "sequence_lengths": tf.constant(NETWORK.lengths)}
    yield of_op("CudnnRNNV3", raw_ops.CudnnRNNV3, network)
    yield of_op("CudnnRNNV3 in inference", raw_ops.CudnnRNNV3, network, is_training=False)
    # Without units or steps, only the sequence lengths take memory.
    empty = tensors(cudnn_rnn_inputs.network_inputs(EMPTY, "float32"))
    empty["sequence_lengths"] = tf.zeros([EMPTY.batch], tf.int32)
    yield Call("CudnnRNNV3 of empty sequences", lambda inputs: [raw_ops.CudnnRNNV3(**inputs).output], empty)
    given = (inputs, outputs, gradients)
    yield Call("CudnnRNNBackpropV3", lambda given: list(run_backprop(NETWORK, *given)), given)
    yield Call(
        "CudnnRNNBackpropV3 of an unaligned reserve_space",
        lambda given: list(run_backprop(NETWORK, *given[:3], reserve_space=given[3])),
        (*given, at_offset(outputs.reserve_space.numpy(), 4)),
    )
    v = list(run_backprop(NETWORK, *given))
    yield Call("CudnnRNNBackpropGrad", lambda given: list(backprop_grad(NETWORK, *given)), (*given, v))
    dropped = tensors(cudnn_rnn_inputs.network_inputs(DROPPED, "float32"))
    dropped_outputs = run_forward(DROPPED, dropped, seed=1)
    yield Call("CudnnRNNDropoutMasks", lambda given: [dropout_masks(DROPPED, *given)], (dropped, dropped_outputs))
    params = tf.constant(cudnn_rnn_inputs.network_inputs(PARAMS, "float32")["params"])
    canonical = params_checks.to_canonical(PARAMS, params)
    yield Call(
        "CudnnRNNParamsToCanonical",
        lambda params: tf.nest.flatten(params_checks.to_canonical(PARAMS, params)),
        params,
    )
    yield Call(
        "CudnnRNNCanonicalToParams", lambda canonical: [params_checks.to_params(PARAMS, *canonical)], tuple(canonical)
    )


def packed_calls() -> Iterator[Call]:
    """Yields a call that assigns to its weights and packs them, and one of the same kernel that finds them packed."""
    inputs = tensors(cudnn_rnn_inputs.network_inputs(PACKED, "float32"))
    params = tf.Variable(inputs.pop("params"))
    lengths = tf.constant(PACKED.lengths)

    @tf.function
    def infer(inputs):
        output = tf_rnn_ops.raw_ops.CudnnRNNV3(
            **inputs, params=params.read_value(), sequence_lengths=lengths, is_training=False
        ).output
        _constant_weights.mark(output.op, "int8")
        return [output]

    def assign_and_infer(inputs):
        params.assign(params + 0)
        return infer(inputs)

    def infer_packed(inputs):
        results = infer(inputs)
        assert tf_rnn_ops.packed_weights_bytes() > 0
        return results

    yield Call("CudnnRNNV3 that packs weights", assign_and_infer, inputs)
    yield Call("CudnnRNNV3 with packed weights", infer_packed, inputs)


def cell_calls() -> Iterator[Call]:
    """Yields calls of GRUBlockCell and its gradients."""
    cell = tensors(gru_inputs.cell_inputs(CELL, "float32"))
    gradients = tensors(gru_inputs.output_gradients(CELL, "float32"))
    step = tf_rnn_ops.raw_ops.GRUBlockCell(**cell)
    backward = cell | {name: getattr(step, name) for name in "ruc"}
    yield of_op("GRUBlockCell", tf_rnn_ops.raw_ops.GRUBlockCell, cell)
    yield of_op("GRUBlockCellGrad", tf_rnn_ops.raw_ops.GRUBlockCellGrad, {**backward, "d_h": gradients["d_h"]})
    yield of_op("GRUBlockCellGradV2", ops.tf_rnn_ops_gru_block_cell_grad_v2, {**backward, **gradients})


def all_calls() -> dict[str, Call]:
    """Returns a call of every op that allocates memory, by name."""
    return {call.name: call for call in (*network_calls(), *packed_calls(), *cell_calls(), *layer_calls())}


def in_dataset(call: Call) -> Call:
    """Returns a call whose results come from a dataset. The dataset continues after an error."""
    dataset = tf.data.Dataset.range(1 << 30).map(lambda _: call.compute(call.arguments))
    options = tf.data.Options()
    options.autotune.enabled = False  # it would start a thread, which takes more memory than any tensor
    iterator = iter(dataset.with_options(options))
    return Call(f"{call.name} in a dataset", lambda _: list(next(iterator)), None)


ENTRY_POINTS = {"eager": lambda call: call, "graph": Call.in_graph, "dataset": in_dataset}


def check(entry_point: str, names: Collection[str] = ()) -> str:
    """Runs calls under increasing limits and returns a line for each.

    Args:
      entry_point: "eager", "graph" or "dataset".
      names: names of the calls; all by default.

    Raises:
      AssertionError: if a call never failed, or from `climb`.
    """
    lines = []
    for name, call in all_calls().items():
        if names and name not in names:
            continue
        outcome = climb(ENTRY_POINTS[entry_point](call))
        assert outcome.num_failures > 0, f"{name}, {entry_point}: {outcome}"
        lines.append(
            f"{name}: {outcome.num_failures} failures to allocate {', '.join(sorted(outcome.failed))}, "
            f"within {1e3 * outcome.seconds:.1f} ms; a call takes {outcome.headroom >> 20} MiB and "
            f"{1e3 * outcome.seconds_of_a_call:.0f} ms"
        )
    assert len(lines) >= len(names)
    return "\n".join(lines)
