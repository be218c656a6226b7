"""Calls ops through every entry point that the tests use and prints the functions that XLA compiled.

    python -m environment.compiled_calls FOLDER

FOLDER is the folder of XLA_FLAGS=--xla_dump_to. The program prints a line for each entry point: its name and, for each
compiled function, the ops that XLA calls.
"""

import pathlib
import re
import sys

import tensorflow as tf

import tf_rnn_ops
from environment import xla_switch

if xla_switch.EVERY:
    xla_switch.turn_on()
tf_rnn_ops.enable_builtin_kernels()

FOLDER = pathlib.Path(sys.argv[1])
INPUTS = {
    name: tf.ones(shape)
    for name, shape in {"x": [2, 3], "h_prev": [2, 4], "w_ru": [7, 8], "w_c": [7, 4], "b_ru": [8], "b_c": [4]}.items()
}


def cell(**inputs):
    return tf_rnn_ops.raw_ops.GRUBlockCell(**inputs).h


def eager():
    cell(**INPUTS)


def gradient():
    with tf.GradientTape() as tape:
        tape.watch(INPUTS)
        h = cell(**INPUTS)
    tape.gradient(h, INPUTS)


def graph():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        inputs = {name: tf.compat.v1.placeholder(each.dtype, each.shape) for name, each in INPUTS.items()}
        session.run(cell(**inputs), {inputs[name]: each.numpy() for name, each in INPUTS.items()})


def function():
    tf.function(lambda: tf.sin(cell(**INPUTS)))()


def library():
    tf_rnn_ops._library.ops.TfRnnOps_GRUBlockCell(**INPUTS)


def builtin():
    state = tf.zeros([1, 2, 4])
    tf.raw_ops.CudnnRNN(input=tf.ones([5, 2, 3]), input_h=state, input_c=state, params=tf.zeros([144]))


def ops_in(module: pathlib.Path) -> list[str]:
    """Returns the ops that a compiled function calls, and the sine, if any."""
    return re.findall(r'custom_call_target="TfRnnOps\w*?([A-Z]\w+)"| (sine)\(', module.read_text())


for call in (eager, gradient, graph, function, library, builtin):
    before = set(FOLDER.glob("*before_optimizations.txt"))
    call()
    compiled = sorted(set(FOLDER.glob("*before_optimizations.txt")) - before)
    print(call.__name__, *["+".join("".join(op) for op in ops_in(each)) for each in compiled if ops_in(each)])
