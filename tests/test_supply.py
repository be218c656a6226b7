"""All packages installed to build and test the project are pinned by version and hash."""

import json
import re

import pytest
from environment.pages import ROOT
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REQUIREMENTS = ROOT / "requirements"
LOCKS = sorted(path.with_suffix(".txt") for path in REQUIREMENTS.glob("*.in"))
SHA256 = re.compile(r" --hash=sha256:[0-9a-f]{64}(?= |$)")


def logical_lines(path):
    """Returns the lines of a file without comments. Joins lines continued with a backslash."""
    text = re.sub(r"\\\n", " ", path.read_text())
    return [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def locked(path):
    """Returns the requirements in a lock file, with the number of hashes of each."""
    lines = logical_lines(path)
    return [(Requirement(SHA256.sub("", line)), len(SHA256.findall(line))) for line in lines]


def names(path):
    """Returns the names of the packages that a lock installs on Linux."""
    return {canonicalize_name(requirement.name) for requirement, _ in locked(path) if "win32" not in str(requirement)}


def layers_below(lock):
    """Returns the layers below a lock file: those that its .in file names with -c."""
    lines = logical_lines(lock.with_suffix(".in"))
    return [REQUIREMENTS / line.removeprefix("-c ") for line in lines if line.startswith("-c ")]


def test_lock_files_exist():
    assert {lock.stem for lock in LOCKS} >= {"tensorflow", "pytest", "dev", "peers", "docs", "torch", "gpu"}
    assert set(LOCKS) == set(REQUIREMENTS.glob("*.txt"))


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_a_layer_repeats_no_package_of_the_layers_below(lock):
    for below in layers_below(lock):
        assert names(lock).isdisjoint(names(below)), below
        assert set(layers_below(below)) <= set(layers_below(lock)), below


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_each_package_is_locked_to_one_version_with_hashes(lock):
    requirements = locked(lock)
    assert requirements
    for requirement, hashes in requirements:
        assert [each.operator for each in requirement.specifier] == ["=="], requirement
        assert "*" not in str(requirement.specifier), requirement
        assert hashes > 0, requirement


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_a_lock_contains_the_packages_of_its_input(lock):
    wanted = [line for line in logical_lines(lock.with_suffix(".in")) if not line.startswith("-c ")]
    assert wanted
    pins = [requirement for layer in (*layers_below(lock), lock) for requirement, _ in locked(layer)]
    for each in map(Requirement, wanted):
        name = canonicalize_name(each.name)
        versions = [requirement for requirement in pins if canonicalize_name(requirement.name) == name]
        assert versions, each
        for version in versions:
            (pin,) = version.specifier
            assert each.specifier.contains(pin.version), f"{each} is pinned as {version}"


OUR_WHEELS = ("dist/*.whl", "tf_rnn_ops", "dist/all/*_aarch64.whl", "build/canary/dist/*.whl")
# tools/test_sdist.sh installs these as users do: isolated builds download their requirements.
OUR_SDIST = ('"$sdist"', '"$@"')


def installs():
    """Returns the arguments of all `pip install` commands in the Makefile and the scripts, with variables expanded."""
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", "")
    makefile = makefile.replace("$(2:%=-r requirements/%.txt)", "-r requirements/*.txt")
    for name in ("INSTALL_LOCKED", "INSTALL_WHEEL", "INSTALL_AARCH64"):
        (value,) = re.findall(rf"^{name} :?= (.*)$", makefile, re.MULTILINE)
        makefile = re.sub(rf"^{name} :?= .*$", "", makefile, flags=re.MULTILINE).replace(f"$({name})", value)
    scripts = [path.read_text() for path in (*ROOT.glob("*.sh"), *ROOT.glob("tools/*.sh"), ROOT / ".ci/run")]
    return re.findall(r"pip install ([^\n;|]*)", "\n".join([makefile, *scripts]))


def test_installed_packages_are_locked_or_our_own():
    commands = installs()
    assert len(commands) > 8
    assert sum("--pre" in command for command in commands) == 1
    for command in commands:
        arguments = command.replace("2>/dev/null", "").split()
        if arguments[-1] in OUR_WHEELS:
            assert "--no-index" in arguments, command
        elif arguments[-1] in OUR_SDIST:
            assert "--no-deps" in arguments, command
        elif "--pre" not in arguments:  # `make canary`
            assert "--require-hashes" in arguments, command
            first = arguments.index("-r")
            assert set(arguments[first::2]) == {"-r"}, command
            for each in arguments[first + 1 :: 2]:
                locks = set(ROOT.glob(re.sub(r"\$\*|\$\(\w+\)", "*", each)))
                assert locks, command
                assert locks <= set(LOCKS), command


def test_the_build_requirements_of_the_wheel_are_locked():
    text = (ROOT / "pyproject.toml").read_text()
    (block,) = re.findall(r"^requires = \[\n(.*?)^\]", text, re.DOTALL | re.MULTILINE)
    pins = {canonicalize_name(requirement.name): requirement for requirement, _ in locked(REQUIREMENTS / "dev.txt")}
    requires = [Requirement(each) for each in re.findall(r'^  "(.*)",$', block, re.MULTILINE)]
    assert len(requires) == 2
    for each in requires:
        (pin,) = pins[canonicalize_name(each.name)].specifier
        assert each.specifier.contains(pin.version)
    assert "--no-isolation" in (ROOT / "build_pip_pkg.sh").read_text()


def test_npm_installs_only_packages_with_hashes():
    packages = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    top = packages.pop("")
    assert {f"node_modules/{name}" for name in top["devDependencies"]} <= packages.keys()
    for package in packages.values():
        assert package["integrity"].startswith("sha512-")
    commands = re.findall(r"@npm (\S+)", (ROOT / "Makefile").read_text())
    assert commands == ["ci"]


def test_our_bazel_rules_download_nothing():
    files = [ROOT / "WORKSPACE", *ROOT.glob("third_party/**/*.bzl"), *ROOT.glob("third_party/**/*.BUILD")]
    assert len(files) > 3
    for file in files:
        assert not re.search(r"http_archive|http_file|git_repository|\.download|https?://", file.read_text()), file


@pytest.mark.parametrize("workflow", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=lambda path: path.stem)
def test_actions_are_pinned_to_a_commit(workflow):
    used = re.findall(r"uses: (.*)", workflow.read_text())
    assert used
    for each in used:
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each), each
