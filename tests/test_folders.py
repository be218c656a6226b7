"""Tests that folders share code only through testing/, and that pages name existing files."""

import ast
import re

import pytest
from environment.pages import ROOT, paths, text_of

FOLDERS = ("tests", "stress", "tools", "benchmarks")
MODULES = {folder: {file.stem for file in (ROOT / folder).rglob("*.py")} for folder in FOLDERS}
MODULES["testing"] = {file.parent.name for file in (ROOT / "testing").rglob("__init__.py")}


def imported(file) -> set[str]:
    """Returns the names of the top-level modules that a file imports, also within functions."""
    nodes = list(ast.walk(ast.parse(file.read_text())))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    return {name.partition(".")[0] for name in names}


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


def test_paths_in_pages_exist():
    """Paths that begin with a folder of the repository. NAME stands for any name."""
    pages = ["CONTRIBUTING.md", "testing/README.md", *paths()]
    named = [(page, path) for page in pages for path in re.findall(r"`([\w.-]+/[\w./-]*)`", text_of(page))]
    folders = {each.name for each in ROOT.iterdir() if each.is_dir()} - {"build", "dist"}
    named = [(page, path) for page, path in named if path.split("/")[0] in folders and "NAME" not in path]
    assert len(named) > 50
    assert [(page, path) for page, path in named if not (ROOT / path).exists()] == []
