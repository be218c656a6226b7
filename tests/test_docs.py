"""The code in README.md and docs/ runs, and the messages in the FAQ are in the sources."""

import ast
import importlib.util
import itertools
import re

import keras
import pytest
import tensorflow as tf
from environment import forked, pages, processes

import tf_rnn_ops

FAQ = "docs/faq.md"
OPTIONAL_PACKAGES = ("onnx", "onnxruntime", "torch")


def why_not_runnable(code):
    """Returns why code cannot run here: it needs a package that is not installed, or XLA that compiles the ops."""
    for package in OPTIONAL_PACKAGES:
        if re.search(rf"^(import|from) {package}\b", code, re.MULTILINE) and not importlib.util.find_spec(package):
            return f"needs {package}"
    return tf_rnn_ops._xla.why_not_loaded() if "jit_compile=True" in code else None


def save_gpu_model(path):
    """Writes a SavedModel with TensorFlow's own CudnnRNN op."""

    def lstm(x):
        state = tf.zeros([1, 2, 4])
        return tf.raw_ops.CudnnRNN(input=x, input_h=state, input_c=state, params=tf.zeros([144])).output

    module = tf.Module()
    module.lstm = tf.function(lstm, input_signature=[tf.TensorSpec([5, 2, 3])])
    tf.saved_model.save(module, path, signatures=module.lstm)


def save_keras_model(path):
    """Writes a SavedModel as Keras exports it."""
    layers = [keras.Input([None, 3]), keras.layers.LSTM(4, name="lstm")]
    keras.Sequential(layers, name="tagger").export(path, verbose=False)


# The files that pages name.
SAVED_MODELS = {"exported_on_a_gpu": save_gpu_model, "exported_by_keras": save_keras_model}
# The code of each page, and the programs on the pages, by name.
SCRIPTS = {page: pages.code_of(page, "python") for page in pages.paths() if pages.blocks(page, "python")}
PROGRAMS = {name: code for page in pages.paths() for name, code in pages.programs(page).items()}
IN_CLUSTER = [name for name, code in PROGRAMS.items() if "TFConfigClusterResolver" in code]


@pytest.mark.parametrize("name", sorted({**SCRIPTS, **PROGRAMS}.keys() - IN_CLUSTER))
def test_the_code_of_a_page_runs_and_prints_what_the_page_shows(name, tmp_path):
    code = {**SCRIPTS, **PROGRAMS}[name]
    if why_not := why_not_runnable(code):
        pytest.skip(why_not)
    (tmp_path / "program.py").write_text(code)
    for file, save in SAVED_MODELS.items():
        if file in code:
            save(str(tmp_path / file))
    # Not the code itself: autograph reads the sources of functions.
    ended = forked.run(f"""
        import os, runpy
        import keras
        os.chdir("{tmp_path}")
        keras.utils.set_random_seed(0)
        runpy.run_path("program.py", run_name="__main__")
    """)
    assert ended.status == 0, ended.output
    printed = ended.output
    for shown in pages.outputs(name) if name in SCRIPTS else ():
        _, found, printed = printed.partition(shown)
        assert found, f"shows other output:\n{shown}\nprinted:\n{ended.output}"


@pytest.mark.parametrize("name", IN_CLUSTER)
def test_a_program_of_a_page_runs_in_a_cluster(name, tmp_path):
    """As the tasks of a cluster with parameter servers."""
    (tmp_path / name).write_text(PROGRAMS[name])
    code = f"""
        import sys
        import local_cluster

        sys.argv = ["{name}"]
        local_cluster.run({{"chief": 1, "worker": 2, "ps": 1}}, awaited="chief")
    """
    processes.run_code(code, cwd=tmp_path, PYTHONPATH=str(pages.EXAMPLES / "distributed"))


# ---------------------------------------------------------------- the messages in the FAQ


def messages(is_ours):
    """Returns the messages quoted in the FAQ's headings: those of tf_rnn_ops, or those of TensorFlow and Keras."""
    _, *sections = re.split(r"^## ", pages.text_of(FAQ), flags=re.MULTILINE)
    chosen = [each for each in sections if each.startswith("Messages of TensorFlow and Keras\n") != is_ours]
    headings = re.findall(r"^### (.*)$", "\n".join(chosen), re.MULTILINE)
    return [
        message.strip()
        for heading in headings
        for _, message in re.findall(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", heading)
    ]


def python_literals(path):
    """Returns the strings in a Python file. In f-strings, a line break replaces each value."""
    literals = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            literals.append("".join(part.value if isinstance(part, ast.Constant) else "\n" for part in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            literals.append(node.value)
    return literals


def cpp_literals(path):
    """Returns the strings in a C++ file, adjacent ones joined."""
    string = r'"(?:[^"\\\n]|\\.)*"'
    joined = re.findall(rf"{string}(?:\s*{string})*", path.read_text())
    return [re.sub(r'"\s*"', "", each)[1:-1].replace('\\"', '"') for each in joined]


@pytest.fixture(scope="module")
def literals():
    """All strings in the sources."""
    python = (pages.ROOT / "tf_rnn_ops").rglob("*.py")
    cpp = [path for path in (pages.ROOT / "cc").rglob("*") if path.suffix in (".h", ".cc")]
    return "\n".join(itertools.chain(*map(python_literals, python), *map(cpp_literals, cpp)))


@pytest.mark.parametrize("message", messages(is_ours=True))
def test_a_message_in_the_faq_is_in_the_sources(message, literals):
    for part in message.split("…"):
        assert part.strip() in literals


def test_the_faq_has_messages_of_both_kinds():
    assert len(messages(is_ours=True)) > 10
    assert len(messages(is_ours=False)) > 3
