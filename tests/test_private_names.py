"""Tests of the names of TensorFlow and Keras that are not public: where they are used, and without each of them."""

import ast
import itertools
import json
import re

import keras
import pytest
from environment import forked
from environment.package_files import PACKAGE
from environment.processes import WITH_TESTING
from packaging.version import Version

from tf_rnn_ops import _private_names

FILE = PACKAGE / "_private_names.py"
SOURCE = FILE.read_text()

# By name, the features in package_features.py that are missing without it. A purpose of several names of TensorFlow has
# the first one.
FEATURES = {
    "get_registered_kernels_for_op": ["kernels"],
    "get": ["kernels"],
    "gradient_registry._registry": ["replaced_gradients"],
    "OpStats": ["flops"],
    "RegisterPFor": ["vectorized_map"],
    "could_possibly_record": ["cell_in_a_graph"],
    "GraphOrParentsInXlaContext": ["cell_in_a_graph", "steps_of_gru"],
    "in_save_context": ["saved_without_op", "exported_without_op", "exported_if_strict"],
    "get_save_options": ["saved_in_portable_scope"],
    "__internal__.tracking.AutoTrackable": ["checkpoint"],
    "_set_attr": ["unwanted_gradients", "packed_exports"],
    "convert_variables_to_constants_v2_as_graph": ["freezing"],
    "_inputs_struct": ["nested_inputs_of_frozen_models"],
    "skip_input_indices": ["unwanted_gradients"],
    "call_context": [],  # test_exports.py needs it with tf2onnx
    "inner_loop": ["acceleration"],
    "call": ["acceleration"],
    "make_train_function": ["acceleration"],
    "make_test_function": ["acceleration"],
    "make_predict_function": ["acceleration"],
    "_flatten_layers": ["acceleration", "explanation_of_wrappers"],
    "_compile_metrics": ["kept_functions"],
    "_user_metrics": ["kept_functions"],
    "_maybe_reset_dropout_masks": ["forgotten_masks"],
    "get_dropout_mask": ["dropout", "recurrent_dropout"],
    "get_recurrent_dropout_mask": ["dropout", "recurrent_dropout"],
    "dropout_mask_count": ["recurrent_dropout"],
    "implementation": ["recurrent_dropout"],
    "_autocast": ["explanation_of_mixed_precision"],
    "_keras_mask": ["mask_of_inputs"],
    "_filter_and_track_resources": [],  # test_exports.py needs it with newer versions of Keras
}
ALL = sorted(set(itertools.chain.from_iterable(FEATURES.values())))

# Runs the package as though TensorFlow and Keras had other names, which only this package looks up.
CODE = """
import json, os, sys, types, warnings
module = types.ModuleType("tf_rnn_ops._private_names")
sys.modules[module.__name__] = module
exec({source!r}, vars(module))
os.environ["TF_RNN_OPS_ACCELERATE_KERAS"] = "1"
with warnings.catch_warnings(record=True) as caught:
    import tf_rnn_ops
print("warnings:", *[each.message for each in caught])
from checks import package_features
print(json.dumps(package_features.missing({folder!r}, {features!r})))
"""


def quoted(path):
    """Returns the part of a path in NAMES that is a string of the module: a name, or one with its class."""
    parts = path.split(".")
    names = (".".join(parts[i:]) for i in range(len(parts)))
    return next(name for name in names if f'"{name}"' in SOURCE)


def without(*names):
    """Returns the source of the module with names that do not exist."""
    if not names:
        return SOURCE
    return re.sub(rf'"({"|".join(map(re.escape, names))})"', r'"\1_of_another_version"', SOURCE)


# By name, the names to remove, the features to check, and those that are missing.
CASES = {name: ([name], missing, missing) for name, missing in FEATURES.items()} | {
    "none": ([], ALL, []),
    "methods of a step": (set(_private_names.OF_STEP) - set(FEATURES), [], []),
    "all": (list(map(quoted, _private_names.NAMES)), ["acceleration"], ["acceleration"]),
}


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("files"))
    codes = {
        case: CODE.format(source=without(*names), folder=folder, features=features)
        for case, (names, features, _) in CASES.items()
    }
    return forked.run_codes(codes, **WITH_TESTING)


@pytest.mark.parametrize("case", CASES)
def test_the_package_works_without_a_name(ended, case):
    if case == "none" and Version(keras.__version__) < Version("3.8"):
        pytest.skip("with Keras up to 3.7, cells in a graph and recurrent dropout always run Keras's code")
    _, _, missing = CASES[case]
    result = ended[case]
    assert result.status == 0, result.output
    assert json.loads(result.last_line) == missing
    warned = "TF_RNN_OPS_ACCELERATE_KERAS=1 has no effect: accelerate_keras was tested with Keras" in result.output
    assert warned == ("acceleration" in missing)


def test_each_purpose_is_tested():
    first_of_purpose = {name: quoted(path) for path, name in reversed(_private_names.NAMES.items())}
    assert set(first_of_purpose.values()) <= set(FEATURES)
    assert {quoted(path) for path in _private_names.NAMES if path.startswith("keras.")} <= set(FEATURES)


@pytest.mark.parametrize("path", [path for path in _private_names.NAMES if path.startswith("tensorflow.python.")])
def test_a_missing_name_of_tensorflow_is_logged(caplog, path):
    if path.endswith("call_context"):
        pytest.skip("TensorFlow imports the module only when a program uses its old Keras")
    exec(without(quoted(path)), {"__name__": "tf_rnn_ops._private_names"})
    (logged,) = [each.getMessage() for each in caplog.records if path.rpartition(".")[2] in each.getMessage()]
    assert "of_another_version is missing, which tf_rnn_ops uses: " in logged


# ---------------------------------------------------------------- where the names are used

# Private names that are Python's own, or attributes that the package itself sets; and the ends of names of weights.
ALLOWED = {"_getframe", "_asdict", "_fields", "_make", "_replace", "_unwanted_outputs", "_tf_rnn_ops_logged"}
ALLOWED |= {"_tf_rnn_ops_constant_weights"}
ALLOWED |= {"_ru", "_c"}
OTHERS = [file for file in sorted(PACKAGE.rglob("*.py")) if file != FILE]


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


def private_names(sources):
    """Yields the names of TensorFlow and Keras in modules of the package that are not public."""
    trees = [ast.parse(each) for each in sources]
    own = ALLOWED.union(*map(defined, trees))
    of_keras = {path.rpartition(".")[2] for path in _private_names.NAMES if path.startswith("keras.")}
    for name in itertools.chain.from_iterable(map(used, trees)):
        is_private = re.match(r"_[a-z]|__internal__", name) or name in of_keras
        if re.match(r"tensorflow\.python\b|keras\.src\b", name) or (is_private and name not in own):
            yield name


def test_no_other_module_uses_a_private_name():
    assert list(private_names(each.read_text() for each in OTHERS)) == []


@pytest.mark.parametrize(
    "code",
    [
        "from tensorflow.python.eager import record",
        "import keras.src.layers",
        "importlib.import_module('tensorflow.python.eager.record')",
        "tf.__internal__.tracking",
        "layer._keras_history",
        "getattr(layer, '_keras_history', None)",
        "model.make_train_function()",
    ],
)
def test_a_private_name_is_found(code):
    assert list(private_names([*(each.read_text() for each in OTHERS), code]))
