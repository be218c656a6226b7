"""Tests of imports: folders share code only through testing/, and modules of the package import one way. Pages name
existing files.
"""

import ast
import graphlib
import re

import pytest
from environment.pages import ROOT, paths, text_of

FOLDERS = ("tests", "stress", "tools", "benchmarks")
MODULES = {folder: {file.stem for file in (ROOT / folder).rglob("*.py")} for folder in FOLDERS}
MODULES["testing"] = {file.parent.name for file in (ROOT / "testing").rglob("__init__.py")}


def imported_names(file) -> set[str]:
    """Returns the full names of the modules and objects that a file imports, also within functions."""
    nodes = list(ast.walk(ast.parse(file.read_text())))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    return names | {f"{node.module}.{alias.name}" for node in froms for alias in node.names}


def imported(file) -> set[str]:
    """Returns the names of the top-level modules that a file imports."""
    return {name.partition(".")[0] for name in imported_names(file)}


@pytest.mark.parametrize("folder", MODULES)
def test_no_module_of_another_folder_is_imported(folder):
    others = set(FOLDERS).union(*(MODULES[other] for other in FOLDERS if other != folder))
    names = {file: imported(file) for file in (ROOT / folder).rglob("*.py")}
    assert {file: found & others for file, found in names.items() if found & others} == {}
    assert any(found & MODULES["testing"] for found in names.values())


def test_no_two_folders_have_a_module_of_the_same_name():
    """All are on the import path of pytest."""
    names = [name for modules in MODULES.values() for name in modules]
    assert sorted(set(names)) == sorted(names)


def modules_of_package():
    """Returns the modules of the package by name, each with the names that it imports."""
    files = [file.relative_to(ROOT) for file in (ROOT / "tf_rnn_ops").rglob("*.py*") if "__pycache__" not in file.parts]
    names = {".".join(file.with_suffix("").parts).removesuffix(".__init__"): ROOT / file for file in files}
    return {name: imported_names(file) for name, file in names.items()}


def test_modules_of_the_package_import_one_way():
    modules = modules_of_package()
    graph = {
        name: {each if each in modules else each.rpartition(".")[0] for each in names} & modules.keys()
        for name, names in modules.items()
    }
    assert sum(map(len, graph.values())) > 100
    graphlib.TopologicalSorter(graph).prepare()  # raises an error that names a circle


def test_only_one_package_knows_keras():
    names = {module: {name.partition(".")[0] for name in names} for module, names in modules_of_package().items()}
    users = {module for module, found in names.items() if "keras" in found}
    assert "tf_rnn_ops._keras.execution" in users
    assert {module for module in users if not module.startswith("tf_rnn_ops._keras.")} == set()


def test_paths_in_pages_exist():
    """Paths that begin with a folder of the repository. NAME stands for any name."""
    pages = ["CONTRIBUTING.md", "testing/README.md", *paths()]
    named = [(page, path) for page in pages for path in re.findall(r"`([\w.-]+/[\w./-]*)`", text_of(page))]
    folders = {each.name for each in ROOT.iterdir() if each.is_dir()} - {"build", "dist"}
    named = [(page, path) for page, path in named if path.split("/")[0] in folders and "NAME" not in path]
    assert len(named) > 50
    assert [(page, path) for page, path in named if not (ROOT / path).exists()] == []
