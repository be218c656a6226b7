"""Tests of the names of TensorFlow and Keras that are not public: where they are used, and without them."""

import ast
import itertools
import pathlib
import re

import pytest
from environment import forked
from environment.package_files import PACKAGE
from environment.processes import WITH_TESTING

from tf_rnn_ops import _private_names
from tf_rnn_ops._keras import private_names

FILES = {name: PACKAGE.joinpath(f"{name}.py") for name in ("_private_names", "_keras/private_names")}
# By the name of the module.
PATHS = {f"tf_rnn_ops.{name.replace('/', '.')}": str(file) for name, file in FILES.items()}
SOURCES = {name: pathlib.Path(path).read_text() for name, path in PATHS.items()}
# Without any of these, accelerate_keras raises a RuntimeError.
NEEDED = {"inner_loop", "call", "make_train_function", "make_test_function", "make_predict_function", "_flatten_layers"}

# Runs the package as though TensorFlow and Keras had other names, which only this package looks up.
CODE = """
import os, sys, types, warnings
files = {files!r}
for name, source in {sources!r}.items():
    sys.modules[name] = types.ModuleType(name)
    exec(compile(source, files[name], "exec"), vars(sys.modules[name]))
os.environ["TF_RNN_OPS_ACCELERATE_KERAS"] = "1"
with warnings.catch_warnings(record=True) as caught:
    import tf_rnn_ops
print("warnings:", *[each.message for each in caught])
from tf_rnn_ops import __main__
sys.argv = ["tf_rnn_ops"]
__main__.main()
from checks import package_features
print(package_features.check({folder!r}))
"""


def quoted(path):
    """Returns the part of a path in NAMES that is a string of a module: a name, or one with its class."""
    parts = path.split(".")
    names = (".".join(parts[i:]) for i in range(len(parts)))
    return next(name for name in names if any(f'"{name}"' in source for source in SOURCES.values()))


ALL = {*map(quoted, _private_names.NAMES), *private_names.OF_STEP}


def without(names, source):
    """Returns the source of a module with names that do not exist."""
    return re.sub(rf'"({"|".join(map(re.escape, sorted(names)))})"', r'"\1_of_another_version"', source)


@pytest.mark.parametrize("is_accelerated", [True, False], ids=["those that acceleration can lack", "all"])
def test_the_package_works_without_names(is_accelerated, tmp_path):
    names = ALL - NEEDED if is_accelerated else ALL
    sources = {name: without(names, source) for name, source in SOURCES.items()}
    result = forked.run(CODE.format(files=PATHS, sources=sources, folder=str(tmp_path)), **WITH_TESTING)
    assert result.status == 0, result.output
    assert result.last_line == str(is_accelerated)
    warned = "TF_RNN_OPS_ACCELERATE_KERAS=1 has no effect: accelerate_keras was tested with Keras" in result.output
    assert warned != is_accelerated


@pytest.mark.parametrize("path", [path for path in _private_names.NAMES if path.startswith("tensorflow.python.")])
def test_a_missing_name_of_tensorflow_is_logged(caplog, path):
    if path.endswith("call_context"):
        pytest.skip("TensorFlow imports the module only when a program uses its old Keras")
    module = "tf_rnn_ops._private_names"
    exec(compile(without([quoted(path)], SOURCES[module]), PATHS[module], "exec"), {"__name__": module})
    (logged,) = [each.getMessage() for each in caplog.records if path.rpartition(".")[2] in each.getMessage()]
    assert "of_another_version is missing, which tf_rnn_ops uses: " in logged


# ---------------------------------------------------------------- where the names are used

# Private names that are Python's own, or attributes of nodes or of what the package sets; ends of names of weights;
# a mode of the op.
ALLOWED = {"_getframe", "_asdict", "_fields", "_make", "_replace", "_unwanted_outputs", "_tf_rnn_ops_known"}
ALLOWED |= {"_tf_rnn_ops_constant_weights", "_tf_rnn_ops_steps", "_output_shapes"}
ALLOWED |= {"_ru", "_c", "rnn"}
OTHERS = [file for file in sorted(PACKAGE.rglob("*.py")) if file not in FILES.values()]


def defined(tree):
    """Yields the names that a module defines or imports."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.alias)):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            yield node.attr


def used(tree):
    """Yields the names of modules, attributes and, as strings, of both. Parts of f-strings are no names."""
    parts = {each for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for each in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and node not in parts and re.fullmatch(r"[\w.]+", str(node.value)):
            yield str(node.value)


def private_names_in(sources):
    """Yields the names of TensorFlow and Keras in modules of the package that are not public."""
    trees = [ast.parse(each) for each in sources]
    own = ALLOWED.union(*map(defined, trees))
    of_keras = {path.rpartition(".")[2] for path in _private_names.NAMES if path.startswith(("keras.", "tf_keras."))}
    for name in itertools.chain.from_iterable(map(used, trees)):
        is_private = re.match(r"_[a-z]|__internal__", name) or name in of_keras
        if re.match(r"tensorflow\.python\b|(tf_)?keras\.src\b", name) or (is_private and name not in own):
            yield name


def test_no_other_module_uses_a_private_name():
    assert list(private_names_in(each.read_text() for each in OTHERS)) == []


@pytest.mark.parametrize(
    "code",
    [
        "from tensorflow.python.eager import record",
        "import keras.src.layers",
        "import tf_keras.src.layers",
        "importlib.import_module('tensorflow.python.eager.record')",
        "tf.__internal__.tracking",
        "layer._keras_history",
        "getattr(layer, '_keras_history', None)",
        "model.make_train_function()",
    ],
)
def test_a_private_name_is_found(code):
    assert list(private_names_in([*(each.read_text() for each in OTHERS), code]))
