"""Helpers for the files of the installed package: copies, and the contents of its libraries."""

import pathlib
import re
import shutil
import subprocess

import pytest

import tf_rnn_ops

PACKAGE = pathlib.Path(tf_rnn_ops.__file__).parent


def copy_package(folder):
    """Copies the package. A process imports the copy with PYTHONPATH=folder."""
    return shutil.copytree(PACKAGE, folder / PACKAGE.name)


def link_package(folder):
    """Returns a folder of links to the files of the package, which a test can replace."""
    copy = folder / PACKAGE.name
    for file in filter(pathlib.Path.is_file, PACKAGE.rglob("*")):
        path = in_copy(copy, file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(file)
    return copy


def in_copy(copy, file):
    """Returns the path of a package file in a copy of the package."""
    return copy / file.relative_to(PACKAGE)


def _run(name, *arguments):
    """Runs a program of GNU Binutils and returns its output. Skips the test if it is not installed."""
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"needs the program {name}")
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout


def symbols(library, *options):
    """Returns the symbols of a library from nm: (type, name)."""
    return [tuple(line[17:].split(" ", 1)) for line in _run("nm", *options, library).splitlines()]


def exported(library):
    """Returns the names of the symbols that a library exports, without their versions."""
    return {name.partition("@")[0] for _, name in symbols(library, "-D", "--defined-only")}


def dynamic_section(library):
    """Returns the dynamic section of a library."""
    return _run("readelf", "-d", library)


def needed(library):
    """Returns the names of the libraries that a library depends on."""
    return set(re.findall(r"NEEDED.*\[(.*)\]", dynamic_section(library)))


def provided(library):
    """Returns the names of the symbols that the dependencies of a library export, as loaded in this process."""
    mapped = set(re.findall(r"/.*", pathlib.Path("/proc/self/maps").read_text()))
    # A file name may have a longer version than the library name: libstdc++.so.6.0.30.
    paths = [next(path for path in mapped if f"/{name}" in path) for name in needed(library)]
    return set().union(*map(exported, paths))


def undefined(library):
    """Returns the names of the undefined symbols of a library, without versions."""
    return {name.partition("@")[0] for kind, name in symbols(library, "-D", "-u") if kind == "U"}


def segments(library):
    """Returns the program headers of a library: (type, flags with the letters R, W and E)."""
    found = re.findall(r"^ +([A-Z_]+)(?: +0x[0-9a-f]+)+ +([RWE ]{3}) ", _run("readelf", "-lW", library), re.MULTILINE)
    return [(kind, flags.replace(" ", "")) for kind, flags in found]
