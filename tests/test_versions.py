"""The documentation names the supported versions, which pyproject.toml lists, and what the locks install."""

import itertools
import re

from environment import pages
from environment.pages import ROOT, TENSORFLOWS
from packaging.version import Version

import tf_rnn_ops
from tf_rnn_ops._keras import keras_3
from tf_rnn_ops._library import minor_version

PYTHONS = re.findall(r"Python :: (3\.\d+)", pages.text_of("pyproject.toml"))
PAGES = [*pages.paths(), "CONTRIBUTING.md", "tf_rnn_ops/_keras/acceleration.py"]


def pinned(tensorflow, package):
    """Returns the version of a package that the lock file of a TensorFlow installs on the newest Python."""
    lock = (ROOT / f"requirements/tensorflow_{tensorflow}.txt").read_text()
    return re.findall(rf"^{package}(?:-nightly)?==([^ ;]+)", lock, re.MULTILINE)[-1]


def rows_of_table():
    """Returns the rows of README's table: (TensorFlow, Keras, Pythons)."""
    return re.findall(r"^\| (2\.\S+) \| (3\.\S+) \| ([^|]*) \|", pages.text_of("README.md"), re.MULTILINE)


def test_each_version_has_a_lock():
    assert {path.stem for path in (ROOT / "requirements").glob("tensorflow_*.txt")} == {
        f"tensorflow_{each}" for each in TENSORFLOWS
    }


def test_the_table_of_tests_has_each_version_as_it_is_locked():
    rows = {(tensorflow, keras) for tensorflow, keras, _ in rows_of_table()}
    assert rows == {(pinned(each, "tensorflow"), pinned(each, "keras")) for each in TENSORFLOWS}


def test_the_table_of_tests_has_each_python():
    assert set(itertools.chain.from_iterable(pythons.split(", ") for *_, pythons in rows_of_table())) == set(PYTHONS)


def test_ranges_of_versions():
    newest = max(
        (minor_version(keras) for _, keras, _ in rows_of_table()), key=lambda version: int(version.split(".")[1])
    )
    oldest = ".".join(map(str, keras_3.TABLE.oldest))
    assert newest == ".".join(map(str, keras_3.TABLE.newest_tested))
    expected = {
        "TensorFlow": (TENSORFLOWS[0], TENSORFLOWS[-1]),
        "Keras": (oldest, newest),
        "Python": (PYTHONS[0], PYTHONS[-1]),
    }
    found = set()
    for page in PAGES:
        for name, *ends in re.findall(r"(TensorFlow|Keras|Python) (\d\.\d+) to (\d\.\d+)", pages.text_of(page)):
            assert tuple(ends) == expected[name], f"{page}: {name} {ends}"
            found.add(name)
    assert found == set(expected)


def test_the_changelog_and_the_citation_name_the_version():
    headings = re.findall(r"^## \[(\S+)\]", pages.text_of("CHANGELOG.md"), re.MULTILINE)
    assert headings[0] == tf_rnn_ops.__version__
    assert headings == sorted(set(headings), key=Version, reverse=True)
    assert f"version: {tf_rnn_ops.__version__}\n" in pages.text_of("CITATION.cff")
