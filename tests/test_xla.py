"""Tests of the ops under XLA on the CPU: results, errors and gradients equal those without XLA."""

import re

import numpy as np
import pytest
import tensorflow as tf
from checks import parity
from checks.cells import CELLS
from checks.cudnn_rnn_params import NETWORKS, canonical_shapes, network_id, sizes, to_canonical, to_params, versions
from checks.cudnn_rnn_params import attributes as params_attributes
from checks.keras_layers import MASKS
from environment import forked
from environment.package_files import copy_package, in_copy
from inputs.cudnn_rnn import MODES, VERSIONS, attributes, network_inputs, output_gradients
from inputs.gru_block_cell import DTYPES, cell_inputs
from inputs.gru_block_cell import output_gradients as cell_gradients
from inputs.keras_rnn import KINDS, arguments
from references.cudnn_rnn import Config

import tf_rnn_ops
from tf_rnn_ops import _library, raw_ops

pytestmark = pytest.mark.skipif(
    tf_rnn_ops._xla.why_not_loaded() is not None, reason=str(tf_rnn_ops._xla.why_not_loaded())
)

CELL = (5, 7, 11)
GATES = ("r", "u", "c")
# Relative to the largest magnitude.
ROUNDING = {"float32": 1e-5, "float64": 1e-12, "float16": 5e-3, "bfloat16": 4e-2}
DEFAULT = Config()
NETWORKS_OF_ALL_KINDS = [
    *(
        Config(mode, num_layers=2, direction=direction)
        for mode in MODES
        for direction in ("unidirectional", "bidirectional")
    ),
    Config("lstm", num_proj=4, time_major=False),
    Config("lstm", sequence_lengths=(5, 0, 2)),
    Config("gru", input_mode="skip_input", sequence_lengths=(1, 5, 5), time_major=False),
    Config("lstm", num_layers=3, dropout=0.4),
    Config("rnn_tanh", time=0),
    Config("gru", batch=0),
]


def compiled(function):
    """Returns the function, compiled by XLA."""
    return tf.function(function, jit_compile=True)


def assert_same(actual, expected):
    """Asserts that structures of tensors are bitwise equal."""
    tf.nest.assert_same_structure(actual, expected)
    for one, other in zip(tf.nest.flatten(actual), tf.nest.flatten(expected), strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert one.numpy().tobytes() == other.numpy().tobytes()


def check(function, *tensors):
    """Asserts that the results of a function with and without XLA are bitwise equal."""
    tensors = tf.nest.map_structure(tf.convert_to_tensor, tensors)
    assert_same(compiled(function)(*tensors), tf.function(function)(*tensors))


def gradients_of(function, tensors, output_gradients=None):
    """Returns the results of a function of a dict of tensors, and its first-order and second-order gradients."""
    with tf.GradientTape() as outer:
        outer.watch(tensors)
        with tf.GradientTape() as inner:
            inner.watch(tensors)
            outputs = function(tensors)
        first = inner.gradient(outputs, tensors, output_gradients)
        total = tf.add_n([tf.reduce_sum(tf.cast(each, tf.float64) ** 2) for each in first.values()])
    return outputs, first, outer.gradient(total, tensors)


def error_of(function, *arguments):
    """Asserts that a call raises an error and returns it."""
    with pytest.raises(tf.errors.OpError) as caught:
        function(*arguments)
    return caught.value


def op_message(error):
    """Returns the message of the op, without the text that TensorFlow adds."""
    return error.message.split("}} ")[-1].split(" [Op:")[0].split("\n")[0]


def assert_same_error(function, *tensors):
    """Asserts that a function raises the same error with and without XLA, with arguments of unknown shape."""
    signature = [tf.TensorSpec(None, each.dtype) for each in tensors]
    error = error_of(tf.function(function, jit_compile=True, input_signature=signature), *tensors)
    expected = error_of(function, *tensors)
    assert type(error) is type(expected)
    assert op_message(error) == op_message(expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [CELL, (1, 1, 1), (0, 3, 4), (3, 0, 4)], ids=str)
def test_cell(size, dtype):
    inputs, gradients = cell_inputs(size, dtype), cell_gradients(size, dtype)

    def step(inputs, gradients):
        forward = raw_ops.GRUBlockCell(**inputs)
        gates = {name: getattr(forward, name) for name in GATES}
        return forward, raw_ops.GRUBlockCellGrad(**inputs, **gates, d_h=gradients["d_h"])

    check(step, inputs, gradients)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [name for name in CELLS if "LSTM" in name])
@pytest.mark.parametrize("size", [CELL, (1, 1, 1), (0, 3, 4), (3, 0, 4)], ids=str)
def test_lstm_ops(size, name, dtype):
    cell = CELLS[name]

    def outputs_and_gradients(inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = cell.ours(*inputs.values())
            loss = [outputs.cs, outputs.h] if name.endswith("V2") else list(outputs)
        return outputs, tape.gradient(loss, inputs)

    check(outputs_and_gradients, cell.inputs(size, dtype))


# In TensorFlow 2.21, XLA multiplies [x, h * r] incorrectly for 4 sequences and 5 units in float64 on CPUs with AVX-512.
@pytest.mark.parametrize("size", [CELL, (4, 5, 5)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
def test_gradients_of_cells(cell, dtype, size):
    """Some gradients are TensorFlow's matrix products, which XLA rounds differently."""
    tensors = tf.nest.map_structure(tf.constant, cell.inputs(size, dtype))

    def step(inputs):
        return gradients_of(lambda inputs: list(cell.ours(*inputs.values())), inputs)

    results = [tf.nest.flatten(run(tensors)) for run in (compiled(step), tf.function(step))]
    for actual, expected in zip(*results, strict=True):
        assert parity.difference(actual, expected) < ROUNDING[dtype]


SEEDS = {"seed": 3, "seed2": 4}


def network(config, version="V3", **options):
    """Returns a function from the floating inputs of a network to its results."""
    lengths = {"sequence_lengths": config.lengths} if version == "V3" else {}
    op = getattr(raw_ops, f"CudnnRNN{version}")
    return lambda inputs: op(**inputs, **lengths, **attributes(config, version), **options)


def check_network(config, version="V3", dtype="float32"):
    """Compares all results of a network, with first-order and second-order gradients."""
    function = network(config, version, **SEEDS)

    def run(inputs, gradients):
        return gradients_of(lambda inputs: list(function(inputs)[:3]), inputs, gradients)

    inputs = network_inputs(config, dtype)
    check(function, inputs)
    check(run, inputs, list(output_gradients(config, dtype).values()))


@pytest.mark.parametrize("config", NETWORKS_OF_ALL_KINDS, ids=str)
def test_network(config):
    check_network(config)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_network_of_each_version_and_type(version, dtype):
    check_network(Config("lstm", num_layers=2, dropout=0.25), version, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_network_in_inference(dtype):
    config = Config("gru", num_layers=2)
    check(network(config, is_training=False), network_inputs(config, dtype))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_dropout_masks(dtype):
    config = Config("gru", num_layers=2, dropout=0.5)
    inputs = {**network_inputs(config, dtype), "sequence_lengths": config.lengths}
    forward = raw_ops.CudnnRNNV3(**inputs, **attributes(config))

    def masks(inputs, reserve_space):
        return [
            _library.ops.tf_rnn_ops_cudnn_rnn_dropout_masks(
                **inputs, reserve_space=reserve_space, masks_type=masks_type, **attributes(config)
            )
            for masks_type in (tf.float32, tf.float64)
        ]

    check(masks, inputs, forward.reserve_space)


def test_dropout_draws_new_masks_in_each_call_and_each_run():
    config = Config("lstm", num_layers=2, num_units=32, dropout=0.5)
    inputs = network_inputs(config, "float32")
    function = network(config)
    twice = compiled(lambda inputs: [function(inputs).output for _ in range(2)])
    outputs = [each.numpy().tobytes() for _ in range(2) for each in twice(inputs)]
    assert len(set(outputs)) == 4


def test_dropout_repeats_with_equal_seeds():
    config = Config("lstm", num_layers=2, num_units=32, dropout=0.5)
    inputs = network_inputs(config, "float32")
    functions = [tf.function(network(config, **SEEDS), jit_compile=jit) for jit in (True, True, False)]
    runs = [[function(inputs).output.numpy().tobytes() for _ in range(3)] for function in functions]
    assert runs[0] == runs[1] == runs[2]
    assert len(set(runs[0])) == 3


def test_dropout_continues_its_sequence_across_shapes():
    config = Config("lstm", num_layers=2, num_units=32, dropout=0.5)
    inputs = network_inputs(config, "float32")
    signature = {name: tf.TensorSpec([None] * len(each.shape)) for name, each in inputs.items()}
    shorter = {**inputs, "input": inputs["input"][:-1]}
    runs = []
    for jit in (True, False):
        function = tf.function(network(config, "V2", **SEEDS), input_signature=[signature], jit_compile=jit)
        runs.append([function(each).output.numpy().tobytes() for each in (inputs, shorter, inputs, shorter)])
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == 4


CACHED = """
    import os
    import sys
    import tensorflow as tf
    from tf_rnn_ops import raw_ops

    seed = int(sys.argv[1])

    @tf.function(jit_compile=True)
    def train(x):
        params = tf.ones([2 * (8 * 5 * 5 + 8 * 5) - 4 * 5])
        with tf.GradientTape() as tape:
            tape.watch(x)
            state = tf.zeros([2, 3, 5])
            y = raw_ops.CudnnRNN(input=x, input_h=state, input_c=state, params=params, dropout=0.5, seed=seed).output
        return y, tape.gradient(y, x)

    x = tf.ones([2, 3, 4])
    graph = train.get_concrete_function(x).graph.as_graph_def()
    print(graph.SerializeToString(deterministic=True).hex())
    print([each.numpy().tobytes().hex() for each in train(x)])
"""


@pytest.mark.parametrize("seed", [0, 5])
def test_another_process_finds_programs_with_dropout_in_the_persistent_cache(tmp_path, seed):
    flags = f"--tf_xla_persistent_cache_directory={tmp_path}"
    first, second = (forked.run_code(CACHED, str(seed), TF_XLA_FLAGS=flags).splitlines() for _ in range(2))
    assert len(list(tmp_path.iterdir())) == 1
    assert first[0] == second[0], "the graphs differ"
    assert (first[1] == second[1]) == (seed != 0), "without a seed, masks are new in each process"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", KINDS)
def test_layer(mode, dtype):
    inputs = arguments(mode, dtype, mask=MASKS["gaps"])
    mask = inputs.pop("mask")
    check(lambda inputs: raw_ops.KerasRNN(**inputs, mask=mask, rnn_mode=mode), inputs)

    def run(inputs):
        def outputs(inputs):
            results = raw_ops.KerasRNN(**inputs, mask=mask, rnn_mode=mode, return_sequences=True, go_backwards=True)
            return list(results[: 2 + (mode == "lstm")])

        return gradients_of(outputs, inputs)

    check(run, inputs)


@pytest.mark.parametrize("config", NETWORKS[::17], ids=network_id)
def test_params(config):
    for version in versions(config):
        attrs = params_attributes(config, version)

        def run(weights, biases, config=config, version=version, attrs=attrs):
            size = raw_ops.CudnnRNNParamsSize(**sizes(config), T=tf.float32, S=tf.int32, **attrs)
            params = to_params(config, weights, biases, version)
            # XLA must know the shape when it compiles.
            return size, params, tf.zeros(size), to_canonical(config, params, version)

        rng = np.random.default_rng(0)
        check(run, *([rng.standard_normal(shape) for shape in shapes] for shapes in canonical_shapes(config)))


def test_params_size_of_arguments():
    """XLA recompiles the function for each value of the arguments that determine shapes."""

    @compiled
    def zeros(num_units):
        return tf.zeros(
            raw_ops.CudnnRNNParamsSize(num_layers=1, num_units=num_units, input_size=3, T=tf.float32, S=tf.int64)
        )

    assert zeros(tf.constant(4)).shape == [144]
    assert zeros(tf.constant(5)).shape == [200]
    assert op_message(error_of(zeros, tf.constant(-1))) == "num_units must be at least 0, but is -1"


def step(*tensors):
    """A step of GRUBlockCell."""
    return raw_ops.GRUBlockCell(**dict(zip(("x", "h_prev", "w_ru", "w_c", "b_ru", "b_c"), tensors, strict=True)))


def step_tensors(size=CELL):
    return [tf.constant(each) for each in cell_inputs(size, "float32").values()]


def test_wrong_shape():
    tensors = step_tensors()
    tensors[2] = tensors[2][:, 1:]
    assert_same_error(step, *tensors)


def lstm(input, input_h, input_c, params, sequence_lengths):
    return raw_ops.CudnnRNNV3(
        input=input, input_h=input_h, input_c=input_c, params=params, sequence_lengths=sequence_lengths
    )


def lstm_tensors(config=DEFAULT):
    return [tf.constant(each) for each in (*network_inputs(config, "float32").values(), config.lengths)]


def test_steps_that_take_time_but_no_memory_are_limited():
    state = tf.zeros([1, 1])
    with pytest.raises(ValueError, match="sequences must have at most 134217728 steps"):
        tf.function(raw_ops.KerasRNN, jit_compile=True)(
            sequences=tf.zeros([1, 2**40, 0]),
            mask=tf.zeros([0], tf.bool),
            initial_h=state,
            initial_c=state,
            kernel=tf.zeros([0, 4]),
            recurrent_kernel=tf.zeros([1, 4]),
            bias=tf.zeros([0]),
            rnn_mode="lstm",
        )


def test_wrong_values():
    *tensors, lengths = lstm_tensors()
    assert_same_error(lstm, *tensors, lengths + 1)


def test_wrong_reserve_space():
    tensors = lstm_tensors()
    outputs = lstm(*tensors)

    def backprop(reserve_space, *tensors):
        names = ("input", "input_h", "input_c", "params", "sequence_lengths")
        return raw_ops.CudnnRNNBackpropV3(
            **dict(zip(names, tensors, strict=True)),
            **outputs._replace(reserve_space=reserve_space)._asdict(),
            output_backprop=outputs.output,
            output_h_backprop=outputs.output_h,
            output_c_backprop=outputs.output_c,
        )

    assert_same_error(backprop, tf.zeros_like(outputs.reserve_space), *tensors)
    check(backprop, outputs.reserve_space, *tensors)


def test_wrong_attributes():
    def run(*tensors):
        names = ("input", "input_h", "input_c", "params")
        return raw_ops.CudnnRNN(**dict(zip(names, tensors, strict=True)), dropout=2.0)

    tensors = lstm_tensors()[:4]
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="dropout must be"):
        compiled(run)(*tensors)


def test_dynamic_shape():
    @compiled
    def of_some(*tensors):
        x, h_prev, *weights = tensors
        some = x[:, 0] > 0
        return step(tf.boolean_mask(x, some), tf.boolean_mask(h_prev, some), *weights)

    error = error_of(of_some, *step_tensors())
    message = "x must have a static shape to be compiled with XLA, but has the shape f32[<=5,7]"
    assert op_message(error).startswith(message)


def test_batch_and_time_of_any_size():
    specs = [
        tf.TensorSpec([None, None, 8]),
        tf.TensorSpec([1, None, 8]),
        tf.TensorSpec([1, None, 8]),
        tf.TensorSpec([None]),
        tf.TensorSpec([None], tf.int32),
    ]
    function = tf.function(lstm, jit_compile=True, input_signature=specs)
    for time, batch in ((5, 3), (1, 1), (9, 2), (5, 3)):
        tensors = lstm_tensors(Config(time=time, batch=batch))
        assert_same(function(*tensors), lstm(*tensors))


def test_gradient_outside_the_compiled_function():
    tensors = step_tensors()
    results = []
    for function in (compiled(step), step):
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            h = function(*tensors).h
        results.append(tape.gradient(h, tensors))
    assert_same(*results)


def test_loop():
    def run(*tensors):
        _, h, *weights = tensors
        for _ in tf.range(4):
            h = step(tensors[0], h, *weights).h
        return h

    check(run, *step_tensors())


def test_gradient_of_a_loop():
    def run(*tensors):
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            _, h, *weights = tensors
            h = tf.while_loop(
                lambda i, h: i < 4,
                lambda i, h: (i + 1, step(tensors[0], h, *weights).h),
                (0, h),
                maximum_iterations=4,
            )[1]
        return tape.gradient(h, tensors)

    check(run, *step_tensors())


def test_equal_calls_without_dropout_are_merged():
    function = compiled(lambda *tensors: (step(*tensors).h, step(*tensors).h))
    text = function.experimental_get_compiler_ir(*step_tensors())(stage="optimized_hlo")
    assert text.count("custom-call(") == 1


@pytest.mark.parametrize("is_asked_for", [False, True])
@pytest.mark.parametrize("op", ["KerasRNN", "CudnnRNNV3"])
def test_gradient_of_the_sequences_is_computed_only_if_needed(op, is_asked_for):
    others = arguments("gru", "float32")
    layer_tensors = [others.pop("sequences"), others.pop("kernel")]
    sequences, *states, params, lengths = lstm_tensors()

    def layer(sequences, kernel):
        return raw_ops.KerasRNN(**others, sequences=sequences, kernel=kernel, rnn_mode="gru").outputs

    def network(sequences, params):
        return lstm(sequences, *states, params, lengths).output

    function, tensors = {"KerasRNN": (layer, layer_tensors), "CudnnRNNV3": (network, [sequences, params])}[op]

    def gradients(*tensors):
        with tf.GradientTape() as outer:
            outer.watch(tensors)
            with tf.GradientTape() as inner:
                asked_for = tensors[0 if is_asked_for else 1 :]
                inner.watch(asked_for)
                outputs = function(*tensors)
            first = inner.gradient(outputs, asked_for)
            total = tf.add_n([tf.reduce_sum(each**2) for each in first])
        return first, outer.gradient(total, tensors)

    check(gradients, *tensors)
    text = compiled(gradients).experimental_get_compiler_ir(*tensors)(stage="optimized_hlo")
    assert ("(f32[0]{0}, " in text) == (not is_asked_for)


def test_replicas():
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    tensors = step_tensors()
    replicas = strategy.experimental_local_results(strategy.run(compiled(step), args=tensors))
    assert len(replicas) == 2
    for replica in replicas:
        assert_same(replica, step(*tensors))


SAVED = """
    import sys
    import numpy as np, tensorflow as tf, tf_rnn_ops

    tensors = [tf.constant(each) for each in np.load(sys.argv[1]).values()]
    module = tf.saved_model.load(sys.argv[2])
    np.save(sys.argv[3], module.step(*tensors)[3])
"""


def test_saved_model(tmp_path):
    tensors = step_tensors()
    module = tf.Module()
    module.step = tf.function(step, jit_compile=True, input_signature=[tf.TensorSpec(None)] * 6)
    tf.saved_model.save(module, tmp_path / "model")
    np.savez(tmp_path / "tensors.npz", *tensors)
    forked.run_code(SAVED, *(str(tmp_path / name) for name in ("tensors.npz", "model", "h.npy")))
    np.testing.assert_array_equal(np.load(tmp_path / "h.npy"), step(*tensors).h)


LATE = """
    import tensorflow as tf

    assert tf.function(lambda x: x + 1, jit_compile=True)(1) == 2
    import tf_rnn_ops

    zeros = [tf.zeros(shape) for shape in ([2, 3], [2, 4], [7, 8], [7, 4], [8], [4])]
    names = ("x", "h_prev", "w_ru", "w_c", "b_ru", "b_c")
    step = tf.function(lambda *args: tf_rnn_ops.raw_ops.GRUBlockCell(**dict(zip(names, args))), jit_compile=True)
    assert step(*zeros).u.numpy().tolist() == [[0.5] * 4] * 2
"""


def test_import_after_xla_has_compiled_something():
    forked.run_code(LATE)


CLUSTERED = """
    import tensorflow as tf, tf_rnn_ops

    @tf.function
    def model(x, params, num_units):
        size = tf_rnn_ops.raw_ops.CudnnRNNParamsSize(
            num_layers=2, num_units=num_units, input_size=8, T=tf.float32, S=tf.int32
        )
        state = tf.zeros([2, 4, 8])
        with tf.GradientTape() as tape:
            tape.watch(params)
            outputs = tf_rnn_ops.raw_ops.CudnnRNN(
                input=x * 2, input_h=state, input_c=state, params=tf.reshape(params, size), dropout=0.5, seed=1
            )
            y = tf.sigmoid(outputs.output * 3 + 1)
        return y, tape.gradient(y, params)

    x, params = tf.ones([5, 4, 8]), tf.linspace(-1.0, 1.0, 1152)
    y, gradient = model(x, params, tf.constant(8))
    print(float(tf.reduce_sum(y)), float(tf.reduce_sum(gradient)))
"""


def test_auto_clustering():
    """The clusters may or may not contain the ops."""
    flags = "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit --tf_xla_min_cluster_size=1"
    clustered, plain = (
        [float(word) for word in forked.run_code(CLUSTERED, TF_XLA_FLAGS=each).split()] for each in (flags, "")
    )
    np.testing.assert_allclose(clustered, plain, rtol=1e-5)


BUILTIN = """
    import tensorflow as tf, tf_rnn_ops

    ops = tf.raw_ops
    tf_rnn_ops.enable_builtin_kernels()

    @tf.function(jit_compile=True)
    def model(x, num_units):
        sizes = dict(num_layers=1, num_units=num_units, input_size=3)
        size = ops.CudnnRNNParamsSize(**sizes, T=tf.float32, S=tf.int32)
        params = tf.reshape(tf.linspace(-1.0, 1.0, 144), size)
        weights = ops.CudnnRNNParamsToCanonical(**sizes, params=params, num_params=8)
        params = ops.CudnnRNNCanonicalToParams(**sizes, weights=weights.weights, biases=weights.biases)
        state = tf.zeros([1, 2, 4])
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = ops.CudnnRNNV3(
                input=x, input_h=state, input_c=state, params=params, sequence_lengths=[5, 2]
            )
        return outputs.output, tape.gradient(outputs.output, x)

    with_xla = model(tf.ones([5, 2, 3]), 4)
    ops = tf_rnn_ops.raw_ops
    tf.config.run_functions_eagerly(True)
    for one, other in zip(with_xla, model(tf.ones([5, 2, 3]), 4)):
        assert one.numpy().tobytes() == other.numpy().tobytes()
"""


def test_builtin_ops():
    forked.run_code(BUILTIN)


def test_builtin_ops_without_enabling():
    code = BUILTIN.replace("    tf_rnn_ops.enable_builtin_kernels()\n", "")
    ended = forked.run(code)
    assert "No registered 'CudnnRNNParamsSize' OpKernel for XLA_CPU_JIT" in ended.errors


@pytest.mark.parametrize("path", [_library.XLA_PATH, _library.FFI_PATH], ids=lambda path: path.name)
@pytest.mark.parametrize("length", [None, 5000], ids=["missing", "too short"])
def test_import_without_the_libraries(tmp_path, path, length):
    package = copy_package(tmp_path)
    library = in_copy(package, path)
    content = library.read_bytes()
    library.unlink()
    if length:
        library.write_bytes(content[:length])
    code = "import tf_rnn_ops; print(tf_rnn_ops.__file__, tf_rnn_ops._xla.why_not_loaded())"
    code += "; tf_rnn_ops.enable_builtin_kernels()"
    file, _, why_not = forked.run_code(code, PYTHONPATH=str(tmp_path)).partition(" ")
    assert file == str(package / "__init__.py")
    assert path.name in why_not


def test_report_says_whether_the_libraries_are_loaded():
    printed = forked.run_code(forked.COMMAND)
    assert re.search(rf"^ +XLA library +loaded: {_library.XLA_PATH}$", printed, re.MULTILINE)
    assert re.search(r"^ +CudnnRNNV3 +XLA_CPU_JIT ", printed, re.MULTILINE)
