"""Compares two wheels byte by byte. Fails if they differ.

python tools/compare_wheels.py WHEEL OTHER
"""

import argparse
import hashlib
import pathlib
import sys
import zipfile


def digest(data: bytes) -> str:
    """Returns the SHA-256 of some bytes in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def members(wheel: pathlib.Path) -> dict[str, str]:
    """Returns the digest of each file in a wheel, by its name."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: digest(archive.read(name)) for name in archive.namelist()}


def differences(first: dict[str, str], second: dict[str, str]) -> list[str]:
    """Returns the names of the files that differ or are in one wheel only."""
    return sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))


def main() -> None:
    """Compares the wheels named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", type=pathlib.Path, nargs=2)
    wheels = parser.parse_args().wheels

    contents = [members(wheel) for wheel in wheels]
    different = differences(*contents)
    for name, each in contents[0].items():
        print(each[:16], name, *(["DIFFERS"] if name in different else []))
    for name in different:
        if name not in contents[0]:
            print(contents[1][name][:16], name, "is only in the second wheel")
    print(f"{len(contents[0]) - len(set(contents[0]) & set(different))} of {len(contents[0])} files are the same")

    digests = [digest(wheel.read_bytes()) for wheel in wheels]
    for wheel, each in zip(wheels, digests, strict=True):
        print(each, wheel.name)
    if digests[0] != digests[1] or wheels[0].name != wheels[1].name:
        sys.exit("the wheels differ" + (", but their files are the same" if not different else ""))
    print("the wheels are identical")


if __name__ == "__main__":
    main()
